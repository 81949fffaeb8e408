"""Flat memory of a fit in batches: nothing that a worker keeps grows with the rows."""

from __future__ import annotations

import pickle

import cloudpickle
import dask.array as da
import numpy as np
import pytest
from distributed import span
from peaks import assert_flat

from distrf import RandomFourierFeatures, StreamingSGDClassifier
from distrf.errors import MemoryPlanError
from distrf.execution import passes, scheduler, workers
from distrf.execution.memory import Workers
from distrf.execution.sampling import take_rows
from distrf.execution.scheduler import compute
from distrf.execution.task_names import span_of
from distrf.linear_model import sgd_base
from distrf.losses import get_loss
from distrf.sgd.batch_work import BatchWork
from distrf.sgd.schedules import ORDERS, Holdout, Schedule, _row_order, row_order
from distrf.targets import Targets


def fit(rows=2000):
    X = np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    model = StreamingSGDClassifier("logistic", n_epochs=2, tol=None, batch_size=100)
    return model.fit(da.from_array(X, chunks=(200, 4)), da.from_array(y, chunks=200))


def counted_spans(dask_worker):
    """Names that a worker keeps figures of, for tasks of batches."""
    names = [k for k in dask_worker.digests_total if k[0] == "execute" and str(k[2]).startswith("sgd-")]
    return {name[1] for name in names}


def test_a_fit_is_one_span(client):
    """Dask begins another whenever all tasks are done, and keeps figures of each."""
    earlier = set().union(*client.run(counted_spans).values())
    fit()
    assert set().union(*client.run(counted_spans).values()) == earlier | {span_of("sgd")["ids"][-1]}


def test_a_span_of_the_caller_is_kept(client):
    with span("mine"):
        fit()
        name = span_of("sgd")["ids"][-1]
    assert name in set().union(*client.run(counted_spans).values())


def test_profiles_that_a_worker_keeps(client):
    def lengths(dask_worker):
        return dask_worker.profile_history.maxlen, dask_worker.profile_keys_history.maxlen

    scheduler.current_client()
    assert set(client.run(lengths).values()) == {(workers._PROFILES, workers._PROFILES)}


def test_classes_that_only_the_rows_tell_are_counted(client, monkeypatch):
    """Before the first step: a plan made before the rows were read has two classes for integers."""
    small = Workers(2, 1, 370 * 2**20)
    monkeypatch.setattr(Workers, "of_client", classmethod(lambda cls, client: small))
    X = np.random.default_rng(0).normal(size=(1200, 3)).astype(np.float32)
    lazy = da.from_array(X, chunks=(300, 3))
    Z = RandomFourierFeatures(gamma=0.1, n_components=256, random_state=0).fit(lazy).transform(lazy)
    model = StreamingSGDClassifier("logistic", n_epochs=1, tol=None, alpha=1e-4)
    model.fit(Z, da.arange(1200, chunks=300) % 2)
    refused = r"to 1000 output\(s\) was refused: .* which has 370.00 MiB .* Remedy: fewer components or outputs"
    with pytest.raises(MemoryPlanError, match=refused):
        model.fit(Z, da.arange(1200, chunks=300) % 1000)


def test_sampled_rows_travel_once(client, monkeypatch):
    """Their numbers go to each worker, not with each segment: those that wait would hold a copy each."""
    sizes = []

    def recorded(task, *more):
        nodes = dict(task.dask).items()
        sizes.extend(len(cloudpickle.dumps(node)) for key, node in nodes if "-segment-" in str(key))
        return compute(task, *more)

    monkeypatch.setattr(passes, "compute", recorded)
    rows = np.arange(0, 40_000, 5)
    values = np.arange(80_000.0).reshape(40_000, 2)
    lazy = da.from_array(np.arange(40_000), chunks=2000).map_blocks(
        lambda a: np.stack([2.0 * a, 2.0 * a + 1], axis=1), new_axis=1, chunks=(2000, 2), dtype=float
    )
    np.testing.assert_array_equal(take_rows(lazy, rows), values[rows])
    assert len(sizes) >= 20
    assert np.median(sizes) < len(pickle.dumps(rows)) / 3


@pytest.mark.parametrize("n_features", [3, 2**15])
def test_few_rows_are_scored_at_a_time(monkeypatch, n_features):
    most = []
    features = BatchWork._features

    def recorded(self, loaded, maps, rows):
        most.append(rows.size)
        return features(self, loaded, maps, rows)

    monkeypatch.setattr(BatchWork, "_features", recorded)
    targets = Targets(np.array([0, 1]), np.zeros(1))
    work = BatchWork(targets, get_loss("logistic", "classification", 2), 1.0, 0, Holdout(0.5, 0))
    X = np.zeros((5000, n_features), np.float32)
    rows = (X, np.arange(5000) % 2, None)
    total = work.score(rows, np.arange(0, 5000, 2), np.zeros((n_features + 1, 1)))
    assert total[0, 0] == sum(most) == 2500
    assert max(most) * n_features <= 2**22


def test_orders_of_rows_that_a_process_keeps():
    """As many as blocks of two shuffle windows; four bytes a row, which the plan counts."""
    assert max(len(window) for window in Schedule((1000,) * 200, 4000, 1, 0).windows(0)) * 2 <= ORDERS
    assert _row_order.cache_info().maxsize == ORDERS
    for holdout in (Holdout(0.0, 0), Holdout(0.2, 0)):
        assert row_order(3, 0, 5, 100, holdout).dtype == np.int32


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
