#!/bin/bash
# make test: set up, build, unit tests (ctest), integration tests (pytest). Last line: "N passed, N failed".
# Arguments go to pytest, e.g. tools/test.sh tests/integration/test_smoke.py -k mariadb
set -uo pipefail
cd "$(dirname "$0")/.."
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1}

fail() { echo "$*" >&2; echo "0 passed, 1 failed"; exit 1; }
tools/setup.sh test || fail "set-up failed"
[ -e build/build.ninja ] || cmake --preset release >/dev/null || fail "configuring failed"
cmake --build build || fail "the build failed"

out=$PWD/build/test-results
rm -rf "$out" && mkdir -p "$out"
ctest --test-dir build -j "$(nproc)" --output-on-failure --no-tests=ignore --output-junit "$out/unit.xml"
[ $# -gt 0 ] || set -- tests/integration
# Most of a test's time is waiting for commits: a few workers, each with servers of its own, shorten the run.
.venv/bin/python -m pytest -q -n "${WEIR_JOBS:-3}" --dist worksteal --junitxml="$out/integration.xml" "$@"
rc=$?
[ $rc -le 1 ] || echo "pytest ended with status $rc" >&2

.venv/bin/python tools/sum_results.py $rc "$out/unit.xml" "$out/integration.xml"
