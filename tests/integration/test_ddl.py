"""Schema changes under way, live and over a restart. tests/cases/cases/ddl has the hard ones."""
import pytest

START = ["CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), b INT)", "INSERT INTO t VALUES (1,'x',10),(2,'y',20),(3,NULL,NULL)"]
CHANGES = {
    "add column": ["ALTER TABLE t ADD COLUMN c DECIMAL(8,2)", "INSERT INTO t VALUES (4,'z',40,4.44)", "UPDATE t SET c = 1 WHERE id = 1"],
    "add column with default": ["ALTER TABLE t ADD COLUMN c VARCHAR(10) NOT NULL DEFAULT 'old'", "INSERT INTO t (id) VALUES (4)", "UPDATE t SET b = 0 WHERE id = 2"],
    "add columns first and after": ["ALTER TABLE t ADD COLUMN z INT FIRST, ADD COLUMN y INT AFTER id", "INSERT INTO t VALUES (9, 4, 8, 'n', 7)", "DELETE FROM t WHERE id = 2"],
    "drop column": ["ALTER TABLE t DROP COLUMN a", "INSERT INTO t VALUES (4, 40)", "UPDATE t SET b = 11 WHERE id = 1"],
    "drop and add again": ["ALTER TABLE t DROP COLUMN b", "INSERT INTO t VALUES (4,'z')", "ALTER TABLE t ADD COLUMN b INT", "UPDATE t SET b = 1 WHERE id = 4"],
    "rename column": ["ALTER TABLE t CHANGE a label VARCHAR(20)", "INSERT INTO t VALUES (4,'z',40)", "UPDATE t SET label = 'q' WHERE id = 1"],
    "swap two names": ["ALTER TABLE t ADD COLUMN c VARCHAR(20)", "UPDATE t SET c = 'c'", "ALTER TABLE t CHANGE a tmp VARCHAR(20)", "ALTER TABLE t CHANGE c a VARCHAR(20)",
                       "ALTER TABLE t CHANGE tmp c VARCHAR(20)", "INSERT INTO t VALUES (4,'t',4,'a')"],
    "reorder columns": ["ALTER TABLE t MODIFY b INT FIRST", "INSERT INTO t VALUES (40,4,'z')"],
    "widen int": ["ALTER TABLE t MODIFY b BIGINT", "INSERT INTO t VALUES (4,'z',9007199254740993)", "UPDATE t SET b = -1 WHERE id = 1"],
    "int to text": ["ALTER TABLE t MODIFY b VARCHAR(20)", "INSERT INTO t VALUES (4,'z','forty')", "DELETE FROM t WHERE id = 1"],
    "new key": ["UPDATE t SET b = 30 WHERE id = 3", "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)", "INSERT INTO t VALUES (1,'x',11)", "DELETE FROM t WHERE id = 1 AND b = 10"],
    "no key any more": ["ALTER TABLE t DROP PRIMARY KEY", "INSERT INTO t VALUES (1,'x',10)", "DELETE FROM t WHERE id = 1 LIMIT 1"],
    "truncate": ["TRUNCATE TABLE t", "INSERT INTO t VALUES (1,'again',1)"],
    "drop and create": ["DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, other DATE)", "INSERT INTO t VALUES (1,'2024-01-01')"],
    "index only": ["ALTER TABLE t ADD INDEX (a)", "CREATE INDEX ib ON t (b)", "ALTER TABLE t ENGINE=InnoDB", "INSERT INTO t VALUES (4,'z',4)"],
}


@pytest.mark.parametrize("mode", ["live", "away"])
@pytest.mark.parametrize("what", CHANGES)
def test_ddl(server, db, weir, same, what, mode):
    server.sql(*START, db=db)
    if mode == "live":
        weir.start()
        weir.wait()
    else:
        weir.catch_up()
    for st in CHANGES[what]:
        server.sql(st, db=db)
    if mode == "live":
        weir.wait()
    else:
        weir.catch_up()
    same("t")


def test_every_statement_followed_at_once(server, db, weir, same):
    """one table through all kinds of change, compared after each statement"""
    server.sql(*START, db=db)
    weir.start()
    weir.wait()
    for st in ["ALTER TABLE t ADD COLUMN c INT DEFAULT 5", "UPDATE t SET c = 6 WHERE id = 1", "ALTER TABLE t DROP COLUMN a", "INSERT INTO t VALUES (7, 7, 7)",
               "ALTER TABLE t CHANGE c d BIGINT", "UPDATE t SET d = 1 << 40 WHERE id = 7", "DELETE FROM t WHERE id = 2"]:
        server.sql(st, db=db)
        weir.wait()
        same("t", readers=["pyiceberg"])


def test_rename_table_moves_the_data(server, db, weir, same):
    server.sql(*START, db=db)
    weir.catch_up()
    server.sql("RENAME TABLE t TO u", "INSERT INTO u VALUES (4,'z',4)", db=db)
    weir.catch_up()
    same("u")


def test_swap_by_rename_in_one_statement(server, db, weir, same):
    server.sql(*START, "CREATE TABLE n LIKE t", "INSERT INTO n VALUES (9,'n',9)", db=db)
    weir.catch_up()
    server.sql("RENAME TABLE t TO old, n TO t", "INSERT INTO t VALUES (8,'m',8)", "DELETE FROM old WHERE id = 1", db=db)
    weir.catch_up()
    same("t", "old")


def test_ddl_elsewhere_is_passed_over(server, db, weir, same):
    server.sql(*START, db=db)
    weir.catch_up()
    other = db + "_x"
    server.sql(f"DROP DATABASE IF EXISTS {other}", f"CREATE DATABASE {other}", f"CREATE TABLE {other}.o (g GEOMETRY, v VARCHAR(10))",
               f"CREATE VIEW {other}.v AS SELECT v FROM {other}.o", f"CREATE PROCEDURE {other}.p() BEGIN DECLARE x INT; SET x = 1; END",
               f"INSERT INTO {other}.o (v) VALUES ('a')", f"ALTER TABLE {other}.o ADD COLUMN w INT", f"DROP DATABASE {other}", f"INSERT INTO {db}.t VALUES (4,'z',4)")
    weir.catch_up()
    same("t")


def test_if_not_exists_where_a_view_is(server, db, weir, lake, same):
    """MySQL logs the statement all the same"""
    server.sql(*START, "CREATE VIEW v AS SELECT id FROM t", db=db)
    weir.catch_up()
    server.sql("CREATE TABLE IF NOT EXISTS v (id INT PRIMARY KEY)", "CREATE TABLE IF NOT EXISTS v LIKE t", "CREATE TABLE IF NOT EXISTS v (id INT PRIMARY KEY) ENGINE=MyISAM",
               "CREATE TABLE IF NOT EXISTS v AS SELECT 1 AS id", "CREATE VIEW later AS SELECT 1 AS x", "CREATE TABLE IF NOT EXISTS later (x INT)", db=db)
    weir.catch_up()
    assert lake.tables() == {(db, "t")}
    server.sql("CREATE TABLE IF NOT EXISTS n (id INT PRIMARY KEY)", "INSERT INTO n VALUES (1)", "CREATE TABLE IF NOT EXISTS l LIKE t", "INSERT INTO l VALUES (1,'a',1)",
               "CREATE TABLE IF NOT EXISTS m (id INT PRIMARY KEY) ENGINE=MyISAM", "INSERT INTO m VALUES (1)", "CREATE TABLE IF NOT EXISTS m (id INT PRIMARY KEY, x INT)",
               "DROP VIEW v", "CREATE TABLE IF NOT EXISTS v (id INT PRIMARY KEY, x INT)", "INSERT INTO v VALUES (1, 2)",
               "DROP TABLE IF EXISTS later", "CREATE TABLE IF NOT EXISTS later (x INT)", db=db)
    weir.catch_up()
    same("t", "n", "l", "m", "v")
    assert lake.tables() == {(db, x) for x in ("t", "n", "l", "m", "v")}


def test_a_view_gives_its_name_to_a_table(server, db, weir, same):
    server.sql(*START, "CREATE VIEW v AS SELECT id FROM t", db=db)
    weir.catch_up()
    server.sql("RENAME TABLE v TO w", db=db)
    weir.catch_up()
    server.sql("DROP VIEW w", "CREATE TABLE IF NOT EXISTS w (id INT PRIMARY KEY)", "INSERT INTO w VALUES (1)", db=db)
    weir.catch_up()
    same("t", "w")
    server.sql("INSERT INTO w VALUES (2)", "DELETE FROM w WHERE id = 1", db=db)
    weir.catch_up()
    same("w")


def test_create_select_if_not_exists(server, db, weir, flavor, same):
    server.sql(*START, db=db)
    weir.catch_up()
    server.sql("CREATE TABLE IF NOT EXISTS c (PRIMARY KEY (id)) AS SELECT id, a FROM t", "INSERT INTO c VALUES (9, 'n')", "CREATE TABLE IF NOT EXISTS c AS SELECT 5 AS id", db=db)
    weir.catch_up()
    same("t", "c")
