"""Successive halving: the right winner, the sums behind it, and the same result wherever it runs."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array

from distrf import (
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingScaler,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
)
from distrf.datasets import load_digits_split
from distrf.errors import InputError, MemoryPlanError
from distrf.execution.memory import Workers
from distrf.ridge.path import ridge_path
from distrf.targets import class_targets, regression_targets
from distrf.tuning import level_sizes, read_sample, tune

X, Y, *_ = load_digits_split(0)
ALPHAS = [1e-6, 1e-4, 1e-2]
SCALES = {"length_scale": [0.2, 2.0, 40.0], "n_components": [32, 128]}


def fourier():
    return RandomFourierFeatures(random_state=1)


def plain(trial):
    """A trial without its time."""
    return {k: v for k, v in vars(trial).items() if k != "seconds"}


@pytest.mark.parametrize("D", [40, 400], ids=["more rows", "more features"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("task", ["classes", "balanced", "numbers"])
def test_path_is_ridge(D, intercept, task):
    """Both sides of the Gram matrix give the solutions of StreamingRidge."""
    rows, n = X[:200].astype(float), 200
    map_ = fourier().set_params(length_scale=2.0, n_components=D).fit(rows)
    if task == "numbers":
        y = rows[:, 20] * 3 + 1
        targets, model = regression_targets(y, None), StreamingRidge
        if not intercept:
            targets = type(targets)(None, np.zeros(1))
        kwargs = {}
    else:
        y, weight = Y[:n], "balanced" if task == "balanced" else None
        targets, model, kwargs = (
            class_targets(y, None, weight),
            StreamingRidgeClassifier,
            {"class_weight": weight},
        )
    path = ridge_path(map_.transform, D, rows, y, targets, ALPHAS, intercept)
    for alpha, solution in zip(ALPHAS, path, strict=True):
        exact = model(alpha, fit_intercept=intercept, solver="gram", **kwargs).fit(map_.transform(rows), y)
        assert solution.alpha == alpha
        # The Gram matrix of 400 features from 200 rows is solved to its condition number, at most 1e6 x 1e-16.
        np.testing.assert_allclose(solution.weights.T, np.atleast_2d(exact.coef_), rtol=1e-5, atol=1e-7)
        offset = solution.intercept + (targets.centre if intercept else 0)
        np.testing.assert_allclose(offset, np.atleast_1d(exact.intercept_), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("constant", "first", "tolerance"), [(0.0, 0, 1e-7), (1e6, 1, 5e-3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_path_of_sparse_rows(dtype, constant, first, tolerance):
    """Fewer rows than columns, not normalised, and a penalty below the rounding of float32 products.

    A large constant costs digits of products that are centred afterwards: a penalty below their rounding becomes larger.
    """
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.5, (200, 400)) * rng.choice([0.1, 0.3, 7.0], 400)
    counts[:, 0] = constant
    counts = counts.astype(np.float32).astype(dtype)
    y = counts @ rng.normal(size=400)
    targets = regression_targets(y, None)
    of_sparse, of_dense = (
        ridge_path(lambda Z: Z, 400, rows, y, targets, [1e-8, 1e-2], True)
        for rows in (csr_array(counts), counts)
    )
    for sparse, dense in zip(of_sparse[first:], of_dense[first:], strict=True):
        np.testing.assert_allclose(sparse.weights, dense.weights, atol=tolerance)


@pytest.mark.parametrize(
    ("candidates", "rows", "factor", "sizes"),
    [
        (1, 16_000, 3, [16_000]),
        (3, 16_000, 3, [16_000]),
        (14, 16_000, 3, [1777, 5333, 16_000]),
        (100, 16_000, 3, [1000, 1777, 5333, 16_000]),
        (8, 500, 2, [500]),
    ],
)
def test_level_sizes(candidates, rows, factor, sizes):
    assert level_sizes(candidates, rows, factor) == sizes


def test_the_best_of_the_grid_wins():
    """The middle of three length scales, by far; scores are those of a model fitted by hand."""
    tuned = tune(X, Y, fourier(), SCALES, StreamingRidgeClassifier(), ALPHAS)
    assert tuned.best.parameters == {"length_scale": 2.0, "n_components": 128}
    assert [sum(t.level == level for t in tuned.trials) for level in (0, 1)] == [6, 2]
    assert sum(t.kept for t in tuned.trials) == 3
    assert tuned.best is tuned.trials[[t.kept and t.level == 1 for t in tuned.trials].index(True)]
    sample = read_sample(X, Y, 20_000, 0)
    assert tuned.validation_rows == len(sample.yv) == len(X) // 5
    for trial in tuned.trials:
        rows = slice(0, trial.rows)
        map_ = fourier().set_params(**trial.parameters).fit(sample.X[rows])
        model = StreamingRidgeClassifier(trial.alpha).fit(map_.transform(sample.X[rows]), sample.y[rows])
        exact = model.score(map_.transform(sample.Xv), sample.yv)
        assert trial.score == pytest.approx(exact, abs=1.01 / len(sample.yv))  # one row at the border
        assert trial.score == max(trial.scores) == trial.scores[ALPHAS.index(trial.alpha)]


def test_regression():
    y = (X[:, 20] + X[:, 30] ** 2).astype(float)
    tuned = tune(X, y, fourier(), SCALES, StreamingRidge(), ALPHAS)
    assert tuned.metric == "R²"
    assert tuned.best.parameters["length_scale"] != 0.2
    assert 0.8 < tuned.best.score < 1
    sample = read_sample(X, y, 20_000, 0)
    # R^2 and mean squared error of the held-out rows belong together.
    assert tuned.best.score == pytest.approx(1 - tuned.best.error / sample.yv.var(), rel=1e-9)


@pytest.mark.parametrize(
    "model", [StreamingSGDClassifier("logistic", n_epochs=3), StreamingSGDRegressor(n_epochs=3)]
)
def test_models_that_learn_by_sgd(model):
    y = Y if hasattr(model, "class_weight") else 10.0 + X[:, 20]
    tuned = tune(X, y, fourier(), {"length_scale": [0.2, 2.0]}, model.set_params(tol=None), [1e-5, 10.0])
    assert tuned.best.parameters == {"length_scale": 2.0}
    assert tuned.best.alpha == 1e-5
    assert tuned.best.score > 0.8
    assert not hasattr(model, "coef_")


def test_columns_as_they_are():
    tuned = tune(X, Y, None, {}, StreamingRidgeClassifier(), ALPHAS)
    assert len(tuned.trials) == 1
    assert tuned.best.parameters == {}
    assert tuned.best.score > 0.85


def test_the_same_anywhere(client):
    """Lazy or in memory, on workers or in threads, in whatever chunks: one seed, one result."""
    arguments = (fourier(), SCALES, StreamingRidgeClassifier(), ALPHAS)
    lazy = [da.from_array(a, chunks=(100, *a.shape[1:])) for a in (X, Y)]
    on_workers = tune(*lazy, *arguments, n_rows=600)
    shown = []
    with dask.config.set(scheduler="threads"):
        here = tune(X, Y, *arguments, n_rows=600, on_trial=shown.append)
    assert [plain(t) for t in on_workers.trials] == [plain(t) for t in here.trials]
    assert [t.parameters for t in shown] == [t.parameters for t in here.trials]
    other = tune(X, Y, *arguments, n_rows=600, random_state=1)
    assert [t.score for t in other.trials] != [t.score for t in here.trials]


def test_the_sample():
    sample = read_sample(X, Y, 500, 0)
    assert (len(sample.y), len(sample.yv)) == (400, 100)
    rows = np.vstack([sample.X, sample.Xv])
    places = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in rows]
    assert len(set(places)) > 495  # a few digits occur twice
    np.testing.assert_array_equal(Y[places], np.concatenate([sample.y, sample.yv]))
    assert places != sorted(places)
    assert (np.bincount(sample.yv, minlength=10) > 2).all()


def test_rows_are_held_out_at_random():
    """Of many rows the sample has runs of eight neighbours: of most runs some are held out, and some are not."""
    n = 80_000
    numbers = np.arange(n, dtype=np.float64)[:, None]
    sample = read_sample(numbers, numbers[:, 0], 2000, 0)
    held, kept = (set((rows[:, 0] // 8).astype(int).tolist()) for rows in (sample.Xv, sample.X))
    assert len(sample.Xv) == 400
    assert len(held & kept) > 180  # of 250, each with a chance of .83


def test_refusals(monkeypatch):
    ridge = StreamingRidgeClassifier()
    spoiled = X.copy()
    spoiled[:, 3] = np.nan
    for arguments, message in (
        ((X, Y, fourier(), {"length_scale": []}, ridge, ALPHAS), "at least one value"),
        ((X, Y, fourier(), SCALES, ridge, [-1.0]), "alphas must be"),
        ((X, None, fourier(), SCALES, ridge, ALPHAS), "needs targets"),
        ((X, Y[:50], fourier(), SCALES, ridge, ALPHAS), r"got \(50,\) and \(1437, 64\)"),
        ((X[:10], Y[:10], fourier(), SCALES, ridge, ALPHAS), "at least 20 rows, got 10"),
        ((spoiled, Y, fourier(), SCALES, ridge, ALPHAS), "X must be finite"),
        ((X, np.zeros(len(X), int), fourier(), SCALES, ridge, ALPHAS), "at least 2 classes"),
    ):
        with pytest.raises(InputError, match=message):
            tune(*arguments)
    with pytest.raises(InputError, match="factor must be an integer >= 2, got 1"):
        tune(X, Y, fourier(), SCALES, ridge, ALPHAS, factor=1)
    monkeypatch.setattr(Workers, "of_client", classmethod(lambda cls, client: cls(2, 1, 400 * 2**20)))
    with pytest.raises(MemoryPlanError, match="tune was refused"):
        tune(X, Y, fourier(), {"n_components": [64, 8192]}, ridge, ALPHAS)


def test_a_rule_stands_for_scales_around_its_number():
    """The search on scaled rows, with the numbers of the rule, is the search that the rule asks for."""
    model = StreamingRidgeClassifier()
    found = tune(X, Y, fourier(), {"length_scale": "knn"}, model, ALPHAS, scale="standard", n_rows=400)
    scaled = StreamingScaler("standard").fit_transform(X)
    middle = fourier().set_params(random_state=0).fit(scaled).length_scale_
    tried = found.parameters["length_scale"]
    np.testing.assert_allclose(tried, middle * 2.0 ** np.arange(-1.5, 2.0, 0.5), rtol=1e-3)
    again = tune(scaled, Y, fourier(), {"length_scale": tried}, model, ALPHAS, n_rows=400)
    assert [plain(trial) for trial in found.trials] == [plain(trial) for trial in again.trials]
    assert found.scaler.method == "standard"
    assert again.scaler is None
