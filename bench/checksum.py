"""Equality of a source table and its lake table by checksums that do not depend on order, computed by the server and by DuckDB.

Per column: how many values are not null; for numbers and times the sum and the sum weighted by `id mod 1013`; for texts the
sum of the first 60 bits of SHA-256(id:value). For whole rows: the sum of the first 60 bits of SHA-256 over all values."""
import threading

import duckdb

COLUMNS = {"id": "int", "customer_id": "int", "shop_id": "int", "state": "int", "quantity": "int", "flags": "int", "price": "decimal",
           "discount": "decimal", "currency": "text", "created_at": "time", "updated_at": "time", "shipped_at": "time", "email": "text",
           "address": "text", "note": "text"}
READERS = ("duckdb", "pyiceberg")
SOURCE_CONNECTIONS = 2


def expressions(server):
    """-> [(what, SQL)]; for the server or for DuckDB"""
    def hashed(text):
        return f"CAST(CONV(LEFT(SHA2({text}, 256), 15), 16, 10) AS UNSIGNED)" if server else f"('0x' || left(sha256({text}), 15))::UBIGINT"

    def number(c, kind):
        if kind == "time":
            return f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {c})" if server else f"epoch_us({c})::HUGEINT"
        if server:
            return c
        return f"{c}::HUGEINT" if kind == "int" else f"{c}::DECIMAL(20,2)"

    def text(c, kind):
        v = c if kind == "text" else number(c, kind)       # not as a file's type would write it: 12.5, 12.50, 12.500000000
        return v if server else f"({v})::VARCHAR"

    weight = "(id % 1013)" if server else "(id % 1013)::DECIMAL(4,0)"
    out = [("rows", "COUNT(*)")]
    for c, kind in COLUMNS.items():
        out.append((f"{c}: values", f"COUNT({c})"))
        if kind == "text":
            joined = f"CONCAT(id, ':', {c})" if server else f"id::VARCHAR || ':' || {c}"
            out.append((f"{c}: SHA-256", f"SUM({hashed(joined)})"))
            continue
        v = number(c, kind)
        w = weight if server or kind == "decimal" else "(id % 1013)::HUGEINT"
        out += [(f"{c}: sum", f"SUM({v})"), (f"{c}: weighted", f"SUM(({v}) * {w})")]
    whole = ", ".join(f"COALESCE({text(c, k)}, '-')" for c, k in COLUMNS.items())
    joined = f"CONCAT_WS('|', {whole})"
    out.append(("whole rows: SHA-256", f"SUM({hashed(joined)})"))
    return out


def of_source(server, db, table):
    """-> {what: number}; key ranges on several connections, added up"""
    exprs = expressions(server=True)
    [(lo, hi)] = server.sql(f"SELECT COALESCE(MIN(id), 0), COALESCE(MAX(id), 0) + 1 FROM {table}", db=db)
    bounds = [lo + (hi - lo) * i // SOURCE_CONNECTIONS for i in range(SOURCE_CONNECTIONS + 1)]
    parts = [None] * SOURCE_CONNECTIONS

    def part(i):
        try:
            [parts[i]] = server.sql("SET time_zone = '+00:00'", f"SELECT {', '.join(e for _, e in exprs)} FROM {table} "
                                    f"WHERE id >= {bounds[i]} AND id < {bounds[i + 1]}", db=db)
        except Exception as e:      # handed to the caller below
            parts[i] = e
    threads = [threading.Thread(target=part, args=(i,)) for i in range(SOURCE_CONNECTIONS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for p in parts:
        if isinstance(p, Exception):
            raise p
    return {name: sum(p[i] or 0 for p in parts) for i, (name, _) in enumerate(exprs)}


def of_relation(con, relation):
    """-> {what: number} of anything that DuckDB can read"""
    exprs = expressions(server=False)
    row = con.execute(f"SELECT {', '.join(e for _, e in exprs)} FROM {relation}").fetchone()
    return {name: v or 0 for (name, _), v in zip(exprs, row)}


def of_arrow(rows):
    """of an Arrow table or batch reader"""
    con = duckdb.connect()
    con.execute("SET TimeZone='UTC'")
    con.register("rows_of_table", rows)
    return of_relation(con, "rows_of_table")


def of_lake(lake, ns, table, reader):
    from harness.lake import duckdb_connection      # here, because the readers of other tools' tables do without PyIceberg
    tbl = lake.table(ns, table)
    if reader == "duckdb":
        return of_relation(duckdb_connection(), f"iceberg_scan('{tbl.metadata_location}')")
    return of_arrow(tbl.scan().to_arrow_batch_reader())


def differences(want, lake, ns, table, readers=READERS):
    """-> list of texts, empty = equal"""
    found = []
    for reader in readers:
        got = of_lake(lake, ns, table, reader)
        found += [f"{ns}.{table} by {reader}: {k}: source {want[k]}, lake {got[k]}" for k in want if want[k] != got[k]]
    return found
