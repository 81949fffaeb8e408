"""Fits of every kind, and clusters, for tests of what happens to workers meanwhile. Workers import this file."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import dask.array as da
import numpy as np
import zarr
from distributed import Client, LocalCluster

import distrf


@contextmanager
def own_cluster(n_workers=1, **options):
    """A client of a cluster that no other test uses; workers of one thread."""
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50, **options}
    with LocalCluster(n_workers=n_workers, **options) as cluster, Client(cluster) as client:
        yield client


class FakeClient(SimpleNamespace):
    """What a client says of its workers, {name: facts}; like one, it can be a key that does not keep it alive."""

    __hash__ = object.__hash__
    distrf, asked = None, 0

    def scheduler_info(self, n_workers):
        return {"workers": self.workers}

    def nthreads(self):
        return dict.fromkeys(self.workers, 1)

    def get_versions(self, packages):
        self.asked += 1
        installed = {name: facts.get("distrf") for name, facts in self.workers.items()} | {"": self.distrf}
        found = {name: {"packages": {"distrf": version}} for name, version in installed.items()}
        return {"client": found.pop(""), "workers": found}


def made_rows(n, chunk, d=5):
    """Lazy rows, and labels 0 and 1."""
    X = np.random.default_rng(3).normal(size=(n, d)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(np.int64)
    return da.from_array(X, chunks=(chunk, d)), da.from_array(y, chunks=chunk)


def fourier(D=32):
    return distrf.RandomFourierFeatures(gamma=0.1, n_components=D, random_state=7)


def features(X):
    return fourier().fit(X).transform(X)


def ridge(X, y, folder=None):
    return distrf.StreamingRidge(1e-3).fit(features(X), y.astype(np.float32)).coef_


def ridge_of_held_blocks(X, y, folder=None):
    return distrf.StreamingRidge(1e-3).fit(features(X).persist(), y.astype(np.float32)).coef_


def sgd(X, y, folder=None, **more):
    options = {"alpha": 1e-4, "n_epochs": 2, "tol": None, "batch_size": len(X) // 4, "random_state": 0}
    return distrf.StreamingSGDClassifier("logistic", **options | more).fit(features(X), y).coef_


def tefm(X, y, folder=None):
    return distrf.TEFM(fourier(), n_components=8, solver="finder", random_state=0).fit(X).map_.basis


def metric(X, y, folder=None):
    return distrf.LearnedMetric(fourier(), alpha=1e-3, n_rounds=1).fit(X, y.astype(np.float32)).metric_


def cnm(X, y, folder=None):
    options = {"n_components": 8, "n_epochs": 1, "batch_size": len(X) // 4, "random_state": 0}
    return distrf.CompactNonlinearClassifier(**options).fit(X, y).coef_


def write(X, y, folder):
    distrf.featurize(fourier(), X, folder)
    return zarr.open_group(folder, mode="r")["X"][:]
