"""Weir as a user runs it: its defaults, `sync --until current` for each phase."""
import time

from .lakes import iceberg_files, iceberg_seen, sqlite_location
from .usage import Watch


class Weir:
    name, captures = "weir", True

    def __init__(self, bench):
        self.bench = bench
        self.weir = bench.new_weir("weir")

    def location(self):
        return sqlite_location(self.weir.home / "catalog.db", self.bench.db, "orders")

    def readers(self):
        return {"duckdb": self.location(), "pyiceberg": self.location()}

    def judge(self):
        return "duckdb", self.readers()["duckdb"]

    def files(self):
        return iceberg_files(self.location())

    def snapshot(self):
        with Watch(lambda: iceberg_seen(self.location())) as watch:
            begin = time.monotonic()
            m = self.bench.measure(self.weir, "sync", "--until", "current")
        return {**m, "first_s": watch.first_after(begin), "differences": self.bench.differences(self)}

    catch_up = snapshot
