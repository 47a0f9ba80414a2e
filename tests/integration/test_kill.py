"""kill -9 at random moments, during the snapshot and while streaming, with a writer going: nothing lost, nothing doubled, no
half transaction ever visible.

WEIR_KILLS=200 for a long run (default 12 for each server), WEIR_SEED to repeat one."""
import os
import random
import time

import pytest
from harness import writer
from harness.compare import assert_equal
from harness.lake import Lake

KILLS = int(os.environ.get("WEIR_KILLS", "12"))
SEED = int(os.environ["WEIR_SEED"])


def kill_at_random(weir, rnd, longest):
    """one start and one kill; the moment is random on purpose, hence the only sleep of these tests"""
    delay = rnd.uniform(0.01, longest)
    weir.start()
    time.sleep(delay)
    if not weir.running:
        raise AssertionError(f"sync ended by itself within {delay:.2f} s:\n{weir.ended()!r}")
    weir.kill()


def readable(lake, db):
    """whatever moment it was, the lake can be read: -> tables that are there"""
    if not lake.exists():
        return set()
    names = {t for ns, t in lake.tables() if ns == db}
    for name in names:
        lake.table(db, name).scan().to_arrow()
    return names


def finish(server, db, weir, lake):
    weir.start()
    weir.wait(seconds=120)
    weir.stop()
    assert_equal(server, lake, db, writer.TABLES)
    odd = [(i, n) for i, n in lake.history_counts(db, "twins") if n % 2]
    assert not odd, f"snapshots of twins that hold half a transaction (id, rows): {odd}"


@pytest.mark.parametrize("phase", ["snapshot", "streaming", "tiny commits"])
def test_kill_9(server, db, make_weir, phase):
    print(f"\nWEIR_SEED={SEED} WEIR_KILLS={KILLS}")
    rnd = random.Random(f"{SEED} {phase}")
    writer.create(server, db, rows=30000 if phase == "snapshot" else 2000)
    config = {"snapshot": {"rows_per_second": 40000}} if phase == "snapshot" else {}
    if phase == "tiny commits":
        config = {"lake": {"commit": {"every": "100ms"}}}
    weir = make_weir(server, [rf"{db}\..*"], config)
    lake = Lake(weir.home)
    if phase != "snapshot":
        weir.catch_up()
    with writer.Writer(server, db, SEED) as busy:
        for n in range(KILLS):
            kill_at_random(weir, rnd, 1.5)
            if n % 4 == 3:
                readable(lake, db)
        assert busy.is_alive() or busy.error is None
    finish(server, db, weir, lake)


def test_kill_9_of_the_source(own_server, make_weir):
    """the server dies and comes back; sync reconnects by itself or stops loudly and goes on at the next start"""
    server, db = own_server(), "crash"
    server.sql(f"CREATE DATABASE {db}")
    writer.create(server, db, rows=500)
    weir = make_weir(server, [rf"{db}\..*"])
    weir.start()
    weir.wait()
    for i in range(2):
        server.kill()
        server.start()
        server.sql(f"INSERT INTO keyless VALUES ({i}, 'after')", db=db)
    if not weir.running:
        assert weir.ended().says("127.0.0.1").status != 0
        weir.start()
    weir.wait(seconds=120)
    weir.stop()
    assert_equal(server, Lake(weir.home), db, writer.TABLES)


def test_a_load_that_was_whole_when_its_process_died_shows_on_an_idle_server(server, db, make_weir):
    """between its last commit and the one that publishes it: nothing in the stream would bring that about"""
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1), (2)")
    w = make_weir(server, [rf"{db}\..*"])
    assert w.catch_up_and_die("lake.before_commit:2")
    assert Lake(w.home).count(db, "t") == 0
    w.start()
    w.wait()
    assert Lake(w.home).count(db, "t") == 2
