"""Faults of the lake's side: an object store and a catalog that fail (F9), and others who commit to the tables (F10).

Scaled down and on one server unless WEIR_FAULTS=full; WEIR_SEED repeats one."""
import json
import os
import threading
import time

import pytest
from harness import backend, load, wait_until
from harness.compare import assert_equal, differences
from harness.lake import Lake
from harness.share import FULL
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.types import IntegerType

pytestmark = pytest.mark.one_server
SEED = int(os.environ["WEIR_SEED"])
FOREIGN = "somebody else committed to"
OVERTAKEN = (CommitFailedException, ValidationException, FileNotFoundError)


# ---------------------------------------------------------------- F9
@pytest.fixture
def faulty(monkeypatch):
    monkeypatch.setattr(backend, "MODE", "faulty")


def offsets(table):
    """of Weir's commits, in order; compactions repeat the one before"""
    return [int(s.summary["weir.offset"]) for s in table.snapshots() if s.summary and s.summary.operation.value != "replace" and "weir.offset" in s.summary.additional_properties]


@pytest.mark.local_lake("has lakes of its own")
def test_a_store_that_fails(server, db, make_weir, faulty, tmp_path, monkeypatch):
    """Under load, store and catalog answer a fifth of the requests with 503, then all of them for three minutes, then cut connections when a request is carried out and before it is answered, so that
    nobody knows whether a commit came to be. In the end source and lake are equal, no file is referenced twice, and no commit was made twice: what is not known is looked up."""
    load.create(server, db, rows=300)
    w = make_weir(server, [rf"{db}\..*"])
    lake, proxies = Lake(w.home), {"S3": backend.s3_proxy(), "REST": backend.rest_proxy(w.home)}
    for p in proxies.values():
        for fault in backend.FAULTS:
            if fault != "stall_seconds":
                monkeypatch.setattr(p, fault, 0.0)
    with load.Load(server, db, SEED, tmp_path / "journal", per_second=300 if FULL else 100, ddl_every=30 if FULL else 10) as busy:
        w.start()
        w.wait(120)
        for fault, share, seconds in (("refuse", 0.2, 120 if FULL else 12), ("refuse", 1.0, 180 if FULL else 15), ("lose_answer", 0.3, 120 if FULL else 20)):
            before, offset = {n: p.counts[fault] for n, p in proxies.items()}, w.status()["queue"]["committed_offset"]
            for p in proxies.values():
                monkeypatch.setattr(p, fault, share)
            time.sleep(seconds)                 # of the fault
            if share < 1:
                wait_until(lambda: w.status()["queue"]["committed_offset"] > offset, 120, f"commits although {share:.0%} of the requests meet {fault}")
            elif FULL:
                assert "lake.failing" in {a["kind"] for a in w.status()["alarms"]}
            for p in proxies.values():
                monkeypatch.setattr(p, fault, 0.0)
            assert w.running, w.log_text()
            print(f"{fault} {share:.0%}:", {n: p.counts[fault] - before[n] for n, p in proxies.items()})
            assert all(p.counts[fault] > before[n] for n, p in proxies.items()) if share < 1 else any(p.counts[fault] > before[n] for n, p in proxies.items())       # a catalog that is away keeps others from being asked
        assert busy.is_alive(), busy.error
    w.wait(180)
    w.stop()
    assert_equal(server, lake, db, load.TABLES)
    assert not busy.journalled() - set(lake.table(db, "ticks").scan().to_arrow()["id"].to_pylist())
    for t in load.TABLES:
        told = offsets(lake.table(db, t))
        assert told == sorted(set(told)) and len(told) > 2, f"{t}: commits of these offsets: {told}"
    for a in w.ledger()[1] if FULL else ():     # three minutes without a commit are told, and rightly
        assert "has committed nothing" in json.dumps(a), a
        w.run("ledger", "--acknowledge", a["id"], "--why", "the store was away")


# ---------------------------------------------------------------- F10
class Other(threading.Thread):
    """Another client of the catalog (PyIceberg), which does something to the tables again and again; what it is overtaken with it leaves."""

    def __init__(self, lake, db, what, every):
        super().__init__(daemon=True)
        self.lake, self.db, self.what, self.every = lake, db, what, every
        self.halt, self.done, self.overtaken, self.error = threading.Event(), 0, 0, None

    def run(self):
        names = list(load.CHANGED)
        while not self.halt.wait(self.every):
            try:
                self.what(self.lake.table(self.db, names[(self.done + self.overtaken) % len(names)]))
                self.done += 1
            except OVERTAKEN:
                self.overtaken += 1
            except Exception as e:
                self.error = e
                return

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.halt.set()
        self.join(60)


def rewrite(table):
    """the table's rows into new files"""
    table.overwrite(table.scan().to_arrow())


def expire(table):
    """every snapshot but those that are a branch's head"""
    heads = {r.snapshot_id for r in table.refs().values()}
    old = [s.snapshot_id for s in table.snapshots() if s.snapshot_id not in heads]
    if old:
        table.maintenance.expire_snapshots().by_ids(old).commit()


@pytest.fixture(params=["sqlite", "rest"])
def catalog(request, monkeypatch):
    monkeypatch.setattr(backend, "MODE", {"sqlite": "local", "rest": "rest"}[request.param])


def followed(server, db, make_weir):
    """a load's tables in the lake, as PyIceberg can write them; at full size with commits as seldom as usual, for PyIceberg takes seconds to rewrite a table that has grown, and loses to every commit of meanwhile"""
    load.create(server, db, rows=300)
    return make_weir(server, [rf"{db}\..*"], {"lake": {"format_version": 2, "commit": {"every": "10s" if FULL else "1s"}}})


@pytest.mark.local_lake("has lakes of its own")
@pytest.mark.parametrize("what", [rewrite, expire], ids=lambda f: f.__name__)
def test_others_rewrite_or_expire_what_is_written(server, db, make_weir, catalog, tmp_path, what):
    """While Weir writes, another client rewrites a table's files, or expires its snapshots, every few seconds. Weir tries again and goes on by itself; in the end source and lake are equal."""
    w = followed(server, db, make_weir)
    lake = Lake(w.home)
    w.start()
    w.wait()
    with load.Load(server, db, SEED, tmp_path / "journal", per_second=100, ddl_every=10) as busy, Other(lake, db, what, 5 if FULL else 1.5) as other:
        wait_until(lambda: other.error or not w.running or other.done >= (60 if FULL else 8), 1800 if FULL else 600, "what the other client does")
        assert busy.is_alive(), busy.error
    assert not other.error, repr(other.error)
    w.wait(180)
    assert w.running, w.log_text()
    w.stop()
    print(f"\n{other.done} times {what.__name__}, {other.overtaken} times overtaken; Weir met {w.log_text().count(FOREIGN)} foreign commits")
    if what is rewrite:
        assert FOREIGN in w.log_text()
    assert_equal(server, lake, db, load.TABLES, dangling=True)
    w.run("compare")


@pytest.mark.local_lake("has lakes of its own")
def test_a_stop_that_meets_a_foreign_commit_is_no_failure(server, db, make_weir, catalog):
    """SIGTERM, and the last commit finds that somebody else committed to its table. The stop says what is not in the lake yet and ends with 0; the next start brings it."""
    w = followed(server, db, make_weir)
    w.config["lake"]["commit"]["every"] = "1h"
    w.write()
    lake = Lake(w.home)
    w.catch_up()
    server.sql("UPDATE w0 SET n = n + 1 WHERE id < 90", db=db)
    w.catch_up()
    w.start()
    w.at_work()
    before = len(lake.table(db, "w0").scan().to_arrow())
    server.sql("INSERT INTO w0 (id, n) VALUES (900001, 1)", "UPDATE w0 SET n = n + 1 WHERE id < 50", db=db)
    wait_until(lambda: w.status()["rows_applied"] >= 8, 60, "changes that are applied")
    rewrite(lake.table(db, "w0"))
    w.stop()
    assert "stopping without this commit: the next start goes on from the last one" in w.log_text()
    assert len(lake.table(db, "w0").scan().to_arrow()) == before
    w.catch_up()
    assert len(lake.table(db, "w0").scan().to_arrow()) == before + 1
    assert_equal(server, lake, db, load.TABLES)     # the deletes that PyIceberg left without their files are gone, too


@pytest.mark.local_lake("has lakes of its own")
def test_others_change_what_the_lake_holds(server, db, make_weir, catalog):
    """Another client deletes and adds rows by hand, and a column. Weir says that somebody else committed; the comparison names the rows, and a repair makes the tables equal again. The column ends the
    sync with a message that names it and what to do."""
    load.create(server, db, rows=300)
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"format_version": 2}})
    lake = Lake(w.home)
    w.start()
    w.wait()
    table = lake.table(db, "w0")
    copy = table.scan(row_filter="id = 70").to_arrow()
    table.delete("id IN (7, 14, 21)")
    lake.table(db, "w0").append(copy.set_column(copy.schema.get_field_index("id"), copy.schema.field("id"), [[5_000_000]]))
    server.sql("UPDATE w0 SET n = n + 1 WHERE id = 28", db=db)         # Weir's next commit meets them
    w.wait()
    assert FOREIGN in w.log_text() and w.running, w.log_text()
    found = differences(server, lake, db, ["w0"], readers=["pyiceberg"], dangling=True)
    assert found
    w.run("compare", status=1).says(r"DIFFERENT +%s\.w0" % db, "3 rows are missing in the lake, 1 are there and should not be", "id=7 ", "id=14 ", "id=21 ", "id=5000000 ")
    w.run("repair", "--apply", "--why", "somebody deleted rows").says(r"compared again: %s\.w0 EQUAL" % db)
    w.wait()
    assert_equal(server, lake, db, load.TABLES, dangling=True)
    with lake.table(db, "w5").update_schema() as schema:
        schema.add_column("theirs", IntegerType())
    server.sql("UPDATE w5 SET n = n + 1", db=db)
    w.ended(60).says("somebody else changed the columns", "theirs is new", "w5")
    w.catch_up(status=1).says("theirs", "w5")
    w.run("status").says("theirs")
    with lake.table(db, "w5").update_schema() as schema:
        schema.delete_column("theirs")
    w.catch_up()
    assert_equal(server, lake, db, load.TABLES, dangling=True)
    w.run("compare")
