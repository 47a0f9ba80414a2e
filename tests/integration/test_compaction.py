"""Tables that are written all the time stay few files, and nobody notices: readers of every moment see exactly the rows."""
import json
import os
import random
import time

import pytest
from harness import backend
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
    least, merges = (24, 2) if backend.MODE == "faulty" else (60, 4)      # commits whose requests get lost take seconds
    began = time.monotonic()
    while time.monotonic() < began + 15 or (time.monotonic() < began + 150 and len(lake.table(db, "t").metadata.snapshots) < least + 2):
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
    assert commits > least and ops.count("replace") >= merges
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


def test_what_was_done_and_what_is_due_can_be_looked_at_and_done_by_hand(server, db, make_weir):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v INT)", f"CREATE TABLE {db}.other (id INT PRIMARY KEY)")
    w = make_weir(server, [rf"{db}\..*"])
    w.catch_up()
    for k in range(10):
        server.sql(f"INSERT INTO {db}.t VALUES " + ",".join(f"({k * 100 + i}, 0)" for i in range(100)))
        w.catch_up()
    server.sql(f"UPDATE {db}.t SET v = 1 WHERE id < 30")
    w.start()
    w.wait()
    w.run("optimize", status=1).says("locked|running|held|holds", "looks after its tables by itself")
    w.stop()

    def look():
        return json.loads(w.run("tables", f"{db}.t", "--json").out)
    before = look()
    assert before["data_files"] == sum(before["files_by_level"]) and before["upkeep"]["new_bytes"] > 0 and before["metadata_bytes"] > 1000
    want = sorted(tuple(r) for r in server.sql(f"SELECT id, v FROM {db}.t"))
    w.run("optimize", "--all", f"{db}.t").says(rf"{db}\.t: \d+ jobs")
    after = look()
    assert (after["data_files"], after["deleted_rows"], after["rows"], after["due"]) == (1, 0, 1000, "")
    assert after["upkeep"]["rewrites"] + after["upkeep"]["merges"] > before["upkeep"]["rewrites"] + before["upkeep"]["merges"]
    last = after["upkeep"]["last"][-1]
    assert last["why"] == "asked for" and last["files_in"] > 1 and last["files_out"] == 1 and last["bytes_out"] > 0
    assert after["write_amplification"] == pytest.approx(1 + after["upkeep"]["rewritten_bytes"] / after["upkeep"]["new_bytes"])
    w.run("tables", f"{db}.t").says("files .*1 below", "deleted +0.0 %", "written .*times in all", "due +nothing", "(merge|rewrite) +asked for")
    w.run("tables").says("WRITTEN", "DUE")
    w.run("optimize", "--all").says(rf"{db}\.t: nothing to do", rf"{db}\.other: nothing to do")
    w.run("optimize", "nosuch", status=1).says("none of this pipeline's")
    for read in (Lake(w.home).table, Lake(w.home).in_duckdb):
        assert sorted(tuple(r.values()) for r in read(db, "t").scan().to_arrow().to_pylist()) == want
    server.sql(f"DELETE FROM {db}.t WHERE id % 2 = 0")
    w.catch_up()
    want = sorted(tuple(r) for r in server.sql(f"SELECT id, v FROM {db}.t"))
    assert sorted(tuple(r.values()) for r in Lake(w.home).in_duckdb(db, "t").scan().to_arrow().to_pylist()) == want
    assert w.status()["anomalies"] == 0


@pytest.mark.local_lake("it puts a file with an old date into the warehouse, and an object store dates its objects itself")
def test_files_that_nothing_names_are_found_and_removed_by_hand(server, db, make_weir):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1), (2)")
    w = make_weir(server, [rf"{db}\..*"])
    w.catch_up()
    left = next((w.home / "warehouse" / db).glob("t-*/data")) / "left-behind.parquet"
    left.write_bytes(b"nobody")
    old = time.time() - 4 * 86400
    os.utime(left, (old, old))
    w.run("optimize", "--orphans").says(r"left-behind\.parquet", "1 files .*add --delete")
    w.run("optimize", "--orphans", "--older-than", "5d").says("0 files .*nothing to do")
    assert left.exists()
    assert json.loads(w.run("optimize", "--orphans", "--delete", "--json").out)["deleted"] is True
    assert not left.exists()
    w.run("optimize", "--orphans", "--older-than", "0s").says("0 files")        # what the pipeline has, it names
    w.run("optimize", "--delete", status=2).says("belongs to --orphans")
    assert Lake(w.home).count(db, "t") == 2
