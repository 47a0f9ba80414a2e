"""Exact comparison of source and lake: every column, every row, as multisets in the canonical form of tests/cases/canon.py."""
import canon
from pyiceberg.exceptions import NoSuchTableError

READERS = ("pyiceberg", "duckdb")


def source_table(server, db, table):
    con = canon.connect(server.dsn)
    try:
        return canon.server_table(con, db, table)
    finally:
        con.close()


def differences(server, lake, db, tables, readers=READERS, strict_types=True):
    """-> list of findings; empty = equal. Types are checked once, against the policy; values by every reader."""
    found = []
    for name in tables:
        want = source_table(server, db, name)
        for reader in readers:
            try:
                tbl = lake.table(db, name) if reader == "pyiceberg" else lake.in_duckdb(db, name)
                got = canon.lake_table(tbl, want)
            except NoSuchTableError:
                found.append(f"{db}.{name}: table missing in the lake")
                break
            found += [f"{db}.{name} ({reader}): {x}" for x in canon.diff(want, got, strict_types and reader == "pyiceberg")]
    return found


def assert_equal(server, lake, db, tables, **kw):
    found = differences(server, lake, db, tables, **kw)
    assert not found, "source and lake differ:\n" + "\n".join(found)
