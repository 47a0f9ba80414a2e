"""A lake in S3 and a REST catalog while requests and answers get lost, connections are cut, nothing moves, and Weir is killed: nothing lost, nothing doubled, no file
referenced twice (harness/compare.py). Needs no WEIR_LAKE; the run's seed chooses the server."""
import os
import random
import re
import time

import pytest
from conftest import FLAVORS
from harness import backend, writer
from harness.compare import assert_equal
from harness.lake import Lake
from services.faulty_proxy import FAULTS
from test_ddl import CHANGES, START

SEED = int(os.environ["WEIR_SEED"])
SECONDS, SECONDS_MAX = 30, 120          # of faults and kills; the second when a kind of fault has not happened yet
pytestmark = pytest.mark.parametrize("flavor", [FLAVORS[SEED % len(FLAVORS)]], indirect=True, scope="session")


@pytest.fixture
def rest(monkeypatch):
    monkeypatch.setattr(backend, "MODE", "rest")


@pytest.fixture
def faulty(monkeypatch):
    monkeypatch.setattr(backend, "MODE", "faulty")


def tables(server, db):
    return sorted(t for (t,) in server.sql(f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{db}'"))


MORE = {
    "move": ["RENAME TABLE t TO t_new", "INSERT INTO t_new VALUES (4,'z',4)", "ALTER TABLE t_new ADD COLUMN c INT DEFAULT 7"],
    "swap": ["CREATE TABLE t_new LIKE t", "RENAME TABLE t TO t_old, t_new TO t", "INSERT INTO t VALUES (8,'m',8)", "RENAME TABLE t TO t_x, t_old TO t, t_x TO t_old"],
    "replaced": ["DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, other DATE)", "DROP TABLE t", "CREATE TABLE t AS SELECT 1 AS one"],
    "copy": ["CREATE TABLE t_new (PRIMARY KEY (id)) AS SELECT * FROM t", "TRUNCATE TABLE t", "DROP TABLE t_new"],
}

OF_MARIADB = {"in one step": ["CREATE OR REPLACE TABLE t (k VARCHAR(5) PRIMARY KEY, v INT)", "INSERT INTO t VALUES ('x',1)", "CREATE OR REPLACE TABLE t AS SELECT 'y' AS k",
                              "INSERT INTO t VALUES ('z')"]}


def test_killed_between_the_tables_of_a_commit_and_the_progress(server, db, make_weir, rest):
    """every kind of schema change, and transactions over several tables: each is met again by tables that have it already"""
    rnd, changes = random.Random(SEED), {**CHANGES, **MORE, **(OF_MARIADB if server.flavor == "mariadb" else {})}
    names = {what: f"t{i}" for i, what in enumerate(changes)}
    steps = [[re.sub(r"\bt(?=\b|_)", names[what], st) for st in [*START, *sts]] for what, sts in changes.items()]
    server.sql(*[f"CREATE TABLE m{i} (id INT PRIMARY KEY, v INT)" for i in range(4)], *[st for s in steps for st in s[:2]], db=db)
    weir = make_weir(server, [rf"{db}\..*"], {"policy": {"on_drop": "mirror"}})
    lake, died = Lake(weir.home), 0
    weir.catch_up()
    for k in range(2, max(len(s) for s in steps)):
        server.sql(*[s[k] for s in steps if k < len(s)], db=db)
        server.sql("BEGIN", *[st for i in range(4) for st in (f"INSERT INTO m{i} VALUES ({k}, 0)", f"UPDATE m{i} SET v = v + 1")], "COMMIT", db=db)
        for _ in range(4):
            died += weir.catch_up_and_die(rnd.choice(("rest.committed:1", f"rest.committed:{rnd.randint(2, 12)}", f"ice.committed:{rnd.randint(1, 8)}")))
        weir.catch_up()
        assert_equal(server, lake, db, tables(server, db), readers=["pyiceberg"])
        assert {t for ns, t in lake.tables() if ns == db} == set(tables(server, db))
    assert died > 5
    assert weir.status()["anomalies"] == 0


def test_counted_across_the_tables_of_a_commit_and_the_progress(server, db, make_weir, rest):
    """changes that a table has already count where the next commit brings nothing for it, and not again with a later one"""
    server.sql("CREATE TABLE m0 (id INT PRIMARY KEY)", "CREATE TABLE m1 (id INT PRIMARY KEY)", db=db)
    weir = make_weir(server, [rf"{db}\..*"], {"lake": {"commit": {"every": "100ms"}}})
    weir.catch_up()
    server.sql("INSERT INTO m0 VALUES (1), (2)", "INSERT INTO m1 VALUES (1), (2)", db=db)
    assert weir.catch_up_and_die("rest.committed:1")        # both tables, and not the progress
    weir.start()
    weir.wait()
    server.sql("INSERT INTO m0 VALUES (3)", "INSERT INTO m1 VALUES (3)", db=db)
    weir.wait()
    weir.stop()
    assert_equal(server, Lake(weir.home), db, ["m0", "m1"], readers=["pyiceberg"])
    lines, alarms, totals = weir.ledger()
    assert not alarms
    for table in ("m0", "m1"):                                  # a minute may end in between
        assert [sum(x[at] for x in lines if x["table"] == f"{db}.{table}") for at in ("captured", "consumed", "written")] == [3, 3, 3]
    assert totals["pending"] == 0 and totals["unread"] == 4     # those of the process that died


SIDE = [
    "CREATE TABLE side (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO side VALUES (1,'a'),(2,'b')", "ALTER TABLE side ADD COLUMN w INT NOT NULL DEFAULT 5",
    "UPDATE side SET v = 'c' WHERE id = 1", "CREATE TABLE other LIKE side", "INSERT INTO other SELECT id + 10, v, w FROM side", "RENAME TABLE side TO old, other TO side",
    "DELETE FROM side WHERE id = 11", "ALTER TABLE side MODIFY w VARCHAR(10)", "INSERT INTO side VALUES (20,'x','y')", "TRUNCATE TABLE side", "DROP TABLE old",
    "INSERT INTO side VALUES (1,'again','z')", "ALTER TABLE by_id ADD COLUMN {new} INT NOT NULL DEFAULT 3", "DROP TABLE side",
]


def test_faults_and_kills(server, db, make_weir, faulty, monkeypatch):
    print(f"\nWEIR_SEED={SEED}")
    rnd = random.Random(SEED)
    writer.create(server, db, rows=300)
    weir = make_weir(server, [rf"{db}\..*"], {"lake": {"commit": {"every": "200ms"}}, "policy": {"on_drop": "mirror"}})
    lake, proxies = Lake(weir.home), {"S3": backend.s3_proxy(), "REST": backend.rest_proxy(weir.home)}
    for fault in ("stall_before", "stall_after"):
        monkeypatch.setattr(proxies["REST"], fault, 0.02)       # it gets few requests
    before = {name: dict(p.counts) for name, p in proxies.items()}
    began, kills, step = time.monotonic(), 0, 0

    def missing():
        return [f"{name}: {f}" for name, p in proxies.items() for f in FAULTS if p.counts[f] == before[name].get(f, 0)]
    with writer.Writer(server, db, SEED, per_second=50) as busy:
        while (took := time.monotonic() - began) < SECONDS or (missing() and took < SECONDS_MAX):
            weir.start()
            time.sleep(rnd.uniform(0.3, 5))         # the moment is random on purpose
            assert weir.kill(), f"sync ended by itself:\n{weir.log_text()}"
            kills += 1
            for _ in range(rnd.randint(1, 3)):
                server.sql(SIDE[step % len(SIDE)].format(new=f"c{step}"), db=db)
                step += 1
        assert busy.is_alive()
    assert not missing(), f"faults that did not happen: {missing()}"
    weir.start()
    weir.wait(seconds=150)
    print(f"{kills} kills, {busy.committed} transactions, {step} schema changes;", {name: dict(p.counts - type(p.counts)(before[name])) for name, p in proxies.items()})
    weir.stop()
    there = tables(server, db)
    assert_equal(server, lake, db, there)
    assert {t for ns, t in lake.tables() if ns == db} == set(there)
    assert weir.status()["anomalies"] == 0
    odd = [(i, n) for i, n in lake.history_counts(db, "twins") if n % 2]
    assert not odd, f"snapshots of twins that hold half a transaction (id, rows): {odd}"
