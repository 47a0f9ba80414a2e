"""Plays random SQL against a server and a pipeline. Every step is recorded, so that a failure leaves a script that can be played again and
cut down."""
import json
import re
import tempfile
from pathlib import Path

import canon
import pymysql

from . import random_sql as sql
from .compare import READERS, file_findings
from .lake import Lake

SESSIONS = 3
GONE = (2006, 2013, 2014, 0)            # the connection or the server is gone: never the statement's fault
HELPERS = ("_gho", "_ghc", "_del", "_new", "_old")


LEGITIMATE = r"is in the table's key and holds|is no \w+ character"       # what a sync may refuse loudly: the round ends there


class Difference(AssertionError):
    pass


class Player:
    """Runs steps and records them.

    ["sql", session, text]   a server's refusal is an answer like any other
    ["load", session, text, content of the file]
    ["sync"]  ["kill"]  ["stop"]  ["compare"]     what Weir does meanwhile
    """

    def __init__(self, server, db, weir, live, others=()):
        self.server, self.db, self.weir, self.live = server, db, weir, live
        self.lake = Lake(weir.home)
        self.steps, self.sessions, self.refused, self.run = [], {}, 0, 0
        self.databases = [db, *others]
        self.folder = Path(tempfile.mkdtemp(prefix="weir-random-"))
        for x in self.server.sql("XA RECOVER"):           # of a round that ended in the middle of one
            self.server.sql(f"XA ROLLBACK X'{x[3].hex() if isinstance(x[3], bytes) else x[3].encode().hex()}'")
        self.server.sql(*[x for d in self.databases for x in (f"DROP DATABASE IF EXISTS {d}", f"CREATE DATABASE {d}")])

    def session(self, n):
        if n not in self.sessions:
            self.sessions[n] = self.server.connect(database=self.db)
            with self.sessions[n].cursor() as cur:
                cur.execute("SET SESSION lock_wait_timeout = 2, innodb_lock_wait_timeout = 1")
        return self.sessions[n]

    def play(self, *step):
        """-> None, or the server's refusal"""
        self.steps.append(list(step))
        if step[0] in ("sql", "load"):
            text = step[2]
            if step[0] == "load":
                file = self.folder / "data.tsv"
                file.write_text(step[3])
                text = text.replace("{file}", str(file))
            self.run += 1
            try:
                with self.session(step[1]).cursor() as cur:
                    cur.execute(text)
            except pymysql.err.MySQLError as e:
                if not e.args or e.args[0] in GONE:
                    raise
                self.refused += 1
                return e
            except UnicodeError:
                pass
            return None
        getattr(self, step[0])()
        return None

    def sql(self, text, session=0):
        return self.play("sql", session, text)

    # ---- Weir
    def sync(self):
        if not self.live:
            self.weir.catch_up()
            return
        if not self.weir.running:
            if self.weir.proc:
                raise Difference(f"the sync ended by itself:\n{self.weir.ended()!r}")
            self.weir.start()
        r = self.weir.wait(seconds=120, status=None)
        if r.status or not self.weir.running:
            ended = "" if self.weir.running else repr(self.weir.ended())
            raise Difference(f"not caught up: {r!r}\n{ended or self.weir.log_text()[-3000:]}")

    def kill(self):
        self.weir.kill()

    def stop(self):
        self.weir.stop()

    def compare(self, weir=None, readers=("pyiceberg",)):
        weir = weir or self.weir
        if weir.config.get("merge"):
            found = merged_differences(self.server, self.db, weir, tuple(weir.config["merge"][0]["to"].split(".")), r"s_\d+")
        else:
            found = differences(self.server, self.db, weir, readers)
        odd = weir.status()["anomalies"]
        if odd:
            found.append(f"{odd:.0f} anomalies: old rows that were not there, or new ones that were")
        if found:
            raise Difference("\n".join(found[:40]))

    def end(self):
        self.weir.kill()
        for con in self.sessions.values():
            try:
                con.close()
            except pymysql.err.MySQLError:
                pass
        self.sessions = {}

    def save(self, path):
        Path(path).write_text("\n".join(json.dumps(s, ensure_ascii=False) for s in self.steps) + "\n")


# ---------------------------------------------------------------- comparing
def is_helper(name, names):
    return name.startswith("_") and name.endswith(HELPERS)


def source_names(con, db):
    with con.cursor() as cur:
        cur.execute("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY TABLE_NAME", (db,))
        return [canon.s(r[0]) for r in cur.fetchall()]


def differences(server, db, weir, readers=READERS):
    """-> findings over all tables of the database"""
    lake, found = Lake(weir.home), []
    con = canon.connect(server.dsn)
    try:
        names = source_names(con, db)
        have = lake.tables() if lake.exists() else set()
        for name in names:
            if is_helper(name, names):
                continue
            if (db, name) not in have:
                found.append(f"{db}.{name}: missing in the lake")
                continue
            want = canon.server_table(con, db, name)
            for reader in readers:
                try:
                    tbl = lake.table(db, name) if reader == "pyiceberg" else lake.in_duckdb(db, name)
                    got = canon.lake_table(tbl, want)
                    found += [f"{db}.{name} ({reader}): {x}" for x in canon.diff(want, got, reader == "pyiceberg") + cells(want, got)]
                except Exception as e:      # a reader's own trouble is a finding too
                    found.append(f"{db}.{name} ({reader}): {type(e).__name__}: {str(e)[:300]}")
            found += file_findings(lake.table(db, name))
        if weir.config.get("policy", {}).get("on_drop") == "mirror":
            found += [f"{n}: in the lake, not in the source" for d, n in sorted(have) if d == db and n not in names]
    finally:
        con.close()
    return found


def cells(want, got):
    """which columns of the differing rows differ, each row paired with the one most like it"""
    if "rows" not in want or "rows" not in got or want["digest"] == got["digest"]:
        return []
    a, b = [list(r) for r in want["rows"]], [list(r) for r in got["rows"]]
    for row in list(a):
        if row in b:
            a.remove(row), b.remove(row)
    out = []
    for row in a[:5]:
        if b:
            other = max(b, key=lambda x: sum(p == q for p, q in zip(row, x)))
            out += [f"  column {c['name']} ({c['source']}): expected {str(p)[:100]!r}, lake {str(q)[:100]!r}" for c, p, q in zip(want["columns"], row, other) if p != q][:6]
    return out


def merged_value(cls, v):
    """a value of a merged table in a shard's own class: where shards disagree the lake may have it wider, or as text"""
    k = cls.split(":")[0]
    if isinstance(v, str):
        if k in ("f32", "f64"):
            v = float(v)
        elif k in ("int", "bit"):
            v = {"true": 1, "false": 0}.get(v) if v in ("true", "false") else int(v)
        elif k == "time":
            v = int(v)
        elif k in ("bin", "geo"):
            v = bytes.fromhex(v[2:])
        elif k == "vec":
            v = json.loads(v)
    return canon.canon_lake(cls, v)


def merged_differences(server, db, weir, target, pattern):
    """-> findings for the shards of db that match pattern and the lake table (namespace, name) they are merged into"""
    found = []
    con = canon.connect(server.dsn)
    try:
        table = Lake(weir.home).table(*target)
        rows = table.scan().to_arrow().to_pylist()
        found += file_findings(table)
        shards = [n for n in source_names(con, db) if re.fullmatch(pattern, n)]
        for name in sorted({r["tb_name"] for r in rows} - set(shards)):
            found.append(f"{db}.{name}: rows in the merged table, not in the source")
        for name in shards:
            want = canon.server_table(con, db, name)
            mine = [r for r in rows if r["tb_name"] == name and r["db_name"] == db]
            got = canon.pack(want["columns"], want["key"], [[merged_value(c["class"], r.get(c["name"])) for c in want["columns"]] for r in mine])
            found += [f"{db}.{name} (merged): {x}" for x in canon.diff(want, got, False) + cells(want, got)]
            own = {c["name"] for c in want["columns"]} | {"db_name", "tb_name"}
            found += [f"{db}.{name} (merged): {k} is {r[k]!r} in a shard without it" for r in mine for k in r if k not in own and r[k] is not None][:3]
    finally:
        con.close()
    return found


def describe(con, db, name):
    with con.cursor() as cur:
        return {"name": name, "cols": canon.columns(cur, db, name), "key": canon.key_of(cur, db, name)}


# ---------------------------------------------------------------- one round
class Round:
    """Some tables, some batches of changes; after each batch Weir catches up and everything is compared."""

    def __init__(self, rnd, player, flavor, tables=6, batches=5, statements=40):
        self.r, self.p, self.flavor = rnd, player, flavor
        self.g = sql.Gen(rnd, flavor, player.db)
        self.tables, self.batches, self.statements = tables, batches, statements
        self.con = canon.connect(player.server.dsn)
        self.xa = 0

    def infos(self):
        names = [n for n in source_names(self.con, self.p.db)]
        return [describe(self.con, self.p.db, n) for n in names if not is_helper(n, names)]

    def set_sessions(self):
        r = self.r
        for n in range(SESSIONS):
            self.p.sql(f"SET SESSION time_zone = '{r.choice(('+00:00', 'Europe/Berlin', 'America/New_York', '+13:00', 'Asia/Kolkata'))}'", n)
            modes = ["", "", "", "STRICT_TRANS_TABLES", "NO_AUTO_VALUE_ON_ZERO", "ALLOW_INVALID_DATES", "ANSI", "PAD_CHAR_TO_FULL_LENGTH", "TIME_TRUNCATE_FRACTIONAL" if self.flavor == "mysql" else "TIME_ROUND_FRACTIONAL"]
            self.p.sql(f"SET SESSION sql_mode = '{r.choice(modes) if n else ''}'", n)
            if r.random() < 0.2:
                self.p.sql("SET SESSION explicit_defaults_for_timestamp = " + r.choice(("ON", "OFF")), n)
            if self.flavor == "mysql" and r.random() < 0.3:
                self.p.sql("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'", n)
            if self.flavor == "mysql" and r.random() < 0.2:
                self.p.sql("SET SESSION sql_generate_invisible_primary_key = ON", n)
            if self.flavor == "mysql" and r.random() < 0.2:
                self.p.sql("SET SESSION binlog_transaction_compression = ON", n)
            if self.flavor == "mariadb" and r.random() < 0.2:
                self.p.sql("SET SESSION system_versioning_alter_history = KEEP", n)

    def create_tables(self):
        for name in self.r.sample(sql.TABLES, self.tables):
            for _ in range(6):
                if self.p.sql(self.g.create(name)) is None:
                    break

    def change(self, info, infos, session):
        if self.r.random() < 0.03:
            content, text = self.g.load_data(info, None)
            self.p.play("load", session, text, content)
        else:
            self.p.sql(self.g.dml(info, infos), session)

    def transaction(self, infos):
        """on one session, or interleaved on two that touch different tables"""
        r, p = self.r, self.p
        if not infos:
            return
        mine = r.sample(infos, len(infos))
        half = max(1, len(mine) // 2)
        parts = [mine[:half], mine[half:]] if r.random() < 0.3 and len(mine) > 1 else [mine]
        sessions = r.sample(range(SESSIONS), len(parts))
        if len(parts) == 1 and r.random() < 0.35:                # autocommit
            for _ in range(r.choice((1, 3, 6))):
                self.change(r.choice(infos), infos, sessions[0])
            return
        xa = {}
        for s in sessions:
            if r.random() < 0.06:
                self.xa += 1
                xa[s] = f"'x{self.xa}'"
                p.sql(f"XA START {xa[s]}", s)
            else:
                p.sql("BEGIN", s)
        saved = set()
        for _ in range(r.choice((1, 2, 5, 12))):
            i = r.randrange(len(parts))
            s = sessions[i]
            self.change(r.choice(parts[i]), parts[i], s)
            k = r.random()
            if k < 0.1 and s not in xa:
                p.sql("SAVEPOINT sp", s)
                saved.add(s)
            elif k < 0.16 and s in saved:
                p.sql("ROLLBACK TO sp", s)
        for s in r.sample(sessions, len(sessions)):
            if s in xa:
                p.sql(f"XA END {xa[s]}", s)
                p.sql(f"XA PREPARE {xa[s]}", s)
                p.sql(f"XA {r.choice(('COMMIT', 'COMMIT', 'ROLLBACK'))} {xa[s]}", s)
            else:
                p.sql("ROLLBACK" if r.random() < 0.12 else "COMMIT", s)

    def copy(self, name, helper):
        """what gh-ost and pt-online-schema-change do: the columns both have"""
        a, b = describe(self.con, self.p.db, name), describe(self.con, self.p.db, helper)
        plain = {c["name"] for c in a["cols"]} & {c["name"] for c in b["cols"] if not c["genexpr"]}
        shared = ", ".join(sql.ident(c["name"]) for c in a["cols"] if c["name"] in plain)
        if shared:
            self.p.sql("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
            self.p.sql(f"INSERT IGNORE INTO {sql.ident(helper)} ({shared}) SELECT {shared} FROM {sql.ident(name)}")

    def schema_change(self, infos):
        if len(infos) < 2:
            self.create_tables()
            return
        info = self.r.choice(infos)
        session = self.r.randrange(SESSIONS) if self.r.random() < 0.3 else 0
        statements = self.g.ddl(info, infos)
        for i, st in enumerate(statements):
            if st.startswith("/* copy"):
                helper = statements[1].split("`")[1:]
                helper = "`".join(helper)
                helper = next((h for h in (f"_{info['name']}_gho", f"_{info['name']}_new") if sql.ident(h) in statements[1]), None)
                self.copy(info["name"], helper)
            elif self.p.sql(st, session) is not None and (st.startswith("RENAME") and len(statements) > 3 or "`probe`" in st):
                break

    def batch(self):
        infos = self.infos()
        left = self.statements
        while left > 0:
            before = self.p.run
            if self.r.random() < 0.25:
                self.schema_change(infos)
                infos = self.infos()
            else:
                self.transaction(infos)
            left -= max(1, self.p.run - before)

    def play(self):
        p, r = self.p, self.r
        self.set_sessions()
        self.create_tables()
        infos = self.infos()
        for _ in range(20 if infos else 0):
            self.transaction(infos)
        p.play("sync")
        p.play("compare")
        for _ in range(self.batches):
            k = r.random()
            if k < 0.15:
                p.play("kill")
            elif k < 0.3 and p.live:
                p.play("stop")
            self.batch()
            p.play("sync")
            p.play("compare")
        self.con.close()


class MergeRound(Round):
    """shards of one shape that drift apart and are merged into one lake table"""

    def create_tables(self):
        for _ in range(6):
            st = self.g.create("s_1")
            if self.p.sql(st) is None:
                break
        for n in range(2, self.tables + 1):
            self.p.sql(st.replace("`s_1`", f"`s_{n}`", 1))

    def infos(self):
        return [i for i in super().infos() if re.fullmatch(r"s_\d+", i["name"])]

    def schema_change(self, infos):
        if not infos:
            self.create_tables()
            return
        r, info = self.r, self.r.choice(infos)
        t = sql.ident(info["name"])
        k = r.randrange(12)
        if k == 0:
            new = f"s_{r.randrange(1, 12)}"
            self.p.sql(r.choice((f"RENAME TABLE {t} TO {new}", f"RENAME TABLE {t} TO away_{new}", f"CREATE TABLE {new} LIKE {t}", f"DROP TABLE {t}")))
        elif k == 1:
            other = sql.ident(r.choice(infos)["name"])
            self.p.sql(r.choice((f"TRUNCATE TABLE {t}", f"RENAME TABLE {t} TO swapped, {other} TO {t}, swapped TO {other}")))
        elif k < 5:             # the same change, shard after shard
            spec = self.g.alter_spec(info)
            for i in infos[: r.choice((1, 2, len(infos)))]:
                self.p.sql(f"ALTER TABLE {sql.ident(i['name'])} {spec}")
        else:
            self.p.sql(f"ALTER TABLE {t} {self.g.alter_spec(info)}")
