"""BENCH_TABLES tables in one pipeline, of which a twentieth changes: start, memory, and what the idle ones cost. Started by `bench/run.sh tables`; README.md has the
variables."""
import sys
import time
from pathlib import Path

import bench
from harness import wait_until
from harness.lake import Lake

ROWS, ACTIVE_SHARE, SECONDS = 20, 20, 30
START_S, PEAK_MB = 10, 600


class Tables(bench.Bench):
    def __init__(self):
        super().__init__()
        self.tables = bench.env("TABLES", 2000)
        self.active = max(1, self.tables // ACTIVE_SHARE)

    def server_options(self):
        return {**super().server_options(), "table_open_cache": 8000, "table_definition_cache": 8000, "open_files_limit": 65535}

    def prepare(self):
        s = self.server.start()
        s.sql(f"CREATE DATABASE {bench.DB} CHARACTER SET utf8mb4")
        rows = ",".join(f"({i}, 'customer {i}', {i * 3}.5, NOW())" for i in range(1, ROWS + 1))
        t = time.monotonic()
        for i in range(self.tables):
            s.sql(f"CREATE TABLE {self.name(i)} (id INT PRIMARY KEY, name VARCHAR(40), total DECIMAL(12,2), at DATETIME)", f"INSERT INTO {self.name(i)} VALUES {rows}", db=bench.DB)
        self.say(f"{self.tables:,} tables of {ROWS} rows made in {time.monotonic() - t:.0f} s; {self.active} of them will change")

    def name(self, i):
        return f"{'hot' if i < self.active else 'idle'}_{i}"

    @staticmethod
    def of_process(w, key):
        return int(Path(f"/proc/{w.proc.pid}/status").read_text().split(f"{key}:")[1].split()[0]) / 1e3

    @staticmethod
    def cpu_s(w):
        return bench.measured.process_cpu_s(w.proc.pid)

    def started(self, w):
        """seconds until the pipeline streams"""
        t = time.monotonic()
        w.start()
        wait_until(lambda: w.status()["state"] == "streaming", 300, "streaming", 0.1)
        return time.monotonic() - t

    def run_for(self, w, what):
        """every active table changes once a second"""
        start = self.started(w)
        idle_cpu, t = self.cpu_s(w), time.monotonic()
        time.sleep(10)          # what nothing to do costs, over a stretch of its own
        idle_cpu = (self.cpu_s(w) - idle_cpu) / (time.monotonic() - t)
        cpu, commits = self.cpu_s(w), 0
        for _ in range(SECONDS):
            t = time.monotonic()
            self.server.sql(*(f"UPDATE {self.name(i)} SET total = total + 1 WHERE id <= 5" for i in range(self.active)), db=bench.DB)
            commits += 1
            time.sleep(max(0.0, 1 - (time.monotonic() - t)))        # the pace is the measurement's
        w.wait(seconds=300)
        cpu, peak = self.cpu_s(w) - cpu, self.of_process(w, "VmHWM")
        w.stop()
        self.record("tables", what=what, tables=self.tables, active=self.active, start_s=round(start, 2), peak_mb=round(peak), idle_cores=round(idle_cpu, 4),
                    cpu_ms_per_second=round(cpu / SECONDS * 1e3, 1))
        self.say(f"  {what}: streaming after {start:.1f} s, peak {peak:.0f} MB, {idle_cpu * 100:.2f} % of a core with nothing to do, "
                 f"{cpu / SECONDS * 1e3:.0f} CPU ms for each second with {self.active} changed tables")
        return start, peak, cpu

    def run(self):
        self.prepare()
        every, hot = self.new_weir("every", "1s"), self.new_weir("hot", "1s")
        hot.config["source"]["capture"] = [rf"{bench.DB}\.hot_\d+"]
        hot.write()
        t = time.monotonic()
        every.catch_up(seconds=900)
        self.say(f"loaded in {time.monotonic() - t:.0f} s ({self.tables / (time.monotonic() - t):.0f} tables a second)")
        hot.catch_up(seconds=300)
        start, peak, cpu = self.run_for(every, f"all {self.tables:,}")
        _, _, alone = self.run_for(hot, f"only the {self.active}")
        every.catch_up(seconds=300)
        for i in (0, self.active - 1, self.tables - 1):
            [want] = self.server.sql(f"SELECT COUNT(*), SUM(total) FROM {self.name(i)}", db=bench.DB)
            got = Lake(every.home).table(bench.DB, self.name(i)).scan().to_arrow()
            if (got.num_rows, sum(got["total"].to_pylist())) != tuple(want):
                self.failed.append(f"{self.name(i)}: {want} in the source, not in the lake")
        self.say(f"start {start:.1f} s, below {START_S} ({'met' if start < START_S else 'MISSED'}); peak {peak:.0f} MB, below {PEAK_MB} ({'met' if peak < PEAK_MB else 'MISSED'}); "
                 f"the idle tables cost {(cpu / alone - 1) * 100:.0f} % more CPU")


if __name__ == "__main__":
    sys.exit(bench.main(Tables))
