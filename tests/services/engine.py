"""What Spark and Flink have in common here: one process of theirs that runs SQL, statement by statement, and dies with ours. A request is a line of
JSON on its input, the answer one on its output; decimals, dates and timestamps are texts, bytes are hex."""
import json
import select
import subprocess
from pathlib import Path

from .base import die_with_parent

ANSWER_SECONDS = 180


class SqlError(Exception):
    """what the engine says against a statement"""


class Engine:
    """dir: of its log and scratch files. catalogs: Iceberg's, {name: {property: value}}"""
    name = None

    def __init__(self, dir, catalogs):
        self.dir, self.catalogs, self.proc = Path(dir).resolve(), catalogs, None

    @classmethod
    def installed(cls):
        raise NotImplementedError

    def argv(self):
        raise NotImplementedError

    def env(self):
        raise NotImplementedError

    @property
    def log(self):
        return self.dir / "log"

    def start(self):
        if not self.installed():
            raise RuntimeError(f"{self.name} is not installed: tools/setup.sh engines")
        self.dir.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as err:
            self.proc = subprocess.Popen([str(a) for a in self.argv()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True, cwd=self.dir,
                                         env=self.env(), start_new_session=True, preexec_fn=die_with_parent)
        self.ask({"catalogs": self.catalogs})
        return self

    def ask(self, request):
        self.proc.stdin.write(json.dumps(request) + "\n")
        self.proc.stdin.flush()
        if not select.select([self.proc.stdout], [], [], ANSWER_SECONDS)[0]:
            raise RuntimeError(f"{self.name} gave no answer within {ANSWER_SECONDS} s to {request}; log {self.log}")
        line = self.proc.stdout.readline()
        if not line:
            tail = self.log.read_text(errors="replace").splitlines()[-20:]
            raise RuntimeError(f"{self.name} ended with status {self.proc.wait()}; log {self.log}:\n" + "\n".join(tail))
        answer = json.loads(line)
        if "error" in answer:
            raise SqlError(f"{self.name}: {answer['error']}")
        return answer

    def sql(self, *statements):
        """-> rows of the last one, tuples"""
        for st in statements:
            answer = self.ask({"sql": st})
        return [tuple(r) for r in answer["rows"]]

    def stop(self):
        """ends with its input"""
        if not self.proc:
            return
        self.proc.stdin.close()
        try:
            self.proc.wait(30)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        self.proc.stdout.close()
        self.proc = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.stop()


def cli(install, argv):
    """python -m services.NAME install"""
    import sys
    if argv != ["install"]:
        print("usage: python -m services.NAME install", file=sys.stderr)
        return 2
    install()
    return 0
