import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.Map;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** Statements of Flink SQL from standard input, answers to standard output; see engine.py. Cluster and client are this process. */
public class FlinkSql {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    TableEnvironment env = null;
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonNode request = JSON.readTree(line);
      ObjectNode answer = JSON.createObjectNode();
      try {
        if (env == null) {
          env = open(request.get("catalogs"));
        } else {
          run(env, request.get("sql").asText(), answer.putArray("rows"));
        }
      } catch (Throwable e) {
        answer.put("error", causes(e));
      }
      out.write((JSON.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
      out.flush();
    }
    System.exit(0);
  }

  private static TableEnvironment open(JsonNode catalogs) throws Exception {
    Configuration conf = new Configuration();
    conf.setString("parallelism.default", "1");
    conf.setString("table.local-time-zone", "UTC");
    conf.setString("rest.bind-address", "127.0.0.1");
    conf.setString("rest.bind-port", "0");
    conf.setString("rest.address", "127.0.0.1");
    conf.setString("jobmanager.bind-host", "127.0.0.1");
    conf.setString("taskmanager.bind-host", "127.0.0.1");
    conf.setString("taskmanager.memory.managed.size", "96m");
    conf.setString("taskmanager.memory.network.min", "48m");
    conf.setString("taskmanager.memory.network.max", "48m");
    conf.setString("classloader.resolve-order", "parent-first");
    conf.setString("classloader.check-leaked-classloader", "false");
    MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder().setConfiguration(conf).setNumSlotsPerTaskManager(2).build());
    cluster.start();
    conf.setString("execution.target", "remote");
    conf.setString("rest.port", String.valueOf(cluster.getRestAddress().get().getPort()));
    TableEnvironment env = TableEnvironment.create(EnvironmentSettings.newInstance().inBatchMode().withConfiguration(conf).build());
    for (Iterator<Map.Entry<String, JsonNode>> it = catalogs.fields(); it.hasNext(); ) {
      Map.Entry<String, JsonNode> catalog = it.next();
      StringBuilder with = new StringBuilder("'type'='iceberg', 'cache-enabled'='false'");
      for (Iterator<Map.Entry<String, JsonNode>> p = catalog.getValue().fields(); p.hasNext(); ) {
        Map.Entry<String, JsonNode> property = p.next();
        with.append(", '").append(property.getKey()).append("'='").append(property.getValue().asText()).append("'");
      }
      env.executeSql("CREATE CATALOG " + catalog.getKey() + " WITH (" + with + ")");
    }
    return env;
  }

  private static void run(TableEnvironment env, String sql, ArrayNode rows) throws Exception {
    TableResult result = env.executeSql(sql);
    if (sql.startsWith("INSERT")) {
      result.await(); // else it goes on beside what comes next
      return;
    }
    try (CloseableIterator<Row> it = result.collect()) {
      while (it.hasNext()) {
        Row row = it.next();
        ArrayNode values = rows.addArray();
        for (int i = 0; i < row.getArity(); i++) {
          put(values, row.getField(i));
        }
      }
    }
  }

  private static void put(ArrayNode to, Object v) {
    if (v == null) {
      to.addNull();
    } else if (v instanceof Integer) {
      to.add((Integer) v);
    } else if (v instanceof Long) {
      to.add((Long) v);
    } else if (v instanceof Float) {
      to.add((double) (Float) v);
    } else if (v instanceof Double) {
      to.add((Double) v);
    } else if (v instanceof Boolean) {
      to.add((Boolean) v);
    } else if (v instanceof BigDecimal) {
      to.add(((BigDecimal) v).toPlainString());
    } else if (v instanceof byte[]) {
      StringBuilder hex = new StringBuilder();
      for (byte b : (byte[]) v) {
        hex.append(String.format("%02x", b));
      }
      to.add(hex.toString());
    } else {
      to.add(v.toString()); // dates and times in ISO form
    }
  }

  private static String causes(Throwable e) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; e != null && i < 12; i++, e = e.getCause()) {
      text.append(i == 0 ? "" : "; ").append(e);
    }
    return text.toString();
  }
}
