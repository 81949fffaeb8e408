"""A worker with far less memory than the others refuses no job and chooses no solver: it gets no work that it cannot hold."""

from __future__ import annotations

import logging
import warnings
from contextlib import ExitStack
from dataclasses import dataclass

import dask.array as da
import numpy as np
import pytest
from distributed import Client, Scheduler, SpecCluster, Worker, get_worker, wait
from fits import FakeClient
from sklearn.exceptions import ConvergenceWarning

from distrf.errors import MemoryPlanError
from distrf.execution import worker_checks
from distrf.execution.memory import PROCESS_BYTES, PassMemory, Workers
from distrf.execution.passes import RowCount, run_pass
from distrf.execution.worker_checks import able_workers
from distrf.linear_model import StreamingSGDRegressor
from distrf.sgd import dask_batches
from distrf.sgd.dask_batches import threads_of

GIB = 2**30


def fake(**limits):
    """A client whose workers have a thread and so much memory each."""
    state = {"status": "running", "metrics": {"memory": 0, "task_counts": {}}, "last_seen": 0.0, "nthreads": 1}
    return FakeClient(workers={name: state | {"memory_limit": limit} for name, limit in limits.items()})


@pytest.mark.parametrize(
    ("limits", "count", "planned"),
    [
        ({"a": 8, "b": 8, "c": 1}, 2, 8),
        ({"a": 8, "b": 6, "c": 4}, 3, 4),
        ({"a": 16, "b": 4}, 1, 16),
        ({"a": 4, "b": 4, "c": 64}, 3, 4),
        ({"a": 8, "b": 0, "c": 1}, 2, 8),
        ({"a": 0}, 1, 0),
        ({}, 1, 0),
    ],
)
def test_what_is_planned_with(limits, count, planned):
    workers = Workers.of_client(fake(**limits))
    assert workers == Workers(count, 1, planned)
    assert set(workers.each) == set(limits)


def test_a_pass_leaves_out_those_that_cannot_hold_it(caplog):
    workers = Workers.of_client(fake(a=8 * GIB, b=8 * GIB, c=GIB))
    with caplog.at_level(logging.WARNING):
        PassMemory(0, 0, 0).check(workers, "gram")
        assert caplog.text == ""
        PassMemory(0, 0, 0, weights=2 * GIB).check(workers, "gram")
    assert "1 of 3 workers get no work of gram: their memory limit is below the 2.34 GiB" in caplog.text
    with pytest.raises(MemoryPlanError, match=r"which has 8.00 GiB"):
        PassMemory(0, 0, 0, weights=8 * GIB).check(workers, "gram")


@dataclass(frozen=True)
class Where(RowCount):
    """The names of the workers that did it."""

    nbytes: int = 0
    flops_per_row: float = 1.0
    scratch_bytes = PROCESS_BYTES

    def initial(self):
        return set()

    def update(self, state, first_row, block):
        return state | {get_worker().name}

    def combine(self, left, right):
        return left | right


@pytest.fixture
def cluster(monkeypatch):
    """A function that starts a cluster in this process whose workers have so much memory, and connects."""
    monkeypatch.setattr(worker_checks, "EVERY", 0.2)
    scheduler = {"cls": Scheduler, "options": {"dashboard_address": ":0", "port": 0, "host": "127.0.0.1"}}
    with ExitStack() as stack:

        def start(**limits):
            made = stack.enter_context(SpecCluster(workers=specs(limits), scheduler=scheduler, silence_logs=50))
            client = stack.enter_context(Client(made))
            client.wait_for_workers(len(limits)) if limits else None
            return made, client

        yield start


def specs(limits):
    options = {
        name: {"nthreads": 1, "memory_limit": limit, "dashboard": False} for name, limit in limits.items()
    }
    return {name: {"cls": Worker, "options": given} for name, given in options.items()}


SMALL = PROCESS_BYTES + 2**20


@pytest.mark.slow
def test_on_a_cluster(cluster, monkeypatch):
    X = da.from_array(np.random.default_rng(0).normal(size=(640, 4)), chunks=(10, 4))
    _, client = cluster(big=8 * GIB, small=SMALL)
    assert run_pass(Where(), [X]) == {"big"}
    held = X.persist(workers=["small"], allow_other_workers=True)
    wait(held)
    assert run_pass(Where(), [held]) == {"big"}
    workers = Workers.of_client(client)
    able = able_workers(workers.each, workers.memory_limit)
    given = []
    monkeypatch.setattr(dask_batches, "threads_of", lambda found: given.append(set(found)) or threads_of(found))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        StreamingSGDRegressor(n_epochs=1, random_state=0).fit(X, X[:, 0])
    assert len(given) > 0
    assert set.union(*given) == set(able)
