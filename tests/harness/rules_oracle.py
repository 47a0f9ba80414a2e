"""What rules make of rows, worked out a second time: DuckDB's Python module over rows of a lake table without rules, masks and conversions in our own words.
Random rules that fit a table."""
import hashlib
import re

import duckdb
import pyarrow as pa

INTS = ("INTEGER", "BIGINT")


def q(name):
    return '"' + name.replace('"', '""') + '"'


def pattern(db, name):
    """an anchored expression that means this table alone"""
    return "".join("\\" + c if c in ".[]{}()*+?^$|\\" else c for c in f"{db}.{name}")


def partial(s):
    n, k = len(s), min(4, len(s) // 4)
    return "*" * n if n < 4 else s[:k] + "*" * (n - 2 * k) + s[n - k:]


def keyed(key, data):
    if key is None:
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha256(key + hashlib.sha256(key + data).hexdigest().encode()).hexdigest()


class Oracle:
    def __init__(self, mask_key=None):
        self.con = duckdb.connect()
        self.con.execute("SET TimeZone = 'UTC'; SET threads = 1")
        self.key = mask_key.encode() if mask_key else None
        self.n = 0

    def table(self, arrow):
        """-> name of a table with the rows and their numbers (_n)"""
        self.n += 1
        name = f"s{self.n}"
        self.con.register("given", arrow)
        self.con.execute(f"CREATE TEMP TABLE {name} AS SELECT row_number() OVER () AS _n, * FROM given")
        self.con.unregister("given")
        return name

    def columns(self, table):
        """-> {name: DuckDB's type}"""
        return {r[0]: r[1] for r in self.con.execute(f"DESCRIBE {table}").fetchall()[1:]}

    def type_of(self, table, expr):
        """-> its type, None when it is no expression over the table"""
        try:
            return self.con.execute(f"DESCRIBE SELECT ({expr}) AS x FROM {table}").fetchall()[0][1]
        except duckdb.Error:
            return None

    def faults(self, table, expr, rows):
        """-> the numbers among rows for which expr fails"""
        among = f"SELECT * FROM {table} WHERE _n IN ({','.join(map(str, rows))})" if rows else f"SELECT * FROM {table} WHERE false"

        def fails(where):
            try:
                self.con.execute(f"SELECT max(hash(x)) FROM (SELECT ({expr}) AS x FROM ({among}) WHERE {where})").fetchall()
                return False
            except duckdb.Error:
                return True
        if not rows or not fails("true"):
            return set()
        return {n for n in rows if fails(f"_n = {n}")}

    def masked(self, table, col, ty, how):
        """-> an expression for the mask, whose values Python has worked out"""
        f = partial if how == "partial" else lambda v: keyed(self.key, v if isinstance(v, bytes) else v.encode())
        read = q(col) if ty == "BLOB" else f"CAST({q(col)} AS VARCHAR)"
        rows = self.con.execute(f"SELECT _n, {read} FROM {table}").fetchall()
        self.n += 1
        given = pa.table({"k": pa.array([r[0] for r in rows], pa.int64()), "v": pa.array([None if r[1] is None else f(r[1]) for r in rows], pa.string())})
        self.con.register("given", given)
        self.con.execute(f"CREATE TEMP TABLE m{self.n} AS SELECT * FROM given")
        self.con.unregister("given")
        return f"(SELECT v FROM m{self.n} WHERE k = _n)"

    def sql(self, table, kind, col, ty, how):
        c = q(col)
        if kind == "set":
            return how
        if kind == "mask":
            return f"CAST(NULL AS {ty})" if how == "null" else self.masked(table, col, ty, how)
        return {"string": f"CAST({c} AS VARCHAR)", "seconds to timestamptz": f"TIMESTAMPTZ '1970-01-01 00:00:00+00' + to_seconds({c})", "date in Asia/Shanghai": f"CAST({c} AT TIME ZONE 'Asia/Shanghai' AS DATE)",
                "millis": f"(epoch_us({c}) - ((epoch_us({c}) % 1000) + 1000) % 1000) // 1000", "long": f"CAST({c} AS BIGINT)", "timestamptz in Asia/Shanghai": f"{c} AT TIME ZONE 'Asia/Shanghai'"}[how]

    def stage(self, table, rule):
        """-> (table that comes out, {_n: column or None} refused, stopped: some row ends the sync)"""
        cols, exprs = self.columns(table), {}
        for kind in ("mask", "convert", "set"):
            for col, how in rule.get(kind, {}).items():
                exprs[col] = self.sql(table, kind, col, cols.get(col), how)
        rows = [r[0] for r in self.con.execute(f"SELECT _n FROM {table}").fetchall()]
        policy, refused, nulls, bad = rule.get("on_error", "stop"), {}, {}, False
        if rule.get("filter"):
            broken = self.faults(table, rule["filter"], rows)
            refused = dict.fromkeys(broken)
            rows = [n for n in rows if n not in broken]
            if rows:
                rows = [r[0] for r in self.con.execute(f"SELECT _n FROM (SELECT * FROM {table} WHERE _n IN ({','.join(map(str, rows))})) WHERE {rule['filter']}").fetchall()]
            bad |= bool(broken) and policy != "dead-letter"
        order = [k for k in ("mask", "convert", "set") for _ in rule.get(k, {})]
        for (col, e), _ in zip(exprs.items(), order):
            broken = self.faults(table, e, rows)
            if policy == "null":
                nulls[col] = broken
            else:
                for n in broken:
                    refused.setdefault(n, rule.get("rename", {}).get(col, col))
            bad |= bool(broken) and policy == "stop"
        keep = [n for n in rows if n not in refused]
        out = []
        for col in [*cols, *[c for c in exprs if c not in cols]]:
            if col in rule.get("drop", ()):
                continue
            e = exprs.get(col, q(col))
            if nulls.get(col):
                e = f"CASE WHEN _n NOT IN ({','.join(map(str, nulls[col]))}) THEN ({e}) END"
            out.append(f"({e}) AS {q(rule.get('rename', {}).get(col, col))}")
        self.n += 1
        name = f"s{self.n}"
        self.con.execute(f"CREATE TEMP TABLE {name} AS SELECT _n, {', '.join(out)} FROM (SELECT * FROM {table} WHERE _n IN ({','.join(map(str, keep)) or 'NULL'}))")
        return name, refused, bad

    def texts(self, table):
        cols = self.columns(table)
        return list(cols), sorted(self.con.execute(f"SELECT {', '.join(f'CAST({q(c)} AS VARCHAR)' for c in cols)} FROM {table}").fetchall(), key=repr)


LAKE = re.compile(r"BOOLEAN|TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT|FLOAT|DOUBLE|DECIMAL.*|DATE|TIMESTAMP|TIMESTAMP WITH TIME ZONE|VARCHAR|BLOB|FLOAT\[\]")


def expressions(r, col, ty):
    c = q(col)
    if ty in INTS or ty.startswith("DECIMAL"):
        return [f"{c} + 1", f"{c} * 3", f"-{c}", f"CAST({c} AS TINYINT)", f"CAST({c} AS VARCHAR) || '!'", f"CASE WHEN {c} > 5 THEN 'big' WHEN {c} IS NULL THEN 'none' END", f"100 // {c}", f"CAST({c} AS DOUBLE) / 3", f"sqrt(CAST({c} AS DOUBLE))", f"coalesce({c}, 7)"]
    if ty == "VARCHAR":
        return [f"upper({c})", f"length({c})", f"left({c}, 3)", f"CAST({c} AS INTEGER)", f"CAST({c} AS DATE)", f"coalesce({c}, 'none')", f"regexp_replace({c}, '[a-c]', '-', 'g')", f"{c} || {c}", f"reverse({c})", f"CASE WHEN {c} LIKE '%a%' THEN error('no a''s') ELSE {c} END",
                f"encode({c})", f"list_transform([1, 2], x -> CAST(x + coalesce(length({c}), 0) AS FLOAT))", f"CAST({c} AS DECIMAL(9,3))", f"concat_ws('-', {c}, 'x')"]
    if ty in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
        return [f"strftime({c}, '%Y-%j')", f"year({c})", f"{c} + INTERVAL 1 DAY", f"date_trunc('month', {c})", f"CAST({c} AS VARCHAR)", f"epoch_us({c})"]
    if ty == "BLOB":
        return [f"octet_length({c})", f"hex({c})", f"{c} || {c}", f"decode({c})", f"md5({c})"]
    if ty in ("FLOAT", "DOUBLE"):
        return [f"{c} * 2", f"CAST({c} AS INTEGER)", f"CAST({c} AS VARCHAR)", f"round({c})", f"-{c}"]
    if ty == "FLOAT[]":
        return [f"len({c})", f"list_transform({c}, x -> CAST(x * 2 AS FLOAT))", f"{c}[1]", f"CAST({c} AS VARCHAR)"]
    if ty == "BOOLEAN":
        return [f"NOT {c}", f"CAST({c} AS INTEGER)"]
    return []


def filters(r, col, ty):
    c = q(col)
    if ty in INTS:
        return [f"{c} % 3 <> 0", f"{c} IS NOT NULL", f"10 // {c} >= 0"]
    if ty == "VARCHAR":
        return [f"length({c}) % 2 = 0", f"{c} IS NULL OR {c} < 'm'", f"CAST({c} AS INTEGER) >= 0"]
    return [f"{c} IS NOT NULL"]


def random_rule(r, oracle, table, keys, db, name):
    """a rule for rows of `table` (of the oracle's) whose key columns are `keys`"""
    cols = oracle.columns(table)
    rule = {"table": pattern(db, name), "on_error": r.choice(("stop", "null", "dead-letter", "dead-letter", "dead-letter"))}
    names = [c for c in cols if not c.endswith("?")]
    other = [c for c in names if c not in keys]
    if r.random() < .4 and names:
        f = [x for x in filters(r, *r.choice([(c, cols[c]) for c in names])) if oracle.type_of(table, x) == "BOOLEAN"]
        if f:
            rule["filter"] = r.choice(f)
    free = set(other)
    for _ in range(r.choice((0, 1, 2, 3))):
        src = r.choice(names)
        e = expressions(r, src, cols[src])
        if not e:
            continue
        e = r.choice(e)
        ty = oracle.type_of(table, e)
        if not ty or not LAKE.fullmatch(ty):
            continue
        to = r.choice(sorted(free)) if free and r.random() < .3 else f"new{r.randrange(4)}"
        if to.lower() in [c.lower() for c in cols] and to not in free or to in rule.get("set", {}) or "`" in to:
            continue
        free.discard(to)
        rule.setdefault("set", {})[to] = e
    for c in r.sample(sorted(free), min(len(free), 3)):
        k = r.random()
        if k < .3:
            rule.setdefault("mask", {})[c] = r.choice(("hash", "null", "partial" if cols[c] == "VARCHAR" else "hash"))
        elif k < .5:
            ways = {"VARCHAR": ["string"], "INTEGER": ["long", "string", "seconds to timestamptz"], "BIGINT": ["string"], "TIMESTAMP WITH TIME ZONE": ["date in Asia/Shanghai", "millis"], "TIMESTAMP": ["timestamptz in Asia/Shanghai", "millis"]}.get(cols[c])
            if not ways:
                continue
            rule.setdefault("convert", {})[c] = r.choice(ways)
        elif k < .65 and len(cols) > len(rule.get("drop", ())) + 1:
            rule.setdefault("drop", []).append(c)
        else:
            continue
        free.discard(c)
    for c in keys:
        if r.random() < .25:
            rule.setdefault("mask", {})[c] = "hash"
    for c in names:
        if r.random() < .1 and c not in rule.get("drop", ()):
            rule.setdefault("rename", {})[c] = f"ren{len(rule.get('rename', {}))}"
    taken = [rule.get("rename", {}).get(c, c).lower() for c in [*cols, *[s for s in rule.get("set", {}) if s not in cols]] if c not in rule.get("drop", ())]
    return rule if len(set(taken)) == len(taken) else {"table": rule["table"], "set": {"new9": "1"}}
