"""read.py READER LOCATION RUNS [ID...]: reads a table as its users would, once for the sums of checksum.py, then RUNS full scans of all columns and as many searches
for each id. Prints one JSON object: {"sums": {...}, "files": {...}, "full_s": [...], "point_s": [...]}. Its own process, so that a reader can be given up.

READER      LOCATION
duckdb      an Iceberg metadata file, or a pattern of Parquet files
pyiceberg   an Iceberg metadata file
pypaimon    WAREHOUSE:DATABASE.TABLE; runs with the Python of the peers"""
import json
import sys
import time

import checksum


def timed(call):
    t = time.monotonic()
    rows = call()
    return round(time.monotonic() - t, 3), rows


class Reader:
    def files(self):
        """what only this reader can tell about them"""
        return {}


class DuckDB(Reader):
    def __init__(self, location):
        from harness.lake import duckdb_connection
        self.con, parquet = duckdb_connection(), location.endswith(".parquet")
        self.relation = f"read_parquet('{location}')" if parquet else f"iceberg_scan('{location}')"

    def sums(self):
        return checksum.of_relation(self.con, self.relation)

    def full(self):
        return self.con.execute(f"SELECT COUNT(*), SUM(hash(t)) FROM {self.relation} t").fetchone()[0]

    def point(self, id):
        return self.con.execute(f"SELECT * FROM {self.relation} WHERE id = ?", [id]).to_arrow_table().num_rows


class PyIceberg(Reader):
    def __init__(self, location):
        self.location = location

    def scan(self, **how):
        from pyiceberg.table import StaticTable
        return StaticTable.from_metadata(self.location).scan(**how)

    def sums(self):
        return checksum.of_arrow(self.scan().to_arrow_batch_reader())

    def full(self):
        return self.scan().to_arrow().num_rows

    def point(self, id):
        return self.scan(row_filter=f"id = {id}").to_arrow().num_rows


class PyPaimon(Reader):
    def __init__(self, location):
        from pypaimon import CatalogFactory
        warehouse, _, self.name = location.partition(":")
        self.catalog = CatalogFactory.create({"warehouse": warehouse})

    def files(self):
        files = [f for split in self.catalog.get_table(self.name).new_read_builder().new_scan().plan().splits() for f in split.files]
        return {"data_files": len(files), "lake_mb": round(sum(f.file_size for f in files) / 1e6, 1)}

    def rows(self, id=None):
        builder = self.catalog.get_table(self.name).new_read_builder()
        if id is not None:
            builder = builder.with_filter(builder.new_predicate_builder().equal("id", id))
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())

    def sums(self):
        return checksum.of_arrow(self.rows())

    def full(self):
        return self.rows().num_rows

    def point(self, id):
        return self.rows(id).num_rows


READERS = {"duckdb": DuckDB, "pyiceberg": PyIceberg, "pypaimon": PyPaimon}


def main(reader, location, runs, *ids):
    r = READERS[reader](location)
    out = {"sums": r.sums(), "files": r.files(), "full_s": [timed(r.full)[0] for _ in range(int(runs))]}
    found = [timed(lambda: r.point(int(id))) for id in ids for _ in range(int(runs))]
    out["point_s"], out["point_rows"] = [s for s, _ in found], [n for _, n in found]
    print(json.dumps(out, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
