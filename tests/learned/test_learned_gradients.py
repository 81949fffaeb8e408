"""Gradients of learned maps: every loss, structure and phase against finite differences; circulants as matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from distrf.kernels import Cauchy, Gaussian, Matern
from distrf.learned.objectives import CompactWork, CosineFeatures, KernelWork, Layout
from distrf.losses import LOSSES
from distrf.maps import LearnedFourierMap
from distrf.maps.learned import CirculantFrequencies, get_frequencies
from distrf.targets import Targets

d = 7
#: Features for k < d, k = d and k > d; the order of a circulant block over 7 columns is 8.
SHAPES = [
    (structure, phase, D)
    for structure in ("dense", "circulant")
    for phase, sizes in (("offset", (3, 7, 8, 19)), ("paired", (6, 16, 22)))
    for D in sizes
]


def layout_of(d, D, phase, structure, n_outputs, **more):
    return Layout(LearnedFourierMap(d, D, phase, structure, 3), n_outputs, **more)


def problem(layout, n=41, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.normal(size=layout.size + 1)[1:]
    Y = np.sign(rng.normal(size=(n, max(layout.n_outputs, 1))))
    return p, rng.normal(size=(n, d)), Y, rng.uniform(0.2, 2.0, n)


def loss_work(layout, name):
    return CompactWork(
        Targets(None, np.zeros(layout.n_outputs)), LOSSES[name](0.3), 0.0, 0, layout=layout
    )  # fmt: skip


def kernel_work(layout, kernel):
    map_ = replace(layout.map, kernel=kernel, length_scale=1.7)
    return KernelWork(Targets(None, np.zeros(1)), None, 0.0, 0, layout=replace(layout, map=map_))


def check_gradient(work, taken, p):
    """Every entry against central differences; their error is h^2 / 6 f''' + eps f / h, 1e-7 relative here."""
    G = work.gradient(taken, p)[0]
    h, scale = 1e-5, max(1.0, abs(G).max())
    for i in range(len(p)):
        up, down = p.copy(), p.copy()
        up[i] += h
        down[i] -= h
        slope = (work.gradient(taken, up)[1] - work.gradient(taken, down)[1]) / (2 * h)
        assert abs(G[i] - slope) <= 2e-7 * scale, (i, G[i], slope)


@pytest.mark.parametrize("name", sorted(LOSSES))
@pytest.mark.parametrize(("structure", "phase", "D"), SHAPES)
def test_gradients_of_losses(structure, phase, D, name):
    layout = layout_of(d, D, phase, structure, 3)
    p, X, Y, weight = problem(layout)
    targets = Y * np.arange(1.0, 42.0)[:, None] / 20 if LOSSES[name].task == "regression" else Y
    if name == "multinomial":
        targets = np.where(np.arange(3) == np.arange(41)[:, None] % 3, 1.0, -1.0)
    work = loss_work(layout, name)
    if name not in ("logistic", "multinomial", "squared"):  # rows within 1e-3 of a kink of a piece have no say
        features = CosineFeatures(layout, p, X.dtype)
        scores = features.scores(features.forward(X)[0])
        low, here, high = (work.loss(scores + step, targets)[1] for step in (-1e-3, 0.0, 1e-3))
        kinked = (abs(low - 2 * here + high) > 1e-9).any(axis=1)
        assert kinked.mean() < 0.1
        weight = np.where(kinked, 0.0, weight)
    check_gradient(work, (X, targets, weight), p)


@pytest.mark.parametrize("structure", ["dense", "circulant"])
def test_gradients_of_one_score_without_intercept(structure):
    layout = layout_of(d, 10, "offset", structure, 1, intercept=False)
    p, X, Y, weight = problem(layout)
    check_gradient(loss_work(layout, "logistic"), (X, Y, weight), p)


@pytest.mark.parametrize("phase", ["offset", "paired"])
@pytest.mark.parametrize("structure", ["dense", "circulant"])
def test_gradients_over_several_tiles(structure, phase):
    """Rows go through features in tiles; pairs are of rows of all tiles."""
    layout = layout_of(d, 10, phase, structure, 0)
    n = layout.map.linear.rows_per_tile + 9
    p, X, Y, weight = problem(layout, n)
    check_gradient(kernel_work(layout, Gaussian()), (X, Y, weight), p)
    layout = layout_of(d, 10, phase, structure, 3)
    p, X, Y, weight = problem(layout, n)
    check_gradient(loss_work(layout, "logistic"), (X, Y, weight), p)


@pytest.mark.parametrize("kernel", [Gaussian(), Cauchy(), Matern(1.5)], ids=repr)
@pytest.mark.parametrize(("structure", "phase", "D"), SHAPES)
def test_gradients_of_the_kernel_error(structure, phase, D, kernel):
    layout = layout_of(d, D, phase, structure, 0)
    p, X, Y, weight = problem(layout, 20)
    check_gradient(kernel_work(layout, kernel), (X, Y, None), p)
    check_gradient(kernel_work(layout, kernel), (X, Y, weight), p)


@pytest.mark.parametrize("phase", ["offset", "paired"])
def test_the_kernel_error_is_the_mean_over_ordered_pairs(phase):
    layout = layout_of(d, 6, phase, "dense", 0)
    p, X, Y, _ = problem(layout, 20)
    theta, b, _, _ = layout.split(p)
    map_ = LearnedFourierMap(d, 6, phase, "dense", 3, None, None, theta, b / (2 * np.pi) if len(b) else None)
    Z = map_(X)
    errors = (Gaussian()(X, None, 1.7) - Z @ Z.T) ** 2
    expected = (errors.sum() - np.trace(errors)) / (20 * 19)
    _, value, weight, *_ = kernel_work(layout, Gaussian()).gradient((X, Y, None), p)
    np.testing.assert_allclose(value / weight, expected, rtol=1e-12)
    v = np.arange(20.0)
    pairs = np.outer(v, v) - np.diag(v * v)
    _, value, weight, *_ = kernel_work(layout, Gaussian()).gradient((X, Y, v), p)
    np.testing.assert_allclose(value / weight, (pairs * errors).sum() / pairs.sum(), rtol=1e-12)


@pytest.mark.parametrize("structure", ["dense", "circulant"])
def test_a_weight_of_three_is_three_rows(structure):
    layout = layout_of(d, 10, "offset", structure, 3)
    p, X, Y, _ = problem(layout)
    weight = np.arange(41) % 4
    work = loss_work(layout, "multinomial")
    weighted = work.gradient((X, Y, weight.astype(float)), p)
    repeated = work.gradient((np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0), None), p)
    np.testing.assert_allclose(weighted[0], repeated[0], atol=1e-12)
    np.testing.assert_allclose(weighted[1:], repeated[1:], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("structure", "phase", "D"), SHAPES)
def test_features_of_training_are_those_of_the_map(structure, phase, D, dtype):
    layout = layout_of(d, D, phase, structure, 2)
    p, X, _, _ = problem(layout)
    theta, b, w, c = layout.split(p)
    map_ = LearnedFourierMap(d, D, phase, structure, 3, None, None, theta, b / (2 * np.pi) if len(b) else None)
    features = CosineFeatures(layout, p, np.dtype(dtype))
    scores = features.scores(features.forward(X.astype(dtype))[0])
    expected = map_(X) @ w + c
    np.testing.assert_allclose(scores, expected, atol=1e-4 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("columns", [1, 7, 8, 13])
@pytest.mark.parametrize("m", [1, 5, 8, 16, 21])
def test_circulant_gradient_is_that_of_the_matrix(columns, m):
    """dL/dr_b[j] sums dL/dTheta over the entries of Theta that are r_b[j], signs included."""
    linear = get_frequencies("circulant", columns, m, 5)
    assert isinstance(linear, CirculantFrequencies)
    rng = np.random.default_rng(2)
    numbers, X, E = rng.normal(size=linear.shape), rng.normal(size=(9, columns)), rng.normal(size=(9, m))
    Theta = linear.matrix(numbers)
    phases, kept = linear.phases(X, linear.prepare(numbers, np.dtype(float)))
    np.testing.assert_allclose(phases * 2 * np.pi, X @ Theta.T, atol=1e-12)
    total = linear.start(np.dtype(float))
    linear.add(total, kept, E)
    expected = np.zeros(linear.shape)
    for k in range(m):
        for j in range(columns):
            expected[k // linear.order, (k - j) % linear.order] += linear.signs()[j] * (E.T @ X)[k, j]
    np.testing.assert_allclose(linear.finish(total), expected, atol=1e-12)
