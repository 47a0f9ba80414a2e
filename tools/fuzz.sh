#!/bin/bash
# Each libFuzzer target for FUZZ_SECONDS (30), FUZZ_JOBS (1) at once. New inputs stay in build-fuzz/corpus/<target>, where a
# crash leaves its input too; what libFuzzer prints is in build-fuzz/<target>.log.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --one ]; then
  t=$2 name=${2##*/}
  mkdir -p "build-fuzz/corpus/$name"
  seeds=(tests/fuzz/corpus/"${name#fuzz_}")
  [ -d "${seeds[0]}" ] || seeds=()
  if "$t" -max_total_time="${FUZZ_SECONDS:-30}" -print_final_stats=1 -verbosity=1 -artifact_prefix="build-fuzz/corpus/$name/" \
    "build-fuzz/corpus/$name" "${seeds[@]}" >"build-fuzz/$name.log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build-fuzz/$name.log")
    echo "clean: $name, ${runs:-?} inputs in ${FUZZ_SECONDS:-30} s"
  else
    tail -n 40 "build-fuzz/$name.log"
    echo "FAILED: $name, input in build-fuzz/corpus/$name"
  fi
  exit 0
fi
tools/setup.sh fuzz
cmake --preset fuzz >/dev/null
cmake --build build-fuzz
shopt -s nullglob
targets=()
for t in build-fuzz/tests/fuzz/fuzz_*; do [ -f "$t" ] && [ -x "$t" ] && targets+=("$t"); done
[ ${#targets[@]} -gt 0 ] || { echo "no fuzz target was built" >&2; exit 1; }
printf '%s\n' "${targets[@]}" | xargs -P "${FUZZ_JOBS:-1}" -n 1 tools/fuzz.sh --one | tee build-fuzz/result.txt
bad=$(grep -c '^FAILED' build-fuzz/result.txt || true)
echo "$((${#targets[@]} - bad)) fuzz targets clean, $bad failed"
[ "$bad" = 0 ]
