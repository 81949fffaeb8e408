"""Linear models by passes against scikit-learn's solutions on the same features, and their rules."""

from __future__ import annotations

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from peaks import traced
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import HuberRegressor, LogisticRegression, Ridge
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from distrf import (
    RandomFourierFeatures,
    StreamingLinearClassifier,
    StreamingLinearRegressor,
    StreamingRidge,
    StreamingSGDRegressor,
    load_model,
    plan,
    save_model,
)
from distrf.checkpoint import Checkpoint
from distrf.errors import InputError, SpecMismatchError
from distrf.newton import fit, sample
from distrf.newton.fit import held_out_rule

ALPHA = 1e-3


def chosen_on_a_sample(estimator):
    """Held-out rows of the sample choose alpha, and of repeated rows they are others."""
    if estimator.alpha != "auto":
        return {}
    kinds = ("dense", "sparse")
    return {
        f"check_sample_weight_equivalence_on_{kind}_data": "alpha is chosen on held-out rows" for kind in kinds
    }


@parametrize_with_checks(
    [
        StreamingLinearClassifier(),
        StreamingLinearClassifier("squared_hinge", alpha=1e-3),
        StreamingLinearClassifier("logistic", alpha=1e-3),
        StreamingLinearRegressor(),
        StreamingLinearRegressor("squared", alpha=1e-3),
    ],
    expected_failed_checks=chosen_on_a_sample,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rows(n=2000, d=8, classes=0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.5 + 0.3
    scores = X @ rng.normal(size=d) + 5.0 + 0.5 * rng.standard_t(3, n)
    return X, np.digitize(scores, np.quantile(scores, np.arange(1, classes) / classes)) if classes else scores


# ---- the same solutions as scikit-learn's --------------------------------------------------------------


def test_logistic_regression():
    X, y = rows(classes=2)
    ours = StreamingLinearClassifier("logistic", alpha=ALPHA, tol=1e-10).fit(X, y)
    theirs = LogisticRegression(C=1 / (len(X) * ALPHA), tol=1e-10, max_iter=1000).fit(X, y)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


def test_multinomial_regression():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    ours = StreamingLinearClassifier(alpha=ALPHA, tol=1e-8).fit(X, y)
    theirs = LogisticRegression(C=1 / (len(X) * ALPHA), tol=1e-10, max_iter=5000).fit(X, y)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-3)
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


def test_squared_hinge():
    X, y = rows(classes=3)
    ours = StreamingLinearClassifier("squared_hinge", alpha=ALPHA, tol=1e-10, fit_intercept=False).fit(X, y)
    theirs = LinearSVC(C=1 / (len(X) * ALPHA), dual=False, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(
        X, y
    )
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_squared_loss_is_ridge():
    X, y = rows()
    ours = StreamingLinearRegressor("squared", alpha=ALPHA, tol=1e-12).fit(X, y)
    theirs = Ridge(alpha=len(X) * ALPHA).fit(X, y)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-6)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-5)


def test_huber_of_several_targets():
    """scikit-learn's scales epsilon by a spread that it learns: without one, its spread is given by ours."""
    X, y = rows()
    Y = np.stack([y, 100.0 * y], axis=1)
    ours = StreamingLinearRegressor(alpha=1e-6, tol=1e-8).fit(X, Y)
    theirs = HuberRegressor(epsilon=1.345, alpha=1e-9, max_iter=1000).fit(X, y)
    assert np.allclose(ours.coef_[0], theirs.coef_, atol=0.05)
    assert ours.coef_[1] == pytest.approx(100.0 * ours.coef_[0], rel=1e-2)
    assert ours.epsilon_[1] == pytest.approx(100.0 * ours.epsilon_[0])
    squared = StreamingLinearRegressor("squared", alpha=1e-6).fit(X, np.where(np.arange(len(y)) % 20, y, 1e3))
    huber = StreamingLinearRegressor(alpha=1e-6).fit(X, np.where(np.arange(len(y)) % 20, y, 1e3))
    assert huber.score(X, y) > 0.5 > squared.score(X, y)


# ---- rows, weights, workers ----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["multinomial", "logistic", "squared_hinge"])
def test_weights_are_repetitions(loss):
    X, y = rows(n=300, classes=3)
    weight = np.arange(300) % 3
    model = StreamingLinearClassifier(loss, alpha=ALPHA, tol=1e-10, class_weight={0: 2.0})
    weighted = model.fit(X, y, sample_weight=weight).coef_
    repeated = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).coef_
    assert np.allclose(weighted, repeated, atol=1e-5)


@pytest.mark.parametrize("kind", ["float32", "csr", "dask", "far"])
def test_forms_of_rows(kind):
    X, y = rows(classes=3)
    expected = StreamingLinearClassifier(alpha=ALPHA, tol=1e-8).fit(X, y)
    given = {
        "float32": X.astype(np.float32),
        "csr": sp.csr_array(X),
        "dask": da.from_array(X, chunks=(300, -1)),
        "far": (X + 1e4).astype(np.float32),
    }[kind]
    found = StreamingLinearClassifier(alpha=ALPHA, tol=1e-6).fit(
        given, y if kind != "dask" else da.from_array(y, chunks=300)
    )
    assert np.allclose(found.coef_, expected.coef_, atol=3e-2 if kind == "far" else 1e-3)


@pytest.mark.parametrize("model", [
    StreamingLinearRegressor("squared", alpha=ALPHA), StreamingLinearRegressor(alpha=ALPHA, epsilon=0.1),
    StreamingLinearClassifier("logistic", alpha=ALPHA), StreamingSGDRegressor(alpha=ALPHA),
    StreamingRidge(alpha=ALPHA, solver="passes"),
], ids=lambda model: f"{type(model).__name__}-{getattr(model, 'loss', '')}")  # fmt: skip
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool])
def test_whole_numbers_are_rows_in_their_working_dtype(model, dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2 if dtype is bool else 200, size=(1000, 6)).astype(dtype)
    scores = X @ rng.normal(size=6)
    y = (scores + scores.std() * rng.normal(size=1000) > np.median(scores)).astype(int)
    lazy, y = da.from_array(X, chunks=(200, -1)), da.from_array(y, chunks=200)
    found = clone(model).fit(lazy, y)
    expected = clone(model).fit(lazy.astype(np.float64 if dtype is np.int64 else np.float32), y)
    assert np.allclose(found.coef_, expected.coef_, rtol=1e-3, atol=1e-6 * np.abs(expected.coef_).max())
    if dtype is np.uint8 and isinstance(model, StreamingLinearRegressor):
        sparse = clone(model).fit(lazy.map_blocks(sp.csr_array), y)
        assert np.allclose(sparse.coef_, expected.coef_, rtol=1e-3)


def test_same_bits_on_any_workers(one_worker_client, two_worker_cluster):
    from distributed import Client, LocalCluster

    X, y = rows(n=4000, classes=3)
    X, y = da.from_array(X, chunks=(250, -1)), da.from_array(y, chunks=250)
    model = StreamingLinearClassifier(alpha=ALPHA)
    one = model.fit(X, y).coef_.tobytes()
    with Client(two_worker_cluster):
        assert model.fit(X, y).coef_.tobytes() == one
    three = LocalCluster(n_workers=3, threads_per_worker=1, processes=False, dashboard_address=":0")
    with three, Client(three):
        assert model.fit(X, y).coef_.tobytes() == one


def test_resumed_after_each_pass_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "_ROWS", 200)
    X, y = rows(classes=3)
    model = StreamingLinearClassifier(alpha=ALPHA, tol=1e-6, checkpoint=str(tmp_path / "kept"))
    expected = StreamingLinearClassifier(alpha=ALPHA, tol=1e-6).fit(X, y)
    for _ in range(expected.n_iter_ - 1):
        left = [1]

        def once(self, make, left=left, real=Checkpoint.once):
            made = []

            def counted():
                if not left[0]:
                    raise KeyboardInterrupt
                made.append(1)
                return make()

            value = real(self, counted)
            left[0] -= len(made)
            return value

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "once", once)
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, y)
    with monkeypatch.context() as patch:
        calls = []
        patch.setattr(fit, "run_pass", lambda *a, real=fit.run_pass, **k: calls.append(1) or real(*a, **k))
        found = model.fit(X, y)
    assert len(calls) == 1
    assert found.coef_.tobytes() == expected.coef_.tobytes()
    with pytest.raises(SpecMismatchError, match="alpha"):
        model.set_params(alpha=1e-2).fit(X, y)


def test_a_checkpoint_knows_weights_and_folds(tmp_path):
    X, y = rows(classes=2)
    model = StreamingLinearClassifier(
        "squared_hinge", alpha=ALPHA, calibrate=True, checkpoint=str(tmp_path / "kept")
    )
    given = np.arange(len(y))
    model.fit(X, y, sample_weight=1.0 + given % 3, folds=given % 4)
    for weight, folds in ((1.0 + given % 5, given % 4), (1.0 + given % 3, given // 7 % 4)):
        with pytest.raises(SpecMismatchError, match=r"weight|folds"):
            model.fit(X, y, sample_weight=weight, folds=folds)


# ---- what it says --------------------------------------------------------------------------------------


def test_too_few_passes_are_warned_of(monkeypatch):
    monkeypatch.setattr(sample, "_ROWS", 100)
    X, y = rows(classes=2)
    with pytest.warns(ConvergenceWarning, match="above its least, more than tol"):
        model = StreamingLinearClassifier("squared_hinge", alpha=1e-6, tol=1e-9, max_passes=2).fit(X, y)
    assert model.gap_ > 1e-9


def test_passes_are_those_over_the_rows(monkeypatch):
    """Those of failed steps, too: the sample says nothing about most of the columns."""
    monkeypatch.setattr(sample, "_ROWS", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 256))
    y = (X @ rng.normal(size=256) + 10 * rng.normal(size=2000) > 0).astype(int)
    calls = []
    monkeypatch.setattr(fit, "run_pass", lambda *a, real=fit.run_pass, **k: calls.append(1) or real(*a, **k))
    with pytest.warns(ConvergenceWarning, match="after 8 passes"):
        model = StreamingLinearClassifier("logistic", alpha=1e-6, max_passes=8).fit(X, y)
    assert len(calls) == model.n_iter_ == 8


def problems():
    """Small problems of every kind: rare classes, sorted rows, heavy tails, weights."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rows(n=3000, classes=2 + seed % 2, seed=seed)
        if seed % 3 == 0:
            X = np.sign(X) * np.abs(X) ** 3
        if seed % 4 == 1:
            y = np.where(rng.uniform(size=3000) < 0.01, 1, 0)
        if seed % 5 == 2:
            order = np.argsort(y, kind="stable")
            X, y = X[order], y[order]
        weight = rng.exponential(size=3000) if seed % 2 else None
        for loss in ("multinomial", "logistic", "squared_hinge"):
            yield StreamingLinearClassifier(loss, alpha=10.0 ** -(2 + seed % 4)), X, y, weight
        yield StreamingLinearRegressor(alpha=1e-4, epsilon=0.5), X, X[:, 0] + rng.standard_t(2, 3000), weight


def test_the_gap_is_never_below_half_of_the_truth(monkeypatch):
    monkeypatch.setattr(sample, "_ROWS", 400)
    ratios, count = [], 0
    for model, X, y, weight in problems():
        made = model.set_params(tol=1e-3).fit(X, y, sample_weight=weight)
        exact = (
            model.__class__(**model.get_params())
            .set_params(tol=1e-9, max_passes=300)
            .fit(X, y, sample_weight=weight)
        )
        least, count = exact.descent_[-1]["loss"], count + 1
        for look in made.descent_:
            gap = (look["loss"] - least) / look["loss"]
            ratios += [look["gap"] / gap] if gap > 1e-6 else []
        assert (made.descent_[-1]["loss"] - least) / least < 2e-3
    assert count == 40
    assert min(ratios) > 0.5


def test_a_sum_of_features_that_is_nearly_the_intercept(monkeypatch):
    """Fourier features of a long length scale make a constant: the gap seemed a quarter of what it was."""
    monkeypatch.setattr(sample, "_ROWS", 800)
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 3))
    Z = RandomFourierFeatures(length_scale=3.0, n_components=128, random_state=0).fit_transform(X)
    y = np.sin(X[:, 0]) + rng.standard_t(2, 3000)
    made = StreamingLinearRegressor(alpha=1e-6, epsilon=0.5).fit(Z, y)
    exact = StreamingLinearRegressor(alpha=1e-6, epsilon=0.5, tol=1e-8, max_passes=300).fit(Z, y)
    gap = made.descent_[-1]["loss"] / exact.descent_[-1]["loss"] - 1
    assert gap < 1e-3
    assert made.gap_ > gap / 2


def test_targets_in_unlike_units_are_as_near():
    X, y = rows()
    Y = np.stack([y, 1e4 * X[:, 0] * y], axis=1)
    both = StreamingLinearRegressor("squared", alpha=ALPHA, tol=1e-9).fit(X, Y)
    alone = Ridge(alpha=len(X) * ALPHA).fit(X, Y)
    np.testing.assert_allclose(both.predict(X) / Y.std(axis=0), alone.predict(X) / Y.std(axis=0), atol=1e-3)


def test_given_folds_choose_the_penalty():
    """Columns that tell groups apart: rows of a known group are predicted by a small alpha, new groups are not."""
    rng = np.random.default_rng(3)
    group = np.arange(900) % 30
    marks, effect = rng.normal(size=(30, 60)), 3 * rng.normal(size=30)
    Z, y = marks[group] + 0.1 * rng.normal(size=(900, 60)), effect[group] + 0.3 * rng.normal(size=900)
    at_random, by_group = (
        StreamingLinearRegressor("squared").fit(Z, y, folds=folds) for folds in (None, group % 3)
    )
    assert by_group.alpha_ > 20 * at_random.alpha_


@pytest.mark.parametrize("given", [False, True])
def test_calibration_leaves_rows_out(given):
    X, y = rows(n=4000, classes=2)
    model = StreamingLinearClassifier("squared_hinge", alpha=ALPHA, calibrate=True, random_state=3)
    folds = np.arange(4000) % 10 if given else None
    fitted = model.fit(X, y, folds=folds)
    p = fitted.predict_proba(X)[:, 1]
    assert np.abs(np.mean(y) - p.mean()) < 0.03
    kept = folds != 0 if given else None
    if given:
        alone = model.set_params(calibrate=False).fit(X[kept], y[kept])
        assert np.allclose(alone.coef_, fitted.coef_, atol=0.05)
    regressor = StreamingLinearRegressor(alpha=ALPHA, calibrate=True).fit(X, X[:, 0])
    assert regressor.predict_interval(X[:3]).shape == (3, 2)


@pytest.mark.parametrize("given", [False, True])
def test_calibration_rows_enter_nothing_else(monkeypatch, given):
    """Other held-out rows change the calibration alone: not the sample, alpha, epsilon or weights."""
    monkeypatch.setattr(sample, "_ROWS", 500)
    X, y = rows(n=3000, classes=3)
    folds = np.arange(3000) % 4 if given else None
    held = folds == 0 if given else held_out_rule(None, 3).of(np.arange(3000)) == 0
    model = StreamingLinearClassifier("squared_hinge", calibrate=True, random_state=3)
    first = clone(model).fit(X, y, folds=folds)
    X[held], y[held] = 5.0 - X[held], 2 - y[held]
    second = clone(model).fit(X, y, folds=folds)
    assert second.alpha_ == first.alpha_
    assert np.array_equal(second.coef_, first.coef_)
    assert not np.allclose(second.calibration_, first.calibration_)


def test_saved_and_loaded(tmp_path):
    X, y = rows(classes=3)
    model = StreamingLinearClassifier(alpha=ALPHA).fit(X, y)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert loaded.gap_ == model.gap_
    assert loaded.descent_ == model.descent_


def test_plan():
    X, y = rows(n=20_000, classes=3)
    made = plan(StreamingLinearClassifier(), da.from_array(X, chunks=(1000, -1)), da.from_array(y, chunks=1000))
    assert made.passes == 12  # targets, sample, and ten
    assert "depends on the data" in " ".join(made.notes)


@pytest.mark.parametrize(
    ("n", "D", "classes", "alpha", "size", "unlike"),
    [
        (3000, 400, 2, 1e-4, 3000, 1.0),
        (3000, 400, 5, 1e-4, 1000, 1.0),
        (2000, 800, 2, 1e-6, 300, 1.0),  # fewer sampled rows than features
        (3000, 400, 2, "auto", 3000, 1.0),
    ],
)
def test_the_client_needs_what_its_plan_says(monkeypatch, n, D, classes, alpha, size, unlike):
    monkeypatch.setattr(sample, "_ROWS", size)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, D)).astype(np.float32), rng.integers(0, classes, n)
    X[:, 0] *= unlike
    model = StreamingLinearClassifier("logistic", alpha=alpha, max_passes=4)
    planned = plan(model, X, y).client_peak
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peak = traced(lambda: model.fit(X, y))[1]
    assert planned / 5 < peak < planned


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"loss": "hinge"}, "loss"),
        ({"alpha": -1}, "alpha"),
        ({"tol": 2}, "tol"),
        ({"max_passes": 0}, "max_passes"),
    ],
)
def test_parameters_are_checked(parameters, said):
    X, y = rows(n=50, classes=2)
    with pytest.raises(InputError, match=said):
        StreamingLinearClassifier(**parameters).fit(X, y)


def test_rows_that_are_not_finite_are_named():
    X, y = rows(n=100, classes=2)
    X[57, 3] = np.nan
    lazy = da.from_array(X, chunks=(25, -1))
    with pytest.raises(InputError, match=r"57|row 7 of the block"):
        StreamingLinearClassifier(alpha=ALPHA).fit(lazy, da.from_array(y, chunks=25))
