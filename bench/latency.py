"""Time from a commit in the source to its row being visible in the lake's catalog.

A writer inserts marker rows with ascending ids, one a transaction, at random times. A poller reads the table's row of the SQLite catalog every few
milliseconds; when it names other metadata, the number of rows in its current snapshot says which markers became visible. Only
inserts go to the table, so row count = highest id; at the end a PyIceberg scan is asked whether that is so."""
import json
import random
import sqlite3
import threading
import time
from urllib.parse import unquote, urlparse

POLL_S = 0.003
TABLE = "markers"
DDL = f"CREATE TABLE {TABLE} (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))"


def rows_in(metadata_location):
    with open(unquote(urlparse(metadata_location).path)) as f:
        meta = json.load(f)
    current = meta.get("current-snapshot-id")
    snap = next((s for s in meta.get("snapshots", []) if s["snapshot-id"] == current), None)
    return int(snap["summary"]["total-records"]) if snap else 0


class Writer(threading.Thread):
    """commits until halted; committed[id] = monotonic time when COMMIT had returned"""

    def __init__(self, server, db, mean_s):
        super().__init__(daemon=True)
        self.con, self.mean_s, self.halt, self.committed, self.error = server.connect(database=db), mean_s, threading.Event(), {}, None

    def run(self):
        rnd = random.Random(7)
        try:
            with self.con, self.con.cursor() as cur:
                while not self.halt.wait(rnd.uniform(0, 2 * self.mean_s)):
                    cur.execute(f"INSERT INTO {TABLE} () VALUES ()")
                    self.committed[cur.lastrowid] = time.monotonic()
        except Exception as e:      # handed on in finish()
            self.error = e

    def finish(self):
        self.halt.set()
        self.join()
        if self.error:
            raise self.error


class Load(threading.Thread):
    """row changes of another table at a steady rate, so that commits have something to do"""

    def __init__(self, server, db, table, rows_max, per_second, statement_rows=100):
        super().__init__(daemon=True)
        self.con, self.table, self.rows_max = server.connect(database=db), table, rows_max
        self.statement_rows, self.pause, self.halt, self.changes, self.error = statement_rows, statement_rows / per_second, threading.Event(), 0, None

    def run(self):
        rnd = random.Random(8)
        due = time.monotonic()
        try:
            with self.con, self.con.cursor() as cur:
                while not self.halt.wait(max(0, due - time.monotonic())):
                    due += self.pause
                    a = rnd.randrange(1, max(2, self.rows_max - self.statement_rows))
                    self.changes += cur.execute(f"UPDATE {self.table} SET flags = flags ^ 1 WHERE id BETWEEN {a} AND {a + self.statement_rows - 1}")
        except Exception as e:
            self.error = e

    finish = Writer.finish


class Poller(threading.Thread):
    def __init__(self, catalog_db, ns):
        super().__init__(daemon=True)
        self.path, self.ns, self.halt, self.seen, self.error = catalog_db, ns, threading.Event(), [], None   # seen: [(time, rows)]

    def run(self):
        try:
            con = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=10, isolation_level=None)
            last = None
            while not self.halt.wait(POLL_S):
                row = con.execute("SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?", (self.ns, TABLE)).fetchone()
                if row and row[0] != last:
                    now = time.monotonic()
                    last = row[0]
                    self.seen.append((now, rows_in(last)))
            con.close()
        except Exception as e:
            self.error = e

    finish = Writer.finish


def latencies_ms(committed, seen):
    """per marker: from its commit to the first sight of a snapshot that holds it; markers never seen are an error of the caller's run"""
    out, at = [], 0
    for id in sorted(committed):
        while at < len(seen) and seen[at][1] < id:
            at += 1
        if at == len(seen):
            break
        out.append(max(0.0, (seen[at][0] - committed[id]) * 1000))
    return out


def percentile(values, p):
    v = sorted(values)
    return v[min(len(v) - 1, int(len(v) * p))]
