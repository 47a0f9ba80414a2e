"""Acceptance cases with something between the statements: a sync for each of them (Stepped), a kill -9 after each of them (Killed)."""
import json
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import drive
import run_cases

from . import backend, random_play
from .weir import BINARY

FILES = "warehouse" if backend.MODE == "local" else "cache"          # below the home, where the lake's files are, or pass through


def fault_points():
    """names of the points at which WEIR_FAULT can kill Weir"""
    return subprocess.run([BINARY], capture_output=True, text=True, env={"WEIR_FAULT": "list"}, check=True).stdout.split()


class Stepped(drive.Sut):
    """`sync --until current` after each statement: each is met alone, and the lake is what the source is."""

    def statement(self, case, con, st):
        if re.match(r"\s*(UN)?LOCK TABLES", st, re.I):
            self.locked = not re.match(r"\s*UN", st, re.I)          # nobody else can read the tables meanwhile
        if self.asleep or self.locked:
            return
        self.catch_up(con)
        want = {n: t for n, t in run_cases.snapshot(case, con).items() if not random_play.is_helper(t["lake"][1], ())}      # those are no tables of the lake
        bad = drive.compare(self.o, self.d, case, want)[0]
        assert not bad, "after %s:\n%s" % (st[:200], "\n".join(bad))

    asleep = locked = False

    def fault(self, what):
        self.asleep = what in ("stop", "kill")
        super().fault(what)


class Killed(drive.Sut):
    """A live sync that is killed after each statement and started again, except while the case itself has it stopped. Some kills come at once, some when
    something of the statement has reached queue, state, catalog or warehouse, some when it is in the lake, and some at a fault point in Weir, wherever it
    is then. The moments come from `seed`."""

    def __init__(self, o, vals, d):
        super().__init__(o, vals, d)
        self.rnd, self.asleep, self.armed, self.kills = random.Random(o.seed), False, None, 0
        self.points = fault_points()
        file = Path(d, "weir.yaml")
        config = json.loads(file.read_text())
        config["lake"]["commit"]["every"] = self.rnd.choice(("50ms", "200ms", "1s"))
        file.write_text(json.dumps(config, ensure_ascii=False, indent=1))

    # ---- the process
    def start(self, armed=False):
        env = dict(os.environ)
        self.armed = None
        if armed:
            self.armed = "%s:%d:kill" % (self.rnd.choice(self.points), self.rnd.choice((1, 1, 1, 2, 3, 5, 9)))
            env["WEIR_FAULT"] = self.armed
        self.note("start" + (" armed " + self.armed if armed else ""))
        self.p = subprocess.Popen("exec " + self.cmd(self.o.start), shell=True, stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                  start_new_session=True, env=env)

    def note(self, text):
        self.log.write(("-- %s\n" % text).encode())
        self.log.flush()

    def alive(self):
        if not self.p or self.p.poll() is None:
            return
        if self.p.returncode == -signal.SIGKILL:
            self.start()
        else:
            super().alive()

    def catch_up(self, con):
        if self.armed:
            self.kill()
            self.start()
        self.alive()
        super().catch_up(con)

    def kill(self):
        self.alive_or_killed()
        self.kills += 1
        self.note("kill")
        self.stop(signal.SIGKILL)

    def alive_or_killed(self):
        if self.p and self.p.poll() not in (None, 0, -signal.SIGKILL):
            drive.Sut.alive(self)

    def fault(self, what):
        self.asleep = what in ("stop", "kill")
        if self.armed and what in ("stop", "restart"):
            self.kill()
            self.p = None
            what = {"stop": "kill", "restart": "start"}[what]
        super().fault(what)

    # ---- between two statements
    def statement(self, case, con, st):
        if self.asleep:
            return
        self.note("ran " + " ".join(st.split())[:120])
        moment = self.rnd.choice(("at once", "soon", "seen", "seen", "caught up", "armed", "armed"))
        if moment == "soon":
            time.sleep(self.rnd.uniform(0, 0.3))
        elif moment == "seen":
            self.see(self.rnd.choice(("queue", "state.db", "catalog.db", FILES, FILES)))
        elif moment == "caught up":
            self.catch_up(con)
        elif self.armed:
            self.dead(1.5)
        self.kill()
        self.start(armed=moment == "armed")

    def stamp(self, what):
        """changes when anything below this file or folder does"""
        path = Path(self.d, what)
        files = [f for f in path.rglob("*")] if path.is_dir() else list(path.parent.glob(what + "*"))
        out = []
        for f in files:
            try:
                out.append((str(f), f.stat().st_size, f.stat().st_mtime_ns))
            except OSError:
                pass
        return sorted(out)

    def see(self, what):
        """until something was written there, and a moment longer"""
        before, end = self.stamp(what), time.monotonic() + 1.2
        while self.stamp(what) == before and time.monotonic() < end and self.p.poll() is None:
            time.sleep(0.002)
        time.sleep(self.rnd.choice((0, 0, self.rnd.uniform(0, 0.03))))

    def dead(self, seconds):
        try:
            self.p.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
