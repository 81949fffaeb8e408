"""What a fit is made of: where the rows are, their spectrum, the rounds, the stepper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.base import is_dask_collection

from ..blocks.engine import current_client
from ..blocks.passes import run_pass
from ..blocks.rows import mapped_from, rows_per_block
from ..blocks.samples import sampled_rows, take_rows
from ..errors import InputError
from ..maps import working_dtype
from .local_rounds import LocalRounds, memory_loader
from .losses import Loss
from .preconditioner import (
    Preconditioner,
    direction_count,
    intercept_scale,
    make_preconditioner,
    sample_size,
    weighted_rows,
)
from .rounds import DaskRounds, lazy_loader
from .schedules import PARCEL_ROWS, Holdout, Schedule
from .slices import SliceWork
from .targets import Targets

#: Rows of a round: no fewer, since a round costs some 10 ms of messages; no more, by measurement (D = 4,096).
_ROUND_ROWS = (256, 8_192)
#: Rounds of an epoch at least, where rows are few.
_ROUNDS_PER_EPOCH = 16
#: Rows of a round over the critical batch: a pass then moves two thirds as far in half of the messages. MNIST with
#: D = 4,096 in rounds of 2,010 (critical), 4,096 and 8,192 rows: 96.65, 96.63, 96.55 % after one pass.
_OVER_CRITICAL = 2.0
#: Features of a parcel, and its rows: 16 MiB of float32.
_PARCEL_VALUES = 2**22
_PARCEL_ROWS = (256, 8_192)
#: Directions of the preconditioner where features are many: as accurate as 1,000 on MNIST with D = 4,096
#: (96.65 and 96.63 % after one pass), in a third of the time. Few features get all directions.
_MOST_DIRECTIONS = 512
_MANY_FEATURES = 1_536
#: Up to here a round is all rows: exact gradients.
_WHOLE_UP_TO = 1_024


@dataclass(frozen=True)
class Rows:
    """The rows of a fit: features of shape (n, D) are `maps` applied to the blocks of `arrays[0]`."""

    arrays: tuple[Any, ...]
    maps: tuple[Any, ...]
    blocks: tuple[int, ...]
    n_features: int
    block_bytes: int

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any) -> Rows:
        rest = (y,) if weight is None else (y, weight)
        D = X.shape[1]
        if is_dask_collection(X):
            source, maps = mapped_from(X)
            rows = tuple(int(r) for r in X.chunks[0])
            width = source.shape[1] * source.dtype.itemsize
            return cls((source, *rest), tuple(maps), rows, D, max(rows) * width)
        step = rows_per_block(X.dtype.itemsize * D)
        rows = tuple(min(step, X.shape[0] - a) for a in range(0, X.shape[0], step))
        # Blocks are views of what is in memory anyway.
        return cls((X, *rest), (), rows, D, max(rows) * D * X.dtype.itemsize)

    @property
    def lazy(self) -> bool:
        return is_dask_collection(self.arrays[0])

    def sample(self, size: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """(features, y, weight) of about `size` seeded rows, dense."""
        indices = sampled_rows(sum(self.blocks), size, seed, "sgd sample")
        parts = [take_rows(_two_dimensional(a), indices) for a in self.arrays]
        Z, y = parts[0], parts[1]
        # A row that is not finite is refused when its block is loaded, by its number.
        finite = np.isfinite(Z.sum(axis=1, dtype=np.float64))
        Z, y = Z[finite], y[finite]
        weight = parts[2][finite, 0] if len(parts) > 2 else None
        for function in self.maps:
            Z = function(Z)
        if not Z.shape[0]:
            raise InputError("X must be finite, but no sampled row is; impute or drop such rows")
        Z = Z.astype(working_dtype(Z.dtype), copy=False)
        return Z, y if self.arrays[1].ndim == 2 else y[:, 0], weight

    def rounds(self, work: SliceWork, functions: Sequence[Any] = ()) -> Any:
        """Where parcels are worked on: the cluster for lazy rows, if there is one, else this process.

        functions : what the work takes along beside the maps, in their form
        """
        if not self.lazy:
            return LocalRounds(memory_loader(self.arrays, self.blocks), functions, work)
        client = current_client()
        if client is None:
            return LocalRounds(lazy_loader(self.arrays), (*self.maps, *functions), work)
        return DaskRounds(client, self.arrays, (*self.maps, *functions), work)


def _two_dimensional(a: Any) -> Any:
    return a[:, None] if a.ndim == 1 else a


@dataclass(frozen=True)
class Spectrum:
    """What the row sample says: the preconditioner, and the constant that stands for the intercept."""

    preconditioner: Preconditioner
    constant: float


def measure_spectrum(
    rows: Rows,
    targets: Targets,
    loss: Loss,
    alpha: float,
    *,
    intercept: bool,
    directions: int | None,
    seed: int,
) -> Spectrum:
    """The spectrum of a row sample; directions None is as many as the sample can tell, 0 none."""
    n = sum(rows.blocks)
    size = sample_size(n, rows.n_features)
    Z, y, weight = rows.sample(size, seed)
    Y, weight = targets.encode(y, weight)
    if weight is not None and not weight.sum() > 0:
        weight = None
    constant = intercept_scale(weighted_rows(Z, weight, 0.0)) if intercept else 0.0
    A = weighted_rows(Z, weight, constant)
    s, P = A.shape
    k = (P if size >= n else direction_count(s, P)) if directions is None else min(directions, P)
    if directions is None:
        k = min(k, _MOST_DIRECTIONS) if min(s, P) > _MANY_FEATURES else k
    smoothness = curvature_of(loss, Y, weight)
    return Spectrum(make_preconditioner(A, smoothness, alpha, k, size >= n, seed), constant)


def curvature_of(loss: Loss, Y: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The smoothness of the loss; for one with a kink, of the parabola as wide as the targets are spread.

    A step of a kinked (or narrow Huber) loss along L = 1 / spread moves scores by about their range, as a step
    of the squared loss does; later ones must fall.
    """
    spread = 1.0 if loss.task == "classification" else _spread(Y, weight)
    if loss.smoothness is None:
        return 1.0 / max(spread, 1e-12)
    return min(loss.smoothness, loss.epsilon / max(spread, 1e-12)) if loss.name == "huber" else loss.smoothness


def _spread(Y: np.ndarray, weight: np.ndarray | None) -> float:
    """Robust standard deviation, largest of the columns: 1.48 x the median distance from the median."""

    def median(values: np.ndarray) -> float:
        order = np.argsort(values, kind="stable")
        total = np.cumsum(np.ones(len(values)) if weight is None else weight[order])
        return float(values[order][np.searchsorted(total, total[-1] / 2)])

    spreads = [1.4826 * median(np.abs(y - median(y))) for y in Y.T]
    return max(spreads) or float(np.sqrt(np.average((Y * Y).mean(axis=1), weights=weight)))


def mean_weight(rows: Rows, targets: Targets) -> float:
    """Total weight of the rows, class weights included, over their number; one pass over y if there is any."""
    if len(rows.arrays) == 2 and targets.class_weight is None:
        return 1.0
    total = run_pass(_WeightFold(targets), list(rows.arrays[1:]), label="weights", block_rows=1 << 20)
    if not total > 0:
        raise InputError("sample_weight must not be zero everywhere")
    return float(total / sum(rows.blocks))


@dataclass(frozen=True)
class _WeightFold:
    targets: Targets
    nbytes: int = 8
    flops_per_row: float = 10.0

    def start(self) -> float:
        return 0.0

    def add(self, state, first_row, y, weight=None):
        w = self.targets.encode(y, weight)[1]
        return state + (len(y) if w is None else float(w.sum()))

    def merge(self, left, right):
        return left + right


def round_size(wanted: int | str, n: int, preconditioner: Preconditioner) -> int:
    """Rows of a round: twice the critical batch in bounds, at least 16 rounds an epoch; all where rows are few."""
    if wanted != "auto":
        return int(wanted)
    if n <= _WHOLE_UP_TO:
        return n
    low, high = _ROUND_ROWS
    most = max(low, n // _ROUNDS_PER_EPOCH)
    return int(min(max(_OVER_CRITICAL * preconditioner.critical_rows, low), high, most))


def parcel_rows(n_features: int) -> int:
    """Rows whose features are the work of one task."""
    low, high = _PARCEL_ROWS
    return min(max(_PARCEL_VALUES // n_features, low), high)


def make_schedule(
    rows: Rows,
    holdout: Holdout,
    round_rows: int,
    shuffle: bool,
    seed: int,
    whole_blocks: bool = False,
    parcel_rows: int = PARCEL_ROWS,
) -> Schedule:
    """Rounds over the rows that are not held out."""
    usable = tuple(holdout.usable(i, r) for i, r in enumerate(rows.blocks))
    return Schedule(usable, max(1, round_rows), rows.block_bytes, seed, shuffle, whole_blocks, parcel_rows)
