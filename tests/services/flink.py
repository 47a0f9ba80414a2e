"""Flink SQL with Iceberg's runtime: Flink's own distribution from PyPI, jars through Maven, all of a small cluster in one process (FlinkSql.java).
Run: python -m services.flink install"""
import glob
import os
import shutil
import sys
import tempfile
from pathlib import Path

from . import CACHE, maven
from .base import locked, log, run
from .engine import Engine, cli
from .s3 import ACCESS_KEY, SECRET_KEY

VERSION, ICEBERG, HADOOP = "1.20.5", "1.10.1", "3.3.6"
SW = CACHE / "sw" / f"flink-{VERSION}-iceberg-{ICEBERG}"
LIB, JARS = SW / "lib", SW / "jars"
MAIN = Path(__file__).with_name("FlinkSql.java")
WANTED = [("org.apache.iceberg", "iceberg-flink-runtime-1.20", ICEBERG), ("org.apache.iceberg", "iceberg-aws-bundle", ICEBERG),
          ("org.apache.hadoop", "hadoop-client-api", HADOOP), ("org.apache.hadoop", "hadoop-client-runtime", HADOOP),
          ("commons-logging", "commons-logging", "1.2"), ("org.xerial", "sqlite-jdbc", "3.46.1.3")]
MEMORY = "640m"
OPENS = [f"--add-opens=java.base/java.{m}=ALL-UNNAMED" for m in
         ("lang", "net", "io", "nio", "lang.reflect", "text", "time", "util", "util.concurrent", "util.concurrent.atomic", "util.concurrent.locks")]


def fetch_flink():
    with tempfile.TemporaryDirectory(prefix="weir-", dir=CACHE) as d:
        run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--target", d,
             f"apache-flink-libraries=={VERSION}"], "pip install apache-flink-libraries")
        [dist] = glob.glob(f"{d}/**/flink-dist-{VERSION}.jar", recursive=True)
        SW.mkdir(parents=True, exist_ok=True)
        os.rename(os.path.dirname(dist), LIB)


def install():
    with locked("flink"):
        if JARS.exists():               # comes last
            return
        log(f"fetching Flink {VERSION} with Iceberg {ICEBERG} into .services/sw (once; half a gigabyte)")
        shutil.rmtree(SW, ignore_errors=True)
        fetch_flink()
        maven.fetch(WANTED, JARS, alone=True)


class Flink(Engine):
    """batch mode"""
    name = "Flink"

    @classmethod
    def installed(cls):
        return JARS.exists()

    def argv(self):
        (self.dir / "tmp").mkdir(exist_ok=True)
        jars = [*sorted(JARS.glob("*.jar")), *sorted(LIB.glob("*.jar"))]
        return ["java", f"-Xmx{MEMORY}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", f"-Djava.io.tmpdir={self.dir}/tmp", *OPENS, "-cp",
                ":".join(map(str, jars)), MAIN]

    def env(self):
        return {**os.environ, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": "us-east-1", "TZ": "UTC"}


if __name__ == "__main__":
    sys.exit(cli(install, sys.argv[1:]))
