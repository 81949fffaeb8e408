"""A worker that would make other numbers is refused by name: another release, other weights, or no distrf at all."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import distrf
from distrf import RandomFourierFeatures, StreamingRidge
from distrf.errors import ClusterError, SpecMismatchError
from distrf.execution import worker_release
from distrf.execution.row_blocks import _apply
from distrf.execution.scheduler import current_client, settle
from distrf.execution.worker_release import check_release
from distrf.maps import base

PACKAGE = Path(distrf.__file__).parent


def test_a_task_function_knows_its_release(monkeypatch):
    sent = pickle.dumps(_apply)
    assert pickle.loads(sent) is _apply
    monkeypatch.setattr(worker_release, "__version__", "0.0.9")
    with pytest.raises(
        ClusterError, match=rf"client, {distrf.__version__}; a worker on .* has distrf 0\.0\.9\. Install"
    ):
        pickle.loads(sent)(np.ones((2, 2)), np.sin)


def test_a_map_knows_its_weights(monkeypatch):
    map_ = RandomFourierFeatures(gamma=0.1, n_components=32, random_state=7).fit(np.zeros((3, 2))).map_
    sent = pickle.dumps(map_)
    assert pickle.loads(sent) == map_
    monkeypatch.setattr(base, "_cached_sum", lambda map_: 1.5)
    with pytest.raises(
        SpecMismatchError, match=r"other weights from the seed of a 'fourier' map .*checksum 1\.5, sent"
    ):
        pickle.loads(sent)(np.ones((3, 2)))


def test_a_known_cluster_is_asked_once(client, monkeypatch):
    assert current_client() is client
    monkeypatch.setattr(client, "run", None)
    assert current_client() is client


def test_a_worker_out_of_reach_is_asked_again():
    """It may be lost already: that is no other release."""

    class Client:
        def nthreads(self):
            return {"tcp://gone": 1, "tcp://here": 1}

        def run(self, question, workers, on_error):
            asked.append(workers)
            return {w: OSError("timed out") if w == "tcp://gone" else distrf.__version__ for w in workers}

    asked, client = [], Client()
    check_release(client)
    check_release(client)
    assert asked == [["tcp://gone", "tcp://here"], ["tcp://gone"]]


def older(folder):
    """A distrf of another release that draws other numbers."""
    shutil.copytree(PACKAGE, folder / "distrf", ignore=shutil.ignore_patterns("__pycache__"))
    for name, old, new in [
        ("__init__.py", distrf.__version__, "0.0.9"),
        ("randomness.py", "import numpy as np", OTHER),
    ]:
        path = folder / "distrf" / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))


OTHER = """import numpy as np
_philox = np.random.Philox
def _other(*arguments, key, **named):
    return _philox(*arguments, key=np.asarray(key) + 1, **named)
np.random.Philox = _other
"""


def missing(folder):
    (folder / "distrf.py").write_text("raise ModuleNotFoundError(\"No module named 'distrf'\", name='distrf')")


@contextmanager
def worker(address, folder):
    """A worker of its own environment."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--no-dashboard"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    options = {"cwd": folder, "env": environment, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*command, "--nthreads", "1", "--local-directory", str(folder)], **options)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def fit(rows, y):
    features = RandomFourierFeatures(gamma=0.1, n_components=32, random_state=7).fit(rows)
    return StreamingRidge(1e-3).fit(features.transform(rows), y).coef_


@pytest.mark.parametrize(("install", "has"), [(older, r"distrf 0\.0\.9"), (missing, "no distrf")])
def test_a_worker_of_another_release_is_refused(tmp_path, install, has):
    install(tmp_path)
    X = np.random.default_rng(0).normal(size=(60, 3))
    rows, y = da.from_array(X, chunks=(20, 3)), da.from_array(X[:, 0], chunks=20)
    options = {"n_workers": 0, "processes": True, "dashboard_address": ":0", "silence_logs": 50}
    with (
        LocalCluster(**options) as cluster,
        Client(cluster) as client,
        worker(cluster.scheduler_address, tmp_path),
    ):
        client.wait_for_workers(1, timeout=30)
        (name,) = client.nthreads()
        with pytest.raises(
            ClusterError, match=rf"of the client, .*; the worker {name} has {has}\. Install distrf=="
        ):
            fit(rows, y)
        if install is missing:
            return
        # As if it had joined amid a job.
        with pytest.raises(ClusterError, match=rf"of the client, .*; a worker on .* has {has}\. Install"):
            settle(client.submit(_apply, X, np.sin))
