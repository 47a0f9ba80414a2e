"""kill -9 at every named fault point of the program (src/base/include/weir/base/fault.h), in each of the operations that pass it: the next start goes on, and then source and lake are
equal. The source is the model: harness/compare.py compares every row of every table, and the files of each.

The points are those that the binary itself lists, so a new one fails the test until PASSED says which operation passes it (WEIR_FAULT=count tells).

A run prints its seed and every kill, `operation point:n`; WEIR_SEED repeats the same operations and kills in the same order. WEIR_CRASHES=1000 for a long run (default: every point once)."""
import collections
import os
import random
import shutil
import signal
import subprocess
import time

import pytest
from harness import backend, writer
from harness.compare import READERS, assert_equal
from harness.lake import Lake
from harness.weir import BINARY, RUN_SECONDS
from test_compare import planted

SEED = int(os.environ.get("WEIR_SEED", "0"))
CRASHES = int(os.environ.get("WEIR_CRASHES", "0"))
SYNCS = "changes bulk shapes xa torn"

# point -> operations that pass it; "name*9": that often at least in most of them, so that it is killed at a random one of so many passings
PASSED = {
    "capture.commit*5 capture.double*50 capture.lose*50 capture.swap*50 consume.double*50 consume.lose*50": SYNCS,
    "queue.write queue.write.half queue.write.done queue.sync queue.sync.done": SYNCS,
    "queue.cut queue.cut.done io.truncate": f"{SYNCS} repair reload",
    "queue.segment.make queue.segment.made": "load bulk",
    "queue.segment.rename queue.release queue.release.done": "bulk",
    "ice.announced*3 ice.write*12 ice.synced*3 ice.sql*3 ice.commit*3 ice.committed*3 ice.told*3 lake.before_commit*2": f"load {SYNCS} repair reload optimize",
    "ice.puffin*3": SYNCS,
    "lake.before_data_file*4 parquet_write*4 pipeline.after_commit*2": f"load {SYNCS}",
    "lake.run lake.run.header": "load optimize",
    "lake.compact": "optimize",
    "load.after_seal*4 state.migrate state.migrated": "load",
    "state.commit*12 state.committed*12": f"load {SYNCS} repair reload optimize",
    "ledger.commit*4 ledger.committed*4": f"load {SYNCS} repair reload",
    "ledger.read*3": SYNCS,
    "io.write*12 io.write.nospc*12 io.write.torn*12 io.sync*12": f"load {SYNCS} repair reload optimize",
    "io.rename": "load compare repair reload", "io.remove": "compare repair reload",
    "xa.prepare xa.prepared xa.commit xa.committed": "xa",
    "compare.round": "compare repair reload", "compare.checkpoint compare.report compare.reported": "compare",
    "repair.asked repair.read repair.record repair.recorded": "repair reload",
}
REST = {"rest.announced*3 rest.committed*3": SYNCS}
# passed by what is too large for here, or needs another stage: killed at in tests/unit/lake/test_compaction_model.c,
ELSEWHERE = {"ice.expire", "lake.sort"}
ELSEWHERE |= {"gap.noted", "gap.in_queue", "prove.begin"}    # test_source_faults.py,
ELSEWHERE |= {"compare.chunk"}                               # test_compare.py, test_repair.py,
ELSEWHERE |= {"alarm.deliver", "alarm.delivered"}            # tests/unit/alarm/test_alarm.c


def passings(table):
    """-> {point: (operations, passings)}"""
    return {p.split("*")[0]: (ops.split(), int((p.split("*") + ["1"])[1])) for points, ops in table.items() for p in points.split()}


def plan(table, rnd):
    """-> (operation, point, n) without end, at random, but first every point once at its first passing"""
    points = passings(table)
    first = [(rnd.choice(ops), p, 1) for p, (ops, _) in sorted(points.items())]
    rnd.shuffle(first)
    yield from first
    while True:
        p = rnd.choice(sorted(points))
        yield rnd.choice(points[p][0]), p, rnd.randint(1, points[p][1])


SHAPE = "CREATE TABLE shape (id INT PRIMARY KEY, v VARCHAR(20), n INT)"
SHAPES = ["ALTER TABLE shape ADD COLUMN c{k} INT DEFAULT 5", "ALTER TABLE shape MODIFY n BIGINT", "ALTER TABLE shape RENAME COLUMN n TO n2", "ALTER TABLE shape DROP COLUMN v",
          "TRUNCATE TABLE shape", "RENAME TABLE shape TO shape2", "ALTER TABLE shape MODIFY v VARCHAR(10)"]


class Stage:
    """One pipeline over the writer's tables, a partitioned one and one whose shape changes, and what is done to it. An operation prepares the source and returns the command at which Weir
    is killed."""

    def __init__(self, server, db, make_weir, rnd):
        self.server, self.db, self.rnd, self.n = server, db, rnd, 0
        writer.create(server, db, rows=300)
        server.sql("CREATE TABLE parts (id INT PRIMARY KEY, day DATE, v INT)", "INSERT INTO parts VALUES " + ",".join(f"({i}, '2024-01-{i % 28 + 1:02}', {i})" for i in range(600)),
                   "CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(400))", "INSERT INTO plain VALUES " + ",".join(f"({i}, '')" for i in range(1200)), db=db)
        self.config = {"queue": {"bytes": "1MiB"}, "policy": {"on_drop": "mirror"},
                       "lake": {"commit": {"every": "50ms"}, "layout": [{"match": rf"{db}\.parts", "partition": ["bucket(3, id)"]}]}}
        self.weir = make_weir(server, [rf"{db}\..*"], self.config)
        self.lake = Lake(self.weir.home)
        self.busy = writer.Writer(server, db, rnd.random())
        self.weir.catch_up()

    def sql(self, *statements):
        self.server.sql(*statements, db=self.db)

    # ---- operations
    def load(self):
        shutil.rmtree(self.weir.home)
        backend.release(self.weir.home)
        return self.changes()

    def changes(self, transactions=25):
        with self.busy.con.cursor() as cur:
            for _ in range(transactions):
                for _ in range(self.rnd.choice((1, 1, 2, 20))):
                    self.busy.change(cur)
                self.busy.con.commit()
        k = self.rnd.randrange(600)
        self.sql(f"UPDATE parts SET v = v + 1, id = id + 1000 WHERE id = {k}", f"DELETE FROM parts WHERE id BETWEEN {k + 3} AND {k + 20}",
                 f"INSERT IGNORE INTO parts SELECT id + 5000, day, v FROM parts WHERE id BETWEEN {k + 21} AND {k + 60}")
        return ["sync", "--until", "current"]

    def bulk(self):
        """so much that the queue's segments roll"""
        self.n += 1
        noise = ", ".join(f"SHA2(CONCAT(id, '-{self.n}-{i}'), 256)" for i in range(6))
        self.sql(f"UPDATE plain SET v = CONCAT({noise})", "UPDATE plain SET v = REVERSE(v)", f"UPDATE plain SET v = '{self.n}'", "DELETE FROM by_id WHERE id > 3000",
                 "DELETE FROM by_text WHERE code LIKE 'k%'")
        return self.changes()

    def shapes(self):
        self.n += 1
        self.sql("DROP TABLE IF EXISTS shape, shape2", SHAPE, "INSERT INTO shape VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 3)")
        self.weir.catch_up()
        self.sql("UPDATE shape SET n = n + 10", self.rnd.choice(SHAPES).format(k=self.n))
        return self.changes(5)

    def xa(self):
        """one was prepared in an earlier run, one is prepared and committed in this"""
        self.n += 1
        with self.server.connect(database=self.db, autocommit=True) as con, con.cursor() as cur:
            for s in (f"XA START 'x{self.n}'", f"INSERT INTO keyless VALUES ({self.n}, 'xa')", f"XA END 'x{self.n}'", f"XA PREPARE 'x{self.n}'"):
                cur.execute(s)
        self.weir.catch_up()
        self.sql(f"XA COMMIT 'x{self.n}'")
        self.n += 1
        with self.server.connect(database=self.db, autocommit=True) as con, con.cursor() as cur:
            for s in (f"XA START 'x{self.n}'", f"INSERT INTO keyless VALUES ({self.n}, 'xa')", f"XA END 'x{self.n}'", f"XA PREPARE 'x{self.n}'", f"XA COMMIT 'x{self.n}'"):
                cur.execute(s)
        return self.changes(2)

    def torn(self):
        """what is behind the last whole block of the queue is cut off at the start"""
        self.changes()
        self.weir.catch_up_and_die("queue.write.half:1")
        return ["sync", "--until", "current"]

    def compare(self):
        self.changes(5)
        return ["compare"]

    def repair(self):
        self.damage("UPDATE by_id SET note = 'planted {n}' WHERE id < 20", "DELETE FROM by_text LIMIT 2")
        return ["repair", "--apply"]

    def reload(self):
        self.damage()
        return ["repair", "--reload", f"{self.db}.keyless", "--apply"]

    def damage(self, *more):
        self.weir.catch_up()
        self.n += 1
        planted(self.server, self.db, f"UPDATE keyless SET b = 'p{self.n}' LIMIT 3", *[s.format(n=self.n) for s in more])
        self.weir.run("compare", status=1)

    def optimize(self):
        for _ in range(2):
            self.changes(3)
            self.weir.catch_up()
        return ["optimize", "--all"]

    # ---- a kill, and what is after it
    def die(self, args, point, n):
        """-> whether it got there"""
        p = subprocess.run([BINARY, args[0], "-c", self.weir.file, *args[1:]], capture_output=True, text=True, errors="replace", timeout=RUN_SECONDS, stdin=subprocess.DEVNULL,
                           env={**self.weir.env, "WEIR_FAULT": f"{point}:{n}:kill"})
        assert p.returncode in (0, -signal.SIGKILL), f"{args} {point}:{n}:\n{p.stdout}{p.stderr}status {p.returncode}"
        return p.returncode != 0

    def go_on(self, args):
        """-> seconds until the lake had everything"""
        began = time.monotonic()
        self.weir.catch_up()
        took = time.monotonic() - began
        if args[0] in ("compare", "repair"):
            self.weir.run(*args)
        return took

    def tables(self):
        return sorted(t for (t,) in self.server.sql(f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{self.db}'"))

    def check(self, readers):
        assert_equal(self.server, self.lake, self.db, self.tables(), readers=readers)
        self.weir.assert_accounted()


def crash(stage, steps, kills, points):
    """-> kills at each point"""
    hits, slowest = collections.Counter(), 0
    while sum(hits.values()) < kills or not points <= set(hits):
        op, point, n = next(steps)
        if sum(hits.values()) >= kills and point in hits:
            continue
        print(f"{op} {point}:{n}", end=" ", flush=True)
        args = getattr(stage, op)()
        if not stage.die(args, point, n):
            print("not passed")
            continue
        hits[point] += 1
        took = stage.go_on(args)
        slowest = max(slowest, took)
        stage.check(READERS if sum(hits.values()) % 20 == 0 else [READERS[sum(hits.values()) % 2]])
        print(f"killed, went on in {took:.2f} s")
    print(f"{sum(hits.values())} kills, the slowest next run took {slowest:.2f} s: {dict(sorted(hits.items()))}")
    return hits


@pytest.mark.local_lake("has lakes of its own")
def test_no_point_is_forgotten():
    listed = set(subprocess.run([BINARY], capture_output=True, text=True, env={"WEIR_FAULT": "list"}, check=True).stdout.split())
    assert listed == passings(PASSED).keys() | passings(REST).keys() | ELSEWHERE


@pytest.mark.one_server
@pytest.mark.local_lake("has lakes of its own")
@pytest.mark.parametrize("lake", ["sqlite", "rest"])
def test_killed_at_every_point(server, db, make_weir, monkeypatch, lake):
    table = {"sqlite": PASSED, "rest": REST}[lake]
    print(f"\nWEIR_SEED={SEED} WEIR_CRASHES={CRASHES}")
    if lake == "rest":
        monkeypatch.setattr(backend, "MODE", "rest")
    stage = Stage(server, db, make_weir, random.Random(f"{SEED} {lake}"))
    steps = plan(table, random.Random(f"{SEED} {lake} plan"))
    hits = crash(stage, steps, CRASHES if lake == "sqlite" else CRASHES // 20, set(passings(table)))
    assert hits.keys() == passings(table).keys()
