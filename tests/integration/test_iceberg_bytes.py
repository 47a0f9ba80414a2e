"""What src/lake/iceberg writes, judged by readers that are not ours. A C program (tests/tools/ice_driver.c) runs the commits; here
the history is made up, a model says what every table must hold, and PyIceberg and DuckDB are asked."""
import datetime
import decimal
import glob
import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from harness.lake import duckdb_connection
from pyiceberg.catalog.sql import SqlCatalog

pytestmark = pytest.mark.needs_no_weir
ROOT = Path(__file__).resolve().parents[2]
DRIVER = Path(os.environ.get("WEIR_ICE_DRIVER", ROOT / "build/tests/tools/ice_driver"))
EPOCH = datetime.date(1970, 1, 1)


def column(name, cid, ctype, key=0, nullable=True):
    return {"name": name, "id": cid, "type": ctype, "nullable": nullable, "key": key}


def schema(*columns, version=1):
    return {"version": version, "columns": list(columns)}


KEY = column("id", 1, "long", key=1, nullable=False)
ALL = schema(
    KEY, column("b", 2, "boolean"), column("i", 3, "int"), column("f", 4, "float"), column("d", 5, "double"), column("c", 6, "decimal(10,2)"),
    column("big", 7, "decimal(38,10)"), column("day", 8, "date"), column("ts", 9, "timestamp"), column("tz", 10, "timestamptz"),
    column("名字", 11, "string"), column("raw", 12, "binary"), column("v", 13, "list<float>"))


def value_of(ctype, rng):
    """-> (what the driver is told, what a reader must say)"""
    if rng.random() < 0.15:
        return None, None
    if ctype == "boolean":
        v = rng.random() < 0.5
        return v, v
    if ctype == "int":
        v = rng.randint(-2**31, 2**31 - 1)
        return str(v), v
    if ctype == "long":
        v = rng.randint(-2**63, 2**63 - 1)
        return str(v), v
    if ctype in ("float", "double"):
        v = rng.choice([0.0, 1.5, -2.25, 1e10, rng.randint(-2**20, 2**20) / 64])
        return repr(v), v
    if ctype.startswith("decimal"):
        p, s = (int(x) for x in ctype[8:-1].split(","))
        n = rng.randint(-10**p + 1, 10**p - 1)
        v = decimal.Decimal(n).scaleb(-s, decimal.Context(prec=60))
        return f"{v:.{s}f}", v
    if ctype == "date":
        n = rng.randint(-100000, 100000)
        return str(n), EPOCH + datetime.timedelta(days=n)
    if ctype in ("timestamp", "timestamptz"):
        n = rng.randint(-10**15, 10**16)
        v = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc if ctype.endswith("tz") else None) + datetime.timedelta(microseconds=n)
        return str(n), v
    if ctype == "string":
        v = "".join(rng.choice("aé中𝄞 \"\\\n") for _ in range(rng.randint(0, 40)))
        return v, v
    if ctype == "binary":
        v = "".join(rng.choice("xyz") for _ in range(rng.randint(0, 30)))
        return v, v.encode()
    if ctype == "list<float>":
        v = [rng.randint(-100, 100) / 4 for _ in range(rng.randint(0, 5))]
        return v, v
    raise AssertionError(ctype)


class Model:
    """the rows of one table, by data file"""

    def __init__(self, columns, seed=1):
        self.columns, self.rng, self.ids = columns, random.Random(seed), itertools.count(1)
        self.files = []      # each: list of rows (dict by column id) or None when deleted; None = the file is removed

    def make(self, n):
        told, rows = [], []
        for _ in range(n):
            key = next(self.ids)
            pairs = [(str(key), key) if c["id"] == 1 else value_of(c["type"], self.rng) for c in self.columns["columns"]]
            told.append([p[0] for p in pairs])
            rows.append({c["id"]: p[1] for c, p in zip(self.columns["columns"], pairs)})
        self.files.append(rows)
        return told

    def copy_of(self, number):
        """live rows of a file, written again as they are (a compaction); only for a schema of strings and integers"""
        live = [r for r in self.files[number] if r is not None]
        self.files.append(live)
        return [[None if r.get(c["id"]) is None else str(r[c["id"]]) for c in self.columns["columns"]] for r in live]

    def delete(self, number, positions):
        for p in positions:
            self.files[number][p] = None

    def some_positions(self, number, share=0.1):
        live = [p for p, r in enumerate(self.files[number]) if r is not None]
        return self.rng.sample(live, max(1, int(len(live) * share))) if live else []

    def live_files(self):
        return [n for n, f in enumerate(self.files) if f is not None]

    def rows(self):
        names = {c["id"]: c["name"] for c in self.columns["columns"]}
        got = [{names[i]: r.get(i) for i in names} for f in self.files if f is not None for r in f if r is not None]
        return sorted(got, key=lambda r: r["id"])


class Driver:
    """rest: services.rest.RestCatalog that holds the tables"""

    def __init__(self, folder, env=None, more=(), rest=None):
        self.folder, self.rest = Path(folder), rest
        self.folder.mkdir(exist_ok=True)
        args = [str(DRIVER), str(self.folder / "catalog.db"), str(self.folder / "lake"), str(self.folder / "state.db"), *([rest.uri] if rest else more)]
        self.p = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        self.con = duckdb_connection()

    def ask(self, **command):
        self.p.stdin.write(json.dumps(command) + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            raise EOFError(self.p.wait())
        return json.loads(line)

    def commit(self, *edits, progress=None):
        answer = self.ask(op="commit", edits=list(edits), **({"progress": progress} if progress else {}))
        assert answer.get("ok"), answer

    def fails(self, *edits, progress=None):
        answer = self.ask(op="commit", edits=list(edits), **({"progress": progress} if progress else {}))
        assert "error" in answer, answer
        return answer["error"], answer["message"]

    def close(self):
        self.p.stdin.close()
        assert self.p.wait() == 0

    @property
    def catalog(self):
        return self.rest.catalog() if self.rest else SqlCatalog("weir", uri=f"sqlite:///{self.folder}/catalog.db", warehouse=str(self.folder / "lake"))

    def table(self, ns, name):
        return self.catalog.load_table((ns, name))

    def metadata(self, ns, name):
        return json.loads(Path(self.table(ns, name).metadata_location.removeprefix("file://")).read_text())

    def files_on_disk(self):
        return sorted(p for p in glob.glob(f"{self.folder}/lake/**", recursive=True) if os.path.isfile(p))


@pytest.fixture
def driver(tmp_path):
    d = Driver(tmp_path / "home")
    yield d
    d.close()


def norm(v):
    if isinstance(v, list):
        return [norm(x) for x in v]
    if isinstance(v, datetime.datetime) and v.tzinfo:
        return v.astimezone(datetime.timezone.utc)
    if isinstance(v, memoryview):
        return bytes(v)
    return v


def in_pyiceberg(table, **scan):
    rows = table.scan(**scan).to_arrow().to_pylist()
    return sorted(({k: norm(v) for k, v in r.items()} for r in rows), key=lambda r: r["id"])


def in_duckdb(con, location, tail=""):
    got = con.execute(f"SELECT * FROM iceberg_scan('{location}'{tail})").arrow()
    rows = (got if hasattr(got, "num_rows") else got.read_all()).to_pylist()
    return sorted(({k: norm(v) for k, v in r.items()} for r in rows), key=lambda r: r["id"])


def check(driver, ns, name, model):
    """full content in both readers, the counters, and what is on disk"""
    want, table = model.rows(), driver.table(ns, name)
    assert in_pyiceberg(table) == want
    assert in_duckdb(driver.con, table.metadata_location) == want
    meta, snap = driver.metadata(ns, name), table.current_snapshot()
    live = [f for f in model.files if f is not None]
    s = {k: int(v) for k, v in snap.summary.additional_properties.items() if k.startswith("total-")}
    assert s["total-data-files"] == len(live)
    assert s["total-records"] == sum(len(f) for f in live)
    assert s["total-records"] - s["total-position-deletes"] == len(want)
    listing = driver.con.execute(f"SELECT content, status, count(*) FROM iceberg_metadata('{table.metadata_location}') GROUP BY ALL").fetchall()
    counts = {(c.lower(), st.lower()): n for c, st, n in listing}
    assert sum(n for (c, st), n in counts.items() if c in ("data", "existing") and st != "deleted") == len(live), listing
    check_metadata(meta)
    ask = driver.ask(op="live", ns=ns, name=name)
    assert ask["ok"], ask
    data = [f for f in ask["files"] if f["content"] == 0]
    assert len(data) == len(live)
    assert sum(f["records"] for f in data) - sum(f["deleted"] for f in ask["files"] if f["content"] == 1) == len(want)
    if meta["format-version"] == 3:
        check_row_ids(driver, table, meta, data, want)


def check_metadata(meta):
    heads = meta["refs"]
    if "main" in heads:
        assert meta["current-snapshot-id"] == heads["main"]["snapshot-id"]
    times = [s["timestamp-ms"] for s in meta["snapshots"]]
    assert times == sorted(set(times))
    assert [s["sequence-number"] for s in meta["snapshots"]] == list(range(1, len(times) + 1))
    assert meta["last-sequence-number"] == len(times) and meta["last-updated-ms"] >= max(times)
    assert all(0 < s["snapshot-id"] < 2**53 for s in meta["snapshots"] if s["summary"].get("engine-name") == "weir")
    logged = [e["snapshot-id"] for e in meta["snapshot-log"]]
    assert not logged or logged[-1] == meta["current-snapshot-id"]
    assert len(meta["metadata-log"]) <= 20
    assert all(os.path.exists(e["metadata-file"].removeprefix("file://")) for e in meta["metadata-log"])
    folder = meta["location"].removeprefix("file://") + "/metadata"
    assert len(glob.glob(folder + "/*.metadata.json")) == len(meta["metadata-log"]) + 1
    if meta["format-version"] == 3:
        at = 0
        for s in sorted(meta["snapshots"], key=lambda s: s["sequence-number"]):
            assert s["first-row-id"] == at
            at += s["added-rows"]
        assert meta["next-row-id"] == at


def check_row_ids(driver, table, meta, data, want):
    """ids are distinct, below next-row-id, and those that our own reader resolves"""
    [(n, top)] = driver.con.execute(f"SELECT count(DISTINCT _row_id), max(_row_id) FROM iceberg_scan('{table.metadata_location}')").fetchall()
    assert n == len(want) and (not want or top < meta["next-row-id"])
    ranges = sorted((f["first_row_id"], f["first_row_id"] + f["records"]) for f in data)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(ranges)) and all(r[0] >= 0 for r in ranges)


# ------------------------------------------------------------------ one table
@pytest.mark.parametrize("version", [3, 2])
def test_a_long_history_reads_the_same_everywhere(driver, version):
    m = Model(ALL)
    t = {"ns": "shop", "name": f"t{version}"}
    driver.commit({**t, "create": True, "version": version, "schema": ALL, "no_snapshot": True})
    assert in_pyiceberg(driver.table("shop", t["name"])) == []
    driver.commit({**t, "insert": [m.make(500), m.make(300)]})
    check(driver, "shop", t["name"], m)
    history = {driver.table("shop", t["name"]).current_snapshot().snapshot_id: m.rows()}
    for step in range(12):                       # deletes hit old files and the files of the same commit
        told = m.make(m.rng.randint(1, 60))
        new = len(m.files) - 1
        hit = sorted(set(m.rng.sample(m.live_files(), min(3, len(m.live_files()))) + ([new] if step % 2 else [])))
        dels = {str(n): m.some_positions(n) for n in hit}
        for n, p in dels.items():
            m.delete(int(n), p)
        driver.commit({**t, "insert": [told], "delete": {n: p for n, p in dels.items() if p}, "summary": {"weir.offset": str(step)}})
        if step % 4 == 3:
            check(driver, "shop", t["name"], m)
            driver.ask(op="forget")              # table objects and their file numbers anew: the model is renumbered likewise
            m.files = [f for f in m.files if f is not None]
            history[driver.table("shop", t["name"]).current_snapshot().snapshot_id] = m.rows()
    gone = m.rng.sample(m.live_files(), 2)       # whole files leave, and with them their deletes
    for n in gone:
        m.files[n] = None
    driver.commit({**t, "remove": gone})
    check(driver, "shop", t["name"], m)
    driver.commit({**t})                         # a snapshot that changes nothing
    check(driver, "shop", t["name"], m)
    table = driver.table("shop", t["name"])
    for snapshot, rows in history.items():       # and all of it can still be read as it was
        assert in_pyiceberg(table, snapshot_id=snapshot) == rows
        assert in_duckdb(driver.con, table.metadata_location, f", snapshot_from_id => {snapshot}") == rows


@pytest.mark.parametrize("version", [3, 2])
def test_columns_come_go_and_widen(driver, version):
    first = schema(KEY, column("a", 2, "int"), column("price", 3, "decimal(8,2)"), column("x", 4, "float"), column("gone", 5, "string"))
    m = Model(first)
    t = {"ns": "s", "name": "evolving"}
    driver.commit({**t, "create": True, "version": version, "schema": first, "insert": [m.make(50)]})
    second = schema(KEY, column("price", 3, "decimal(12,2)"), column("a2", 2, "long"), column("x", 4, "double"), column("new", 6, "string"), version=2)
    m.columns = second
    m.delete(0, [3, 4])
    driver.commit({**t, "schema": second, "set_current": True, "insert": [m.make(20)], "delete": {"0": [3, 4]}})
    check(driver, "s", "evolving", m)
    assert driver.ask(op="live", ns="s", name="evolving")["schema"] == second
    m.columns = {**first, "version": 3}          # back to an equal schema is refused: a column does not narrow
    error, message = driver.fails({**t, "schema": {**first, "version": 3}, "set_current": True, "no_snapshot": True})
    assert error == "unsupported" and "a" in message
    m.columns = third = schema(KEY, column("a2", 2, "long"), column("x", 4, "double"), column("new", 6, "string"), column("price", 3, "decimal(12,2)"), version=3)
    driver.commit({**t, "schema": third, "set_current": True, "no_snapshot": True})
    check(driver, "s", "evolving", m)
    meta = driver.metadata("s", "evolving")
    assert [s["schema-id"] for s in meta["schemas"]] == [0, 1, 2] and meta["last-column-id"] == 6
    driver.commit({**t, "schema": {**second, "version": 4}, "set_current": True, "no_snapshot": True})     # an equal one is used again
    meta = driver.metadata("s", "evolving")
    assert [s["schema-id"] for s in meta["schemas"]] == [0, 1, 2] and meta["current-schema-id"] == 1


def test_keys_become_identifier_fields_only_where_iceberg_allows(driver):
    def ids(name):
        meta = driver.metadata("k", name)
        [s] = [s for s in meta["schemas"] if s["schema-id"] == meta["current-schema-id"]]
        return s["identifier-field-ids"], [f["id"] for f in s["fields"] if f["required"]]
    two = schema(column("a", 1, "long", 2, False), column("b", 2, "string", 1, False), column("c", 3, "int", 0, False))
    driver.commit({"ns": "k", "name": "two", "create": True, "schema": two, "insert": [[["1", "x", "2"]]]})
    assert ids("two") == ([2, 1], [1, 2])
    driver.commit({"ns": "k", "name": "float", "create": True, "schema": schema(column("a", 1, "double", 1, False), column("b", 2, "long", 2, False)), "no_snapshot": True})
    assert ids("float") == ([], [2])
    nullable = schema(column("a", 1, "long", 2, True), column("b", 2, "string", 1, False), column("c", 3, "int", 0, False), version=2)
    driver.commit({"ns": "k", "name": "two", "schema": nullable, "set_current": True, "no_snapshot": True})
    assert ids("two") == ([], [2])
    driver.commit({"ns": "k", "name": "two", "schema": {**two, "version": 3}, "set_current": True, "no_snapshot": True})
    assert ids("two") == ([], [2])               # what was optional stays optional
    added = schema(column("a", 1, "long", 2, False), column("b", 2, "string", 0, False), column("c", 3, "int", 0, False), column("n", 4, "long", 1, False), version=4)
    driver.commit({"ns": "k", "name": "two", "schema": added, "set_current": True, "no_snapshot": True})
    assert ids("two") == ([], [])                # a key column that old rows lack is optional
    assert driver.table("k", "two").scan().to_arrow().num_rows == 1


@pytest.mark.parametrize("version", [3, 2])
def test_two_hundred_commits_keep_manifests_few(driver, version):
    small = schema(KEY, column("s", 2, "string"))
    m = Model(small)
    t = {"ns": "many", "name": "t"}
    driver.commit({**t, "create": True, "version": version, "schema": small, "insert": [m.make(100)]})
    for step in range(200):
        edit = {**t, "insert": [m.make(5)]}
        if step % 3:
            hit = m.rng.sample(m.live_files(), min(4, len(m.live_files())))
            dels = {str(n): m.some_positions(n, 0.02) for n in hit}
            edit["delete"] = {n: p for n, p in dels.items() if p}
            for n, p in dels.items():
                m.delete(int(n), p)
        if step % 50 == 49:                      # a compaction of the oldest ten
            old = m.live_files()[:10]
            edit["delete"] = {n: p for n, p in edit.get("delete", {}).items() if int(n) not in old}
            edit["insert"] += [m.copy_of(n) for n in old]
            edit["remove"] = old
            for n in old:
                m.files[n] = None
        driver.commit(edit)
    check(driver, "many", "t", m)
    manifests = driver.table("many", "t").inspect.manifests().to_pylist()
    assert sum(x["content"] == 0 for x in manifests) <= 22 and sum(x["content"] == 1 for x in manifests) <= 9
    assert len(driver.table("many", "t").metadata.snapshots) == 201


@pytest.mark.parametrize("version", [3, 2])
def test_expiry_keeps_what_the_snapshots_left_need_and_nothing_else(driver, version):
    small = schema(KEY, column("s", 2, "string"))
    m = Model(small)
    t = {"ns": "e", "name": "t"}
    driver.commit({**t, "create": True, "version": version, "schema": small, "insert": [m.make(50), m.make(50)]})
    history = {}
    for step in range(40):
        edit = {**t, "insert": [m.make(5)]}
        if step % 5 == 4:
            gone = m.live_files()[0]
            edit.update(remove=[gone], insert=[*edit["insert"], m.copy_of(gone)])
            m.files[gone] = None
        hit = m.rng.sample(m.live_files()[:-2], min(4, len(m.live_files()) - 2))
        edit["delete"] = {str(n): p for n in hit if (p := m.some_positions(n, 0.05))}
        for n, p in edit["delete"].items():
            m.delete(int(n), p)
        driver.commit(edit)
        history[driver.table("e", "t").current_snapshot().snapshot_id] = m.rows()
    driver.commit({**t, "no_snapshot": True, "expire": 5})
    assert driver.ask(op="journal")["files"] == 0
    table = driver.table("e", "t")
    left = [s.snapshot_id for s in table.metadata.snapshots]
    assert len(left) == 5 and [h.snapshot_id for h in table.history()] == left
    assert in_pyiceberg(table) == in_duckdb(driver.con, table.metadata_location) == m.rows()
    for snapshot in left:
        assert in_pyiceberg(table, snapshot_id=snapshot) == history[snapshot]
        assert in_duckdb(driver.con, table.metadata_location, f", snapshot_from_id => {snapshot}") == history[snapshot]
    needed = {f["file_path"] for f in table.inspect.all_files().to_pylist()} | {x["path"] for x in table.inspect.all_manifests().to_pylist()}
    needed |= {s.manifest_list for s in table.metadata.snapshots} | {table.metadata_location} | {e.metadata_file for e in table.metadata.metadata_log}
    on_disk = set(driver.files_on_disk())
    assert needed == on_disk
    driver.commit({**t, "insert": [m.make(5)], "delete": {str(m.live_files()[0]): (p := m.some_positions(m.live_files()[0]))}})
    m.delete(m.live_files()[0], p)
    assert in_pyiceberg(driver.table("e", "t")) == in_duckdb(driver.con, driver.table("e", "t").metadata_location) == m.rows()


def test_expiry_spares_the_tags_and_branches_that_others_made_meanwhile(tmp_path):
    """a REST catalog does not tell, and takes a tag away with its snapshot"""
    from services.rest import RestCatalog
    with RestCatalog(tmp_path / "rest", owned=True) as rest:
        d = Driver(tmp_path / "table", rest=rest)
        small = schema(KEY, column("s", 2, "string"))
        m, t, history = Model(small), {"ns": "e", "name": "t"}, {}
        d.commit({**t, "create": True, "version": 3, "schema": small, "insert": [m.make(5)]})
        for step in range(12):
            gone = m.live_files()[0]
            d.commit({**t, "insert": [m.copy_of(gone), m.make(5)], "remove": [gone]})
            m.files[gone] = None
            history[d.table("e", "t").current_snapshot().snapshot_id] = m.rows()
        tagged, branched = list(history)[3], list(history)[5]
        d.table("e", "t").manage_snapshots().create_tag(tagged, "theirs").create_branch(branched, "audit").commit()
        d.commit({**t, "no_snapshot": True, "expire": 2})
        table = d.table("e", "t")
        assert set(table.metadata.refs) == {"main", "theirs", "audit"}
        assert {s.snapshot_id for s in table.metadata.snapshots} == {tagged, *list(history)[4:6], *list(history)[-2:]}
        for s in table.metadata.snapshots:
            assert in_pyiceberg(table, snapshot_id=s.snapshot_id) == history[s.snapshot_id]
        d.table("e", "t").manage_snapshots().create_tag(tagged, "again").commit()
        d.commit({**t, "insert": [m.make(5)]})
        assert in_pyiceberg(d.table("e", "t")) == m.rows()
        d.close()


def test_a_commit_to_a_branch_of_somebody_else_is_a_conflict_in_a_rest_catalog(tmp_path):
    """the branches that Weir asserts are where they were, and the numbers of its snapshot are used up: the catalog says 400"""
    from services.rest import RestCatalog
    with RestCatalog(tmp_path / "rest", owned=True) as rest:
        d = Driver(tmp_path / "table", rest=rest)
        small = schema(KEY, column("s", 2, "string"))
        m, t = Model(small), {"ns": "e", "name": "t"}
        d.commit({**t, "create": True, "version": 2, "schema": small, "insert": [m.make(5)]})
        table = d.table("e", "t")
        table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
        table = d.table("e", "t")
        table.append(table.scan().to_arrow(), branch="audit")
        code, message = d.fails({**t, "insert": [m.make(5)]})
        assert code == "conflict" and "somebody else" in message
        m.files.pop()
        d.ask(op="forget")
        d.commit({**t, "insert": [m.make(5)]})
        assert in_pyiceberg(d.table("e", "t")) == m.rows()
        d.close()


# ------------------------------------------------------------------ loads beside main
@pytest.mark.parametrize("version", [3, 2])
def test_a_load_stays_unseen_until_it_is_published(driver, version):
    old, new = schema(KEY, column("s", 2, "string")), schema(KEY, column("s", 2, "string"), column("n", 3, "int"), version=2)
    m, loaded = Model(old), Model(new, seed=2)
    t = {"ns": "l", "name": "t"}
    driver.commit({**t, "create": True, "version": version, "schema": old, "insert": [m.make(40)]})
    m.delete(0, [1])
    driver.commit({**t, "delete": {"0": [1]}})
    driver.commit({**t, "ref": "weir-load", "restart": True, "schema": new, "insert": [loaded.make(30)], "summary": {"weir.load": "{}"}})
    check(driver, "l", "t", m)
    assert driver.ask(op="live", ns="l", name="t")["schema"] == old
    loaded.files.insert(0, None)                 # the driver goes on numbering files behind those of main
    driver.commit({**t, "ref": "weir-load", "insert": [loaded.make(10)], "delete": {"1": [0, 5]}})
    loaded.delete(1, [0, 5])
    check(driver, "l", "t", m)
    assert in_pyiceberg(driver.table("l", "t"), snapshot_id=driver.metadata("l", "t")["refs"]["weir-load"]["snapshot-id"]) == loaded.rows()
    driver.commit({**t, "ref": "weir-load", "delete": {"2": [3]}, "publish": True})
    loaded.delete(2, [3])
    check(driver, "l", "t", loaded)
    meta = driver.metadata("l", "t")
    assert list(meta["refs"]) == ["main"] and len(meta["snapshot-log"]) == 3 and len(meta["snapshots"]) == 5
    assert driver.ask(op="live", ns="l", name="t")["schema"] == new
    assert not [k for k in meta["properties"] if "weir-load" in k]


def test_a_new_table_is_empty_while_its_first_load_runs(driver):
    s = schema(KEY, column("s", 2, "string"))
    m, nothing = Model(s), Model(s)
    t = {"ns": "l", "name": "first"}
    driver.commit({**t, "create": True, "schema": s, "ref": "weir-load", "restart": True, "insert": [m.make(30)]})
    assert in_pyiceberg(driver.table("l", "first")) == nothing.rows()
    driver.ask(op="forget")
    driver.commit({**t, "ref": "weir-load", "insert": [m.make(30)]})
    driver.commit({**t, "ref": "weir-load", "no_snapshot": True, "publish": True})
    check(driver, "l", "first", m)


# ------------------------------------------------------------------ names
NAMES = [("w odd.db", "t"), ("库", "表 名.x"), ("a", "it's \"quoted\" %41 `x` \\ /y"), ("😀", "名" * 64), ("dots", ".."), ("A", "t"), ("a", "T")]


def test_any_name_can_be_a_table(driver):
    s = schema(KEY, column("s", 2, "string"))
    models = {}
    for n in NAMES:
        models[n] = Model(s, seed=len(models))
        driver.commit({"ns": n[0], "name": n[1], "create": True, "schema": s, "insert": [models[n].make(20)]})
        models[n].delete(0, [7])
        driver.commit({"ns": n[0], "name": n[1], "delete": {"0": [7]}})
    for n, m in models.items():
        check(driver, *n, m)
    root = str(driver.folder / "lake")
    assert all(os.path.realpath(p).startswith(root) for p in driver.files_on_disk())
    # PyIceberg takes a dot in a namespace for nesting and lists ("w odd", "db") under ("w odd",); it joins them again to load
    listed = {t for ns in [*driver.catalog.list_namespaces(), ("w odd.db",)] for t in driver.catalog.list_tables(ns)}
    assert {(".".join(t[:-1]), t[-1]) for t in listed} == set(NAMES)


def test_locations_may_be_uris(driver):
    s = schema(KEY, column("s", 2, "string"))
    m = Model(s)
    driver.commit({"ns": "u", "name": "t", "create": True, "uri": True, "schema": s, "insert": [m.make(20)]})
    m.delete(0, [1, 2])
    driver.commit({"ns": "u", "name": "t", "delete": {"0": [1, 2]}})
    check(driver, "u", "t", m)


def test_names_swap_within_one_commit(driver):
    s = schema(KEY, column("s", 2, "string"))
    models = {n: Model(s, seed=i) for i, n in enumerate(["t", "_t_gho", "_t_del"])}
    driver.commit(*({"ns": "g", "name": n, "create": True, "schema": s, "insert": [m.make(10)]} for n, m in list(models.items())[:2]))
    uuids = {n: driver.metadata("g", n)["table-uuid"] for n in ["t", "_t_gho"]}
    models["t"].delete(0, [1])                   # rows and names change together
    driver.commit({"ns": "g", "name": "t", "rename": ["g", "_t_gho"], "delete": {"0": [1]}}, {"ns": "g", "name": "_t_gho", "rename": ["g", "t"], "no_snapshot": True})
    check(driver, "g", "_t_gho", models["t"])
    check(driver, "g", "t", models["_t_gho"])
    assert driver.metadata("g", "t")["table-uuid"] == uuids["_t_gho"]
    driver.commit({"ns": "g", "name": "t", "rename": ["other", "t"], "no_snapshot": True},
                  {"ns": "g", "name": "_t_gho", "drop": True}, {"ns": "g", "name": "fresh", "create": True, "schema": s, "insert": [models["_t_del"].make(3)]})
    check(driver, "other", "t", models["_t_gho"])
    check(driver, "g", "fresh", models["_t_del"])
    assert {tuple(t) for t in driver.catalog.list_tables("g")} == {("g", "fresh")}
    assert ("other",) in driver.catalog.list_namespaces()
    error, _ = driver.fails({"ns": "g", "name": "fresh", "rename": ["other", "t"], "no_snapshot": True})
    assert error == "exists"
    driver.commit({"ns": "g", "name": "fresh", "drop": True}, {"ns": "other", "name": "t", "rename": ["g", "fresh"], "no_snapshot": True})   # a freed name is taken
    check(driver, "g", "fresh", models["_t_gho"])


# ------------------------------------------------------------------ others write too
def test_a_commit_of_pyiceberg_is_detected_and_followed(driver):
    s = schema(KEY, column("s", 2, "string"))
    m = Model(s)
    t = {"ns": "f", "name": "t"}
    driver.commit({**t, "create": True, "version": 2, "schema": s, "insert": [m.make(10)]})
    m.delete(0, [2])
    driver.commit({**t, "delete": {"0": [2]}})
    table = driver.table("f", "t")
    table.append(pa.table({"id": pa.array([1001, 1002], pa.int64()), "s": ["x", None]}, schema=table.schema().as_arrow()))
    foreign = table.current_snapshot().snapshot_id
    before = driver.files_on_disk()
    error, message = driver.fails({**t, "summary": {"a": "b"}}, progress={"pipeline": "p", "offset": 1})
    assert error == "conflict" and "f.t" in message
    assert driver.files_on_disk() == before and driver.ask(op="journal")["files"] == 0
    assert driver.ask(op="progress", pipeline="p")["offset"] == 0
    m.files.append([{1: 1001, 2: "x"}, {1: 1002, 2: None}])
    m.delete(1, [1])
    driver.commit({**t, "insert": [m.make(5)], "delete": {"1": [1]}})     # the driver loads the table again after an error
    assert in_pyiceberg(driver.table("f", "t")) == m.rows()
    assert in_duckdb(driver.con, driver.table("f", "t").metadata_location) == m.rows()
    assert foreign > 2**53 and foreign in [x["snapshot-id"] for x in driver.metadata("f", "t")["snapshots"]]   # exact in JSON after our rewrite
    table = driver.table("f", "t")
    table.delete("id = 1001")                    # copy on write
    m.delete(1, [0])
    driver.ask(op="forget")
    with table.update_schema() as u:
        from pyiceberg.types import StringType
        u.add_column("extra", StringType())
    assert [c["name"] for c in driver.ask(op="live", ns="f", name="t")["schema"]["columns"]] == ["id", "s", "extra"]
    driver.commit({**t, "summary": {"kept": "yes"}})
    got = [{k: v for k, v in r.items() if k != "extra"} for r in in_pyiceberg(driver.table("f", "t"))]
    assert got == m.rows()


# ------------------------------------------------------------------ crashes and errors
POINTS = ["ice.announced", "ice.write", "ice.synced", "ice.sql", "ice.committed", "ice.told"]


def two_tables(driver, versions=(3, 2)):
    s = schema(KEY, column("s", 2, "string"))
    models = {"a": Model(s), "b": Model(s, seed=2)}
    driver.commit(*({"ns": "c", "name": n, "create": True, "version": v, "schema": s, "insert": [models[n].make(20)]} for n, v in zip(models, versions)),
                  progress={"pipeline": "p", "offset": 1})
    return models


def next_edits(models):
    edits = []
    for n, m in models.items():
        told = m.make(5)
        m.delete(0, [3])
        edits.append({"ns": "c", "name": n, "insert": [told], "delete": {"0": [3]}})
    return edits


@pytest.mark.parametrize("point,nth", [(p, n) for p in POINTS for n in ([1, 2, 5] if p == "ice.write" else [1])])
def test_a_kill_leaves_all_or_nothing(tmp_path, point, nth):
    d = Driver(tmp_path / "home")
    models = two_tables(d)
    before = {n: m.rows() for n, m in models.items()}
    assert d.ask(op="fault", spec=f"{point}:{nth}:kill")["ok"]
    with pytest.raises(EOFError) as end:
        d.ask(op="commit", edits=next_edits(models), progress={"pipeline": "p", "offset": 2})
    assert end.value.args == (-signal.SIGKILL,)
    d = Driver(tmp_path / "home")
    done = point in ("ice.committed", "ice.told")
    assert d.ask(op="progress", pipeline="p")["offset"] == (2 if done else 1)
    for n, m in models.items():
        want = m.rows() if done else before[n]
        assert in_pyiceberg(d.table("c", n)) == want
        assert in_duckdb(d.con, d.table("c", n).metadata_location) == want
    if point != "ice.told":                      # whatever is on disk and not live was announced
        assert d.ask(op="journal")["files"] > 0
    d.close()


@pytest.mark.parametrize("point", ["ice.announced", "ice.write", "ice.synced", "ice.sql", "ice.puffin"])
def test_an_error_changes_nothing_and_can_be_repeated(driver, point):
    models = two_tables(driver)
    before = {n: m.rows() for n, m in models.items()}
    saved = {n: [list(f) for f in m.files] for n, m in models.items()}
    metadata = [p for p in driver.files_on_disk() if "/metadata/" in p]
    assert driver.ask(op="fault", spec=f"{point}:1:fail")["ok"]
    driver.fails(*next_edits(models), progress={"pipeline": "p", "offset": 2})
    assert [p for p in driver.files_on_disk() if "/metadata/" in p] == metadata
    for n, m in models.items():
        assert in_pyiceberg(driver.table("c", n)) == before[n]
        m.files = saved[n]
    driver.ask(op="fault", spec=None)
    driver.commit(*next_edits(models), progress={"pipeline": "p", "offset": 2})
    for n, m in models.items():
        check(driver, "c", n, m)
    assert driver.ask(op="progress", pipeline="p")["offset"] == 2


def test_a_commit_whose_answer_is_lost_is_found_to_have_happened(driver):
    models = two_tables(driver)
    assert driver.ask(op="fault", spec="ice.commit:1:fail")["ok"]
    driver.commit(*next_edits(models), progress={"pipeline": "p", "offset": 2})
    for n, m in models.items():
        check(driver, "c", n, m)


def test_mistakes_are_refused_before_anything_is_written(driver):
    models = two_tables(driver)
    metadata = [p for p in driver.files_on_disk() if "/metadata/" in p]
    driver.commit({"ns": "c", "name": "a", "delete": {"0": [1]}})
    models["a"].delete(0, [1])
    [entry] = [f for f in driver.ask(op="live", ns="c", name="a")["files"] if f["content"] == 1]
    assert entry["deleted"] == 1
    for edit, why in [({"ns": "c", "name": "nowhere"}, "notfound"), ({"ns": "c", "name": "a", "create": True, "schema": schema(KEY), "no_snapshot": True}, None),
                      ({"ns": "c", "name": "a", "ref": "x", "publish": True, "no_snapshot": True}, "invalid")]:
        error, message = driver.fails(edit)
        assert why is None or error == why, message
    check(driver, "c", "a", models["a"])
    assert set(metadata) <= set(driver.files_on_disk())


def test_the_catalog_is_the_standard_one(driver):
    two_tables(driver)
    con = sqlite3.connect(driver.folder / "catalog.db")
    rows = con.execute("SELECT catalog_name, table_namespace, table_name, iceberg_type FROM iceberg_tables ORDER BY 3").fetchall()
    assert rows == [("weir", "c", "a", "TABLE"), ("weir", "c", "b", "TABLE")]
    assert con.execute("SELECT * FROM iceberg_namespace_properties").fetchall() == [("weir", "c", "exists", "true")]
    [(pipeline, offset)] = con.execute("SELECT pipeline, queue_offset FROM weir_progress").fetchall()
    assert (pipeline, offset) == ("p", 1)
