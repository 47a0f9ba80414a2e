"""Faults of the source and of the machine that a sync must tell or survive: gaps of the log and the ways on, cuts, frozen servers, quiet tables, clocks, full disks, two of us."""
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time

import pytest
from harness import wait_until, writer
from harness.compare import assert_equal
from harness.failover import purge
from harness.lake import Lake
from harness.share import some
from harness.weir import BINARY
from harness.wire import Wire

pytestmark = pytest.mark.one_server
TABLES = ["a", "b", "bare", "quiet"]


@pytest.fixture
def source(own_server, make_weir):
    """source(cnf) -> (server, weir): a captured database d with rows, caught up"""
    def start(cnf=None, config=None):
        s = own_server(cnf)
        s.sql("CREATE DATABASE d", *[f"CREATE TABLE d.{t} (id INT PRIMARY KEY, v VARCHAR(40), n INT NOT NULL DEFAULT 1)" for t in ("a", "b", "quiet")],
              "CREATE TABLE d.bare (x INT, y VARCHAR(20))", "INSERT INTO d.quiet (id, v) VALUES (1, 'q')",
              "INSERT INTO d.a (id, v) SELECT seq, CONCAT('a', seq) FROM (" + numbers(300) + ") s", "INSERT INTO d.b (id, v) SELECT seq, CONCAT('b', seq) FROM (" + numbers(300) + ") s",
              "INSERT INTO d.bare VALUES (1, 'x'), (1, 'x'), (2, NULL)")
        w = make_weir(s, [r"d\..*"], config)
        w.catch_up()
        return s, w
    return start


def numbers(n):
    """SELECT of 1 … n as `seq`, on both servers"""
    digits = " UNION ALL ".join(f"SELECT {i} AS k" for i in range(10))
    return f"SELECT 1 + x.k + 10 * y.k + 100 * z.k AS seq FROM ({digits}) x, ({digits}) y, ({digits}) z HAVING seq <= {n}"


def change(server, tag):
    """changes of each kind in every table but `quiet`"""
    server.sql(f"UPDATE d.a SET v = '{tag}' WHERE id % 7 = 0", "DELETE FROM d.a WHERE id % 11 = 3", f"INSERT INTO d.a (id, v) SELECT 1000 + MAX(id), '{tag}' FROM d.a",
               f"UPDATE d.b SET id = id + 5000 WHERE id % 13 = 1 AND id < 5000", f"REPLACE INTO d.b (id, v) VALUES (2, '{tag}')", f"INSERT INTO d.bare VALUES (7, '{tag}')", "DELETE FROM d.bare WHERE x = 1 LIMIT 1")


def reset(server):
    time.sleep(1.1)     # a binlog's birth is known in whole seconds
    server.sql("RESET MASTER" if server.flavor == "mariadb" else "RESET BINARY LOGS AND GTIDS")


def position(server):
    return server.sql("SHOW MASTER STATUS" if server.flavor == "mariadb" else "SHOW BINARY LOG STATUS")[0][:2]


def is_loud(weir, *says):
    """a sync ends with an error that names position, table and reason, the status has it, and nothing was acknowledged"""
    before = Lake(weir.home).count("d", "a")
    r = weir.catch_up(status=1).says("first missing", r"bin[^ ]*\.0", "first available", r"d\.a", "--resnapshot", "--compare-and-repair", *says)
    st = weir.status()
    assert st["state"] == "failed" and st["error"]["code"] == "gap" and "first missing" in st["error"]["message"], st
    assert Lake(weir.home).count("d", "a") == before, "the lake went on over a gap"
    return r


def records(weir):
    return [json.loads(p.read_text()) for p in sorted((weir.home / "repair").glob("*.resume.json"))]


WAYS = {"resnapshot": ["--resnapshot"], "compare": ["--compare-and-repair"], "some": ["--resnapshot", "d.a"]}


# ---------------------------------------------------------------- gaps
@pytest.mark.parametrize("way", WAYS)
def test_logs_purged_while_away_and_the_ways_on(source, way):
    s, w = source()
    change(s, "seen")
    w.catch_up()
    change(s, "unseen")
    s.sql("ALTER TABLE d.b ADD c INT NOT NULL DEFAULT 7", "UPDATE d.b SET c = id WHERE id % 3 = 0", "CREATE TABLE d.fresh (id INT PRIMARY KEY)", "INSERT INTO d.fresh VALUES (1), (2)",
          "CREATE TABLE d.gone_again (id INT PRIMARY KEY)", "DROP TABLE d.gone_again", "RENAME TABLE d.quiet TO d.renamed")
    purge(s)
    change(s, "behind")
    is_loud(w, "purged")
    is_loud(w)                                  # and does not change its mind
    files = sorted(p.name for p in w.home.rglob("*.parquet"))
    r = w.run("resume", status=1).says("first missing", "first available", r"d\.a -> d\.a: about \d+ rows", r"d\.bare.*no key", r"d\.b .*definition changed", r"d\.quiet.*not in the source", "--resnapshot", "--compare-and-repair")
    assert sorted(p.name for p in w.home.rglob("*.parquet")) == files and not (w.home / "repair").exists(), r
    assert json.loads(w.run("resume", "--json", status=1).out)["state"] == "gap"
    r = w.run("resume", *WAYS[way], "--why", "ticket 4711").says("resumed")
    now = ["a", "b", "bare", "fresh", "renamed"]
    assert_equal(s, Lake(w.home), "d", now)
    assert {t["state"] for t in w.status()["tables"]} == {"streaming"}
    (rec,) = records(w)
    assert rec["why"] == "ticket 4711" and rec["asked_by"] and rec["done_at"] and rec["missing_from"] and rec["available_from"] and "purged" in rec["reason"], rec
    change(s, "later")
    s.sql("ALTER TABLE d.b ADD e INT NULL", "UPDATE d.b SET e = 3 WHERE id = 2", "INSERT INTO d.renamed (id) VALUES (5)", "DROP TABLE d.fresh")
    w.catch_up()
    assert_equal(s, Lake(w.home), "d", ["a", "b", "bare", "renamed"])
    w.run("resume").says("nothing is missing")
    w.run("resume", "--resnapshot", status=1).says("nothing is missing", "weir repair")
    w.run("compare")


@pytest.mark.parametrize("way", ["resnapshot", "compare"])
@pytest.mark.parametrize("how", ["down", "running", "beyond"])
def test_history_reset(source, how, way):
    """RESET while the sync is down, while it runs, and numbered beyond the saved file"""
    s, w = source()
    for _ in range(8):
        s.sql("FLUSH BINARY LOGS")
    change(s, "seen")
    w.catch_up()
    file, offset = position(s)
    if how == "running":
        w.start()
        w.wait()
    reset(s)
    for i in range(5):
        change(s, f"r{i}")
    if how == "beyond":
        while position(s)[0] <= file:
            s.sql("FLUSH BINARY LOGS")
        for i in range(20):
            change(s, f"beyond{i}")
    if how == "running":
        w.ended(60).says("gap|history|first missing", "first available")
        assert w.status()["error"]["code"] == "gap"
    is_loud(w)
    w.run("wait", "--timeout", "5", status=1)
    w.run("resume", *WAYS[way]).says("resumed")
    assert_equal(s, Lake(w.home), "d", TABLES)
    change(s, "later")
    w.catch_up()
    assert_equal(s, Lake(w.home), "d", TABLES)
    w.start()
    change(s, "live")
    w.wait()
    w.stop()
    assert_equal(s, Lake(w.home), "d", TABLES)


@pytest.mark.only_on("mysql", "MariaDB always has GTIDs")
def test_history_reset_without_gtids(own_server, make_weir):
    """file and offset are all there is to go by"""
    s = own_server({"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"})
    s.sql("CREATE DATABASE d", "CREATE TABLE d.a (id INT PRIMARY KEY, v VARCHAR(40), n INT NOT NULL DEFAULT 1)", "INSERT INTO d.a (id) VALUES (1), (2)")
    w = make_weir(s, [r"d\..*"])
    w.catch_up()
    _, offset = position(s)
    reset(s)
    while position(s)[1] < offset + 500:        # the very same file has that offset again
        s.sql("INSERT INTO d.a (id) SELECT MAX(id) + 1 FROM d.a")
    is_loud(w)
    w.run("resume", "--compare-and-repair").says("resumed")
    assert_equal(s, Lake(w.home), "d", ["a"])


POINTS = {"resnapshot": ["gap.noted", "gap.in_queue", "load.after_seal", "pipeline.after_commit:1", "pipeline.after_commit:2", "pipeline.after_commit:3"],
          "compare": ["gap.noted", "gap.in_queue", "prove.begin", "repair.read", "pipeline.after_commit:1", "pipeline.after_commit:2", "prove.begin:2"]}


@pytest.mark.parametrize("way", POINTS)
def test_killed_at_any_point_of_a_resume(source, way):
    """each time another gap; what was asked for is finished by the next sync"""
    s, w = source()
    reached, points = 0, some(POINTS[way], 4)
    for i, point in enumerate(points):
        change(s, f"unseen{i}")
        if i % 3 == 0:
            s.sql(f"ALTER TABLE d.b ADD c{i} INT DEFAULT {i}")
        purge(s)
        is_loud(w)
        reached += w.die(point if ":" in point else point + ":1", "resume", *WAYS[way])
        change(s, f"between{i}")
        if i % 2:
            w.start()
            change(s, f"live{i}")
            wait_until(lambda: all(t["state"] == "streaming" for t in w.status()["tables"]) or not w.running, 60, "proven tables")
            w.wait()
            w.stop()
        else:
            w.catch_up()
        assert_equal(s, Lake(w.home), "d", TABLES)
        assert len(records(w)) == i + 1 and all(r["done_at"] for r in records(w)), point
    assert reached >= len(points) - 1, reached


def test_killed_at_random_moments_of_a_resume_under_load(own_server, make_weir, flavor):
    seed = int(os.environ["WEIR_SEED"])
    rnd = random.Random(seed)
    s = own_server()
    s.sql("CREATE DATABASE d")
    writer.create(s, "d", rows=4000)
    w = make_weir(s, [r"d\..*"], {"name": f"load{seed % 100}"})
    w.catch_up()
    with writer.Writer(s, "d", seed, per_second=150) as busy:
        wait_until(lambda: busy.committed > 200, 60, "changes")
        purge(s)
        wait_until(lambda: busy.committed > 400, 60, "changes behind the gap")
        w.catch_up(status=1).says("first missing", "first available")
        p = subprocess.Popen([BINARY, "resume", "-c", w.file, rnd.choice(["--resnapshot", "--compare-and-repair"])], env=w.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rnd.uniform(2.3, 4))
        p.kill()
        p.wait()
        asked = any((w.home / "repair").glob("*resume.json"))
        for _ in range(6 if asked else 0):
            w.start()
            time.sleep(rnd.uniform(0.2, 3))
            w.kill()
        if not asked:
            w.run("resume", "--compare-and-repair")
        w.start()
        wait_until(lambda: not w.running or all(t["state"] == "streaming" for t in w.status()["tables"]), 120, "proven tables under load")
    w.wait()
    w.stop()
    assert_equal(s, Lake(w.home), "d", writer.TABLES)
    assert all(r["done_at"] for r in records(w))


# ---------------------------------------------------------------- before a gap comes
def keep_binlogs(server, seconds):
    server.sql(f"SET GLOBAL binlog_expire_logs_seconds = {seconds}")


def test_a_gap_is_announced(source):
    """retention against how far behind we are: a sync that hangs, and one that is down"""
    s, w = source()
    keep_binlogs(s, 30)
    w.check().lacks("binlog-left", "binlog-gap")
    w.proc = subprocess.Popen([BINARY, "sync", "-c", w.file], env={**w.env, "WEIR_FAULT": "capture.commit:3:stall=45000"}, stdin=subprocess.DEVNULL, stdout=open(w.log, "ab"), stderr=subprocess.STDOUT)
    wait_until(lambda: w.status()["pid"] == w.proc.pid and w.status().get("retention"), 20, "a first look")
    assert not w.status()["retention"].get("warning")
    for i in range(40):
        s.sql(f"INSERT INTO d.a (id, v) VALUES ({20000 + i}, REPEAT('x', 40))", "INSERT INTO d.bare SELECT 5, REPEAT('y', 20) FROM d.a")
    wait_until(lambda: w.status().get("retention", {}).get("warning"), 45, "the warning of a running sync")
    w.run("status").says(r"retention +warning: the source keeps its binlog for")
    wait_until(lambda: "keeps its binlog" in w.log_text(), 10, "the warning in the log")
    w.check().says("binlog-left", "keeps its binlog")
    w.kill()
    wait_until(lambda: "nothing has been captured for" in w.run("status").out, 30, "the warning of a sync that is down")
    w.check().says("binlog-left")
    w.catch_up()
    w.check().lacks("binlog-left")
    s.sql("INSERT INTO d.a (id) VALUES (30000)")
    purge(s)
    w.check(status=1).says("binlog-gap", "first position available", "weir resume")


# ---------------------------------------------------------------- cuts, frozen servers, quiet tables
@pytest.mark.parametrize("cut", [False, True])
def test_network_lost_in_the_middle_of_a_large_transaction(source, cut):
    s, w = source({"max_allowed_packet": "64M"})
    s.sql("CREATE TABLE d.large (id INT PRIMARY KEY, b LONGBLOB)")
    wire = Wire(s)
    wire.stall_after(15_000_000)
    w.config["source"]["url"] = wire.url()
    w.write()
    try:
        w.start()
        w.wait()
        with s.connect(autocommit=False) as con, con.cursor() as cur:       # about 60 MB of binlog, and a small table beside it
            for i in range(30):
                cur.execute("INSERT INTO d.large SELECT %s * 100 + k, REPEAT(CHAR(97 + k), 200000) FROM (SELECT 0 AS k UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) x", (i,))
            cur.execute("INSERT INTO d.a (id, v) VALUES (900001, 'with the large one')")
            con.commit()
        assert wire.held.wait(60), "the wire was never cut"
        wait_until(lambda: w.status()["state"] == "silent" and not w.status()["source"]["answers"], 60, "a status that says so")
        lake = Lake(w.home)
        assert lake.count("d", "large") == 0 and lake.count("d", "a") == 300
        s.sql("INSERT INTO d.a (id, v) VALUES (900002, 'meanwhile')")
        wire.mend(cut)
        w.wait()
        assert w.status()["source"]["answers"]
        w.stop()
        assert_equal(s, lake, "d", TABLES + ["large"])
    finally:
        w.kill()
        wire.close()


def test_a_frozen_source_is_not_a_quiet_one(source):
    s, w = source()
    w.start()
    w.wait()
    time.sleep(12)
    assert w.status()["state"] == "streaming" and w.status()["source"]["answers"]
    w.run("status").says("source answers")
    os.kill(s.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: w.status()["state"] == "silent", 30, "silence to be told")
        w.run("status").says("source not answering")
        wait_until(lambda: w.status()["state"] == "reconnecting", 90, "another connection to be tried")
        assert not w.status()["source"]["answers"] and w.status()["error"]["code"] == "net"
        w.run("status").says("source not answering")
    finally:
        os.kill(s.pid, signal.SIGCONT)
    change(s, "thawed")
    w.wait(90)
    w.stop()
    assert_equal(s, Lake(w.home), "d", TABLES)


def test_quiet_tables_do_not_hold_the_position_back(own_server, make_weir, flavor):
    """logs that only others wrote to are rotated away"""
    s = own_server()
    s.sql("CREATE DATABASE d", "CREATE DATABASE o", "CREATE TABLE d.quiet (id INT PRIMARY KEY)", "INSERT INTO d.quiet VALUES (1)", "CREATE TABLE o.noise (id INT PRIMARY KEY AUTO_INCREMENT, v CHAR(200))")
    w = make_weir(s, [r"d\.quiet"])
    w.start()
    w.wait()
    before = w.status()["committed"]
    for i in range(20):
        s.sql("INSERT INTO o.noise (v) VALUES ('x')", "FLUSH BINARY LOGS")
    w.wait()
    assert w.status()["committed"]["file"] > before["file"]
    w.kill()
    purge_all_but = s.sql("SHOW BINARY LOGS")[-1][0]
    wait_until(lambda: (s.sql(f"PURGE BINARY LOGS TO '{purge_all_but}'"), len(s.sql("SHOW BINARY LOGS")) == 1)[1], what="the old logs to go")
    s.sql("INSERT INTO d.quiet VALUES (2)")
    w.catch_up()
    assert_equal(s, Lake(w.home), "d", ["quiet"])


# ---------------------------------------------------------------- two of us
def test_a_stopped_sync_keeps_its_home(source):
    """no take-over while the first one lives, not even when it does not move"""
    s, w = source()
    w.start()
    w.wait()
    w.proc.send_signal(signal.SIGSTOP)
    try:
        change(s, "meanwhile")
        w.catch_up(status=1).says("is held by process", str(w.proc.pid), "one writer")
        w.run("resume", status=1).says("is held by process")
    finally:
        w.proc.send_signal(signal.SIGCONT)
    w.wait()
    w.stop()
    assert_equal(s, Lake(w.home), "d", TABLES)


def test_a_zombie_cannot_commit(source):
    """someone removes the locks of a process that seems dead, and starts another one"""
    s, w = source()
    w.start()
    w.wait()
    zombie, w.proc = w.proc, None
    change(s, "on its way")
    zombie.send_signal(signal.SIGSTOP)
    try:
        for lock in (w.home / "lock", w.home / "queue" / "lock"):
            lock.unlink()
        change(s, "meanwhile")
        w.catch_up()
        w.start()
        w.wait()
        zombie.send_signal(signal.SIGCONT)
        for i in range(10):
            change(s, f"both{i}")
            time.sleep(0.3)
        assert zombie.wait(60) == 1, "the zombie went on"
    finally:
        zombie.kill()
    w.wait(90)
    w.stop()
    assert "taken over" in w.log.read_text()
    w.died = True       # what the zombie had counted last is nobody's to finish
    assert_equal(s, Lake(w.home), "d", TABLES)
    w.run("compare")


# ---------------------------------------------------------------- clocks and zones
def test_the_clock_of_the_machine_steps(source, tmp_path):
    """two hours back, a day forward, and right again, under load"""
    s, w = source()
    writer.create(s, "d", rows=500)
    clock = tmp_path / "clock"
    clock.write_text("0")
    w.proc = subprocess.Popen([BINARY, "sync", "-c", w.file], env={**w.env, "WEIR_CLOCK": str(clock)}, stdin=subprocess.DEVNULL, stdout=open(w.log, "ab"), stderr=subprocess.STDOUT)
    w.wait()
    with writer.Writer(s, "d", 12, per_second=150) as busy:
        for step in ("-7200", "86400", "-86400", "0"):
            done = busy.committed
            wait_until(lambda: busy.committed > done + 150, 60, "changes")
            clock.write_text(step)
            before = w.status()["queue"]["committed_offset"]
            wait_until(lambda: w.status()["queue"]["committed_offset"] > before + 20, 30, f"commits after a step to {step} s")
            assert w.status()["state"] in ("streaming", "loading")
    w.wait()
    w.stop()
    lake = Lake(w.home)
    assert_equal(s, lake, "d", [*TABLES, *writer.TABLES])
    offsets = [int(x.summary["weir.offset"]) for x in lake.table("d", "by_id").snapshots() if x.summary and "weir.offset" in x.summary.additional_properties]
    assert offsets == sorted(offsets) and len(offsets) > 4, "commits are in the order of the source"
    w.run("compare")


def test_zones_of_server_and_machine_change_between_runs(own_server, make_weir, monkeypatch):
    """instants stay what they are, around both hours that a summer time makes odd, too"""
    s = own_server()
    s.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, ts TIMESTAMP(6) NULL, dt DATETIME(3) NULL, t TIME NULL, d DATE NULL, made TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3))")
    odd = [1711846799, 1711846800, 1711846801, 1729987199, 1729987200, 1729990800, 1729990801, 86400, 2000000000]      # Berlin 2024: 31 March and 27 October, 01:00 UTC
    w = make_weir(s, [r"d\..*"])
    zones = [("+00:00", "UTC"), ("+09:00", "America/New_York"), ("-11:30", "Asia/Kolkata"), ("SYSTEM", "Europe/Berlin")]
    for n, (of_server, of_machine) in enumerate(zones):
        s.sql(f"SET GLOBAL time_zone = '{of_server}'")
        monkeypatch.setenv("TZ", of_machine)
        with s.connect(database="d", autocommit=True) as con, con.cursor() as cur:
            for session in (of_server, "+05:45", "-03:00"):
                cur.execute("SET time_zone = %s", (session,))
                for e in odd:
                    cur.execute("INSERT INTO t (ts, dt, t, d) VALUES (FROM_UNIXTIME(%s + 0.25), FROM_UNIXTIME(%s), '-101:02:03', '2024-03-31')", (e, e))
            cur.execute("UPDATE t SET ts = ts + INTERVAL 1 HOUR WHERE id %% 5 = %s", (n,))
            cur.execute(f"ALTER TABLE t ADD c{n} TIMESTAMP NULL DEFAULT '2024-03-31 12:30:00'")
        w.catch_up()
        assert_equal(s, Lake(w.home), "d", ["t"])
    w.start()
    s.sql("UPDATE d.t SET dt = ts, made = made", "INSERT INTO d.t (ts) VALUES (FROM_UNIXTIME(1729990800))")
    w.wait()
    w.stop()
    assert_equal(s, Lake(w.home), "d", ["t"])


# ---------------------------------------------------------------- full disks
@pytest.fixture
def small_disk(tmp_path):
    """small_disk(name, MB) -> folder that is a file system of its own"""
    made = []

    def mount(name, mb):
        d = tmp_path / name
        d.mkdir()
        r = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mb}m", "tmpfs", str(d)], capture_output=True, text=True)
        if r.returncode:
            pytest.skip(f"small file systems cannot be mounted here: {r.stderr.strip()}")
        made.append(d)
        return d
    yield mount
    for d in made:
        subprocess.run(["umount", "-l", str(d)])


def fill(folder):
    """to the last byte; -> the file that does it"""
    filler = folder / "filler"
    with open(filler, "ab", buffering=0) as f:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    f.write(b"x" * size)
    return filler


@pytest.mark.local_lake("the warehouse is a folder here")
def test_disk_full_within_a_commit(own_server, make_weir, small_disk):
    """struck when a commit's data files are there and its snapshot is not; the one before stays readable"""
    s = own_server()
    s.sql("CREATE DATABASE d")
    writer.create(s, "d", rows=300)
    disk = small_disk("warehouse", 64)
    w = make_weir(s, [r"d\..*"], {"lake": {"warehouse": str(disk / "warehouse")}})
    w.start()
    w.wait()
    lake = Lake(w.home)
    with writer.Writer(s, "d", 9, per_second=150) as busy:
        for _ in range(3):
            known = set(disk.rglob("*.parquet"))
            wait_until(lambda: set(disk.rglob("*.parquet")) - known, 30, "a commit's first file", every=0.001)
            filler = fill(disk)
            wait_until(lambda: w.status().get("error", {}).get("code") == "nospc", 60, "a status that says so")
            for t in writer.TABLES:
                assert lake.count("d", t) >= 0
            filler.unlink()
            done = busy.committed
            wait_until(lambda: w.status()["state"] == "streaming" and "error" not in w.status() and busy.committed > done + 50, 60, "recovery")
    w.wait()
    w.stop()
    assert_equal(s, lake, "d", writer.TABLES)
    w.run("compare")


@pytest.mark.local_lake("the warehouse is a folder here")
def test_a_start_on_a_full_disk_says_where_room_is_needed(own_server, make_weir, small_disk):
    s = own_server()
    s.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 1)")
    w = make_weir(s, [r"d\..*"])
    disk = small_disk("disk", 64)
    w.home = disk / "home"
    w.config["home"] = str(w.home)
    w.config["lake"]["warehouse"] = str(disk / "warehouse")
    w.write()
    w.start()
    w.wait()
    s.sql("INSERT INTO d.t VALUES (2, 2)")
    w.kill()
    for shared in w.home.glob("*.db-shm"):      # SQLite makes them anew at each start, mostly in the room of those before
        shared.unlink()
    filler = fill(disk)
    w.start()
    assert w.ended().says("no space left", f"make room on the file system that holds {disk}").status == 1
    filler.unlink()
    w.catch_up()
    assert_equal(s, Lake(w.home), "d", ["t"])


@pytest.mark.local_lake("the warehouse is a folder here")
@pytest.mark.parametrize("what", ["home", "warehouse"])
def test_disk_full_under_load(own_server, make_weir, small_disk, what):
    s = own_server()
    s.sql("CREATE DATABASE d")
    writer.create(s, "d", rows=500)
    w = make_weir(s, [r"d\..*"])
    disk = small_disk(what, 64)
    if what == "home":
        w.config["home"] = str(disk / "home")
        w.home = disk / "home"
        w.config["lake"]["warehouse"] = str(w.dir / "warehouse")
    else:
        w.config["lake"]["warehouse"] = str(disk / "warehouse")
    w.write()
    w.start()
    w.wait()
    lake = Lake(w.home)
    with writer.Writer(s, "d", 8, per_second=150) as busy:
        wait_until(lambda: busy.committed > 200, 60, "changes")
        filler = fill(disk)
        wait_until(lambda: not w.running or re.search("no space|nospc|full", w.run("status", status=None).out.lower()), 60, "a status that says so")
        assert w.running, w.log_text()
        rows = lake.count("d", "by_id")                 # readable, with what was committed
        time.sleep(5)
        assert w.running and (what == "home" or lake.count("d", "by_id") == rows)
        filler.unlink()
        freed = w.status()["queue"]["committed_offset"]
        wait_until(lambda: w.status()["state"] == "streaming" and w.status()["queue"]["committed_offset"] > freed + 50 and "error" not in w.status(), 60, "recovery")
    w.wait()
    w.stop()
    assert_equal(s, lake, "d", writer.TABLES)
