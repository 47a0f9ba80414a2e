"""A writer that keeps a source busy with reproducible random changes until told to stop."""
import random
import threading

import pymysql

TABLES = {
    "by_id": "id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL, note VARCHAR(200), at TIMESTAMP(6) NOT NULL",
    "by_pair": "shop INT NOT NULL, nr INT NOT NULL, price DECIMAL(12,2) NOT NULL, body TEXT, PRIMARY KEY (shop, nr)",
    "by_text": "code VARCHAR(40) NOT NULL PRIMARY KEY, n BIGINT UNSIGNED, day DATE",
    "keyless": "a INT, b VARCHAR(20)",
    "twins": "tx BIGINT NOT NULL, half INT NOT NULL, PRIMARY KEY (tx, half)",       # every transaction adds or removes both halves
}


def create(server, db, rows=0):
    """the tables of this writer, each but `twins` with so many rows"""
    with server.connect(database=db) as con, con.cursor() as cur:
        for name, columns in TABLES.items():
            cur.execute(f"CREATE TABLE {name} ({columns})")
        for a in range(0, rows, 5000):
            ids = range(a, min(a + 5000, rows))
            cur.executemany("INSERT INTO by_id (n, note, at) VALUES (%s, %s, '2024-02-29 12:00:00.000001')", [(i, f"note {i}" * 3) for i in ids])
            cur.executemany("INSERT INTO by_pair VALUES (%s, %s, %s, %s)", [(i % 7, i, i / 4, "x" * (i % 50)) for i in ids])
            cur.executemany("INSERT INTO by_text VALUES (%s, %s, '2023-12-31')", [(f"c-{i * 7919 % 1000003:07}", i) for i in ids])
            cur.executemany("INSERT INTO keyless VALUES (%s, %s)", [(i % 97, f"v{i % 13}") for i in ids])


class Writer(threading.Thread):
    """One transaction after another on one connection. `with Writer(...)` starts and stops it; a failing statement fails the test."""

    def __init__(self, server, db, seed, per_second=400):
        super().__init__(daemon=True)
        self.con = server.connect(database=db, autocommit=False)
        self.rnd, self.pause = random.Random(seed), 1 / per_second
        self.halt, self.error, self.committed = threading.Event(), None, 0

    def run(self):
        try:
            with self.con.cursor() as cur:
                while not self.halt.wait(self.pause):
                    for _ in range(self.rnd.choice((1, 1, 1, 2, 5, 30))):
                        self.change(cur)
                    if self.rnd.random() < 0.03:
                        self.con.rollback()
                    else:
                        self.con.commit()
                        self.committed += 1
        except pymysql.err.Error as e:
            self.error = e
        finally:
            self.con.close()

    def change(self, cur):
        r = self.rnd
        i = r.randrange(1, 30000)
        text = r.choice(("", "a", "äöü€", "日本語", "😀" * 3, None, "x" * 180))
        op = r.randrange(14)
        if op < 2:
            cur.execute("INSERT INTO by_id (n, note, at) VALUES (%s, %s, FROM_UNIXTIME(%s))", (i, text, 1e9 + i + 0.5))
        elif op == 2:
            cur.execute("UPDATE by_id SET n = n + 1, note = %s WHERE id = %s", (text, i))
        elif op == 3:
            cur.execute("DELETE FROM by_id WHERE id BETWEEN %s AND %s", (i, i + 2))
        elif op == 4:
            cur.execute("REPLACE INTO by_pair VALUES (%s, %s, %s, %s)", (i % 7, i, i / 8, text))
        elif op == 5:
            cur.execute("UPDATE IGNORE by_pair SET nr = nr + 1000000 WHERE shop = %s AND nr = %s", (i % 7, i))       # the key changes
        elif op == 6:
            cur.execute("DELETE FROM by_pair WHERE shop = %s AND nr = %s", (i % 7, i))
        elif op == 7:
            cur.execute("INSERT INTO by_text VALUES (%s, %s, '1000-01-01') ON DUPLICATE KEY UPDATE n = n DIV 2", (f"c-{i:07}", 2**64 - 1 - i))
        elif op == 8:
            cur.execute("UPDATE IGNORE by_text SET code = %s WHERE code = %s", (f"k-{i:07}", f"c-{i:07}"))
        elif op == 9:
            cur.execute("DELETE FROM by_text WHERE code = %s", (f"k-{i:07}",))
        elif op == 10:
            cur.execute("INSERT INTO keyless VALUES (%s, %s), (%s, %s)", (i % 97, "v1", i % 97, "v1"))
        elif op == 11:
            cur.execute("DELETE FROM keyless WHERE a = %s LIMIT 1", (i % 97,))
        elif op == 12:
            cur.execute("UPDATE keyless SET b = %s WHERE a = %s LIMIT 2", (r.choice(("v2", "v3", None)), i % 97))
        elif r.random() < 0.7:
            tx = r.randrange(2**62)
            cur.execute("INSERT IGNORE INTO twins VALUES (%s, 1)", (tx,))
            cur.execute("INSERT IGNORE INTO twins VALUES (%s, 2)", (tx,))
        else:
            cur.execute("SELECT tx FROM twins ORDER BY tx LIMIT 1")
            for (tx,) in cur.fetchall():
                cur.execute("DELETE FROM twins WHERE tx = %s", (tx,))

    def __enter__(self):
        self.start()
        return self

    def stop(self):
        self.halt.set()
        self.join(60)
        if self.error:
            raise self.error

    def __exit__(self, *exc):
        self.stop()
