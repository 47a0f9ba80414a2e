"""The acceptance cases of tests/cases, each in three ways: `--until current` again and again (batch), a live sync with `weir wait`, and
batch with MINIMAL row metadata, the default of both servers.

WEIR_CASES=REGEX picks cases, WEIR_CASE_MODES=batch,live,minimal picks ways."""
import argparse
import os
import re
from pathlib import Path

import canon
import drive
import pytest
import run_cases
from harness.weir import BINARY

CASES = Path(__file__).resolve().parents[1] / "cases" / "cases"
MODES = os.environ.get("WEIR_CASE_MODES", "batch,live,minimal").split(",")
ONLY = os.environ.get("WEIR_CASES", ".")
IDS = sorted(str(f.parent.relative_to(CASES)) for f in CASES.rglob("case.json"))


def options(server, work, mode):
    b = str(BINARY)
    live = mode == "live"
    return argparse.Namespace(
        dsn=server.dsn, flavor=server.flavor, work=str(work), timeout=120, catalog_name="weir", values_only=False, stop=None,
        sut=None if live else b + " sync -c {config} --until current",
        start=b + " sync -c {config}" if live else None, wait=b + " wait -c {config} --timeout {timeout}" if live else None)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case_id", [i for i in IDS if re.search(ONLY, i)])
def test_case(server, flavor, case_id, mode, tmp_path):
    root = CASES / case_id
    case = run_cases.load_case(str(root), str(CASES))
    if flavor not in case["flavors"]:
        pytest.skip(f"not a case for {flavor}")
    con = canon.connect(server.dsn)
    if mode == "minimal":
        server.sql("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        bad, warnings, rows = drive.run_case(options(server, tmp_path, mode), str(root), case, con)
    finally:
        if mode == "minimal":
            server.sql("SET GLOBAL binlog_row_metadata = 'FULL'")
        con.close()
    for w in warnings:
        print("warning:", w)
    assert not bad, f"{case['why']}\n" + "\n".join(bad)
