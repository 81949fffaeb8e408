"""`open_table`: a table of columns of any type as lazy or in-memory coded rows; `open_labelled` its rows that have a target."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.base import is_dask_collection

from ..errors import InputError
from ..parameters import COLUMNS, ruled
from ..store import formats, frames
from ..store.csv_format import reads_csv
from ..store.files import normalise
from ..store.frames import as_arrow
from ..store.row_source import Selection
from ..store.table_codes import coded
from ..store.table_schema import TableSchema, drift, target_dtype
from ..store.table_source import TableSource, chosen_names, lay_out
from .labelled import block_values, is_frame, partition_blocks
from .open_rows import lazy_rows, open_column
from .row_blocks import align_rows
from .sampling import rows_of_blocks
from .scheduler import computed

_DASK = "the Dask DataFrame"


@dataclass(frozen=True)
class Table:
    """A table of named columns, as `open_table` returns it.

    Parameters
    ----------
    schema : TableSchema
        The columns that are features, in order, and what each is read as.
    y : array or Dask array of shape (n,), or None
        The target: numbers, booleans or texts.
    n : int
        Rows.
    target : str or None
        The name of the target.
    path : str or None
        Where the files are; None for rows in memory and Dask DataFrames.
    place : object
        Who reads the rows.
    present : (Dask array of bool, sequence of int) or None, default=None
        Which rows of the files the table has, and how many in each block. None: all.

    Attributes
    ----------
    d : int
        Columns that are features.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from distrf import open_table
    >>> table = open_table(pa.table({"age": [31.0, None], "left": [True, False]}), target="left")
    >>> table.n, table.d, table.y.tolist()
    (2, 1, [True, False])
    """

    schema: TableSchema
    y: Any
    n: int
    target: str | None
    path: str | None
    place: Any = field(repr=False, compare=False)
    present: tuple[da.Array, Sequence[int]] | None = field(default=None, repr=False, compare=False)

    @property
    def d(self) -> int:
        """Columns that are features."""
        return len(self.schema.columns)

    def rows(self, schema: TableSchema | None = None) -> Any:
        """The features as coded rows: one float64 number a value (see `distrf.store.table_codes`).

        Parameters
        ----------
        schema : TableSchema or None, default=None
            Other columns of the table, or the same ones read as something else (text as dates). None: `schema` of the
            table.

        Returns
        -------
        array or Dask array of shape (n, d), float64
            Lazy but for rows in memory. Its blocks are those of `y`.

        Raises
        ------
        InputError
            The table has no such columns, or a value cannot be read as `schema` says. Of a lazy array, when it is
            computed.
        """
        return self.labelled_rows(self.place.rows(self.schema if schema is None else schema))

    def sample(self, n_rows: int = 4000) -> Any:
        """Some rows as they are, in their order, spread over the table.

        Reads a dozen blocks, or more where these hold too few rows. The same rows every time.

        Parameters
        ----------
        n_rows : int, default=4000
            About how many.

        Returns
        -------
        pyarrow.Table
            The columns of `schema`; categories as their values.
        """
        wanted, names = rows_of_blocks(self.place.lengths, n_rows), self.schema.names
        parts = computed(*self.place.parts(wanted, names))
        return frames.one_table([(f"part {i} of a sample", part) for i, part in enumerate(parts)])

    def labelled_rows(self, values: da.Array) -> da.Array:
        """Of a column beside this table the rows that it has: some may have been left out.

        Parameters
        ----------
        values : Dask array of shape (n, ...)
            Of all rows of the files.

        Returns
        -------
        Dask array
            Those rows, in their order.
        """
        if self.present is None:
            return values
        there, counts = self.present
        left = da.blockwise(
            operator.getitem, range(values.ndim), values, range(values.ndim), there, (0,), dtype=values.dtype,
            meta=values._meta, adjust_chunks={0: tuple(counts)},
        )  # fmt: skip
        return left.blocks[np.flatnonzero(counts).tolist()]


def is_table(data: Any) -> bool:
    """Whether rows come as a table of named columns, and not as an array.

    Parameters
    ----------
    data : object

    Returns
    -------
    bool
        True for a `Table`, a path, and what else `open_table` takes.
    """
    if is_dask_collection(data):
        return is_frame(data)
    if isinstance(data, (Table, str, os.PathLike)):
        return True
    if type(data).__module__.startswith("xarray"):  # numbers of one dtype, though it exports Arrow data too
        return False
    return getattr(data, "ndim", 2) == 2 and (hasattr(data, "__arrow_c_stream__") or hasattr(data, "iloc"))


@reads_csv
@ruled(columns=COLUMNS, exclude=COLUMNS)
def open_table(
    data: Any,
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    schema: TableSchema | None = None,
    rows_per_block: int | None = None,
) -> Table:
    """Open a table whose columns hold numbers, booleans, text, dates or times, with missing values.

    Parameters
    ----------
    data : str, PathLike, data frame, Arrow table or Dask DataFrame
        Path or URL of Parquet or CSV: a file, a folder or a glob. Or rows of pandas, of Arrow, of another library that
        speaks Arrow's stream interface (Polars), or lazy ones of Dask, whose partitions become the blocks. An index
        of pandas is a column where it has a name, or holds times: "__index_level_0__" then.
    target : str or None, default=None
        The column of targets: numbers, booleans or text.
    columns : sequence of str or None, default=None
        The columns that are features, in this order. None takes all but the target.
    exclude : sequence of str or None, default=None
        Columns that are no features, if `columns` is None.
    schema : TableSchema or None, default=None
        The features and what they are read as, of a table that was opened before: other columns are left out, and
        their order does not matter.
    rows_per_block : int or None, default=None
        Of files: wanted rows of a block. None is near 32 MiB of coded rows.

    Returns
    -------
    Table
        Its `rows()` are coded rows, its `y` is the target; both are lazy but for rows in memory.

    Raises
    ------
    InputError
        There are no such columns or target, columns hold lists or the like, or they are not as `schema` says. A column
        of a data frame mixes types. There are no rows.
    StoreError
        Nothing can be read at the path, or its files differ.

    Notes
    -----
    Of Parquet the footers are read. CSV becomes Parquet once, in the folder `scratch`. Of a Dask
    DataFrame all partitions are computed once, for their lengths, the types of objects and categories, and the width of
    a text target.

    Text is the same in all sources, numbers too where they have the same precision. But in CSV text such as NA is missing, text
    that looks like numbers or dates is taken for them unless `schema` says otherwise, and what was float32 is float64.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from distrf import open_table
    >>> table = open_table(
    ...     pa.table({"age": [31, None], "city": ["Ulm", "Bonn"], "left": [True, False]}), target="left"
    ... )
    >>> [(column.name, column.base) for column in table.schema.columns]
    [('age', 'number'), ('city', 'text')]
    >>> table.rows().shape
    (2, 2)
    """
    if schema is not None and (columns is not None or exclude is not None):
        raise InputError("schema= names the columns; leave out columns= and exclude=")
    selection = Selection(
        target=target,
        columns=columns,
        exclude=exclude or (),
        rows_per_block=rows_per_block,
        coded=True if schema is None else schema,
    )
    if isinstance(data, (str, os.PathLike)):
        return _open_files(normalise(data), selection)
    if rows_per_block is not None:
        raise InputError(
            f"rows_per_block= says how files are read; received a {type(data).__name__}; leave it out"
        )
    if is_dask_collection(data):
        return _open_partitions(data, selection)
    return _open_frame(data, selection)


def _open_files(path: str | os.PathLike[str], selection: Selection) -> Table:
    source = formats.open_source(path, selection)
    if not isinstance(source, TableSource) or source.coded is None:
        raise InputError(
            f"a table is Parquet or CSV; {source.path!r} is read by {type(source).__name__}; open it with open_rows"
        )
    return _table_of(source)


def _table_of(source: TableSource) -> Table:
    assert source.coded is not None
    labels = source.target_source()
    y = None if labels is None else lazy_rows(labels)
    place = _Files(source.block_lengths, source.schema, source)
    return Table(source.coded, y, source.shape[0], source.target, source.path, place)


def _open_frame(data: Any, selection: Selection) -> Table:
    table, name = as_arrow(data), type(data).__name__
    layout = _layout(name, [(name, table.schema)], selection)
    if not len(table):
        raise InputError(f"a table has rows; received a {name} without any; give one with rows")
    y = None if selection.target is None else frames.target_values(table, selection.target)
    place = _Frame((len(table),), layout.schema, table)
    return Table(layout.coded, y, len(table), selection.target, None, place)


def _layout(name: str, schemas: Sequence[tuple[str, Any]], selection: Selection) -> Any:
    """The columns of rows that no path names. Raises InputError where they are not as a schema says."""
    layout = lay_out(name, schemas, selection)
    if layout.coded is not None and (fault := drift(layout.coded, layout.schema)):
        raise InputError(fault)
    return layout


@dataclass(frozen=True)
class _Place:
    """Who reads a table: the rows of its blocks, and the Arrow types of its columns."""

    lengths: Sequence[int]
    types: Any


@dataclass(frozen=True)
class _Files(_Place):
    """A table in files. Its parts are tasks that read some rows of some blocks; see `Table.sample`."""

    source: TableSource

    def rows(self, schema: TableSchema) -> da.Array:
        return lazy_rows(self.source.coded_as(schema))

    def parts(self, wanted: Mapping[int, np.ndarray], names: Sequence[str]) -> list[Any]:
        take, blocks = dask.delayed(frames.rows_of_block), self.source.key_blocks(self.source.columns or [])
        return [take(blocks[i], rows) for i, rows in wanted.items()]


@dataclass(frozen=True)
class _Frame(_Place):
    """A table in memory: one block."""

    table: Any

    def rows(self, schema: TableSchema) -> np.ndarray:
        return coded(self.table, schema)

    def parts(self, wanted: Mapping[int, np.ndarray], names: Sequence[str]) -> list[Any]:
        return [frames.rows_of_table(self.table, names, rows) for rows in wanted.values()]


@dataclass(frozen=True)
class _Partitions(_Place):
    """A Dask DataFrame: the partitions that have rows, as the blocks of an array, each an Arrow table."""

    blocks: Any

    def rows(self, schema: TableSchema) -> da.Array:
        if fault := drift(schema, self.types):
            raise InputError(fault)
        return self.array("coded", partial(coded, schema=schema), np.dtype(np.float64), len(schema.columns))

    def array(self, name: str, function: Callable, dtype: np.dtype, *tail: int) -> da.Array:
        """The rows that a function makes of each partition, shape (n, *tail). They read it once, where they are read together."""
        return self.blocks.map_blocks(
            _as_opened, function, token=name, dtype=dtype, chunks=(self.lengths, *((size,) for size in tail)),
            new_axis=[1] if tail else None, meta=np.empty((0,) * (1 + len(tail)), dtype),
        )  # fmt: skip

    def parts(self, wanted: Mapping[int, np.ndarray], names: Sequence[str]) -> list[Any]:
        take, blocks = dask.delayed(frames.rows_of_table), self.blocks.blocks[list(wanted)].to_delayed()
        return [take(block, names, rows) for block, rows in zip(blocks, wanted.values(), strict=True)]


def _as_opened(table: Any, function: Callable, block_info: Any = None) -> np.ndarray:
    """What a function makes of a partition, which must have the rows that it had when it was opened. Runs on a worker."""
    rows = block_info[None]["chunk-shape"][0]
    if len(table) != rows:
        raise InputError(
            f"a partition has the rows that it had when it was opened; received {len(table)} in place of {rows}; open the "
            "table again"
        )
    return function(table)


def _open_partitions(data: Any, selection: Selection) -> Table:
    if not is_frame(data):
        raise InputError(
            f"a lazy table is a Dask DataFrame; received a {type(data).__module__}.{type(data).__name__}; an array has "
            "no columns with names: give it as it is"
        )
    target, label, timed = selection.target, data.index.name, data.index.dtype.kind == "M"
    if label is None and timed:
        label = "__index_level_0__"
    if label is not None and label not in data.columns:
        data = data.rename_axis(index=label).reset_index()[[*data.columns, label]]
    names = chosen_names(_DASK, as_arrow(data._meta).schema, selection)
    labels, needed = {str(label): label for label in data.columns}, [*names, *([target] if target else [])]
    blocks = partition_blocks(data[[labels[name] for name in needed if name in labels]], object, as_arrow)
    lengths, schemas, longest = zip(*block_values(frames.look_at, blocks, target), strict=True)
    filled = [i for i, rows in enumerate(lengths) if rows]
    if not filled:
        raise InputError("a table has rows; received a Dask DataFrame without any; give one with rows")
    found = [(f"partition {i}", schemas[i]) for i in filled]
    layout = _layout(_DASK, found, replace(selection, columns=selection.columns and names, exclude=()))
    blocks = da.Array(blocks.dask, blocks.name, (lengths,), dtype=object).blocks[filled]
    place, y = _Partitions(blocks.chunks[0], layout.schema, blocks), None
    if target is not None:
        dtype = target_dtype(layout.schema.field(target).type, max(1, *longest))
        y = place.array("target", partial(frames.target_values, target=target, dtype=dtype), dtype)
    return Table(layout.coded, y, sum(place.lengths), target, None, place)


def open_labelled(data: Any, target: str, **given: Any) -> tuple[Table, int]:
    """A table without its rows that have no target.

    Parameters
    ----------
    data, target, **given
        As of `open_table`.

    Returns
    -------
    table : Table
    dropped : int
        Rows that have none: null, NaN or an empty text.

    Raises
    ------
    InputError
        As of `open_table`, or no row has a target.
    """
    if isinstance(data, (str, os.PathLike)):
        return _open_labelled_files(os.fspath(data), target, given)
    if is_dask_collection(data):
        found = [data[label] for label in data.columns if str(label) == target]
        absent = [column.isna() | column.eq("") for column in found]
        missing = int(sum(computed(*(rows.sum() for rows in absent))))
        return open_table(data[~absent[0]] if missing else data, target=target, **given), missing
    rows = as_arrow(data)
    if target not in rows.column_names:
        return open_table(rows, target=target, **given), 0  # which is an error
    kept = frames.present_rows(rows, target)
    _require_rows(int(kept.sum()), target)
    return open_table(rows.filter(kept), target=target, **given), int((~kept).sum())


def _require_rows(n: int, target: str) -> None:
    if not n:
        raise InputError(f"no row has a target: column {target!r} is empty; give another target")


def _open_labelled_files(path: str, target: str, given: dict[str, Any]) -> tuple[Table, int]:
    if given.get("columns") is None and "schema" not in given:
        given = {**given, "exclude": [*(given.get("exclude") or ()), target]}
    table = open_table(path, **given)
    kind = open_table(path, columns=[target]).schema.columns[0]
    if kind.base not in ("number", "boolean", "text"):
        raise InputError(f"a target is numbers, booleans or text; {target!r} has type {kind.arrow}")
    y: Any = open_column(path, target, columns=table.schema.names, coded=True)
    y = align_rows(table.rows(), y, "the target")
    looked = np.array(block_values(_look, y))
    counts = looked[:, 0].tolist()
    n = sum(counts)
    _require_rows(n, target)
    present = y.map_blocks(_present, dtype=bool, meta=np.empty(0, bool)), counts
    left = replace(table, n=n, target=target, present=present)
    dtype: Any = bool if kind.base == "boolean" else np.int64 if kind.whole else np.float64
    if kind.base == "text":
        dtype = f"<U{max(1, looked[:, 1].max())}"
    return replace(left, y=left.labelled_rows(y).astype(dtype)), table.n - n


def _present(y: np.ndarray) -> np.ndarray:
    """Whether there are values. Runs on a worker."""
    return (
        np.array([v is not None and v == v and v != "" for v in y], bool)
        if y.dtype.kind == "O"
        else ~np.isnan(y)
    )


def _look(y: np.ndarray) -> tuple[int, int]:
    """How many values there are, and the letters of the longest text. Runs on a worker."""
    there = _present(y)
    longest = max(map(len, y[there]), default=0) if y.dtype.kind == "O" else 0
    return int(there.sum()), longest
