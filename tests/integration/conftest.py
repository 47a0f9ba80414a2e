"""Fixtures: one server of each kind for the whole run, a fresh database per test, Weir and the lake on top.

WEIR_SERVERS=mariadb (or mysql) runs the tests on one of them only."""
import itertools
import os
import random
import re

import pytest
from harness import backend, share
from harness.compare import assert_equal
from harness.failover import DB
from harness.lake import Lake
from harness.weir import BINARY, Weir
from services import instance
from services.cluster import Cluster

FLAVORS = os.environ.get("WEIR_SERVERS", "mariadb,mysql").split(",")
numbers = itertools.count(1)
os.environ.setdefault("WEIR_SEED", str(random.SystemRandom().randrange(10**6)))       # one for all workers: they must find the same tests


def pytest_configure(config):
    config.addinivalue_line("markers", "needs_no_weir: tests of the harness itself")
    config.addinivalue_line("markers", "one_server: a long procedure, in an ordinary run on one of the servers: harness/share.py")
    config.addinivalue_line("markers", "only_on(flavor, reason): skipped on the other server")
    config.addinivalue_line("markers", "local_lake(reason): skipped with other lakes than WEIR_LAKE=local")


def pytest_report_header():
    return f"WEIR_SEED={os.environ['WEIR_SEED']} WEIR_LAKE={backend.MODE}"


def pytest_collection_modifyitems(items):
    for item in items:
        case = dict(item.callspec.params) if hasattr(item, "callspec") else {}
        here, only = case.pop("flavor", None), item.get_closest_marker("only_on")
        if not here:
            continue
        if only:
            chosen, why = only.args
        elif item.get_closest_marker("one_server") and not share.ALL:
            chosen = share.draw(item.originalname, *map(str, case.values())).choice(FLAVORS)
            why = f"on {chosen} in this run (WEIR_FAULTS=all: on both)"
        else:
            continue
        if here != chosen:
            item.add_marker(pytest.mark.skip(reason=why))


def pytest_runtest_setup(item):
    local = item.get_closest_marker("local_lake")
    if local and backend.MODE != "local":
        pytest.skip(local.args[0])
    if not item.get_closest_marker("needs_no_weir") and not BINARY.exists():
        pytest.fail(f"{BINARY} does not exist; run make first", pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def lakes(tmp_path_factory):
    backend.dir = tmp_path_factory.mktemp("lakes")
    yield
    backend.stop()


@pytest.fixture(scope="session", params=FLAVORS)
def flavor(request):
    return request.param


@pytest.fixture(scope="session")
def server(flavor, tmp_path_factory):
    """a running server of the session; tests leave its global settings as they found them"""
    with instance(flavor, tmp_path_factory.mktemp(flavor), owned=True) as s:
        yield s


@pytest.fixture
def own_server(flavor, tmp_path):
    """own_server(cnf={…}) starts a server for this test alone, e.g. to purge its logs or to kill it"""
    started = []

    def start(cnf=None):
        s = instance(flavor, tmp_path / f"server{len(started)}", cnf=cnf, owned=True).start()
        started.append(s)
        return s
    yield start
    for s in started:
        s.wipe()


@pytest.fixture
def db(request, server):
    """name of a fresh database, dropped afterwards"""
    name = "t%d_%s" % (next(numbers), re.sub(r"\W+", "_", request.node.originalname)[5:40])
    server.sql(f"CREATE DATABASE {name}")
    yield name
    server.sql(f"DROP DATABASE IF EXISTS {name}")


MD5_COMPONENT = "file://component_classic_hashing"     # MySQL since 9.6


@pytest.fixture
def md5(server, flavor):
    """a server that has MD5()"""
    if flavor == "mysql" and not server.sql("SELECT 1 FROM mysql.component WHERE component_urn = %r" % MD5_COMPONENT):
        server.sql(f"INSTALL COMPONENT '{MD5_COMPONENT}'")


@pytest.fixture
def make_weir(tmp_path):
    """make_weir(server, capture, config={…}, …) -> Weir; a live sync is ended with the test"""
    made = []

    def make(server, capture, config=None, **kw):
        w = Weir(server, tmp_path / f"weir{len(made)}", capture, config, **kw)
        made.append(w)
        return w
    yield make
    for w in made:
        w.kill()
        w.assert_accounted()
        backend.release(w.home)


@pytest.fixture
def weir(make_weir, server, db):
    """a pipeline that captures the whole test database"""
    return make_weir(server, [rf"{db}\..*"])


@pytest.fixture
def lake(weir):
    return Lake(weir.home)


@pytest.fixture
def same(server, lake, db):
    """same("t1", "t2"): asserts that these tables are equal in source and lake, for both readers"""
    return lambda *tables, **kw: assert_equal(server, lake, db, tables, **kw)


@pytest.fixture
def cluster(flavor, tmp_path):
    """cluster(n=2, …) starts a primary with n - 1 replicas"""
    made = []

    def start(n=2, **kw):
        c = Cluster(flavor, tmp_path / f"cluster{len(made)}", n, **kw)
        made.append(c)
        c.start()
        c.primary.sql(f"CREATE DATABASE {DB}")
        return c
    yield start
    for c in made:
        c.stop()


@pytest.fixture
def follow(make_weir):
    """follow(cluster, prefer=…) -> Weir with all addresses of the cluster"""
    def make(c, config=None, user="weir", password="weir", **source):
        hosts = [f"127.0.0.1:{s.port}" for s in c.servers[1:]]
        return make_weir(c.servers[0], [rf"{DB}\..*"], {"source": {"hosts": hosts, **source}, **(config or {})}, user=user, password=password)
    return make
