"""Flat memory of a fit in batches: nothing that a worker keeps grows with the rows."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from peaks import assert_flat

from distrf import RandomFourierFeatures, StreamingSGDClassifier
from distrf.execution import scheduler, workers
from distrf.linear_model import sgd_base
from distrf.losses import get_loss
from distrf.sgd.batch_work import BatchWork
from distrf.targets import Targets


def test_profiles_that_a_worker_keeps(client):
    def lengths(dask_worker):
        return dask_worker.profile_history.maxlen, dask_worker.profile_keys_history.maxlen

    scheduler.current_client()
    assert set(client.run(lengths).values()) == {(workers._PROFILES, workers._PROFILES)}


@pytest.mark.parametrize("n_features", [3, 2**15])
def test_few_rows_are_scored_at_a_time(monkeypatch, n_features):
    most = []
    features = BatchWork._features

    def recorded(self, loaded, maps, rows):
        most.append(rows.size)
        return features(self, loaded, maps, rows)

    monkeypatch.setattr(BatchWork, "_features", recorded)
    targets = Targets(np.array([0, 1]), np.zeros(1))
    work = BatchWork(targets, get_loss("logistic", "classification", 2), 1.0, 0)
    X = np.zeros((5000, n_features), np.float32)
    rows = (X, np.arange(5000) % 2, None)
    total = work.score(rows, np.arange(0, 5000, 2), np.zeros((n_features + 1, 1)))
    assert total[0, 0] == sum(most) == 2500
    assert max(most) * n_features <= 2**22


@pytest.mark.clock
def test_batches_over_ten_times_the_rows(tmp_path):
    """At most a tenth more, and below the plan of both; blocks are small, so that what readers keep is too."""
    options = [
        "-D",
        512,
        "--set",
        "map__gamma=0.1",
        "--model",
        "sgd-classifier",
        "--set",
        "model__n_epochs=1",
        "--set",
        "model__tol=none",
    ]
    assert_flat(tmp_path, 150_000, 8, options)


def test_features_of_rows_of_bytes_are_counted_as_float32(client, monkeypatch):
    planned = []
    check = sgd_base.check_batches
    monkeypatch.setattr(sgd_base, "check_batches", lambda *given: planned.append(check(*given)) or planned[-1])
    X = np.random.default_rng(0).integers(0, 255, (1200, 3))
    for dtype in (np.uint8, np.float32):
        lazy = da.from_array(X.astype(dtype), chunks=(300, 3))
        Z = RandomFourierFeatures(gamma=1e-5, n_components=64, random_state=0).fit(lazy).transform(lazy)
        StreamingSGDClassifier("logistic", n_epochs=1, tol=None, alpha=1e-4).fit(
            Z, da.arange(1200, chunks=300) % 2
        )
    assert planned[0].features == planned[1].features > 0
