"""What `weir compare` costs beside the sum that a person would let the server make of the same table. Started by `bench/run.sh compare`; README.md has the variables."""
import shutil
import subprocess
import sys
import time
from statistics import median

import bench
from measured import Stretch

SUM_TIMES, PEAK_MB = 3.0, 300       # aims: of the sum's time when pushed down; of memory
WAYS = {"rows": ["--method", "rows"], "pushed": ["--method", "pushed"], "rows, md5": ["--method", "rows", "--hash", "md5"], "counts": ["--level", "counts"]}


class Compare(bench.Bench):
    def sum(self):
        """-> seconds, server's CPU seconds"""
        columns = ", ".join(r[0] for r in self.server.sql("DESCRIBE orders", db=bench.DB))
        with Stretch(self.server) as s:
            t = time.monotonic()
            self.server.sql(f"SELECT COUNT(*), SUM(CRC32(CONCAT_WS('#', {columns}))) FROM orders", db=bench.DB)
            wall = time.monotonic() - t
        return {"wall_s": wall, **s.facts(0)}

    def scan(self):
        """the whole table to nowhere, over one connection: -> the same"""
        with Stretch(self.server) as s:
            r = self.tool("source", "select", self.server.port, "orders", 1, "text")
        return {"wall_s": r["wall_s"], **s.facts(r["cpu_s"])}

    def checksum(self):
        """pt-table-checksum of the same table, the server against nobody: -> the same"""
        command = ["pt-table-checksum", f"S={self.server.socket},u=root", "--databases", bench.DB, "--tables", "orders", "--recursion-method", "none",
                   "--no-check-binlog-format", "--no-check-replication-filters"]
        with Stretch(self.server) as s:
            t = time.monotonic()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=self.timeout)
            wall = time.monotonic() - t
        return {"wall_s": wall, **s.facts(0)}

    def repeat(self, bench, measured):
        """-> one record a run"""
        got = []
        for _ in range(self.runs):
            self.wait_quiet()
            got.append(self.record(bench, **measured()))
        return got

    def line(self, name, got, sum_s=None):
        wall, server = median(g["wall_s"] for g in got), median(g["server_cpu_s"] for g in got)
        text = f"  {name}: {wall:.2f} s, server {server:.2f} CPU s"
        if sum_s:
            peak = max(g["peak_mb"] for g in got)
            text += f", own {median(g['cpu_s'] for g in got):.2f} CPU s, peak {peak:.0f} MB, below {PEAK_MB} ({'met' if peak < PEAK_MB else 'MISSED'}); {wall / sum_s:.2f} times the sum"
            if name == "pushed":
                text += f", at most {SUM_TIMES:.0f} ({'met' if wall <= SUM_TIMES * sum_s else 'MISSED'})"
        self.say(text + f"; others {max(g['others_cores'] for g in got)} cores")

    def run(self):
        self.prepare()
        w = self.new_weir("main")
        w.catch_up()
        self.server.sql("UPDATE orders SET quantity = quantity + 1 WHERE id % 20 = 3", db=bench.DB)      # the lake's files have deletes
        w.catch_up()
        self.say(f"comparing {self.rows:,} rows, 5 % of them updated; medians of {self.runs}")
        sums = self.repeat("compare-sum", self.sum)
        self.line("SELECT COUNT(*), SUM(CRC32(CONCAT_WS(...)))", sums)
        self.line("SELECT of all rows, thrown away", self.repeat("compare-scan", self.scan))
        for name, args in WAYS.items():
            got = self.repeat("compare", lambda: {"way": name, **self.measure(w, "compare", *args)})       # ends with 0 only when all is equal
            self.line(name, got, median(g["wall_s"] for g in sums))
        if shutil.which("pt-table-checksum"):
            self.line("pt-table-checksum", self.repeat("compare-checksum", self.checksum))
        else:
            self.say("  pt-table-checksum: not installed (Debian: percona-toolkit)")


if __name__ == "__main__":
    sys.exit(bench.main(Compare))
