"""The table that make bench-peers ends with, in Markdown."""

TITLES = {"weir": "Weir", "flink-iceberg": "Flink CDC, Iceberg", "flink-paimon": "Flink CDC, Paimon", "dlt": "dlt, Parquet"}
READERS = {"duckdb": "DuckDB", "pyiceberg": "PyIceberg", "pypaimon": "pypaimon"}


UNREAD = {"flink-paimon": "no reader for Paimon in DuckDB or PyIceberg; its tables have no delete files, a newer file replaces rows of older ones",
          "dlt": "no table that PyIceberg could open"}


def of(phase, key, form):
    return lambda got, _: "-" if got.get(phase, {}).get(key) is None else form.format(got[phase][key])


def files(key):
    return lambda got, _: f"{got['reading']['files'][key]:,}" if key in got.get("reading", {}).get("files", {}) else "-"


def amplification(got, ingested):
    phases = [p for p in ("snapshot", "catch_up") if p in got]
    return f"{sum(got[p]['storage_mb'] for p in phases) * 1e6 / sum(ingested[p] for p in phases):.2f}" if phases else "-"


def peak(got, _):
    peaks = [got[p]["peak_mb"] for p in ("snapshot", "catch_up") if p in got]
    return f"{max(peaks):,.0f} MB" if peaks else "-"


def query(reader, key, form, factor=1):
    def cell(got, _):
        r = got.get("reading", {}).get(reader, {})
        return form.format(r[key] * factor) if key in r else "-"
    return cell


def equality(got, _):
    if "failed" in got:
        return "failed"
    wrong = [p for p in ("snapshot", "catch_up") if got.get(p, {}).get("differences")]
    wrong += [READERS[r] for r in READERS if "unequal" in got.get("reading", {}).get(r, {})]
    return f"**no** ({', '.join(wrong).replace('_', '-')})" if wrong else "yes" if "catch_up" in got else "yes, snapshot"


ROWS = [("snapshot, rows/s", of("snapshot", "rate", "{:,}")),
        ("snapshot, CPU", of("snapshot", "cpu_s", "{:.2f} s")),
        ("snapshot, first rows visible after", of("snapshot", "first_s", "{:.2f} s")),
        ("catch-up, changes/s", of("catch_up", "rate", "{:,}")),
        ("catch-up, CPU", of("catch_up", "cpu_s", "{:.2f} s")),
        ("catch-up, first change visible after", of("catch_up", "first_s", "{:.2f} s")),
        ("peak memory", peak),
        ("bytes written per byte ingested", amplification),
        ("left: data files", files("data_files")),
        ("left: delete files", files("delete_files")),
        ("left: MB", files("lake_mb")),
        *((f"{what}, {READERS[r]}", query(r, key, form, factor)) for r in READERS for what, key, form, factor in
          (("full scan", "full_s", "{:.2f} s", 1), ("one row by its key", "point_s", "{:.0f} ms", 1000))),
        ("equal to the source", equality)]


def markdown(rows, changes, got, ingested):
    names = list(got)
    lines = [f"{rows:,} rows, {changes:,} changes:", "", "| | " + " | ".join(TITLES[n] for n in names) + " |", "|---" * (len(names) + 1) + "|"]
    lines += [f"| {what} | " + " | ".join(cell(got[n], ingested) for n in names) + " |" for what, cell in ROWS]
    notes = [f"- {TITLES[n]}, {got[n]['failed']}" for n in names if "failed" in got[n]]
    notes += [f"- {TITLES[n]}, read by {READERS[r]}: {got[n]['reading'][r]['refused']}" for n in names for r in READERS if "refused" in got[n].get("reading", {}).get(r, {})]
    notes += [f"- {TITLES[n]}: {UNREAD[n]}" for n in names if n in UNREAD]
    return "\n".join([*lines, *([""] + notes if notes else [])])
