"""What is in a lake, asked of its files: the state that a catalog names now, and how many files that is."""
import json
import sqlite3
from collections import namedtuple
from pathlib import Path
from urllib.parse import unquote, urlparse

from pyiceberg.table import StaticTable

Seen = namedtuple("Seen", "rows mark")      # rows as the metadata count them, and what else differs between two states with data


def read_json(location):
    return json.loads(Path(unquote(urlparse(str(location)).path)).read_text())


def iceberg_snapshot(location):
    """-> the current snapshot of a metadata file, None without one"""
    meta = read_json(location)
    return next((s for s in meta.get("snapshots", []) if s["snapshot-id"] == meta.get("current-snapshot-id")), None)


def iceberg_seen(location):
    """rows and deletes only grow with what a table is told, empty commits change neither"""
    snapshot = location and iceberg_snapshot(location)
    if not snapshot or not int(snapshot["summary"]["total-records"]):
        return None
    n = snapshot["summary"]
    return Seen(int(n["total-records"]), int(n.get("total-equality-deletes", 0)) + int(n.get("total-position-deletes", 0)))


def iceberg_files(location):
    """-> data files, delete files, MB of the current snapshot"""
    files = StaticTable.from_metadata(str(location)).inspect.files().to_pylist()
    deletes = sum(f["content"] > 0 for f in files)
    return {"data_files": len(files) - deletes, "delete_files": deletes, "lake_mb": round(sum(f["file_size_in_bytes"] for f in files) / 1e6, 1)}


def sqlite_location(catalog, ns, table):
    """the metadata file that an SQLite catalog names, None while there is none"""
    if not catalog.exists():
        return None
    con = sqlite3.connect(f"file:{catalog}?mode=ro", uri=True, timeout=10)
    try:
        row = con.execute("SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?", (ns, table)).fetchone()
    except sqlite3.OperationalError as e:
        if "no such table" not in str(e):
            raise
        row = None
    finally:
        con.close()
    return row and row[0]


def newest(folder, pattern):
    """-> the file with the highest number in its name, None without one. Files appear whole; the hints beside them are empty for a moment when they change."""
    return max(folder.glob(pattern), key=lambda f: int("".join(filter(str.isdigit, f.name))), default=None)


def hadoop_location(table):
    """the newest metadata file of a Hadoop catalog's table, None while there is none"""
    return newest(table / "metadata", "v*.metadata.json")


def paimon_snapshot(table):
    """-> the newest snapshot that brought data (compactions and empty ones bring none), None without one"""
    file = newest(table / "snapshot", "snapshot-*")
    while file and file.exists():
        s = read_json(file)
        if s["commitKind"] == "APPEND" and s["deltaRecordCount"]:
            return s
        file = file.with_name(f"snapshot-{s['id'] - 1}")
    return None


def paimon_seen(table):
    s = paimon_snapshot(table)
    return s and Seen(s["totalRecordCount"], s["id"])


def checkpoint_of(snapshot):
    """Flink's checkpoint that a commit belongs to"""
    return int(snapshot["commitIdentifier"] if "commitIdentifier" in snapshot else snapshot["summary"]["flink.max-committed-checkpoint-id"])
