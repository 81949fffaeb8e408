"""Ctrl-C in the middle, as a notebook's interrupt: the cluster holds nothing afterwards, and the next fit works on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import fits
import numpy as np
import pytest
from distributed import wait
from fits import fourier

from distrf import featurize, open_rows
from distrf.progress import listening

pytestmark = pytest.mark.slow


def _slowly(block):
    time.sleep(0.1)
    return block


def rows(n=2000):
    X, y = fits.made_rows(n, 50)
    return X.map_blocks(_slowly, dtype=X.dtype), y


@pytest.fixture(autouse=True)
def python_handles_interrupts():
    """As it does by itself; dask-jobqueue, once imported by another test, makes them leave Python."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def tasks(client):
    return client.run_on_scheduler(lambda dask_scheduler: {str(k) for k in dask_scheduler.tasks})


def interrupt(client, work, kind, held=frozenset()):
    """Run work, and send SIGINT to this process once it reports rows of this kind; it must end by that.

    The scheduler then forgets all tasks, but for blocks that are held, though a notebook keeps the frames of the error; those
    that run end first.
    """
    sent = []

    def press(label, done, total):
        if label.startswith(kind) and 0 < done < total and not sent:
            sent.append(label)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as error, listening(press):
        work()
    assert sent
    assert client.status == "running"
    check_idle(client, held)
    assert error.tb is not None


def check_idle(client, held=frozenset()):
    for _ in range(100):
        if not (left := tasks(client) - held):
            return
        time.sleep(0.1)
    raise AssertionError(left)


@pytest.mark.parametrize(
    ("kind", "fit", "held"),
    [("gram", fits.ridge, False), ("range finder", fits.tefm, False), ("epoch", fits.sgd, False), ("gram", fits.ridge, True)],
)  # fmt: skip
def test_a_fit_is_interrupted(client, kind, fit, held):
    X, y = rows()
    if held:
        X = client.persist(X)
        wait(X)
    before, undisturbed = tasks(client), fit(X, y)
    slow = X.map_blocks(_slowly, dtype=X.dtype) if held else X
    interrupt(client, lambda: fit(slow, y), kind, before)
    np.testing.assert_array_equal(fit(X, y), undisturbed)
    check_idle(client, before)


def test_a_write_goes_on_where_it_was(client, tmp_path):
    X, out = rows()[0], tmp_path / "features.zarr"
    interrupt(client, lambda: featurize(fourier(), X, out), "featurize")
    written = featurize(fourier(), X, out)
    assert 0 < written.computed < written.blocks
    np.testing.assert_array_equal(open_rows(out)[0].compute(), fourier().fit_transform(X).compute())


#: Jupyter interrupts the kernel with all that it started.
KERNEL = """
import os, signal
import fits, test_interrupts
from distrf import connect
from distrf.progress import listening

def press(label, done, total):
    if label == "gram" and 0 < done < total and not sent:
        sent.append(done)
        os.killpg(0, signal.SIGINT)

if __name__ == "__main__":
    sent = []
    with connect(n_workers=2) as client:
        before = client.run(os.getpid)
        try:
            with listening(press):
                fits.ridge(*test_interrupts.rows())
        except KeyboardInterrupt:
            print("interrupted")
        print(fits.ridge(*test_interrupts.rows()).shape, client.run(os.getpid) == before)
"""


def test_a_kernel_and_its_workers_get_the_signal():
    """Workers of `connect` are not ended by that."""
    path = os.pathsep.join(sys.path)
    options = {"capture_output": True, "text": True, "timeout": 300, "start_new_session": True}
    done = subprocess.run([sys.executable, "-c", KERNEL], env=os.environ | {"PYTHONPATH": path}, **options)
    assert done.stdout.split("\n")[:2] == ["interrupted", "(32,) True"], done.stderr
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
