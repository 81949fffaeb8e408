"""A table as the input of a job: its coded rows, with what `Input` says of rows at a path."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import dask.array as da
import numpy as np

from ..execution.open_table import Table, open_table
from ..store import RowsInfo
from ..store.files import Options
from ..store.table_schema import TableSchema
from .inputs import Arrays


@dataclass(frozen=True)
class TableInput:
    """A table whose columns are read as `schema` says; nothing is read until `rows` is called and computed."""

    table: Table
    schema: TableSchema

    impute = None  # encodings know missing values

    @property
    def path(self) -> str | None:
        return self.table.path

    @property
    def target(self) -> str | None:
        return self.table.target

    @property
    def columns(self) -> list[str]:
        return self.schema.names

    @property
    def n(self) -> int:
        return self.table.n

    @property
    def d(self) -> int:
        return len(self.schema.columns)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float64)

    @cached_property
    def info(self) -> RowsInfo:
        """The facts of the coded rows."""
        X, _ = self.rows()
        return RowsInfo(
            path=self.path or "", n=self.n, d=self.d, dtype=str(self.dtype), block_rows=max(X.chunks[0]), classes=None,
            columns=self.columns, target=self.target, nbytes=8 * self.n * self.d, sparse=False,
        )  # fmt: skip

    @property
    def description(self) -> dict[str, Any]:
        """How the rows were read: part of the spec of whatever is made from them."""
        return {
            "data": self.table.fingerprint(),
            "rows": self.n,
            "columns": self.columns,
            "target": self.target,
            "impute": None,
            "schema": self.schema.spec(),
        }

    @property
    def identity(self) -> dict[str, Any]:
        """As `description`: to compare jobs."""
        return self.description

    def rows(self, *, uniform: bool = False) -> tuple[da.Array, da.Array | None]:
        """Lazy (X, y) of coded rows; `uniform` makes the blocks equal but for a shorter last one."""
        table = self.table.uniform() if uniform else self.table
        return Arrays(table.rows(self.schema), table.y).rows(uniform=uniform)

    def classes(self, y: da.Array | None) -> list[Any] | None:
        """Names of labels that are text; they are read."""
        return Arrays(None).classes(y)


def open_table_input(
    data: Any,
    target: str | None = None,
    columns: list[str] | None = None,
    *,
    exclude: list[str] | None = None,
    reading: dict[str, Any] | None = None,
    storage_options: Options = None,
) -> TableInput:
    """A table, opened for a job.

    Parameters
    ----------
    data : what `open_table` takes, or a Table
    target, columns, exclude, storage_options : as of `open_table`
    reading : `description` of the rows that a model was trained on. They are read in the same way; columns that the model
        does not need are left out.

    Raises InputError where columns are missing or of another type, StoreError where nothing can be read.
    """
    schema = None if reading is None else TableSchema.from_spec(reading["schema"])
    if isinstance(data, Table):
        return TableInput(data, data.schema if schema is None else schema)
    if schema is not None:
        table = open_table(data, target=target, schema=schema, storage_options=storage_options)
    else:
        table = open_table(
            data, target=target, columns=columns, exclude=exclude, storage_options=storage_options
        )
    return TableInput(table, table.schema)
