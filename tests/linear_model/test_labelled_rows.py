"""Estimators on Dask DataFrames and xarray DataArrays: as on arrays, with the names of the columns."""

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
xr = pytest.importorskip("xarray", reason="needs xarray")

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


def labelled(values):
    dims = ("row", "column")[: values.ndim]
    return xr.DataArray(values, dims=dims, coords={"column": NAMES} if values.ndim == 2 else None)


def kinds():
    """X, y, labels and weights of each kind."""
    frame = dd.from_pandas(FRAME, npartitions=N // CHUNK, sort=False)
    yield "dask", frame[NAMES], frame["y"], frame["words"], frame["weight"]
    yield "xarray", labelled(X), labelled(Y), labelled(WORDS), labelled(WEIGHT)
    lazy = (labelled(v).chunk(row=CHUNK) for v in (X, Y, WORDS, WEIGHT))
    yield "lazy-xarray", *lazy


ESTIMATORS = {
    "ridge": StreamingRidge(1e-3),
    "classifier": StreamingRidgeClassifier(1e-3),
    "sgd": StreamingSGDClassifier(n_epochs=2, random_state=0),
    "learned": CompactNonlinearRegressor(n_components=8, n_epochs=2),
    "pipeline": make_pipeline(
        StreamingScaler(), RandomFourierFeatures(n_components=16, random_state=0), StreamingRidge(1e-3)
    ),
}


@pytest.mark.parametrize("kind", range(3), ids=["dask", "xarray", "lazy-xarray"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_same_as_arrays(name, kind):
    what, rows, numbers, words, weight = list(kinds())[kind]
    y, true = (words, WORDS) if is_classifier(ESTIMATORS[name]) else (numbers, Y)
    step = "streamingridge__sample_weight" if name == "pipeline" else "sample_weight"
    lazy = what != "xarray"
    est = clone(ESTIMATORS[name]).fit(rows, y, **{step: weight})
    plain = clone(ESTIMATORS[name]).fit(
        *((array(X), array(true)) if lazy else (X, true)), **{step: array(WEIGHT) if lazy else WEIGHT}
    )
    assert list(est.feature_names_in_) == NAMES
    assert not hasattr(plain, "feature_names_in_")
    predicted = est.predict(rows)
    assert isinstance(predicted, da.Array) == lazy
    expected = plain.predict(array(X) if lazy else X)
    np.testing.assert_array_equal(np.asarray(predicted), np.asarray(expected))
    assert est.score(rows, y, sample_weight=weight) == plain.score(
        *((array(X), array(true), array(WEIGHT)) if lazy else (X, true, WEIGHT))
    )


def test_names_are_compared():
    for what, rows, y, *_ in kinds():
        est = StreamingRidge(1e-3).fit(rows, y)
        if what == "dask":
            turned, other = rows[NAMES[::-1]], rows.rename(columns={"a": "z"})
        else:
            turned, other = rows[:, ::-1], rows.assign_coords(column=["z", "b", "c"])
        with pytest.raises(InputError, match="must be in the same order"):
            est.predict(turned)
        with pytest.raises(InputError, match="unseen at fit time:\n- z\n"):
            est.predict(other)
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            est.predict(array(X))
        np.testing.assert_allclose(
            est.predict(FRAME[NAMES]), np.asarray(est.predict(rows)), rtol=1e-4, atol=1e-5
        )
        est.fit(array(X), Y)
        assert not hasattr(est, "feature_names_in_")
        with pytest.warns(UserWarning, match="X has feature names, but StreamingRidge was fitted without"):
            est.predict(rows)


def test_transform_stays_lazy():
    for what, rows, *_ in kinds():
        Z = StreamingScaler().fit(rows).transform(rows)
        assert isinstance(Z, da.Array) == (what != "xarray")
        assert Z.shape == (N, 3)
