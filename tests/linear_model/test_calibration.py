"""Probabilities and intervals: against explicit refits, scikit-learn's sigmoids, and fresh rows."""

from __future__ import annotations

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import _sigmoid_calibration
from sklearn.linear_model import Ridge
from sklearn.metrics import log_loss
from strategies import cuts

from distrf import StreamingRidge, StreamingRidgeClassifier, StreamingSGDClassifier, StreamingSGDRegressor
from distrf.errors import InputError
from distrf.folds import drawn_folds
from distrf.linear_model.calibration import (
    CalibrationWarning,
    HeldOut,
    error_bound,
    fit_sigmoids,
    sort_errors,
)
from distrf.ridge.gram import FoldRule

REGRESSORS = [
    StreamingRidge(calibrate=True),
    StreamingRidge(1e-2, cv="holdout", calibrate=True),
    StreamingRidge(1e-2, solver="passes", calibrate=True),
    StreamingSGDRegressor(calibrate=True),
]
CLASSIFIERS = [
    StreamingRidgeClassifier(calibrate=True),
    StreamingRidgeClassifier(solver="passes", calibrate=True),
    StreamingSGDClassifier(calibrate=True),
    StreamingSGDClassifier("squared_hinge", early_stopping=True, calibrate=True),
]
every_classifier = pytest.mark.parametrize("model", CLASSIFIERS, ids=str)


def numbers(n=1200, d=6, outputs=None, seed=0):
    rng = np.random.default_rng([n, d, seed])
    X = rng.normal(size=(n, d))
    W = rng.normal(size=(d,) if outputs is None else (d, outputs))
    return X, X @ W + rng.normal(size=(n,) if outputs is None else (n, outputs)) + 30.0


def labels(n=1200, d=6, classes=3, seed=0, share=None):
    """Rows around a centre for each class, with labels that are text, unsorted."""
    rng = np.random.default_rng([n, d, classes, seed])
    codes = rng.choice(classes, size=n, p=share)
    centres = 1.4 * np.random.default_rng(5).normal(size=(classes, d)) / np.sqrt(d / 4)
    return centres[codes] + rng.normal(size=(n, d)), np.array(["red", "green", "blue", "grey", "pink"])[codes]


def held(scores, y, weight=None):
    """Held-out rows of classes 0 ... c - 1."""
    Y = np.where(y == 1, 1.0, -1.0)[:, None]
    if scores.shape[1] > 1:
        Y = np.where(y[:, None] == np.arange(scores.shape[1]), 1.0, -1.0)
    return HeldOut(scores, Y, np.ones(len(y)) if weight is None else weight)


# ---- sigmoids -----------------------------------------------------------------------------------------


def probabilities(found, scores):
    """By the formula."""
    scores = np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores
    p = 1 / (1 + np.exp(-(scores * found[:, 0] + found[:, 1])))
    return p / p.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e-3, -0.95), (1e4, 0.0)])
def test_two_classes_beside_the_sigmoid_of_scikit_learn(weighted, scale, shift, rng):
    """Which is the right one here: a special case of ours, so that ours fits the rows no worse."""
    s = rng.normal(size=1500)
    y = (2 * s + rng.logistic(size=1500) > 1.2).astype(int)
    w = rng.uniform(0.2, 2.0, 1500) if weighted else np.ones(1500)
    s = shift + scale * s
    a, b = _sigmoid_calibration(s, y, w)
    platt = 1 / (1 + np.exp(a * s + b))
    found = fit_sigmoids(held(s[:, None], y, w), [0, 1])
    p = probabilities(found, s[:, None])
    assert log_loss(y, p, sample_weight=w) < log_loss(y, platt, sample_weight=w) + 1e-5
    np.testing.assert_allclose(p[:, 1], platt, atol=0.05)
    np.testing.assert_array_equal(found, fit_sigmoids(held(s[:, None], y, 4 * w), [0, 1]))


def test_sigmoids_of_several_classes_are_fitted_together(rng):
    """The log loss on the same rows is below that of sigmoids which were fitted one by one."""
    X, y = labels(3000, classes=5)
    classes, codes = np.unique(y, return_inverse=True)
    scores = StreamingRidgeClassifier(1e-3).fit(X[:1500], y[:1500]).decision_function(X)
    found = fit_sigmoids(held(scores[1500:], codes[1500:]), classes)

    def loss(found):
        return log_loss(codes[1500:], probabilities(found, scores[1500:]))

    alone = np.array([_sigmoid_calibration(scores[1500:, c], codes[1500:] == c) for c in range(5)])
    least = loss(found)
    assert least < loss(-alone) - 0.005
    for step in 0.01 * found.ravel() * np.eye(10):
        for sign in (-1, 1):
            assert loss(found + sign * step.reshape(5, 2)) > least - 2e-4


@pytest.mark.parametrize("others", [0, 9])
def test_noise_in_the_scores_of_a_rare_class_says_nothing(rng, others):
    """All rows of a class are held out, so that its held-out scores are a constant and rounding; of new rows they are not."""
    codes = np.r_[np.arange(900) % 3, 3, [4] * others]
    n, classes = len(codes), np.arange(codes.max() + 1)
    scores = np.where(classes == codes[:, None], 1.0, -1.0) + 0.3 * rng.normal(size=(n, len(classes)))
    rest = np.arange(n) != 900
    fresh = scores[rest].copy()
    scores[:, 3] = -1.0 + 1e-5 * rng.normal(size=n)
    scores[900, 3] = scores[:, 3].max() + 1e-5  # by chance the largest
    found = fit_sigmoids(held(scores, codes), classes)
    fresh[:, 3] = -1.0 + 0.01 * rng.normal(size=n - 1)
    p = probabilities(found, fresh)
    assert p[:, 3].max() < 0.1
    assert log_loss(codes[rest], p, labels=classes) < 0.1


# ---- errors -------------------------------------------------------------------------------------------


def test_errors_and_their_ranks(rng):
    errors = rng.normal(size=(99, 2))
    found = sort_errors(HeldOut(np.zeros((99, 2)), errors, np.full(99, 0.3)))
    np.testing.assert_array_equal(found, np.sort(np.abs(errors), axis=0))
    for coverage, rank in ((0.9, 90), (0.901, 91), (0.95, 95), (0.99, 99), (1e-3, 1)):
        np.testing.assert_array_equal(error_bound(found, coverage), found[rank - 1])
    with pytest.raises(InputError, match=r"needs 199 held-out rows, and calibration had 99"):
        error_bound(found, 0.995)
    with pytest.raises(InputError, match="calibration had 0"):
        error_bound(sort_errors(HeldOut(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0))), 0.5)
    model = StreamingRidge(1e-2, calibrate=True).fit(*numbers(50))
    for coverage, words in (
        (90, "coverage must be a finite number > 0 and < 1"),
        (0.99, "take a smaller coverage"),
    ):
        with pytest.raises(InputError, match=words):
            model.predict_interval(numbers(50)[0], coverage)


def test_weighted_errors(rng):
    errors, weight = np.abs(rng.normal(size=(400, 1))), rng.uniform(0.1, 4.0, 400)
    found = sort_errors(HeldOut(np.zeros((400, 1)), errors, weight))
    k = int(weight.sum() ** 2 / (weight @ weight))
    assert len(found) == k < 400
    for j in (1, 7, k // 2, k):
        inside = [
            e for e in errors[:, 0] if weight[errors[:, 0] <= e].sum() >= j / k * weight.sum() * (1 - 1e-9)
        ]
        assert found[j - 1, 0] == min(inside)


def test_a_bounded_number_of_errors_is_kept(rng, monkeypatch):
    monkeypatch.setattr("distrf.linear_model.calibration._MOST_ERRORS", 100)
    errors = np.abs(rng.normal(size=(1000, 2)))
    found = sort_errors(HeldOut(np.zeros((1000, 2)), errors, np.ones(1000)))
    assert found.shape == (50, 2)
    every = np.sort(errors, axis=0)
    np.testing.assert_array_equal(found, every[19::20])
    assert (error_bound(found, 0.9) >= error_bound(every, 0.9)).all()  # never narrower


# ---- rows that the model was not trained on -----------------------------------------------------------


REGRESSOR = StreamingRidge(1e-2, calibrate=True, keep_state=True)
CLASSIFIER = StreamingRidgeClassifier(1e-2, calibrate=True, keep_state=True)


def grown(model, first, X, y, weight):
    """Fitted to the first rows; the others are added at once. All rows are the first if `first` is 0."""
    model = clone(model).fit(*(a[:first] if first else a for a in (X, y, weight)))
    return model.partial_fit(X[first:], y[first:], sample_weight=weight[first:]) if first else model


@pytest.mark.parametrize("first", [0, 300])
@pytest.mark.parametrize("cv", [4, "holdout"])
@pytest.mark.parametrize("alpha", [1e-2, (1e-2, 1e-1)])
@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("kind", ["numpy", "csr", "dask", "dask-csr"])
def test_errors_are_those_of_refits_without_the_folds_of_the_rows(first, cv, alpha, outputs, kind):
    """Of the rows that came last: what is added is like tomorrow's."""
    X, y = numbers(1000, outputs=outputs)
    w = np.random.default_rng(1).integers(0, 2, 1000) + 0.0  # as good as fewer rows
    dX = da.from_array(X, chunks=(170, -1))
    rows = {"numpy": X, "csr": sp.csr_array(X), "dask": dX, "dask-csr": dX.map_blocks(sp.csr_array)}[kind]
    model = grown(clone(REGRESSOR).set_params(alpha=alpha, cv=cv, random_state=3), first, rows, y, w)
    fold, errors = FoldRule.of_cv(cv, 3).of(np.arange(1000)), []
    for f in [0] if cv == "holdout" else range(cv):
        train, test = (fold != f) & (w > 0), (fold == f) & (w > 0) & (np.arange(1000) >= first)
        peer = Ridge(model.alpha_ * train.sum(), solver="cholesky").fit(X[train], y[train])
        errors.append(np.abs(y[test] - peer.predict(X[test])).reshape(test.sum(), -1))
    np.testing.assert_allclose(model.calibration_, np.sort(np.concatenate(errors), axis=0), rtol=1e-7)
    plain = clone(model).set_params(calibrate=False, keep_state=False).fit(X, y, w)
    assert not hasattr(plain, "calibration_")
    if alpha == 1e-2:
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-9)


@pytest.mark.parametrize("first", [0, 500])
@pytest.mark.parametrize("classes", [2, 4])
def test_sigmoids_are_of_scores_of_refits_without_the_folds_of_the_rows(first, classes):
    X, y = labels(1500, classes=classes)
    weighted = {"alpha": 1e-2, "class_weight": {"red": 3.0}}
    model = grown(clone(CLASSIFIER).set_params(cv=5, **weighted), first, X, y, np.ones(1500))
    fold = FoldRule.of_cv(5, 0).of(np.arange(1500))
    scores = np.empty((1500, 1 if classes == 2 else classes))
    for f in range(5):
        rest = StreamingRidgeClassifier(**weighted).fit(X[fold != f], y[fold != f])
        scores[fold == f] = rest.decision_function(X[fold == f]).reshape(-1, scores.shape[1])
    found = fit_sigmoids(held(scores[first:], np.searchsorted(model.classes_, y)[first:]), model.classes_)
    np.testing.assert_allclose(model.calibration_, found, rtol=1e-4, atol=1e-4)


@given(data=st.data(), classes=st.sampled_from([0, 2, 3]))
def test_pieces_of_any_size(data, classes):
    """The weights are those of one fit without calibration, and what is learned are numbers, however few rows there are."""
    n = data.draw(st.integers(2, 60))
    X, y = labels(n, classes=classes) if classes else numbers(n)
    model = clone(CLASSIFIER if classes else REGRESSOR)
    more = {"classes": ["red", "green", "blue"][:classes]} if classes else {}
    ends = [*sorted({*data.draw(cuts(n)), n} - {0})]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        for a, b in zip([0, *ends[:-1]], ends, strict=True):
            model.partial_fit(X[a:b], y[a:b], **more)
    if classes:
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-6)
    else:
        np.testing.assert_allclose(model.coef_, StreamingRidge(1e-2).fit(X, y).coef_, rtol=1e-9, atol=1e-9)
        assert len(model.calibration_) <= n


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("kind", ["numpy", "dask"])
def test_sgd_leaves_out_the_rows_it_calibrates_with(early_stopping, kind):
    X, y = numbers(900)
    rows = da.from_array(X, chunks=(250, -1)) if kind == "dask" else X
    model = StreamingSGDRegressor(
        calibrate=True, validation_fraction=0.2, early_stopping=early_stopping, random_state=5
    )
    model.fit(rows, y)
    left = np.flatnonzero(drawn_folds(X, 0.2, 5).values == 0)
    errors = np.abs(y - model.predict(X))[left]
    np.testing.assert_allclose(model.calibration_[:, 0], np.sort(errors), atol=1e-9)
    assert model.history_[0]["rows"] == 900 - len(left)
    assert (model.history_[0]["validation_loss"] is None) != early_stopping


# ---- coverage and reliability on fresh rows -----------------------------------------------------------


NOISES = {
    "normal": lambda rng, X: rng.normal(size=len(X)),
    "heavy": lambda rng, X: rng.standard_t(1.5, size=len(X)),
    "skewed": lambda rng, X: rng.exponential(size=len(X)),
    "heteroscedastic": lambda rng, X: (0.1 + X[:, 0] ** 2) * rng.normal(size=len(X)),
    "discrete": lambda rng, X: rng.integers(0, 3, size=len(X)).astype(float),
}


def tolerance(coverage, m, n):
    """Four standard deviations of the share of n fresh rows inside an interval from m held-out rows."""
    return 4 * np.sqrt(coverage * (1 - coverage) * (1 / m + 1 / n))


def inside(model, X, y, coverage):
    low, high = np.moveaxis(model.predict_interval(X, coverage), -1, 0)
    return ((low <= y) & (y <= high)).mean(axis=0)


@pytest.mark.parametrize(
    ("model", "noise"),
    [(REGRESSORS[0], noise) for noise in NOISES] + [(model, "heteroscedastic") for model in REGRESSORS[1:]],
    ids=str,
)
def test_intervals_hold_their_share_of_fresh_rows(model, noise):
    rng = np.random.default_rng(sum(map(ord, noise)))
    X = rng.normal(size=(24_000, 5))
    y = X @ rng.normal(size=5) + NOISES[noise](rng, X) + 7.0
    fitted = clone(model).fit(X[:4000], y[:4000])
    m = len(fitted.calibration_)
    for coverage in (0.5, 0.9, 0.99):
        share, allowed = inside(fitted, X[4000:], y[4000:], coverage), tolerance(coverage, m, 20_000)
        assert share > coverage - allowed
        if noise != "discrete":  # equal errors make intervals wide
            assert share < coverage + allowed + 1 / m


@every_classifier
@pytest.mark.parametrize("classes", [2, 5])
def test_probabilities_are_reliable(model, classes):
    """Classes are normal clouds: the probabilities are near the true ones, and as large as the shares of fresh rows."""
    X, y = labels(24_000, classes=classes)
    model = clone(model).fit(X[:6000], y[:6000])
    p, fresh = model.predict_proba(X[6000:]), y[6000:, None] == model.classes_
    assert p.shape == (18_000, classes)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-6)
    assert (p >= 0).all()
    for c in range(classes):
        for low in np.arange(0, 1, 0.2):
            within = (p[:, c] >= low) & (p[:, c] < low + 0.2)
            if within.sum() > 300:
                assert abs(p[within, c].mean() - fresh[within, c].mean()) < 0.13
        assert abs(p[:, c].mean() - fresh[:, c].mean()) < 0.03
    exact = StreamingSGDClassifier("multinomial", alpha=1e-6).fit(X[:6000], y[:6000])  # the right model here
    least = log_loss(y[6000:], exact.predict_proba(X[6000:]))
    assert log_loss(y[6000:], p) < 1.12 * least


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_of_weighted_classes_are_those_of_the_rows(classes):
    """Class weights move labels; probabilities stay those of the rows. Sample weights make another population."""
    share = [0.9, 0.1] if classes == 2 else [0.7, 0.25, 0.05]
    X, y = labels(8000, classes=classes, share=share)
    plain = StreamingRidgeClassifier(1e-3, calibrate=True).fit(X, y)
    balanced = StreamingRidgeClassifier(1e-3, class_weight="balanced", calibrate=True).fit(X, y)
    assert (balanced.predict(X) != plain.predict(X)).mean() > 0.01
    for model in (plain, balanced):
        found = model.predict_proba(X).mean(axis=0)
        np.testing.assert_allclose(found, [(y == c).mean() for c in model.classes_], atol=0.01)
    w = np.where(y == "green", 5.0, 1.0)
    heavy = StreamingRidgeClassifier(1e-3, calibrate=True).fit(X, y, w)
    found = np.average(heavy.predict_proba(X), axis=0, weights=w)
    np.testing.assert_allclose(found, [w[y == c].sum() / w.sum() for c in heavy.classes_], atol=0.01)


# ---- who has them -------------------------------------------------------------------------------------


def test_methods_are_there_when_they_work():
    X, y = labels()
    for plain in (StreamingRidgeClassifier(), StreamingSGDClassifier()):
        assert not hasattr(plain, "predict_proba")
        assert not hasattr(plain.fit(X, y), "predict_proba")
        with pytest.raises(AttributeError) as refused:
            plain.set_params(calibrate=True).predict_proba(X)  # fitted without
        assert "predict_proba needs calibrate=True in `fit`" in str(refused.value.__cause__)
        assert plain.fit(X, y).predict_proba(X).shape == (1200, 3)
        assert not hasattr(plain.set_params(calibrate=False).fit(X, y), "predict_proba")
    assert hasattr(StreamingRidgeClassifier(calibrate=True), "predict_proba")
    assert hasattr(StreamingRidge(calibrate=True), "predict_interval")
    assert not hasattr(StreamingRidge(), "predict_interval")
    with pytest.raises(AttributeError) as refused:
        StreamingSGDClassifier().predict_proba(X)
    assert "or loss='logistic' or 'multinomial'" in str(refused.value.__cause__)
    logistic = StreamingSGDClassifier("logistic", calibrate=True).fit(X, y)
    assert not hasattr(logistic, "calibration_")  # it has probabilities of its own, and trains on all rows
    assert logistic.history_[0]["rows"] == len(X)
