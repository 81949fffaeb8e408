"""Fits inside a task: what they wait for may need the thread that they run in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, wait, worker_client
from threadpoolctl import threadpool_info

from distrf import TEFM, RandomFourierFeatures, StreamingRidge, StreamingSGDClassifier, StreamingSGDRegressor


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    return X, X @ np.arange(1.0, 5.0) + 0.1 * rng.normal(size=600)


def lazy():
    X, y = rows()
    dX = da.from_array(X, chunks=(100, 4))
    features = RandomFourierFeatures(n_components=32, length_scale=2.0, random_state=0).fit(dX)
    return features.transform(dX), da.from_array(y, chunks=100)


def ridge():
    return StreamingRidge(1e-3).fit(*lazy()).coef_


def ridge_by_passes():
    return StreamingRidge(1e-3, solver="cg", tol=1e-6).fit(*lazy()).coef_


def sgd():
    Z, y = lazy()
    model = StreamingSGDRegressor(n_epochs=2, tol=None, batch_size=100, early_stopping=True).fit(Z, y)
    return model.coef_


def classifier():
    Z, y = lazy()
    return (
        StreamingSGDClassifier("logistic", n_epochs=2, batch_size=100, distribution="local_sgd")
        .fit(Z, y > 0)
        .coef_
    )


def subspace():
    X = da.from_array(rows()[0], chunks=(100, 4))
    base = RandomFourierFeatures(n_components=32, length_scale=2.0, random_state=0)
    return np.abs(TEFM(base, n_components=4, solver="finder", random_state=0).fit(X).map_.basis)


FITS = [ridge, ridge_by_passes, sgd, classifier, subspace]


@pytest.fixture(scope="module")
def single():
    """A cluster of its own, of one thread, which a deadlock would leave for good."""
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("fit", FITS)
def test_a_fit_inside_a_task_of_the_only_thread(single, fit):
    """It ends, with the bits of a fit outside."""
    inside = single.submit(fit, pure=False).result(timeout=60)
    np.testing.assert_array_equal(inside, fit())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_several_fits_inside_tasks_of_the_only_thread(single):
    futures = [single.submit(fit, pure=False) for fit in (ridge, sgd, ridge, sgd)]
    assert not wait(futures, timeout=100).not_done
    first, second, again, other = single.gather(futures)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(second, other)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_thread_is_taken_back(single):
    """Between its waits a fit counts as what it is: a task of the only thread."""

    def counted():
        from distributed import get_worker

        ridge()
        return len(get_worker().executor._threads), get_worker().state.nthreads

    threads, places = single.submit(counted, pure=False).result(timeout=60)
    assert threads == places == 1


def inside_a_worker_client():
    with worker_client():
        return ridge()


@pytest.mark.slow
def test_a_fit_inside_a_worker_client(client):
    """It has given up the thread of the task before."""
    np.testing.assert_array_equal(client.submit(inside_a_worker_client, pure=False).result(timeout=60), ridge())


def test_blas_has_its_threads_back():
    """Two fits at once: the last one restores what was before the first."""
    before = threadpool_info()
    with ThreadPoolExecutor(2) as pool:
        np.testing.assert_array_equal(*pool.map(lambda _: ridge(), range(2)))
    assert threadpool_info() == before
