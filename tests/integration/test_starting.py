"""A sync that cannot begin, and one that is asked to end before it has begun, or while its server does not answer."""
import contextlib
import json
import os
import random
import re
import signal
import socket
import time
from pathlib import Path

import pytest
from harness import wait_until
from harness.compare import assert_equal
from harness.lake import Lake
from harness.wire import Wire

SOON = 5        # seconds: no time-out of a connection is so short
AT_WORK = 20    # whoever is just connecting waits for as long as that may take


@pytest.fixture
def source(own_server, make_weir):
    """source(config) -> (server, weir): a captured database d; nothing has been read yet"""
    def start(config=None):
        s = own_server()
        s.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO d.t VALUES (1, 'a'), (2, 'b')")
        return s, make_weir(s, [r"d\..*"], config)
    return start


@contextlib.contextmanager
def frozen(server):
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@contextlib.contextmanager
def mute():
    """-> port of somebody who accepts every connection and never says anything"""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as s:
        yield s.getsockname()[1]


def end(weir, sig=signal.SIGTERM, soon=SOON):
    """the signal ends the live sync soon, in order and without a word of error"""
    began = time.monotonic()
    weir.proc.send_signal(sig)
    r = weir.ended(60)
    took = time.monotonic() - began
    assert r.status == 0 and took < soon, f"{took:.1f} s\n{r!r}"
    r.lacks(r"^weir:", "error")
    return r


def failed_runs(weir):
    book = json.loads((weir.home / "alarms.json").read_text())
    assert not book["running"], "nobody said how the run ended"
    return len(book["failures_us"])


def starting(weir):
    """the live sync has the home, and waits for somebody"""
    wait_until(lambda: (weir.home / "alarms.json").exists() and json.loads((weir.home / "alarms.json").read_text())["running"], 20, "the sync to begin")
    time.sleep(0.5)
    assert weir.running, weir.log_text()


# ---------------------------------------------------------------- asked to end
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("first", [True, False])
def test_a_stop_while_the_source_does_not_answer_yet(source, first, sig):
    s, w = source()
    if not first:
        w.catch_up()
    with frozen(s):
        w.start()
        starting(w)
        end(w, sig)
        st = w.status()
        assert st["state"] == "stopped" and not st["running"] and "error" not in st and failed_runs(w) == 0, st
        if not first:
            assert st["tables"] and st["committed"]["file"], "what was known is not known any more"
        w.run("status").says(r"stopped \(not running\)")
    w.catch_up()
    assert_equal(s, Lake(w.home), "d", ["t"])


def test_a_stop_at_random_moments_of_a_start(source):
    """from a first start on an empty home on; nothing of it is in the way of the next"""
    s, w = source()
    rnd = random.Random(int(os.environ["WEIR_SEED"]))
    for i in range(15):
        w.start()
        wait_until(lambda: int(re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{w.proc.pid}/status").read_text())[1], 16) >> (signal.SIGTERM - 1) & 1, 20, "the sync to listen", every=0.002)
        time.sleep(rnd.random() ** 2)
        end(w)
        s.sql(f"INSERT INTO d.t VALUES ({100 + i}, 'x')")
    w.catch_up()
    assert failed_runs(w) == 0
    assert_equal(s, Lake(w.home), "d", ["t"])


@pytest.mark.local_lake("the lake here is a catalog that does not answer")
def test_a_stop_while_the_lake_does_not_answer_yet(source):
    with mute() as port:
        s, w = source({"lake": {"catalog": "rest", "rest": {"uri": f"http://127.0.0.1:{port}"}}})
        w.start()
        starting(w)
        end(w)
        assert w.status()["state"] == "stopped" and failed_runs(w) == 0


def test_a_stop_while_another_sync_has_the_home(source, make_weir):
    s, w = source()
    w.start()
    w.wait()
    other = make_weir(s, [r"d\..*"], {"home": str(w.home)})
    other.home = w.home
    other.start()
    time.sleep(1)
    assert other.running
    end(other)
    assert w.status()["pid"] == w.proc.pid and w.status()["state"] == "streaming"
    w.stop()


def test_a_stop_while_the_source_has_frozen_in_the_stream(source):
    s, w = source()
    w.start()
    w.wait()
    with frozen(s):
        time.sleep(1.5)     # whoever asks it something now and then is waiting for the answer
        end(w, soon=AT_WORK)
        assert w.status()["state"] == "stopped" and failed_runs(w) == 0
    s.sql("INSERT INTO d.t VALUES (3, 'c')")
    w.catch_up()
    assert_equal(s, Lake(w.home), "d", ["t"])


def test_a_stop_while_the_source_has_frozen_in_a_load(source):
    s, w = source()
    s.sql("CREATE TABLE d.load (id INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(2000))", "INSERT INTO d.load (b) VALUES (REPEAT('x', 2000))", *["INSERT INTO d.load (b) SELECT b FROM d.load"] * 13)
    wire = Wire(s)
    w.config["source"]["url"] = wire.url()
    w.write()
    try:
        wire.stall_after(8_000_000)
        w.start()
        assert wire.held.wait(60), "nothing was read"
        time.sleep(0.5)
        end(w, soon=AT_WORK)
        assert w.status()["state"] == "stopped" and failed_runs(w) == 0
        wire.mend()
        w.catch_up()
        assert_equal(s, Lake(w.home), "d", ["t", "load"])
    finally:
        w.kill()
        wire.close()


# ---------------------------------------------------------------- not let in
def refused(weir, *says, code):
    r = weir.catch_up(status=1).says(*says)
    st = weir.status()
    assert st["state"] == "failed" and not st["running"] and st["error"]["code"] == code and not st["source"]["answers"], st
    weir.run("status").says(r"failed \(not running\)", *says)
    assert "sync.failed" in weir.run("alarms", status=1).out
    return st


def test_a_start_with_a_wrong_password_is_what_the_status_tells(source):
    s, w = source()
    w.password = "wrong"
    st = refused(w, "access denied|password", code="auth")
    assert not st.get("tables")
    w.password = "weir"
    w.catch_up()
    before = w.status()
    assert before["state"] == "stopped" and "error" not in before
    w.password = "wrong"
    st = refused(w, "access denied|password", code="auth")
    assert st["tables"] == before["tables"] and st["committed"] == before["committed"] and st["updated"] > before["updated"]
    w.run("resume", status=1).says("access denied|password")      # it only looks: the status stays
    assert w.status()["updated"] == st["updated"]
    w.password = "weir"
    w.catch_up()
    after = w.status()
    assert after["state"] == "stopped" and "error" not in after
    assert_equal(s, Lake(w.home), "d", ["t"])


def test_a_start_at_a_server_that_is_down_is_what_the_status_tells(source):
    s, w = source()
    w.catch_up()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = w.config["source"]["url"]
    w.config["source"]["url"] = f"mysql://weir@127.0.0.1:{port}"
    w.write()
    refused(w, str(port), code="net")
    w.run("wait", "--timeout", "20", status=1)
    w.config["source"]["url"] = url
    w.write()
    w.catch_up()
    assert w.status()["state"] == "stopped"
