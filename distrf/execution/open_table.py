"""`open_table`: a table of columns of any type as lazy or in-memory coded rows."""

from __future__ import annotations

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
from ..parameters import COLUMNS, FLAG, NONE, ruled, whole
from ..store import formats, frames
from ..store.csv_format import reads_csv
from ..store.files import normalise
from ..store.frames import as_arrow
from ..store.row_source import Selection
from ..store.table_codes import coded
from ..store.table_schema import TableSchema, base_of, drift, present, target_dtype
from ..store.table_source import TableSource, chosen_names, lay_out, require_targets
from .labelled import block_values, is_frame, partition_blocks
from .open_rows import lazy_rows
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
    dropped : int, default=0
        Rows without a target that were left out.

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

    schema: TableSchema = field(repr=False)
    y: Any = field(repr=False)
    n: int
    target: str | None
    path: str | None
    place: Any = field(repr=False, compare=False)
    dropped: int = 0

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
        return self.place.rows(self.schema if schema is None else schema)

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
        return frames.one_table(parts, self.place.types)


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
@ruled(columns=COLUMNS, exclude=COLUMNS, drop_missing_target=FLAG, rows_per_block=whole(1) | NONE)
def open_table(
    data: Any,
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    schema: TableSchema | None = None,
    drop_missing_target: bool = False,
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
    drop_missing_target : bool, default=False
        Leave out the rows that have no target: null, NaN or an empty text.
    rows_per_block : int or None, default=None
        Of files: wanted rows of a block. None is near 32 MiB of coded rows.
    {csv}

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
        labelled=drop_missing_target,
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
    if not isinstance(source, TableSource) or source.rows.coded is None:
        raise InputError(
            f"a table is Parquet or CSV, whose columns have names; {source.path!r} is rows of numbers, which open_rows opens"
        )
    return _table_of(source)


def _table_of(source: TableSource) -> Table:
    assert source.rows.coded is not None
    labels = source.target_source()
    y = None if labels is None else lazy_rows(labels)
    place = _Files(source.block_lengths, source.schema, source)
    return Table(source.rows.coded, y, source.shape[0], source.target, source.path, place, source.dropped)


def _open_frame(data: Any, selection: Selection) -> Table:
    table, name = as_arrow(data), type(data).__name__
    schema, coded = _columns(name, [(name, table.schema)], selection)
    target, n = selection.target, len(table)
    if selection.labelled and target is not None:
        able = [
            j for j, one in enumerate(table.schema) if base_of(one.type)
        ]  # Arrow filters not all of the others
        table = table.select(able).filter(present(table.column(target)))
    _require_rows(len(table), n - len(table), name, target)
    y = None if target is None else frames.target_values(table, target)
    place = _Frame((len(table),), schema, table)
    return Table(coded, y, len(table), target, None, place, n - len(table))


def _require_rows(n: int, dropped: int, name: str, target: str | None) -> None:
    if dropped:
        require_targets(n, target)
    if not n:
        raise InputError(f"a table has rows; received a {name} without any; give one with rows")


def _columns(name: str, schemas: Sequence[tuple[str, Any]], selection: Selection) -> Any:
    """The columns of rows that no path names, and how they are read. Raises InputError where they are not as a schema says."""
    _, schema, _, coded = lay_out(name, schemas, selection)
    if coded is not None and (fault := drift(coded, schema)):
        raise InputError(fault)
    return schema, coded


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
    """A Dask DataFrame: the partitions that have rows, as the blocks of an array, each an Arrow table; and all columns of these rows."""

    blocks: Any
    table: Any

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
    names, dropped = chosen_names(_DASK, as_arrow(data._meta).schema, selection), 0
    if selection.labelled and target is not None:
        column = next(data[label] for label in data.columns if str(label) == target)
        absent = column.isna() | column.eq("")
        if dropped := int(computed(absent.sum())[0]):
            data = data[~absent]
    labels, needed = {str(label): label for label in data.columns}, [*names, *([target] if target else [])]
    blocks = partition_blocks(data[[labels[name] for name in needed if name in labels]], object, as_arrow)
    lengths, schemas, longest = zip(*block_values(frames.look_at, blocks, target), strict=True)
    filled = [i for i, rows in enumerate(lengths) if rows]
    _require_rows(len(filled), dropped, "Dask DataFrame", target)
    found = [(f"partition {i}", schemas[i]) for i in filled]
    schema, coded = _columns(_DASK, found, replace(selection, columns=selection.columns and names, exclude=()))
    blocks = da.Array(blocks.dask, blocks.name, (lengths,), dtype=object).blocks[filled]
    place, y = _Partitions(blocks.chunks[0], schema, blocks, data), None
    if target is not None:
        dtype = target_dtype(schema.field(target).type, max(1, *longest))
        y = place.array("target", partial(frames.target_values, target=target, dtype=dtype), dtype)
    return Table(coded, y, sum(place.lengths), target, None, place, dropped)
