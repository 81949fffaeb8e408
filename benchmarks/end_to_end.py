"""Wall time of the main job, beside a bare NumPy loop that does the same arithmetic.

distrf: local workers of one thread each; from the Zarr store through division by 255 and random Fourier features to an exact
ridge classifier, which is factored in the client. A first small fit on these workers, whose time is kept, imports and compiles (or
loads from Numba's cache) what the others need.
bare: one process, BLAS on all cores. It reads blocks of the same store, multiplies by the same weights, takes cosines and sines
with NumPy in float32, adds the lower tiles of the Gram matrix in float64, and factors it.

Both run in turn. Processor time, of all processes, is kept too: other jobs on the machine disturb it less. Peaks are VmHWM of
each worker since its start.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import zarr
from scipy.linalg import cho_solve, cholesky
from sklearn.pipeline import Pipeline, make_pipeline
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.benchmark import MIB, Part, Record, Run, lines
from benchmarks.workers import connected, measured
from distrf import RandomFourierFeatures, StreamingRidgeClassifier, StreamingScaler, ingest, open_rows, plan
from distrf.execution.workers import peak_memory

GAMMA, ALPHA, WORKERS = 0.01, 1e-7, len(os.sched_getaffinity(0))


def model(D: int) -> Pipeline:
    map_ = RandomFourierFeatures(gamma=GAMMA, n_components=D, random_state=7)
    return make_pipeline(StreamingScaler("divide", divisor=255.0), map_, StreamingRidgeClassifier(ALPHA))


def archive(run: Run, folder: str) -> str:
    """An archive of grey values 0 to 255: MNIST, or drawn rows."""
    X, y, T, t = data.split(run, "mnist", 0)
    if run.small:
        X, T = ((255 * rows).astype(np.uint8) for rows in (X, T))
    np.savez(f"{folder}/rows.npz", X=X, y=y, X_test=T, y_test=t)
    return f"{folder}/rows.npz"


def features(X: np.ndarray, weights: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Of grey values, in float32. `weights` has shape (d, D / 2), radians."""
    phases = (X.astype(np.float32) / np.float32(255)) @ weights
    np.cos(phases, out=out[:, : phases.shape[1]])
    np.sin(phases, out=out[:, phases.shape[1] :])
    out *= np.float32(np.sqrt(2.0 / out.shape[1]))
    return out


def bare_fit(store: str, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same least squares, in plain NumPy on all cores."""
    group = zarr.open_group(store, mode="r")
    n, D, T = group["X"].shape[0], 2 * weights.shape[1], 1024
    labels = np.asarray(group["y"][:])
    classes = np.unique(labels)
    tiles = [(slice(i, i + T), slice(j, j + T)) for i in range(0, D, T) for j in range(0, i + 1, T)]
    right, sums, totals = np.zeros((D, len(classes))), np.zeros(D), np.zeros(len(classes))
    block = max(1, 128 * MIB // (4 * D))
    S, Z = np.zeros((D, D)), np.empty((block, D), dtype=np.float32)
    for a in range(0, n, block):
        X = np.asarray(group["X"][a : a + block])
        z = features(X, weights, Z[: len(X)])
        Y = np.where(labels[a : a + block, None] == classes, np.float32(1), np.float32(-1))
        for r, c in tiles:
            S[r, c] += z[:, r].T @ z[:, c]
        right += z.T @ Y
        sums += z.sum(axis=0, dtype=np.float64)
        totals += Y.sum(axis=0, dtype=np.float64)
    mean = sums / n
    for r, c in tiles:
        S[r, c] = S[r, c] / n - np.outer(mean[r], mean[c])
    S.ravel()[:: D + 1] += ALPHA
    factor = cholesky(S.T, overwrite_a=True, check_finite=False)
    coef = cho_solve((factor, False), right / n - np.outer(mean, totals / n), check_finite=False)
    return classes, coef, totals / n - mean @ coef


def speed(run: Run) -> Iterator[Record]:
    """Seconds on the clock (and of all processors) of three fits of each, in turn, on all cores; accuracy in percent; MiB of the workers.
    The first small fit is that in which the workers import and compile.
    """
    D = run.pick(8192, 64)
    with tempfile.TemporaryDirectory() as folder, connected(WORKERS, run.small, None) as client:
        path, store = archive(run, folder), f"{folder}/train.zarr"
        ingest(path, store)
        X, y = open_rows(store)
        start, few = time.perf_counter(), min(2000 * WORKERS, X.shape[0])
        model(min(256, D)).fit(X[:few].rechunk({0: 500}), y[:few])
        first = time.perf_counter() - start
        common = {"rows": X.shape[0], "D": D, "workers": WORKERS, "first small fit": first}
        common["plan"] = plan(model(D), store, classes=10).memory.peak / MIB
        # As the map makes them, so that both ways solve one problem.
        weights = model(D)[1].fit(np.zeros((2, X.shape[1]))).map_.frequencies().T.astype(np.float32)
        with np.load(path, allow_pickle=False) as file:
            T, t = file["X_test"], file["y_test"]
        for i in range(run.pick(3, 1)):
            with threadpool_limits(os.cpu_count()):  # of the client, which factors the matrix
                took, fitted = measured(client, lambda: model(D).fit(*open_rows(store)))
                before, clock = time.process_time(), time.perf_counter()
                classes, coef, intercept = bare_fit(store, weights)
                bare = {"bare": time.perf_counter() - clock, "bare cpu": time.process_time() - before}
            Z = features(T, weights, np.empty((len(T), D), np.float32))
            right = classes[(Z @ coef + intercept).argmax(axis=1)] == t
            scores = {"score": 100 * float(fitted.score(T, t)), "bare score": 100 * float(right.mean())}
            peaks = [peak / MIB for peak in sorted(peak_memory(client).values())]
            took = {"repeat": i, "distrf": took["wall"], "distrf cpu": took["all"]}
            yield common | took | bare | scores | {"peaks": peaks}


PARTS = (
    Part(speed, lines({
        "": "{rows:,} rows, D = {D:,}, {workers} workers", "distrf": "{distrf:.1f} ({distrf cpu:.1f})",
        "bare loop": "{bare:.1f} ({bare cpu:.1f})", "distrf / bare": lambda r: f"{r['distrf'] / r['bare']:.2f}",
        "of processors": lambda r: f"{r['distrf cpu'] / r['bare cpu']:.2f}",
        "accuracy": "{score:.2f}", "of the loop": "{bare score:.2f}", "first small fit": "{first small fit:.1f}",
        "workers": lambda r: ", ".join(f"{peak:.0f}" for peak in r["peaks"]), "planned": "{plan:.0f}",
    })),
)  # fmt: skip
