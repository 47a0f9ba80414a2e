"""The demo's source: a small shop, and a writer process that keeps changing it.

Run as a program it is the writer: python -m demo.shop PORT; ends at SIGTERM after the transaction in hand."""
import random
import signal
import sys
import threading

import pymysql

DB = "shop"
TABLES = {      # name: (columns, the expressions that the comparison at the end shows)
    "customers": ("code VARCHAR(12) NOT NULL PRIMARY KEY, name VARCHAR(60) NOT NULL, tier ENUM('basic','plus','gold') NOT NULL DEFAULT 'basic',"
                  " credit DECIMAL(14,2) NOT NULL, born DATE, prefs JSON", ["credit"]),
    "products": ("id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL, price DECIMAL(10,2) NOT NULL, stock INT NOT NULL", ["price", "stock"]),
    "orders": ("id BIGINT AUTO_INCREMENT PRIMARY KEY, customer VARCHAR(12) NOT NULL, state ENUM('new','paid','sent','returned') NOT NULL,"
               " total DECIMAL(14,2) NOT NULL, placed DATETIME(3) NOT NULL, changed TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)", ["total"]),
    "order_items": ("order_id BIGINT NOT NULL, line INT NOT NULL, product INT NOT NULL, quantity INT NOT NULL, price DECIMAL(10,2) NOT NULL,"
                    " PRIMARY KEY (order_id, line)", ["quantity", "price"]),
    "page_views": ("seen TIMESTAMP(3) NOT NULL, customer VARCHAR(12), page VARCHAR(40) NOT NULL, ms INT", ["ms"]),      # no key
}
CUSTOMERS, PRODUCTS = 2000, 300
NAMES = ("Ada", "Zoë", "Jürgen", "李娜", "Mária", "Olu", "Søren", "José")


def create(server, orders=20000):
    rnd = random.Random(7)
    server.sql(f"CREATE DATABASE {DB}")
    with server.connect(database=DB) as con, con.cursor() as cur:
        for name, (columns, _) in TABLES.items():
            cur.execute(f"CREATE TABLE {name} ({columns})")
        cur.executemany("INSERT INTO customers VALUES (%s,%s,%s,%s,%s,%s)",
                        [(f"C{i:06}", f"{rnd.choice(NAMES)} {i}", rnd.choice(("basic", "plus", "gold")), rnd.randrange(10**6) / 100,
                          f"{1940 + i % 70}-0{1 + i % 9}-{10 + i % 18}", '{"mail": %s, "tags": ["t%d"]}' % (("true", "false")[i % 2], i % 5))
                         for i in range(CUSTOMERS)])
        cur.executemany("INSERT INTO products (name, price, stock) VALUES (%s,%s,%s)",
                        [(f"Product {i}", rnd.randrange(100, 50000) / 100, rnd.randrange(1000)) for i in range(PRODUCTS)])
        for a in range(1, orders + 1, 2000):
            ids = range(a, min(a + 2000, orders + 1))
            cur.executemany("INSERT INTO orders (id, customer, state, total, placed) VALUES (%s,%s,'sent',%s,'2024-02-29 12:00:00.125')",
                            [(i, f"C{rnd.randrange(CUSTOMERS):06}", rnd.randrange(10**5) / 100) for i in ids])
            cur.executemany("INSERT INTO order_items VALUES (%s,%s,%s,%s,%s)",
                            [(i, n, rnd.randrange(1, PRODUCTS), rnd.randrange(1, 9), rnd.randrange(100, 9999) / 100) for i in ids for n in (1, 2)])
            cur.executemany("INSERT INTO page_views VALUES ('2024-02-29 12:00:00.5',%s,%s,%s)",
                            [(f"C{i % CUSTOMERS:06}", f"/product/{i % PRODUCTS}", i % 900) for i in ids])


def transaction(cur, rnd):
    """what a shop does: order, pay, send, return, browse, clean up"""
    customer, product, what = f"C{rnd.randrange(CUSTOMERS):06}", rnd.randrange(1, PRODUCTS), rnd.random()
    if what < 0.35:
        cur.execute("INSERT INTO orders (customer, state, total, placed) VALUES (%s,'new',%s,NOW(3))", (customer, rnd.randrange(10**5) / 100))
        order = cur.lastrowid
        cur.executemany("INSERT INTO order_items VALUES (%s,%s,%s,%s,%s)",
                        [(order, n, rnd.randrange(1, PRODUCTS), rnd.randrange(1, 9), rnd.randrange(100, 9999) / 100) for n in range(1, rnd.randrange(2, 6))])
        cur.execute("UPDATE products SET stock = stock - 1 WHERE id = %s", (product,))
    elif what < 0.6:
        cur.execute("SELECT MAX(id) FROM orders")
        cur.execute("UPDATE orders SET state = %s, changed = NOW(6) WHERE id = %s",
                    (rnd.choice(("paid", "sent", "returned")), cur.fetchone()[0] - rnd.randrange(5000)))
    elif what < 0.7:
        order = rnd.randrange(1, 20000)
        cur.execute("DELETE FROM order_items WHERE order_id = %s", (order,))
        cur.execute("DELETE FROM orders WHERE id = %s", (order,))
    elif what < 0.8:
        cur.execute("UPDATE customers SET credit = credit + %s, tier = %s WHERE code = %s", (rnd.randrange(-500, 900) / 100, rnd.choice(("basic", "plus", "gold")), customer))
    elif what < 0.98:
        cur.execute("INSERT INTO page_views VALUES (NOW(3),%s,%s,%s)", (customer, f"/product/{product}", rnd.randrange(900)))
    else:
        cur.execute("DELETE FROM page_views WHERE customer = %s LIMIT 3", (customer,))


def write(port, per_second=300):
    halt = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: halt.set())
    rnd = random.Random()
    con = pymysql.connect(host="127.0.0.1", port=port, user="weir", password="weir", database=DB, charset="utf8mb4", autocommit=False)
    with con, con.cursor() as cur:
        while not halt.wait(1 / per_second):
            transaction(cur, rnd)
            con.commit()


if __name__ == "__main__":
    write(int(sys.argv[1]))
