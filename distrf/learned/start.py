"""The start of learning: a random Fourier map and its parameters, how far rows are apart, batches and epochs, and what they cost."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..execution.memory import PassMemory, Workers
from ..execution.planned import Costs, Phase, PlannedRows
from ..maps import RandomFourierFeatures
from ..maps.fourier import FourierMap
from ..maps.rules import rule_costs
from ..randomness import raw_words
from ..sgd.batch_plan import batch_memory
from ..sgd.dask_batches import batch_tasks
from ..sgd.schedules import Schedule, count_epochs
from .objectives import Layout

#: Rows of a batch: 500 as in the paper (Section 7). With more rows, as many as make 1,000 batches an epoch, up to 4,096,
#: because each batch costs messages.
_BATCH_SIZES = (500, 4_096)
_MOST_BATCHES_PER_EPOCH = 1_000
#: n_epochs="auto" is as many epochs as make this many batches, but at least this many epochs.
_FEWEST = (10, 3_000)
#: How many sampled rows `reach` is measured on.
SAMPLE = 1_000
#: objective="kernel" learns from pairs of sampled rows: at most this many rows, and this many bytes.
_PAIR_ROWS = 16_384
_PAIR_BYTES = 128 * 2**20
#: Rows are far from the origin if the l1 norm of their mean exceeds this many times `reach`.
_FAR = 10.0


def pair_rows(d: int) -> int:
    """The number of sampled rows, with d columns, from which objective="kernel" learns."""
    return max(2, min(_PAIR_ROWS, _PAIR_BYTES // (8 * max(1, d))))


def starting_map(estimator: Any, X: Any, seed: int) -> FourierMap:
    """The map from which learning starts, fitted to rows X: a rule for its length scale reads some of them."""
    known = {name: getattr(estimator, name) for name in ("kernel", "length_scale", "gamma", "nu", "phase")}
    start = RandomFourierFeatures(
        **known,
        n_components=int(estimator.n_components),
        projection=estimator.structure,
        random_state=int(raw_words(seed, "learned start", 0, 1)[0] >> 1),
    )
    map_ = start.fit(X).map_
    assert isinstance(map_, FourierMap)
    return map_


def start_parameters(layout: Layout, start: FourierMap) -> np.ndarray:
    """The vector from which learning starts: frequencies and offsets of the map, weights and intercepts 0."""
    p = np.zeros(layout.size)
    learned = layout.split(p)
    if layout.map.structure == "circulant":
        vectors = [start.projector.vectors(block)[0] for block in range(len(learned.theta))]  # type: ignore[attr-defined]
        learned.theta[:] = np.stack(vectors) / start.length_scale
    else:
        learned.theta[:] = start.frequencies()
    if len(learned.b):
        learned.b[:] = 2.0 * np.pi * start.offsets()
    return p


def reach(rows: np.ndarray) -> float:
    """Mean of |x - mean x|_1 over sampled rows: how far the phase of a row moves if each entry of Theta moves by 1."""
    distances = np.abs(rows - rows.mean(axis=0)).sum(axis=1, dtype=np.float64)
    return float(distances.mean()) or 1.0


def warn_if_far(sample: np.ndarray) -> None:
    """Warn (RuntimeWarning) if rows lie far from the origin: a small step of a frequency turns all their phases many times."""
    if np.abs(sample.mean(axis=0, dtype=np.float64)).sum() > _FAR * reach(sample):
        warnings.warn(
            "the means of the columns are far larger than their spread, so that little can be learned from them; put "
            "StreamingScaler before, and drop constant columns",
            RuntimeWarning,
            stacklevel=4,
        )


def learning_batch_size(batch_size: int | str, n: int) -> int:
    """Rows of a batch of a learned map. "auto" depends on the number of rows n and never on the workers."""
    if batch_size != "auto":
        return int(batch_size)
    low, high = _BATCH_SIZES
    return max(1, min(max(low, n // _MOST_BATCHES_PER_EPOCH), high, -(-n // 4)))


def learning_epochs(n_epochs: int | str, per_epoch: int) -> int:
    """The number of epochs of a learned map; "auto" depends on the batches of an epoch."""
    return count_epochs(n_epochs, per_epoch, _FEWEST)


def planned_learning(estimator: Any, rows: PlannedRows) -> Costs:
    """The costs of learning a map, for a plan."""
    blocks = rows.X.chunks[0]
    sample = rule_costs(rows, estimator.kernel, estimator.length_scale, estimator.gamma)
    sample += rows.sample_costs(SAMPLE, blocks=len(blocks))
    d, D, itemsize = rows.width, int(estimator.n_components), rows.itemsize
    kernel = getattr(estimator, "objective", None) == "kernel"
    n = min(rows.n, pair_rows(d)) if kernel else rows.n
    size = min(n, learning_batch_size(estimator.batch_size, n))
    batches = max(1, round(n / size))
    epochs = learning_epochs(estimator.n_epochs, batches)
    state = 8 * 8 * Layout(estimator._map(d), 0 if kernel else rows.outputs).size
    what = f"{epochs} epochs of {batches:,} batches of {size:,} rows"
    if kernel:
        client = 2 * n * d * itemsize + size * (size * 3 * 8 + (d + 6 * D) * itemsize) + state
        note = f"features learned for the kernel in the client, from a sample: {what}"
        return sample + Costs(client_bytes=client, notes=(note,))
    workers, schedule = rows.workers, learning_schedule(estimator, blocks, d, itemsize)
    microbatches = len(next(schedule.batches(0)).microbatches)
    tasks = batch_tasks(microbatches, workers.count * workers.threads)
    phase = Phase(epochs, epochs * (len(blocks) + batches * tasks), epochs, microbatches)
    memory = learning_memory(estimator, schedule, d, itemsize, rows.outputs, workers)
    client = SAMPLE * d * itemsize + state
    return sample + Costs(
        (phase,), memory=memory, client_bytes=client, notes=(f"features learned first: {what}",)
    )


def learning_schedule(estimator: Any, blocks: tuple[int, ...], d: int, itemsize: int) -> Schedule:
    """The schedule over blocks of so many rows of d columns."""
    size = min(sum(blocks), learning_batch_size(estimator.batch_size, sum(blocks)))
    return Schedule(blocks, size, max(blocks) * d * itemsize, 0)


def learning_memory(
    estimator: Any, schedule: Schedule, d: int, itemsize: int, outputs: int, workers: Workers
) -> PassMemory:
    """Bytes of a worker at the peak of learning a map or a model for a loss."""
    P = Layout(estimator._map(d), outputs).size
    return batch_memory(
        schedule, workers, row=d * itemsize + 8, features=d * itemsize + 16 * outputs,
        scratch=(d + 6 * int(estimator.n_components)) * itemsize, summand=8 * P, model=4 * 8 * P, weights=3 * 8 * P,
    )  # fmt: skip
