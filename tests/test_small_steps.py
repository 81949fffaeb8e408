"""One row through a loaded model: what it costs, and what is refused."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from distrf import RandomFourierFeatures, StreamingRidge, StreamingScaler, load_model, save_model

#: Seconds that one row may take beside its arithmetic: well below a millisecond, on a machine that does other work too.
BESIDE = 1e-3


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    X = np.random.default_rng(0).normal(size=(2000, 20))
    path = tmp_path_factory.mktemp("model") / "model"
    made = make_pipeline(
        StreamingScaler(),
        RandomFourierFeatures(n_components=512, projection="circulant", random_state=0),
        StreamingRidge(alpha=1e-3),
    )
    save_model(made.fit(X, X[:, 0]), path)
    return path


def least(call, times=300):
    """The least of many times: what the work takes where nothing interferes, a measurement of coverage least of all."""
    call()
    seconds = []
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        for _ in range(times):
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
    finally:
        sys.settrace(trace)
    return min(seconds)


@pytest.mark.clock
def test_one_row_costs_its_arithmetic(model):
    loaded = load_model(model)
    scale, map_, weights = loaded[0].map_, loaded[1].map_, np.atleast_2d(loaded[2].coef_)
    row = np.random.default_rng(1).normal(size=(1, 20))
    arithmetic = least(lambda: map_(scale(row)) @ weights.T)
    assert least(lambda: loaded.predict(row)) < arithmetic + BESIDE
