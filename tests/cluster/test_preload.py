"""What servers do when they start, whoever starts them; and that none listens where nobody told it to."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import dask
import psutil
import pytest
from servers import local
from threadpoolctl import threadpool_info

from distrf.cluster import connect


def state():
    """What a preload leaves in its process."""
    blas = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
    return "distrf.execution.workers" in sys.modules, blas, dask.config.get("distributed.worker.memory.spill")


READY = [(True, {1}, 0.8), (True, set(), 0.8)]


def listening():
    """(address, port) on which this process and its children wait for connections."""
    here, found = psutil.Process(), set()
    for process in (here, *here.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # one that ends just now
            found |= {tuple(c.laddr) for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}
    return found


@pytest.mark.parametrize("processes", [True, False], ids=["processes", "threads"])
def test_workers_are_made_ready_and_listen_to_this_machine_alone(tmp_path, processes):
    arguments = {"n_workers": 1, "threads_per_worker": 1, "processes": processes, "memory_limit": "1GiB"}
    before = listening()
    with connect(local(tmp_path / "c.yaml", arguments)) as client:
        assert client.submit(state).result() in READY
        assert {address for address, _ in listening() - before} == {"127.0.0.1"}


IN_PROCESS = """
import sys
import scipy.linalg
from distributed import Client
from threadpoolctl import threadpool_info
from distrf.cluster import connect
from distrf.execution import workers
from distrf.execution.scheduler import current_client

def found():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

kept = []
workers.keep_freed_memory = lambda: kept.append(1)  # which nothing could put back
before = found()
options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
first = Client(**options, set_as_default=False)
with first.as_current():
    current_client()
inside = [found()]
with connect(sys.argv[1]):
    current_client()
    first.close()
    inside.append(found())
assert inside == [{1}] * 2, inside
assert found() == before, (found(), before)
assert not kept
"""


def test_workers_in_the_process_of_the_client_leave_it_as_it_was(tmp_path):
    """However they were made ready, and in whatever order clusters close. Alone: OpenBLAS forgets limits of other threads."""
    spec = local(tmp_path / "c.yaml", {"n_workers": 1, "threads_per_worker": 1, "processes": False})
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", IN_PROCESS, spec], env=environment, check=True)
