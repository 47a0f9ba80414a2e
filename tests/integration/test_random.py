"""Random schemas, values, changes and schema changes (harness/random_sql.py) on a real server: after each batch every table of the source
equals the lake, at the end also for a pipeline that only sees the result (its snapshot). Below: what such runs have found, cut down.

WEIR_SEED=123 repeats a run, WEIR_ROUNDS=100 makes it long (6). A failing round leaves its statements as a script, one JSON array a line."""
import os
import random
import re

import pytest
from harness import random_play
from harness.compare import assert_equal
from harness.lake import Lake

ROUNDS = int(os.environ.get("WEIR_ROUNDS", "6"))
SEED = int(os.environ["WEIR_SEED"])


@pytest.mark.parametrize("number", range(ROUNDS))
def test_random(server, flavor, make_weir, tmp_path, number):
    print(f"\nWEIR_SEED={SEED + number} WEIR_ROUNDS=1")
    rnd = random.Random(f"{SEED + number} {flavor}")
    db = "rnd"
    config = {"lake": {"commit": {"every": rnd.choice(("100ms", "1s"))}, "format_version": rnd.choice((3, 3, 2))},
              "policy": {"on_drop": rnd.choice(("keep", "mirror"))}}
    merge = rnd.random() < 0.25
    if merge:
        config = {**config, "merge": [{"from": rf"{db}\.s_\d+", "to": "lake.shards"}], "policy": {"on_drop": "mirror"}}
    live, metadata = rnd.random() < 0.6, rnd.choice(("FULL", "MINIMAL"))
    weir = make_weir(server, [rf"{db}\..*"], config)
    player = random_play.Player(server, db, weir, live)
    player.steps.append(["config", flavor, config, live, metadata])
    server.sql(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    try:
        (random_play.MergeRound if merge else random_play.Round)(rnd, player, flavor, tables=rnd.choice((3, 6)), batches=3, statements=rnd.choice((15, 40))).play()
        player.compare(readers=random_play.READERS)
        other = make_weir(server, [rf"{db}\..*"], {**config, "name": "other"})
        other.catch_up()
        player.compare(other)
    except BaseException as e:
        if re.search(random_play.LEGITIMATE, str(e)):
            print("refused:", e)
            return
        player.save(tmp_path / "failing.jsonl")
        print(f"the statements: {tmp_path / 'failing.jsonl'}")
        raise
    finally:
        player.end()
        server.sql("SET GLOBAL binlog_row_metadata = 'FULL'", f"DROP DATABASE IF EXISTS {db}")


# ---------------------------------------------------------------- found before
@pytest.fixture
def minimal(server):
    server.sql("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    yield
    server.sql("SET GLOBAL binlog_row_metadata = 'FULL'")


def run(server, db, *statements):
    server.sql("SET SESSION sql_mode = '', time_zone = '+00:00'", *statements, db=db)


def test_labels_that_the_character_set_lacks(server, db, weir, same, minimal):
    """the server keeps '?' for them, whatever the statement says"""
    run(server, db, "CREATE TABLE t (id INT PRIMARY KEY)")
    weir.catch_up()
    run(server, db, "CREATE TABLE a (id INT PRIMARY KEY, e ENUM('a','日本','é') CHARACTER SET latin1, s SET('日','b') CHARACTER SET greek, "
        "w ENUM('é','\\\\','a') CHARACTER SET swe7)", "INSERT INTO a VALUES (1,1,1,1),(2,2,2,2),(3,3,3,3)")
    weir.catch_up()
    same("a")
    run(server, db, "ALTER TABLE a MODIFY e ENUM('a','日本','é','日') CHARACTER SET latin1", "INSERT INTO a VALUES (4,4,3,1)")
    weir.catch_up()
    same("a")


def test_a_definition_of_later_is_not_believed(server, db, weir, same, minimal):
    """a statement that cannot be followed takes the server's definition, which may have a later statement in it already"""
    run(server, db, "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b'), l ENUM('a','é')) CHARACTER SET utf8mb4", "INSERT INTO t VALUES (1,1,1),(2,2,1)")
    weir.catch_up()
    run(server, db, "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb3", "INSERT INTO t VALUES (10,1,1)", "UPDATE t SET e = 2 WHERE id = 1",
        "ALTER TABLE t MODIFY e ENUM('b','a')")
    weir.catch_up()
    same("t")


def test_an_empty_member_of_a_set(server, db, weir, same):
    run(server, db, "CREATE TABLE t (id INT PRIMARY KEY, s SET('','b','c'), u SET('a','','c'))", "INSERT INTO t VALUES (1,3,3),(2,5,6)")
    weir.catch_up()
    run(server, db, "INSERT INTO t VALUES (11,3,3),(12,2,4),(13,7,7),(14,1,2),(15,5,6)")
    weir.catch_up()
    same("t")


@pytest.mark.parametrize("when", ["snapshot", "stream"])
def test_zero_dates_in_a_key_stop_the_sync(server, db, weir, same, when):
    """they would all be null, and one row be taken for the other"""
    run(server, db, "CREATE TABLE t (d DATE, n INT, PRIMARY KEY (d, n))", "INSERT INTO t VALUES ('2024-01-01', 1)")
    if when == "stream":
        weir.catch_up()
        same("t")
    run(server, db, "INSERT INTO t VALUES ('0000-00-00', 1), ('2024-00-15', 1)")
    weir.catch_up(status=1).says("column d is in the table's key", "zero_date: string")


def test_zero_dates_in_a_key_as_text(server, db, make_weir):
    weir = make_weir(server, [rf"{db}\..*"], {"types": {"zero_date": "string"}})
    lake = Lake(weir.home)
    run(server, db, "CREATE TABLE t (d DATE PRIMARY KEY, n INT)", "INSERT INTO t VALUES ('2024-01-01', 1), ('0000-00-00', 2)")
    weir.catch_up()
    run(server, db, "INSERT INTO t VALUES ('2024-00-15', 3)", "UPDATE t SET n = 20 WHERE d = '0000-00-00'", "DELETE FROM t WHERE d = '2024-01-01'")
    weir.catch_up()
    rows = sorted((r["d"], r["n"]) for r in lake.table(db, "t").scan().to_arrow().to_pylist())
    assert rows == [("0000-00-00", 20), ("2024-00-15", 3)]


def test_a_geometry_of_no_bytes(server, flavor, db, weir, same):
    """MariaDB makes it of NULL for a NOT NULL column"""
    if flavor != "mariadb":
        pytest.skip("MySQL refuses it")
    run(server, db, "CREATE TABLE t (id INT PRIMARY KEY, g POINT NOT NULL)", "INSERT IGNORE INTO t VALUES (1, NULL), (2, ST_GeomFromText('POINT(1 1)'))")
    weir.catch_up()
    same("t")
    run(server, db, "INSERT IGNORE INTO t VALUES (3, NULL)", "DELETE FROM t WHERE id = 1")
    weir.catch_up()
    same("t")


def test_fractions_of_the_first_second(server, flavor, db, weir, same):
    """MariaDB stores 1970-01-01 00:00:00.9 as second 0 with a fraction: no zero date"""
    if flavor != "mariadb":
        pytest.skip("MySQL has no such TIMESTAMP")
    run(server, db, "CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP(4) NULL)", "INSERT INTO t VALUES (1, '1970-01-01 00:00:00.9'), (2, '0000-00-00')")
    weir.catch_up()
    same("t")
    run(server, db, "INSERT INTO t VALUES (11, '1970-01-01 00:00:00.9'), (12, '0000-00-00')")
    weir.catch_up()
    same("t")


def test_an_empty_member_of_a_set_brings_no_comma(server, db, weir, same):
    """SELECT shows '1' for the members '' and '1', in this order"""
    run(server, db, "CREATE TABLE t (id INT PRIMARY KEY, s SET('a','','1'))", "INSERT INTO t VALUES (1, 6), (2, 7)")
    weir.catch_up()
    run(server, db, "INSERT INTO t VALUES (3, 6), (4, 7), (5, 2)")
    weir.catch_up()
    same("t")


def test_shards_that_leave_and_come_back(server, db, make_weir):
    """in one statement, and after all of them were gone"""
    weir = make_weir(server, [rf"{db}\..*"], {"merge": [{"from": rf"{db}\.s_\d+", "to": "lake.shards"}], "policy": {"on_drop": "mirror"}})

    def same():
        weir.catch_up()
        found = random_play.merged_differences(server, db, weir, ("lake", "shards"), r"s_\d+")
        assert not found, "\n".join(found)
    run(server, db, *[f"CREATE TABLE {t} (id INT PRIMARY KEY, v INT)" for t in ("s_1", "s_2", "x")], "INSERT INTO s_1 VALUES (1,1),(2,2)",
        "INSERT INTO s_2 VALUES (1,1)", "INSERT INTO x VALUES (7,7)")
    same()
    run(server, db, "RENAME TABLE s_1 TO y, x TO s_1", "INSERT INTO s_1 VALUES (8,8)")
    same()
    run(server, db, "DROP TABLE s_1, s_2")
    same()
    run(server, db, "CREATE TABLE s_1 (id INT PRIMARY KEY, v INT, w INT)", "INSERT INTO s_1 VALUES (1,1,1)")
    same()


def test_hashes_of_unique_texts(server, flavor, db, weir, same):
    """MariaDB keeps a hash in a hidden column when a UNIQUE key is too long for an index: also when a MODIFY makes it so"""
    if flavor != "mariadb":
        pytest.skip("MySQL refuses such keys")
    run(server, db, "CREATE TABLE t (a CHAR(40) NOT NULL, b VARCHAR(3) NOT NULL, c INT, UNIQUE KEY uk (a, b))", "INSERT INTO t VALUES ('a','b',1)")
    weir.catch_up()
    run(server, db, "ALTER TABLE t MODIFY b TEXT NULL", "INSERT INTO t VALUES ('a','c',2),('a',NULL,3)", "UPDATE t SET c = 4 WHERE b = 'b'")
    weir.catch_up()
    same("t")
    run(server, db, "ALTER TABLE t ADD d BIGINT UNSIGNED, ADD UNIQUE (b)", "INSERT INTO t VALUES ('x','y',5,6)", "ALTER TABLE t DROP KEY uk, DROP KEY b", "DELETE FROM t WHERE c = 2")
    weir.catch_up()
    same("t")


def test_a_column_nobody_told_of_is_no_hash(server, flavor, db, weir, minimal):
    if flavor != "mariadb":
        pytest.skip("of MariaDB")
    run(server, db, "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, UNIQUE KEY (b))", "INSERT INTO t VALUES (1,'b')")
    weir.catch_up()
    run(server, db, "SET SESSION sql_log_bin = OFF", "ALTER TABLE t ADD c BIGINT", "SET SESSION sql_log_bin = ON", "INSERT INTO t VALUES (2,'c',2)")
    weir.catch_up(status=1).says("table .*t has 4 columns in the binlog, but 2")


def test_long_decimals_inside_json(server, flavor, db, weir, same):
    """MySQL counts the first group of digits whole: DECIMAL(72)"""
    if flavor != "mysql":
        pytest.skip("JSON is a text on MariaDB")
    run(server, db, "CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
    weir.catch_up()
    run(server, db, f"INSERT INTO t VALUES (1, JSON_ARRAY(CAST({'9' * 65} AS DECIMAL(65,0)), CAST(-{'9' * 64} AS DECIMAL(65,0)), CAST({'1' * 35}.{'2' * 30} AS DECIMAL(65,30))))")
    weir.catch_up()
    same("t")


def test_two_kinds_of_empty_labels_in_a_key(server, db, weir, same):
    """the number 0 and the label '' look alike: one row would be taken for the other"""
    run(server, db, "CREATE TABLE t (e ENUM('','a') PRIMARY KEY, n INT)", "INSERT INTO t VALUES ('', 1)")
    weir.catch_up()
    run(server, db, "UPDATE t SET n = 2", "INSERT INTO t VALUES ('a', 1)")
    weir.catch_up()
    same("t")
    run(server, db, "INSERT INTO t VALUES ('nothing', 3)")
    weir.catch_up(status=1).says("column e is in the table's key and holds an empty value")


def test_defaults_that_rounding_changes(server, db, weir, same):
    """DOUBLE(M,D) adds floor and fraction again: -0.0005 becomes another number"""
    run(server, db, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1),(2)")
    weir.catch_up()
    run(server, db, "ALTER TABLE t ADD a DOUBLE(20,5) DEFAULT -0.0005, ADD b FLOAT(9,4) DEFAULT -0.0005", "ALTER TABLE t ADD c DOUBLE(10,3) DEFAULT 1.5, ADD d DOUBLE(12,6) DEFAULT 4.35",
        "INSERT INTO t (id) VALUES (3)")
    weir.catch_up()
    same("t")


def test_definitions_of_later(server, db, make_weir):
    """statements that cannot be followed take the server's definition: rows of older shapes behind them are passed over, and what follows is known again"""
    weir = make_weir(server, [rf"{db}\.t\d?"])
    run(server, db, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE stage (id INT PRIMARY KEY, a INT, b INT)", "CREATE TABLE heap (a INT, b DATE)",
        "INSERT INTO stage VALUES (1,10,100),(2,20,200)", "INSERT INTO heap VALUES (1,'2024-01-01'),(1,'2024-01-01')", "INSERT INTO t VALUES (1,1)")
    weir.catch_up()
    run(server, db, "ALTER TABLE stage ADD q INT DEFAULT 1", "RENAME TABLE t TO away, stage TO t", "INSERT INTO t VALUES (3,30,300,3)", "UPDATE t SET a = 11 WHERE id = 1",
        "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", "INSERT INTO t VALUES (4,40,400,4)", "CREATE TABLE t3 LIKE t", "INSERT INTO t3 SELECT * FROM t",
        "ALTER TABLE t DROP COLUMN q, ADD COLUMN z TEXT FIRST", "INSERT INTO t VALUES ('z',5,50,500)", "DELETE FROM t WHERE id = 2",
        "RENAME TABLE heap TO t1", "INSERT INTO t1 VALUES (2,NULL)", "ALTER TABLE t1 RENAME TO t2", "INSERT INTO t2 VALUES (3,'2024-03-03')", "ALTER TABLE away RENAME t1, ADD z INT DEFAULT 9",
        "INSERT INTO t1 VALUES (8,8,8)")
    weir.catch_up()
    assert_equal(server, Lake(weir.home), db, ["t", "t1", "t2", "t3"])
    run(server, db, "ALTER TABLE t ADD COLUMN last INT DEFAULT 7", "INSERT INTO t VALUES ('z',6,50,500,1)", "UPDATE t3 SET a = 0", "DELETE FROM t2 LIMIT 1", "DELETE FROM t1 WHERE id = 1")
    weir.catch_up()
    assert_equal(server, Lake(weir.home), db, ["t", "t1", "t2", "t3"])


def test_a_keyless_shard_that_comes_with_rows(server, db, make_weir):
    """it takes the merged table's key away, which is then loaded: its rows in the same transaction are not counted twice"""
    weir = make_weir(server, [rf"{db}\..*"], {"merge": [{"from": rf"{db}\.s_\d+", "to": "lake.shards"}], "policy": {"on_drop": "mirror"}})
    run(server, db, "CREATE TABLE s_1 (id INT PRIMARY KEY, v INT)", "INSERT INTO s_1 VALUES (1,1),(2,2)")
    weir.catch_up()
    run(server, db, "CREATE TABLE s_2 AS SELECT * FROM s_1", "INSERT INTO s_2 VALUES (1,1)")
    weir.catch_up()
    found = random_play.merged_differences(server, db, weir, ("lake", "shards"), r"s_\d+")
    assert not found, "\n".join(found)
