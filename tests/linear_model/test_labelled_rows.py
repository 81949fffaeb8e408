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

RNG = np.random.default_rng(1)
NAMES, CHUNK = ["a", "b", "c"], 60
X = RNG.normal(size=(300, 3)).astype(np.float32)
Y = X[:, 0] ** 2 - X[:, 1]
VALUES = {"X": X, "y": Y, "words": np.where(Y > 0, "up", "down"), "weight": RNG.uniform(0.5, 2.0, size=300)}
FRAME = pd.DataFrame(X, columns=NAMES).assign(**{k: v for k, v in VALUES.items() if k != "X"})


def given(kind, what):
    """Rows, targets, labels or weights of one kind."""
    values, chunks = VALUES[what], (CHUNK, 3)[: VALUES[what].ndim]
    if kind in ("memory", "array"):
        return values if kind == "memory" else da.from_array(values, chunks=chunks)
    if kind == "frame":
        return dd.from_pandas(FRAME, npartitions=5, sort=False)[NAMES if what == "X" else what]
    coords = {"column": NAMES} if what == "X" else None
    made = xr.DataArray(values, dims=("row", "column")[: values.ndim], coords=coords)
    return made if kind == "xarray" else made.chunk(row=CHUNK)


#: Each kind, and the arrays that it is as good as.
KINDS = {"frame": "array", "xarray": "memory", "lazy xarray": "array"}
ESTIMATORS = {
    "ridge": StreamingRidge(1e-3),
    "classifier": StreamingRidgeClassifier(1e-3),
    "sgd": StreamingSGDClassifier(n_epochs=2, random_state=0),
    "learned": CompactNonlinearRegressor(n_components=8, n_epochs=2),
    "pipeline": make_pipeline(
        StreamingScaler(), RandomFourierFeatures(n_components=16, random_state=0), StreamingRidge(1e-3)
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_same_as_arrays(name, kind):
    made = {}
    for one in (kind, KINDS[kind]):
        rows, y, weight = (
            given(one, w) for w in ("X", "words" if is_classifier(ESTIMATORS[name]) else "y", "weight")
        )
        step = "streamingridge__sample_weight" if name == "pipeline" else "sample_weight"
        est = clone(ESTIMATORS[name]).fit(rows, y, **{step: weight})
        assert getattr(est, "feature_names_in_", np.array([])).tolist() == (NAMES if one == kind else [])
        predicted = est.predict(rows)
        assert isinstance(predicted, da.Array) == (kind != "xarray")
        made[one] = np.asarray(predicted), est.score(rows, y, sample_weight=weight)
    np.testing.assert_array_equal(made[kind][0], made[KINDS[kind]][0])
    assert made[kind][1] == made[KINDS[kind]][1]


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_compared(kind):
    rows, y = given(kind, "X"), given(kind, "y")
    est = StreamingRidge(1e-3).fit(rows, y)
    if kind == "frame":
        turned, other = rows[NAMES[::-1]], rows.rename(columns={"a": "z"})
    else:
        turned, other = rows[:, ::-1], rows.assign_coords(column=["z", "b", "c"])
    with pytest.raises(InputError, match="must be in the same order"):
        est.predict(turned)
    with pytest.raises(InputError, match="unseen at fit time:\n- z\n"):
        est.predict(other)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        est.predict(given("array", "X"))
    np.testing.assert_allclose(est.predict(FRAME[NAMES]), np.asarray(est.predict(rows)), rtol=1e-4, atol=1e-5)
    est.fit(given("array", "X"), Y)
    with pytest.warns(UserWarning, match="X has feature names, but StreamingRidge was fitted without"):
        est.predict(rows)
