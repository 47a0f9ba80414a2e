"""Spark SQL with Iceberg's runtime: PySpark in a Python environment of its own, jars through Maven, one process with one core.
Run: python -m services.spark install"""
import os
import shutil
import sys

from . import CACHE, maven
from .base import locked, log, run
from .engine import Engine, cli
from .s3 import ACCESS_KEY, SECRET_KEY

VERSION, ICEBERG = "4.0.1", "1.10.1"
SW = CACHE / "sw" / f"spark-{VERSION}-iceberg-{ICEBERG}"
PYTHON, JARS = SW / "venv" / "bin" / "python", SW / "jars"
DRIVER = os.path.join(os.path.dirname(__file__), "spark_driver.py")
WANTED = [("org.apache.iceberg", "iceberg-spark-runtime-4.0_2.13", ICEBERG), ("org.apache.iceberg", "iceberg-aws-bundle", ICEBERG),
          ("org.xerial", "sqlite-jdbc", "3.46.1.3")]
MEMORY = "700m"


def install():
    with locked("spark"):
        if JARS.exists():               # comes last
            return
        log(f"fetching Spark {VERSION} with Iceberg {ICEBERG} into .services/sw (once; half a gigabyte)")
        shutil.rmtree(SW, ignore_errors=True)
        run([sys.executable, "-m", "venv", SW / "venv"], "python -m venv")
        run([PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir", f"pyspark=={VERSION}"], "pip install pyspark")
        maven.fetch(WANTED, JARS, alone=True)


class Spark(Engine):
    name = "Spark"

    @classmethod
    def installed(cls):
        return JARS.exists()

    def argv(self):
        return [PYTHON, "-u", DRIVER]

    def env(self):
        conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": 2, "spark.default.parallelism": 1, "spark.local.dir": self.dir / "tmp",
                "spark.sql.session.timeZone": "UTC", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
                "spark.sql.warehouse.dir": self.dir / "warehouse", "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC",
                "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}
        for name, properties in self.catalogs.items():
            conf[f"spark.sql.catalog.{name}"] = "org.apache.iceberg.spark.SparkCatalog"
            conf |= {f"spark.sql.catalog.{name}.{k}": v for k, v in {"cache-enabled": "false", **properties}.items()}
        flags = "".join(f' --conf "{k}={v}"' for k, v in conf.items())
        jars = ",".join(str(j) for j in sorted(JARS.glob("*.jar")))
        return {**os.environ, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": "us-east-1", "TZ": "UTC",
                "PYSPARK_PYTHON": str(PYTHON), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost", "PYTHONPATH": "",
                "PYSPARK_SUBMIT_ARGS": f"--master local[1] --driver-memory {MEMORY} --jars {jars}{flags} pyspark-shell"}


if __name__ == "__main__":
    sys.exit(cli(install, sys.argv[1:]))
