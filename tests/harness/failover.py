"""What tests of several servers share; the fixtures `cluster` and `follow` are in integration/conftest.py."""
import json
import time

import pymysql

from . import wait_until
from .compare import assert_equal
from .lake import Lake

DB = "w_f"      # the captured database


def create(server):
    server.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR(40))", "CREATE TABLE nokey (a INT, b VARCHAR(20))",
               *[f"INSERT INTO t VALUES ({i}, {i}, 'row {i}')" for i in range(50)], "INSERT INTO nokey VALUES (1, 'x'), (1, 'x'), (2, 'y')", db=DB)


def same(weir, server, *tables):
    assert_equal(server, Lake(weir.home), DB, tables or ("t", "nokey"))


def source(weir):
    return weir.status()["source"]


def at(weir):
    return int(source(weir)["address"].rpartition(":")[2])


def until(what, seconds=60, every=0.2):
    """waits until what() is true; -> seconds it took"""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds, f"not within {seconds} s: {what.__doc__ or what}"
        time.sleep(every)
    return time.monotonic() - began


def purge(server):
    """the server keeps nothing of its log but the present file"""
    for _ in range(3):
        server.sql("FLUSH BINARY LOGS")

    def purged():       # MariaDB passes over a log until InnoDB has made its checkpoint
        server.sql(f"PURGE BINARY LOGS TO '{server.sql('SHOW BINARY LOGS')[-1][0]}'")
        return len(server.sql("SHOW BINARY LOGS")) == 1
    wait_until(purged, what="the old logs to go")


def cut(server, which="command LIKE 'Binlog Dump%'"):
    """ends the connections of the server's list for which that is true"""
    with server.connect() as con, con.cursor() as cur:
        cur.execute(f"SELECT id FROM information_schema.PROCESSLIST WHERE id <> CONNECTION_ID() AND {which}")
        for (id,) in cur.fetchall():
            try:
                cur.execute(f"KILL {id}")
            except pymysql.err.OperationalError as e:
                assert e.args[0] == 1094, e     # gone by itself


def open_alarms(weir, kind):
    """-> subjects of the open alarms of that kind"""
    return {a["subject"] for a in map(json.loads, weir.run("alarms", "--json", status=(0, 1)).out.splitlines()) if a["kind"] == kind}
