"""Faults that kill Weir, and one that takes its memory: kill -9 at random moments and inside commits (F1), during a load (F2), after every statement of an online schema change (F3), and
transactions and rows that are larger than the memory it may have (F13).

Scaled down and on one server unless WEIR_FAULTS=full; WEIR_SEED repeats one."""
import hashlib
import json
import os
import random
import sqlite3
import time

import pytest
import run_cases
from harness import case_faults, load, wait_until
from harness.compare import assert_equal
from harness.lake import Lake
from harness.memory import MemoryLimit
from harness.share import FULL
from test_cases import FOLDERS
from test_source_faults import numbers

pytestmark = pytest.mark.one_server
SEED = int(os.environ["WEIR_SEED"])
RESTART_SECONDS = 30


def rows_read(server):
    """in the order of a key: by Weir's chunks, and not by changes of single rows"""
    return int(server.sql("SHOW GLOBAL STATUS LIKE 'Handler_read_next'")[0][1])


def grow(server, table, rows):
    """table: with columns id and others; sparse ids: multiples of 1000003, modulo a prime"""
    n = 999
    while n < rows:
        more = min(n, rows - n)
        server.sql(f"INSERT INTO {table} SELECT id + {n} * 1000003, n, v FROM {table} ORDER BY id LIMIT {more}")
        n += more
    return n


# ---------------------------------------------------------------- F1
@pytest.mark.local_lake("it watches the warehouse's folder")
def test_kill_9_at_random_moments_and_within_commits(server, db, make_weir, tmp_path):
    """Load of 300 changes a second with schema changes, a commit every two seconds; Weir is killed again and again and started at once. Ten kills fall within a commit: a data file is there,
    and its table still is where it was. In the end source and lake are equal, no snapshot holds half a transaction, no start took 30 s, and of aborted commits no file is left."""
    seconds, strikes, longest = (600, 10, 15) if FULL else (25, 4, 3)
    print(f"\nWEIR_SEED={SEED}")
    rnd = random.Random(f"{SEED} kills")
    load.create(server, db, rows=500)
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"commit": {"every": "2s"}}})
    lake, warehouse = Lake(w.home), w.home / "warehouse"
    w.catch_up()

    def heads():
        with sqlite3.connect(f"file:{w.home}/catalog.db?mode=ro", uri=True) as con:
            return dict(con.execute("SELECT table_name, metadata_location FROM iceberg_tables"))

    def strike():
        """killed when a data file appears; -> files of a commit that did not come to be"""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            before, files = heads(), set(warehouse.rglob("*.parquet"))
            time.sleep(0.001)
            new = set(warehouse.rglob("*.parquet")) - files
            if new:
                w.kill()
                after = heads()
                place = {t: after[t].removeprefix("file://").rpartition("/metadata/")[0] for t in after}
                return {f for f in new for t in after if str(f).startswith(place[t] + "/") and before.get(t) == after[t]}
        raise AssertionError("no commit within 20 s")

    kills, inside, slowest, torn = 0, 0, 0, set()
    with load.Load(server, db, rnd.random(), tmp_path / "journal", ddl_every=30 if FULL else 5) as busy:
        began = time.monotonic()
        while time.monotonic() - began < seconds or inside < strikes:
            assert time.monotonic() - began < 4 * seconds + 60, f"only {inside} kills fell within a commit"
            w.start()
            took = w.at_work(RESTART_SECONDS)
            assert took is not None, w.log_text()
            slowest = max(slowest, took)
            if torn:
                wait_until(lambda: not any(f.exists() for f in torn), 10, "files of an aborted commit to be removed")
            torn = set()
            if rnd.random() < 0.6:
                torn = strike()
                inside += bool(torn)
            else:
                time.sleep(rnd.uniform(0.2, longest))
                assert w.kill(), f"sync ended by itself:\n{w.log_text()}"
            kills += 1
            assert lake.count(db, "w4") % 2 == 0, "half a transaction"
        assert busy.is_alive(), busy.error
    w.start()
    w.wait(120)
    w.stop()
    print(f"{kills} kills, {inside} within a commit, the slowest start took {slowest:.2f} s; {busy.committed} transactions, {busy.changes} changes, {busy.key_changes} of keys, {busy.ddl} schema changes")
    assert_equal(server, lake, db, load.TABLES)
    assert not busy.journalled() - set(lake.table(db, "ticks").scan().to_arrow()["id"].to_pylist())
    odd = [(i, n) for i, n in lake.history_counts(db, "w4") if n % 2]
    assert not odd, f"snapshots of w4 that hold half a transaction (id, rows): {odd}"
    w.run("optimize", "--orphans", "--older-than", "0s").says("0 files")


# ---------------------------------------------------------------- F2
def test_kill_9_during_a_load_does_not_read_again(own_server, make_weir, tmp_path):
    """A table with a sparse key changes 500 times a second while it is loaded, and Weir is killed at 30, 60 and 95 % of its rows. What was read is not read again (the server counts), no row is there
    twice."""
    rows = 5_000_000 if FULL else 300_000
    s = own_server()
    s.sql("CREATE DATABASE d", "CREATE TABLE d.big (id BIGINT PRIMARY KEY, n INT NOT NULL, v VARCHAR(60))", f"INSERT INTO d.big SELECT seq * 1000003, 0, CONCAT('row ', seq) FROM ({numbers(999)}) s")
    rows = grow(s, "d.big", rows)
    w = make_weir(s, [r"d\.big"], {"snapshot": {"rows_per_second": rows // 30}})
    before, rnd = rows_read(s), random.Random(SEED)

    def change(cur):
        for _ in range(25):
            cur.execute("UPDATE big SET n = n + 1 WHERE id = %s", (rnd.randint(1, rows) * 1000003,))

    def loaded():
        return (rows_read(s) - before) / rows
    with s.connect(database="d") as con, con.cursor() as cur:
        for part in (0.3, 0.6, 0.95):
            w.start()
            while loaded() < part:
                assert w.running, w.log_text()
                change(cur)
                time.sleep(0.05)
            w.kill()
        w.start()
        while {t["state"] for t in w.status()["tables"]} != {"streaming"}:
            assert w.running, w.log_text()
            change(cur)
            time.sleep(0.05)
        read = loaded()
    w.wait(120)
    w.stop()
    print(f"\n{rows} rows, {read:.3f} times read over three kills")
    assert_equal(s, Lake(w.home), "d", ["big"])
    assert read < 1.3


# ---------------------------------------------------------------- F3
ONLINE = {"ghost": FOLDERS["cases"] / "ddl" / "ghost_twice_one_aborted", "ptosc": FOLDERS["own"] / "ddl" / "ptosc_twice"}


def statements(folder, flavor, what):
    return [st for kind, st in run_cases.split_sql(run_cases.sql_file(str(folder), what, flavor)) if kind == "sql"]


@pytest.mark.parametrize("tool", ONLINE)
def test_kill_9_after_each_statement_of_an_online_schema_change(server, flavor, make_weir, tool):
    """The statements of two schema changes in a row and an aborted one; in each run Weir is killed and started after another one of them. Every run ends with equal tables, the helper tables are never
    in the lake, and the lake's table is the same one before and after (its uuid)."""
    folder = ONLINE[tool]
    setup, changes = statements(folder, flavor, "setup"), statements(folder, flavor, "changes")
    database = json.loads((folder / "case.json").read_text())["databases"][0]
    rnd = random.Random(f"{SEED} {tool}")
    picked = range(len(changes)) if FULL else sorted(rnd.sample(range(len(changes)), 5))
    print(f"\nWEIR_SEED={SEED} {len(changes)} statements, killed after {list(picked)}")
    for index in picked:
        server.sql(f"DROP DATABASE IF EXISTS {database}", *setup)
        everything = rnd.random() < 0.5         # helper tables match as well
        w = make_weir(server, [rf"{database}\..*" if everything else rf"{database}\.orders"], {"lake": {"commit": {"every": rnd.choice(("50ms", "1s"))}}})
        lake = Lake(w.home)
        w.catch_up()
        uuid = lake.table(database, "orders").metadata.table_uuid
        w.start()
        with server.connect() as con, con.cursor() as cur:
            for k, statement in enumerate(changes):
                cur.execute(statement)
                if k == index:
                    time.sleep(rnd.choice((0, rnd.uniform(0, 0.3), 1.2)))
                    assert w.kill(), w.log_text()
                    w.start()
                assert {t for ns, t in lake.tables() if ns == database} == {"orders"}, f"after {statement}"
        w.wait()
        w.stop()
        assert {t for ns, t in lake.tables() if ns == database} == {"orders"}
        assert_equal(server, lake, database, ["orders"])
        assert lake.table(database, "orders").metadata.table_uuid == uuid, f"killed after {changes[index]}: another table"
    server.sql(f"DROP DATABASE {database}")


# ---------------------------------------------------------------- F13
LIMIT = 512 << 20


@pytest.mark.local_lake("it is about memory")
def test_more_than_memory_in_one_transaction_and_in_one_row(own_server, make_weir, tmp_path):
    """Weir may take 512 MiB. One transaction updates every row of a table (5 million), another one brings a row of 200 MB, both while eight other tables change; Weir is killed once while the large
    transaction comes in, and once while it goes into the lake. A reader sees all of a transaction in a table or nothing, nothing is killed for want of memory, the others' changes are late by no more than
    the large transaction takes."""
    rows, blob = (5_000_000, 200_000_000) if FULL else (250_000, 24_000_000)
    s = own_server({"max_allowed_packet": "1G"})
    s.sql("CREATE DATABASE d", "CREATE TABLE d.big (id BIGINT PRIMARY KEY, n INT NOT NULL, v VARCHAR(200))", f"INSERT INTO d.big SELECT seq * 1000003, 0, REPEAT('v', 150) FROM ({numbers(999)}) s",
          "CREATE TABLE d.blobs (id INT PRIMARY KEY, b LONGBLOB)")
    load.create(s, "d", rows=300)
    rows = grow(s, "d.big", rows)
    w = make_weir(s, [r"d\..*"])
    lake = Lake(w.home)
    with MemoryLimit(LIMIT) as memory:
        w.before_exec = memory.join
        print(f"\n{rows} rows, limit by {memory.how}")
        w.start()
        w.wait(1200)
        big = next((w.home / "warehouse" / "d").glob("big-*/data"))

        def captured():
            """rows since the start"""
            return json.loads((w.home / "status.json").read_text())["source"]["rows"]

        def all_or_nothing(want):
            """what a reader sees of the big table just now"""
            t = lake.in_duckdb("d", "big")
            lo, hi = t._con.execute("SELECT MIN(n), MAX(n) FROM iceberg_scan(?)", [t._table.metadata_location]).fetchone()
            assert lo == hi, f"part of a transaction: n from {lo} to {hi}"
            return lo == want
        with load.Load(s, "d", SEED, tmp_path / "journal", per_second=100, ddl_every=None) as busy:
            for n in (1, 2):
                before, files = captured(), set(big.iterdir())
                began = time.monotonic()
                s.sql("UPDATE d.big SET n = n + 1, v = REVERSE(v)")
                committed = time.monotonic()
                if n == 1:
                    wait_until(lambda: captured() - before > rows * 0.2, 300, "the transaction to come in", every=0.01)
                    w.kill()
                    w.start()
                    wait_until(lambda: set(big.iterdir()) - files, 600, "the transaction to reach the lake", every=0.01)
                    w.kill()
                    w.start()
                wait_until(lambda: all_or_nothing(n), 900, "the transaction in the lake", every=0.5)
                tick = max(busy.journalled())       # the one under way may be rolled back
                shown = time.monotonic()
                wait_until(lambda: not w.running or lake.table("d", "ticks").scan(row_filter=f"id = {tick}").count(), 120, "the others' changes", every=0.5)
                print(f"update of {rows} rows: {committed - began:.1f} s in the source, in the lake {shown - committed:.1f} s later, what the others changed meanwhile {time.monotonic() - shown:.1f} s after that; "
                      f"memory so far {memory.peak() >> 20} MiB")
                assert w.running, w.log_text()
            with s.connect(database="d", max_allowed_packet=1 << 30) as con, con.cursor() as cur:
                cur.execute("INSERT INTO blobs SELECT 1, REPEAT('0123456789abcdef', %s)", (blob // 16,))
                con.commit()
            began = time.monotonic()
            wait_until(lambda: not w.running or lake.table("d", "blobs").scan(selected_fields=("id",)).count(), 600, "the blob", every=0.5)
            assert w.running, w.log_text()
            print(f"a row of {blob} bytes: in the lake after {time.monotonic() - began:.1f} s; memory {memory.peak() >> 20} MiB, resident {memory.resident(w.proc.pid) >> 20} MiB at most")
        w.wait(300)
        assert memory.resident(w.proc.pid) < LIMIT
        w.stop()
        w.run("compare", seconds=1200)
        assert not memory.killed(), "killed for want of memory"
    w.before_exec = None
    [(n, length)] = [(r["id"], len(r["b"])) for r in lake.table("d", "blobs").scan().to_arrow().to_pylist()]
    assert (n, length) == (1, blob)
    assert_equal(s, lake, "d", [*load.TABLES, "big"], readers=["pyiceberg"])


def test_a_large_row_is_loaded_changed_rewritten_and_compared_in_little_memory(own_server, make_weir):
    """Rows of which one alone takes a quarter or more of the memory that Weir may have: two come one right after the other, one was there before, and one is deleted; their files are written anew together with those of small
    rows; rows and server's sums are compared; one that cannot fit is refused before it is read."""
    blob, limit = (200_000_000, LIMIT) if FULL else (60_000_000, 256 << 20)
    s = own_server({"max_allowed_packet": "1G"})
    s.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, b LONGBLOB, v LONGTEXT)", f"INSERT INTO d.t SELECT seq, 0, REPEAT('b', seq), NULL FROM ({numbers(300)}) s")
    rnd = random.Random(SEED)
    want = {}

    def insert(cur, row, data):
        want[row] = hashlib.md5(data).hexdigest()
        cur.execute("INSERT INTO t VALUES (%s, 1, %s, 'x')", (row, data))
        con.commit()

    w = make_weir(s, [r"d\..*"], {"lake": {"commit": {"every": "200ms"}}})
    lake = Lake(w.home)
    with MemoryLimit(limit) as memory, s.connect(database="d", max_allowed_packet=1 << 30) as con, con.cursor() as cur:
        w.before_exec = memory.join

        def tell(what):
            assert not memory.killed(), f"{what}: killed for want of memory"
            print(f"{what}: memory {memory.peak() >> 20} MiB at most")
        print(f"\nlimit of {limit >> 20} MiB by {memory.how}")
        insert(cur, 1000, b"0123456789abcdef" * (blob // 16))   # its file is small: rewritten with the others
        w.catch_up()
        tell("load")
        w.start()
        w.wait(300)
        for row in (1001, 1002):
            insert(cur, row, rnd.randbytes(blob))
        cur.execute("UPDATE t SET n = n + 1 WHERE id < 100")
        cur.execute("UPDATE t SET v = 'y' WHERE id = 1002")     # both images, twice the row
        con.commit()
        w.wait(300)
        assert w.running, w.log_text()
        tell("changes")
        cur.execute("DELETE FROM t WHERE id IN (150, 1001)")
        con.commit()
        del want[1001]
        w.wait(300)
        tell("a delete")
        w.stop()
        w.run("optimize", "--all", seconds=600)
        tell("optimize")
        for method in ("rows", "pushed"):
            w.run("compare", "--method", method, seconds=1200)
            tell(f"compare by {method}")
        cur.execute("INSERT INTO t VALUES (2000, 2, REPEAT('x', %s), NULL)", (limit,))
        con.commit()
        w.run("sync", "--until", "current", status=1).says(r"a packet of more than \d+ MB", "source.max_packet", r"memory\.md")
        tell("a row that does not fit")
    w.before_exec = None
    rows = lake.in_duckdb("d", "t")._con.execute("SELECT id, md5(b) FROM iceberg_scan(?) WHERE n = 1 AND id >= 1000", [lake.table("d", "t").metadata_location]).fetchall()
    assert dict(rows) == want
    assert lake.table("d", "t").scan().count() == 301
