#!/bin/bash
# make asan, make tsan; and the integration tests with such a binary:
#   tools/sanitize.sh asan|tsan                      the unit tests
#   tools/sanitize.sh asan|tsan PYTEST_ARGUMENT...   e.g. tools/sanitize.sh tsan tests/integration/test_kill.py -k mariadb
# What a sanitizer finds fails the run, whatever the tests say of it: a file each in build-<sanitizer>/findings.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:-}
case $kind in asan|tsan) shift ;; *) echo "usage: tools/sanitize.sh asan|tsan [PYTEST_ARGUMENT...]" >&2; exit 2 ;; esac
dir=$PWD/build-$kind found=$PWD/build-$kind/findings
tools/setup.sh build
cmake --preset "$kind" >/dev/null
cmake --build "$dir"
rm -rf "$found" && mkdir -p "$found"

# Threads that still run when a process ends are not waited for (atexit_sleep_ms): a second for each of thousands of commands.
case $kind in
  asan) export ASAN_OPTIONS="detect_leaks=1:log_path=$found/asan:exitcode=66${ASAN_OPTIONS:+:$ASAN_OPTIONS}" \
    UBSAN_OPTIONS="print_stacktrace=1:log_path=$found/ubsan:exitcode=66${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}" ;;
  tsan) export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp:atexit_sleep_ms=0:second_deadlock_stack=1:log_path=$found/tsan:exitcode=66${TSAN_OPTIONS:+:$TSAN_OPTIONS}" ;;
esac
rc=0
if [ $# = 0 ]; then
  ctest --test-dir "$dir" --output-on-failure || rc=$?
else
  tools/setup.sh test
  WEIR_BINARY=$dir/weir WEIR_S3_DRIVER=$dir/tests/tools/s3_driver WEIR_ICE_DRIVER=$dir/tests/tools/ice_driver .venv/bin/python -m pytest -q "$@" || rc=$?
fi
shopt -s nullglob
files=("$found"/*)
for f in "${files[@]}"; do sed -n '1,40p' "$f"; done
echo "$kind: ${#files[@]} processes with findings in $found"
[ ${#files[@]} = 0 ] && exit $rc
exit 1
