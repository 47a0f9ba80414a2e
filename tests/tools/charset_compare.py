#!/usr/bin/env python3
"""Compares our character set decoding with a server's, byte for byte.
usage: charset_compare.py CHARSET_DUMP_BINARY HOST PORT USER PASSWORD
Every character set of the server, every 1- and 2-byte value (3-byte ones behind 0x8F for EUC, samples of 4-byte ones for GB18030 and
the Unicode forms). Where the server has a character, ours must be the same; where it shows '?' or refuses, ours must be an error."""
import subprocess
import sys
import pymysql

binary, host, port, user, password = sys.argv[1:6]
con = pymysql.connect(host=host, port=int(port), user=user, password=password, charset="utf8mb4", autocommit=True)
cur = con.cursor()
cur.execute("SHOW CHARACTER SET")
sets = {r[0]: int(r[3]) for r in cur.fetchall() if r[0] != "binary"}
cur.execute("SELECT VERSION()")
version = cur.fetchone()[0]
bad = 0


def server(cs, seqs):
    out = {}
    for a in range(0, len(seqs), 2000):
        part = seqs[a:a + 2000]
        cur.execute(" UNION ALL ".join("SELECT '%s', HEX(CONVERT(CONVERT(UNHEX('%s') USING %s) USING utf8mb4)), HEX(CONVERT(UNHEX('%s') USING %s))" % (s, s, cs, s, cs) for s in part))
        out.update({r[0]: (r[1], r[2]) for r in cur.fetchall()})
    return out


def malformed(cs, s):
    """MySQL cuts malformed EUC silently."""
    b, i = bytes.fromhex(s), 0
    while cs == "eucjpms" and i < len(b):
        i += 1 if b[i] < 0x80 else 3 if b[i] == 0x8F else 2
    return i > len(b)


for cs, width in sorted(sets.items()):
    seqs = ["%02X" % i for i in range(256)]
    if width > 1:
        seqs += ["%04X" % i for i in range(65536)]
    if cs in ("ujis", "eucjpms"):
        seqs += ["8F%04X" % i for i in range(0xA1A1, 65536)]
    if cs == "gb18030":
        seqs += ["%02X%02X%02X%02X" % (a, b, c, d) for a in (0x81, 0x82, 0x84, 0x90, 0xE3, 0x95) for b in range(0x30, 0x3A) for c in range(0x81, 0xFF, 9) for d in range(0x30, 0x3A, 3)]
    if cs in ("utf16", "utf32"):
        seqs += ["D83D%04X" % i for i in range(0xDB00, 0xE100, 5)] if cs == "utf16" else ["%08X" % i for i in list(range(0, 0x120000, 997)) + [0xD800, 0xDFFF, 0x10FFFF]]
    if cs in ("utf8mb3", "utf8mb4"):
        seqs += ["%02X%02X%02X" % (a, b, c) for a in range(0xE0, 0xF0) for b in range(0x70, 0xC8) for c in (0x7F, 0x80, 0xBF, 0xC0)]
        seqs += ["%02X%02X%02X80" % (a, b, c) for a in range(0xF0, 0xF6) for b in range(0x70, 0xC8) for c in (0x80, 0xBF)]
    ours = dict(x.split(" ") for x in subprocess.run([binary, cs], input="\n".join(seqs) + "\n", capture_output=True, text=True, check=True).stdout.splitlines())
    diff = []
    for s, (text, kept) in server(cs, seqs).items():
        # '?' for what has no character, nothing or other bytes for what is malformed. MariaDB lets lone surrogates in, which no UTF-8 may hold.
        surrogate = text and any(text[i:i + 2] == "ED" and text[i + 2] in "AB" for i in range(0, len(text), 2))
        defined = text and kept == s and not surrogate and not malformed(cs, s) and not ("3F" in [text[i:i + 2] for i in range(0, len(text), 2)] and "3F" not in [s[i:i + 2] for i in range(0, len(s), 2)])
        want = text if defined else "-"
        if ours[s] != want:
            diff.append((s, "server", want, "ours", ours[s]))
    bad += len(diff)
    print("%-10s %6d sequences, %d differ %s" % (cs, len(seqs), len(diff), diff[:4]))
print("%s: %d differences" % (version, bad))
sys.exit(1 if bad else 0)
