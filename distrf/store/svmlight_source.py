"""Rows of svmlight text (libsvm), plain or packed: read in pieces, counted and checked by a first pass."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from .files import open_text
from .row_source import RowSource, Selection

PIECE_BYTES = 2**20
_ENDINGS = tuple(
    f".{name}{packed}" for name in ("svmlight", "libsvm", "svm") for packed in ("", ".gz", ".bz2", ".zst")
)


@dataclass(frozen=True, kw_only=True)
class SvmlightSource(RowSource):
    """CSR rows (float64) of an svmlight file, whose indices count from 1 unless a 0 occurs or `zero_based` says so.

    Parameters
    ----------
    zero_based : bool
        Whether indices count from 0.
    stored : int
        Entries of the rows.
    labels : numpy.dtype
        Of the target.
    """

    options = ("n_features", "zero_based")
    zero_based: bool
    stored: int
    labels: np.dtype

    @classmethod
    def recognises(cls, path: str) -> bool:
        """By the ending of the name."""
        return path.endswith(_ENDINGS)

    def read(self, first: int, last: int) -> Any:
        """Not of such text; see `stream`."""
        raise NotImplementedError

    @classmethod
    def open(cls, path: str, selection: Selection) -> SvmlightSource:
        """The text is read once."""
        if selection.target is not None or selection.columns is not None:
            raise InputError("svmlight has one label and no column names; leave out target= and columns=")
        n = stored = 0
        lowest, highest, whole = 2**62, -1, True
        for X, y in _pieces(path, None):
            if X.nnz:
                lowest, highest = min(lowest, int(X.indices.min())), max(highest, int(X.indices.max()))
            whole = whole and bool(np.isfinite(y).all() and (y == np.rint(y)).all() and np.abs(y).max() < 2**53)
            n, stored = n + X.shape[0], stored + int(X.nnz)
        if not n or (highest < 0 and selection.n_features is None):
            raise InputError(f"{path!r} has no rows with values")
        zero_based = lowest == 0 if selection.zero_based is None else selection.zero_based
        if lowest == 0 and not zero_based:
            raise InputError(
                f"zero_based=False counts columns from 1, and {path!r} has the index 0; give zero_based=True"
            )
        found = highest + (1 if zero_based else 0)
        width = found if selection.n_features is None else selection.n_features
        if found > width:
            raise InputError(
                f"n_features={width} columns are fewer than those of {path!r}, whose highest index is {highest}, counted from "
                f"{0 if zero_based else 1}; give n_features={found} or more"
            )
        return cls(
            path=path, shape=(n, width), dtype=np.dtype(np.float64), block_lengths=(n,), sparse=True,
            zero_based=zero_based, stored=stored, labels=np.dtype(np.int64 if whole else np.float64),
            )  # fmt: skip

    def target_source(self) -> SvmlightSource:
        """The labels; `stream` of the rows gives them too."""
        return replace(self, shape=self.shape[:1], dtype=self.labels, sparse=False)

    @property
    def nbytes(self) -> int:
        """Of the stored entries."""
        return self.stored * 12 if self.sparse else super().nbytes

    def stream(self, target: RowSource | None, block_rows: int) -> Iterator[tuple[Any, np.ndarray | None]]:
        """In pieces of about 1 MiB of text."""
        for X, y in _pieces(self.path, self.shape[1] + 1):
            indices = X.indices if self.zero_based else X.indices - 1
            rows = sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], self.shape[1]))
            rows.sort_indices()
            yield rows, None if target is None else y.astype(self.labels)


def _pieces(path: str, width: int | None) -> Iterator[tuple[Any, np.ndarray]]:
    """Rows, whose columns count as the text does, and labels. Raises InputError for other text."""
    from sklearn.datasets import load_svmlight_file

    with open_text(path) as file:
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
