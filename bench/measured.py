"""What a measured stretch of time looked like: load, and CPU by whom."""
import os
import platform
import time

TICK = os.sysconf("SC_CLK_TCK")


def busy_s():
    """CPU seconds of the whole machine since boot, idle and waiting left out"""
    v = [int(x) for x in open("/proc/stat").readline().split()[1:]]
    return (sum(v[:3]) + sum(v[5:8])) / TICK


def process_cpu_s(pid):
    fields = open(f"/proc/{pid}/stat").read().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def load():
    return round(os.getloadavg()[0], 2)


class Stretch:
    """with Stretch(server) as s: …; then s.facts(weir_cpu_s): what server and others used meanwhile"""

    def __init__(self, server):
        self.pid = server.pid

    def __enter__(self):
        self.load_before, self.busy, self.server, self.me, self.at = load(), busy_s(), process_cpu_s(self.pid), time.process_time(), time.monotonic()
        return self

    def __exit__(self, *exc):
        self.wall = time.monotonic() - self.at
        self.me = time.process_time() - self.me
        self.server = process_cpu_s(self.pid) - self.server
        self.busy = busy_s() - self.busy

    def facts(self, own_cpu_s):
        others = max(0.0, self.busy - self.server - self.me - own_cpu_s)
        return {"server_cpu_s": round(self.server, 2), "others_cores": round(others / self.wall, 2), "loadavg": [self.load_before, load()]}


def wait_quiet(seconds, cores=0.3, window=2):
    """returns when everyone together used fewer than `cores` over the window, at the latest after `seconds`"""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        b, t = busy_s(), time.monotonic()
        time.sleep(window)          # the window of the measurement itself
        if (busy_s() - b) / (time.monotonic() - t) < cores:
            return


def machine():
    model = next((x.split(":", 1)[1].strip() for x in open("/proc/cpuinfo") if x.startswith("model name")), platform.machine())
    mem_kb = int(next(x for x in open("/proc/meminfo") if x.startswith("MemTotal")).split()[1])
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "memory_gb": round(mem_kb / 1e6, 1), "kernel": platform.release()}
