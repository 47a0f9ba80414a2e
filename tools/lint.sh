#!/bin/bash
# cppcheck, clang-tidy (.clang-tidy says what is turned off, and why) and gcc's analyzer over src: each finding is mended, or suppressed where it stands with the reason.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh build lint
mkdir -p build/lint
failed=0
count() { # count WHAT: the findings in build/lint/WHAT
  local n; n=$(wc -l <"build/lint/$1")
  echo "$1: $n open findings"
  [ "$n" = 0 ] || failed=1
}

# It looks at files without the libraries' headers.
echo '#define cJSON_ArrayForEach(e, a) for (e = 0; e; e = 0)' >build/lint/macros.h
# Not for us: a ?: b is unknown to it (internalAstError), and gcc and clang shift signed numbers arithmetically (zigzag).
cppcheck --quiet --inline-suppr --std=c11 -UWEIR_ANALYZE --enable=warning,portability --suppress=missingInclude --suppress=internalAstError --suppress=shiftTooManyBitsSigned \
  --include=build/lint/macros.h --template=gcc -j "$(nproc)" $(find src -type d -name include -printf '-I %p ') src 2>&1 |
  grep -E ': (error|warning|portability):' | tee build/lint/cppcheck || :
count cppcheck

[ -e build/build.ninja ] || cmake --preset release >/dev/null
find src -name '*.c' -print0 | xargs -0 -P "$(nproc)" -n 8 clang-tidy-14 -p build --quiet 2>build/lint/tidy.err >build/lint/tidy.out ||
  { cat build/lint/tidy.err; failed=1; }
grep -E ': (warning|error):' build/lint/tidy.out | sort -u | tee build/lint/clang-tidy || :
count clang-tidy

cmake --preset analyze >/dev/null # -Werror: a file with a finding has no object, so that the next run tells it again
cmake --build build-analyze -- -k 0 >build/lint/analyze.out 2>&1 || failed=1
grep -E ': error: ' build/lint/analyze.out | sort -u | tee build/lint/gcc-analyzer || :
count gcc-analyzer
exit $failed
