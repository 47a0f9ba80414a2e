"""The servers that tests of the lake beyond this machine need."""
import http.client
import socket

import pyarrow as pa
import pytest
from services.faulty_proxy import FaultyProxy
from services.rest import RestCatalog
from services.s3 import S3

pytestmark = pytest.mark.needs_no_weir


def listens_everywhere(port):
    """127.0.0.2 is this machine too, but not the address that servers of tests listen on"""
    with socket.socket() as s:
        s.settimeout(2)
        return s.connect_ex(("127.0.0.2", port)) == 0


def test_a_rest_catalog_keeps_its_tables_in_s3(tmp_path):
    with S3(tmp_path / "s3", owned=True) as s3, RestCatalog(tmp_path / "rest", s3=s3, owned=True) as rest:
        assert not any(listens_everywhere(port) for port in (rest.port, s3.port, *s3.helpers.values()))
        catalog = rest.catalog()
        catalog.create_namespace("n")
        rows = pa.table({"a": [1, 2, 3]})
        table = catalog.create_table("n.t", rows.schema)
        table.append(rows)
        assert table.metadata_location.startswith("s3://lake/warehouse/")
        rest.stop()
        rest.start()
        assert rest.catalog().load_table("n.t").scan().to_arrow() == rows


def ask(port, method="GET", body=None):
    con = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        con.request(method, "/v1/config" if method == "GET" else "/v1/namespaces", body, {"Content-Type": "application/json"} if body else {})
        answer = con.getresponse()
        return answer.status, answer.read()
    finally:
        con.close()


def test_the_proxy_does_to_requests_what_it_says(tmp_path):
    namespaces = iter(range(100))

    def create(port):
        return ask(port, "POST", '{"namespace":["n%d"]}' % next(namespaces))

    def there(rest):
        return len(rest.catalog().list_namespaces())
    lost = (OSError, http.client.HTTPException)
    with RestCatalog(tmp_path / "rest", owned=True) as rest, FaultyProxy(("127.0.0.1", rest.port), seed=1) as p:
        assert ask(p.port) == ask(rest.port)
        assert create(p.port)[0] == 200 and there(rest) == 1
        p.stall_seconds = 0.2
        for fault, passed_on in (("refuse", 0), ("lose_answer", 1), ("stall_before", 0), ("stall_after", 1), ("cut_request", 0), ("cut_answer", 1)):
            before = there(rest)
            setattr(p, fault, 1.0)
            if fault == "refuse":
                assert create(p.port)[0] == 503
            else:
                with pytest.raises(lost):
                    create(p.port)
            assert there(rest) == before + passed_on, fault
            assert p.counts[fault] == 1
            p.quiet()
        assert ask(p.port)[0] == 200
