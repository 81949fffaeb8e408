"""Where the rows of `ingest` come from: a reader for each ending of a name, and every format of `distrf.store`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..errors import InputError, StoreError
from ..store import files, formats
from ..store.csv_source import CsvSource
from ..store.row_source import RowSource
from ..store.zarr_source import ZarrSource
from .numpy_files import npy_stream, npz_stream
from .streams import PIECE_BYTES, Pieces, RowStream, TableSelection
from .svmlight import svmlight_stream

#: Readers of files that cannot be read block by block where they lie, by the endings of their names.
READERS: dict[tuple[str, ...], Callable[[str, TableSelection], RowStream]] = {
    (".npy",): npy_stream,
    (".npz",): npz_stream,
    (".svmlight", ".libsvm", ".svm", ".svmlight.gz", ".libsvm.gz", ".svm.gz"): svmlight_stream,
}


def open_stream(path: str, selection: TableSelection) -> RowStream:
    """The rows at a path, whatever its format. A registered format goes before the readers of files.

    Parameters
    ----------
    path : str
        Normalised.
    selection : TableSelection
        Columns, target and split that are wanted.

    Returns
    -------
    RowStream

    Raises
    ------
    StoreError
        Nothing can be read there.
    InputError
        There are no such columns, target or split.
    """
    options = selection.storage_options
    reader = next((reader for endings, reader in READERS.items() if path.endswith(endings)), None)
    if selection.split is not None and reader is not npz_stream:
        raise InputError(
            f"split= chooses the members of an .npz file; received split={selection.split!r} for {path!r}"
        )
    if not files.is_glob(path, options):
        files.require(path, options)
    source = formats.find_format(path, options)
    if reader is not None and source not in formats.REGISTERED:
        return reader(path, selection)
    if source is ZarrSource and not source.recognises(path, options):
        raise StoreError(
            f"the format of {path!r} is not known; it is told by the name: .parquet, .csv, .tsv (or a folder of such "
            "files), .txt, .data, each of these .gz, .bz2, .zst or .xz too, .npy, .npz, .svmlight, .libsvm, or it is a Zarr "
            "store or a registered format; where an option such as sep= says how it is read, it is CSV"
        )
    return source_stream(source.open(path, selection), selection.missing)


def source_stream(X: RowSource, missing: bool) -> RowStream:
    """The rows of a place that `open_rows` reads too; text labels become codes.

    Parameters
    ----------
    X : RowSource
    missing : bool
        Missing values are read as NaN instead of being refused. A later step fills them.

    Returns
    -------
    RowStream
    """
    if missing and not X.sparse and X.dtype.kind == "f":
        X = X.filled((np.nan,) * X.shape[1])
    labels, classes = X.target_source(), X.text_classes()
    for source in (X, labels):
        if source is not None:
            source.check_missing(strict=False)
    if isinstance(X, CsvSource):  # what cannot be read is told before anything is made of the rows
        for _ in X.stream(labels, 1):
            pass
    (n, d), dtype = X.shape, X.dtype
    block_rows = max(1, PIECE_BYTES // (d * dtype.itemsize))

    def read() -> Pieces:
        for rows, y in X.stream(labels, block_rows):
            if y is not None and classes is not None:
                y = np.searchsorted(np.asarray(classes), y).astype(np.int32)
            yield rows, y

    stream = RowStream(n, d, dtype, read, columns=X.columns, classes=classes)
    if labels is not None:
        y_dtype = labels.dtype if classes is None else np.dtype(np.int32)
        stream = replace(stream, y_dtype=y_dtype, y_tail=labels.shape[1:])
    if X.sparse:
        stored = sum(int(rows.nnz) for rows, _ in X.stream(None, block_rows))
        stream = replace(stream, sparse=True, stored=stored)
    return stream
