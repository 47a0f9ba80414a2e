"""A snapshot taken while XA transactions are prepared: their rows are in the binlog before the start, their XA COMMIT is behind it."""
import threading
import time

import pytest
from harness.compare import assert_equal
from harness.lake import Lake

START = ["CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "CREATE TABLE u (x INT)", "INSERT INTO t VALUES (1,'a'),(2,'b'),(3,'c')", "INSERT INTO u VALUES (1),(1)"]


@pytest.fixture
def prepare(server, db):
    """prepare(xid, *statements): in a session that is gone afterwards; what is left over is rolled back"""
    made = []

    def run(xid, *statements):
        with server.connect(database=db, autocommit=True) as con, con.cursor() as cur:
            for s in [f"XA START '{xid}'", *statements, f"XA END '{xid}'", f"XA PREPARE '{xid}'"]:
                cur.execute(s)
        made.append(xid)
    yield run
    left = {r[3] if isinstance(r[3], str) else r[3].decode() for r in server.sql("XA RECOVER")}
    for xid in made:
        if xid in left:
            server.sql(f"XA ROLLBACK '{xid}'")


def test_a_snapshot_while_one_is_prepared(server, db, weir, same, prepare):
    server.sql(*START, db=db)
    prepare("s1", "INSERT INTO t VALUES (10,'xa')", "UPDATE t SET v = 'xa' WHERE id = 1", "DELETE FROM t WHERE id = 2")
    prepare("s2", "INSERT INTO t VALUES (20,'never')", "UPDATE t SET v = 'never' WHERE id = 3")
    server.sql("FLUSH BINARY LOGS", db=db)
    began = time.monotonic()
    weir.catch_up()
    assert time.monotonic() - began < 40
    same("t", "u")
    server.sql("XA COMMIT 's1'", "INSERT INTO t VALUES (11,'after')", db=db)
    weir.catch_up()
    same("t", "u")
    server.sql("XA ROLLBACK 's2'", "INSERT INTO t VALUES (12,'after')", db=db)
    weir.catch_up()
    same("t", "u")


def test_one_that_is_committed_while_the_snapshot_runs(server, db, make_weir, prepare):
    """again and again: whichever side of the start its XA COMMIT falls on"""
    server.sql(*START, db=db)
    stop = threading.Event()
    failed = []

    def write(number):
        try:
            with server.connect(database=db, autocommit=True) as con, con.cursor() as cur:
                n = 0
                while not stop.is_set():
                    n += 1
                    for s in [f"XA START 'w{number}-{n}'", f"INSERT INTO t VALUES ({1000000 * number + n}, 'w')", f"UPDATE t SET v = 'w{n}' WHERE id = {number}",
                              f"XA END 'w{number}-{n}'", f"XA PREPARE 'w{number}-{n}'"]:
                        cur.execute(s)
                    time.sleep(0.02 * (n % 3))
                    cur.execute(f"XA {'ROLLBACK' if n % 5 == 0 else 'COMMIT'} 'w{number}-{n}'")
        except Exception as e:
            failed.append(e)
    threads = [threading.Thread(target=write, args=(k,)) for k in (1, 2, 3)]
    for t in threads:
        t.start()
    made = []
    try:
        for k in range(4):
            made.append(make_weir(server, [rf"{db}\.t"], {"name": f"p{k}"}))
            made[-1].catch_up()
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not failed, failed
    for w in made:
        w.catch_up()
        assert_equal(server, Lake(w.home), db, ["t"], readers=("pyiceberg",))


def test_one_of_which_the_binlog_has_nothing_is_refused(own_server, flavor, make_weir):
    """the stream could not find its rows"""
    s = own_server()
    s.sql("CREATE DATABASE d")
    s.sql(*START, db="d")
    with s.connect(database="d", autocommit=True) as con, con.cursor() as cur:
        for st in ["XA START 'old'", "INSERT INTO t VALUES (10,'xa')", "XA END 'old'", "XA PREPARE 'old'"]:
            cur.execute(st)
    s.sql("FLUSH BINARY LOGS", "DO SLEEP(1.1)")
    s.sql("PURGE BINARY LOGS BEFORE NOW()")
    w = make_weir(s, [r"d\..*"])
    w.catch_up(status=1).says("prepared XA transaction", "old", "not in the binlogs", "XA COMMIT")
    s.sql("XA COMMIT 'old'")
    w.catch_up()
    assert_equal(s, Lake(w.home), "d", ["t", "u"])
