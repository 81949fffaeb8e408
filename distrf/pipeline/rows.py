"""`Rows`: what is at a path, a table or arrays, as X, y and weights."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection, tokenize

from .. import store
from ..errors import InputError, did_you_mean, warn
from ..execution.labelled import is_frame, plain_rows, reading_of, with_header
from ..execution.open_rows import open_column, open_place
from ..execution.open_table import Table, is_table, open_table
from ..execution.row_blocks import align_rows, check_dask_rows, rows_per_block
from ..execution.sampling import sampled_rows, take_rows
from ..execution.scheduler import computed
from ..parameters import COLUMNS, FLAG, one_of, ruled
from ..scores.passes import as_array
from ..splits import check_split
from ..store.csv_format import said_format
from ..store.table_reader import column_values
from ..store.table_schema import TableSchema
from ..tables.encoder import TableEncoder, coded_numbers, describe_columns
from ..tables.kinds import ColumnKind, ColumnWarning
from ..targets import as_columns

#: Fingerprints of the parts of data, such as the files of a folder, and the rows of each, in the order of the rows.
Parts = list[tuple[str, int]]
#: Put around the work of `train`, `tune`, `predict`, `evaluate`, `featurize` and `add_rows` when their rows are open: called with the job, the
#: pipeline and the Rows. The command line plans the job there, and connects.
around_job: ContextVar[Callable[..., AbstractContextManager[Any]]] = ContextVar(
    "around_job", default=lambda *_, **more: nullcontext()
)
#: What `kinds` of `train` says of columns.
KINDS = ("category", "number", "code", "date", "id", "drop")


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows, wherever they come from; those at a path are read when they are computed.

    Attributes
    ----------
    X, y, weights : as they were given, or lazily opened; of a table coded rows
    info : RowSource, of rows at a path
    reading : how they are read at the path: target and columns, as of `open_rows`; the name of the weight; and targets y that were
        given in place of those there
    held : how rows are held out: what `distrf.splits.make_split` takes of split, by, name and dates
    encoder : TableEncoder, unfitted, of coded rows; `kinds` what their columns are
    table : Table or data frame of which X was made, whose columns have names
    """

    X: Any
    y: Any = None
    weights: Any = None
    info: Any = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    held: Mapping[str, Any] = field(default_factory=lambda: {"split": "random"})
    encoder: TableEncoder | None = None
    kinds: Sequence[ColumnKind] = ()
    table: Any = None

    def __post_init__(self) -> None:
        first = self.X[0] if isinstance(self.X, list) and self.X else self.X
        if isinstance(first, Mapping) or (hasattr(first, "index") and getattr(first, "ndim", 2) == 1):
            made = "pandas.DataFrame([row])" if first is self.X else "pandas.DataFrame(rows)"
            raise InputError(
                f"rows are a table or an array of shape (n, d), got a {type(self.X).__name__}; make a table of it: {made}"
            )

    #: Where they are read, and where rows of `open_rows` were.
    path = property(lambda self: None if self.info is None else str(self.info.path))
    place = property(lambda self: self.path or reading_of(self.X).get("path"))
    target = property(lambda self: self.reading.get("target"))
    split = property(lambda self: self.held["split"])
    n = property(lambda self: int(plain_rows(self.X).shape[0]))
    d = property(lambda self: int(self.X.shape[1]))

    @property
    def description(self) -> dict[str, Any]:
        """How the rows were read, and held out: part of the spec of whatever is made from them."""
        by = {"split": self.split, "by": (self.path and self.held.get("name")) or tokenize(self.held.get("by"))}
        split = None if self.split == "random" else by
        if self.info is None:
            found = {"data": tokenize(self.X, self.y, self.weights), "rows": self.n}
        else:
            name, y = self.reading.get("weight"), self.reading["y"]
            found = {
                "data": store.find_format(self.info.path).fingerprint(self.info.path), "rows": self.n,
                "columns": self.reading["columns"], "target": self.target or self.info.target,
                "csv": said_format() or None, "kinds": {kind.name: kind.kind for kind in self.kinds} or None,
                "weight": name, "weights": None if name or self.weights is None else tokenize(self.weights),
                "y": None if y is None else tokenize(y),
            }  # fmt: skip
        return {name: value for name, value in (found | {"split": split}).items() if value is not None}

    @property
    def parts(self) -> Parts:
        """By what a model knows these rows again."""
        if self.path is None:
            return [(tokenize(self.X, self.y), self.n)]
        left = {"groups": self.info.rows.groups} if getattr(self.table, "dropped", 0) else {}
        return store.find_format(self.path).part_fingerprints(self.path, **left)

    def rows(self, *, uniform: bool = False) -> tuple[Any, Any]:
        """Lazy (X, y); `uniform` makes the blocks equal but for a shorter last one, as a store that is written needs them."""
        X = given = plain_rows(self.X)
        if not is_dask_collection(X):
            X = X.tocsr() if sp.issparse(X) else np.asarray(X)
            step = min(max(1, X.shape[0]), rows_per_block(X.dtype.itemsize * math.prod(X.shape[1:])))
            X = with_header(da.from_array(X, chunks=(step, *X.shape[1:]), asarray=False), given)
        X = check_dask_rows(X)
        sizes = X.chunks[0]
        if uniform and (len(set(sizes[:-1])) > 1 or sizes[-1] > sizes[0]):
            X = with_header(X.rechunk({0: max(sizes)}, method="tasks"), X)
        return X, None if self.y is None else align_rows(X, as_columns(self.y), "y")

    def targets(self, job: str) -> Any:
        """The targets, as an array or a Dask array. Raises InputError where there are none."""
        if self.y is None:
            remedy = "give y, or target= where X is a table"
            if self.path is not None:
                remedy = f"{self.path!r} has none; give target=, or ingest it with one"
            raise InputError(f"{job} needs a target: {remedy}")
        return as_columns(self.y)

    def column(self, asked: Any) -> Any:
        """A column of these rows by its name, whether a model has it or not; or values of all rows that were given, as they are."""
        if np.ndim(asked):
            return as_array(asked)
        name = str(asked)
        if self.path is not None:
            dropped = isinstance(self.table, Table) and self.table.dropped > 0
            reading = {"columns": self.reading["columns"], "target": self.target, "labelled": dropped}
            return open_column(self.path, name, coded=self.encoder is not None, **reading)
        if self.table is None or isinstance(self.table, Table):
            raise InputError(
                f"columns are named where rows are at a path or a data frame; give the values of {name!r}, shape (n,)"
            )
        lazy = is_dask_collection(self.table)
        labels = {str(label): label for label in self.table.columns} if lazy else self.table.column_names
        if name not in labels:
            raise InputError(f"{name!r} is no column of the table; columns: {list(labels)[:20]}")
        if lazy:
            return as_array(self.table[labels[name]])
        return column_values(self.table.column(name), np.dtype(object))

    def weighted(self, sample_weight: Any) -> Rows:
        """The same rows with their weights: those that are given, shape (n,), or a column by its name; None leaves these."""
        if sample_weight is None:
            return self
        name = sample_weight if isinstance(sample_weight, str) else None
        if name is None and np.ndim(sample_weight) == 0:
            raise InputError(f"sample_weight must have one entry for each row, got {sample_weight!r}")
        found = self.column(sample_weight)
        if self.path is not None:
            found = align_rows(self.X, found, "sample_weight")
        return replace(self, weights=found, reading={**self.reading, "weight": name})

    def classes(self, y: da.Array | None) -> list[Any] | None:
        """Names behind labels that are text; where no place holds them, the labels are read."""
        if y is None or y.dtype.kind != "U":
            return None
        known = None if self.info is None else self.info.classes
        return list(known) if known else [str(c) for c in np.unique(computed(da.unique(y))[0])]


def path_of(X: Any) -> str | None:
    """The path, where rows are given by one."""
    return os.fspath(X) if isinstance(X, (str, os.PathLike)) else None


def is_table_path(path: Any) -> bool:
    """Whether a path names a table with named columns."""
    return path_of(path) is not None and store.find_format(os.fspath(path)).table


def check_kinds(kinds: Any) -> dict[str, str]:
    """{column: kind} as `kinds` of `distrf.train` names them. Raises InputError for anything else."""
    if not isinstance(kinds, Mapping | None):
        raise InputError(f"kinds has what columns are, {{'city': 'category'}}, got {kinds!r}")
    for name, kind in (kinds or {}).items():
        one_of(*KINDS).check(f"the kind of {name!r}", kind)
    return {str(name): kind for name, kind in (kinds or {}).items()}


@ruled(columns=COLUMNS, drop_missing_target=FLAG)
def open_training(
    X: Any,
    y: Any = None,
    *,
    target: str | None = None,
    sample_weight: Any = None,
    columns: Sequence[Any] | None = None,
    kinds: Mapping[str, str] | None = None,
    drop_missing_target: bool = False,
    numbers: bool = False,
    split: str = "random",
    by: Any = None,
) -> Rows:
    """The rows of a training: arrays as they are, tables as coded rows, unless their columns are to be numbers. A few rows are read.

    Parameters
    ----------
    X, y, target, sample_weight, columns, kinds, drop_missing_target, split, by : as `distrf.train` takes them
    numbers : bool, whether a scaling, or a map that takes no encoded columns, is asked for

    Raises
    ------
    InputError
        There are no such columns, or they cannot be what they are said to be.

    Warns
    -----
    ColumnWarning
        A column or rows are left out, or a column may not be what it is taken for.
    """
    check_split(split, by)
    path, kinds = path_of(X), check_kinds(kinds)
    if is_table(X) and (path is None or is_table_path(path)) and not numbers:
        return _open_table(X, y, target, sample_weight, columns, kinds, drop_missing_target, split, by)
    if kinds or drop_missing_target:
        raise InputError(
            f"{'kinds' if kinds else 'drop_missing_target'}=: of Parquet, CSV and other tables whose columns are encoded; those "
            f"of {path or type(X).__name__!r} are read as numbers, as their format, a scaling or the map asks for; leave it out, or "
            "choose by columns="
        )
    if path is not None:
        data = open_input(path, target, columns, y=y, sample_weight=sample_weight, split=split, by=by)
    else:
        refuse_names(X, y=y, sample_weight=sample_weight, by=by, columns=columns, target=target)
        X, y = (
            v if v is None or hasattr(v, "shape") else np.asarray(v)
            for v in (plain_rows(X), plain_rows(y, "y"))
        )
        data = Rows(X, y, held={"split": split, "by": by}).weighted(sample_weight)
    return data if numbers else _with_missing(data)


def refuse_names(X: Any, **given: Any) -> None:
    """Raise InputError where columns of an array are named."""
    for name, value in given.items():
        if isinstance(value, str) or (name == "columns" and value is not None):
            raise InputError(
                f"{name}={value!r} names a column of a table or of rows at a path; X is {type(X).__name__}: give the values of each row, or "
                f"open them with distrf.open_rows(path, {name}=...)"
            )


def _with_missing(data: Rows) -> Rows:
    """Rows of numbers; where a sample of them has NaN, as columns of a table."""
    X = np.asarray(data.X) if is_frame(data.X) and not is_dask_collection(data.X) else data.X
    if getattr(X, "ndim", 0) != 2 or X.dtype.kind != "f" or sp.issparse(getattr(X, "_meta", X)) or not len(X):
        return data
    sample = take_rows(X, sampled_rows(len(X), 2000, 0, "missing")) if is_dask_collection(X) else X
    if not np.isnan(np.min(sample, initial=0.0)):  # without an array of as many truths
        return data
    return replace(data, X=coded_numbers(X), encoder=TableEncoder())


def _open_table(
    X: Any, y: Any, target: Any, sample_weight: Any, columns: Any, kinds: dict[str, str], drop: bool, split: str, by: Any
) -> Rows:  # fmt: skip
    """A table to train on. Of the column by which rows are split the model knows nothing if it is one of groups, unless that is asked
    for, or if it is left out: new rows are of other groups."""
    if drop and target is None:
        raise InputError(
            "rows without a target are dropped by the column that target= names; leave out rows of y yourself"
        )
    name, hidden = by if isinstance(by, str) else None, set[str]()
    if name is not None:
        group = split == "group" and name not in kinds
        if kinds.get(name) == "drop" or (group if columns is None else name not in columns):
            hidden = {name}
    exclude = [column for column, kind in kinds.items() if kind == "drop" and column != name]
    exclude += [sample_weight] if isinstance(sample_weight, str) and columns is None else []
    given = {"target": target, "columns": columns and [*columns, *hidden], "exclude": exclude or None}
    table = opened_table(X, drop, **given)
    by, dates = (by, False) if name is None else _split_column(table, name, split)
    kinds |= dict.fromkeys(hidden, "drop")
    schema, found = describe_columns(table, {c: kind for c, kind in kinds.items() if c not in exclude})
    schema = TableSchema(tuple(column for column in schema.columns if column.name not in hidden))
    data = coded_rows(X, table, schema, [kind for kind in found if kind.name not in hidden], y)
    by = by if name or by is None else data.column(by)
    held = {"split": split, "by": by, "name": name, "dates": dates}
    return replace(data, held=held).weighted(sample_weight)


def opened_table(data: Any, drop: bool, **given: Any) -> Table:
    """A table, without its rows that have no target if these are dropped, which a warning counts.

    given : of `open_table`; of a Table, which was opened, none but a schema
    """
    if isinstance(data, Table):
        if any(value is not None for name, value in given.items() if name != "schema"):
            raise InputError(
                "the target and the columns of a Table are chosen by open_table; give them to that"
            )
        return data
    table = open_table(data, drop_missing_target=drop, **given)
    if table.dropped:
        total = table.n + table.dropped
        warn(f"{table.dropped:,} of {total:,} rows have no target, and are left out", ColumnWarning)
    return table


def coded_rows(data: Any, table: Table, schema: TableSchema, kinds: Sequence[ColumnKind], y: Any) -> Rows:
    """A table that was opened, as coded rows; `y` are its targets where it has none."""
    check_one_target(table.target, y)
    at_path, kept = path_of(data) is not None, {kind.name: kind.kind for kind in kinds}
    return Rows(
        table.rows(schema), table.y if y is None else plain_rows(y, "y"),
        info=table.place.source.coded_as(schema) if at_path else None,
        reading={"target": table.target, "columns": schema.names, "y": y},
        encoder=TableEncoder(schema=schema.spec(), columns=kept), kinds=kinds,
        table=table if at_path else getattr(table.place, "table", data),
    )  # fmt: skip


def check_one_target(target: Any, y: Any) -> None:
    """Raise InputError where targets are named and given, or given by a name."""
    if isinstance(y, str):
        raise InputError(
            f"y has one target for each row, got {y!r}; a column of a table is named by target={y!r}"
        )
    if target is not None and y is not None:
        raise InputError(f"the target is {target!r}, and y is given too; give one of them")


def _split_column(table: Table, name: str, split: str) -> tuple[Any, bool]:
    """The column by which rows of a table are split, shape (n,), and whether its numbers are dates in seconds since 1970."""
    types = {column.name: column for column in table.schema.columns}
    if name not in types:
        target = ", which is the target" if name == table.target else ""
        raise InputError(
            f"by={name!r} is no column that is read{target or did_you_mean(name, types)}; columns: {list(types)[:20]}"
        )
    found = types[name]
    if split == "time" and found.base == "text":
        found = replace(found, base="time")
    return table.rows(TableSchema((found,)))[:, 0], found.base == "time"


def open_input(
    path: str,
    target: str | None = None,
    columns: Sequence[Any] | None = None,
    *,
    y: Any = None,
    sample_weight: Any = None,
    split: str = "random",
    by: Any = None,
) -> Rows:
    """Describe the rows of numbers at `path`.

    split, by : how rows are held out; a column of groups is no column of X, nor one of times that are no numbers, unless
        `columns` names it

    Raises StoreError for a missing or unfinished store.
    """
    check_one_target(target, y)
    weight, name = (one if isinstance(one, str) else None for one in (sample_weight, by))
    table, dates = is_table_path(path), False
    if name is not None and table:
        by, dates = _split_column(open_table(path, columns=[name]), name, split)
    hidden = (name,) if columns is None and name is not None and (split == "group" or dates) else ()
    selection = store.Selection(
        target=target, columns=None if columns is None else list(columns), exclude=hidden
    )
    info, X, own, weights = open_place(path, selection, weight)
    reading = {"target": target, "columns": info.columns or selection.columns, "y": y, "weight": weight}
    held = {"split": split, "by": by, "name": name, "dates": dates}
    data = Rows(X, own if y is None else y, weights, info, reading, held)
    if name is not None and not table:
        held["by"] = data.column(name)
    return data if weight is not None else data.weighted(sample_weight)
