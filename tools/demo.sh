#!/bin/bash
# make demo: a shop database that keeps changing, its lake, a kill -9 in between, and a comparison at the end.
# KEEP=1 leaves server and sync running. DEMO_SECONDS (20) of live progress. Everything lies in ./demo.weir.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x build/weir ] || { echo "build/weir does not exist; run make first" >&2; exit 1; }
[ -x .venv/bin/python ] || { echo "no Python environment; run tools/setup.sh test first" >&2; exit 1; }
PYTHONPATH=tests:tests/cases:tools PYTHONWARNINGS=ignore exec .venv/bin/python -m demo.main "$@"
