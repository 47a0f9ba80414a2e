"""The demo's plot; see tools/demo.sh."""
import os
import shutil
import signal
import subprocess
import sys
import time

from harness.compare import differences
from harness.lake import Lake, duckdb_connection
from harness.weir import BINARY, PASSWORD_ENV, Weir
from services import ROOT, instance

from . import shop

DIR = ROOT / "demo.weir"
SECONDS = float(os.environ.get("DEMO_SECONDS", "20"))
KEEP = os.environ.get("KEEP") == "1"
COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def title(text):
    print(f"\n\033[1m{text}\033[0m" if COLOUR else f"\n== {text}", flush=True)


def say(text):
    print("   " + text, flush=True)


def start_writer(server):
    return subprocess.Popen([sys.executable, "-m", "demo.shop", str(server.port)], stdin=subprocess.DEVNULL)


def stop_writer(writer):
    if writer and writer.poll() is None:
        writer.send_signal(signal.SIGTERM)
        writer.wait(30)


def counts(server, lake):
    """-> {table: (rows in the source, rows in the lake)}"""
    return {t: (server.sql(f"SELECT COUNT(*) FROM {t}", db=shop.DB)[0][0], lake.count(shop.DB, t)) for t in shop.TABLES}


def watch(server, lake, weir, seconds):
    """one line every two seconds"""
    end = time.monotonic() + seconds
    say(f"{'':8}" + "".join(f"{t:>22}" for t in shop.TABLES))
    while time.monotonic() < end and weir.running:
        now = counts(server, lake)
        say(f"{time.strftime('%H:%M:%S')}" + "".join(f"{f'{a} -> {b}':>22}" for a, b in now.values()))
        try:
            weir.proc.wait(2)
        except subprocess.TimeoutExpired:
            continue
    assert weir.running, f"sync ended by itself:\n{weir.log_text()}"


def tell(*results):
    for r in results:
        say("$ weir " + " ".join(map(str, r.argv[1:2] + r.argv[4:])))
        for line in (r.out + r.err).splitlines():
            say("  " + line)


def figures(execute, table, relation):
    sums = shop.TABLES[table][1]
    row = execute("SELECT COUNT(*)" + "".join(f", SUM({c})" for c in sums) + f" FROM {relation}")
    return [str(v) for v in row]


def compare(server, lake):
    """prints source and lake side by side; -> whether they are equal"""
    duck, same = duckdb_connection(), True
    found = differences(server, lake, shop.DB, shop.TABLES)
    say(f"{'table':13}{'figure':18}{'source':>18}{'DuckDB':>18}{'PyIceberg':>18}")
    for table, (_, sums) in shop.TABLES.items():
        tbl = lake.table(shop.DB, table)
        arrow = tbl.scan().to_arrow()
        duck.register("py", arrow)
        columns = (figures(lambda q: server.sql(q, db=shop.DB)[0], table, table),
                   figures(lambda q: duck.execute(q).fetchone(), table, f"iceberg_scan('{tbl.metadata_location}')"),
                   figures(lambda q: duck.execute(q).fetchone(), table, "py"))
        for what, *values in zip(["rows"] + [f"sum({c})" for c in sums], *columns):
            ok = len(set(values)) == 1
            same &= ok
            say(f"{table:13}{what:18}" + "".join(f"{v:>18}" for v in values) + ("" if ok else "   DIFFERENT"))
    for line in found:
        say(line)
    same &= not found
    title("EQUAL: every row and every column of every table, as read by DuckDB and PyIceberg." if same else "DIFFERENT: see above.")
    return same


def run():
    instance("mariadb", DIR / "mariadb").wipe()         # of an earlier demo
    shutil.rmtree(DIR, ignore_errors=True)
    server, writer, weir = instance("mariadb", DIR / "mariadb"), None, None
    try:
        title("A MariaDB server of its own, and a shop in it")
        server.start()
        shop.create(server)
        say(f"127.0.0.1:{server.port}, database {shop.DB}: {', '.join(shop.TABLES)}; a writer now changes it all the time")
        writer = start_writer(server)
        weir = Weir(server, DIR, [rf"{shop.DB}\..*"], {"name": "shop"})
        lake = Lake(weir.home)

        title(f"weir sync: rows in the source -> rows in the lake, for {SECONDS:.0f} s")
        say(f"{BINARY.relative_to(ROOT)} sync -c {weir.file.relative_to(ROOT)}")
        weir.start()
        watch(server, lake, weir, SECONDS / 2)

        title("kill -9 weir, and start it again")
        weir.kill()
        before = counts(server, lake)
        say("dead; the writer goes on, the lake stays readable: " + ", ".join(f"{t} {n}" for t, (_, n) in before.items()))
        time.sleep(2)       # the plot wants changes that happen while weir is away
        weir.start()
        watch(server, lake, weir, SECONDS / 2)

        title("Stop the writer, weir wait, compare")
        stop_writer(writer)
        t0 = time.monotonic()
        weir.wait(seconds=120)
        say(f"everything committed is in the lake, {time.monotonic() - t0:.1f} s after the last change")
        same = compare(server, lake)
        title("What Weir itself says: its ledger, and a comparison while the sync runs")
        tell(weir.run("ledger", status=(0, 1)), weir.run("compare", status=(0, 1)))
        title("Three rows are damaged behind everybody's back, found, and put right")
        server.sql("SET SESSION sql_log_bin = 0", f"DELETE FROM {shop.DB}.orders ORDER BY id LIMIT 1", f"UPDATE {shop.DB}.orders SET total = total + 1 ORDER BY id DESC LIMIT 2")
        tell(weir.run("compare", rf"{shop.DB}\.orders", status=(0, 1)), weir.run("repair", "--apply", "--why", "the demo", status=(0, 1)))
        title("Where things are")
        rel = DIR.relative_to(ROOT)
        say(f"{rel}/weir.yaml       the configuration          {rel}/sync.log    what sync said")
        say(f"{rel}/home/warehouse  the Iceberg tables         {rel}/home/catalog.db  their catalog (SQLite, name weir)")
        if KEEP:
            say(f"Still running (KEEP=1): MariaDB on port {server.port}, weir pid {weir.proc.pid}. To end: kill {weir.proc.pid}; "
                f"cd tests && ../.venv/bin/python -m services.mariadb stop --dir ../{rel}/mariadb")
            say(f"Try: export {PASSWORD_ENV}=weir; build/weir status -c {rel}/weir.yaml")
            weir.proc = None
        else:
            say("Nothing is left running. KEEP=1 make demo leaves server and sync up, so that you can change rows yourself.")
        say(f"Try: {PASSWORD_ENV}=weir build/weir sql -c {rel}/weir.yaml 'SELECT state, COUNT(*), SUM(total) FROM shop.orders GROUP BY 1'")
        return 0 if same else 1
    finally:
        stop_writer(writer)
        if weir and weir.proc:
            weir.proc.terminate()
            try:
                weir.proc.wait(30)
            except subprocess.TimeoutExpired:
                weir.kill()
        if not KEEP:
            server.stop()


if __name__ == "__main__":
    sys.exit(run())
