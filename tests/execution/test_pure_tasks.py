"""Tasks change none of their inputs: Dask may need these once more, when the worker that ran the task retires."""

from __future__ import annotations

import pickle

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from fits import cnm, features, fourier, sgd, tefm

import distrf
from distrf import TEFM, RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier, StreamingScaler
from distrf.execution import passes, states


def table(X, y, folder):
    number = np.arange(640) % 7
    frame = pd.DataFrame({"number": number, "text": np.where(np.arange(640) % 3, "a", "b")})
    frame["label"] = np.where(number > 3, "yes", "no")
    frame.to_parquet(folder / "rows.parquet", row_group_size=40)
    opened = distrf.open_table(folder / "rows.parquet", target="label", rows_per_block=40)
    model = distrf.train(opened, n_components=16, length_scale=1.0)
    distrf.evaluate(model, opened)


#: Passes of every kind: what is summed up, and where.
FITS = {
    "gram": lambda X, y, folder: StreamingRidge("auto", cv=3).fit(features(X), y.astype(np.float32)),
    "labels": lambda X, y, folder: StreamingRidgeClassifier("auto", calibrate=True).fit(features(X), y),
    "cg": lambda X, y, folder: StreamingRidge(1e-3, solver="cg").fit(features(X), y.astype(np.float32)),
    "tefm": tefm,
    "srht": lambda X, y, folder: TEFM(fourier(), n_components=4, sketch="srht", random_state=0).fit(X),
    "scaler": lambda X, y, folder: StreamingScaler().fit(X),
    "whitened": lambda X, y, folder: RandomFourierFeatures(whiten=True, n_components=16, random_state=0).fit(X),
    "sgd": sgd,
    "cnm": cnm,
    "table": table,
}


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("fit", FITS)
def test_no_sum_changes_the_states_that_it_adds(fit, rng, tmp_path, monkeypatch):
    """The task of each sum runs twice, as it does where the worker that ran it retires."""
    made = []

    def twice(reduction, left, right):
        before = pickle.dumps((left, right))
        sums = [states.add_states(reduction, left, right) for _ in range(2)]
        assert pickle.dumps((left, right)) == before
        assert pickle.dumps(sums[0]) == pickle.dumps(sums[1])
        made.append(type(reduction).__name__)
        return sums[0]

    monkeypatch.setattr(passes, "add_states", twice)
    monkeypatch.setattr(passes, "BYTES_PER_FLOP", 1e9)  # so that few rows are several segments
    X = da.from_array(rng.normal(size=(640, 3)), chunks=(20, 3))
    y = da.from_array(np.arange(640) % 2, chunks=20)
    FITS[fit](X, y, tmp_path)
    assert made
