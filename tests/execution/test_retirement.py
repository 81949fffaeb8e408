"""A worker is retired while its task runs: others get what it holds, and run the task again, to the same bits.

An adaptive cluster retires workers, and so do `--lifetime` of a worker, operators of clusters and `Client.retire_workers`. Dask
copies what the worker holds while its task still runs: a task that has changed one of its inputs would find the change
made when it runs again. `DISTRF_RETIREMENTS=50` retires as many workers in each case.
"""

from __future__ import annotations

import itertools
import os
import queue
import time
from concurrent.futures import ThreadPoolExecutor

import dask
import fits
import numpy as np
import pytest
from dask.utils import key_split
from distributed import WorkerPlugin
from distributed.utils import get_mp_context

RETIREMENTS = int(os.environ.get("DISTRF_RETIREMENTS", "2"))
#: Fits, and names, as Dask's dashboard shows them, of the tasks in which workers are retired: those that add to a state, take a
#: gradient or write. Nothing else here knows how passes are run.
CASES = {
    fits.ridge: ("gram-sum",),
    fits.ridge_of_held_blocks: ("gram", "gram-sum"),
    fits.sgd: ("sgd-gradient", "sample-rows-sum"),
    fits.tefm: ("range-finder-sum", "sample-rows-sum"),
    fits.metric: ("metric-sum",),
    fits.cnm: ("sgd-gradient", "sample-rows-sum"),
    fits.write: ("featurize-quasi", "featurize-quasi-sum"),
}
N, CHUNK, WORKERS = 32_768, 1024, 3
#: Seconds that a fit, or a retirement, may take.
PATIENCE = 200


class Lingering(WorkerPlugin):
    """One task is not done before its worker is retired, though its function has returned.

    Tasks of some names are counted as they return, by files in `folder`; it is the one that gets the number in `wanted`.
    """

    def __init__(self, names, folder, wanted):
        self.names, self.folder, self.wanted = names, folder, wanted

    def setup(self, worker):
        self.worker, self.key, self.submit = worker, None, worker.executor.submit
        worker.executor.submit = lambda function, *arguments: self.submit(self.run, function, *arguments)

    def transition(self, key, start, finish, **more):
        if finish == "executing":
            self.key = key

    def run(self, function, *arguments):
        key = self.key
        result = function(*arguments)
        if key_split(key) in self.names and self.number() == int(self.wanted.read_text()):
            self.worker.log_event("lingering", self.worker.address)
            end = time.monotonic() + PATIENCE
            while self.worker.status.name in ("running", "closing_gracefully") and time.monotonic() < end:
                time.sleep(0.01)
        return result

    def number(self):
        """How many such tasks have returned before; no two get the same."""
        for number in itertools.count(len(os.listdir(self.folder))):
            try:
                (self.folder / str(number)).touch(exist_ok=False)
            except FileExistsError:
                continue
            return number


@pytest.fixture
def workers():
    """A client of workers that start quickly, all through the test."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed.nanny", "distrf.pipeline", "distrf.learned"])
        with fits.own_cluster(WORKERS) as client:
            yield client


@pytest.mark.timeout(2 * PATIENCE + 60 * RETIREMENTS)
@pytest.mark.filterwarnings("ignore:.*the loss still falls:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "fit", [pytest.param(f, marks=pytest.mark.fault if f is fits.ridge else pytest.mark.slow) for f in CASES]
)
def test_workers_retired_amid_their_tasks(workers, tmp_path, fit):
    folder, wanted, lingering = tmp_path / "returned", tmp_path / "wanted", queue.SimpleQueue()
    folder.mkdir()
    wanted.write_text("-1")
    rows = fits.made_rows(N, CHUNK)
    workers.register_plugin(Lingering(CASES[fit], folder, wanted))
    workers.subscribe_topic("lingering", lambda event: lingering.put(event[1]))
    undisturbed = fit(*rows, tmp_path / "undisturbed")
    returned = len(os.listdir(folder))
    assert returned, f"no task is called {CASES[fit]}"
    draw, wrong = np.random.default_rng(sum(map(ord, fit.__name__))), []
    for trial in range(RETIREMENTS):
        for file in folder.iterdir():
            file.unlink()
        wanted.write_text(str(draw.integers(returned)))
        with ThreadPoolExecutor(1) as pool:
            fitting = pool.submit(fit, *rows, tmp_path / str(trial))
            worker = lingering.get(timeout=PATIENCE)
            assert worker in workers.retire_workers([worker])
            made = fitting.result(timeout=PATIENCE)
        if not np.array_equal(made, undisturbed):
            error = np.abs(made - undisturbed).max() / np.abs(undisturbed).max()
            wrong.append(f"task {wanted.read_text()} of {returned}: {error:.1e}")
        workers.cluster.scale(WORKERS + trial + 1)  # the retired one counts too
        workers.wait_for_workers(WORKERS, timeout=PATIENCE)
    print(f"{fit.__name__}: {len(wrong)} of {RETIREMENTS} wrong")
    assert not wrong
