"""Where the lakes of a test run are: WEIR_LAKE=

local   files below the pipeline's home, catalog in SQLite (default)
s3      files in SeaweedFS, catalog in SQLite
rest    files in SeaweedFS, catalog in Iceberg's own REST server
faulty  the same, through proxies that answer 503, cut connections and stall; readers of the tests go to the servers themselves

Tests that are about one kind of lake set MODE themselves, for as long as they run.

A worker of pytest has servers of its own. A REST server holds the tables of one pipeline, until the pipeline's home is released; then it is emptied for the next one."""
import os
from pathlib import Path

MODE = os.environ.get("WEIR_LAKE", "local")
MODES = ("local", "s3", "rest", "faulty")
assert MODE in MODES, f"WEIR_LAKE={MODE} is none of {MODES}"
KEY_ENV, SECRET_ENV = "WEIR_TEST_S3_KEY", "WEIR_TEST_S3_SECRET"
FAULT_TIMEOUT = "1s"                # of Weir: shorter than the proxies stall
FAULTS = {"stall_seconds": 2.5, "refuse": 0.2, "lose_answer": 0.03, "stall_before": 0.005, "stall_after": 0.005, "cut_request": 0.02, "cut_answer": 0.02}

dir = None                          # of the servers; set by the session
_s3 = _s3_proxy = None
_rests, _rest_proxies = [], {}      # by number, the proxies before them too
_homes, _free = {}, []              # a home's number; numbers without a home


def proxy_before(server, seed):
    from services.faulty_proxy import FaultyProxy
    p = FaultyProxy(("127.0.0.1", server.port), seed=int(os.environ.get("WEIR_SEED", "0")) * 10 + seed)
    for name, value in FAULTS.items():
        setattr(p, name, value)
    return p


def proxy_url(p):
    return f"http://127.0.0.1:{p.port}"


def s3():
    global _s3
    if not _s3:
        from services.s3 import S3
        _s3 = S3(dir / "s3", owned=True).start()
    return _s3


def s3_proxy():
    global _s3_proxy
    if not _s3_proxy:
        _s3_proxy = proxy_before(s3(), 1)
    return _s3_proxy


def rest(home):
    """the REST server of a pipeline"""
    home = str(home)
    if home not in _homes and not _free:
        from services.rest import RestCatalog
        _rests.append(RestCatalog(dir / f"rest{len(_rests)}", s3=s3(), owned=True).start())
        _free.append(len(_rests) - 1)
    if home not in _homes:
        _homes[home] = _free.pop()
    return _rests[_homes[home]]


def rest_proxy(home):
    server, number = rest(home), _homes[str(home)]
    if number not in _rest_proxies:
        _rest_proxies[number] = proxy_before(server, 2 + number)
    return _rest_proxies[number]


def release(home):
    """the pipeline is over"""
    number = _homes.pop(str(home), None)
    if number is None:
        return
    _rests[number].forget()
    _free.append(number)


def stop():
    for p in [_s3_proxy, *_rest_proxies.values()]:
        if p:
            p.close()
    for r in [*_rests, _s3]:
        if r:
            r.wipe()


def warehouse(home):
    return f"s3://lake/{Path(home).resolve().as_posix().strip('/')}"


def config(home):
    """what a weir.yaml says beside the usual"""
    if MODE == "local":
        return {}
    endpoint = proxy_url(s3_proxy()) if MODE == "faulty" else s3().endpoint
    over = {"warehouse": warehouse(home), "s3": {"endpoint": endpoint, "path_style": "true", "access_key_env": KEY_ENV, "secret_key_env": SECRET_ENV}}
    if MODE != "s3":
        over |= {"catalog": "rest", "rest": {"uri": proxy_url(rest_proxy(home)) if MODE == "faulty" else rest(home).uri}}
    if MODE == "faulty":
        over["s3"]["timeout"] = over["rest"]["timeout"] = FAULT_TIMEOUT
    return {"lake": over}


def env():
    from services.s3 import ACCESS_KEY, SECRET_KEY
    return {} if MODE == "local" else {KEY_ENV: ACCESS_KEY, SECRET_ENV: SECRET_KEY}


def s3_properties():
    from services.s3 import ACCESS_KEY, SECRET_KEY
    return {"s3.endpoint": s3().endpoint, "s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY, "s3.region": "us-east-1",
            "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}


def rest_client(server):
    from pyiceberg.catalog.rest import RestCatalog
    return RestCatalog("weir", uri=server.uri, **s3_properties())


def catalog(home):
    """opened anew each time: another process writes it"""
    from pyiceberg.catalog.sql import SqlCatalog
    if MODE in ("rest", "faulty"):
        return rest_client(rest(home))
    at = {"warehouse": f"file://{home}/warehouse"} if MODE == "local" else s3_properties()
    return SqlCatalog("weir", uri=f"sqlite:///{home}/catalog.db", **at)


def warehouse_files(home):
    """-> pyarrow file system, the warehouse's path in it"""
    from pyarrow import fs
    if MODE == "local":
        return fs.LocalFileSystem(), f"{home}/warehouse"
    p = s3_properties()
    return (fs.S3FileSystem(endpoint_override=p["s3.endpoint"], access_key=p["s3.access-key-id"], secret_key=p["s3.secret-access-key"], region=p["s3.region"]),
            warehouse(home).removeprefix("s3://"))


def prepare_duckdb(con):
    if MODE == "local":
        return
    from services.s3 import ACCESS_KEY, SECRET_KEY
    con.execute(f"CREATE SECRET (TYPE s3, KEY_ID '{ACCESS_KEY}', SECRET '{SECRET_KEY}', ENDPOINT '127.0.0.1:{s3().port}', URL_STYLE 'path', USE_SSL false, "
                "REGION 'us-east-1')")
