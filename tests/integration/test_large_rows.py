"""Rows and events of many megabytes, of which one at a time is under way (base/large.h): nobody who has one waits for somebody who waits for it."""
import random

from harness.compare import assert_equal
from harness.lake import Lake

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
