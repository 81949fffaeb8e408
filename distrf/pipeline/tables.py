"""Tables for `train`, `predict` and `evaluate`: coded rows, their target, and the encoder that makes features of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from sklearn.base import clone

from ..errors import InputError, warn
from ..execution.labelled_rows import open_labelled
from ..execution.open_rows import open_column
from ..execution.open_table import Table, open_table
from ..execution.row_blocks import align_rows
from ..features.base import positive_only
from ..parameters import COLUMNS, FLAG, ruled
from ..registry import make_map
from ..scores.passes import as_array
from ..splits import check_split
from ..store import CsvSource, find_format
from ..store.csv_format import current_format
from ..store.frames import chosen
from ..store.row_source import RowsInfo
from ..store.table_codes import as_arrow
from ..store.table_reader import column_values
from ..store.table_schema import TableSchema
from ..tables.drift import DriftWarning
from ..tables.encoder import TableEncoder, describe_columns
from ..tables.kinds import AS_SAID, ColumnKind, ColumnWarning, as_said
from .inputs import Arrays, Input, coded_column, open_input


@dataclass(frozen=True)
class CodedTable:
    """A table as `prepare` takes it.

    Attributes
    ----------
    X : array or Dask array of shape (n, d), coded rows
    y : array or Dask array of shape (n,), or None
    encoder : TableEncoder, unfitted, for these coded rows
    kinds : list of ColumnKind, what the columns are
    table : Table, of which X and y are
    """

    X: Any
    y: Any
    encoder: TableEncoder
    kinds: list[ColumnKind]
    table: Table

    def column(self, name: str, *, times: bool = False) -> tuple[Any, bool]:
        """`coded_column` of this table."""
        return coded_column(self.table, name, times=times)

    def without(self, name: str) -> CodedTable:
        """The same table without a column among the features."""
        schema = TableSchema.from_spec(self.encoder.schema or {})
        schema = TableSchema(tuple(column for column in schema.columns if column.name != name))
        kinds = [kind for kind in self.kinds if kind.name != name]
        if not kinds:
            raise InputError(f"no column is left beside {name!r}, by which rows are split; give others")
        encoder = clone(self.encoder).set_params(
            schema=schema.spec(), columns={kind.name: kind.kind for kind in kinds}
        )
        return replace(self, X=self.table.rows(schema), encoder=encoder, kinds=kinds)


def without_groups(coded: CodedTable, name: str, split: str, said: Mapping[str, Any]) -> CodedTable:
    """The table without a column that rows are split by: of groups, unless it is said to be a feature, and if it is excluded.

    New rows are of other groups, of which the model knows nothing.
    """
    asked = [name in (said.get(key) or ()) for key in ("categorical", "numeric", "date", "columns")]
    excluded = name in (said.get("exclude") or ())
    return coded.without(name) if excluded or (split == "group" and not any(asked)) else coded


@ruled(
    columns=COLUMNS, exclude=COLUMNS, categorical=COLUMNS, numeric=COLUMNS, date=COLUMNS, id=COLUMNS,
    drop_missing_target=FLAG,
)  # fmt: skip
def coded_table(
    data: Any,
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    date: Sequence[str] | None = None,
    id: Sequence[str] | None = None,
    drop_missing_target: bool = False,
    by: str | None = None,
    seed: int = 0,
) -> CodedTable:
    """Open a table, guess what its columns are, and code its rows.

    Parameters
    ----------
    data : Table, path, data frame, Arrow table or Dask DataFrame
    target : str or None, default=None
        The column of the targets.
    columns : sequence of str or None, default=None
        The columns that are read. None is all but the target.
    exclude : sequence of str or None, default=None
        Columns of a table that are left out.
    categorical : sequence of str or None, default=None
        Columns of a table that are categories, whatever they hold.
    numeric : sequence of str or None, default=None
        Columns of a table that are numbers, such as one that would be taken for an id.
    date : sequence of str or None, default=None
        Columns of a table that are dates.
    id : sequence of str or None, default=None
        Columns of a table that name their rows; they are left out.
    drop_missing_target : bool, default=False
        Leave out the rows of a table that have no target, and say how many. Otherwise they are an error.
    by : str or None, default=None
        A column that is read even if it is excluded: the caller splits rows by it, see `without_groups`.
    seed : int, default=0
        Of the hashes.

    Returns
    -------
    CodedTable

    Raises
    ------
    InputError
        There are no such columns, or they cannot be what they are said to be.

    Warns
    -----
    ColumnWarning
        A column or rows are left out, or a column may not be what it is taken for.
    """
    if by is not None and by in (exclude or ()):
        exclude = [name for name in exclude or () if name != by] or None
        id = [*(id or ()), by]  # whatever it holds
    if by is not None and columns is not None and by not in columns:
        columns, id = [*columns, by], [*(id or ()), by]
    given: dict[str, Any] = {"target": target, "columns": columns, "exclude": exclude}
    if drop_missing_target and target is None:
        raise InputError(
            "rows without a target are dropped by the column that target= names; leave out rows of y yourself"
        )
    if isinstance(data, Table):
        table = data
    elif drop_missing_target:
        table = _with_target(data, **given)
    else:
        table = open_table(data, **given)
    if isinstance(data, Table) and any(value is not None for value in given.values()):
        raise InputError("the target and the columns of a Table are chosen by open_table; give them to that")
    said = as_said(category=categorical, date=date, id=id, number=numeric)
    schema, kinds = describe_columns(table, said)
    encoder = TableEncoder(
        schema=schema.spec(), columns={kind.name: kind.kind for kind in kinds}, random_state=seed
    )
    return CodedTable(table.rows(schema), table.y, encoder, kinds, table)


def _with_target(data: Any, **given: Any) -> Table:
    """A table without its rows that have no target, which are counted in a warning."""
    table, dropped = open_labelled(data, **given)
    if dropped:
        text = f"{dropped:,} of {table.n + dropped:,} rows have no target, and are left out"
        is_csv = isinstance(data, (str, os.PathLike)) and find_format(data) is CsvSource
        if is_csv and table.y.dtype.kind == "U" and current_format().keep_default_na:
            text += "; words such as NA are none: keep_default_na=False makes classes of them"
        warn(text, ColumnWarning)
    return table


@dataclass(frozen=True)
class TableInput(Input):
    """Described rows of a table at a path; see `Input`."""

    coded: Any = None
    encoder: TableEncoder | None = None

    @classmethod
    def of(cls, path: str, coded: CodedTable, target: str | None, weight: str | None = None) -> TableInput:
        """The rows of an opened table; its target is text, or numbers."""
        X, schema = coded.X, TableSchema.from_spec(coded.encoder.schema or {})
        block = max(X.chunks[0])
        info = RowsInfo(
            path=path, n=X.shape[0], d=X.shape[1], dtype="float64", block_rows=block, classes=None, columns=schema.names,
            target=target, nbytes=X.nbytes, sparse=False,
        )  # fmt: skip
        return cls(info, target, schema.names, None, weight=weight, coded=coded, encoder=coded.encoder)

    @property
    def kinds(self) -> list[ColumnKind]:
        """What the columns are."""
        return list(self.coded.kinds)

    @property
    def description(self) -> dict[str, Any]:
        kinds = {kind.name: kind.kind for kind in self.coded.kinds}
        return super().description | {"kinds": kinds}

    def column(self, name: Any) -> Any:
        """A column of the table by its name, whether the model has it or not, or one that is given as it is."""
        if not isinstance(name, str):
            return super().column(name)
        found = open_column(
            self.info.path,
            name,
            target=self.target,
            columns=self.columns,
            coded=True,
            exact=name != self.weight,
        )
        return self.coded.table.labelled_rows(found)

    def by_column(self, name: str, split: str) -> tuple[Any, bool]:
        return self.coded.column(name, times=split == "time")

    def weights(self) -> Any:
        """Lazy weights of the rows; None if all weigh alike."""
        return None if self.weight is None else align_rows(self.coded.X, self.column(self.weight), "weight")

    def rows(self, *, uniform: bool = False) -> tuple[Any, Any]:
        """Lazy coded rows and their target; `uniform` makes the blocks equal but for a shorter last one."""
        if not uniform:
            return self.coded.X, self.coded.y
        table = self.coded.table.uniform()
        return table.rows(TableSchema.from_spec(self.coded.encoder.schema or {})), table.y


def open_training(
    path: str,
    *,
    numbers: bool = False,
    plan: bool = False,
    impute: Any = None,
    strict: bool = False,
    split: str = "random",
    by: str | None = None,
    **said: Any,
) -> Input:
    """Describe rows to train on: of Parquet and CSV a table, unless its columns are to be numbers. A few rows are read.

    Parameters
    ----------
    path : str
    numbers : bool, whether a scaling, or a map that takes no encoded columns, is asked for
    plan : bool, whether nothing will run
    impute, strict : as of `open_input`
    split, by : how rows are held out, as of `distrf.train`
    said : target, weight and columns; and of tables the options of `coded_table`
    """
    check_split(split, by)
    if numbers or impute is not None or not is_table_path(path):
        reading = {name: said.pop(name) for name in ("target", "weight", "columns") if name in said}
        if said:
            raise InputError(
                f"{', '.join(f'{name}=' for name in said)}: of Parquet and CSV whose columns are encoded; those of {path!r} are "
                "read as numbers, as a scaling, impute= or the map asks for; leave them out, or choose by columns="
            )
        return open_input(path, **reading, impute=impute, strict=strict, plan=plan, split=split, by=by)
    target, weight, exclude = (said.pop(name, None) for name in ("target", "weight", "exclude"))
    if weight is not None and said.get("columns") is None:
        exclude = [*(exclude or ()), weight]
    coded = coded_table(path, target=target, exclude=exclude, by=by, **said)
    if by is not None:
        coded.column(by)  # lazy; one that is not there is an error now
        coded = without_groups(coded, by, split, said | {"exclude": exclude})
    return TableInput.of(path, coded, target, weight)


@dataclass(frozen=True)
class TableArrays(Arrays):
    """Coded rows of a table that no path names, and the table, whose columns have names."""

    table: Any = None

    @classmethod
    def of(
        cls,
        encoder: TableEncoder,
        table: Any,
        y: Any,
        target: str | None,
        usual: str | None,
        drop: bool = False,
    ) -> TableArrays:
        """A table, read as the encoder read the rows of its training.

        target, usual : the column of the targets, where there is no y; and of the training, where none is asked for
        drop : whether rows without a target are left out

        Raises InputError for a target that is given twice, or is no column.
        """
        if target is not None and (y is not None or isinstance(table, Table)):
            raise InputError(
                f"target={target!r} names a column in place of y, or of open_table; give one of them"
            )
        name = target or usual
        if y is None and isinstance(table, Table):
            y = table.y
        elif y is None and name is not None:
            opened = _with_target if drop else open_table
            found = opened(table, target=name, schema=encoder.reading_schema)
            y, table = found.y, getattr(found.place, "table", found) if drop else table
        return cls(encoder.coded_rows(table), y, table=table)

    def column(self, values: Any) -> Any:
        """A column of the table by its name, whether the model has it or not, or one that is given as it is."""
        if np.ndim(values) or isinstance(self.table, Table):
            return super().column(values)
        name = str(values)
        if is_dask_collection(self.table):
            labels = {str(label): label for label in self.table.columns}
            if name in labels:
                return as_array(self.table[labels[name]])
        elif (found := chosen(self.table, [name])).num_columns:
            return column_values(found.column(0), np.dtype(object))
        known = list(getattr(self.table, "columns", ())) or as_arrow(self.table).column_names
        raise InputError(
            f"by={values!r} is no column of the table; columns: {[str(label) for label in known][:20]}"
        )


def wants_numbers(map_: Any) -> bool:
    """Whether a map, or one of this name, is for rows without negative entries: encoded columns have such."""
    if isinstance(map_, str):
        map_ = None if map_ in ("auto", "none") else make_map(map_)
    return positive_only(map_)


def is_table_path(path: Any) -> bool:
    """Whether a path names a table with named columns."""
    return isinstance(path, (str, os.PathLike)) and find_format(os.fspath(path)).table


def encoder_of(pipeline: Any) -> TableEncoder | None:
    """The encoder with which a fitted pipeline begins; None where it takes arrays."""
    first = pipeline[0]
    return first if isinstance(first, TableEncoder) and first.schema_ is not None else None


def keep_reasons(pipeline: Any, kinds: Sequence[ColumnKind], dropped: bool) -> None:
    """Say in a fitted pipeline why its columns were taken for what they are; its encoder was told the kinds alone.

    dropped : whether rows without a target were to be left out
    """
    pipeline.training_ = replace(pipeline.training_, dropped=dropped)
    encoder, found = encoder_of(pipeline), {kind.name: kind for kind in kinds}
    if encoder is None:
        return
    for column in encoder.columns_:
        name, kind = column["name"], found.get(column["name"])
        if column["why"] == AS_SAID and kind:
            column["why"] = kind.why
        if column["unread"] and "missing" not in (kind.caution if kind else ""):
            what = f"what is infinite, or no number ({column['unread']:,}): it counts as missing"
            warn(f"column {name!r} has {what}; say categorical=[{name!r}] for levels", ColumnWarning)


def like_training(
    encoder: TableEncoder, path: str, target: str | None, weight: str | None = None, drop: bool = False
) -> TableInput:
    """A table at a path, read as the encoder read the rows of its training; drop : without rows that have no target

    Raises
    ------
    InputError
        The rows are no table, or columns are missing, renamed or of another type.
    """
    if not is_table_path(path):
        raise InputError(
            f"the model was trained on a table; give Parquet or CSV with its columns, got {path!r}"
        )
    schema = encoder.reading_schema
    table = (_with_target if drop and target else open_table)(path, target=target, schema=schema)
    kinds = [ColumnKind(column["name"], column["kind"], column["why"]) for column in encoder.columns_]
    described = TableEncoder(schema=schema.spec(), columns={kind.name: kind.kind for kind in kinds})
    return TableInput.of(path, CodedTable(table.rows(schema), table.y, described, kinds, table), target, weight)


def warn_of_drift(encoder: TableEncoder | None, rows: Any) -> None:
    """Warn where rows to predict differ from those of the training, by a sample of them.

    Warns
    -----
    DriftWarning
    """
    found = [] if encoder is None else encoder.find_drift(rows)
    if found:
        warn(f"the rows differ from those of the training: {'; '.join(found)}", DriftWarning)
