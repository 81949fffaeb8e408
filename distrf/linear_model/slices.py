"""What a worker does with a parcel of rows: features, gradient, scores. Number code: NumPy and CSR in and out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..maps import check_rows, working_dtype
from .losses import Loss
from .schedules import Holdout, Slice, row_order
from .targets import Targets, float_columns

#: Sums of parcels that are added one after the other.
FAN_IN = 8


@dataclass(frozen=True)
class LoadFold:
    """Folds one block into itself, checked: the rows of a block as a value (X, y, weight)."""

    n_columns: int
    nbytes: int = 0
    flops_per_row: float = 0.0

    def start(self) -> None:
        return None

    def add(self, state: Any, first_row: int, X: Any, y: Any, weight: Any = None) -> tuple[Any, Any, Any]:
        check_rows(X, self.n_columns)
        y = np.asarray(y)
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise InputError(f"y must be finite, but row {int(np.argwhere(~np.isfinite(y))[0, 0])} is not")
        return X, y, None if weight is None else np.asarray(weight)

    def merge(self, left: Any, right: Any) -> Any:
        raise AssertionError("one block is loaded at a time")


@dataclass(frozen=True)
class SliceWork:
    """How parcels are picked, featurised and scored; a few hundred bytes, sent with each task.

    constant : value of the column that stands for the intercept, 0 for none
    """

    targets: Targets
    loss: Loss
    constant: float
    seed: int
    shuffle: bool
    holdout: Holdout

    def take(
        self, loaded: Sequence[tuple[Any, Any, Any]], maps: Sequence[Any], epoch: int, parcel: Sequence[Slice]
    ) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """(features, encoded targets, weights) of a parcel; `loaded` are the rows of the block of each slice."""
        return self._features(self.joined(loaded, epoch, parcel), maps, slice(None))

    def joined(self, loaded: Sequence[tuple[Any, Any, Any]], epoch: int, parcel: Sequence[Slice]) -> Any:
        """(X, y, weight) of a parcel, rows in the order of the epoch."""
        parts = []
        for (X, y, weight), s in zip(loaded, parcel, strict=True):
            order = row_order(self.seed, epoch, s.block, X.shape[0], self.shuffle, self.holdout)
            rows = order[s.first : s.last]
            parts.append((X[rows], y[rows], None if weight is None else weight[rows]))
        return parts[0] if len(parts) == 1 else tuple(_stack(column) for column in zip(*parts, strict=True))

    def _features(self, loaded, maps, rows):
        X, y, weight = loaded
        Z = X[rows]
        for function in maps:
            Z = function(Z)
        dtype = working_dtype(Z.dtype)
        if Z.dtype != dtype:
            Z = Z.astype(dtype)
        Y, w = self.targets.encode(y[rows], None if weight is None else weight[rows])
        return Z, Y.astype(dtype), w

    def scores(self, Z: Any, W: np.ndarray) -> np.ndarray:
        """z.w + b, shape (b, C)."""
        if not self.constant:
            return np.asarray(Z @ W)
        return np.asarray(Z @ W[:-1]) + self.constant * W[-1]

    def gradient(self, taken: tuple[Any, np.ndarray, np.ndarray | None], W: np.ndarray) -> tuple[Any, ...]:
        """Sums over the parcel: gradient (P, C), loss, weight, curvature; two products for all classes."""
        Z, Y, w = taken
        value, slope = self.loss(self.scores(Z, W.astype(Z.dtype)), Y)
        curved = self.loss.curved(slope)
        if w is not None:
            slope = slope * w[:, None].astype(slope.dtype)
            value, curved = value * w, curved * w
        G = np.empty(W.shape, dtype=Z.dtype)
        G[: Z.shape[1]] = Z.T @ slope
        if self.constant:
            G[-1] = self.constant * slope.sum(axis=0, dtype=np.float64)
        total = float(len(value) if w is None else w.sum())
        return G, float(value.sum(dtype=np.float64)), total, float(curved.sum())

    def score_block(self, loaded: tuple[Any, Any, Any], maps: Sequence[Any], block: int, W: np.ndarray):
        """Score sums of the validation rows of a block: see `validation_score`."""
        rows = self.holdout.split(block, loaded[0].shape[0])[1]
        total = np.zeros((5, W.shape[1]))
        for a in range(0, len(rows), 4096):
            part = rows[a : a + 4096]
            Z, Y, w = self._features(loaded, maps, part)
            scores = self.scores(Z, W.astype(Z.dtype))
            w = np.ones(len(part)) if w is None else w
            total[0] += w.sum()
            if self.targets.classes is None:
                y = float_columns(np.asarray(loaded[1])[part])
                total[1:] += [w @ (scores - Y) ** 2.0, w @ y, w @ y**2.0, np.zeros(W.shape[1])]
            else:
                right = (scores[:, 0] > 0) == (Y[:, 0] > 0) if Y.shape[1] == 1 else None
                hit = scores.argmax(axis=1) == Y.argmax(axis=1) if right is None else right
                total[1] += w @ hit
            total[4] += w @ self.loss(scores, Y)[0]
        return total


def validation_score(total: np.ndarray, classes: bool) -> float:
    """Accuracy, or R^2 averaged over outputs, from the score sums."""
    weight = max(total[0, 0], np.finfo(float).tiny)
    if classes:
        return float(total[1, 0] / weight)
    spread = total[3] - total[2] ** 2 / weight
    return float(np.mean(1.0 - total[1] / np.where(spread > 0, spread, np.inf)))


def _stack(parts: Sequence[Any]) -> Any:
    """Rows of several blocks; None where they have none."""
    if parts[0] is None:
        return None
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def add_sums(*parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sums of parcels added in the order given, in float64."""
    G = parts[0][0].astype(np.float64)
    for part in parts[1:]:
        G += part[0]
    return (G, *(sum(part[i] for part in parts) for i in range(1, len(parts[0]))))
