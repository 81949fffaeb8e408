"""Temporary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..errors import InputError
from ..store.table_codes import coded
from ..store.table_schema import TableSchema, drift, schema_of


@dataclass(frozen=True)
class Table:
    """t"""

    data: Any
    schema: TableSchema
    y: Any = None

    @property
    def n(self):
        return self.data.num_rows

    def rows(self, schema=None):
        return coded(self.data, schema or self.schema)

    def sample(self, n_rows=4000):
        return self.data.slice(0, n_rows)


def is_table(X):
    return isinstance(X, (Table, pa.Table)) or hasattr(X, "columns")


def open_table(data, *, target=None, schema=None, exclude=None):
    t = data if isinstance(data, pa.Table) else pa.Table.from_pandas(data, preserve_index=False)
    if schema is not None:
        if f := drift(schema, t.schema):
            raise InputError(f)
        return Table(t, schema)
    names = [n for n in t.column_names if n != target and n not in (exclude or ())]
    return Table(t, schema_of(t.schema, names), t.column(target).to_numpy() if target else None)
