"""The everyday path: snapshot, changes, restart, live sync, waiting, status, SQL."""
import json

import pytest

CREATE = {
    "plain": "id INT PRIMARY KEY, name VARCHAR(50), amount DECIMAL(10,2)",
    "composite": "a INT, b VARCHAR(10), v BIGINT, PRIMARY KEY (b, a)",
    "textkey": "code VARCHAR(30) COLLATE utf8mb4_bin PRIMARY KEY, v INT",
    "keyless": "x INT, y VARCHAR(10)",
    "vacant": "id INT PRIMARY KEY",
}
ROWS = [
    "INSERT INTO plain VALUES (1,'one',1.00),(2,'zwei',-2.50),(3,NULL,NULL)",
    "INSERT INTO composite VALUES (1,'a',1),(1,'b',2),(2,'a',3)",
    "INSERT INTO textkey VALUES ('A',1),('a',2),('ä',3),('',4)",
    "INSERT INTO keyless VALUES (1,'x'),(1,'x'),(NULL,NULL),(2,'')",
]
CHANGES = [
    "INSERT INTO plain VALUES (4,'four',4)", "UPDATE plain SET amount = amount * 2 WHERE id = 2", "DELETE FROM plain WHERE id = 1",
    "UPDATE composite SET b = 'c' WHERE a = 1 AND b = 'a'", "UPDATE composite SET v = 30 WHERE a = 2", "DELETE FROM composite WHERE b = 'b'",
    "UPDATE textkey SET code = 'B' WHERE code = 'a'", "DELETE FROM textkey WHERE code = ''", "INSERT INTO textkey VALUES ('a', 9)",
    "DELETE FROM keyless WHERE x = 1 LIMIT 1", "UPDATE keyless SET y = 'z' WHERE x IS NULL", "INSERT INTO keyless VALUES (2,''),(2,'')",
    "INSERT INTO vacant VALUES (7)",
]
TABLES = list(CREATE)


@pytest.fixture
def filled(server, db):
    server.sql(*[f"CREATE TABLE {t} ({c})" for t, c in CREATE.items()], *ROWS, db=db)


def test_check_finds_nothing_wrong_and_writes_nothing(weir, filled):
    weir.check()
    assert not (weir.home / "warehouse").exists()


def test_until_current_copies_and_then_follows(server, db, weir, same, filled):
    weir.catch_up()
    same(*TABLES)
    for change in CHANGES:
        server.sql(change, db=db)
    weir.catch_up()
    same(*TABLES)
    weir.catch_up()         # nothing new
    same(*TABLES)


def test_each_change_alone(server, db, weir, same, filled):
    weir.catch_up()
    for change in CHANGES[:6]:
        server.sql(change, db=db)
        weir.catch_up()
        same(*TABLES, readers=["pyiceberg"])


def test_live_sync_and_wait(server, db, weir, same, filled):
    weir.start()
    weir.wait()
    same(*TABLES)
    for change in CHANGES:
        server.sql(change, db=db)
    weir.wait()
    assert weir.running, weir.log_text()
    same(*TABLES)
    weir.stop()


def test_restart_goes_on_where_it_stopped(server, db, weir, same, filled):
    weir.start()
    weir.wait()
    weir.stop()
    for change in CHANGES:
        server.sql(change, db=db)
    weir.start()
    weir.wait()
    weir.stop()
    same(*TABLES)


def test_a_table_created_later_joins(server, db, weir, same, filled):
    weir.start()
    weir.wait()
    server.sql("CREATE TABLE later (id INT PRIMARY KEY, v TEXT)", "INSERT INTO later VALUES (1, 'x')", db=db)
    weir.wait()
    same("later", *TABLES)


def test_tables_outside_the_patterns_are_not_captured(server, db, make_weir, filled):
    from harness.lake import Lake
    w = make_weir(server, [rf"{db}\..*"], {"source": {"exclude": [rf"{db}\.key.*", rf"{db}\.vacant"]}})
    w.catch_up()
    assert {t for ns, t in Lake(w.home).tables() if ns == db} == {"plain", "composite", "textkey"}


def test_a_transaction_over_many_rows(server, db, weir, lake, same):
    server.sql("CREATE TABLE big (id INT PRIMARY KEY, v VARCHAR(100))", db=db)
    weir.start()
    weir.wait()
    with server.connect(database=db, autocommit=False) as con, con.cursor() as cur:
        for a in range(0, 50000, 1000):
            cur.executemany("INSERT INTO big VALUES (%s, %s)", [(i, f"value {i}") for i in range(a, a + 1000)])
        cur.execute("UPDATE big SET v = CONCAT(v, '!') WHERE id % 3 = 0")
        con.commit()
    weir.wait()
    same("big")
    assert {n for _, n in lake.history_counts(db, "big")} <= {0, 50000}, "part of a transaction was visible"


def test_rolled_back_changes_never_show(server, db, weir, same):
    server.sql("CREATE TABLE r (id INT PRIMARY KEY)", "INSERT INTO r VALUES (1)", db=db)
    weir.catch_up()
    with server.connect(database=db, autocommit=False) as con, con.cursor() as cur:
        cur.execute("INSERT INTO r VALUES (2)")
        cur.execute("SAVEPOINT s")
        cur.execute("INSERT INTO r VALUES (3)")
        cur.execute("ROLLBACK TO s")
        con.commit()
        cur.execute("DELETE FROM r")
        con.rollback()
    weir.catch_up()
    same("r")


def test_status_and_sql(server, db, weir, filled):
    weir.catch_up()
    text = json.dumps(weir.status())
    for table in TABLES:
        assert table in text
    assert "3" in weir.sql(f'SELECT COUNT(*) FROM "{db}"."plain"')


def test_wait_ends_with_1_when_no_sync_runs(weir, filled):
    weir.catch_up()
    weir.wait(seconds=20, status=1)
