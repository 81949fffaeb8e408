"""A uniform sample of rows, drawn while they pass. Number code."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..execution.states import SizedState
from ..targets import float_columns

#: Rows of a sample, and outputs of each that are kept, the first ones: there may be thousands.
SAMPLED, OUTPUTS = 1000, 10


@dataclass
class RowSample(SizedState):
    """Targets and predictions of the rows whose numbers have the least keys, a hash of the number: a uniform sample.

    It is a function of the rows alone, in whatever blocks they come. Rows of weight 0 do not count.

    Parameters
    ----------
    size : int, default 1000

    Attributes
    ----------
    keys : uint64 array of shape (k,), ascending, k <= size
    rows : int64 array of shape (k,)
    y, predicted : float64 arrays of shape (k, outputs), of at most 10 outputs
    """

    size: int = SAMPLED
    keys: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    y: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    predicted: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def nbytes(self) -> int:
        """Most bytes of the state."""
        return 16 * (1 + OUTPUTS) * self.size

    def add(
        self, rows: np.ndarray, y: np.ndarray, predicted: np.ndarray, weight: np.ndarray | None = None
    ) -> None:
        """Draw from the rows of a block.

        Parameters
        ----------
        rows : int array of shape (rows,), numbers of the rows among all
        y, predicted : arrays of shape (rows,) or (rows, outputs)
        weight : array of shape (rows,), optional
        """
        rows = rows.astype(np.int64)
        counts = np.arange(len(rows)) if weight is None else np.flatnonzero(weight > 0)
        keys = _hash(rows[counts])
        if len(keys) > self.size:
            fewer = np.argpartition(keys, self.size)[: self.size]
            keys, counts = keys[fewer], counts[fewer]
        least = np.argsort(keys, kind="stable")
        taken = counts[least]
        y, predicted = (
            float_columns(block if block.ndim == 1 else block[:, :OUTPUTS])
            for block in (y[taken], predicted[taken])
        )
        self.merge(RowSample(self.size, keys[least], rows[taken], y, predicted))

    def merge(self, other: RowSample) -> None:
        """Draw from the rows of another state, which is left as it is."""
        if not len(other.keys):
            return
        if not len(self.keys):
            vars(self).update(vars(other))
            return
        names = ("keys", "rows", "y", "predicted")
        both = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names}
        least = np.argsort(both["keys"], kind="stable")[: self.size]
        vars(self).update({name: values[least] for name, values in both.items()})


def _hash(numbers: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014) of each number plus one: a bijection of 64 bits."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
