"""A limit of memory for a process and its children, as a container has it: a control group (version 1 or 2, as root). Where none can be made, nothing is limited and only what is resident is measured:
`ulimit -v` counts the files that DuckDB and the key index map, so it says nothing about memory."""
import os
import time
from pathlib import Path

ROOT1, ROOT2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


class MemoryLimit:
    def __init__(self, limit):
        self.limit, self.dir, self.version, self.most = limit, None, 0, 0

    def __enter__(self):
        name = f"weir-test-{os.getpid()}-{time.monotonic_ns()}"
        for version, root, file in ((1, ROOT1, "memory.limit_in_bytes"), (2, ROOT2, "memory.max")):
            d = root / name
            try:
                d.mkdir()
            except OSError:
                continue
            try:
                (d / file).write_text(str(self.limit))
                self.dir, self.version = d, version
                break
            except OSError:
                d.rmdir()
        return self

    def __exit__(self, *exc):
        for _ in range(100):
            try:
                if self.dir:
                    self.dir.rmdir()
                return
            except OSError:                 # its last process is about to end
                time.sleep(0.05)

    @property
    def how(self):
        return f"a control group of version {self.version}" if self.dir else "nothing: only measured"

    def join(self):
        """for preexec_fn"""
        if self.dir:
            (self.dir / "cgroup.procs").write_text("0")

    def peak(self):
        """bytes at most so far, the page cache of its files included; 0: unknown"""
        try:
            return int((self.dir / ("memory.max_usage_in_bytes" if self.version == 1 else "memory.peak")).read_text()) if self.dir else 0
        except OSError:
            return 0

    def resident(self, pid):
        """bytes that were resident at most, of all that were asked for"""
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                self.most = max(self.most, int(line.split()[1]) << 10)
        return self.most

    def killed(self):
        """-> how often a process was killed for want of memory"""
        if not self.dir:
            return 0
        text = (self.dir / ("memory.oom_control" if self.version == 1 else "memory.events")).read_text()
        return sum(int(line.split()[1]) for line in text.splitlines() if line.split()[0] == "oom_kill")
