"""Whole numbers as labels or as numbers: whichever tells more of held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from ..features import StreamingScaler
from ..features.base import positive_only
from ..linear_model.calibration import HeldOut, fit_sigmoids, of_each_class
from ..ridge.path import ridge_path
from ..tables.encoder import TableEncoder
from ..targets import Targets, class_targets, regression_targets
from .deciding import all_equal
from .sample import Sample
from .search import ALPHAS, SCOUT_COMPONENTS, map_features
from .target import Target

#: By how much labels must do better, in nats a row: numbers take one model in place of one for each value.
LEAD = 0.1
#: Of a row that a model thinks impossible.
_LEAST = 1e-12
#: Columns up to which they stand beside the features of a trial.
_NARROW = 1024


def held_out_nats(sample: Sample, targets: Targets, features: Callable[[Any], Any], width: int) -> float:
    """Log loss of ridge on features(X), shape (rows, width), of held-out rows, with the penalty of least squared error.

    Labels get probabilities by sigmoids; whole numbers by a normal distribution around the regression, integrated over each
    of them. Either is learned from one half of the held-out rows and judged on the other, and swapped.
    """
    scores = np.concatenate([
        np.stack([np.asarray(features(sample.X[held]) @ s.weights) + s.intercept for s in ridge_path(
            features, width, sample.X[train], sample.y[train], targets, ALPHAS, True, sample.weights_of(train)
        )])
        for train, held in sample.splits
    ], axis=1)  # fmt: skip
    y, weight = sample.y[sample.held_rows], sample.held_weights
    Y = targets.encode(y, None)[0]
    F = scores[int(np.argmin(weight @ ((scores - Y) ** 2).mean(axis=2).T))]
    half, p = np.arange(len(y)) % 2 == 0, np.empty(len(y))
    for learn in (half, ~half):
        if targets.classes is None:
            error = (Y - F)[:, 0]
            spread = max(float(np.sqrt(np.average(error[learn] ** 2, weights=weight[learn]))), 1e-6)
            ends = ndtr((np.abs(error[~learn])[:, None] - [0.5, -0.5]) / -spread)
            p[~learn] = ends[:, 0] - ends[:, 1]
        else:
            with warnings.catch_warnings():  # of classes that a half lacks
                warnings.simplefilter("ignore")
                slope, offset = fit_sigmoids(HeldOut(F[learn], Y[learn], weight[learn]), targets.classes).T
            z = np.clip(slope * of_each_class(F[~learn]) + offset, -30.0, 30.0)
            each = 1.0 / (1.0 + np.exp(-z))
            own = np.searchsorted(targets.classes, y[~learn])
            p[~learn] = each[np.arange(len(own)), own] / each.sum(axis=1)
    return float(-np.average(np.log(np.maximum(np.abs(p), _LEAST)), weights=weight))


def tell_apart(target: Target, sample: Sample, scale: Any, map_: Any, seed: int) -> Target:
    """A few whole numbers as what tells more of held-out rows: as labels if these lead, else as numbers.

    Parameters
    ----------
    target : Target, which takes them for labels
    sample : Sample, as it was read
    scale, map_ : as of `Options`; an unfitted map, or None
    seed : int, of the map
    """
    if not sample.splits or all_equal(sample.X) or all_equal(sample.y):
        return target
    nats = []
    for kind, encoding in (("labels", class_targets), ("numbers", regression_targets)):
        rows, scaler = sample, None
        if isinstance(scale, TableEncoder):
            numbers = "robust" if scale.numbers == "auto" else scale.numbers
            scaler = clone(scale).set_params(numbers=numbers, target_type=kind)
        elif not (sp.issparse(sample.X) or positive_only(map_)):
            scaler = StreamingScaler("robust")
        rows = sample if scaler is None else sample.scaled(scaler)
        features: Any = (lambda X: X), rows.X.shape[1]
        if map_ is not None:
            joined = map_.joins_columns and not sp.issparse(rows.X) and rows.X.shape[1] <= _NARROW
            features = map_features(rows, map_.trial_map(SCOUT_COMPONENTS, seed), joined, seed)
        arguments = (rows.y, rows.weight, None) if kind == "labels" else (rows.y, rows.weight)
        with threadpool_limits(1, user_api="blas"):
            nats.append(held_out_nats(rows, encoding(*arguments), *features))
    labels = nats[0] < nats[1] - LEAD
    chosen, other, option = (
        ("labels", "numbers", "ridge") if labels else ("numbers", "labels", "ridge-classifier")
    )
    why = (
        f"whole numbers with {target.distinct:,} distinct values in {target.rows:,} rows looked at are taken for {chosen}: log "
        f"loss {nats[0]:.2f} as labels and {nats[1]:.2f} as numbers, on {sample.judged:,} held-out rows; model={option!r} takes "
        f"them for {other}"
    )
    return replace(target, labels=labels, why=why)
