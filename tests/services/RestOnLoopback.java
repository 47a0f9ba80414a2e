import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;

import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServer;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * Iceberg's RESTCatalogServer, which listens on every interface, on 127.0.0.1 alone: its parts, put together here. They are not public.
 * Arguments: the port, then the catalog's properties as name=value.
 */
public class RestOnLoopback {
  public static void main(String[] args) throws Exception {
    Map<String, String> config = new HashMap<>();
    for (int i = 1; i < args.length; i++) {
      int eq = args[i].indexOf('=');
      config.put(args[i].substring(0, eq), args[i].substring(eq + 1));
    }
    Constructor<RESTCatalogServer> parts = RESTCatalogServer.class.getDeclaredConstructor(Map.class);
    Method backend = RESTCatalogServer.class.getDeclaredMethod("initializeBackendCatalog");
    Constructor<?> adapter = Class.forName("org.apache.iceberg.rest.RESTServerCatalogAdapter").getDeclaredConstructors()[0];
    parts.setAccessible(true);
    backend.setAccessible(true);
    adapter.setAccessible(true);
    Object catalog = backend.invoke(parts.newInstance(config));

    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new RESTCatalogServlet((RESTCatalogAdapter) adapter.newInstance(catalog))), "/*");
    Server server = new Server(new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(args[0])));
    server.setHandler(context);
    server.start();
    server.join();
  }
}
