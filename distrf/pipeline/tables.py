"""Tables for `train`: coded rows, their target, and the encoder that makes features of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..execution.open_table import Table, open_table
from ..tables.encoder import TableEncoder, describe_columns
from ..tables.kinds import ColumnKind, as_said


@dataclass(frozen=True)
class CodedTable:
    """A table as `prepare` takes it.

    Attributes
    ----------
    X : array or Dask array of shape (n, d), coded rows
    y : array or Dask array of shape (n,), or None
    encoder : TableEncoder, unfitted, for these coded rows
    kinds : list of ColumnKind, what the columns are
    """

    X: Any
    y: Any
    encoder: TableEncoder
    kinds: list[ColumnKind]


def coded_table(
    data: Any,
    *,
    target: str | None = None,
    exclude: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    date: Sequence[str] | None = None,
    id: Sequence[str] | None = None,
    seed: int = 0,
) -> CodedTable:
    """Open a table, guess what its columns are, and code its rows.

    Parameters
    ----------
    data : Table, path, data frame, Arrow table or Dask DataFrame
    target : str, optional
        The column of the targets.
    exclude, categorical, numeric, date, id : sequences of str, optional
        Columns that are left out, and what others are.
    seed : int
        Of the hashes.

    Returns
    -------
    CodedTable

    Raises
    ------
    InputError
        There are no such columns, they cannot be what they are said to be, or some hold free text.
    """
    table = data if isinstance(data, Table) else open_table(data, target=target, exclude=exclude)
    if isinstance(data, Table) and (target is not None or exclude):
        raise InputError("the target and the columns of a Table are chosen by open_table; give them to that")
    said = as_said(table.schema.names, categorical, date, id, numeric)
    schema, kinds = describe_columns(table, said)
    encoder = TableEncoder(
        schema=schema.spec(), columns={kind.name: kind.kind for kind in kinds}, random_state=seed
    )
    return CodedTable(table.rows(schema), table.y, encoder, kinds)
