"""The lake as two readers see it that are not ours: PyIceberg and DuckDB."""
import glob
import os
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_httpfs
import duckdb_extension_iceberg
from pyarrow.fs import FileSelector

from . import backend

EXTENSIONS = [duckdb_extension_httpfs, duckdb_extension_avro, duckdb_extension_iceberg]     # avro before iceberg, which looks for it


def duckdb_connection():
    """with the iceberg extension of the installed wheels; nothing is downloaded"""
    con = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    for package in EXTENSIONS:
        folder = os.path.dirname(package.__file__)
        [file] = glob.glob(f"{folder}/extensions/v{duckdb.__version__}/*.duckdb_extension")
        con.execute(f"LOAD '{file}'")
    con.execute("SET TimeZone='UTC'")
    backend.prepare_duckdb(con)
    return con


class DuckTable:
    """a table read by DuckDB, shaped like the part of a PyIceberg table that the comparison uses"""

    def __init__(self, table, con):
        self._table, self._con = table, con

    def schema(self):
        return self._table.schema()

    def scan(self):
        return self

    def sum(self, column):
        return self._con.execute(f'SELECT SUM("{column}") FROM iceberg_scan(?)', [self._table.metadata_location]).fetchone()[0]

    def to_arrow(self):
        got = self._con.execute("SELECT * FROM iceberg_scan(?)", [self._table.metadata_location]).arrow()
        return got if hasattr(got, "num_rows") else got.read_all()


class Lake:
    def __init__(self, home):
        self.home = Path(home)

    @property
    def catalog(self):
        return backend.catalog(self.home)

    def exists(self):
        return (self.home / "catalog.db").exists()

    def objects(self, ending=""):
        """-> pyarrow file system, paths in it of all files of the warehouse whose name ends so"""
        fs, root = backend.warehouse_files(self.home)
        infos = fs.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
        return fs, sorted(i.path for i in infos if i.is_file and i.path.endswith(ending))

    def tables(self):
        """-> {(namespace, table)}"""
        cat = self.catalog
        return {tuple(t) for ns in cat.list_namespaces() for t in cat.list_tables(ns)}

    def table(self, ns, name):
        return self.catalog.load_table((ns, name))

    def count(self, ns, name):
        """rows, 0 while the table is not there"""
        from pyiceberg.exceptions import NoSuchTableError
        if not self.exists():
            return 0
        try:
            return self.table(ns, name).scan().to_arrow().num_rows
        except NoSuchTableError:
            return 0

    def history_counts(self, ns, name):
        """-> [(snapshot id, rows)] of every state that was ever current"""
        tbl = self.table(ns, name)
        return [(h.snapshot_id, tbl.scan(snapshot_id=h.snapshot_id).to_arrow().num_rows) for h in tbl.history()]

    def in_duckdb(self, ns, name):
        return DuckTable(self.table(ns, name), duckdb_connection())
