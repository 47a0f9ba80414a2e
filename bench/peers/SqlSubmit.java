import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.GlobalConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * SqlSubmit FILE [KEY=VALUE...]: runs the statements of FILE, which end with ";" at the end of a line, on the cluster that FLINK_CONF_DIR describes, with more
 * settings if given. Prints "job ID" for the statement that starts one, and leaves the job running.
 */
public class SqlSubmit {
    public static void main(String[] args) throws Exception {
        Configuration conf = GlobalConfiguration.loadConfiguration();
        for (int i = 1; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            conf.setString(pair[0], pair[1]);
        }
        StreamExecutionEnvironment env = new StreamExecutionEnvironment(conf);
        StreamTableEnvironment sql = StreamTableEnvironment.create(env);
        for (String statement : Files.readString(Path.of(args[0])).split(";\\s*\\n")) {
            if (statement.isBlank()) continue;
            TableResult result = sql.executeSql(statement);
            result.getJobClient().ifPresent(job -> System.out.println("job " + job.getJobID()));
        }
    }
}
