"""Connections that are lost: what the source knows of tables is put back when the stream has to begin again, and a load has each row once."""
import re
import sqlite3
import time

from harness import wait_until
from harness.compare import assert_equal
from harness.failover import cut
from harness.lake import Lake
from harness.wire import Wire


def who(server):
    return server.sql("SELECT @@server_uuid" if server.flavor == "mysql" else "SELECT CONCAT('mariadb-', @@gtid_domain_id, '-', @@server_id)")[0][0]


def test_tables_come_and_go_while_connections_are_lost(server, db, weir, same):
    server.sql("CREATE TABLE base (id INT PRIMARY KEY)", db=db)
    weir.start()
    weir.wait()
    for i in range(6):
        server.sql(f"CREATE TABLE t{i} (id INT PRIMARY KEY, v INT)", f"INSERT INTO t{i} VALUES (1, {i})", db=db)
        cut(server)
        server.sql(f"ALTER TABLE t{i} ADD w INT DEFAULT 5", f"INSERT INTO t{i} VALUES (2, 2, 2)", f"INSERT INTO base VALUES ({i})", db=db)
        if i % 2:
            server.sql(f"DROP TABLE t{i - 1}", f"RENAME TABLE t{i} TO r{i}", db=db)
        time.sleep(0.1 * (i % 3))
    weir.wait()
    assert weir.running, weir.log_text()
    same("base", "r1", "r3", "r5")
    weir.stop()
    born = sqlite3.connect(f"file:{weir.home}/state.db?mode=ro", uri=True).execute("SELECT table_id, COUNT(*) FROM schema_event WHERE kind = 1 GROUP BY table_id").fetchall()
    assert len(born) == 7 and all(n == 1 for _, n in born), "a table id was used twice"


def test_readers_of_a_load_are_lost(server, db, weir, same):
    """two of one table, each with a range of its own: whoever tries again reads its own range and no other"""
    server.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE digit (d INT PRIMARY KEY)", f"INSERT INTO digit VALUES {','.join(f'({i})' for i in range(10))}",
               "INSERT INTO t SELECT a.d + 10*b.d + 100*c.d + 1000*e.d + 10000*f.d + 100000*g.d, g.d FROM digit a, digit b, digit c, digit e, digit f, digit g WHERE g.d < 2", "ANALYZE TABLE t", db=db)
    weir.config["snapshot"] = {"parallel": 2, "rows_per_second": 30000}
    weir.config["lake"]["commit"]["every"] = "300ms"
    weir.write()
    weir.start()
    for read in (30000, 90000):
        wait_until(lambda: weir.rows_loaded() > read, what="a part of the load")
        cut(server, "user = 'weir' AND command NOT LIKE 'Binlog Dump%'")
    weir.wait()
    same("t", "digit")
    weir.stop()
    assert weir.log_text().count("trying again") >= 2, weir.log_text()


def test_a_commit_behind_the_last_row_of_a_load_fails(server, db, weir, same, monkeypatch):
    server.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)", db=db)
    monkeypatch.setenv("WEIR_FAULT", "load.after_seal:1:fail")
    weir.catch_up().says("trying again")
    same("t")


def test_an_address_leads_to_another_server_while_tables_are_read(own_server, make_weir):
    """as with an address that fails over while the old server lives, and goes on feeding the stream: rows and positions of the new one are not taken"""
    a, b = own_server(), own_server()
    for s in (a, b):
        s.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "CREATE TABLE d.nokey (v INT)",
              *[f"INSERT INTO d.t VALUES {','.join(f'({i}, {s.port})' for i in range(k, k + 1000))}" for k in range(0, 20000, 1000)], f"INSERT INTO d.nokey VALUES ({s.port})")
    wire = Wire(a)
    weir = make_weir(a, [r"d\..*"], {"source": {"url": wire.url()}, "snapshot": {"parallel": 1, "rows_per_second": 2000}, "lake": {"commit": {"every": "300ms"}}})
    weir.start()
    wait_until(lambda: weir.rows_loaded() > 3000, what="a part of the load")
    wire.server = b
    cut(a, "user = 'weir' AND command NOT LIKE 'Binlog Dump%'")
    wait_until(lambda: re.search(rf"now another server .{re.escape(who(b))}.*trying again", weir.log_text()), what="the other server to be refused")
    wire.server = a
    weir.wait()
    assert_equal(a, Lake(weir.home), "d", ("t", "nokey"))
    wire.server = b
    cut(a, "user = 'weir'")                         # the stream, too
    assert weir.ended().says("is not the one this pipeline has followed", "way out: point source.url at the right server").status == 1
    assert_equal(a, Lake(weir.home), "d", ("t", "nokey"))
    wire.close()


def test_connections_are_used_again_while_they_live(server, db, weir, same):
    """with TLS a new one costs more than the rows of a small table"""
    server.sql(*[s for i in range(40) for s in (f"CREATE TABLE k{i} (id CHAR(9) PRIMARY KEY, v TIME)", f"CREATE TABLE n{i} (v TIME)", f"INSERT INTO k{i} VALUES ('a', {i}), ('b', 1)", f"INSERT INTO n{i} VALUES ({i})")], db=db)

    def made():
        return int(dict(server.sql("SHOW GLOBAL STATUS LIKE 'Connections'"))["Connections"])
    before = made()
    weir.start()
    weir.wait()
    assert made() - before < 40                     # of 80 tables, and of these questions
    idle = server.sql("SELECT id FROM information_schema.PROCESSLIST WHERE user = 'weir' AND command = 'Sleep'")
    assert 0 < len(idle) <= 10
    cut(server, "user = 'weir' AND command = 'Sleep'")
    server.sql("CREATE TABLE late (id INT PRIMARY KEY)", "INSERT INTO late VALUES (7)", "CREATE TABLE copied SELECT * FROM k1 UNION ALL SELECT * FROM k2", db=db)
    weir.wait()
    weir.run("repair", "--reload", f"{db}.k3", "--reload", f"{db}.n3", "--apply")
    same("k3", "n3", "k39", "n39", "late", "copied")
    weir.stop()
    assert "trying again" not in weir.log_text()
