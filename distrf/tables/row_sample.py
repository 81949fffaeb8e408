"""A uniform sample of rows, drawn while they pass. Number code."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..execution.passes import SizedState


@dataclass
class RowSample(SizedState):
    """The values of the rows whose numbers have the least hashes: a function of the rows alone, in whatever blocks they come.

    Parameters
    ----------
    k : int
        Most rows.
    d : int
        Most values of a row.

    Attributes
    ----------
    keys : uint64 array of shape (up to k,), ascending
    values : float64 array of shape (up to k, up to d)
    """

    k: int
    d: int
    keys: np.ndarray = field(init=False)
    values: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.keys, self.values = np.empty(0, np.uint64), np.empty((0, self.d))

    @property
    def nbytes(self) -> int:
        """Most bytes of the state."""
        return 8 * (1 + self.d) * self.k

    def add(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Draw from rows by the hashes of their numbers."""
        if len(self.keys) == self.k > 0:
            low = keys < self.keys[-1]
            keys, values = keys[low], values[low]
        values = np.concatenate([self.values, values]) if len(self.keys) else values
        keys = np.concatenate([self.keys, keys])
        order = np.argsort(keys)[: self.k]
        self.keys, self.values = keys[order], values[order]

    def merge(self, other: RowSample) -> None:
        """Draw from the rows of another state, which is left as it is."""
        self.add(other.keys, other.values)
