"""policy.type_change, and that every decision of a policy is recorded where `weir status` shows it."""
import threading
import time

import pytest
from harness import wait_until
from harness.lake import Lake


def decisions(w):
    return [(d["policy"], d["choice"], d["table"].split(".")[1], d["times"]) for d in w.status()["decisions"]]


def rows(w, db, name):
    got = [sorted(read(db, name).scan().to_arrow().to_pylist(), key=lambda r: r["id"]) for read in (Lake(w.home).table, Lake(w.home).in_duckdb)]
    assert got[0] == got[1]
    return got[0]


def test_type_change_stop_names_the_column_and_goes_on_under_another_policy(server, db, make_weir):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v INT, n INT)", f"INSERT INTO {db}.t VALUES (1, 1, 1)")
    w = make_weir(server, [rf"{db}\..*"], {"policy": {"type_change": "stop"}})
    w.catch_up()
    server.sql(f"ALTER TABLE {db}.t MODIFY n BIGINT", f"INSERT INTO {db}.t VALUES (2, 2, 5000000000)")      # Iceberg follows this one
    w.catch_up()
    assert rows(w, db, "t")[1]["n"] == 5000000000
    server.sql(f"ALTER TABLE {db}.t MODIFY v VARCHAR(20)", f"INSERT INTO {db}.t VALUES (3, 'drei', 3)")
    w.catch_up(status=1).says("column v", "int to string", "type_change", rf"{db}\.t")
    assert len(rows(w, db, "t")) == 2
    w.config["policy"]["type_change"] = "evolve"
    w.write()
    w.catch_up()
    assert [r["v"] for r in rows(w, db, "t")] == ["1", "2", "drei"]
    assert decisions(w) == [("type_change", "evolve", "t", 1)]
    w.run("status").says("decided +type_change: evolve", "MODIFY v VARCHAR")


def test_type_change_lenient_keeps_the_old_column(server, db, make_weir):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v INT NOT NULL, x INT)", f"INSERT INTO {db}.t VALUES (1, 10, 0), (2, 20, 0), (3, 30, 0)")
    w = make_weir(server, [rf"{db}\..*"], {"policy": {"type_change": "lenient"}})
    w.start()
    w.wait()
    server.sql(f"ALTER TABLE {db}.t MODIFY v VARCHAR(20) NOT NULL", f"UPDATE {db}.t SET v = 'zwei' WHERE id = 2", f"INSERT INTO {db}.t VALUES (4, 'vier', 0)")
    w.wait()
    now = [(1, 10, None, 0), (2, None, "zwei", 0), (3, 30, None, 0), (4, None, "vier", 0)]
    assert [(r["id"], r["v"], r["v__string"], r["x"]) for r in rows(w, db, "t")] == now
    w.kill()
    server.sql(f"DELETE FROM {db}.t WHERE id = 3", f"ALTER TABLE {db}.t ADD y INT NOT NULL DEFAULT 7", f"UPDATE {db}.t SET x = 1 WHERE id = 1")      # a row written anew has its value in the new column
    w.catch_up()
    assert [(r["id"], r["v"], r["v__string"], r["x"], r["y"]) for r in rows(w, db, "t")] == [(1, None, "10", 1, 7), (2, None, "zwei", 0, 7), (4, None, "vier", 0, 7)]
    server.sql(f"UPDATE {db}.t SET v = id", f"ALTER TABLE {db}.t MODIFY v INT NOT NULL", f"INSERT INTO {db}.t VALUES (5, 55, 0, 0)")
    w.catch_up()
    assert [(r["id"], r["v"], r["v__string"], r["v__int"]) for r in rows(w, db, "t")] == [(1, None, "1", None), (2, None, "2", None), (4, None, "4", None), (5, None, None, 55)]
    server.sql(f"ALTER TABLE {db}.t CHANGE v w INT NOT NULL")
    w.catch_up()
    assert [(r["id"], r["w"]) for r in rows(w, db, "t")][-1] == (5, 55)
    assert ("type_change", "lenient", "t", 2) in decisions(w)
    assert w.status()["anomalies"] == 0


@pytest.mark.parametrize("ddl", ["CREATE TABLE {t} (id INT, v INT)", "CREATE TABLE {t} (id INT, v INT, PRIMARY KEY (id, v))"], ids=["no key", "in the key"])
def test_type_change_lenient_reads_again_where_old_values_cannot_stay(server, db, make_weir, ddl):
    server.sql(ddl.format(t=f"{db}.t"), f"INSERT INTO {db}.t VALUES (1, 10), (2, 20)")
    w = make_weir(server, [rf"{db}\..*"], {"policy": {"type_change": "lenient"}})
    w.catch_up()
    server.sql(f"ALTER TABLE {db}.t MODIFY v VARCHAR(20)", f"INSERT INTO {db}.t VALUES (4, 'vier')", f"DELETE FROM {db}.t WHERE id = 1")
    w.catch_up()
    assert [(r["id"], r["v"]) for r in rows(w, db, "t")] == [(2, "20"), (4, "vier")]
    assert decisions(w) == [("type_change", "evolve", "t", 1)]


def test_decisions_of_every_policy_are_shown_and_outlive_a_restart(server, db, make_weir):
    server.sql(f"CREATE TABLE {db}.a (id INT PRIMARY KEY)", f"INSERT INTO {db}.a VALUES (1)",
               f"CREATE TABLE {db}.p (id INT PRIMARY KEY, d DATE) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
               f"SET sql_mode = ''", f"INSERT INTO {db}.p VALUES (1, '2020-01-01'), (11, '0000-00-00'), (12, '2020-00-01')")
    w = make_weir(server, [rf"{db}\..*"])
    w.catch_up()
    assert w.status()["source"]["replaced_dates"] == 2
    w.run("status").says("2 zero or partial dates")
    server.sql(f"ALTER TABLE {db}.p DROP PARTITION p0", f"DROP TABLE {db}.a")
    w.catch_up()
    want = [("rowless_change", "resnapshot", "p", 1), ("on_drop", "keep", "a", 1)]
    assert decisions(w) == want
    w.catch_up()
    assert decisions(w) == want
    server.sql(f"ALTER TABLE {db}.p TRUNCATE PARTITION p1")
    w.catch_up()
    assert sorted(decisions(w)) == sorted([("on_drop", "keep", "a", 1), ("rowless_change", "resnapshot", "p", 2)])


def test_visible_early_shows_a_load_and_complete_does_not(server, db, make_weir):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(200))")
    for base in range(0, 60000, 20000):
        server.sql(f"INSERT INTO {db}.t VALUES " + ",".join(f"({i}, repeat('x', 180))" for i in range(base, base + 20000)))
    seen = {}
    for visible in ("early", "complete"):
        w = make_weir(server, [rf"{db}\..*"], {"snapshot": {"visible": visible, "rows_per_second": 20000, "parallel": 1}, "lake": {"commit": {"every": "200ms"}}})
        w.start()
        counts, lake = set(), Lake(w.home)
        wait_until(lambda: '"tables":[{' in w.run("status", "--json", status=None).out, what="the first table")                # PyIceberg would make a catalog of its own
        for _ in range(28):
            time.sleep(.1)
            counts.add(lake.count(db, "t"))
        w.kill()
        w.start()
        server.sql(f"DELETE FROM {db}.t WHERE id = 7", f"UPDATE {db}.t SET v = 'new' WHERE id = 59999")
        w.wait()
        w.stop()
        assert lake.count(db, "t") == server.sql(f"SELECT COUNT(*) FROM {db}.t")[0][0]
        assert lake.in_duckdb(db, "t").scan().to_arrow().num_rows == lake.count(db, "t")
        seen[visible] = counts - {0, lake.count(db, "t"), 60000}
        server.sql(f"ALTER TABLE {db}.t MODIFY v VARBINARY(200)")                   # read again: main shows whole tables only
        w.start()
        before, counts = lake.count(db, "t"), set()
        for _ in range(20):
            time.sleep(.1)
            counts.add(lake.count(db, "t"))
        w.wait()
        assert counts <= {before}, "a table that is read again shows a part"
        server.sql(f"INSERT IGNORE INTO {db}.t VALUES (7, 'x')", f"ALTER TABLE {db}.t MODIFY v VARCHAR(200)")
    assert seen["early"] and not seen["complete"], seen


def test_reading_waits_while_the_source_is_busy(server, db, make_weir):
    """load and comparison; the budget is the source's, so that both keep to it"""
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(200))", f"INSERT INTO {db}.t VALUES " + ",".join(f"({i}, 'x')" for i in range(3000)))
    w = make_weir(server, [rf"{db}\..*"], {"source": {"max_threads_running": 8}})
    busy = [server.connect() for _ in range(14)]
    sleepers = [threading.Thread(target=lambda c=c, s=s: c.cursor().execute(f"SELECT SLEEP({s})")) for c in busy for s in [8]]
    for t in sleepers:
        t.start()
    time.sleep(.5)
    began = time.monotonic()
    w.start()
    wait_until(lambda: "reading of tables waits" in w.log_text(), what="a load that waits")
    w.wait()
    assert time.monotonic() - began > 5
    assert Lake(w.home).count(db, "t") == 3000
    w.run("compare", "--max-threads-running", "20")
    for t in sleepers:
        t.join()
    for c in busy:
        c.close()
