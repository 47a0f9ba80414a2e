"""source.capture and source.exclude changed between two runs: who leaves stays readable, who joins is loaded at one exact position."""
import threading

import pytest
from harness.compare import assert_equal
from harness.lake import Lake


@pytest.fixture
def three(server, db):
    for t in "abc":
        server.sql(f"CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20))", f"INSERT INTO {t} VALUES (1,'{t}'),(2,'x')", db=db)


def capture(weir, *patterns, exclude=()):
    weir.config["source"].update(capture=list(patterns), exclude=list(exclude))
    weir.write()
    return weir


def rows(weir, db, table):
    return Lake(weir.home).table(db, table).scan().to_arrow().to_pylist()


def test_who_joins_is_loaded_and_followed(server, db, make_weir, three):
    w = make_weir(server, [rf"{db}\.a"])
    w.catch_up()
    server.sql("INSERT INTO a VALUES (3,'more')", "INSERT INTO b VALUES (3,'before')", "DELETE FROM b WHERE id = 1", db=db)
    capture(w, rf"{db}\.(a|b)").catch_up()
    assert_equal(server, Lake(w.home), db, ["a", "b"])
    server.sql("INSERT INTO b VALUES (4,'after')", "UPDATE b SET v = 'y' WHERE id = 2", "DELETE FROM a WHERE id = 2", db=db)
    w.catch_up()
    assert_equal(server, Lake(w.home), db, ["a", "b"])
    assert {t for n, t in Lake(w.home).tables() if n == db} == {"a", "b"}


@pytest.mark.parametrize("on_drop", ["keep", "mirror"])
def test_who_leaves_stays_as_it_was(server, db, make_weir, three, on_drop):
    w = make_weir(server, [rf"{db}\..*"], {"policy": {"on_drop": on_drop}})
    w.catch_up()
    server.sql("INSERT INTO b VALUES (3,'before')", "INSERT INTO a VALUES (3,'before')", db=db)
    capture(w, rf"{db}\..*", exclude=[rf"{db}\.b"]).catch_up()
    server.sql("INSERT INTO b VALUES (4,'after')", "ALTER TABLE b ADD n INT", "INSERT INTO a VALUES (4,'after')", "DROP TABLE b", db=db)
    w.catch_up()
    assert_equal(server, Lake(w.home), db, ["a", "c"])
    assert sorted(r["id"] for r in rows(w, db, "b")) == [1, 2]


def test_there_and_back(server, db, make_weir, three):
    w = make_weir(server, [rf"{db}\.(a|b)"])
    w.catch_up()
    capture(w, rf"{db}\.a").catch_up()
    server.sql("INSERT INTO b VALUES (3,'unseen')", db=db)
    w.catch_up()
    capture(w, rf"{db}\.(a|b)").catch_up()
    server.sql("INSERT INTO b VALUES (4,'seen')", db=db)
    w.catch_up()
    assert_equal(server, Lake(w.home), db, ["a", "b"])


def test_tables_that_came_changed_moved_and_went_meanwhile(server, db, make_weir, three):
    w = make_weir(server, [rf"{db}\.a"])
    w.catch_up()
    server.sql("INSERT INTO b VALUES (3,'old')", "ALTER TABLE b ADD n INT DEFAULT 7 FIRST", "INSERT INTO b VALUES (1,4,'new')", "ALTER TABLE b DROP v",
               "CREATE TABLE d (id INT PRIMARY KEY)", "INSERT INTO d VALUES (1)", "CREATE TABLE IF NOT EXISTS e (id INT PRIMARY KEY)", "INSERT INTO e VALUES (1)",
               "RENAME TABLE c TO f", "INSERT INTO f VALUES (3,'moved')", "CREATE TABLE gone (id INT PRIMARY KEY)", "INSERT INTO gone VALUES (1)", "DROP TABLE gone",
               "CREATE TABLE h (id INT)", "INSERT INTO h VALUES (1),(1)", "DELETE FROM h LIMIT 1", "UPDATE a SET v = 'z'", "INSERT INTO d VALUES (2)", db=db)
    capture(w, rf"{db}\..*").catch_up()
    tables = ["a", "b", "d", "e", "f", "h"]
    assert_equal(server, Lake(w.home), db, tables)
    server.sql(*[f"INSERT INTO {t} (id) VALUES (99)" for t in tables], db=db)
    w.catch_up()
    assert_equal(server, Lake(w.home), db, tables)
    assert not [t for n, t in Lake(w.home).tables() if n == db and "__dropped_" in t and not t.startswith("gone")]


def test_joining_while_everything_is_written(server, db, make_weir, three):
    w = make_weir(server, [rf"{db}\.a"])
    w.start()
    w.wait()
    done = threading.Event()

    def write():
        with server.connect(database=db, autocommit=True) as con, con.cursor() as cur:
            i = 100
            while not done.is_set():
                i += 1
                for t in "abc":
                    cur.execute(f"INSERT INTO {t} VALUES ({i}, 'w')")
                    cur.execute(f"UPDATE {t} SET v = CONCAT(v, '.') WHERE id = {i - 3}")
                    cur.execute(f"DELETE FROM {t} WHERE id = {i - 7}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for more in (rf"{db}\.(a|b)", rf"{db}\.(a|b|c)"):
            w.kill()
            capture(w, more).start()
            w.wait()
    finally:
        done.set()
        writer.join()
    w.wait()
    assert_equal(server, Lake(w.home), db, ["a", "b", "c"])


def test_killed_while_joining(server, db, make_weir, three):
    w = make_weir(server, [rf"{db}\.a"])
    w.catch_up()
    capture(w, rf"{db}\..*")
    for i in range(6):
        server.sql(*[f"INSERT INTO {t} VALUES ({10 + i}, 'k')" for t in "abc"], db=db)
        w.start()
        threading.Event().wait(0.05 + 0.06 * i)
        w.kill()
    w.catch_up()
    assert_equal(server, Lake(w.home), db, ["a", "b", "c"])
