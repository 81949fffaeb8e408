"""All workers of a cluster are lost at once: the job goes on with those that come back, to the same bits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid

import dask
import dask.array as da
import fits
import numpy as np
import pytest
from distributed import Client, wait
from distributed.core import Status
from fits import cnm, own_cluster, ridge, sgd, tefm, write

import distrf
from distrf import StreamingRidge
from distrf.errors import ClusterError, InputError
from distrf.execution.scheduler import current_client

#: Fits are cut short for the sake of time.
pytestmark = pytest.mark.filterwarnings("ignore:.*the loss still falls:sklearn.exceptions.ConvergenceWarning")
slow = pytest.mark.slow


def killing(block, folder, after, pids):
    """The worker that reads the block number `after` kills all of them, itself last."""
    folder.mkdir(exist_ok=True)
    (folder / uuid.uuid4().hex).touch()
    if len(list(folder.iterdir())) > after:
        with contextlib.suppress(FileExistsError), open(f"{folder}-killed", "x"):
            for pid in sorted(pids, key=lambda pid: pid == os.getpid()):
                os.kill(pid, signal.SIGKILL)
    return block


def until(condition):
    while not condition():
        time.sleep(0.02)


@pytest.mark.parametrize(("own", "then"), [(1.1, 1.0), (2.0, 2.0)])
def test_a_worker_gets_no_task_ahead_of_time_unless_the_user_says_so(own, then):
    with dask.config.set({"distributed.scheduler.worker-saturation": own}), own_cluster(1) as client:
        found = [client.cluster.scheduler.WORKER_SATURATION]
        current_client()
        assert [*found, client.cluster.scheduler.WORKER_SATURATION] == [own, then]


def test_an_asynchronous_client():
    """Nothing can wait for it in its own thread; in another everything works."""
    X, y = fits.made_rows(60, 20)

    async def job():
        options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
        async with Client(**options, asynchronous=True):
            for rows in (X, y), dask.compute(X, y, scheduler="sync"):
                with pytest.raises(InputError, match=r"the Dask client is asynchronous; .* asyncio.to_thread"):
                    fits.ridge(*rows)
            return await asyncio.to_thread(fits.ridge, X, y)

    np.testing.assert_array_equal(asyncio.run(job()), fits.ridge(X, y))


@pytest.mark.parametrize(("workers", "held"), [(0, False), (1, False), (1, True)])
def test_a_job_ends_where_no_worker_takes_a_task(workers, held):
    """None is left, or the only one has paused, which may hold the targets."""
    X, y = fits.made_rows(60, 20)
    with (
        dask.config.set({"distrf.workers-timeout": "300ms"}),
        own_cluster(workers, processes=False, memory_limit=0) as client,
    ):
        if held:
            wait(y := y.persist())
        for worker in client.cluster.workers.values():
            worker.status = Status.paused
        with pytest.raises(ClusterError, match=r"no worker has taken a task for 0.3 s: .*workers-timeout"):
            ridge(X, y)


@pytest.fixture(scope="module")
def nannies():
    with fits.own_cluster(2) as client:
        yield client


@pytest.mark.fault
@pytest.mark.timeout(900)  # longer than a job waits for workers: one that gets none ends with the reason
@pytest.mark.parametrize(("fit", "after"), [(ridge, 4), (sgd, 13), (tefm, 13), (cnm, 13), (write, 4)])
def test_all_workers_killed(nannies, tmp_path, fit, after):
    X, y = fits.made_rows(2000, 200)
    undisturbed = fit(X, y, tmp_path / "plain")
    pids = list(nannies.run(os.getpid).values())
    reads = tmp_path / "reads"
    dying = X.map_blocks(killing, reads, after, pids, dtype=X.dtype, meta=np.empty((0, 0), np.float32))
    disturbed = fit(dying, y, tmp_path / "disturbed")
    assert (tmp_path / "reads-killed").exists()
    nannies.wait_for_workers(2, timeout=300)
    np.testing.assert_array_equal(disturbed, undisturbed)


def hungry(block):
    """Holds 600 MiB for longer than a nanny takes to look."""
    held = np.ones(75 * 2**20)
    time.sleep(5)
    return block + held[0]


@slow
def test_workers_restarted_for_memory_end_the_job():
    X = da.ones((10, 3), chunks=(10, 3), dtype=np.float32).map_blocks(hungry, dtype=np.float32)
    with (
        fits.own_cluster(1, memory_limit="500MiB"),
        pytest.raises(ClusterError, match=r"4 workers died one after the other .*memory_limit="),
    ):
        StreamingRidge(1e-3).fit(X, np.arange(10.0))


def predict(X, y, folder):
    return distrf.predict(StreamingRidge().fit(np.eye(X.shape[1]), np.ones(X.shape[1])), X, folder)


def labels(X, y, folder):
    return distrf.write_rows(X, folder, y=y.astype(str))


@pytest.mark.fault
@pytest.mark.parametrize(
    "job", [ridge, *(pytest.param(job, marks=slow) for job in (sgd, tefm, cnm, write, predict, labels))]
)
def test_the_scheduler_is_lost(job, tmp_path):
    """In the middle of a pass over the rows or their labels, and then for the next call too."""
    begun, file = tmp_path / "begun", tmp_path / "scheduler.json"

    def slow_block(block):
        begun.touch()
        time.sleep(0.2)
        return block

    def end():
        while not begun.exists():
            time.sleep(0.1)
        scheduler.kill()

    scheduler, worker = (
        subprocess.Popen(
            [sys.executable, "-m", *words, "--no-dashboard", "--scheduler-file", str(file)],
            stderr=subprocess.DEVNULL,
        )
        for words in (
            ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"],
            ["distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny"],
        )
    )
    try:
        until(lambda: file.exists() and file.read_text().strip().endswith("}"))
        address = json.loads(file.read_text())["address"]
        with distrf.connect(address, timeout=300), dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
            current_client()._timeout = 2  # to look for the scheduler again
            X, y = (a.map_blocks(slow_block, dtype=a.dtype, meta=a._meta) for a in fits.made_rows(800, 10))
            threading.Thread(target=end, daemon=True).start()
            for _ in range(2):
                with pytest.raises(ClusterError, match="the scheduler was lost while the job waited for it"):
                    job(X, y, tmp_path / "out.zarr")
    finally:
        scheduler.kill(), worker.kill()
        scheduler.wait(), worker.wait()
