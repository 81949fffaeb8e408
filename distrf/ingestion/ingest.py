"""Any table into a row store: Parquet, CSV, .npy, .npz, svmlight; resumable, and shuffled on request."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distrf import __version__

from ..errors import InputError, StoreError
from ..store import files, zarr_writer
from ..store.files import Options
from ..store.formats import fingerprint
from ..store.overlap import check_apart
from ..store.parquet_source import ParquetSource
from ..store.row_source import Selection
from ..store.zarr_contents import Contents
from ..store.zarr_layout import StoreInfo
from ..store.zarr_writer import existing_store
from . import streams
from .numpy_files import npy_stream, npz_stream
from .shuffle import shuffled
from .streams import Batches, RowStream
from .text_files import csv_stream, svmlight_stream

BLOCK_BYTES = 32 * 2**20
BLOCK_ROWS = 2**17  # rows of narrow or sparse data grow when they are featurised
_TEXT = (".csv", ".csv.gz")
_SVMLIGHT = (".svmlight", ".libsvm", ".svm", ".svmlight.gz", ".libsvm.gz", ".svm.gz")


def ingest(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Sequence[Any] | None = None,
    sparse: str | None = None,
    shuffle: bool = False,
    seed: int = 0,
    block_rows: int | None = None,
    dtype: Any = None,
    impute: str | float | None = None,
    split: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    overwrite: bool = False,
    storage_options: Options = None,
) -> StoreInfo:
    """Write a table as a row store; run again after an interruption, it resumes.

    Parameters
    ----------
    source : path or URL
        ``.parquet`` (file, folder, glob), ``.csv``, ``.npy``, ``.npz``, ``.svmlight`` / ``.libsvm``; text may be
        gzipped. A few batches are held in memory; members of ``.npz`` are read whole.
    target : column of the labels (``.npz``: member, default y; ``.npy``: column number; svmlight: always there).
    columns : which feature columns, by name or, without names, by number.
    sparse : "csr", "dense" or None
        None keeps dense sources dense and ``.npz`` CSR sparse; svmlight is CSR below one quarter of nonzeros.
    shuffle : bool
        Random order of all rows, which depends on ``seed`` and the row numbers alone.
    block_rows : int, optional
        Default: a power of two near 32 MiB of X, at most 131,072, and about 16 blocks or more.
    dtype : float32 or float64, optional
        Default: that of the source (CSV and svmlight: float64).
    impute : "mean", "median", "zero" or a number: what replaces missing values; they are refused otherwise.
    split : "train", "test": which members of an ``.npz`` file.
    progress : called as ``progress(rows_done, n_rows)`` after each block.
    overwrite : replace a store of other data or options.
    storage_options : of fsspec, for URLs.

    Raises
    ------
    InputError
        Missing or infinite values, text features, unknown columns: with the row and the column.
    SpecMismatchError
        ``out`` holds a store of other data or options.
    """
    source, out = files.normalise(source), files.normalise(out)
    files.refuse_root(source)
    check_apart(out, [source], storage_options=storage_options)
    existing_store(out, storage_options=storage_options)  # of others: refused now
    if sparse not in (None, "csr", "dense"):
        raise InputError(f'sparse= is "csr", "dense" or None; received {sparse!r}')
    stream = _open_source(source, target, columns, split, impute is not None, storage_options)
    stream = _as_stored(stream, sparse)
    values = None
    if impute is not None:
        stream, values = streams.fill(stream, impute)
    if dtype is not None:
        stream = streams.cast(stream, dtype)
    if block_rows is None:
        near = max(1, min(BLOCK_ROWS, BLOCK_BYTES // stream.row_bytes(), max(4096, stream.n_rows // 16)))
        block_rows = min(stream.n_rows, 1 << (near.bit_length() - 1))  # a power of two: splits evenly
    spec = {
        "source": {
            "name": os.path.basename(source),
            "fingerprint": fingerprint(source, storage_options=storage_options),
        },
        "target": target,
        "columns": None if columns is None else list(columns),
        "split": split,
        "impute": values,
        "shuffle": {"seed": int(seed)} if shuffle else None,
    }
    arrays: dict[str, tuple[tuple[int, ...], Any]] = {"X": ((stream.n_columns,), stream.dtype)}
    if stream.y_dtype is not None:
        arrays["y"] = (stream.y_tail, stream.y_dtype)
    contents = Contents(
        arrays, stream.n_rows, block_rows, kind="rows", spec=spec, classes=stream.classes, columns=stream.columns,
        target=target, sparse=["X"] if stream.sparse else [],
    )  # fmt: skip
    info = zarr_writer.create(
        out, contents, provenance={"source": source, "distrf": __version__}, storage_options=storage_options,
        overwrite=overwrite,
    )  # fmt: skip
    if info.pending:
        stream = streams.checked(stream)
        if shuffle:
            stream = shuffled(stream, int(seed), _scratch(out))
        _write(stream, info, progress, storage_options)
    return zarr_writer.finish(out, storage_options=storage_options)


def _write(
    stream: RowStream, info: StoreInfo, progress: Callable[[int, int], None] | None, storage_options: Options
) -> None:
    pending = set(zarr_writer.pending_blocks(info.path, storage_options=storage_options))
    batches = stream.read()
    try:
        for index, X, y in streams.reblock(batches, info.block_rows):
            if index in pending:
                block = {"X": X} if y is None else {"X": X, "y": y}
                zarr_writer.write_block(info.path, index, block, storage_options=storage_options)
            if progress is not None:
                progress(info.bounds(index)[1], info.n_rows)
    finally:
        batches.close()  # type: ignore[attr-defined]


def _as_stored(stream: RowStream, sparse: str | None) -> RowStream:
    if sparse == "csr":
        return streams.sparsify(stream)
    if sparse == "dense":
        return streams.densify(stream)
    dense_enough = stream.sparse and (stream.stored or 0) * 4 > stream.n_rows * stream.n_columns
    return streams.densify(stream) if dense_enough else stream


def _open_source(
    source: str,
    target: str | None,
    columns: Sequence[Any] | None,
    split: str | None,
    allow_nulls: bool,
    storage_options: Options,
) -> RowStream:
    if split is not None and not source.endswith(".npz"):
        raise InputError(f"split= chooses the members of an .npz file; received split={split!r} for {source!r}")
    if not files.is_glob(source, storage_options):
        files.require(source, storage_options)
    if source.endswith(_TEXT):
        return csv_stream(source, target, columns, allow_nulls, storage_options)
    if source.endswith(".npz"):
        return npz_stream(source, target, columns, split, storage_options)
    if source.endswith(".npy"):
        return npy_stream(source, target, columns, storage_options)
    if source.endswith(_SVMLIGHT):
        if target is not None or columns is not None:
            raise InputError("svmlight has one label and no column names; leave out target= and columns=")
        return svmlight_stream(source, storage_options)
    if ParquetSource.recognises(source, storage_options):
        return _parquet_stream(source, target, columns, allow_nulls, storage_options)
    raise StoreError(
        f"the format of {source!r} is not known; it is told by the name: .parquet (or a folder of such files), "
        ".csv, .csv.gz, .npy, .npz, .svmlight, .libsvm"
    )


def _parquet_stream(
    source: str, target: str | None, columns: Sequence[Any] | None, allow_nulls: bool, storage_options: Options
) -> RowStream:
    # Missing values arrive as NaN and are filled by the common step, which needs a float dtype.
    selection = Selection(target=target, columns=columns, missing=allow_nulls, storage_options=storage_options)
    X = ParquetSource.open(source, selection)
    if allow_nulls:
        X = X.filled((np.nan,) * X.shape[1])
    labels, classes = X.target_source(), X.text_classes()
    y_dtype = None if labels is None else labels.dtype if classes is None else np.dtype(np.int32)
    batch_rows = max(1, streams.BATCH_BYTES // (X.shape[1] * X.dtype.itemsize))

    def read() -> Batches:
        for rows, y in X.stream(labels, batch_rows):
            if y is not None and classes is not None:
                y = np.searchsorted(np.asarray(classes), y).astype(np.int32)
            yield rows, y

    n, d = X.shape
    return RowStream(n, d, X.dtype, read, columns=X.columns, y_dtype=y_dtype, classes=classes)


def _scratch(out: str) -> str:
    """The folder of the shuffle, beside the output and named after it: the next call removes what a killed one left."""
    folder, base = os.path.split(out)
    if not files.is_local(out):
        folder, base = tempfile.gettempdir(), hashlib.sha256(out.encode()).hexdigest()[:16]
    return os.path.join(folder, f".{base}.shuffle")
