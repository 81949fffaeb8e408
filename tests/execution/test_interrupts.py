"""Ctrl-C in the middle, as a notebook's interrupt: the cluster holds nothing afterwards, and the next fit works on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import dask.array as da
import numpy as np
import pytest
from distributed import wait

from distrf import (
    TEFM,
    RandomFourierFeatures,
    StreamingRidge,
    StreamingSGDClassifier,
    featurize,
    open_rows,
    write_rows,
)
from distrf.execution.progress import listening


def _slowly(block):
    time.sleep(0.1)
    return block


def rows(n=2000, blocks=50):
    X = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)
    lazy = da.from_array(X, chunks=(blocks, 3)).map_blocks(_slowly, dtype=np.float32)
    return lazy, da.from_array((X[:, 0] > 0).astype(int), chunks=blocks)


def fourier():
    return RandomFourierFeatures(length_scale=2.0, n_components=32, random_state=0)


@pytest.fixture(autouse=True)
def python_handles_interrupts():
    """As it does by itself; dask-jobqueue, once imported by another test, makes them leave Python."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(work, kind):
    """Run work, and send SIGINT to this process once it reports rows of this kind; it must end by that.

    Returns the error with its frames, which a notebook keeps too.
    """
    sent = []

    def press(label, done, total):
        if label.startswith(kind) and 0 < done < total and not sent:
            sent.append(label)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as error, listening(press):
        work()
    assert sent
    return error


def tasks(client):
    return client.run_on_scheduler(lambda dask_scheduler: {str(k) for k in dask_scheduler.tasks})


def check_idle(client, held=frozenset()):
    """The scheduler forgets all tasks, but for blocks that are held; those that run end first."""
    for _ in range(100):
        left = tasks(client) - held
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(left)


FITS = {
    "gram": lambda X, y: StreamingRidge(alpha=1e-3).fit(X, y).coef_,
    "range finder": lambda X, y: (
        TEFM(fourier(), n_components=4, solver="finder", random_state=0).fit(X).map_.arrays["basis"]
    ),
    "epoch": lambda X, y: (
        StreamingSGDClassifier("logistic", alpha=1e-3, n_epochs=2, tol=None, batch_size=500, random_state=0)
        .fit(X, y)
        .coef_
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FITS)
def test_a_fit_is_interrupted(client, kind):
    X, y = rows()
    error = interrupted(lambda: FITS[kind](X, y), kind)
    check_idle(client)
    assert client.status == "running"
    assert error.tb is not None
    again = FITS[kind](X, y)
    check_idle(client)
    np.testing.assert_array_equal(again, FITS[kind](*rows()))


@pytest.mark.slow
def test_blocks_that_are_held(client):
    X, y = rows(1000)
    held = client.persist(X)
    wait(held)
    before = tasks(client)
    undisturbed = FITS["gram"](held, y)
    slow = held.map_blocks(_slowly, dtype=np.float32)
    error = interrupted(lambda: FITS["gram"](slow, y), "gram")
    check_idle(client, before)
    assert error.tb is not None
    np.testing.assert_array_equal(FITS["gram"](held, y), undisturbed)


@pytest.mark.slow
def test_a_write_goes_on_where_it_was(client, tmp_path):
    X, _ = rows()
    write_rows(X, tmp_path / "rows.zarr")
    out = tmp_path / "features.zarr"
    lazy, _ = rows()
    error = interrupted(lambda: featurize(fourier(), lazy, out), "featurize")
    check_idle(client)
    assert error.tb is not None
    written = featurize(fourier(), lazy, out)
    assert 0 < written.computed < written.blocks
    features = open_rows(out)[0].compute()
    np.testing.assert_array_equal(features, fourier().fit_transform(X).compute())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="the group of a process is POSIX's")
def test_a_kernel_and_its_workers_get_the_signal():
    """Jupyter interrupts the kernel with all that it started. Workers of `connect` are not ended by that."""
    code = """
import os, signal, sys, time
import dask.array as da, numpy as np
from distrf import StreamingRidge, connect
from distrf.execution.progress import listening

def slowly(block):
    time.sleep(0.05)
    return block

def press(label, done, total):
    if label == "gram" and 0 < done < total and not sent:
        sent.append(done)
        os.killpg(0, signal.SIGINT)

if __name__ == "__main__":
    sent = []
    X = da.from_array(np.random.default_rng(0).normal(size=(4000, 3)), chunks=(50, 3)).map_blocks(slowly, dtype=float)
    with connect(n_workers=2) as client:
        before = client.run(os.getpid)
        try:
            with listening(press):
                StreamingRidge(alpha=1e-3).fit(X, X[:, 0])
        except KeyboardInterrupt:
            print("interrupted")
        print(StreamingRidge(alpha=1e-3).fit(X, X[:, 0]).coef_.shape, client.run(os.getpid) == before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, start_new_session=True
    )
    assert done.stdout.split("\n")[:2] == ["interrupted", "(3,) True"], done.stderr
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
