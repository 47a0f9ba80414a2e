"""What ROLLBACK TO SAVEPOINT and ROLLBACK undo, and what not: MariaDB leaves undone changes in its binlog when a table without transactions was
changed meanwhile, or a temporary table made. Only the servers know what then happened; the lake must equal them."""
import re
import threading
import time

import pytest
from harness import backend
from harness.compare import assert_equal
from harness.lake import Lake
from harness.weir import Weir
from services import instance

TABLES = ["i", "k", "m", "e", "ti", "ts", "cs"]
SETUP = [
    "CREATE TABLE i (a BIGINT) ENGINE=InnoDB", "CREATE TABLE k (a BIGINT PRIMARY KEY, v VARCHAR(200)) ENGINE=InnoDB",
    "CREATE TABLE m (a BIGINT) ENGINE=MyISAM", "CREATE TABLE e (a BIGINT) ENGINE=MEMORY", "CREATE TABLE ti (a BIGINT)", "CREATE TABLE ts (a BIGINT)",
    "CREATE TRIGGER t1 BEFORE INSERT ON ti FOR EACH ROW INSERT INTO m VALUES (NEW.a)",
    "CREATE TRIGGER t2 BEFORE INSERT ON ts FOR EACH ROW BEGIN SAVEPOINT a; INSERT INTO i VALUES (NEW.a + 1000); END",
    "CREATE PROCEDURE p() BEGIN INSERT INTO i VALUES (50); SAVEPOINT a; INSERT INTO i VALUES (51); ROLLBACK TO a; INSERT INTO i VALUES (52); END",
    "CREATE FUNCTION g(x INT) RETURNS INT BEGIN SAVEPOINT a; INSERT INTO i VALUES (x + 1); ROLLBACK TO a; INSERT INTO i VALUES (x + 2); RETURN x; END",
    "CREATE FUNCTION h(x INT) RETURNS INT BEGIN INSERT INTO i VALUES (x); SAVEPOINT a; INSERT INTO i VALUES (x + 100); INSERT INTO m VALUES (x); "
    "ROLLBACK TO a; INSERT INTO i VALUES (x + 200); RETURN x; END",
    "INSERT INTO k VALUES (1, 'a'), (2, 'b'), (3, 'c')", "INSERT INTO m VALUES (1)", "INSERT INTO i VALUES (1)",
]
BEGIN = ["BEGIN", "INSERT INTO m VALUES (1)", "INSERT INTO i VALUES (10)"]          # from here on nothing can be cut
SHAPES = {
    "plain": ["BEGIN", "INSERT INTO i VALUES (10)", "SAVEPOINT s", "INSERT INTO i VALUES (11)", "ROLLBACK TO s", "INSERT INTO i VALUES (12)", "COMMIT"],
    "mixed": [*BEGIN, "SAVEPOINT s", "INSERT INTO i VALUES (11)", "INSERT INTO m VALUES (2)", "ROLLBACK TO s", "INSERT INTO i VALUES (12)", "COMMIT"],
    "keyed": [*BEGIN, "SAVEPOINT s", "UPDATE k SET v = 'x'", "DELETE FROM k WHERE a = 2", "INSERT INTO k VALUES (9, 'n')", "ROLLBACK TO s",
              "UPDATE k SET v = CONCAT(v, 'y') WHERE a < 3", "INSERT INTO k VALUES (9, 'm')", "COMMIT"],
    "memory": ["BEGIN", "INSERT INTO i VALUES (10)", "SAVEPOINT s", "INSERT INTO i VALUES (11)", "INSERT INTO e VALUES (2)", "ROLLBACK TO s", "COMMIT"],
    "nested": [*BEGIN, "SAVEPOINT a", "INSERT INTO i VALUES (11)", "SAVEPOINT b", "INSERT INTO i VALUES (12)", "ROLLBACK TO b", "INSERT INTO i VALUES (13)", "SAVEPOINT c",
               "INSERT INTO k VALUES (8, '')", "ROLLBACK TO a", "INSERT INTO i VALUES (14)", "ROLLBACK TO a", "INSERT INTO i VALUES (15)", "COMMIT"],
    "again": [*BEGIN, "SAVEPOINT s", "SAVEPOINT S", "INSERT INTO i VALUES (12)", "ROLLBACK TO s", "INSERT INTO i VALUES (13)", "COMMIT"],
    "released": [*BEGIN, "SAVEPOINT a", "INSERT INTO i VALUES (11)", "SAVEPOINT b", "INSERT INTO i VALUES (12)", "RELEASE SAVEPOINT b", "SAVEPOINT c", "INSERT INTO i VALUES (13)",
                 "ROLLBACK TO a", "INSERT INTO i VALUES (14)", "COMMIT"],
    "before any": ["BEGIN", "SAVEPOINT s", "INSERT INTO i VALUES (11)", "INSERT INTO m VALUES (2)", "ROLLBACK TO s", "INSERT INTO i VALUES (12)", "COMMIT"],
    "at the head": ["BEGIN", "INSERT INTO m VALUES (2)", "SAVEPOINT s", "INSERT INTO i VALUES (11)", "ROLLBACK TO s", "INSERT INTO i VALUES (12)", "COMMIT"],
    "all": [*BEGIN, "INSERT INTO k VALUES (8, '')", "ROLLBACK"],
    "all, kept in the log": ["BEGIN", "INSERT INTO i VALUES (10)", "CREATE TEMPORARY TABLE tt (a INT)", "INSERT INTO i VALUES (12)", "SAVEPOINT s", "INSERT INTO i VALUES (13)",
                             "ROLLBACK TO s", "ROLLBACK", "DROP TEMPORARY TABLE tt"],
    "temporary": ["BEGIN", "INSERT INTO i VALUES (10)", "SAVEPOINT s", "INSERT INTO i VALUES (11)", "CREATE TEMPORARY TABLE tt (a INT) ENGINE=InnoDB", "INSERT INTO tt VALUES (1)",
                  "INSERT INTO i VALUES (12)", "ROLLBACK TO s", "INSERT INTO i VALUES (13)", "COMMIT", "DROP TEMPORARY TABLE tt"],
    "names": [*BEGIN, "SAVEPOINT `a``b; ROLLBACK TO x`", "INSERT INTO i VALUES (11)", "SAVEPOINT `é \"`", "INSERT INTO i VALUES (12)", "ROLLBACK TO SAVEPOINT `E \"`",
              "INSERT INTO i VALUES (13)", "ROLLBACK WORK TO SAVEPOINT `A``B; rollback to X`", "COMMIT"],
    "ansi": ["SET sql_mode = 'ANSI_QUOTES'", *BEGIN, 'SAVEPOINT "a""b"', "INSERT INTO i VALUES (11)", 'ROLLBACK TO "a""b"', "COMMIT"],
    "without quotes": ["SET sql_quote_show_create = 0", *BEGIN, "SAVEPOINT abc", "INSERT INTO i VALUES (11)", "ROLLBACK TO ABC", "COMMIT"],
    "another character set": ["SET NAMES gbk", *BEGIN, "SAVEPOINT `日本`", "INSERT INTO i VALUES (11)", "ROLLBACK TO `日本`", "COMMIT"],
    "direct": ["SET binlog_direct_non_transactional_updates = 1", *BEGIN, "SAVEPOINT s", "INSERT INTO i VALUES (11)", "INSERT INTO m VALUES (2)", "ROLLBACK TO s", "COMMIT"],
    "several tables": ["BEGIN", "INSERT INTO i VALUES (10)", "SAVEPOINT s", "UPDATE i, m SET i.a = i.a + 100, m.a = m.a + 100", "ROLLBACK TO s", "INSERT INTO i VALUES (12)", "COMMIT"],
    "trigger": ["BEGIN", "INSERT INTO i VALUES (10)", "SAVEPOINT s", "INSERT INTO ti VALUES (11)", "ROLLBACK TO s", "INSERT INTO i VALUES (12)", "COMMIT"],
    "procedure": ["BEGIN", "INSERT INTO m VALUES (1)", "CALL p()", "COMMIT"],
    "function": ["BEGIN", "INSERT INTO m VALUES (1)", "INSERT INTO ti SELECT g(20) UNION ALL SELECT g(30)", "INSERT INTO i VALUES (12)", "COMMIT"],
    "failed statement": [*BEGIN, "SAVEPOINT s", "INSERT INTO k VALUES (7, ''), (8, ''), (7, '')", "INSERT INTO k VALUES (8, 'x')", "ROLLBACK TO s", "INSERT INTO k VALUES (7, 'y')", "COMMIT"],
    "mixed format": ["SET binlog_format = MIXED", "BEGIN", "INSERT INTO m VALUES (uuid_short() * 0 + 1)", "INSERT INTO i VALUES (uuid_short() * 0 + 5)", "SAVEPOINT a", "INSERT INTO i VALUES (uuid_short() * 0 + 6)",
                     "INSERT INTO m VALUES (uuid_short() * 0 + 9)", "ROLLBACK TO a", "COMMIT"],
    "xa": ["XA START 'x'", "INSERT INTO i VALUES (10)", "SAVEPOINT s", "INSERT INTO i VALUES (11)", "INSERT INTO m VALUES (2)", "ROLLBACK TO s", "INSERT INTO i VALUES (12)",
           "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"],
    "xa in one phase": ["XA START 'x'", "INSERT INTO i VALUES (10)", "SAVEPOINT s", "INSERT INTO i VALUES (11)", "INSERT INTO m VALUES (2)", "ROLLBACK TO s", "XA END 'x'",
                        "XA COMMIT 'x' ONE PHASE"],
    "xa rolled back": ["XA START 'x'", "INSERT INTO i VALUES (10)", "SAVEPOINT s", "INSERT INTO i VALUES (11)", "INSERT INTO m VALUES (2)", "ROLLBACK TO s", "XA END 'x'", "XA ROLLBACK 'x'"],
    "without autocommit": ["SET autocommit = 0", "INSERT INTO i VALUES (1)", "INSERT INTO m VALUES (1)", "SAVEPOINT a", "INSERT INTO i VALUES (2)", "ROLLBACK TO a",
                           "INSERT INTO i VALUES (3)", "COMMIT"],
}
# a name that is set twice with changes between: a trigger's savepoint is another one, and the binlog does not say which it is
DOUBTFUL = {
    "function in CREATE": ["CREATE TABLE cs ENGINE=InnoDB SELECT h(5) AS a UNION ALL SELECT h(7)"],
    "function in CREATE MyISAM": ["CREATE TABLE cs ENGINE=MyISAM SELECT h(5) AS a UNION ALL SELECT h(7)"],
    "twice": [*BEGIN, "SAVEPOINT s", "INSERT INTO i VALUES (11)", "INSERT INTO k VALUES (7, '')", "SAVEPOINT S", "INSERT INTO i VALUES (12)", "ROLLBACK TO s", "INSERT INTO i VALUES (13)",
              "INSERT INTO k VALUES (8, '')", "COMMIT"],
    "trigger of that name": [*BEGIN, "SAVEPOINT a", "INSERT INTO k VALUES (11, '')", "INSERT INTO ts VALUES (1), (2)", "INSERT INTO i VALUES (12)", "ROLLBACK TO a",
                             "INSERT INTO k VALUES (11, 'again')", "INSERT INTO i VALUES (13)", "COMMIT"],
    "function of that name": [*BEGIN, "SAVEPOINT a", "INSERT INTO k VALUES (11, '')", "INSERT INTO ti SELECT g(20) UNION ALL SELECT g(30)", "INSERT INTO i VALUES (12)",
                              "ROLLBACK TO a", "INSERT INTO k VALUES (11, 'again')", "COMMIT"],
}


@pytest.fixture(scope="module")
def mixing(flavor, tmp_path_factory):
    """a server that lets a transaction change tables of both kinds; MySQL with GTIDs does not"""
    cnf = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"} if flavor == "mysql" else {}
    with instance(flavor, tmp_path_factory.mktemp(f"{flavor}-mixing"), cnf={**cnf, "log_bin_trust_function_creators": "ON"}, owned=True) as s:
        yield s


@pytest.fixture
def ground(mixing, make_weir):
    """tables of all kinds, captured and in the lake"""
    prepare(mixing, "sp")
    weir = make_weir(mixing, [r"sp\..*"])
    weir.catch_up()
    return weir


def prepare(server, db):
    server.sql(f"DROP DATABASE IF EXISTS {db}", f"CREATE DATABASE {db}")
    server.sql(*SETUP, db=db)


@pytest.fixture(scope="module")
def played(mixing, tmp_path_factory):
    """every shape in a database of its own, and one sync over all -> weir, shape -> database, what the sync said, the binlog's statements"""
    names = {shape: f"sp{n}" for n, shape in enumerate([*SHAPES, *DOUBTFUL])}
    for db in names.values():
        prepare(mixing, db)
    weir = Weir(mixing, tmp_path_factory.mktemp("weir"), [r"sp[0-9]+\..*"])
    weir.catch_up()
    mixing.sql("FLUSH BINARY LOGS")
    for shape, db in names.items():
        play(mixing, {**SHAPES, **DOUBTFUL}[shape], db)
    said = weir.run("sync", "--until", "current", "--verbose").err
    yield weir, names, said
    backend.release(weir.home)


def play(server, statements, db="sp"):
    """what the server refuses is no matter"""
    with server.connect(database=db, autocommit=True) as con, con.cursor() as cur:
        for s in statements:
            try:
                cur.execute(s)
            except Exception as e:
                print("refused:", s, e)


def logged(server, what):
    """whether a statement is in the present binlog file"""
    status = "SHOW MASTER STATUS" if server.flavor == "mariadb" else "SHOW BINARY LOG STATUS"
    file = server.sql(status)[0][0]
    return any(what in (r[5] or "") for r in server.sql(f"SHOW BINLOG EVENTS IN '{file}'"))


def compare(server, weir, db="sp"):
    there = {r[0] for r in server.sql(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{db}'")}
    assert_equal(server, Lake(weir.home), db, [t for t in TABLES if t in there], readers=("pyiceberg",))


@pytest.mark.parametrize("shape", [*SHAPES, *DOUBTFUL])
def test_what_was_undone(mixing, flavor, played, shape):
    weir, names, said = played
    doubt = shape in DOUBTFUL and flavor == "mariadb"
    assert bool(re.search(rf"{names[shape]}\..*it will be read again", said)) == doubt, said
    compare(mixing, weir, names[shape])


def test_what_comes_after(mixing, played):
    weir, names, _ = played
    for db in names.values():
        play(mixing, ["INSERT INTO i VALUES (99)", "UPDATE k SET v = 'end'", "DELETE FROM m LIMIT 1"], db)
    weir.catch_up()
    for db in list(names.values())[::3]:
        compare(mixing, weir, db)


def test_undone_changes_are_in_the_binlog_of_mariadb(mixing, flavor):
    """else the shapes above would show nothing"""
    prepare(mixing, "sp")
    mixing.sql("FLUSH BINARY LOGS")
    play(mixing, SHAPES["mixed"])
    assert logged(mixing, "ROLLBACK TO `s`") == (flavor == "mariadb")


def test_doubt_stops_when_nothing_may_be_read_again(mixing, ground, flavor):
    if flavor != "mariadb":
        pytest.skip("MySQL leaves nothing undone in the binlog")
    ground.config["policy"] = {"rowless_change": "stop"}
    ground.write()
    play(mixing, DOUBTFUL["twice"])
    ground.run("sync", "--until", "current", status=1).says(r"sp\.[ik]", "rolled back in part", "name was set twice", r"\w+-bin\.\d+:\d+|binlog\.\d+:\d+")


def test_doubt_in_a_prepared_transaction_stops(mixing, ground, flavor):
    if flavor != "mariadb":
        pytest.skip("MySQL leaves nothing undone in the binlog")
    play(mixing, ["XA START 'd'", "INSERT INTO m VALUES (1)", "INSERT INTO i VALUES (10)", "SAVEPOINT s", "INSERT INTO k VALUES (11, '')", "SAVEPOINT s", "INSERT INTO i VALUES (12)",
                  "ROLLBACK TO s", "XA END 'd'", "XA PREPARE 'd'", "XA COMMIT 'd'"])
    ground.run("sync", "--until", "current", status=1).says(r"sp\.k", "rolled back in part", "offset \\d+", "read again")


def test_a_prepare_that_is_looked_for(mixing, ground):
    """its spool file is gone: the binlog has it, with what was undone"""
    play(mixing, ["XA START 'l'", "INSERT INTO m VALUES (1)", "INSERT INTO i VALUES (10)", "SAVEPOINT s", "INSERT INTO k VALUES (11, '')", "ROLLBACK TO s", "INSERT INTO i VALUES (12)",
                  "XA END 'l'", "XA PREPARE 'l'"])
    ground.catch_up()
    files = list((ground.home / "xa").iterdir())
    assert files
    for f in files:
        f.unlink()
    play(mixing, ["XA COMMIT 'l'", "INSERT INTO i VALUES (13)"])
    ground.catch_up()
    compare(mixing, ground)


LARGE = [*BEGIN, "INSERT INTO k SELECT 1000 + seq.n, REPEAT('a', 150) FROM seq", "SAVEPOINT s", "INSERT INTO k SELECT 1000000 + seq.n, REPEAT('b', 150) FROM seq",
         "UPDATE k SET v = REPEAT('c', 150) WHERE a BETWEEN 1000 AND 20000", "ROLLBACK TO s", "INSERT INTO k SELECT 2000000 + seq.n, REPEAT('d', 150) FROM seq WHERE n < 1000",
         "INSERT INTO m VALUES (77)", "SAVEPOINT s2", "DELETE FROM k WHERE a > 1000", "ROLLBACK TO s2", "COMMIT"]


def fill(server):
    digits = " UNION ALL ".join(f"SELECT {n} AS d" if n == 0 else f"SELECT {n}" for n in range(10))
    server.sql(f"CREATE TABLE seq AS SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n FROM ({digits}) a, ({digits}) b, ({digits}) c, ({digits}) e, (SELECT 0 AS d UNION ALL SELECT 1 "
               "UNION ALL SELECT 2) f", db="sp")


def test_more_than_memory_holds(mixing, ground):
    """what was given of it is on the disk by then"""
    fill(mixing)
    play(mixing, LARGE)
    ground.catch_up()
    compare(mixing, ground)


def test_killed_while_reading_twice(mixing, ground):
    fill(mixing)
    ground.start()
    ground.wait()
    done = threading.Event()

    def write():
        for n in range(6):
            play(mixing, LARGE if n % 2 else SHAPES["nested"])
            play(mixing, ["DELETE FROM k WHERE a > 3"])
        done.set()
    t = threading.Thread(target=write)
    t.start()
    kills = 0
    while not done.is_set() or kills < 10:
        time.sleep(0.15 + 0.11 * (kills % 7))
        assert ground.kill(), ground.log_text()
        kills += 1
        ground.start()
    t.join()
    ground.wait()
    ground.stop()
    compare(mixing, ground)
