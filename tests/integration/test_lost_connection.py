"""What the source knows of tables is put back when the stream has to begin again."""
import sqlite3
import time


def cut(server):
    with server.connect(autocommit=True) as con, con.cursor() as cur:
        cur.execute("SELECT id FROM information_schema.PROCESSLIST WHERE command LIKE 'Binlog Dump%'")
        for (id,) in cur.fetchall():
            cur.execute(f"KILL {id}")


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
