"""The penalty that a sample asks for, and the best constants of losses, against what is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from distrf.losses import get_loss
from distrf.sgd.alpha import _Fold, sample_alpha
from distrf.sgd.schedules import count_epochs, patience
from distrf.sgd.spectrum import best_constant
from distrf.targets import Targets


def known(s, n_features, sigma, tau, seed=0, outputs=1):
    """Rows of unit variance, weights of variance tau^2, noise sigma."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(s, n_features))
    W = tau * rng.normal(size=(n_features, outputs))
    return Z, Z @ W + sigma * rng.normal(size=(s, outputs)), W


@pytest.mark.parametrize(("sigma", "tau"), [(1.0, 1.0), (10.0, 1.0), (0.3, 0.01), (3.0, 1.0)])
def test_alpha_is_noise_over_rows_and_prior(sigma, tau):
    """sigma^2 / (n tau^2), within the steps of half a power of ten and what folds cannot tell: a factor of 6."""
    chosen = [sample_alpha(*known(900, 60, sigma, tau, seed)[:2], None, 50_000, seed) for seed in range(8)]
    exact = sigma**2 / (50_000 * tau**2)
    assert exact / 6 < np.exp(np.median(np.log(chosen))) < exact * 6


def test_alpha_falls_faster_where_more_rows_tell_more():
    """Smooth targets without noise: ever smaller penalties; noise alone in all directions: sigma^2 / (n tau^2)."""
    rng, k = np.random.default_rng(0), np.arange(1, 1401)[:, None]
    Z = rng.normal(size=(1200, 1400)) / k.T
    smooth = Z @ (rng.normal(size=(1400, 1)) * k)
    fell = [sample_alpha(Z, smooth, None, n, 0) for n in (2_000, 200_000)]
    assert fell[0] / fell[1] > 300
    Z, Y, _ = known(1200, 50, 10.0, 0.3)
    fell = [sample_alpha(Z, Y, None, n, 0) for n in (2_000, 200_000)]
    assert 10 * 0.9 <= fell[0] / fell[1] <= 1000 * 1.1


def test_labels_that_come_in_cycles_are_all_fitted():
    """Every third of the rows has the same label, and few enough rows are fitted that every third or sixth might be taken."""
    rng = np.random.default_rng(0)
    n = 7_500
    codes = np.arange(n) % 6
    Z = np.eye(6)[codes] + 0.5 * rng.normal(size=(n, 6))
    Y = np.where(np.eye(6)[codes] > 0, 1.0, -1.0)
    options = {"loss": get_loss("multinomial", 6), "smoothness": 0.5}
    by_number = sample_alpha(Z, Y, None, n, 0, folds=(np.arange(n) >= n // 5).astype(np.int8), **options)
    assert by_number < 30 * sample_alpha(Z, Y, None, n, 0, **options)


@pytest.mark.parametrize("name", ["squared", "logistic", "hinge", "huber"])
def test_the_path_of_a_loss_ends_at_its_minima(name):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(300, 8)) * 0.5 ** np.arange(8)
    margin = Z @ rng.normal(size=(8, 1)) + 0.3 * rng.normal(size=(300, 1))
    Y = margin if name == "huber" else np.sign(margin)
    loss, w, train = get_loss(name, 2), rng.uniform(0.5, 2.0, 300), np.arange(0, 200)
    part = _Fold(Z, Y, w, train, np.arange(200, 300), loss, loss.curvature(1.0))
    W = part.constant
    for alpha in (1.0, 0.1, 0.01):
        W = part.fit(alpha, W)

        def objective(u, alpha=alpha):
            return (
                np.average(loss(Z[train] @ u[:8, None] + u[8], Y[train])[0], weights=w[train])
                + alpha / 2 * u[:8] @ u[:8]
            )

        found = (
            np.average(loss(part.F @ W[:-1] + W[-1], Y[train])[0], weights=w[train])
            + alpha / 2 * (W[:-1] ** 2).sum()
        )
        least = minimize(
            objective, np.zeros(9), method="Powell", options={"maxiter": 20_000, "ftol": 1e-10}
        ).fun
        assert found < 1.02 * least


CLASS_LOSSES = ["hinge", "squared_hinge", "logistic", "multinomial", "squared"]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", CLASS_LOSSES)
def test_constants_of_classes(name, classes):
    """From the shares alone; no constant scores are better."""
    counts = np.array([70, 30] if classes == 2 else [50, 30, 19, 1])
    y = np.repeat(np.arange(classes), counts)
    width = 1 if classes == 2 else classes
    targets = Targets(np.arange(classes), np.zeros(width), None, counts / counts.sum())
    loss = get_loss(name, classes)
    Y = targets.encode(y, None)[0]
    start, null_loss = best_constant(loss, targets, Y[:3], None)

    def mean_loss(scores):
        return loss(np.broadcast_to(scores, Y.shape), Y)[0].mean()

    tried = [minimize(mean_loss, s * np.ones(width), method="Nelder-Mead", options={"maxiter": 4000, "fatol": 1e-12}).fun
             for s in (-1.0, 0.0, 1.0)]  # fmt: skip
    assert mean_loss(start) <= min(tried) + 1e-6
    assert null_loss == pytest.approx(mean_loss(start))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["squared", "huber", "epsilon_insensitive"])
def test_constants_of_numbers(name, weighted):
    rng = np.random.default_rng(0)
    y = rng.exponential(size=(301, 2)) * [1.0, 1000.0]
    w = rng.uniform(0.1, 3.0, 301) if weighted else None
    targets = Targets(None, np.average(y, axis=0, weights=w))
    loss = get_loss(name, epsilon=0.3)
    Y = targets.encode(y, None)[0]
    start = best_constant(loss, targets, Y, w)[0]
    for c in range(2):
        grid = np.linspace(Y[:, c].min(), Y[:, c].max(), 2_001)
        losses = [np.average(loss(np.full((301, 1), s), Y[:, [c]])[0], weights=w) for s in grid]
        reached = np.average(loss(np.full((301, 1), start[c]), Y[:, [c]])[0], weights=w)
        assert reached <= min(losses) + 1e-9 * max(losses)


def test_few_batches_make_many_epochs():
    """600 batches at least, and as much patience as 40 epochs have."""
    assert [count_epochs("auto", k) for k in (1, 7, 15, 100)] == [600, 86, 40, 40]
    assert count_epochs(5, 1) == 5
    assert [patience(3, "auto", count_epochs("auto", k)) for k in (1, 7, 100)] == [45, 6, 3]
    assert patience(3, 5, 5) == 3
