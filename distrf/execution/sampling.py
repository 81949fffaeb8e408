"""Seeded samples of the rows of an array. Of a Dask array only the blocks that hold sampled rows are computed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection

from ..errors import InputError
from ..randomness import sample_indices
from .labelled import join_frames
from .passes import run_pass
from .row_blocks import align_rows, check_dask_rows, join_rows, take_blocks

#: Above this many rows, rows are sampled in groups of eight neighbours, so that a sample touches fewer blocks.
_TOGETHER_ABOVE = 64_000
_TOGETHER = 8
#: Blocks of which a sample takes rows, unless they hold too few.
_BLOCKS, _MOST_BLOCKS = 12, 100
#: Where there are more blocks, the rows of each are among so many times as many neighbours.
_WINDOW = 16


def neighbours(n: int) -> int:
    """How many neighbouring rows `sampled_rows` draws together. Rows of one group are not independent draws.

    Parameters
    ----------
    n : int
        Rows of the data.

    Returns
    -------
    int
        1, or 8 above 64,000 rows, so that a sample touches fewer blocks.
    """
    return 1 if n <= _TOGETHER_ABOVE else _TOGETHER


def sampled_rows(n: int, size: int, seed: int, stream: str) -> np.ndarray:
    """Seeded row numbers, a function of the arguments alone.

    Parameters
    ----------
    n : int
        Rows of the data.
    size : int
        Wanted rows.
    seed : int
    stream : str
        Name of the random stream.

    Returns
    -------
    array of int64
        Sorted, about `size` of them.
    """
    together = neighbours(n)
    firsts = sample_indices(seed, stream, n // together, size // together)
    return (firsts[:, None] * together + np.arange(together)).ravel()


def take_rows(X: Any, rows: np.ndarray, *, sparse: bool = False) -> Any:
    """X[rows], reading only the blocks in which these rows lie.

    Parameters
    ----------
    X : array, CSR matrix or Dask array of shape (n, d) or (n,); also a data frame, and the blocks of one
    rows : array of int
        Sorted row numbers.
    sparse : bool
        Keep CSR rows as CSR; they become dense otherwise.

    Returns
    -------
    array of shape (len(rows), d) or (len(rows),), csr_array, or data frame
    """
    return take_aligned([X], rows, sparse=sparse)[0]


def take_aligned(arrays: Sequence[Any], rows: np.ndarray, *, sparse: bool = False) -> list[Any]:
    """`take_rows` of several arrays in one pass.

    Parameters
    ----------
    arrays : sequence of arrays with equal row counts
        The first is a Dask array if any is.
    rows : array of int
        Sorted row numbers.
    sparse : bool
        Keep CSR rows as CSR.

    Returns
    -------
    list of arrays
        In the order of the arrays.

    Raises
    ------
    InputError
        The row counts differ.
    """
    if not is_dask_collection(arrays[0]):
        if len({X.shape[0] for X in arrays}) > 1:
            raise InputError(
                f"all arrays must have the same number of rows, got {[X.shape[0] for X in arrays]}"
            )
        return [_taken(X, rows, sparse) for X in arrays]
    X = check_dask_rows(arrays[0], "y" if arrays[0].ndim == 1 else "X")
    starts = np.concatenate([[0], np.cumsum(X.chunks[0])])
    used = np.unique(np.searchsorted(starts, rows, side="right") - 1)
    whole = [X, *(align_rows(X, y, "y") for y in arrays[1:])]
    subsets = [take_blocks(array, used.tolist()) for array in whole]
    reduction = TakeReduction(rows, sparse=sparse)
    taken = run_pass(reduction, subsets, label="sample rows", starts=starts[used].tolist())
    return [join_frames(b) if hasattr(b[0], "iloc") else join_rows(b) for b in zip(*taken, strict=True)]


def _taken(X: Any, rows: np.ndarray, sparse: bool) -> Any:
    """Some rows of an array, dense unless `sparse`, or of a data frame."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    taken = X[rows]
    if sp.issparse(taken):
        return taken if sparse else taken.toarray()
    return np.asarray(taken)


@dataclass(frozen=True)
class TakeReduction:
    """Collects the rows with these sorted numbers. Each worker gets the numbers once, not with every segment.

    A plan counts its segments without numbers.
    """

    rows: np.ndarray | None = None
    nbytes: int = 0
    flops_per_row: float = 0.0
    sparse: bool = False

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {} if self.rows is None else {"rows": self.rows}

    def without_arrays(self) -> TakeReduction:
        return replace(self, rows=None)

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> TakeReduction:
        return replace(self, rows=arrays["rows"])

    def initial(self) -> list[tuple[Any, ...]]:
        return []

    def update(self, state: list[tuple[Any, ...]], first_row: int, *blocks: Any) -> list[tuple[Any, ...]]:
        assert self.rows is not None
        first, last = np.searchsorted(self.rows, [first_row, first_row + blocks[0].shape[0]])
        wanted = self.rows[first:last] - first_row
        return [*state, tuple(_taken(X, wanted, self.sparse) for X in blocks)]

    def combine(self, left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return left + right


def rows_of_blocks(lengths: Sequence[int], n_rows: int) -> dict[int, np.ndarray]:
    """For blocks that are spread over all, the numbers of some of their rows; a function of the arguments alone."""
    if n_rows < 1:
        raise InputError(f"a sample has at least one row; received n_rows={n_rows}")
    n, n_blocks = sum(lengths), len(lengths)
    enough = -(-n_rows * n_blocks // n)
    count = min(n_blocks, max(_BLOCKS, min(enough, _MOST_BLOCKS)))
    edges = [i * n_blocks // count for i in range(count + 1)]
    blocks = [
        low + int(sample_indices(0, f"table sample {low}", high - low, 1)[0])
        for low, high in itertools.pairwise(edges)
    ]
    share = min(1.0, n_rows / sum(lengths[i] for i in blocks))
    wanted = {}
    for i in blocks:  # of a block some of all rows, or of neighbouring ones, so that others need not be decoded
        size = max(1, round(lengths[i] * share))
        window = lengths[i] if n_blocks <= _BLOCKS else min(lengths[i], _WINDOW * size)
        first = int(sample_indices(0, f"table window {i}", lengths[i] - window + 1, 1)[0])
        wanted[i] = first + sample_indices(0, f"table rows {i}", window, size)
    return wanted
