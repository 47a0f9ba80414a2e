"""Whatever is wrong from outside: either a sync that still loses nothing, or a status other than 0 and a message that names the
thing, the reason and the way out."""
import os
import random
import re
import time

import pytest
from harness import wait_until, writer
from harness.compare import assert_equal
from harness.lake import Lake
from services import ports


@pytest.fixture
def one(server, db):
    server.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1,'a'),(2,'b')", db=db)


def refuses(weir, *patterns, status=1):
    """both check and sync end with the status and say the same"""
    weir.check(status=status).says(*patterns)
    weir.catch_up(status=status).says(*patterns)


# ---- the configuration
def test_unknown_key_names_the_nearest_right_one(weir, one):
    weir.config["source"]["captrue"] = weir.config["source"].pop("capture")
    weir.write()
    refuses(weir, "captrue", r"\bcapture\b", status=[1, 2])


@pytest.mark.parametrize("key, value, names", [
    ("commit", {"every": "soon"}, ["every", "soon"]), ("commit", {"every": "10"}, ["every"]), ("format_version", 7, ["format_version", "7"]),
    ("catalog", "hive", ["catalog", "hive", "sqlite"])])
def test_wrong_values_are_named(weir, one, key, value, names):
    weir.config["lake"][key] = value
    weir.write()
    refuses(weir, *names, status=[1, 2])


def test_invalid_regular_expression(weir, one):
    weir.config["source"]["capture"] = ["shop\\.("]
    weir.write()
    refuses(weir, r"capture", r"shop\\\.\(", status=[1, 2])


def test_a_file_that_is_not_yaml(weir, one):
    weir.file.write_text("name: [unclosed\nsource: {")
    refuses(weir, "weir.yaml", "line|:2", status=[1, 2])


def test_a_missing_file(weir, one):
    weir.file.unlink()
    refuses(weir, "weir.yaml", status=[1, 2])


def test_a_password_in_the_url_is_refused_and_not_shown(weir, one):
    weir.config["source"]["url"] = weir.config["source"]["url"].replace("weir@", "weir:sEcReT@")
    weir.write()
    r = weir.check(status=[1, 2]).says("password_env")
    assert "sEcReT" not in r.out + r.err


def test_unset_password_variable_is_named(weir, one):
    weir.config["source"]["password_env"] = "WEIR_NO_SUCH_VARIABLE"
    weir.write()
    refuses(weir, "WEIR_NO_SUCH_VARIABLE", status=[1, 2])


@pytest.mark.parametrize("args, nearest", [(["--untill", "current"], "--until"), (["--until", "yesterday"], "current")])
def test_wrong_flags(weir, one, args, nearest):
    weir.run("sync", *args, status=2).says(nearest)


def test_unknown_command_names_the_nearest(weir, one):
    weir.run("snyc", status=2).says("sync")


# ---- the source
def test_wrong_password(make_weir, server, db, one):
    w = make_weir(server, [rf"{db}\..*"], password="wrong-one")
    w.check(status=1).says("weir", "denied|password", "127.0.0.1")
    r = w.catch_up(status=1).says("denied|password")
    assert "wrong-one" not in r.out + r.err


def test_unreachable_host(weir, one):
    port, fd = ports.lock()     # locked, so that nothing listens there
    try:
        weir.config["source"]["url"] = f"mysql://weir@127.0.0.1:{port}"
        weir.write()
        refuses(weir, f"127.0.0.1:{port}", "refused|connect")
    finally:
        os.close(fd)


def test_a_pattern_that_matches_nothing(make_weir, server, db, one):
    w = make_weir(server, [rf"{db}\.no_such_.*"])
    w.check(status=1).says("no_such_", "match")


def test_missing_privileges_come_with_the_grant(make_weir, server, db, one):
    server.sql("DROP USER IF EXISTS 'poor'@'%'", "CREATE USER 'poor'@'%' IDENTIFIED BY 'poor'", f"GRANT SELECT ON {db}.* TO 'poor'@'%'")
    try:
        refuses(make_weir(server, [rf"{db}\..*"], user="poor", password="poor"), "REPLICATION SLAVE", "GRANT", "poor")
    finally:
        server.sql("DROP USER 'poor'@'%'")


def test_a_user_with_the_least_rights_is_enough(make_weir, server, db, one):
    server.sql("DROP USER IF EXISTS 'least'@'%'", "CREATE USER 'least'@'%' IDENTIFIED BY 'least'", f"GRANT SELECT ON {db}.* TO 'least'@'%'",
               "GRANT REPLICATION SLAVE, " + ("BINLOG MONITOR" if server.flavor == "mariadb" else "REPLICATION CLIENT") + " ON *.* TO 'least'@'%'")
    try:
        w = make_weir(server, [rf"{db}\..*"], user="least", password="least")
        w.catch_up()
        assert_equal(server, Lake(w.home), db, ["t"])
    finally:
        server.sql("DROP USER 'least'@'%'")


def test_statement_format(weir, server, one):
    server.sql("SET GLOBAL binlog_format = 'STATEMENT'")
    try:
        refuses(weir, "binlog_format", "STATEMENT", "ROW")
    finally:
        server.sql("SET GLOBAL binlog_format = 'ROW'")


def test_one_statement_logged_as_statement_is_not_skipped(weir, server, db, one, lake):
    """a session may choose its own format: the rows of that statement are not in the log"""
    weir.catch_up()
    with server.connect(database=db) as con, con.cursor() as cur:
        cur.execute("SET SESSION binlog_format = 'STATEMENT'")
        cur.execute("UPDATE t SET v = 'statement' WHERE id = 1")
    r = weir.catch_up(status=[0, 1])
    if r.status == 0:
        assert_equal(server, lake, db, ["t"])
    else:
        r.says(rf"{db}\.t|{db}", "statement")


def test_no_binlog_at_all(own_server, make_weir, flavor):
    s = own_server({"log_bin": None, "skip_log_bin": ""})
    s.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    refuses(make_weir(s, [r"d\..*"]), "log_bin")


def purge(server):
    """all logs but a new, empty one"""
    flush = "FLUSH BINARY LOGS"
    server.sql(flush, flush)

    def purged():  # MariaDB passes over a log until InnoDB has made its checkpoint
        last = server.sql("SHOW BINARY LOGS")[-1][0]
        server.sql(f"PURGE BINARY LOGS TO '{last}'")
        return len(server.sql("SHOW BINARY LOGS")) == 1

    wait_until(purged, what="the old logs to go")


def test_logs_purged_while_weir_was_away(own_server, make_weir):
    s = own_server()
    s.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    w = make_weir(s, [r"d\..*"])
    w.catch_up()
    s.sql("INSERT INTO d.t VALUES (2)")
    purge(s)
    s.sql("INSERT INTO d.t VALUES (3)")
    w.catch_up(status=1).says("purged|no longer|missing|not available|gone", "binlog")
    assert Lake(w.home).count("d", "t") == 1, "the lake went on over a gap"


def test_source_history_replaced_while_weir_was_away(own_server, make_weir, flavor):
    s = own_server()
    s.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    w = make_weir(s, [r"d\..*"])
    w.catch_up()
    time.sleep(1.1)  # a binlog's birth is known in whole seconds
    s.sql("RESET MASTER" if flavor == "mariadb" else "RESET BINARY LOGS AND GTIDS", *[f"INSERT INTO d.t VALUES ({i})" for i in range(2, 40)])
    w.catch_up(status=1).says("history|reset|GTID|position")
    assert Lake(w.home).count("d", "t") == 1


def test_another_server_behind_the_same_address(own_server, make_weir):
    a, b = own_server(), own_server()
    for s in (a, b):
        s.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    w = make_weir(a, [r"d\..*"])
    w.catch_up()
    b.sql(*[f"INSERT INTO d.t VALUES ({i})" for i in range(2, 30)])
    w.config["source"]["url"] = b.url()
    w.write()
    w.catch_up(status=1)
    assert Lake(w.home).count("d", "t") == 1


# ---- the home folder
def segments(weir):
    return sorted(p for p in (weir.home / "queue").rglob("*") if p.is_file() and p.stat().st_size > 4096)


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_damaged_queue_is_found(make_weir, server, db, damage):
    """changes that are in the queue but not yet in the lake"""
    writer.create(server, db, rows=1000)
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"commit": {"every": "1h", "bytes": "1GB"}}})
    w.catch_up()
    w.start()
    with writer.Writer(server, db, 3, per_second=2000) as busy:
        wait_until(lambda: busy.committed > 1500 or busy.error, 60, "1500 transactions")
    wait_until(lambda: not w.running or sum(p.stat().st_size for p in segments(w)) > 65536, 30, "a filled queue")
    w.kill()
    assert segments(w), f"no queue segments below {w.home}/queue"
    seg = segments(w)[-1]
    size = seg.stat().st_size
    if damage == "flip":
        at = random.Random(5).randrange(size // 4, size // 2)
        with open(seg, "r+b") as f:
            f.seek(at)
            byte = f.read(1)
            f.seek(at)
            f.write(bytes([byte[0] ^ 0x41]))
    elif damage == "truncate":
        os.truncate(seg, size // 3)
        w.assert_accounted = lambda: None      # see below
    else:
        seg.unlink()
    r = w.catch_up(status=[0, 1])
    if r.status:
        r.says("queue")
    else:       # what was damaged could be had from the source again
        assert_equal(server, Lake(w.home), db, writer.TABLES)
        if damage == "truncate":
            assert [a["alarm"] for a in w.ledger()[1]] == ["not-counted"]   # the queue ends before what was counted of it


def test_foreign_files_in_the_warehouse_are_left_alone(weir, server, db, one, lake, same):
    weir.catch_up()
    fs, files = lake.objects()
    strays = {f"{f.rpartition('/')[0]}/stray{end}" for f in files for end in (".txt", ".parquet")}
    for f in strays:
        with fs.open_output_stream(f) as out:
            out.write(b"not yours")
    server.sql("INSERT INTO t VALUES (3, 'c')", "DELETE FROM t WHERE id = 1", db=db)
    weir.catch_up()
    same("t")
    assert all(fs.open_input_stream(f).read() == b"not yours" for f in strays)


def test_a_data_file_that_vanished_is_an_error_or_repaired(weir, server, db, one, lake):
    weir.catch_up()
    fs, files = lake.objects(".parquet")
    assert files
    for f in files:
        fs.delete_file(f)
    server.sql("UPDATE t SET v = 'new' WHERE id = 1", db=db)
    r = weir.catch_up(status=[0, 1])
    if r.status:
        r.says(r"\.parquet", "missing|no such file|not found|does not exist|cannot")
    else:
        # the update alone may not need the file; the gap must then show to whoever reads or asks
        with pytest.raises(Exception):
            lake.table(db, "t").scan().to_arrow()


@pytest.mark.parametrize("file", ["catalog.db", "state.db"])
def test_a_damaged_database_file_is_named(weir, server, db, one, file):
    weir.catch_up()
    path = weir.home / file
    path.write_bytes(b"this is no SQLite file at all" * 200)
    server.sql("INSERT INTO t VALUES (3, 'c')", db=db)
    weir.catch_up(status=1).says(file)


def test_home_is_a_file(weir, one):
    weir.home.write_text("in the way")
    refuses(weir, str(weir.home))


def test_a_second_sync_on_the_same_home_is_refused(weir, server, db, one, same):
    weir.start()
    weir.wait()
    weir.catch_up(status=1).says("running|in use|lock|another", str(weir.home))
    server.sql("INSERT INTO t VALUES (3, 'c')", db=db)
    weir.wait()
    weir.stop()
    same("t")


# ---- the schema
def test_a_table_dropped_in_mid_snapshot_takes_nothing_else_with_it(make_weir, server, db):
    writer.create(server, db, rows=20000)
    w = make_weir(server, [rf"{db}\..*"], {"snapshot": {"rows_per_second": 15000}})
    lake = Lake(w.home)
    w.start()
    wait_until(lambda: not w.running or lake.objects(".parquet")[1], 60, "the first data file")
    server.sql("DROP TABLE by_text", db=db)
    rest = [t for t in writer.TABLES if t != "by_text"]
    if w.running:
        w.wait(seconds=120, status=[0, 1])
    if w.running:
        w.stop()
    else:
        assert w.ended().says("by_text").status != 0
        w.catch_up()
    assert_equal(server, lake, db, rest)


def test_nothing_waits_for_a_schema_change_that_nobody_logged(weir, server, db, one, same):
    """rows that must be read again are not there as the queue knows them; what would say why never comes"""
    weir.catch_up()
    server.sql("SET SESSION sql_log_bin = OFF", "ALTER TABLE t ADD c INT", "SET SESSION sql_log_bin = ON", db=db)
    weir.config["transform"] = {"rules": [{"table": rf"{db}\.t", "filter": "id < 1000"}]}        # a reason to read it again
    weir.write()
    for _ in range(2):
        weir.catch_up(status=1).says(rf"{db}\.t cannot be read again", "no schema change in the binlog says so", "weir resume .*--resnapshot", "take it out and in again")
    for excluded in ([rf"{db}\.t"], []):
        weir.config["source"]["exclude"] = excluded
        weir.write()
        weir.catch_up()
    same("t")


def test_a_foreign_key_cascade_is_announced(weir, server, db, flavor):
    """children changed by a cascade are not in MariaDB's log"""
    server.sql("CREATE TABLE p (id INT PRIMARY KEY)", "CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)", db=db)
    r = weir.check(status=[0, 1])
    if flavor == "mariadb":
        r.says("CASCADE", rf"{db}\.c")


def test_versioned_by_transaction_number(server, flavor, db, make_weir):
    """MariaDB logs changes of such tables as statements, whatever binlog_format says"""
    if flavor != "mariadb":
        pytest.skip("MySQL has no system versioning")
    server.sql("CREATE TABLE n (id INT PRIMARY KEY, s BIGINT UNSIGNED GENERATED ALWAYS AS ROW START, e BIGINT UNSIGNED GENERATED ALWAYS AS ROW END, "
               "PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING ENGINE=InnoDB", "CREATE TABLE y (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
               "CREATE TABLE z (id INT PRIMARY KEY, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)) "
               "WITH SYSTEM VERSIONING", db=db)
    weir = make_weir(server, [rf"{db}\..*"])
    r = weir.check(status=1).says(rf"{db}\.n is system-versioned by transaction number", "SQL text", "ADD SYSTEM VERSIONING", rf"{db}\.y is system-versioned", rf"{db}\.z is system-versioned")
    assert not re.search(rf"{db}\.[yz] is system-versioned by", r.out + r.err)
    # the way out that it names
    server.sql("SET system_versioning_alter_history = KEEP", "ALTER TABLE n DROP SYSTEM VERSIONING, DROP PERIOD FOR SYSTEM_TIME, DROP s, DROP e", "ALTER TABLE n ADD SYSTEM VERSIONING", db=db)
    weir.check().says(rf"{db}\.n is system-versioned")
    weir.catch_up()
    # one that comes later
    server.sql("CREATE TABLE o (id INT PRIMARY KEY, s BIGINT UNSIGNED GENERATED ALWAYS AS ROW START, e BIGINT UNSIGNED GENERATED ALWAYS AS ROW END, "
               "PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING ENGINE=InnoDB", "INSERT INTO o (id) VALUES (1)", db=db)
    weir.catch_up(status=1).says(rf"{db}\.o is system-versioned by transaction number", "statement", "version it by time")
