"""Random rules over random schemas, values, changes and schema changes (harness/random_sql.py). Two pipelines follow one database: what one without rules has is
compared with the source and then given to an oracle (harness/rules_oracle.py) that says what the other must have in its tables and among its dead letters.

WEIR_SEED=123 repeats a run, WEIR_ROUNDS=100 makes it long (3)."""
import json
import os
import random
import re
import time

import pytest
from harness import random_play, rules_oracle
from harness.lake import Lake
from harness.rules_oracle import Oracle, random_rule

ROUNDS = int(os.environ.get("WEIR_ROUNDS", "3"))
SEED = int(os.environ.get("WEIR_SEED", random.SystemRandom().randrange(10**6)))
KEY = "k\\xe9y'ü"
RULE_TROUBLE = r"transform\.rules\[\d+\]"


class Rules:
    def __init__(self, rnd, plain, ruled, db):
        self.r, self.plain, self.ruled, self.db = rnd, plain, ruled, db
        self.keyed = bool(ruled.config["transform"].get("mask_key_env"))

    def tables(self):
        lake = Lake(self.plain.home)
        return [n for d, n in sorted(lake.tables()) if d == self.db and "__dropped_" not in n]

    def source(self, name):
        t = Lake(self.plain.home).table(self.db, name)
        ids = set(t.schema().identifier_field_ids)
        return t.scan().to_arrow(), [f.name for f in t.schema().fields if f.field_id in ids]

    def make(self, names):
        """other rules, in a file that the next start reads"""
        rules = []
        for name in names:
            arrow, keys = self.source(name)
            o = Oracle(KEY if self.keyed else None)
            table = o.table(arrow)
            for _ in range(self.r.choice((0, 1, 1, 2))):
                rule = random_rule(self.r, o, table, keys, self.db, name)
                try:
                    out, _, bad = o.stage(table, rule)
                except Exception:
                    continue                # an expression that fails without rows, e.g. for its types
                if bad:
                    rule["on_error"] = "dead-letter"
                    out, _, _ = o.stage(table, rule)
                keys = [rule.get("rename", {}).get(k, k) for k in keys]
                table = out
                rules.append(rule)
        self.ruled.config["transform"]["rules"] = rules
        self.ruled.write()

    def differences(self, names):
        lake, found = Lake(self.ruled.home), []
        letters = lake.table("_weir", "dead_letter").scan().to_arrow().to_pylist() if ("_weir", "dead_letter") in lake.tables() else []
        for name in names:
            arrow, _ = self.source(name)
            o = Oracle(KEY if self.keyed else None)
            table, refused = o.table(arrow), {}
            for rule in self.ruled.config["transform"]["rules"]:
                if rule["table"] == rules_oracle.pattern(self.db, name):
                    table, more, bad = o.stage(table, rule)
                    refused.update(more)
                    if bad:
                        found.append(f"{name}: a row should have ended the sync")
            want = o.texts(table)
            got = o.texts(o.table(lake.table(self.db, name).scan().to_arrow()))
            if want[0] != got[0]:
                found.append(f"{name}: columns {want[0]}, lake {got[0]}")
            elif want[1] != got[1]:
                a, b = [x for x in want[1] if x not in got[1]], [x for x in got[1] if x not in want[1]]
                found.append(f"{name}: {len(want[1])} rows, lake {len(got[1])}; missing {a[:3]}, odd {b[:3]}")
            have = sorted(str(x["column_name"]) for x in letters if (x["source_db"], x["source_table"]) == (self.db, name))
            if have != sorted(map(str, refused.values())):
                found.append(f"{name}: dead letters {sorted(map(str, refused.values()))}, lake {have}")
        for d, n in {(x["source_db"], x["source_table"]) for x in letters} - {(self.db, n) for n in names}:
            found.append(f"dead letters of {d}.{n}, which is not there")
        for x in letters:
            json.loads(x["row"])
        return found


def settle(rules, names):
    """the pipeline with rules catches up; rules that a schema change or a row has made impossible are replaced, which must help"""
    for _ in range(12):         # some that are drawn are impossible
        r = rules.ruled.catch_up(status=None)
        if r.status == 0:
            return
        assert re.search(RULE_TROUBLE, r.out + r.err), repr(r)
        rules.make(names)
    raise AssertionError(f"new rules do not help: {json.dumps(rules.ruled.config['transform'])}\n{r!r}")


@pytest.mark.parametrize("number", range(ROUNDS))
def test_random_rules(server, flavor, make_weir, tmp_path, monkeypatch, number):
    print(f"\nWEIR_SEED={SEED + number} WEIR_ROUNDS=1")
    rnd, db = random.Random(f"{SEED + number} {flavor}"), "rndrules"
    monkeypatch.setenv("WEIR_TEST_MASK", KEY)
    config = {"lake": {"commit": {"every": rnd.choice(("100ms", "1s"))}}, "policy": {"on_drop": "mirror"}}
    plain = make_weir(server, [rf"{db}\..*"], config)
    ruled = make_weir(server, [rf"{db}\..*"], {**config, "name": "ruled", "transform": {"rules": [], **({"mask_key_env": "WEIR_TEST_MASK"} if rnd.random() < .5 else {})}})
    player = random_play.Player(server, db, plain, False)
    rules = Rules(rnd, plain, ruled, db)
    try:
        rd = random_play.Round(rnd, player, flavor, tables=rnd.choice((2, 4)), batches=0, statements=rnd.choice((10, 25)))
        rd.set_sessions()
        rd.create_tables()
        for _ in range(15):
            rd.transaction(rd.infos())
        for batch in range(6):
            plain.catch_up()
            player.compare()
            names = rules.tables()
            if batch == 0 or rnd.random() < .5:
                rules.make(names)
            settle(rules, names)
            assert not rules.differences(names), "\n".join(rules.differences(names)) + "\n" + json.dumps(ruled.config["transform"])
            if rnd.random() < .6:
                ruled.start()
            rd.batch()
            if ruled.proc:
                for _ in range(rnd.choice((1, 2))):
                    time.sleep(rnd.uniform(0, .6))
                    ruled.kill()
                    ruled.start()
                time.sleep(rnd.uniform(0, .4))
                ruled.kill()
    except BaseException as e:
        if re.search(random_play.LEGITIMATE, str(e)):
            print("refused:", e)
            return
        player.save(tmp_path / "failing.jsonl")
        print(f"the statements: {tmp_path / 'failing.jsonl'}")
        raise
    finally:
        player.end()
        ruled.kill()
        server.sql(f"DROP DATABASE IF EXISTS {db}")
