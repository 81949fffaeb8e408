"""`open_table`: a table of columns of any type as lazy or in-memory coded rows."""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection, tokenize
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from ..errors import InputError
from ..parameters import COLUMNS, ruled
from ..randomness import sample_indices
from ..representation import facts_html
from ..store import formats, frames
from ..store.arrow_types import target_dtype
from ..store.csv_format import reads_csv
from ..store.files import Options
from ..store.row_source import Selection
from ..store.table_codes import as_arrow, coded
from ..store.table_schema import BASES, TableSchema, drift, merged
from ..store.table_source import Layout, TableSource, chosen_names, lay_out
from .graph_nodes import Alias, Task, TaskRef
from .open_rows import lazy_rows
from .scheduler import compute, current_client

#: Blocks of which a sample takes rows, unless they hold too few.
_BLOCKS, _MOST_BLOCKS = 12, 100
#: Where there are more blocks, the rows of each are among so many times as many neighbours.
_WINDOW = 16
#: Columns that a notebook shows.
_SHOWN = 20


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

    def _repr_html_(self) -> str:
        names = [("path", self.path), ("rows", self.n), ("columns", self.d), ("target", self.target)]
        facts = [(name, value) for name, value in names if value is not None]
        shown = [(column.name, BASES[column.base]) for column in self.schema.columns[:_SHOWN]]
        more = [("...", f"{self.d - _SHOWN:,} more")] if self.d > _SHOWN else []
        return facts_html("table", [*facts, *shown, *more])

    @property
    def d(self) -> int:
        """Columns that are features."""
        return len(self.schema.columns)

    @property
    def strays(self) -> dict[str, str]:
        """Of columns of a CSV that are text, but nearly all numbers: a text that is none, and its line."""
        return dict(self.place.source.strays) if isinstance(self.place, _Files) else {}

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
        return self.place.sample(n_rows)

    def kept(self, values: da.Array) -> da.Array:
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
        return values if isinstance(self.place, (_Files, _Frame, _Partitions)) else self.place.kept(values)

    def uniform(self) -> Table:
        """The same table in blocks of equal rows, but for a shorter last one, as a store needs them.

        Returns
        -------
        Table
            Of files others are cut. In memory there are no blocks, and those of a Dask DataFrame stay.
        """
        if not isinstance(self.place, _Files):
            return self
        return _table_of(self.place.source.uniform())


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
        return _is_dask_frame(data)
    if isinstance(data, (Table, str, os.PathLike)):
        return True
    if type(data).__module__.startswith("xarray"):  # numbers of one dtype, though it exports Arrow data too
        return False
    return getattr(data, "ndim", 2) == 2 and (hasattr(data, "__arrow_c_stream__") or hasattr(data, "iloc"))


def _is_dask_frame(data: Any) -> bool:
    return getattr(data, "ndim", 0) == 2 and hasattr(data, "to_delayed") and hasattr(data, "columns")


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
    storage_options: Options = None,
) -> Table:
    """Open a table whose columns hold numbers, booleans, text, dates or times, with missing values.

    Parameters
    ----------
    data : str, PathLike, data frame, Arrow table or Dask DataFrame
        Path or URL of Parquet or CSV: a file, a folder or a glob. Or rows of pandas, of Arrow, of another library that
        speaks Arrow's stream interface (Polars), or lazy ones of Dask, whose partitions become the blocks. An index
        of pandas is a column where it has a name.
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
    storage_options : dict or None, default=None
        Of files: options of the fsspec file system.

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
    Of Parquet the footers are read. CSV is scanned once, and types are inferred from 16 places of 256 KiB. Of a Dask
    DataFrame all partitions are computed once, for their lengths, the types of objects and categories, and the width of
    a text target.

    Text is the same in all sources, numbers too where they have the same precision. But CSV cannot hold all that other
    tables hold: text such as NA is missing there, text that looks like numbers or dates is taken for them unless
    `schema` says otherwise, and what was float32 is float64.

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
        storage_options=storage_options,
    )
    if isinstance(data, (str, os.PathLike)):
        return _open_files(data, selection)
    if rows_per_block is not None or storage_options is not None:
        raise InputError(
            f"rows_per_block= and storage_options= say how files are read; received a {type(data).__name__}; leave them out"
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
    return Table(source.coded, y, source.shape[0], source.target, source.path, _Files(source))


def _open_frame(data: Any, selection: Selection) -> Table:
    table = as_arrow(data)
    layout = _layout(table.schema, type(data).__name__, selection)
    assert layout.coded is not None
    if not len(table):
        raise InputError(f"a table has rows; received a {type(data).__name__} without any; give one with rows")
    y = None if selection.target is None else frames.target_values(table, selection.target)
    return Table(layout.coded, y, len(table), selection.target, None, _Frame(table, layout))


def _layout(found: Any, name: str, selection: Selection) -> Layout:
    """The columns of rows that no path names. Raises InputError where they are not as a schema says."""
    layout = lay_out(name, [(name, found)], selection)
    assert layout.coded is not None
    if fault := drift(layout.coded, layout.schema):
        raise InputError(fault)
    return layout


@dataclass(frozen=True)
class _Files:
    """A table in files."""

    source: TableSource

    def rows(self, schema: TableSchema) -> da.Array:
        return lazy_rows(self.source.coded_as(schema))

    def sample(self, n_rows: int) -> Any:
        wanted = _sampled(self.source.block_lengths, n_rows)
        blocks = self.source.table_blocks()
        calls = [(frames.rows_of_block, blocks[i], rows) for i, rows in wanted.items()]
        names = self.source.columns or []
        return frames.one_table(_computed({}, calls), self.source.schema, names)


@dataclass(frozen=True)
class _Frame:
    """A table in memory."""

    table: Any
    layout: Layout

    def rows(self, schema: TableSchema) -> np.ndarray:
        return coded(self.table, schema)

    def sample(self, n_rows: int) -> Any:
        (rows,) = _sampled([len(self.table)], n_rows).values()
        part = frames.rows_of_frame(self.table, self.layout.names, rows)
        return frames.one_table([part], self.layout.schema, self.layout.names)


@dataclass(frozen=True)
class _Partitions:
    """A Dask DataFrame: the keys of the partitions that have rows, and how many, in the graph that makes them."""

    graph: dict[Any, Any] = field(repr=False)
    keys: tuple[Any, ...]
    lengths: tuple[int, ...]
    layout: Layout

    def rows(self, schema: TableSchema) -> da.Array:
        if fault := drift(schema, self.layout.schema):
            raise InputError(fault)
        shape = (sum(self.lengths), len(schema.columns))
        return self._array("coded", frames.coded_frame, (schema,), shape, np.dtype(np.float64))

    def target(self, name: str, dtype: np.dtype) -> da.Array:
        return self._array("target", frames.target_frame, (name, dtype.str), (sum(self.lengths),), dtype)

    def _array(
        self, what: str, function: Any, arguments: tuple[Any, ...], shape: tuple[int, ...], dtype: np.dtype
    ) -> da.Array:
        """One task for each partition; its rows and its target read the partition once, where they are read together."""
        name = f"{what}-{tokenize(self.keys, self.lengths, arguments)}"
        zeros = (0,) * (len(shape) - 1)
        layer: dict[Any, Any] = {
            (name, i, *zeros): Task((name, i, *zeros), function, TaskRef(key), *arguments, rows)
            for i, (key, rows) in enumerate(zip(self.keys, self.lengths, strict=True))
        }
        base = f"partitions-{tokenize(self.keys)}"
        graph = HighLevelGraph({base: self.graph, name: layer}, {base: set(), name: {base}})
        chunks = (self.lengths, *((size,) for size in shape[1:]))
        return da.Array(graph, name, chunks, meta=np.empty((0,) * len(shape), dtype))

    def sample(self, n_rows: int) -> Any:
        names = self.layout.names
        wanted = _sampled(self.lengths, n_rows)
        calls = [(frames.rows_of_frame, TaskRef(self.keys[i]), names, rows) for i, rows in wanted.items()]
        return frames.one_table(_computed(self.graph, calls), self.layout.schema, names)


def _open_partitions(data: Any, selection: Selection) -> Table:
    if not _is_dask_frame(data):
        raise InputError(
            f"a lazy table is a Dask DataFrame; received a {type(data).__module__}.{type(data).__name__}; an array has "
            "no columns with names: give it as it is"
        )
    name, target, given = "the Dask DataFrame", selection.target, selection.coded
    if data.index.name is not None and data.index.name not in data.columns:
        data = data.reset_index()[[*data.columns, data.index.name]]
    found = frames.described(data._meta)
    names = chosen_names(name, found, selection)
    if isinstance(given, TableSchema) and (fault := drift(given, found)):
        raise InputError(fault)
    needed = list(dict.fromkeys([*names, *([] if target is None else [target])]))
    unknown = frames.undescribed(found, needed)
    # The same partitions for all that is asked of them: with fewer columns, Dask may read several files as one.
    labels = {str(label): label for label in data.columns}
    frame = data[[labels[column] for column in needed]].optimize()
    graph, keys = _graph(frame), frame.__dask_keys__()
    asked = [*unknown, *([] if target is None or target in unknown else [target])]
    looked = _computed(graph, [(frames.look_at, TaskRef(key), asked, target) for key in keys])
    filled = [(key, facts) for key, facts in zip(keys, looked, strict=True) if facts.rows]
    if not filled:
        raise InputError("a table has rows; received a Dask DataFrame without any; give one with rows")
    types = merged([(f"partition {key[1]}", facts.schema) for key, facts in filled], unknown)
    layout = _layout(frames.with_types(found, types), name, selection)
    assert layout.coded is not None
    lengths = tuple(facts.rows for _, facts in filled)
    place = _Partitions(graph, tuple(key for key, _ in filled), lengths, layout)
    y = None
    if target is not None:
        width = max(facts.width for _, facts in filled)
        y = place.target(target, target_dtype(layout.schema.field(target).type, max(1, width)))
    return Table(layout.coded, y, sum(lengths), target, None, place)


def _graph(frame: Any) -> dict[Any, Any]:
    """The graph of a Dask DataFrame.

    That of delayed frames has aliases under other names than their own, which Dask does not resolve when it fuses tasks.
    """
    nodes = dict(frame.__dask_graph__())
    return {k: Alias(k, v.target) if isinstance(v, Alias) and v.key != k else v for k, v in nodes.items()}


def _computed(graph: dict[Any, Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The results of some calls, each a function and its arguments, which may be nodes of the graph."""
    name = f"table-{uuid.uuid4().hex}"
    tasks = {(name, i): Task((name, i), *call) for i, call in enumerate(calls)}
    last = Task(name, _listed, *(TaskRef(key) for key in tasks))
    return list(compute(Delayed(name, graph | tasks | {name: last}), current_client()))


def _listed(*values: Any) -> tuple[Any, ...]:
    return values


def _sampled(lengths: Sequence[int], n_rows: int) -> dict[int, np.ndarray]:
    """For blocks that are spread over all, the numbers of some of their rows; a function of the arguments alone."""
    if n_rows < 1:
        raise InputError(f"a sample has at least one row; received n_rows={n_rows}")
    n, n_blocks = sum(lengths), len(lengths)
    enough = -(-n_rows * n_blocks // n)
    count = min(n_blocks, max(_BLOCKS, min(enough, _MOST_BLOCKS)))
    edges = [i * n_blocks // count for i in range(count + 1)]
    blocks = [
        low + int(sample_indices(0, f"table sample {low}", high - low, 1)[0])
        for low, high in itertools.pairwise(edges)
    ]
    share = min(1.0, n_rows / sum(lengths[i] for i in blocks))
    whole = n_blocks <= _BLOCKS
    return {i: _sampled_rows(i, lengths[i], max(1, round(lengths[i] * share)), whole) for i in blocks}


def _sampled_rows(block: int, length: int, count: int, whole: bool) -> np.ndarray:
    """Rows of a block: of all of them, or of neighbouring ones, so that others need not be decoded."""
    window = length if whole else min(length, _WINDOW * count)
    first = int(sample_indices(0, f"table window {block}", length - window + 1, 1)[0])
    return first + sample_indices(0, f"table rows {block}", window, count)
