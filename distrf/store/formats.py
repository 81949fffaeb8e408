"""Rows of any format where they lie: which source opens a path, what it says of itself, and how its blocks are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..errors import InputError, StoreError
from . import files
from .csv_format import USUAL, CsvFormat, current_format, said_format, set_format
from .csv_source import CsvSource
from .matrix_files import SVMLIGHT, MatrixSource
from .row_source import RowReader, RowSource, Selection
from .table_source import TableSource

#: The formats that names tell.
_NAMED: tuple[type[RowSource], ...] = (MatrixSource, TableSource, CsvSource)


def find_format(path: str | os.PathLike[str]) -> type[RowSource]:
    """The source class that opens a path; that of our stores where none recognises it, since its errors say what is missing.

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
    for source in _NAMED:
        if source.recognises(path):
            return source
    from .zarr_foreign import ForeignSource  # Zarr takes a fifth of a second to import
    from .zarr_source import ZarrSource

    return ForeignSource if ForeignSource.recognises(path) else ZarrSource


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
    if (selection.n_features, selection.zero_based) != (None, None) and not path.endswith(SVMLIGHT):
        raise InputError(f"n_features= and zero_based= are of svmlight text; {path!r} is none; leave them out")
    if current_format() != USUAL and source is not CsvSource:
        raise InputError(f"sep=, header= and the like say how CSV is read; {path!r} is none; leave them out")
    if source not in _NAMED and not files.is_web(path) and files.is_file(path):
        raise StoreError(
            f"the format of {path!r} is not known; it is told by the name: .parquet, .csv, .tsv (or a folder of such "
            "files), .txt, .data, each of these .gz, .bz2, .xz, .zip or .zst too, .npy, .npz, .svmlight, .libsvm, or it is a Zarr "
            "store; where an option such as sep= says how it is read, it is CSV"
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
    with suppress(InputError, StoreError):  # of a name that no format has: text, then
        if not known or find_format(path) is not CsvSource:
            return
    set_format(CsvFormat(**{**known, **said_format()}))


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
