"""A worker that would make other numbers is refused by name: another release, other weights, or no distrf at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from fits import FakeClient, features, own_cluster

import distrf
from distrf import StreamingRidge
from distrf.errors import ClusterError
from distrf.execution.scheduler import current_client
from distrf.execution.workers import check_release

PACKAGE = Path(distrf.__file__).parent


def test_a_known_cluster_is_asked_once(client, monkeypatch):
    assert current_client() is client
    monkeypatch.setattr(client, "get_versions", None)
    assert current_client() is client


def answers(own=distrf.__version__, **workers):
    """A client that was installed with this release, or runs from a folder, and workers that have these."""
    return FakeClient(distrf=own, workers={name: {"distrf": version} for name, version in workers.items()})


def test_workers_are_asked_when_they_come():
    client = answers(a=distrf.__version__)
    for _ in range(2):
        check_release(client, client.nthreads())
    assert client.asked == 1
    client.workers["b"] = {}
    with pytest.raises(ClusterError, match=r"of the client, .*; the worker b has no distrf\. Install distrf=="):
        check_release(client, client.nthreads())
    # Where the client runs from a folder, b runs from one too, or its first task says that it has no distrf.
    check_release(answers(None, a=distrf.__version__, b=None), "ab")
    with pytest.raises(ClusterError, match=r"of the client, .*; the worker a has distrf 0\.0\.9\. Install"):
        check_release(answers(None, a="0.0.9"), "a")


def older(folder):
    """Another release."""
    shutil.copytree(PACKAGE, folder / "distrf", ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / "distrf/__init__.py").read_text()
    assert distrf.__version__ in text
    (folder / "distrf/__init__.py").write_text(text.replace(distrf.__version__, "0.0.9", 1))
    facts = folder / "distrf-0.0.9.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: distrf\nVersion: 0.0.9\n")


@contextmanager
def worker(address, folder):
    """A worker of its own environment."""
    command = [
        "-m",
        "distributed.cli.dask_worker",
        "--no-nanny",
        "--no-dashboard",
        "--nthreads",
        "1",
        "--local-directory",
    ]
    options = {"cwd": folder, "env": os.environ | {"PYTHONPATH": str(folder)}, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, *command, str(folder), address], **options)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_a_worker_of_another_release_is_refused(tmp_path):
    older(tmp_path)
    X = da.from_array(np.random.default_rng(0).normal(size=(60, 3)), chunks=(20, 3))
    with own_cluster(0) as client, worker(client.scheduler.address, tmp_path):
        client.wait_for_workers(1, timeout=300)
        (name,) = client.nthreads()
        message = rf"of the client, .*; the worker {name} has distrf 0\.0\.9\. Install distrf=="
        with pytest.raises(ClusterError, match=message):
            StreamingRidge(1e-3).fit(features(X), X[:, 0])
