"""Partitions of a lake table as PyIceberg has them: its transforms are the judge of every file's tuple, its planning of what a filter reads."""
import datetime

import pyarrow.parquet as pq
from pyiceberg.expressions import EqualTo, IsNull
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros


def internal(v):
    """a value as transforms take it"""
    if isinstance(v, datetime.datetime):
        return datetime_to_micros(v)
    if isinstance(v, datetime.date):
        return date_to_days(v)
    return v


def column(file, field_id):
    """values of a column of an open Parquet file, by field id; None when it is not there"""
    for i, f in enumerate(file.schema_arrow):
        if f.metadata and f.metadata.get(b"PARQUET:field_id") == str(field_id).encode():
            return file.read(columns=[f.name]).column(0).to_pylist()
    return None


def tuple_of(tbl, file):
    """-> {partition field's name: value} of a planned data file"""
    return {f.name: file.partition[i] for i, f in enumerate(tbl.specs()[file.spec_id].fields)}


def layout(tbl):
    """-> [(spec id, {name: value}, rows)] of all data files, each checked: every row of a file has the file's tuple"""
    out = []
    for task in tbl.scan().plan_files():
        f, spec = task.file, tbl.specs()[task.file.spec_id]
        with tbl.io.new_input(f.file_path).open() as handle:
            parquet = pq.ParquetFile(handle)
            assert parquet.metadata.num_rows == f.record_count
            for i, field in enumerate(spec.fields):
                source = tbl.schema().find_field(field.source_id)
                want = field.transform.transform(source.field_type)
                values = column(parquet, field.source_id) or [None] * f.record_count
                got = {want(internal(v)) for v in values}
                assert got == {f.partition[i]}, f"{f.file_path}: {field} is {f.partition[i]!r}, its rows have {got!r}"
        out.append((f.spec_id, tuple_of(tbl, f), f.record_count))
    return out


def assert_pruned(tbl, name, values):
    """a filter on one column reads files of the partitions that can have it, and no other of the table's default spec"""
    field_type = tbl.schema().find_field(name).field_type
    spec = tbl.spec()
    there = tbl.scan(selected_fields=(name,)).to_arrow().column(0).to_pylist()
    for v in values:
        seen = 0
        for task in tbl.scan(row_filter=IsNull(name) if v is None else EqualTo(name, v)).plan_files():
            seen += 1
            for i, field in enumerate(spec.fields):
                if task.file.spec_id == spec.spec_id and tbl.schema().find_field(field.source_id).name == name:
                    assert task.file.partition[i] == field.transform.transform(field_type)(internal(v)), (name, v, task.file.file_path)
        assert seen or v not in there, f"nothing is read for {name} = {v!r}"
