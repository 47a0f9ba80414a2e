#!/bin/bash
# Puts what `make bench-peers` measures Weir beside into .services/sw/peers: Flink and its connectors (flink/), a Python environment with dlt and the readers
# of what others wrote (python/). Says nothing and fetches nothing when it is all there.
#
# Flink itself comes out of its Python package, because that is the form in which a package registry carries the distribution: jars and the program that derives the
# JVM's memory settings, without start scripts (bench/peers/flink.py starts the JVMs). The connectors come from Maven. Everything is pinned; files have checksums.
set -euo pipefail
cd "$(dirname "$0")/.."

FLINK='apache-flink-libraries==1.20.5 --hash=sha256:e6aee62ea1a1fe7b32e28894ad079f3f1a50a372a4caac3df52405267f4228c8'
# GROUP:ARTIFACT:VERSION SHA256. Hadoop's two jars and not flink-shaded-hadoop-2-uber, whose old commons-cli gets in Flink's way.
JARS='
org.apache.flink:flink-sql-connector-mysql-cdc:3.5.0 aa1946f26be3c831f03e22b3f6b4f2ad70b02878817b8648177c3fe1c8d1f440
com.mysql:mysql-connector-j:8.0.33 e2a3b2fc726a1ac64e998585db86b30fa8bf3f706195b78bb77c5f99bf877bd9
org.apache.iceberg:iceberg-flink-runtime-1.20:1.10.1 f06b3f2fbd004feeb10adc8957f27d43203a0dc526a9ae2e0a42219fbcdbcfe7
org.apache.paimon:paimon-flink-1.20:1.3.1 a333b7a3df6143b782d129895f64575f0007912c4a2c85502d421b8198f42ce1
org.apache.hadoop:hadoop-client-api:3.3.6 f3d2347a6e1c6885d5bcfd4f60c3ac3810ec11068fc161e04329baabf412d963
org.apache.hadoop:hadoop-client-runtime:3.3.6 15f01bc804294df06d2effc87de363a83cf589f50558bdbf48f72541ad8de854
commons-logging:commons-logging:1.2 daddea1ea0be0f56978ab3006b8ac92834afeefbd9b7e4e6316fca57df0fa636'
REQUIREMENTS=bench/peers/requirements.txt
PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.6.1
DIR=$PWD/.services/sw/peers

die() { echo "fetch_peers: $*" >&2; exit 1; }
tail_die() { tail -n 5 "$1" >&2; shift; die "$*"; }    # tail_die LOG MESSAGE
stamp=$(echo "$FLINK $JARS" | cat - $REQUIREMENTS | sha256sum | cut -d' ' -f1)
[ "$(cat "$DIR/.ok" 2>/dev/null)" != "$stamp" ] || exit 0
for c in java mvn; do command -v $c >/dev/null || die "no $c here; tools/setup.sh peers installs it"; done

mkdir -p "${DIR%/*}"
tmp=$(mktemp -d "${DIR%/*}/.peers-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
echo "fetching Flink, its connectors, dlt and readers into .services/sw/peers (once, about 1.3 GB)" >&2

echo "$FLINK" >"$tmp/flink.txt"
python3 -m venv "$tmp/pip" || die "python3 -m venv failed; install python3-venv"
"$tmp/pip/bin/pip" -q install --disable-pip-version-check --require-hashes --no-deps --target "$tmp/package" -r "$tmp/flink.txt" >"$tmp/log" 2>&1 ||
  tail_die "$tmp/log" "pip could not fetch Flink"
mkdir -p "$tmp/new/flink"
mv "$tmp/package/pyflink/lib" "$tmp/package/pyflink/bin" "$tmp/new/flink/"

items=$(echo "$JARS" | sed -nE 's,^([^:]+):([^:]+):([^ ]+) .*,<artifactItem><groupId>\1</groupId><artifactId>\2</artifactId><version>\3</version></artifactItem>,p')
cat >"$tmp/pom.xml" <<P
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>weir</groupId><artifactId>peers</artifactId><version>1</version>
<packaging>pom</packaging><build><plugins><plugin><groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId><configuration>
<artifactItems>$items</artifactItems><outputDirectory>$tmp/new/flink/lib</outputDirectory></configuration></plugin></plugins></build></project>
P
mvn -q -B -f "$tmp/pom.xml" $PLUGIN:copy >"$tmp/log" 2>&1 || tail_die "$tmp/log" "Maven could not fetch the connectors"
echo "$JARS" | sed -nE "s,^[^:]+:([^:]+):([^ ]+) (.*),\3  $tmp/new/flink/lib/\1-\2.jar,p" | sha256sum --check --quiet >&2 ||
  die "a connector does not have its pinned sha256; nothing was installed"

rm -rf "$DIR" && mv "$tmp/new" "$DIR"
python3 -m venv "$DIR/python"          # in its place: an environment knows its own path
"$DIR/python/bin/pip" -q install --disable-pip-version-check -r $REQUIREMENTS >"$tmp/log" 2>&1 || tail_die "$tmp/log" "pip could not install $REQUIREMENTS"
echo "$stamp" >"$DIR/.ok"
