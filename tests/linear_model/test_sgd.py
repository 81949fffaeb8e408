"""SGD in tables: every loss against a reference, on every kind of input and of rows that nobody prepared."""

from __future__ import annotations

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from distrf import (
    RandomFourierFeatures,
    StreamingLinearClassifier,
    StreamingLinearRegressor,
    StreamingRidge,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
)
from distrf.errors import InputError
from distrf.sgd.optimizer import PreconditionedSGD
from distrf.sgd.preconditioner import Preconditioner

LABEL_LOSSES = "hinge", "squared_hinge", "logistic", "multinomial", "squared"
NUMBER_LOSSES = "squared", "huber", "epsilon_insensitive"
MODELS = [(StreamingSGDClassifier, loss) for loss in LABEL_LOSSES]
MODELS += [(StreamingSGDRegressor, loss) for loss in NUMBER_LOSSES]
each_model = pytest.mark.parametrize(("kind", "loss"), MODELS)


def regression(n=3000, d=15, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -1.0 + 0.3
    return X, X @ rng.normal(size=d) + 5.0 + 0.3 * rng.normal(size=n)


def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def cut_short(model, *rows):
    """Fitted in fewer epochs than it would take."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*the loss still falls", ConvergenceWarning)
        return model.fit(*rows)


# ---- every loss x every form of input x every kind of columns

FORMS = {
    "float64": np.asarray,
    "float32": lambda a: a.astype(np.float32) if a.ndim == 2 else a,
    "csr": lambda a: sp.csr_array(a) if a.ndim == 2 else a,
    "dask": lambda a: da.from_array(a, chunks=(400, *a.shape[1:])),
}


def columns(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 12))
    y = X @ rng.normal(size=12) + 0.3 * rng.normal(size=2000)
    moved = {
        "like": lambda: X,
        "far": lambda: X + np.where(np.arange(12) % 3, 0.0, 1e4),
        "constant": lambda: np.hstack([np.ones((2000, 2)), np.zeros((2000, 1)), X]),
    }
    return moved[kind](), y


@pytest.mark.parametrize(
    ("rows", "form"),
    [
        *(("like", form) for form in FORMS),
        ("far", "float32"),
        ("far", "dask"),
        ("constant", "float64"),
        ("constant", "csr"),
    ],
)
@each_model
def test_every_loss_learns_from_every_input(kind, loss, rows, form):
    """Far columns lay in the rounding of the means."""
    X, y = columns(rows)
    y, least = (y, 0.97) if kind is StreamingSGDRegressor else (y > 0, 0.93)
    Z, t = FORMS[form](X), FORMS[form](y)
    assert cut_short(kind(loss), Z, t).score(Z, t) > least


def test_columns_of_unlike_units_want_a_scaler():
    """Squares of extreme sizes were no numbers: a ValueError from within, or nothing learned."""
    X, y = columns("like")
    for size in (1e-30, 1e18, 1e25):
        with pytest.raises(InputError, match="StreamingScaler"):
            StreamingSGDRegressor().fit((size * X).astype(np.float32), y)
    with pytest.warns(ConvergenceWarning, match="put StreamingScaler before it"):
        StreamingSGDRegressor().fit(X * [1e4, *[1.0] * 11], y)
    with pytest.warns(ConvergenceWarning, match="put StreamingScaler before it") as warned:
        StreamingLinearRegressor().fit(X * [1e7, *[1.0] * 11], y)
    assert warned[0].filename == __file__  # where `fit` was called


@pytest.mark.parametrize(
    "model", [StreamingSGDRegressor(), StreamingLinearRegressor(), StreamingLinearClassifier()]
)
def test_small_columns_are_not_lost_to_the_penalty(model):
    """Losses do not fall for decades of alpha, between a large column that tells nothing and the others: the path ended there."""
    X = np.random.default_rng(0).normal(size=(3_000, 5)) * [300.0, 1, 1, 1, 1]
    y = X[:, 1] > 0 if is_classifier(model) else X[:, 1]
    assert model.fit(X, y).score(X, y) > 0.95


# ---- against references


@pytest.mark.parametrize("outputs", [None, 3])
def test_few_rows_are_one_batch_and_the_exact_solution(outputs):
    X, y = regression(500)
    y = y if outputs is None else np.stack([y, -y, y**2], axis=1)
    w = np.random.default_rng(1).uniform(0.1, 3, len(X))
    exact = StreamingRidge(1e-2).fit(X, y, w)
    ours = StreamingSGDRegressor(alpha=1e-2, n_epochs=30, tol=None).fit(X, y, w)
    assert ours.t_ == 30
    np.testing.assert_allclose(ours.coef_, exact.coef_, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(ours.intercept_, exact.intercept_, rtol=1e-7)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("classes", [2, 10])
def test_logistic_reaches_scikit_learn(classes, class_weight):
    X, y = digits()
    keep = np.flatnonzero(y < classes)[:1000]
    X, y, alpha = X[keep], y[keep], 1e-2
    w = np.random.default_rng(1).uniform(0.5, 2, len(y))
    if class_weight == "balanced":  # there the peer counts rows, and its weights sum otherwise
        w = np.ones(len(y))
    peer = LogisticRegression(C=1 / (alpha * w.sum()), class_weight=class_weight, tol=1e-9, max_iter=5000)
    peer.fit(X, y, w)
    ours = StreamingSGDClassifier(
        "multinomial", alpha=alpha, class_weight=class_weight, n_epochs=400, tol=None
    ).fit(X, y, w)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-4)


@pytest.mark.filterwarnings("ignore:Liblinear failed")
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_hinges_reach_scikit_learn(loss):
    X, y = digits()
    X, y, alpha = X[:1000], y[:1000] % 2, 1e-2
    peer = LinearSVC(
        loss=loss, C=1 / (alpha * 1000), intercept_scaling=100, tol=1e-8, max_iter=200_000, random_state=0
    )
    peer.fit(X, y)
    ours = StreamingSGDClassifier(loss, alpha=alpha, n_epochs=500, tol=None).fit(X, y)

    def objective(model):
        slack = np.maximum(0, 1 - (2 * y - 1) * model.decision_function(X))
        return (slack if loss == "hinge" else slack**2).mean() + alpha / 2 * (model.coef_**2).sum()

    assert objective(ours) <= objective(peer) * (1.01 if loss == "hinge" else 1 + 1e-4)


@pytest.mark.parametrize("decay", [None, 3.0])
def test_a_step(decay):
    """-eta_t P (G + alpha w) with the longest stable step, which falls as 1 / sqrt(1 + t / decay); no penalty on the intercept."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(4, 2)))[0]
    shrink, alpha = np.array([0.9, 0.5]), 0.3
    P = np.eye(4) - Q @ np.diag(shrink) @ Q.T
    optimizer = PreconditionedSGD(Preconditioner(Q, shrink, 0.5, 2.0), alpha, True, 0.0, False, decay)
    state = optimizer.start(np.zeros((4, 2)))
    W = np.zeros((4, 2))
    for t in range(5):
        G = rng.normal(size=(4, 2))
        rows, whole = 10, t == 4
        eta = (1 / 0.5 if whole else rows / (2.0 + 9 * 0.5)) / (
            1.0 if decay is None else np.sqrt(1 + t / decay)
        )
        W = W - eta * P @ (G + np.r_[alpha * W[:3], np.zeros((1, 2))])
        optimizer.step(state, G, rows, whole)
        np.testing.assert_allclose(state.weights, W, rtol=1e-12)
    assert optimizer.penalty_value(W) == pytest.approx((alpha * W[:3] ** 2).sum() / 2)
    optimizer.back_off(state, W, 7.0)
    assert (state.scale, state.t) == (0.5, 5)


# ---- epochs, calls, files


# ---- rows that nobody prepared: heavy tails, rare classes, offsets, noise


@pytest.mark.parametrize("loss", ["huber", "epsilon_insensitive"])
def test_outliers_hardly_move_robust_losses(loss):
    X, y = regression(900)
    y_bad = y.copy()
    y_bad[:45] += 300.0
    model = StreamingSGDRegressor(loss, epsilon=0.5, n_epochs=300, tol=None).fit(X, y_bad)
    assert model.score(X[45:], y[45:]) > 0.8 > StreamingRidge().fit(X, y_bad).score(X[45:], y[45:])


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_curvature_that_the_directions_have_not_seen(dtype):
    """Steps measured on the rows that fitted the directions diverge: R^2 of -0.64 after three epochs, ridge 0.61."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14_000, 6)) * np.sqrt(1.5 / rng.chisquare(1.5, size=(14_000, 6)))
    for _ in range(6):  # six tight clusters of 0.25 % of the rows far away
        rows = rng.choice(14_000, 35, replace=False)
        X[rows] = 0.02 * rng.normal(size=(35, 6)) + 40 * rng.normal(size=6)
    y = np.sin(np.arcsinh(X[:, 0])) + np.arcsinh(X[:, 1]) * np.tanh(X[:, 2]) + 0.2 * rng.normal(size=14_000)
    X = StandardScaler().fit_transform(X).astype(dtype)
    Z = RandomFourierFeatures(n_components=512, random_state=0).fit(X).transform(X)
    ridge = StreamingRidge(1e-6).fit(Z[:12_000], y[:12_000]).score(Z[12_000:], y[12_000:])
    model = cut_short(StreamingSGDRegressor(alpha=1e-6, n_epochs=3, tol=None), Z[:12_000], y[:12_000])
    assert model.score(Z[12_000:], y[12_000:]) > ridge - 0.02
    assert [h["loss"] for h in model.history_] == sorted([h["loss"] for h in model.history_], reverse=True)


@pytest.mark.parametrize("n", [300, 4000])
def test_noise_gives_the_constant(n):
    """Where no weights are better than none, none are what is returned, however long the steps."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(1.2, size=(n, 50))
    y = rng.normal(size=n) + 3.0
    for options in ({}, {"alpha": 0.0}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = StreamingSGDRegressor(**options).fit(X, y)
        loss = ((model.predict(X) - y) ** 2).mean() / 2 + model.alpha_ / 2 * (model.coef_**2).sum()
        assert loss <= y.var() / 2 * (1 + 1e-9)
    labels = np.arange(n) % 4
    model = StreamingSGDClassifier(alpha=1e-3)
    with pytest.warns(ConvergenceWarning, match="the constant is what is kept"):
        model.fit(rng.normal(size=(n, 5)), labels)
    assert model.best_epoch_ == 0
    np.testing.assert_array_equal(model.coef_, 0.0)
    np.testing.assert_allclose(model.intercept_, -1.0, atol=1e-4)


def test_warnings_say_what_to_do():
    rng = np.random.default_rng(0)
    scale = np.arange(1, 21) ** -1.5
    X = rng.normal(size=(2000, 20)) * scale
    y = X @ (rng.normal(size=20) / scale)
    slow = StreamingSGDRegressor(alpha=0.0, n_epochs=5, tol=None, n_directions=0)
    with pytest.warns(
        ConvergenceWarning, match=r"the loss still falls after 5 epochs: .* raise n_epochs \(now 5\)"
    ):
        slow.fit(X, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hinges_that_learn_nothing_predict_the_most_frequent_class(dtype):
    """Scores of -1 for each of three classes, none of which is half of the rows, gave the first: .22 against .42."""
    rng = np.random.default_rng(0)
    X = rng.standard_cauchy(size=(2000, 5))
    y = np.digitize(np.tanh(X[:, 0]) + np.tanh(X[:, 1]) + 0.5 * rng.normal(size=2000), [-0.9, 0.2])
    model = StreamingSGDClassifier("hinge", alpha=1e4)
    with pytest.warns(
        ConvergenceWarning, match=r"than a constant, whose loss is 2 \(theirs 2.0\d+ .* scale them"
    ):
        model.fit(X.astype(dtype), y)
    assert model.best_epoch_ == 0
    assert model.score(X.astype(dtype), y) == np.bincount(y).max() / 2000


@pytest.mark.parametrize(("weights", "n_epochs"), [("pareto", 1), ("pareto", 3), (1e7, 10), (2e4, 10)])
def test_where_few_rows_weigh_most_it_is_said(weights, n_epochs):
    """A row that the sample lacks, in the last batch of the best epoch, left R^2 of -2 and of -10,000 without a word."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 4)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    Z = RandomFourierFeatures(n_components=128, length_scale=1.0, random_state=0).fit_transform(X)
    w = np.random.default_rng(0).pareto(1.0, size=len(y)) + 1
    if weights != "pareto":
        w = np.where(np.arange(len(y)) == 17_779, weights, 1.0)
    said = "steps are .* times shorter" if weights == 2e4 else "no epoch was better than a constant"
    with pytest.warns(ConvergenceWarning, match=rf"{said}.* times the mean weight; StreamingRidge"):
        model = StreamingSGDRegressor(n_epochs=n_epochs, alpha=1e-5).fit(Z, y, w)
    if weights != 2e4:
        assert model.best_epoch_ == 0
        assert model.score(Z, y, w) == pytest.approx(0.0, abs=1e-6)
