#!/bin/bash
# make bench: snapshot, catch-up, one big transaction and latency, each compared with the source, and what the source itself can give.
# make bench-peers (run.sh peers): snapshot and catch-up of Weir and of other tools, one after the other.
# make bench-ingest (run.sh ingest): a growing table with random updates. make bench-tables (run.sh tables): thousands of tables.
# make bench-compare (run.sh compare): weir compare beside a sum by the server.
# bench/README.md has the variables. Everything lies in one work folder that is removed unless KEEP=1.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${WEIR_BINARY:-$PWD/build/weir}
[ -x "$binary" ] || { echo "bench: $binary does not exist; run make first" >&2; exit 1; }
[ -x .venv/bin/python ] || { echo "bench: no Python environment; run tools/setup.sh test first" >&2; exit 1; }
export WEIR_BINARY=$binary PYTHONPATH=tests:bench PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore
case ${1:-} in
  '') exec .venv/bin/python bench/bench.py ;;
  peers) exec .venv/bin/python -m peers ;;
  ingest | tables | compare) exec .venv/bin/python "bench/$1.py" ;;
  *) echo "usage: bench/run.sh [peers | ingest | tables | compare]" >&2; exit 2 ;;
esac
