"""Several servers of a source: which is captured, going on at another when it is gone, and never at one whose history is not that of what was captured (F6, F7)."""
import json
import os
import signal
import sqlite3
import threading
import time

import pytest
from harness.failover import DB, at, create, cut, open_alarms, purge, same, source, until
from harness.share import some
from harness.wire import Wire
from services import instance
from services.cluster import Cluster

pytestmark = [pytest.mark.local_lake("failover is about the source"), pytest.mark.one_server]


def heads(weir):
    """where each lake table is: changes with every commit"""
    with sqlite3.connect(f"file:{weir.home}/catalog.db?mode=ro", uri=True) as con:
        return con.execute("SELECT table_namespace, table_name, metadata_location FROM iceberg_tables ORDER BY 1, 2").fetchall()


class Writer:
    """Changes t and nokey on a server, some 200 a second, until stop(); errors of a server that is gone end it."""

    def __init__(self, server, first):
        self.server, self.n, self.end = server, first, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            with self.server.connect(database=DB) as con, con.cursor() as cur:
                while not self.end:
                    i, self.n = self.n, self.n + 1
                    cur.execute(f"INSERT INTO t VALUES ({i}, 0, 'written')")
                    cur.execute(f"UPDATE t SET v = v + 1 WHERE id IN ({i}, {i - 7}, {i % 50})")
                    cur.execute(f"DELETE FROM t WHERE id = {i - 100} AND id >= 50")
                    cur.execute(f"INSERT INTO nokey VALUES ({i % 5}, 'n')")
                    time.sleep(0.01)
        except Exception:
            if not self.end and self.server.pid:
                raise

    def stop(self):
        self.end = True
        self.thread.join()
        return self.n


# ---------------------------------------------------------------- where it begins
def test_a_replica_is_preferred_and_what_the_primary_has_is_waited_for(cluster, follow):
    c = cluster(2)
    create(c.primary)
    w = follow(c)
    w.start()
    w.wait()
    assert at(w) == c.servers[1].port
    c.primary.sql("UPDATE t SET v = 1000 WHERE id < 20", "INSERT INTO nokey VALUES (3, 'z')", db=DB)
    w.wait()                                # of the primary's position
    w.stop()
    same(w, c.primary)
    assert w.run("compare").status == 0
    other = follow(c, prefer="primary")
    other.catch_up()
    assert at(other) == c.primary.port


def test_a_replica_that_leaves_changes_out_is_not_taken(cluster, follow):
    """its GTIDs say that it has executed what it has filtered away"""
    c = cluster(2)
    create(c.primary)
    replica, _ = c._words()
    c.servers[1].sql(f"STOP {replica}", f"SET GLOBAL replicate_ignore_table = '{DB}.nokey'" if c.flavor == "mariadb" else f"CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = ({DB}.nokey)",
                     f"START {replica}")
    w = follow(c)
    w.catch_up()
    assert at(w) == c.primary.port
    c.primary.sql("INSERT INTO nokey VALUES (7, 'not there')", "UPDATE t SET v = 99 WHERE id = 3", db=DB)
    c.catch_up(c.servers[1])
    c.primary.kill()
    w.run("sync", "--until", "current", status=1).says("filters", "nokey")


def test_a_restart_goes_to_the_replica_that_is_preferred(cluster, follow):
    c = cluster(2)
    create(c.primary)
    w = follow(c, prefer="primary")
    w.catch_up()
    c.catch_up(c.servers[1])
    w.config["source"]["prefer"] = "replica"
    w.write()
    c.primary.sql("DELETE FROM t WHERE id = 4", db=DB)
    w.catch_up()
    assert at(w) == c.servers[1].port and source(w)["epoch"] == 1
    same(w, c.primary)


# ---------------------------------------------------------------- F6
def test_a_primary_that_is_killed_under_load_is_left_for_its_replica(cluster, follow):
    c = cluster(3)
    first, second, third = c.servers
    create(first)
    w = follow(c, prefer="primary")
    w.start()
    w.wait()
    assert at(w) == first.port
    writer = Writer(first, 1000)
    time.sleep(2)
    writer.stop()                           # what is captured must be on the replica: the other case is the next test's
    c.catch_up(second), c.catch_up(third)
    w.wait()
    first.kill()
    c.promote(second)
    c.follow(third, second)
    writer = Writer(second, writer.n)
    until(lambda: w.running and at(w) != first.port)
    time.sleep(2)
    writer.stop()
    w.wait()
    assert w.running and source(w)["epoch"] == 1, w.log_text()
    same(w, second)
    # and back, while the old primary returns as a replica that lacks nothing
    first.start()
    c.follow(first, second)
    c.catch_up(first)
    w.stop()
    w.start()
    w.wait()
    assert at(w) == second.port             # it stays where it is
    second.kill()
    c.catch_up(first, c.executed(third))
    c.promote(third)
    c.follow(first, third)
    c.primary.sql("ALTER TABLE t ADD w INT DEFAULT 5", "INSERT INTO t VALUES (1, 1, 'again', 7) ON DUPLICATE KEY UPDATE w = 8", db=DB)
    until(lambda: w.running and at(w) != second.port)
    w.wait()
    w.stop()
    same(w, third)
    assert w.run("compare").status == 0


def test_killed_in_the_middle_of_the_load_it_goes_on_or_says_what_is_lost(cluster, follow):
    """Replication is asynchronous: whether the replica has everything that was captured is chance. Then all is equal; else what it lacks is named, and nothing is done."""
    c = cluster(2)
    first, second = c.servers
    create(first)
    w = follow(c, prefer="primary")
    w.start()
    w.wait()
    writer = Writer(first, 1000)
    time.sleep(3)
    first.kill()
    writer.stop()
    time.sleep(2)                           # the replica executes what it has
    c.promote(second)
    has = c.executed(second)
    Writer(second, 5000).stop()
    until(lambda: not w.running or at(w) == second.port)
    if w.running:
        w.wait()
        w.stop()
        same(w, second)
        return
    w.ended().says("no server has all that was captured")
    captured = w.status()["captured"]["gtid"]
    if c.flavor == "mysql":
        assert second.sql(f"SELECT GTID_SUBTRACT('{captured}', '{has}')")[0][0]
    else:
        assert int(captured.split("-")[2]) > int(has.split("-")[2])


def test_a_move_with_nothing_new_to_read_is_complete(cluster, follow):
    c = cluster(2)
    create(c.primary)
    w = follow(c, prefer="primary")
    w.catch_up()
    c.catch_up(c.servers[1])
    c.servers[0].kill()
    c.promote(c.servers[1])
    w.catch_up()
    assert source(w)["epoch"] == 1 and at(w) == c.servers[1].port
    same(w, c.servers[1])
    w.catch_up()                            # by file and offset of the new server now
    c.primary.sql("DELETE FROM t WHERE id < 10", db=DB)
    w.catch_up()
    same(w, c.servers[1])
    assert source(w)["epoch"] == 1


def errant(c, server, sql):
    """runs sql on a server whose replicas do not get it"""
    replica, _ = c._words()
    for s in c.servers:
        if s is not server:
            s.sql(f"STOP {replica}")
    server.sql(*sql, db=DB)


def test_captured_transactions_that_the_new_primary_lacks_are_named_and_nothing_goes_on(cluster, follow):
    c = cluster(2)
    create(c.primary)
    w = follow(c, prefer="primary")
    w.start()
    w.wait()
    c.catch_up(c.servers[1])
    before = c.executed(c.primary)
    errant(c, c.primary, ["INSERT INTO t VALUES (100, 1, 'lost')", "INSERT INTO t VALUES (101, 1, 'lost')"])
    w.wait()
    lost = c.executed(c.servers[0])
    c.servers[0].kill()
    c.promote(c.servers[1])
    c.primary.sql("INSERT INTO t VALUES (200, 1, 'new')", db=DB)
    r = w.ended(60)
    assert r.status == 1
    n = int(lost.split("-")[-1].split(":")[-1])
    r.says("no server has all that was captured", rf"\b{n - 1}\b.*\b{n}\b" if c.flavor == "mariadb" else rf":{n - 1}-{n}\b", "new home")
    assert before != lost
    w.run("sync", "--until", "current", status=1).says("no server has all that was captured")
    c.servers[0].start()                    # with what only it has: the cluster's primary again
    c.follow(c.servers[1], c.servers[0])


def test_a_replica_that_is_behind_is_waited_for(cluster, follow):
    c = cluster(3)
    create(c.primary)
    w = follow(c, prefer="primary")
    w.start()
    w.wait()
    c.catch_up(c.servers[1]), c.catch_up(c.servers[2])
    first, second, third = c.servers
    replica, _ = c._words()
    thread = "SQL_THREAD"
    third.sql(f"STOP {replica}")
    second.sql(f"STOP {replica} {thread}")  # it has the events, and has not executed them
    first.sql("INSERT INTO t VALUES (100, 1, 'late')", db=DB)
    w.wait()
    time.sleep(1)
    first.kill()
    time.sleep(6)
    assert w.running, w.log_text()
    second.sql(f"START {replica} {thread}")
    until(lambda: at(w) == second.port)
    c.promote(second)
    second.sql("INSERT INTO t VALUES (101, 1, 'new')", db=DB)
    w.wait()
    w.stop()
    same(w, second)


def test_an_old_primary_with_transactions_of_its_own_is_not_gone_back_to(cluster, follow):
    c = cluster(2)
    first, second = c.servers
    create(first)
    w = follow(c, prefer="primary")
    w.catch_up()
    c.catch_up(second)
    errant(c, first, ["INSERT INTO t VALUES (100, 1, 'errant')"])       # nobody has captured it
    first.kill()
    c.promote(second)
    second.sql("INSERT INTO t VALUES (200, 1, 'new')", db=DB)
    first.start()
    first.sql("SET GLOBAL read_only = 1")
    if c.flavor == "mysql":                 # MariaDB in strict mode refuses to replicate: it stays alone
        c.follow(first, second)
        c.catch_up(first)
    else:
        first.sql(f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {second.port}, MASTER_USER = 'weir', MASTER_PASSWORD = 'weir', MASTER_USE_GTID = slave_pos")
    w.catch_up()
    assert at(w) == second.port
    same(w, second)


def test_loads_under_way_begin_again_at_the_new_server(cluster, follow):
    c = cluster(2)
    first, second = c.servers
    create(first)
    first.sql("CREATE TABLE big (id INT PRIMARY KEY, v VARCHAR(200))", "INSERT INTO big SELECT seq, REPEAT('x', 100) FROM (SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d AS seq FROM "
              + ", ".join(f"(SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) {x}" for x in "abce") + ") n", db=DB)
    w = follow(c, {"snapshot": {"rows_per_second": 1500, "parallel": 1}}, prefer="primary")
    w.start()
    until(lambda: w.rows_loaded() > 500)
    c.catch_up(second)
    first.kill()
    c.promote(second)
    second.sql("UPDATE big SET v = 'new' WHERE id % 3 = 0", "DELETE FROM big WHERE id % 7 = 0", db=DB)
    until(lambda: at(w) == second.port)
    w.wait(120)
    w.stop()
    same(w, second, "t", "nokey", "big")


def test_a_prepared_xa_transaction_is_committed_at_the_new_server(cluster, follow):
    c = cluster(2)
    first, second = c.servers
    create(first)
    w = follow(c, prefer="primary")
    w.start()
    w.wait()
    with first.connect(database=DB) as con, con.cursor() as cur:
        for st in ("XA START 'x'", "INSERT INTO t VALUES (500, 1, 'xa')", "UPDATE t SET v = 77 WHERE id = 3", "XA END 'x'", "XA PREPARE 'x'"):
            cur.execute(st)
    w.wait()
    c.catch_up(second)
    first.kill()
    c.promote(second)
    until(lambda: at(w) == second.port)
    second.sql("XA COMMIT 'x'", db=DB)
    w.wait()
    w.stop()
    same(w, second)
    assert second.sql(f"SELECT v FROM {DB}.t WHERE id = 3") == ((77,),)
    assert list((w.home / "xa").glob("*.e1.*.done")), "its rows were not those that had been kept"


def fill(server, rows=4000):
    digits = "(SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
    server.sql("CREATE TABLE big (id INT PRIMARY KEY, v VARCHAR(200))",
               f"INSERT INTO big SELECT seq, REPEAT('x', 100) FROM (SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d AS seq FROM {', '.join(digits + ' ' + x for x in 'abce')}) n WHERE seq <= {rows}", db=DB)


def test_a_primary_that_freezes_in_the_middle_of_a_load_is_left(cluster, follow):
    """its connections stay open, and nothing that was asked on them will ever be answered: nobody may go on waiting"""
    c = cluster(2)
    first, second = c.servers
    create(first)
    fill(first)
    w = follow(c, {"snapshot": {"rows_per_second": 500, "parallel": 2}}, prefer="primary", inspect="1s")
    w.start()
    until(lambda: w.rows_loaded() > 500)
    c.catch_up(second)
    os.kill(first.pid, signal.SIGSTOP)
    try:
        c.promote(second)
        second.sql("UPDATE big SET v = 'new' WHERE id % 3 = 0", "DELETE FROM big WHERE id % 7 = 0", db=DB)
        until(lambda: at(w) == second.port, 90)
        w.wait(90)
        w.stop()
        same(w, second, "t", "nokey", "big")
    finally:
        os.kill(first.pid, signal.SIGCONT)


@pytest.mark.parametrize("old", ["lives", "dies"])
def test_an_address_that_moves_while_tables_are_read_is_followed(cluster, make_weir, old):
    """an old primary that lives feeds the stream, which is therefore no reason to go anywhere; the readers' next connections are the new one's"""
    c = cluster(2)
    first, second = c.servers
    create(first)
    fill(first)
    wire = Wire(first)
    w = make_weir(first, [rf"{DB}\..*"], {"source": {"url": wire.url(), "inspect": "1s"}, "snapshot": {"rows_per_second": 500, "parallel": 2}})
    w.start()
    until(lambda: w.rows_loaded() > 500)
    c.catch_up(second)
    c.promote(second)
    wire.server = second
    if old == "lives":
        cut(first, "user = 'weir' AND command NOT LIKE 'Binlog Dump%'")
    else:
        first.kill()
    second.sql("UPDATE big SET v = 'new' WHERE id % 3 = 0", "DELETE FROM big WHERE id % 7 = 0", "INSERT INTO nokey VALUES (9, 'new')", db=DB)
    until(lambda: source(w).get("epoch") == 1, 90)
    w.wait(90)
    w.stop()
    wire.close()
    same(w, second, "t", "nokey", "big")


def test_silence_is_told_while_a_server_is_waited_for_and_ends_with_the_move(cluster, follow):
    c = cluster(2)
    first, second = c.servers
    create(first)
    w = follow(c, {"alarms": {"silent": "3s", "recovery": "1s"}}, prefer="primary")
    w.start()
    w.wait()
    c.catch_up(second)
    replica, _ = c._words()
    second.sql(f"STOP {replica} SQL_THREAD")
    first.sql("INSERT INTO t VALUES (100, 1, 'late')", db=DB)
    w.wait()
    time.sleep(1)
    first.kill()
    until(lambda: any(str(first.port) in s for s in open_alarms(w, "source.silent")), 30)
    second.sql(f"START {replica} SQL_THREAD")
    until(lambda: at(w) == second.port)
    c.promote(second)
    second.sql("INSERT INTO t VALUES (101, 1, 'new')", db=DB)
    w.wait()
    until(lambda: not open_alarms(w, "source.silent"), 20)
    time.sleep(4)                           # of the new one it is not true
    assert not open_alarms(w, "source.silent")
    w.stop()
    same(w, second)


# ---------------------------------------------------------------- gaps and moves
def records(w):
    return [json.loads(p.read_text()) for p in sorted((w.home / "repair").glob("*.resume.json"))]


def unseen(primary, *replicas):
    """changes that nobody has captured, and no server has a log of any more"""
    primary.sql("UPDATE t SET v = -5 WHERE id % 5 = 0", "DELETE FROM t WHERE id = 8", "INSERT INTO nokey VALUES (8, 'unseen')", db=DB)
    time.sleep(1)       # for the replicas: what is purged there, they have
    for s in (primary, *replicas):
        purge(s)


@pytest.mark.parametrize("point", some(["", "gap.in_queue:1", "load.after_seal:1", "prove.begin:1", "pipeline.after_commit:1"], 2))
def test_a_gap_and_then_another_server(cluster, follow, point):
    """with what the gap left to be done finished at the first server, or at the second"""
    c = cluster(2)
    first, second = c.servers
    create(first)
    w = follow(c, prefer="primary")
    w.catch_up()
    unseen(first, second)
    w.catch_up(status=1).says("first missing", "first available", rf"{DB}\.t", "weir resume")
    assert w.status()["error"]["code"] == "gap" and at(w) == first.port
    way = "--resnapshot" if "load" in point else "--compare-and-repair"
    if point:
        assert w.die(point, "resume", way)
        if "commit" not in point:           # else it may have been the commit behind the gap, or in front of it
            assert not records(w) or not records(w)[0].get("done_at")
    else:
        w.run("resume", way).says("resumed")
    first.sql("UPDATE t SET s = 'behind' WHERE id % 3 = 0", "INSERT INTO nokey VALUES (9, 'behind')", db=DB)
    c.catch_up(second)
    first.kill()
    c.promote(second)
    second.sql("UPDATE t SET v = v + 1 WHERE id % 2 = 0", "DELETE FROM nokey WHERE a = 1 LIMIT 1", "ALTER TABLE t ADD w INT DEFAULT 3", db=DB)
    w.catch_up()
    assert at(w) == second.port and source(w)["epoch"] == 1
    same(w, second)
    assert {t["state"] for t in w.status()["tables"]} == {"streaming"}
    assert [bool(r.get("done_at")) for r in records(w)] == [True]
    second.sql("INSERT INTO t VALUES (300, 1, 'later', 4)", db=DB)
    w.catch_up()
    same(w, second)
    assert w.run("compare").status == 0
    # and what the first server's files were born at says nothing of the second's
    unseen(second)
    w.catch_up(status=1).says("first missing")
    w.run("resume", "--compare-and-repair").says("resumed")
    same(w, second)


def test_the_only_server_left_has_a_gap(cluster, follow):
    """it has all that was captured, and its log does not reach back to that"""
    c = cluster(2)
    first, second = c.servers
    create(first)
    w = follow(c, prefer="primary")
    w.catch_up()
    c.catch_up(second)
    first.kill()
    c.promote(second)
    second.sql("UPDATE t SET v = -5 WHERE id % 5 = 0", "DELETE FROM t WHERE id = 8", "INSERT INTO nokey VALUES (8, 'unseen')", db=DB)
    purge(second)
    w.run("sync", "--until", "current", status=1).says("no server has what comes behind what was captured", "purged", "weir resume")
    w.run("resume", status=1).says("first available", rf"{DB}\.t", "--resnapshot", "--compare-and-repair")
    w.run("resume", "--compare-and-repair").says("resumed")
    assert at(w) == second.port
    same(w, second)
    second.sql("INSERT INTO t VALUES (300, 1, 'later')", db=DB)
    w.catch_up()
    same(w, second)
    assert w.run("compare").status == 0


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_move_while_tables_behind_a_gap_are_compared(cluster, follow, how):
    """the comparison ends with the server that it reads from, and is made at the other one"""
    c = cluster(2)
    first, second = c.servers
    create(first)
    fill(first)
    w = follow(c, prefer="primary", inspect="1s")
    w.catch_up()
    unseen(first, second)
    w.catch_up(status=1).says("first missing")
    w.die("gap.noted:1", "resume", "--compare-and-repair")
    w.config["snapshot"] = {"rows_per_second": 400}     # ten seconds for the large one
    w.write()
    w.start()
    until(lambda: "unproven" in {t["state"] for t in w.status()["tables"]}, 30)
    time.sleep(2)
    os.kill(first.pid, signal.SIGSTOP) if how == "frozen" else first.kill()
    try:
        c.promote(second)
        assert not records(w)[0].get("done_at"), "it was too fast"
        second.sql("UPDATE big SET v = 'new' WHERE id % 3 = 0", "UPDATE t SET v = 3 WHERE id < 4", db=DB)
        until(lambda: at(w) == second.port, 90)
        until(lambda: {t["state"] for t in w.status()["tables"]} == {"streaming"}, 90)
        w.wait()
        w.stop()
    finally:
        if how == "frozen":
            os.kill(first.pid, signal.SIGCONT)
    same(w, second, "t", "nokey", "big")
    assert [bool(r.get("done_at")) for r in records(w)] == [True]


def test_a_check_speaks_of_the_server_that_is_followed(cluster, follow):
    c = cluster(2)
    first, second = c.servers
    create(first)
    w = follow(c)
    w.check().says(rf"what is found is that of 127\.0\.0\.1:{second.port}")     # where it would begin
    w.config["source"]["prefer"] = "primary"
    w.write()
    w.start()
    w.wait()
    assert at(w) == first.port
    c.catch_up(second)
    first.kill()
    c.promote(second)
    until(lambda: at(w) == second.port)
    w.check().says(rf"what is found is that of 127\.0\.0\.1:{second.port}")
    first.start()
    c.follow(first, second)
    c.catch_up(first)
    w.config["source"]["prefer"] = "replica"            # as others ask; the sync does not know
    w.write()
    w.check().says(rf"what is found is that of 127\.0\.0\.1:{second.port}")
    w.stop()
    w.check().says(rf"what is found is that of 127\.0\.0\.1:{first.port}")      # where the next one would go on
    first.kill()
    second.sql("INSERT INTO t VALUES (300, 1, 'unseen')", db=DB)
    purge(second)
    w.check(status=1).says("binlog-gap", "first position available", "weir resume")
    second.kill()
    w.check(status=1).says("stops +source", "no server can be used|connecting")


def test_an_account_that_may_not_ask_for_replication(cluster, follow):
    """MariaDB keeps a replica's state from who has no REPLICA MONITOR: then one that is read_only counts as a replica"""
    c = cluster(2)
    create(c.primary)
    may = "BINLOG MONITOR" if c.flavor == "mariadb" else "REPLICATION CLIENT"
    c.primary.sql("CREATE USER least@'%' IDENTIFIED BY 'least'", f"GRANT SELECT, LOCK TABLES ON {DB}.* TO least@'%'", f"GRANT REPLICATION SLAVE, {may} ON *.* TO least@'%'")
    c.catch_up(c.servers[1])
    w = follow(c, user="least", password="least")
    w.catch_up()
    assert at(w) == c.servers[1].port
    c.primary.sql("DELETE FROM t WHERE id = 4", db=DB)
    w.catch_up()
    same(w, c.primary)


# ---------------------------------------------------------------- without GTIDs
@pytest.mark.only_on("mysql", "MariaDB always has GTIDs")
def test_without_gtids_the_replica_is_refused(tmp_path, follow, flavor):
    c = Cluster("mysql", tmp_path / "cluster", 2, gtid=False)
    try:
        for s in c.servers:
            s.start()
        c.servers[1].sql("SET GLOBAL read_only = 1")
        for s in c.servers:                 # the same, event for event, so that file and offset exist on both
            s.sql(f"CREATE DATABASE {DB}")
            create(s)
        w = follow(c, prefer="primary")
        w.catch_up()
        c.servers[0].kill()
        r = w.run("sync", "--until", "current", status=1)
        r.says("without GTIDs", "new home")
        same(w, c.servers[1])               # and nothing was done
    finally:
        c.stop()


# ---------------------------------------------------------------- F7
def test_a_wrong_cluster_behind_the_same_address_is_refused_before_a_row_is_read(flavor, tmp_path, make_weir):
    with instance(flavor, tmp_path / "right", owned=True) as right:
        right.sql(f"CREATE DATABASE {DB}")
        create(right)
        w = make_weir(right, [rf"{DB}\..*"])
        w.catch_up()
        port = right.port
    with instance(flavor, tmp_path / "wrong", port=port, cnf={"server_id": 4711, **({"gtid_domain_id": 7} if flavor == "mariadb" else {})}, owned=True) as wrong:
        wrong.sql(f"CREATE DATABASE {DB}")
        create(wrong)
        wrong.sql(*[f"UPDATE t SET v = {i}" for i in range(100)], db=DB)    # its numbers are higher than those that were captured
        before = heads(w)
        w.run("sync", "--until", "current", status=1).says("is not the one this pipeline has followed", "nothing was read", "another cluster")
        assert heads(w) == before
    with instance(flavor, tmp_path / "right", port=port, owned=True) as right:
        right.sql("DELETE FROM t WHERE id = 3", db=DB)
        w.catch_up()
        same(w, right)


def test_a_wrong_cluster_among_the_addresses_is_never_used(cluster, follow, flavor, tmp_path):
    c = cluster(2)
    create(c.primary)
    with instance(flavor, tmp_path / "wrong", cnf={"server_id": 4711}, owned=True) as wrong:
        wrong.sql(f"CREATE DATABASE {DB}")
        create(wrong)
        wrong.sql(*[f"UPDATE t SET v = {i}" for i in range(100)], db=DB)
        w = follow(c, prefer="primary")
        w.catch_up()
        c.catch_up(c.servers[1])
        w.config["source"]["hosts"] = [f"127.0.0.1:{wrong.port}"]
        w.write()
        c.servers[0].kill()
        w.run("sync", "--until", "current", status=1).says("another cluster", "nothing was read")
        w.config["source"]["hosts"].append(f"127.0.0.1:{c.servers[1].port}")
        w.write()
        c.promote(c.servers[1])
        w.catch_up()
        same(w, c.servers[1])


def test_a_virtual_address_may_move_to_a_server_of_the_same_cluster(cluster, make_weir):
    """one address in weir.yaml, and behind it another server that has everything"""
    c = cluster(2)
    first, second = c.servers
    create(first)
    w = make_weir(first, [rf"{DB}\..*"])
    w.catch_up()
    c.catch_up(second)
    first.kill()
    c.promote(second)
    second.sql("INSERT INTO t VALUES (300, 1, 'new')", db=DB)
    w.config["source"]["url"] = second.url()
    w.write()
    w.catch_up()
    same(w, second)
    assert source(w)["epoch"] == 1
