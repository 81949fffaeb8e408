"""Quantiles of one column in one pass: a state of bounded size, and a bound of its error.

The state holds *levels*. Level h holds at most m sorted values, each of which stands for a weight of 2^h. Two steps make it
small, after Munro & Paterson 1980 and Manku, Rajagopalan & Lindsay 1998:

* *Thinning*: more than m rows become at most m values of level h, the least h such that m 2^h is no less than their weight.
  A value is taken wherever the weight of the rows up to it passes an odd multiple of 2^(h-1).
* *Halving*: of a level of more than m values, every second one goes to the level above.

Nothing is drawn at random. So the same blocks, added on the same tree, give the same bits.

The error. Let R(x) be the weight of the rows up to x, and S(x) that of the values that the state holds up to x. Thinning
rounds R(x) to the nearest multiple of 2^h: it changes S(x) by at most 2^(h-1) either way. Halving sorts its level, and x cuts it
in one place. Pairs that lie on one side of the cut count as before; so S(x) changes by 0 or by one value of the level: by +2^h if the
first of each pair goes up, by -2^h if the second does. The state adds up how far S - R may have risen (`over`) and fallen
(`under`), and each time halves towards the smaller of the two. As -under <= S - R <= over, S - (over - under) / 2 is off by
at most (over + under) / 2, which is `error_bound`. This holds for any blocks and any tree of merges.

How large it gets. W is the weight of all rows. The rows that are thinned weigh W at most, and each thinning widens the bounds by
2^h / 2 each, below 1 / m of the weight that it thins: W / m in all. One halving takes over m values of weight 2^h, so level h sees at
most W / (m 2^h) of them, and each adds 2^h / 2 to the bound: W / (2 m) a level. So with H levels that were halved

    error_bound <= W (H + 2) / (2 m) (1 + 1/m)^(H + 1).

The last factor is there because rounding may add weight: 1 / m at most in each step. Blocks of b > m rows of weight 1 begin at
level log2(b / m), so H is about 1 + log2(n / b), and log2(n / m) for short blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


def levels_for(n_rows: int, m: int) -> int:
    """The levels that rows of weight 1 may fill.

    Parameters
    ----------
    n_rows : int
        Of all blocks.
    m : int
        Most values of a level.

    Returns
    -------
    int
    """
    return 1 + math.ceil(math.log2(max(n_rows / m, 1.0)))


@dataclass
class QuantileSketch:
    """The distribution of one column, exact up to m rows.

    The caller leaves missing values out: NaN, and whatever number marks them. Values are finite.

    Parameters
    ----------
    m : int, default 1024
        Most values of a level, and most rows that are held as they are; at least 2.
    n_levels : int, default 32
        Most levels; see `levels_for`. Where weights span more, what is left of a level below them is dropped, or halved
        upwards if that costs less. `error_bound` counts it.

    Attributes
    ----------
    rows : int
        Rows of positive weight.
    weight : float
        Their weight.
    low, high : float
        The least and the greatest value: inf and -inf if there are none.
    values, weights : float64 arrays of shape (up to m,)
        Rows that are not thinned yet, in the order in which they came.
    levels : dict of int to float64 array
        The sorted values that stand for a weight of 2^h each, by h.
    over, under : float
        The values of the state up to any x weigh at most this much more, and less, than the rows do.
    """

    m: int = 1024
    n_levels: int = 32
    rows: int = 0
    weight: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    values: np.ndarray = field(default_factory=lambda: np.empty(0))
    weights: np.ndarray = field(default_factory=lambda: np.empty(0))
    levels: dict[int, np.ndarray] = field(default_factory=dict)
    over: float = 0.0
    under: float = 0.0

    @property
    def nbytes(self) -> int:
        """Most bytes of the state, however many rows come."""
        return 8 * self.m * (self.n_levels + 2)

    @property
    def error_bound(self) -> float:
        """How far the weight of the rows up to a quantile may be from what was asked for; 0 up to m rows."""
        return (self.over + self.under) / 2

    def __sizeof__(self) -> int:
        held = [self.values, self.weights, *self.levels.values()]
        return object.__sizeof__(self) + sum(array.nbytes for array in held)

    def add(self, values: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Count the rows of a block.

        Parameters
        ----------
        values : array of shape (rows,)
        weights : array of shape (rows,), optional
            None is negative; rows of weight 0 do not count. 1 each by default.
        """
        # -0.0 becomes 0.0: sorting may leave the two in either order.
        values = np.asarray(values, dtype=np.float64) + 0.0
        if weights is None:
            weights = np.ones(len(values))
        else:
            weights = np.asarray(weights, dtype=np.float64)
            values, weights = values[weights > 0], weights[weights > 0]
        if len(values) == 0:
            return
        self.rows += len(values)
        self.weight += float(weights.sum())
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self._hold(values, weights)
        self._halve()

    def merge(self, other: QuantileSketch) -> None:
        """Count the rows of another sketch, which is left as it is."""
        self.rows += other.rows
        self.weight += other.weight
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.over += other.over
        self.under += other.under
        for h, values in other.levels.items():
            self._raise(h, values)
        self._hold(other.values, other.weights)
        self._halve()

    def quantiles(self, shares: npt.ArrayLike) -> np.ndarray:
        """Values of the column below which the given shares of the weight lie.

        Parameters
        ----------
        shares : array or float
            From 0 to 1; these two give the least and the greatest value.

        Returns
        -------
        float64 array of the same shape
            A value v for each share q, such that q W is between the weight of the rows below v and that of the rows up to v,
            give or take `error_bound`. Up to m rows it is the least v of which that is so: NumPy's "inverted_cdf". NaN if
            there are no rows.
        """
        shares = np.asarray(shares, dtype=np.float64)
        if self.rows == 0:
            return np.full(shares.shape, np.nan)
        values = np.concatenate([self.values, *self.levels.values()])
        weights = [np.full(len(held), math.ldexp(1.0, h)) for h, held in self.levels.items()]
        order = np.argsort(values, kind="stable")
        up_to = np.cumsum(np.concatenate([self.weights, *weights])[order]) - (self.over - self.under) / 2
        found = np.append(values[order], self.high)[np.searchsorted(up_to, shares * self.weight)]
        return np.where(shares <= 0, self.low, np.where(shares >= 1, self.high, found))

    def _hold(self, values: np.ndarray, weights: np.ndarray) -> None:
        """Hold more rows as they are, or thin all such rows."""
        values, weights = np.concatenate([self.values, values]), np.concatenate([self.weights, weights])
        if len(values) > self.m:
            self._thin(values, weights)
            values, weights = np.empty(0), np.empty(0)
        self.values, self.weights = values, weights

    def _thin(self, values: np.ndarray, weights: np.ndarray) -> None:
        if (weights == 1.0).all():  # sorting values alone is faster by far
            values, up_to = np.sort(values), np.arange(1.0, len(values) + 1)
        else:
            order = np.argsort(values, kind="stable")  # else the state of ties would depend on the processor
            values, up_to = values[order], np.cumsum(weights[order])
        fraction, h = math.frexp(up_to[-1] / self.m)
        h -= fraction == 0.5  # a power of two as it is
        unit = math.ldexp(1.0, h)
        rounded = np.floor(up_to / unit + 0.5)
        taken = np.diff(rounded, prepend=0.0).astype(np.intp)
        error = rounded * unit - up_to
        self.over += max(float(error.max()), 0.0)
        self.under += max(float(-error.min()), 0.0)
        self._raise(h, np.repeat(values, taken))

    def _raise(self, h: int, values: np.ndarray) -> None:
        """Add sorted values to a level. A level without values does not exist."""
        if not len(values):
            return
        held = self.levels.get(h, values[:0])
        self.levels[h] = np.sort(np.concatenate([held, values]), kind="stable")

    def _halve(self) -> None:
        """Halve every level that holds more than m values, and those that are too low, from the lowest on."""
        while self.levels:
            lowest = max(self.levels) - self.n_levels + 1
            full = [h for h, held in self.levels.items() if len(held) > self.m or h < lowest]
            if not full:
                return
            h = min(full)
            held, unit = self.levels.pop(h), math.ldexp(1.0, h)
            if h < lowest and len(held) * unit <= math.ldexp(
                1.0, lowest
            ):  # cheaper than to halve it again and again
                self.under += len(held) * unit
            elif self.over <= self.under:
                self.over += unit
                self._raise(h + 1, held[::2])
            else:
                self.under += unit
                self._raise(h + 1, held[1::2])
