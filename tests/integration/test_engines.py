"""Spark 4.0 and Flink 1.20 on Weir's tables: they read them, rewrite them, change them and expire them, and Weir goes on. Files in S3, catalog by REST,
whatever WEIR_LAKE says; one test has the SQLite catalog. Needs `tools/setup.sh engines`; skipped without, unless WEIR_ENGINES=1.

The judge of what the tables hold is the source: a foreign change is one that the source makes as well later, or that leaves the rows as they are."""
import json
import os
import random
import subprocess
import time

import pytest
from conftest import FLAVORS
from harness import backend
from harness.compare import assert_equal
from harness.engines import EngineReader
from harness.lake import Lake, duckdb_connection
from services import ROOT
from services.engine import SqlError
from services.flink import Flink
from services.spark import Spark

MISSING = [e.name for e in (Spark, Flink) if not e.installed()]
pytestmark = [pytest.mark.parametrize("flavor", FLAVORS[:1], indirect=True, scope="session"),
              pytest.mark.skipif(bool(MISSING) and os.environ.get("WEIR_ENGINES") != "1", reason=f"{' and '.join(MISSING)} not installed: tools/setup.sh engines")]
both_versions = pytest.mark.parametrize("version", [3, 2])
ICE_DRIVER = os.environ.get("WEIR_ICE_DRIVER", ROOT / "build/tests/tools/ice_driver")
FOREIGN = "somebody else committed to it"

CREATE = {
    "plain": "id INT PRIMARY KEY, name VARCHAR(50), amount DECIMAL(12,2), wide DECIMAL(38,10), d DATE, dt DATETIME(6), ts TIMESTAMP(6) NULL, b VARBINARY(20), f FLOAT, "
             "g DOUBLE, u BIGINT UNSIGNED, flag BIT(1), txt LONGTEXT, t TIME(6), n BIGINT",
    "composite": "a INT, b VARCHAR(10), v BIGINT, PRIMARY KEY (b, a)",
    "textkey": "code VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, v INT",
    "keyless": "x INT, y VARCHAR(10)",
}
TABLES = list(CREATE)
COLUMNS = "id, name, amount, wide, d, dt, ts, b, f, g, u, flag, txt, t, n"


@pytest.fixture(autouse=True)
def in_rest(monkeypatch):
    monkeypatch.setattr(backend, "MODE", "rest")


def started(cls, folder, kind):
    from services.s3 import ACCESS_KEY, SECRET_KEY
    mode, backend.MODE = backend.MODE, "rest"           # the catalog's server is that of a test's first pipeline
    try:
        uri = backend.rest("engines").uri
        backend.release("engines")
    finally:
        backend.MODE = mode
    engine = cls(folder, {"ice": {kind: "rest", "uri": uri, "io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "s3.endpoint": backend.s3().endpoint,
                                  "s3.path-style-access": "true", "s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY,
                                  "client.region": "us-east-1"}})
    return engine.start()


@pytest.fixture(scope="session")
def spark_process(lakes, tmp_path_factory):
    engine = started(Spark, tmp_path_factory.mktemp("spark"), "type")
    yield engine
    engine.stop()


@pytest.fixture(scope="session")
def flink_process(lakes, tmp_path_factory):
    engine = started(Flink, tmp_path_factory.mktemp("flink"), "catalog-type")
    yield engine
    engine.stop()


@pytest.fixture
def spark(spark_process, in_rest):
    return spark_process


@pytest.fixture
def flink(flink_process, in_rest):
    return flink_process


@pytest.fixture
def rnd():
    seed = int(os.environ["WEIR_SEED"])
    return random.Random(seed)


@pytest.fixture
def pipeline(server, db, make_weir):
    """pipeline(version) -> (Weir, Lake)"""
    def make(version, **lake):
        w = make_weir(server, [rf"{db}\..*"], {"lake": {"format_version": version, "commit": {"every": "100ms"}, **lake}})
        return w, Lake(w.home)
    return make


# ---- the source

def row(i):
    return (f"({i}, 'name {i}', {i}.25, -{i}.0000000001, '19{i % 90 + 10}-02-03', '2024-02-29 12:34:56.{i % 1000000:06}', '2001-09-09 01:46:40.{i % 1000000:06}', "
            f"0x00FF{i % 256:02X}, {i}.1, -{i}.3, {18446744073709551615 - i}, b'{i % 2}', REPEAT('äb😀', {i % 7}), '-12:34:56.{i % 1000000:06}', {i})")


def fill(server, db, n=400):
    server.sql(*[f"CREATE TABLE {t} ({c})" for t, c in CREATE.items()], db=db)
    with server.connect(database=db) as con, con.cursor() as cur:
        cur.execute("SET time_zone = '+00:00'")
        cur.execute("INSERT INTO plain VALUES " + ",".join(row(i) for i in range(n)))
        cur.execute("INSERT INTO plain (id) VALUES (1000000)")
        cur.execute("INSERT INTO composite VALUES " + ",".join(f"({i % 50}, 'b{i // 50}', {i})" for i in range(n)))
        cur.execute("INSERT INTO textkey VALUES ('', 1), ('ä', 2), ('a', 3), ('A', 4)," + ",".join(f"('key {i}', {i})" for i in range(n)))
        cur.execute("INSERT INTO keyless VALUES (NULL, NULL), (1, 'x'), (1, 'x')," + ",".join(f"({i % 20}, '{i}')" for i in range(n)))


class Play:
    """changes the rows of all tables; each step touches old rows wherever they lie by then"""

    def __init__(self, server, db, rnd, n=400):
        self.server, self.db, self.rnd, self.top, self.n = server, db, rnd, n, 0

    def step(self):
        self.n += 1
        r, k, top = self.rnd, self.n, self.top
        ids = ",".join(str(r.randrange(top)) for _ in range(25))
        new = ",".join(row(top + i) for i in range(20))
        self.top += 20
        self.server.sql(f"INSERT INTO plain ({COLUMNS}) VALUES {new}", f"UPDATE plain SET name = 'step {k}', amount = amount + 1, n = n + 1, ts = '2030-01-01 00:00:00.5' WHERE id IN ({ids})",
                        f"DELETE FROM plain WHERE id % 41 = {k % 41}", f"UPDATE composite SET v = v + 1000 WHERE a = {r.randrange(50)}",
                        f"UPDATE composite SET b = 'moved{k}' WHERE a = {r.randrange(50)} AND b = 'b{r.randrange(8)}'", f"DELETE FROM composite WHERE a = {r.randrange(50)} AND b = 'b1'",
                        f"UPDATE textkey SET v = -v WHERE code IN ('ä', '', 'key {r.randrange(400)}', 'key {r.randrange(400)}')", f"DELETE FROM textkey WHERE code = 'key {r.randrange(400)}'",
                        f"INSERT INTO textkey VALUES ('new {k}', {k})", f"DELETE FROM keyless WHERE x = {r.randrange(20)} LIMIT 2", f"INSERT INTO keyless VALUES (1, 'x'), ({k}, 'k')",
                        f"UPDATE keyless SET y = 'upd' WHERE x = {r.randrange(20)} LIMIT 3", db=self.db)


def same(server, lake, db, *engines, tables=TABLES):
    assert_equal(server, lake, db, tables, readers=["pyiceberg", "duckdb", *(EngineReader(e) for e in engines)])


def anomalies(w):
    return w.status()["anomalies"]


def commit(engine, statement):
    """once more when Weir was quicker"""
    for attempt in range(10):
        try:
            return engine.sql(statement)
        except SqlError as e:
            if attempt == 9 or not any(word in str(e) for word in ("CommitFailedException", "ValidationException")):
                raise
            time.sleep(.2)


def files(lake, db, table):
    """paths of the live data and delete files"""
    f = lake.table(db, table).inspect.files().to_pylist()
    return {x["file_path"] for x in f if x["content"] == 0}, {x["file_path"] for x in f if x["content"] != 0}


# ---- reading

@both_versions
def test_both_read_what_the_source_holds(server, db, spark, flink, pipeline, rnd, version):
    fill(server, db)
    w, lake = pipeline(version)
    play = Play(server, db, rnd)
    w.catch_up()
    for _ in range(3):
        play.step()
        w.catch_up()
    same(server, lake, db, spark, flink)
    server.sql("ALTER TABLE plain ADD COLUMN more INT NOT NULL DEFAULT 34, ADD COLUMN maybe VARCHAR(10)", "UPDATE plain SET more = 35, maybe = 'yes' WHERE id % 5 = 0",
               "UPDATE textkey SET v = 7777 WHERE code = 'ä'", db=db)
    w.catch_up()
    same(server, lake, db, spark, flink)

    wheres = ("id = 77", "id IN (5, 6, 399, 12345)", "more = 34", "more = 35 AND maybe = 'yes'", "maybe IS NULL", "name = 'step 2'", "amount > 100.25", "amount IS NULL",
              "d < DATE '1950-01-01'", "dt = TIMESTAMP '2024-02-29 12:34:56.000007'", "g < -2005E-1", "wide < -350")
    want = {w: server.sql(f"SELECT COUNT(*), CAST(COALESCE(SUM(id), 0) AS SIGNED) FROM plain WHERE {w}", db=db)[0] for w in wheres}
    assert all(n for w, (n, _) in want.items() if w != "id = 77"), want
    for engine in (spark, flink):
        query = " UNION ALL ".join(f"SELECT {i}, COUNT(*), COALESCE(SUM(CAST(id AS BIGINT)), 0) FROM ice.`{db}`.`plain` WHERE {w}" for i, w in enumerate(wheres))
        assert {wheres[i]: rest for i, *rest in engine.sql(query)} == {w: list(x) for w, x in want.items()}
    for engine in (spark, flink):
        assert engine.sql(f"SELECT v FROM ice.`{db}`.`textkey` WHERE code = 'ä'") == [(7777,)]
        assert engine.sql(f"SELECT COUNT(*) FROM ice.`{db}`.`composite` WHERE b = 'b3' AND a = 2") == [(server.sql("SELECT COUNT(*) FROM composite WHERE b = 'b3' AND a = 2", db=db)[0][0],)]
    duck = duckdb_connection()
    duck.execute(f"ATTACH 'any' AS lake (TYPE iceberg, ENDPOINT '{backend.rest(w.home).uri}', AUTHORIZATION_TYPE 'none')")
    assert duck.execute(f'SELECT COUNT(*), CAST(SUM(n) AS BIGINT) FROM lake."{db}".plain').fetchone() == server.sql("SELECT COUNT(*), CAST(SUM(n) AS SIGNED) FROM plain", db=db)[0]
    first = lake.table(db, "plain").metadata.snapshots[-1].snapshot_id
    before = spark.sql(f"SELECT COUNT(*), SUM(n) FROM ice.`{db}`.`plain`")
    play.step()
    w.catch_up()
    assert spark.sql(f"SELECT COUNT(*), SUM(n) FROM ice.`{db}`.`plain` VERSION AS OF {first}") == before


# ---- rewriting

def rewrites(db, table, version):
    name = f"table => '{db}.{table}'"
    yield f"CALL ice.system.rewrite_data_files({name}, options => map('rewrite-all', 'true'))"
    yield f"CALL ice.system.rewrite_position_delete_files({name}, options => map('rewrite-all', 'true'))"
    yield f"CALL ice.system.rewrite_manifests({name})"


@both_versions
def test_weir_goes_on_after_spark_rewrote_its_files(server, db, spark, pipeline, rnd, version):
    fill(server, db)
    w, lake = pipeline(version)
    play = Play(server, db, rnd)
    w.start()
    w.wait()
    rewritten = 0
    for round in range(2):
        for table in TABLES:
            for call in rewrites(db, table, version):
                play.step()
                w.wait()
                was = files(lake, db, table)
                commit(spark, call)
                rewritten += files(lake, db, table) != was
        play.step()
        w.wait()
        same(server, lake, db, *[spark] * (round == 1))
    play.step()
    w.wait()
    assert w.running, w.log_text()
    assert FOREIGN in w.log_text(), "Weir did not notice"
    same(server, lake, db, spark)
    assert rewritten >= 8 and anomalies(w) == 0
    w.stop()
    play.step()
    w.catch_up()
    same(server, lake, db)


# ---- changing rows

@both_versions
def test_weir_goes_on_after_others_changed_rows(server, db, spark, flink, pipeline, rnd, version):
    fill(server, db)
    w, lake = pipeline(version)
    w.start()
    w.wait()
    if version == 2:                                    # position deletes that name no data file, as older writers leave them
        commit(spark, f"ALTER TABLE ice.`{db}`.`textkey` SET TBLPROPERTIES ('write.delete.granularity' = 'partition')")
    plain, textkey, composite = (f"ice.`{db}`.`{t}`" for t in ("plain", "textkey", "composite"))
    # Spark first, the source afterwards: rows that are gone already, rows that look different, rows that lie in another file
    commit(spark, f"DELETE FROM {plain} WHERE id BETWEEN 10 AND 19")
    server.sql("DELETE FROM plain WHERE id BETWEEN 10 AND 19", "UPDATE plain SET n = 1 WHERE id BETWEEN 20 AND 29", db=db)
    w.wait()
    same(server, lake, db, spark, tables=["plain"])
    commit(spark, f"UPDATE {plain} SET name = 'spark', amount = 0 WHERE id BETWEEN 40 AND 59")
    server.sql("UPDATE plain SET name = 'source' WHERE id BETWEEN 40 AND 49", "DELETE FROM plain WHERE id BETWEEN 50 AND 59", db=db)
    w.wait()
    same(server, lake, db, spark, tables=["plain"])
    commit(spark, f"MERGE INTO {textkey} t USING (SELECT 'ä' AS code, -1 AS v UNION ALL SELECT 'from spark', 5 UNION ALL SELECT 'key 7', 6) s ON t.code = s.code "
                  "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *")
    server.sql("UPDATE textkey SET v = 100 WHERE code IN ('ä', 'key 7')", "INSERT INTO textkey VALUES ('from spark', 8)", "UPDATE textkey SET code = 'a renamed' WHERE code = 'a'", db=db)
    w.wait()
    same(server, lake, db, spark, flink, tables=["textkey"])
    # Flink appends rows that the source gets too: an insert of what is there, an update and a delete of what Weir never wrote
    flink.sql(f"INSERT INTO {composite} VALUES (1, 'flink', CAST(1 AS BIGINT)), (2, 'flink', CAST(2 AS BIGINT)), (3, 'flink', CAST(3 AS BIGINT))")
    server.sql("INSERT INTO composite VALUES (1, 'flink', 10), (2, 'flink', 20), (3, 'flink', 30)", "UPDATE composite SET v = 21 WHERE a = 2 AND b = 'flink'",
               "DELETE FROM composite WHERE a = 3 AND b = 'flink'", "UPDATE composite SET v = 0 WHERE a = 4", db=db)
    w.wait()
    same(server, lake, db, spark, flink, tables=["composite"])
    flink.sql(f"INSERT INTO ice.`{db}`.`keyless` VALUES (77, 'flink'), (77, 'flink'), (78, 'flink')")
    server.sql("INSERT INTO keyless VALUES (79, 'z')", db=db)
    w.wait()
    assert len(lake.table(db, "keyless").scan("x = 77").to_arrow()) == 2
    assert w.running and w.log_text().count(FOREIGN) >= 4, w.log_text()
    w.stop()
    Play(server, db, rnd).step()
    w.catch_up()
    same(server, lake, db, spark, tables=["plain", "composite", "textkey"])


def test_weir_goes_on_after_pyiceberg_appended_and_deleted(server, db, pipeline, rnd):
    import pyarrow as pa
    fill(server, db)
    w, lake = pipeline(2)
    w.start()
    w.wait()
    table = lake.table(db, "textkey")
    schema = table.schema().as_arrow()
    table.append(pa.table([["py 1", "py 2", "py 3"], [1, 2, 3]], schema=schema))
    lake.table(db, "textkey").delete("code IN ('key 3', 'key 4')")
    server.sql("INSERT INTO textkey VALUES ('py 1', 10), ('py 2', 20), ('py 3', 30)", "DELETE FROM textkey WHERE code IN ('py 3', 'key 3')", "UPDATE textkey SET v = -4 WHERE code = 'key 4'",
               "UPDATE textkey SET v = -5 WHERE code = 'key 5'", db=db)
    w.wait()
    assert w.running and FOREIGN in w.log_text(), w.log_text()
    same(server, lake, db, tables=["textkey"])
    w.stop()
    Play(server, db, rnd).step()
    w.catch_up()
    same(server, lake, db)


# ---- expiring

def vectors(lake, db, table, snapshot=None):
    """-> {path of a Puffin file: number of its vectors in use}"""
    seen = {}
    for f in lake.table(db, table).inspect.delete_files(snapshot).to_pylist():
        if f["file_format"].upper() == "PUFFIN":
            seen[f["file_path"]] = seen.get(f["file_path"], 0) + 1
    return seen


@both_versions
def test_expiry_by_spark_takes_nothing_that_is_needed(server, db, spark, flink, pipeline, rnd, version):
    fill(server, db)
    w, lake = pipeline(version)
    play = Play(server, db, rnd)
    w.start()
    w.wait()
    for _ in range(4):
        play.step()
        w.wait()
    expire = f"CALL ice.system.expire_snapshots(table => '{db}.plain', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    before = len(lake.table(db, "plain").metadata.snapshots)
    with pytest.raises(SqlError, match="GC is disabled|gc.enabled"):
        spark.sql(expire)
    assert len(lake.table(db, "plain").metadata.snapshots) >= before
    commit(spark, f"ALTER TABLE ice.`{db}`.`plain` SET TBLPROPERTIES ('gc.enabled' = 'true')")
    for _ in range(3):                                  # Weir commits between, and before it knows
        play.step()
        w.wait()
        commit(spark, expire)
        same(server, lake, db, spark, flink, tables=["plain"])
    assert len(lake.table(db, "plain").metadata.snapshots) < before
    play.step()
    w.wait()
    assert w.running and anomalies(w) == 0, w.log_text()
    same(server, lake, db, spark)
    w.stop()
    data, deletes = files(lake, db, "plain")
    spark.sql("SET spark.sql.legacy.setCommandRejectsSparkCoreConfs = false", "SET spark.testing = true")      # so that it takes an interval below a day
    orphans = spark.sql(f"CALL ice.system.remove_orphan_files(table => '{db}.plain', older_than => TIMESTAMP '2100-01-01 00:00:00', dry_run => true, prefix_listing => true)")
    assert not {o for o, in orphans} & (data | deletes)
    play.step()
    w.catch_up()
    same(server, lake, db)


def operations(lake, db, table):
    return [s.summary.operation.value for s in lake.table(db, table).metadata.snapshots]


def three_files(server, db, w):
    server.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)", db=db)
    for k in range(3):
        server.sql("INSERT INTO t VALUES " + ",".join(f"({1000 * k + i}, 0)" for i in range(1000)), db=db)
        w.catch_up()


def test_java_expiry_leaves_readers_fine_after_a_compaction(server, db, spark, flink, pipeline):
    """Iceberg Java deletes a Puffin file when one of its vectors is gone, whatever else is in it: so each of Weir's holds one vector"""
    w, lake = pipeline(3)
    three_files(server, db, w)
    server.sql("DELETE FROM t WHERE id < 2000 AND id % 5 < 2 OR id > 2980", db=db)      # one commit: vectors of all three files
    w.catch_up()
    assert operations(lake, db, "t")[-1] == "replace"   # of the first two files, of which much was deleted
    was = vectors(lake, db, "t", lake.table(db, "t").metadata.snapshots[-2].snapshot_id)
    assert len(was) == 3 and set(was.values()) == {1}
    data, deletes = files(lake, db, "t")
    assert len(data) == 2 and len(deletes) == 1 and deletes < set(was), "the third file and its vector of before were to stay as they are"
    commit(spark, f"ALTER TABLE ice.`{db}`.`t` SET TBLPROPERTIES ('gc.enabled' = 'true')")
    [gone] = commit(spark, f"CALL ice.system.expire_snapshots(table => '{db}.t', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)")
    assert sum(gone[:3]) >= 4, gone
    table = lake.table(db, "t")
    left = {f for f in (data | set(was)) if table.io.new_input(f).exists()}
    assert left == data | deletes
    same(server, lake, db, spark, flink, tables=["t"])
    server.sql("UPDATE t SET n = 1 WHERE id % 7 = 0", db=db)
    w.catch_up()
    same(server, lake, db, spark, tables=["t"])


def test_puffins_that_spark_shared_stay_while_a_vector_is_live(server, db, spark, make_weir, monkeypatch):
    """the SQLite catalog, so that Weir's expiry can be asked for by hand"""
    monkeypatch.setattr(backend, "MODE", "local")
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"commit": {"every": "100ms"}}})
    lake = Lake(w.home)
    three_files(server, db, w)
    with_sqlite(spark, w.home)
    spark.sql(f"DELETE FROM weir.`{db}`.`t` WHERE id % 50 = 0")
    server.sql("DELETE FROM t WHERE id % 50 = 0", db=db)
    shared = vectors(lake, db, "t")
    assert list(shared.values()) == [3], "Spark was to share one Puffin file"
    server.sql("UPDATE t SET n = 5 WHERE id BETWEEN 0 AND 300", "DELETE FROM t WHERE id < 900 AND id % 3 > 0", db=db)     # a vector of Weir's own for the first file
    w.catch_up()
    assert operations(lake, db, "t")[-1] == "replace"   # the first file was rewritten
    assert sorted(vectors(lake, db, "t").values()) == [2], "the vectors of the other two files are still Spark's"
    expired(w, db, "t")
    assert len(lake.table(db, "t").metadata.snapshots) == 1
    assert_equal(server, lake, db, ["t"], readers=["pyiceberg", "duckdb", EngineReader(spark, "weir")])
    server.sql("UPDATE t SET n = 6 WHERE id > 1990", db=db)
    w.catch_up()
    assert_equal(server, lake, db, ["t"], readers=["pyiceberg", "duckdb", EngineReader(spark, "weir")])
    assert anomalies(w) == 0


def expired(w, db, table):
    """Weir's expiry, all but the newest snapshot"""
    edit = {"ns": db, "name": table, "no_snapshot": True, "expire": 1}
    r = subprocess.run([ICE_DRIVER, w.home / "catalog.db", w.home / "warehouse", w.home / "state.db"], input=json.dumps({"op": "commit", "edits": [edit]}) + "\n",
                       capture_output=True, text=True)
    assert r.returncode == 0 and json.loads(r.stdout).get("ok"), r


# ---- branches, tags, going back

@both_versions
def test_branches_tags_and_undone_commits_do_not_matter(server, db, spark, pipeline, rnd, version):
    fill(server, db)
    w, lake = pipeline(version)
    play, plain = Play(server, db, rnd), f"ice.`{db}`.`plain`"
    w.start()
    w.wait()
    play.step()
    w.wait()
    commit(spark, f"ALTER TABLE {plain} CREATE TAG monday")
    commit(spark, f"ALTER TABLE {plain} CREATE BRANCH audit")
    tagged = spark.sql(f"SELECT COUNT(*), SUM(n) FROM {plain} VERSION AS OF 'monday'")
    play.step()
    w.wait()
    commit(spark, f"INSERT INTO ice.`{db}`.`textkey` VALUES ('staged', 1)")
    before = lake.table(db, "textkey").metadata.snapshots[-2].snapshot_id
    spark.sql(f"CALL ice.system.rollback_to_snapshot('{db}.textkey', {before})")            # nobody saw it
    commit(spark, f"DELETE FROM {plain}.branch_audit WHERE id < 100")
    commit(spark, f"INSERT INTO {plain}.branch_audit SELECT CAST(5000000 AS INT), {COLUMNS[4:]} FROM {plain} WHERE id = 1000000")
    picked = [s for s in lake.table(db, "plain").metadata.snapshots if s.summary.operation.value == "append"][-1].snapshot_id
    play.step()
    w.wait()
    same(server, lake, db, spark)
    commit(spark, f"CALL ice.system.cherrypick_snapshot('{db}.plain', {picked})")
    assert len(lake.table(db, "plain").scan("id = 5000000").to_arrow()) == 1
    server.sql("INSERT INTO plain (id, n) VALUES (5000000, 6)", db=db)
    w.wait()
    play.step()
    w.wait()
    assert w.running, w.log_text()
    same(server, lake, db, spark)
    assert set(lake.table(db, "plain").metadata.refs) == {"main", "monday", "audit"}
    assert spark.sql(f"SELECT COUNT(*), SUM(n) FROM {plain} VERSION AS OF 'monday'") == tagged
    w.stop()


@both_versions
def test_a_rollback_of_weirs_own_commits_ends_the_sync_and_says_how_to_go_on(server, db, spark, pipeline, rnd, version):
    fill(server, db)
    w, lake = pipeline(version)
    play = Play(server, db, rnd)
    w.catch_up()
    old = lake.table(db, "plain").current_snapshot().snapshot_id
    for _ in range(2):
        play.step()
        w.catch_up()
    newest = lake.table(db, "plain").current_snapshot().snapshot_id
    w.start()
    w.wait()
    spark.sql(f"CALL ice.system.rollback_to_snapshot('{db}.plain', {old})")
    play.step()
    r = w.ended(60)
    assert r.status != 0
    r.says("moved branch main", str(newest), "set_current_snapshot")
    commit(spark, f"DELETE FROM ice.`{db}`.`plain` WHERE id = 3")                              # the same with a commit of somebody else on top
    w.catch_up(status=r.status).says(str(newest), "set_current_snapshot")
    spark.sql(f"CALL ice.system.set_current_snapshot('{db}.plain', {newest})")
    w.catch_up()
    same(server, lake, db, spark)


# ---- what Weir does not take

def test_equality_deletes_end_the_sync_and_say_how_to_go_on(server, db, spark, flink, pipeline, rnd):
    fill(server, db)
    w, lake = pipeline(2)
    w.start()
    w.wait()
    flink.sql(f"INSERT INTO ice.`{db}`.`textkey` /*+ OPTIONS('upsert-enabled'='true') */ VALUES ('ä', 99), ('by flink', 1)")
    assert [f for f in lake.table(db, "textkey").inspect.delete_files().to_pylist() if f["content"] == 2], "Flink left no equality deletes"
    server.sql("UPDATE textkey SET v = 3 WHERE code = 'ä'", "INSERT INTO textkey VALUES ('by flink', 2)", "UPDATE plain SET n = 5 WHERE id = 5", db=db)
    r = w.ended(60)
    assert r.status != 0
    r.says("equality deletes", "rewrite_data_files")
    commit(spark, f"CALL ice.system.rewrite_data_files(table => '{db}.textkey', options => map('rewrite-all', 'true'))")
    w.catch_up()                                        # the delete files are still there, without effect
    assert_equal(server, lake, db, TABLES, readers=["duckdb", EngineReader(spark), EngineReader(flink)], dangling=True)
    commit(spark, f"CALL ice.system.rewrite_data_files(table => '{db}.textkey', options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))")
    Play(server, db, rnd).step()
    w.catch_up()
    same(server, lake, db, spark, flink)


def test_columns_of_somebody_else_end_the_sync_and_say_how_to_go_on(server, db, spark, pipeline, rnd):
    fill(server, db)
    w, lake = pipeline(3)
    play = Play(server, db, rnd)
    w.start()
    w.wait()
    commit(spark, f"ALTER TABLE ice.`{db}`.`plain` ADD COLUMN theirs STRING")
    commit(spark, f"UPDATE ice.`{db}`.`plain` SET theirs = 'x' WHERE id = 5")
    play.step()
    r = w.ended(60)
    assert r.status != 0
    r.says("somebody else changed the columns", "DROP COLUMN")
    commit(spark, f"ALTER TABLE ice.`{db}`.`plain` DROP COLUMN theirs")
    w.catch_up()
    same(server, lake, db, spark)


@both_versions
def test_files_that_spark_partitioned_are_no_obstacle(server, db, spark, pipeline, rnd, version):
    fill(server, db)
    w, lake = pipeline(version)
    play = Play(server, db, rnd)
    w.catch_up()
    commit(spark, f"ALTER TABLE ice.`{db}`.`plain` ADD PARTITION FIELD bucket(4, id)")
    commit(spark, f"CALL ice.system.rewrite_data_files(table => '{db}.plain', options => map('rewrite-all', 'true'))")
    for _ in range(3):
        play.step()
        w.catch_up()
    same(server, lake, db, spark)


@both_versions
def test_tables_that_weir_partitioned_are_read_pruned_rewritten_and_repartitioned(server, db, spark, flink, pipeline, rnd, version):
    fill(server, db)
    terms = {"plain": ["bucket(3, id)", "year(d)", "truncate(2, name)"], "composite": ["b"], "textkey": ["truncate(1, code)"]}
    w, lake = pipeline(version, layout=[{"match": rf"{db}\.{t}", "partition": p} for t, p in terms.items()])
    play = Play(server, db, rnd)
    w.catch_up()
    for _ in range(2):
        play.step()
        w.catch_up()
    same(server, lake, db, spark, flink)
    for engine in (spark, flink):
        for where in ("d = DATE '1933-02-03'", "id = 77", "name LIKE 'name 3%'", "name IS NULL"):
            assert engine.sql(f"SELECT COUNT(*) FROM ice.`{db}`.`plain` WHERE {where}") == [(server.sql(f"SELECT COUNT(*) FROM plain WHERE {where}", db=db)[0][0],)]
    used = spark.sql(f"SELECT COUNT(DISTINCT partition.b), COUNT(*) FROM ice.`{db}`.`composite`.files WHERE content = 0")[0]
    assert used[0] > 5
    for table in terms:
        for call in rewrites(db, table, version):
            commit(spark, call)
            play.step()
            w.catch_up()
    same(server, lake, db, spark)

    server.sql("ALTER TABLE plain DROP COLUMN d, DROP COLUMN wide", db=db)          # files of a partition by it cannot stay
    w.catch_up()
    same(server, lake, db, spark, flink)
    server.sql("ALTER TABLE plain ADD COLUMN id_bucket INT, ADD COLUMN d_year INT", "UPDATE plain SET id_bucket = 4 WHERE id < 9", db=db)     # names of fields: the catalog refuses them beside those
    w.catch_up()
    same(server, lake, db, spark, flink)
    server.sql("ALTER TABLE textkey CHANGE code kode VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "ALTER TABLE composite MODIFY b VARBINARY(30)", db=db)
    w.catch_up()
    same(server, lake, db, spark, flink)
    commit(spark, f"ALTER TABLE ice.`{db}`.`keyless` ADD PARTITION FIELD bucket(4, x)")                          # no layout of ours: theirs
    server.sql("INSERT INTO keyless VALUES (5, 'five'), (NULL, 'none')", "DELETE FROM keyless WHERE x = 3 LIMIT 1", db=db)
    w.catch_up()
    w.run("optimize", "--all")
    assert {f.spec_id for f in (t.file for t in lake.table(db, "keyless").scan().plan_files())} == {lake.table(db, "keyless").spec().spec_id} != {0}
    same(server, lake, db, spark, flink)


# ---- the SQLite catalog

def sqlite_catalog(home):
    """properties. init-catalog-tables: while it looks whether its tables are there, Java leaves a statement open, and with it a read transaction that never ends"""
    return {"catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog", "uri": f"jdbc:sqlite:{home}/catalog.db", "jdbc.schema-version": "V1", "jdbc.init-catalog-tables": "false",
            "warehouse": f"{home}/warehouse", "cache-enabled": "false"}


def with_sqlite(spark, home):
    """Spark's catalog `weir`: the name must be that one, by which the rows of a JDBC catalog are found"""
    spark.sql("SET spark.sql.catalog.weir = org.apache.iceberg.spark.SparkCatalog", *(f"SET `spark.sql.catalog.weir.{k}` = `{v}`" for k, v in sqlite_catalog(home).items()))


def test_flink_with_the_sqlite_catalog(server, db, flink, make_weir, rnd, monkeypatch):
    monkeypatch.setattr(backend, "MODE", "local")
    fill(server, db)
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"commit": {"every": "100ms"}}})
    lake, play = Lake(w.home), Play(server, db, rnd)
    w.start()
    w.wait()
    play.step()
    w.wait()
    flink.sql("CREATE CATALOG weir WITH (" + ", ".join(f"'{k}' = '{v}'" for k, v in {"type": "iceberg", **sqlite_catalog(w.home)}.items()) + ")")
    flink_reads = EngineReader(flink, "weir")
    assert_equal(server, lake, db, TABLES, readers=["pyiceberg", "duckdb", flink_reads])
    flink.sql(f"INSERT INTO weir.`{db}`.`textkey` VALUES ('flink', 1)")
    server.sql("INSERT INTO textkey VALUES ('flink', 2)", "UPDATE textkey SET v = 8 WHERE code = 'a'", db=db)
    w.wait()
    play.step()
    w.wait()
    assert w.running and "somebody else committed" in w.log_text(), w.log_text()
    assert_equal(server, lake, db, TABLES, readers=["pyiceberg", "duckdb", flink_reads])
    flink.sql("DROP CATALOG weir")
