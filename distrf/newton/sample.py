"""The sampled rows of a fit: a seeded sample, and of rare classes all rows, or many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..execution.passes import run_pass
from ..execution.sampling import sampled_rows, take_rows
from ..randomness import mixed_words, raw_words
from ..ridge.gram import ALL_ROWS, FoldRule
from ..sgd.rows import Rows, two_dimensional
from ..targets import Targets
from .hessian import SampledRows

#: Rows of a sample at most, and where they are fewer than features; bytes of it.
_ROWS, _FEW_ROWS, _BYTES = 16_000, 8_192, 2**30
#: A class of which a sample has fewer rows is rare.
_RARE = 256


def sample_size(n: int, n_features: int, itemsize: int) -> int:
    """Rows of the sample: 16,000, or as many as take 1 GiB."""
    fits = max(1, _BYTES // (itemsize * (n_features + 1)))
    size = min(n, _ROWS, fits)
    return min(size, _FEW_ROWS) if size <= n_features else size


def draw_sample(
    rows: Rows, targets: Targets, intercept: bool, seed: int, rule: FoldRule = ALL_ROWS
) -> SampledRows:
    """A seeded sample of the rows that are trained on.

    Of classes of which it would have few rows it has all, or many, each with a weight that makes up for it, and fewer of others.
    """
    n = sum(rows.blocks)
    size = sample_size(n, rows.n_features, 4 if rows.arrays[0].dtype == np.float32 else 8)
    indices = sampled_rows(n, size, seed, "newton sample")
    drawn = len(indices)
    if rule.n_sets > 1:
        held = rule.of(indices, rows.folds.take(indices) if rule.given and rows.folds is not None else None)
        indices = indices[held != 0]
        if not len(indices):
            raise InputError("all sampled rows are held out for calibration; give a smaller fold 0")
    factor = np.full(len(indices), n / drawn)
    if targets.classes is not None and drawn < n:
        indices, factor = _with_rare(rows, targets, indices, factor, seed, rule)
    Z, y, weight, kept = rows.take(indices)
    Z = Z.toarray() if sp.issparse(Z) and Z.shape[0] >= Z.shape[1] else Z
    Y, weight = targets.encode(y, weight)
    weight = factor[kept] if weight is None else weight * factor[kept]
    total = float(weight.sum())
    if not total > 0:  # the pass says whether all weights are zero
        weight, total = np.ones(len(Y)), np.inf
    folds = None if rows.folds is None else rows.folds.take(indices)[kept] - (rule.n_sets > 1)
    folds = None if folds is None or folds.max() < 0 else folds  # without fold 0 all rows may be -1
    return SampledRows(Z, Y, weight / weight.sum(), intercept, folds, total)


def _with_rare(
    rows: Rows, targets: Targets, indices: np.ndarray, factor: np.ndarray, seed: int, rule: FoldRule
) -> tuple[np.ndarray, np.ndarray]:
    """As many rows, more of them of rare classes, and a factor on the weight of each: its class's rows over those sampled."""
    assert targets.classes is not None
    size, C = len(indices), len(targets.classes)
    most = max(_RARE, size // (2 * C))
    arrays = [rows.arrays[1], *([rows.folds.values] if rule.given and rows.folds is not None else [])]
    counts, found = run_pass(
        _FirstRows(targets.classes, most, seed, rule), arrays, label="classes", block_rows=1 << 20
    )
    rare = np.flatnonzero((counts > 0) & (counts * size / counts.sum() < _RARE))
    if not len(rare):
        return indices, factor
    codes = np.searchsorted(targets.classes, take_rows(two_dimensional(rows.arrays[1]), indices)[:, 0])
    others = indices[~np.isin(codes, rare)]
    # Each rare class has at most so many rows that all fit into the sample, half of which others keep.
    sums = np.minimum(counts[rare, None], np.arange(1, most + 1)).sum(axis=0)
    most = max(1, int(np.searchsorted(sums, size - min(len(others), size // 2), side="right")))
    groups = [(found[found[:, 0] == c, 2][:most].astype(np.int64), counts[c]) for c in rare.tolist()]
    left = min(len(others), max(1, size - sum(len(group) for group, _ in groups)))
    others = others[np.arange(left) * len(others) // max(left, 1)]
    groups.append((others, counts.sum() - counts[rare].sum()))
    numbers = np.concatenate([group for group, _ in groups])
    factor = np.concatenate([np.full(len(group), count / max(len(group), 1)) for group, count in groups])
    order = np.argsort(numbers, kind="stable")
    return numbers[order], factor[order]


@dataclass(frozen=True)
class _FirstRows:
    """The rows of each class, counted, and a table of those that come first in a seeded order of all rows: code, key, number."""

    classes: np.ndarray
    most: int
    seed: int
    rule: FoldRule = ALL_ROWS
    flops_per_row: float = 20.0

    @property
    def nbytes(self) -> int:
        return 24 * (self.most + 1) * len(self.classes)

    def initial(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(len(self.classes), np.int64), np.empty((0, 3), np.uint64)

    def update(self, state: Any, first_row: int, y: np.ndarray, *more: Any) -> tuple[np.ndarray, np.ndarray]:
        codes = np.searchsorted(self.classes, y)
        numbers = np.arange(first_row, first_row + len(y), dtype=np.uint64)
        keys = mixed_words(numbers ^ raw_words(self.seed, "newton rare rows", 0, 1))
        kept = slice(None) if self.rule.n_sets == 1 else self.rule.of_block(first_row, len(y), more)[0] != 0
        rows = np.stack([codes.astype(np.uint64), keys, numbers], axis=1)[kept]
        return self.combine(state, (np.bincount(codes[kept], minlength=len(self.classes)), rows))

    def combine(self, left: Any, right: Any) -> tuple[np.ndarray, np.ndarray]:
        rows = np.concatenate([left[1], right[1]])
        rows = rows[np.lexsort([rows[:, 1], rows[:, 0]])]
        rank = np.arange(len(rows)) - np.searchsorted(rows[:, 0], rows[:, 0])
        return left[0] + right[0], rows[rank < self.most]
