"""Local steps and averaged weights: the explicit formula, and what a mean of runs is."""

from __future__ import annotations

import numpy as np
import pytest

from distrf import StreamingRidge, StreamingSGDRegressor
from distrf.losses import get_loss
from distrf.sgd.learning_rates import Auto
from distrf.sgd.local_batches import LocalBatches, memory_loader
from distrf.sgd.local_sgd import LocalSteps, LocalWork, local_rows
from distrf.sgd.optimizer import PreconditionedSGD
from distrf.sgd.penalties import Penalty
from distrf.sgd.preconditioner import SampledRows, make_preconditioner
from distrf.sgd.schedules import LOCAL_BLOCKS, Holdout, Schedule, row_order
from distrf.targets import Targets

ALPHA = 1e-2


def data(n=600, d=5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / np.arange(1, d + 1)
    return X, X @ np.ones((d, 1)) + 0.1 * rng.normal(size=(n, 1))


def optimizer(X):
    P = make_preconditioner(SampledRows(X, whole=True), 1.0, ALPHA, most=2)
    return PreconditionedSGD(P, Auto(), Penalty(ALPHA), 0.0, True, False)


def test_a_batch_is_the_mean_of_runs_of_its_blocks():
    """Every block starts at the same weights and steps through its own rows; blocks weigh as their rows."""
    X, y = data()
    blocks, step_rows, seed = (100, 200, 300), 50, 3
    local = optimizer(X)
    holdout = Holdout(0.0, seed)
    work = LocalWork(
        Targets(None, np.zeros(1)),
        get_loss("squared", "regression"),
        0.0,
        seed,
        True,
        holdout,
        step_rows=step_rows,
    )
    batches = LocalBatches(memory_loader((X, y), blocks), (LocalSteps(local),), work)
    schedule = Schedule(blocks, 10, 1, seed, whole_blocks=True)
    batches.begin((0, r) for r in schedule.batches(0))
    start = np.full((5, 1), 0.3)
    _, batch, (total, loss, weight, curved, null, _) = batches.gradient(start, t=0, scale=1.0)
    assert batch.rows == weight == curved == 600

    expected, losses = np.zeros((5, 1)), 0.0
    for b, (a, n) in enumerate(zip((0, 100, 300), blocks, strict=True)):
        W = start.copy()
        order = a + row_order(seed, 0, b, n, True, holdout)
        for rows in order.reshape(-1, step_rows):
            residual = X[rows] @ W - y[rows]
            losses += (residual**2).sum() / 2
            G = X[rows].T @ residual / step_rows + ALPHA * W
            W = W - local.preconditioner.step(step_rows) * local.preconditioner(G)
        expected += n / 600 * W
    np.testing.assert_allclose(total / batch.rows, expected, rtol=1e-12)
    assert loss == pytest.approx(losses)
    assert null == pytest.approx((y**2).sum() / 2)


def test_arrays_travel_apart():
    """Directions go to a worker once; what goes with each task has none."""
    local = LocalSteps(optimizer(data()[0]))
    stub = local.without_arrays()
    assert sum(a.size for a in stub.arrays.values()) == 0
    back = stub.with_arrays(local.arrays)
    assert back.optimizer.preconditioner.curvature == local.optimizer.preconditioner.curvature
    np.testing.assert_array_equal(back.arrays["directions"], local.arrays["directions"])


def test_local_steps_share_the_rows_of_a_round():
    assert local_rows(4096) * LOCAL_BLOCKS == 4096
    assert local_rows(10) == 64


def test_averaged_weights_come_near_ridge():
    """The objective ends within a tenth of what the noise, 0.1^2 / 2, adds to it."""
    X, y = data(4000)
    exact = StreamingRidge(ALPHA).fit(X, y[:, 0])
    ours = StreamingSGDRegressor(alpha=ALPHA, n_epochs=10, tol=None, distribution="local_sgd", average=True)
    ours.fit(X, y[:, 0])
    best, reached = (
        ((model.predict(X) - y[:, 0]) ** 2).mean() / 2 + ALPHA / 2 * (model.coef_**2).sum()
        for model in (exact, ours)
    )
    assert best < reached < best + 0.1 * 0.1**2 / 2
