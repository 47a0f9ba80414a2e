"""While a sync runs: what it believes of its servers against what they say, findings in `weir status`, and going on at a better one."""
import time

import pytest
from harness.failover import DB, at, create, open_alarms, same, source, until
from services import instance

pytestmark = pytest.mark.local_lake("inspections are about the source")
OFTEN = {"inspect": "1s"}


def found(w, id):
    """-> the finding of that name, or None"""
    return next((f["what"] for f in source(w).get("findings", []) if f["id"] == id), None)


def shown(w, id, *patterns):
    until(lambda: found(w, id), 30)
    return w.run("status").says("warning", *patterns)


def test_a_healthy_pair_has_no_findings(cluster, follow):
    c = cluster(2)
    create(c.primary)
    w = follow(c, **OFTEN)
    w.start()
    w.wait()
    c.primary.sql("CREATE TABLE more (id INT PRIMARY KEY)", "DROP TABLE nokey", "RENAME TABLE t TO u", db=DB)
    w.wait()
    time.sleep(5)
    assert source(w)["findings"] == [], source(w)
    w.stop()
    assert "warning" not in w.log_text()


def test_errant_transactions_of_a_replica_are_named(cluster, follow):
    c = cluster(2)
    create(c.primary)
    w = follow(c, prefer="primary", **OFTEN)
    w.start()
    w.wait()
    c.catch_up(c.servers[1])
    c.servers[1].sql("INSERT INTO t VALUES (100, 1, 'errant')", db=DB)
    own = c.servers[1].sql("SELECT @@server_uuid" if c.flavor == "mysql" else "SELECT @@gtid_binlog_pos")[0][0]
    shown(w, "errant-transactions", "has transactions that the primary has not", f"{own}:1" if c.flavor == "mysql" else own)
    assert at(w) == c.primary.port and w.running


def test_a_primary_that_was_replaced_is_left(cluster, follow):
    """it answers, and nothing new will ever come from it"""
    c = cluster(2)
    first, second = c.servers
    create(first)
    w = follow(c, prefer="primary", **OFTEN)
    w.start()
    w.wait()
    c.catch_up(second)
    c.promote(second)
    second.sql("INSERT INTO t VALUES (100, 1, 'new')", db=DB)
    until(lambda: at(w) == second.port, 60)
    w.wait()
    w.stop()
    same(w, second)
    assert source(w)["epoch"] == 1


def test_two_primaries_with_transactions_of_their_own_are_told_and_not_chosen_between(cluster, follow):
    c = cluster(2)
    first, second = c.servers
    create(first)
    w = follow(c, prefer="primary", **OFTEN)
    w.start()
    w.wait()
    c.catch_up(second)
    c.promote(second)
    second.sql("INSERT INTO t VALUES (100, 1, 'new')", db=DB)
    first.sql("INSERT INTO t VALUES (101, 1, 'other')", db=DB)
    shown(w, "two-primaries", "both take changes")
    assert at(w) == first.port and w.running


def test_an_alarm_about_a_server_ends_with_its_cause(cluster, follow, flavor, tmp_path):
    """righted; or its address taken away, while no sync runs"""
    c = cluster(2)
    first, second = c.servers
    create(first)
    with instance(flavor, tmp_path / "wrong", cnf={"server_id": 4711}, owned=True) as wrong:
        wrong.sql("CREATE DATABASE o", "CREATE TABLE o.t (id INT PRIMARY KEY)", "INSERT INTO o.t VALUES (1)")
        w = follow(c, {"alarms": {"recovery": "1s"}}, prefer="primary", **OFTEN)
        w.config["source"]["hosts"].append(f"127.0.0.1:{wrong.port}")
        w.write()
        w.start()
        w.wait()
        until(lambda: open_alarms(w, "source.identity") == {"other-cluster"}, 30)
        c.catch_up(second)
        c.promote(second)
        second.sql("INSERT INTO t VALUES (100, 1, 'new')", db=DB)
        first.sql("INSERT INTO t VALUES (101, 1, 'other')", db=DB)
        until(lambda: open_alarms(w, "source.identity") == {"other-cluster", "two-primaries"}, 30)
        second.kill()
        until(lambda: open_alarms(w, "source.identity") == {"other-cluster"}, 30)
        w.stop()
        w.config["source"]["hosts"] = []
        w.write()
        assert open_alarms(w, "source.identity") == {"other-cluster"}
        w.start()
        until(lambda: not open_alarms(w, "source.identity"), 30)
        assert w.running and at(w) == first.port


def test_a_replica_whose_replication_stands_still_is_left(cluster, follow):
    c = cluster(2)
    first, second = c.servers
    create(first)
    w = follow(c, **OFTEN)
    w.start()
    w.wait()
    assert at(w) == second.port
    replica, _ = c._words()
    second.sql(f"STOP {replica}")
    first.sql("INSERT INTO t VALUES (100, 1, 'new')", db=DB)
    until(lambda: at(w) == first.port, 60)
    w.wait()
    w.stop()
    same(w, first)


def test_tables_that_the_binlog_did_not_tell_of(server, db, make_weir):
    server.sql("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE goes (id INT PRIMARY KEY)", db=db)
    w = make_weir(server, [rf"{db}\..*"], {"source": OFTEN})
    w.start()
    w.wait()
    server.sql("SET sql_log_bin = 0", "CREATE TABLE secret (id INT PRIMARY KEY)", "DROP TABLE goes", db=db)
    server.sql("INSERT INTO t VALUES (1)", db=db)
    w.wait()
    shown(w, "table-unknown", rf"{db}\.secret")
    shown(w, "table-gone", rf"{db}\.goes")
    assert "secret" not in found(w, "table-gone") and "goes" not in found(w, "table-unknown")


def test_retention_that_is_half_used_up(own_server, make_weir, monkeypatch):
    server = own_server()
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "SET GLOBAL binlog_expire_logs_seconds = 4")
    w = make_weir(server, [r"d\..*"], {"source": OFTEN})
    w.catch_up()
    monkeypatch.setenv("WEIR_FAULT", "capture.commit:1:stall=60000")     # nothing is captured any more
    server.sql("INSERT INTO d.t VALUES (1)")
    w.start()
    time.sleep(3)
    monkeypatch.delenv("WEIR_FAULT")
    server.sql("INSERT INTO d.t VALUES (2)")
    until(lambda: (w.home / "status.json").exists() and found(w, "retention"), 30)
    w.kill()
