"""src/io/s3.c against a real S3 server, directly and through a proxy that loses requests and answers. The judge is pyarrow's S3 client, on the
server itself."""
import datetime
import http.client
import ipaddress
import json
import os
import random
import subprocess
from pathlib import Path

import pytest
from services import ROOT
from services.faulty_proxy import FaultyProxy
from services.s3 import ACCESS_KEY, S3, SECRET_KEY

pytestmark = pytest.mark.needs_no_weir
DRIVER = Path(os.environ.get("WEIR_S3_DRIVER", ROOT / "build/tests/tools/s3_driver"))
SEED = int(os.environ["WEIR_SEED"])
MIB = 1 << 20
ODD_KEYS = ["a b", "a+b", "100%", "%41", "~tilde", "ü/é/日本", "q?x=1&y=2#f", "semi;colon=eq,comma", "plus+ plus", "'single' (paren)!*$@:",
            "<xml> & \"quotes\"", "{brace}|pipe^`", "deep/er/and/deeper", "name.parquet"]          # not "\\", of which SeaweedFS makes "/"


class Driver:
    """one C process with one client; each call is one operation, -> its answer"""

    def __init__(self, port, host="127.0.0.1", scheme="http", **options):
        opts = {"endpoint": f"{scheme}://{host}:{port}", "path_style": True, "access_key": ACCESS_KEY, "secret_key": SECRET_KEY,
                "part_bytes": 5 * MIB, **options}
        self.proc = subprocess.Popen([DRIVER, json.dumps({k: v for k, v in opts.items() if v is not None})], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)

    def __call__(self, op, **args):
        self.proc.stdin.write(json.dumps({"op": op, "bucket": "lake", **{k: v if isinstance(v, (int, list)) else str(v) for k, v in args.items()}}) + "\n")
        self.proc.stdin.flush()
        line = self.proc.stdout.readline()
        assert line, f"the driver ended with status {self.proc.wait()}"
        answer = json.loads(line)
        assert SECRET_KEY not in line
        return answer

    def ok(self, op, **args):
        answer = self(op, **args)
        assert answer.get("ok"), answer
        return answer

    def fails(self, code, op, **args):
        answer = self(op, **args)
        assert answer.get("error") == code, answer
        return answer["message"] + " / " + answer["cure"]

    def close(self):
        self.proc.stdin.close()
        assert self.proc.wait(60) == 0


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with S3(tmp_path_factory.mktemp("s3"), owned=True) as server:
        yield server


@pytest.fixture
def driver(s3):
    made = []

    def make(port=None, **options):
        made.append(Driver(port or s3.port, **options))
        return made[-1]
    yield make
    for d in made:
        d.close()


@pytest.fixture
def proxy(s3):
    with FaultyProxy(("127.0.0.1", s3.port), seed=SEED) as p:
        yield p


@pytest.fixture
def files(tmp_path):
    """files(content) -> path of a file that holds it; files() -> path of none"""
    count = iter(range(10**6))

    def make(content=None):
        path = tmp_path / f"file{next(count)}"
        if content is not None:
            path.write_bytes(content)
        return path
    return make


@pytest.fixture
def prefix(request):
    return request.node.name.replace("[", "-").replace("]", "") + "/"


def some_bytes(n, seed=1):
    return random.Random(f"{SEED} {seed}").randbytes(n)


def there(s3, key, bucket="lake"):
    """the object's content, for a judge that is not ours"""
    with s3.fs().open_input_stream(f"{bucket}/{key}") as f:
        return f.read()


def uploads_left(s3):
    """names of the uploads in parts that were neither completed nor aborted, as the server's own files tell"""
    con = http.client.HTTPConnection("127.0.0.1", s3.helpers["filer.port"])
    con.request("GET", "/buckets/lake/.uploads/?limit=100", headers={"Accept": "application/json"})
    answer = con.getresponse()
    text = answer.read()
    con.close()
    return set() if answer.status == 404 else {e["FullPath"] for e in json.loads(text)["Entries"] or []}


# ---- what it is for

def test_objects_are_written_read_listed_and_removed(s3, driver, files, prefix):
    d, small = driver(), some_bytes(3000)
    d.ok("put", objects=[["lake", prefix + "a", str(files(small))], ["lake", prefix + "empty", str(files(b""))]])
    d.ok("put_file", key=prefix + "file", file=files(small))
    assert there(s3, prefix + "a") == there(s3, prefix + "file") == small
    out = [files() for _ in range(4)]
    d.ok("get", key=prefix + "a", file=out[0], max=3000)
    d.ok("get", key=prefix + "a", file=out[1], at=100, n=50, max=50)
    d.ok("get", key=prefix + "empty", file=out[2], max=0)
    d.ok("get_file", key=prefix + "empty", file=out[3])
    assert [o.read_bytes() for o in out] == [small, small[100:150], b"", b""]
    now = datetime.datetime.now(datetime.timezone.utc).timestamp() * 1e6
    keys = d.ok("list", prefix=prefix)["keys"]
    assert [(k, n) for k, n, _ in keys] == [(prefix + "a", 3000), (prefix + "empty", 0), (prefix + "file", 3000)]
    assert all(abs(t - now) < 60e6 for _, _, t in keys)
    d.ok("remove", objects=[["lake", prefix + x] for x in ("a", "never", "empty")])
    assert [k for k, _, _ in d.ok("list", prefix=prefix)["keys"]] == [prefix + "file"]


def test_what_is_missing_too_large_or_too_short_says_so(driver, files, prefix):
    d, out = driver(), files()
    d.ok("put", objects=[["lake", prefix + "a", str(files(bytes(100_000)))]])
    assert "NoSuchKey" in d.fails("notfound", "get", key=prefix + "b", file=out)
    d.fails("notfound", "get", key=prefix + "b", file=out, at=5, n=5)
    d.fails("notfound", "get_file", key=prefix + "b", file=out)
    d.fails("limit", "get", key=prefix + "a", file=out, max=99_999)
    d.fails("limit", "get", key=prefix + "a", file=out, at=0, n=50, max=49)
    assert "ends before" in d.fails("decode", "get", key=prefix + "a", file=out, at=99_990, n=11)
    assert "ends before" in d.fails("decode", "get", key=prefix + "a", file=out, at=200_000, n=1)
    d.fails("notfound", "put_file", key=prefix + "c", file=files())
    assert not out.exists()
    d.fails("exists", "get_file", key=prefix + "a", file=files(b"in the way"))


@pytest.mark.parametrize("style", ["path", "host"])
def test_any_key_is_taken(s3, driver, files, prefix, style):
    d = driver() if style == "path" else driver(host="localhost", path_style=False)
    content = {prefix + k: f"content of {k}".encode() for k in ODD_KEYS}
    d.ok("put", objects=[["lake", k, str(files(v))] for k, v in content.items()])
    assert {k: there(s3, k) for k in content} == content
    assert sorted(k for k, _, _ in d.ok("list", prefix=prefix)["keys"]) == sorted(content)
    for k, v in content.items():
        out = files()
        d.ok("get", key=k, file=out)
        assert out.read_bytes() == v
        assert [x for x, _, _ in d.ok("list", prefix=k)["keys"]] == [k]
    d.ok("remove", objects=[["lake", k] for k in content])
    assert d.ok("list", prefix=prefix)["keys"] == []


def test_large_files_go_and_come_in_parts(s3, driver, files, prefix):
    d, big, left = driver(), some_bytes(40 * MIB + 12345), uploads_left(s3)
    path, out = files(big), files()
    d.ok("put_file", key=prefix + "big", file=path)
    assert there(s3, prefix + "big") == big
    d.ok("get_file", key=prefix + "big", file=out)
    assert out.read_bytes() == big
    for at, n in ((0, 1), (5 * MIB - 1, 2), (39 * MIB, MIB + 12345)):
        out = files()
        d.ok("get", key=prefix + "big", file=out, at=at, n=n)
        assert out.read_bytes() == big[at:at + n]
    for size in (5 * MIB, 10 * MIB):
        path, out = files(big[:size]), files()
        d.ok("put_file", key=f"{prefix}{size}", file=path)
        d.ok("get_file", key=f"{prefix}{size}", file=out)
        assert out.read_bytes() == big[:size]
    assert uploads_left(s3) == left


def test_a_list_of_several_pages_is_whole(driver, files, prefix):
    d, path = driver(), str(files(b"x"))
    names = [f"{prefix}{i:05}" for i in range(1234)]
    d.ok("put", objects=[["lake", k, path] for k in names])
    assert [k for k, _, _ in d.ok("list", prefix=prefix)["keys"]] == names
    assert [k for k, _, _ in d.ok("list", prefix=prefix + "0012")["keys"]] == [k for k in names if k.startswith(prefix + "0012")]
    d.fails("cancelled", "list", prefix=prefix, stop=7)
    d.ok("remove", objects=[["lake", k] for k in names])
    assert d.ok("list", prefix=prefix)["keys"] == []


def test_an_object_that_is_there_is_never_replaced(s3, driver, files, prefix):
    d, one, two = driver(), some_bytes(12 * MIB, 1), some_bytes(12 * MIB, 2)
    left, small, same_length, big = uploads_left(s3), files(b"one"), files(b"two"), files(one)
    d.ok("put", objects=[["lake", prefix + "s", str(small)]])
    d.ok("put", objects=[["lake", prefix + "s", str(small)]])
    for other in (same_length, files(b"longer")):
        assert "two pipelines" in d.fails("exists", "put", objects=[["lake", prefix + "s", str(other)]])
        d.fails("exists", "put_file", key=prefix + "s", file=other)
    d.ok("put_file", key=prefix + "b", file=big)
    d.ok("put_file", key=prefix + "b", file=big)
    d.fails("exists", "put_file", key=prefix + "b", file=files(two))
    d.fails("exists", "put_file", key=prefix + "b", file=files(one + b"x"))
    other_parts = driver(part_bytes=7 * MIB)            # another ETag for the same content
    other_parts.ok("put_file", key=prefix + "b", file=big)
    other_parts.fails("exists", "put_file", key=prefix + "b", file=files(one[:-1] + bytes([one[-1] ^ 1])))
    assert there(s3, prefix + "s") == b"one" and there(s3, prefix + "b") == one
    assert uploads_left(s3) == left


# ---- what is wrong

@pytest.mark.parametrize("keys, word", [((ACCESS_KEY, "wrong-secret"), "secret key"), (("nobody", "wrong-secret"), "access key"), ((None, None), "rights")])
def test_refused_credentials_say_what_to_do(driver, files, prefix, keys, word):
    d = driver(access_key=keys[0], secret_key=keys[1])
    for op, args in (("put", {"objects": [["lake", prefix + "a", str(files(b"x"))]]}), ("get", {"key": prefix + "a", "file": files()}),
                     ("list", {"prefix": prefix}), ("remove", {"objects": [["lake", prefix + "a"]]}),
                     ("put_file", {"key": prefix + "a", "file": files(bytes(6 * MIB))})):
        text = d.fails("auth", op, **args)
        assert word in text and "wrong-secret" not in text


def test_a_missing_bucket_is_named(driver, files, prefix):
    d = driver()
    for op, args in (("put", {"objects": [["nobucket", prefix + "a", str(files(b"x"))]]}), ("get", {"key": prefix + "a", "file": files()}),
                     ("get_file", {"key": prefix + "a", "file": files()}), ("list", {"prefix": prefix}),
                     ("put_file", {"key": prefix + "a", "file": files(bytes(6 * MIB))})):
        assert "create the bucket nobucket" in d.fails("config", op, bucket="nobucket", **args)


def test_a_server_that_is_not_there_is_tried_and_named(driver, files, prefix):
    with FaultyProxy(("127.0.0.1", 1), seed=SEED) as p:
        port = p.port
    text = driver(port, attempts=3).fails("net", "get", key=prefix + "a", file=files())
    assert "tried 3 times" in text and f"127.0.0.1:{port}" in text


def certificate(tmp_path, name):
    """a certificate authority and a server certificate for 127.0.0.1: (authority's file, server's file, key's file)"""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    now = datetime.datetime.now(datetime.timezone.utc)

    def make(subject, issuer, key, signer, extension):
        def common_name(n):
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)])
        return x509.CertificateBuilder().subject_name(common_name(subject)).issuer_name(common_name(issuer)).public_key(key.public_key()) \
            .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1)) \
            .not_valid_after(now + datetime.timedelta(days=2)).add_extension(extension, critical=False).sign(signer, hashes.SHA256())
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = make(name, name, ca_key, ca_key, x509.BasicConstraints(ca=True, path_length=None))
    cert = make("server", name, key, ca_key, x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]))
    pem = serialization.Encoding.PEM
    out = [tmp_path / f"{name}-{x}.pem" for x in ("ca", "cert", "key")]
    out[0].write_bytes(ca.public_bytes(pem))
    out[1].write_bytes(cert.public_bytes(pem))
    out[2].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return out


def test_only_a_trusted_certificate_is_talked_to(s3, driver, files, prefix, tmp_path):
    ca, cert, key = certificate(tmp_path, "ours")
    other_ca, _, _ = certificate(tmp_path, "theirs")
    with FaultyProxy(("127.0.0.1", s3.port), seed=SEED, tls=(cert, key)) as p:
        d = driver(p.port, scheme="https", ca_file=str(ca))
        d.ok("put", objects=[["lake", prefix + "a", str(files(b"secure"))]])
        assert there(s3, prefix + "a") == b"secure"
        big, out = some_bytes(6 * MIB), files()
        d.ok("put_file", key=prefix + "b", file=files(big))
        d.ok("get_file", key=prefix + "b", file=out)
        assert out.read_bytes() == big
        before = p.counts["requests"]
        for ca_file in (str(other_ca), None):
            text = driver(p.port, scheme="https", ca_file=ca_file).fails("config", "get", key=prefix + "a", file=files())
            assert "certificate" in text
        named_else = driver(p.port, host="localhost", scheme="https", ca_file=str(ca))       # trusted, but for another name
        assert "certificate" in named_else.fails("config", "get", key=prefix + "a", file=files())
        assert p.counts["requests"] == before


# ---- what gets lost

def test_nothing_is_lost_or_torn_on_a_bad_network(s3, driver, files, proxy, prefix):
    d, rnd = driver(proxy.port, stall_timeout_ms=400), random.Random(SEED)
    proxy.refuse, proxy.lose_answer, proxy.cut_request, proxy.cut_answer = 0.20, 0.05, 0.05, 0.05
    proxy.stall_before, proxy.stall_after, proxy.stall_seconds = 0.01, 0.01, 1.0
    content = {f"{prefix}{i:03}": rnd.randbytes(rnd.choice((0, 1, 500, 70_000))) for i in range(300)}
    keys = list(content)
    for at in range(0, 300, 50):
        d.ok("put", objects=[["lake", k, str(files(content[k]))] for k in keys[at:at + 50]])
    assert {k: there(s3, k) for k in keys} == content
    for k in rnd.sample(keys, 50):
        whole, part = files(), files()
        d.ok("get", key=k, file=whole)
        assert whole.read_bytes() == content[k]
        if len(content[k]) > 10:
            d.ok("get", key=k, file=part, at=5, n=len(content[k]) - 10)
            assert part.read_bytes() == content[k][5:-5]
    assert [(k, n) for k, n, _ in d.ok("list", prefix=prefix)["keys"]] == [(k, len(v)) for k, v in sorted(content.items())]
    d.ok("remove", objects=[["lake", k] for k in keys[:150]])
    proxy.quiet()
    assert [k for k, _, _ in d.ok("list", prefix=prefix)["keys"]] == keys[150:]
    for fault in ("refuse", "lose_answer", "cut_request", "cut_answer"):
        assert proxy.counts[fault] > 5, proxy.counts


def test_large_files_survive_a_bad_network(s3, driver, files, proxy, prefix):
    d = driver(proxy.port, stall_timeout_ms=1000)
    proxy.refuse, proxy.lose_answer, proxy.cut_request, proxy.cut_answer = 0.15, 0.10, 0.10, 0.10
    for i in range(4):
        big, out = some_bytes(23 * MIB + i, i), files()
        d.ok("put_file", key=f"{prefix}{i}", file=files(big))
        assert there(s3, f"{prefix}{i}") == big
        d.ok("get_file", key=f"{prefix}{i}", file=out)
        assert out.read_bytes() == big


def test_an_answer_that_is_lost_each_time_but_the_last_is_no_error(s3, driver, files, proxy, prefix):
    """the second attempt finds the object there, or the upload gone, and must know both as its own"""
    d, lost = driver(proxy.port), []

    def first_time(method, path):
        fresh = method in ("PUT", "POST") and path not in lost and "partNumber" not in path
        lost.append(path)
        return fresh
    proxy.only, proxy.lose_answer = first_time, 1.0
    d.ok("put", objects=[["lake", prefix + "small", str(files(b"x" * 1000))]])
    big = some_bytes(11 * MIB)
    d.ok("put_file", key=prefix + "big", file=files(big))
    assert proxy.counts["lose_answer"] == 3             # put, begin, complete
    proxy.quiet()
    assert there(s3, prefix + "small") == b"x" * 1000 and there(s3, prefix + "big") == big


def test_an_upload_that_fails_is_taken_back(s3, driver, files, proxy, prefix):
    d, left = driver(proxy.port, attempts=2), uploads_left(s3)
    proxy.only, proxy.refuse = lambda method, path: "partNumber=2" in path, 1.0
    text = d.fails("net", "put_file", key=prefix + "big", file=files(bytes(12 * MIB)))
    assert "part 2 of 3" in text and "503" in text and "tried 2 times" in text
    proxy.quiet()
    assert uploads_left(s3) == left
    assert d.ok("list", prefix=prefix)["keys"] == []
    proxy.only, proxy.refuse = lambda method, path: "partNumber=2" in path or method == "DELETE", 1.0
    assert "parts that were uploaded stay" in d.fails("net", "put_file", key=prefix + "big", file=files(bytes(12 * MIB)))
    assert len(uploads_left(s3) - left) == 1


def test_a_file_that_comes_half_is_removed(s3, driver, files, proxy, prefix):
    d, out = driver(proxy.port, attempts=2), files()
    d.ok("put_file", key=prefix + "big", file=files(bytes(12 * MIB)))
    proxy.cut_answer, seen = 1.0, []
    proxy.only = lambda method, path: bool(seen.append(path)) or len(seen) > 1
    d.fails("net", "get_file", key=prefix + "big", file=out)
    assert not out.exists()
