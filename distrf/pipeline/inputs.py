"""Rows at a path: where they are and how they are read."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection, tokenize

from .. import store
from ..errors import InputError, did_you_mean
from ..execution.labelled import is_frame, plain_rows, with_header
from ..execution.open_rows import open_column, open_rows
from ..execution.open_table import Table, open_table
from ..execution.row_blocks import align_rows, check_dask_rows, rows_per_block
from ..execution.scheduler import computed
from ..maps import working_dtype
from ..scores.passes import as_array
from ..splits import check_split
from ..store.csv_format import said_format
from ..store.table_schema import TableSchema
from ..targets import as_columns, read_numbers

#: Fingerprints of the parts of data, such as the files of a folder, and the rows of each, in the order of the rows.
Parts = list[tuple[str, int]]


@dataclass(frozen=True)
class Input:
    """Described rows; nothing is read until `rows` is called and computed."""

    info: Any
    target: str | None
    columns: list[Any] | None
    impute: Any
    filled: Any = None  # what replaced nulls when the rows were ingested
    weight: str | None = None
    form: str = ""  # in which the text of the target writes its numbers
    seen: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)  # of `see_target`

    @property
    def path(self) -> str:
        return str(self.info.path)

    @property
    def n(self) -> int:
        return int(self.info.n)

    @property
    def d(self) -> int:
        return int(self.info.d)

    @property
    def dtype(self) -> np.dtype:
        return working_dtype(np.dtype(self.info.dtype))

    @property
    def description(self) -> dict[str, Any]:
        """How the rows were read: part of the spec of whatever is made from them."""
        return {
            "data": store.fingerprint(self.info.path),
            "rows": self.info.n,
            "columns": self.info.columns or self.columns,
            "target": self.target,
            "impute": self.filled if self.impute is None else self.impute,
        } | {
            name: value
            for name, value in {"weight": self.weight, "csv": said_format() or None}.items()
            if value is not None
        }

    def facts(self) -> dict[str, Any]:
        """What is known of the rows without reading them, for reports."""
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

    @property
    def kinds(self) -> list[Any]:
        """What the columns of a table are; none of other rows."""
        return []

    @property
    def parts(self) -> Parts:
        """By what a model knows these rows again."""
        return store.part_fingerprints(self.info.path)

    @property
    def identity(self) -> dict[str, Any]:
        """`description` with one name of the target, whether it was given or is the usual one: to compare jobs."""
        usual = not store.find_format(self.info.path).table and self.target in (None, self.info.target)
        return self.description | {"target": "y" if usual else self.target}

    def rows(self, *, uniform: bool = False) -> tuple[da.Array, da.Array | None]:
        """Lazy (X, y); `uniform` makes the blocks of Parquet equal, as a store that is written needs them."""
        return open_rows(
            self.info.path, target=self.target, columns=self.columns, impute=self.impute, uniform=uniform
        )

    def column(self, name: Any) -> Any:
        """A column of these rows by its name, or one in memory or lazy that is given as it is."""
        if not isinstance(name, str):
            return as_array(name)
        reading = {"target": self.target, "columns": self.columns, "missing": self.impute is not None}
        return open_column(self.info.path, name, exact=True, **reading)

    def by_column(self, name: str, split: str) -> tuple[Any, bool]:
        """The column by which rows are split, shape (n,), and whether its numbers are dates in seconds since 1970."""
        if not store.find_format(self.path).table:
            return self.column(name), False
        found = open_table(self.path, columns=[name])
        return coded_column(found, name, times=split == "time")

    def weights(self) -> da.Array | None:
        """Lazy weights of the rows, with their blocks; None if all weigh alike."""
        if self.weight is None:
            return None
        return open_rows(
            self.info.path, target=self.target, weight=self.weight, columns=self.columns, impute=self.impute
        )[2]

    def classes(self, y: da.Array | None) -> list[Any] | None:
        """Names behind coded labels."""
        if y is not None and y.dtype.kind == "U" and self.info.classes:
            return list(self.info.classes)
        return _classes(y)


@dataclass(frozen=True)
class Arrays:
    """Lazy or in-memory rows, with what `Input` says of those at a path."""

    X: Any
    y: Any = None
    form: str = ""

    path: ClassVar[None] = None
    target: ClassVar[None] = None
    columns: ClassVar[None] = None

    @property
    def n(self) -> int:
        return int(plain_rows(self.X).shape[0])

    @property
    def description(self) -> dict[str, Any]:
        return {"data": tokenize(self.X, self.y), "rows": self.n}

    @property
    def parts(self) -> Parts:
        return [(self.description["data"], self.n)]

    def rows(self, *, uniform: bool = False) -> tuple[da.Array, da.Array | None]:
        """Lazy (X, y); `uniform` makes the blocks equal but for a shorter last one."""
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

    def column(self, values: Any) -> Any:
        """A column beside these rows, which have no names for columns."""
        if isinstance(values, str):
            raise InputError(
                f"columns are named where rows are at a path or a data frame; give the values of {values!r}, shape (n,)"
            )
        return as_array(values)

    def classes(self, y: da.Array | None) -> list[Any] | None:
        return _classes(y)


def _classes(y: da.Array | None) -> list[Any] | None:
    """Names of labels that are text; they are read."""
    if y is None or y.dtype.kind != "U":
        return None
    return [str(c) for c in np.unique(computed(da.unique(y))[0])]


def rows_with_target(data: Input | Arrays, job: str) -> tuple[Any, Any]:
    """Lazy (X, y); a data frame as it is. Raises InputError for rows without a target."""
    if isinstance(data, Arrays) and is_frame(data.X) and data.y is not None:
        return data.X, read_numbers(as_columns(data.y), data.form)
    X, y = data.rows()
    if y is None:
        remedy = (
            "give y, or target= where X is a table"
            if data.path is None
            else f"{data.path!r} has none; give target=, or ingest it with one"
        )
        raise InputError(f"{job} needs a target: {remedy}")
    return X, read_numbers(y, data.form)


def weights_of(data: Input | Arrays, sample_weight: Any, weight: str | None) -> Any:
    """The weights of rows, lazy where these are at a path; None if all weigh alike.

    sample_weight : of rows that are no path; weight : the name of those of rows at a path

    Raises InputError for one of them in place of the other.
    """
    at_path = isinstance(data, Input)
    if (sample_weight if at_path else weight) is not None:
        raise InputError(
            "weight= names the weights of rows at a path, sample_weight= holds those of other rows; received "
            f"{'sample_weight= for a path' if at_path else 'weight= for rows that are no path'}"
        )
    return data.weights() if at_path else sample_weight  # type: ignore[union-attr]


def described(X: Any, y: Any = None, **reading: Any) -> Input | Arrays:
    """Rows at a path, lazy or in memory. reading : of those at a path, see `open_input`"""
    if isinstance(X, (Input, Arrays)):
        return X
    return open_input(os.fspath(X), **reading) if isinstance(X, (str, os.PathLike)) else Arrays(X, y)


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
) -> Input:
    """Describe the rows at `path`; an imputation rule reads them once to become numbers, but for a plan.

    split, by : how rows are held out; a column of groups is no column of X, nor one of times that are no numbers, unless
        `columns` names it

    Raises StoreError for a missing or unfinished store.
    """
    check_split(split, by)
    if by is not None and columns is None:
        columns = _without(path, target, impute is not None, split, by)
    if weight is not None and (columns is None or weight in columns):  # which is no column of the rows
        columns = None if columns is None else [name for name in columns if name != weight]
        selection = store.Selection(target=target, columns=columns, missing=impute is not None)
        without = store.open_weighted(path, weight, selection)[0].columns
        if without != store.open_source(path, selection).columns:
            columns = without
    names = columns
    if names is not None and not store.find_format(path).table:
        names = _numbers(names, store.describe(path, target=target).columns)
    if strict:  # before anything starts
        open_rows(path, target=target, columns=names, strict=True)
    rule = impute
    if plan and rule is not None:
        rule = 0.0  # whatever it becomes: blocks and bytes are the same
    elif isinstance(rule, (str, float)):  # fixed numbers, so that later rows are filled as these are
        rule = store.impute_values(path, rule, target=target, columns=names)
    info = store.describe(path, target=target, columns=names, impute=rule)
    filled = (store.made_from(path) or {"spec": {}})["spec"].get("impute")
    if filled is not None and names is not None:
        filled = [filled[j] for j in names]
    data = Input(info, target, names, rule, filled, weight)
    if target is not None and not plan:
        data.rows()  # lazy; a target that is not there is an error now
    return data


def coded_column(table: Table, name: str, *, times: bool) -> tuple[Any, bool]:
    """A column of a table as coded values, shape (n,), and whether they are dates; times : whether text is read as dates.

    Raises InputError for a column that is not read.
    """
    types = {column.name: column for column in table.schema.columns}
    if name not in types:
        target = ", which is the target" if name == table.target else ""
        raise InputError(
            f"by={name!r} is no column that is read{target or did_you_mean(name, types)}; columns: {list(types)[:20]}"
        )
    found = replace(types[name], base="time") if times and types[name].base == "text" else types[name]
    return table.rows(TableSchema((found,)))[:, 0], found.base == "time"


def _without(path: str, target: str | None, missing: bool, split: str, by: str) -> list[Any] | None:
    """The columns of X without that of groups, or of times that are no numbers; None where it is none of X, or stays."""
    if not store.find_format(path).table:
        known = store.describe(path, target=target).columns
        return [name for name in known if name != by] if split == "group" and known and by in known else None
    if split == "time" and open_table(path, columns=[by]).schema.columns[0].base == "number":
        return None
    selection = store.Selection(target=target, missing=missing, exclude=(by,))
    return list(store.open_source(path, selection).columns or [])


def _numbers(names: list[Any], known: list[str] | None) -> list[Any]:
    """Names of Zarr columns as numbers; what is neither stays, and is refused with the columns there are."""
    return [
        known.index(name)
        if known and name in known
        else int(name)
        if not known and isinstance(name, str) and name.isdigit()
        else name
        for name in names
    ]
