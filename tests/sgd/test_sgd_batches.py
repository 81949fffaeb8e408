"""Batches on a cluster: the same bits whatever the workers, bounded windows, errors with their rows, resuming."""

from __future__ import annotations

import os
import signal
import time

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import SchedulerPlugin
from sklearn.base import clone

from distrf import (
    CompactNonlinearClassifier,
    RandomFourierFeatures,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
)
from distrf.execution.row_blocks import mapped_from
from distrf.folds import drawn_folds
from distrf.sgd import dask_batches as batches_module
from distrf.sgd import rows as rows_module
from distrf.sgd.schedules import MICROBATCH_ROWS, Schedule, microbatch_count, row_order

#: Fits are cut short for the sake of time.
pytestmark = pytest.mark.filterwarnings("ignore:.*the loss still falls:sklearn.exceptions.ConvergenceWarning")


def problem(n=3000, chunk=250):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] > 0).astype(int) + (X[:, 2] > 0)
    features = RandomFourierFeatures(gamma=0.1, n_components=64, random_state=7)
    dX = da.from_array(X, chunks=(chunk, 6))
    return features.fit(dX).transform(dX), da.from_array(y, chunks=chunk)


def model(**parameters):
    given = {"alpha": 1e-4, "n_epochs": 3, "tol": None, "batch_size": 500} | parameters
    return StreamingSGDClassifier("logistic", **given)


def test_same_bits_after_a_worker_was_killed(client, monkeypatch):
    Z, y = problem()
    expected = model().fit(Z, y)
    make, calls = batches_module.DaskBatches.gradient, []

    def gradient(self, W):
        calls.append(None)
        if len(calls) == 7:
            pids = client.run(os.getpid)
            os.kill(next(iter(pids.values())), signal.SIGKILL)
        return make(self, W)

    monkeypatch.setattr(batches_module.DaskBatches, "gradient", gradient)
    np.testing.assert_array_equal(model().fit(Z, y).coef_, expected.coef_)
    client.wait_for_workers(2, timeout=300)


@pytest.mark.parametrize("kind", ["lazy", "persisted", "CSR", "learned"])
def test_small_rows_are_trained_in_the_process_of_the_client(client, monkeypatch, kind):
    """A batch costs a client 20 ms in messages. The same bits as on workers, which compute the rows once, wherever these are."""
    Z, y = problem(1500, 60)
    X, fitted = Z, model(early_stopping=True, n_epochs=2, batch_size=300)
    if kind == "persisted":
        X, y = client.persist([mapped_from(Z)[0] * 2, y])
    elif kind == "CSR":
        X = mapped_from(Z)[0].map_blocks(sp.csr_array, meta=sp.csr_array((0, 6), dtype=np.float32))
    elif kind == "learned":
        X, y = mapped_from(Z)[0], y > 1
        fitted = CompactNonlinearClassifier(n_components=8, n_epochs=2, batch_size=300, random_state=0)
    made, batches = [], batches_module.DaskBatches
    monkeypatch.setattr(rows_module, "DaskBatches", lambda *given: made.append(given) or batches(*given))
    on_workers = clone(fitted).fit(X, y)
    assert len(made) == 1
    with dask.config.set({"distrf.small-rows": "64MiB"}):
        here = clone(fitted).fit(X, y)
        assert len(made) == 1
        with monkeypatch.context() as work:
            work.setattr(rows_module, "_SMALL_FLOPS", 0.0)  # an epoch is more work
            clone(fitted).fit(X, y)
    assert len(made) == 2
    np.testing.assert_array_equal(here.coef_, on_workers.coef_)
    assert [h["loss"] for h in here.history_] == [h["loss"] for h in on_workers.history_]


class CountLoads(SchedulerPlugin):
    """The most blocks, and the most features, that were in the memory of workers at once."""

    def __init__(self):
        self.now = {"-load-": set(), "-featurize-": set()}
        self.most = dict.fromkeys(self.now, 0)

    def transition(self, key, start, finish, *args, **kwargs):
        for kind, held in self.now.items():
            if kind in str(key):
                (held.add if finish == "memory" else held.discard)(key)
                self.most[kind] = max(self.most[kind], len(held))


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [120, 240])
def test_a_window_of_blocks_is_resident(client, batch_size):
    """Two shuffle windows of 16 blocks, of 200; features of three batches beside the one in work."""
    Z, y = problem(6000, 30)
    assert len(Z.chunks[0]) == 200
    client.register_plugin(CountLoads(), name="count-loads")
    try:
        model(n_epochs=1, batch_size=batch_size).fit(Z, y)
        most = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.plugins["count-loads"].most)
    finally:
        client.unregister_scheduler_plugin("count-loads")
    assert 16 <= most["-load-"] <= 32
    assert 2 <= most["-featurize-"] <= 4 * microbatch_count(batch_size, MICROBATCH_ROWS)
    time.sleep(0.5)
    left = client.run_on_scheduler(
        lambda dask_scheduler: [k for k in dask_scheduler.tasks if str(k).startswith("sgd-")]
    )
    assert left == []


@pytest.mark.filterwarnings("ignore:.*no epoch was better:sklearn.exceptions.ConvergenceWarning")
def test_features_that_were_edited_are_not_traced_to_their_source():
    """Dask edits an array in place; what it was made from would give the features of before."""
    for edited in ("features", "rows"):
        X = da.from_array(np.random.default_rng(0).normal(size=(600, 3)), chunks=(200, 3))
        Z = RandomFourierFeatures(gamma=0.1, n_components=8, random_state=0).fit(X).transform(X)
        y = Z[:, 0].persist(scheduler="sync")
        (Z if edited == "features" else X)[:, :] = 0
        fitted = StreamingSGDRegressor(alpha=1e-6, n_epochs=30, tol=None).fit(Z, y)
        assert (fitted.score(Z, y) > 0.9) == (edited == "rows")
        assert (np.abs(fitted.coef_).max() < 1e-6) == (edited == "features")


def test_features_are_traced_to_their_source():
    Z, _ = problem()
    source, maps = mapped_from(Z)
    assert source.shape == (3000, 6)
    assert len(maps) == 1
    assert mapped_from(Z[:100])[1] == []


def test_schedule_covers_every_row_once_and_mixes():
    schedule = Schedule((500, 0, 300, 700) * 10, 400, 1, 5)
    for epoch in (0, 1):
        slices = [s for r in schedule.batches(epoch) for microbatch in r.microbatches for s in microbatch]
        seen = [(s.block, i) for s in slices for i in range(s.first, s.last)]
        assert len(seen) == len(set(seen)) == 15_000
    assert list(schedule.batches(0)) == list(schedule.batches(0)) != list(schedule.batches(1))
    for r in schedule.batches(0):
        assert {s.block for microbatch in r.microbatches for s in microbatch} == set(r.blocks)
        assert 15 <= len(r.blocks) <= 16
        assert 350 <= r.rows <= 450
        assert max(len(p) for p in r.microbatches) <= 16 / microbatch_count(400, MICROBATCH_ROWS)


def test_windows_span_the_data():
    """Of files sorted by date each shuffle window has one block of every run of neighbours, another one in the next epoch."""
    schedule = Schedule((100,) * 200, 400, 1, 5)
    first, second = schedule.windows(0), schedule.windows(1)
    for windows in (first, second):
        assert sorted(b for window in windows for b in window) == list(range(200))
        for window in windows:
            assert np.diff([0, *window, 199]).max() < 2 * len(windows)
    assert first != second


@pytest.mark.parametrize("lazy", [False, True])
def test_a_share_is_drawn_from_all_neighbours(lazy):
    """However many blocks there are, which may be sorted by class."""
    X = np.zeros((5_003, 2))
    folds = drawn_folds(da.from_array(X, chunks=(100, 2)) if lazy else X, 0.2, 0)
    values = np.asarray(folds.values)
    assert (values[:5000].reshape(-1, 5) == 0).sum(axis=1).tolist() == [1] * 1000
    assert folds.counts[0] + folds.never == 5_003
    assert len({tuple(v) for v in values[:5000].reshape(-1, 5)}) == 5
    np.testing.assert_array_equal(values, drawn_folds(X, 0.2, 0).values)
    for epoch in (0, 1):
        assert sorted(row_order(0, epoch, 1, 100, values[:100])) == np.flatnonzero(values[:100]).tolist()
