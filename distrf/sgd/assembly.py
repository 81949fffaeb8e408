"""What a fit is made of: where the rows are, their spectrum, the batches, the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection
from scipy.optimize import minimize_scalar

from ..checkpoint import COMPARED_ROWS, COMPARED_TARGETS, Checkpoint
from ..errors import InputError
from ..execution.passes import run_pass
from ..execution.row_blocks import mapped_from, rows_per_block
from ..execution.sampling import neighbours, sampled_rows, take_aligned, take_rows
from ..execution.scheduler import current_client
from ..losses import SCALED, Loss
from ..maps import working_dtype
from ..targets import Targets
from .alpha import choose_alpha, choose_l1
from .batch_work import BatchWork
from .dask_batches import DaskBatches, lazy_loader
from .local_batches import LocalBatches, memory_loader
from .preconditioner import Preconditioner, intercept_scale, make_preconditioner, sample_size, weighted_rows
from .schedules import MICROBATCH_ROWS, Holdout, Schedule

#: Rows of a batch: no fewer, since a batch costs some 10 ms of messages; no more, by measurement (D = 4,096).
_BATCH_SIZES = (256, 8_192)
_STREAM_BATCH = 32
#: Batches of an epoch at least, where rows are few.
_BATCHES_PER_EPOCH = 16
#: Rows of a batch over the critical batch. MNIST with D = 4,096 in batches of 903, 1,807 (critical) and 3,615 rows:
#: 96.64, 96.63, 96.31 % after one pass. Half of it learns a little more from a pass (R^2 of kin40k 0.9504 for 0.9488),
#: which then takes a third longer than the bare loop: what is done for each batch counts twice.
_OVER_CRITICAL = 1.0
#: Features of a microbatch, and its rows: 16 MiB of float32.
_MICROBATCH_VALUES = 2**22
_MICROBATCH_ROWS = (256, 8_192)
#: Directions of the preconditioner where features are many: as accurate as 1,000 on MNIST with D = 4,096
#: (96.65 and 96.63 % after one pass), in a third of the time. Few features get all directions.
_MOST_DIRECTIONS = 512
_MANY_FEATURES = 1_536
#: Up to here a batch is all rows: exact gradients.
_WHOLE_UP_TO = 1_024
#: Epochs, and batches that there are at least where rows are few.
_EPOCHS, _LEAST_BATCHES = 40, 600
#: Lengths of rows are measured as rows come where a sample shows them to be this much below what they may be.
_PROBE_GAIN = 2.0
#: Where the penalty of a robust loss is chosen by squared errors, targets are brought within so many spreads.
_OUTLYING = 3.0
#: Columns whose mean is so many standard deviations are shifted to zero.
_FAR = 10.0


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
    def sparse(self) -> bool:
        """Whether features are CSR rows."""
        csr = sp.issparse(getattr(self.arrays[0], "_meta", self.arrays[0]))
        for function in self.maps:
            csr = function.makes_csr(csr)
        return csr

    @property
    def longest(self) -> float:
        """A bound of |z|^2 that holds for every row."""
        return float(self.maps[-1].longest) if self.maps else np.inf

    @property
    def lazy(self) -> bool:
        return is_dask_collection(self.arrays[0])

    def sample(self, size: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """(features, y, weight) of about `size` seeded rows, dense."""
        indices = sampled_rows(sum(self.blocks), size, seed, "sgd sample")
        parts = take_aligned([_two_dimensional(a) for a in self.arrays], indices)
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

    def batches(self, work: BatchWork, functions: Sequence[Any] = ()) -> Any:
        """Where microbatches are worked on: the cluster for lazy rows, if there is one, else this process.

        functions : what the work takes along beside the maps, in their form
        """
        if not self.lazy:
            return LocalBatches(memory_loader(self.arrays, self.blocks), functions, work)
        client = current_client()
        if client is None:
            return LocalBatches(lazy_loader(self.arrays), (*self.maps, *functions), work)
        return DaskBatches(client, self.arrays, (*self.maps, *functions), work)


def open_checkpoint(
    path: str | None,
    identity: Callable[[], dict[str, Any]],
    rows: Rows,
    targets: Targets,
    seed: int,
    resume: bool,
) -> Checkpoint:
    """The checkpoint of a fit to these rows; raises SpecMismatchError for one of another job or of other rows.

    identity : what else determines the numbers; asked for where there is a path
    """
    if path is None:
        return Checkpoint(None, {})
    n = sum(rows.blocks)
    job = {
        "blocks": list(rows.blocks),
        "columns": int(rows.arrays[0].shape[1]),
        "dtype": np.dtype(rows.arrays[0].dtype).name,
        "weighted": len(rows.arrays) > 2,
        "maps": [function.spec() for function in rows.maps],
        "classes": None if targets.classes is None else targets.classes.tolist(),
        "class_weight": None if targets.class_weight is None else targets.class_weight.tolist(),
        "seed": seed,
    }
    kept = Checkpoint(path, identity() | job, resume=resume)
    some = sampled_rows(n, min(COMPARED_ROWS, n), seed, "identity")
    kept.check_rows(take_rows(rows.arrays[0], some))
    some = sampled_rows(n, min(COMPARED_TARGETS, n), seed, "targets")
    y, *weight = (take_rows(_two_dimensional(a), some) for a in rows.arrays[1:])
    kept.check_rows(targets.encode(y if rows.arrays[1].ndim == 2 else y[:, 0], None)[0], "targets")
    for w in weight:
        kept.check_rows(w, "sample_weight")
    return kept


def _two_dimensional(a: Any) -> Any:
    return a[:, None] if a.ndim == 1 else a


@dataclass(frozen=True)
class Spectrum:
    """What the row sample says.

    preconditioner : and with it the steps; constant : what stands for the intercept among the features
    alpha, epsilon : of penalty and loss, the given ones or those that the sample asks for
    start : the best constant prediction, shape (C,); null_loss : its mean loss
    shift : means to subtract from the features, shape (D,), or None
    """

    preconditioner: Preconditioner
    constant: float
    alpha: float
    epsilon: float
    start: np.ndarray
    null_loss: float
    shift: np.ndarray | None = None

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps of it."""
        p = self.preconditioner
        numbers = [p.curvature, p.row_bound, p.certain, p.smoothness, p.unseen, self.constant, self.alpha]
        return {
            "directions": p.directions,
            "shrink": p.shrink,
            "spectrum": np.array([*numbers, self.epsilon, self.null_loss], dtype=np.float64),
            "start": self.start,
            "shift": np.empty(0) if self.shift is None else self.shift,
        }

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray]) -> Spectrum:
        curvature, bound, certain, smoothness, unseen, *rest = arrays["spectrum"].tolist()
        constant, alpha, epsilon, null_loss = rest
        made = Preconditioner(
            arrays["directions"], arrays["shrink"], curvature, bound, bool(certain), smoothness, unseen
        )
        shift = arrays["shift"]
        return cls(made, constant, alpha, epsilon, arrays["start"], null_loss, shift if len(shift) else None)


def measure_spectrum(
    rows: Rows,
    targets: Targets,
    loss: Loss,
    weights: Weights,
    *,
    alpha: float | None,
    epsilon: float | None,
    l1_ratio: float,
    intercept: bool,
    directions: int | None,
    stream: bool,
    seed: int,
) -> Spectrum:
    """What a row sample says.

    alpha, epsilon : None for those that the sample asks for
    directions : of the preconditioner; None is as many as the sample can tell, 0 none
    stream : whether these rows are the first of others
    """
    n = sum(rows.blocks)
    Z, y, weight = rows.sample(sample_size(n, rows.n_features), seed)
    Z = Z.toarray() if sp.issparse(Z) else Z  # type: ignore[attr-defined]
    whole = len(Z) >= n and not stream
    Y, weight = targets.encode(y, weight)
    if weight is not None and not weight.sum() > 0:
        weight = None
    loss = loss if epsilon is not None else replace(loss, epsilon=_epsilon(loss, Y, weight))
    shift = _shift(Z, weight) if intercept and not rows.sparse else None
    Z = Z if shift is None else (Z - shift.astype(Z.dtype))
    constant = intercept_scale(weighted_rows(Z, weight, 0.0)) if intercept else 0.0
    smoothness = curvature_of(loss, Y, weight)
    group = 1 if stream else neighbours(n)
    if alpha is None and l1_ratio:
        alpha = choose_l1(Z, _within(loss, Y, weight), weight, n) * smoothness
    elif alpha is None:
        alpha = choose_alpha(Z, _within(loss, Y, weight), weight, n, seed, group) * smoothness
    A = weighted_rows(Z, weight, constant, weights.mean if weight is not None else None)
    held = None if whole or len(A) < 3 else (np.arange(len(A)) // group) % 3 == 2
    most = directions
    if most is None and min(A.shape) > _MANY_FEATURES:
        most = _MOST_DIRECTIONS
    longest = (rows.longest + constant**2) * weights.largest / weights.mean
    made = make_preconditioner(
        A if held is None else A[~held],
        None if held is None else A[held],
        smoothness,
        alpha * (1.0 - l1_ratio),
        whole=whole,
        most=most,
        chosen=directions is None,
        longest=longest if shift is None else np.inf,
        draws=len(A) / group,
        seed=seed,
    )
    if not whole and not made.certain and made.row_bound * _PROBE_GAIN > smoothness * longest:
        made = replace(made.bounded(longest), certain=True)
    start = _constant(loss, targets, Y, weight) if intercept else np.zeros(targets.width)
    null = _null_loss(loss, targets, start, Y, weight)
    return Spectrum(made, constant, float(alpha), float(loss.epsilon), start, null, shift)


def _shift(Z: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
    """Column means, where one is so far from zero that it drowns what varies; else None."""
    mean = np.average(Z, axis=0, weights=weight).astype(np.float64)
    spread = np.sqrt(np.average((Z - mean) ** 2, axis=0, weights=weight))
    return mean if (np.abs(mean) > _FAR * spread).any() else None


def _epsilon(loss: Loss, Y: np.ndarray, weight: np.ndarray | None) -> float:
    """In units of the targets: a standard deviation for Huber's loss, a tenth for the insensitive one; robust."""
    return max(_spread(Y, weight), 1e-300) * (1.0 if loss.name == "huber" else 0.1)


def _within(loss: Loss, Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Targets, those of losses that outliers hardly move within so many spreads of the median."""
    if loss.name not in SCALED:
        return Y
    middle = np.array([_median(y, weight) for y in Y.T])
    reach = _OUTLYING * np.array([_spread(y[:, None], weight) for y in Y.T])
    return np.clip(Y, middle - reach, middle + reach)


def _constant(loss: Loss, targets: Targets, Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """The constant scores of least mean loss, shape (C,): exact for shares of classes, else by the sample."""
    w = np.ones(len(Y)) if weight is None else weight
    if targets.classes is None:
        if loss.name == "squared":
            return np.zeros(targets.width)  # targets are centred
        return np.array([_minimum(loss, y[:, None], w) for y in Y.T])
    if targets.shares is None:
        return np.zeros(targets.width)
    share = np.clip(targets.shares, 1e-9, 1.0 - 1e-9)
    if loss.name == "multinomial":
        return np.log(share) - np.log(share).mean()
    share = share[1:] if targets.width == 1 else share
    signs = np.array([[1.0], [-1.0]])
    return np.array([_minimum(loss, signs, np.array([p, 1.0 - p])) for p in share])


def _null_loss(
    loss: Loss, targets: Targets, start: np.ndarray, Y: np.ndarray, weight: np.ndarray | None
) -> float:
    """Mean loss of a constant prediction: exact for shares of classes, else by the sample."""
    if targets.classes is not None and targets.shares is not None:
        Y, weight = Targets(targets.classes, targets.centre).encode(targets.classes, None)[0], targets.shares
    return float(np.average(loss(np.broadcast_to(start, Y.shape), Y)[0], weights=weight))


def _minimum(loss: Loss, Y: np.ndarray, w: np.ndarray) -> float:
    """The score of least weighted loss over targets of shape (b, 1): by values alone, since slopes may have a kink."""
    low, high = float(Y.min()), float(Y.max())
    if loss.name == "logistic":  # logarithms of odds
        low, high = 30.0 * low, 30.0 * high

    def mean_loss(score: float) -> float:
        return float(w @ loss(np.full_like(Y, score), Y)[0])

    tried = [low, high]
    if high > low:
        options = {"xatol": 1e-9 * (high - low)}
        tried.append(float(minimize_scalar(mean_loss, bounds=(low, high), method="bounded", options=options).x))
    return min(tried, key=mean_loss)


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
    spreads = [1.4826 * _median(np.abs(y - _median(y, weight)), weight) for y in Y.T]
    return max(spreads) or float(np.sqrt(np.average((Y * Y).mean(axis=1), weights=weight)))


def _median(values: np.ndarray, weight: np.ndarray | None) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(np.ones(len(values)) if weight is None else weight[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


@dataclass(frozen=True)
class Weights:
    """Of rows, class weights included: mean and largest."""

    mean: float = 1.0
    largest: float = 1.0


def measure_weights(rows: Rows, targets: Targets) -> Weights:
    """Mean and largest weight of the rows; one pass over y if there are weights."""
    if len(rows.arrays) == 2 and targets.class_weight is None:
        return Weights()
    total, largest = run_pass(
        _WeightReduction(targets), list(rows.arrays[1:]), label="weights", block_rows=1 << 20
    )
    if not total > 0:
        raise InputError("sample_weight must not be zero everywhere")
    return Weights(float(total / sum(rows.blocks)), float(largest))


@dataclass(frozen=True)
class _WeightReduction:
    targets: Targets
    nbytes: int = 16
    flops_per_row: float = 10.0

    def initial(self) -> tuple[float, float]:
        return 0.0, 0.0

    def update(self, state, first_row, y, weight=None):
        w = self.targets.encode(y, weight)[1]
        if w is None:
            return self.combine(state, (float(len(y)), 1.0))
        return self.combine(state, (float(w.sum()), float(w.max(initial=0.0))))

    def combine(self, left, right):
        return left[0] + right[0], max(left[1], right[1])


def epochs(wanted: int | str, per_epoch: int) -> int:
    """Passes over the rows, at most."""
    return max(_EPOCHS, -(-_LEAST_BATCHES // max(per_epoch, 1))) if wanted == "auto" else int(wanted)


def patience(wanted: int, n_epochs: int | str, most: int) -> int:
    """Epochs without a gain after which training stops: as many more as "auto" takes more than 40 of few batches."""
    return wanted * most // _EPOCHS if n_epochs == "auto" else wanted


def choose_batch_size(wanted: int | str, n: int, preconditioner: Preconditioner, stream: bool = False) -> int:
    """Rows of a batch: the critical batch in bounds, at least 16 batches an epoch; all where rows are few.

    stream : these rows are seen once: the critical batch, which wastes none of them
    """
    if wanted != "auto":
        return int(wanted)
    if stream:
        return int(min(max(preconditioner.critical_rows, _STREAM_BATCH), _BATCH_SIZES[1], n))
    if n <= _WHOLE_UP_TO:
        return n
    low, high = _BATCH_SIZES
    most = max(low, n // _BATCHES_PER_EPOCH)
    return int(min(max(_OVER_CRITICAL * preconditioner.critical_rows, low), high, most))


def microbatch_rows(n_features: int) -> int:
    """Rows whose features are the work of one task."""
    low, high = _MICROBATCH_ROWS
    return min(max(_MICROBATCH_VALUES // n_features, low), high)


def make_schedule(
    rows: Rows,
    holdout: Holdout,
    batch_size: int,
    shuffle: bool,
    seed: int,
    whole_blocks: bool = False,
    microbatch_rows: int = MICROBATCH_ROWS,
) -> Schedule:
    """Batches over the rows that are not held out."""
    usable = tuple(holdout.usable(i, r) for i, r in enumerate(rows.blocks))
    return Schedule(usable, max(1, batch_size), rows.block_bytes, seed, shuffle, whole_blocks, microbatch_rows)
