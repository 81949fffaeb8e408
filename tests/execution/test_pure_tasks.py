"""Tasks change none of their inputs: Dask may need these once more, when the worker that ran the task retires."""

from __future__ import annotations

import pickle
import threading
import time

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from reductions import InPlaceFold

import distrf
from distrf import (
    TEFM,
    CompactNonlinearClassifier,
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingScaler,
    StreamingSGDClassifier,
)
from distrf.execution import passes, states
from distrf.execution.passes import run_pass


def fourier():
    return RandomFourierFeatures(gamma=0.1, n_components=16, random_state=7)


def features(X):
    return fourier().fit(X).transform(X)


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
    "tefm": lambda X, y, folder: TEFM(fourier(), n_components=4, solver="finder", random_state=0).fit(X),
    "srht": lambda X, y, folder: TEFM(fourier(), n_components=4, sketch="srht", random_state=0).fit(X),
    "scaler": lambda X, y, folder: StreamingScaler().fit(X),
    "whitened": lambda X, y, folder: RandomFourierFeatures(whiten=True, n_components=16, random_state=0).fit(X),
    "sgd": lambda X, y, folder: StreamingSGDClassifier(n_epochs=1, tol=None, batch_size=64).fit(features(X), y),
    "cnm": lambda X, y, folder: CompactNonlinearClassifier(n_components=4, n_epochs=1, batch_size=64).fit(X, y),
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


def retiring(client, part):
    """A thread that retires a worker as soon as it runs a task whose key has this part; and the list of whom it retired."""
    retired: list[str] = []
    stop = threading.Event()

    def watch():
        while not stop.is_set() and not retired:
            for worker, keys in client.processing().items():
                if any(part in str(key) for key in keys):
                    time.sleep(0.2)  # until it has changed what it holds, and goes on
                    retired.append(worker)
                    client.retire_workers([worker])
                    break
            time.sleep(0.02)

    thread = threading.Thread(target=watch)
    thread.start()
    return retired, lambda: (stop.set(), thread.join())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "held", "fold"),
    [
        ("pass-sum", False, InPlaceFold()),
        ("-segment-4", True, InPlaceFold(updating=0.5, combining=0.0)),
    ],
    ids=["sum of two states", "held blocks"],
)
def test_a_worker_that_retires_counts_no_row_twice(part, held, fold):
    options = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        X = da.zeros((1600, 2), chunks=(100, 2))
        if held:
            X = X.persist()
            client.gather(client.compute(X.sum()))
        retired, end = retiring(client, part)
        try:
            counted = run_pass(fold, [X])
        finally:
            end()
        assert retired
        assert (counted == 1600).all()
