"""Spark and Flink as readers of the comparison and as writers that are not Weir."""
import datetime
import decimal

import pyarrow as pa
from pyiceberg.types import BinaryType, DateType, DecimalType, TimestampType, TimestamptzType


def value_of(kind):
    """an engine's value (services/engine.py) -> Arrow's"""
    if isinstance(kind, DecimalType):
        return decimal.Decimal
    if isinstance(kind, DateType):
        return datetime.date.fromisoformat
    if isinstance(kind, TimestampType):
        return datetime.datetime.fromisoformat
    if isinstance(kind, TimestamptzType):
        return lambda v: datetime.datetime.fromisoformat(v.rstrip("Z")).replace(tzinfo=datetime.timezone.utc)
    return bytes.fromhex if isinstance(kind, BinaryType) else lambda v: v


class EngineTable:
    """a table read by an engine, shaped like the part of a PyIceberg table that the comparison uses"""

    def __init__(self, table, engine, name):
        self._table, self._engine, self._name = table, engine, name

    def schema(self):
        return self._table.schema()

    def scan(self):
        return self

    def to_arrow(self):
        fields, types = self.schema().fields, self.schema().as_arrow()
        rows = self._engine.sql(f"SELECT {', '.join(f'`{f.name}`' for f in fields)} FROM {self._name}")
        columns = zip(*rows) if rows else [()] * len(fields)
        arrays = []
        for f, values in zip(fields, columns):
            as_value = value_of(f.field_type)
            arrays.append(pa.array([None if v is None else as_value(v) for v in values], type=types.field(f.name).type))
        return pa.table(arrays, names=[f.name for f in fields])


class EngineReader:
    """for compare.differences: the tables of an engine's catalog"""

    def __init__(self, engine, catalog="ice"):
        self.engine, self.catalog = engine, catalog

    def __str__(self):
        return self.engine.name

    def table(self, lake, ns, name):
        return EngineTable(lake.table(ns, name), self.engine, f"{self.catalog}.`{ns}`.`{name}`")
