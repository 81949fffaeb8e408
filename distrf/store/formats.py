"""Rows of any format where they lie: which source opens a path, what it says of itself, and how its blocks are read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..errors import InputError, StoreError
from . import files
from .csv_format import USUAL, CsvFormat, current_format, said_format, set_format
from .csv_source import CsvSource
from .files import Options
from .matrix_files import MatrixSource
from .row_source import RowReader, RowsInfo, RowSource, Selection
from .svmlight_source import SvmlightSource
from .table_source import TableSource
from .zarr_source import ZarrSource

#: Formats from outside the package, the latest first. They are asked before Parquet and CSV.
REGISTERED: list[type[RowSource]] = []


def register_format(source: type[RowSource]) -> type[RowSource]:
    """Add a format of rows, which is asked before those that are there; may decorate the class.

    Parameters
    ----------
    source : subclass of RowSource
        Workers import its module, or get it by value where it stands in ``__main__``.

    Returns
    -------
    type
        The class.
    """
    REGISTERED.insert(0, source)
    return source


def find_format(path: str | os.PathLike[str]) -> type[RowSource]:
    """The source class that opens a path; Zarr's where none recognises it, since its errors say what is missing.

    Parameters
    ----------
    path : path or URL

    Returns
    -------
    subclass of RowSource

    Raises
    ------
    StoreError
        The path is a folder far above any data, such as the root.
    """
    path = files.normalise(path)
    asked: list[type[RowSource]] = [*REGISTERED, MatrixSource, SvmlightSource, TableSource, CsvSource]
    return next((source for source in asked if source.recognises(path)), ZarrSource)


@files.explains
def open_source(path: str | os.PathLike[str], selection: Selection) -> RowSource:
    """X at a path or URL, whatever its format.

    Parameters
    ----------
    path : path or URL
    selection : Selection
        Columns, target and blocks that are wanted.

    Returns
    -------
    RowSource
        X; its `target_source` is y.

    Raises
    ------
    StoreError
        Nothing can be read there.
    InputError
        The place has no such columns or target.
    """
    path = files.normalise(path)
    source = find_format(path)
    if source is SvmlightSource and not selection.in_order:
        raise InputError(
            f"the rows of {path!r} can only be read from the first to the last; make a store of them with `distrf ingest`"
        )
    others = [name for name in ("split", "n_features", "zero_based") if getattr(selection, name) is not None]
    if unknown := [name for name in others if name not in source.options]:
        raise InputError(
            f"split= chooses the members of an .npz file, n_features= and zero_based= are of svmlight text; received "
            f"{unknown[0]}={getattr(selection, unknown[0])!r} for {path!r}"
        )
    if current_format() != USUAL and source is not CsvSource and source not in REGISTERED:
        raise InputError(f"sep=, header= and the like say how CSV is read; {path!r} is none; leave them out")
    fs, root = files.filesystem(path)
    if source is ZarrSource and not files.is_web(path) and fs.isfile(root):
        raise StoreError(
            f"the format of {path!r} is not known; it is told by the name: .parquet, .csv, .tsv (or a folder of such "
            "files), .txt, .data, each of these .gz, .bz2, .xz, .zip or .zst too, .npy, .npz, .svmlight, .libsvm, or it is a Zarr "
            "store or a registered format; where an option such as sep= says how it is read, it is CSV"
        )
    return source.open(path, selection)


def read_as(known: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Read a CSV as that of a model's training, until the function ends that runs, but for what it was told otherwise.

    Parameters
    ----------
    known : mapping
        Of `csv_format.said_format`.
    path : str or PathLike
        Of the rows; nothing changes where these are no text.
    """
    if not known:
        return
    with suppress(InputError, StoreError):  # of a name that no format has: text, then
        if find_format(path) is not CsvSource:
            return
    set_format(CsvFormat(**{**known, **said_format()}))


def fingerprint(path: str | os.PathLike[str]) -> str:
    """The same text for a copy of the data, and another for other data, as far as sizes and edges tell.

    Of a store of distrf it tells what the store was made from; of another Zarr store its path and metadata (chunks
    rewritten in place do not show); of files their sizes and their first and last 64 KiB.

    Parameters
    ----------
    path : path or URL

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    path = files.normalise(path)
    return find_format(path).fingerprint(path)


def part_fingerprints(path: str | os.PathLike[str]) -> list[tuple[str, int]]:
    """`fingerprint` of each part of the data: of each file of Parquet, and of the rows of each append to a store.

    Parameters
    ----------
    path : path or URL

    Returns
    -------
    list of (str, int)
        Fingerprint and rows, in the order of the rows.
    """
    path = files.normalise(path)
    return find_format(path).part_fingerprints(path)


def facts(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What ``distrf inspect`` shows of rows that distrf did not write, as JSON.

    Parameters
    ----------
    path : path or URL

    Returns
    -------
    dict
        ``kind``, and what the format says.

    Raises
    ------
    StoreError
        Nothing can be read there.
    """
    path = files.normalise(path)
    return find_format(path).facts(path)


def open_weighted(
    path: str | os.PathLike[str], weight: str | None, selection: Selection
) -> tuple[RowSource, RowSource | None]:
    """The rows at a path, and the weights beside them.

    Parameters
    ----------
    path : path or URL
    weight : str or None
        A column of a table; an array of a Zarr store, or a named column of its X. The rows are without that column.
    selection : Selection
        Of the rows.

    Returns
    -------
    RowSource
        The rows.
    RowSource or None
        The weights, shape (n,) or (n, 1).

    Raises
    ------
    InputError, StoreError
        There are no such weights, they are no numbers or not one for each row, or they are the target or among `columns`.
    """
    source = open_source(path, selection)
    if weight is None:
        return source, None
    names = list(source.columns or [])
    for what, there in (
        ("the target", weight in (selection.target, source.target)),
        ("among columns=", weight in (selection.columns or ())),
    ):
        if there:
            raise InputError(f"the weight {weight!r} is {what}; give another column, or leave it out there")
    weights = source.column_source(weight)
    if weights.dtype.kind not in "fiub":
        raise InputError(
            f"a weight is one number for each row; {weight!r} has shape {weights.shape} and dtype {weights.dtype}; give another column"
        )
    if weight in names:
        source = open_source(path, replace(selection, columns=[name for name in names if name != weight]))
    return source, weights


def describe(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Sequence[str] | Sequence[int] | None = None,
    rows_per_block: int | None = None,
    storage_options: Options = None,
) -> RowsInfo:
    """Rows, columns, dtype and blocks of a data set, without reading data.

    Parameters
    ----------
    path, target, columns, rows_per_block, storage_options
        As of `distrf.open_rows`.

    Returns
    -------
    RowsInfo

    Raises
    ------
    StoreError
        Nothing can be read there.
    InputError
        There are no such columns.
    """
    selection = Selection(target=target, columns=columns, rows_per_block=rows_per_block)
    return open_source(files.normalise(path, storage_options), selection).info


def read_block(block: tuple[RowReader, int, int]) -> Any:
    """The rows of a block, as its one task.

    Parameters
    ----------
    block : (RowReader, int, int)
        Who reads, the first row, and the row after the last.

    Returns
    -------
    array of shape (last - first, ...) or csr_array
    """
    reader, first, last = block
    return reader.read(first, last)
