"""What cannot be fitted, predicted or scored raises InputError from Python, whoever finds it: a ValueError of ours."""

from __future__ import annotations

import numpy as np
import pytest

import distrf
from distrf.errors import InputError
from distrf.pipeline.target import look_at

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3))
y = (X[:, 0] > 0).astype(int)

ESTIMATORS = {
    "ridge classifier": lambda: distrf.StreamingRidgeClassifier(1e-3),
    "ridge": lambda: distrf.StreamingRidge(1e-3),
    "sgd": lambda: distrf.StreamingSGDClassifier(alpha=1e-3, n_epochs=1, tol=None),
    "learned": lambda: distrf.CompactNonlinearClassifier(n_components=4, n_epochs=1),
    "map": lambda: distrf.RandomFourierFeatures(n_components=8),
    "subspace": lambda: distrf.TEFM(distrf.RandomFourierFeatures(n_components=8), n_components=3),
}
ROWS = {
    "text": X.astype(str),
    "complex": X + 1j,
    "one dimension": X[:, 0],
    "no rows": X[:0],
    "no columns": X[:, :0],
    "None": None,
    "infinite": np.where(X > 1, np.inf, X),
    "times": X.astype("datetime64[s]"),
}
TARGETS = {
    "dictionaries": np.array([{}] * 40, dtype=object),
    "numbers and text": np.array([1, "a"] * 20, dtype=object),
    "missing text": np.array([None, "a"] * 20, dtype=object),
    "complex": y + 1j,
    "times": np.arange(40).astype("datetime64[s]"),
    "NaN": np.where(y, np.nan, 0.0),
    "too few": y[:10],
    "three dimensions": np.ones((40, 2, 2)),
    "None": None,
}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.filterwarnings("ignore")
def test_train_refuses_rows(rows):
    with pytest.raises(InputError):
        distrf.train(ROWS[rows], y[: 0 if rows == "no rows" else None])


@pytest.mark.parametrize("targets", TARGETS)
def test_train_refuses_targets(targets):
    with pytest.raises(InputError):
        distrf.train(X, TARGETS[targets])


def test_train_takes_lists():
    model = distrf.train(X.tolist(), y.tolist(), n_components=16)
    np.testing.assert_array_equal(model.predict(X), distrf.train(X, y, n_components=16).predict(X))


def test_two_numbers_beyond_whole_ones_are_no_labels():
    """scikit-learn's classifiers refuse them."""
    assert not look_at(y * 1e30).labels
    with pytest.raises(InputError, match="too large, predictions are float32: up to 1e\\+300"):
        distrf.train(X, y * 1e300)


@pytest.mark.parametrize("missing", [None, np.nan])
@pytest.mark.parametrize("name", ["train", "ridge classifier"])
def test_a_missing_label_is_refused_with_its_row(name, missing):
    labels = np.array(["a", "b"] * 20, dtype=object)
    labels[7] = missing
    fit = distrf.train if name == "train" else ESTIMATORS[name]().fit
    with pytest.raises(
        InputError, match=f"^y must have a value in every row, but row 7 is {missing}; drop such rows$"
    ):
        fit(X, labels)


def test_numbers_whose_squares_leave_the_range_are_refused():
    with pytest.raises(InputError, match=r"y is too small, predictions are float32: up to .*e-200"):
        distrf.train(X, X[:, 0] * 1e-200)
    for fit in (distrf.train, distrf.RandomFourierFeatures(n_components=8).fit):
        with pytest.raises(
            InputError, match="columns of X are too large, squared distances of rows overflow: up to"
        ):
            fit(X * 1e200, y)
