# Entry points. The build itself is CMake's; see CMakePresets.json for the presets.
.DEFAULT_GOAL := all
.PHONY: all build test lint demo bench bench-peers bench-ingest bench-tables bench-compare fuzz asan tsan clean help

all: build

build:  ## set up what is missing, then build/weir (release)
	@tools/setup.sh build
	@[ -e build/build.ninja ] || cmake --preset release >/dev/null
	@cmake --build build

test:  ## unit tests, then integration tests on real servers; ends with "N passed, N failed"
	@tools/test.sh

demo: build  ## a shop database, its lake, a kill -9 in between, and a comparison
	@tools/setup.sh test
	@tools/demo.sh

bench: build  ## measure and compare (see bench/README.md)
	@[ -x bench/run.sh ] || { echo "make bench: there is no bench/run.sh yet" >&2; exit 1; }
	@tools/setup.sh test
	@bench/run.sh

bench-peers: build  ## Weir beside Flink CDC and dlt on the same server and data (see bench/README.md)
	@tools/setup.sh peers
	@bench/run.sh peers

fuzz:  ## each fuzz target for FUZZ_SECONDS (30)
	@tools/fuzz.sh

asan:  ## unit tests under address and undefined-behaviour sanitizers
	@tools/sanitize.sh asan

tsan:  ## unit tests under the thread sanitizer
	@tools/sanitize.sh tsan

lint:  ## cppcheck, clang-tidy and gcc's analyzer; fails when one has a finding (minutes)
	@tools/lint.sh

bench-ingest: build  ## a growing table with random updates: memory, write amplification, read cost (see bench/README.md)
	@tools/setup.sh test
	@bench/run.sh ingest

bench-tables: build  ## thousands of tables in one pipeline (see bench/README.md)
	@tools/setup.sh test
	@bench/run.sh tables

bench-compare: build  ## what comparing costs, beside a sum by the server (see bench/README.md)
	@tools/setup.sh test
	@bench/run.sh compare

clean:  ## remove every build folder
	@rm -rf build build-dev build-asan build-tsan build-fuzz build-analyze

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16
