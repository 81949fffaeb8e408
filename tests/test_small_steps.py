"""One row through a loaded model: what it costs, and what is refused."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
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


def test_what_the_checks_are_for_is_still_refused(model):
    loaded = load_model(model)
    rows = np.ones((3, 20))
    for bad, message in (
        (np.where(np.eye(3, 20) > 0, np.nan, rows), "NaN"),
        (np.where(np.eye(3, 20) > 0, np.inf, rows), "infinity"),
        (rows[:, :5], "5 features"),
        (rows[:0], "0 sample"),
        (rows[0], "1D array"),
    ):
        with pytest.raises(ValueError, match=message):
            loaded.predict(bad)
    assert np.isfinite(loaded[0].transform(1e300 * rows)).all()  # whose squares are infinite
    with pytest.raises(NotFittedError):
        RandomFourierFeatures().transform(rows)
