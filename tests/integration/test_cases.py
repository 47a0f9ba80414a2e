"""The acceptance cases of tests/cases in several ways:

  batch         `sync --until current` again and again
  live          a live sync with `weir wait`
  minimal, live_minimal   the same with MINIMAL row metadata, the default of both servers
  stepped       `sync --until current` and a comparison after each statement
  killed        a live sync that is killed after each statement and started again

The first three are run for every shared case. Of the other ways, and of the project's own cases, a run takes a sample by WEIR_SEED (OWN, SAMPLE);
WEIR_CASES_ALL=1 runs all of them. WEIR_CASES=REGEX picks cases, WEIR_CASE_MODES=batch,killed picks ways (and then all cases)."""
import argparse
import os
import random
import re
from pathlib import Path

import canon
import drive
import pytest
import run_cases
from harness import backend, case_faults
from harness.compare import file_findings
from harness.weir import BINARY

FOLDERS = {"cases": Path(__file__).resolve().parents[1] / "cases" / "cases", "own": Path(__file__).resolve().parents[1] / "cases" / "own"}
MODES = ["batch", "live", "minimal", "live_minimal", "stepped", "killed"]
USUAL = MODES[:3]
OWN = 0.5                               # of the own cases, each in one of the usual ways
SAMPLE = {"live_minimal": 0.05, "stepped": 0.03, "killed": 0.03}      # of all cases: the last two take long
SEED = os.environ["WEIR_SEED"]


def wanted():
    """-> [(case id, mode)]"""
    only = re.compile(os.environ.get("WEIR_CASES", "."))
    modes = [m for m in os.environ.get("WEIR_CASE_MODES", ",".join(MODES)).split(",")]
    everything = "WEIR_CASE_MODES" in os.environ or os.environ.get("WEIR_CASES_ALL") == "1"
    rnd, out = random.Random(SEED), []
    for kind, folder in FOLDERS.items():
        for file in sorted(folder.rglob("case.json")):
            case = ("" if kind == "cases" else kind + "/") + str(file.parent.relative_to(folder))
            mode = rnd.choice(USUAL) if rnd.random() < OWN else None
            luck = {m: rnd.random() for m in MODES}
            for m in modes if only.search(case) else ():
                usual = m in USUAL if kind == "cases" else m == mode
                if everything or usual or luck[m] < SAMPLE.get(m, 0):
                    out.append((case, m))
    return out


def place(case_id):
    """-> its folder, and the folder its id is relative to"""
    own = case_id.startswith("own/")
    return FOLDERS["own"].parent / case_id if own else FOLDERS["cases"] / case_id, FOLDERS["own"].parent if own else FOLDERS["cases"]


def options(server, work, mode, seed):
    b = str(BINARY)
    live = mode in ("live", "live_minimal", "killed")
    return argparse.Namespace(
        dsn=server.dsn, flavor=server.flavor, work=str(work), timeout=120, catalog_name="weir", values_only=False, stop=None,
        sut=None if live else b + " sync -c {config} --until current",
        start=b + " sync -c {config}" if live else None, wait=b + " wait -c {config} --timeout {timeout}" if live else None,
        lake=lambda home: backend.config(home).get("lake", {}), open_catalog=lambda o, home: backend.catalog(home), look_at_files=file_findings,
        make_sut={"stepped": case_faults.Stepped, "killed": case_faults.Killed}.get(mode, drive.Sut), seed=seed)


@pytest.mark.parametrize("case_id,mode", wanted())
def test_case(server, flavor, case_id, mode, tmp_path):
    root, base = place(case_id)
    case = run_cases.load_case(str(root), str(base))
    if flavor not in case["flavors"]:
        pytest.skip(f"not a case for {flavor}")
    seed = f"{SEED} {flavor} {case_id}"
    minimal = mode.endswith("minimal") or mode in ("stepped", "killed") and random.Random(seed).random() < 0.5
    print(f"\nWEIR_SEED={SEED}", "MINIMAL" if minimal else "FULL")
    con = canon.connect(server.dsn)
    os.environ.update(backend.env())
    if minimal:
        server.sql("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        bad, warnings, rows = drive.run_case(options(server, tmp_path, mode, seed), str(root), case, con)
    finally:
        if minimal:
            server.sql("SET GLOBAL binlog_row_metadata = 'FULL'")
        con.close()
        backend.release(tmp_path / case["id"])
    for w in warnings:
        print("warning:", w)
    assert not bad, f"{case['why']}\n" + "\n".join(bad)
