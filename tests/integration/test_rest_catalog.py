"""Tables in Apache Iceberg's own REST catalog, changed by a C program that runs commits (tests/tools/ice_driver.c), while a model says what they must hold
and PyIceberg, a client of the same catalog, and DuckDB are asked. One test loses requests and answers, one kills the program."""
import json
import random
import signal
from pathlib import Path

import pyarrow as pa
import pytest
from services.faulty_proxy import FaultyProxy
from services.rest import RestCatalog
from test_iceberg_bytes import ALL, KEY, Driver, Model, check_row_ids, column, in_duckdb, in_pyiceberg, schema

pytestmark = pytest.mark.needs_no_weir
SMALL = schema(KEY, column("s", 2, "string"))
NO_KEY = schema(column("id", 1, "long"), column("s", 2, "string"))


@pytest.fixture(scope="module")
def rest(tmp_path_factory):
    with RestCatalog(tmp_path_factory.mktemp("rest"), owned=True) as server:
        yield server


class RestDriver(Driver):
    def __init__(self, folder, rest, uri=None, env=None):
        super().__init__(folder, env, [uri or rest.uri, "weir:secret"])
        self.rest = rest

    @property
    def catalog(self):
        return self.rest.catalog()

    def metadata(self, ns, name):
        return json.loads(Path(self.table(ns, name).metadata_location.removeprefix("file:")).read_text())


@pytest.fixture
def driver(tmp_path, rest):
    d = RestDriver(tmp_path / "home", rest)
    yield d
    d.close()


@pytest.fixture
def ns(request):
    return request.node.name.replace("[", "_").rstrip("]")


def check(driver, ns, name, model):
    want, table = model.rows(), driver.table(ns, name)
    assert in_pyiceberg(table) == want
    assert in_duckdb(driver.con, table.metadata_location) == want
    meta = driver.metadata(ns, name)
    live = driver.ask(op="live", ns=ns, name=name)
    assert live["ok"], live
    if meta["format-version"] == 3:
        at = 0
        for s in sorted(meta["snapshots"], key=lambda s: s["sequence-number"]):
            assert s["first-row-id"] >= at          # no gap unless snapshots have expired
            at = s["first-row-id"] + s["added-rows"]
        assert meta["next-row-id"] == at
        check_row_ids(driver, table, meta, [f for f in live["files"] if f["content"] == 0], want)
    return table


def make(driver, ns, name, columns=SMALL, rows=5, **more):
    m = Model(columns)
    driver.commit({"ns": ns, "name": name, "create": True, "uri": True, "schema": columns, "insert": [m.make(rows)], **more})
    return m


@pytest.mark.parametrize("version", [3, 2])
def test_a_history_reads_the_same_everywhere(driver, ns, version):
    m = make(driver, ns, "t", ALL, 200, version=version)
    check(driver, ns, "t", m)
    for step in range(6):
        told, hit = m.make(20), m.rng.sample(m.live_files(), min(2, len(m.live_files())))
        dels = {str(n): m.some_positions(n) for n in hit}
        for n, p in dels.items():
            m.delete(int(n), p)
        driver.commit({"ns": ns, "name": "t", "insert": [told], "delete": {n: p for n, p in dels.items() if p}, "summary": {"weir.offset": str(step)},
                       "props": {"weir.offset": str(step)}}, progress={"pipeline": "p", "offset": step + 1})
    table = check(driver, ns, "t", m)
    assert table.properties["weir.offset"] == "5" and len(table.metadata.snapshots) == 7
    assert driver.ask(op="progress", pipeline="p")["offset"] == 6
    driver.commit({"ns": ns, "name": "t", "no_snapshot": True, "expire": 2})
    assert len(check(driver, ns, "t", m).metadata.snapshots) == 2
    driver.commit({"ns": ns, "name": "t", "remove": [m.live_files()[0]]})
    m.files[m.live_files()[0]] = None
    check(driver, ns, "t", m)
    assert driver.ask(op="journal")["files"] == 0 and driver.ask(op="settle")["settled"]


def test_columns_come_and_go(driver, ns):
    m = make(driver, ns, "t", NO_KEY)               # the catalog leaves an empty list of key columns out
    more = schema(*NO_KEY["columns"], column("n", 3, "int"), column("v", 4, "list<float>"), version=2)
    for columns in (more, {**NO_KEY, "version": 3}, {**more, "version": 4}):
        m.columns = columns
        driver.commit({"ns": ns, "name": "t", "schema": columns, "set_current": True, "insert": [m.make(3)]})
        check(driver, ns, "t", m)
    meta = driver.metadata(ns, "t")
    assert [s["schema-id"] for s in meta["schemas"]] == [0, 1] and meta["current-schema-id"] == 1
    two_keys = schema(column("b", 1, "long", 2, False), column("a", 2, "string", 1, False), column("c", 3, "int"))
    driver.commit({"ns": ns, "name": "keys", "create": True, "uri": True, "schema": two_keys, "insert": [[["1", "x", "2"]]]})
    driver.ask(op="forget")
    driver.commit({"ns": ns, "name": "keys", "schema": {**two_keys, "version": 2}, "set_current": True, "no_snapshot": True})
    assert len(driver.metadata(ns, "keys")["schemas"]) == 1


def test_a_load_is_beside_main_until_it_is_published(driver, ns):
    old = make(driver, ns, "t")
    m, more = Model(SMALL), schema(*SMALL["columns"], column("n", 3, "int"), version=2)
    m.columns = more
    driver.commit({"ns": ns, "name": "t", "ref": "weir-load", "restart": True, "schema": more, "insert": [m.make(4)], "summary": {"weir.load": "{}"}})
    driver.commit({"ns": ns, "name": "t", "ref": "weir-load", "insert": [m.make(4)]})
    table = driver.table(ns, "t")
    assert set(table.metadata.refs) == {"main", "weir-load"} and in_pyiceberg(table) == old.rows()
    driver.commit({"ns": ns, "name": "t", "ref": "weir-load", "publish": True, "no_snapshot": True})
    table = check(driver, ns, "t", m)
    assert set(table.metadata.refs) == {"main"}


def test_names_are_changed_swapped_and_dropped(driver, ns):
    a, b, slash = make(driver, ns, "ü x"), make(driver, ns, "100%", rows=7), make(driver, ns, "a/b")
    driver.commit({"ns": ns, "name": "ü x", "rename": [ns, "100%"]}, {"ns": ns, "name": "100%", "rename": [ns, "ü x"]})
    driver.ask(op="forget")
    check(driver, ns, "100%", a), check(driver, ns, "ü x", b), check(driver, ns, "a/b", slash)
    driver.commit({"ns": ns, "name": "100%", "rename": [ns + ".deep.down", "q?x=1&y#z+"]})
    driver.ask(op="forget")
    assert [ns + ".deep.down", "q?x=1&y#z+"] in driver.ask(op="tables")["tables"]
    assert in_pyiceberg(driver.catalog.load_table((ns, "deep", "down", "q?x=1&y#z+"))) == a.rows()
    c = Model(SMALL)                                # a dropped table's name goes to a new one in the same commit
    driver.commit({"ns": ns, "name": "ü x", "drop": True}, {"ns": ns, "name": "tmp", "create": True, "uri": True, "schema": SMALL, "insert": [c.make(2)]})
    driver.ask(op="forget")
    assert sorted(n for s, n in driver.ask(op="tables")["tables"] if s == ns) == ["a/b", "tmp"]
    check(driver, ns, "tmp", c)


def test_a_foreign_commit_is_a_conflict_of_its_own_table(driver, ns):
    names = ["one", "two"]
    models = {n: make(driver, ns, n, version=2) for n in names}
    driver.commit(*({"ns": ns, "name": n, "insert": [models[n].make(2)]} for n in names), progress={"pipeline": "p", "offset": 1})
    driver.table(ns, "two").append(pa.table({"id": pa.array([1000], pa.int64()), "s": ["theirs"]}, schema=pa.schema([pa.field("id", pa.int64(), False), ("s", pa.string())])))
    error, message = driver.fails(*({"ns": ns, "name": n, "insert": [Model(SMALL).make(2)]} for n in names), progress={"pipeline": "p", "offset": 2})
    assert error == "conflict" and f"{ns}.two" in message
    assert len(driver.table(ns, "one").metadata.snapshots) == 2 and driver.ask(op="progress", pipeline="p")["offset"] == 1
    models["two"].files.append([{1: 1000, 2: "theirs"}])
    driver.ask(op="forget")                         # loaded anew the tables take more
    for n in names:
        driver.commit({"ns": ns, "name": n, "insert": [models[n].make(1)]})
        assert in_pyiceberg(driver.table(ns, n)) == models[n].rows()


def test_a_name_that_is_taken_is_told(driver, ns):
    make(driver, ns, "t")
    driver.ask(op="forget")
    error, message = driver.fails({"ns": ns, "name": "t", "create": True, "uri": True, "schema": SMALL, "no_snapshot": True})
    assert error == "exists" and f"{ns}.t" in message


def test_nothing_is_lost_or_doubled_when_requests_and_answers_are(tmp_path, rest, ns):
    with FaultyProxy(("127.0.0.1", rest.port)) as proxy:
        d = RestDriver(tmp_path / "home", rest, f"http://127.0.0.1:{proxy.port}")
        names = ["a", "b", "c"]
        for fault in ("refuse", "lose_answer", "cut_request", "cut_answer"):
            setattr(proxy, fault, 0.08)
        models = {n: make(d, ns, n) for n in names}
        rng = random.Random(proxy.seed)
        for step in range(25):
            some = rng.sample(names, rng.randint(1, 3))
            d.commit(*({"ns": ns, "name": n, "insert": [models[n].make(2)]} for n in some), progress={"pipeline": "p", "offset": step + 1})
            if step % 5 == 4:
                x, y = rng.sample(names, 2)
                d.commit({"ns": ns, "name": x, "rename": [ns, y]}, {"ns": ns, "name": y, "rename": [ns, x]})
                models[x], models[y] = models[y], models[x]
                d.ask(op="forget")
                for n in names:
                    models[n].files = [f for f in models[n].files if f is not None]
        assert sum(proxy.counts[f] for f in ("refuse", "lose_answer", "cut_request", "cut_answer")) > 10
        proxy.quiet()
        for n in names:
            check(d, ns, n, models[n])
        assert d.ask(op="settle")["settled"] and d.ask(op="progress", pipeline="p")["offset"] == 25
        d.close()


@pytest.mark.parametrize("where, landed", [("rest.announced", False), ("rest.committed", True), ("ice.committed", True)])
def test_what_a_killed_process_sent_is_found(tmp_path, rest, ns, where, landed):
    ns = "killed_" + where.replace(".", "_")
    d = RestDriver(tmp_path / "home", rest)
    m = make(d, ns, "t")
    d.close()
    d = RestDriver(tmp_path / "home", rest, env={"WEIR_FAULT": f"{where}:1:kill"})
    told = m.make(3)
    with pytest.raises((EOFError, BrokenPipeError)):
        d.commit({"ns": ns, "name": "t", "insert": [told]}, progress={"pipeline": "p", "offset": 9})
    assert d.p.wait() == -signal.SIGKILL
    if not landed:
        m.files.pop()
    d = RestDriver(tmp_path / "home", rest)
    assert d.ask(op="settle")["settled"] == landed  # what was perhaps not sent may still come
    assert d.ask(op="journal")["files"] > 0
    check(d, ns, "t", m)
    d.commit({"ns": ns, "name": "t", "insert": [m.make(1)]})
    check(d, ns, "t", m)
    assert d.ask(op="settle")["settled"]            # now it cannot
    d.close()
