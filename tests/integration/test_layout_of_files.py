"""Within files: rows in the table's order, Bloom filters that readers believe, and what the table's metadata says of both."""
import random

import duckdb
import pyarrow.parquet as pq
import pytest
from harness.compare import assert_equal
from harness.lake import Lake, duckdb_connection
from harness.partitions import assert_pruned, column, layout

DIGITS = "(SELECT 0 x UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
TEN_THOUSAND = f"(SELECT a.x + 10 * b.x + 100 * c.x + 1000 * d.x AS n FROM {DIGITS} a, {DIGITS} b, {DIGITS} c, {DIGITS} d)"


def data_files(table):
    return [f for f in table.inspect.files().to_pylist() if f["content"] == 0]


def fetched(table, path, folder):
    """a local copy: the lake may be in an object store"""
    copy = folder / path.rsplit("/", 1)[1]
    if not copy.exists():
        with table.io.new_input(path).open() as f:
            copy.write_bytes(f.read())
    return copy


def assert_sorted(table, columns, folder, descending=(), ids=None):
    """rows of each file that says so; and all do, or those with one of the ids"""
    order = table.sort_order()
    names = {c.field_id: c.name for c in table.schema().fields}
    assert [names[f.source_id] for f in order.fields] == list(columns)
    assert [f.direction.value for f in order.fields] == ["desc" if c in descending else "asc" for c in columns]
    seen = 0
    for f in data_files(table):
        if ids is not None and f["sort_order_id"] not in ids:
            continue
        assert f["sort_order_id"] == order.order_id
        file = pq.ParquetFile(fetched(table, f["file_path"], folder))
        keys = list(zip(*(column(file, o.source_id) for o in order.fields)))             # by field id: columns are renamed
        for a, b in zip(keys, keys[1:]):
            for c, x, y in zip(columns, a, b):
                if x != y:
                    bytewise = (x.encode(), y.encode()) if isinstance(x, str) and isinstance(y, str) else (x, y)
                    nulls_ahead = (x is None) != (c in descending) if None in (x, y) else None
                    assert nulls_ahead if nulls_ahead is not None else (bytewise[0] < bytewise[1]) != (c in descending), f"{f['file_path']}: {a} before {b}"
                    break
        seen += 1
    assert seen


@pytest.mark.parametrize("version", [3, 2])
def test_files_of_loads_commits_and_compactions_are_sorted_by_the_key(server, db, make_weir, tmp_path, version):
    server.sql(f"CREATE TABLE {db}.t (v INT, name VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, n INT, PRIMARY KEY (name, n))",
               f"INSERT INTO {db}.t SELECT n, CONCAT(ELT(1 + n % 4, 'b', 'B', 'a', 'Ä'), n % 37), n FROM {TEN_THOUSAND} k")        # in the server's order a, Ä, b, B
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"format_version": version}})
    w.catch_up()
    table = Lake(w.home).table(db, "t")
    assert table.metadata.default_sort_order_id != 0
    assert_sorted(table, ["name", "n"], tmp_path)
    for k in range(4):
        server.sql(f"INSERT INTO {db}.t SELECT n, CONCAT('new', (n * 7919 + {k}) % 10007), {k} FROM {TEN_THOUSAND} k WHERE n < 3000 ORDER BY RAND()", f"UPDATE {db}.t SET v = -1 WHERE n % 11 = {k}",
                   f"DELETE FROM {db}.t WHERE n % 97 = {k}")
        w.catch_up()
    assert_sorted(Lake(w.home).table(db, "t"), ["name", "n"], tmp_path)
    w.run("optimize", "--all")
    table = Lake(w.home).table(db, "t")
    assert_sorted(table, ["name", "n"], tmp_path)
    assert not [f for f in table.inspect.files().to_pylist() if f["content"]]
    server.sql(f"UPDATE {db}.t SET v = v + 1 WHERE n % 5 = 0")
    w.catch_up()
    want = sorted(server.sql(f"SELECT v, name, n FROM {db}.t"))
    for read in (Lake(w.home).table, Lake(w.home).in_duckdb):
        assert sorted(tuple(r.values()) for r in read(db, "t").scan().to_arrow().to_pylist()) == [tuple(r) for r in want]
    assert w.status()["anomalies"] == 0


def test_deletes_that_come_while_a_compaction_sorts_are_not_lost(server, db, make_weir, tmp_path):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(60))")
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"commit": {"every": "50ms"}, "layout": [{"match": rf"{db}\.t", "sort": ["v desc", "id"]}]}})
    w.start()
    w.wait()
    rng = random.Random(5)
    for k in range(60):
        server.sql(f"REPLACE INTO {db}.t VALUES " + ",".join(f"({rng.randrange(4000)}, '{rng.random()}')" for _ in range(200)),
                   f"DELETE FROM {db}.t WHERE id IN ({','.join(str(rng.randrange(4000)) for _ in range(30))})")
    w.wait()
    w.stop()
    table = Lake(w.home).table(db, "t")
    assert "replace" in [s.summary.operation.value for s in table.metadata.snapshots]
    assert_sorted(table, ["v", "id"], tmp_path, descending={"v"})
    want = sorted(tuple(r) for r in server.sql(f"SELECT id, v FROM {db}.t"))
    assert sorted(tuple(r.values()) for r in Lake(w.home).in_duckdb(db, "t").scan().to_arrow().to_pylist()) == want


def test_a_declared_order_is_the_tables_and_changes_with_the_configuration(server, db, make_weir, tmp_path):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, at DATETIME(6) NULL, v INT)",
               f"INSERT INTO {db}.t SELECT n, IF(n % 10 = 0, NULL, '2026-01-01' + INTERVAL (n * 7919 % 10007) SECOND), n FROM {TEN_THOUSAND} k",
               f"CREATE TABLE {db}.log (line VARCHAR(20))", f"INSERT INTO {db}.log VALUES ('b'), ('a')")
    w = make_weir(server, [rf"{db}\..*"])
    w.config["lake"]["layout"] = [{"match": rf"{db}\.t", "sort": ["at desc", "id"], "bloom_filters": []}]
    w.write()
    w.catch_up()
    table = Lake(w.home).table(db, "t")
    assert_sorted(table, ["at", "id"], tmp_path, descending={"at"})
    assert pq.ParquetFile(fetched(table, data_files(table)[0]["file_path"], tmp_path)).metadata.row_group(0).column(0).is_stats_set
    first = table.sort_order().order_id
    log = Lake(w.home).table(db, "log")                             # without a key: as rows come, and that is an order too
    assert log.metadata.default_sort_order_id == 0 and {f["sort_order_id"] for f in data_files(log)} == {None}
    w.config["lake"]["layout"] = [{"match": rf"{db}\.t", "sort": ["v"]}]
    w.write()
    server.sql(f"UPDATE {db}.t SET v = 10000 - v WHERE id < 1000")
    w.catch_up()
    table = Lake(w.home).table(db, "t")
    second = table.sort_order().order_id
    assert second not in (0, first) and {f["sort_order_id"] for f in data_files(table)} == {first, second}
    assert_sorted(table, ["v"], tmp_path, ids={second})
    server.sql(f"ALTER TABLE {db}.t ADD COLUMN extra INT NULL", f"UPDATE {db}.t SET extra = 1 WHERE id < 3000")
    w.catch_up()
    w.run("optimize", "--all")
    table = Lake(w.home).table(db, "t")
    assert_sorted(table, ["v"], tmp_path)
    w.config["lake"]["layout"] = [{"match": rf"{db}\.t", "sort": []}]
    w.write()
    server.sql(f"UPDATE {db}.t SET v = id WHERE id < 300")
    w.catch_up()
    table = Lake(w.home).table(db, "t")
    assert table.metadata.default_sort_order_id == 0 and None in {f["sort_order_id"] for f in data_files(table)}
    w.config["lake"]["layout"] = [{"match": rf"{db}\.t", "sort": ["v", "nosuch"]}]
    w.write()
    w.run("check", status=1).says(rf"lake\.layout\[0\]\.sort\[1\]: lake table {db}\.t has no column nosuch", "id, at, v, extra")
    want = sorted(tuple(r) for r in server.sql(f"SELECT id, v FROM {db}.t"))
    got = sorted((r["id"], r["v"]) for r in Lake(w.home).in_duckdb(db, "t").scan().to_arrow().to_pylist())
    assert got == want


TYPES = {"ti": "TINYINT", "si": "SMALLINT UNSIGNED", "i": "INT", "bi": "BIGINT", "ub": "BIGINT UNSIGNED", "d9": "DECIMAL(9,2)", "d18": "DECIMAL(18,4)", "d38": "DECIMAL(38,10)", "f": "DOUBLE",
         "dt": "DATE", "ts": "TIMESTAMP(6) NULL", "dm": "DATETIME(6)", "vc": "VARCHAR(60) CHARACTER SET utf8mb4", "vb": "VARBINARY(20)", "en": "ENUM('x','y','z')", "y": "YEAR"}
VALUES = ["n % 100 - 50", "n * 6", "n * 7919 - 40000000", "n * 123456789012", "18446744073709551615 - n", "n * 700.25 - 3000000", "n * 1234567.8901", "n * 12345678901234567.0000000001", "n / 7",
          "'1970-01-01' + INTERVAL n * 3 DAY", "'2001-01-01' + INTERVAL n * 7919 SECOND", "'1900-01-01' + INTERVAL n * 7919 MINUTE", "CONCAT('täxt ', n * n)", "UNHEX(SHA2(n, 0))", "1 + n % 3", "1970 + n % 100"]


def test_look_ups_find_what_is_there_through_the_filters_of_every_type(server, db, make_weir, tmp_path):
    columns = ", ".join(f"{c} {t}" for c, t in TYPES.items())
    values = ", ".join(f"IF((n + {k}) % 17 = 0, NULL, {'LEFT(' + v + ', 20)' if c == 'vb' else v})" for k, (c, v) in enumerate(zip(TYPES, VALUES)))
    server.sql("SET time_zone = '+00:00'", f"CREATE TABLE {db}.t (id INT PRIMARY KEY, {columns})", f"INSERT INTO {db}.t SELECT n, {values} FROM {TEN_THOUSAND} k")
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"layout": [{"match": rf"{db}\.t", "bloom_filters": ["id", *TYPES]}]}})
    w.catch_up()
    table = Lake(w.home).table(db, "t")
    file = fetched(table, data_files(table)[0]["file_path"], tmp_path)
    plain = duckdb.connect()
    filters = {p for p, at in plain.execute(f"SELECT path_in_schema, bloom_filter_offset FROM parquet_metadata('{file}')").fetchall() if at}
    assert filters == {"id", *TYPES} - {"f", "vb"}         # DuckDB 1.5.5 finds no binary through a filter
    con, rng = duckdb_connection(), random.Random(7)
    where = table.metadata_location
    types = {r[0]: r[1] for r in con.execute(f"DESCRIBE SELECT * FROM iceberg_scan('{where}')").fetchall()}
    rows = con.execute(f"SELECT COLUMNS(*)::VARCHAR FROM iceberg_scan('{where}')").fetchall()
    assert len(rows) == 10000
    for i, (name, kind) in enumerate(types.items()):
        for value in rng.sample(sorted({r[i] for r in rows if r[i] is not None}), 3 if name == "en" else 20):
            want = sum(r[i] == value for r in rows)
            got = con.execute(f'SELECT COUNT(*) FROM iceberg_scan(?) WHERE "{name}" = ?::{kind}', [where, value]).fetchone()[0]
            assert got == want, f"{name} = {value!r}"


@pytest.mark.local_lake("row groups are looked at one by one, in local files")
def test_look_ups_pass_over_row_groups(server, db, make_weir):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, email VARCHAR(60), v INT)")
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"layout": [{"match": rf"{db}\.t", "bloom_filters": ["id", "email"]}]}})
    for k in range(3):                                              # files whose keys overlap
        server.sql(f"INSERT INTO {db}.t SELECT n * 3 + {k}, CONCAT('user', n * 3 + {k}, '@example.org'), 0 FROM {TEN_THOUSAND} t")
        w.catch_up()
    table, con = Lake(w.home).table(db, "t"), duckdb_connection()
    files = [f["file_path"] for f in data_files(table)]
    assert len(files) == 3
    for column, present, absent in (("id", 12346, 99999), ("email", "user12346@example.org", "nobody@example.org")):
        def groups(value):
            got = con.execute(f"SELECT bloom_filter_excludes FROM parquet_bloom_probe({files}, '{column}', ?)", [value]).fetchall()
            return [g for (g,) in got]
        assert len(groups(present)) >= 3 and groups(present).count(False) == 1
        wrong = sum(groups(f"nobody{k}@example.org" if column == "email" else 100000 + k).count(False) for k in range(200))
        assert all(groups(absent)) and wrong < 30                   # of 600: one in a hundred, and luck
    server.sql(f"ALTER TABLE {db}.t MODIFY id BIGINT NOT NULL")     # the old files' filters are of 32 bits
    w.catch_up()
    server.sql(f"INSERT INTO {db}.t VALUES (5000000000, 'big', 1)")
    w.catch_up()
    where = Lake(w.home).table(db, "t").metadata_location
    for value in (0, 12346, 29999, 5000000000):
        assert con.execute(f"SELECT COUNT(*) FROM iceberg_scan('{where}') WHERE id = {value}").fetchone()[0] == 1
    assert con.execute(f"SELECT COUNT(*) FROM iceberg_scan('{where}') WHERE id = 777777").fetchone()[0] == 0


# ---------------------------------------------------------------- with partitions
def assert_filters(table, folder, columns):
    """in every file, of row groups that are large enough"""
    for f in data_files(table):
        file = pq.ParquetFile(fetched(table, f["file_path"], folder)).metadata
        got = {p for p, n, at in duckdb.connect().execute(f"SELECT path_in_schema, row_group_num_rows, bloom_filter_offset FROM parquet_metadata('{fetched(table, f['file_path'], folder)}')").fetchall() if at}
        large = any(file.row_group(k).num_rows >= 2048 for k in range(file.num_row_groups))
        assert got == (set(columns) if large else set()), f["file_path"]


def apart(table, column, folder):
    """what a compaction wrote of one partition does not overlap"""
    ranges = {}
    for f in data_files(table):
        values = pq.read_table(fetched(table, f["file_path"], folder), columns=[column]).column(0).to_pylist()
        ranges.setdefault(repr(f["partition"]), []).append((min(values), max(values)))
    for of_one in ranges.values():
        of_one.sort()
        assert all(a[1] < b[0] for a, b in zip(of_one, of_one[1:])), of_one


@pytest.mark.parametrize("version", [3, 2])
def test_partitioned_and_sorted_with_filters_through_loads_changes_and_compactions(server, db, make_weir, tmp_path, version):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, country VARCHAR(9), at DATETIME(6) NOT NULL, email VARCHAR(60), n INT)",
               f"INSERT INTO {db}.t SELECT n, ELT(1 + n % 3, 'at', 'ch', 'de'), '2026-01-01' + INTERVAL (n * 7919 % 10007) SECOND, CONCAT('user', n * 31 % 10007), 0 FROM {TEN_THOUSAND} k")
    both = {"match": rf"{db}\.t", "partition": ["country"], "sort": ["at desc", "id"], "bloom_filters": ["id", "email"], "target_file_bytes": "1MB"}
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"format_version": version, "layout": [both, {"match": ".*", "sort": []}]}})
    lake = Lake(w.home)

    def look():
        table = lake.table(db, "t")
        assert {t["country"] for _, t, _ in layout(table)} == set(r[0] for r in server.sql(f"SELECT DISTINCT country FROM {db}.t"))
        assert_sorted(table, ["at", "id"], tmp_path, descending={"at"})
        assert_filters(table, tmp_path, ["id", "email"])
        assert_pruned(table, "country", ["ch", "nl", None])
        assert_equal(server, lake, db, ["t"])
        return table

    w.catch_up()                                                        # a load
    assert len(data_files(look())) == 3
    for k in range(5):                                                  # changes; rows move from partition to partition
        server.sql(f"INSERT INTO {db}.t SELECT 10000 * {k + 1} + n, ELT(1 + n % 4, 'at', 'ch', 'nl', NULL), '2026-02-01' + INTERVAL (n * 31 % 1009) SECOND, CONCAT('new', n), {k} "
                   f"FROM {TEN_THOUSAND} k WHERE n < 2500 ORDER BY RAND()",
                   f"UPDATE {db}.t SET country = 'nl', n = n + 1 WHERE id % 97 = {k}", f"UPDATE {db}.t SET at = at + INTERVAL id DAY WHERE id % 89 = {k}", f"DELETE FROM {db}.t WHERE id % 53 = {k}")
        w.catch_up()
    look()
    w.run("optimize", "--all")
    table = look()
    assert not [f for f in table.inspect.files().to_pylist() if f["content"]]
    apart(table, "at", tmp_path)

    both["partition"], both["sort"] = ["bucket(5, id)"], ["email", "id"]     # another spec and another order: rows are spread, and sorted
    w.write()
    server.sql(f"UPDATE {db}.t SET n = -1 WHERE id % 71 = 0")
    w.catch_up()
    w.run("optimize", "--all")
    table = lake.table(db, "t")
    assert {s for s, _, _ in layout(table)} == {table.spec().spec_id}
    assert_sorted(table, ["email", "id"], tmp_path)
    assert_filters(table, tmp_path, ["id", "email"])
    apart(table, "email", tmp_path)
    assert_equal(server, lake, db, ["t"])
    con, where = duckdb_connection(), table.metadata_location
    for value in (1, 5000, 20007, 52499):
        want = server.sql(f"SELECT COUNT(*) FROM {db}.t WHERE id = {value}")[0][0]
        assert con.execute(f"SELECT COUNT(*) FROM iceberg_scan('{where}') WHERE id = {value}").fetchone()[0] == want

    server.sql(f"ALTER TABLE {db}.t RENAME COLUMN email TO address", f"UPDATE {db}.t SET n = -2 WHERE id % 67 = 0")     # the layout may keep the old name
    w.catch_up()
    table = lake.table(db, "t")
    assert_sorted(table, ["address", "id"], tmp_path)
    server.sql(f"ALTER TABLE {db}.t DROP COLUMN address", f"UPDATE {db}.t SET n = -3 WHERE id % 61 = 0")                # and goes on without it
    w.catch_up()
    w.run("optimize", "--all")
    assert_sorted(lake.table(db, "t"), ["id"], tmp_path, ids={lake.table(db, "t").sort_order().order_id})
    w.catch_up()
    assert_equal(server, lake, db, ["t"])
    assert w.status()["anomalies"] == 0


def test_changes_while_partitions_are_compacted_and_spread_in_order(server, db, make_weir, tmp_path):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, p INT, v VARCHAR(60))")
    rule = {"match": rf"{db}\.t", "partition": ["p"], "sort": ["v desc", "id"], "bloom_filters": ["v"]}
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"commit": {"every": "50ms"}, "layout": [rule]}})
    rng, lake = random.Random(11), Lake(w.home)
    for partition in (["p"], ["bucket(3, id)"], ["truncate(2, p)"]):
        rule["partition"] = partition
        w.write()
        w.start()
        w.wait()
        for k in range(25):
            server.sql(f"REPLACE INTO {db}.t VALUES " + ",".join(f"({rng.randrange(4000)}, {rng.randrange(6)}, '{rng.random()}')" for _ in range(200)),
                       f"UPDATE {db}.t SET p = {rng.randrange(6)} WHERE id IN ({','.join(str(rng.randrange(4000)) for _ in range(30))})",
                       f"DELETE FROM {db}.t WHERE id IN ({','.join(str(rng.randrange(4000)) for _ in range(30))})")
        w.wait()
        w.stop()
        table = lake.table(db, "t")
        layout(table)
        assert_sorted(table, ["v", "id"], tmp_path, descending={"v"})
        assert_equal(server, lake, db, ["t"])
    assert "replace" in [s.summary.operation.value for s in lake.table(db, "t").metadata.snapshots]
