"""Flink with its MySQL CDC source, into Iceberg or into Paimon: one JobManager, one TaskManager, one job."""
import json
import os
import re
import signal
import subprocess
import time
import urllib.request

from services import ports
from services.base import die_with_parent

from . import HERE, SOFTWARE, ToolFailed, tail
from .lakes import checkpoint_of, hadoop_location, iceberg_files, iceberg_seen, iceberg_snapshot, paimon_seen, paimon_snapshot, read_json
from .usage import Usage, Watch

CHECKPOINT_S = 10
SETTLE_S = 60           # a lake that is not equal to the source gets so long for another commit with data
PARALLELISM = 2
HOME = SOFTWARE / "flink"
# what Flink's own start scripts give a JVM of version 17
JVM = [f"--add-exports={x}=ALL-UNNAMED" for x in ("java.base/sun.net.util", "java.rmi/sun.rmi.registry", "java.security.jgss/sun.security.krb5")] + [
       f"--add-opens=java.base/{x}=ALL-UNNAMED" for x in ("java.lang", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.lang.reflect", "java.text", "java.time",
                                                         "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks")]
CONFIG = {"jobmanager.bind-host": "127.0.0.1", "jobmanager.rpc.address": "127.0.0.1", "jobmanager.memory.process.size": "1200m",
          "taskmanager.bind-host": "127.0.0.1", "taskmanager.host": "127.0.0.1", "taskmanager.numberOfTaskSlots": PARALLELISM, "taskmanager.memory.process.size": "4096m",
          "taskmanager.memory.managed.fraction": 0.2, "parallelism.default": PARALLELISM, "rest.address": "127.0.0.1", "rest.bind-address": "127.0.0.1",
          "execution.checkpointing.interval": f"{CHECKPOINT_S} s", "execution.checkpointing.min-pause": "1 s", "execution.checkpointing.tolerable-failed-checkpoints": 10,
          "state.backend.type": "hashmap", "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 3, "restart-strategy.fixed-delay.delay": "1 s"}
LOG = """rootLogger.level=INFO
rootLogger.appenderRef.console.ref=console
appender.console.name=console
appender.console.type=CONSOLE
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{HH:mm:ss,SSS} %-5p %c{1} - %m%n
"""
# name, type at the source, type in the lake: Iceberg has no integers below 32 bits, and its times have microseconds
COLUMNS = [("id", "BIGINT", ""), ("customer_id", "BIGINT", ""), ("shop_id", "INT", ""), ("state", "TINYINT", "INT"), ("quantity", "SMALLINT", "INT"), ("flags", "BIGINT", ""),
           ("price", "DECIMAL(12,2)", ""), ("discount", "DECIMAL(5,2)", ""), ("currency", "CHAR(3)", "STRING"), ("created_at", "TIMESTAMP(6)", ""),
           ("updated_at", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)"), ("shipped_at", "TIMESTAMP(0)", "TIMESTAMP(6)"), ("email", "STRING", ""), ("address", "STRING", ""),
           ("note", "STRING", "")]
KINDS = {"iceberg": ("'type'='iceberg','catalog-type'='hadoop'", "'format-version'='2','write.upsert.enabled'='true','write.parquet.compression-codec'='zstd'"),
         "paimon": ("'type'='paimon'", f"'bucket'='{PARALLELISM}'")}


def settings(options):
    return ",".join(f"'{k}'='{v}'" for k, v in options.items())


def statements(kind, server, db, warehouse):
    """the whole job in SQL"""
    source = {"connector": "mysql-cdc", "hostname": "127.0.0.1", "port": server.port, "username": "weir", "password": "weir", "database-name": db, "table-name": "orders",
              "server-id": "5401-5404", "server-time-zone": "UTC", "scan.incremental.snapshot.chunk.size": 50000, "scan.snapshot.fetch.size": 4096}
    catalog, table = KINDS[kind]
    key = "PRIMARY KEY (id) NOT ENFORCED"
    return [f"CREATE TABLE src ({', '.join(f'{c} {t}' for c, t, _ in COLUMNS)}, {key}) WITH ({settings(source)})",
            f"CREATE CATALOG lake WITH ({catalog},'warehouse'='{warehouse}')",
            f"CREATE DATABASE IF NOT EXISTS lake.{db}",
            f"CREATE TABLE IF NOT EXISTS lake.{db}.orders ({', '.join(f'{c} {lake or t}' for c, t, lake in COLUMNS)}, {key}) WITH ({table})",
            f"INSERT INTO lake.{db}.orders SELECT {', '.join(f'CAST({c} AS {lake})' if lake else c for c, _, lake in COLUMNS)} FROM src"]


class Cluster:
    """a JobManager and a TaskManager in a folder, on 127.0.0.1; they die with this process"""

    def __init__(self, dir, measure):
        self.dir, self.measure, self.procs, self.locks = dir, measure, {}, []
        for d in ("conf", "tmp", "checkpoints", "savepoints"):
            (dir / d).mkdir(parents=True, exist_ok=True)
        (dir / "conf/log4j.properties").write_text(LOG)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("HADOOP_", "FLINK_"))} | {"FLINK_CONF_DIR": str(dir / "conf")}

    def java(self, main, *args, jars=(), options=()):
        jars = [*jars, *sorted(HOME.glob("lib/*.jar"))]
        return ["java", f"-Djava.io.tmpdir={self.dir}/tmp", f"-Dlog4j.configurationFile=file:{self.dir}/conf/log4j.properties", *JVM, *options,
                "-cp", ":".join(map(str, jars)), main, *args]

    def memory(self, what):
        """-> (JVM options, arguments) that Flink derives from its configuration, as its start scripts ask for them"""
        argv = self.java("org.apache.flink.runtime.util.bash.BashJavaUtils", what, "--configDir", f"{self.dir}/conf", jars=[HOME / "bin/bash-java-utils.jar"])
        r = subprocess.run(argv, env=self.env, capture_output=True, text=True)
        found = re.findall("^BASH_JAVA_UTILS_EXEC_RESULT:(.*)$", r.stdout, re.M)
        if len(found) != 2:
            raise ToolFailed("Flink derived no memory settings:\n" + (r.stderr or r.stdout)[-2000:])
        return [x.split() for x in found]

    def launch(self, name, main, memory, *args):
        options, more = self.memory(memory)
        with open(self.dir / f"{name}.log", "wb") as log:
            self.procs[name] = subprocess.Popen(self.java(main, "--configDir", f"{self.dir}/conf", *args, *more, options=options), env=self.env, stdin=subprocess.DEVNULL,
                                                stdout=log, stderr=log, start_new_session=True, preexec_fn=die_with_parent, pass_fds=self.locks)

    def compile(self):
        r = subprocess.run(["javac", "-d", self.dir / "classes", "-cp", f"{HOME}/lib/*", HERE / "SqlSubmit.java"], capture_output=True, text=True)
        if r.returncode:
            raise ToolFailed("javac refuses SqlSubmit.java:\n" + r.stderr[-2000:])

    def start(self):
        self.compile()
        (rest, a), (rpc, b) = ports.lock(), ports.lock()
        self.rest, self.locks = rest, [a, b]
        config = {**CONFIG, "rest.port": rest, "rest.bind-port": rest, "jobmanager.rpc.port": rpc, "execution.checkpointing.dir": f"file://{self.dir}/checkpoints",
                  **{k: self.dir / "tmp" for k in ("io.tmp.dirs", "web.upload.dir", "blob.storage.directory")}}
        (self.dir / "conf/config.yaml").write_text("".join(f"{k}: {v}\n" for k, v in config.items()))
        self.launch("jobmanager", "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint", "GET_JM_RESOURCE_PARAMS", "--executionMode", "cluster")
        self.launch("taskmanager", "org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "GET_TM_RESOURCE_PARAMS")
        end = time.monotonic() + 120
        while True:
            try:
                if self.api("/overview")["slots-total"]:
                    return
            except (OSError, ValueError):       # not listening yet
                pass
            for name, p in self.procs.items():
                if p.poll() is not None or time.monotonic() > end:
                    raise ToolFailed(f"the {name} did not start:\n" + tail(self.dir / f"{name}.log"))
            time.sleep(0.2)

    def stop(self):
        for p in reversed(self.procs.values()):
            p.send_signal(signal.SIGTERM)
            try:
                p.wait(30)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        for fd in self.locks:
            os.close(fd)
        self.procs, self.locks = {}, []

    def api(self, path, method="GET", body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.rest}{path}", method=method, headers={"Content-Type": "application/json"},
                                         data=None if body is None else json.dumps(body).encode())
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as r:
            return json.load(r)

    def submit(self, sql, savepoint):
        """-> (job, what the client cost)"""
        (self.dir / "job.sql").write_text("".join(s + ";\n" for s in sql))
        argv = self.java("SqlSubmit", self.dir / "job.sql", "execution.target=remote", "execution.attached=false", "table.local-time-zone=UTC",
                         *([f"execution.state-recovery.path={savepoint}"] if savepoint else []), jars=[self.dir / "classes"])
        out = self.dir / "submit.log"
        with open(out, "wb") as log:
            subprocess.run([str(a) for a in [self.measure, 120, self.dir / "submit.json", *argv]], env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        job = re.search("^job ([0-9a-f]{32})$", out.read_text(errors="replace"), re.M)
        if not job:
            raise ToolFailed("the job could not be submitted:\n" + tail(out))
        return job[1], read_json(self.dir / "submit.json")

    def check(self, job):
        state = self.api(f"/jobs/{job}")["state"]
        if state not in ("CREATED", "INITIALIZING", "RUNNING", "RESTARTING"):
            why = self.api(f"/jobs/{job}/exceptions").get("root-exception") or "no exception"
            root = (re.findall("^Caused by: (.*)$", why, re.M) or why.splitlines())[-1]
            raise ToolFailed(f"the job is {state}: {root}\n{why[:1500]}\n" + tail(self.dir / "taskmanager.log"))

    def last_checkpoint(self, job):
        """-> (number, seconds since it was complete)"""
        done = self.api(f"/jobs/{job}/checkpoints")["latest"]["completed"]
        return (done["id"], time.time() - done["latest_ack_timestamp"] / 1000) if done else (0, 0)

    def stop_job(self, job):
        """-> the savepoint it can go on from"""
        request = self.api(f"/jobs/{job}/stop", "POST", {"targetDirectory": f"file://{self.dir}/savepoints", "drain": False})["request-id"]
        end = time.monotonic() + 120
        while time.monotonic() < end:
            got = self.api(f"/jobs/{job}/savepoints/{request}")
            if got["status"]["id"] == "COMPLETED" and "location" in got["operation"]:
                return got["operation"]["location"]
            if got["status"]["id"] == "COMPLETED":
                break
            time.sleep(0.3)
        raise ToolFailed(f"no savepoint: {json.dumps(got)[:1500]}")


class Flink:
    captures = True

    def __init__(self, bench, kind):
        self.bench, self.kind, self.name = bench, kind, f"flink-{kind}"
        self.dir = bench.work / self.name
        self.cluster, self.warehouse, self.savepoint = Cluster(self.dir, bench.work / "measure"), self.dir / "lake", None
        self.table = self.warehouse / (f"{bench.db}/orders" if kind == "iceberg" else f"{bench.db}.db/orders")

    # ---- the two lakes
    def location(self):
        return hadoop_location(self.table)

    def seen(self):
        return iceberg_seen(self.location()) if self.kind == "iceberg" else paimon_seen(self.table)

    def newest(self):
        return iceberg_snapshot(self.location()) if self.kind == "iceberg" else paimon_snapshot(self.table)

    def readers(self):
        if self.kind == "iceberg":
            return {"duckdb": str(self.location()), "pyiceberg": str(self.location())}
        return {"pypaimon": f"{self.warehouse}:{self.bench.db}.orders"}

    def judge(self):
        return ("merge", str(self.location())) if self.kind == "iceberg" else ("pypaimon", self.readers()["pypaimon"])

    def files(self):
        if self.kind == "iceberg":
            return iceberg_files(self.location())
        return {}

    # ---- phases
    def snapshot(self):
        return self.phase(lambda now: now.rows >= self.bench.rows)

    def catch_up(self):
        return self.phase(lambda now: True)

    def phase(self, enough):
        self.cluster.start()
        try:
            with self.bench.stretch() as s, Usage([p.pid for p in self.cluster.procs.values()]) as usage, Watch(self.seen) as watch:
                begin = time.monotonic()
                job, client = self.cluster.submit(statements(self.kind, self.bench.server, self.bench.db, self.warehouse), self.savepoint)
                self.await_commits(job, watch, enough)
                differences = self.bench.differences(self)
                while differences and self.another_commit(job, watch):
                    self.await_commits(job, watch, enough)
                    differences = self.bench.differences(self)
                self.savepoint = self.cluster.stop_job(job)
            end = watch.seen[-1][0]
            cpu, written = usage.until(end)
            cpu += client["user_s"] + client["sys_s"]
            return {"wall_s": end - begin, "first_s": watch.first_after(begin), "cpu_s": cpu, "peak_mb": usage.peak_mb, "storage_mb": written + client["written_mb"],
                    "differences": differences, **s.facts(usage.series[-1][1] - usage.series[0][1] + client["user_s"] + client["sys_s"])}
        finally:
            self.cluster.stop()

    def await_commits(self, job, watch, enough):
        """until a checkpoint after that of the newest commit with data is complete and has brought none"""
        end = time.monotonic() + self.bench.timeout
        while time.monotonic() < end:
            now = watch.seen[-1]
            if len(watch.seen) > 1 and enough(now[1]):
                number, age = self.cluster.last_checkpoint(job)
                if number > checkpoint_of(self.newest()) and age > 2 and watch.seen[-1] == now:
                    return
            self.cluster.check(job)
            watch.check()
            time.sleep(0.5)
        raise ToolFailed(f"not done within BENCH_TIMEOUT={self.bench.timeout} s; newest commit: {watch.seen[-1][1]}\n" + tail(self.dir / "taskmanager.log"))

    def another_commit(self, job, watch):
        count, end = len(watch.seen), time.monotonic() + SETTLE_S
        while time.monotonic() < end and len(watch.seen) == count:
            self.cluster.check(job)
            time.sleep(0.5)
        return len(watch.seen) > count
