"""Reaching a Dask cluster: local, by address, by spec file; errors that name what was tried."""

from __future__ import annotations

import os
import signal

import dask
import numpy as np
import psutil
import pytest
from dask.system import CPU_COUNT
from distributed import LocalCluster
from servers import CLUSTER, local, spec_file, workers_of
from threadpoolctl import threadpool_info

import distrf
from distrf.cluster import connect, local_arguments, read_cluster_spec
from distrf.errors import ClusterError, InputError
from distrf.execution.memory import CLIENT_BYTES, machine_memory
from distrf.execution.scheduler import current_client

THREADS = {"n_workers": 1, "processes": False}
NONE = {"n_workers": 0, "threads_per_worker": 1, "processes": False}


class Unguarded(LocalCluster):
    """What Dask says of a script that starts processes as it is imported."""

    def __init__(self):
        raise RuntimeError("Nanny failed to start worker process")

    def __del__(self):
        pass


class Regionless(LocalCluster):
    """A provider's error of several lines."""

    def __init__(self):
        raise ValueError("You must specify a region.\nSee the manual")

    def __del__(self):
        pass


def refused(error, message, *cluster, **options):
    with pytest.raises(error, match=message), connect(*cluster, **options):
        pass


def adds(client):
    return client.submit(sum, [1, 2]).result(timeout=20) == 3


def blas_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.slow
def test_the_spec_file_that_is_shipped():
    with connect(CLUSTER / "local/cluster.yaml") as client:
        assert [(w["nthreads"], w["memory_limit"]) for w in workers_of(client)] == [(1, 2 * 2**30)] * 2
        assert client.submit(dask.config.get, "distributed.worker.memory.target").result() == 0.7
        pids = client.run(os.getpid)
        client.run(interrupt)  # as the Ctrl-C of a terminal reaches every process
        assert adds(client)
        assert client.run(os.getpid) == pids
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
        assert current_client() is client  # passes run here, with one BLAS thread a task
        assert all(threads in ({1}, set()) for threads in client.run(blas_threads).values())
        cluster = client.cluster
    assert (client.status, cluster.status.name) == ("closed", "closed")


def test_a_memory_limit_is_for_local_workers(tmp_path, two_worker_cluster):
    path = local(tmp_path / "c.yaml", THREADS)
    for cluster in (two_worker_cluster.scheduler_address, path):
        refused(InputError, r"\(1GiB\) is for local workers; .*leave it out", cluster, memory_limit="1GiB")
    refused(InputError, "cluster=none has its own", "none", memory_limit="1GiB")


def test_an_adaptive_cluster_without_workers_is_not_waited_for(tmp_path):
    """They come with the first task."""
    path = local(tmp_path / "c.yaml", NONE, adapt={"minimum": 0, "maximum": 1}, wait={"timeout": 400})
    with connect(path) as client:
        assert workers_of(client) == []
        assert dask.config.get("distrf.workers-timeout") == 400
        assert adds(client)


def test_local_arguments():
    assert local_arguments() == {
        "n_workers": CPU_COUNT,
        "threads_per_worker": 1,
        "processes": True,
        "memory_limit": (machine_memory() - CLIENT_BYTES) // CPU_COUNT,
    }
    assert local_arguments("4GiB", 3)["memory_limit"] == 4 * 2**30
    assert local_arguments(None, 3)["n_workers"] == 3
    for limit in ("much", "0"):
        with pytest.raises(InputError, match=f"above 0, such as 4GiB, got '{limit}'"):
            local_arguments(limit)


LOCAL = "class: distributed.LocalCluster\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arguments: {}", r"has 'class' and may have \['adapt', 'arguments',.* got {'arguments'"),
        (LOCAL + "argument: {}", "got {.*'argument': {}"),
        ("class: 3", "got {'class': 3"),
        ("[distributed.LocalCluster]", "c.yaml' is neither"),
        (LOCAL + "arguments: [1]", "c.yaml' is neither"),
        (LOCAL + "tls: true", "c.yaml' is neither"),
        (LOCAL + "wait: {timout: 5}", "'wait' workers and timeout; got .*'timout': 5"),
        ("class: [", "c.yaml' is neither: while parsing"),
        (None, r"scheduler address \(tcp://host:port\) or a spec file .*No such file"),
    ],
)
def test_malformed_files(tmp_path, text, message):
    if text is not None:
        (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_cluster_spec(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("nothing.Cluster", {}, ClusterError, r"'nothing.Cluster' cannot be imported.*distrf\[ssh\], distrf\[jobqueue\]"),
        ("LocalCluster", {}, ClusterError, "'LocalCluster' cannot be imported.*; it is module.Class"),
        ("os.system", {"command": "false"}, InputError, "'os.system' is none, and was not called"),
        ("fractions.Fraction", {}, InputError, "a subclass of distributed.deploy.Cluster"),
        ("distributed.LocalCluster", {"n_workers": 0, "n_workerz": 1, "security": 3}, ClusterError,
         "distributed.LocalCluster of cluster=.*c.yaml did not start: TypeError: .*Security object"),
        (f"{__name__}.Unguarded", {}, ClusterError, "failed to start .*; a script connects below `if __name__ == '__main__':`"),
        (f"{__name__}.Regionless", {}, ClusterError, "did not start: ValueError: You must specify a region. See"),
        # Dask says it of a worker, and of one in a process of its own further down.
        ("distributed.LocalCluster", THREADS | {"lifetimes": "1 hour"}, ClusterError,
         r"c.yaml did not start: TypeError: .*'lifetimes'"),
        ("distributed.LocalCluster", {"n_workers": 1, "dashboard_address": ":0", "lifetimes": "1 hour"}, ClusterError,
         r"c.yaml did not start: TypeError: .*'lifetimes'"),
        ("distributed.LocalCluster", NONE, ClusterError, r"0 of 2 workers came within 0.2 s; check the queue.*'scale'.*'wait.timeout'"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed:ResourceWarning"
)
def test_clusters_that_do_not_start(tmp_path, name, arguments, error, message):
    spec = {"class": name, "arguments": arguments, "wait": {"workers": 2, "timeout": 0.2}}
    refused(error, message, spec_file(tmp_path / "c.yaml", **spec))


def test_nobody_answers():
    message = r"no Dask scheduler answered at 'tcp://127.0.0.1:9' within 0.3 s .*check the address"
    refused(ClusterError, message, "tcp://127.0.0.1:9", timeout=0.3)


@pytest.fixture
def rows(tmp_path):
    X = np.random.default_rng(0).normal(size=(600, 3)).astype("f4")
    distrf.write_rows(X, tmp_path / "rows.zarr", (X[:, 0] > 0).astype("i4"))
    return tmp_path / "rows.zarr"


@pytest.mark.slow
def test_none_is_threads_of_this_process(rows, tmp_path, cli):
    """Small data start no processes unless a cluster is named; the model is the same."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    assert "threads of this process" in cli("train", rows, tmp_path / "a").err
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    assert "workers, dashboard" in cli("train", rows, tmp_path / "b", cluster=True).err
    a, b = (distrf.load_model(tmp_path / name)[-1].coef_ for name in "ab")
    np.testing.assert_array_equal(a, b)


def test_a_connection_without_a_with_block(two_worker_cluster):
    with dask.config.set(scheduler="sync"):
        connection = connect("none")
        assert (connection.client, dask.config.get("scheduler")) == (None, "threads")
        connection.close()
        connection.close()
        assert dask.config.get("scheduler") == "sync"
    connection = connect(two_worker_cluster.scheduler_address)
    assert current_client() is connection.client
    connection.close()
    assert connection.client.status == "closed"
