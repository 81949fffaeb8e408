"""Any rows into a row store, in their order: resumable, out of core."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from distrf import __version__

from .errors import InputError, SpecMismatchError, first_entry, first_not_finite
from .parameters import COLUMNS, FLAG, NONE, one_of, ruled, whole
from .progress import current_listener
from .store import file_lists, files, writer
from .store.csv_format import reads_csv, said_format
from .store.formats import find_format, open_source, read_as
from .store.matrix_files import SVMLIGHT
from .store.outputs import check_apart, hold
from .store.row_source import RowSource, Selection, joined
from .store.spec import content_of_files, fingerprint_of_spec
from .store.writer import existing_store
from .store.zarr_arrays import open_nodes
from .store.zarr_layout import StoreInfo

BLOCK_BYTES = 32 * 2**20
BLOCK_ROWS = 2**17  # rows of narrow or sparse data grow when they are featurised


# Its keyword-only parameters are options of the command too.
@reads_csv
@ruled(
    columns=COLUMNS,
    block_rows=whole(1) | NONE,
    n_features=whole(1) | NONE,
    zero_based=FLAG | NONE,
    dtype=one_of("float32", "float64") | NONE,
)
def ingest(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Sequence[Any] | None = None,
    block_rows: int | None = None,
    dtype: Any = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    overwrite: bool = False,
    append: bool = False,
) -> StoreInfo:
    """Write a table as a row store; run again after an interruption, it resumes.

    Dense rows stay dense, and CSR rows CSR, but for those of which more than a quarter is stored: they become dense.

    Parameters
    ----------
    source : str or PathLike
        A .npy, .npz or .svmlight (.libsvm) file, or what `open_rows` reads: .parquet or .csv (a file, a folder, a
        glob), Zarr. Text may be packed. A few pieces are held in memory; .npz and .svmlight are read whole.
    out : str or PathLike
        The Zarr store to write.
    target : str or None, default=None
        The column of the labels; the member of .npz or the array of a store (y where None is given); the number of
        the column of .npy. An svmlight file has its labels always.
    columns : sequence or None, default=None
        Feature columns, by name or, without names, by number. None takes all.
    block_rows : int or None, default=None
        Rows of a block, at least 1. None takes a power of two near 32 MiB of X, at most 131,072, and about 16 blocks
        or more.
    dtype : {"float32", "float64"} or None, default=None
        Type of X: "float32" or "float64". None is that of the source (CSV and svmlight: float64).
    n_features : int or None, default=None
        Columns of an svmlight file, where its rows have no entry in the last ones: those of the rows that a model was trained
        on. None takes the highest index.
    zero_based : bool or None, default=None
        Whether the indices of an svmlight file count from 0. None: where a 0 occurs; with `append` it must be said.
    overwrite : bool, default=False
        Replace a store of other data or options.
    append : bool, default=False
        Append the rows to the store that is there, in its blocks. The store says how rows are read: columns and
        type, and the options of CSV. Labels that it does not know join its classes.
        Until all is written the store has its old rows, and so it has for those that opened it before.
    {csv}

    Returns
    -------
    StoreInfo
        What the finished store holds.

    Raises
    ------
    InputError
        Infinite values, text features, unknown columns: with the row and the column. A parameter breaks
        its rule.
    SpecMismatchError
        `out` holds a store of other data or options; with `append`, it holds these rows.
    StoreError
        `out` cannot be written.
    """
    source, out = files.normalise(source), files.normalise(out)
    selection = Selection(target=target, columns=columns, n_features=n_features, zero_based=zero_based)
    if append and (overwrite or not all(one is None for one in (columns, block_rows, dtype, n_features))):
        raise InputError(
            "append=True adds rows as the store has them; leave out columns, block_rows, dtype, n_features and overwrite"
        )
    check_apart(out, [source])
    with hold(out):
        existing_store(out)  # refuses a path that holds something else
        if append:
            return _append(source, out, selection)
        return _create(source, out, selection, dtype=dtype, block_rows=block_rows, overwrite=overwrite)


def _part(source: str, selection: Selection) -> dict[str, Any]:
    """What tells the rows of a source from others."""
    found = find_format(source).fingerprint(source), content_of_files(file_lists.all_files(source))
    part = {"name": os.path.basename(source), "fingerprint": fingerprint_of_spec(found)}
    return part | {"target": selection.target, "zero_based": selection.zero_based}


def _create(
    source: str, out: str, selection: Selection, *, dtype: Any, block_rows: int | None, overwrite: bool
) -> StoreInfo:
    """Write the rows of a table as a row store, or go on with it."""
    X = open_source(source, selection)
    y = X.target_source()
    (n, d), dtype, classes = X.shape, np.dtype(dtype or X.dtype), _classes(y)
    sparse = X.sparse and 4 * X.nbytes <= n * d * (X.dtype.itemsize + 4)
    arrays: dict[str, Any] = {"X": ((d,), dtype)}
    if y is not None:
        arrays["y"] = (y.shape[1:], y.dtype if classes is None else np.int32)
    spec: dict[str, Any] = {
        "source": _part(source, selection),
        "columns": None if selection.columns is None else list(selection.columns),
        "csv": said_format(),
    }
    if block_rows is None:
        row_bytes = max(1, X.nbytes // max(1, n) if sparse else d * dtype.itemsize)
        near = max(1, min(BLOCK_ROWS, BLOCK_BYTES // row_bytes, max(4096, n // 16)))
        block_rows = min(max(1, n), 1 << (near.bit_length() - 1))  # a power of two: splits evenly
    contents = StoreInfo.of(
        arrays, n, block_rows, kind="rows", spec=spec, classes=classes, columns=X.columns, target=selection.target,
        sparse=["X"] if sparse else [], provenance={"source": source, "distrf": __version__},
    )  # fmt: skip
    return _write(X, y, writer.create(out, contents, overwrite=overwrite))


def _append(source: str, out: str, selection: Selection) -> StoreInfo:
    """Append the rows of a table to a row store, which says how they are read; see `distrf.ingest`."""
    old = writer.appendable(out)
    spec, svmlight = old.spec, source.endswith(SVMLIGHT)
    if svmlight and selection.zero_based is None:
        raise InputError(
            "rows that are appended count columns as those before, and a 0 need not occur in them; give zero_based=True or False"
        )
    target, columns = selection.target or old.target, old.columns or spec.get("columns")
    # The last columns may have no entry in these rows.
    width = old.arrays["X"].tail[0] if svmlight and columns is None else None
    selection = replace(selection, target=target, columns=columns, n_features=width)
    read_as(spec.get("csv", {}), source)
    part = _part(source, selection)  # before it is read
    X = open_source(source, selection)
    y = X.target_source()
    n, classes = X.shape[0], _classes(y)
    _check_alike(old, X, y, classes)
    parts = spec.get("parts") or [{"fingerprint": old.versions[0], "rows": old.n_rows}]
    if part["fingerprint"] in {other.get("fingerprint") for other in (spec.get("source") or {}, *parts)}:
        raise SpecMismatchError(f"{out!r} has these rows already, and would have them twice; append others")
    spec = spec | {"parts": [*parts, {**part, "rows": n}]}
    classes = None if classes is None else list(dict.fromkeys([*(old.classes or ()), *classes]))
    longer = replace(old, n_rows=old.n_rows + n, spec=spec, classes=classes)
    return _write(X, y, writer.begin_append(out, longer))


def _classes(y: RowSource | None) -> list[str] | None:
    """The sorted texts of a target, by one pass over it where its source does not know them; None for other targets."""
    if y is None or y.dtype.kind != "U":
        return None
    return sorted(y.classes or set().union(*(np.unique(rows.read(a, b)).tolist() for rows, a, b in y.blocks())))


def _check_alike(old: StoreInfo, X: RowSource, y: RowSource | None, classes: list[str] | None) -> None:
    """Raise InputError for rows that cannot stand behind those of a store."""
    if X.shape[0] < 1:
        raise InputError(f"an append has at least one row, got {X.shape[0]}")
    has: dict[str, Any] = {name: item.tail for name, item in old.arrays.items()}
    new: dict[str, Any] = {"X": X.shape[1:]} | ({} if y is None else {"y": y.shape[1:]})
    for arrays, names in ((has, old.classes), (new, classes)):
        arrays["labels"] = "numbers" if names is None else "text"
    if has != new:
        raise InputError(
            f"rows of {old.path!r} have arrays of the shapes {has}, the new ones {new}; convert them first"
        )


def _write(X: RowSource, y: RowSource | None, info: StoreInfo) -> StoreInfo:
    """Write the pending blocks of a store, or of an append to it, and finish it."""
    pending, before, n = info.pending, info.first_row or 0, X.shape[0]
    listener, label = current_listener(), "ingest" if info.first_row is None else "append"
    if pending:
        low, high = info.bounds(pending[0])[0], info.bounds(pending[-1])[1]
        pieces = _pieces(X, y, info, max(low - before, 0), high - before)
        if low < before:  # the old rows of the block that an append begins with
            with files.reading(info.path, "rows of a store"):
                pieces = chain([[node[low:before] for node in open_nodes(info).values()]], pieces)
        for index, arrays in _cut(pieces, info, range(pending[0], pending[-1] + 1)):
            if index in pending:
                block = dict(zip(info.arrays, arrays, strict=True))
                writer.write_block(info.path, index, block, store_id=info.id)
            if listener is not None:
                listener(label, info.bounds(index)[1] - before, n)
    return writer.finish(info.path, store_id=info.id)


def _cut(pieces: Iterator[list[Any]], info: StoreInfo, blocks: range) -> Iterator[tuple[int, list[Any]]]:
    """The rows of pieces of any size as blocks, each behind its number; then the pieces are asked whether that were all."""
    held: list[list[Any]] = []
    for index in blocks:
        first, last = info.bounds(index)
        while sum(piece[0].shape[0] for piece in held) < last - first:
            held.append(next(pieces))
        rows = [joined(parts) for parts in zip(*held, strict=True)]
        yield index, [array[: last - first] for array in rows]
        held = [[array[last - first :] for array in rows]]
    for _ in pieces:
        pass


def _pieces(X: RowSource, y: RowSource | None, info: StoreInfo, first: int, last: int) -> Iterator[list[Any]]:
    """Rows as a store keeps them, X and y where there is one, in pieces of at most a block."""
    sources = [X] if y is None else [X, y]
    for piece in zip(*(source.pieces(first, last, info.block_rows) for source in sources), strict=True):
        yield _checked(X, info, first, *piece)
        first += piece[0].shape[0]
    if first != last:
        raise InputError(
            f"the source changed while it was read: row {first} of {last} was its last; start again"
        )


def _checked(source: RowSource, info: StoreInfo, first: int, X: Any, y: Any = None) -> list[Any]:
    """Rows from `first` on as a store keeps them. Raises InputError at a value that is not finite."""
    sparse, dtype = info.arrays["X"].sparse, np.dtype(info.arrays["X"].dtype)
    X = sp.csr_array(X) if sparse else X.toarray() if sp.issparse(X) else X
    if dtype.kind == "f":
        with np.errstate(over="ignore"):  # an overflow is reported with its row
            X = X.astype(dtype, copy=False)
    if sparse:
        bad = first_not_finite(X)
    else:  # NaN of dense rows are missing values
        infinite = np.isinf(X)
        bad = first_entry(X, infinite) if infinite.any() else None
    if bad is not None:
        i, j, value = bad
        name = f" ({source.columns[j]!r})" if source.columns else ""
        raise InputError(
            f"values must be finite; row {first + i}, column {j}{name} is {value} in {dtype}; clean the data"
        )
    if y is None:
        return [X]
    if info.classes is not None:
        names = np.asarray(info.classes)
        order = np.argsort(names)  # those of an append come last
        y = order[np.searchsorted(names, y, sorter=order)].astype(np.int32)
    if bad := first_not_finite(y):
        raise InputError(f"targets must be finite; row {first + bad[0]} has NaN or infinity; remove the row")
    return [X, y]
