"""Alarms: real conditions, real receivers. Each is told once, and its end too."""
import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from harness.lake import Lake
from harness.compare import assert_equal
from harness.receivers import Smtp, Webhook, until
from services import ROOT

pytestmark = pytest.mark.one_server      # alarms are Weir's own, whichever server stands behind it
# No alarm of the machine's own: what little it has free is not what is tested
QUIET = {"disk": {"warning": "1KB", "critical": "1B"}, "recovery": "1s"}
LOW = {"warning": "1000TB", "critical": "1B"}


@pytest.fixture
def hook():
    h = Webhook()
    yield h
    h.close()


@pytest.fixture
def table(server, db):
    server.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)", db=db)


def alarmed(make_weir, server, db, hook, **alarms):
    return make_weir(server, [rf"{db}\..*"], config={"alarms": {**QUIET, "notify": [{"name": "hook", "webhook": {"url": hook.url()}}], **alarms}})


def alarms_of(weir, *args, status=(0, 1)):
    return [json.loads(line) for line in weir.run("alarms", "--json", *args, status=status).out.splitlines()]


def test_every_receiver_gets_a_notice_and_its_end_in_its_own_form(server, db, make_weir, table, tmp_path, monkeypatch):
    generic, slack, mail = Webhook(), Webhook(answers=[(500, "down")]), Smtp(user=("alice", "pass-of-mail"))
    feishu = Webhook(answers=[(200, '{"code":19021,"msg":"sign match fail or timestamp is not within one hour from current time","data":{}}')])
    monkeypatch.setenv("MAIL_PASSWORD", "pass-of-mail")
    (tmp_path / "feishu.secret").write_text("secret-of-feishu\n")
    (tmp_path / "slack.url").write_text(slack.url("/services/secret-of-slack") + "\n")
    heard = tmp_path / "heard"
    notify = [
        {"name": "hook", "webhook": {"url": generic.url("/secret-of-hook?x=1"), "secret_command": "echo secret-of-signature"}},
        {"name": "feishu", "webhook": {"url": feishu.url("/open-apis/bot/v2/hook/secret-of-bot"), "form": "feishu", "secret_file": str(tmp_path / "feishu.secret")}},
        {"name": "slack", "webhook": {"url_file": str(tmp_path / "slack.url"), "form": "slack"}},
        {"name": "mail", "email": {"smtp": mail.url(), "from": "Weir <weir@x.test>", "to": ["a@x.test", "B <b@x.test>"], "user": "alice", "password_env": "MAIL_PASSWORD", "tls": "disabled"}},
        {"name": "command", "command": ["sh", "-c", 'cat >>"$0"; echo >>"$0"', str(heard)]},
        {"name": "only critical", "min_severity": "critical", "command": ["sh", "-c", f"touch {tmp_path}/critical"]},
    ]
    w = make_weir(server, [rf"{db}\..*"], config={"alarms": {**QUIET, "disk": LOW, "notify": notify}})
    w.run("alarms", "--test", status=1).says("hook: delivered", "'feishu': answered with status 200: sign match fail", "'slack': answered with status 500", "mail: delivered", "command: delivered")
    assert w.run("alarms", "--test").out.count("delivered") == len(notify)
    for x in (generic, slack, feishu):
        x.got.clear()
    mail.mails.clear()
    heard.unlink()
    feishu.answers = [(200, '{"code":9499,"msg":"Bad Request","data":{}}')]
    (tmp_path / "critical").unlink()
    w.start()
    generic.wait("opened", "disk.low")
    for x in (slack, feishu):
        until(lambda: x.got)
    until(lambda: mail.mails and heard.exists())
    w.stop()
    w.config["alarms"]["disk"] = QUIET["disk"]
    w.write()
    w.start()
    generic.wait("recovered", "disk.low")
    for x in (slack, feishu):
        until(lambda: len(x.got) == 2)
    until(lambda: len(mail.mails) == 2)
    until(lambda: heard.read_text().count("recovered"))
    w.stop()

    request = generic.got[0]
    assert request["headers"]["X-Weir-Signature"] == "sha256=" + hmac.new(b"secret-of-signature", request["raw"], hashlib.sha256).hexdigest()
    n = request["json"]
    assert n["pipeline"] == "test" and n["alarm"]["severity"] == "warning" and n["alarm"]["subject"] == str(w.home) and n["alarm"]["cure"] and n["alarm"]["count"] == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", n["alarm"]["first"])
    assert [r["json"]["event"] for r in generic.got] == ["opened", "recovered"]
    for r in feishu.got + feishu.refused:
        b = r["json"]
        assert b["sign"] == base64.b64encode(hmac.new(f"{b['timestamp']}\nsecret-of-feishu".encode(), b"", hashlib.sha256).digest()).decode()
        assert abs(int(b["timestamp"]) - time.time()) < 120 and b["msg_type"] == "post"
    assert [r["json"]["content"]["post"]["en_us"]["title"] for r in feishu.got] == [f"[warning] test: disk.low {w.home}", f"[recovered] test: disk.low {w.home}"]
    assert "way out" in json.dumps(feishu.got[0]["json"]).lower()
    assert [r["json"]["text"].split("\n")[0] for r in slack.got] == [f"*[warning] test: disk.low {w.home}*", f"*[recovered] test: disk.low {w.home}*"]
    sender, to, m = mail.mails[0]
    assert (sender, to) == ("weir@x.test", ["a@x.test", "b@x.test"]) and m["Subject"] == f"[warning] test: disk.low {w.home}" and m["From"] == "Weir <weir@x.test>"
    assert "are free" in m.get_content() and "Way out: " in m.get_content()
    assert mail.mails[1][2]["Subject"].startswith("[recovered]") and not mail.refused
    assert [json.loads(x)["event"] for x in heard.read_text().splitlines()] == ["opened", "recovered"]
    assert not (tmp_path / "critical").exists()
    kept = "".join(p.read_text(errors="replace") for p in w.home.glob("*.json*")) + w.log.read_text() + w.run("status").out + w.run("alarms", "--all").out
    assert "secret-of" not in kept and "pass-of" not in kept
    for x in (generic, slack, feishu, mail):
        x.close()


def test_a_source_that_stands_still_is_told_escalates_and_recovers(own_server, make_weir, flavor):
    s = own_server()
    s.sql("CREATE DATABASE d")
    s.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", db="d")
    first, later = Webhook(), Webhook()
    notify = [{"name": "first", "webhook": {"url": first.url()}}, {"name": "later", "after": "4s", "webhook": {"url": later.url()}}]
    w = make_weir(s, [r"d\..*"], config={"alarms": {**QUIET, "silent": "3s", "notify": notify}}).start()
    w.wait()
    os.kill(s.pid, signal.SIGSTOP)
    try:
        n = first.wait("opened", "source.silent")
        assert n["alarm"]["severity"] == "critical" and "not even a heartbeat" in n["alarm"]["text"] and str(s.port) in n["alarm"]["subject"]
        [a] = alarms_of(w, status=1)
        assert (a["kind"], a["state"]) == ("source.silent", "open")
        w.run("status").says("alarm +critical source.silent", "1 open: weir alarms")
        assert [x["kind"] for x in w.status()["alarms"]] == ["source.silent"]
        w.run("ledger", "--prometheus").says(r'weir_alarm\{pipeline="test",kind="source.silent",.*severity="critical"\} 1', r"weir_notices_undelivered\{.*\} 0")
        assert later.wait("escalated", "source.silent")["alarm"]["level"] == 1
    finally:
        os.kill(s.pid, signal.SIGCONT)
    first.wait("recovered", "source.silent", 90)
    later.wait("recovered", "source.silent")
    s.sql("INSERT INTO t VALUES (1, 1)", db="d")
    w.wait()
    assert [r["json"]["event"] for r in first.got] == ["opened", "recovered"] and [r["json"]["event"] for r in later.got] == ["escalated", "recovered"]
    assert alarms_of(w, status=0) == []
    assert [a["state"] for a in alarms_of(w, "--all", status=0)] == ["recovered"]
    assert_equal(s, Lake(w.home), "d", ["t"])
    first.close(), later.close()


def test_what_is_acknowledged_does_not_escalate(server, db, make_weir, table, hook):
    later = Webhook()
    notify = [{"name": "first", "webhook": {"url": hook.url()}}, {"name": "later", "after": "5s", "webhook": {"url": later.url()}}]
    w = alarmed(make_weir, server, db, hook, disk=LOW, notify=notify).start()
    hook.wait("opened", "disk.low")
    until(lambda: alarms_of(w))
    w.run("alarms", "--acknowledge", "17", status=1).says("no open alarm has the number 17")
    w.run("alarms", "--acknowledge", "x", status=2).says("takes the number of an alarm")
    w.run("alarms", "--acknowledge", "1", status=0).says("acknowledged")
    until(lambda: not list((w.home / "acknowledge").iterdir()))
    time.sleep(6)
    assert not later.got and alarms_of(w, status=0)[0]["state"] == "acknowledged"
    w.stop()
    w.run("alarms").says("acknowledged")
    later.close()


def test_an_acknowledgement_while_no_sync_runs_waits_for_the_next(server, db, make_weir, table, hook):
    w = alarmed(make_weir, server, db, hook, disk=LOW)
    w.start()
    hook.wait("opened", "disk.low")
    w.stop()
    w.run("alarms", "--acknowledge", "1", status=0)
    w.run("alarms", status=0).says("acknowledged")
    w.start()
    w.wait()
    until(lambda: not list((w.home / "acknowledge").iterdir()))
    assert alarms_of(w, status=0)[0]["state"] == "acknowledged"
    assert len(hook.told("opened", "disk.low")) == 1
    w.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
@pytest.mark.local_lake("the disk is full where the lake lies")
def test_a_disk_that_fills_up_is_a_warning_then_critical_and_over_when_there_is_room(server, db, make_weir, table, hook):
    w = alarmed(make_weir, server, db, hook, disk={"warning": "40MB", "critical": "10MB"}, recovery="3s")
    w.config["lake"]["commit"] = {"every": "200ms"}
    w.write()
    w.home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "none", w.home], check=True)
    try:
        w.start()
        w.wait()
        assert not hook.got
        filler = w.home / "filler"

        def fill(left):
            with open(filler, "ab") as f:
                f.write(b"x" * max(0, shutil.disk_usage(w.home).free - left))
        fill(30 << 20)
        assert hook.wait("opened", "disk.low")["alarm"]["severity"] == "warning"
        with pytest.raises(OSError):
            fill(-(1 << 20))
        assert hook.wait("worsened", "disk.low")["alarm"]["severity"] == "critical"
        server.sql(*[f"INSERT INTO t VALUES ({i}, {i})" for i in range(2, 400)], db=db)
        time.sleep(3)
        filler.unlink()
        hook.wait("recovered", "disk.low")
        w.wait()
        assert_equal(server, Lake(w.home), db, ["t"])
        assert [r["json"]["event"] for r in hook.got if r["json"]["alarm"]["kind"] == "disk.low"] == ["opened", "worsened", "recovered"]
        until(lambda: not [a for a in alarms_of(w) if not a["kind"].startswith("ledger.")], why=lambda: alarms_of(w))   # a slow server's inserts take so long that the ledger speaks, which is somebody's to acknowledge
        w.stop()
        w.assert_accounted()
    finally:
        w.kill()
        shutil.copytree(w.home, w.dir / "seen", ignore_dangling_symlinks=True, ignore=shutil.ignore_patterns("filler", "cache"))
        subprocess.run(["umount", "-l", w.home], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
@pytest.mark.local_lake("the disk is full where the lake lies")
def test_a_lake_that_refuses_commits_is_told_and_so_is_its_disk(server, db, make_weir, table, hook, tmp_path):
    lake = tmp_path / "small"
    lake.mkdir()
    w = alarmed(make_weir, server, db, hook, disk={"warning": "2MB", "critical": "1B"}, silent="3s")
    w.config["lake"]["warehouse"] = str(lake)
    w.write()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "none", lake], check=True)
    try:
        w.start()
        w.wait()
        with pytest.raises(OSError), open(lake / "filler", "wb", buffering=0) as f:
            while True:
                f.write(b"x" * 4096)
        server.sql("INSERT INTO t VALUES (2, 2)", db=db)
        assert hook.wait("opened", "disk.low")["alarm"]["subject"] == str(lake)
        n = hook.wait("opened", "lake.failing")
        assert n["alarm"]["subject"] == str(lake) and "space" in n["alarm"]["text"]
        (lake / "filler").unlink()
        w.wait()
        hook.wait("recovered", "disk.low")
        hook.wait("recovered", "lake.failing", 60)
        assert sorted(r["json"]["event"] for r in hook.got) == ["opened", "opened", "recovered", "recovered"]
        w.stop()
        assert_equal(server, Lake(w.home), db, ["t"])
    finally:
        w.kill()
        subprocess.run(["umount", "-l", lake], check=True)


def test_runs_that_fail_are_told_once_and_that_they_repeat(own_server, make_weir, hook):
    s = own_server()
    s.sql("CREATE DATABASE d")
    s.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", db="d")
    w = alarmed(make_weir, s, "d", hook, restarts={"times": 3, "within": "1m"})
    w.catch_up()
    s.stop()
    for i in range(1, 4):
        w.catch_up(status=1)
        assert bool(hook.told("opened", "sync.restarts")) == (i == 3)
    assert len(hook.told("opened", "sync.failed")) == 1 and hook.told("opened", "sync.failed")[0]["alarm"]["text"]
    assert {a["kind"]: a["count"] for a in alarms_of(w, status=1)} == {"sync.failed": 3, "sync.restarts": 1}
    s.start()
    w.start()
    hook.wait("recovered", "sync.failed")
    hook.wait("recovered", "sync.restarts", 90)
    w.stop()
    assert len(hook.got) == 4


def test_kills_are_failed_runs(server, db, make_weir, table, hook):
    w = alarmed(make_weir, server, db, hook, restarts={"times": 2, "within": "10m"})
    for _ in range(2):
        w.start()
        w.wait()
        w.kill()
    w.start()
    assert "2 runs" in hook.wait("opened", "sync.restarts")["alarm"]["text"]
    w.stop()


@pytest.mark.parametrize("thread, fault", [("applying", "pipeline.after_commit:2:stall=9000"), ("capture", "capture.commit:2:stall=9000"), ("queue", "queue.sync:3:stall=9000")])
def test_a_thread_that_stands_still_is_told(server, db, make_weir, table, hook, monkeypatch, thread, fault):
    w = alarmed(make_weir, server, db, hook, stalled="3s")
    w.catch_up()
    monkeypatch.setenv("WEIR_FAULT", fault)
    w.start()
    monkeypatch.delenv("WEIR_FAULT")
    for i in range(2, 8):
        server.sql(f"INSERT INTO t VALUES ({i}, 1)", db=db)
        time.sleep(0.5)
    n = hook.wait("opened", "thread.stalled")
    assert n["alarm"]["subject"] == thread and n["alarm"]["severity"] == "critical"
    hook.wait("recovered", "thread.stalled")
    w.wait()
    w.stop()
    assert [r["json"]["event"] for r in hook.got if r["json"]["alarm"]["kind"] == "thread.stalled"] == ["opened", "recovered"]


def test_a_lake_that_lags_is_told(server, db, make_weir, table, hook):
    w = alarmed(make_weir, server, db, hook, lag={"warning": "3s", "critical": "6s"})
    w.config["lake"]["commit"] = {"every": "12s"}
    w.write()
    w.start()
    w.wait()
    for i in range(2, 16):
        server.sql(f"INSERT INTO t VALUES ({i}, 1)", db=db)
        time.sleep(0.7)
    assert hook.wait("opened", "source.lag")["alarm"]["severity"] == "warning"
    assert "behind" in hook.wait("worsened", "source.lag")["alarm"]["text"]
    hook.wait("recovered", "source.lag")
    w.stop()


def test_what_the_ledger_finds_is_an_alarm(server, db, make_weir, table, hook, monkeypatch):
    w = alarmed(make_weir, server, db, hook)
    w.assert_accounted = lambda: None
    w.catch_up()
    monkeypatch.setenv("WEIR_FAULT", "capture.lose:3:fail")
    w.start()
    monkeypatch.delenv("WEIR_FAULT")
    for i in range(2, 10):
        server.sql(f"INSERT INTO t VALUES ({i}, 1)", db=db)
    n = hook.wait("opened", "ledger.captured-queued", 60)
    assert n["alarm"]["subject"] == f"{db}.t" and "1 inserts are missing" in n["alarm"]["text"] and n["alarm"]["severity"] == "critical"
    w.stop()


def test_what_a_comparison_finds_is_an_alarm_until_it_is_acknowledged(server, db, make_weir, table, hook):
    w = alarmed(make_weir, server, db, hook).start()
    w.assert_accounted = lambda: None
    w.wait()
    w.run("compare", "--alarm", status=0)
    assert not alarms_of(w)
    server.sql("SET SESSION sql_log_bin = 0", "INSERT INTO t VALUES (99, 1)", db=db)
    w.run("compare", "--alarm", status=1)
    n = hook.wait("opened", "ledger.compared", 60)
    assert n["alarm"]["subject"] == f"{db}.t" and "1 rows are missing" in n["alarm"]["text"] and n["alarm"]["severity"] == "critical"
    w.run("ledger", "--acknowledge", f"{db}.t", "--why", "planted")
    hook.wait("recovered", "ledger.compared", 60)
    w.stop()


def test_no_notice_is_lost_when_receiver_and_sync_die(server, db, make_weir, table):
    gone = Webhook()
    port = gone.port
    gone.close()
    w = make_weir(server, [rf"{db}\..*"], config={"alarms": {**QUIET, "disk": LOW, "notify": [{"name": "hook", "webhook": {"url": f"http://127.0.0.1:{port}/secret-of-hook"}}]}})
    w.start()
    until(lambda: w.home.joinpath("alarms.json").exists() and "Failed to connect" in json.dumps(w.status().get("notices", {})) if (w.home / "status.json").exists() else False, 40)
    w.run("status").says("undelivered +1 notices", "alarms.notify 'hook'")
    assert "secret-of" not in w.run("status").out + w.run("status", "--json").out + (w.home / "alarms.json").read_text()
    w.kill()
    w.start()
    w.kill()
    hook = Webhook(port)
    w.start()
    hook.wait("opened", "disk.low")
    until(lambda: w.status()["notices"]["undelivered"] == 0)
    w.kill()
    w.start()
    w.wait()
    time.sleep(2)
    w.stop()
    assert len(hook.told("opened", "disk.low")) == 1 and len(hook.got) == 1
    hook.close()


def test_receivers_that_hang_neither_stop_nor_delay_the_stream(server, db, make_weir, table):
    notify = [{"name": f"hang{i}", "timeout": "30s", "command": ["sleep", "60"]} for i in range(3)]
    w = make_weir(server, [rf"{db}\..*"], config={"alarms": {**QUIET, "disk": LOW, "notify": notify}}).start()
    w.wait()
    began = time.monotonic()
    for i in range(2, 8):
        server.sql(f"INSERT INTO t VALUES ({i}, 1)", db=db)
        w.wait()
    assert time.monotonic() - began < 30
    w.kill()


@pytest.mark.parametrize("notify, says", [
    ([{}], "needs one of webhook, email and command"), ([{"webhook": {"url": "http://x"}, "command": ["x"]}], "both webhook and command"), ([{"webhook": {}}], "needs one of url"),
    ([{"webhook": {"url": "http://x", "form": "slac"}}], "did you mean 'slack'"), ([{"email": {"smtp": "smtp://x", "from": "a"}}], "needs smtp, from and to"), ([{"email": {"smtp": "http://x", "from": "a", "to": ["b"]}}], "smtp://"),
    ([{"command": []}], "is empty"), ([{"command": ["x"], "name": "a"}, {"command": ["x"], "name": "a"}], "stands twice"), ([{"comand": ["x"]}], "did you mean 'command'"), ([{"command": ["x"], "after": "15"}], "needs a unit"), ([{"command": ["x"], "timeout": "5m"}], "above 30 s"),
])
@pytest.mark.needs_no_weir
def test_mistakes_in_who_is_told_are_told(tmp_path, notify, says):
    file = tmp_path / "weir.yaml"
    file.write_text(json.dumps({"name": "x", "source": {"url": "mysql://a@b", "capture": ["a"]}, "alarms": {"notify": notify}}))
    from harness.weir import BINARY
    p = subprocess.run([BINARY, "alarms", "-c", file], capture_output=True, text=True)
    assert p.returncode == 2 and says in p.stderr, p.stderr


@pytest.mark.needs_no_weir
def test_every_kind_has_a_section_with_cause_and_cure():
    kinds = re.findall(r'\{"([a-z]+\.[a-z-]+)", WR_ALARM_', (ROOT / "src/alarm/kinds.c").read_text())
    page = (ROOT / "docs/operate/alarms.md").read_text()
    assert len(kinds) >= 16
    for k in kinds:
        m = re.search(rf"^## .*`{re.escape(k)}`.*?(?=^## |\Z)", page, re.M | re.S)
        assert m, f"no section for {k}"
        assert all(re.search(rf"^\*\*{word}", m[0], re.M) for word in ("Cause", "By itself", "See", "Cure")), f"{k}: {m[0]}"
    assert set(re.findall(r"`([a-z]+\.[a-z-]+)`", "".join(re.findall("^## .*", page, re.M)))) == set(kinds), "sections of no kind"


@pytest.mark.needs_no_weir
def test_every_alarm_of_the_ledger_is_told_and_explained():
    """whoever raises one gives the ledger a name: kinds.c must have it, or nobody is told"""
    source = "".join(p.read_text() for p in (ROOT / "src").glob("**/*.c"))
    raised = set(re.findall(r'\b(?:raise|wr_ledger_raise|wr_ledger_raise_in|compare)\(\w+(?:->\w+)?, (?:\w+, )?"([a-z-]+)"', source) + re.findall(r'#define HOP "([a-z-]+)"', source))
    told = {k[len("ledger."):] for k in re.findall(r'\{"(ledger\.[a-z-]+)", WR_ALARM_', (ROOT / "src/alarm/kinds.c").read_text())}
    explained = {k for row in re.findall(r"^\| (`.*?) \|", (ROOT / "docs/ledger.md").read_text(), re.M) for k in re.findall(r"`([a-z-]+)`", row)}
    assert raised == told == explained
