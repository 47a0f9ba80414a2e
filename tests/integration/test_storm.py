"""A storm: everything from which Weir must recover without a hand, at random and several at once, under load. In the end source and lake are equal, every acknowledged transaction is in
the lake, the ledger is accounted, `weir check` has nothing and no alarm is open. Every ten faults the load pauses, everything is mended, and source and lake are compared.

WEIR_STORM_SECONDS=3600 for a long one (60), WEIR_SEED repeats one: the faults and their order, not the moments within Weir. WEIR_LAKE=faulty has it over lossy S3 and REST.

A supervisor starts a sync that ended by itself again, and that is no failure when the source could not be reached."""
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time

import pytest
from harness import backend, load
from harness.compare import assert_equal
from harness.failover import DB
from harness.lake import Lake
from harness.wire import Wire
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationException
from test_source_faults import fill, numbers

pytestmark = pytest.mark.one_server
SECONDS = float(os.environ.get("WEIR_STORM_SECONDS", "60"))
SEED = int(os.environ["WEIR_SEED"])
DISK_MB = int(min(4096, 512 + SECONDS))
CALM_SECONDS = 240
TABLES = [*load.TABLES, "big", "osc"]
QUIET = {"disk": {"warning": "1KB", "critical": "1B"}, "recovery": "1s", "restarts": {"times": 32, "within": "1s"}}     # the machine's own disk is not what is tested, and kills are

GHOST = ["DROP TABLE IF EXISTS _osc_gho, _osc_del, _osc_ghc", "CREATE TABLE _osc_ghc (id BIGINT AUTO_INCREMENT PRIMARY KEY, hint VARCHAR(64) UNIQUE, value VARCHAR(100))",
         "INSERT INTO _osc_ghc (hint, value) VALUES ('state', 'GhostTableMigrated')", "CREATE /* gh-ost */ TABLE _osc_gho LIKE osc", "ALTER /* gh-ost */ TABLE _osc_gho ADD COLUMN x{k} INT DEFAULT {k}",
         "INSERT IGNORE INTO _osc_gho (id, v) SELECT id, v FROM osc", "UPDATE osc SET v = 'live {k}' WHERE id < 3", "REPLACE INTO _osc_gho (id, v) SELECT id, v FROM osc WHERE id < 3",
         "RENAME /* gh-ost */ TABLE osc TO _osc_del, _osc_gho TO osc", "DROP TABLE _osc_ghc", "INSERT INTO osc (id, v) VALUES ({k} + 1000, 'after')", "DROP TABLE _osc_del"]
PTOSC = ["DROP TABLE IF EXISTS _osc_new, _osc_old", "CREATE TABLE _osc_new LIKE osc", "ALTER TABLE _osc_new MODIFY v VARCHAR({w})", *[f"DROP TRIGGER IF EXISTS pt_{e}" for e in ("ins", "upd")],
         "CREATE TRIGGER pt_ins AFTER INSERT ON osc FOR EACH ROW REPLACE INTO _osc_new (id, v) VALUES (NEW.id, NEW.v)",
         "CREATE TRIGGER pt_upd AFTER UPDATE ON osc FOR EACH ROW REPLACE INTO _osc_new (id, v) VALUES (NEW.id, NEW.v)",
         "INSERT IGNORE INTO _osc_new (id, v) SELECT id, v FROM osc WHERE id < 100", "UPDATE osc SET v = 'pt {k}' WHERE id < 5", "INSERT IGNORE INTO _osc_new (id, v) SELECT id, v FROM osc WHERE id >= 100",
         "RENAME TABLE osc TO _osc_old, _osc_new TO osc", "DROP TABLE _osc_old", "DROP TRIGGER IF EXISTS pt_ins", "DROP TRIGGER IF EXISTS pt_upd", "DELETE FROM osc WHERE id > 1000 LIMIT 2"]


class Storm:
    def __init__(self, cluster, wires, weir, busy, rnd, clock, disk, foreign):
        self.cluster, self.wires, self.weir, self.busy, self.rnd, self.clock, self.disk = cluster, wires, weir, busy, rnd, clock, disk
        self.lake, self.began, self.n, self.done = Lake(weir.home), time.monotonic(), 0, {}
        self.later = []                         # (when, what it is of, undo)
        self.restarts, self.ended, self.in_commit, self.slowest, self.hand = 0, 0, 0, 0, None
        self.faults = {"kill": 10, "kill_in_commit": 6, "stop": 2, "osc": 4, "cut": 4, "stall": 4, "slow": 2, "freeze_source": 3, "freeze_weir": 3, "restart_server": 2, "failover": 4,
                       "rotate": 3, "step_clock": 2, "change_zone": 2, "large": 2}
        if disk:
            self.faults["full_disk"] = 2
        if foreign:
            self.faults["rewrite"] = 3
        if backend.MODE == "faulty":
            self.faults["store_away"] = 3

    def say(self, *what):
        print(f"{time.monotonic() - self.began:7.1f}", *what, flush=True)

    # ---- Weir and who looks after it
    def start(self):
        self.restarts += 1
        self.weir.start()
        if self.later:                          # what goes on may well keep it from the source
            return
        took = self.weir.at_work()
        if took is None:
            return self.look_after()
        self.slowest = max(self.slowest, took)

    def look_after(self):
        """a sync that has ended is started again, after a moment"""
        if self.weir.running:
            return
        r = self.weir.ended()
        self.say("ended by itself:", r.out[-400:])
        may = "no server can be used|connecting at|Lost connection to server|TLS/SSL error: unexpected eof|make room on the file system"
        assert re.search(may, r.out), f"sync ended by itself:\n{r!r}"
        self.ended += 1
        time.sleep(1)
        self.start()

    def kinds(self):
        return {kind for _, kind, _ in self.later}

    # ---- what goes on for a while
    def for_a_while(self, kind, undo, seconds):
        self.later.append((time.monotonic() + seconds, kind, undo))

    def undo_due(self, everything=False, kind=None):
        for entry in list(self.later):
            if everything or kind == entry[1] or time.monotonic() >= entry[0]:
                self.later.remove(entry)
                entry[2]()

    @property
    def primary(self):
        return self.cluster.primary

    def wire(self, server):
        return self.wires[self.cluster.servers.index(server)]

    def followed(self):
        """the server that is captured"""
        port = int(self.weir.status()["source"]["address"].rpartition(":")[2])
        return next(s for s, w in zip(self.cluster.servers, self.wires) if w.port == port)

    # ---- faults
    def kill(self):
        self.weir.kill()
        self.start()

    def stop(self):
        self.undo_due(everything=True)
        if self.weir.at_work(60) is None:       # before it is there is nothing to finish: test_starting.py has that
            return self.look_after()
        self.weir.proc.send_signal(signal.SIGTERM)
        r = self.weir.ended(60)                 # a last commit that met a full disk is told, and made by the next start
        assert r.status == 0 or "No space left" in r.out, repr(r)
        self.start()

    def kill_in_commit(self):
        """when a commit's first data file is there"""
        folder = self.weir.home / ("warehouse" if backend.MODE == "local" else "cache")
        known, end = set(folder.rglob("*.parquet")), time.monotonic() + 4
        while time.monotonic() < end:
            if set(folder.rglob("*.parquet")) - known:
                time.sleep(self.rnd.uniform(0, 0.01))
                self.in_commit += 1
                break
            time.sleep(0.002)
        self.kill()

    def osc(self):
        """an online schema change, with a kill after some of its statements"""
        self.undo_due(everything=True)
        self.n += 1
        with self.primary.connect(database=DB) as con, con.cursor() as cur:
            cur.execute("SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = 'osc' AND COLUMN_NAME LIKE 'x%%'", (DB,))
            for (c,) in cur.fetchall()[:-5]:
                cur.execute(f"ALTER TABLE osc DROP COLUMN {c}")
            for statement in self.rnd.choice((GHOST, PTOSC)):
                cur.execute(statement.format(k=self.n, w=100 + self.n % 100))
                if self.rnd.random() < 0.3:
                    time.sleep(self.rnd.uniform(0, 0.5))
                    self.kill()

    def cut(self):
        w = self.rnd.choice(self.wires)
        w.cut()
        self.for_a_while("away", w.mend, self.rnd.uniform(0, 8))

    def stall(self):
        w = self.wire(self.primary)
        w.stall()
        self.for_a_while("away", w.mend, self.rnd.uniform(0.5, 25))

    def slow(self):
        for w in self.wires:
            w.slow(30000)
            self.for_a_while("slow", w.mend, 10)

    def freeze_source(self):
        pid = self.primary.pid
        os.kill(pid, signal.SIGSTOP)
        self.for_a_while("away", lambda: os.kill(pid, signal.SIGCONT), self.rnd.uniform(0.5, 15))

    def freeze_weir(self):
        p = self.weir.proc
        p.send_signal(signal.SIGSTOP)
        time.sleep(self.rnd.uniform(0.2, 12))
        p.send_signal(signal.SIGCONT)

    def restart_server(self):
        self.undo_due(kind="away")
        s, how = self.rnd.choice(self.cluster.servers), self.rnd.choice(("stop", "kill"))
        getattr(s, how)()
        time.sleep(self.rnd.uniform(0, 3))
        s.cnf["read_only"] = "OFF" if s is self.primary else "ON"
        s.start()

    def failover(self):
        """the primary goes, by a kill or in good order, when the other one has everything; it returns later as a replica"""
        self.undo_due(everything=True)
        old, new = self.primary, next(s for s in self.cluster.servers if s is not self.primary)
        with self.busy.paused():
            self.cluster.catch_up(new)
            self.rnd.choice((old.kill, old.stop))()
            self.cluster.promote(new)
            self.busy.server = new

        def back():
            old.cnf["read_only"] = "ON"
            old.start()
            self.cluster.forget(old)
            if self.cluster.flavor == "mariadb":
                old.sql("SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_binlog_pos")     # it was a primary, and has all of its own
            self.cluster.follow(old, new)
        self.for_a_while("away", back, self.rnd.uniform(0, 10))

    def rotate(self):
        """and what every replica and Weir have taken is removed"""
        self.undo_due(everything=True)
        for _ in range(self.rnd.randint(1, 3)):
            self.primary.sql("FLUSH BINARY LOGS")
        st = self.weir.status()
        if st["state"] == "streaming" and st.get("committed") and self.followed() is self.primary:
            with self.busy.paused():
                for s in self.cluster.servers:
                    self.cluster.catch_up(s)
            with contextlib.suppress(Exception):    # in use
                self.primary.sql(f"PURGE BINARY LOGS TO '{st['committed']['file']}'")

    def step_clock(self):
        self.clock.write_text(str(self.rnd.choice((-7200, -60, 0, 300, 86400))))

    def change_zone(self):
        for s in self.cluster.servers:
            if s.pid and "away" not in self.kinds():
                s.sql(f"SET GLOBAL time_zone = '{self.rnd.choice(('+00:00', '+09:00', '-11:30', 'SYSTEM'))}'")
        os.environ["TZ"] = self.rnd.choice(("UTC", "America/New_York", "Asia/Kolkata", "Europe/Berlin"))
        self.kill()

    def large(self):
        """an update of every row of a table, beside the load"""
        self.undo_due(kind="away")
        self.n += 1
        self.primary.sql(f"UPDATE big SET n = n + 1, v = REPEAT('{self.n % 10}', {self.rnd.randint(1, 100)})", db=DB)

    def full_disk(self):
        self.undo_due(kind="disk")
        filler = fill(self.disk)
        self.for_a_while("disk", filler.unlink, self.rnd.uniform(1, 12))

    def rewrite(self):
        """by somebody else, who writes a table's rows into new files: as a compaction does"""
        self.undo_due(kind="disk")
        for _ in range(5):
            with contextlib.suppress(CommitFailedException, ValidationException, NoSuchTableError, FileNotFoundError):
                tbl = self.lake.table(DB, self.rnd.choice(load.CHANGED))
                tbl.overwrite(tbl.scan().to_arrow(), snapshot_properties={"by": "storm"})
                self.say("  rewritten", tbl.name()[-1])
                return

    def store_away(self):
        p, before = backend.s3_proxy(), backend.FAULTS["refuse"]
        p.refuse = 1.0
        self.for_a_while("store", lambda: setattr(p, "refuse", before), self.rnd.uniform(2, 40))

    # ---- the storm
    def calm(self, readers=("pyiceberg",)):
        """everything is mended; -> when the lake has all"""
        self.undo_due(everything=True)
        end = time.monotonic() + CALM_SECONDS
        with self.busy.paused():
            self.look_after()
            while self.weir.run("wait", "--timeout", "30", status=None).status:
                assert time.monotonic() < end, f"not caught up {CALM_SECONDS} s after everything was mended: {json.dumps(self.weir.status())[:3000]}\n{self.weir.log_text()[-4000:]}"
                self.look_after()
            assert_equal(self.primary, self.lake, DB, TABLES, readers=readers, dangling="rewrite" in self.faults)
            extra = {t for ns, t in self.lake.tables() if ns == DB} - set(TABLES)
            assert not extra, f"in the lake, and nothing but helpers in the source: {extra}"
            assert self.weir.status()["anomalies"] == 0

    def run(self, seconds):
        while time.monotonic() - self.began < seconds:
            name = self.rnd.choices(*zip(*self.faults.items()))[0]
            self.done[name] = self.done.get(name, 0) + 1
            self.say(name, self.later and f"with {sorted(self.kinds())}" or "")
            getattr(self, name)()
            end = time.monotonic() + self.rnd.uniform(0.1, 5)
            while time.monotonic() < end:
                time.sleep(0.1)
                self.undo_due()
                self.look_after()
            assert self.busy.is_alive(), self.busy.error
            if sum(self.done.values()) % 10 == 0:
                self.calm()
                self.say("equal;", self.busy.committed, "transactions")


@pytest.fixture
def small_disk(tmp_path):
    """a folder that is a file system of its own, or None"""
    d = tmp_path / "disk"
    d.mkdir()
    mounted = not subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(d)], capture_output=True).returncode
    yield d if mounted else None
    if mounted:
        subprocess.run(["umount", "-l", str(d)])


def test_storm(cluster, make_weir, small_disk, tmp_path, monkeypatch, flavor):
    rnd = random.Random(f"{SEED} {flavor}")
    version = rnd.choice((2, 3))
    foreign = version == 2 and backend.MODE in ("local", "rest")         # what PyIceberg can write
    print(f"\nWEIR_SEED={SEED} WEIR_STORM_SECONDS={SECONDS:.0f} {flavor} WEIR_LAKE={backend.MODE} format version {version}")
    clock = tmp_path / "clock"
    clock.write_text("0")
    monkeypatch.setenv("WEIR_CLOCK", str(clock))
    monkeypatch.setenv("TZ", "UTC")
    c = cluster(2)
    load.create(c.primary, DB, rows=500)
    c.primary.sql("CREATE TABLE big (id INT PRIMARY KEY, n INT NOT NULL, v VARCHAR(100))", f"INSERT INTO big SELECT seq, 0, 'first' FROM ({numbers(999)}) s",
                  *[f"INSERT INTO big SELECT id + {1000 * 2**i}, n, v FROM big" for i in range(5)], "CREATE TABLE osc (id INT PRIMARY KEY, v VARCHAR(80))",
                  f"INSERT INTO osc SELECT seq, CONCAT('o', seq) FROM ({numbers(300)}) s", db=DB)
    wires = [Wire(s) for s in c.servers]
    weir = make_weir(c.primary, [rf"{DB}\..*"], {"source": {"url": wires[0].url(), "hosts": [f"127.0.0.1:{w.port}" for w in wires[1:]], "prefer": "any"}, "alarms": QUIET,
                                                 "policy": {"on_drop": "mirror"}, "lake": {"format_version": version}})
    if small_disk:
        backend.release(weir.home)
        weir.home = small_disk / "home"
        weir.config["home"] = str(weir.home)
        weir.config["lake"] |= backend.config(weir.home).get("lake", {})
        weir.write()
    try:
        with load.Load(c.primary, DB, rnd.random(), tmp_path / "journal") as busy:
            storm = Storm(c, wires, weir, busy, rnd, clock, small_disk, foreign)
            storm.start()
            try:
                storm.run(SECONDS)
            finally:
                storm.undo_due(everything=True)
                print(f"{time.monotonic() - storm.began:.0f} s, {storm.done}; {storm.restarts} starts, the slowest at work after {storm.slowest:.1f} s, {storm.in_commit} kills in a commit, {storm.ended} ended by "
                      f"themselves; {busy.committed} transactions, {busy.changes} changes ({busy.key_changes} of keys), {busy.ddl} schema changes, {busy.lost} lost connections")
        clock.write_text("0")
        storm.calm(readers=("pyiceberg", "duckdb"))
        missing = busy.journalled() - set(Lake(weir.home).table(DB, "ticks").scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())
        assert not missing, f"acknowledged and not in the lake: {sorted(missing)[:20]}"
        odd = [(i, n) for i, n in storm.lake.history_counts(DB, "w4")[-100:] if n % 2]
        assert not odd, f"snapshots of w4 that hold half a transaction (id, rows): {odd}"
        end = time.monotonic() + 90
        while (r := weir.run("alarms", status=(0, 1))).status:
            assert time.monotonic() < end, f"alarms stay open:\n{r!r}"
            time.sleep(1)
        weir.stop()
        weir.check()
        weir.run("compare")
        weir.assert_accounted()
    finally:
        for w in wires:
            w.close()
        weir.kill()
