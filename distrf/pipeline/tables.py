"""Tables to train on: coded rows, what their columns are, and what a fitted pipeline says of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import store
from ..errors import InputError, warn
from ..execution.labelled_rows import open_labelled
from ..execution.open_table import Table, open_table
from ..parameters import COLUMNS, FLAG, one_of, ruled
from ..splits import check_split
from ..store.csv_format import current_format
from ..tables.drift import DriftWarning
from ..tables.encoder import TableEncoder, describe_columns
from ..tables.kinds import AS_SAID, ColumnKind, ColumnWarning
from .rows import Rows, is_table_path, open_input

#: Columns by what `kinds` of `train` says of them.
KINDS = ("category", "number", "date", "id", "drop")


@ruled(columns=COLUMNS, drop_missing_target=FLAG)
def coded_table(
    data: Any,
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    drop_missing_target: bool = False,
    by: str | None = None,
    seed: int = 0,
) -> Rows:
    """Open a table, guess what its columns are, and code its rows.

    Parameters
    ----------
    data : Table, path, data frame, Arrow table or Dask DataFrame
    target, columns, kinds, drop_missing_target : as `distrf.train` takes them
    by : str or None, default=None
        A column that is read even if it is dropped: the caller splits rows by it, see `without_groups`.
    seed : int, default=0
        Of the hashes.

    Returns
    -------
    Rows

    Raises
    ------
    InputError
        There are no such columns, or they cannot be what they are said to be.

    Warns
    -----
    ColumnWarning
        A column or rows are left out, or a column may not be what it is taken for.
    """
    said = check_kinds(kinds)
    if by is not None and (said.get(by) == "drop" or (columns is not None and by not in columns)):
        columns = None if columns is None or by in columns else [*columns, by]
        said[by] = "id"  # whatever it holds
    dropped_columns = [name for name, kind in said.items() if kind == "drop"] or None
    given: dict[str, Any] = {"target": target, "columns": columns, "exclude": dropped_columns}
    if drop_missing_target and target is None:
        raise InputError(
            "rows without a target are dropped by the column that target= names; leave out rows of y yourself"
        )
    if isinstance(data, Table) and any(value is not None for value in given.values()):
        raise InputError("the target and the columns of a Table are chosen by open_table; give them to that")
    table, dropped, kept = data, 0, None
    if not isinstance(data, Table):
        table, dropped, kept = opened_table(data, drop_missing_target, **given)
    schema, found = describe_columns(table, {name: kind for name, kind in said.items() if kind != "drop"})
    columns_of = {kind.name: kind.kind for kind in found}
    encoder = TableEncoder(schema=schema.spec(), columns=columns_of, random_state=seed)
    return Rows(
        table.rows(schema), table.y, target=table.target, encoder=encoder, kinds=found, table=table,
        dropped=dropped, kept=kept,
    )  # fmt: skip


def check_kinds(kinds: Any) -> dict[str, str]:
    """{column: kind} that `kinds` says. Raises InputError for anything else."""
    if not isinstance(kinds, Mapping | None):
        raise InputError(f"kinds has what columns are, {{'city': 'category'}}, got {kinds!r}")
    for name, kind in (kinds or {}).items():
        one_of(*KINDS).check(f"the kind of {name!r}", kind)
    return {str(name): kind for name, kind in (kinds or {}).items()}


def opened_table(data: Any, drop: bool, **given: Any) -> tuple[Table, int, np.ndarray | None]:
    """A table, without its rows that have no target if these are dropped, which a warning counts; what `open_labelled` returns."""
    if not drop:
        return open_table(data, **given), 0, None
    table, dropped, kept = open_labelled(data, **given)
    if dropped:
        text = f"{dropped:,} of {table.n + dropped:,} rows have no target, and are left out"
        is_csv = isinstance(data, (str, os.PathLike)) and store.find_format(data) is store.CsvSource
        if is_csv and table.y.dtype.kind == "U" and current_format().keep_default_na:
            text += "; words such as NA are none: keep_default_na=False makes classes of them"
        warn(text, ColumnWarning)
    return table, dropped, kept


def without_groups(
    coded: Rows, name: str, split: str, kinds: Mapping[str, str] | None, columns: Sequence[str] | None
) -> Rows:
    """The table without a column that rows are split by: of groups, unless it is said to be a feature, and if it is dropped.

    New rows are of other groups, of which the model knows nothing.
    """
    kind = (kinds or {}).get(name)
    asked = kind in ("category", "number", "date") or name in (columns or ())
    return coded.without(name) if kind == "drop" or (split == "group" and not asked) else coded


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
) -> Rows:
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
                "read as numbers, as their format, a scaling or the map asks for; leave them out, or choose by columns="
            )
        return open_input(path, **reading, impute=impute, strict=strict, plan=plan, split=split, by=by)
    target, weight = said.pop("target", None), said.pop("weight", None)
    if weight is not None and said.get("columns") is None:
        said["kinds"] = dict(said.get("kinds") or {}) | {weight: "drop"}
    coded = coded_table(path, target=target, by=by, **said)
    if by is not None:
        coded.by_column(by, "random")  # lazy; one that is not there is an error now
        coded = without_groups(coded, by, split, said.get("kinds"), said.get("columns"))
    return coded.at(path, target, weight)


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
    for column in () if encoder is None else encoder.columns_:
        name, kind = column["name"], found.get(column["name"])
        if column["why"] == AS_SAID and kind:
            column["why"] = kind.why
        if column["unread"] and not (kind and kind.unread):
            what = f"what is infinite, or no number ({column['unread']:,}): it counts as missing"
            warn(
                f"column {name!r} has {what}; kinds={{{name!r}: 'category'}} takes it for levels", ColumnWarning
            )


def warn_of_drift(encoder: TableEncoder | None, rows: Any) -> None:
    """Warn where rows to predict differ from those of the training, by a sample of them.

    Warns
    -----
    DriftWarning
    """
    found = [] if encoder is None else encoder.find_drift(rows)
    if found:
        warn(f"the rows differ from those of the training: {'; '.join(found)}", DriftWarning)
