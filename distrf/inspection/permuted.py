"""Losses of a model on rows as they are, and with columns that are taken from other rows. Number code.

Within a block the rows may be alike: sorted by date or class, or few. So a permuted column does not take its values from the
block but from a *pool*, a seeded sample of all rows. Row i of all takes those of row p(i mod m) of the m rows of the pool,
with another seeded permutation p for each run of m rows. If the pool has all rows, the column is permuted; if there are
more, each row of the pool is used equally often. All columns of one repeat take the same rows, as in scikit-learn.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle
import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..execution.states import SizedState
from ..randomness import permutation
from ..targets import checked_weights, float_columns

#: What is measured: whether it is of labels, and whether more of it is better.
SCORES = {
    "accuracy": (True, True),
    "log_loss": (True, False),
    "r2": (False, True),
    "squared_error": (False, False),
}


@dataclass
class PermutedSums(SizedState):
    """Weighted sums over rows.

    weight : float; targets, squares (C,) : of the targets of regression less a centre, and of their squares
    plain (C,) : losses of the rows as they are; permuted (groups, repeats, C) : with the columns of a group from other rows
    """

    weight: float
    targets: np.ndarray
    squares: np.ndarray
    plain: np.ndarray
    permuted: np.ndarray


@dataclass
class Judge:
    """A model, and what its predictions are compared with.

    maps : functions of blocks of rows, before the model; model : estimator with `predict` or `predict_proba`
    score : a name in SCORES; classes : labels of the model, None for a regressor
    centre (C,) : near the mean of the targets; pool : rows from which columns are taken
    """

    maps: list[Any]
    model: Any
    score: str
    classes: np.ndarray | None
    centre: np.ndarray
    pool: Any

    def losses(self, X: Any, y: np.ndarray) -> np.ndarray:
        """The loss of each row, shape (rows, C)."""
        with warnings.catch_warnings():  # fitted to a data frame, used on its values
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            for function in self.maps:
                X = function(X)
            found = np.asarray(
                self.model.predict_proba(X) if self.score == "log_loss" else self.model.predict(X)
            )
        if self.score == "accuracy":
            return (found != y).astype(np.float64)[:, None]
        if self.score == "log_loss":
            assert self.classes is not None
            eps = float(np.finfo(found.dtype).eps)
            codes = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
            taken = np.where(self.classes[codes] == y, found[np.arange(len(y)), codes], 0.0)
            return -np.log(np.clip(taken, eps, 1 - eps), dtype=np.float64)[:, None]
        return (float_columns(found) - y) ** 2


@dataclass(frozen=True)
class PermutedReduction:
    """The reduction of PermutedSums; its blocks are (X, y) or (X, y, weight).

    groups : columns that are taken from other rows together; pool_rows : rows of the pool; outputs : columns of the losses
    row_flops, row_bytes : operations of one prediction of a row, and bytes that it takes beside the row
    judge : the pickled Judge, of judge_bytes, which each worker gets once
    """

    groups: tuple[tuple[int, ...], ...]
    n_repeats: int
    seed: int
    pool_rows: int
    outputs: int
    row_flops: float
    row_bytes: float
    judge_bytes: int
    judge: np.ndarray | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, judge: Judge, **fields: Any) -> PermutedReduction:
        packed = np.frombuffer(cloudpickle.dumps(judge), np.uint8)
        known = {"outputs": len(judge.centre), "pool_rows": judge.pool.shape[0], "judge_bytes": packed.nbytes}
        return cls(judge=packed, **known, **fields)

    @property
    def predictions(self) -> int:
        """How often each row is predicted."""
        return 1 + len(self.groups) * self.n_repeats

    @property
    def nbytes(self) -> int:
        return 8 * (3 + self.predictions) * self.outputs

    @property
    def flops_per_row(self) -> float:
        return self.predictions * self.row_flops

    @property
    def scratch_per_row(self) -> float:
        return self.row_bytes

    @property
    def scratch_bytes(self) -> int:
        """Of the judge, which each thread unpacks."""
        return self.judge_bytes

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {} if self.judge is None else {"judge": self.judge}

    def without_arrays(self) -> PermutedReduction:
        return replace(self, judge=None)

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> PermutedReduction:
        return replace(self, judge=arrays["judge"])

    def initial(self) -> PermutedSums:
        C = self.outputs
        permuted = np.zeros((len(self.groups), self.n_repeats, C))
        return PermutedSums(0.0, np.zeros(C), np.zeros(C), np.zeros(C), permuted)

    def donors(self, repeat: int, first_row: int, n_rows: int) -> np.ndarray:
        """The row of the pool from which each row takes the values of a column, shape (n_rows,)."""
        runs, place = np.divmod(np.arange(first_row, first_row + n_rows), self.pool_rows)
        found = np.empty(n_rows, dtype=np.int64)
        for run in np.unique(runs):
            order = permutation(self.seed, f"importance {repeat}", int(run), self.pool_rows)
            found[runs == run] = order[place[runs == run]]
        return found

    def update(
        self, state: PermutedSums, first_row: int, X: Any, y: np.ndarray, weight: Any = None
    ) -> PermutedSums:
        judge = self._opened()
        w = np.ones(len(y)) if weight is None else checked_weights(weight, y)
        if judge.classes is None:
            y = float_columns(y)
            moved = y - judge.centre
            state.targets += w @ moved
            state.squares += w @ moved**2
        state.weight += float(w.sum())
        state.plain += w @ self._checked(judge.losses(X, y), first_row)
        for repeat in range(self.n_repeats):
            donors = self.donors(repeat, first_row, len(y))
            for g, columns in enumerate(self.groups):
                state.permuted[g, repeat] += w @ judge.losses(with_columns(X, judge.pool, columns, donors), y)
        return state

    def combine(self, left: PermutedSums, right: PermutedSums) -> PermutedSums:
        return PermutedSums(
            left.weight + right.weight,
            left.targets + right.targets,
            left.squares + right.squares,
            left.plain + right.plain,
            left.permuted + right.permuted,
        )

    def _opened(self) -> Judge:
        found = vars(self).get("_judge")
        if found is None:
            assert self.judge is not None
            found = cloudpickle.loads(self.judge.tobytes())
            object.__setattr__(self, "_judge", found)
        return found

    @staticmethod
    def _checked(losses: np.ndarray, first_row: int) -> np.ndarray:
        if not np.isfinite(losses).all():
            row = first_row + int(np.argwhere(~np.isfinite(losses))[0, 0])
            raise InputError(f"losses must be finite, but that of row {row} is not; drop rows without a target")
        return losses


def with_columns(X: Any, pool: Any, columns: tuple[int, ...], donors: np.ndarray) -> Any:
    """X with some columns taken from rows of a pool: an array, CSR rows or a data frame; X stays as it is.

    X : shape (n, d); pool : shape (m, d), of the same kind; donors : shape (n,), rows of the pool
    """
    some = list(columns)
    if sp.issparse(X):
        taken = np.zeros(X.shape[1], dtype=X.dtype)
        taken[some] = 1
        return sp.csr_array(X @ sp.diags_array(1 - taken) + pool[donors] @ sp.diags_array(taken)).astype(
            X.dtype
        )
    out = X.copy()
    if hasattr(X, "iloc"):
        for j in some:
            out.isetitem(j, pool.iloc[donors, j].array)
    else:
        out[:, some] = pool[donors][:, some]
    return out


def scores_of(sums: PermutedSums, score: str, centre: np.ndarray) -> tuple[float, np.ndarray]:
    """The score of the rows as they are, and what it loses in each group and repeat, shape (groups, repeats).

    Of a score of which less is better, what it gains.
    """
    plain, worse = sums.plain / sums.weight, (sums.permuted - sums.plain) / sums.weight
    if score != "r2":
        loss = float(plain.mean())
        return (1 - loss if SCORES[score][1] else loss), worse.mean(axis=-1)
    mean, moments = sums.targets / sums.weight, sums.squares / sums.weight
    variance = np.maximum(moments - mean**2, 0.0)
    varies = variance > 1e-12 * moments + (1e-12 * centre) ** 2  # more than rounding leaves
    scale = np.where(varies, variance, 1.0)
    r2 = np.where(varies, 1.0 - plain / scale, plain == 0)  # a constant is predicted exactly, or not
    lost = np.where(varies, worse / scale, (plain == 0) & (worse > 0))
    return float(r2.mean()), lost.mean(axis=-1)
