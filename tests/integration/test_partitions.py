"""Declared partitions of lake tables: what is in which file, what readers need not read, and that the rows stay the source's whatever happens."""
import datetime as dt
import random
import threading
import time
from decimal import Decimal as D

import pytest
from harness import backend
from harness.compare import assert_equal
from harness.lake import Lake, duckdb_connection
from harness.partitions import assert_pruned, layout

UTC = dt.timezone.utc


def stamps(*texts):
    return [dt.datetime.fromisoformat(t) for t in texts]


# column type, literals, Python values for a filter (None: not asked), terms
TYPES = {
    "bool": ("TINYINT(1)", ["0", "1"], [], ["x"]),
    "int": ("INT", ["0", "1", "-1", "34", "2147483647", "-2147483640", "-10", "9"], [0, 34, -1, 2147483647], ["x", "bucket(16, x)", "truncate(10, x)"]),
    "long": ("BIGINT", ["0", "-1", "34", "9223372036854775807", "-9223372036854775000", "-11"], [0, 34, -1, 9223372036854775807], ["x", "bucket(7, x)", "truncate(10, x)"]),
    "float": ("FLOAT", ["0", "1.5", "-2.25"], [1.5, -2.25], ["x"]),
    "decimal": ("DECIMAL(9,2)", ["14.20", "0", "-14.20", "9999999.99", "10.65", "-0.01"], [D("14.20"), D("-0.01")], ["x", "bucket(100, x)", "truncate(50, x)"]),
    "wide": ("DECIMAL(38,4)", ["1234567890123456789012345678901234.5678", "-1234567890123456789012345678901234.5678", "0"], [], ["x", "bucket(9, x)", "truncate(1000, x)"]),
    "date": ("DATE", ["'1970-01-01'", "'2017-11-16'", "'1969-12-31'", "'1000-01-01'", "'9999-12-31'"], [dt.date(2017, 11, 16), dt.date(1969, 12, 31)],
             ["x", "bucket(12, x)", "year(x)", "month(x)", "day(x)"]),
    "timestamp": ("DATETIME(6)", ["'2017-11-16 22:31:08.000001'", "'1970-01-01 00:00:00'", "'1969-12-31 23:59:59.999999'", "'1969-01-01 00:00:00'", "'2026-11-30 14:00:00'"],
                  stamps("2017-11-16T22:31:08.000001", "1969-12-31T23:59:59.999999"), ["x", "bucket(12, x)", "year(x)", "month(x)", "day(x)", "hour(x)"]),
    "timestamptz": ("TIMESTAMP(6) NULL", ["'2017-11-16 22:31:08.000001'", "'1970-01-01 00:00:01'", "'2026-11-30 14:00:00'"], [], ["x", "bucket(12, x)", "year(x)", "month(x)", "day(x)", "hour(x)"]),
    "string": ("VARCHAR(60) CHARACTER SET utf8mb4", ["''", "'iceberg'", "'ice/../berg=1 %2F'", "'\u00e9\u5317\U0001f9ca\u5317\u00e9'", "'null'", "'ICEBERG'"], ["iceberg", "", "ice/../berg=1 %2F", "\u00e9\u5317\U0001f9ca\u5317\u00e9"],
               ["x", "bucket(128, x)", "truncate(3, x)"]),
    "binary": ("VARBINARY(20)", ["''", "x'00010203'", "x'ff00ff'"], [b"", b"\x00\x01\x02\x03"], ["x", "bucket(128, x)", "truncate(2, x)"]),
}
CASES = [(k, i, t) for k, (_, _, _, terms) in TYPES.items() for i, t in enumerate(terms)][:: 1 if backend.MODE == "local" else 6]


@pytest.mark.parametrize("version", [3, 2])
def test_each_transform_of_each_type(server, db, make_weir, version):
    rules, tables = [], []
    for kind, i, term in CASES:
        name, (sql, literals, _, _) = f"{kind}_{i}", TYPES[kind]
        tables.append(name)
        rules.append({"match": rf"{db}\.{name}", "partition": [term]})
        values = literals[: len(literals) // 2 + 1] + ["NULL"]
        server.sql(f"CREATE TABLE {db}.{name} (id INT PRIMARY KEY, x {sql}, n INT)", f"INSERT INTO {db}.{name} VALUES " + ",".join(f"({k}, {v}, 0)" for k, v in enumerate(values)))
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"layout": rules, "format_version": version}})
    w.check()
    w.catch_up()
    for kind, i, _ in CASES:                                            # the rest comes as changes, and rows move from partition to partition
        name, (_, literals, _, _) = f"{kind}_{i}", TYPES[kind]
        server.sql(f"INSERT INTO {db}.{name} VALUES " + ",".join(f"({100 + k}, {v}, 1)" for k, v in enumerate(literals)), f"UPDATE {db}.{name} SET x = {literals[-1]}, n = 2 WHERE id = 0",
                   f"UPDATE {db}.{name} SET x = NULL WHERE id = 1", f"DELETE FROM {db}.{name} WHERE id = 101", f"INSERT INTO {db}.{name} VALUES (200, NULL, 3)")
    w.catch_up()
    lake = Lake(w.home)
    assert_equal(server, lake, db, tables)
    for kind, i, term in CASES:
        tbl = lake.table(db, f"{kind}_{i}")
        files = layout(tbl)
        assert all(s == tbl.spec().spec_id for s, _, _ in files), f"{kind}: {term}: {files}"
        assert_pruned(tbl, "x", [*TYPES[kind][2], None])
        seen = tbl.inspect.partitions().to_pylist()
        assert sum(p["record_count"] for p in seen) == sum(n for _, _, n in files)
        assert len(seen) == len({tuple(map(repr, t.values())) for _, t, _ in files})
        assert tbl.inspect.files().num_rows >= len(files)


def rule(db, table, *terms):
    return {"match": rf"{db}\.{table}", "partition": list(terms)}


def specs_in_use(tbl):
    return {s for s, _, _ in layout(tbl)}


def optimize(w):
    """everything is rewritten that can be"""
    w.run("optimize", "--all")


def read_both(lake, db, name, columns="*"):
    tbl = lake.table(db, name)
    got = duckdb_connection().execute(f"SELECT {columns} FROM iceberg_scan('{tbl.metadata_location}')").fetchall()
    assert len(got) == tbl.scan().to_arrow().num_rows
    return sorted(got)


def test_a_layout_that_changes_between_runs_is_taken_in_step_by_step(server, db, make_weir):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, country VARCHAR(9), at DATETIME, n INT)",
               f"INSERT INTO {db}.t VALUES " + ",".join(f"({i}, 'c{i % 3}', '2026-{i % 12 + 1:02}-10', 0)" for i in range(240)))
    w = make_weir(server, [rf"{db}\..*"])
    w.catch_up()
    lake = Lake(w.home)
    tbl = lake.table(db, "t")
    assert tbl.spec().is_unpartitioned() and specs_in_use(tbl) == {0}

    w.config["lake"]["layout"] = [rule(db, "t", "country", "month(at)")]
    w.write()
    w.catch_up()                                                      # nothing has changed in the source, and yet it is told
    tbl = lake.table(db, "t")
    assert [str(f.transform) for f in tbl.spec().fields] == ["identity", "month"]
    assert [f.name for f in tbl.spec().fields] == ["country", "at_month"] and [f.field_id for f in tbl.spec().fields] == [1000, 1001]
    server.sql(f"UPDATE {db}.t SET n = n + 1 WHERE id % 7 = 0", f"UPDATE {db}.t SET country = 'c9' WHERE id < 5", f"INSERT INTO {db}.t VALUES (900, 'c9', '2020-02-02', 1)")
    w.catch_up()
    optimize(w)
    tbl = lake.table(db, "t")
    assert specs_in_use(tbl) == {tbl.spec().spec_id}, "files of the old spec are rewritten"
    assert_equal(server, lake, db, ["t"])
    assert_pruned(tbl, "country", ["c1", "c9"])
    was = tbl.spec().spec_id

    w.config["lake"]["layout"] = [rule(db, "t", "month(at)", "bucket(4, id)")]
    w.write()
    server.sql(f"UPDATE {db}.t SET n = n + 1 WHERE id % 5 = 0", f"DELETE FROM {db}.t WHERE id % 11 = 0")
    w.catch_up()
    tbl = lake.table(db, "t")
    assert tbl.spec().spec_id != was and [f.field_id for f in tbl.spec().fields] == [1001, 1002], "a field that was there before keeps its id"
    assert_equal(server, lake, db, ["t"])

    w.config["lake"]["layout"] = [rule(db, "t", "country", "month(at)")]
    w.write()
    w.catch_up()
    assert lake.table(db, "t").spec().spec_id == was, "an equal spec is used again"
    w.config["lake"]["layout"] = [rule(db, "t")]
    w.write()
    w.catch_up()
    optimize(w)
    tbl = lake.table(db, "t")
    assert tbl.spec().is_unpartitioned() and specs_in_use(tbl) == {0}
    assert_equal(server, lake, db, ["t"])


def test_columns_that_partitions_are_made_from_change(server, db, make_weir):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, country VARCHAR(9), at DATETIME, k INT, n INT)",
               f"INSERT INTO {db}.t VALUES " + ",".join(f"({i}, 'c{i % 3}', '2026-{i % 3 + 1:02}-10', {i % 4}, 0)" for i in range(60)))
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"layout": [rule(db, "t", "country", "month(at)", "truncate(2, k)")]}})
    w.catch_up()
    lake = Lake(w.home)

    def step(*sql, **kw):
        server.sql(*sql)
        w.catch_up()
        tbl = lake.table(db, "t")
        assert_equal(server, lake, db, ["t"])
        layout(tbl)
        known = {f.field_id: f.name for f in tbl.schema().fields}
        for spec in tbl.specs().values():                             # as Iceberg Java would have it
            for f in spec.fields:
                assert f.name not in known.values() or known.get(f.source_id) == f.name, f"{f} has the name of another column"
        for s in specs_in_use(tbl):
            assert all(f.source_id in known for f in tbl.specs()[s].fields), "a file's partition is of a column that is gone"
        return tbl
    tbl = step(f"ALTER TABLE {db}.t RENAME COLUMN country TO land", f"INSERT INTO {db}.t VALUES (100, 'c7', '2026-07-07', 1, 1)")
    assert [f.name for f in tbl.spec().fields] == ["country", "at_month", "k_trunc"], "by the column's id"
    tbl = step(f"ALTER TABLE {db}.t MODIFY k BIGINT", f"INSERT INTO {db}.t VALUES (101, 'c7', '2026-07-07', 99999999999, 1)", f"UPDATE {db}.t SET n = 5 WHERE id = 3")
    assert len(tbl.specs()) == 2, "a wider type changes no value of a transform"
    tbl = step(f"ALTER TABLE {db}.t DROP COLUMN land", f"INSERT INTO {db}.t VALUES (102, '2026-08-08', 2, 1)", f"UPDATE {db}.t SET n = 6 WHERE id = 4")
    assert [f.name for f in tbl.spec().fields] == ["at_month", "k_trunc"]
    tbl = step(f"ALTER TABLE {db}.t ADD COLUMN at_month INT DEFAULT 4, ADD COLUMN country INT", f"INSERT INTO {db}.t VALUES (103, '2026-08-08', 2, 1, 8, 9)")
    assert {f.source_id for f in tbl.spec().fields} >= {tbl.schema().find_field("at").field_id, tbl.schema().find_field("k").field_id}
    tbl = step(f"ALTER TABLE {db}.t MODIFY k VARCHAR(20)", f"INSERT INTO {db}.t VALUES (104, '2026-08-08', 'x', 1, 8, 9)", f"UPDATE {db}.t SET k = 'y' WHERE id = 104")
    w.catch_up()                                                      # the table was read again; its layout goes on by the new column
    tbl = step(f"INSERT INTO {db}.t VALUES (105, '2026-08-08', 'xyz', 1, 8, 9)")
    assert tbl.schema().find_field("k").field_id in {f.source_id for f in tbl.spec().fields}
    step(f"TRUNCATE TABLE {db}.t", f"INSERT INTO {db}.t VALUES (1, '2026-08-08', 'xyz', 1, 8, 9)")
    w.run("check", status=None)
    step(f"RENAME TABLE {db}.t TO {db}.u, {db}.u TO {db}.t", f"DELETE FROM {db}.t")


def test_a_batch_that_touches_thousands_of_partitions(server, db, make_weir):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, d DATE, n INT)")
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"layout": [rule(db, "t", "day(d)")]}})
    w.catch_up()
    server.sql(f"INSERT INTO {db}.t VALUES " + ",".join(f"({i}, '2010-01-01' + INTERVAL {i % 5000} DAY, 0)" for i in range(10000)))
    w.catch_up()
    lake = Lake(w.home)
    tbl = lake.table(db, "t")
    head = next(s for s in reversed(tbl.metadata.snapshots) if "changed-partition-count" in s.summary.additional_properties and s.summary.operation.value == "append")
    assert head.summary["changed-partition-count"] == "5000"
    assert len(list(tbl.scan(row_filter="d = '2011-01-01'").plan_files())) == 1
    assert_equal(server, lake, db, ["t"])


def test_a_load_of_many_partitions_is_spread_when_it_is_whole(server, db, make_weir):
    """chunks of which each touches many partitions do not become thousands of little files"""
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, d DATE, pad VARCHAR(300), n INT)")
    for k in range(10):
        server.sql(f"INSERT INTO {db}.t VALUES " + ",".join(f"({k * 2000 + i}, '2020-01-01' + INTERVAL {(i * 7919 + k) % 100} DAY, REPEAT(CONCAT('pad', {i}), 40), 0)" for i in range(2000)))
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"layout": [rule(db, "t", "day(d)")]}})
    w.start()
    w.wait()
    lake = Lake(w.home)
    seen = len(list(lake.table(db, "t").scan().plan_files()))
    until = time.monotonic() + 30
    while specs_in_use(lake.table(db, "t")) != {lake.table(db, "t").spec().spec_id} and time.monotonic() < until:
        server.sql(f"UPDATE {db}.t SET n = n + 1 WHERE id = {random.randrange(20000)}")
        time.sleep(.3)
    w.wait()
    w.stop()
    tbl = lake.table(db, "t")
    files = layout(tbl)
    print(f"{seen} files when the load was whole, {len(files)} in the end")
    assert seen < 60 and {s for s, _, _ in files} == {tbl.spec().spec_id} and 100 <= len(files) < 300
    assert_equal(server, lake, db, ["t"])


def test_without_key_merged_and_read_again(server, db, make_weir):
    server.sql(f"CREATE TABLE {db}.nokey (a INT, b VARCHAR(9))", f"INSERT INTO {db}.nokey VALUES (1,'x'),(1,'x'),(2,'y'),(NULL,NULL)",
               *(f"CREATE TABLE {db}.s_{i} (id INT PRIMARY KEY, v INT)" for i in range(3)), *(f"INSERT INTO {db}.s_{i} VALUES (1,{i}),(2,5)" for i in range(3)))
    w = make_weir(server, [rf"{db}\..*"], {"merge": [{"from": rf"{db}\.s_\d+", "to": f"{db}.s"}], "lake": {"layout": [rule(db, "nokey", "bucket(3, a)", "b"), rule(db, "s", "tb_name", "v")]}})
    w.check()
    w.catch_up()
    server.sql(f"UPDATE {db}.nokey SET b = 'z' WHERE a = 1", f"INSERT INTO {db}.nokey VALUES (7,'x')", f"DELETE FROM {db}.nokey WHERE a = 2", f"UPDATE {db}.s_1 SET v = 9 WHERE id = 2",
               f"DROP TABLE {db}.s_2", f"INSERT INTO {db}.s_0 VALUES (3, NULL)")
    w.catch_up()
    lake = Lake(w.home)
    assert_equal(server, lake, db, ["nokey"])
    layout(lake.table(db, "nokey"))
    merged = lake.table(db, "s")
    assert {(t["tb_name"], t["v"]) for _, t, _ in layout(merged)} >= {("s_0", 0), ("s_1", 9), ("s_0", None)}
    assert [r[1:] for r in read_both(lake, db, "s")][:3] == [("s_0", 1, 0), ("s_0", 2, 5), ("s_0", 3, None)]


def test_what_does_not_fit_is_said_before_anything_is_read(server, db, make_weir):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, d DATE, f DOUBLE)")
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"layout": [rule(db, "t", "bucket(4, id)", "day(nope)")]}})
    w.check(status=1).says(r"layout.*lake.layout\[0\].partition\[1\]: day\(nope\): lake table .*\.t has no column nope", "id, d, f")
    w.catch_up(status=1).says("has no column nope")
    for term, why in (("hour(d)", "column d .* is of type date, and hour takes"), ("bucket(2, f)", "is of type double"), ("truncate(2, d)", "is of type date")):
        w.config["lake"]["layout"][0]["partition"] = [term]
        w.write()
        w.check(status=1).says(why)
    w.config["lake"]["layout"][0]["partition"] = ["day(d)"]
    w.write()
    w.check()
    w.catch_up()
    w.config["lake"]["layout"][0]["partition"] = ["day(dd)"]
    w.write()
    w.catch_up(status=1).says(r"lake table .*\.t has no column dd")
    w.config["lake"]["layout"][0]["partition"] = ["day(d)"]
    w.write()
    server.sql(f"CREATE TABLE {db}.later (id INT PRIMARY KEY)")
    w.config["lake"]["layout"].append(rule(db, "later", "day(d)"))
    w.write()
    w.catch_up(status=1).says(r"lake table .*\.later has no column d")


def test_what_others_make_of_the_partitions_is_taken_in(server, db, make_weir):
    """PyIceberg writes format version 2 only"""
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.transforms import BucketTransform
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, c VARCHAR(9))", f"INSERT INTO {db}.t VALUES (1,'a'),(2,'b'),(3,'a')")
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"format_version": 2}})
    w.catch_up()
    lake = Lake(w.home)
    with lake.table(db, "t").update_spec() as u:
        u.add_identity("c")
    tbl = lake.table(db, "t")
    tbl.append(pa.Table.from_pylist([{"id": 50, "c": "q"}, {"id": 51, "c": "a"}], schema=schema_to_pyarrow(tbl.schema(), include_field_ids=False)))
    with lake.table(db, "t").update_spec() as u:
        u.add_field("id", BucketTransform(4), "id_b")
    server.sql(f"INSERT INTO {db}.t VALUES (4,'b'), (50, 'new')", f"UPDATE {db}.t SET c = 'z' WHERE id = 1", f"DELETE FROM {db}.t WHERE id = 2")
    w.catch_up()
    tbl = lake.table(db, "t")
    assert [f.name for f in tbl.spec().fields] == ["c", "id_b"], "without a layout of one's own others' stays"
    want = [(1, "z"), (3, "a"), (4, "b"), (50, "new"), (51, "a")]
    assert read_both(lake, db, "t") == want
    layout(tbl)
    optimize(w)
    tbl = lake.table(db, "t")
    assert specs_in_use(tbl) == {tbl.spec().spec_id} and read_both(lake, db, "t") == want


@pytest.mark.parametrize("seconds", [12])
def test_rows_move_while_everything_is_killed(server, db, make_weir, seconds):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, c VARCHAR(9), at DATETIME, n INT)",
               f"INSERT INTO {db}.t VALUES " + ",".join(f"({i}, 'c{i % 9}', '2026-{i % 12 + 1:02}-10', 0)" for i in range(3000)))
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"layout": [rule(db, "t", "month(at)", "truncate(1, c)")], "commit": {"every": "50ms"}}})
    lake, done = Lake(w.home), threading.Event()

    def write():
        con = server.connect()
        con.autocommit(True)
        cur, top = con.cursor(), 3000
        while not done.is_set():
            cur.execute(f"UPDATE {db}.t SET c = '{rng.choice('abcdef')}', n = n + 1 WHERE id IN ({','.join(str(rng.randrange(top)) for _ in range(9))})")
            cur.execute(f"UPDATE {db}.t SET at = at + INTERVAL 40 DAY WHERE id = {rng.randrange(top)}")
            cur.execute(f"INSERT INTO {db}.t VALUES ({top}, 'n', '2026-12-01', 0), ({top + 1}, NULL, NULL, 0)")
            cur.execute(f"DELETE FROM {db}.t WHERE id IN ({rng.randrange(top)}, {rng.randrange(top)})")
            top += 2
            time.sleep(.01)
    t = threading.Thread(target=write)
    t.start()
    until, kills = time.monotonic() + seconds, 0
    try:
        while time.monotonic() < until:
            w.start()
            time.sleep(rng.random() * 2)
            w.kill()
            kills += 1
            if rng.random() < .4:                                     # and the layout changes meanwhile
                w.config["lake"]["layout"] = [rule(db, "t", *rng.choice([["month(at)", "truncate(1, c)"], ["c"], ["bucket(3, id)"], []]))]
                w.write()
    finally:
        done.set()
        t.join()
    w.catch_up()
    print(kills, "kills")
    assert_equal(server, lake, db, ["t"])
    layout(lake.table(db, "t"))
    optimize(w)
    tbl = lake.table(db, "t")
    assert specs_in_use(tbl) <= {tbl.spec().spec_id}
    assert_equal(server, lake, db, ["t"])


def test_columns_that_come_again_under_their_old_names(server, db, make_weir):
    """an identity partition has the name of its column: when another column takes that name, readers refuse the two together"""
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, c VARCHAR(9), n INT)", f"INSERT INTO {db}.t VALUES (1,'a',1),(2,'b',2),(3,NULL,3)")
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"layout": [rule(db, "t", "c", "n")]}})
    w.catch_up()
    lake, new = Lake(w.home), 10
    for statements in (["MODIFY c VARBINARY(20)"], ["MODIFY c VARCHAR(30)"], ["DROP COLUMN n", "ADD COLUMN n INT"], ["RENAME COLUMN c TO cc", "ADD COLUMN c BIGINT"], ["MODIFY c VARCHAR(20)", "MODIFY n VARCHAR(20)"]):
        server.sql(*(f"ALTER TABLE {db}.t {s}" for s in statements))
        w.catch_up()
        server.sql(f"INSERT INTO {db}.t (id, c, n) VALUES ({new}, 7, 8), ({new + 1}, NULL, NULL)", f"UPDATE {db}.t SET n = 9 WHERE id IN (1, {new})", f"DELETE FROM {db}.t WHERE id = {new - 5}")
        new += 5
        w.catch_up()
        assert_equal(server, lake, db, ["t"])
        tbl = lake.table(db, "t")
        layout(tbl)
        assert {tbl.schema().find_field(f.source_id).name for f in tbl.spec().fields} == {"c", "n"}, f"{statements}: {tbl.spec()}"
        names = {f.name: f.field_id for f in tbl.schema().fields}
        assert all(names.get(f.name, f.source_id) == f.source_id for s in tbl.specs().values() for f in s.fields), tbl.specs()
    optimize(w)
    assert specs_in_use(lake.table(db, "t")) == {lake.table(db, "t").spec().spec_id}
    assert_equal(server, lake, db, ["t"])
