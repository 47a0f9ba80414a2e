#!/bin/bash
# Puts a pinned libduckdb into third_party/duckdb/{lib,include}, from the npm registry through npm itself.
#
# Why npm: it is the one registry that ships the plain shared library, and its `duckdb` package the C header.
# The header is that of the 1.4 C API: a strict subset of what the 1.5 library exports (DuckDB only adds to its
# C API), so code that compiles with it links and runs with the library. Whoever wants the 1.5 header as well
# points DUCKDB_ROOT at an unpacked official release instead; nothing is fetched then.
# Library and readers' extensions must match to the patch: see tests/requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

LIB_PKG='@duckdb/node-bindings-linux-x64@1.5.5-r.5'
LIB_TGZ_SHA256=86d2bda909785550e8a14a57a8a4584827aff0e268d8f1a58c3fd48559f7020e
LIB_SHA256=fc23f12e376c47be520f75221288281906e7942e8fd6f6ce4849198ba60d0405
HDR_PKG='duckdb@1.4.4'
HDR_TGZ_SHA256=5bb967dcbcd517670ba5f169f238fb9d6787e53752c60ebe24386169d76941ed
HDR_SHA256=cbe6a827284375c5a646b8f27dbd3a00808ce8738b5bbb49c190cb1e08540281
DIR=third_party/duckdb

die() { echo "fetch_duckdb: $*" >&2; exit 1; }
is() { echo "$2  $1" | sha256sum --check --status 2>/dev/null; }   # is FILE SHA256
verified() { is "$1" "$2" || die "$1 does not have the pinned sha256 $2; nothing was installed"; }

if is $DIR/lib/libduckdb.so $LIB_SHA256 && is $DIR/include/duckdb.h $HDR_SHA256; then exit 0; fi
[ "$(uname -sm)" = 'Linux x86_64' ] ||
  die "no pinned libduckdb for $(uname -sm) yet. Unpack DuckDB 1.5.5's libduckdb for it and set DUCKDB_ROOT to that folder."
command -v npm >/dev/null || die "npm is missing; tools/setup.sh installs it, or set DUCKDB_ROOT to a folder with libduckdb.so and duckdb.h."

mkdir -p third_party
tmp=$(mktemp -d "$PWD/third_party/.duckdb-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
pack() { # pack PACKAGE SHA256 RET_VAR: download one tarball and check it
  local name
  name=$(cd "$tmp" && npm pack --silent "$1" | tail -n 1) && [ -s "$tmp/$name" ] || die "npm could not fetch $1; is the registry reachable?"
  verified "$tmp/$name" "$2"
  printf -v "$3" '%s' "$tmp/$name"
}

echo "fetching libduckdb 1.5.5 into $DIR" >&2
pack "$LIB_PKG" $LIB_TGZ_SHA256 lib_tgz
pack "$HDR_PKG" $HDR_TGZ_SHA256 hdr_tgz
mkdir -p "$tmp/new/lib" "$tmp/new/include"
tar -xzf "$lib_tgz" -O package/libduckdb.so >"$tmp/new/lib/libduckdb.so"
tar -xzf "$lib_tgz" -O package/LICENSE >"$tmp/new/LICENSE"
tar -xzf "$hdr_tgz" -O package/src/duckdb/src/include/duckdb.h >"$tmp/new/include/duckdb.h"
verified "$tmp/new/lib/libduckdb.so" $LIB_SHA256
verified "$tmp/new/include/duckdb.h" $HDR_SHA256
chmod 755 "$tmp/new/lib/libduckdb.so"
rm -rf $DIR && mv "$tmp/new" $DIR
