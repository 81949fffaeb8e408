"""Scores equal scikit-learn's: in memory and lazy, weighted, with ties and missing classes."""

from __future__ import annotations

import warnings

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from distrf import metrics
from distrf.errors import InputError


def variants(*arrays):
    """In memory, and lazily in blocks of other rows."""
    yield arrays
    yield [
        a if a is None else da.from_array(a, chunks=(50 + 21 * i, *a.shape[1:])) for i, a in enumerate(arrays)
    ]
    yield [da.from_array(arrays[0], chunks=77), *arrays[1:]] if arrays[0].ndim == 1 else arrays


def same_scores(names, arrays, weight, rtol=1e-12, theirs=(), **options):
    """Our scores of these names are scikit-learn's."""
    for name in names:
        expected = getattr(reference, name)(*arrays, sample_weight=weight, **options, **dict(theirs))
        for *given_arrays, w in variants(*arrays, weight):
            ours = getattr(metrics, name)(*given_arrays, sample_weight=w, **options)
            for a, b in zip(ours, expected, strict=True) if isinstance(ours, tuple) else [(ours, expected)]:
                if b is None:
                    assert a is None
                else:
                    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-15, err_msg=name)


@pytest.mark.parametrize("outputs", [(), (3,)])
@pytest.mark.parametrize("weighted", [False, True])
def test_regression_scores__equal_scikit_learn(rng, outputs, weighted):
    y = rng.normal(size=(500, *outputs)) + 3.0
    p, w = y + rng.normal(size=y.shape), rng.random(500) if weighted else None
    same_scores(["root_mean_squared_error", "mean_absolute_error", "r2_score"], (y, p), w)


def test_r2__far_from_zero_and_of_a_constant(rng):
    y = rng.normal(size=500)
    p = y + rng.normal(size=500)
    assert metrics.r2_score(y + 1e8, p + 1e8) == pytest.approx(metrics.r2_score(y, p), rel=1e-6)
    assert metrics.r2_score(np.ones(5), np.ones(5)) == 1.0
    assert metrics.r2_score([1, 1, 1], [0, 0, 0]) == 0.0


def labelled(kind, missing=False, n=400):
    """True labels, other ones, weights; `missing`: the last label is never true, and the second never predicted."""
    rng = np.random.default_rng(4)
    labels = {"text": ["ape", "bee", "crow"], "numbers": [3, 1, 7], "bools": [False, True]}[kind]
    y, p = rng.choice(labels, n), rng.choice(labels, n)
    p[: n // 2] = y[: n // 2]
    if missing:
        y[y == labels[-1]], p[p == labels[1]] = labels[0], labels[0]
    return y, p, rng.random(n)


@pytest.mark.parametrize("kind", ["text", "numbers", "bools"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_labels__equal_scikit_learn(kind, missing, weighted):
    y, p, w = labelled(kind, missing=missing)
    w = w if weighted else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that classes are missing
        same_scores(["accuracy_score", "balanced_accuracy_score", "confusion_matrix"], (y, p), w)
        for average in ("macro", "weighted", None):
            same_scores(["precision_recall_fscore_support"], (y, p), w, average=average)
        for labels in (["crow", "ape"], ["eel", "bee", "crow", "ape"]) if kind == "text" else ():
            same_scores(["confusion_matrix"], (y, p), w, labels=labels)


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
    lazy = [da.from_array(a, chunks=(chunk, *a.shape[1:])) for a in (y, y_score)]
    for given_arrays in ((y, y_score), lazy):
        scores = metrics.roc_auc_score, metrics.average_precision_score
        ours = [score(*given_arrays, sample_weight=w) for score in scores]
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-15)


def test_average_precision__of_either_label(rng):
    y, y_score = rng.choice(["no", "yes"], 200), rng.normal(size=200)
    for label in ("no", "yes"):
        same_scores(["average_precision_score"], (y, y_score), None, pos_label=label)


@pytest.fixture
def probable():
    rng = np.random.default_rng(7)
    p = rng.dirichlet([1.0, 2.0, 0.5], 300)
    p[0], p[1] = [1, 0, 0], [0, 1, 0]
    y = np.array([rng.choice(3, p=row) for row in p])
    y[1] = 0  # a probability of 0 that came true
    return y, p, rng.random(300)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_probabilities__equal_scikit_learn(probable, weighted, dtype):
    y, p, w = probable
    w = w if weighted else None
    same_scores(["log_loss", "brier_score_loss"], (y, p), w)
    same_scores(["roc_auc_score"], (y, p), None, theirs={"multi_class": "ovr"})
    y, p = np.where(y == 2, "yes", "no"), p[:, 2].astype(dtype)
    tol = 1e-12 if dtype == np.float64 else 1e-5  # scikit-learn adds float32
    same_scores(["log_loss"], (y, p), w, rtol=tol)
    same_scores(["brier_score_loss"], (y, p), w, rtol=tol, theirs={"pos_label": "yes"})
    both = np.stack([1 - p, p], axis=1)
    one = metrics.log_loss(y, p, sample_weight=w)
    assert metrics.log_loss(y, both, sample_weight=w) == pytest.approx(one, rel=tol)


TWO, P, MANY = np.array([0, 1, 1]), np.array([0.1, 0.4, 0.9]), np.arange(1500)


@pytest.mark.parametrize(
    ("name", "given_arrays", "options", "match"),
    [
        ("root_mean_squared_error", (np.ones(3), np.ones(4)), {}, "one shape"),
        ("root_mean_squared_error", ([], []), {}, "at least one row"),
        ("root_mean_squared_error", (["a"], ["a"]), {}, "numeric"),
        ("r2_score", ([1.0, 2.0], [1.0, np.inf]), {}, "finite"),
        ("accuracy_score", (np.ones((2, 2)), np.ones((2, 2))), {}, "one column"),
        ("accuracy_score", (["a", "b"], [1, 2]), {}, "labels of one kind"),
        ("accuracy_score", (TWO, TWO), {"sample_weight": np.zeros(3)}, "positive sum"),
        ("accuracy_score", (TWO, TWO), {"sample_weight": [-1, 1, 1]}, "sample_weight must hold"),
        ("accuracy_score", ([0.0, np.nan], [0.0, 1.0]), {}, "labels must be finite"),
        ("confusion_matrix", (MANY, MANY), {}, "at most 1,000 labels, got 1,500"),
        ("precision_recall_fscore_support", (TWO, TWO), {"average": "micro"}, "average must be"),
        ("roc_auc_score", ([1, 1], [0.1, 0.2]), {}, "of two labels"),
        ("roc_auc_score", ([1, 1], [0.1, 0.2]), {"labels": [0, 1]}, "1 lacks them"),
        ("roc_auc_score", (TWO, P[:2]), {}, "got .3,. and .2,."),
        ("roc_auc_score", (TWO, [0.1, np.nan, 0.2]), {}, "scores must be finite"),
        ("roc_auc_score", (TWO, np.ones((3, 3))), {}, "column a class"),
        ("roc_auc_score", (TWO, ["a", "b", "c"]), {}, "scores must be numeric"),
        ("average_precision_score", (TWO, P), {"labels": [1, 5], "pos_label": 5}, "5 lacks them"),
        ("log_loss", (TWO, 2 * P), {}, "between 0 and 1"),
        ("log_loss", ([0, 1, 2], np.full((3, 3), 0.5)), {}, "sum to 1"),
        ("log_loss", ([0, 1, 2], P), {}, "is of two labels"),
        ("log_loss", (TWO, P), {"sample_weight": np.zeros(3)}, "positive sum"),
    ],
)
def test_bad_input__is_refused(name, given_arrays, options, match):
    with pytest.raises(InputError, match=match):
        getattr(metrics, name)(*given_arrays, **options)
