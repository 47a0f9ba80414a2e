"""make bench-peers: see ../README.md, "Beside the peers". Started by ../run.sh."""
import json
import subprocess
import sys
import tempfile
from decimal import Decimal

import checksum
from bench import DB, Bench, env, main
from measured import Stretch

from . import HERE, PYTHON, ToolFailed, table
from .dlt_tool import Dlt
from .flink import Flink
from .weir import Weir

TOOLS = {"weir": Weir, "flink-iceberg": lambda b: Flink(b, "iceberg"), "flink-paimon": lambda b: Flink(b, "paimon"), "dlt": Dlt}
READ_RUNS = 3       # times each query is run


class Peers(Bench):
    db = DB

    def __init__(self):
        super().__init__()
        names = env("PEERS", ",".join(TOOLS)).split(",")
        if set(names) - set(TOOLS):
            sys.exit(f"bench: BENCH_PEERS names {', '.join(sorted(set(names) - set(TOOLS)))}; there are {', '.join(TOOLS)}")
        self.read_s = env("READ_SECONDS", 120)
        self.names, self.got = names, {n: {} for n in names}

    def stretch(self):
        return Stretch(self.server)

    def source_sums(self):
        self.want["orders"] = checksum.of_source(self.server, DB, "orders")

    def binlog_bytes(self):
        return sum(int(row[1]) for row in self.server.sql("SHOW BINARY LOGS"))

    # ---- reading what a tool left
    def read(self, reader, location, seconds, runs=0, ids=()):
        """-> what read.py found, with "refused" if it did not get to its end"""
        argv = [PYTHON if reader == "pypaimon" else sys.executable, HERE / "read.py", reader, location, str(runs), *map(str, ids)]
        found, why = {}, None
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            try:
                if subprocess.run(argv, stdout=out, stderr=err, stdin=subprocess.DEVNULL, timeout=seconds).returncode:
                    err.seek(0)
                    why = (err.read().strip().splitlines() or ["no message"])[-1][:300]
            except subprocess.TimeoutExpired:
                why = f"given up after {seconds} s"
            out.seek(0)
            for line in out:
                found.update(json.loads(line))
        return found | ({"refused": why} if why else {})

    def unlike_source(self, sums):
        """-> list of texts, empty = equal"""
        return [f"{k}: source {v}, lake {sums[k]}" for k, v in self.want["orders"].items() if Decimal(str(v)) != Decimal(str(sums[k]))]

    def differences(self, tool):
        """between the source and what the tool wrote so far, as the tool's judge reads it"""
        reader, location = tool.judge()
        found = self.read(reader, location, self.timeout)
        if "sums" not in found:
            raise ToolFailed(f"{reader} cannot read what it wrote: {found['refused']}")
        return self.unlike_source(found["sums"])

    # ---- phases
    def attempt(self, name, phase, work):
        """a tool that fails is told and left out from then on"""
        self.wait_quiet()
        title = phase.replace("_", "-")
        self.say(f"{name}: {title}")
        try:
            got = work()
        except Exception as e:      # whatever it is, the others are still measured
            why = str(e) if isinstance(e, ToolFailed) else f"{type(e).__name__}: {e}"
            self.got[name]["failed"] = f"{title}: {why.splitlines()[0]}"
            self.failed.append(f"{name}, {self.got[name]['failed']}")
            self.record("peers-" + phase, tool=name, rows=self.rows, changes=self.applied, failed=why.splitlines()[0])
            self.say(f"  FAILED {why}")
            return
        self.got[name][phase] = self.record("peers-" + phase, tool=name, rows=self.rows, changes=self.applied, **got)

    def measured_phase(self, tool, phase, count):
        def work():
            m = getattr(tool, phase)()
            m.update(rate=round(count / m["wall_s"]), per_cpu_s=round(count / max(m["cpu_s"], 0.01)), **{k: round(m[k], 2) for k in ("wall_s", "cpu_s", "peak_mb", "storage_mb")})
            self.say(f"  {m['wall_s']:.2f} s, {m['rate']:,}/s; {m['cpu_s']:.2f} CPU s; peak {m['peak_mb']:.0f} MB; first seen after {m['first_s']} s; "
                     f"{m['storage_mb']:.0f} MB written; server {m['server_cpu_s']:.2f} CPU s; load {m['loadavg'][1]}, others {m['others_cores']} cores")
            for d in m["differences"][:3]:
                self.say(f"  MISMATCH {d}")
            if m["differences"]:
                self.failed.append(f"{tool.name}, {phase.replace('_', '-')}: {len(m['differences'])} sums differ; {m['differences'][0]}")
            else:
                self.say(f"    equal: {self.want['orders']['rows']:,} rows, all columns")
            return m
        self.attempt(tool.name, phase, work)

    def reading(self, tool, ids):
        def work():
            found = {"files": tool.files()}
            for reader, location in tool.readers().items():
                r = found[reader] = self.read(reader, location, self.read_s, READ_RUNS, ids)
                found["files"].update(r.pop("files", {}))
                sums = r.pop("sums", None)
                differences = self.unlike_source(sums) if sums and tool.captures else []
                if differences:
                    r["unequal"] = differences[0]
                    self.failed.append(f"{tool.name} read by {reader}: {len(differences)} sums differ; {differences[0]}")
                self.say(f"  {reader}: " + ", ".join(f"{k} {v}" for k, v in r.items()))
            self.say(f"  left: {found['files']}")
            return found
        self.attempt(tool.name, "reading", work)

    def alive(self):
        return [t for n, t in self.tools.items() if "failed" not in self.got[n]]

    def run(self):
        self.prepare()
        self.source_sums()
        self.tools = {n: TOOLS[n](self) for n in self.names}
        for t in self.alive():
            self.measured_phase(t, "snapshot", self.rows)
        before = self.binlog_bytes()
        self.apply_changes()
        self.ingested = {"snapshot": self.plan["tsv_bytes"], "catch_up": self.binlog_bytes() - before}
        self.source_sums()
        for t in self.alive():
            if t.captures:
                self.measured_phase(t, "catch_up", self.applied)
        [ids] = self.server.sql(f"SELECT MIN(id), (SELECT MIN(id) FROM orders WHERE id >= {self.rows // 2}), MAX(id) FROM orders", db=DB)
        for t in self.alive():
            self.reading(t, ids)
        self.say()
        self.say(table.markdown(self.rows, self.applied, self.got, self.ingested))


if __name__ == "__main__":
    sys.exit(main(Peers))
