"""A seeded global shuffle of rows, out of core.

Row i gets the i-th raw Philox word; the new order sorts by (word, i). So it depends on the seed and the row index alone.
Rows are scattered into a few buckets by ranges of their words, each bucket again while it is too large, and then sorted. A
bucket is one file, which is opened once to be written: files grow with the rows, at most `FAN_OUT` are open, and the rows
are written as often as their bytes have levels, twice for 128 GiB.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import scipy.sparse as sp
from fsspec.implementations.local import LocalFileSystem

from ..randomness import row_words
from ..store import files
from ..store.zarr_arrays import joined

BUCKET_BYTES = 32 * 2**20
FAN_OUT = 64

#: Words, row numbers, X, and y where there is one.
_Record = list[Any]


def shuffled(
    pieces: Iterator[tuple[Any, np.ndarray | None]], n_bytes: int, seed: int, folder: str
) -> Iterator[tuple[Any, np.ndarray | None]]:
    """The rows in a random order, which depends on the seed and the row numbers alone.

    Parameters
    ----------
    pieces : iterator of (X, y)
    n_bytes : int
        Of all rows, about.
    seed : int
    folder : str
        Local folder of the buckets: about as large as the rows, removed after reading.

    Yields
    ------
    (X, y)
    """

    def records() -> Iterator[_Record]:
        row = 0
        for X, y in pieces:
            last = row + X.shape[0]
            yield [row_words(seed, row, last), np.arange(row, last), X, *([] if y is None else [y])]
            row = last

    local = LocalFileSystem()
    files.remove(local, folder)  # what a killed process left
    os.makedirs(folder)
    try:
        for words, numbers, X, *labels in _sorted(records(), n_bytes, (0, 1 << 64), f"{folder}/0"):
            order = np.lexsort((numbers, words))
            yield X[order], labels[0][order] if labels else None
    finally:
        files.remove(local, folder)


def _sorted(records: Iterator[_Record], n_bytes: int, words: tuple[int, int], place: str) -> Iterator[_Record]:
    """The rows in parts whose words rise from part to part; `words` are below the second and not below the first."""
    low, high = words
    if n_bytes <= 2 * BUCKET_BYTES or high - low < FAN_OUT:
        found = list(records)
        if found:
            yield [joined(arrays) for arrays in zip(*found, strict=True)]
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
                    _write(buckets[bucket], array[order[cuts[bucket] : cuts[bucket + 1]]])
    for b in range(count):
        name = f"{place}-{b}"
        size = os.path.getsize(name)
        yield from _sorted(_read(name, record), size, (edges[b], edges[b + 1]), name)


def _write(file: Any, array: Any) -> None:
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
