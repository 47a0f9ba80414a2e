"""Tables that are written all the time stay few files, and nobody notices: readers of every moment see exactly the rows."""
import random
import time

import pytest
from harness.lake import Lake, duckdb_connection


def files(lake, db, name):
    s = lake.table(db, name).current_snapshot().summary
    return int(s["total-data-files"]), int(s["total-delete-files"])


@pytest.mark.parametrize("version", [3, 2])
def test_a_stream_of_small_commits_leaves_few_files(server, db, make_weir, version):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(40), n BIGINT)", f"INSERT INTO {db}.t VALUES " + ",".join(f"({i}, 'first', 0)" for i in range(2000)))
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"commit": {"every": "50ms"}, "format_version": version}})
    w.start()
    w.wait()
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng, con, lake = random.Random(seed), server.connect(), Lake(w.home)
    con.autocommit(True)
    cur, top, most = con.cursor(), 2000, 0
    until = time.monotonic() + 15
    while time.monotonic() < until:
        cur.execute(f"INSERT INTO {db}.t VALUES " + ",".join(f"({top + i}, 'new {rng.random()}', {i})" for i in range(20)))
        top += 20
        cur.execute(f"UPDATE {db}.t SET v = 'changed', n = n + 1 WHERE id IN ({','.join(str(rng.randrange(top)) for _ in range(15))})")
        cur.execute(f"DELETE FROM {db}.t WHERE id IN ({','.join(str(rng.randrange(top)) for _ in range(5))})")
        time.sleep(.02)
        if rng.random() < .05:
            most = max(most, files(lake, db, "t")[0])
    w.wait()
    commits = len(lake.table(db, "t").metadata.snapshots)
    want = sorted(tuple(r) for r in server.sql(f"SELECT id, v, n FROM {db}.t"))
    time.sleep(1)                                                  # an idle table is looked after as well
    for read in (lake.table, lake.in_duckdb):
        assert sorted(tuple(r.values()) for r in read(db, "t").scan().to_arrow().to_pylist()) == want
    ops = [s.summary.operation.value for s in lake.table(db, "t").metadata.snapshots]
    data, deletes = files(lake, db, "t")
    print(f"{commits} snapshots, {ops.count('replace')} of them compactions; at most {most} files seen, {data} data and {deletes} delete files in the end")
    assert commits > 60 and ops.count("replace") >= 4
    assert most < 60 and data < 40, "small files pile up"
    w.kill()
    server.sql(f"UPDATE {db}.t SET n = -1 WHERE id % 3 = 0")
    w.catch_up()
    want = sorted(tuple(r) for r in server.sql(f"SELECT id, v, n FROM {db}.t"))
    assert sorted(tuple(r.values()) for r in lake.in_duckdb(db, "t").scan().to_arrow().to_pylist()) == want
    assert w.status()["anomalies"] == 0


def test_rows_keep_their_identity_through_compactions(server, db, make_weir):
    """row lineage of format version 3: a row that nobody touched keeps _row_id and _last_updated_sequence_number"""
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v INT)")
    w = make_weir(server, [rf"{db}\..*"])
    w.catch_up()
    con = duckdb_connection()

    def lineage():
        where = Lake(w.home).table(db, "t").metadata_location
        return {r[0]: r[1:] for r in con.execute(f"SELECT id, _row_id, _last_updated_sequence_number FROM iceberg_scan('{where}')").fetchall()}
    seen, replaced = {}, 0
    for k in range(30):
        server.sql(f"INSERT INTO {db}.t VALUES " + ",".join(f"({k * 100 + i}, 0)" for i in range(100)))
        w.catch_up()
        now = lineage()
        assert {i: now[i] for i in seen} == seen
        seen = now
        assert len({r for r, _ in now.values()}) == len(now) == (k + 1) * 100
    replaced = [s.summary.operation.value for s in Lake(w.home).table(db, "t").metadata.snapshots].count("replace")
    assert replaced >= 3
    server.sql(f"UPDATE {db}.t SET v = 1 WHERE id = 5")
    w.catch_up()
    now = lineage()
    assert now[5] != seen[5] and {i: v for i, v in now.items() if i != 5} == {i: v for i, v in seen.items() if i != 5}
