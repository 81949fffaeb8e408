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

N = 300
RNG = np.random.default_rng(1)
NAMES = ["a", "b", "c"]
X = RNG.normal(size=(N, 3)).astype(np.float32)
Y = X[:, 0] ** 2 - X[:, 1]
WORDS = np.where(Y > 0, "up", "down")
WEIGHT = RNG.uniform(0.5, 2.0, size=N)
CHUNK = 60

FRAME = pd.DataFrame(X, columns=NAMES).assign(y=Y, words=WORDS, weight=WEIGHT)


def array(values):
    return da.from_array(values, chunks=(CHUNK, *values.shape[1:]))


def lazy():
    """X, y, labels and weights."""
    frame = dd.from_pandas(FRAME, npartitions=N // CHUNK, sort=False)
    return frame[NAMES], frame["y"], frame["words"], frame["weight"]


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
    rows, numbers, words, weight = lazy()
    y, true = (words, WORDS) if is_classifier(ESTIMATORS[name]) else (numbers, Y)
    step = "streamingridge__sample_weight" if name == "pipeline" else "sample_weight"
    est = clone(ESTIMATORS[name]).fit(rows, y, **{step: weight})
    plain = clone(ESTIMATORS[name]).fit(array(X), array(true), **{step: array(WEIGHT)})
    assert list(est.feature_names_in_) == NAMES
    assert not hasattr(plain, "feature_names_in_")
    predicted = est.predict(rows)
    assert isinstance(predicted, da.Array)
    np.testing.assert_array_equal(np.asarray(predicted), np.asarray(plain.predict(array(X))))
    assert est.score(rows, y, sample_weight=weight) == plain.score(
        array(X), array(true), sample_weight=array(WEIGHT)
    )


def test_names_are_compared():
    rows, y, *_ = lazy()
    est = StreamingRidge(1e-3).fit(rows, y)
    with pytest.raises(InputError, match="must be in the same order"):
        est.predict(rows[NAMES[::-1]])
    with pytest.raises(InputError, match="unseen at fit time:\n- z\n"):
        est.predict(rows.rename(columns={"a": "z"}))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        est.predict(array(X))
    np.testing.assert_allclose(est.predict(FRAME[NAMES]), np.asarray(est.predict(rows)), rtol=1e-4, atol=1e-5)
    est.fit(array(X), Y)
    assert not hasattr(est, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but StreamingRidge was fitted without"):
        est.predict(rows)


def test_transform_stays_lazy():
    rows, *_ = lazy()
    Z = StreamingScaler().fit(rows).transform(rows)
    assert isinstance(Z, da.Array)
    assert Z.shape == (N, 3)
