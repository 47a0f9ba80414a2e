"""What the integration tests, the demo and the benchmarks share: Weir as a user runs it, the lake as readers see it, the
comparison of source and lake, and writers that keep a source busy."""
import time


def wait_until(predicate, seconds=30, what="the expected state", every=0.05):
    """Polls until predicate() is true; -> its value. For things that give no event to wait for."""
    end = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not reached within {seconds} s: {what}")
        time.sleep(every)
