"""`Rows`: what is at a path, a table or arrays, as X, y and weights."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection, tokenize
from sklearn.base import clone

from .. import store
from ..errors import InputError, did_you_mean
from ..execution.labelled import is_frame, plain_rows, with_header
from ..execution.open_rows import open_column, open_rows
from ..execution.open_table import Table, open_table
from ..execution.row_blocks import align_rows, check_dask_rows, rows_per_block
from ..execution.scheduler import computed
from ..scores.passes import as_array
from ..splits import check_split
from ..store.csv_format import said_format
from ..store.frames import chosen
from ..store.row_source import RowsInfo
from ..store.table_codes import as_arrow
from ..store.table_reader import column_values
from ..store.table_schema import TableSchema
from ..tables.encoder import TableEncoder
from ..tables.kinds import ColumnKind
from ..targets import as_columns, read_numbers

#: Fingerprints of the parts of data, such as the files of a folder, and the rows of each, in the order of the rows.
Parts = list[tuple[str, int]]
#: How rows that no path names were read.
NOT_SAID = {"columns": None, "target": None, "impute": None}


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows, wherever they come from; those at a path are read when they are computed.

    Attributes
    ----------
    X, y : as they were given, or lazily opened; of a table coded rows
    info : RowsInfo, of rows at a path
    target, columns, weight : their names, of rows at a path
    impute : what replaces missing values; `filled` what did, here or when the rows were ingested
    encoder : TableEncoder, unfitted, of coded rows; `kinds` what their columns are
    table : Table or data frame of which X was made, whose columns have names
    dropped : rows that were left out, since they had no target; `kept` which of those in memory are left
    form : in which the text of the target writes its numbers
    seen : of `see_target`
    """

    X: Any
    y: Any = None
    info: Any = None
    target: str | None = None
    columns: Sequence[Any] | None = None
    weight: str | None = None
    impute: Any = None
    filled: Any = None
    encoder: TableEncoder | None = None
    kinds: Sequence[ColumnKind] = ()
    table: Any = None
    dropped: int = 0
    kept: np.ndarray | None = None
    form: str = ""
    seen: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_rows(self.X)

    @property
    def path(self) -> str | None:
        return None if self.info is None else str(self.info.path)

    @property
    def n(self) -> int:
        return int(plain_rows(self.X).shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @property
    def schema(self) -> TableSchema:
        """What the columns of coded rows are read as."""
        return TableSchema.from_spec((self.encoder and self.encoder.schema) or {})

    @property
    def description(self) -> dict[str, Any]:
        """How the rows were read: part of the spec of whatever is made from them."""
        if self.path is None:
            return {"data": tokenize(self.X, self.y), "rows": self.n}
        kinds = None if self.encoder is None else {kind.name: kind.kind for kind in self.kinds}
        more = {"weight": self.weight, "csv": said_format() or None, "kinds": kinds}
        return {
            "data": store.fingerprint(self.path),
            "rows": self.n,
            "columns": self.info.columns or self.columns,
            "target": self.target,
            "impute": self.filled,
        } | {name: value for name, value in more.items() if value is not None}

    @property
    def identity(self) -> dict[str, Any]:
        """`description` with one name of the target, whether it was given or is the usual one: to compare jobs."""
        usual = not is_table_path(self.path) and self.target in (None, self.info.target)
        return self.description | {"target": "y" if usual else self.target}

    @property
    def parts(self) -> Parts:
        """By what a model knows these rows again."""
        if self.path is None:
            return [(self.description["data"], self.n)]
        return store.part_fingerprints(self.path)

    def facts(self) -> dict[str, Any]:
        """What is known of rows at a path without reading them, for reports."""
        info = self.info
        return {
            "from": str(info.path),
            "rows": self.n,
            "columns": self.d,
            "type": f"{info.dtype}{', sparse' if info.sparse else ''}",
            "bytes in memory": info.nbytes,
            "rows of a block": info.block_rows,
            "target": self.target or info.target,
            "weights": self.weight,
            "classes": None if info.classes is None else len(info.classes),
            "missing values": None if self.impute is None else "imputed",
            "fingerprint": store.fingerprint(info.path),
        }

    def rows(self, *, uniform: bool = False) -> tuple[Any, Any]:
        """Lazy (X, y); `uniform` makes the blocks equal but for a shorter last one, as a store that is written needs them."""
        if self.path is not None:
            if not uniform:
                return self.X, self.y
            if self.encoder is None:
                return self._open(uniform=True)  # type: ignore[return-value]
            table = self.table.uniform()
            return table.rows(self.schema), table.y
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

    def left(self, values: Any) -> Any:
        """Of values of all rows that were given those of the rows that are left."""
        if not self.dropped or np.shape(values)[:1] != (self.n + self.dropped,):
            return values
        if self.kept is None:
            raise InputError(
                f"{self.dropped:,} of {self.n + self.dropped:,} rows have no target and are left out, of a lazy table with what stands "
                "beside it: name a column of files, or give rows that have a target, and values of these alone"
            )
        return as_array(values)[self.kept]

    def column(self, asked: Any) -> Any:
        """A column of these rows by its name, whether a model has it or not, or one in memory or lazy that is given as it is."""
        if np.ndim(asked):
            return self.left(as_array(asked))
        name, coded = str(asked), self.encoder is not None
        if self.path is not None:
            found = open_column(
                self.path, name, target=self.target, columns=self.columns, missing=self.impute is not None, coded=coded,
                exact=not coded or name != self.weight,
            )  # fmt: skip
            return self.table.labelled_rows(found) if coded else found
        if self.table is None or isinstance(self.table, Table):
            raise InputError(
                f"columns are named where rows are at a path or a data frame; give the values of {name!r}, shape (n,)"
            )
        if is_dask_collection(self.table):
            labels = {str(label): label for label in self.table.columns}
            if name in labels:
                return self.left(as_array(self.table[labels[name]]))
        elif (found := chosen(self.table, [name])).num_columns:
            return self.left(column_values(found.column(0), np.dtype(object)))
        else:
            labels = dict.fromkeys(as_arrow(self.table).column_names)
        raise InputError(f"by={asked!r} is no column of the table; columns: {list(labels)[:20]}")

    def by_column(self, name: str, split: str) -> tuple[Any, bool]:
        """The column by which rows are split, shape (n,), and whether its numbers are dates in seconds since 1970."""
        table = self.table
        if table is None:
            if not is_table_path(self.path):
                return self.column(name), False
            table = open_table(self.path, columns=[name])
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

    def weights(self) -> Any:
        """Lazy weights of rows at a path, with their blocks; None if all weigh alike."""
        if self.weight is None:
            return None
        if self.encoder is not None:
            return align_rows(self.X, self.column(self.weight), "weight")
        return self._open(weight=self.weight)[2]

    def _open(self, **more: Any) -> tuple[Any, ...]:
        """The numbers at the path, opened anew."""
        return open_rows(str(self.path), target=self.target, columns=self.columns, impute=self.impute, **more)

    def classes(self, y: da.Array | None) -> list[Any] | None:
        """Names behind labels that are text; where no place holds them, the labels are read."""
        if y is None or y.dtype.kind != "U":
            return None
        known = None if self.info is None else self.info.classes
        return list(known) if known else [str(c) for c in np.unique(computed(da.unique(y))[0])]

    def without(self, name: str) -> Rows:
        """The same coded rows without a column."""
        schema = TableSchema(tuple(column for column in self.schema.columns if column.name != name))
        kinds = [kind for kind in self.kinds if kind.name != name]
        if not kinds:
            raise InputError(f"no column is left beside {name!r}, by which rows are split; give others")
        columns = {kind.name: kind.kind for kind in kinds}
        encoder = clone(self.encoder).set_params(schema=schema.spec(), columns=columns)
        return replace(self, X=self.table.rows(schema), encoder=encoder, kinds=kinds)

    def at(self, path: str, target: str | None, weight: str | None) -> Rows:
        """The same coded rows, of which it is known where they are."""
        X, names = self.X, self.schema.names
        info = RowsInfo(
            path=path, n=X.shape[0], d=X.shape[1], dtype="float64", block_rows=max(X.chunks[0]), classes=None, columns=names,
            target=target, nbytes=X.nbytes, sparse=False,
        )  # fmt: skip
        return replace(self, info=info, target=target, columns=names, weight=weight)


def check_rows(X: Any) -> None:
    """Raise InputError for one row as a dictionary or a Series, or rows as a list of dictionaries."""
    first = X[0] if isinstance(X, list) and X else X
    if isinstance(first, Mapping) or (hasattr(first, "index") and getattr(first, "ndim", 2) == 1):
        made = "pandas.DataFrame([row])" if first is X else "pandas.DataFrame(rows)"
        raise InputError(
            f"rows are a table or an array of shape (n, d), got a {type(X).__name__}; make a table of it: {made}"
        )


def rows_with_target(data: Rows, job: str) -> tuple[Any, Any]:
    """Lazy (X, y); a data frame as it is. Raises InputError for rows without a target."""
    frame = data.path is None and is_frame(data.X) and data.y is not None
    X, y = (data.X, as_columns(data.y)) if frame else data.rows()
    if y is None:
        remedy = (
            "give y, or target= where X is a table"
            if data.path is None
            else f"{data.path!r} has none; give target=, or ingest it with one"
        )
        raise InputError(f"{job} needs a target: {remedy}")
    return X, read_numbers(y, data.form)


def weights_of(data: Rows, sample_weight: Any, weight: str | None) -> Any:
    """The weights of rows, lazy where these are at a path; None if all weigh alike.

    sample_weight : of rows that are no path; weight : the name of those of rows at a path

    Raises InputError for one of them in place of the other.
    """
    at_path = data.path is not None
    if (sample_weight if at_path else weight) is not None:
        raise InputError(
            "weight= names the weights of rows at a path, sample_weight= holds those of other rows; received "
            f"{'sample_weight= for a path' if at_path else 'weight= for rows that are no path'}"
        )
    return data.weights() if at_path else data.left(sample_weight)


def is_table_path(path: Any) -> bool:
    """Whether a path names a table with named columns."""
    return isinstance(path, (str, os.PathLike)) and store.find_format(os.fspath(path)).table


def described(X: Any, y: Any = None, **reading: Any) -> Rows:
    """Rows at a path, lazy or in memory. reading : of those at a path, see `open_input`"""
    if isinstance(X, Rows):
        return X
    return open_input(os.fspath(X), **reading) if isinstance(X, (str, os.PathLike)) else Rows(X, y)


def open_input(
    path: str,
    target: str | None = None,
    columns: list[Any] | None = None,
    impute: Any = None,
    *,
    weight: str | None = None,
    strict: bool = False,
    plan: bool = False,
    split: str = "random",
    by: str | None = None,
) -> Rows:
    """Describe the rows of numbers at `path`; an imputation rule reads them once to become numbers, but for a plan.

    split, by : how rows are held out; a column of groups is no column of X, nor one of times that are no numbers, unless
        `columns` names it

    Raises StoreError for a missing or unfinished store.
    """
    check_split(split, by)
    table = is_table_path(path)
    if by is not None and columns is None:
        columns = _without(path, target, impute is not None, split, by)
    if weight is not None and (columns is None or weight in columns):  # which is no column of the rows
        columns = None if columns is None else [name for name in columns if name != weight]
        selection = store.Selection(target=target, columns=columns, missing=impute is not None)
        without = store.open_weighted(path, weight, selection)[0].columns
        if without != store.open_source(path, selection).columns:
            columns = without
    if columns is not None and not table:
        columns = _numbers(columns, store.describe(path, target=target).columns)
    if strict:  # before anything starts
        open_rows(path, target=target, columns=columns, strict=True)
    if plan and impute is not None:
        impute = 0.0  # whatever it becomes: blocks and bytes are the same
    elif isinstance(impute, (str, float)):  # fixed numbers, so that later rows are filled as these are
        impute = store.impute_values(path, impute, target=target, columns=columns)
    info = store.describe(path, target=target, columns=columns, impute=impute)
    filled = impute
    if impute is None:
        filled = (store.made_from(path) or {"spec": {}})["spec"].get("impute")
        if filled is not None and columns is not None:
            filled = [filled[j] for j in columns]
    X, y = open_rows(path, target=target, columns=columns, impute=impute)
    return Rows(X, y, info, target, columns, weight, impute, filled)


def _without(path: str, target: str | None, missing: bool, split: str, by: str) -> list[Any] | None:
    """The columns of X without that of groups, or of times that are no numbers; None where it is none of X, or stays."""
    if not is_table_path(path):
        known = store.describe(path, target=target).columns
        return [name for name in known if name != by] if split == "group" and known and by in known else None
    if split == "time" and open_table(path, columns=[by]).schema.columns[0].base == "number":
        return None
    selection = store.Selection(target=target, missing=missing, exclude=(by,))
    return list(store.open_source(path, selection).columns or [])


def _numbers(names: list[Any], known: list[str] | None) -> list[Any]:
    """Names of Zarr columns as numbers; what is neither stays, and is refused with the columns there are."""
    numbers = {name: j for j, name in enumerate(known or ())}
    if not known:
        numbers = {name: int(name) for name in names if isinstance(name, str) and name.isdigit()}
    return [numbers.get(name, name) for name in names]
