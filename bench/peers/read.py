"""read.py READER LOCATION RUNS [ID...]: reads a table as its users would. RUNS > 0: searches for each id and full scans of all columns, each RUNS times. Then the
sums of checksum.py. Prints one JSON object a line, each with one of "files", "point_s", "full_s", "sums" (seconds are medians). Its own process, so that a reader
can be given up; what it had printed until then counts.

READER      LOCATION
duckdb      an Iceberg metadata file, or a pattern of Parquet files
pyiceberg   an Iceberg metadata file
merge       an Iceberg metadata file; RUNS must be 0: deletes are applied here, in SQL, where the readers above refuse them or take too long
pypaimon    WAREHOUSE:DATABASE.TABLE; runs with the Python of the peers"""
import json
import sys
import time
from statistics import median

import checksum


def timed(call):
    t = time.monotonic()
    call()
    return round(time.monotonic() - t, 4)


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


class Merge(Reader):
    """Iceberg's rules for deletes: by position, they name file and row; by equality of the key, they are for files of lower sequence numbers only"""

    def __init__(self, location):
        self.location = location

    def sums(self):
        import duckdb
        from pyiceberg.table import StaticTable
        files = {content: {} for content in (0, 1, 2)}
        for e in StaticTable.from_metadata(self.location).inspect.entries().to_pylist():
            f = e["data_file"]
            if f["content"] == 2 and f["equality_ids"] != [1]:
                raise ValueError(f"equality delete by columns {f['equality_ids']} in {f['file_path']}")
            files[f["content"]][f["file_path"]] = e["sequence_number"]
        con = duckdb.connect()
        con.execute("SET TimeZone='UTC'")
        con.execute("CREATE TABLE file (path VARCHAR, sequence BIGINT)")
        con.executemany("INSERT INTO file VALUES (?, ?)", [x for group in files.values() for x in group.items()])

        def read(content, options=""):
            return f"read_parquet({list(files[content])}{options})"
        relation = f"{read(0, ', filename=true, file_row_number=true')} d JOIN file ON file.path = d.filename"
        if files[2]:
            relation += f""" ANTI JOIN (SELECT id, MAX(sequence) AS sequence FROM {read(2, ', filename=true')} e JOIN file ON file.path = e.filename GROUP BY id) e
                             ON e.id = d.id AND e.sequence > file.sequence"""
        if files[1]:
            relation += f" ANTI JOIN {read(1)} p ON p.file_path = d.filename AND p.pos = d.file_row_number"
        return checksum.of_relation(con, f"(SELECT d.* FROM {relation})")


READERS = {"duckdb": DuckDB, "pyiceberg": PyIceberg, "merge": Merge, "pypaimon": PyPaimon}


def tell(**found):
    print(json.dumps(found, default=str), flush=True)


def main(reader, location, runs, *ids):
    r = READERS[reader](location)
    if int(runs):
        tell(files=r.files())
        tell(point_s=median(timed(lambda: r.point(int(id))) for id in ids for _ in range(int(runs))))
        tell(full_s=median(timed(r.full) for _ in range(int(runs))))
    tell(sums=r.sums())


if __name__ == "__main__":
    main(*sys.argv[1:])
