"""Streaming SGD against exact and scikit-learn's solutions, and its rules."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from distrf import (
    RandomFourierFeatures,
    StreamingRidge,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
    load_model,
    save_model,
)
from distrf.errors import InputError
from distrf.ridge import normal_equations
from distrf.sgd.learning_rates import Auto, project
from distrf.sgd.optimizer import PreconditionedSGD
from distrf.sgd.penalties import Penalty
from distrf.sgd.preconditioner import Preconditioner


def chosen_by_folds(estimator):
    """Folds of repeated rows are other folds, as they are for scikit-learn's RidgeCV."""
    if estimator.alpha != "auto":
        return {}
    kinds = ("dense", "sparse")
    return {f"check_sample_weight_equivalence_on_{kind}_data": "alpha is chosen by folds" for kind in kinds}


@parametrize_with_checks(
    [
        StreamingSGDRegressor(alpha=1e-4),
        StreamingSGDClassifier(),
        StreamingSGDRegressor(),
        StreamingSGDRegressor("huber", alpha=1e-4),
        StreamingSGDRegressor(penalty="l1", alpha=1e-3),
        StreamingSGDClassifier("multinomial", alpha=1e-3),
        StreamingSGDClassifier("logistic", learning_rate="adaptive", momentum=0.9),
    ],
    expected_failed_checks=chosen_by_folds,
)
@pytest.mark.filterwarnings(
    "ignore:.*no epoch was better:sklearn.exceptions.ConvergenceWarning"
)  # some are of noise
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def regression(n=3000, d=15, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -1.0 + 0.3
    return X, X @ rng.normal(size=d) + 5.0 + 0.3 * rng.normal(size=n)


def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def test_squared_loss_reaches_ridge():
    X, y = regression()
    exact = StreamingRidge(1e-4).fit(X, y)
    ours = StreamingSGDRegressor(alpha=1e-4, n_epochs=60, tol=None).fit(X, y)
    assert ours.t_ > 60
    np.testing.assert_allclose(ours.coef_, exact.coef_, atol=0.02)
    np.testing.assert_allclose(ours.predict(X), exact.predict(X), atol=0.1)


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
    peer = LogisticRegression(C=1 / (alpha * w.sum()), class_weight=class_weight, tol=1e-9, max_iter=5000)
    if class_weight == "balanced":  # there the peer counts rows, and its weights sum otherwise
        w = np.ones(len(y))
        peer.C = 1 / (alpha * len(y))
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


@pytest.mark.filterwarnings("ignore:.*the loss still falls:sklearn.exceptions.ConvergenceWarning")
def test_pegasos_as_published():
    """Line 5 and 6 of Algorithm 1 with a fixed set of rows, radius 1 / sqrt(lambda).

    Steps of 1 / (lambda t) begin where they are stable, as if steps had gone before.
    """
    X, y = digits()
    X, y, alpha, T = X[:300], y[:300] % 2, 1e-2, 30
    sign = np.where(y == 1, 1.0, -1.0)
    start = np.linalg.eigvalsh(X.T @ X / len(X))[-1] + alpha
    w, objectives, iterates = np.zeros(X.shape[1]), [], []
    for t in range(1, T + 1):
        margin = sign * (X @ w)
        objectives.append(np.maximum(1 - margin, 0).mean() + alpha / 2 * w @ w)
        w = w - (alpha * w - (sign * (margin < 1)) @ X / len(X)) / (alpha * t + start)
        w *= min(1.0, 1 / (np.sqrt(alpha) * np.linalg.norm(w)))
        iterates.append(w)
    assert min(objectives) == objectives[-1]
    ours = StreamingSGDClassifier(
        learning_rate="pegasos", alpha=alpha, fit_intercept=False, average=False, n_epochs=T, tol=None
    ).fit(X, y)
    np.testing.assert_allclose([h["loss"] for h in ours.history_], objectives, rtol=1e-9)
    np.testing.assert_allclose(ours.coef_[0], iterates[ours.best_epoch_ - 1], rtol=1e-9, atol=1e-12)
    for norm in (0.5, 7.0, 200.0):
        W = np.full((4, 1), norm / 2)
        project(W, alpha)
        assert np.linalg.norm(W) == pytest.approx(min(norm, 10.0))


@pytest.mark.parametrize("rate", ["constant", "inverse_scaling", "adaptive", "auto"])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_schedules_learn(rate, momentum):
    X, y = digits()
    model = StreamingSGDClassifier(
        "logistic", learning_rate=rate, momentum=momentum, batch_size=100, alpha=1e-4
    )
    assert model.fit(X[:1400], y[:1400]).score(X[1400:], y[1400:]) > 0.85
    assert model.history_[-1]["loss"] < model.history_[0]["loss"]


def test_momentum_is_what_the_curvature_leaves():
    """Nesterov's step with 1 - share, at most 0.8; the share follows the batches as 1 - 0.8^t."""
    optimizer = PreconditionedSGD(
        Preconditioner(np.empty((3, 0)), np.empty(0), 0.5, 1.0), Auto(), Penalty(0.0), None, False, False
    )
    W, V, G, eta = np.zeros((3, 1)), np.zeros((3, 1)), np.array([[1.0], [2.0], [-3.0]]), 2.0
    state, share = optimizer.start(np.zeros((3, 1))), 1.0
    for t in range(12):
        optimizer.observe(state, 0.1, 0.0)
        share = 0.1 + 0.9 * 0.8 ** (t + 1)
        assert state.curved == pytest.approx(share)
        optimizer.step(state, G, 10, True)
        momentum = min(0.8, 1 - share)
        V = momentum * V - eta * G
        W = W + momentum * V - eta * G
        np.testing.assert_allclose(state.weights, W, rtol=1e-12)
    assert momentum == 0.8


def test_the_squared_loss_has_no_momentum_by_itself():
    X, y = regression(2000)
    fits = [StreamingSGDRegressor(momentum=m, n_epochs=2, tol=None).fit(X, y) for m in ("auto", 0.0, 0.5)]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert (fits[0].coef_ != fits[2].coef_).any()


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_l1_is_the_lasso(lazy, weighted, intercept):
    """Of Fourier features, whose spectrum decays, proximal gradient steps ended 24 to 390 % above it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 6))
    Y = np.stack([np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 2.0, 3 * X[:, 2]], axis=1) + 0.1 * rng.normal(
        size=(1200, 2)
    )
    Z = RandomFourierFeatures(n_components=256, random_state=0).fit_transform(X)
    w = rng.uniform(0.1, 3, 1200) if weighted else None
    rows = [Z, Y, w]
    if lazy:
        rows = [a if a is None else da.from_array(a, chunks=(400, *a.shape[1:])) for a in rows]
    for alpha in (1e-3, 1e-4) if intercept else (1e-2, 1e-3):
        ours = StreamingSGDRegressor(penalty="l1", alpha=alpha, fit_intercept=intercept).fit(*rows)
        for c in (0, 1):
            peer = Lasso(alpha, fit_intercept=intercept, tol=1e-10, max_iter=100_000).fit(Z, Y[:, c], w)
            residuals = [
                Y[:, c] - Z @ m - b
                for m, b in ((ours.coef_[c], ours.intercept_[c]), (peer.coef_, peer.intercept_))
            ]
            loss, best = (
                np.average(r**2, weights=w) / 2 + alpha * np.abs(m).sum()
                for r, m in zip(residuals, (ours.coef_[c], peer.coef_), strict=True)
            )
            assert loss == pytest.approx(best, rel=1e-6 if intercept else 2e-5)


@pytest.mark.parametrize(
    "options", [{"checkpoint": "c"}, {"warm_start": True}, {"X_val": np.zeros((2, 3)), "y_val": [0.0, 1.0]}]
)
def test_l1_refuses_what_epochs_are_for(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {name: options[name] for name in options if name.endswith("_val")}
    model = StreamingSGDRegressor(penalty="l1", **{k: v for k, v in options.items() if k not in given})
    with pytest.raises(InputError, match="penalty='l1'"):
        model.fit(np.eye(3), [0.0, 1.0, 2.0], **given)


def test_l1_that_does_not_converge_says_so(monkeypatch):
    monkeypatch.setattr(normal_equations, "_L1_ENDS", {True: (1e-9, 2), False: (1e-4, 2)})
    X, y = regression(300)
    with pytest.warns(ConvergenceWarning, match="after 2 sweeps of coordinate descent the duality gap"):
        StreamingSGDRegressor(penalty="l1", alpha=1e-6).fit(X, y)


@pytest.mark.parametrize("loss", ["huber", "epsilon_insensitive"])
def test_outliers_hardly_move_robust_losses(loss):
    X, y = regression(900)
    y_bad = y.copy()
    y_bad[:45] += 300.0
    model = StreamingSGDRegressor(loss, epsilon=0.5, n_epochs=300, tol=None).fit(X, y_bad)
    assert model.score(X[45:], y[45:]) > 0.8 > StreamingRidge().fit(X, y_bad).score(X[45:], y[45:])


@pytest.mark.filterwarnings("ignore:.*the loss still falls:sklearn.exceptions.ConvergenceWarning")
def test_rows_sorted_by_class():
    X, y = digits()
    order = np.argsort(y, kind="stable")
    model = StreamingSGDClassifier("logistic", batch_size=200, n_epochs=5, tol=None)
    mixed = clone(model).fit(X, y).score(X, y)
    assert model.fit(X[order], y[order]).score(X, y) > mixed - 0.02


def test_partial_fit():
    X, y = digits()
    model = StreamingSGDClassifier("logistic", alpha=1e-4)
    for _ in range(6):
        for a in range(0, 1400, 350):
            model.partial_fit(X[a : a + 350], y[a : a + 350], classes=np.arange(10))
    assert model.score(X[1400:], y[1400:]) > 0.85
    assert len(model.history_) == 24
    with pytest.raises(InputError, match=r"labels that are not among the classes: \[77\]"):
        model.partial_fit(X[:5], np.full(5, 77))
    with pytest.raises(InputError, match="first call to partial_fit"):
        StreamingSGDClassifier().partial_fit(X, y)


def test_early_stopping_and_tol():
    X, y = digits()
    model = StreamingSGDClassifier("logistic", early_stopping=True, n_epochs=100, tol=1e-2).fit(X, y)
    assert model.n_iter_ < 100
    assert model.history_[-1]["validation_score"] > 0.85
    assert model.history_[-1]["rows"] == len(X) - round(0.1 * len(X))
    assert StreamingSGDClassifier("logistic", n_epochs=100, tol=1e-2).fit(X, y).n_iter_ < 100


def test_warm_start():
    X, y = regression(600)
    model = StreamingSGDRegressor("huber", epsilon=1.0, warm_start=True, n_epochs=30, tol=None).fit(X, y)
    before = model.history_[-1]["loss"]
    assert model.fit(X, y).history_[0]["loss"] < 1.5 * before


def test_csr_and_float32():
    X, y = digits()
    X = X.astype(np.float32)
    model = StreamingSGDClassifier("logistic", n_epochs=3, tol=None)
    dense = clone(model).fit(X, y)
    np.testing.assert_allclose(
        model.fit(sp.csr_array(X), y).predict_proba(X), dense.predict_proba(X), atol=2e-2
    )


def test_saved_models_predict_the_same(tmp_path):
    X, y = digits()
    model = StreamingSGDClassifier("logistic", n_epochs=2, tol=None, early_stopping=True).fit(X, y)
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.history_ == model.history_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "nope"}, "loss must be 'hinge', .* got 'nope'"),
        ({"alpha": -1}, "alpha must be a finite number >= 0"),
        ({"momentum": 1.0}, "momentum must be a finite number >= 0 and <= 0.999"),
        ({"penalty": "l3"}, "penalty must be 'l2' or 'l1'"),
        ({"penalty": "l1", "loss": "logistic"}, "loss='logistic'; take loss='squared', or penalty='l2'"),
        ({"learning_rate": "pegasos", "loss": "logistic"}, "needs loss='hinge'"),
        ({"learning_rate": "pegasos", "alpha": 1e-3, "preconditioner": "subspace"}, "use preconditioner=None"),
        ({"resume": True}, "checkpoint=, which is None"),
        ({"loss": "squared", "learning_rate": "constant", "eta0": 1e12, "n_epochs": 200}, "steps are too long"),
    ],
)
def test_refusals(parameters, message):
    X, y = digits()
    with pytest.raises(InputError, match=message):
        StreamingSGDClassifier(**parameters).fit(X, y)


def test_constant_columns():
    X, y = digits()
    X = np.hstack([np.ones((len(X), 2)), np.zeros((len(X), 1)), X])
    assert StreamingSGDClassifier("logistic").fit(X, y).score(X, y) > 0.95
