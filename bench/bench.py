"""The benchmark run: see README.md for what is measured and for the variables. Started by run.sh."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

import checksum
import duckdb
import latency
import measured
import pyiceberg
from harness import wait_until
from harness.lake import Lake
from harness.weir import BINARY, Weir
from measured import Stretch
from services import ROOT, instance

HERE = Path(__file__).resolve().parent
DB, PHASES = "shop", ("bounds", "snapshot", "transform", "catchup", "big", "latency")
RULES = [{"table": rf"{DB}\.orders", "filter": "currency <> 'ZZZ'", "set": {"total": "price * quantity"}}]     # no row is filtered out: the most work
RULES_COST = 30         # per cent of throughput they may cost
DDL = """CREATE TABLE {} (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, customer_id BIGINT NOT NULL, shop_id INT NOT NULL, state TINYINT NOT NULL,
 quantity SMALLINT NOT NULL, flags INT UNSIGNED NOT NULL, price DECIMAL(12,2) NOT NULL, discount DECIMAL(5,2), currency CHAR(3) NOT NULL,
 created_at DATETIME(6) NOT NULL, updated_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), shipped_at DATETIME, email VARCHAR(100) NOT NULL,
 address VARCHAR(160) NOT NULL, note TEXT) CHARSET utf8mb4"""
AIMS = {"snapshot": [("rows_s", 500_000, "rows/s"), ("rows_cpu_s", 600_000, "rows per CPU second"), ("peak_mb", 400, "MB peak, below")],
        "catchup": [("changes_s", 300_000, "changes/s"), ("peak_mb", 400, "MB peak, below")],
        "big-insert": [("peak_mb", 400, "MB peak, below")], "big-update": [("peak_mb", 400, "MB peak, below")]}


def env(name, default):
    v = os.environ.get(f"BENCH_{name}", "")
    return type(default)(v) if v else default


class Bench:
    def __init__(self):
        self.flavor = env("SERVER", "mariadb")
        if self.flavor not in ("mariadb", "mysql"):
            sys.exit(f"bench: BENCH_SERVER is mariadb or mysql, not '{self.flavor}'")
        self.rows, self.changes, self.seed, self.runs = env("ROWS", 2_000_000), env("CHANGES", 600_000), env("SEED", 7), env("RUNS", 3)
        self.phases = env("PHASES", ",".join(PHASES)).split(",")
        if set(self.phases) - set(PHASES):
            sys.exit(f"bench: BENCH_PHASES names {', '.join(sorted(set(self.phases) - set(PHASES)))}; there are {', '.join(PHASES)}")
        self.quiet, self.results = env("QUIET", 0), Path(env("RESULTS", str(HERE / "results.jsonl")))
        self.latency_s, self.timeout = env("LATENCY_SECONDS", 30), env("TIMEOUT", 900)
        self.work = Path(tempfile.mkdtemp(prefix="weir-bench-", dir=os.environ.get("BENCH_DIR") or None))
        self.server = instance(self.flavor, self.work / "server", owned=True, cnf=self.server_options())
        self.lines, self.failed, self.want, self.profiles, self.applied = [], [], {}, 0, 0
        self.weirs = []         # whatever happens, none is left running
        self.stamp = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def server_options(self):
        log = {"innodb_redo_log_capacity": "1G"} if self.flavor == "mysql" else {"innodb_log_file_size": "1G"}
        return {"innodb_buffer_pool_size": env("BUFFER_POOL", "2G"), "binlog_cache_size": "1M", "innodb_io_capacity": 20000, "innodb_io_capacity_max": 40000, **log}

    # ---- helpers
    def say(self, text=""):
        print(text, flush=True)

    def record(self, bench, **values):
        line = {"time": self.stamp, "bench": bench, "server": self.flavor, **values}
        self.lines.append(line)
        self.results.parent.mkdir(parents=True, exist_ok=True)
        with open(self.results, "a") as f:
            f.write(json.dumps(line) + "\n")
        return line

    def compile(self):
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libmariadb"], check=True, capture_output=True, text=True).stdout.split()
        for name in ("gen", "measure", "source"):
            subprocess.run(["cc", "-O2", "-pthread", HERE / f"{name}.c", "-o", self.work / name, *(flags if name == "source" else [])], check=True)

    def tool(self, name, *args):
        p = subprocess.run([self.work / name, *map(str, args)], capture_output=True, text=True)
        if p.returncode:
            raise RuntimeError(f"{name} {' '.join(map(str, args))}: {p.stderr.strip()}")
        return json.loads(p.stdout)

    def binlog_end(self):
        row = self.server.sql("SHOW BINARY LOG STATUS" if self.flavor == "mysql" else "SHOW MASTER STATUS")[0]
        return row[0], int(row[1])

    def wait_quiet(self):
        if self.quiet:
            measured.wait_quiet(self.quiet)

    def new_weir(self, name, every=None, rules=None):
        config = {"name": name, "source": {"tls": "disabled"}, "snapshot": {"parallel": 2}}
        if rules:
            config["transform"] = {"rules": rules}
        w = Weir(self.server, self.work / name, [rf"{DB}\..*"], config)
        self.weirs.append(w)
        w.config["lake"] = {"commit": {"every": every}} if every else {}      # the harness's own default is shorter than a user's
        if not w.config["lake"]:
            del w.config["lake"]
        w.write()
        return w

    def measure(self, weir, *args):
        """runs weir ARGS… to its end; -> (what it cost, the stretch)"""
        report = self.work / "report.json"
        log = open(weir.dir / "run.log", "ab")
        mark = log.tell()
        with log, Stretch(self.server) as s:
            argv = [self.work / "measure", self.timeout, report, *self.profiler(), BINARY, *args[:1], "-c", weir.file, *args[1:]]
            status = subprocess.run([str(a) for a in argv], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=weir.env).returncode
        if status:
            text = (weir.dir / "run.log").read_bytes()[mark:].decode(errors="replace")
            raise RuntimeError(f"weir {' '.join(args)} ended with {status}:\n{text[-3000:]}")
        r = json.loads(report.read_text())
        cpu = r["user_s"] + r["sys_s"]
        return {"wall_s": r["wall_s"], "cpu_s": round(cpu, 2), "user_s": r["user_s"], "sys_s": r["sys_s"], "peak_mb": max(r["maxrss_mb"], r["hwm_mb"]),
                "maxrss_mb": r["maxrss_mb"], "hwm_mb": r["hwm_mb"], "anon_mb": r["anon_mb"], "storage_mb": r["written_mb"], "switches": r["switches"] + r["preempted"], **s.facts(cpu)}

    def profiler(self):
        """BENCH_PROFILE=FOLDER: a perf.data of each measured run; its figures then include perf's own cost"""
        folder = os.environ.get("BENCH_PROFILE")
        if not folder:
            return []
        self.profiles += 1
        Path(folder).mkdir(parents=True, exist_ok=True)
        return ["perf", "record", "-q", "-F", "999", "--call-graph", "fp", "-o", f"{folder}/{self.profiles}.data"]

    def lake_files(self, weir):
        n, data, total = {}, 0, 0
        for p in (weir.home / "warehouse").rglob("*"):
            if p.is_file():
                size = p.stat().st_size
                n[p.suffix[1:]] = n.get(p.suffix[1:], 0) + 1
                total += size
                data += size if p.suffix == ".parquet" else 0
        return {"files": n, "data_mb": round(data / 1e6, 1), "lake_mb": round(total / 1e6, 1)}

    def verify(self, weir, table, what, readers=checksum.READERS):
        """the source's sums are computed once for each state of a table: see source_changed()"""
        t = time.monotonic()
        if table not in self.want:
            self.want[table] = checksum.of_source(self.server, DB, table)
        found = checksum.differences(self.want[table], Lake(weir.home), DB, table, readers)
        for f in found[:3]:
            self.say(f"  MISMATCH after {what}: {f}")
        if found:
            self.failed.append(f"{what}: {len(found)} sums differ; {found[0]}")
        if not found:
            self.say(f"    equal: {table}, {self.want[table]['rows']:,} rows, all columns ({' and '.join(readers)}; {time.monotonic() - t:.0f} s)")
        return not found

    def verify_rows(self, weir, table, what):
        """for a lake that need not be current but must be whole: changes that neither add nor remove rows are on their way"""
        [(want,)] = self.server.sql(f"SELECT COUNT(*) FROM {table}", db=DB)
        got = {r: checksum.of_lake(Lake(weir.home), DB, table, r)["rows"] for r in checksum.READERS}
        if set(got.values()) != {want}:
            self.failed.append(f"{what}: {table} has {want} rows in the source, {got} in the lake")
            self.say(f"  MISMATCH {self.failed[-1]}")

    def source_changed(self, *tables):
        for t in tables:
            self.want.pop(t, None)

    def summary(self, bench, values, unit_key):
        """medians of the runs of one phase beside the aims"""
        if not AIMS.get(bench):
            return
        parts = []
        for key, aim, unit in AIMS.get(bench, []):
            got = median(v[key] for v in values) if key != "peak_mb" else max(v[key] for v in values)
            met = got < aim if key == "peak_mb" else got >= aim
            parts.append(f"{got:,.0f} {unit} {aim:,} ({'met' if met else 'MISSED'})" if key == "peak_mb" else
                         f"{got:,.0f} {unit}, aim {aim:,} ({'met' if met else 'MISSED'})")
        self.say(f"  {bench}: " + "; ".join(parts))

    # ---- set-up
    def prepare(self):
        self.compile()
        self.say(f"generating {self.rows:,} rows and {self.changes:,} changes (seed {self.seed})")
        self.plan = self.tool("gen", self.rows, self.changes, self.seed, self.work)
        self.server.start()
        s = self.server
        s.sql(f"CREATE DATABASE {DB} CHARACTER SET utf8mb4", f"USE {DB}", DDL.format("orders"), latency.DDL)
        t = time.monotonic()
        s.sql("SET sql_log_bin = 0, time_zone = '+00:00'", f"LOAD DATA LOCAL INFILE '{self.work}/orders.tsv' INTO TABLE orders CHARACTER SET utf8mb4", db=DB)
        s.sql("ANALYZE TABLE orders", db=DB)
        [(n,)] = s.sql("SELECT COUNT(*) FROM orders", db=DB)
        assert n == self.rows, f"{n} rows were loaded of {self.rows}"
        (self.work / "orders.tsv").unlink()
        s.sql("SET GLOBAL innodb_max_dirty_pages_pct = 0")             # writes the load's pages now instead of during the first runs
        wait_until(lambda: int(s.sql("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")[0][1]) < 500, 120, "the load's pages written", 0.5)
        s.sql("SET GLOBAL innodb_max_dirty_pages_pct = 90")
        [(version,)] = s.sql("SELECT VERSION()")
        weir_version = subprocess.run([BINARY, "version"], capture_output=True, text=True).stdout.strip().splitlines()
        git = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
        facts = {**measured.machine(), "server_version": version, "weir": weir_version[0] if weir_version else "?", "checkout": git,
                 "duckdb": duckdb.__version__, "pyiceberg": pyiceberg.__version__, "rows": self.rows, "row_text_bytes": round(self.plan["tsv_bytes"] / max(1, self.rows)),
                 "plan": self.plan, "loadavg": measured.load()}
        self.record("facts", **facts)
        self.say(f"loaded in {time.monotonic() - t:.0f} s; {facts['cores']} cores {facts['cpu']}, {facts['memory_gb']} GB; {self.flavor} {version}; "
                 f"{facts['weir']} (checkout {git}); load {facts['loadavg']}")

    # ---- phases
    def bound_select(self):
        self.say("bounds: SELECT of the whole table to nowhere")
        for proto in ("text", "binary"):
            for n in (1, 2):
                got = []
                for run in range(self.runs):
                    self.wait_quiet()
                    with Stretch(self.server) as s:
                        r = self.tool("source", "select", self.server.port, "orders", n, proto)
                    assert r["rows"] == self.rows
                    got.append(self.record("bound-select", run=run, protocol=proto, connections=n, rows_s=round(r["rows"] / r["wall_s"]),
                                           mb_s=round(r["bytes"] / r["wall_s"] / 1e6), **r, **s.facts(r["cpu_s"])))
                self.say(f"  {proto}, {n} connection{'s' * (n > 1)}: {median(g['rows_s'] for g in got):,.0f} rows/s, "
                         f"{median(g['mb_s'] for g in got):,.0f} MB/s, server {median(g['server_cpu_s'] for g in got):.2f} CPU s, "
                         f"client {median(g['cpu_s'] for g in got):.2f}; load {got[-1]['loadavg'][1]}, others {max(g['others_cores'] for g in got):.1f} cores")

    def snapshot(self, name="main", bench="snapshot", rules=None):
        self.say(f"snapshot of {self.rows:,} rows" + (" with rules" if rules else ""))
        got = []
        for run in range(self.runs):
            w = self.new_weir(name, rules=rules)
            shutil.rmtree(w.home, ignore_errors=True)
            self.wait_quiet()
            m = self.measure(w, "sync", "--until", "current")
            m.update(rows_s=round(self.rows / m["wall_s"]), rows_cpu_s=round(self.rows / m["cpu_s"]), **self.lake_files(w))
            self.say(f"  run {run + 1}: {m['wall_s']:.2f} s, {m['rows_s']:,} rows/s; {m['cpu_s']:.2f} CPU s ({m['sys_s']:.2f} sys), {m['rows_cpu_s']:,} rows/CPU s; "
                     f"peak {m['peak_mb']:.0f} MB ({m['anon_mb']:.0f} anonymous); {m['files'].get('parquet', 0)} data files, {m['data_mb']} MB; "
                     f"server {m['server_cpu_s']:.2f} CPU s; load {m['loadavg'][1]}, others {m['others_cores']} cores")
            ok = self.verify(w, "orders", f"snapshot {run + 1}", checksum.READERS if run == self.runs - 1 else checksum.READERS[:1])
            got.append(self.record(bench, run=run, rows=self.rows, equal=ok, **m))
        self.summary(bench, got, "rows")
        return w, got

    def apply_changes(self):
        """-> where the binlog of the changes begins"""
        start = self.binlog_end()
        r = self.tool("source", "apply", self.server.port, self.work / "changes.sql")
        self.source_changed("orders")
        assert r["changes"] == self.plan["updates"] + self.plan["inserts"] + self.plan["deletes"], f"{r['changes']} changes instead of {self.plan}"
        self.applied = r["changes"]
        self.say(f"  {r['changes']:,} changes applied to the source in {r['wall_s']:.1f} s ({self.plan['transactions']:,} transactions, {self.plan['statements']:,} statements)")
        return start

    def bound_dump(self, start, changes, what):
        got = []
        for run in range(self.runs):
            self.wait_quiet()
            with Stretch(self.server) as s:
                r = self.tool("source", "dump", self.server.port, *start)
            got.append(self.record("bound-dump", run=run, what=what, changes=changes, changes_s=round(changes / r["wall_s"]), mb_s=round(r["bytes"] / r["wall_s"] / 1e6),
                                   **r, **s.facts(r["cpu_s"])))
        self.say(f"  bound, dump thread to nowhere ({what}): {median(g['changes_s'] for g in got):,.0f} changes/s, {median(g['mb_s'] for g in got):,.0f} MB/s, "
                 f"{got[0]['events']:,} events, {got[0]['bytes'] / 1e6:,.0f} MB, server {median(g['server_cpu_s'] for g in got):.2f} CPU s; load {got[-1]['loadavg'][1]}")

    def catch_up_line(self, bench, w, changes, what, table, run, runs):
        before, began = self.lake_files(w), time.time()
        m = self.measure(w, "sync", "--until", "current")
        after, there_s = self.lake_files(w), Lake(w.home).table(DB, table).metadata.last_updated_ms / 1000 - began
        m.update(changes=changes, changes_s=round(changes / m["wall_s"]), changes_cpu_s=round(changes / m["cpu_s"]), there_s=round(there_s, 2), **after,
                 written_mb=round(after["lake_mb"] - before["lake_mb"], 1))
        self.say(f"  {what}: {m['wall_s']:.2f} s, {m['changes_s']:,} changes/s (in the lake after {there_s:.2f} s, then read back); {m['cpu_s']:.2f} CPU s ({m['sys_s']:.2f} sys), {m['changes_cpu_s']:,} changes/CPU s; "
                 f"peak {m['peak_mb']:.0f} MB ({m['anon_mb']:.0f} anonymous); {m['written_mb']} MB written; server {m['server_cpu_s']:.2f} CPU s; "
                 f"load {m['loadavg'][1]}, others {m['others_cores']} cores")
        ok = self.verify(w, table, what, checksum.READERS if run == runs - 1 else checksum.READERS[:1])
        return self.record(bench, run=run, equal=ok, **m)

    def catch_up(self, w, bench="catchup"):
        self.say(f"catch-up with {self.changes:,} changes" + (" with rules" if bench != "catchup" else ""))
        kept = self.work / "home.after-snapshot"
        w.home.rename(kept)
        if not self.applied:
            start = self.apply_changes()
            if "bounds" in self.phases:
                self.bound_dump(start, self.applied, "changes")
        got = []
        for run in range(self.runs):
            shutil.rmtree(w.home, ignore_errors=True)
            subprocess.run(["cp", "-a", "--reflink=auto", kept, w.home], check=True)
            os.sync()
            self.wait_quiet()
            got.append(self.catch_up_line(bench, w, self.applied, f"catch-up {run + 1}", "orders", run, self.runs))
        shutil.rmtree(kept)
        self.summary(bench, got, "changes")
        return got

    def rules_cost(self, what, without, with_rules, keys):
        """what a computed column and a filter take of the rates"""
        parts = []
        for key, unit in keys:
            a, b = median(g[key] for g in without), median(g[key] for g in with_rules)
            cost = 100 * (1 - b / a)
            parts.append(f"{b:,.0f} {unit} instead of {a:,.0f}: {cost:.0f} %, below {RULES_COST} ({'met' if cost < RULES_COST else 'MISSED'})")
        self.say(f"  rules, {what}: " + "; ".join(parts))

    def verify_total(self, w):
        [(want,)] = self.server.sql("SELECT SUM(price * quantity) FROM orders", db=DB)
        got = Lake(w.home).in_duckdb(DB, "orders").sum("total")
        if got != want:
            self.failed.append(f"rules: the computed column adds up to {got} instead of {want}")
            self.say(f"  MISMATCH {self.failed[-1]}")

    def big(self, w):
        [(n,)] = self.server.sql("SELECT COUNT(*) FROM orders", db=DB)
        self.say(f"one transaction of {n:,} rows")
        self.server.sql(DDL.format("orders_big"), db=DB)
        self.measure(w, "sync", "--until", "current")
        for bench, statement in (("big-insert", "INSERT INTO orders_big SELECT * FROM orders"),
                                 ("big-update", "UPDATE orders_big SET state = (state + 1) % 7, price = price + 1.11, updated_at = '2025-01-02 03:04:05.678'")):
            start, t = self.binlog_end(), time.monotonic()
            self.server.sql("SET time_zone = '+00:00'", statement, db=DB)
            self.source_changed("orders_big")
            self.say(f"  {statement.split()[0]} ran {time.monotonic() - t:.0f} s in the source")
            if "bounds" in self.phases:
                self.bound_dump(start, n, bench)
            self.wait_quiet()
            line = self.catch_up_line(bench, w, n, bench, "orders_big", 0, 1)
            self.summary(bench, [line], "changes")
        self.verify(w, "orders", "the big transactions", checksum.READERS[:1])

    def latency_run(self, w, every, seconds, changes_s):
        name = f"every {every}" + (f", beside {changes_s:,} changes/s" if changes_s else "")
        w.config["lake"] = {"commit": {"every": every}}
        w.write()
        lake, report = Lake(w.home), self.work / "live.json"
        w.catch_up(seconds=600)
        first = lake.count(DB, latency.TABLE)
        log = open(w.dir / "live.log", "ab")
        with log, Stretch(self.server) as s:
            proc = subprocess.Popen([self.work / "measure", "0", report, BINARY, "sync", "-c", w.file], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=w.env)
            try:
                w.run("wait", "--timeout", "60", seconds=90)
                poller = latency.Poller(w.home / "catalog.db", DB)
                writers = [latency.Writer(self.server, DB, 0.04)] + ([latency.Load(self.server, DB, "orders", self.rows, changes_s)] if changes_s else [])
                for t in [poller, *writers]:
                    t.start()
                time.sleep(seconds)         # the measurement's length
                for t in writers:
                    t.finish()
                last = max(writers[0].committed)
                wait_until(lambda: poller.error or (poller.seen and poller.seen[-1][1] >= last) or proc.poll() is not None, 120, "the last marker in the lake")
                poller.finish()
            finally:
                if proc.poll() is None:
                    proc.send_signal(signal.SIGTERM)
                status = proc.wait(60)
        if status:
            raise RuntimeError(f"the live sync ended with {status}:\n" + (w.dir / "live.log").read_text(errors="replace")[-2000:])
        r = json.loads(report.read_text())
        ms = latency.latencies_ms(writers[0].committed, poller.seen)
        rows, markers = lake.count(DB, latency.TABLE), len(writers[0].committed)
        ok = rows == last == first + markers and len(ms) == markers
        if not ok:
            self.failed.append(f"latency {name}: {rows} markers in the lake, {last} in the source, {len(ms)} of {markers} seen")
            self.say(f"  MISMATCH {self.failed[-1]}")
        t = time.monotonic()
        lake.table(DB, latency.TABLE).scan().to_arrow()
        read_ms = (time.monotonic() - t) * 1000
        line = self.record("latency", every=every, beside_changes_s=changes_s, seconds=seconds, markers=markers, commits=len(poller.seen) - 1, equal=ok,
                           median_ms=round(median(ms), 1), p95_ms=round(latency.percentile(ms, 0.95), 1), max_ms=round(max(ms), 1), pyiceberg_read_ms=round(read_ms),
                           changes=sum(getattr(x, "changes", 0) for x in writers), cpu_s=round(r["user_s"] + r["sys_s"], 2), peak_mb=max(r["maxrss_mb"], r["hwm_mb"]),
                           **s.facts(r["user_s"] + r["sys_s"]))
        self.say(f"  {name}: median {line['median_ms']:,.0f} ms, p95 {line['p95_ms']:,.0f}, max {line['max_ms']:,.0f} ({markers} markers, {line['commits']} commits in {seconds} s"
                 + (f", {line['changes']:,} changes beside" if changes_s else "") + f"); weir {line['cpu_s']} CPU s, peak {line['peak_mb']:.0f} MB; "
                 f"a PyIceberg read of the table takes {line['pyiceberg_read_ms']} ms more; load {line['loadavg'][1]}, others {line['others_cores']} cores")

    def latency(self, w):
        self.say("latency: from COMMIT in the source to visible in the catalog")
        for every, seconds, changes_s in (("200ms", self.latency_s, 0), ("1s", self.latency_s, 0), ("1s", self.latency_s, 5000), ("10s", self.latency_s * 2, 0)):
            self.wait_quiet()
            self.latency_run(w, every, seconds, changes_s)
            if changes_s:
                self.source_changed("orders")
                self.verify_rows(w, "orders", f"latency beside {changes_s:,} changes/s, at the stop")
                w.catch_up(seconds=600)
                self.verify(w, "orders", f"latency beside {changes_s:,} changes/s", checksum.READERS[:1])

    # ---- all of it
    def run(self):
        self.prepare()
        if "bounds" in self.phases:
            self.bound_select()
        if not set(self.phases) & {"snapshot", "transform", "catchup", "big", "latency"}:
            return
        w, plain = self.snapshot()
        if "transform" in self.phases:
            ruled, got = self.snapshot("rules", "snapshot-rules", RULES)
            self.verify_total(ruled)
            self.rules_cost("snapshot", plain, got, [("rows_s", "rows/s"), ("rows_cpu_s", "rows per CPU second")])
        if set(self.phases) & {"catchup", "transform"}:
            plain = self.catch_up(w)
        if "transform" in self.phases:
            got = self.catch_up(ruled, "catchup-rules")
            self.verify_total(ruled)
            self.rules_cost("catch-up", plain, got, [("changes_s", "changes/s"), ("changes_cpu_s", "changes per CPU second")])
        if "big" in self.phases:
            self.big(w)
        if "latency" in self.phases:
            self.latency(w)

    def close(self):
        for w in self.weirs:
            w.kill()
        self.server.stop()
        if os.environ.get("KEEP") == "1":
            self.say(f"kept: {self.work}")
        else:
            shutil.rmtree(self.work, ignore_errors=True)


def main(kind=Bench):
    """one benchmark from its start to its status"""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))     # so that the work folder and all processes go away
    b = kind()
    try:
        b.run()
    except (RuntimeError, AssertionError) as e:
        b.failed.append(str(e))
    finally:
        b.close()
    for f in b.failed:
        print(f"FAILED {f}", file=sys.stderr)
    b.say(f"{'FAILED' if b.failed else 'done'}; {len(b.lines)} lines in {os.path.relpath(b.results)}")
    return 1 if b.failed else 0


if __name__ == "__main__":
    sys.exit(main())
