"""weir repair: what a comparison found is put right while the source changes and the sync goes on. Damage is planted in the source where nobody logs it."""
import json
import os
import random
import time

import pytest
from harness import writer
from harness.lake import Lake
from harness.partitions import layout
from test_compare import Churn, compare, fill_big, interrupted, planted, tables

SEED = int(os.environ.get("WEIR_SEED", "0"))
N = 3000
GOODS = "id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(10,2), body BLOB, seen TIMESTAMP(6) NULL"
CHURN = ["UPDATE goods SET price = price + 1 WHERE id = %s", "UPDATE goods SET seen = NOW(6) WHERE id = %s", "DELETE FROM goods WHERE id = %s",
         "INSERT IGNORE INTO goods VALUES (%s, 'again', 1, 'x', NOW(6))"]


def fill(server, db):
    server.sql(f"CREATE TABLE goods ({GOODS})", "CREATE TABLE heap (a INT, b VARCHAR(20))", db=db)
    server.sql("INSERT INTO goods VALUES " + ",".join(f"({i}, 'n{i}', {i}.50, x'{i:08x}', '2024-01-01 00:00:00')" for i in range(N)),
               "INSERT INTO heap VALUES (1, 'x'), (1, 'x'), (2, NULL)", db=db)


def records(weir):
    return [json.loads(p.read_text()) for p in sorted((weir.home / "repair").glob("*.json"))]


def damage(server, db, rnd):
    """-> ids that must not be changed by others, or the damage would be told after all"""
    ids = rnd.sample(range(N), 40)
    gone, new, stale, bits = ids[:10], [N + i for i in range(10)], ids[10:30], ids[30:]
    planted(server, db, f"DELETE FROM goods WHERE id IN ({','.join(map(str, gone))})",
            "INSERT INTO goods VALUES " + ",".join(f"({i}, 'planted', 9.99, NULL, NULL)" for i in new),
            f"UPDATE goods SET price = price + 0.01, seen = seen + INTERVAL 8 HOUR WHERE id IN ({','.join(map(str, stale))})",
            f"UPDATE goods SET body = x'ff' WHERE id IN ({','.join(map(str, bits))})")
    return set(ids) | set(new)


def test_rows_are_repaired_while_the_sync_follows_a_busy_source(server, db, weir):
    fill(server, db)
    weir.start()
    weir.wait()
    ids = damage(server, db, random.Random(SEED))
    with Churn(server, db, *CHURN, numbers=N, spare=ids) as churn:
        r = tables(compare(weir, f"{db}.goods", status=1))["goods"]
        assert (r["rows"]["missing"], r["rows"]["surplus"], r["rows"]["different"]) == (10, 10, 30)
        told = weir.run("repair")
        told.says(rf"{db}\.goods: 50 rows would be read again", "Nothing was changed")
        assert compare(weir, f"{db}.goods", status=1)["verdict"] == "DIFFERENT"
        weir.run("repair", "--apply", "--why", "ticket 4711").says("50 keys repaired, of which the source has 40 rows", rf"compared again: {db}\.goods EQUAL")
        assert compare(weir)["verdict"] == "EQUAL"
        before = churn.done
        time.sleep(1)
        assert churn.done > before
    [record] = records(weir)
    assert record["why"] == "ticket 4711" and record["report"].endswith(".json") and "@" in record["asked_by"] and record["done_at"] and record["tables"][0]["state"] == "done"
    weir.wait()
    weir.stop()
    assert compare(weir)["verdict"] == "EQUAL"
    weir.run("repair").says("Nothing to repair")


def test_rows_are_repaired_without_a_sync(server, db, weir):
    fill(server, db)
    weir.catch_up()
    damage(server, db, random.Random(SEED))
    compare(weir, status=1)
    weir.run("repair", "--apply").says("50 keys repaired", "EQUAL")
    assert compare(weir)["verdict"] == "EQUAL"


def test_a_table_without_a_key_is_read_again(server, db, weir):
    fill(server, db)
    weir.start()
    weir.wait()
    planted(server, db, "INSERT INTO heap VALUES (1, 'x'), (7, 'planted')", "DELETE FROM heap WHERE a = 2")
    with Churn(server, db, "INSERT INTO heap VALUES (3, 'more')", per_second=50):
        compare(weir, f"{db}.heap", status=1)
        weir.run("repair").says(rf"{db}\.heap: would be read again as a whole")
        weir.run("repair", "--apply").says("it is read again", "EQUAL")
    weir.wait()
    weir.stop()
    assert compare(weir)["verdict"] == "EQUAL"


def test_tables_are_read_again_by_name(server, db, weir):
    fill(server, db)
    weir.catch_up()
    planted(server, db, "UPDATE goods SET name = 'other'")
    weir.run("repair", "--reload", f"{db}.goods").says("would be read again as a whole")
    weir.run("repair", "--reload", f"{db}.goods", "--apply").says("EQUAL")
    weir.run("repair", "--reload", f"{db}.nothing", "--apply", status=None).says("not repaired: the pipeline has no such table|neither source nor lake")
    weir.run("repair", "--reload", status=2).says("takes the names")


@pytest.mark.parametrize("key", [
    ("a INT UNSIGNED, b VARCHAR(20) COLLATE utf8mb4_general_ci, v INT, PRIMARY KEY (b, a)", "(1, 'ä\\'`\"x', 1), (2, 'Straße', 2), (3, '', 3), (4, ' ', 4)"),
    ("a BIGINT UNSIGNED PRIMARY KEY, v INT", "(18446744073709551615, 1), (0, 2)"),
    ("a VARBINARY(20) PRIMARY KEY, v INT", "(x'00ff27', 1), ('', 2)"),
    ("a DATETIME(6) PRIMARY KEY, v INT", "('2024-02-29 12:00:00.000001', 1), ('1000-01-01', 2)"),
    ("a TIMESTAMP(3) PRIMARY KEY, v INT", "('2024-02-29 12:00:00.001', 1)"),
    ("a TIME(6) PRIMARY KEY, v INT", "('-838:59:58.999999', 1), ('00:00:00', 2)"),
    ("a DECIMAL(30,10) PRIMARY KEY, v INT", "(-12345678901234567890.0123456789, 1)"),
    ("a ENUM('x','y z','ö') PRIMARY KEY, v INT", "('y z', 1), ('ö', 2)"),
    ("a VARCHAR(20) CHARACTER SET latin1 PRIMARY KEY, v INT", "('äöü', 1)"),
    ("a BIT(10) PRIMARY KEY, v INT", "(b'1100110011', 1)"),
    ("a DATE, b YEAR, v INT, PRIMARY KEY (a, b)", "('2024-02-29', 2024, 1)"),
    ("a CHAR(10) PRIMARY KEY, v INT", "('ab  ', 1), ('', 2)"),
], ids=lambda k: k[0].split(",")[0].split(" PRIMARY")[0].replace(" ", "_"))
def test_rows_are_found_by_every_kind_of_key(server, db, weir, key):
    columns, rows = key
    server.sql(f"CREATE TABLE t ({columns})", f"INSERT INTO t VALUES {rows}", db=db)
    weir.catch_up()
    planted(server, db, "UPDATE t SET v = v + 100")
    compare(weir, status=1)
    weir.run("repair", "--apply").says(r"(\d+) keys repaired, of which the source has \1 rows", "EQUAL")


def test_a_key_that_has_no_exact_text_is_refused_and_others_are_repaired(server, db, weir):
    server.sql("CREATE TABLE f (a DOUBLE PRIMARY KEY, v INT)", "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE z (id INT PRIMARY KEY, v INT)",
               *[f"INSERT INTO {t} VALUES (1, 1), (2, 2)" for t in "afz"], db=db)
    weir.catch_up()
    planted(server, db, *[f"UPDATE {t} SET v = v + 1" for t in "afz"])
    compare(weir, status=1)
    weir.run("repair", "--apply", status=1).says(rf"{db}\.f: not repaired: .*no text that is exact", rf"{db}\.a EQUAL", rf"{db}\.z EQUAL", rf"{db}\.f DIFFERENT")
    weir.run("repair", "--reload", f"{db}.f", "--apply").says("EQUAL")


def test_a_row_in_the_wrong_shard_goes_home(server, db, make_weir):
    server.sql(*[f"CREATE TABLE o_{i} (id INT PRIMARY KEY, v INT)" for i in (1, 2)], *[f"INSERT INTO o_{i} VALUES (1, {i}), (2, {i})" for i in (1, 2)], db=db)
    weir = make_weir(server, [rf"{db}\..*"], config={"merge": [{"from": rf"{db}\.o_\d", "to": f"{db}.orders"}]})
    weir.catch_up()
    planted(server, db, "DELETE FROM o_1 WHERE id = 2", "INSERT INTO o_2 VALUES (7, 7)", "UPDATE o_2 SET v = 9 WHERE id = 1")
    r = compare(weir, status=1)
    assert tables(r)["orders"]["rows"]["missing"] == 1 and tables(r)["orders"]["rows"]["surplus"] == 1
    weir.run("repair", "--apply").says("3 keys repaired, of which the source has 2 rows", "EQUAL")


def test_rules_apply_to_repaired_rows(server, db, make_weir):
    fill(server, db)
    weir = make_weir(server, [rf"{db}\.goods"], config={"transform": {"rules": [{"table": rf"{db}\.goods", "filter": "price < 1000", "set": {"name": "upper(name)"}}]}})
    weir.catch_up()
    planted(server, db, "UPDATE goods SET name = 'quiet', price = 5000 WHERE id < 5", "UPDATE goods SET name = 'quieter' WHERE id BETWEEN 10 AND 12")
    compare(weir, status=1)
    weir.run("repair", "--apply").says("8 keys repaired", "EQUAL")


PARTED = {"merge": [{"from": r".*\.shard_\d", "to": "lake.shards"}],
          "transform": {"rules": [{"table": r".*\.ruled", "filter": "v <> 'test'", "set": {"n": "n * 10"}, "mask": {"v": "hash"}}]},
          "lake": {"layout": [{"match": r".*\.parted", "partition": ["month(made)", "bucket(4, id)"], "sort": ["n"]}, {"match": r".*\.heap", "partition": ["a"]},
                              {"match": r"lake\.shards", "partition": ["tb_name", "bucket(3, id)"]}, {"match": r".*\.ruled", "partition": ["truncate(100, n)"]}]}}


@pytest.mark.parametrize("hash", ["fast", "md5"])
def test_partitioned_merged_and_ruled_tables(server, db, make_weir, md5, hash):
    """damage that moves rows into other partitions and shards is found by each method, and what is repaired is in the partition where it belongs"""
    server.sql("CREATE TABLE parted (id INT PRIMARY KEY, made DATE, n INT)", "INSERT INTO parted VALUES " + ",".join(f"({i}, '2026-{i % 5 + 1:02}-10', {i})" for i in range(500)),
               "CREATE TABLE heap (a INT, b VARCHAR(9))", "INSERT INTO heap VALUES " + ",".join(f"({i % 3}, 'v')" for i in range(30)),
               *(f"CREATE TABLE shard_{k} (id INT PRIMARY KEY, v INT)" for k in range(3)), *(f"INSERT INTO shard_{k} VALUES " + ",".join(f"({i}, {k})" for i in range(50)) for k in range(3)),
               "CREATE TABLE ruled (id INT PRIMARY KEY, n INT, v VARCHAR(9))", "INSERT INTO ruled VALUES " + ",".join(f"({i}, {i}, '{'test' if i % 4 == 0 else 'x'}')" for i in range(100)), db=db)
    weir = make_weir(server, [rf"{db}\..*"], config=PARTED)
    weir.start()
    weir.wait()
    hashes = "--hash", hash
    with Churn(server, db, "UPDATE parted SET made = made + INTERVAL 1 MONTH, n = n + 1 WHERE id = %s", "UPDATE shard_1 SET v = v + 1 WHERE id = %s", "UPDATE ruled SET n = n + 100, v = IF(v = 'test', 'x', 'test') WHERE id = %s",
               "UPDATE heap SET a = (a + 1) % 3 LIMIT 1", numbers=40, spare=range(10)):
        for method in ("rows", "pushed"):
            assert compare(weir, "--method", method, *hashes)["verdict"] == "EQUAL"
        planted(server, db, "UPDATE parted SET made = '2027-12-31' WHERE id = 1", "UPDATE parted SET n = -1 WHERE id = 2", "DELETE FROM parted WHERE id = 3", "INSERT INTO parted VALUES (9000, '1999-01-01', 1)",
                "INSERT INTO heap VALUES (77, 'planted')", "DELETE FROM shard_0 WHERE id = 5", "INSERT INTO shard_2 VALUES (900, 5)", "UPDATE shard_2 SET v = 9 WHERE id = 6",
                "UPDATE ruled SET n = 5000 WHERE id = 1", "UPDATE ruled SET v = 'test' WHERE id = 2", "UPDATE ruled SET v = 'x' WHERE id = 4")
        assert {n: t["rows"]["missing"] + t["rows"]["surplus"] for n, t in tables(compare(weir, "--level", "keys", *hashes, status=1)).items() if "rows" in t} == {"parted": 2, "shards": 2, "ruled": 2}
        for method in ("rows", "pushed"):
            found = {n: sorted((d["kind"], (d["source"] or d["lake"]).get("id")) for d in t["differences"]) for n, t in tables(compare(weir, "--method", method, *hashes, status=1)).items()}
            assert found == {"parted": [("different", "1"), ("different", "2"), ("missing", "9000"), ("surplus", "3")], "heap": [("missing", None)],
                             "shards": [("different", "6"), ("missing", "900"), ("surplus", "5")], "ruled": [("different", "1"), ("missing", "4"), ("surplus", "2")]}, method
        weir.run("repair", "--apply").says(rf"{db}\.parted EQUAL", rf"{db}\.heap EQUAL", r"lake\.shards EQUAL", rf"{db}\.ruled EQUAL")
    weir.wait()
    weir.stop()
    assert compare(weir, *hashes)["verdict"] == "EQUAL"
    lake = Lake(weir.home)
    for ns, name in ((db, "parted"), (db, "heap"), ("lake", "shards"), (db, "ruled")):
        assert len({tuple(t.items()) for _, t, _ in layout(lake.table(ns, name))}) > 2, name
    assert (2027 - 1970) * 12 + 11 in {t["made_month"] for _, t, _ in layout(lake.table(db, "parted"))}


def test_an_interrupted_comparison_goes_on_within_shards_and_rules(server, db, make_weir):
    weir = make_weir(server, [rf"{db}\..*"], config=PARTED)
    for name in ("shard_0", "shard_1"):
        fill_big(server, db, 20000, name)
    fill_big(server, db, 30000, "ruled")
    server.sql("UPDATE ruled SET v = 'test' WHERE id % 2", db=db)
    weir.catch_up()
    planted(server, db, "UPDATE shard_0 SET n = 99 WHERE id = 3", "UPDATE ruled SET n = 99 WHERE id IN (20, 21)")     # of these one is kept out by the rule
    interrupted(weir, "compare.chunk:7:kill")
    server.sql("UPDATE shard_0 SET n = n + 1 WHERE id IN (9, 15000)", "UPDATE ruled SET v = IF(v = 'test', 'x', 'test') WHERE id < 10", "UPDATE ruled SET n = n + 1 WHERE id BETWEEN 40 AND 60", db=db)
    weir.catch_up()
    t = tables(compare(weir, "--resume", status=1))
    assert {n: [(d["kind"], d["key"]["id"]) for d in x["differences"]] for n, x in t.items()} == {"shards": [("different", "3")], "ruled": [("different", "20")]}, t
    assert sum(x.get("rows_kept", 0) for x in t.values()) >= 35000, t      # those that the rule lets pass
    assert t["shards"]["rows"]["source"] == 40000 and t["ruled"]["rows"]["source"] == 15000


@pytest.mark.parametrize("fault", ["repair.read:1", "lake.before_commit:1", "pipeline.after_commit:1"])
def test_a_repair_that_is_killed_is_done_by_the_next_start(server, db, weir, fault):
    fill(server, db)
    weir.catch_up()
    damage(server, db, random.Random(SEED))
    compare(weir, status=1)
    os.environ["WEIR_FAULT"] = f"{fault}:kill"
    try:
        with pytest.raises(AssertionError, match="died of signal 9"):
            weir.run("repair", "--apply", status=None)
    finally:
        del os.environ["WEIR_FAULT"]
    assert list((weir.home / "repair").glob("*.asked.json"))
    weir.catch_up()
    assert not list((weir.home / "repair").glob("*.asked.json"))
    assert compare(weir)["verdict"] == "EQUAL"


def test_a_sync_that_is_killed_while_it_repairs_loses_nothing(server, db, weir):
    writer.create(server, db, rows=2000)
    weir.start()
    weir.wait()
    for round in range(3):
        planted(server, db, *[f"UPDATE by_id SET note = 'p{round}-{i}' WHERE id = {25000 + i}" for i in range(3)], f"DELETE FROM by_id WHERE id < {round * 20 + 20}")
        with writer.Writer(server, db, SEED + round):
            compare(weir, f"{db}.by_id", status=(0, 1))
            weir.kill()
            os.environ["WEIR_FAULT"] = "repair.read:1:kill"
            weir.start()
            del os.environ["WEIR_FAULT"]
            weir.run("repair", "--apply", "--timeout", "5", status=None)
            weir.kill()
            weir.start()
    weir.wait()
    time.sleep(2)
    assert not list((weir.home / "repair").glob("*.asked.json"))
    weir.stop()
    compare(weir, status=(0, 1))        # what was planted behind the last report
    weir.run("repair", "--apply")
    assert compare(weir)["verdict"] == "EQUAL"


def test_there_is_no_report_yet(weir, server, db):
    fill(server, db)
    weir.run("repair", status=1).says("no report of a comparison", "weir compare")
    weir.catch_up()
    (weir.dir / "x.json").write_text("{}")
    weir.run("repair", weir.dir / "x.json", status=1).says("is no report of weir compare")


@pytest.mark.local_lake("a file is removed by path")
def test_every_kind_of_damage_is_found_and_repaired_under_load(server, db, make_weir):
    """lost and stale rows, a bit of a blob, a wrong zone, a doubled row, a row in the wrong shard, a file that is gone, a column that nobody told of: at random places,
    with 500 changes/s beside it"""
    rnd = random.Random(f"{SEED} {db}")
    fill(server, db)
    server.sql(*[f"CREATE TABLE o_{i} (id INT PRIMARY KEY, v INT)" for i in (1, 2)], *[f"INSERT INTO o_{i} VALUES " + ",".join(f"({k}, {k})" for k in range(i, 400, 2)) for i in (1, 2)],
               "CREATE TABLE filed (id INT PRIMARY KEY, v INT)", "INSERT INTO filed VALUES " + ",".join(f"({k}, {k})" for k in range(500)),
               "CREATE TABLE wide (id INT PRIMARY KEY, v INT)", "INSERT INTO wide VALUES " + ",".join(f"({k}, {k})" for k in range(500)), db=db)
    weir = make_weir(server, [rf"{db}\..*"], config={"merge": [{"from": rf"{db}\.o_\d", "to": f"{db}.orders"}]})
    weir.start()
    weir.wait()
    ids, wrong = rnd.sample(range(N), 40), rnd.randrange(1, 199) * 2 + 1
    lost, stale, bit, zone = ids[:10], ids[10:20], ids[20:30], ids[30:]
    with Churn(server, db, *CHURN, numbers=N, spare=ids, per_second=500):
        planted(server, db, "INSERT INTO goods VALUES " + ",".join(f"({N + i}, 'planted', 9.99, NULL, NULL)" for i in lost),
                f"UPDATE goods SET price = price + 0.01 WHERE id IN ({','.join(map(str, stale))})",
                *[f"UPDATE goods SET body = INSERT(body, {at}, 1, CHAR(ORD(SUBSTRING(body, {at}, 1)) ^ {1 << rnd.randrange(8)})) WHERE id = {i}" for i in bit for at in [rnd.randrange(1, 5)]],
                f"UPDATE goods SET seen = seen + INTERVAL 8 HOUR WHERE id IN ({','.join(map(str, zone))})",
                f"DELETE FROM heap WHERE a = 1 LIMIT {rnd.choice((1, 2))}", f"DELETE FROM o_1 WHERE id = {wrong}", f"INSERT INTO o_2 VALUES ({wrong}, {wrong})")
        rnd.choice([p for p in weir.home.rglob("*.parquet") if "/filed-" in str(p)]).unlink()
        t = tables(compare(weir, status=1))
        assert {(d["kind"], int(d["key"]["id"])) for d in t["goods"]["differences"]} == {("missing", N + i) for i in lost} | {("different", i) for i in (*stale, *bit, *zone)}
        assert [d["kind"] for d in t["heap"]["differences"]] == ["surplus"]
        assert sorted((d["kind"], d["key"]["tb_name"], d["key"]["id"]) for d in t["orders"]["differences"]) == [("missing", "o_2", str(wrong)), ("surplus", "o_1", str(wrong))]
        assert [f["what"] for f in t["filed"]["findings"]] == ["file-missing"] and t["wide"]["verdict"] == "EQUAL"
        weir.run("repair", "--apply")
        assert compare(weir)["verdict"] == "EQUAL"
        planted(server, db, "ALTER TABLE wide ADD COLUMN w INT DEFAULT 7")
        t = tables(compare(weir, status=1))
        assert {(f["what"], f["subject"]) for f in t["wide"]["findings"]} == {("column-missing", "w")} and {n for n, x in t.items() if x["verdict"] != "EQUAL"} == {"wide"}
        weir.run("repair", "--apply", status=1).says(rf"{db}\.wide: not repaired: ", rf"weir resume --resnapshot {db}\.wide takes the table as it is now")
    weir.stop()
    weir.run("resume", "--resnapshot", f"{db}.goods", status=1).says("nothing is missing")
    weir.run("resume").says(rf"{db}\.wide: its definition changed")
    weir.run("resume", "--resnapshot", f"{db}.wide")
    weir.start()
    weir.wait()
    assert compare(weir)["verdict"] == "EQUAL"
