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
from distrf.execution.scheduler import current_client
from distrf.execution.workers import check_release
from distrf.maps import base

PACKAGE = Path(distrf.__file__).parent


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
    monkeypatch.setattr(client, "get_versions", None)
    assert current_client() is client


class Answers:
    """A client that was installed with this release, or runs from a folder, and workers that have these."""

    def __init__(self, own=distrf.__version__, **workers):
        self.own, self.workers, self.asked = own, workers, 0

    def nthreads(self):
        return dict.fromkeys(self.workers, 1)

    def get_versions(self, packages):
        self.asked += 1
        own, *others = ({"packages": {"distrf": has}} for has in (self.own, *self.workers.values()))
        return {"client": own, "workers": dict(zip(self.workers, others, strict=True))}


def test_new_workers_are_asked():
    client = Answers(a=distrf.__version__)
    check_release(client, client.nthreads())
    check_release(client, client.nthreads())
    assert client.asked == 1
    client.workers["b"] = None
    with pytest.raises(ClusterError, match=r"of the client, .*; the worker b has no distrf\. Install distrf=="):
        check_release(client, client.nthreads())


def test_a_client_that_runs_from_a_folder():
    # b runs from one too, or its first task says that it has no distrf.
    check_release(Answers(None, a=distrf.__version__, b=None), "ab")
    with pytest.raises(ClusterError, match=r"of the client, .*; the worker a has distrf 0\.0\.9\. Install"):
        check_release(Answers(None, a="0.0.9"), "a")


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
    facts = folder / "distrf-0.0.9.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: distrf\nVersion: 0.0.9\n")


OTHER = """import numpy as np
_philox = np.random.Philox
def _other(*arguments, key, **named):
    return _philox(*arguments, key=np.asarray(key) + 1, **named)
np.random.Philox = _other
"""


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


def test_a_worker_of_another_release_is_refused(tmp_path):
    older(tmp_path)
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
            ClusterError, match=rf"of the client, .*; the worker {name} has distrf 0\.0\.9\. Install distrf=="
        ):
            fit(rows, y)
