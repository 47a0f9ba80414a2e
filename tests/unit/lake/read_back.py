"""Compares the lake in a folder, as PyIceberg and DuckDB read it, with expected/<table>.jsonl. Driven by test_table_model.c."""
import collections
import json
import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from harness.lake import Lake  # noqa: E402


def plain(value):
    return str(value) if isinstance(value, Decimal) else value


def rows_of(arrow):
    names = arrow.column_names
    return collections.Counter(json.dumps([plain(row[n]) for n in names]) for row in arrow.to_pylist())


def main():
    home = Path(sys.argv[1])
    lake = Lake(home)
    expected = {p.stem: p for p in (home / "expected").glob("*.jsonl")}
    names = {name for _, name in lake.tables()}
    bad = []
    if names != set(expected):
        bad.append(f"tables {sorted(names)}, expected {sorted(expected)}")
    for name, path in sorted(expected.items()):
        want = collections.Counter(json.dumps(json.loads(line)) for line in path.read_text().splitlines())
        for reader, table in (("PyIceberg", lake.table("db", name)), ("DuckDB", lake.in_duckdb("db", name))):
            if table is None or (reader == "DuckDB" and lake.table("db", name).current_snapshot() is None):
                continue  # DuckDB does not read a table without a snapshot
            got = rows_of(table.scan().to_arrow())
            if got != want:
                bad.append(f"{name} by {reader}: {sum(got.values())} rows, expected {sum(want.values())}; missing {list((want - got).items())[:3]}, too many {list((got - want).items())[:3]}")
    print("\n".join(bad) if bad else f"  PyIceberg and DuckDB agree on {len(expected)} tables")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
