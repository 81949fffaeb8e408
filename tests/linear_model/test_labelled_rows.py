"""Estimators on Dask DataFrames: as on arrays, with the names of the columns."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.pipeline import make_pipeline

from distrf import (
    CompactNonlinearRegressor,
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingScaler,
    StreamingSGDClassifier,
)
from distrf.errors import InputError

dd = pytest.importorskip("dask.dataframe", reason="needs dask[dataframe]")

RNG = np.random.default_rng(1)
NAMES, CHUNK = ["a", "b", "c"], 60
X = RNG.normal(size=(300, 3)).astype(np.float32)
Y = X[:, 0] ** 2 - X[:, 1]
VALUES = {"X": X, "y": Y, "words": np.where(Y > 0, "up", "down"), "weight": RNG.uniform(0.5, 2.0, size=300)}
FRAME = pd.DataFrame(X, columns=NAMES).assign(**{k: v for k, v in VALUES.items() if k != "X"})


def given(kind, what):
    """Rows, targets, labels or weights of one kind."""
    if kind == "array":
        return da.from_array(VALUES[what], chunks=(CHUNK, 3)[: VALUES[what].ndim])
    return dd.from_pandas(FRAME, npartitions=5, sort=False)[NAMES if what == "X" else what]


ESTIMATORS = {
    "ridge": StreamingRidge(1e-3),
    "classifier": StreamingRidgeClassifier(1e-3),
    "sgd": StreamingSGDClassifier(n_epochs=2, random_state=0),
    "learned": CompactNonlinearRegressor(n_components=8, n_epochs=2),
    "pipeline": make_pipeline(
        StreamingScaler(), RandomFourierFeatures(n_components=16, random_state=0), StreamingRidge(1e-3)
    ),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_same_as_arrays(name):
    made = {}
    for one in ("frame", "array"):
        rows, y, weight = (
            given(one, w) for w in ("X", "words" if is_classifier(ESTIMATORS[name]) else "y", "weight")
        )
        step = "streamingridge__sample_weight" if name == "pipeline" else "sample_weight"
        est = clone(ESTIMATORS[name]).fit(rows, y, **{step: weight})
        assert getattr(est, "feature_names_in_", np.array([])).tolist() == (NAMES if one == "frame" else [])
        predicted = est.predict(rows)
        assert isinstance(predicted, da.Array)
        made[one] = np.asarray(predicted), est.score(rows, y, sample_weight=weight)
    np.testing.assert_array_equal(made["frame"][0], made["array"][0])
    assert made["frame"][1] == made["array"][1]


def test_names_are_compared():
    rows, y = given("frame", "X"), given("frame", "y")
    est = StreamingRidge(1e-3).fit(rows, y)
    turned, other = rows[NAMES[::-1]], rows.rename(columns={"a": "z"})
    with pytest.raises(InputError, match="must be in the same order"):
        est.predict(turned)
    with pytest.raises(InputError, match="unseen at fit time: - z "):
        est.predict(other)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        est.predict(given("array", "X"))
    np.testing.assert_allclose(est.predict(FRAME[NAMES]), np.asarray(est.predict(rows)), rtol=1e-4, atol=1e-5)
    est.fit(given("array", "X"), Y)
    with pytest.warns(UserWarning, match="X has feature names, but StreamingRidge was fitted without"):
        est.predict(rows)
