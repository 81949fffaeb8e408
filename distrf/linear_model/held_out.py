"""Scores of sampled rows by models that were not trained on them, from which calibration learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import blocks_are_csr, row_bytes
from ..execution.sampling import sampled_rows, take_aligned
from ..ridge.gram import FoldRule
from ..ridge.normal_equations import Solution
from ..sgd.rows import Rows
from ..targets import Targets
from .calibration import HeldOut
from .predictor import LinearPredictor

#: Rows that calibration learns from at most, bytes of them as they are read, and scores of them; but some rows at least.
_ROWS, _BYTES, _SCORES, _LEAST = 20_000, 256 * 2**20, 2**22, 1_000
#: Rows that are featurised at a time.
_TILE_ROWS = 2_048


def sample_size(n: int, row_bytes: float, outputs: int) -> int:
    """The number of rows that calibration learns from.

    Parameters
    ----------
    n : int
        Rows that are held out.
    row_bytes : float
        Bytes of a row as it is read, before maps; 0 of CSR rows, which are short.
    outputs : int
        Columns of the encoded target.
    """
    return min(n, max(_LEAST, min(_ROWS, int(_BYTES / max(row_bytes, 1.0)), _SCORES // outputs)))


def fold_scores(
    rows: Rows, targets: Targets, rule: FoldRule, solutions: Sequence[Solution | None], seed: int
) -> HeldOut:
    """Scores of sampled rows by the solution from all folds but their own.

    solutions : for each fold that from all rows outside of it; None where there is none: its rows are left out
    """
    n, given = sum(rows.blocks), None
    if rule.given:
        assert rows.folds is not None
        held_rows = sum(rows.folds.counts[: rule.held])
    else:
        held_rows = max(1, n * rule.held // max(1, rule.drawn))
    size = -(-n * _size(held_rows, rows, targets) // held_rows)
    indices = sampled_rows(n, min(n, size), seed, "calibration")
    if rule.given and rows.folds is not None:
        given = rows.folds.take(indices)
    folds = rule.of(indices, given)
    held = np.isin(folds, [f for f, solution in enumerate(solutions) if solution is not None])
    return _scored(rows, targets, indices[held], folds[held], solutions)


def _size(n: int, rows: Rows, targets: Targets) -> int:
    X = rows.arrays[0]
    return sample_size(n, 0.0 if blocks_are_csr(X) else row_bytes(X), targets.width)


def _scored(
    rows: Rows, targets: Targets, indices: np.ndarray, which: np.ndarray, solutions: Sequence[Solution | None]
) -> HeldOut:
    """Read the rows, and score each by the solution `which` says; rows without weight are left out."""
    nothing = np.empty((0, targets.width))
    if not len(indices):
        return HeldOut(nothing, nothing, np.empty(0))
    X, y, *given = take_aligned(rows.arrays, indices, sparse=True)
    # Of the rows as they are: class weights say which errors are worse, not how frequent a class is.
    Y, weight = replace(targets, class_weight=None).encode(y, given[0] if given else None)
    weight = np.ones(len(Y)) if weight is None else weight
    scores = np.empty_like(Y)
    for f in np.unique(which):
        solution = solutions[f]
        assert solution is not None
        model = LinearPredictor(rows.n_features, "score", solution.weights.T, solution.intercept)
        own = np.flatnonzero(which == f)
        for tile in np.split(own, range(_TILE_ROWS, len(own), _TILE_ROWS)):
            Z = X[tile]
            for function in rows.maps:
                Z = function(Z)
            scores[tile] = model(Z)
    heavy = weight > 0
    return HeldOut(scores[heavy], Y[heavy], weight[heavy])


def calibration_costs(rows: PlannedRows, held_out: int) -> Costs:
    """The costs of calibration with some of the rows that are held out: it reads them again, and the client scores them."""
    size = sample_size(held_out, 0.0 if blocks_are_csr(rows.stored) else row_bytes(rows.stored), rows.outputs)
    client = (
        size * (rows.stored.nbytes / rows.n + 96 * rows.outputs) + 3 * _TILE_ROWS * rows.width * rows.itemsize
    )
    note = f"calibration reads {size:,} held-out rows again, from all blocks at most"
    return rows.sample_costs(size, note) + Costs(client_bytes=int(client))
