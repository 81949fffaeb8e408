"""Row streams of svmlight text, plain or gzipped, read in pieces; a first pass counts and checks."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..store.files import Options, open_text
from .streams import Pieces, RowStream, TableSelection

PIECE_BYTES = 2**20


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

    with open_text(path, storage_options) as file:
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
