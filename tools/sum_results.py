#!/usr/bin/env python3
"""sum_results.py PYTEST_STATUS JUNIT...: prints "N passed, N failed" and ends with 1 if anything failed.

A report that is missing or a pytest that broke before it could report counts as one failure: silence is not success."""
import sys
import xml.etree.ElementTree as ET


def count(path):
    """-> (passed, failed, skipped) of one JUnit file"""
    passed = failed = skipped = 0
    for case in ET.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            failed += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main(status, *paths):
    totals = [0, 0, 0]
    for path in paths:
        try:
            one = count(path)
        except (OSError, ET.ParseError) as e:
            print(f"no result in {path}: {e}", file=sys.stderr)
            one = (0, 1, 0)
        totals = [a + b for a, b in zip(totals, one)]
    if int(status) not in (0, 1):
        totals[1] += 1
    if totals[2]:
        print(f"{totals[2]} skipped")
    print(f"{totals[0]} passed, {totals[1]} failed")
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
