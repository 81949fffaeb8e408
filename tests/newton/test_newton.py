"""The parts of a fit by passes against explicit formulas: derivatives, sampled Hessian, descent, sample."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from distrf.execution.passes import run_pass
from distrf.folds import given_folds
from distrf.losses import LOSSES, Loss
from distrf.newton import sample as sampling
from distrf.newton.descent import descend, penalised
from distrf.newton.fit import held_out_rule
from distrf.newton.hessian import SampledHessian, SampledRows, scores
from distrf.newton.line import LineReduction, sampled_points
from distrf.newton.sample import draw_sample
from distrf.ridge.gram import FoldRule
from distrf.sgd.rows import Rows
from distrf.targets import Targets, class_targets

SMOOTH = [name for name, loss in LOSSES.items() if loss.second is not Loss.second]
ALPHA = 1e-3


def problem(name, n=60, D=5, C=3, seed=0, intercept=True):
    """Sampled rows, a loss and some weights."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, D))
    codes = rng.integers(0, C, n)
    Y = (
        np.where(codes[:, None] == np.arange(C), 1.0, -1.0)
        if LOSSES[name].serves("classification")
        else rng.normal(size=(n, C))
    )
    weight = rng.uniform(0.1, 2.0, n)
    rows = SampledRows(Z, Y, weight / weight.sum(), intercept)
    return rows, LOSSES[name](), rng.normal(size=(D + intercept, C))


def value(rows, loss, W, intercept=True):
    u = W[:-1] if intercept else W
    return rows.weight @ loss(scores(rows.Z, W), rows.Y)[0] + 0.5 * ALPHA * (u * u).sum()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", SMOOTH)
def test_a_pass_gives_losses_and_gradients_along_the_line(name, sparse):
    rows, loss, W = problem(name)
    d = np.random.default_rng(2).normal(size=W.shape)
    Z = rows.Z
    labels = rows.Y.argmax(axis=1)
    classes = LOSSES[name].serves("classification")
    targets = Targets(np.arange(3), np.zeros(3)) if classes else Targets(None, np.zeros(3))
    steps = (1.0, 0.3, 0.0)
    reduction = LineReduction(5, targets, loss, True, FoldRule(), steps, 2, False, W, d)
    weight = rows.weight * 7.0
    blocks = [sp.csr_array(Z) if sparse else Z, labels if classes else rows.Y, weight]
    points = reduction.points(run_pass(reduction, blocks, block_rows=17))
    points = penalised(points, W, d, steps, ALPHA, True)
    assert points.losses == pytest.approx([value(rows, loss, W - t * d) for t in steps], rel=1e-12)
    own = penalised(sampled_points(rows, loss, W, d, steps, 2), W, d, steps, ALPHA, True)
    assert np.allclose(own.losses, points.losses, rtol=1e-12)
    for t, slope, same in zip(steps, points.slopes, own.slopes, strict=False):
        assert np.allclose(slope, same, atol=1e-12)
        h, V = 1e-6, np.random.default_rng(3).normal(size=W.shape)
        at = W - t * d
        difference = (value(rows, loss, at + h * V) - value(rows, loss, at - h * V)) / (2 * h)
        assert (slope * V).sum() == pytest.approx(difference, rel=1e-4, abs=1e-7)


def test_held_out_rows_do_not_count():
    rows, loss, W = problem("squared")
    rule = FoldRule.of_cv(3, 5)
    kept = rule.of(np.arange(60)) != 0
    arrays = [rows.Z, rows.Y.argmax(axis=1)]
    reduction = LineReduction(5, Targets(np.arange(3), np.zeros(3)), loss, rule=rule, weights=W)
    alone = replace(reduction, rule=FoldRule())
    found = run_pass(reduction, arrays, block_rows=13)
    assert np.allclose(found, run_pass(alone, [a[kept] for a in arrays], block_rows=60))


def dense(rows, bend):
    """The Hessian with a column of ones and 3 alpha, but no penalty on the intercept."""
    Z = np.c_[rows.Z, np.ones(len(rows.Z))]
    made = (Z * bend[:, None]).T @ Z + np.diag(np.append(np.full(rows.Z.shape[1], 3 * ALPHA), 0.0))
    made[-1, -1] = max(made[-1, -1], 1e-12)
    return made


@pytest.mark.parametrize("n", [60, 4])  # more rows than columns, and fewer: Woodbury's formula
@pytest.mark.parametrize("name", SMOOTH)
def test_sampled_hessian(name, n):
    rows, loss, W = problem(name, n=n)
    rows.Z[:, 1] += 1e3  # nearly the intercept: a penalty on that would hide how little the loss bends
    W[1] *= 1e-3
    P = SampledHessian(rows, loss, ALPHA, W)
    bend = loss.second(loss(scores(rows.Z, W), rows.Y)[1]) * rows.weight[:, None]
    G = np.random.default_rng(4).normal(size=W.shape)
    for c in range(3):
        expected = np.linalg.solve(dense(rows, bend[:, c]), G[:, c])
        if bend[:, c].any():
            assert np.allclose(P.solve(G)[:, c], expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    damped = SampledHessian(rows, loss, ALPHA, W, damping=0.1)
    assert not bend.all() or 0 < (damped.solve(G) * G).sum() < (P.solve(G) * G).sum()


def test_columns_share_a_factor_where_memory_is_short(monkeypatch):
    rows, loss, W = problem("logistic")
    monkeypatch.setattr("distrf.newton.hessian.FACTORS", 1.0)
    P = SampledHessian(rows, loss, ALPHA, W)
    bend = loss.second(loss(scores(rows.Z, W), rows.Y)[1]).mean(axis=1) * rows.weight
    assert np.allclose(dense(rows, bend) @ P.solve(W), W)


def test_a_column_without_active_rows():
    """Its Hessian is 0, which must not decide on the precision of the others."""
    rng = np.random.default_rng(0)
    Z = (rng.normal(size=(2000, 50)) @ rng.normal(size=(50, 350))).astype(np.float32)  # Z'Z has no inverse
    Y = np.c_[np.full(2000, -1.0), np.where(Z[:, :1] > 0, 1.0, -1.0)]
    rows = SampledRows(Z, Y, np.full(2000, 1 / 2000), True)
    W = np.zeros((351, 2))
    W[-1, 0] = -2.0
    solved = SampledHessian(rows, LOSSES["squared_hinge"](), 1e-10, W).solve(np.ones((351, 2)))
    assert np.isfinite(solved).all()


@pytest.mark.parametrize("name", SMOOTH)
def test_descent_ends_at_the_minimum(name):
    """Preconditioned by a third of the rows, against SciPy's."""
    rows, loss, W = problem(name, n=300)
    few = SampledRows(rows.Z[::3], rows.Y[::3], rows.weight[::3] / rows.weight[::3].sum(), True)
    looks, places = [], []

    def objective(at, d, steps, slopes):
        looks.append(len(steps))
        return penalised(sampled_points(rows, loss, at, d, steps, slopes), at, d, steps, ALPHA, True)

    found = descend(
        objective,
        W,
        lambda at, damping: places.append(at) or SampledHessian(few, loss, ALPHA, at, damping),
        tol=1e-9,
        most=100,
        shifts=loss.shift_free,
        quadratic=name == "squared",
        doubt=lambda at, *_: 0.45e-9 * value(rows, loss, at),
    )
    # The gap is that of the Hessian where the descent ends, and no less than twice what there is doubt of.
    assert name == "squared" or (found.gap > 0.85e-9 and np.array_equal(places[-1], found.weights))

    def flat(w):
        points = objective(w.reshape(W.shape), None, (0.0,), 1)
        return points.losses[0], points.slopes[0].ravel()

    count = len(looks)
    least = minimize(
        flat, W.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    ).fun
    assert found.value == pytest.approx(least, rel=1e-8)
    assert count <= 40
    losses = [look["loss"] for look in found.history]
    assert all(b < a for a, b in itertools.pairwise(losses))
    for look in found.history:  # the estimate is at least half of the truth, and not far above
        gap = (look["loss"] - least) / look["loss"]
        if gap > 1e-7:
            assert look["gap"] / gap >= 0.5
            assert look["gap"] / gap <= 20 or gap > 1e-2


def test_rare_classes_enter_the_sample_whole(monkeypatch):
    """Their rows have the weight 1 of a row, others stand for as many as there are: sums are those of all rows."""
    monkeypatch.setattr(sampling, "_ROWS", 400)
    monkeypatch.setattr(sampling, "_RARE", 40)
    rng = np.random.default_rng(0)
    y = np.zeros(20_000, dtype=int)
    y[rng.choice(20_000, 30, replace=False)] = 1
    y[rng.choice(np.flatnonzero(y == 0), 500, replace=False)] = 2
    X = np.stack([np.arange(20_000), y], axis=1).astype(float)
    targets = class_targets(y, None, None)
    sample = draw_sample(Rows.of(X, y, None), targets, False, 7)
    codes = sample.Z[:, 1].astype(int)
    shares = np.bincount(codes, weights=sample.weight)
    assert np.bincount(codes)[1] == 30
    assert np.bincount(codes)[2] == 66  # a sixth of the sample at most
    assert shares * 20_000 == pytest.approx([19_470, 30, 500], rel=1e-9)
    again = draw_sample(Rows.of(X, y, None), targets, False, 7)
    assert np.array_equal(again.Z, sample.Z)


def test_many_rare_classes_take_no_more_rows_than_the_sample_has(monkeypatch):
    monkeypatch.setattr(sampling, "_ROWS", 2000)
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(600), 600 * rng.uniform(size=39_400) ** 4]).astype(int)
    X = np.stack([np.arange(len(y)), y], axis=1).astype(float)
    sample = draw_sample(Rows.of(X, y, None), class_targets(y, None, None), False, 7)
    assert 1500 < len(sample.Z) <= 2000
    shares = np.bincount(sample.Z[:, 1].astype(int), weights=sample.weight)
    rare = np.bincount(y) < 500
    assert shares[rare] * len(y) == pytest.approx(np.bincount(y)[rare], rel=1e-9)
    assert shares[~rare].sum() * len(y) == pytest.approx(np.bincount(y)[~rare].sum(), rel=1e-9)


@pytest.mark.parametrize("given", [False, True])
def test_held_out_rows_are_not_in_the_sample(monkeypatch, given):
    monkeypatch.setattr(sampling, "_ROWS", 400)
    rng = np.random.default_rng(0)
    y = (rng.uniform(size=5000) < 0.01).astype(int)
    X = np.stack([np.arange(5000), y], axis=1).astype(float)
    values = np.arange(5000) % 4 - 1
    folds = given_folds(X, values) if given else None
    rule = held_out_rule(folds, 3)
    held = values == 0 if given else rule.of(np.arange(5000)) == 0
    sample = draw_sample(Rows.of(X, y, None, folds), class_targets(y, None, None), False, 7, rule)
    rows = sample.Z[:, 0].astype(int)
    assert not held[rows].any()
    assert sample.total == pytest.approx((~held).sum(), rel=1e-9)
    assert sample.weight @ sample.Z[:, 1] == pytest.approx(y[~held].mean(), rel=1e-9)
    if given:  # fold 1 is now the one that chooses alpha
        assert np.array_equal(sample.folds == 0, values[rows] == 1)


@pytest.mark.parametrize(("n", "D", "size"), [(100, 10, 100), (10**6, 1000, 16_000), (10**6, 65_536, 4095)])
def test_sample_size(n, D, size):
    assert sampling.sample_size(n, D, 4) == size
