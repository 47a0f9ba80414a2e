"""Weir as a user runs it: a weir.yaml and the binary."""
import copy
import functools
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from services import ROOT

from . import backend

BINARY = Path(os.environ.get("WEIR_BINARY", ROOT / "build" / "weir"))
PASSWORD_ENV = "WEIR_TEST_PASSWORD"
RUN_SECONDS = 600 if backend.MODE == "faulty" else 180


@functools.cache
def sanitized():
    """whether BINARY was built with a sanitizer: it takes memory and time of its own, and signals"""
    built = BINARY.read_bytes()
    return b"__asan_init" in built or b"__tsan_init" in built


class Result:
    """one finished run of the binary"""

    def __init__(self, argv, status, out, err):
        self.argv, self.status, self.out, self.err = argv, status, out, err

    def __repr__(self):
        return f"$ {' '.join(map(str, self.argv))}\n{self.out}{self.err}status {self.status}"

    def says(self, *patterns):
        """asserts that each pattern (case ignored) occurs in the output; -> self"""
        for p in patterns:
            assert re.search(p, self.out + self.err, re.I), f"nothing matches /{p}/ in:\n{self!r}"
        return self

    def lacks(self, *patterns):
        """asserts that no pattern (case ignored) occurs in the output; -> self"""
        for p in patterns:
            assert not re.search(p, self.out + self.err, re.I), f"/{p}/ matches in:\n{self!r}"
        return self


def merged(base, over):
    """over laid on base, dict by dict; neither is changed"""
    out = copy.deepcopy(base)
    for k, v in over.items():
        out[k] = merged(out[k], v) if isinstance(v, dict) and isinstance(out.get(k), dict) else v
    return out


class Weir:
    """One pipeline. `dir` holds weir.yaml and the log of the live sync, `home` is Weir's own folder.

    config  laid over the usual configuration, e.g. {"lake": {"commit": {"every": "1h"}}}
    """

    def __init__(self, server, dir, capture, config=None, user="weir", password="weir"):
        self.dir = Path(dir)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.home = self.dir / "home"
        self.file, self.log = self.dir / "weir.yaml", self.dir / "sync.log"
        self.password, self.proc, self.mark, self.died = password, None, 0, False      # died: the last sync was killed
        self.before_exec = None         # called in the process of a live sync and of run(), e.g. to limit it
        usual = {"name": "test", "home": str(self.home), "source": {"url": server.url(user), "password_env": PASSWORD_ENV, "capture": capture},
                 "lake": {"commit": {"every": "1s"}}}
        self.config = merged(merged(usual, backend.config(self.home)), config or {})
        self.write()

    def write(self):
        self.file.write_text(json.dumps(self.config, indent=1, ensure_ascii=False))

    @property
    def env(self):
        return {**os.environ, **backend.env(), PASSWORD_ENV: self.password, "NO_COLOR": "1"}

    # ---- commands that end by themselves
    def run(self, command, *args, status=0, seconds=RUN_SECONDS):
        """`weir COMMAND -c FILE ARGS…`; asserts the exit status (a number, a collection, or None for any)"""
        argv = [BINARY, command, "-c", self.file, *args]
        p = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=seconds, env=self.env, stdin=subprocess.DEVNULL, preexec_fn=self.before_exec)
        r = Result(argv, p.returncode, p.stdout, p.stderr)
        assert p.returncode >= 0, f"died of signal {-p.returncode}:\n{r!r}"
        if status is not None:
            assert p.returncode in ([status] if isinstance(status, int) else status), repr(r)
        return r

    def check(self, **kw):
        return self.run("check", **kw)

    def catch_up(self, **kw):
        """sync --until current"""
        self.died = False
        return self.run("sync", "--until", "current", **kw)

    def catch_up_and_die(self, fault):
        """the same, killed at a fault point ("rest.committed:2": at its second passing); -> whether it got there"""
        return self.die(fault, "sync", "--until", "current")

    def die(self, fault, command, *args):
        """another command, killed at a fault point; -> whether it got there"""
        p = subprocess.run([BINARY, command, "-c", self.file, *args], capture_output=True, text=True, errors="replace", timeout=RUN_SECONDS,
                           env={**self.env, "WEIR_FAULT": f"{fault}:kill"}, stdin=subprocess.DEVNULL)
        assert p.returncode in (0, -signal.SIGKILL), f"{fault}:\n{p.stdout}{p.stderr}status {p.returncode}"
        self.died = p.returncode != 0
        return p.returncode != 0

    def wait(self, seconds=60, **kw):
        return self.run("wait", "--timeout", str(seconds), seconds=seconds + 30, **kw)

    def status(self):
        return json.loads(self.run("status", "--json").out)

    def rows_loaded(self):
        """by the load that is under way or was the last; 0 before any"""
        return self.status().get("load", {}).get("rows", 0) if (self.home / "status.json").exists() else 0

    def sql(self, query):
        return self.run("sql", query).out

    def ledger(self, *args):
        """-> (lines of minutes, alarms, totals)"""
        return self._ledger_of(self.run("ledger", "--json", *args, status=(0, 1)))

    @staticmethod
    def _ledger_of(told):
        found = [json.loads(line) for line in told.out.splitlines()]
        return [x for x in found if "minute" in x and "captured" in x], [x for x in found if "alarm" in x], found[-1]

    def assert_accounted(self):
        """After whatever a test did: every change that was counted as captured passed every other point too, and nothing is an alarm. A killed process leaves
        what it captured in its last second to be counted by the next one."""
        if self.proc or not (self.home / "ledger.db").exists():
            return
        told = self.run("ledger", "--json", status=(0, 1))
        if "there is no ledger" in told.err:        # it died while it began its first one
            return
        lines, alarms, _ = self._ledger_of(told)
        assert not alarms, f"the ledger: {alarms}"
        for x in [] if self.died else lines:
            assert x["captured"] == x["queued"] >= x["consumed"] >= x["passed"] + x["written"], f"the ledger: {x}"

    # ---- the live sync
    def start(self):
        assert not self.proc, "a sync is already running"
        self.died = False
        with open(self.log, "ab") as out:
            self.mark = out.tell()
            self.proc = subprocess.Popen([BINARY, "sync", "-c", self.file], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                         env=self.env, start_new_session=True, preexec_fn=self.before_exec)
        return self

    def at_work(self, seconds=30):
        """waits until the live sync hears from its source; -> seconds it took, None when it ended instead"""
        began = time.monotonic()
        while self.running:
            try:
                s = json.loads((self.home / "status.json").read_text())
                if s["pid"] == self.proc.pid and s["state"] not in ("starting", "reconnecting"):
                    return time.monotonic() - began
            except (OSError, ValueError):
                pass
            assert time.monotonic() - began < seconds, f"not at work {seconds} s after its start:\n{self.log_text()}"
            time.sleep(0.02)

    @property
    def running(self):
        return self.proc is not None and self.proc.poll() is None

    def log_text(self):
        """of the last start()"""
        return self.log.read_bytes()[self.mark:].decode(errors="replace") if self.log.exists() else ""

    def ended(self, seconds=RUN_SECONDS):
        """waits until the live sync has ended by itself; -> Result"""
        status = self.proc.wait(seconds)
        argv, self.proc = self.proc.args, None
        return Result(argv, status, self.log_text(), "")

    def stop(self):
        """SIGTERM: the commit in hand is finished and the status is 0"""
        if not self.proc:
            return
        self.proc.send_signal(signal.SIGTERM)
        r = self.ended(60)
        assert r.status == 0, f"sync did not end with 0 at SIGTERM:\n{r!r}"

    def kill(self):
        """SIGKILL, as a crash; -> whether it was still running"""
        if not self.proc:
            return False
        was_running = self.died = self.running
        self.proc.kill()
        self.proc.wait()
        self.proc = None
        return was_running
