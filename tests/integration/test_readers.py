"""Readers with their defaults, on a table with many data files that each commit deletes from."""
import random

from harness.lake import duckdb_connection


def test_duckdb_with_its_file_cache_sees_every_row(weir, server, db, lake):
    """DuckDB 1.5.5 takes the wrong vector of a Puffin file that holds several; one connection reads all states, so that its cache is warm"""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rnd = random.Random(seed)
    server.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v INT)", "CREATE TABLE d (x INT)", "INSERT INTO d VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)", db=db)
    for i in range(10):
        server.sql(f"INSERT INTO t SELECT {i * 10000} + a.x + 10*b.x + 100*c.x + 1000*e.x, 0 FROM d a, d b, d c, d e", db=db)
        weir.catch_up()
    con = duckdb_connection()
    for _ in range(8):
        server.sql(f"UPDATE t SET v = v + 1 WHERE id % {rnd.randint(3, 9)} = 0", f"DELETE FROM t WHERE id % 97 = {rnd.randrange(97)}", db=db)
        weir.catch_up()
        [want] = server.sql("SELECT COUNT(*), CAST(SUM(v) AS SIGNED) FROM t", db=db)
        got = con.execute(f"SELECT COUNT(*), CAST(SUM(v) AS BIGINT) FROM iceberg_scan('{lake.table(db, 't').metadata_location}')").fetchone()
        assert tuple(got) == tuple(want)
