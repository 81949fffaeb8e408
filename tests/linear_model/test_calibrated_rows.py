"""Ridge that is calibrated and takes more rows: what it learns from them, when, and what it keeps."""

from __future__ import annotations

import pickle
import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import cuts

from distrf import StreamingRidge, StreamingRidgeClassifier, load_model, plan, save_model
from distrf.linear_model import ridge_base
from distrf.linear_model.calibration import CalibrationWarning, HeldOut, fit_sigmoids
from distrf.ridge.gram import FoldRule

REGRESSOR = StreamingRidge(1e-2, calibrate=True, keep_state=True)
CLASSIFIER = StreamingRidgeClassifier(1e-2, calibrate=True, keep_state=True)
NAMES = np.array(["red", "green", "blue", "grey"])


def numbers(n=1200, d=4, seed=0, noise=1.0):
    rng = np.random.default_rng([n, d, seed])
    X = rng.normal(size=(n, d))
    return X, X @ np.arange(1.0, d + 1) + noise * rng.normal(size=n) + 30.0


def labels(n=1200, d=4, classes=3, seed=0):
    """Clouds of rows around a centre for each class."""
    rng = np.random.default_rng([n, d, classes, seed])
    codes = rng.integers(0, classes, n)
    centres = 1.5 * np.random.default_rng(5).normal(size=(classes, d))
    return centres[codes] + rng.normal(size=(n, d)), NAMES[codes]


def grown(model, first, X, y, weight=None):
    """Fitted to the first rows; the others are added at once."""
    w = (None, None) if weight is None else (weight[:first], weight[first:])
    return clone(model).fit(X[:first], y[:first], w[0]).partial_fit(X[first:], y[first:], sample_weight=w[1])


# ---- what is learned from rows that are added ---------------------------------------------------------


@pytest.mark.parametrize("cv", [4, "holdout"])
@pytest.mark.parametrize("alpha", [1e-2, (1e-2, 1e-1)])
@pytest.mark.parametrize("kind", ["numpy", "csr", "dask"])
def test_errors_are_those_of_refits_without_the_folds_of_the_rows(cv, alpha, kind):
    X, y = numbers(1000)
    w = np.random.default_rng(1).integers(0, 2, 1000) + 0.0  # as good as fewer rows
    rows = {"numpy": X, "csr": sp.csr_array(X), "dask": da.from_array(X, chunks=(150, -1))}[kind]
    model = grown(clone(REGRESSOR).set_params(alpha=alpha, cv=cv, random_state=3), 300, rows, y, w)
    fold = FoldRule.of_cv(cv, 3).of_rows(0, 1000)
    added, errors = np.arange(1000) >= 300, []
    for f in [0] if cv == "holdout" else range(cv):
        train, test = (fold != f) & (w > 0), (fold == f) & (w > 0) & added
        peer = Ridge(model.alpha_ * train.sum(), solver="cholesky").fit(X[train], y[train])
        errors.append(np.abs(y[test] - peer.predict(X[test])))
    np.testing.assert_allclose(model.calibration_[:, 0], np.sort(np.concatenate(errors)), rtol=1e-7)
    plain = clone(model).set_params(calibrate=False, keep_state=False).fit(X, y, w)
    if alpha == 1e-2:
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 4])
def test_sigmoids_are_of_scores_of_refits_without_the_folds_of_the_rows(classes):
    X, y = labels(1500, classes=classes)
    model = grown(clone(CLASSIFIER).set_params(cv=5, class_weight={"red": 3.0}), 500, X, y)
    fold = FoldRule.of_cv(5, 0).of_rows(0, 1500)
    scores = np.empty((1500, 1 if classes == 2 else classes))
    for f in range(5):
        rest = StreamingRidgeClassifier(1e-2, class_weight={"red": 3.0}).fit(X[fold != f], y[fold != f])
        scores[fold == f] = rest.decision_function(X[fold == f]).reshape(-1, scores.shape[1])
    codes = np.searchsorted(model.classes_, y)
    Y = np.where(codes[:, None] == (1 if classes == 2 else np.arange(classes)), 1.0, -1.0)
    found = fit_sigmoids(HeldOut(scores[500:], Y[500:], np.ones(1000)), model.classes_)
    np.testing.assert_allclose(model.calibration_, found, rtol=1e-4, atol=1e-4)


def test_intervals_hold_for_rows_like_those_that_were_added():
    """The noise of the later rows is three times that of the first; errors of the first would hold too few."""
    (X, y), (Z, t) = numbers(4000), numbers(24_000, seed=1, noise=3.0)
    model = clone(REGRESSOR).fit(X, y)
    before = model.predict_interval(Z[4000:])
    model.partial_fit(Z[:4000], t[:4000])
    low, high = model.predict_interval(Z[4000:]).T
    share = ((low <= t[4000:]) & (t[4000:] <= high)).mean()
    assert abs(share - 0.9) < 4 * np.sqrt(0.09 * (1 / 4000 + 1 / 20_000))
    assert ((before[:, 0] <= t[4000:]) & (t[4000:] <= before[:, 1])).mean() < 0.5


def test_probabilities_after_rows_were_added():
    X, y = labels(12_000)
    model, alone = grown(CLASSIFIER, 200, X[:3000], y[:3000]), clone(CLASSIFIER).fit(X[:3000], y[:3000])
    np.testing.assert_allclose(model.predict_proba(X[3000:]), alone.predict_proba(X[3000:]), atol=0.03)
    codes = np.searchsorted(model.classes_, y[3000:])
    for c, share in enumerate(model.predict_proba(X[3000:]).mean(axis=0)):
        assert abs(share - (codes == c).mean()) < 0.02


# ---- when it is learned -------------------------------------------------------------------------------


def test_too_few_rows_leave_what_was_learned():
    X, y = numbers(4000)
    model = clone(REGRESSOR).fit(X[:2000], y[:2000])
    before = model.calibration_.copy()
    model.partial_fit(X[2000:2900], y[2000:2900])
    np.testing.assert_array_equal(model.calibration_, before)
    model.partial_fit(X[2900:3900], y[2900:3900])
    assert model.calibration_.shape == (1000, 1)


def test_of_few_rows_as_many_are_enough():
    X, y = numbers(300)
    model = clone(REGRESSOR).partial_fit(X[:100], y[:100])
    model.partial_fit(X[100:199], y[100:199])
    assert len(model.calibration_) == 100
    model.partial_fit(X[199:], y[199:])
    assert len(model.calibration_) == 101


def test_a_class_that_is_lacking_leaves_what_was_learned():
    X, y = labels(3000)
    model = clone(CLASSIFIER).fit(X[:1800], y[:1800])
    before = model.calibration_.copy()
    later = np.flatnonzero(y[1800:] != "blue") + 1800
    model.partial_fit(X[later], y[later])
    np.testing.assert_array_equal(model.calibration_, before)


def test_a_failure_leaves_the_model_as_it_was(monkeypatch):
    X, y = numbers(600)
    model = clone(REGRESSOR).fit(X[:300], y[:300])
    before = pickle.dumps(model)

    def fails(*arguments):
        raise OSError("gone")

    monkeypatch.setattr(ridge_base, "fold_scores", fails)
    with pytest.raises(OSError, match="gone"):
        model.partial_fit(X[300:], y[300:])
    assert pickle.dumps(model) == before


# ---- the same everywhere ------------------------------------------------------------------------------


def test_same_bits_for_one_and_two_workers(client, one_worker_client):
    X, y = labels(1800)
    made = []
    for workers in (client, one_worker_client):
        with workers.as_current():
            dX, dy = da.from_array(X, chunks=(250, -1)), da.from_array(y, chunks=250)
            model = grown(clone(CLASSIFIER).set_params(alpha="auto"), 750, dX, dy)
        made.append((model.calibration_.tobytes(), model.coef_.tobytes()))
    assert made[0] == made[1]


@pytest.mark.parametrize("model", [REGRESSOR, CLASSIFIER], ids=str)
@pytest.mark.parametrize("alpha", [1e-2, "auto"])
def test_saved_models_go_on(model, alpha, tmp_path):
    X, y = numbers(1500) if model is REGRESSOR else labels(1500)
    model = clone(model).set_params(alpha=alpha).fit(X[:600], y[:600])
    save_model(model, tmp_path / "m")
    others = [load_model(tmp_path / "m"), pickle.loads(pickle.dumps(model))]
    for a, b in ((600, 620), (620, 1500)):  # too few, and enough
        for each in (model, *others):
            each.partial_fit(X[a:b], y[a:b])
        for other in others:
            assert other.calibration_.tobytes() == model.calibration_.tobytes()
            assert other.coef_.tobytes() == model.coef_.tobytes()


@given(data=st.data(), classes=st.sampled_from([0, 2, 3]))
def test_pieces_of_any_size(data, classes):
    """The weights are those of one fit without calibration, and what is learned are numbers, however few rows there are."""
    n = data.draw(st.integers(2, 60))
    X, y = numbers(n) if not classes else labels(n, classes=classes)
    model, more = (CLASSIFIER, {"classes": NAMES[:classes]}) if classes else (REGRESSOR, {})
    model = clone(model)
    ends = [*sorted({*data.draw(cuts(n)), n} - {0})]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        for a, b in zip([0, *ends[:-1]], ends, strict=True):
            model.partial_fit(X[a:b], y[a:b], **more)
    if not classes:
        np.testing.assert_allclose(model.coef_, StreamingRidge(1e-2).fit(X, y).coef_, rtol=1e-9, atol=1e-9)
        assert len(model.calibration_) <= n
    else:
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-6)


def test_both_are_planned():
    X, y = numbers(3000)
    costs = [plan(clone(REGRESSOR).set_params(calibrate=on, cv=3), X, y) for on in (False, True)]
    plain = plan(StreamingRidge(1e-2), X, y)
    model = clone(REGRESSOR).set_params(cv=3).fit(X, y)
    assert costs[1].bytes_written - plain.bytes_written == model.state_.nbytes
    assert costs[0].bytes_written < costs[1].bytes_written  # one alpha has no folds without calibration


WEIGHTS = "rows are held out by their numbers, so a repeated row is held out otherwise than its weighted twin"
MISMATCH = "the largest score decides the label, and the sigmoids of the classes may cross elsewhere"


@parametrize_with_checks(
    [REGRESSOR, CLASSIFIER],
    expected_failed_checks=lambda estimator: {
        "check_classifiers_train": MISMATCH,
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    },
)
@pytest.mark.filterwarnings("ignore::distrf.linear_model.calibration.CalibrationWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)
