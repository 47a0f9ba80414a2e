#!/bin/bash
# Each libFuzzer target for FUZZ_SECONDS (30). New inputs stay in build-fuzz/corpus/<target>; a crash leaves its input there.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh fuzz
cmake --preset fuzz >/dev/null
cmake --build build-fuzz
shopt -s nullglob
targets=(build-fuzz/tests/fuzz/fuzz_*)
n=0 bad=0
for t in "${targets[@]}"; do
  [ -f "$t" ] && [ -x "$t" ] || continue
  name=${t##*/}; n=$((n + 1))
  mkdir -p "build-fuzz/corpus/$name"
  seeds=(tests/fuzz/corpus/"${name#fuzz_}")
  [ -d "${seeds[0]}" ] || seeds=()
  echo "== $name"
  "$t" -max_total_time="${FUZZ_SECONDS:-30}" -print_final_stats=0 -verbosity=0 -artifact_prefix="build-fuzz/corpus/$name/" \
    "build-fuzz/corpus/$name" "${seeds[@]}" || { echo "FAILED: $name, input in build-fuzz/corpus/$name" >&2; bad=$((bad + 1)); }
done
[ $n -gt 0 ] || { echo "no fuzz target was built" >&2; exit 1; }
echo "$((n - bad)) fuzz targets clean, $bad failed"
[ $bad = 0 ]
