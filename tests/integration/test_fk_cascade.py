"""ON DELETE/UPDATE CASCADE and SET NULL change rows that MariaDB never logs: such tables are read again. MySQL logs them since 9.6."""
import time

import pytest
from harness.compare import assert_equal
from harness.lake import Lake

FAMILY = [
    "CREATE TABLE p (id INT PRIMARY KEY, code VARCHAR(10) UNIQUE, v INT)",
    "CREATE TABLE c (id INT PRIMARY KEY, p_id INT, code VARCHAR(10), FOREIGN KEY (p_id) REFERENCES p (id) ON DELETE CASCADE, "
    "FOREIGN KEY (code) REFERENCES p (code) ON UPDATE CASCADE ON DELETE SET NULL)",
    "CREATE TABLE g (id INT PRIMARY KEY, c_id INT, FOREIGN KEY (c_id) REFERENCES c (id) ON DELETE CASCADE)",
    "CREATE TABLE n (x INT, p_id INT, FOREIGN KEY (p_id) REFERENCES p (id) ON DELETE SET NULL)",
    "CREATE TABLE tree (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES tree (id) ON DELETE CASCADE)",
    "INSERT INTO p VALUES (1,'a',1),(2,'b',2),(3,'c',3),(4,'d',4)", "INSERT INTO c VALUES (10,1,'a'),(20,2,'b'),(30,3,'c'),(40,4,'a')",
    "INSERT INTO g VALUES (100,10),(200,20),(300,30)", "INSERT INTO n VALUES (1,1),(1,1),(2,2),(3,3)",
    "INSERT INTO tree VALUES (1,NULL),(2,1),(3,2),(4,NULL)",
]
TABLES = ["p", "c", "g", "n", "tree"]


@pytest.fixture
def family(server, db):
    server.sql(*FAMILY, db=db)


@pytest.fixture
def mariadb(flavor):
    if flavor != "mariadb":
        pytest.skip("this server logs what foreign keys do")


def loads(weir):
    """catches up; -> how many loads because of foreign keys were asked for"""
    return weir.run("sync", "--until", "current", "--verbose").err.count("will be read again")


def test_every_action_reaches_every_level(server, db, weir, same, family):
    weir.catch_up()
    server.sql("DELETE FROM p WHERE id = 1", "UPDATE p SET code = 'z' WHERE id = 2", "DELETE FROM tree WHERE id = 1",
               "INSERT INTO g VALUES (301, 30)", "REPLACE INTO p VALUES (3, 'c', 33)", "INSERT INTO n VALUES (9, NULL)", db=db)
    weir.catch_up()
    same(*TABLES)


def test_changes_of_the_children_around_a_cascade(server, db, weir, same, family):
    weir.start()
    weir.wait()
    for i in range(4):
        server.sql("DELETE FROM p WHERE id = 2", "INSERT INTO p VALUES (2, 'b', 0)", f"INSERT INTO c VALUES (20, 2, 'b'), ({50 + i}, 2, NULL)",
                   "UPDATE c SET code = 'd' WHERE id = 20", "UPDATE n SET x = x + 1", "DELETE FROM n WHERE x > 3", f"INSERT INTO n VALUES ({i}, 2)", db=db)
        time.sleep(0.3)
    weir.wait()
    same(*TABLES)
    weir.stop()


def test_what_cannot_cascade_reads_nothing_again(server, db, weir, same, family):
    weir.catch_up()
    server.sql("UPDATE p SET v = v + 1", "INSERT INTO p VALUES (7, 'x', 7)", "UPDATE c SET code = 'b' WHERE id = 10", db=db)
    assert not loads(weir)
    same(*TABLES)


def test_one_load_for_many_causes(server, db, weir, same, family, mariadb):
    weir.catch_up()
    server.sql(*[f"INSERT INTO p VALUES ({i}, 'k{i}', 0)" for i in range(100, 140)], *[f"DELETE FROM p WHERE id = {i}" for i in range(100, 140)], db=db)
    assert loads(weir) == 3       # c, g, n
    same(*TABLES)
    tables = {t["table"]: t for t in weir.status()["tables"]}
    assert {t for t, s in tables.items() if s.get("no_cascade_events")} == {f"{db}.{t}" for t in ("c", "g", "n", "tree")}


def test_parents_that_are_not_captured(server, db, make_weir, family):
    w = make_weir(server, [rf"{db}\.(g|n)"])
    w.catch_up()
    server.sql("DELETE FROM p WHERE id = 1", "INSERT INTO g VALUES (302, 30)", db=db)
    w.catch_up()
    assert_equal(server, Lake(w.home), db, ["g", "n"])
    server.sql("XA START 'x'", "DELETE FROM p WHERE id = 2", "XA END 'x'", "XA PREPARE 'x'", db=db)
    w.catch_up()
    server.sql("XA COMMIT 'x'", db=db)
    w.catch_up()
    assert_equal(server, Lake(w.home), db, ["g", "n"])


def test_keys_that_come_go_and_move(server, db, weir, same, family):
    weir.catch_up()
    server.sql("ALTER TABLE c DROP FOREIGN KEY c_ibfk_1, DROP FOREIGN KEY c_ibfk_2", db=db)
    server.sql("DELETE FROM p WHERE id = 4", db=db)
    server.sql("DELETE FROM c WHERE p_id = 4", "UPDATE c SET code = NULL", "ALTER TABLE c ADD CONSTRAINT back FOREIGN KEY (p_id) REFERENCES p (id) ON DELETE CASCADE",
               "RENAME TABLE p TO q", "ALTER TABLE q CHANGE id num INT", "CREATE TABLE late (id INT PRIMARY KEY, q INT, FOREIGN KEY (q) REFERENCES q (num) ON DELETE SET NULL)",
               "INSERT INTO late VALUES (1, 1), (2, 2)", "DELETE FROM q WHERE num = 1", db=db)
    weir.catch_up()
    same("q", "c", "g", "n", "late")
    server.sql("ALTER TABLE late DROP FOREIGN KEY late_ibfk_1", "ALTER TABLE c DROP FOREIGN KEY back", "ALTER TABLE n DROP FOREIGN KEY n_ibfk_1", "DELETE FROM q", db=db)
    assert not loads(weir)
    same("q", "c", "g", "n", "late")


def test_keys_of_tables_that_are_not_captured_are_followed(server, db, make_weir):
    server.sql("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY, a_id INT)", "CREATE TABLE k (id INT PRIMARY KEY, b_id INT, "
               "FOREIGN KEY (b_id) REFERENCES b (id) ON DELETE CASCADE)", "INSERT INTO a VALUES (1),(2)", "INSERT INTO b VALUES (1,1),(2,2)",
               "INSERT INTO k VALUES (1,1),(2,2)", db=db)
    w = make_weir(server, [rf"{db}\.k"])
    w.catch_up()
    server.sql("ALTER TABLE b ADD CONSTRAINT f FOREIGN KEY (a_id) REFERENCES a (id) ON DELETE CASCADE", "RENAME TABLE b TO b2, a TO a2", "DELETE FROM a2 WHERE id = 1", db=db)
    w.catch_up()
    assert_equal(server, Lake(w.home), db, ["k"])


def test_a_crash_forgets_nothing(server, db, weir, same, family, mariadb):
    weir.config["lake"]["commit"]["every"] = "200ms"
    weir.write()
    weir.start()
    weir.wait()
    for id in (1, 2, 3):
        server.sql(f"DELETE FROM p WHERE id = {id}", db=db)
        time.sleep(0.15 * id)
        weir.kill()
        weir.start()
    weir.wait()
    same(*TABLES)


def test_policy_stop(server, db, make_weir, family, mariadb):
    w = make_weir(server, [rf"{db}\..*"], {"policy": {"rowless_change": "stop"}})
    w.catch_up()
    server.sql("DELETE FROM p WHERE id = 1", db=db)
    w.catch_up(status=1).says(rf"{db}\.c changed without row events: rows of {db}\.p were deleted at \S+:\d+")


def test_who_may_only_select_sees_the_keys(server, db, make_weir, family):
    server.sql("DROP USER IF EXISTS looker", "CREATE USER looker IDENTIFIED BY 'looker'", f"GRANT SELECT ON {db}.* TO looker",
               "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO looker")
    w = make_weir(server, [rf"{db}\.c"], user="looker", password="looker")
    w.catch_up()
    server.sql("DELETE FROM p WHERE id = 1", db=db)
    w.catch_up()
    assert_equal(server, Lake(w.home), db, ["c"])
    server.sql("DROP USER looker")


def test_mysql_whose_engine_does_it_logs_nothing(flavor, own_server, make_weir):
    """as all MySQL before 9.6"""
    if flavor != "mysql":
        pytest.skip("a setting of MySQL")
    server, db = own_server({"innodb_native_foreign_keys": "ON"}), "family"
    server.sql(f"CREATE DATABASE {db}")
    server.sql(*FAMILY, db=db)
    w = make_weir(server, [rf"{db}\..*"])
    w.catch_up()
    server.sql("DELETE FROM p WHERE id = 1", "UPDATE p SET code = 'z' WHERE id = 2", "DELETE FROM tree WHERE id = 1", db=db)
    assert loads(w) == 4
    assert_equal(server, Lake(w.home), db, TABLES)
