"""From start to streaming with a large table, after a clean stop and after kill -9: printed, not asserted. WEIR_RESTART_ROWS=10000000 for the table of the requirement."""
import json
import os
import time

import pytest
from harness.lake import Lake

ROWS = int(os.environ.get("WEIR_RESTART_ROWS", "100000"))


def start(weir):
    """-> seconds until status.json says that this process streams, seconds until the lake had what the server has"""
    began = time.monotonic()
    weir.start()
    while True:
        s = json.loads((weir.home / "status.json").read_text())
        if s["pid"] == weir.proc.pid and s["state"] == "streaming":
            break
        assert weir.running, weir.ended()
        time.sleep(0.01)
    streams = time.monotonic() - began
    weir.wait()
    return streams, time.monotonic() - began


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_from_start_to_streaming(server, db, weir, end):
    server.sql("CREATE TABLE big (id BIGINT PRIMARY KEY, v INT, s VARCHAR(20))", "INSERT INTO big VALUES " + ",".join(f"({i}, 0, 'abc')" for i in range(1000)), db=db)
    n = 1000
    while n < ROWS:
        more = min(n, ROWS - n, 500_000)
        server.sql(f"INSERT INTO big SELECT id + {n}, v, s FROM big WHERE id < {more}", db=db)
        n += more
    weir.catch_up(seconds=900)
    weir.start()
    weir.wait()
    getattr(weir, end)()
    server.sql("UPDATE big SET v = 1 WHERE id < 300", db=db)
    streams, all_in = start(weir)
    print(f"\n{n} rows, after {end}: streaming in {streams:.2f} s, 300 changed rows in the lake in {all_in:.2f} s")
    weir.stop()
    rows = Lake(weir.home).table(db, "big").scan(row_filter="v = 1").to_arrow()
    assert rows.num_rows == 300 and Lake(weir.home).count(db, "big") == n
