"""Every column type of the policy, three ways: read by the snapshot, inserted while streaming, and as the result of an update.
Type and value of each must follow the policy; tests/cases/cases/types has the odd corners."""
import json

import pytest

I64 = 2**63
TYPES = {       # column type: SQL literals
    "TINYINT": ["-128", "0", "127"],
    "TINYINT UNSIGNED": ["0", "255"],
    "SMALLINT": ["-32768", "32767"],
    "SMALLINT UNSIGNED": ["0", "65535"],
    "MEDIUMINT": ["-8388608", "8388607"],
    "MEDIUMINT UNSIGNED": ["0", "16777215"],
    "INT": ["-2147483648", "0", "2147483647"],
    "INT UNSIGNED": ["0", "4294967295"],
    "INT(6) UNSIGNED ZEROFILL": ["1", "4294967295"],
    "BIGINT": [str(-I64), "0", str(I64 - 1)],
    "BIGINT UNSIGNED": ["0", str(I64), str(2 * I64 - 1)],
    "BOOLEAN": ["0", "1", "2"],
    "BIT(1)": ["b'0'", "b'1'"],
    "BIT(13)": ["b'0'", "b'1000000000001'"],
    "BIT(64)": ["b'0'", "0xFFFFFFFFFFFFFFFF"],
    "YEAR": ["0", "1901", "2155"],
    "DECIMAL(9,2)": ["-9999999.99", "0", "0.01"],
    "DECIMAL(38,10)": ["-" + "9" * 28 + "." + "9" * 10, "0.0000000001"],
    "DECIMAL(38,0)": ["9" * 38, "-1"],
    "DECIMAL(65,30)": ["9" * 35 + "." + "9" * 30, "-0." + "0" * 29 + "1"],
    "FLOAT": ["0.1", "-3.4028234e38", "1e-38", "16777217"],
    "DOUBLE": ["0.1", "1.7976931348623157e308", "-0.3", "123456789.12345678"],
    "CHAR(10)": ["''", "'a'", "'trail   '", "'äöü€'"],
    "CHAR(120) CHARACTER SET utf8mb4": ["''", "REPEAT('😀', 120)"],
    "VARCHAR(20) CHARACTER SET latin1": ["'äöüß'", "'€'"],
    "VARCHAR(20) CHARACTER SET utf8mb4": ["'日本語😀'", "'a  '", "'\\0x'"],
    "VARCHAR(20) CHARACTER SET gbk": ["'中文'", "'a'"],
    "VARCHAR(20) CHARACTER SET utf16": ["'中😀'", "'a'"],
    "TINYTEXT": ["''", "REPEAT('t', 255)"],
    "TEXT": ["''", "REPEAT('äb', 20000)"],
    "LONGTEXT": ["REPEAT('0123456789', 300000)"],
    "ENUM('red','grün','a,b')": ["'red'", "'grün'", "'a,b'"],
    "SET('x','y','ä')": ["''", "'x'", "'x,ä'", "'x,y,ä'"],
    "BINARY(4)": ["''", "'ab'", "0x00FF0000"],
    "VARBINARY(300)": ["''", "0x00", "REPEAT(0xFF00, 140)"],
    "BLOB": ["''", "REPEAT(0x00FF, 20000)"],
    "LONGBLOB": ["REPEAT(0xDEADBEEF, 500000)"],
    "JSON": ["'{}'", "'[1, 2.5, null, true, \"ä😀\", {\"k\": [\"\\\\u0001\"]}]'", "'\"text\"'", "'-9223372036854775808'"],
    "DATE": ["'0001-01-01'", "'1582-10-10'", "'1969-12-31'", "'9999-12-31'"],
    "DATETIME": ["'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"],
    "DATETIME(6)": ["'1969-12-31 23:59:59.999999'", "'2024-02-29 12:34:56.000001'"],
    "TIMESTAMP NULL": ["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'2024-03-31 02:30:00'"],
    "TIMESTAMP(6) NULL": ["'2001-09-09 01:46:40.123456'", "'2024-10-27 00:59:59.999999'"],
    "TIME": ["'-838:59:59'", "'00:00:00'", "'838:59:59'", "'-00:00:01'"],
    "TIME(6)": ["'-12:34:56.000001'", "'00:00:00.999999'", "'-00:00:00.000001'"],
    "GEOMETRY": ["ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POLYGON((0 0,0 3,3 3,0 0))')"],
    "POINT": ["ST_GeomFromText('POINT(-1.5 2e10)')"],
}
ONLY = {
    "mariadb": {"UUID": ["'123E4567-E89B-12D3-A456-426655440000'", "'00000000-0000-0000-0000-000000000000'"], "INET4": ["'192.168.0.1'", "'0.0.0.0'"],
                "INET6": ["'2001:DB8::1'", "'::'", "'::ffff:1.2.3.4'"]},
    "mysql": {"VECTOR(3)": ["STRING_TO_VECTOR('[1, -2.5, 0.1]')", "STRING_TO_VECTOR('[0,0,0]')"]},
}
ALL = list(TYPES) + [t for o in ONLY.values() for t in o]


@pytest.mark.parametrize("kind", ALL)
def test_type(server, flavor, db, weir, same, kind):
    literals = TYPES.get(kind) or ONLY[flavor].get(kind)
    if not literals:
        pytest.skip(f"{flavor} has no {kind}")
    with server.connect(database=db) as con, con.cursor() as cur:
        cur.execute("SET time_zone = '+00:00'")

        def put(first):
            """one row for each literal and one NULL, with ids from `first`"""
            for i, lit in enumerate(literals + ["NULL"]):
                cur.execute(f"INSERT INTO t VALUES ({first + i}, {lit})")
        cur.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind})")
        put(0)
        weir.catch_up()
        same("t")
        put(100)
        cur.execute(f"UPDATE t SET v = {literals[-1]} WHERE id IN (0, 100)")
        cur.execute(f"UPDATE t SET v = NULL WHERE id = {len(literals) - 1}")
        cur.execute(f"UPDATE t SET v = {literals[0]} WHERE id IN ({len(literals)}, {100 + len(literals)})")
        cur.execute("DELETE FROM t WHERE id = 101")
    weir.catch_up()
    same("t")


KEYS = ["BIGINT UNSIGNED", "DECIMAL(20,4)", "CHAR(8)", "VARCHAR(30) COLLATE utf8mb4_general_ci", "VARBINARY(16)", "BINARY(4)", "DATE", "DATETIME(3)", "TIMESTAMP(6) NOT NULL DEFAULT '2001-01-01 00:00:00'",
        "ENUM('a','b','c')", "TIME", "BIT(20)"]
VALUES = {"BIGINT": ["18446744073709551615", "0"], "DECIMAL": ["-1.5", "1.5"], "CHAR": ["'a'", "'ö'"], "VARCHAR": ["'Aa'", "'b '"], "VARBINARY": ["0x00", "0xFF00"],
          "BINARY": ["0x61000000", "0x00000000"], "DATE": ["'2024-01-01'", "'1000-01-01'"], "DATETIME": ["'2024-01-01 00:00:00.001'", "'1969-01-01'"],
          "TIMESTAMP": ["'2024-01-01 00:00:00.000001'", "'2030-01-01'"], "ENUM": ["'b'", "'a'"], "TIME": ["'-01:00:00'", "'100:00:00'"], "BIT": ["b'1'", "b'0'"]}


@pytest.mark.parametrize("kind", KEYS)
def test_key_type(server, db, weir, same, kind):
    """rows are found again by their key, whatever its type"""
    one, two = VALUES[kind.split("(")[0].split(" ")[0]]
    server.sql(f"CREATE TABLE t (k {kind}, v INT, PRIMARY KEY (k))", f"INSERT INTO t VALUES ({one}, 1), ({two}, 2)", db=db)
    weir.catch_up()
    server.sql(f"UPDATE t SET v = 10 WHERE k = {one}", f"DELETE FROM t WHERE k = {two}", db=db)
    weir.catch_up()
    same("t")
    server.sql(f"INSERT INTO t VALUES ({two}, 20)", f"UPDATE t SET v = 30 WHERE k = {one}", db=db)
    weir.catch_up()
    same("t")


def test_zero_dates_become_null(server, db, weir, lake, same):
    with server.connect(database=db) as con, con.cursor() as cur:
        cur.execute("SET sql_mode = ''")
        cur.execute("CREATE TABLE t (id INT PRIMARY KEY, d DATE NOT NULL, dt DATETIME NOT NULL, ts TIMESTAMP NULL)")
        cur.execute("INSERT INTO t VALUES (1, '0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00'), (2, '2024-00-15', '2024-02-00 01:02:03', NULL)")
        weir.catch_up()
        same("t")
        cur.execute("INSERT INTO t SELECT id + 10, d, dt, ts FROM t")
    weir.catch_up()
    same("t")


def test_session_time_zone_and_charset_do_not_matter(server, db, weir, same):
    server.sql("CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP(6) NULL, s VARCHAR(20) CHARACTER SET latin1)", db=db)
    weir.catch_up()
    for i, zone in enumerate(("+13:00", "-12:00", "Europe/Berlin")):
        with server.connect(database=db) as con, con.cursor() as cur:
            cur.execute(f"SET time_zone = '{zone}', NAMES latin1" if i == 2 else f"SET time_zone = '{zone}'")
            cur.execute("INSERT INTO t VALUES (%s, '2024-10-27 02:30:00.5', 'ae')", (i,))
    server.sql("UPDATE t SET s = 'äöü' WHERE id = 1", db=db)
    weir.catch_up()
    same("t")


def test_generated_and_invisible_columns(server, flavor, db, weir, same):
    server.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, twice INT AS (a * 2) VIRTUAL, thrice INT AS (a * 3) STORED, hid INT "
               + ("INVISIBLE DEFAULT 7)" if flavor == "mariadb" else "DEFAULT 7 INVISIBLE)"), "INSERT INTO t (id, a) VALUES (1, 1), (2, NULL)", db=db)
    weir.catch_up()
    same("t")
    server.sql("INSERT INTO t (id, a, hid) VALUES (3, 3, 3)", "UPDATE t SET a = 5 WHERE id = 1", db=db)
    weir.catch_up()
    same("t")


def test_a_wide_table(server, db, weir, same):
    """512 columns, so that bitmaps of nulls and columns span many bytes"""
    n = 512
    server.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(f'c{i} INT' for i in range(n))})", db=db)
    with server.connect(database=db) as con, con.cursor() as cur:
        for row in range(4):
            if row == 2:
                weir.catch_up()
            cur.execute(f"INSERT INTO t VALUES ({row}, {', '.join('NULL' if (i * 7 + row) % 3 == 0 else str(i) for i in range(n))})")
    weir.catch_up()
    same("t")


def test_json_partial_updates(server, flavor, db, make_weir):
    """MySQL may log only the changed part of a JSON document"""
    from harness.compare import assert_equal
    from harness.lake import Lake
    if flavor == "mariadb":
        pytest.skip("JSON is a text on MariaDB")
    doc = json.dumps({"a": list(range(50)), "b": {"c": "x" * 200}})
    server.sql("CREATE TABLE t (id INT PRIMARY KEY, j JSON)", db=db)
    w = make_weir(server, [rf"{db}\..*"])
    with server.connect(database=db) as con, con.cursor() as cur:
        cur.execute("INSERT INTO t VALUES (1, %s), (2, %s)", (doc, doc))
        w.catch_up()
        cur.execute("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
        cur.execute("UPDATE t SET j = JSON_SET(j, '$.b.c', 'short', '$.a[3]', 99) WHERE id = 1")
        cur.execute("UPDATE t SET j = JSON_REMOVE(j, '$.b') WHERE id = 2")
    w.catch_up()
    assert_equal(server, Lake(w.home), db, ["t"])
