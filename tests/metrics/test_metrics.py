"""Scores equal scikit-learn's: in memory and lazy, weighted, with ties and missing classes."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from sklearn import metrics as reference

from distrf import metrics
from distrf.errors import InputError

RNG = np.random.default_rng(4)
W, Y = RNG.random(400), RNG.normal(size=(400, 3)) + 3.0
ERRORS = Y + RNG.normal(size=Y.shape)
P = RNG.dirichlet([1.0, 2.0, 0.5], 400)
P[0], P[1] = [1, 0, 0], [0, 1, 0]
CODES = np.array([RNG.choice(3, p=row) for row in P])
CODES[1] = 0  # a probability of 0 that came true
YES = np.where(CODES == 2, "yes", "no")


def labelled(labels, missing):
    """True labels, and others; `missing`: the last one is never true, the second never predicted."""
    y, p = np.array(labels)[CODES % len(labels)], RNG.choice(labels, 400)
    p[:200] = y[:200]
    if missing:
        y[y == labels[-1]], p[p == labels[1]] = labels[0], labels[0]
    return y, p


#: (names, targets, predictions, options of scikit-learn's alone)
TABLE = [
    *((["root_mean_squared_error", "mean_absolute_error", "r2_score"], Y[at], ERRORS[at], {}) for at in (np.s_[:], np.s_[:, 0])),
    *(
        (["accuracy_score"], *labelled(labels, missing), {})
        for labels in (["ape", "bee", "crow"], [3, 1, 7], [False, True]) for missing in (False, True)
    ),
    (["log_loss"], CODES, P, {}),
    (["roc_auc_score"], CODES, P, {"multi_class": "ovr"}),
    *((["log_loss", "roc_auc_score"], YES, P[:, 2].astype(dtype), {}) for dtype in (np.float32, np.float64)),
]  # fmt: skip


@pytest.mark.parametrize("weight", [None, W], ids=["alike", "weighted"])
@pytest.mark.parametrize(("names", "y", "predicted", "theirs"), TABLE)
@pytest.mark.filterwarnings("ignore")  # of scikit-learn, that labels are missing
def test_scores__equal_scikit_learn(names, y, predicted, theirs, weight):
    weight = (
        None if "multi_class" in theirs else weight
    )  # scikit-learn's mean over classes is by their rows there
    lazy = [None if a is None else da.from_array(a, chunks=(k, *a.shape[1:])) for a, k in ((y, 50), (predicted, 71), (weight, 92))]  # fmt: skip
    for name in names:
        expected = getattr(reference, name)(y, predicted, sample_weight=weight, **theirs)
        for *arrays, w in ((y, predicted, weight), lazy, (y.tolist(), lazy[1], weight)):
            rtol = 1e-5 if predicted.dtype == np.float32 else 1e-12  # scikit-learn adds float32
            assert getattr(metrics, name)(*arrays, sample_weight=w) == pytest.approx(expected, rel=rtol), name


@pytest.mark.parametrize("outputs", [(), (3,)])
@pytest.mark.parametrize("shift", [0.0, 1e8])
def test_regression_scores__equal_scikit_learn(outputs, shift):
    """Of blocks of unlike means, and far from zero; of a constant target too."""
    y = np.arange(500.0).reshape(-1, *([1] * len(outputs))) + RNG.normal(size=(500, *outputs))
    p = y + 10 * RNG.normal(size=y.shape)
    lazy = [da.from_array(a + shift, chunks=(60, *outputs)) for a in (y, p)]
    assert metrics.r2_score(*lazy) == pytest.approx(reference.r2_score(y, p), rel=1e-6 if shift else 1e-12)
    assert metrics.r2_score(np.ones(5), np.ones(5)) == 1.0
    assert metrics.r2_score([1, 1, 1], [0, 0, 0]) == 0.0


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("decimals", [0, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_decision_values__equal_scikit_learn(classes, decimals, weighted):
    """With ties, and rows of weight 0."""
    rng = np.random.default_rng(0)
    y, y_score = rng.permutation(np.arange(60) % classes), np.round(rng.normal(size=(60, classes)), decimals)
    y_score, w = y_score[:, 0] if classes == 2 else y_score, rng.integers(0, 3, 60) / 4 if weighted else None
    each = [(y, y_score)] if classes == 2 else [(y == k, y_score[:, k]) for k in range(classes)]
    expected = np.mean([reference.roc_auc_score(*pair, sample_weight=w) for pair in each])
    for arrays in ((y, y_score), [da.from_array(a, chunks=(13, *a.shape[1:])) for a in (y, y_score)]):
        assert metrics.roc_auc_score(*arrays, sample_weight=w) == pytest.approx(expected, rel=1e-12)


TWO, HALF = np.array([0, 1, 1]), np.array([0.1, 0.4, 0.9])


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
        ("roc_auc_score", ([1, 1], [0.1, 0.2]), {}, "of two labels"),
        ("roc_auc_score", ([1, 1], [0.1, 0.2]), {"labels": [0, 1]}, "1 lacks them"),
        ("roc_auc_score", (TWO, HALF[:2]), {}, "got .3,. and .2,."),
        ("roc_auc_score", (TWO, [0.1, np.nan, 0.2]), {}, "scores must be finite"),
        ("roc_auc_score", (TWO, np.ones((3, 3))), {}, "column a class"),
        ("roc_auc_score", (TWO, ["a", "b", "c"]), {}, "scores must be numeric"),
        ("log_loss", (TWO, 2 * HALF), {}, "between 0 and 1"),
        ("log_loss", ([0, 1, 2], np.full((3, 3), 0.5)), {}, "sum to 1"),
        ("log_loss", ([0, 1, 2], HALF), {}, "is of two labels"),
        ("log_loss", (TWO, HALF), {"sample_weight": np.zeros(3)}, "positive sum"),
    ],
)
def test_bad_input__is_refused(name, given_arrays, options, match):
    with pytest.raises(InputError, match=match):
        getattr(metrics, name)(*given_arrays, **options)
