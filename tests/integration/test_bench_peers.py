"""make bench-peers, as far as it goes without the peers: what it says of a good run, of missing rows and of a tool that fails; and its own reader of deletes."""
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import duckdb
import pytest
from harness.weir import BINARY
from services import ROOT

sys.path.append(str(ROOT / "bench"))
import checksum         # noqa: E402
from peers import read  # noqa: E402


@pytest.fixture
def bench(tmp_path):
    """bench(script) runs it with Weir alone, small; `script` is put in place of the binary, whose path is $WEIR"""
    def run(script=None):
        binary = BINARY
        if script:
            binary = tmp_path / "weir.sh"
            binary.write_text("#!/bin/sh\n" + script + '\nexec "$WEIR" "$@"\n')
            binary.chmod(0o755)
        env = {**os.environ, "WEIR": str(BINARY), "WEIR_BINARY": str(binary), "BENCH_PEERS": "weir", "BENCH_ROWS": "2000", "BENCH_CHANGES": "300", "BENCH_DIR": str(tmp_path),
               "BENCH_RESULTS": str(tmp_path / "results.jsonl"), "BENCH_BUFFER_POOL": "64M", "STATE": str(tmp_path / "state")}
        p = subprocess.run([ROOT / "bench/run.sh", "peers"], env=env, capture_output=True, text=True, timeout=180)
        assert not list(tmp_path.glob("weir-bench-*")), "the work folder stays"
        return p
    return run


def test_equal_tables_are_told(bench):
    p = bench()
    assert p.returncode == 0, p.stdout + p.stderr
    assert "| equal to the source | yes |" in p.stdout


def test_missing_changes_are_told(bench):
    p = bench('[ "$1" != sync ] || [ ! -e "$STATE" ] || exit 0; [ "$1" != sync ] || touch "$STATE"')
    assert p.returncode == 1, p.stdout + p.stderr
    assert re.search(r"MISMATCH rows: source \d+, lake 2000\n", p.stdout)
    assert "| equal to the source | **no** (catch-up, DuckDB, PyIceberg) |" in p.stdout


def test_a_tool_that_fails_is_told_with_its_last_words(bench, tmp_path):
    p = bench('[ "$1" != sync ] || { echo "no space left on the moon"; exit 3; }')
    assert p.returncode == 1, p.stdout + p.stderr
    assert "no space left on the moon" in p.stdout
    assert "| equal to the source | failed |" in p.stdout
    assert '"failed": "RuntimeError: weir sync' in (tmp_path / "results.jsonl").read_text()


def test_deletes_by_key_are_for_older_files_only_and_deletes_by_position_for_their_row(tmp_path, monkeypatch):
    con = duckdb.connect()
    values = {"int": "7", "decimal": "1.50::DECIMAL(12,2)", "text": "'x'", "time": "TIMESTAMP '2024-01-02 03:04:05'"}
    columns = ", ".join("id" if c == "id" else f"{values[kind]} AS {c}" for c, kind in checksum.COLUMNS.items())
    entries = []

    def file(name, query, content, sequence):
        path = str(tmp_path / name)
        con.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
        entries.append({"sequence_number": sequence, "data_file": {"content": content, "file_path": path, "equality_ids": [1] if content == 2 else None}})
        return path
    first = file("first.parquet", f"SELECT {columns} FROM (VALUES (1), (2), (3), (4)) v(id)", 0, 1)
    file("same_commit.parquet", "SELECT 2 AS id", 2, 1)                     # is not for first.parquet
    file("second.parquet", f"SELECT {columns} FROM (VALUES (1)) v(id)", 0, 2)
    file("later.parquet", "SELECT 1 AS id", 2, 2)                           # is for first.parquet, not for second.parquet
    file("position.parquet", f"SELECT '{first}' AS file_path, 2 AS pos", 1, 2)

    table = SimpleNamespace(inspect=SimpleNamespace(entries=lambda: SimpleNamespace(to_pylist=lambda: entries)))
    monkeypatch.setattr("pyiceberg.table.StaticTable.from_metadata", lambda location: table)
    sums = read.Merge("anywhere").sums()
    assert (sums["rows"], sums["id: sum"]) == (3, 1 + 2 + 4)
