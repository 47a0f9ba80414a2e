#!/bin/bash
# make bench: snapshot, catch-up, one big transaction and latency, each compared with the source, and what the source itself can give.
# bench/README.md has the variables. Everything lies in one work folder that is removed unless KEEP=1.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${WEIR_BINARY:-$PWD/build/weir}
[ -x "$binary" ] || { echo "bench: $binary does not exist; run make first" >&2; exit 1; }
[ -x .venv/bin/python ] || { echo "bench: no Python environment; run tools/setup.sh test first" >&2; exit 1; }
export WEIR_BINARY=$binary PYTHONPATH=tests:bench PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore
exec .venv/bin/python bench/bench.py "$@"
