"""Errors of numbers and losses of probabilities: sums of blocks equal scikit-learn's scores of all rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn import metrics as reference

from distrf.scores.errors import ErrorSums, ProbabilitySums


def summed(empty, *arrays):
    """Of three blocks, each in a state of its own."""
    total = empty()
    for a, b in itertools.pairwise([0, 7, 300, 500]):
        part = empty()
        part.add(*(array[a:b] for array in arrays))
        total.merge(part)
    return total.scores()


@pytest.mark.parametrize("outputs", [(), (3,)])
@pytest.mark.parametrize("shift", [0.0, 1e8])
def test_scores_of_blocks__equal_scikit_learn(rng, outputs, shift):
    """Of blocks of unlike means, and far from zero; of a constant target too."""
    y = np.arange(500.0).reshape(-1, *([1] * len(outputs))) + rng.normal(size=(500, *outputs))
    p, w = y + 10 * rng.normal(size=y.shape), rng.random(500)
    found, rel = summed(ErrorSums, y + shift, p + shift, w), 1e-6 if shift else 1e-12
    for name, score in (
        ("r2", reference.r2_score), ("rmse", reference.root_mean_squared_error), ("mae", reference.mean_absolute_error)
    ):  # fmt: skip
        assert found[name] == pytest.approx(score(y, p, sample_weight=w), rel=rel)
    assert summed(ErrorSums, np.ones(500), np.ones(500))["r2"] == 1.0
    assert summed(ErrorSums, np.ones(500), np.zeros(500))["r2"] == 0.0


@pytest.mark.parametrize("classes", [2, 3])
def test_losses_of_probabilities__equal_scikit_learn(rng, classes):
    """A probability of 0 that came true is cut off."""
    P = rng.dirichlet(np.ones(classes), 500)
    P[0] = np.eye(classes)[0]
    codes = np.array([rng.choice(classes, p=row) for row in P])
    codes[0], w = 1, rng.random(500)
    found = summed(lambda: ProbabilitySums(np.arange(classes)), codes, P, w)
    assert found["log_loss"] == pytest.approx(reference.log_loss(codes, P, sample_weight=w), rel=1e-12)
    assert found["brier"] == pytest.approx(reference.brier_score_loss(codes, P, sample_weight=w), rel=1e-12)
