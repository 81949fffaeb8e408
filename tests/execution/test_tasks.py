"""Tasks change none of their inputs, which Dask may need once more, when the worker that ran them retires; and fits run inside of
tasks, where what they wait for may need the thread that they run in."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import dask.array as da
import fits
import numpy as np
import pandas as pd
import pytest
from distributed import worker_client
from fits import features, fourier
from threadpoolctl import threadpool_info

import distrf
from distrf import TEFM, RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier, StreamingScaler
from distrf.execution import passes

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def table(X, y, folder):
    number = np.arange(640) % 7
    frame = pd.DataFrame({"number": number, "text": np.where(np.arange(640) % 3, "a", "b")})
    frame["label"] = np.where(number % 2, "yes", "no")
    frame.to_parquet(folder / "rows.parquet", row_group_size=40)
    opened = distrf.open_table(folder / "rows.parquet", target="label", rows_per_block=40)
    kinds = {"number": "number"}  # its levels alone tell the label
    model = distrf.train(opened, kinds=kinds, n_components=16, set={"map__length_scale": 1.0})
    distrf.evaluate(model, opened)


#: Passes of every kind: what is summed up, and where.
PASSES = {
    "gram": lambda X, y, folder: StreamingRidge("auto", cv=3).fit(features(X), y.astype(np.float32)),
    "labels": lambda X, y, folder: StreamingRidgeClassifier("auto", calibrate=True).fit(features(X), y),
    "passes": lambda X, y, folder: StreamingRidge(1e-3, solver="passes").fit(features(X), y.astype(np.float32)),
    "tefm": fits.tefm,
    "srht": lambda X, y, folder: TEFM(fourier(), n_components=4, sketch="srht", random_state=0).fit(X),
    "scaler": lambda X, y, folder: StreamingScaler().fit(X),
    "whitened": lambda X, y, folder: RandomFourierFeatures(
        metric="whiten", n_components=16, random_state=0
    ).fit(X),
    "sgd": fits.sgd,
    "cnm": fits.cnm,
    "metric": lambda X, y, folder: distrf.LearnedMetric(fourier(), n_rounds=1).fit(X, y.astype(np.float32)),
    "table": table,
}


@pytest.mark.parametrize("name", PASSES)
def test_no_sum_changes_the_states_that_it_adds(name, rng, tmp_path, monkeypatch):
    """The task of each sum runs twice, as it does where the worker that ran it retires."""
    made, add = [], passes.add_states

    def twice(reduction, left, right):
        before = pickle.dumps((left, right))
        sums = [add(reduction, left, right) for _ in range(2)]
        assert pickle.dumps((left, right)) == before
        assert pickle.dumps(sums[0]) == pickle.dumps(sums[1])
        made.append(type(reduction).__name__)
        return sums[0]

    monkeypatch.setattr(passes, "add_states", twice)
    monkeypatch.setattr(passes, "BYTES_PER_FLOP", 1e9)  # so that few rows are several segments
    X = da.from_array(rng.normal(size=(640, 3)), chunks=(20, 3))
    y = da.from_array(np.arange(640) % 2, chunks=20)
    PASSES[name](X, y, tmp_path)
    assert made


# ---- inside of tasks --------------------------------------------------------------------------------


def passes_of(X, y):
    return StreamingRidge(1e-3, solver="passes", tol=1e-6).fit(features(X), y.astype(np.float32)).coef_


def stopped_early(X, y):
    return fits.sgd(X, y, early_stopping=True)


def run(fit=fits.ridge):
    return fit(*fits.made_rows(600, 100))


def run_in_a_worker_client():
    """It has given up the thread of the task before."""
    with worker_client():
        return run()


@pytest.fixture(scope="module")
def single():
    """A cluster of one thread, which a deadlock would leave for good."""
    with fits.own_cluster(1) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("fit", [fits.ridge, passes_of, stopped_early, fits.tefm])
def test_a_fit_inside_a_task_of_the_only_thread(single, fit):
    """It ends, with the bits of a fit outside."""
    inside = single.submit(run, fit, pure=False).result(timeout=60)
    np.testing.assert_array_equal(inside, run(fit))


@pytest.mark.slow
def test_a_fit_inside_a_worker_client(client):
    inside = client.submit(run_in_a_worker_client, pure=False).result(timeout=60)
    np.testing.assert_array_equal(inside, run())


def test_blas_has_its_threads_back():
    """Two fits at once: the last one restores what was before the first."""
    before = threadpool_info()
    with ThreadPoolExecutor(2) as pool:
        np.testing.assert_array_equal(*pool.map(lambda _: run(), range(2)))
    assert threadpool_info() == before
