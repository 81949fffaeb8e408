"""Fits inside a task: what they wait for may need the thread that they run in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import fits
import numpy as np
import pytest
from distributed import get_worker, wait, worker_client
from threadpoolctl import threadpool_info

from distrf import StreamingRidge

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def cg(X, y):
    return StreamingRidge(1e-3, solver="cg", tol=1e-6).fit(fits.features(X), y.astype(np.float32)).coef_


def stopped_early(X, y):
    return fits.sgd(X, y, early_stopping=True)


def local_sgd(X, y):
    return fits.sgd(X, y, distribution="local_sgd")


def run(fit=fits.ridge):
    return fit(*fits.made_rows(600, 100))


@pytest.fixture(scope="module")
def single():
    """A cluster of one thread, which a deadlock would leave for good."""
    with fits.own_cluster(1) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("fit", [fits.ridge, cg, stopped_early, local_sgd, fits.tefm])
def test_a_fit_inside_a_task_of_the_only_thread(single, fit):
    """It ends, with the bits of a fit outside."""
    inside = single.submit(run, fit, pure=False).result(timeout=60)
    np.testing.assert_array_equal(inside, run(fit))


def test_several_fits_inside_tasks_of_the_only_thread(single):
    futures = [single.submit(run, fit, pure=False) for fit in (fits.ridge, fits.sgd) * 2]
    assert not wait(futures, timeout=100).not_done
    first, second, again, other = single.gather(futures)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(second, other)


def test_the_thread_is_taken_back(single):
    """Between its waits a fit counts as what it is: a task of the only thread."""

    def counted():
        run()
        return len(get_worker().executor._threads), get_worker().state.nthreads

    assert single.submit(counted, pure=False).result(timeout=60) == (1, 1)


def inside_a_worker_client():
    with worker_client():
        return run()


@pytest.mark.slow
def test_a_fit_inside_a_worker_client(client):
    """It has given up the thread of the task before."""
    np.testing.assert_array_equal(client.submit(inside_a_worker_client, pure=False).result(timeout=60), run())


def test_blas_has_its_threads_back():
    """Two fits at once: the last one restores what was before the first."""
    before = threadpool_info()
    with ThreadPoolExecutor(2) as pool:
        np.testing.assert_array_equal(*pool.map(lambda _: run(), range(2)))
    assert threadpool_info() == before
