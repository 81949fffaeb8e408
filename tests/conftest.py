"""Fixtures that all tests share: random rows, two small clusters, the folder of real data."""

from __future__ import annotations

import logging
import os
import random
from pathlib import Path
from types import SimpleNamespace

# BLAS threads that wait for each other on a busy machine take 40 times as long as one; before NumPy loads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Rows of tests are small, and tests of workers are to meet workers; before Dask loads, and of child processes too.
os.environ.setdefault("DASK_DISTRF__SMALL_ROWS", "0")

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

threadpool_limits(1)  # where a plugin has loaded NumPy before

# The same examples in every run; DISTRF_HYPOTHESIS=explore draws new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("explore", deadline=None, max_examples=300, print_blob=True)
settings.load_profile(os.environ.get("DISTRF_HYPOTHESIS", "repeatable"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """One instance of a class where many exercise the same code.

    Of the options that a file hands to scikit-learn's checks, the first of each class; the others are slow tests.
    Of the maps that a contract is parametrised with, the first meets the tests that are marked `base_code`.
    """
    _keep_first_maps(config, items)
    first: dict = {}
    for item in items:
        if item.originalname == "test_scikit_learn_checks":
            estimator = item.callspec.id.rsplit("-check_", 1)[0]
            name = estimator.split("(")[0]
            if first.setdefault((item.path, name), estimator) != estimator:
                item.add_marker(pytest.mark.slow)


def _keep_first_maps(config, items):
    first, left = {}, []
    for item in items:
        if item.get_closest_marker("base_code") and hasattr(item, "callspec"):
            own = {mark.args[0] for mark in item.iter_markers("parametrize")}
            maps = tuple(sorted((k, str(v)) for k, v in item.callspec.indices.items() if k not in own))
            if first.setdefault((item.cls, item.originalname), maps) != maps:
                left.append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


@pytest.fixture
def rng():
    return np.random.default_rng(20260401)


@pytest.fixture(autouse=True)
def _seeded(request, monkeypatch):
    """`random_state=None` draws a seed; in a test it is the same in every run, so that no test passes by luck."""
    draws = random.Random(request.node.nodeid)
    monkeypatch.setattr("distrf.randomness.secrets", SimpleNamespace(randbelow=draws.randrange))


@pytest.fixture
def dies(monkeypatch):
    """dies(owner, name, n): Ctrl-C in the n-th call of a function. Returns a list that grows with each call; later ones go through."""

    def patch(owner, name, n):
        calls, real = [], getattr(owner, name)

        def called(*given, **named):
            calls.append(given)
            if len(calls) == n:
                raise KeyboardInterrupt
            return real(*given, **named)

        monkeypatch.setattr(owner, name, called)
        return calls

    return patch


def _cluster(n_workers):
    """Its workers are forked from one process that has imported what they need: that takes seconds each."""
    import dask
    from distributed import LocalCluster
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed.nanny", "distrf.pipeline", "distrf.learned"])
        return LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )


@pytest.fixture(scope="session")
def two_worker_cluster():
    with _cluster(2) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def one_worker_cluster():
    with _cluster(1) as cluster:
        yield cluster


@pytest.fixture
def client(two_worker_cluster):
    """Two workers of one thread each; Dask's default for the length of the test."""
    from distributed import Client

    with Client(two_worker_cluster) as client:
        client.wait_for_workers(2)
        yield client


@pytest.fixture
def one_worker_client(one_worker_cluster):
    """One worker of one thread; not Dask's default: enter ``one_worker_client.as_current()``."""
    from distributed import Client

    with Client(one_worker_cluster, set_as_default=False) as client:
        client.wait_for_workers(1)
        yield client


@pytest.fixture(scope="session")
def shared_data():
    """Folder of the real data sets; set DISTRF_DATA to point elsewhere."""
    folder = Path(os.environ.get("DISTRF_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no folder of real data at {folder}; set DISTRF_DATA")
    return folder


@pytest.fixture
def cli(request, monkeypatch, capsys):
    """Run a `distrf` command in this process; returns what it printed.

    cli("train", store, out, code=0) checks the exit code; with `cluster=True` it works on the shared cluster.
    """
    from distrf.cli.app import main as run

    def command(*arguments, code=0, cluster=False):
        words = [str(a) for a in arguments]
        if cluster:
            words += ["--cluster", request.getfixturevalue("two_worker_cluster").scheduler_address]
        monkeypatch.setattr("sys.argv", ["distrf", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            run()
        printed = capsys.readouterr()
        assert left.value.code == code, printed
        return printed

    return command
