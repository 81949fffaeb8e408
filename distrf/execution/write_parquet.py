"""Lazy row arrays into a folder of Parquet part files, one for each block, resumable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize

from .. import store
from ..errors import InputError
from ..store.csv_format import CsvFormat, current_format, reading
from ..store.files import normalise
from .graph_inputs import graph_inputs
from .passes import run_pass
from .row_blocks import check_dask_rows, take_blocks
from .states import RowCount


def write_parts(
    path: str,
    arrays: dict[str, da.Array],
    key_source: str | None,
    keys: list[str] | None,
    spec: dict[str, Any],
    overwrite: bool = False,
    columns: list[str] | None = None,
    *,
    headings: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> tuple[int, int]:
    """Write aligned arrays, and key columns of a Parquet source beside them; returns (computed, blocks).

    Parameters
    ----------
    path : the folder of the part files
    arrays : {column name: Dask array (n,) or (n, k)}, with the same row chunks
    headings : names of the columns of some arrays (n, k); without, they are name_0 ... name_{k-1}
    key_source, keys : the Parquet data the rows came from, and the columns of it to carry over
    columns : the feature columns of that data
    spec : what determines the content; another one in the folder is an error, unless `overwrite`
    """
    names = list(arrays)
    store.check_apart(path, [*graph_inputs(arrays.values()), key_source])
    aligned = [check_dask_rows(arrays[name], name) for name in names]
    chunks = aligned[0].chunks[0]
    if keys and not (key_source and store.find_format(key_source).table):
        raise InputError(f"key columns {keys} need rows that come from Parquet, got {key_source!r}")
    version = ""
    if keys:  # names the missing columns before anything runs
        version = tokenize(_key_blocks(str(key_source), keys, columns))
    n_blocks = len(chunks)
    folder_id, pending = store.create_parts(path, spec, n_blocks, overwrite=overwrite)
    if pending:
        numbers = da.map_blocks(_block_number, da.arange(sum(chunks), chunks=(chunks,)), dtype=np.int64)
        keys_of_rows = (
            _Keys(normalise(str(key_source)), tuple(keys), tuple(columns or ()), version, current_format())
            if keys
            else None
        )
        named = tuple((name, tuple(headings.get(name, ()))) for name in names)
        reduction = _PartReduction(normalise(path), folder_id, named, keys_of_rows)
        every = [take_blocks(a, pending) if len(pending) < n_blocks else a for a in (*aligned, numbers)]
        starts = np.concatenate([[0], np.cumsum(chunks)])[pending]
        label = "predict" if "prediction" in arrays else "write"
        run_pass(reduction, every, label=label, starts=[int(start) for start in starts])
    store.finish_parts(path, n_blocks, folder_id=folder_id)
    return len(pending), n_blocks


def _block_number(rows: np.ndarray, block_id: tuple[int] | None = None) -> np.ndarray:
    return np.full(len(rows), block_id[0] if block_id else 0)


@dataclass(frozen=True)
class _Keys:
    """Key columns of Parquet data; `version` changes when the files are rewritten in place."""

    path: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    version: str
    csv: CsvFormat


@lru_cache(maxsize=8)
def _key_sources(keys: _Keys) -> list[Any]:
    with reading(keys.csv):
        return _key_blocks(keys.path, keys.names, keys.columns or None)


def _key_blocks(path: str, keys: Sequence[str], columns: Sequence[str] | None) -> list[Any]:
    # Features may have nulls and texts: only keys are read.
    selection = store.Selection(columns=columns, coded=True, others=keys)
    return store.open_source(path, selection).key_blocks(keys)


@dataclass(frozen=True)
class _PartReduction(RowCount):
    path: str
    folder_id: str | None  # of the folder at `path` for which the blocks are made
    names: tuple[tuple[str, tuple[str, ...]], ...]  # of each array, and of its columns
    keys: _Keys | None

    def update(self, state: int, first_row: int, *blocks: Any) -> int:
        *values, numbers = blocks
        columns: dict[str, Any] = {}
        if self.keys is not None:
            columns.update(_key_columns(self.keys, first_row, len(numbers)))
        for (name, headings), array in zip(self.names, values, strict=True):
            columns.update({h: array[:, j] for j, h in enumerate(headings)} if headings else {name: array})
        return state + store.write_parquet_block(self.path, int(numbers[0]), columns, folder_id=self.folder_id)


def _key_columns(keys: _Keys, start: int, rows: int) -> dict[str, Any]:
    import pyarrow as pa

    tables = [
        reader.read_table(max(start, first), min(start + rows, last))
        for reader, first, last in _key_sources(keys)
        if first < start + rows and start < last
    ]
    table = pa.concat_tables(tables)
    return {name: table.column(name) for name in keys.names}
