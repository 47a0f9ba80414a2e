"""dlt with connectorx into Parquet files: a snapshot and nothing else."""
import os
import subprocess
import time

from . import HERE, PYTHON, ToolFailed, tail
from .lakes import read_json
from .usage import Watch


class Dlt:
    name, captures = "dlt", False

    def __init__(self, bench):
        self.bench, self.dir = bench, bench.work / "dlt"
        self.dir.mkdir()

    def parquet(self):
        return sorted((self.dir / "files" / self.bench.db / "orders").rglob("*.parquet"))

    def readers(self):
        return {"duckdb": f"{self.dir}/files/{self.bench.db}/orders/**/*.parquet"}

    def judge(self):
        return "duckdb", self.readers()["duckdb"]

    def files(self):
        return {"data_files": len(self.parquet()), "delete_files": 0, "lake_mb": round(sum(p.stat().st_size for p in self.parquet()) / 1e6, 1)}

    def snapshot(self):
        env = {**os.environ, "RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "WARNING", "DLT_DATA_DIR": str(self.dir / "data"), "DLT_PROJECT_DIR": str(self.dir),
               "TMPDIR": str(self.dir)}
        argv = [self.bench.work / "measure", self.bench.timeout, self.dir / "report.json", PYTHON, HERE / "dlt_load.py", self.bench.server.port, self.bench.db, self.dir]
        with open(self.dir / "log", "wb") as log, self.bench.stretch() as s, Watch(lambda: bool(self.parquet())) as watch:
            begin = time.monotonic()
            status = subprocess.run([str(a) for a in argv], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode
        if status:
            raise ToolFailed(f"dlt ended with {status}:\n" + tail(self.dir / "log"))
        r = read_json(self.dir / "report.json")
        cpu = r["user_s"] + r["sys_s"]
        return {"wall_s": r["wall_s"], "first_s": watch.first_after(begin), "cpu_s": cpu, "peak_mb": max(r["maxrss_mb"], r["hwm_mb"]), "storage_mb": r["written_mb"],
                "differences": self.bench.differences(self), **s.facts(cpu)}
