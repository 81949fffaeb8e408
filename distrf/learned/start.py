"""Where learning starts: a Fourier map, its numbers, and how long steps are on these rows."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from sklearn.base import clone

from ..errors import InputError
from ..execution.row_blocks import blocks_are_csr, map_rows
from ..features import RandomFourierFeatures
from ..kernels.shift_invariant import Kernel
from ..maps import FourierMap, working_dtype
from ..maps.scaling import ScalingMap
from ..randomness import raw_words
from .objectives import Layout

#: Rows of a batch: the paper's (Section 7), and more where rows are many, since a batch costs messages.
_BATCH_SIZES = (500, 4_096)
_MOST_BATCHES_PER_EPOCH = 1_000
#: Small data are learned after so many batches; large data get at least so many epochs.
_BATCHES = 3_000
_LEAST_EPOCHS = 10
#: Rows from which the reach of a step is measured.
SAMPLE = 1_000
#: Columns are centred while learning where the mean row is so many times longer than rows are apart.
_FAR = 10.0


@dataclass(frozen=True)
class Start:
    """Which Fourier map learning starts from.

    init : a RandomFourierFeatures estimator, which brings its own kernel and length scale; the name of a
        projection; None for the projection that `structure` is named after
    structure, phase, n_components : of the map to learn; kernel, length_scale, gamma, nu : as RandomFourierFeatures
        has them
    """

    init: Any
    structure: str
    phase: str
    n_components: int
    kernel: str | Kernel
    length_scale: float | str
    gamma: float | None
    nu: float = 1.5

    def fitted(self, X: Any, seed: int) -> FourierMap:
        """The map, its length scale measured on rows X."""
        if isinstance(self.init, RandomFourierFeatures):
            estimator = clone(self.init)
        else:
            estimator = RandomFourierFeatures(
                self.kernel,
                length_scale=self.length_scale,
                gamma=self.gamma,
                nu=self.nu,
                projection=self.init or self.structure,
            )
        if estimator.random_state is None:
            estimator.set_params(random_state=int(raw_words(seed, "learned start", 0, 1)[0] >> 1))
        start = estimator.set_params(n_components=self.n_components, phase=self.phase).fit(X).map_
        if self.structure == "circulant":
            _check_circulant(start)
        return start


def _check_circulant(start: FourierMap) -> None:
    """Raise InputError for a map that is not made of circulant blocks alone."""
    radii = start.kernel.radii(0, 0, 1) is not None
    if start.projection != "circulant" or start.whitening is not None or radii:
        raise InputError(
            "structure='circulant' starts from circulant blocks alone: projection 'circulant', no whitening and a "
            f"kernel whose weight rows have no radii; got projection={start.projection!r}, kernel={start.kernel.name!r}, "
            f"whiten={start.whitening is not None}"
        )


def start_parameters(layout: Layout, start: FourierMap) -> np.ndarray:
    """The vector of what is learned at the beginning: the start's frequencies and offsets, no weights."""
    p = layout.empty()
    learned = layout.split(p)
    if layout.structure == "circulant":
        vectors = [start.projector.vectors(block)[0] for block in range(len(learned.theta))]  # type: ignore[attr-defined]
        learned.theta[:] = np.stack(vectors) / start.length_scale
    else:
        learned.theta[:] = start.frequencies()
    if len(learned.b):
        learned.b[:] = 2.0 * np.pi * start.offsets()
    return p


def reach(rows: np.ndarray) -> float:
    """Mean of |x - mean x|_1 over sampled rows: how far a phase moves when every frequency moves by one."""
    distances = np.abs(rows - rows.mean(axis=0)).sum(axis=1, dtype=np.float64)
    return float(distances.mean()) or 1.0


def centred(X: Any, sample: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Rows X and a sample of them less their mean where this is far from 0, and the mean; else as they are, and None.

    A step of a frequency turns the phases of far rows all together, many times over, before it tells two rows apart.
    """
    some = sample[:SAMPLE]
    mean = np.asarray(some.mean(axis=0, dtype=np.float64)).ravel()
    if np.abs(mean).sum() <= _FAR * reach(some - mean):
        return X, sample, None
    if blocks_are_csr(X):
        warnings.warn(
            "the means of the columns are far larger than their spread, and sparse rows are not centred: little can be "
            "learned from them; drop constant columns, or give dense rows",
            RuntimeWarning,
            stacklevel=5,
        )
        return X, sample, None
    move = ScalingMap(len(mean), len(mean), "standard", shift=mean, scale=np.ones_like(mean))
    lazy = is_dask_collection(X)
    return map_rows(move, X, len(mean), working_dtype(X.dtype)) if lazy else move(X), move(sample), mean


def choose_batch_size(wanted: int | str, n: int) -> int:
    """Rows of a batch. It depends on the number of rows and never on the workers."""
    if wanted != "auto":
        return int(wanted)
    low, high = _BATCH_SIZES
    return max(1, min(max(low, n // _MOST_BATCHES_PER_EPOCH), high, -(-n // 4)))


def epochs(wanted: int | str, per_epoch: int) -> int:
    """Passes over the rows."""
    return max(_LEAST_EPOCHS, math.ceil(_BATCHES / max(per_epoch, 1))) if wanted == "auto" else int(wanted)
