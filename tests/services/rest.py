"""An Iceberg REST catalog: Apache Iceberg's own RESTCatalogServer over its JDBC catalog on SQLite, with tables in S3 or in a folder. A JDK (17) runs
RestOnLoopback.java; the jars come through Maven into the cache folder. Run: python -m services.rest --help"""
import contextlib
import http.client
import os
import shutil
import sqlite3
import sys
from pathlib import Path

from . import CACHE, maven
from .base import Server, locked, log, obey, parsers
from .s3 import ACCESS_KEY, S3, SECRET_KEY

VERSION = "1.10.1"
SW = CACHE / "sw" / f"iceberg-rest-{VERSION}"
MAIN = Path(__file__).with_name("RestOnLoopback.java")
JARS = [("org.apache.iceberg", "iceberg-core", VERSION), ("org.apache.iceberg", "iceberg-core", VERSION, "tests"),
        ("org.apache.iceberg", "iceberg-open-api", VERSION, "test-fixtures"), ("org.apache.iceberg", "iceberg-aws", VERSION),
        ("org.apache.iceberg", "iceberg-aws-bundle", VERSION), ("org.eclipse.jetty", "jetty-servlet", "11.0.24"),
        ("org.xerial", "sqlite-jdbc", "3.46.1.3"), ("org.apache.hadoop", "hadoop-client-api", "3.3.6"),
        ("org.apache.hadoop", "hadoop-client-runtime", "3.3.6"), ("org.slf4j", "slf4j-simple", "2.0.17")]


def fetch():
    log(f"fetching Iceberg's REST catalog {VERSION} into .services/sw (once)")
    maven.fetch(JARS, SW)


class RestCatalog(Server):
    """s3: services.s3.S3 that holds the tables, below `warehouse`; None: they are in a folder of this server's.

    s3_endpoint  what the catalog itself uses instead of the server's own, e.g. a proxy's
    properties   more of the catalog's
    """
    flavor = "rest"
    not_yet = (OSError, http.client.HTTPException)

    def __init__(self, dir, port=None, s3=None, warehouse="s3://lake/warehouse", s3_endpoint=None, properties=(), owned=False):
        super().__init__(dir, port, owned)
        self.more_properties = dict(properties)
        self.s3 = s3
        self.s3_endpoint = s3_endpoint or (s3.endpoint if s3 else None)
        self.warehouse = warehouse if s3 else f"file://{self.dir}/warehouse"

    def install(self):
        if not shutil.which("javac") or not shutil.which("mvn"):
            raise RuntimeError("a JDK and mvn are needed; tools/setup.sh test installs them")
        with locked("rest"):
            if not SW.exists():
                fetch()

    def properties(self):
        common = {"warehouse": self.warehouse, "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog", "jdbc.schema-version": "V1", "clients": "1",
                  "uri": f"jdbc:sqlite:{self.dir}/catalog.db?busy_timeout=10000"}
        in_s3 = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "s3.endpoint": self.s3_endpoint, "s3.path-style-access": "true"}
        return {**common, **(in_s3 if self.s3 else {}), **self.more_properties}

    def server_argv(self):
        (self.dir / "tmp").mkdir(exist_ok=True)
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={self.dir}/tmp",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{SW}/*", MAIN, str(self.port),
                *(f"{k}={v}" for k, v in self.properties().items())]

    def server_env(self):
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": "us-east-1"}
        return {**os.environ, **keys}

    def ask(self):
        con = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            con.request("GET", "/v1/config")
            if con.getresponse().status != 200:
                raise OSError("not ready")
        finally:
            con.close()

    def forget(self):
        """all tables and namespaces; their files stay"""
        with contextlib.closing(sqlite3.connect(self.dir / "catalog.db", timeout=10)) as db, db:
            db.execute("DELETE FROM iceberg_tables")
            db.execute("DELETE FROM iceberg_namespace_properties")

    def describe(self):
        return f"Iceberg REST catalog on {self.uri}, warehouse {self.warehouse}"

    @property
    def uri(self):
        return f"http://127.0.0.1:{self.port}"

    def catalog(self):
        """the same catalog through PyIceberg"""
        from pyiceberg.catalog.rest import RestCatalog as Client
        s3 = {"s3.endpoint": self.s3.endpoint, "s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY, "s3.region": "us-east-1"} if self.s3 else {}
        return Client("rest", uri=self.uri, **s3)


def main(argv=None):
    p, verbs = parsers(RestCatalog)
    verbs["start"].add_argument("--s3", metavar="DIR", help="tables in bucket lake of the S3 server in this folder (services.s3), not in a folder")
    return obey(RestCatalog, p.parse_args(argv), lambda o: RestCatalog(o.dir, o.port, S3(o.s3) if o.s3 else None).start())


if __name__ == "__main__":
    sys.exit(main())
