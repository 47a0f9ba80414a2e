"""A server that means ill (services/hostile_mysql.py) ends a command with a message: it does not crash it, does not fill its memory, and gets no local file."""
import os
import re
import signal
import struct
import subprocess
import time

import pytest
from harness.compare import assert_equal
from harness.lake import Lake
from harness.weir import BINARY, sanitized
from services.hostile_mysql import EOF, OK, HostileServer, column, err, event, lenenc, resealed, text

RSS_MAX_MB = 512
SEED = int(os.environ["WEIR_SEED"])
ONE = pytest.mark.one_server      # what comes is the hostile server's own, whichever stands behind it
SMALL = {"source": {"max_packet": "64MiB"}, "lake": {"commit": {"every": "1s"}}}


@pytest.fixture
def bad(server):
    with HostileServer(server.port, SEED) as b:
        yield b


@pytest.fixture
def table(server, db):
    server.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200), e ENUM('a','b'), j JSON)",
               "INSERT INTO t VALUES " + ",".join(f"({i},'v{i}','a','{{\"k\": {i}}}')" for i in range(300)), db=db)


@pytest.fixture
def weir(make_weir, server, db, bad, table):
    w = make_weir(server, [rf"{db}\..*"], SMALL)
    w.config["source"]["url"] = bad.url()
    w.write()
    return w


class Ended:
    def __init__(self, status, out, rss_mb, seconds):
        self.status, self.out, self.rss_mb, self.seconds = status, out, rss_mb, seconds

    def fails(self, *patterns):
        assert self.status in (1, 2, 3), f"status {self.status}:\n{self.out}"
        self.says(*patterns)

    def says(self, *patterns):
        for p in patterns:
            assert re.search(p, self.out, re.I), f"nothing matches /{p}/ in:\n{self.out}"


def run(weir, command, *args, seconds=90, patience=None):
    """-> Ended; asserts that it ended by itself (or was ended after so many seconds), died of no signal, and stayed small"""
    begin, rss_mb, told = time.monotonic(), 0, False
    with open(weir.dir / "out", "w+b") as out:
        p = subprocess.Popen([BINARY, command, "-c", weir.file, *args], stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=weir.env)
        while True:
            rss_mb = max(rss_mb, peak_mb(p.pid))
            pid, status = os.waitpid(p.pid, os.WNOHANG)
            if pid:
                break
            if patience and not told and time.monotonic() - begin > patience:
                p.kill()
                told = True
            if time.monotonic() - begin > seconds:
                p.kill()
                os.waitpid(p.pid, 0)
                p.returncode = -9
                out.seek(0)
                pytest.fail(f"weir {command} did not end within {seconds} s:\n{out.read().decode(errors='replace')[-3000:]}")
            time.sleep(0.02)
        p.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read().decode(errors="replace")
    e = Ended(p.returncode, said, rss_mb, time.monotonic() - begin)
    assert (e.status >= 0 or (told and e.status == -signal.SIGKILL)) and "Sanitizer" not in said, f"weir {command} died ({e.status}):\n{said[-4000:]}"
    if not sanitized():
        assert e.rss_mb < RSS_MAX_MB, f"weir {command} took {e.rss_mb:.0f} MB"
    return e


def peak_mb(pid):
    """of this program alone: what wait4 tells counts the process it was forked from"""
    try:
        with open(f"/proc/{pid}/status") as f:
            return int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1)) / 1024
    except (OSError, AttributeError):
        return 0


def sync(weir, **kw):
    return run(weir, "sync", "--until", "current", **kw)


# ---- answers to statements
ROW = text("x")
ANSWERS = {
    "2^60 columns": lambda b: b.packets(b"\xfe" + struct.pack("<Q", 1 << 60)),
    "2^24 columns": lambda b: b.packets(lenenc((1 << 24) - 1)),
    "endless columns": lambda b: b.endless(column(), [lenenc(8000)]),
    "more columns than said": lambda b: b.endless(column(), [lenenc(1)]),
    "cut column": lambda b: b.packets(lenenc(1), column()[:-9], EOF, EOF),
    "column with wrong lengths": lambda b: b.packets(lenenc(1), b"\xfe" + b"\xff" * 8 + column(), EOF, EOF),
    "endless rows": lambda b: b.endless(text("x" * 200), [lenenc(1), column(), EOF]),
    "endless empty rows": lambda b: b.endless(b"\0", [lenenc(1), column(), EOF]),
    "a row longer than its packet": lambda b: b.packets(lenenc(1), column(), EOF, b"\xfe" + struct.pack("<Q", 1 << 40) + b"x", EOF),
    "a row with less columns": lambda b: b.packets(lenenc(3), column(), column(), column(), EOF, ROW, EOF),
    "a row with more columns": lambda b: b.packets(lenenc(1), column(), EOF, ROW * 9, EOF),
    "one endless packet": lambda b: b.one_endless_packet(b"\1"),
    "one endless row": lambda b: b.one_endless_packet(b"\xfe", [lenenc(1), column(), EOF]),
    "nothing in the packet": lambda b: b.packets(b""),
    "no end of columns": lambda b: b.packets(lenenc(1), column(), OK),
    "a local file": lambda b: b.local_file(),
    "a huge error": lambda b: b.packets(err(b"\x1b[31m\n\0%s%n" * 100000)),
    "an error of the client's own": lambda b: b.packets(err("mine", 2003)),
    "an error that is cut": lambda b: b.packets(b"\xff"),
}


@ONE
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_makes_no_sense(bad, weir, answer):
    """to a SET, of which no answer is wanted, to the first question, and to a later one"""
    failed = 0
    for nth in (1, 5, 20):
        bad.rules.clear()
        bad.sent, bad.hits = 0, 0
        bad.at_query(".", ANSWERS[answer](bad), nth)
        r = run(weir, "check")
        assert bad.hits, f"no query was the {nth}th"
        assert len(r.out) < 64 << 10 and "\x1b" not in r.out
        if r.status:
            r.fails(rf"127\.0\.0\.1:{bad.port}|answer|packet|row|file|error")
        failed += r.status != 0
    assert failed, "no question's answer was looked at"
    assert not bad.heard.strip(b"\0"), bad.heard[:200]


@ONE
@pytest.mark.parametrize("answer", ["2^60 columns", "endless rows", "one endless packet", "a local file"])
@pytest.mark.parametrize("command, where", [("sync", "SHOW CREATE TABLE"), ("sync", "FORCE INDEX"), ("compare", "FORCE INDEX")])
def test_every_command_meets_them(bad, weir, server, command, where, answer):
    if command == "compare":
        weir.config["source"]["url"] = server.url()
        weir.write()
        weir.catch_up()
        weir.config["source"]["url"] = bad.url()
        weir.write()
    bad.at_query(where, ANSWERS[answer](bad))
    r = sync(weir) if command == "sync" else run(weir, "compare")
    assert bad.hits
    r.fails("answer|packet|row|file|columns")
    assert not bad.heard.strip(b"\0")


PREPARED = {
    "65535 columns": struct.pack("<BIHHBH", 0, 1, 65535, 0, 0, 0),
    "parameters": struct.pack("<BIHHBH", 0, 1, 1, 65535, 0, 0),
    "cut": b"\0\1",
    "no statement": b"\x07" * 12,
}


@ONE
@pytest.mark.parametrize("head", PREPARED)
def test_a_prepared_statement_that_makes_no_sense(bad, weir, head):
    bad.at_query("^SELECT.*ORDER BY.*LIMIT", bad.endless(column(), [PREPARED[head]]))
    sync(weir).fails("prepared statement|packet|column")
    assert bad.hits


# ---- rows
def test_rows_of_another_shape(bad, weir):
    """binary rows with a null bitmap that is cut, lengths past the end, and dates of 200 bytes"""
    rows = [b"\0", b"\0" * 3, b"\0\0\1\0\0\0\xfe" + b"\xff" * 8, b"\0\0" + b"\xc8" * 40, b"\0\xff\xff" + b"\0" * 8]
    for row in rows:
        def after(packet, row=row):
            return row if packet[:2] == b"\0\0" and len(packet) > 20 and b"v1" in packet else packet
        bad.at_answers(after)
        sync(weir).fails("row|shape|column|packet")


# ---- the greeting
def greeting(version=b"8.4.0", plugin=b"mysql_native_password", salt=b"a" * 20, flags=0xFFFF & ~0x820, high=0x00FF):
    return (b"\x0a" + version + b"\0" + struct.pack("<I", 1) + salt[:8] + b"\0" + struct.pack("<HBHH", flags, 45, 2, high) + bytes([21]) + b"\0" * 10 + salt[8:20] + b"\0" + plugin + b"\0")


def asks_for(bad, plugin, data=b"\0"):
    def run_(c):
        c.send(greeting())
        c.read()
        c.send(b"\xfe" + plugin + b"\0" + data)
        bad.heard += c.read()
        c.send(err("no", 1045))
    return run_


GREETINGS = {
    "nothing": lambda b: lambda c: None,
    "a web server": lambda b: lambda c: c.raw(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
    "one endless packet": lambda b: b.one_endless_packet(b"\x0a"),
    "endless packets": lambda b: b.endless(b"\x0a" + b"8" * 200 + b"\0"),
    "cut": lambda b: b.packets(greeting()[:20]),
    "a version without end": lambda b: b.packets(b"\x0a" + b"8" * 100000),
    "a huge error": lambda b: b.packets(err(b"x" * (1 << 20), 1040)),
    "an error in the greeting": lambda b: b.packets(err("Too many", 1203)),
    "protocol 255": lambda b: b.packets(b"\xff"),
}


@ONE
@pytest.mark.parametrize("what", GREETINGS)
def test_a_greeting_that_makes_no_sense(bad, weir, what):
    bad.at_greeting(GREETINGS[what](bad))
    run(weir, "check").fails(r"127\.0\.0\.1|packet")


@ONE
@pytest.mark.parametrize("plugin", ["mysql_clear_password", "dialog", "../../../../../tmp/evil", "mysql_old_password", "x" * 5000])
def test_a_password_is_not_given_in_clear(bad, weir, plugin):
    weir.password = "tOp-sEcReT-7"
    bad.at_greeting(asks_for(bad, plugin.encode()))
    r = run(weir, "check")
    r.fails("connect|auth|plugin|authenticate")
    assert b"tOp-sEcReT" not in bad.heard and "tOp-sEcReT" not in r.out


# ---- the binlog
def table_map(id, db, name, types=b"\x03"):
    return struct.pack("<Q", id)[:6] + b"\1\0" + bytes([len(db)]) + db + b"\0" + bytes([len(name)]) + name + b"\0" + lenenc(len(types)) + types + b"\0" + b"\xff" * ((len(types) + 7) // 8)


class Turn:
    """after the first event that fits, the others"""

    def __init__(self, type, make):
        self.type, self.make, self.done = type, make, False

    def __call__(self, e):
        if self.done or e[4] not in self.type:
            return [e]
        self.done = True
        return self.make(e)


TABLE_MAP, XID, GTIDS, ROWS = {19}, {16}, {33, 162, 42}, {23, 24, 25, 30, 31, 32, 166, 167, 168}
BAD_EVENTS = {
    "a size that is too large": Turn(TABLE_MAP, lambda e: [e[:9] + b"\xff\xff\xff\x7f" + e[13:]]),
    "a size of nothing": Turn(TABLE_MAP, lambda e: [e[:9] + b"\0\0\0\0" + e[13:]]),
    "a wrong checksum": Turn(TABLE_MAP, lambda e: [e[:-1] + bytes([e[-1] ^ 1])]),
    "a short event": Turn(TABLE_MAP, lambda e: [e[:12]]),
    "an empty event": Turn(TABLE_MAP, lambda e: [b""]),
    "an unknown type": Turn(TABLE_MAP, lambda e: [event(250, b"x" * 50)]),
    "a cut TABLE_MAP": Turn(TABLE_MAP, lambda e: [event(19, b"\0" * 9)]),
    "a TABLE_MAP of 65535 columns": Turn(TABLE_MAP, lambda e: [event(19, table_map(7, b"a", b"b")[:-4] + b"\xfd\xff\xff\0" + b"\3" * 100)]),
    "rows of no table": Turn(TABLE_MAP, lambda e: [event(23, struct.pack("<Q", 99)[:6] + b"\0\0" + b"\1\xff\0\0\0\0\0")]),
    "rows that are cut": Turn(ROWS, lambda e: [resealed(e[:-9] + b"\0" * 4)]),
    "rows that are longer": Turn(ROWS, lambda e: [resealed(e[:-4] + b"\xff" * 50 + b"\0" * 4)]),
    "an incident": Turn(TABLE_MAP, lambda e: [event(26, b"\1\0\xffshort")]),
    "a payload that is none": Turn(TABLE_MAP, lambda e: [event(40, b"\2\1\0\3\4\xff\xff\xff\xff\1\3\xfd\0\0\0\0garbage")]),
    "a format of nothing": Turn(TABLE_MAP, lambda e: [event(15, b"\4\0")]),
    "format 9": Turn(TABLE_MAP, lambda e: [event(15, b"\x09\0" + b"5.0.0" + b"\0" * 45 + b"\0\0\0\0\x13" + b"\0" * 40 + b"\1")]),
    "a statement of nothing": Turn(TABLE_MAP, lambda e: [event(2, b"\xff" * 40)]),
    "a table map for ever": Turn(TABLE_MAP, lambda e: (event(19, table_map(1000 + i, b"elsewhere", b"t%d" % i)) for i in range(10_000_000))),
    "large table maps for ever": Turn(TABLE_MAP, lambda e: (event(19, table_map(1000 + i, b"elsewhere", b"t", b"\3" * 60000)) for i in range(10_000_000))),
    "savepoints for ever": Turn(TABLE_MAP, lambda e: (event(2, struct.pack("<IIBHH", 1, 0, 1, 0, 0) + b"d\0SAVEPOINT `s%d`" % i) for i in range(10_000_000))),
}


@pytest.mark.parametrize("what", BAD_EVENTS)
def test_a_binlog_that_makes_no_sense(bad, weir, server, db, what):
    weir.catch_up()
    turn = BAD_EVENTS[what]
    turn.done = False
    bad.at_stream(turn)
    server.sql("INSERT INTO t VALUES (1000, 'x', 'b', '{}')", db=db)
    r = sync(weir, seconds=120)
    assert turn.done
    r.fails("binlog|event|packet|stream")
    # nothing of it is in the lake, and with the true server the pipeline goes on
    bad.at_stream(lambda e: [e])
    if r.status == 1 and "decode" not in r.out:
        weir.catch_up(status=[0, 1])


def test_one_event_for_ever(bad, weir, server, db):
    weir.catch_up()

    def endless(e):
        if e[4] in TABLE_MAP:
            yield e[:9] + struct.pack("<I", 1 << 27) + e[13:] + bytes((1 << 27) - len(e))
        else:
            yield e
    bad.at_stream(endless)
    server.sql("INSERT INTO t VALUES (1000, 'x', 'b', '{}')", db=db)
    sync(weir).fails("max_packet")


@pytest.mark.parametrize("n", range(int(os.environ.get("WEIR_HOSTILE_ROUNDS", "6"))))
def test_scrambled_answers(bad, weir, server, db, n):
    """Whatever comes: no crash. What looks like a lost connection is tried again, and an end that does not come is waited for: a command may go on for long."""
    bad.dice.seed(SEED * 1000 + n)
    bad.at_answers(bad.scrambled())
    for command in (("check",), ("sync", "--until", "current"), ("compare",)):
        run(weir, *command, seconds=60, patience=8)


@pytest.mark.parametrize("n", range(int(os.environ.get("WEIR_HOSTILE_ROUNDS", "6"))))
def test_scrambled_events(bad, weir, server, db, n):
    weir.catch_up()
    bad.dice.seed(SEED * 1000 + n)
    change = bad.scrambled(0.05)

    def events(e):
        changed = change(e)
        return [resealed(changed) if changed is not e and len(changed) > 30 else changed]
    bad.at_stream(events)
    for i in range(10):
        server.sql(f"INSERT INTO t (id, v, e, j) VALUES ({1000 + i}, 'x', 'b', '{{\"a\": [1, 2.5, \"x\"]}}')", f"UPDATE t SET v = 'u{i}' WHERE id = {i}", f"ALTER TABLE t ADD c{i} INT", db=db)
    sync(weir, seconds=60, patience=10)


def test_without_ill_will_it_works(bad, weir, server, db):
    """the proxy itself changes nothing"""
    weir.catch_up()
    server.sql("UPDATE t SET v = 'new' WHERE id < 100", db=db)
    weir.catch_up()
    assert_equal(server, Lake(weir.home), db, ["t"])
