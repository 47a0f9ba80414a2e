"""Rules of transform: what the lake must hold is worked out here, in Python, from the source's own rows."""
import hashlib
import random
from datetime import datetime, timezone

import pytest
from harness.lake import Lake

ORDERS = """CREATE TABLE {t} (id INT UNSIGNED PRIMARY KEY, price DECIMAL(10,2), qty INT, status VARCHAR(10), email VARCHAR(40), phone VARCHAR(20),
    secret VARCHAR(20), note VARCHAR(40), made BIGINT, at TIMESTAMP NULL)"""
RULE = {"filter": "status <> 'test'", "set": {"total": "price * qty", "note": "replace(note, 'x', '-')"},
        "mask": {"email": "hash", "phone": "partial", "secret": "null"}, "convert": {"made": "millis to timestamptz", "at": "date in Asia/Shanghai"},
        "rename": {"status": "state"}, "drop": ["qty"]}


def partial(s):
    n = len(s)
    k = min(4, n // 4)
    return "*" * n if n < 4 else s[:k] + "*" * (n - 2 * k) + s[n - k:]


def shaped(r):
    """a source row of ORDERS as RULE makes it, None when it is kept out"""
    i, price, qty, status, email, phone, secret, note, made, at = r
    if status is None or status == "test":
        return None
    sha = None if email is None else hashlib.sha256(email.encode()).hexdigest()
    return (i, price, status, sha, None if phone is None else partial(phone), None, None if note is None else note.replace("x", "-"),
            None if made is None else datetime.fromtimestamp(made / 1000, timezone.utc).isoformat(timespec="milliseconds"),
            at, None if price is None or qty is None else price * qty)


def source_rows(server, t):
    return server.sql(f"SELECT id, price, qty, status, email, phone, secret, note, made, DATE(CONVERT_TZ(at, '+00:00', '+08:00')) FROM {t}")


def lake_rows(lake, ns, name, columns):
    """multiset of rows as PyIceberg and DuckDB see them (equal), timestamps as text"""
    got = []
    for read in (lake.table, lake.in_duckdb):
        tab = read(ns, name).scan().to_arrow()
        assert tab.column_names == columns, tab.column_names
        rows = [tuple(v.isoformat(timespec="milliseconds") if isinstance(v, datetime) else v for v in r.values()) for r in tab.to_pylist()]
        got.append(sorted(rows, key=repr))
    assert got[0] == got[1], "PyIceberg and DuckDB differ"
    return got[0]


def value(rng, i):
    return (i, rng.choice([None, round(rng.uniform(0, 999), 2)]), rng.choice([None, 0, 1, 7]), rng.choice([None, "test", "open", "done", "TEST"]),
            rng.choice([None, f"u{i}@example.com", "ünï"]), rng.choice([None, "", "123", "+4912345678", "13812345678"]), "geheim", rng.choice([None, "axbx", ""]),
            rng.choice([None, 0, -1, 1700000000123]), rng.choice([None, "2024-01-31 20:00:00", "2024-01-31 10:00:00"]))


COLUMNS = ["id", "price", "state", "email", "phone", "secret", "note", "made", "at", "total"]
INSERT = "INSERT INTO {t} VALUES (" + ",".join(["%s"] * 10) + ")"


def play(server, t, rng, ids, n):
    con = server.connect()
    con.cursor().execute("SET time_zone = '+00:00'")
    con.autocommit(False)
    cur = con.cursor()
    for _ in range(n):
        what = rng.random()
        if what < .35 or not ids:
            i = max(ids, default=0) + 1
            cur.execute(INSERT.format(t=t), value(rng, i))
            ids.add(i)
        elif what < .8:
            i = rng.choice(sorted(ids))
            v = value(rng, i)
            cur.execute(f"UPDATE {t} SET price=%s, qty=%s, status=%s, email=%s, phone=%s, note=%s, made=%s, at=%s WHERE id=%s",
                        (v[1], v[2], v[3], v[4], v[5], v[7], v[8], v[9], i))
        else:
            i = rng.choice(sorted(ids))
            cur.execute(f"DELETE FROM {t} WHERE id=%s", (i,))
            ids.discard(i)
        if rng.random() < .2:
            con.commit()
    con.commit()
    con.close()


def expected(rows):
    return sorted((r for r in map(shaped, rows) if r), key=repr)


def test_every_kind_of_rule_in_snapshot_and_stream(server, db, make_weir, lake_of):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng, ids, t = random.Random(seed), set(), f"{db}.orders"
    server.sql(ORDERS.format(t=t))
    play(server, t, rng, ids, 6000)
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"rules": [{"table": rf"{db}\.orders", **RULE}]}})
    w.catch_up()
    lake = lake_of(w)
    assert lake_rows(lake, db, "orders", COLUMNS) == expected(source_rows(server, t))
    w.start()
    play(server, t, rng, ids, 3000)
    w.wait()
    assert lake_rows(lake, db, "orders", COLUMNS) == expected(source_rows(server, t))
    w.kill()
    play(server, t, rng, ids, 500)
    w.catch_up()
    assert lake_rows(lake, db, "orders", COLUMNS) == expected(source_rows(server, t))
    w.config["transform"]["rules"][0]["filter"] = "status = 'done'"          # other rules: the rows are read again
    w.write()
    play(server, t, rng, ids, 100)
    w.catch_up()
    want = [r for r in expected(source_rows(server, t)) if r[2] == "done"]
    assert want and lake_rows(lake, db, "orders", COLUMNS) == want
    assert w.status()["anomalies"] == 0


@pytest.fixture
def lake_of():
    return lambda w: Lake(w.home)


def test_rules_apply_one_after_the_other_and_to_shards(server, db, make_weir, lake_of):
    for k in (1, 2):
        server.sql(f"CREATE TABLE {db}.s_{k} (id INT PRIMARY KEY, email VARCHAR(20), n INT)", f"INSERT INTO {db}.s_{k} VALUES (1, 'a{k}', 5), (2, NULL, NULL)")
    w = make_weir(server, [rf"{db}\..*"], {"merge": [{"from": rf"{db}\.s_\d+", "to": f"{db}.s"}],
                                           "transform": {"rules": [{"table": rf"{db}\..*", "mask": {"EMAIL": "hash", "missing?": "hash"}},
                                                                   {"table": rf"{db}\.s_2", "set": {"twice": "n * 2", "tag": "left(email, 4)"}}]}})
    w.start()
    w.wait()
    server.sql(f"UPDATE {db}.s_2 SET n = 8 WHERE id = 2", f"DELETE FROM {db}.s_1 WHERE id = 2", f"INSERT INTO {db}.s_2 VALUES (3, 'z', 1)")
    w.wait()
    sha = {s: hashlib.sha256(s.encode()).hexdigest() for s in ("a1", "a2", "z")}
    assert lake_rows(lake_of(w), db, "s", ["db_name", "tb_name", "id", "email", "n", "twice", "tag"]) == sorted([
        (db, "s_1", 1, sha["a1"], 5, None, None), (db, "s_2", 1, sha["a2"], 5, 10, sha["a2"][:4]), (db, "s_2", 2, None, 8, 16, None),
        (db, "s_2", 3, sha["z"], 1, 2, sha["z"][:4])], key=repr)


def test_hashed_keys_and_tables_without_a_key(server, db, make_weir, lake_of):
    server.sql(f"CREATE TABLE {db}.k (phone VARCHAR(20) PRIMARY KEY, n INT)", f"INSERT INTO {db}.k VALUES ('111', 1), ('222', 2)",
               f"CREATE TABLE {db}.nk (phone VARCHAR(20), n INT)", f"INSERT INTO {db}.nk VALUES ('111', 1), ('111', 1), ('222', 2)")
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"rules": [{"table": rf"{db}\..*", "mask": {"phone": "hash"}, "filter": "n < 100"}], "mask_key_env": "WEIR_TEST_PASSWORD"}})
    w.start()
    w.wait()
    server.sql(f"UPDATE {db}.k SET phone = '333' WHERE phone = '111'", f"UPDATE {db}.k SET n = 200 WHERE phone = '222'", f"DELETE FROM {db}.nk WHERE n = 1 LIMIT 1", f"UPDATE {db}.nk SET n = 100 WHERE n = 2")
    w.wait()

    def keyed(s):
        inner = hashlib.sha256(b"weir" + s.encode()).hexdigest()
        return hashlib.sha256(b"weir" + inner.encode()).hexdigest()
    assert lake_rows(lake_of(w), db, "k", ["phone", "n"]) == [(keyed("333"), 1)]
    assert lake_rows(lake_of(w), db, "nk", ["phone", "n"]) == [(keyed("111"), 1)]
    server.sql(f"UPDATE {db}.k SET n = 3 WHERE phone = '222'")
    w.wait()
    assert lake_rows(lake_of(w), db, "k", ["phone", "n"]) == sorted([(keyed("333"), 1), (keyed("222"), 3)])
    assert w.status()["anomalies"] == 0


def test_an_expression_that_fails_stops_and_names_row_and_column(server, db, make_weir, lake_of):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(10))", f"INSERT INTO {db}.t VALUES (1, '10'), (2, '20')")
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"rules": [{"table": rf"{db}\.t", "set": {"n": "CAST(v AS INTEGER)"}}]}})
    w.catch_up()
    server.sql(f"INSERT INTO {db}.t VALUES (3, '30'), (4, 'vier'), (5, '50')")
    w.catch_up(status=1).says(rf"{db}\.t", '"id": 4', "column n", "vier", "on_error")
    assert lake_rows(lake_of(w), db, "t", ["id", "v", "n"]) == [(1, "10", 10), (2, "20", 20)]
    w.config["transform"]["rules"][0]["set"]["n"] = "try_cast(v AS INTEGER)"
    w.write()
    w.catch_up()
    assert lake_rows(lake_of(w), db, "t", ["id", "v", "n"]) == [(1, "10", 10), (2, "20", 20), (3, "30", 30), (4, "vier", None), (5, "50", 50)]


def test_on_error_null_is_counted(server, db, make_weir, lake_of):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(10))", f"INSERT INTO {db}.t VALUES (1, '10'), (2, 'x')")
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"rules": [{"table": rf"{db}\.t", "set": {"n": "CAST(v AS INTEGER)", "m": "v || '!'"}, "on_error": "null"}]}})
    w.start()
    w.wait()
    server.sql(f"INSERT INTO {db}.t VALUES (3, '30'), (4, 'vier')")
    w.wait()
    assert lake_rows(lake_of(w), db, "t", ["id", "v", "n", "m"]) == [(1, "10", 10, "10!"), (2, "x", None, "x!"), (3, "30", 30, "30!"), (4, "vier", None, "vier!")]
    assert [t["nulled"] for t in w.status()["tables"]] == [2]


def test_dead_letters_are_the_rows_that_are_refused_now(server, db, make_weir, lake_of):
    """whatever happens, a source row is in the table or among the refused"""
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(10), pin VARCHAR(10))")
    server.sql(f"INSERT INTO {db}.t VALUES " + ",".join(f"({i}, '{i if i % 7 else 'bad'}', 'p{i}')" for i in range(1, 5001)))
    rule = {"table": rf"{db}\.t", "set": {"n": "CAST(v AS INTEGER)"}, "mask": {"pin": "hash"}, "on_error": "dead-letter"}
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"rules": [rule]}})
    w.catch_up()
    lake = lake_of(w)

    def check():
        rows = server.sql(f"SELECT id, v FROM {db}.t")
        good = lake.table(db, "t").scan().to_arrow().select(["id", "n"]).to_pylist()
        dead = lake.table("_weir", "dead_letter").scan().to_arrow().to_pylist()
        assert sorted((r["id"], r["n"]) for r in good) == sorted((i, int(v)) for i, v in rows if v.isdigit())
        assert sorted(r["row_key"] for r in dead) == sorted(f'{{"id": {i}}}' for i, v in rows if not v.isdigit())
        for r in dead:
            assert (r["source_db"], r["source_table"], r["column_name"], r["expression"]) == (db, "t", "n", "CAST(v AS INTEGER)")
            assert "pin" not in r["row"] and '"v": "' in r["row"] and r["error"] == "Conversion Error", r
        assert lake.in_duckdb("_weir", "dead_letter").scan().to_arrow().num_rows == len(dead)
    check()
    w.start()
    server.sql(f"UPDATE {db}.t SET v = '1' WHERE id IN (7, 14)", f"DELETE FROM {db}.t WHERE id IN (21, 22)", f"UPDATE {db}.t SET v = 'worse' WHERE id IN (28, 29)",
               f"UPDATE {db}.t SET id = id + 10000 WHERE id IN (35, 36)", f"INSERT INTO {db}.t VALUES (9001, 'oh', ''), (9002, '5', '')")
    w.wait()
    check()
    w.kill()
    server.sql(f"TRUNCATE {db}.t", f"INSERT INTO {db}.t VALUES (1, 'one', ''), (2, '2', '')")
    w.catch_up()
    check()
    w.config["transform"]["rules"][0]["set"]["n"] = "CAST(replace(v, 'one', '1') AS INTEGER)"
    w.write()
    w.catch_up()
    assert lake.table("_weir", "dead_letter").scan().to_arrow().num_rows == 0
    assert lake.table(db, "t").scan().to_arrow().num_rows == 2


def test_a_load_with_dead_letters_survives_kills(server, db, make_weir, lake_of):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(300))")
    for base in range(0, 200000, 20000):
        server.sql(f"INSERT INTO {db}.t VALUES " + ",".join(f"({i}, concat({i if i % 5000 else 'NULL'}, repeat(' ', 250)))" if i % 5000 else f"({i}, 'bad')" for i in range(base, base + 20000)))
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"commit": {"every": "200ms"}},
                                           "transform": {"rules": [{"table": rf"{db}\.t", "set": {"n": "CAST(trim(v) AS INTEGER)"}, "drop": ["v"], "on_error": "dead-letter"}]}})
    rng = random.Random()
    seed = rng.randrange(1 << 30)
    print("seed", seed)
    rng.seed(seed)
    import time
    for _ in range(6):
        w.start()
        time.sleep(rng.uniform(.05, 1.2))
        w.kill()
    w.catch_up()
    lake = lake_of(w)
    assert sorted(lake.table(db, "t").scan().to_arrow()["n"].to_pylist()) == [i for i in range(200000) if i % 5000]
    assert lake.table("_weir", "dead_letter").scan().to_arrow().num_rows == 40


def test_ddl_meets_rules(server, db, make_weir, lake_of):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, email VARCHAR(20), n INT)", f"INSERT INTO {db}.t VALUES (1, 'a', 1)")
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"rules": [{"table": rf"{db}\.t", "mask": {"email": "hash", "late?": "hash"}, "set": {"m": "n + 1"}}]}})
    w.catch_up()
    server.sql(f"ALTER TABLE {db}.t ADD late VARCHAR(9) NOT NULL DEFAULT 'dflt'")      # old rows have it, and masked
    w.catch_up()
    assert lake_rows(lake_of(w), db, "t", ["id", "email", "n", "late", "m"]) == [(1, hashlib.sha256(b"a").hexdigest(), 1, hashlib.sha256(b"dflt").hexdigest(), 2)]
    server.sql(f"ALTER TABLE {db}.t DROP late")
    w.catch_up()
    lake, sha = lake_of(w), [hashlib.sha256(s).hexdigest() for s in (b"a", b"b", b"c", b"d")]
    server.sql(f"ALTER TABLE {db}.t ADD c INT NOT NULL DEFAULT 7 AFTER id", f"INSERT INTO {db}.t VALUES (2, 8, 'b', 2)")
    w.catch_up()
    assert lake_rows(lake, db, "t", ["id", "c", "email", "n", "m"]) == [(1, 7, sha[0], 1, 2), (2, 8, sha[1], 2, 3)]
    server.sql(f"ALTER TABLE {db}.t MODIFY n BIGINT", f"INSERT INTO {db}.t VALUES (3, 9, 'c', 5000000000)")     # the computed column becomes a long
    w.catch_up()
    assert lake_rows(lake, db, "t", ["id", "c", "email", "n", "m"]) == [(1, 7, sha[0], 1, 2), (2, 8, sha[1], 2, 3), (3, 9, sha[2], 5000000000, 5000000001)]
    server.sql(f"ALTER TABLE {db}.t CHANGE email mail VARCHAR(20)", f"INSERT INTO {db}.t VALUES (4, 9, 'd', 4)")
    w.catch_up(status=1).says("email", rf"{db}\.t", r"rules\[0\]\.mask")      # never unmasked
    assert len(lake_rows(lake, db, "t", ["id", "c", "email", "n", "m"])) == 3
    w.config["transform"]["rules"][0]["mask"] = {"mail": "hash"}
    w.write()
    w.catch_up()
    assert lake_rows(lake, db, "t", ["id", "c", "mail", "n", "m"]) == [(1, 7, sha[0], 1, 2), (2, 8, sha[1], 2, 3), (3, 9, sha[2], 5000000000, 5000000001), (4, 9, sha[3], 4, 5)]
    server.sql(f"RENAME TABLE {db}.t TO {db}.u")                              # other rules hold for that name: none
    w.catch_up()
    assert [r[2] for r in lake_rows(lake, db, "u", ["id", "c", "mail", "n"])] == ["a", "b", "c", "d"]


def test_functions_of_the_users(server, db, make_weir, lake_of):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(20))", f"INSERT INTO {db}.t VALUES (1, ' Ab '), (2, NULL)")
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"functions": "f.sql", "rules": [{"table": rf"{db}\.t", "set": {"clean": "tidy(v)"}}]}})
    (w.dir / "f.sql").write_text("-- helpers\nCREATE FUNCTION inner_trim(s) AS trim(s);\nCREATE OR REPLACE MACRO tidy(s) AS lower(inner_trim(s));\n")
    w.catch_up()
    assert lake_rows(lake_of(w), db, "t", ["id", "v", "clean"]) == [(1, " Ab ", "ab"), (2, None, None)]


@pytest.mark.parametrize("rule, says", [
    ({"set": {"x": "now()"}}, "time"), ({"set": {"x": "random()"}}, "chance"), ({"set": {"x": "current_date"}}, "time"), ({"set": {"x": "sum(id)"}}, "rows"),
    ({"set": {"x": "row_number() OVER ()"}}, "window"), ({"set": {"x": "(SELECT 1)"}}, "subquery"), ({"set": {"x": "id FROM read_csv('/etc/passwd') --"}}, "expression|syntax"),
    ({"set": {"x": "1), (2"}}, "expression"), ({"set": {"x": "id +"}}, "syntax"), ({"set": {"x": "nix + 1"}}, "nix"), ({"set": {"x": "[id]"}}, "type"), ({"filter": "v"}, "true nor false"),
    ({"mask": {"emial": "hash"}}, "emial"), ({"mask": {"v": "blur"}}, "blur"), ({"mask": {"id": "null"}}, "key"), ({"drop": ["id"]}, "key"), ({"convert": {"v": "millis to date"}}, "whole number"),
    ({"convert": {"v": "clock"}}, "lake type"), ({"rename": {"v": "id"}}, "two columns"), ({"mask": {"v": "hash"}, "drop": ["v"]}, "more than one"), ({"set": {"x": "getenv('HOME')"}}, "getenv"),
    ({"set": {"x": "unnest([1,2])"}}, "unnest"), ({"set": {"x": "_weir_row"}}, "_weir_row"), ({"set": {"x": "to_json(weir_rows)"}}, "weir_rows"), ({"convert": {"at": "date in Europe/Berln"}}, "time zone"),
    ({"convert": {"id": "seconds to timestamp in Europe/Berlin"}}, "key"), ({"convert": {"id": "seconds to date"}}, "key")], ids=lambda v: v if isinstance(v, str) else "")
def test_rules_that_cannot_be_are_refused_before_a_row_is_read(server, db, make_weir, lake_of, rule, says):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(20), at TIMESTAMP NULL)", f"INSERT INTO {db}.t VALUES (1, 'a', NULL)")
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"rules": [{"table": rf"{db}\.t", **rule}]}})
    w.check(status=1).says(says, r"rules\[0\]", rf"{db}\.t")
    w.catch_up(status=[1, 2]).says(says, r"rules\[0\]", rf"{db}\.t")
    assert (db, "t") not in lake_of(w).tables() if lake_of(w).exists() else True


def dead(lake):
    return lake.table("_weir", "dead_letter").scan().to_arrow().to_pylist() if ("_weir", "dead_letter") in lake.tables() else []


def column(lake, db, name, *columns):
    return sorted((tuple(r.values()) for r in lake.table(db, name).scan().to_arrow().select(list(columns)).to_pylist()), key=repr)


LOOKS = ["INTERRUPT", "Out of Memory Error", "INTERNAL Error: x", "FATAL Error", "No space left on device", "IO Error: Could not read", "No such file or directory"]


def test_values_that_read_like_errors_are_values(server, db, make_weir, lake_of):
    """DuckDB's messages quote them; they must not be taken for an error of the engine"""
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(2000))",
               f"INSERT INTO {db}.t VALUES " + ",".join(f"({i}, '{LOOKS[i // 600]}')" if i % 600 == 7 and i // 600 < len(LOOKS) else f"({i}, '{i}')" for i in range(6000)))
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"rules": [{"table": rf"{db}\.t", "set": {"n": "CAST(v AS INTEGER)"}, "on_error": "dead-letter"}]}})
    w.start()
    w.wait()
    lake = lake_of(w)
    assert column(lake, db, "t", "n") == sorted([(i,) for i in range(6000) if not (i % 600 == 7 and i // 600 < len(LOOKS))], key=repr)
    assert len(dead(lake)) == len(LOOKS)
    server.sql(f"INSERT INTO {db}.t VALUES " + ",".join(f"({7000 + i}, '{x}')" for i, x in enumerate(LOOKS)), f"INSERT INTO {db}.t VALUES (8000, '8000')",
               f"INSERT INTO {db}.t VALUES (9000, CONCAT('x', REPEAT('ü€', 900)))")        # a message that is cut
    w.wait()
    assert len(dead(lake)) == 2 * len(LOOKS) + 1
    assert (8000,) in column(lake, db, "t", "n")
    assert lake.in_duckdb("_weir", "dead_letter").scan().to_arrow().num_rows == 2 * len(LOOKS) + 1


def test_each_of_several_failing_columns_is_noticed(server, db, make_weir, lake_of):
    """values that DuckDB has and the lake has not are found column by column"""
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20))")
    rows = [(i, "infinity" if i % 7 == 5 else "2024-01-01", "infinity" if i % 5 == 2 else "2024-01-02") for i in range(500)]
    server.sql(f"INSERT INTO {db}.t VALUES " + ",".join(map(str, rows)))
    rule = {"table": rf"{db}\.t", "set": {"x": "CAST(a AS DATE)", "y": "CAST(b AS DATE)"}, "on_error": "dead-letter"}
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"rules": [rule]}})
    w.catch_up()
    lake, good = lake_of(w), [(i,) for i, a, b in rows if "infinity" not in (a, b)]
    assert column(lake, db, "t", "id") == sorted(good, key=repr)
    assert {(r["row_key"], r["column_name"]) for r in dead(lake)} == {(f'{{"id": {i}}}', "x" if a == "infinity" else "y") for i, a, b in rows if "infinity" in (a, b)}


def readable(w):
    """every byte that Weir has left but the queue's, Parquet decoded"""
    import subprocess
    import pyarrow.parquet as pq
    out = b""
    for f in sorted(w.dir.rglob("*")):
        if not f.is_file() or "queue" in f.parts:
            continue
        out += f.read_bytes()
        if f.suffix == ".parquet":
            out += repr(pq.read_table(f).to_pylist()).encode()
    for c in (["status", "--json"], ["status"], ["tables"]):
        r = w.run(*c, status=None)
        out += (r.out + r.err).encode()
    return out


def test_masked_values_appear_nowhere(server, db, make_weir, lake_of, monkeypatch):
    """keys in a load's progress, messages and dead letters of a rule in front of the one that masks, columns converted before they are masked"""
    key = "schl\\xFFüssel-s3cr3t"
    monkeypatch.setenv("WEIR_TEST_MASK", key)
    server.sql(f"CREATE TABLE {db}.big (phone VARCHAR(30) PRIMARY KEY, pad VARCHAR(300))",
               f"CREATE TABLE {db}.bin (id INT PRIMARY KEY, token VARBINARY(20))", f"INSERT INTO {db}.bin VALUES (1, X'00ff'), (2, NULL)",
               f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(40), pin VARCHAR(40), tmp VARCHAR(40))", f"INSERT INTO {db}.t VALUES (1, 'geheim-v1', 'geheim-p1', 'geheim-t1'), (2, '2', 'geheim-p2', 'geheim-t2')")
    for base in range(0, 120000, 20000):
        server.sql(f"INSERT INTO {db}.big VALUES " + ",".join(f"('geheim-{i:07}', REPEAT('x', 200))" for i in range(base, base + 20000)))
    server.sql(f"ANALYZE TABLE {db}.big")
    rules = [{"table": rf"{db}\.big", "mask": {"phone": "hash"}}, {"table": rf"{db}\.bin", "mask": {"token": "hash"}},
             {"table": rf"{db}\.t", "set": {"n": "CAST(v AS INTEGER)", "pin": "trim(pin)"}, "convert": {"tmp": "string"}, "on_error": "dead-letter"},
             {"table": rf"{db}\.t", "mask": {"v": "hash", "pin": "partial"}, "drop": ["tmp"]}]
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"commit": {"every": "100ms"}}, "transform": {"rules": rules, "mask_key_env": "WEIR_TEST_MASK"}})
    import time
    for delay in (.3, .6):
        w.start()
        time.sleep(delay)
        w.kill()
    w.start()
    w.wait()
    server.sql(f"INSERT INTO {db}.t VALUES (3, 'geheim-v3', 'geheim-p3', 'geheim-t3')", f"INSERT INTO {db}.big VALUES ('geheim-x', '')")
    w.wait()
    lake = lake_of(w)
    assert lake.count(db, "big") == 120001
    inner = hashlib.sha256(key.encode() + b"\x00\xff").hexdigest()
    assert column(lake, db, "bin", "id", "token") == [(1, hashlib.sha256(key.encode() + inner.encode()).hexdigest()), (2, None)]
    assert sorted(r["row_key"] for r in dead(lake)) == ['{"id": 1}', '{"id": 3}']
    w.config["transform"]["rules"][2]["on_error"] = "stop"
    w.write()
    w.stop()
    w.catch_up(status=[1, 2]).says("column n")
    everything = readable(w)
    assert b"geheim" not in everything, everything[max(0, everything.index(b"geheim") - 200):][:400]
    assert b"s3cr3t" not in everything


def test_a_new_column_with_a_default_is_masked_in_old_rows_too(server, db, make_weir, lake_of):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1), (2)")
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"rules": [{"table": rf"{db}\.t", "mask": {"email?": "hash"}, "convert": {"n?": "string"}}]}})
    w.start()
    w.wait()
    server.sql(f"ALTER TABLE {db}.t ADD email VARCHAR(20) NOT NULL DEFAULT 'nobody', ADD n INT NOT NULL DEFAULT 7", f"INSERT INTO {db}.t VALUES (3, 'x', 8)")
    w.wait()
    sha = {s: hashlib.sha256(s.encode()).hexdigest() for s in ("nobody", "x")}
    assert lake_rows(lake_of(w), db, "t", ["id", "email", "n"]) == [(1, sha["nobody"], "7"), (2, sha["nobody"], "7"), (3, sha["x"], "8")]


def test_refused_rows_without_a_key_are_counted_one_by_one(server, db, make_weir, lake_of):
    server.sql(f"CREATE TABLE {db}.t (v VARCHAR(20))", f"INSERT INTO {db}.t VALUES ('bad'), ('bad'), ('bad'), ('worse'), ('1')")
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"rules": [{"table": rf"{db}\.t", "set": {"n": "CAST(v AS INTEGER)"}, "on_error": "dead-letter"}]}})
    w.start()
    w.wait()
    lake = lake_of(w)

    def check():
        w.wait()
        v = [r[0] for r in server.sql(f"SELECT v FROM {db}.t")]
        assert column(lake, db, "t", "v") == sorted([(x,) for x in v if x.isdigit()], key=repr)
        import json
        assert sorted(json.loads(r["row"])["v"] for r in dead(lake)) == sorted(x for x in v if not x.isdigit())
    check()
    server.sql(f"DELETE FROM {db}.t WHERE v = 'bad' LIMIT 1")
    check()
    server.sql(f"INSERT INTO {db}.t VALUES ('worse'), ('worse')", f"UPDATE {db}.t SET v = '2' WHERE v = 'bad' LIMIT 1")
    check()
    w.kill()
    server.sql(f"ALTER TABLE {db}.t ADD c INT", f"DELETE FROM {db}.t WHERE v = 'worse' LIMIT 2")
    w.start()
    check()
    server.sql(f"DELETE FROM {db}.t")
    check()
    assert w.status()["anomalies"] == 0


def test_rules_wait_for_a_schema_further_on(server, db, make_weir, lake_of):
    """the rule fits the last of several changes in the queue; nothing is read unmasked in between"""
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, email VARCHAR(20))", f"INSERT INTO {db}.t VALUES (1, 'geheim1')")
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"rules": [{"table": rf"{db}\.t", "mask": {"email": "hash"}}]}})
    w.catch_up()
    lake, sha = lake_of(w), [hashlib.sha256(f"geheim{i}".encode()).hexdigest() for i in range(6)]
    server.sql(f"ALTER TABLE {db}.t CHANGE email mail VARCHAR(20)", f"INSERT INTO {db}.t VALUES (2, 'geheim2')", f"TRUNCATE {db}.t", f"INSERT INTO {db}.t VALUES (3, 'geheim3')",
               f"ALTER TABLE {db}.t ADD c INT", f"ALTER TABLE {db}.t CHANGE mail mail2 VARCHAR(30)", f"INSERT INTO {db}.t VALUES (4, 'geheim4', 1)")
    w.catch_up(status=1).says("email")
    w.config["transform"]["rules"][0]["mask"] = {"mail2": "hash"}
    w.write()
    w.catch_up()
    assert lake_rows(lake, db, "t", ["id", "mail2", "c"]) == [(3, sha[3], None), (4, sha[4], 1)]
    assert b"geheim" not in readable(w)


@pytest.mark.parametrize("text", ["CREATE MACRO sha256(x) AS x;", "CREATE MACRO LEFT(s, n) AS s;", "CREATE MACRO tidy(a, b := now()) AS b;", "CREATE TABLE x (a INT);", "SELECT 1;"])
def test_functions_that_cannot_be(server, db, make_weir, lake_of, text):
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(20))")
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"functions": "f.sql", "rules": [{"table": rf"{db}\.t", "mask": {"v": "hash"}}]}})
    (w.dir / "f.sql").write_text(text)
    w.check(status=1).says("transform.functions")
    w.catch_up(status=[1, 2]).says("transform.functions")


def test_rules_for_a_column_that_came_while_nothing_ran(server, db, make_weir, lake_of):
    """the change is not even in the queue when the rule is there"""
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1)")
    w = make_weir(server, [rf"{db}\..*"], {"transform": {"rules": []}})
    w.catch_up()
    server.sql(f"INSERT INTO {db}.t VALUES (2)", f"ALTER TABLE {db}.t ADD c INT", f"ALTER TABLE {db}.t ADD ssn VARCHAR(20) DEFAULT 'geheim'", f"INSERT INTO {db}.t VALUES (3, 4, 'geheim3')")
    w.config["transform"]["rules"] = [{"table": rf"{db}\.t", "mask": {"ssn": "hash"}}]
    w.write()
    w.catch_up()
    sha = [hashlib.sha256(s).hexdigest() for s in (b"geheim", b"geheim3")]
    assert lake_rows(lake_of(w), db, "t", ["id", "c", "ssn"]) == [(1, None, sha[0]), (2, None, sha[0]), (3, 4, sha[1])]
    w.config["transform"]["rules"][0]["mask"] = {"nix": "hash"}
    w.write()
    w.catch_up(status=1).says("nix")


POINTS = ["ice.announced", "ice.sql", "ice.commit", "ice.committed", "ice.told", "pipeline.after_commit", "load.after_seal", "state.commit", "lake.before_commit", "lake.before_data_file", "io.rename"]


@pytest.mark.parametrize("point", POINTS)
def test_killed_between_any_two_steps(server, db, make_weir, lake_of, monkeypatch, point):
    """loads with refused rows, streams, other rules and the former ones again: whichever step is the last, afterwards every row is where it belongs"""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    server.sql(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(20))", f"CREATE TABLE {db}.nk (v VARCHAR(20), n INT)", f"CREATE TABLE {db}.h (phone VARCHAR(20) PRIMARY KEY, v VARCHAR(20))")

    def value():
        return rng.choice(("'bad'", "'worse'", "NULL", f"'{rng.randrange(50)}'", f"'{rng.randrange(50)}'"))
    for _ in range(3):
        server.sql(*[f"REPLACE INTO {db}.{t} VALUES " + ",".join(f"({k}, {value()})" for k in rng.sample(range(500), 100)) for t in ("t", "h")],
                   f"INSERT INTO {db}.nk VALUES " + ",".join(f"({value()}, {rng.randrange(3)})" for _ in range(50)))
    w = make_weir(server, [rf"{db}\..*"], {"lake": {"commit": {"every": "100ms"}}, "transform": {"rules": []}})
    lake = lake_of(w)

    def rules(k):
        w.config["transform"]["rules"] = [{"table": rf"{db}\..*", "filter": f"v IS NULL OR v <> '{k}'", "set": {"n": f"CAST(v AS INTEGER) + {k}"}, "mask": {"phone?": "hash"}, "on_error": "dead-letter"}]
        w.write()
        return k

    def check(k):
        letters = {}
        for r in dead(lake):
            letters.setdefault(r["source_table"], []).append(r["row"])
        for t, names in (("t", "id, v"), ("h", "phone, v"), ("nk", "v, n")):
            rows = server.sql(f"SELECT {names} FROM {db}.{t}")
            v = 0 if t == "nk" else 1
            kept = [r for r in rows if r[v] != str(k)]
            good = [r for r in kept if r[v] is None or r[v].isdigit()]
            n = [None if r[v] is None else int(r[v]) + k for r in good]
            key = [hashlib.sha256(r[0].encode()).hexdigest() if t == "h" else r[0] for r in good]
            if t == "nk":
                assert column(lake, db, t, "v", "n") == sorted([(r[0], b) for r, b in zip(good, n)], key=repr)
            else:
                assert column(lake, db, t, {"t": "id", "h": "phone"}[t], "v", "n") == sorted([(a, r[v], b) for a, r, b in zip(key, good, n)], key=repr), t
            assert len(letters.get(t, [])) == len(kept) - len(good), t
    was = k = rules(1)
    for n in (1, 3, 2):
        monkeypatch.setenv("WEIR_FAULT", f"{point}:{n}:kill")
        w.start()
        try:
            server.sql(f"DELETE FROM {db}.nk WHERE v = 'bad' LIMIT 3", f"UPDATE {db}.t SET v = {value()} WHERE id % 7 = {rng.randrange(7)}", f"UPDATE {db}.h SET phone = phone + 1000 WHERE v = 'bad' LIMIT 2",
                       f"UPDATE {db}.nk SET v = {value()} WHERE n = {rng.randrange(3)} LIMIT 5", f"INSERT INTO {db}.nk VALUES ({value()}, 1), ('bad', 1)")
            w.run("wait", "--timeout", "2", status=None)
        finally:
            w.kill()
        monkeypatch.delenv("WEIR_FAULT")
        if rng.random() < .5:
            k, was = rules(was), k
        w.catch_up()
        check(k)
        was, k = k, rules(rng.choice((k, 2, 3)))
    assert w.status()["anomalies"] == 0
