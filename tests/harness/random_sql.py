"""Random SQL for both servers: schemas, border values, changes, schema changes. Everything is drawn from one random.Random, and what a
statement may name is read from the server, so that the same seed gives the same statements on the same server."""
import re

import canon

CHARSETS = ["latin1", "utf8mb4", "utf8mb3", "gbk", "sjis", "utf16", "utf16le", "utf32", "ucs2", "binary", "ascii", "cp1251", "latin2", "big5", "euckr",
            "ujis", "cp932", "eucjpms", "gb2312", "koi8r", "greek", "hebrew", "tis620", "cp850", "cp1256", "macroman", "latin7", "hp8", "swe7", "armscii8", "geostd8", "keybcs2"]
TEXTS = ["", " ", "a", "A", "b ", "äöüß€", "日本語テスト", "中文字符", "😀🎉", "Ünïcödé", "привет", "ελλάδα", "한국어", "'", '"', "\\", "\\'", "%s", "\0", "a\0b", "\n\r\t\x1a", "NULL", "-0", "1e5",
         "ﬀ", "i̇", "İ", "ß", "ǆ", "~", "¥", "‾", "−", "〜", "￥", "①", "㈱", "\x7f", "\x80", "\xa0", "\ufeff", "\uffff", "\U0010ffff", "x" * 40, "é" * 40]
NAMES = ["a", "b", "c", "id", "v", "k", "name", "val", "x1", "Order", "select", "group", "with space", "ünï", "日本", "a`b", 'q"q', "it's", "1st", "a.b", "a-b", "$d", "UPPER", "camelCase",
         "_u", "#h", "semi;c", "c/*x*/", "--d", "a\\b", "key", "index", "primary", "check", "constraint", "period", "system", "first", "after", "to", "column", "default", "x" * 64, "percent%s"]
TABLES = ["t", "u", "Orders", "orders", "a b", "ünï", "t-1", "t$x", "select", "table", "`q`", "it's", 'd"q', "x.y", "日本", "z" * 64, "t_1", "slash/es", "semi;", "100", "t%"]
MARIADB_ONLY, MYSQL_ONLY = ("UUID", "INET4", "INET6"), ("JSON", "VECTOR(3)")


def ident(name):
    return "`" + name.replace("`", "``") + "`"


def hexed(s, charset="utf8mb4"):
    return f"_utf8mb4 X'{s.encode('utf-8', 'surrogatepass').hex()}'"


class Gen:
    def __init__(self, rnd, flavor, db):
        self.r, self.flavor, self.db = rnd, flavor, db
        self.mysql = flavor == "mysql"
        self.zero_key_dates, self.wide_labels, self.raw_bytes = False, False, False     # known: the first ends in an error, labels beyond utf8mb3 are shown as ? by the server, bytes that are no character end in an error

    def chance(self, p):
        return self.r.random() < p

    # ------------------------------------------------------------ types
    def charset(self):
        if self.chance(0.45):
            return ""
        cs = self.r.choice(CHARSETS[:8] if self.chance(0.6) else CHARSETS)
        return f" CHARACTER SET {cs}" + (f" COLLATE {cs}_bin" if cs != "binary" and self.chance(0.25) else "")

    def labels(self, key=False):
        """key: without the empty label, which the number 0 could not be told from"""
        r = self.r
        pool = ["a", "b", "red", "grün", "日本", "it''s", "x y", "0", "1", "NULL", "A-B", "\\\\", 'q"', "long" * 20, "é", "z"]
        if self.chance(0.2):
            pool += ([] if key else [""]) + ["a,b", "(x)"] + (["😀"] if self.wide_labels else [])
        return r.sample(pool, r.choice((1, 2, 3, 5, 9, len(pool))))

    def type(self, key=False):
        r = self.r
        ints = ["TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"]
        sign = ["", "", " UNSIGNED", " UNSIGNED ZEROFILL", "(5) ZEROFILL"]
        fsp = f"({r.randrange(7)})" if self.chance(0.7) else ""
        kind = r.randrange(22)
        if key and kind in (15, 16, 17) and self.chance(0.7):
            kind = 7
        if kind < 3:
            return r.choice(ints) + r.choice(sign)
        if kind == 3:
            return r.choice(["BOOLEAN", "BIT", f"BIT({r.randrange(1, 65)})", "BIT(64)", "YEAR"])
        if kind in (4, 5):
            p = r.choice((1, 2, 5, 9, 10, 18, 19, 38, 39, 65))
            s = r.randrange(0, min(p, 30) + 1)
            return f"DECIMAL({p},{s})" + r.choice(("", "", " UNSIGNED", " ZEROFILL"))
        if kind == 6:
            return r.choice(["FLOAT", "DOUBLE", "FLOAT UNSIGNED", "FLOAT(7,3)", "DOUBLE(20,5)", "DOUBLE UNSIGNED", "FLOAT(30)"])
        if kind in (7, 8, 9):
            n = r.choice((1, 3, 10, 40)) if key else r.choice((1, 3, 10, 40, 63, 64, 85, 86, 255, 256))
            t = f"VARCHAR({n})" if self.chance(0.6) else f"CHAR({min(n, 255)})"
            if not self.mysql and not key and t.startswith("VARCHAR") and self.chance(0.05):
                return f"VARCHAR({n}) COMPRESSED"
            return t + self.charset()
        if kind == 10:
            n = r.choice((1, 4, 16, 255))
            return r.choice((f"BINARY({min(n, 255)})", f"VARBINARY({n})"))
        if kind == 11 and not key:
            return r.choice(("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "TEXT(10)")) + self.charset()
        if kind == 12 and not key:
            return r.choice(("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB") + (() if self.mysql else ("BLOB COMPRESSED",)))
        if kind == 13:
            return f"ENUM({','.join(repr_label(x) for x in self.labels(key))})" + (self.charset() if self.chance(0.3) else "")
        if kind == 14 and not key:
            return f"SET({','.join(repr_label(x) for x in self.labels() if ',' not in x) or chr(39) + 'q' + chr(39)})"
        if kind == 15:
            return "DATE"
        if kind == 16:
            return "DATETIME" + fsp
        if kind == 17:
            return "TIMESTAMP" + fsp + " NULL"
        if kind == 18:
            return "TIME" + fsp
        if kind == 19 and not key:
            return "JSON"
        if kind == 20 and not key:
            return r.choice(("GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "GEOMETRYCOLLECTION"))
        if kind == 21:
            return ("VECTOR(3)" if not key else "INT") if self.mysql else r.choice(MARIADB_ONLY)
        return r.choice(ints)

    def column(self, name, key=False):
        """a column definition without a generated part"""
        ty = self.type(key)
        base = ty.split("(")[0].split(" ")[0]
        d = f"{ident(name)} {ty}"
        no_default = base in ("JSON", "VECTOR") or "BLOB" in base or "TEXT" in base or base in ("GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "GEOMETRYCOLLECTION")
        null = key or self.chance(0.35)
        if null:
            d = d.replace(" NULL", "") + " NOT NULL"
            if base == "TIMESTAMP" and self.mysql is False:
                d += " DEFAULT '2001-02-03 04:05:06'"
                return d
        if self.chance(0.35) and not no_default and not key:
            c = column_of(name, ty)
            lit = self.literal(c, for_default=True)
            if lit != "NULL" or not null:
                d += f" DEFAULT {lit}"
        elif base in ("TIMESTAMP", "DATETIME") and self.chance(0.2) and not key:
            f = re.search(r"\(\d\)", ty)
            d += f" DEFAULT CURRENT_TIMESTAMP{f.group(0) if f else ''}" + (f" ON UPDATE CURRENT_TIMESTAMP{f.group(0) if f else ''}" if self.chance(0.5) else "")
        elif self.chance(0.06) and not key:
            d += {"VARCHAR": " DEFAULT (CONCAT('u', 1+1))", "INT": " DEFAULT (1+2)", "BIGINT": " DEFAULT (UUID_SHORT())", "JSON": " DEFAULT ('[1]')", "TEXT": " DEFAULT ('tt')"}.get(base, "")
        if self.chance(0.06) and not key:
            d += " INVISIBLE" if self.mysql or "NOT NULL" not in d or "DEFAULT" in d else ""
        if self.chance(0.08):
            d += " COMMENT " + self.r.choice(("'c'", "'it''s, (x) DEFAULT 5'", "'/* */ -- #'", "'ünï😀'" if not self.mysql else "'ünï'"))
        return d

    def generated(self, name, cols):
        """a generated column over one of cols, which are plain"""
        # TIMESTAMP's text and CHAR's length depend on the session; MariaDB logs a value over AUTO_INCREMENT as it was before the number was given
        cols = [c for c in cols if c["data_type"] not in ("timestamp", "char") and "auto_increment" not in (c.get("extra") or "").lower()] or [column_of("none", "INT")]
        c = self.r.choice(cols)
        how = self.r.choice(("VIRTUAL", "STORED"))
        kind = c["data_type"].lower()
        if kind in ("int", "tinyint", "smallint", "mediumint", "bigint", "decimal"):
            t, e = "DECIMAL(40,2)", f"CAST({ident(c['name'])} AS DECIMAL(40,2)) + 1"
        else:
            t, e = "INT", f"LENGTH({ident(c['name'])})"
        if self.chance(0.3):
            t, e = "VARCHAR(20) CHARACTER SET utf8mb4", f"LEFT(HEX({ident(c['name'])}), 20)"
        return f"{ident(name)} {t} GENERATED ALWAYS AS ({e}) {how}"

    # ------------------------------------------------------------ values
    def text(self, limit, charset=None):
        r = self.r
        if charset in (None, "utf8mb4", "utf8mb3", "utf16") or self.chance(0.5):
            s = r.choice(TEXTS)
        else:
            s = "".join(r.choice(TEXTS) for _ in range(3))
        if self.chance(0.2):
            s = s + r.choice(TEXTS)
        if self.chance(0.08):
            s = (s or "m") * (limit // max(1, len(s or "m")) + 1)
        if self.chance(0.1):
            s = "".join(chr(r.choice((r.randrange(32, 127), r.randrange(160, 384), r.randrange(0x370, 0x500), r.randrange(0x3040, 0x30ff), r.randrange(0x4e00, 0x9fff), r.randrange(0x2000, 0x2700), r.randrange(0xac00, 0xd7a3), r.randrange(0x1f300, 0x1f600))))
                        for _ in range(r.randrange(1, 12)))
        return s[:limit]

    def date(self, zero=True):
        r = self.r
        if not zero:
            return r.choice(("0001-01-01", "1000-01-01", "1969-12-31", "1970-01-01", "2000-02-29", "9999-12-31", "2024-03-31", "2024-10-27", "%04d-%02d-%02d" % (r.randrange(1, 9999), r.randrange(1, 13), r.randrange(1, 29))))
        return r.choice(("0000-00-00", "0001-01-01", "1000-01-01", "1582-10-10", "1900-02-28", "1969-12-31", "1970-01-01", "2000-02-29", "2024-00-15", "2024-02-00", "9999-12-31",
                         "2024-03-31", "2024-10-27", "%04d-%02d-%02d" % (r.randrange(1, 9999), r.randrange(1, 13), r.randrange(1, 29))))

    def clock(self):
        r = self.r
        t = r.choice(("00:00:00", "23:59:59", "02:30:00", "01:59:59", "02:00:00", "03:00:00", "12:34:56"))
        return t + r.choice(("", "", ".5", ".000001", ".999999", ".123456", ".9999994", ".4999999"))

    def stamp(self):
        r = self.r
        return r.choice(("1970-01-01 00:00:01", "2038-01-19 03:14:07", "2024-03-31 01:59:59", "2024-03-31 03:00:00", "2024-10-27 02:30:00", "2024-10-27 03:00:00", "2024-11-03 01:30:00", "2001-09-09 01:46:40.999999",
                         "0000-00-00 00:00:00", "%04d-%02d-%02d %s" % (r.randrange(1971, 2037), r.randrange(1, 13), r.randrange(1, 29), self.clock())))

    def json(self, depth=0):
        r = self.r
        k = r.randrange(14 if depth < 3 else 10)
        if k == 0:
            return r.choice(("null", "true", "false"))
        if k < 4:
            return str(r.choice((0, -1, 1, 127, 128, -32768, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31, -2**31 - 1, 2**53 + 1, 2**63 - 1, -2**63, 2**63, 2**64 - 1)))
        if k < 6:
            return r.choice(("0.1", "-1.5e10", "1e300", "3.0", "1e-7", "123456.789", "-0.0", "1.797693134862315e308", "2e2"))
        if k < 10:
            s = r.choice(TEXTS).replace("\ufeff", "").replace("\uffff", "")
            import json as j
            return j.dumps(s * r.choice((1, 1, 1, 20, 200) if depth == 0 else (1, 1, 10)), ensure_ascii=self.chance(0.3))
        n = r.choice((0, 1, 2, 5, 20))
        if k < 12:
            return "[" + ",".join(self.json(depth + 1) for _ in range(n)) + "]"
        return "{" + ",".join(f'"{r.choice(("a", "b", "key", "é", "", "k k", "x" * 70))}{i}":{self.json(depth + 1)}' for i in range(n)) + "}"

    def geometry(self, kind):
        r = self.r
        num = lambda: r.choice(("0", "1", "-1.5", "2e10", "0.1", "-179.999"))
        pt = lambda: f"{num()} {num()}"
        g = {"point": f"POINT({pt()})", "linestring": f"LINESTRING({pt()},{pt()},7 8)", "polygon": "POLYGON((0 0,0 3,3 3,0 0),(1 1,1 2,2 2,1 1))", "multipoint": f"MULTIPOINT({pt()},{pt()})",
             "multilinestring": f"MULTILINESTRING((0 0,1 1),({pt()},9 9))", "multipolygon": "MULTIPOLYGON(((0 0,0 3,3 3,0 0)))",
             "geometrycollection": f"GEOMETRYCOLLECTION(POINT({pt()}),LINESTRING(0 0,{pt()}))"}
        k = {"geomcollection": "geometrycollection"}.get(kind, kind)
        if k == "geometry":
            k = r.choice(sorted(g))
        return f"ST_GeomFromText('{g[k]}'" + (", 4326)" if self.chance(0.15) and "e10" not in g[k] and "-179" not in g[k] else ")")

    def literal(self, c, small=False, for_default=False):
        """SQL for a value of column c (as canon.columns describes it); small: of a small set, so that keys meet again"""
        r = self.r
        t, ct = c["data_type"].lower(), c["column_type"].lower()
        zero = self.zero_key_dates or not (small or c.get("ck"))
        if c.get("nullable") and self.chance(0.12) and not small:
            return "NULL"
        if t in canon.INTS:
            bits = canon.INTS[t]
            uns = "unsigned" in ct or "zerofill" in ct
            lo, hi = (0, 2**bits - 1) if uns else (-2**(bits - 1), 2**(bits - 1) - 1)
            if small and self.chance(0.85):
                return str(r.randrange(1, 13))
            return str(r.choice((lo, hi, 0, 1, hi - 1, lo + 1, r.randrange(lo, hi + 1), 7)))
        if t == "bit":
            n = int((re.search(r"\((\d+)\)", ct) or [0, "1"])[1])
            return f"b'{r.choice((0, 2**n - 1, 1, r.randrange(2**n))):b}'"
        if t == "year":
            return r.choice(("0", "1901", "2155", "2024", "1970"))
        if t == "decimal":
            m = re.search(r"\((\d+),(\d+)\)", ct)
            p, s = int(m[1]), int(m[2])
            whole, frac = p - s, s
            d = "".join(r.choice("0123456789") for _ in range(whole)) or "0"
            f = "".join(r.choice("0123456789") for _ in range(frac))
            v = r.choice((f"{d}.{f}" if f else d, ("9" * whole or "0") + ("." + "9" * frac if frac else ""), "0", "0." + "0" * (frac - 1) + "1" if frac else "0", d, f"{r.randrange(10)}" if whole else "0"))
            if small and whole:
                v = str(r.randrange(0, 10))
            return v if "unsigned" in ct or "zerofill" in ct or self.chance(0.6) else "-" + v
        if t in ("float", "double", "real"):
            v = r.choice(("0", "0.1", "1e-30", "1.5", "16777217", "123456.789", "3.4028234e38" if t == "float" else "1.797693134862315e308", "1.17549435e-38", str(r.random()), str(r.randrange(10**9))))
            if "(" in ct:
                v = r.choice(("0", "1.5", "999.9994", "0.0005", "12.3456"))
            return v if "unsigned" in ct or self.chance(0.6) else "-" + v.lstrip("-")
        if t in canon.TEXT:
            if for_default:
                return r.choice(("''", "'a'", "'it''s'", "'a\\\\b'", "'x,y'", "'NULL'", "'  s'", "\"dq\"", "'ä'", "'%'"))
            n = int((re.search(r"\((\d+)\)", ct) or [0, "0"])[1]) or {"tinytext": 60, "text": 5000}.get(t, 70000)
            if self.raw_bytes and c.get("charset") and not small and c["charset"] not in ("utf8mb4", "utf8mb3", "utf16", "ucs2", "utf16le", "utf32") and self.chance(0.06):
                return f"_{c['charset']} X'{bytes(r.randrange(1, 256) for _ in range(2 if c['charset'] in ('gbk', 'sjis', 'big5', 'ujis', 'euckr', 'cp932', 'gb2312', 'eucjpms') else r.randrange(1, 5))).hex()}'"
            return hexed(r.choice(TEXTS[:12])[:n] if small else self.text(n, c.get("charset")))
        if t in ("enum", "set"):
            labels = [x.replace("''", "'") for x in re.findall(r"'((?:[^']|'')*)'", c["column_type"][c["column_type"].index("("):])]
            if t == "enum":
                return str(r.randrange(1, len(labels) + 1)) if not for_default else repr_label(labels[0].replace("'", "''"))
            return str(r.randrange(0, 2**len(labels))) if not for_default else "''"
        if t in canon.BIN:
            n = int((re.search(r"\((\d+)\)", ct) or [0, "0"])[1]) or {"tinyblob": 255, "blob": 5000}.get(t, 70000)
            b = r.choice((b"", b"\0", b"a", b"ab\0\0", b"\xff\xfe", b" ", bytes(r.randrange(256) for _ in range(min(n, 16))), b"\0\xff" * 40))
            if self.chance(0.05) and not small:
                b = b"\xde\xad\0\xef" * (n // 4)
            return f"X'{b[:n].hex()}'" if not for_default else "X'6162'"[:2 + 2 * min(n, 2)] + "'" if n > 1 else "'a'"
        if t == "json":
            if self.mysql and self.chance(0.2):
                return r.choice(("JSON_OBJECT('d', CAST('2024-02-29 01:02:03.5' AS DATETIME(6)), 'n', 1.50)", "CAST(CAST('-12:34:56.000001' AS TIME(6)) AS JSON)", "CAST(X'00ff41' AS JSON)", "CAST(12345678901234567890.123456789 AS JSON)",
                                 "JSON_ARRAY(CAST('2024-01-01' AS DATE), 1e0, 18446744073709551615, NULL, TRUE)", "CAST(b'101' AS JSON)"))
            return hexed(self.json())
        if t in canon.GEO:
            return self.geometry(t)
        if t == "date":
            return f"'{self.date(zero)}'" if not for_default else r.choice(("'2024-02-29'", "'1000-01-01'"))
        if t == "datetime":
            return f"'{self.date(zero)} {self.clock()}'" if not for_default else r.choice(("'2024-02-29 01:02:03.456'", "'1000-01-01 00:00:00'"))
        if t == "timestamp":
            return f"'{self.stamp()}'".replace("0000-00-00 00:00:00", "0000-00-00 00:00:00" if zero else "2000-01-01 00:00:00") if not for_default else "'2024-06-07 08:09:10.5'"
        if t == "time":
            v = r.choice(("-838:59:59", "838:59:59", "00:00:00", "-00:00:00.5", "-00:00:01", "12:34:56.789", "-12:34:56.000001", "100:00:00.999999", "-00:59:59.99", "-01:00:00"))
            return f"'{v}'"
        if t == "uuid":
            return f"'{r.choice(('123e4567-e89b-12d3-a456-426655440000', '00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '%08x-1111-1111-8111-%012x' % (r.randrange(2**32), r.randrange(2**48))))}'"
        if t == "inet4":
            return r.choice(("'0.0.0.0'", "'255.255.255.255'", "'10.0.0.1'"))
        if t == "inet6":
            return r.choice(("'::'", "'::1'", "'2001:db8::ff00:42:8329'", "'::ffff:1.2.3.4'", "'fe80::1'"))
        if t == "vector":
            return r.choice(("STRING_TO_VECTOR('[1, -2.5, 0.1]')", "STRING_TO_VECTOR('[0,0,0]')", "STRING_TO_VECTOR('[1e30,-1e-30,3]')"))
        return "1"

    # ------------------------------------------------------------ CREATE TABLE
    def names(self, n):
        out = {}
        while len(out) < n:
            x = self.r.choice(NAMES) if self.chance(0.5) else f"c{self.r.randrange(40)}"
            out.setdefault(x.lower(), x)
        return list(out.values())

    def create(self, table, or_replace=False):
        r = self.r
        names = self.names(r.choice((2, 3, 4, 6, 8, 12)))
        nkey = r.choice((0, 1, 1, 1, 1, 2, 3))
        nkey = min(nkey, len(names) - 1)
        cols, plain = [], []
        for i, n in enumerate(names):
            if i >= nkey and len(plain) > nkey and self.chance(0.1):
                cols.append(self.generated(n, plain[nkey:]))
                continue
            d = self.column(n, key=i < nkey)
            cols.append(d)
            ty = d[len(ident(n)) + 1:]
            plain.append(column_of(n, ty))
        keys = [ident(x) for x in names[:nkey]]
        r.shuffle(keys)
        if nkey == 1 and self.chance(0.4):
            cols[0] = f"{keys[0]} {r.choice(('INT', 'BIGINT', 'BIGINT UNSIGNED', 'SMALLINT UNSIGNED'))} {'AUTO_INCREMENT' if self.chance(0.5) else 'NOT NULL'}"
        order = list(range(len(cols)))
        if self.chance(0.4):
            r.shuffle(order)
        parts = [cols[i] for i in order]
        if nkey:
            parts.append(("UNIQUE KEY uk" if self.chance(0.15) else "PRIMARY KEY") + f" ({', '.join(keys)})")
        opts = ""
        if self.chance(0.3):
            opts += f" DEFAULT CHARSET={r.choice(CHARSETS[:8])}"
        if self.chance(0.06):
            opts += " ENGINE=" + r.choice(("MyISAM", "MEMORY") if self.mysql else ("MyISAM", "Aria", "MEMORY"))
        if not self.mysql and self.chance(0.06):
            opts += " WITH SYSTEM VERSIONING"
        if self.chance(0.1) and nkey and "ENGINE" not in opts:
            opts += f" PARTITION BY KEY ({keys[0]}) PARTITIONS 3"
        return f"CREATE {'OR REPLACE ' if or_replace else ''}TABLE {ident(table)} ({', '.join(parts)}){opts}"

    # ------------------------------------------------------------ DML. info: {"name", "cols", "key"}
    def writable(self, info):
        return [c for c in info["cols"] if not c["genexpr"]]

    def cond(self, info):
        r = self.r
        c = r.choice(info["cols"])
        n = ident(c["name"])
        k = r.randrange(5)
        if k == 0 and info["key"]:
            c = next(x for x in info["cols"] if x["name"] == info["key"][0])
            return f"{ident(c['name'])} {r.choice(('=', '<=', '>'))} {self.literal(c, small=True)}" if c["data_type"] not in canon.GEO else "1=1"
        if k == 1:
            return f"{n} IS NULL"
        m = r.choice((2, 3, 5, 7))
        return f"CRC32(HEX({n})) % {m} = {r.randrange(m)}"

    def order(self, info):
        return f" ORDER BY {', '.join(ident(k) for k in info['key'])}" if info["key"] and self.chance(0.5) else ""

    def rows(self, info, cols, n):
        key = set(info["key"])
        return ", ".join("(" + ", ".join("DEFAULT" if self.chance(0.04) and c["name"] not in key else self.literal(c, small=c["name"] in key and self.chance(0.7)) for c in cols) + ")" for _ in range(n))

    def assignments(self, info, cols):
        r = self.r
        picked = r.sample(cols, min(len(cols), r.choice((1, 1, 2, 3))))
        return ", ".join(f"{ident(c['name'])} = " + (ident(r.choice(cols)["name"]) if self.chance(0.08) else self.literal(c, small=c["name"] in info["key"])) for c in picked)

    def dml(self, info, others):
        r = self.r
        t, cols = ident(info["name"]), self.writable(info)
        if not cols:
            return f"INSERT INTO {t} () VALUES ()"
        some = cols if self.chance(0.8) else r.sample(cols, r.randrange(1, len(cols) + 1))
        names = ", ".join(ident(c["name"]) for c in some)
        k = r.randrange(17)
        if k < 5:
            return f"INSERT {'IGNORE ' if self.chance(0.5) else ''}INTO {t} ({names}) VALUES {self.rows(info, some, r.choice((1, 1, 3, 8, 30)))}"
        if k == 5:
            return f"REPLACE INTO {t} ({names}) VALUES {self.rows(info, some, r.choice((1, 3, 8)))}"
        if k == 6:
            return f"INSERT IGNORE INTO {t} ({names}) VALUES {self.rows(info, some, r.choice((1, 3, 8)))} ON DUPLICATE KEY UPDATE {self.assignments(info, cols)}"
        if k < 10:
            return f"UPDATE IGNORE {t} SET {self.assignments(info, cols)} WHERE {self.cond(info)}" + (self.order(info) + f" LIMIT {r.choice((1, 2, 5))}" if self.chance(0.3) else "")
        if k == 10:
            return f"DELETE FROM {t} WHERE {self.cond(info)}" + (self.order(info) + f" LIMIT {r.choice((1, 2))}" if self.chance(0.5) else "")
        if k == 11 and others:
            o = r.choice(others)
            oc = self.writable(o)
            if oc and o["name"] != info["name"]:
                a, b = r.choice(cols), r.choice(oc)
                return (f"UPDATE IGNORE {t} AS x1, {ident(o['name'])} AS x2 SET x1.{ident(a['name'])} = {self.literal(a)}, x2.{ident(b['name'])} = {self.literal(b)} "
                        f"WHERE CRC32(HEX(x1.{ident(a['name'])})) % 3 = {r.randrange(3)}")
        if k == 12 and info["key"]:
            name = r.choice(info["key"])
            kc = next(x for x in info["cols"] if x["name"] == name)
            n = ident(name)
            if kc["data_type"] in canon.INTS or kc["data_type"] == "decimal":
                return f"UPDATE {'IGNORE ' if self.chance(0.7) else ''}{t} SET {n} = {n} + {r.choice((1, 2, 100))} ORDER BY {n} DESC"
            return f"UPDATE IGNORE {t} SET {n} = {self.literal(kc, small=True)} WHERE {self.cond(info)} LIMIT 1"
        if k == 13:
            sel = ", ".join(self.literal(c, small=True) if c["name"] in info["key"] else ident(c["name"]) for c in cols)
            return f"INSERT IGNORE INTO {t} ({', '.join(ident(c['name']) for c in cols)}) SELECT {sel} FROM {t} LIMIT 5"
        if k == 14 and self.chance(0.2):
            return f"DELETE FROM {t}"
        if k == 15 and len(cols) > 1:
            a, b = r.sample(cols, 2)
            return f"UPDATE IGNORE {t} SET {ident(a['name'])} = {ident(b['name'])} LIMIT 3"
        return f"INSERT IGNORE INTO {t} ({names}) VALUES {self.rows(info, some, r.choice((1, 5)))}"

    def load_data(self, info, folder):
        """a file and the statement that reads it"""
        cols = self.writable(info)
        lines = "".join("\t".join(self.r.choice(("1", "2", "77", "\\N", "a", "2024-02-29", "", "é")) for _ in cols) + "\n" for _ in range(self.r.choice((1, 5, 20))))
        return lines, f"LOAD DATA LOCAL INFILE '{{file}}' {self.r.choice(('IGNORE', 'REPLACE'))} INTO TABLE {ident(info['name'])} CHARACTER SET utf8mb4 ({', '.join(ident(c['name']) for c in cols)})"

    # ------------------------------------------------------------ DDL: -> list of statements
    def place(self, info):
        k = self.r.randrange(4)
        return " FIRST" if k == 0 else f" AFTER {ident(self.r.choice(info['cols'])['name'])}" if k == 1 else ""

    def new_name(self, info):
        taken = {c["name"].lower() for c in info["cols"]}
        while True:
            x = self.names(1)[0]
            if x.lower() not in taken:
                return x

    def like_column(self, c):
        """the definition of column c, changed a little: wider, narrower, other charset, null, default"""
        r = self.r
        t, ct = c["data_type"].lower(), re.sub(r"/\*.*?\*/", "", c["column_type"])
        cs = f" CHARACTER SET {c['charset']} COLLATE {c['collation']}" if c.get("charset") and c["charset"] != "binary" or c.get("charset") and t in canon.TEXT else ""
        new = ct
        if t in canon.INTS:
            new = r.choice(("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT")) + (" UNSIGNED" if ("unsigned" in ct.lower()) != self.chance(0.2) else "")
        elif t in ("varchar", "char"):
            n = int(re.search(r"\((\d+)\)", ct)[1])
            new = r.choice((f"VARCHAR({n * 2})", f"VARCHAR({n})", f"CHAR({min(n, 255)})", f"VARCHAR({max(1, n // 2)})", "TEXT", "MEDIUMTEXT"))
            if self.chance(0.3):
                cs = self.charset()
        elif t in canon.TEXT:
            new = r.choice(("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "VARCHAR(300)"))
            if self.chance(0.3):
                cs = self.charset()
        elif t in ("binary", "varbinary"):
            n = int(re.search(r"\((\d+)\)", ct)[1])
            new = r.choice((f"BINARY({min(255, n + 2)})", f"VARBINARY({n + 3})", "BLOB", "VARCHAR(255)", f"BINARY({max(1, n - 1)})"))
        elif t == "decimal":
            p, s = map(int, re.search(r"\((\d+),(\d+)\)", ct).groups())
            new = r.choice((f"DECIMAL({min(65, p + 2)},{s})", f"DECIMAL({min(65, p + 2)},{min(30, s + 1)})", f"DECIMAL({max(p - 1, s, 1)},{s})", f"DECIMAL({p},{max(0, s - 1)})", "DOUBLE", "VARCHAR(80)"))
        elif t in ("datetime", "timestamp", "time"):
            new = r.choice((t.upper(), f"{t.upper()}({r.randrange(7)})", "VARCHAR(40)" if self.chance(0.2) else "DATETIME(6)"))
        elif t in ("enum", "set"):
            labels = re.findall(r"'((?:[^']|'')*)'", ct[ct.index("("):])
            extra = [x for x in ("new", "zz9", "ö2") if x not in labels]
            k = r.randrange(5)
            out = labels + extra[:1] if k < 2 else extra[:1] + labels if k == 2 else labels[::-1] if k == 3 else labels[:-1] or labels
            new = f"{t.upper()}({','.join(repr_label(x) for x in out)})" if k < 5 else "VARCHAR(100)"
            if self.chance(0.1):
                new = "VARCHAR(600)"
        elif t in ("float", "double"):
            new = r.choice(("FLOAT", "DOUBLE", "FLOAT(9,3)", "DECIMAL(30,10)", "VARCHAR(60)"))
        elif t == "bit":
            new = f"BIT({r.choice((1, 2, 8, 63, 64))})"
        elif t == "date":
            new = r.choice(("DATETIME", "DATE", "VARCHAR(20)", "TIMESTAMP NULL"))
        elif t == "json" or t == "longtext":
            new = r.choice(("JSON", "LONGTEXT"))
        elif self.chance(0.3):
            new, cs = self.type(), ""
        if not re.match(r"(var)?char|.*text|enum|set", new.lower()):
            cs = ""
        if new.endswith("NULL") is False:
            new += cs + (" NOT NULL" if not c["nullable"] != self.chance(0.15) else " NULL")
        if self.chance(0.1) and not re.search("text|blob|json", new.lower()) and "NOT NULL" not in new:
            new += " DEFAULT NULL"
        return new

    def alter_spec(self, info):
        """-> one or more ALTER TABLE clauses that go together"""
        r = self.r
        cols, plain = info["cols"], self.writable(info)
        c = r.choice(cols)
        n = ident(c["name"])
        k = r.randrange(31)
        if k < 5:
            return f"ADD COLUMN {self.column(self.new_name(info))}{self.place(info)}"
        if k == 5:
            a, b = self.new_name(info), self.new_name(info)
            if a.lower() != b.lower():
                return r.choice((f"ADD ({self.column(a)}, {self.column(b)})", f"ADD COLUMN {self.column(a)} FIRST, ADD {self.column(b)}{self.place(info)}"))
        if k < 9 and len(cols) > 2:
            return f"DROP {r.choice(('COLUMN ', ''))}{n}"
        if k < 13 and not c["genexpr"]:
            return f"MODIFY {r.choice(('COLUMN ', ''))}{n} {self.like_column(c)}{self.place(info)}"
        if k == 13 and not c["genexpr"]:
            return f"CHANGE {n} {ident(self.new_name(info))} {self.like_column(c)}{self.place(info)}"
        if k in (14, 15):
            return f"RENAME COLUMN {n} TO {ident(self.new_name(info))}"
        if k == 16 and len(cols) > 1:
            a, b = r.sample(cols, 2)
            return f"RENAME COLUMN {ident(a['name'])} TO {ident(b['name'])}, RENAME COLUMN {ident(b['name'])} TO {ident(a['name'])}"
        if k == 17:
            return r.choice((f"ALTER COLUMN {n} DROP DEFAULT", f"ALTER {n} SET DEFAULT {self.literal(c, for_default=True)}"))
        if k == 18:
            return r.choice((f"CONVERT TO CHARACTER SET {r.choice(CHARSETS[:8])}", f"DEFAULT CHARACTER SET {r.choice(CHARSETS[:8])}", "COMMENT 'x'", "ENGINE=InnoDB", "FORCE", "AUTO_INCREMENT=500", "ROW_FORMAT=DYNAMIC"))
        if k == 19:
            return "DROP PRIMARY KEY" if info["key"] else f"ADD PRIMARY KEY ({n})"
        if k == 20:
            some = r.sample(plain, min(len(plain), r.choice((1, 2))))
            return f"DROP PRIMARY KEY, ADD PRIMARY KEY ({', '.join(ident(x['name']) for x in some)})" if info["key"] and some else f"ADD INDEX i{r.randrange(99)} ({n}(3))"
        if k == 21 and not (c["data_type"] in canon.GEO or "text" in c["data_type"] or "blob" in c["data_type"]):     # MariaDB's hash of it: not followed yet
            return f"ADD UNIQUE KEY uq{r.randrange(9)} ({n})"
        if k == 22:
            return f"DROP INDEX uq{r.randrange(9)}"
        if k == 23 and plain:
            return f"ADD COLUMN {self.generated(self.new_name(info), plain)}{self.place(info)}"
        if k == 24:
            if self.mysql:
                return f"ALTER COLUMN {n} SET {r.choice(('INVISIBLE', 'VISIBLE'))}"
            return r.choice((f"ADD COLUMN IF NOT EXISTS {self.column(self.new_name(info))}", f"DROP COLUMN IF EXISTS {ident(self.new_name(info))}", f"MODIFY COLUMN IF EXISTS {n} {self.like_column(c)}", "ADD SYSTEM VERSIONING", "DROP SYSTEM VERSIONING"))
        if k == 25 and info["key"]:
            return r.choice((f"PARTITION BY KEY ({ident(info['key'][0])}) PARTITIONS {r.choice((1, 2, 4))}", f"PARTITION BY HASH ({ident(info['key'][0])}) PARTITIONS 2", "REMOVE PARTITIONING", "COALESCE PARTITION 1", "ADD PARTITION PARTITIONS 2",
                             f"PARTITION BY RANGE ({ident(info['key'][0])}) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN MAXVALUE)", "TRUNCATE PARTITION p0", "DROP PARTITION p0", "REBUILD PARTITION ALL",
                             "REORGANIZE PARTITION p1 INTO (PARTITION p1 VALUES LESS THAN (9), PARTITION p2 VALUES LESS THAN MAXVALUE)"))
        if k == 26:
            return f"ADD COLUMN {ident(self.new_name(info))} BIGINT NOT NULL AUTO_INCREMENT" + (" UNIQUE" if info["key"] else " PRIMARY KEY") + r.choice(("", " FIRST"))
        if k == 27 and len(cols) > 2:
            b = r.choice(cols)
            if b is not c:
                return f"DROP COLUMN {n}, ADD COLUMN {self.column(self.new_name(info))}, RENAME COLUMN {ident(b['name'])} TO {n}"
        if k == 28:
            return f"DROP COLUMN {n}, ADD COLUMN {self.column(c['name'])}"
        if k == 29 and c["genexpr"] and plain:
            return f"MODIFY {self.generated(c['name'], plain)}"
        return f"ADD COLUMN {self.column(self.new_name(info))}"

    def noisy(self, sql):
        """the same statement in other clothes"""
        k = self.r.randrange(12)
        if k == 0:
            return "/* c ; */ " + sql
        if k == 1:
            return sql + " -- end"
        if k == 2:
            return re.sub(r"^ALTER TABLE ", "ALTER /*!50000 TABLE */ ", sql)
        if k == 3:
            return re.sub(r"^ALTER TABLE ", f"alter\n\ttable {ident(self.db)} . ", sql)
        if k == 4 and not self.mysql:
            return re.sub(r"^ALTER TABLE ", "ALTER ONLINE TABLE ", sql) if self.chance(0.3) else re.sub(r"^ALTER TABLE ", "ALTER TABLE /*M! IF EXISTS */ ", sql)
        return sql

    def ddl(self, info, infos):
        r = self.r
        t = ident(info["name"])
        k = r.randrange(24)
        if k < 14:
            specs = [self.alter_spec(info) for _ in range(1 if self.chance(0.75) else r.choice((2, 3)))]
            return [self.noisy(f"ALTER TABLE {t} {', '.join(specs)}")]
        if k == 14:
            return [f"TRUNCATE {r.choice(('TABLE ', ''))}{t}"]
        if k == 15:
            new = self.r.choice(TABLES) + str(r.randrange(9))
            return [r.choice((f"RENAME TABLE {t} TO {ident(new)}", f"ALTER TABLE {t} RENAME TO {ident(new)}", f"ALTER TABLE {t} ADD COLUMN {ident(self.new_name(info))} INT, RENAME {ident(new)}"))]
        if k == 16 and len(infos) > 1:
            o = ident(r.choice([x for x in infos if x is not info])["name"])
            return [f"RENAME TABLE {t} TO swap_tmp, {o} TO {t}, swap_tmp TO {o}"]
        if k == 17:
            return [f"DROP TABLE {t}", self.create(info["name"])]
        if k == 18:
            new = ident(f"made{r.randrange(9)}")
            return [f"DROP TABLE IF EXISTS {new}", r.choice((f"CREATE TABLE {new} LIKE {t}", f"CREATE TABLE {new} AS SELECT * FROM {t}", f"CREATE TABLE {new} (extra INT DEFAULT 3) SELECT * FROM {t}"))]
        if k == 19:
            ghost = ident(f"_{info['name']}_gho")
            return [f"DROP TABLE IF EXISTS {ghost}", f"CREATE TABLE {ghost} LIKE {t}", f"ALTER TABLE {ghost} {self.alter_spec(info)}", f"/* copy {info['name']} */",
                    f"RENAME TABLE {t} TO {ident('_' + info['name'] + '_del')}, {ghost} TO {t}", f"DROP TABLE {ident('_' + info['name'] + '_del')}"]
        if k == 20 and not self.mysql:
            st = self.create(info["name"], or_replace=True)       # 10.11 drops the old table, unlogged, when the new one is refused: tried first
            return [st.replace(t, "`probe`", 1), "DROP TABLE `probe`", st]
        if k == 21:
            return [f"CREATE INDEX ix{r.randrange(99)} ON {t} ({ident(r.choice(info['cols'])['name'])})"]
        if k == 22:
            new = ident(f"_{info['name']}_new")
            return [f"DROP TABLE IF EXISTS {new}", f"CREATE TABLE {new} LIKE {t}", f"ALTER TABLE {new} {self.alter_spec(info)}", f"/* copy {info['name']} */",
                    f"RENAME TABLE {t} TO {ident('_' + info['name'] + '_old')}, {new} TO {t}", f"DROP TABLE IF EXISTS {ident('_' + info['name'] + '_old')}"]
        return [f"ALTER TABLE {t} {self.alter_spec(info)}"]


def repr_label(x):
    return f"'{x}'"


def column_of(name, ty):
    """what canon.columns would say about a column of this type, as far as values go"""
    base = re.match(r"\w+", ty)[0].lower()
    cs = re.search(r"CHARACTER SET (\w+)", ty)
    base = {"boolean": "tinyint", "integer": "int"}.get(base, base)
    return {"name": name, "data_type": base, "column_type": re.sub(r"(?s) (NOT NULL|NULL|DEFAULT|CHARACTER|COMMENT).*", "", ty) or ty, "charset": cs and cs[1], "nullable": True, "genexpr": None}
