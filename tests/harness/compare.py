"""Exact comparison of source and lake: every column, every row, as multisets in the canonical form of tests/cases/canon.py; and what must hold of a table's files
wherever they are."""
import collections

import canon
from pyiceberg.avro.file import AvroFile
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DATA_FILE_TYPE, MANIFEST_ENTRY_SCHEMAS, DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus

READERS = ("pyiceberg", "duckdb")
DANGLING = "deletes of a file that is not live"
AT = {f.name: i for i, f in enumerate(DATA_FILE_TYPE[3].fields)}        # fields of an entry's data file; PyIceberg's own reading stops at version 2


def source_table(server, db, table):
    con = canon.connect(server.dsn)
    try:
        return canon.server_table(con, db, table)
    finally:
        con.close()


def differences(server, lake, db, tables, readers=READERS, strict_types=True, dangling=False):
    """-> list of findings; empty = equal. readers: names of READERS, or EngineReader. Types are checked once, against the policy; values by every reader. dangling: somebody else may have taken data
    files away and left their deletes, as PyIceberg does."""
    found = []
    for name in tables:
        want = source_table(server, db, name)
        for reader in readers:
            try:
                tbl = lake.table(db, name) if reader == "pyiceberg" else lake.in_duckdb(db, name) if reader == "duckdb" else reader.table(lake, db, name)
                got = canon.lake_table(tbl, want)
            except NoSuchTableError:
                found.append(f"{db}.{name}: table missing in the lake")
                break
            found += [f"{db}.{name} ({reader}): {x}" for x in canon.diff(want, got, strict_types and reader == "pyiceberg")]
        else:
            found += [x for x in file_findings(lake.table(db, name)) if not (dangling and DANGLING in x)]
    return found


def assert_equal(server, lake, db, tables, **kw):
    found = differences(server, lake, db, tables, **kw)
    assert not found, "source and lake differ:\n" + "\n".join(found)


# ---------------------------------------------------------------- files
def entries(io, manifest_path):
    """-> [{field: value}] of the live files of a manifest"""
    with AvroFile(io.new_input(manifest_path), MANIFEST_ENTRY_SCHEMAS[3], {-1: ManifestEntry, 2: DataFile},
                  {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent}) as reader:
        return [{n: e.data_file[i] for n, i in AT.items()} for e in reader if e.status != ManifestEntryStatus.DELETED]


def sizes(io, paths):
    """-> [bytes, None when there is no such object]"""
    paths, out = list(paths), {}
    groups = collections.defaultdict(list)
    for p in paths:
        scheme, netloc, path = io.parse_location(p)
        groups[scheme, netloc].append((p, path))
    for place, files in groups.items():
        infos = io.fs_by_scheme(*place).get_file_info([path for _, path in files])
        out.update((p, i.size if i.is_file else None) for (p, _), i in zip(files, infos))
    return [out[p] for p in paths]


def twice(what, paths):
    return [f"{what} is referenced {n} times: {p}" for p, n in collections.Counter(paths).items() if n > 1]


def snapshot_findings(tbl, snapshot):
    manifests = snapshot.manifests(tbl.io)
    live = [f for m in manifests for f in entries(tbl.io, m.manifest_path)]
    data = [f for f in live if f["content"] == DataFileContent.DATA]
    deletes = [f for f in live if f["content"] != DataFileContent.DATA]
    found = twice("a manifest", [m.manifest_path for m in manifests]) + twice("a data file", [f["file_path"] for f in data])
    found += twice("a delete file", [(f["file_path"], f["content_offset"]) for f in deletes])
    found += twice("a data file with a deletion vector", [f["referenced_data_file"] for f in deletes if f["file_format"] == FileFormat.PUFFIN])
    found += [f"{DANGLING}: {f['file_path']} of {f['referenced_data_file']}" for f in deletes
              if f["referenced_data_file"] not in (None, *(d["file_path"] for d in data))]
    need = [(m.manifest_path, m.manifest_length) for m in manifests] + [(f["file_path"], f["file_size_in_bytes"]) for f in live]
    for (path, want), got in zip(need, sizes(tbl.io, [p for p, _ in need])):
        if got != want:
            found.append(f"{path} is missing" if got is None else f"{path} has {got} bytes, the snapshot says {want}")
    for key, n in (("total-data-files", len(data)), ("total-delete-files", len(deletes)), ("total-records", sum(f["record_count"] for f in data))):
        said = snapshot.summary[key] if snapshot.summary else None
        if said is not None and int(said) != n:
            found.append(f"{key} is {said} in the summary, {n} in the manifests")
    return found


def file_findings(tbl):
    """-> what is wrong with the files of a PyIceberg table's current snapshots, those of its branches included: a file that is referenced twice, is missing or has another
    length, more than one deletion vector for a data file, deletes without a file, sums that are not those of the manifests"""
    heads = {ref.snapshot_id for ref in tbl.metadata.refs.values()}
    return [f"{'.'.join(tbl.name())} snapshot {s}: {x}" for s in sorted(heads) for x in snapshot_findings(tbl, tbl.metadata.snapshot_by_id(s))]
