"""A table that grows to BENCH_GB of row images with 30 % random updates while Weir streams it: memory, write amplification, and what reading it costs beside the same
rows freshly written. Started by `bench/run.sh ingest`; README.md has the variables."""
import json
import shutil
import sys
import threading
import time
from pathlib import Path

import bench
import pyarrow.parquet
from harness import wait_until
from harness.lake import Lake, duckdb_connection
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import StaticTable
from services.spark import Spark

ROUND_INSERTS, ROUND_UPDATES = 14_000, 6_000        # one transaction each
SEED_ROWS = 200_000
UPDATE = ("UPDATE orders JOIN (SELECT DISTINCT FLOOR(1 + RAND() * {last}) AS id FROM seed WHERE id <= {n}) r USING (id) "
          "SET quantity = 1 + (quantity * 7 + orders.id) % 997, state = (state + 3) % 100, note = CONCAT(LEFT(REVERSE(note), 60), quantity), updated_at = NOW(3)")
SUMS = ("COUNT(*)", "SUM(id)", "SUM(quantity)", "SUM(state)", "SUM(price)", "SUM(LENGTH(note))", "SUM((id * 31 + quantity * 17 + state * 7) % 1000003)")
SCAN = "SELECT COUNT(*), SUM(price * quantity), MAX(note), MIN(created_at) FROM {}"
POINT = "SELECT id, quantity, price, email, note FROM {} WHERE id = {}"
AMPLIFICATION, PROMISE, PEAK_MB = 3.0, 1.3, 1000
READERS = ("DuckDB", "PyIceberg", "Spark")


class Ingest(bench.Bench):
    def __init__(self):
        super().__init__()
        self.bytes, self.every_s, self.keep = bench.env("GB", 10.0) * 1e9, bench.env("SAMPLE_SECONDS", 60), bench.env("SAMPLES", 8)
        self.samples, self.peak_kb, self.halt = [], 0, threading.Event()
        self.spark, self.clock = None, {"wall": time.perf_counter, "cpu": time.process_time}[bench.env("CLOCK", "wall")]

    def server_options(self):
        return {**super().server_options(), "innodb_buffer_pool_size": bench.env("BUFFER_POOL", "8G"), "expire_logs_days": 0, "max_binlog_size": "256M"}

    # ---- the source
    def prepare(self):
        self.compile()
        self.tool("gen", SEED_ROWS, 0, self.seed, self.work)
        s = self.server.start()
        s.sql(f"CREATE DATABASE {bench.DB} CHARACTER SET utf8mb4", f"USE {bench.DB}", bench.DDL.format("orders"), bench.DDL.format("seed"))
        s.sql("SET sql_log_bin = 0, time_zone = '+00:00'", f"LOAD DATA LOCAL INFILE '{self.work}/orders.tsv' INTO TABLE seed CHARACTER SET utf8mb4", db=bench.DB)
        (self.work / "orders.tsv").unlink()
        self.columns = ", ".join(r[0] for r in s.sql("DESCRIBE seed", db=bench.DB) if r[0] != "id")

    def written(self):
        return sum(int(r[1]) for r in self.server.sql("SHOW BINARY LOGS"))

    def grow(self):
        """-> (rows, changes, bytes of binlog, seconds)"""
        con, begun, last, changes = self.server.connect(database=bench.DB), time.monotonic(), 0, 0
        start, done = self.written(), 0
        with con.cursor() as c:
            c.execute("SET time_zone = '+00:00'")
            while done < self.bytes:
                offset = last % (SEED_ROWS - ROUND_INSERTS)
                c.execute(f"INSERT INTO orders SELECT id + {last - offset}, {self.columns} FROM seed WHERE id > {offset} AND id <= {offset + ROUND_INSERTS}")
                last += ROUND_INSERTS
                changes += c.rowcount
                changes += c.execute(UPDATE.format(last=last, n=ROUND_UPDATES))
                con.commit()
                done = self.written() - start
        con.close()
        return last, changes, done, time.monotonic() - begun

    # ---- while it grows
    def watch(self, weir, began):
        """the metadata of the table now and then, to be read when the machine is quiet; and the memory of the process"""
        at = time.monotonic() + self.every_s
        while not self.halt.wait(0.5):
            try:
                status = Path(f"/proc/{weir.proc.pid}/status").read_text()
                self.peak_kb = max(self.peak_kb, int(status.split("VmHWM:")[1].split()[0]))
            except (OSError, IndexError):
                pass
            if time.monotonic() >= at:
                at += self.every_s
                self.sample(weir, time.monotonic() - began)

    def sample(self, weir, seconds):
        try:
            meta = Path(Lake(weir.home).table(bench.DB, "orders").metadata_location.removeprefix("file://"))
            copy = self.work / f"sample{len(self.samples)}.metadata.json"
            shutil.copy(meta, copy)
        except Exception as e:      # noqa: BLE001  replaced while it was looked at: the next sample comes
            self.say(f"  no sample at {seconds:.0f} s: {e}")
            return
        self.samples.append((round(seconds), copy))

    # ---- afterwards
    @staticmethod
    def best(fn, times=5, clock=time.perf_counter):
        got = []
        for _ in range(times):
            t = clock()
            fn()
            got.append(clock() - t)
        return min(got)

    def registered(self, folder):
        """the Parquet files of a folder as an Iceberg table"""
        (self.work / "again.db").unlink(missing_ok=True)
        cat = SqlCatalog("again", uri=f"sqlite:///{self.work}/again.db", warehouse=f"file://{self.work}/again")
        files = sorted(map(str, folder.glob("*.parquet")))
        cat.create_namespace("again")
        t = cat.create_table("again.t", pyarrow.parquet.read_schema(files[0]))
        t.add_files(files)
        return t

    def with_duckdb(self, con, src, ids):
        """-> seconds of a full scan, of a look-up"""
        def points():
            for i in ids:
                con.execute(POINT.format(src, i)).fetchall()
        return self.best(lambda: con.execute(SCAN.format(src)).fetchall(), 5, self.clock), self.best(points, 5, self.clock) / len(ids)

    def with_pyiceberg(self, tbl, ids):
        def points():
            for i in ids:
                tbl.scan(row_filter=EqualTo("id", i), selected_fields=("id", "quantity", "price", "email", "note")).to_arrow()
        return self.best(lambda: tbl.scan(selected_fields=("id", "price", "quantity")).to_arrow().num_rows, 2, self.clock), self.best(points, 1, self.clock) / len(ids)

    def with_spark(self, src, ids):
        def points():
            for i in ids:
                self.spark.sql(POINT.format(src, i))
        return self.best(lambda: self.spark.sql(SCAN.format(src)), 3), self.best(points, 2) / len(ids)

    def spark_table(self, meta):
        """the sampled metadata as a table of Spark's catalog"""
        if not self.spark:
            self.spark = Spark(self.work / "spark", {"ing": {"type": "jdbc", "uri": f"jdbc:sqlite:{self.work}/spark.db", "warehouse": f"file://{self.work}/spark-warehouse", "jdbc.schema-version": "V1"}})
            self.spark.start()
            self.spark.sql("CREATE NAMESPACE IF NOT EXISTS ing.s")
        name = f"s.t{abs(hash(str(meta)))}"
        self.spark.sql(f"CALL ing.system.register_table(table => '{name}', metadata_file => 'file://{meta}')")
        return f"ing.{name}"

    def costs_of(self, seconds, meta):
        """-> what reading the sampled snapshot costs, and what the same rows cost when freshly written"""
        con, fresh = duckdb_connection(), self.work / "fresh"
        con.execute("SET threads = 2")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        src, new = f"iceberg_scan('{meta}')", f"read_parquet('{fresh}/*.parquet')"
        con.execute(f"COPY (SELECT * FROM {src}) TO '{fresh}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, FILE_SIZE_BYTES '128MB', OVERWRITE_OR_IGNORE)")
        [(rows, last)] = con.execute(f"SELECT COUNT(*), MAX(id) FROM {new}").fetchall()
        if not rows:
            return None
        tbl = StaticTable.from_metadata(str(meta))
        files = list(tbl.inspect.files().select(["content", "record_count"]).to_pylist())
        data = [f["record_count"] for f in files if f["content"] == 0]
        ids = [1 + last * k // 11 for k in range(1, 11)]
        got = {"at_s": seconds, "rows": rows, "data_files": len(data), "delete_files": len(files) - len(data), "deleted_percent": round(100 * (1 - rows / sum(data)), 1)}
        got["DuckDB"] = self.with_duckdb(con, src, ids), self.with_duckdb(con, new, ids)
        got["PyIceberg"] = self.with_pyiceberg(tbl, ids[::4]), self.with_pyiceberg(self.registered(fresh), ids[::4])
        if Spark.installed():
            got["Spark"] = self.with_spark(self.spark_table(meta), ids[::4]), self.with_spark(f"parquet.`{fresh}`", ids[::4])
        con.close()
        return got

    def report(self, g):
        """one line a reader: scan and look-up, beside the same of fresh files"""
        self.say(f"  {g['at_s']:4d} s {g['rows']:10,} rows, {g['data_files']} data files, {g['delete_files']} delete files, {g['deleted_percent']} % deleted")
        for reader in READERS:
            if reader in g:
                (scan, point), (fresh_scan, fresh_point) = g[reader]
                self.say(f"         {reader:9s} scan {scan * 1e3:8.1f} ms ({fresh_scan * 1e3:7.1f}, {scan / fresh_scan:5.2f})   one row by its key {point * 1e3:8.1f} ms ({fresh_point * 1e3:7.1f}, {point / fresh_point:5.2f})")

    def beside_rewritten(self, w):
        """-> the same with DuckDB of the table as it is, and as `weir optimize --all` leaves it"""
        con, costs = duckdb_connection(), []
        con.execute("SET threads = 2")
        for again in (False, True):
            if again:
                w.run("optimize", "--all", f"{bench.DB}.orders")
            src = f"iceberg_scan('{Lake(w.home).table(bench.DB, 'orders').metadata_location}')"
            [(last,)] = con.execute(f"SELECT MAX(id) FROM {src}").fetchall()
            costs.append(self.with_duckdb(con, src, [1 + last * k // 11 for k in range(1, 11)]))
        return costs

    def sums(self, weir):
        [want] = self.server.sql(f"SELECT {', '.join(SUMS)} FROM orders", db=bench.DB)
        con = duckdb_connection()
        have = con.execute(f"SELECT {', '.join(SUMS).replace('LENGTH', 'strlen')} FROM iceberg_scan('{Lake(weir.home).table(bench.DB, 'orders').metadata_location}')").fetchone()
        if [int(round(float(x) * 100)) for x in want] != [int(round(float(x) * 100)) for x in have]:
            self.failed.append(f"source and lake differ: {want} {have}")
        return want[0]

    def run(self):
        self.prepare()
        w = self.new_weir("ingest")
        w.config["source"]["capture"] = [rf"{bench.DB}\.orders"]
        w.write()
        w.start()
        wait_until(lambda: Lake(w.home).exists() and (bench.DB, "orders") in Lake(w.home).tables(), 60, "the table in the lake")
        began = time.monotonic()
        watcher = threading.Thread(target=self.watch, args=(w, began))
        watcher.start()
        try:
            rows, changes, size, seconds = self.grow()
            self.say(f"{rows:,} rows, {changes:,} changes, {size / 1e9:.1f} GB of binlog in {seconds:.0f} s ({changes / seconds:,.0f} changes/s)")
            w.wait(seconds=1800)
            behind = time.monotonic() - began - seconds
        finally:
            self.halt.set()
            watcher.join()
        self.sample(w, time.monotonic() - began)
        w.stop()
        health = json.loads(w.run("tables", f"{bench.DB}.orders", "--json").out)
        self.sums(w)
        step, got = max(1, len(self.samples) // self.keep), []
        self.say("  milliseconds (of the same rows freshly written, ratio)")
        for sample in self.samples[::-step][::-1]:
            cost = self.costs_of(*sample)
            if cost:
                got.append(cost)
                self.report(cost)
        now, then = self.beside_rewritten(w)
        if self.spark:
            self.spark.stop()
        worst = {f"{r} {what}": round(max(g[r][0][k] / g[r][1][k] for g in got), 2) for r in READERS if r in got[0] for k, what in enumerate(("scan", "look-up"))}
        amp, peak = health["write_amplification"], self.peak_kb / 1e3
        self.record("ingest", rows=rows, changes=changes, binlog_gb=round(size / 1e9, 2), seconds=round(seconds), behind_s=round(behind, 1), peak_mb=round(peak), upkeep=health["upkeep"],
                    write_amplification=round(amp, 2), samples=got, worst=worst, rewritten={"before": now, "after": then})
        self.say(f"  as weir optimize --all leaves it: DuckDB scan {now[0] * 1e3:.1f} ms ({then[0] * 1e3:.1f}, {now[0] / then[0]:.2f}), one row by its key {now[1] * 1e3:.1f} ms ({then[1] * 1e3:.1f}, {now[1] / then[1]:.2f})")
        self.say(f"current {behind:.1f} s after the last commit; peak {peak:.0f} MB, below {PEAK_MB} ({'met' if peak < PEAK_MB else 'MISSED'}); written {amp:.2f} times what came new, "
                 f"at most {AMPLIFICATION} ({'met' if amp <= AMPLIFICATION else 'MISSED'}); worst ratios to freshly written files, promise {PROMISE}: "
                 + ", ".join(f"{k} {v:.2f} ({'met' if v <= PROMISE else 'MISSED'})" for k, v in worst.items()))


if __name__ == "__main__":
    sys.exit(bench.main(Ingest))
