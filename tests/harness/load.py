"""The load under which faults are made: eight tables, so many changes a second, a twentieth of them of keys, schema changes now and then, and a journal of what was committed.

Unlike harness/writer.py it survives the loss of its server, and can be sent to another one."""
import contextlib
import os
import random
import threading
import time

import pymysql

COMMON = "n INT NOT NULL, note VARCHAR(200), at TIMESTAMP(6) NOT NULL DEFAULT '2024-02-29 12:00:00.000001', price DECIMAL(12,2)"
TABLES = {
    "w0": f"id BIGINT NOT NULL PRIMARY KEY, {COMMON}",
    "w1": f"id VARCHAR(40) NOT NULL PRIMARY KEY, {COMMON}",
    "w2": f"shop INT NOT NULL DEFAULT 7, id BIGINT NOT NULL, {COMMON}, PRIMARY KEY (shop, id)",
    "w3": f"id BIGINT, {COMMON}, KEY (id)",                                             # no key
    "w4": f"id BIGINT NOT NULL, half INT NOT NULL, {COMMON}, PRIMARY KEY (id, half)",   # a transaction adds, changes or removes both halves
    "w5": f"{COMMON}, body TEXT, id BIGINT UNSIGNED NOT NULL PRIMARY KEY",
    "w6": f"id DECIMAL(20,0) NOT NULL PRIMARY KEY, {COMMON}, bits VARBINARY(40)",
    "ticks": "id BIGINT NOT NULL PRIMARY KEY, n INT NOT NULL",                          # one row a transaction: the journal's number
}
CHANGED = [t for t in TABLES if t != "ticks"]
TEXTS = ("", "a", "äöü€", "日本語", "😀" * 3, None, "x" * 180)
ENOUGH = 3000                   # rows of a table, from which on deletes are more than inserts
LOST = (pymysql.err.OperationalError, pymysql.err.InterfaceError, pymysql.err.InternalError, OSError)


def create(server, db, rows=0):
    server.sql(*[f"CREATE TABLE {t} ({columns})" for t, columns in TABLES.items()], db=db)
    with server.connect(database=db) as con, con.cursor() as cur:
        for t in CHANGED if rows else ():
            halves = (1, 2) if t == "w4" else (1,)
            for half in halves:
                cur.executemany(f"INSERT INTO {t} (id, {'half, ' if t == 'w4' else ''}n, note) VALUES (%s, {'%s, ' if t == 'w4' else ''}%s, 'first')",
                                [(i * 7, half, i) if t == "w4" else (i * 7, i) for i in range(1, rows + 1)])


class Load(threading.Thread):
    """with Load(server, db, seed, journal=file) as load: …  An error that is no lost connection is raised at its end.

    per_second  changes
    ddl_every   seconds between schema changes; None: none
    """

    def __init__(self, server, db, seed, journal, per_second=300, ddl_every=30):
        super().__init__(daemon=True)
        self.server, self.db, self.rnd, self.per_second, self.ddl_every = server, db, random.Random(seed), per_second, ddl_every
        self.journal, self.gate, self.halt, self.error = open(journal, "a"), threading.Lock(), threading.Event(), None
        self.con, self.live, self.tick, self.next_id = None, {}, 0, 10**6
        self.committed = self.changes = self.key_changes = self.ddl = self.lost = 0

    # ---- life
    def run(self):
        due, ddl_at = time.monotonic(), time.monotonic() + (self.ddl_every or 0)
        try:
            while not self.halt.is_set():
                self.halt.wait(max(0, min(due - time.monotonic(), 0.2)))
                if due > time.monotonic():
                    continue
                with self.gate:
                    n = self.rnd.choice((1, 1, 2, 3, 5, 10, 40))
                    try:
                        self._connected()
                        if self.ddl_every and time.monotonic() >= ddl_at:
                            ddl_at = time.monotonic() + self.ddl_every
                            self.change_shape()
                        self.transaction(n)
                    except LOST as e:
                        if isinstance(e, pymysql.err.MySQLError) and e.args and e.args[0] in (1213, 1205):
                            self.con.rollback()         # a deadlock with another client of the test
                        else:
                            self._lose()
                due = max(due + n / self.per_second, time.monotonic() - 1)
        except Exception as e:
            self.error = e
        finally:
            self._lose()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *exc):
        self.halt.set()
        self.join(90)
        self.journal.close()
        if self.error and not kind:
            raise self.error

    @contextlib.contextmanager
    def paused(self):
        """no transaction is under way"""
        with self.gate:
            yield

    def _connected(self):
        if self.con:
            return
        self.con = self.server.connect(database=self.db, autocommit=False, connect_timeout=5, read_timeout=60)
        with self.con.cursor() as cur:              # what came of a commit whose answer was lost
            for t in CHANGED:
                cur.execute(f"SELECT DISTINCT id FROM {t}")
                self.live[t] = [r[0] for r in cur.fetchall()]
            cur.execute("SELECT COALESCE(MAX(id), 0) FROM ticks")
            self.tick = max(self.tick, cur.fetchone()[0])

    def _lose(self):
        con, self.con = self.con, None
        if con:
            self.lost += not self.halt.is_set()
            with contextlib.suppress(*LOST):
                con.close()
        elif not self.halt.is_set():
            time.sleep(0.1)

    # ---- changes
    def transaction(self, n):
        kept = {t: list(ids) for t, ids in self.live.items()} if self.rnd.random() < 0.03 else None       # rolled back
        self.tick += 1
        with self.con.cursor() as cur:
            cur.execute("INSERT INTO ticks VALUES (%s, %s)", (self.tick, n))
            for _ in range(n):
                self.change(cur)
        if kept is not None:
            self.con.rollback()
            self.live = kept
            return
        self.con.commit()
        self.journal.write(f"{self.tick}\n")
        self.journal.flush()
        os.fsync(self.journal.fileno())
        self.committed += 1
        self.changes += n

    def new_id(self, t):
        self.next_id += self.rnd.randint(1, 9)
        return str(self.next_id) if t == "w1" else self.next_id        # a text compared with a number finds no index

    def change(self, cur):
        r = self.rnd
        t = r.choice(CHANGED)
        ids, dice = self.live[t], r.random()
        full = len(ids) > ENOUGH
        if len(ids) < 20 or dice < (0.2 if full else 0.45):
            i, text = self.new_id(t), r.choice(TEXTS)
            for half in (1, 2) if t == "w4" else (None,):
                cur.execute(f"INSERT INTO {t} (id, n, note, price, at{', half' if half else ''}) VALUES (%s, %s, %s, %s, FROM_UNIXTIME(%s){f', {half}' if half else ''})",
                            (i, self.next_id % 1000, text, self.next_id / 4, 1e9 + self.next_id + 0.5))
            ids.append(i)
            return
        at = r.randrange(len(ids))
        i = ids[at]
        if dice < 0.8:
            cur.execute(f"UPDATE {t} SET n = n + 1, note = %s WHERE id = %s", (r.choice(TEXTS), i))
        elif dice < 0.95:
            cur.execute(f"DELETE FROM {t} WHERE id = %s", (i,))
            ids[at] = ids[-1]
            ids.pop()
        else:
            ids[at] = self.new_id(t)
            cur.execute(f"UPDATE {t} SET id = %s WHERE id = %s", (ids[at], i))
            self.key_changes += 1

    def change_shape(self):
        r, t = self.rnd, self.rnd.choice(CHANGED)
        self.ddl += 1
        k = self.ddl
        with self.con.cursor() as cur:
            cur.execute("SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND COLUMN_NAME LIKE 'x%%'", (self.db, t))
            extra = [c for (c,) in cur.fetchall()]
            x = r.choice(extra) if extra else None
            ways = [["ALTER TABLE {t} ADD COLUMN x{k} INT NULL DEFAULT 5"], ["ALTER TABLE {t} ADD COLUMN x{k} VARCHAR(20) NOT NULL DEFAULT 'd' FIRST"], ["ALTER TABLE {t} MODIFY note VARCHAR({w})"],
                    ["ALTER TABLE {t} MODIFY n BIGINT NOT NULL"], ["ALTER TABLE {t} ADD INDEX i{k} (n)", "ALTER TABLE {t} DROP INDEX i{k}"], ["RENAME TABLE {t} TO {t}_away, {t}_away TO {t}"],
                    ["DROP TABLE IF EXISTS _{t}_gho, _{t}_del", "CREATE TABLE _{t}_gho LIKE {t}", "ALTER TABLE _{t}_gho ADD COLUMN x{k} INT DEFAULT 3", "INSERT INTO _{t}_gho ({c}) SELECT {c} FROM {t}",
                     "RENAME TABLE {t} TO _{t}_del, _{t}_gho TO {t}", "DROP TABLE _{t}_del"]]
            if x:
                ways += [["ALTER TABLE {t} DROP COLUMN {x}"], ["ALTER TABLE {t} RENAME COLUMN {x} TO x{k}"], ["ALTER TABLE {t} MODIFY {x} VARCHAR({w})"]] * 2
            if r.random() < 0.1:
                ways = [["TRUNCATE TABLE {t}"]]
                self.live[t] = []
            cur.execute("SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s", (self.db, t))
            columns = ", ".join(c for (c,) in cur.fetchall())
            for statement in r.choice(ways):
                cur.execute(statement.format(t=t, k=k, w=200 + k % 50, x=x, c=columns))

    def journalled(self):
        """-> numbers of the transactions that were acknowledged"""
        with open(self.journal.name) as f:
            return {int(line) for line in f}
