"""A service of the DBAs' own that names the servers (source.topology), as a command and as an URL."""
import http.server
import json
import threading

import pytest
from harness.failover import DB, at, create, same, until
from services.base import birth

pytestmark = pytest.mark.local_lake("a topology is about the source")


def entry(server, **kw):
    return {"host": "127.0.0.1", "port": server.port, **kw}


@pytest.fixture
def service():
    """-> (url, answer): a running HTTP service; answer is a list with what it says, text"""
    answer = [""]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if answer[0] else 503)
            self.end_headers()
            self.wfile.write(answer[0].encode())

        def log_message(self, *a):
            pass
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{s.server_port}/shop", answer
    s.shutdown()


def test_a_command_steers_by_weight_and_zone(cluster, make_weir, tmp_path):
    c = cluster(3)
    first, second, third = c.servers
    create(first)
    c.catch_up(second), c.catch_up(third)
    file = tmp_path / "topology.json"

    def say(*servers):
        file.with_suffix(".new").write_text(json.dumps({"format": 1, "servers": servers}))
        file.with_suffix(".new").rename(file)
    say(entry(first), entry(second, zone="a", weight=900), entry(third, zone="b", weight=1, role="replica"))
    w = make_weir(first, [rf"{DB}\..*"], {"source": {"topology": {"command": ["cat", str(file)]}, "zone": "b", "inspect": "1s"}})
    w.start()
    w.wait()
    assert at(w) == third.port              # the zone before the weight
    say(entry(first), entry(second, zone="a"), entry(third, zone="b", weight=0))
    until(lambda: at(w) == second.port)     # drained
    first.sql("UPDATE t SET v = -1 WHERE id < 9", db=DB)
    w.wait()
    same(w, first)
    say(entry(first))                       # not named any more
    until(lambda: at(w) == first.port)
    w.stop()
    file.unlink()                           # the command fails: source.url is what there is
    w.catch_up()
    assert at(w) == first.port
    first.sql("DELETE FROM t WHERE id > 40", db=DB)
    w.catch_up()
    same(w, first)


def test_an_url_names_the_server_to_go_on_at(cluster, make_weir, service):
    url, answer = service
    c = cluster(2)
    first, second = c.servers
    create(first)
    answer[0] = json.dumps({"servers": [entry(first, role="primary"), entry(second, role="replica", weight=0)]})
    w = make_weir(first, [rf"{DB}\..*"], {"source": {"topology": {"url": url}}})
    w.start()
    w.wait()
    assert at(w) == first.port
    c.catch_up(second)
    first.kill()
    c.promote(second)
    answer[0] = json.dumps({"servers": [entry(second, role="primary")]})
    second.sql("INSERT INTO t VALUES (100, 1, 'new')", db=DB)
    until(lambda: at(w) == second.port)
    w.wait()
    w.stop()
    same(w, second)


@pytest.mark.parametrize("text, says", [("", "HTTP status 503"), ("{}", "with at least one server"), ('{"servers": []}', "with at least one server"), ('{"servers": [{"port": 1}]}', r"servers\[0\].*host is missing"),
                                        ('{"servers": [{"host": "a", "role": "master"}]}', "neither primary nor replica"), ('{"servers": [{"host": "a"}, {"host": "a"}]}', "there already"),
                                        ('{"servers": [{"host": "a", "weight": -1}]}', "weight"), ('{"servers": [{"host": "a", "port": 70000}]}', "port"), ("nonsense", "with at least one server")])
def test_an_answer_that_is_none_is_told_and_the_configuration_used(server, db, make_weir, service, text, says):
    url, answer = service
    answer[0] = text
    server.sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", db=db)
    w = make_weir(server, [rf"{db}\..*"], {"source": {"topology": {"url": url}}})
    w.catch_up().says(says, "source.url")
    assert at(w) == server.port


@pytest.mark.one_server
def test_a_command_that_does_not_end_is_ended_with_what_it_started(server, db, make_weir, tmp_path):
    pids = tmp_path / "pids"
    server.sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", db=db)
    w = make_weir(server, [rf"{db}\..*"], {"source": {"topology": {"command": ["sh", "-c", f"sleep 1000 & echo $$ $! >>{pids}; wait"]}}})
    w.catch_up().says("no answer within 10 s", "source.url")
    started = pids.read_text().split()
    assert len(started) >= 2 and not [p for p in started if birth(p)]


def test_both_ways_at_once_are_refused(server, make_weir):
    make_weir(server, ["x"], {"source": {"topology": {"url": "http://127.0.0.1:1/", "command": ["true"]}}}).run("status", status=2).says("only one of command and url")
