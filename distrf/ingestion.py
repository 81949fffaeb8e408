"""Any rows into a row store: resumable, and shuffled on request, out of core.

In the shuffle row i gets the i-th raw Philox word; the new order sorts by (word, i). So it depends on the seed and the row index
alone. Rows are scattered into a few buckets by ranges of their words, each bucket again while it is too large, and then sorted. A
bucket is one file, which is opened once to be written: files grow with the rows, at most `FAN_OUT` are open, and the rows
are written as often as their bytes have levels, twice for 128 GiB.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from distrf import __version__

from .errors import InputError, SpecMismatchError, first_entry, first_not_finite
from .parameters import COLUMNS, FLAG, NONE, one_of, ruled, whole
from .progress import current_listener
from .randomness import row_words
from .store import file_lists, files, writer
from .store.csv_format import reads_csv, said_format
from .store.formats import find_format, open_source, read_as
from .store.matrix_files import SvmlightSource
from .store.outputs import check_apart, hold
from .store.row_source import RowSource, Selection, joined
from .store.spec import content_of_files, fingerprint_of_spec
from .store.writer import existing_store
from .store.zarr_arrays import open_nodes
from .store.zarr_layout import StoreInfo

BLOCK_BYTES = 32 * 2**20
BLOCK_ROWS = 2**17  # rows of narrow or sparse data grow when they are featurised
PIECE_BYTES = 8 * 2**20
BUCKET_BYTES = 32 * 2**20
FAN_OUT = 64

#: Words, row numbers, X, and y where there is one.
_Record = list[Any]
#: The arrays of a store for some rows: X, and y where there is one.
Pieces = Generator[Sequence[Any], None, None]


# Its keyword-only parameters are options of the command too.
@reads_csv
@ruled(
    columns=COLUMNS,
    seed=whole(0),
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
    shuffle: bool = False,
    seed: int = 0,
    block_rows: int | None = None,
    dtype: Any = None,
    split: str | None = None,
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
        glob), a Zarr store. Text may be packed. A few pieces are held in memory; members of
        .npz are read whole.
    out : str or PathLike
        The Zarr store to write.
    target : str or None, default=None
        The column of the labels; the member of .npz or the array of Zarr (y where None is given); the number of
        the column of .npy. An svmlight file has its labels always.
    columns : sequence or None, default=None
        Feature columns, by name or, without names, by number. None takes all.
    shuffle : bool, default=False
        Shuffle all rows (files sorted by date or class). Their order depends on `seed` and the row numbers alone.
    seed : int, default=0
        Seed of the shuffle.
    block_rows : int or None, default=None
        Rows of a block, at least 1. None takes a power of two near 32 MiB of X, at most 131,072, and about 16 blocks
        or more.
    dtype : {"float32", "float64"} or None, default=None
        Type of X: "float32" or "float64". None is that of the source (CSV and svmlight: float64).
    split : str or None, default=None
        Which members of an .npz file: "train" reads X_train and y_train, "test" X_test and y_test.
    n_features : int or None, default=None
        Columns of an svmlight file, where its rows have no entry in the last ones: those of the rows that a model was trained
        on. None takes the highest index.
    zero_based : bool or None, default=None
        Whether the indices of an svmlight file count from 0. None: where a 0 occurs, and as those of the store with `append`.
    overwrite : bool, default=False
        Replace a store of other data or options.
    append : bool, default=False
        Append the rows to the store that is there, in its blocks. The store says how rows are read: columns and
        type, and the options of CSV. Labels that it does not know join its classes; `shuffle` orders the new rows alone.
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
    order = int(seed) if shuffle else None
    selection = Selection(
        target=target, columns=columns, split=split, n_features=n_features, zero_based=zero_based
    )
    if append and (overwrite or not all(one is None for one in (columns, block_rows, dtype, n_features))):
        raise InputError(
            "append=True adds rows as the store has them; leave out columns, block_rows, dtype, n_features and overwrite"
        )
    check_apart(out, [source])
    with hold(out):
        existing_store(out)  # refuses a path that holds something else
        if append:
            return _append(source, out, selection, order)
        return _create(source, out, selection, order, dtype=dtype, block_rows=block_rows, overwrite=overwrite)


def _part(source: str, selection: Selection, order: int | None) -> dict[str, Any]:
    """What tells the rows of a source from others: of an archive those of a split."""
    found = find_format(source).fingerprint(source), content_of_files(file_lists.all_files(source))
    return {
        "name": os.path.basename(source),
        "fingerprint": fingerprint_of_spec([*found, selection.split]),
        "target": selection.target,
        "shuffle": None if order is None else {"seed": order},
    }


def _create(
    source: str, out: str, selection: Selection, order: int | None, *,
    dtype: Any, block_rows: int | None, overwrite: bool,
) -> StoreInfo:  # fmt: skip
    """Write the rows of a table as a row store, or go on with it."""
    X = open_source(source, selection)
    y = X.target_source()
    (n, d), dtype, classes = X.shape, np.dtype(dtype or X.dtype), _classes(y)
    sparse = X.sparse and 4 * X.nbytes <= n * d * (X.dtype.itemsize + 4)
    arrays: dict[str, Any] = {"X": ((d,), dtype)}
    if y is not None:
        arrays["y"] = (y.shape[1:], y.dtype if classes is None else np.int32)
    spec: dict[str, Any] = {
        "source": _part(source, selection, order),
        "columns": None if selection.columns is None else list(selection.columns),
        "zero_based": getattr(X, "zero_based", None),  # how text is read, for an append
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
    return _write(X, y, writer.create(out, contents, overwrite=overwrite), order)


def _append(source: str, out: str, selection: Selection, order: int | None) -> StoreInfo:
    """Append the rows of a table to a row store, which says how they are read; see `distrf.ingest`."""
    old = writer.appendable(out)
    spec, svmlight, counted = old.spec, SvmlightSource.recognises(source), selection.zero_based
    if counted is None and svmlight:
        if spec.get("zero_based") is None:
            raise InputError(
                f"{old.path!r} does not say how indices of svmlight text are counted, since it was made from other files; give "
                "zero_based=True or False"
            )
        counted = spec["zero_based"]
    target, columns = selection.target or old.target, old.columns or spec.get("columns")
    width = old.arrays["X"].tail[0] if svmlight else None  # the last columns may have no entry in these rows
    selection = replace(selection, target=target, columns=columns, zero_based=counted, n_features=width)
    read_as(spec.get("csv", {}), source)
    part = _part(source, selection, order)  # before it is read
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
    return _write(X, y, writer.begin_append(out, longer), order)


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


def _write(X: RowSource, y: RowSource | None, info: StoreInfo, seed: int | None) -> StoreInfo:
    """Write the pending blocks of a store, or of an append to it, and finish it. `seed` is of the order of the rows."""
    pending, n = set(info.pending), X.shape[0]
    if pending:
        listener, label = current_listener(), "ingest" if info.first_row is None else "append"
        pieces = _pieces(X, y, info)
        if seed is not None:
            pieces = shuffled(pieces, X.nbytes + 16 * n, seed, scratch_of(info.path))
        with closing(_with_old_rows(info, pieces)) as pieces:
            for index, arrays in enumerate(reblock(pieces, info.block_rows), info.first_block):
                if index in pending:
                    block = dict(zip(info.arrays, arrays, strict=True))
                    writer.write_block(info.path, index, block, store_id=info.id)
                if listener is not None:
                    listener(label, info.bounds(index)[1] - (info.first_row or 0), n)
    return writer.finish(info.path, store_id=info.id)


def _pieces(source: RowSource, labels: RowSource | None, info: StoreInfo) -> Pieces:
    """Rows as a store keeps them, in pieces of any size.

    Raises InputError at a value that is not finite, or if rows are missing at the end.
    """
    row, sparse, dtype = 0, info.arrays["X"].sparse, np.dtype(info.arrays["X"].dtype)
    names = np.asarray(info.classes or [])
    order = np.argsort(names)  # those of an append come last
    wanted = max(1, PIECE_BYTES // (source.shape[1] * dtype.itemsize))
    for X, y in source.stream(labels, wanted):
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
                f"values must be finite; row {row + i}, column {j}{name} is {value} in {dtype}; clean the data"
            )
        if y is not None and info.classes is not None:
            y = order[np.searchsorted(names, y, sorter=order)].astype(np.int32)
        if y is not None and (bad := first_not_finite(y)):
            raise InputError(f"targets must be finite; row {row + bad[0]} has NaN or infinity; remove the row")
        row += X.shape[0]
        yield [X] if y is None else [X, y]
    if row != source.shape[0]:
        raise InputError(
            f"the source changed while it was read: {source.shape[0]} rows were counted, {row} were read; start again"
        )


def _with_old_rows(info: StoreInfo, pieces: Pieces) -> Pieces:
    """Pieces; before those of an append the old rows of the block that it begins with."""
    start, stop = info.first_block * info.block_rows, info.first_row or 0
    if start < stop:
        with files.reading(info.path, "rows of a store"):
            old: list[Any] = [node[start:stop] for node in open_nodes(info).values()]
        yield old
    with closing(pieces):
        yield from pieces


def reblock(pieces: Pieces, block_rows: int) -> Iterator[Sequence[Any]]:
    """Pieces of any size as blocks of `block_rows` rows, the last one shorter."""
    held: list[Sequence[Any]] = []
    left = block_rows
    for piece in pieces:
        while piece[0].shape[0]:
            held.append([array[:left] for array in piece])
            piece = [array[left:] for array in piece]
            left -= held[-1][0].shape[0]
            if not left:
                yield _joined(held)
                held, left = [], block_rows
    if held:
        yield _joined(held)


def _joined(pieces: Sequence[Sequence[Any]]) -> list[Any]:
    return [joined(arrays) for arrays in zip(*pieces, strict=True)]


def shuffled(pieces: Pieces, n_bytes: int, seed: int, folder: str) -> Pieces:
    """The rows in a random order, which depends on the seed and the row numbers alone.

    Parameters
    ----------
    pieces : iterator of the arrays of some rows
    n_bytes : int
        Of all rows, about.
    seed : int
    folder : str
        Local folder of the buckets: about as large as the rows, removed after reading.

    Yields
    ------
    list of arrays
    """

    def records() -> Iterator[_Record]:
        row = 0
        for piece in pieces:
            last = row + piece[0].shape[0]
            yield [row_words(seed, row, last), np.arange(row, last), *piece]
            row = last

    files.remove(folder)  # what a killed process left
    os.makedirs(folder)
    try:
        for words, numbers, *arrays in _sorted(records(), n_bytes, (0, 1 << 64), f"{folder}/0"):
            order = np.lexsort((numbers, words))
            yield [array[order] for array in arrays]
    finally:
        files.remove(folder)


def _sorted(records: Iterator[_Record], n_bytes: int, words: tuple[int, int], place: str) -> Iterator[_Record]:
    """The rows in parts whose words rise from part to part; `words` are below the second and not below the first."""
    low, high = words
    if n_bytes <= 2 * BUCKET_BYTES or high - low < FAN_OUT:
        found = list(records)
        if found:
            yield _joined(found)
        return
    count = min(FAN_OUT, -(-n_bytes // BUCKET_BYTES))
    edges = [low + (high - low) * b // count for b in range(count + 1)]
    with ExitStack() as stack:
        buckets = [stack.enter_context(open(f"{place}-{b}", "wb")) for b in range(count)]
        for record in records:
            bucket_of: Any = np.searchsorted(np.array(edges[1:-1], np.uint64), record[0], side="right")
            order = np.argsort(bucket_of, kind="stable")
            cuts = np.searchsorted(bucket_of[order], np.arange(count + 1))
            for bucket in np.flatnonzero(np.diff(cuts)).tolist():
                for array in record:
                    _put(buckets[bucket], array[order[cuts[bucket] : cuts[bucket + 1]]])
    for b in range(count):
        name = f"{place}-{b}"
        size = os.path.getsize(name)
        yield from _sorted(_read(name, record), size, (edges[b], edges[b + 1]), name)


def _put(file: Any, array: Any) -> None:
    """Append an array to a file, of CSR rows their three arrays."""
    for part in (array.data, array.indices, array.indptr) if sp.issparse(array) else (array,):
        np.save(file, part, allow_pickle=False)


def _read(name: str, like: _Record) -> Iterator[_Record]:
    """The records of a bucket, whose arrays are as those of another record; it is removed after the last."""
    with open(name, "rb") as file:
        while file.peek(1):
            record: _Record = []
            for array in like:
                if sp.issparse(array):
                    parts = tuple(np.load(file) for _ in range(3))
                    record.append(sp.csr_array(parts, shape=(len(parts[2]) - 1, array.shape[1])))
                else:
                    record.append(np.load(file))
            yield record
    os.unlink(name)


def scratch_of(out: str) -> str:
    """The folder in which rows of an output are shuffled: beside it and named after it, so that the next call removes what a killed one left."""
    folder, base = os.path.split(out)
    if not files.is_local(out):
        folder, base = tempfile.gettempdir(), hashlib.sha256(out.encode()).hexdigest()[:16]
    return os.path.join(folder, f".{base}.shuffle")
