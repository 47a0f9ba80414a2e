"""The ledger: what it counts, and what it says when something is lost on the way. That nothing is an alarm where nothing is wrong is asserted after every test of
the whole suite (Weir.assert_accounted)."""
import os
import re
import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from harness import wait_until
from harness.compare import assert_equal
from harness.lake import Lake

WAIT = 60


@contextmanager
def fault(spec):
    """of every Weir that is started inside"""
    os.environ["WEIR_FAULT"] = spec
    try:
        yield
    finally:
        del os.environ["WEIR_FAULT"]


@pytest.fixture
def tables(server, db):
    server.sql("CREATE TABLE orders (id INT PRIMARY KEY, v INT, s VARCHAR(100))", "CREATE TABLE notes (a INT, b VARCHAR(20))", db=db)


@pytest.fixture
def damaged(weir):
    """a pipeline whose ledger must hold alarms in the end"""
    weir.assert_accounted = lambda: None
    return weir


def alarms_of(weir, want=1, seconds=WAIT):
    """-> alarms, once there are as many"""
    began = time.monotonic()
    while True:
        found = weir.ledger()[1]
        if len(found) >= want:
            return found
        assert time.monotonic() - began < seconds, f"no alarm in {seconds} s: {found}\n{weir.log_text()}"
        time.sleep(0.2)


def totals(weir, table):
    lines = [x for x in weir.ledger()[0] if x["table"] == table]
    return {k: sum(x[k] for x in lines) for k in ("captured", "queued", "consumed", "passed", "written", "inserts", "updates", "deletes")}


def test_every_change_is_counted_at_every_point(server, db, weir, tables):
    weir.catch_up()
    if time.time() % 60 > 40:               # all within one minute: the ledger counts by minutes
        time.sleep(60 - time.time() % 60)
    server.sql("INSERT INTO orders SELECT seq, seq, 'x' FROM seq_1_to_500" if server.flavor == "mariadb" else
               "INSERT INTO orders WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT i, i, 'x' FROM n",
               "UPDATE orders SET v = v + 1 WHERE id <= 200", "UPDATE orders SET id = id + 1000 WHERE id <= 10", "DELETE FROM orders WHERE id BETWEEN 100 AND 150",
               "INSERT INTO notes VALUES (1, 'x'), (1, 'x'), (NULL, NULL)", "DELETE FROM notes WHERE a = 1 LIMIT 1", db=db)
    weir.catch_up()
    assert totals(weir, f"{db}.orders") == {"captured": 761, "queued": 761, "consumed": 761, "passed": 0, "written": 761, "inserts": 500, "updates": 210, "deletes": 51}
    assert totals(weir, f"{db}.notes") == {"captured": 4, "queued": 4, "consumed": 4, "passed": 0, "written": 4, "inserts": 3, "updates": 0, "deletes": 1}
    x = weir.ledger()[0][0]["delay_ms"]
    assert 0 <= x["captured"]["mean"] <= x["queued"]["mean"] + 1 and x["written"]["max"] < 60_000
    weir.run("ledger").says(r"761 .* 100\.00 %", "alarms +none", rf"#  {db}\.orders")
    weir.run("ledger", f"{db}.orders").says(r"\d\d:\d\d +761 +761 +761 +0 +761 +100")
    weir.run("ledger", "--from", "1h", "--prometheus").says(rf'weir_ledger_changes\{{pipeline="test",table="{db}\.orders",point="written"\}} 761', r"weir_ledger_alarms\{.*\} 0")
    weir.run("ledger", "--to", "2020-01-01").says("no row was changed")
    weir.run("ledger", "--from", "yesterday", status=2).says("takes a time like")
    weir.run("ledger", f"{db}.none").says("no row was changed")


def test_a_ledger_that_is_not_there_yet_says_what_to_do(weir, tables):
    weir.run("ledger", status=1).says("no ledger", "weir sync")


def test_what_rules_keep_out_and_loads_bring_is_passed(server, db, make_weir, tables):
    weir = make_weir(server, [rf"{db}\..*"], config={"transform": {"rules": [{"table": rf"{db}\.orders", "filter": "v < 100"}]}})
    weir.catch_up()
    server.sql(*[f"INSERT INTO orders VALUES ({i}, {i * 10}, 'x')" for i in range(20)], db=db)
    weir.catch_up()
    assert {k: v for k, v in totals(weir, f"{db}.orders").items() if v} == {"captured": 20, "queued": 20, "consumed": 20, "passed": 10, "written": 10, "inserts": 20}


HARM = {
    "capture.lose": ("captured-queued", "1 inserts are missing"), "capture.double": ("captured-queued", "1 inserts are too many"),
    "capture.swap": ("captured-queued", "not in the same order"), "consume.lose": ("queued-consumed", "1 inserts are missing"), "consume.double": ("queued-consumed", "1 inserts are too many"),
}


@pytest.mark.parametrize("point", HARM)
def test_a_change_lost_doubled_or_displaced_on_the_way_is_named_within_a_minute(server, db, damaged, tables, point):
    hop, text = HARM[point]
    damaged.catch_up()
    stop = threading.Event()

    def write():
        for i in range(100_000):
            if stop.is_set():
                return
            server.sql("INSERT INTO orders VALUES " + ",".join(f"({i * 50 + k}, {k}, 'x')" for k in range(50)), "INSERT INTO notes VALUES (1, 'y')", db=db)
            time.sleep(0.1)
    writer = threading.Thread(target=write)
    with fault(f"{point}:120:fail"):
        damaged.start()
    writer.start()
    try:
        began = time.monotonic()
        found = alarms_of(damaged)
        seconds = time.monotonic() - began
    finally:
        stop.set()
        writer.join()
    assert seconds < 60
    first = [a for a in found if a["alarm"] == hop]
    assert first and first[0]["table"] == f"{db}.orders" and text in first[0]["text"], found
    assert re.match(time.strftime("%Y-%m-%dT", time.gmtime()), first[0]["minute"])
    damaged.run("ledger", status=1).says(hop, f"{db}.orders")
    time.sleep(1)      # status.json is written four times a second
    assert damaged.status()["ledger_alarms"] >= 1
    damaged.run("status").says("weir ledger tells which")
    damaged.stop()


@pytest.mark.parametrize("damage", ["bit", "cut", "gone"])
@pytest.mark.local_lake("the file is damaged where it lies")
def test_what_the_lake_does_not_hold_after_its_commit_is_named(server, db, damaged, tables, damage):
    damaged.catch_up()
    before = set(damaged.home.rglob("*.parquet"))
    with fault("ledger.read:1:stall=4000"):
        damaged.start()
    server.sql("INSERT INTO orders VALUES " + ",".join(f"({i}, {i * 7919 % 1000}, '{'%x' % (i * 2654435761 % 2**32)}')" for i in range(3000)), db=db)
    damaged.wait()
    [file] = set(damaged.home.rglob("*.parquet")) - before
    if damage == "gone":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        if damage == "bit":
            data[len(data) // 3] ^= 4
        else:
            del data[-100:]
        file.write_bytes(data)
    [alarm] = alarms_of(damaged)
    assert alarm["alarm"] == "consumed-written" and alarm["table"] == f"{db}.orders", alarm
    damaged.stop()


def test_alarms_are_acknowledged_and_kept(server, db, damaged, tables):
    """by who has looked into them, while the sync runs; and a file of the first version knows the columns then"""
    damaged.catch_up()
    with fault("capture.lose:3:fail"):
        damaged.start()
        for i in range(5):
            server.sql(f"INSERT INTO orders VALUES ({i}, 1, 'x')", db=db)
        damaged.wait()
        found = alarms_of(damaged)
        damaged.stop()
    with closing(sqlite3.connect(damaged.home / "ledger.db", isolation_level=None)) as con:
        for column in ("acknowledged_us", "acknowledged_by", "why"):
            con.execute(f"ALTER TABLE alarm DROP COLUMN {column}")
        con.execute("PRAGMA user_version = 1")
    assert damaged.ledger("--all")[1] == found
    damaged.run("ledger", "--acknowledge", "nothing", status=1).says("no open alarm")
    damaged.run("ledger", "--acknowledge", found[0]["id"], "--why", "ticket 4711").says("1 acknowledged")
    damaged.run("ledger", "--acknowledge", found[0]["id"], status=1)
    damaged.run("ledger", "--acknowledge", "all", "--json", status=2)
    damaged.run("ledger", "--why", "x", status=2)
    assert [a["id"] for a in damaged.ledger()[1]] == [a["id"] for a in found[1:]]
    damaged.start()
    if found[1:]:
        damaged.run("ledger", "--acknowledge", "all").says(f"{len(found) - 1} acknowledged")
    damaged.run("ledger", status=0).says("alarms +none")
    damaged.run("ledger", "--all", status=0).says("ticket 4711", "acknowledged .* by ")
    everything = damaged.ledger("--all")[1]
    assert {a["id"] for a in everything} == {a["id"] for a in found} and all(a["acknowledged"] and a["acknowledged_by"] for a in everything)
    wait_until(lambda: damaged.status()["ledger_alarms"] == 0, what="the running sync to know")


@pytest.mark.one_server
def test_a_source_of_which_nothing_is_captured_is_no_idle_source(server, db, damaged, tables):
    damaged.catch_up()
    with fault("capture.commit:3:stall=300000"):
        damaged.start()
    began = time.monotonic()
    while not damaged.ledger()[1]:
        server.sql("INSERT INTO notes VALUES (1, 'z')", db=db)
        time.sleep(1)
        assert time.monotonic() - began < 120, damaged.log_text()
    [alarm] = damaged.ledger()[1]
    assert alarm["alarm"] == "source-captured" and "for " in alarm["text"], alarm
    damaged.kill()
    damaged.catch_up()
    assert totals(damaged, f"{db}.notes")["captured"] == totals(damaged, f"{db}.notes")["written"] > 30


@pytest.mark.one_server
def test_an_idle_source_is_no_alarm(server, db, weir, tables):
    weir.start()
    weir.wait()
    time.sleep(50)
    assert weir.ledger()[1] == []
    weir.run("ledger").says("source +idle")
    weir.stop()


def test_kills_at_every_moment_leave_the_counts_exact(server, db, weir, tables):
    weir.catch_up()
    n = 0
    for point in ("pipeline.after_commit", "lake.before_commit", "ledger.read", "capture.commit"):
        for nth in (1, 2, 4):
            server.sql(*[f"INSERT INTO orders VALUES ({n + i}, 1, 'k')" for i in range(40)], f"UPDATE orders SET v = v + 1 WHERE id >= {n}", db=db)
            n += 40
            weir.catch_up_and_die(f"{point}:{nth}")
    weir.catch_up()
    t = totals(weir, f"{db}.orders")
    assert t["captured"] == t["queued"] == t["consumed"] == t["written"] == 2 * n, t


def files_beside(weir, lake, db, name):
    """-> data files of a table's folder that its snapshot does not name"""
    named = {Path(f.file.file_path).name for f in lake.table(db, name).scan().plan_files()}
    return {p.name for p in (weir.home / "warehouse" / db).glob(f"{name}-*/data/**/*.parquet")} - named


@pytest.mark.one_server
@pytest.mark.local_lake("what a compaction has written is looked for in its folder")
def test_files_of_a_compaction_that_was_overtaken_are_not_missed(server, db, make_weir, tables):
    """The commit of a compaction, at the offset of the last one, brings the deletes of meanwhile. Somebody else's comes first: its files go, and the ledger, which comes to its receipt later, must not miss them."""
    weir = make_weir(server, [rf"{db}\..*"], {"lake": {"format_version": 2}})      # which PyIceberg writes
    weir.catch_up()
    lake = Lake(weir.home)
    with fault("lake.compact:1:stall=12000," + ",".join(f"ledger.read:{n}:stall=700" for n in range(1, 150))):
        weir.start()
    n = 0
    while not files_beside(weir, lake, db, "orders"):
        assert n < 4000, weir.log_text()
        server.sql("INSERT INTO orders VALUES " + ", ".join(f"({n + i}, 1, 'k')" for i in range(50)), db=db)
        weir.wait()
        n += 50
    began = time.monotonic()
    server.sql("DELETE FROM orders WHERE id % 7 = 3", db=db)
    weir.wait()
    with lake.table(db, "orders").transaction() as theirs:
        theirs.set_properties({"theirs": "1"})
    assert time.monotonic() - began < 11, "the compaction has been faster"
    wait_until(lambda: "going back to the last commit" in weir.log_text(), WAIT, "the commit that was overtaken")
    server.sql("INSERT INTO orders VALUES (-1, 1, 'k')", db=db)
    weir.wait()
    time.sleep(10)      # all is read back
    assert weir.ledger()[1] == []
    weir.stop()
    assert_equal(server, lake, db, ["orders"])


def test_a_queue_that_is_full_of_what_the_lake_has_goes_on(server, db, make_weir):
    """the ledger lets go of changes later than the lake commits them; when the queue is full by then, no further commit comes"""
    server.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(400))", "INSERT INTO t VALUES " + ",".join(f"({i}, '')" for i in range(1200)), db=db)
    weir = make_weir(server, [rf"{db}\..*"], {"queue": {"bytes": "1MiB"}, "lake": {"commit": {"every": "50ms"}}})
    weir.catch_up()
    noise = [", ".join(f"SHA2(CONCAT(id, '-{k}-{i}'), 256)" for i in range(6)) for k in range(9)]
    server.sql(*[f"UPDATE t SET v = CONCAT({n})" for n in noise], db=db)
    with fault(",".join(f"ledger.commit:{n}:stall=700" for n in range(1, 7))):
        weir.catch_up()
    assert totals(weir, f"{db}.t")["written"] == 1200 * 9
