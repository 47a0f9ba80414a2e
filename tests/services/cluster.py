"""A primary and its replicas, all real servers: for failovers. Flavours differ in words only."""
import time

from . import instance
from .base import PASSWORD, USER

CATCH_UP_SECONDS = 60


class Cluster:
    """servers[0] is the first primary. dir: of them all. gtid: False makes replicas by file and offset, without GTIDs (MySQL only: MariaDB always has them)."""

    def __init__(self, flavor, dir, n=2, cnf=None, gtid=True):
        self.flavor, self.gtid = flavor, gtid
        off = {} if gtid or flavor == "mariadb" else {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
        self.servers = [instance(flavor, dir / f"s{i}", cnf={**off, **(cnf or {})}, owned=True) for i in range(n)]
        self.primary = self.servers[0]

    def start(self):
        for s in self.servers:
            s.start()
        for s in self.servers[1:]:
            self.follow(s, self.primary)
        return self

    def stop(self):
        for s in self.servers:
            s.wipe()

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.stop()

    def _words(self):
        return ("SLAVE", "MASTER") if self.flavor == "mariadb" else ("REPLICA", "SOURCE")

    def follow(self, server, primary):
        """server becomes a read-only replica of primary, from where it stands"""
        replica, source = self._words()
        self.forget(server)
        server.sql("SET GLOBAL read_only = 1")
        where = f"{source}_HOST = '127.0.0.1', {source}_PORT = {primary.port}, {source}_USER = '{USER}', {source}_PASSWORD = '{PASSWORD}', {source}_CONNECT_RETRY = 1"
        if self.flavor == "mariadb":
            server.sql(f"CHANGE MASTER TO {where}, MASTER_USE_GTID = slave_pos")
        else:
            auto = f", SOURCE_AUTO_POSITION = {int(self.gtid)}"
            server.sql(f"CHANGE REPLICATION SOURCE TO {where}, GET_SOURCE_PUBLIC_KEY = 1{auto}")
        server.sql(f"START {replica}")

    def forget(self, server):
        """server replicates no more"""
        replica, _ = self._words()
        server.sql(f"STOP {replica}", f"RESET {replica} ALL")

    def promote(self, server):
        self.forget(server)
        server.sql("SET GLOBAL read_only = 0")
        self.primary = server

    def executed(self, server):
        if self.flavor == "mariadb":
            return server.sql("SELECT @@global.gtid_binlog_pos")[0][0]
        return server.sql("SELECT @@global.gtid_executed")[0][0].replace("\n", "")

    def catch_up(self, server, executed=None):
        """waits until server has what the primary (or that set) had"""
        want = executed or self.executed(self.primary)
        end = time.monotonic() + CATCH_UP_SECONDS
        while not self._has(server, want):
            assert time.monotonic() < end, f"{server.dir} has {self.executed(server)}, not {want}: {server.error_log.read_text(errors='replace')[-1500:]}"
            time.sleep(0.05)

    def _has(self, server, want):
        if self.flavor == "mysql":
            return bool(server.sql(f"SELECT GTID_SUBSET('{want}', @@global.gtid_executed)")[0][0])
        has = {g.split("-")[0]: int(g.split("-")[2]) for g in self.executed(server).split(",") if g}
        return all(has.get(g.split("-")[0], 0) >= int(g.split("-")[2]) for g in want.split(",") if g)
