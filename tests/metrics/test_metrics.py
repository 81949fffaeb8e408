"""Scores equal scikit-learn's: in memory and lazy, weighted, with ties and missing classes."""

from __future__ import annotations

import warnings

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference
from sklearn.calibration import calibration_curve as reference_calibration_curve

from distrf import metrics
from distrf.errors import InputError
from distrf.metrics import accuracy, mae, pinball, r2, relative_rmse, rmse


def regression(outputs=None, n=500):
    rng = np.random.default_rng(0)
    shape = (n,) if outputs is None else (n, outputs)
    y = rng.normal(size=shape) + 3.0
    return y, y + rng.normal(size=shape), rng.random(n)


def as_dask(*arrays, chunk=77):
    return [da.from_array(a, chunks=(chunk, *a.shape[1:])) for a in arrays]


# --- scores --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [None, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lazy", [False, True])
def test_regression_scores__equal_scikit_learn(outputs, weighted, lazy):
    y, p, w = regression(outputs)
    weight = w if weighted else None
    expected = (
        reference.root_mean_squared_error(y, p, sample_weight=weight),
        reference.r2_score(y, p, sample_weight=weight),
        reference.mean_absolute_error(y, p, sample_weight=weight),
        reference.mean_pinball_loss(y, p, sample_weight=weight, alpha=0.9),
    )
    factor = w if weighted else np.ones(len(y))
    relative = np.sqrt((factor @ (y - p) ** 2).sum() / (factor @ y**2).sum())
    if lazy:
        y, p = as_dask(y, p)
    scores = rmse(y, p, weight), r2(y, p, weight), mae(y, p, weight), pinball(y, p, weight, alpha=0.9)
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    assert relative_rmse(y, p, weight) == pytest.approx(relative, rel=1e-12)


def test_r2__keeps_its_digits_far_from_zero():
    y, p, _ = regression()
    assert r2(y + 1e8, p + 1e8) == pytest.approx(r2(y, p), rel=1e-6)


def test_r2__a_constant_target():
    assert r2(np.ones(5), np.ones(5)) == 1.0
    assert r2(np.ones(5), np.zeros(5)) == 0.0


@pytest.mark.parametrize("labels", [np.array(["a", "b", "c"]), np.array([0, 1, 2]), np.array([True, False])])
@pytest.mark.parametrize("lazy", [False, True])
def test_accuracy__equals_scikit_learn(labels, lazy):
    rng = np.random.default_rng(1)
    y, p, w = rng.choice(labels, 400), rng.choice(labels, 400), rng.random(400)
    expected = reference.accuracy_score(y, p), reference.accuracy_score(y, p, sample_weight=w)
    if lazy:
        y, p = as_dask(y, p)
    np.testing.assert_allclose((accuracy(y, p), accuracy(y, p, w)), expected, rtol=1e-12)


def test_scores__mix_numpy_and_dask_with_other_chunks():
    y, p, w = regression()
    expected = rmse(y, p, w)
    for a, b in ((as_dask(y)[0], p), (y, as_dask(p)[0]), (as_dask(y)[0], as_dask(p, chunk=50)[0])):
        assert rmse(a, b, w) == pytest.approx(expected, rel=1e-12)


def test_scores__take_lists():
    assert accuracy([1, 2, 3, 4], [1, 2, 3, 5]) == 0.75
    assert rmse([0.0, 0.0], [3.0, 3.0]) == 3.0


@pytest.mark.parametrize(
    ("score", "y", "p", "match"),
    [
        (rmse, np.ones(3), np.ones(4), "one shape"),
        (rmse, np.ones(3), np.ones((3, 1)), "one shape"),
        (rmse, np.ones(0), np.ones(0), "at least one row"),
        (rmse, np.array(["a"]), np.array(["a"]), "numeric"),
        (rmse, np.array([1.0, np.nan]), np.ones(2), "finite"),
        (r2, np.ones(2), np.array([1.0, np.inf]), "finite"),
        (relative_rmse, np.zeros(2), np.ones(2), "norm of y_true"),
        (accuracy, np.ones((2, 2)), np.ones((2, 2)), "one column"),
    ],
)
def test_scores__refuse_bad_input(score, y, p, match):
    with pytest.raises(InputError, match=match):
        score(y, p)


# --- labels --------------------------------------------------------------------------------------------------


def labelled(kind, n=400, missing=False):
    """True labels, other ones, weights; `missing`: the last label is never true, and the second never predicted."""
    rng = np.random.default_rng(4)
    labels = {"text": ["ape", "bee", "crow"], "numbers": [3, 1, 7], "bools": [False, True]}[kind]
    y, p = rng.choice(labels, n), rng.choice(labels, n)
    p[: n // 2] = y[: n // 2]
    if missing:
        y[y == labels[-1]], p[p == labels[1]] = labels[0], labels[0]
    return y, p, rng.random(n)


def variants(*arrays):
    """In memory, and lazily in blocks of other rows."""
    yield arrays
    yield [da.from_array(a, chunks=(50 + 21 * i, *a.shape[1:])) for i, a in enumerate(arrays)]


@pytest.mark.parametrize("kind", ["text", "numbers", "bools"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_scores_of_labels__equal_scikit_learn(kind, missing, weighted):
    y, p, w = labelled(kind, missing=missing)
    said = {"sample_weight": w} if weighted else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that classes are missing
        expected = {
            "accuracy": reference.accuracy_score(y, p, **said),
            "balanced_accuracy": reference.balanced_accuracy_score(y, p, **said),
            "confusion_matrix": reference.confusion_matrix(y, p, **said),
        }
        by_class = {
            (name, average): getattr(reference, f"{name}_score")(y, p, average=average, **said)
            for name in ("precision", "recall", "f1")
            for average in ("macro", "weighted", None)
        }
    for a, b, weight in variants(y, p, w):
        more = {"sample_weight": weight} if weighted else {}
        for name, value in expected.items():
            np.testing.assert_allclose(getattr(metrics, name)(a, b, **more), value, rtol=1e-12)
        for (name, average), value in by_class.items():
            ours = getattr(metrics, name)(a, b, average=average, **more)
            np.testing.assert_allclose(ours, value, rtol=1e-12, err_msg=f"{name} {average}")


def test_confusion_matrix__of_given_labels():
    y, p, w = labelled("text")
    for labels in (["crow", "ape"], ["eel", "bee", "crow", "ape"]):
        for weight in (None, w):
            ours = metrics.confusion_matrix(y, p, weight, labels=labels)
            np.testing.assert_allclose(
                ours, reference.confusion_matrix(y, p, sample_weight=weight, labels=labels)
            )
    assert metrics.confusion_matrix(y, p).dtype.kind == "i"


@pytest.mark.parametrize(
    ("labels", "pos_label"), [([0, 1], 1), ([False, True], 1), (["no", "yes"], "no"), ([0, 0], 1)]
)
def test_scores_of_one_class__equal_scikit_learn(labels, pos_label):
    rng = np.random.default_rng(5)
    y, p = rng.choice(labels, 100), rng.choice(labels, 100)
    for name in ("precision", "recall", "f1"):
        theirs = getattr(reference, f"{name}_score")(y, p, pos_label=pos_label, zero_division=0)
        assert getattr(metrics, name)(y, p, pos_label=pos_label) == pytest.approx(theirs, rel=1e-12)


# --- decision values -----------------------------------------------------------------------------------------


@given(
    n=st.integers(2, 60),
    classes=st.integers(2, 4),
    decimals=st.integers(0, 3),
    weighted=st.booleans(),
    chunk=st.integers(1, 30),
    seed=st.integers(0, 99),
)
def test_scores_of_decision_values__equal_scikit_learn(n, classes, decimals, weighted, chunk, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    y[:classes] = np.arange(classes)[: len(y)]  # each has a row
    classes = len(np.unique(y))
    y_score = np.round(rng.normal(size=(n, classes)), decimals)  # ties
    w = rng.integers(0, 3, n) / 4 if weighted else None
    if weighted:
        w[:classes] = 0.5
    if classes == 2:
        y_score = y_score[:, 0]
        expected = [reference.roc_auc_score(y, y_score, sample_weight=w)]
    else:
        each = [reference.roc_auc_score(y == k, y_score[:, k], sample_weight=w) for k in range(classes)]
        expected = [np.mean(each)]
    expected.append(reference.average_precision_score(y, y_score, sample_weight=w))
    for lazy in (False, True):
        if lazy:
            y, y_score = (da.from_array(a, chunks=(chunk, *a.shape[1:])) for a in (y, y_score))
        ours = metrics.roc_auc(y, y_score, w), metrics.average_precision(y, y_score, w)
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-15)


def test_roc_auc__of_probabilities_is_that_of_scikit_learn_one_against_the_rest(probable):
    y, p, _ = probable
    theirs = reference.roc_auc_score(y, p, multi_class="ovr", average="macro")
    assert metrics.roc_auc(y, p) == pytest.approx(theirs, rel=1e-12)


def test_average_precision__of_either_label():
    rng = np.random.default_rng(6)
    y, y_score = rng.choice(["no", "yes"], 200), rng.normal(size=200)
    for label in ("no", "yes"):
        theirs = reference.average_precision_score(y, y_score, pos_label=label)
        assert metrics.average_precision(y, y_score, pos_label=label) == pytest.approx(theirs, rel=1e-12)


# --- probabilities -------------------------------------------------------------------------------------------


@pytest.fixture
def probable():
    rng = np.random.default_rng(7)
    p = rng.dirichlet([1.0, 2.0, 0.5], 300)
    p[0], p[1] = [1, 0, 0], [0, 1, 0]
    y = np.array([rng.choice(3, p=row) for row in p])
    y[1] = 0  # a probability of 0 that came true
    return y, p, rng.random(300)


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_probabilities__equal_scikit_learn(probable, weighted):
    y, p, w = probable
    said = {"sample_weight": w} if weighted else {}
    expected = reference.log_loss(y, p, **said), reference.brier_score_loss(y, p, **said)
    for a, b, weight in variants(y, p, w):
        weight = weight if weighted else None
        np.testing.assert_allclose(
            (metrics.log_loss(a, b, weight), metrics.brier(a, b, weight)), expected, rtol=1e-12
        )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_two_classes__equal_scikit_learn(probable, weighted, dtype):
    y, p, w = probable
    y, p = np.where(y == 2, "yes", "no"), p[:, 2].astype(dtype)
    said = {"sample_weight": w} if weighted else {}
    tol = 1e-12 if dtype == np.float64 else 1e-5  # scikit-learn adds float32
    logs, squares = reference.log_loss(y, p, **said), reference.brier_score_loss(y, p, pos_label="yes", **said)
    for a, b, weight in variants(y, p, w):
        weight = weight if weighted else None
        for both in (b, (da if hasattr(b, "dask") else np).stack([1 - b, b], axis=1)):
            ours = metrics.log_loss(a, both, weight), metrics.brier(a, both, weight)
            np.testing.assert_allclose(ours, (logs, squares), rtol=tol)


@pytest.mark.parametrize("label", ["yes", "no"])
def test_calibration_curve__equals_scikit_learn(probable, label):
    y, p, _ = probable
    y, p = np.where(y == 2, "yes", "no"), np.round(p[:, 2], 2)
    for n_bins in (1, 5, 10):
        theirs = reference_calibration_curve(y, p, pos_label=label, n_bins=n_bins)
        for a, b in variants(y, p):
            ours = metrics.calibration_curve(a, b, pos_label=label, n_bins=n_bins)
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    repeated = np.repeat(y, 2), np.repeat(p, 2)
    weighted = metrics.calibration_curve(y, p, np.full(len(y), 2.0), pos_label=label)
    np.testing.assert_allclose(weighted, metrics.calibration_curve(*repeated, pos_label=label), rtol=1e-12)


# --- bad input -----------------------------------------------------------------------------------------------

TWO, P = np.array([0, 1, 1]), np.array([0.1, 0.4, 0.9])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: metrics.accuracy(["a", "b"], [1, 2]), "labels of one kind"),
        (lambda: metrics.accuracy(TWO, TWO, np.zeros(3)), "positive sum"),
        (lambda: metrics.accuracy(TWO, TWO, [-1, 1, 1]), "sample_weight must hold"),
        (lambda: metrics.accuracy([0.0, np.nan], [0.0, 1.0]), "labels must be finite"),
        (lambda: metrics.f1([0, 1, 2], [0, 1, 2]), "of two labels, got 3"),
        (lambda: metrics.f1(["a", "b"], ["a", "b"]), "pos_label must be one of the labels"),
        (lambda: metrics.f1(TWO, TWO, average="micro"), "average must be"),
        (lambda: metrics.roc_auc([1, 1], [0.1, 0.2]), "of two labels"),
        (lambda: metrics.roc_auc([1, 1], [0.1, 0.2], labels=[0, 1]), "1 lacks them"),
        (lambda: metrics.roc_auc(TWO, P[:2]), "got .3,. and .2,."),
        (lambda: metrics.roc_auc(TWO, [0.1, np.nan, 0.2]), "scores must be finite"),
        (lambda: metrics.roc_auc(TWO, np.ones((3, 3))), "column for each class"),
        (lambda: metrics.roc_auc(TWO, ["a", "b", "c"]), "scores must be numeric"),
        (lambda: metrics.average_precision(TWO, P, labels=[1, 5], pos_label=5), "5 has none"),
        (lambda: metrics.log_loss(TWO, 2 * P), "between 0 and 1"),
        (lambda: metrics.log_loss([0, 1, 2], np.full((3, 3), 0.5)), "sum to 1"),
        (lambda: metrics.log_loss([0, 1, 2], P), "one probability a row is of two labels"),
        (lambda: metrics.log_loss(TWO, P, np.zeros(3)), "positive sum"),
        (lambda: metrics.calibration_curve(TWO, np.ones((3, 2))), "one column"),
        (lambda: metrics.calibration_curve(TWO, P, n_bins=0), "n_bins must be"),
        (lambda: pinball(TWO, P, alpha=1.0), "alpha must be"),
    ],
)
def test_bad_input__is_refused(call, match):
    with pytest.raises(InputError, match=match):
        call()


def test_confusion_matrix__of_too_many_labels():
    many = np.arange(1500)
    assert accuracy(many, many) == 1.0
    with pytest.raises(InputError, match="at most 1,000 labels, got 1,500"):
        metrics.confusion_matrix(many, many)
