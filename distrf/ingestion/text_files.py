"""Row streams of CSV and svmlight text, plain or gzipped, read in pieces; a first pass counts and checks."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import scipy.sparse as sp

from ..errors import InputError, StoreError
from ..store import files
from ..store.files import Options
from ..store.missing_values import null_remedy
from .streams import Pieces, RowStream, TableSelection

PIECE_BYTES = 2**20  # Arrow's CSV reader reads up to 32 batches ahead


@contextmanager
def _open(path: str, storage_options: Options) -> Iterator[Any]:
    fs, root = files.filesystem(path, storage_options)
    with files.reading(path, "text"), fs.open(root, "rb") as raw:
        if path.endswith(".gz"):
            with gzip.GzipFile(fileobj=raw) as file:
                yield file
        else:
            yield raw


# --- CSV -----------------------------------------------------------------------------------------------------


def csv_stream(path: str, selection: TableSelection) -> RowStream:
    """Rows of a CSV file as float64; labels are int64, float64 or text, by what the whole column holds.

    A first line of numbers only is data: the columns are then called f0, f1, ...

    Parameters
    ----------
    path : str
        May end in ``.gz``.
    selection : TableSelection
        Names of the target and of the columns of X, and whether missing values are read as NaN.

    Returns
    -------
    RowStream

    Raises
    ------
    InputError
        There are no such columns, text among the features, or missing values.
    StoreError
        The file is damaged.
    """
    table = _CsvTable.open(path, selection)
    n_rows, labels, classes = _count_and_check(table, selection.missing)
    y_dtype = None if labels is None else np.dtype(np.int32 if classes else labels.to_pandas_dtype())

    def read() -> Pieces:
        for piece in table.pieces():
            X = np.empty((piece.num_rows, len(table.features)))
            for j, name in enumerate(table.features):
                X[:, j] = piece.column(name).cast(pa.float64()).to_numpy()
            y = None
            if classes:
                codes = pc.index_in(piece.column(table.target), value_set=pa.array(classes, pa.string()))
                y = codes.to_numpy().astype(np.int32)
            elif labels is not None:
                y = piece.column(table.target).cast(labels).to_numpy()
            yield X, y

    return RowStream(
        n_rows, len(table.features), np.dtype(np.float64), read, columns=table.features, y_dtype=y_dtype,
        classes=classes,
    )  # fmt: skip


@dataclass(frozen=True)
class _CsvTable:
    """The columns of a CSV file that are read.

    Attributes
    ----------
    path : str
    header : list of str, optional
        Generated names, where the file has no line of names.
    features : list of str
        The columns of X.
    target : str, optional
        The column of the labels.
    kinds : dict of str to pyarrow.DataType
        What each column is read as. Labels are read as text, since only all of them together tell their type.
    storage_options : mapping, optional
        Options of the fsspec file system.
    """

    path: str
    header: list[str] | None
    features: list[str]
    target: str | None
    kinds: dict[str, pa.DataType]
    storage_options: Options

    @classmethod
    def open(cls, path: str, selection: TableSelection) -> _CsvTable:
        """Choose the columns by the first piece; InputError where they, or the target, cannot be used."""
        target, columns = selection.target, selection.columns
        header, types = _csv_header(path, selection.storage_options)
        unknown = [name for name in [*(columns or []), *([target] if target else [])] if name not in types]
        if unknown:
            raise InputError(f"columns {unknown} are not in {path!r}; its columns are {list(types)[:50]}")
        names = [name for name in types if name != target] if columns is None else list(columns)
        if target in names:
            raise InputError(f"the target {target!r} is among columns=; leave it out")
        numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null, pa.types.is_boolean)
        other = [f"{name} ({types[name]})" for name in names if not any(test(types[name]) for test in numeric)]
        if other or not names:
            raise InputError(
                f"features are numbers or booleans; {path!r} has the columns {other[:20]}; choose others with "
                "columns=, name the target with target=, or encode them first"
            )
        kinds = {name: pa.bool_() if pa.types.is_boolean(types[name]) else pa.float64() for name in names}
        if target:
            kinds[target] = pa.string()
        return cls(path, header, names, target or None, kinds, selection.storage_options)

    def pieces(self) -> Iterator[pa.Table]:
        """The columns, a few rows at a time."""
        with _open(self.path, self.storage_options) as file:
            try:
                reader = pa.csv.open_csv(
                    file,
                    read_options=pa.csv.ReadOptions(
                        use_threads=False, block_size=PIECE_BYTES, column_names=self.header
                    ),
                    convert_options=pa.csv.ConvertOptions(
                        column_types=self.kinds, include_columns=list(self.kinds), strings_can_be_null=True
                    ),
                )
                with reader:
                    for batch in reader:
                        yield pa.Table.from_batches([batch])
            except pa.ArrowInvalid as error:
                raise InputError(
                    f"every value of a feature column must be a number; {self.path!r}: {error}; correct the file or "
                    "leave the column out with columns="
                ) from error


def _count_and_check(table: _CsvTable, missing: bool) -> tuple[int, pa.DataType | None, list[str] | None]:
    """Rows; the type of the labels, None without a target; their sorted names, where they are text.

    Takes a pass over the file, and another one for names. Missing labels are refused, and missing values unless they
    are to be read as NaN.
    """
    target, n_rows = table.target, 0
    number, whole = True, True  # whether all labels can be read as float64, and as int64
    for piece in table.pieces():
        if not missing:
            _refuse_nulls(piece, table.features, n_rows)
        if target is not None:
            _refuse_nulls(piece, [target], n_rows, True)
            number = number and _casts(piece.column(target), pa.float64())
            whole = number and whole and _casts(piece.column(target), pa.int64())
        n_rows += piece.num_rows
    if not n_rows:
        raise InputError(f"{table.path!r} has no rows")
    if target is None:
        return n_rows, None, None
    if number:
        return n_rows, pa.int64() if whole else pa.float64(), None
    labels: set[str] = set()
    for piece in table.pieces():
        labels.update(pc.unique(piece.column(target)).to_pylist())
    return n_rows, pa.string(), sorted(labels)


def _csv_header(path: str, storage_options: Options) -> tuple[list[str] | None, dict[str, pa.DataType]]:
    """Generated names if the file has no header line, and the types seen in the first piece."""
    with _open(path, storage_options) as file:
        try:
            options = pa.csv.ReadOptions(use_threads=False, block_size=PIECE_BYTES)
            with pa.csv.open_csv(file, read_options=options) as reader:
                names, types = reader.schema.names, reader.schema.types
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:  # names are decoded here, and need not be text
            raise StoreError(f"{path!r} cannot be read as CSV ({error}); correct the file") from error
    header = [f"f{j}" for j in range(len(names))] if all(_is_float(n) for n in names) else None
    if header is None and len(set(names)) != len(names):
        raise InputError(f"column names are unique; {path!r} has {names[:50]}; rename the columns")
    return header, dict(zip(header or names, types, strict=True))


def _refuse_nulls(table: pa.Table, names: Sequence[str], row: int, target: bool = False) -> None:
    for name in names:
        column = table.column(name)
        if column.null_count:
            bad = row + int(np.argmax(column.is_null().to_numpy()))
            raise InputError(
                f"values may not be missing; row {bad}, column {name!r} is empty; {null_remedy(target)}"
            )


def _casts(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    try:
        column.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# --- svmlight ------------------------------------------------------------------------------------------------


def svmlight_stream(path: str, selection: TableSelection) -> RowStream:
    """CSR rows (float64) of an svmlight / libsvm file; indices count from 1 unless a 0 occurs."""
    if selection.target is not None or selection.columns is not None:
        raise InputError("svmlight has one label and no column names; leave out target= and columns=")
    storage_options = selection.storage_options
    n_rows = stored = 0
    lowest, highest, whole = 2**62, -1, True
    for X, y in _svmlight_pieces(path, None, storage_options):
        if X.nnz:
            lowest, highest = min(lowest, int(X.indices.min())), max(highest, int(X.indices.max()))
        whole = whole and bool(np.isfinite(y).all() and (y == np.rint(y)).all() and np.abs(y).max() < 2**53)
        n_rows, stored = n_rows + X.shape[0], stored + int(X.nnz)
    if highest < 0:
        raise InputError(f"{path!r} has no rows with values")
    base = 1 if lowest > 0 else 0
    width = highest + 1 - base

    def read() -> Pieces:
        for X, y in _svmlight_pieces(path, highest + 1, storage_options):
            rows = sp.csr_array((X.data, X.indices - base, X.indptr), shape=(X.shape[0], width))
            rows.sort_indices()
            yield rows, y.astype(np.int64) if whole else y

    y_dtype = np.dtype(np.int64 if whole else np.float64)
    return RowStream(n_rows, width, np.dtype(np.float64), read, sparse=True, y_dtype=y_dtype, stored=stored)


def _svmlight_pieces(
    path: str, width: int | None, storage_options: Options
) -> Iterator[tuple[Any, np.ndarray]]:
    from sklearn.datasets import load_svmlight_file

    with _open(path, storage_options) as file:
        rest, line = b"", 0
        while True:
            more = file.read(PIECE_BYTES)
            text = rest + more
            cut = text.rfind(b"\n") + 1 if more else len(text)
            lines, rest = text[:cut], text[cut:]
            if lines.strip():
                try:
                    X, y = load_svmlight_file(io.BytesIO(lines), n_features=width, zero_based=True)
                except ValueError as error:
                    last = line + 1 + lines.count(b"\n")
                    raise InputError(
                        f"lines are `label index:value ...` with rising indices; {path!r} breaks this between "
                        f"lines {line + 1} and {last}: {error}"
                    ) from error
                if X.shape[0]:
                    yield X, y
            line += lines.count(b"\n")
            if not more:
                return
