"""What servers of tests have in common (Server: folder, port, start, stop), and what MariaDB and MySQL do (Instance: template data, access)."""
import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pymysql

from . import CACHE, ports

USER, PASSWORD = "weir", "weir"     # an administrator; tests that care about rights make their own users
START_SECONDS, STOP_SECONDS = 60, 60
PR_SET_PDEATHSIG = 1


def log(text):
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(name):
    """one process at a time, e.g. for installing"""
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / f".{name}.lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def birth(pid):
    """the process's start time in clock ticks; tells our process from a later one with the same pid. None: gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def die_with_parent():
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def options(cnf):
    """dict -> text of an option file; None leaves an option out"""
    return "".join(f"{k}\n" if v == "" else f"{k}={v}\n" for k, v in cnf.items() if v is not None)


class Server:
    """One process in one folder, on a port of 127.0.0.1.

    dir      everything of it: data, configuration, log, instance.json (pid, start time, port)
    port     None: a free one at first start, the same one after that
    owned    True: the server dies with this process, however this process ends
    """
    flavor = None
    more_verbs = {}         # of the command line: {verb: what it does}

    def __init__(self, dir, port=None, owned=False):
        self.dir = Path(dir).resolve()
        self.state_file = self.dir / "instance.json"
        self.port = port or self._state().get("port")
        self.owned = owned
        self.proc = self.lock_fd = None

    # ---- for the kinds of servers
    def install(self):
        """make the software available; quick when it is"""
        raise NotImplementedError

    def server_argv(self):
        raise NotImplementedError

    def server_env(self):
        """None: ours"""
        return None

    def ask(self):
        """raises one of self.not_yet while the server does not answer"""
        raise NotImplementedError
    not_yet = (OSError,)

    def describe(self):
        """a line for who started it by hand"""
        raise NotImplementedError

    def lock_ports(self):
        self.port, self.lock_fd = ports.lock(self.port)

    def locks(self):
        return (self.lock_fd,)

    # ---- files
    @property
    def error_log(self):
        return self.dir / "log"

    def _state(self):
        try:
            return json.loads(self.state_file.read_text())
        except (OSError, ValueError):
            return {}

    def state(self):
        """what is noted beside the process, for the next object of this folder"""
        return {}

    # ---- life
    @property
    def pid(self):
        """of the running server, else None"""
        st = self._state()
        return st["pid"] if st.get("pid") and birth(st["pid"]) == st["birth"] else None

    def start(self):
        """Returns self once the server answers."""
        if not self.pid:
            self.install()
            self.dir.mkdir(parents=True, exist_ok=True)
            self.launch()
        return self

    def launch(self):
        if self.lock_fd is None:
            self.lock_ports()
        with open(self.error_log, "ab") as out:
            self.proc = subprocess.Popen(self.server_argv(), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                                         env=self.server_env(), pass_fds=self.locks(), preexec_fn=die_with_parent if self.owned else None)
        self.state_file.write_text(json.dumps({"flavor": self.flavor, "pid": self.proc.pid, "birth": birth(self.proc.pid), "port": self.port,
                                               **self.state()}))
        self._await_answer()

    def _await_answer(self):
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.ask()
            except self.not_yet as e:       # not listening yet; a socket gives no event to wait for
                why = e
            if self.proc.poll() is not None or time.monotonic() > end:
                tail = self.error_log.read_text(errors="replace").splitlines()[-15:]
                self.stop()
                raise RuntimeError(f"{self.flavor} did not start ({why}); log {self.error_log}:\n" + "\n".join(tail))
            time.sleep(0.02)

    def _signal(self, sig, seconds):
        pid = self.pid
        if not pid:
            return
        fd = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(fd, sig)
            self._await_exit(fd, seconds)
        finally:
            os.close(fd)
        if self.proc:
            self.proc.wait()

    @staticmethod
    def _await_exit(fd, seconds):
        import select
        if not select.select([fd], [], [], seconds)[0]:
            log(f"the server ignored the signal for {seconds} s: killing it")
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            select.select([fd], [], [], 10)

    def stop(self):
        """orderly; returns when the process is gone"""
        self._signal(signal.SIGTERM, STOP_SECONDS)
        self._unlock()

    def kill(self):
        """SIGKILL, as a crash"""
        self._signal(signal.SIGKILL, 10)
        self._unlock()

    def _unlock(self):
        if self.lock_fd is not None:
            for fd in self.locks():
                os.close(fd)
            self.lock_fd = None

    def wipe(self):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.stop()


class Instance(Server):
    """One MariaDB or MySQL server.

    cnf      dict of server options on top of (or None: without) the usual ones
    durable  True: fsync as in production. The default survives a kill of the server, not a power cut.
    """
    section = None
    more_verbs = {"sql": "run one statement"}
    not_yet = (pymysql.err.OperationalError,)

    def __init__(self, dir, port=None, cnf=None, durable=False, owned=False):
        super().__init__(dir, port, owned)
        self.cnf = dict(self._state().get("cnf", {}) if cnf is None else cnf)
        self.durable = durable

    # ---- for the flavours
    def usual_cnf(self):
        raise NotImplementedError

    def initialize(self):
        """make an empty data folder in self.data"""
        raise NotImplementedError

    def load_time_zones(self):
        raise NotImplementedError

    def version(self):
        """of the software, as a word for a folder name"""
        raise NotImplementedError

    def forget_identity(self):
        """remove from self.data what must differ between copies of a template"""

    # ---- files
    @property
    def data(self):
        return self.dir / "data"

    @property
    def socket(self):
        s = str(self.dir / "s")
        return s if len(s) < 100 else os.path.join(tempfile.gettempdir(), f".weir-{self.port}.sock")    # sun_path ends at 108

    def state(self):
        return {"cnf": self.cnf}

    def describe(self):
        return f"{self.flavor} on 127.0.0.1:{self.port}, user {USER}, password {PASSWORD}"

    def write_cnf(self, cnf):
        fsync = 1 if self.durable else 0
        common = {"datadir": self.data, "tmpdir": self.dir / "tmp", "socket": self.socket, "port": self.port,
                  "bind_address": "127.0.0.1", "server_id": self.port, "character_set_server": "utf8mb4",
                  "max_allowed_packet": "256M", "local_infile": "ON", "skip_name_resolve": "ON", "performance_schema": "OFF",
                  "log_bin": "binlog", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL",
                  "innodb_buffer_pool_size": "64M", "innodb_flush_log_at_trx_commit": fsync or 2, "sync_binlog": fsync}
        (self.dir / "tmp").mkdir(parents=True, exist_ok=True)
        (self.dir / "my.cnf").write_text(f"[{self.section}]\n" + options({**common, **self.usual_cnf(), **cnf}))

    # ---- life
    def launch(self):
        """Data come from a template, made at the first use of this software version."""
        if not self.data.exists():
            self._copy_template()
        self._launch(self.cnf)

    def _launch(self, cnf):
        if self.lock_fd is None:
            self.lock_ports()
        self.write_cnf(cnf)
        super().launch()

    def ask(self):
        self.admin().close()

    # ---- template
    def _copy_template(self):
        template = CACHE / "template" / f"{self.flavor}-{self.version()}"
        with locked(f"template-{self.flavor}"):
            if not template.exists():
                self._make_template(template)
        tmp = self.data.with_name("data.new")
        shutil.rmtree(tmp, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=always", template, tmp], check=True)
        tmp.rename(self.data)

    def _make_template(self, template):
        log(f"making the template data folder of {self.flavor} {self.version()} (once)")
        template.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="weir-", dir=CACHE) as d:
            maker = type(self)(d, owned=True)
            maker.port, maker.lock_fd = ports.lock()
            maker.initialize()
            maker._launch({"log_bin": None, "skip_log_bin": ""})        # nothing of this belongs to any instance's history
            try:
                maker.load_time_zones()
                with maker.admin() as con, con.cursor() as cur:
                    cur.execute(f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'")
                    cur.execute(f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION")
            finally:
                maker.stop()
            maker.forget_identity()
            maker.data.rename(template)

    # ---- access
    def url(self, user=USER):
        """for weir.yaml"""
        return f"mysql://{user}@127.0.0.1:{self.port}"

    @property
    def dsn(self):
        """with the password, for the case driver"""
        return f"mysql://{USER}:{PASSWORD}@127.0.0.1:{self.port}"

    def connect(self, **kw):
        """a pymysql connection, autocommit unless told otherwise"""
        return pymysql.connect(**{"host": "127.0.0.1", "port": self.port, "user": USER, "password": PASSWORD, "charset": "utf8mb4",
                                  "autocommit": True, "local_infile": True, **kw})

    def admin(self):
        """root through the socket; for what `weir` may not do"""
        return pymysql.connect(unix_socket=self.socket, user="root", charset="utf8mb4", autocommit=True)

    def sql(self, *statements, db=None):
        """runs statements, -> rows of the last one"""
        with self.connect(database=db) as con, con.cursor() as cur:
            for st in statements:
                cur.execute(st)
            return cur.fetchall()


def me():
    return pwd.getpwuid(os.getuid()).pw_name


def run(argv, what, **kw):
    r = subprocess.run([str(a) for a in argv], capture_output=True, **kw)
    if r.returncode:
        raise RuntimeError(f"{what} failed:\n" + (r.stderr or r.stdout).decode(errors="replace")[-2000:])
    return r.stdout


VERBS = {"start": "start, or do nothing if it runs", "stop": "stop the server that was started here", "status": "0 if it runs",
         "wipe": "stop and remove the folder"}


def parsers(cls):
    """of python -m services.FLAVOR VERB …: (all of it, {verb: its parser})"""
    p = argparse.ArgumentParser(prog=f"services.{cls.flavor}", description=f"A real {cls.flavor} server in a folder, on 127.0.0.1.")
    sub = p.add_subparsers(dest="verb", required=True)
    sub.add_parser("install", help="make the server software available")
    verbs = {verb: sub.add_parser(verb, help=text) for verb, text in {**VERBS, **cls.more_verbs}.items()}
    for s in verbs.values():
        s.add_argument("--dir", required=True)
    verbs["start"].add_argument("--port", type=int)
    return p, verbs


def obey(cls, o, start):
    """does what was parsed; start(o) -> the started server"""
    if o.verb == "install":
        cls(CACHE / "none").install()
    elif o.verb == "start":
        server = start(o)
        print(f"{server.describe()}, pid {server.pid}")
    elif o.verb == "status":
        pid = cls(o.dir).pid
        print(f"running, pid {pid}, port {cls(o.dir).port}" if pid else "stopped")
        return 0 if pid else 3
    else:
        getattr(cls(o.dir), o.verb)()
    return 0


def cli(cls, argv=None):
    """of MariaDB and MySQL"""
    p, verbs = parsers(cls)
    verbs["start"].add_argument("--durable", action="store_true", help="fsync as in production")
    verbs["start"].add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="a server option, repeatable")
    verbs["sql"].add_argument("statement")
    o = p.parse_args(argv)
    if o.verb == "sql":
        for row in cls(o.dir).sql(o.statement):
            print("\t".join("NULL" if v is None else str(v) for v in row))
        return 0
    return obey(cls, o, lambda o: cls(o.dir, o.port, dict(x.partition("=")[::2] for x in o.set) if o.set else None, o.durable).start())
