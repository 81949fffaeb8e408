"""A seeded global shuffle of a row stream, out of core.

Row i gets the i-th raw Philox word; the new order sorts by (word, i). So it depends on the seed and the row
index alone. Rows are scattered into buckets by the leading bits of their words, then sorted bucket by bucket.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from fsspec.implementations.local import LocalFileSystem

from ..store import files
from ..store.random_words import row_words
from .streams import Pieces, RowStream

BUCKET_BYTES = 32 * 2**20


def shuffled(stream: RowStream, seed: int, folder: str) -> RowStream:
    """The rows in a random order, which depends on the seed and the row numbers alone.

    Parameters
    ----------
    stream : RowStream
    seed : int
    folder : str
        Local folder of the buckets: about as large as the rows, removed after reading.

    Returns
    -------
    RowStream
    """

    def read() -> Pieces:
        local = LocalFileSystem()
        files.remove(local, folder)  # what a killed process left
        os.makedirs(folder)
        try:
            count = max(1, -(-stream.n_rows * (stream.row_bytes() + 16) // BUCKET_BYTES))
            _scatter(stream, seed, folder, count)
            for bucket in range(count):
                yield from _sorted_bucket(stream, f"{folder}/{bucket}")
        finally:
            files.remove(local, folder)

    return replace(stream, read=read)


def _scatter(stream: RowStream, seed: int, folder: str, count: int) -> None:
    # Equal ranges of the words, in their order: bucket = floor(word / 2^64 * count), exactly.
    edges = np.array([(b << 64) // count + ((b << 64) % count > 0) for b in range(1, count)], np.uint64)
    row = 0
    for X, y in stream.read():
        words = row_words(seed, row, row + X.shape[0])
        buckets = np.searchsorted(edges, words, side="right")
        order = np.argsort(buckets, kind="stable")
        cuts = np.searchsorted(buckets[order], np.arange(count + 1))
        for bucket in np.flatnonzero(np.diff(cuts)):
            chosen = order[cuts[bucket] : cuts[bucket + 1]]
            columns = {"words": words[chosen], "rows": (row + chosen).astype(np.int64), **_columns(X[chosen])}
            if y is not None:
                columns["y"] = y[chosen]
            for name, values in columns.items():
                with open(f"{folder}/{bucket}.{name}", "ab") as file:
                    file.write(np.ascontiguousarray(values).data)
        row += X.shape[0]


def _sorted_bucket(stream: RowStream, base: str) -> Iterator[tuple[Any, np.ndarray | None]]:
    if not os.path.exists(f"{base}.rows"):
        return
    words, rows = np.fromfile(f"{base}.words", np.uint64), np.fromfile(f"{base}.rows", np.int64)
    order = np.lexsort((rows, words))
    if stream.sparse:
        counts = np.fromfile(f"{base}.counts", np.int64)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        entries = np.fromfile(f"{base}.data", stream.dtype), np.fromfile(f"{base}.indices", np.int64)
        X: Any = sp.csr_array((*entries, indptr), shape=(rows.size, stream.n_columns))
    else:
        X = np.fromfile(f"{base}.X", stream.dtype).reshape(rows.size, stream.n_columns)
    y = None
    if stream.y_dtype is not None:
        y = np.fromfile(f"{base}.y", stream.y_dtype).reshape(rows.size, *stream.y_tail)[order]
    yield X[order], y


def _columns(X: Any) -> dict[str, np.ndarray]:
    if not sp.issparse(X):
        return {"X": X}
    return {
        "data": X.data, "indices": X.indices.astype(np.int64), "counts": np.diff(X.indptr).astype(np.int64),
    }  # fmt: skip


def scratch_of(out: str) -> str:
    """The folder in which rows of an output are shuffled.

    It lies beside the output and is named after it, so that the next call finds and removes what a killed one left.

    Parameters
    ----------
    out : str
        Normalised.

    Returns
    -------
    str
    """
    folder, base = os.path.split(out)
    if not files.is_local(out):
        folder, base = tempfile.gettempdir(), hashlib.sha256(out.encode()).hexdigest()[:16]
    return os.path.join(folder, f".{base}.shuffle")
