#!/bin/bash
# What a machine needs for Weir. Says nothing and changes nothing when it is all there.
#   tools/setup.sh [build] [test] [fuzz] [lint] [peers] [engines]     (default: build; test and fuzz include build, the others test)
# engines: Spark and Flink, a gigabyte, for tests/integration/test_engines.py; peers: what make bench-peers measures
set -euo pipefail
cd "$(dirname "$0")/.."

BUILD='gcc cmake ninja-build pkg-config libmariadb-dev libzstd-dev liblz4-dev libxxhash-dev libsqlite3-dev
  libyaml-dev libcjson-dev libroaring-dev libicu-dev zlib1g-dev libssl-dev
  libcurl4-openssl-dev libcmocka-dev python3 python3-venv'
TEST='mariadb-server mariadb-client'
REST='openjdk-17-jdk-headless maven'
LINT='cppcheck clang-tidy-14'
FUZZ='clang-14 libclang-rt-14-dev'
PEERS='openjdk-17-jdk-headless maven'

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

missing() { # missing PACKAGE...: those that are not installed
  local p
  for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$p"
  done
}

apt_need() {
  command -v apt-get >/dev/null || die "no apt-get here. Install what these Debian packages hold, then go on with cmake --preset release: $*"
  local miss; miss=$(missing "$@")
  [ -n "$miss" ] || return 0
  [ "$(id -u)" = 0 ] || command -v sudo >/dev/null || die "missing: $miss- neither root nor sudo; run as root: apt-get install $miss"
  say "installing $miss"
  local log; log=$(mktemp)
  as_root apt-get update -qq >"$log" 2>&1 || :
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $miss >"$log" 2>&1 ||
    { tail -n 5 "$log" >&2; rm -f "$log"; die "apt-get could not install: $miss"; }
  rm -f "$log"
}

# The database servers are for tests that start their own; the package must not start or enable one.
mariadb_need() {
  [ -n "$(missing $TEST)" ] || return 0
  local policy=/usr/sbin/policy-rc.d mine=
  if [ ! -e $policy ]; then
    mine=1
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
    as_root chmod 755 $policy
  fi
  local rc=0
  (apt_need $TEST) || rc=$?
  [ -z "$mine" ] || as_root rm -f $policy
  [ $rc = 0 ] || exit $rc
  if [ -d /run/systemd/system ]; then as_root systemctl --quiet disable mariadb || :; fi
}

has_duckdb() {
  local f
  for f in "${DUCKDB_ROOT:-/nowhere}"/{,include/}duckdb.h; do [ ! -e "$f" ] || return 0; done
  [ -z "${DUCKDB_ROOT:-}" ] || die "DUCKDB_ROOT=$DUCKDB_ROOT holds no duckdb.h; unset it to fetch a pinned copy"
  pkg-config --exists duckdb 2>/dev/null
}

do_build() {
  apt_need $BUILD
  has_duckdb && return 0
  [ -e third_party/duckdb/lib/libduckdb.so ] || command -v npm >/dev/null || apt_need npm
  tools/fetch_duckdb.sh
}

do_test() {
  do_build
  mariadb_need
  local stamp=.venv/.requirements
  if ! cmp -s tests/requirements.txt $stamp; then
    say "Python packages into .venv"
    [ -x .venv/bin/python ] || python3 -m venv .venv || die "python3 -m venv failed; install python3-venv"
    .venv/bin/python -m pip install -q --disable-pip-version-check -r tests/requirements.txt || die "pip could not install tests/requirements.txt"
    cp tests/requirements.txt $stamp
  fi
  command -v javac >/dev/null && command -v mvn >/dev/null || apt_need $REST
  local service
  for service in mysql s3 rest; do
    (cd tests && ../.venv/bin/python -m services.$service install) || die "what services.$service needs could not be fetched"
  done
}

do_fuzz() { do_build; apt_need $FUZZ; }

do_lint() { apt_need $LINT; }

do_peers() {
  do_test
  command -v javac >/dev/null && command -v mvn >/dev/null || apt_need $PEERS
  tools/fetch_peers.sh
}

do_engines() {
  do_test
  local service
  for service in spark flink; do
    (cd tests && ../.venv/bin/python -m services.$service install) || die "what services.$service needs could not be fetched"
  done
}

[ $# -gt 0 ] || set -- build
for verb in "$@"; do
  case ${verb#--} in
    build|test|fuzz|lint|peers|engines) "do_${verb#--}" ;;
    *) die "unknown verb '$verb'; usage: tools/setup.sh [build] [test] [fuzz] [lint] [peers] [engines]" ;;
  esac
done
