"""What long-lived processes cost, and when their lake showed something: two threads that look a few times a second."""
import os
import threading
import time
from pathlib import Path

USAGE_S, WATCH_S = 0.25, 0.05
TICK, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class Looker(threading.Thread):
    """with it: look() is called every `interval` seconds, and once more at the end; an exception of it is raised there"""

    def __init__(self, interval):
        super().__init__(daemon=True)
        self.interval, self.halt, self.error = interval, threading.Event(), None

    def run(self):
        try:
            while not self.halt.wait(self.interval):
                self.look()
        except Exception as e:      # raised in check()
            self.error = e

    def check(self):
        if self.error:
            raise self.error

    def __enter__(self):
        self.look()
        self.start()
        return self

    def __exit__(self, *exc):
        self.halt.set()
        self.join()
        if not exc[0]:
            self.check()
            self.look()


class Usage(Looker):
    """CPU and bytes written of processes and of their children that have ended, and the highest sum of their RSS"""

    def __init__(self, pids):
        super().__init__(USAGE_S)
        self.pids, self.series, self.peak_mb = pids, [], 0

    def look(self):
        cpu = rss = written = 0
        for pid in self.pids:
            f = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            cpu += sum(int(x) for x in f[11:15]) / TICK
            rss += int(f[21]) * PAGE
            written += int(Path(f"/proc/{pid}/io").read_text().partition("\nwrite_bytes: ")[2].split()[0])
        self.series.append((time.monotonic(), cpu, written))
        self.peak_mb = max(self.peak_mb, rss / 2**20)

    def until(self, at):
        """-> (CPU seconds, MB written) from the first look to that time, between two looks in proportion"""
        before = self.series[0]
        for now in self.series:
            if now[0] >= at:
                part = (at - before[0]) / (now[0] - before[0]) if now[0] > before[0] else 0
                now = [a + (b - a) * part for a, b in zip(before, now)]
                break
            before = now
        return now[1] - self.series[0][1], (now[2] - self.series[0][2]) / 1e6


class Watch(Looker):
    """when state() was first seen to have a new value; seen[0] is what was there at the start. None: nothing to see yet."""

    def __init__(self, state):
        super().__init__(WATCH_S)
        self.state, self.seen = state, []

    def look(self):
        now = self.state()
        if not self.seen or now != self.seen[-1][1]:
            self.seen.append((time.monotonic(), now))

    def first_after(self, begin):
        """-> seconds to the first change, None without one"""
        return round(self.seen[1][0] - begin, 2) if len(self.seen) > 1 else None
