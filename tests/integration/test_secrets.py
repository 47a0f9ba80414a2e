"""Secrets stay where they are, what Weir writes is for its user alone, and a server on another machine must say who it is."""
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess

import pytest
from harness import wait_until
from harness.compare import assert_equal
from harness.lake import Lake
from harness.weir import BINARY, sanitized

SECRET = "s3cr3t-Pass-%27x"


@pytest.fixture
def secret_user(server, db):
    server.sql("DROP USER IF EXISTS 'keeper'@'%'", f"CREATE USER 'keeper'@'%' IDENTIFIED BY '{SECRET}'", "GRANT ALL ON *.* TO 'keeper'@'%'",
               "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1,'a'),(2,'b')", db=db)
    yield
    server.sql("DROP USER 'keeper'@'%'")


@pytest.mark.parametrize("where", ["source.password", "lake.s3.secret_key", "lake.rest.token"])
def test_a_secret_in_the_file_is_refused_and_not_shown(weir, server, db, where):
    at = weir.config
    *path, last = where.split(".")
    for p in path:
        at = at.setdefault(p, {})
    at[last] = SECRET
    weir.write()
    for command in ("check", "sync", "status"):
        r = weir.run(command, status=2).says(rf"{where}", f"{where}_file", f"{where}_env", f"{where}_command")
        assert SECRET not in r.out + r.err


@pytest.mark.local_lake("looks at files of a local warehouse")
@pytest.mark.parametrize("source", ["file", "env", "command"])
def test_a_password_comes_from_outside_and_goes_nowhere(make_weir, server, db, secret_user, tmp_path, source):
    w = make_weir(server, [rf"{db}\..*"], user="keeper", password=SECRET)
    kept = tmp_path / "password"
    kept.write_text(SECRET + "\n")
    kept.chmod(0o600)
    if source != "env":
        del w.config["source"]["password_env"]
        w.config["source"]["password_" + source] = str(kept) if source == "file" else f"cat '{kept}'"
        w.password = "not this one"
        w.write()
    said = "".join(r.out + r.err for r in (w.check(), w.catch_up(), w.run("compare"), w.run("ledger"), w.run("tables"), w.run("status", "--json")))
    w.start()
    server.sql("INSERT INTO t VALUES (3,'c')", db=db)
    w.wait()
    pid = w.proc.pid
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        assert SECRET.encode() not in f.read()
    # a server that goes away, and a log-in that is refused, are told with everything but the password
    w.stop()
    w.password = SECRET + "-wrong"
    kept.write_text(SECRET + "-wrong\n")
    said += w.log_text() + repr(w.check(status=1)) + repr(w.catch_up(status=1))
    assert SECRET not in said.replace(str(kept), "")
    for folder, _, files in os.walk(w.home):
        for f in files:
            with open(os.path.join(folder, f), "rb") as x:
                assert SECRET.encode() not in x.read(), f"{folder}/{f}"


def test_a_file_that_everybody_may_read_is_told(make_weir, server, db, secret_user, tmp_path):
    kept = tmp_path / "password"
    kept.write_text(SECRET)
    w = make_weir(server, [rf"{db}\..*"], user="keeper")
    del w.config["source"]["password_env"]
    w.config["source"]["password_file"] = str(kept)
    w.write()
    kept.chmod(0o644)
    w.check().says("secret-file", "may read", "chmod 600")
    w.catch_up().says("may read")
    kept.chmod(0o640)       # a group may be meant
    assert "may read" not in repr(w.check())


@pytest.mark.local_lake("looks at files of a local warehouse")
def test_all_that_is_written_is_for_this_user_alone(make_weir, server, db, secret_user):
    """whatever the caller's umask says"""
    w = make_weir(server, [rf"{db}\..*"])
    before = os.umask(0)
    try:
        w.catch_up()
        server.sql("UPDATE t SET v = 'x' WHERE id = 1", "DELETE FROM t WHERE id = 2", db=db)
        w.start()
        w.wait()
        w.run("compare", "--html", str(w.dir / "report.html"))
        w.stop()
    finally:
        os.umask(before)
    seen = set()
    for folder, folders, files in os.walk(w.home):
        for name in folders + files:
            path = os.path.join(folder, name)
            seen.add(name.rpartition(".")[2])
            assert stat.S_IMODE(os.lstat(path).st_mode) in ((0o700,) if name in folders else (0o600,)), path
    assert {"parquet", "db", "json", "avro", "wq"} <= seen
    assert stat.S_IMODE(os.stat(w.home).st_mode) == 0o700 and stat.S_IMODE(os.stat(w.dir / "report.html").st_mode) == 0o600


def test_no_core_dump(weir, server, db):
    """of a signal that leaves one, where the machine makes any"""
    if sanitized():
        pytest.skip("a sanitizer takes that signal")
    server.sql("CREATE TABLE t (id INT PRIMARY KEY)", db=db)

    def dies(**env):
        p = subprocess.Popen([BINARY, "sync", "-c", weir.file], env={**weir.env, **env}, cwd=weir.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)))
        wait_until(lambda: (weir.home / "status.json").exists(), what="the sync")
        p.send_signal(signal.SIGSEGV)
        _, status = os.waitpid(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        assert p.returncode == -signal.SIGSEGV
        (weir.home / "status.json").unlink()
        return os.WCOREDUMP(status)
    assert not dies()
    if not dies(WEIR_CORE="1"):
        pytest.skip("this machine leaves no core dumps at all")


# ---- TLS
def other_address():
    """of this machine, and not a loopback one: for Weir a server elsewhere"""
    for info in subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split():
        if re.fullmatch(r"[0-9.]+", info) and not info.startswith("127."):
            return info
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("198.51.100.1", 9))
            return s.getsockname()[0]
        except OSError:
            return None


def certificate(dir, name, address):
    """-> (authority, certificate, key), made with openssl"""
    def openssl(*args):
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)
    ca, ca_key, key, csr, crt, ext = (dir / f"{name}-{x}" for x in ("ca.pem", "ca.key", "key.pem", "csr.pem", "crt.pem", "ext"))
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", ca_key, "-out", ca, "-days", 30, "-subj", f"/CN=authority {name}",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", csr, "-subj", f"/CN={address}")
    ext.write_text(f"subjectAltName=IP:{address}\n")
    openssl("x509", "-req", "-in", csr, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-out", crt, "-days", 30, "-extfile", ext)
    return ca, crt, key


def test_a_server_elsewhere_must_say_who_it_is(own_server, make_weir, tmp_path, flavor):
    address = other_address()
    if not address or not shutil.which("openssl"):
        pytest.skip("needs an address that is no loopback one, and openssl")
    ca, crt, key = certificate(tmp_path, "good", address)
    other_ca, _, _ = certificate(tmp_path, "other", address)
    s = own_server({"bind_address": "0.0.0.0", "ssl_ca": str(ca), "ssl_cert": str(crt), "ssl_key": str(key)})
    s.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    w = make_weir(s, [r"d\..*"])

    def at(host, **source):
        w.config["source"] = {**{k: v for k, v in w.config["source"].items() if not k.startswith("tls")}, "url": f"mysql://weir@{host}:{s.port}", **source}
        w.write()
        return w
    # nothing is said: an unknown authority is not believed, and the way out is told
    for command in (at(address).check, w.catch_up):
        command(status=1).says("certificate|TLS|SSL", "tls_ca", "tls: required", "preferred")
    assert not (w.home / "catalog.db").exists()
    at(address, tls_ca=str(other_ca)).check(status=1).says("certificate|TLS|SSL")
    at(address, tls_ca=str(ca)).catch_up()
    assert_equal(s, Lake(w.home), "d", ["t"])
    # the ways out
    for tls in ("required", "preferred", "disabled"):
        at(address, tls=tls).check()
    # on this machine nothing is asked
    at("127.0.0.1").catch_up()
    at("127.0.0.1", tls="verify").check(status=1).says("certificate|TLS|SSL")


def test_a_server_elsewhere_without_tls(own_server, make_weir, flavor):
    address = other_address()
    if not address or flavor == "mysql":
        pytest.skip("needs an address that is no loopback one, and a server that can do without TLS: MySQL 9 cannot")
    s = own_server({"bind_address": "0.0.0.0", "skip_ssl": ""})
    s.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    w = make_weir(s, [r"d\..*"])
    w.config["source"]["url"] = f"mysql://weir@{address}:{s.port}"
    w.write()
    w.check(status=1).says("TLS|SSL", "preferred")
    w.config["source"]["tls"] = "preferred"
    w.write()
    w.check()


def test_the_binary_is_hardened():
    """release builds: cmake/options.cmake. A copy of a binary counts as one, unless a sanitizer is in it"""
    cache = BINARY.parent / "CMakeCache.txt"
    if not shutil.which("readelf"):
        pytest.skip("needs readelf")
    if sanitized() or (cache.exists() and "CMAKE_BUILD_TYPE:STRING=Release" not in cache.read_text()):
        pytest.skip(f"{BINARY} is no release build")

    def elf(*args):
        return subprocess.run([*args, BINARY], capture_output=True, text=True, check=True).stdout
    assert re.search(r"Type:\s+DYN", elf("readelf", "-h")), "not position-independent"
    head = elf("readelf", "-lW")
    assert "GNU_RELRO" in head and re.search(r"GNU_STACK.* RW ", head)
    assert re.search(r"FLAGS.*(BIND_NOW|NOW)", elf("readelf", "-dW"))
    symbols = elf("readelf", "-sW", "--dyn-syms")
    assert "__stack_chk_fail" in symbols and re.search(r"__(memcpy|snprintf|vsnprintf)_chk", symbols)
    if os.uname().machine == "x86_64" and shutil.which("objdump"):
        assert elf("objdump", "-d", "--no-show-raw-insn").count("endbr64") > 1000, "no -fcf-protection"
