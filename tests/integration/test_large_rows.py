"""Rows and events of many megabytes, of which one at a time is under way (base/large.h): nobody who has one waits for somebody who waits for it."""
import random
import time

from harness.compare import assert_equal
from harness.lake import Lake
from harness.wire import Wire

LARGE = 17 << 20        # base/large.h says from where on


def test_a_large_statement_does_not_wait_for_room_that_a_large_row_would_make(own_server, make_weir):
    """A statement that ends a transaction waits for room in a full queue. The row in front of it, which has to leave first, is a large one as well."""
    s = own_server({"max_allowed_packet": "256M"})
    s.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, b LONGBLOB)", "INSERT INTO d.t VALUES (0, 'x')")
    rnd = random.Random(1)
    w = make_weir(s, [r"d\..*"], {"queue": {"bytes": "16MB"}, "lake": {"commit": {"every": "200ms"}}})
    w.catch_up()
    with s.connect(database="d", max_allowed_packet=1 << 28) as con, con.cursor() as cur:
        for i in range(1, 4):
            cur.execute("INSERT INTO t VALUES (%s, %s)", (i, rnd.randbytes(LARGE)))     # it takes its room in the queue
            con.commit()
            cur.execute(f"CREATE TABLE u{i} (id INT PRIMARY KEY) /* {'c' * LARGE} */")
            cur.execute(f"INSERT INTO u{i} VALUES (1)")
            con.commit()
    w.catch_up(seconds=120)
    assert_equal(s, Lake(w.home), "d", ["t", "u1", "u2", "u3"])


def insert_large(server, *ids):
    rnd = random.Random(7)
    with server.connect(database="d", max_allowed_packet=1 << 28) as con, con.cursor() as cur:
        for i in ids:
            cur.execute("INSERT INTO t VALUES (%s, %s)", (i, rnd.randbytes(LARGE)))
            con.commit()


def test_a_connection_that_is_lost_within_a_large_row(own_server, make_weir):
    """of the stream, and of a load: others with large rows go on, and so does the next attempt"""
    s = own_server({"max_allowed_packet": "256M"})
    s.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, b LONGBLOB)")
    insert_large(s, 1, 2, 3)
    wire = Wire(s)
    w = make_weir(s, [r"d\..*"], {"source": {"url": wire.url()}, "snapshot": {"parallel": 2}, "lake": {"commit": {"every": "200ms"}}})

    def lose(what):
        assert wire.held.wait(60), f"the wire was never cut: {what}"
        wire.held.clear()
        time.sleep(1)
        wire.mend(cut=True)
    try:
        wire.stall_after(LARGE + LARGE // 2)
        w.start()
        lose("a load")
        w.wait()
        wire.stall_after(LARGE // 2)
        insert_large(s, 4, 5)
        lose("the stream")
        w.wait()
        assert_equal(s, Lake(w.home), "d", ["t"])
        wire.stall_after(LARGE // 2)
        insert_large(s, 6)
        assert wire.held.wait(60), "the wire was never cut"
        began = time.monotonic()
        w.stop()
        assert time.monotonic() - began < 15, "a stop waited for the rest of a row"
        wire.mend()
        w.catch_up()
        assert_equal(s, Lake(w.home), "d", ["t"])
    finally:
        w.kill()
        wire.close()
