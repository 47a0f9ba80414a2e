"""Oracle's MySQL, which Debian carries only in unstable: unpacked into a cache folder and run there with that folder's own
dynamic loader and libraries, so that nothing of it is installed on the system. Run: python -m services.mysql --help"""
import os
import platform
import shutil
import sys
from pathlib import Path

from . import CACHE
from .base import Instance, cli, locked, log, me, run

SW = CACHE / "sw" / "mysql"
TREE = SW / "root"
LIBS = TREE / "usr/lib/x86_64-linux-gnu"
PACKAGES = ["mysql-server-core", "mysql-client-core"]
NOT_NEEDED = ("perl", "libperl", "libdb5", "libgdbm", "openssl-provider")


def program(path, *args):
    """argv of a program of the unpacked tree"""
    return [str(LIBS / "ld-linux-x86-64.so.2"), "--library-path", str(LIBS), str(TREE / path), *map(str, args)]


def unstable_source():
    """the machine's own Debian mirror and key, with another suite"""
    sources = Path("/etc/apt/sources.list.d/debian.sources")
    if platform.machine() != "x86_64" or not sources.exists():
        raise RuntimeError(f"MySQL for the tests comes from Debian unstable for x86_64; {sources} is needed to find a mirror")
    swap = {"Suites:": "Suites: sid", "Components:": "Components: main"}
    stanza = sources.read_text().strip().split("\n\n")[0]
    lines = [swap.get(x.split(" ")[0], x) for x in stanza.splitlines() if not x.startswith("#")]
    return "\n".join(lines) + "\n"


def fetch():
    log("fetching MySQL from Debian unstable into .services/sw/mysql (once)")
    shutil.rmtree(SW, ignore_errors=True)
    apt = SW / "apt"
    for d in ("etc", "none", "state/lists/partial", "cache/archives/partial"):
        (apt / d).mkdir(parents=True)
    TREE.mkdir()
    (apt / "status").touch()
    (apt / "etc/sid.sources").write_text(unstable_source())
    opts = [f"Dir::State={apt}/state", f"Dir::State::status={apt}/status", f"Dir::Cache={apt}/cache", "Dir::Etc::sourcelist=/dev/null",
            f"Dir::Etc::sourceparts={apt}/etc", f"Dir::Etc::preferencesparts={apt}/none", "APT::Sandbox::User=", "Acquire::Languages=none",
            "Debug::NoLocking=1"]
    get = ["apt-get", "-qq"] + [x for o in opts for x in ("-o", o)]
    run(get + ["update"], "apt-get update for Debian unstable")
    run(get + ["install", "-y", "--no-install-recommends", "-d", *PACKAGES], "downloading MySQL")
    for deb in sorted((apt / "cache/archives").glob("*.deb")):
        if not deb.name.startswith(NOT_NEEDED):
            run(["dpkg-deb", "-x", deb, TREE], f"unpacking {deb.name}")
    shutil.rmtree(apt)
    for d in ("doc", "man", "locale"):
        shutil.rmtree(TREE / "usr/share" / d, ignore_errors=True)
    log(run(program("usr/sbin/mysqld", "--no-defaults", "--version"), "mysqld --version").decode().strip())


class MySQL(Instance):
    flavor, section = "mysql", "mysqld"

    def install(self):
        with locked("mysql"):
            if not (SW / ".ok").exists():
                fetch()
                (SW / ".ok").touch()

    def version(self):
        return run(program("usr/sbin/mysqld", "--no-defaults", "--version"), "mysqld --version").decode().split("Ver ")[1].split(" ")[0].split("-")[0]

    def usual_cnf(self):
        return {"basedir": TREE / "usr", "lc_messages_dir": TREE / "usr/share/mysql", "character_sets_dir": TREE / "usr/share/mysql/charsets",
                "plugin_dir": TREE / "usr/lib/mysql/plugin", "secure_file_priv": "NULL", "mysqlx": "OFF", "pid_file": self.dir / "mysqld.pid",
                "binlog_format": None,          # ROW is the default, and naming it is deprecated
                "gtid_mode": "ON", "enforce_gtid_consistency": "ON", "innodb_redo_log_capacity": "64M",
                "innodb_doublewrite": "ON" if self.durable else "OFF"}

    def server_argv(self):
        return program("usr/sbin/mysqld", f"--defaults-file={self.dir}/my.cnf", f"--user={me()}")

    def initialize(self):
        self.write_cnf({"log_bin": None})
        run(self.server_argv() + ["--initialize-insecure"], "mysqld --initialize")

    def load_time_zones(self):
        if Path("/usr/share/zoneinfo").exists() and (TREE / "usr/bin/mysql_tzinfo_to_sql").exists():
            sql = run(program("usr/bin/mysql_tzinfo_to_sql", "/usr/share/zoneinfo"), "mysql_tzinfo_to_sql")
            run(program("usr/bin/mysql", "--no-defaults", "-uroot", "-S", self.socket, "mysql"), "loading time zones", input=sql)

    def forget_identity(self):
        if (self.data / "auto.cnf").exists():
            os.remove(self.data / "auto.cnf")       # the server's UUID


if __name__ == "__main__":
    sys.exit(cli(MySQL))
