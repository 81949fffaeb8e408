"""A worker with far less memory than the others refuses no job and chooses no solver: it gets no work that it cannot hold."""

from __future__ import annotations

import logging
import threading
import time
import warnings
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, Scheduler, SpecCluster, Worker, get_worker, wait
from fits import FakeClient
from reductions import SumFold
from sklearn.exceptions import ConvergenceWarning

from distrf.errors import ClusterError, MemoryPlanError
from distrf.execution import passes, worker_checks
from distrf.execution.memory import PROCESS_BYTES, PassMemory, Workers
from distrf.execution.passes import run_pass
from distrf.execution.scheduler import results_in_order
from distrf.execution.states import RowCount
from distrf.execution.submission import threads_of
from distrf.execution.worker_checks import Watch, able_workers
from distrf.linear_model import StreamingSGDRegressor
from distrf.sgd import dask_batches

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
    memory = PassMemory(0, 0, 0, weights=2 * GIB)
    with caplog.at_level(logging.WARNING):
        memory.check(workers, "gram")
    assert "1 of 3 workers get no work of gram: their memory limit is below the 2.34 GiB" in caplog.text
    caplog.clear()
    PassMemory(0, 0, 0).check(workers, "gram")
    assert caplog.text == ""
    with pytest.raises(MemoryPlanError, match=r"which has 8.00 GiB"):
        PassMemory(0, 0, 0, weights=8 * GIB).check(workers, "gram")


def test_a_job_ends_where_only_small_workers_are_left():
    """They get no task of it, so nothing would ever end it."""
    client, each = fake(a=8 * GIB, c=GIB), {"a": (1, 8 * GIB), "c": (1, GIB)}
    with dask.config.set({"distrf.workers-timeout": "0s"}):
        for needed in (GIB, 2 * GIB):
            Watch(client, needed, each).look()
        looking = Watch(client, 2 * GIB, each)
        del client.workers["a"]
        Watch(client, GIB, each).look()
        with pytest.raises(ClusterError, match=r"no worker whose memory holds the 2.00 GiB that the job needs"):
            looking.look()


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
            spec = {name: worker(limit) for name, limit in limits.items()}
            made = stack.enter_context(SpecCluster(workers=spec, scheduler=scheduler, silence_logs=50))
            client = stack.enter_context(Client(made))
            client.wait_for_workers(len(limits)) if limits else None
            return made, client

        yield start


def worker(limit):
    return {"cls": Worker, "options": {"nthreads": 1, "memory_limit": limit, "dashboard": False}}


def change(cluster, leave=(), **join):
    """Workers join a cluster and leave it."""
    cluster.worker_spec |= {name: worker(limit) for name, limit in join.items()}
    for name in leave:
        del cluster.worker_spec[name]
    cluster.sync(cluster._correct_state)


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
    names = results_in_order(lambda shared, call: get_worker().name, [], [(i,) for i in range(4)], client, able)
    assert set(names) == {"big"}
    given = []
    monkeypatch.setattr(dask_batches, "threads_of", lambda found: given.append(set(found)) or threads_of(found))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        StreamingSGDRegressor(n_epochs=1, random_state=0).fit(X, X[:, 0])
    assert len(given) > 0
    assert set.union(*given) == set(able)


class SlowWhere(Where):
    def update(self, state, first_row, block):
        time.sleep(0.05)
        return super().update(state, first_row, block)


REFUSED = r"pass was refused: it needs .* on each worker, which has 351"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "then", "leave", "expected"),
    [
        ({"big": 8 * GIB}, {"small": SMALL}, [], {"big"}),
        ({"big": 8 * GIB, "small": SMALL}, {"other": 8 * GIB}, ["big"], {"other"}),
        ({}, {"big": 8 * GIB}, [], {"big"}),
        ({}, {"small": SMALL}, [], None),  # refused as soon as it is there, as it would be at the start
    ],
    ids=["a small one joins", "all able ones are replaced", "one comes at last", "only small ones come"],
)
def test_workers_change_amid_a_pass(cluster, first, then, leave, expected):
    made, _ = cluster(**first)
    changing = threading.Timer(1.0, lambda: change(made, leave, **then))
    changing.start()
    refused = pytest.raises(MemoryPlanError, match=REFUSED) if expected is None else nullcontext()
    try:
        with refused:
            found = run_pass(SlowWhere(nbytes=8, flops_per_row=1e6), [da.zeros((640, 4), chunks=(10, 4))])
            assert found == expected
    finally:
        changing.join()


def test_a_pass_that_is_not_queued_is_cut_into_graphs(cluster, monkeypatch):
    """As many states as the workers hold; the same bits as of one graph."""
    cluster(one=2 * GIB, two=2 * GIB)
    X = np.random.default_rng(0).normal(size=(640, 4)).astype(np.float32)
    X = da.from_array(X, chunks=(10, 4)).persist()
    graphs, real = [], passes.compute
    monkeypatch.setattr(passes, "compute", lambda task, *to: graphs.append(len(task.dask)) or real(task, *to))
    one = run_pass(SumFold(4), [X])
    assert len(graphs) == 1
    several = run_pass(SumFold(4, nbytes=80 * 2**20, flops_per_row=1e12), [X])
    assert len(graphs) > 2
    np.testing.assert_array_equal(several, one)
