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
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import zarr
from scipy.linalg import cho_solve, cholesky
from sklearn.pipeline import Pipeline, make_pipeline
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.benchmark import MIB, Benchmark, Claim, Part, Record, Run, markdown, where
from benchmarks.workers import connected, measured
from distrf import RandomFourierFeatures, StreamingRidgeClassifier, StreamingScaler, ingest, open_rows
from distrf.execution.memory import Workers
from distrf.execution.workers import peak_memory
from distrf.pipeline.inputs import open_input
from distrf.planning.job import plan_job

RATIO_BAR, ACCURACY_BAR = 1.25, 97.6


@dataclass(frozen=True)
class Job:
    components: int = 8192
    gamma: float = 0.01
    alpha: float = 1e-7
    workers: int = len(os.sched_getaffinity(0))
    processes: bool = True

    def model(self) -> Pipeline:
        return make_pipeline(
            StreamingScaler("divide", divisor=255.0),
            RandomFourierFeatures(gamma=self.gamma, n_components=self.components, random_state=7),
            StreamingRidgeClassifier(self.alpha),
        )

    def cluster(self) -> AbstractContextManager[Any]:
        """Workers in processes of their own, or in threads of this one for a small run."""
        return connected(self.workers, not self.processes, None)


# ---- the data -----------------------------------------------------------------------------------------


def archive(run: Run, folder: str) -> str:
    """An archive of grey values 0 to 255: MNIST, or drawn rows."""
    if not run.small:
        return os.path.abspath(f"{run.data}/mnist.npz")
    X, y, T, t = data.split(run, "mnist", 0)
    made = {
        "X_train": (255 * X).astype(np.uint8),
        "y_train": y,
        "X_test": (255 * T).astype(np.uint8),
        "y_test": t,
    }
    np.savez(f"{folder}/drawn.npz", **made)
    return f"{folder}/drawn.npz"


@lru_cache(maxsize=1)
def _archive(path: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return archive["X_train"], archive["y_train"]


# ---- the two ways -------------------------------------------------------------------------------------


def distrf_fit(job: Job, store: str, client: Any) -> tuple[Record, Pipeline]:
    """What it took, and the model."""

    def fit() -> Pipeline:
        with threadpool_limits(os.cpu_count()):  # of the client, which factors the matrix
            X, y = open_rows(store)
            return job.model().fit(X, y)

    return measured(client, fit)


def bare_fit(job: Job, store: str, weights: np.ndarray) -> tuple[Any, float, dict[str, float]]:
    """The same least squares, in plain NumPy on all cores. `weights` has shape (d, D / 2), radians, float32."""
    begun = time.perf_counter()
    group = zarr.open_group(store, mode="r")
    n, D, T = group["X"].shape[0], job.components, 1024
    labels = np.asarray(group["y"][:])
    classes = np.unique(labels)
    tiles = [
        (slice(i, min(i + T, D)), slice(j, min(j + T, D))) for i in range(0, D, T) for j in range(0, i + 1, T)
    ]
    gram = [np.zeros((r.stop - r.start, c.stop - c.start)) for r, c in tiles]
    right, sums, totals = np.zeros((D, len(classes))), np.zeros(D), np.zeros(len(classes))
    spent = dict.fromkeys(("read", "features", "gram", "solve"), 0.0)
    block = max(1, 128 * MIB // (4 * D))
    Z = np.empty((block, D), dtype=np.float32)
    for a in range(0, n, block):
        t0 = time.perf_counter()
        b = min(a + block, n)
        X = np.asarray(group["X"][a:b])
        t1 = time.perf_counter()
        phases = (X.astype(np.float32) / np.float32(255)) @ weights
        z = Z[: b - a]
        np.cos(phases, out=z[:, : D // 2])
        np.sin(phases, out=z[:, D // 2 :])
        z *= np.float32(np.sqrt(2.0 / D))
        t2 = time.perf_counter()
        Y = np.where(labels[a:b, None] == classes, np.float32(1), np.float32(-1))
        for tile, (r, c) in zip(gram, tiles, strict=True):
            tile += z[:, r].T @ z[:, c]
        right += z.T @ Y
        sums += z.sum(axis=0, dtype=np.float64)
        totals += Y.sum(axis=0, dtype=np.float64)
        t3 = time.perf_counter()
        for name, seconds in zip(("read", "features", "gram"), (t1 - t0, t2 - t1, t3 - t2), strict=True):
            spent[name] += seconds
    t0 = time.perf_counter()
    S = np.zeros((D, D), order="F")
    mean = sums / n
    for tile, (r, c) in zip(gram, tiles, strict=True):
        S[r, c] = tile / n - np.outer(mean[r], mean[c])
    S.ravel(order="K")[:: D + 1] += job.alpha
    factor = cholesky(S, lower=True, overwrite_a=True, check_finite=False)
    coef = cho_solve((factor, True), right / n - np.outer(mean, totals / n), check_finite=False)
    spent["solve"] = time.perf_counter() - t0
    return (classes, coef, totals / n - mean @ coef), time.perf_counter() - begun, spent


def bare_accuracy(job, solution, weights, X, y) -> float:
    classes, coef, intercept = solution
    phases = X @ weights
    Z = np.concatenate([np.cos(phases), np.sin(phases)], axis=1) * np.float32(np.sqrt(2.0 / job.components))
    return float((classes[(Z @ coef + intercept).argmax(axis=1)] == y).mean())


# ---- the parts ----------------------------------------------------------------------------------------


def speed(run: Run) -> Iterator[Record]:
    """Three fits of each, in turn, and then the facts of the job."""
    job = run.pick(Job(), Job(64, processes=False))
    with tempfile.TemporaryDirectory() as folder, job.cluster() as client:
        path = archive(run, folder)
        store = f"{folder}/train.zarr"
        ingest(path, store, split="train")
        X, y = open_rows(store)
        start, few = time.perf_counter(), min(2000 * job.workers, X.shape[0])
        replace(job, components=min(256, job.components)).model().fit(X[:few].rechunk({0: 500}), y[:few])
        first = time.perf_counter() - start
        # Shape (d, D / 2): as the map makes them, so that both ways solve one problem.
        weights = job.model()[1].fit(np.zeros((2, X.shape[1]))).map_.frequencies().T.astype(np.float32)
        for i in range(run.pick(3, 1)):
            took, model = distrf_fit(job, store, client)
            record: Record = {"what": "fit", "repeat": i, "distrf": took["wall"], "distrf cpu": took["all"]}
            before = time.process_time()
            with threadpool_limits(os.cpu_count()):
                solution, seconds, spent = bare_fit(job, store, weights)
            yield record | {"bare": seconds, "bare cpu": time.process_time() - before, "parts": spent}
        with np.load(path, allow_pickle=False) as file:
            T, t = file["X_test"], file["y_test"]
        record = {
            "what": "job",
            "rows": X.shape[0],
            "D": job.components,
            "workers": job.workers,
            "first small fit": first,
        }
        steps = [step for _, step in job.model().steps]
        plan = plan_job("fit", steps, open_input(store, "y"), Workers.of_client(client), 10).memory.peak
        record |= {"score": 100 * float(model.score(T, t)), "plan": plan / MIB}
        record |= {"peaks": [peak / MIB for peak in sorted(peak_memory(client).values())]}
        bare = bare_accuracy(job, solution, weights, T.astype(np.float32) / np.float32(255), t)
        yield record | {"bare score": 100 * bare}


def medians_of(records: list[Record]) -> dict[str, float]:
    fits = where(records, what="fit")
    return {
        name: statistics.median(r[name] for r in fits) for name in ("distrf", "bare", "distrf cpu", "bare cpu")
    }


def show_speed(records: list[Record]) -> str:
    job, fits, found = where(records, what="job")[0], where(records, what="fit"), medians_of(records)
    ratio, of_cpu = found["distrf"] / found["bare"], found["distrf cpu"] / found["bare cpu"]
    rows = [
        ["distrf", f"{found['distrf']:.1f}", f"{found['distrf cpu']:.1f}", f"{ratio:.2f}", f"{of_cpu:.2f}", f"{job['score']:.2f}"],
        ["bare loop", f"{found['bare']:.1f}", f"{found['bare cpu']:.1f}", "1", "1", f"{job['bare score']:.2f}"],
    ]  # fmt: skip
    spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in fits[-1]["parts"].items())
    peaks = ", ".join(f"{p:.0f}" for p in job["peaks"])
    head = ["", "wall s", "processor s", "wall, over bare", "processor, over bare", "accuracy in %"]
    return (
        f"{job['rows']:,} rows, D = {job['D']:,}, {job['workers']} workers, medians of {len(fits)} fits.\n\n"
        + markdown(head, rows)
        + f"\n\nThe last bare loop: {spent}. Peaks of the workers: {peaks} MiB; planned: {job['plan']:.0f}. "
        f"A first small fit, in which the workers import and compile, takes {job['first small fit']:.1f} s before."
    )


# ---- verdicts -----------------------------------------------------------------------------------------


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    made = []
    if "speed" in found:
        job, times = where(found["speed"], what="job"), medians_of(found["speed"])
        ratio, of_cpu = times["distrf"] / times["bare"], times["distrf cpu"] / times["bare cpu"]
        made.append(
            Claim(
                "the job takes at most 1.25 times as long as a bare NumPy loop on all cores", f"{RATIO_BAR}", f"{ratio:.2f}",
                "holds" if ratio <= RATIO_BAR else "does not hold",
                "" if ratio <= RATIO_BAR else f"of processor time it takes {of_cpu:.2f} times as much",
            )
        )  # fmt: skip
        score, bare = job[0]["score"], job[0]["bare score"]
        made.append(
            Claim(
                f"MNIST with D = {job[0]['D']:,}: the accuracy of the bare loop, 97.6 % at least", f"{ACCURACY_BAR} %",
                f"{score:.2f} %, the loop {bare:.2f} %", "holds" if score >= ACCURACY_BAR else "does not hold",
                "" if score >= ACCURACY_BAR else "below the bar",
            )
        )  # fmt: skip
    return made


ABOUT = """
The main job: from a Zarr store of grey values through division by 255 and random Fourier features to an exact ridge classifier, on
local workers of one thread each. `speed` takes the time by the clock beside a bare NumPy loop with the same weights, which reads the
same store with BLAS on all cores, and needs a machine that does nothing else. Memory against rows is measured in
[rows and workers](scale.md#rows).
"""

BENCHMARK = Benchmark(
    "end_to_end", "Wall time of a whole job", ABOUT,
    (Part("speed", speed, show_speed),),
    claims,
)  # fmt: skip
