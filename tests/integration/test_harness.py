"""The harness itself: servers, readers and the comparison must tell equal from different before they judge Weir."""
import json
import os

import canon
import pytest
import ref_sut
from harness import writer
from harness.compare import assert_equal, differences, file_findings
from harness.lake import Lake
from services import base

pytestmark = pytest.mark.needs_no_weir
local_copy = pytest.mark.local_lake("the copy that PyIceberg writes is in a folder")


def copy_by_select(server, db, home):
    """a lake written by PyIceberg from the source's own SELECT"""
    (home / "warehouse").mkdir(parents=True, exist_ok=True)
    (home / "pipeline.json").write_text(json.dumps({"databases": [db]}))
    ref_sut.main(["--dsn", server.dsn, "--pipeline", str(home / "pipeline.json"), "--dir", str(home)])
    return Lake(home)


@pytest.fixture
def full(server, db):
    server.sql(
        "CREATE TABLE t (a INT PRIMARY KEY, d DECIMAL(20,4), s VARCHAR(20), b BLOB, f DOUBLE, j JSON, da DATE, dt DATETIME(6), ts TIMESTAMP(3) NULL, t TIME(6))",
        "INSERT INTO t VALUES (1, -1.5, 'ä😀', x'00ff', 0.1, '{\"k\": [1, 2.50]}', '0999-01-01', '2024-02-29 23:59:59.999999', '2038-01-01 00:00:00.5', '-838:59:59')",
        "INSERT INTO t (a, s) VALUES (2, '')",
        "CREATE TABLE nokey (x INT, y BINARY(3))", "INSERT INTO nokey VALUES (1, 'a'), (1, 'a'), (NULL, NULL)", db=db)


@local_copy
def test_an_exact_copy_is_equal_for_both_readers(server, db, full, tmp_path):
    lake = copy_by_select(server, db, tmp_path)
    assert_equal(server, lake, db, ["t", "nokey"])


@local_copy
@pytest.mark.parametrize("change", [
    "UPDATE t SET s = ' ' WHERE a = 2", "UPDATE t SET f = f + 1e-16 WHERE a = 1", "UPDATE t SET ts = ts + INTERVAL 1000 MICROSECOND WHERE a = 1",
    "DELETE FROM nokey LIMIT 1", "INSERT INTO nokey VALUES (NULL, NULL)", "ALTER TABLE t ADD COLUMN z INT", "CREATE TABLE more (a INT)"])
def test_one_difference_is_found_by_both_readers(server, db, full, tmp_path, change):
    lake = copy_by_select(server, db, tmp_path)
    server.sql(change, db=db)
    tables = ["t", "nokey", "more"] if "CREATE" in change else ["t", "nokey"]
    for reader in ("pyiceberg", "duckdb"):
        assert differences(server, lake, db, tables, readers=[reader], strict_types=False), reader


@local_copy
def test_files_that_are_referenced_twice_or_missing_are_found(server, db, full, tmp_path):
    lake = copy_by_select(server, db, tmp_path)
    tbl = lake.table(db, "t")
    assert not file_findings(tbl)
    [file] = [task.file.file_path for task in tbl.scan().plan_files()]
    tbl.add_files([file], check_duplicate_files=False)
    [found] = file_findings(lake.table(db, "t"))
    assert f"a data file is referenced 2 times: {file}" in found
    os.remove(file.removeprefix("file://"))
    assert any(f"{file} is missing" in x for x in file_findings(lake.table(db, "t")))


def test_the_writer_changes_every_table_and_keeps_twins_together(server, db, tmp_path):
    writer.create(server, db, rows=300)
    before = {t: canon.server_table(server.connect(conv={}), db, t)["digest"] for t in writer.TABLES}
    with writer.Writer(server, db, seed=1, per_second=5000) as w:
        while w.committed < 1500 and w.is_alive():
            w.halt.wait(0.02)
    for t in writer.TABLES:
        assert canon.server_table(server.connect(conv={}), db, t)["digest"] != before[t], t
    assert not server.sql("SELECT tx FROM twins GROUP BY tx HAVING COUNT(*) <> 2", db=db)


def test_a_server_survives_stop_and_kill_and_keeps_its_port(own_server):
    s = own_server()
    port = s.port
    s.sql("CREATE DATABASE k", "CREATE TABLE k.t (a INT PRIMARY KEY)", "INSERT INTO k.t VALUES (1)")
    s.stop()
    assert s.pid is None
    s.start()
    s.sql("INSERT INTO k.t VALUES (2)")
    s.kill()
    s.start()
    assert s.port == port
    assert s.sql("SELECT a FROM k.t ORDER BY a") == ((1,), (2,))


def test_a_pid_that_was_reused_is_not_ours(own_server):
    s = own_server()
    state = json.loads(s.state_file.read_text())
    s.state_file.write_text(json.dumps({**state, "birth": state["birth"] + 1}))
    try:
        assert s.pid is None
        s.stop()
        assert base.birth(state["pid"]) == state["birth"]
    finally:
        s.state_file.write_text(json.dumps(state))
