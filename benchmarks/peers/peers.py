"""distrf beside its peers: features, ridge and SVM on them."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.benchmark import Cell, Part, Record, Run, lines, pm, spread
from benchmarks.peers import job, processes
from benchmarks.peers.job import JOBS

#: Processor seconds that one go may take.
SECONDS = 150.0
#: Exact kernel machines, which draw nothing.
EXACT = ("SVC", "thundersvm.SVC", "KernelRidge")
#: The peers of small runs: what this Python has.
HERE = ("distrf", "scikit-learn")


@contextlib.contextmanager
def folder_of(arrays: dict[str, np.ndarray]) -> Iterator[str]:
    """A folder with the rows of a job, while it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        for name, values in arrays.items():
            np.save(f"{folder}/{name}.npy", values)
        yield folder


def smooth(n: int, d: int, tests: int) -> dict[str, np.ndarray]:
    """Normal rows whose label is the sign of a sum of 200 cosines of the Gaussian kernel of length sqrt(d), 5 % of them flipped."""
    rng = np.random.default_rng(0)
    w = (rng.normal(size=(d, 200)) / np.sqrt(d)).astype(np.float32)
    b, a = rng.uniform(0, 2 * np.pi, 200).astype(np.float32), rng.normal(size=200).astype(np.float32)
    mean = a @ (np.cos(b) * np.exp(-0.5 * (w * w).sum(axis=0)))

    def labelled(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
        own = np.random.default_rng(seed)
        X = own.normal(size=(rows, d)).astype(np.float32)
        y = np.cos(X @ w + b) @ a > mean
        return X, np.where(own.random(rows) < 0.05, ~y, y).astype(np.int64)

    T, t = labelled(1, tests)
    X, y = np.empty((n, d), np.float32), np.empty(n, np.int64)
    for i, first in enumerate(range(0, n, 10_000)):
        last = min(first + 10_000, n)
        X[first:last], y[first:last] = labelled(2 + i, last - first)
    return {"X": X, "y": y, "T": T, "t": t}


def over_seeds(run: Run, name: str, method: str, folder: str, options: dict[str, Any], seeds: int) -> Record:
    """Medians of seconds and bytes, mean of the error or score; what failed once is not tried again."""
    made: list[Record] = []
    for seed in range(1 if method in EXACT else seeds):
        given = options | {"seed": seed}
        if run.small:
            with warnings.catch_warnings():
                found = {"peer": JOBS[name][method].peer, "method": method} | job.run(
                    name, method, folder, given
                )
        else:
            found = processes.measure(name, method, folder, given, SECONDS)
        if "failed" in found:
            return found
        made.append(found)
    times = [what for what in ("start", "fit", "predict", "wall", "peak") if what in found]
    kept = {what: statistics.median(r[what] for r in made) for what in times}
    what = "score" if "score" in found else "error"
    return found | kept | {"what": what, **spread([r[what] for r in made]), "seeds": len(made)}


def of_job(run: Run, name: str, d: int, D: int, tests: int, sizes: dict[int, int]) -> Iterator[Record]:
    """The methods of a job that are tried with so many rows; in a small run those that this Python has. sizes : {rows: seeds}"""
    options = {"D": D, "gamma": 0.5 / d, "alpha": 1e-5}
    for n, seeds in sizes.items():
        with folder_of(smooth(n, d, tests)) as folder:
            for method, how in JOBS[name].items():
                tried = n <= how.most and (not run.small or how.peer in HERE)
                if tried and not run.has(n=n, method=method):
                    yield over_seeds(run, name, method, folder, options, seeds) | {"n": n}


def features(run: Run) -> Iterator[Record]:
    r"""Processor seconds to the mean of each column of D = 1,024 features of 64 columns, and the relative error of the kernel matrix of 500
    rows. The Gaussian kernel has its length scale, $\sqrt d$, given; rows are normal. *Start*: imports, compiling or loading compiled
    loops, a first go on 600 rows.
    """
    d, D = run.pick((64, 1024), (8, 64))
    yield from of_job(run, "features", d, D, 1, run.pick({10_000: 3, 100_000: 1, 1_000_000: 1}, {800: 1}))


def ridge(run: Run) -> Iterator[Record]:
    r"""Labels are the sign of a function that the kernel's own law draws, 5 % of them flipped; 16 columns, D = 2,048: accuracy on 20,000 rows.
    All have the kernel, D and $\alpha = 10^{-5}$ of the mean loss, but for LIBLINEAR's and LIBSVM's SVMs: C = 1. A *loop over
    blocks* is a loop around `partial_fit`, three epochs; `Incremental` takes one, as it does by itself. distrf's SGD goes on until its
    loss falls no more, unless its line says *three epochs*.
    """
    sizes = run.pick({10_000: 2, 100_000: 1, 1_000_000: 1}, {800: 2})
    yield from of_job(run, "ridge", 16, run.pick(2048, 64), run.pick(20_000, 400), sizes)


def result(r: Record) -> str:
    """A score or an error in percent, or why there is none."""
    return r["failed"].replace("|", "\\|")[:80] if "failed" in r else pm(2, times=100)(r)


def seconds(what: str) -> Cell:
    return lambda r: f"{r[what]:.2f}" if what in r else "-"


SHOWN = lines({
    "n": "{n:,}", "method": "{method}", "peer": "{peer}", "%": result,
    **{f"{what} s": seconds(what) for what in ("fit", "predict", "start")},
    "peak MiB": lambda r: f"{r['peak'] / 2**20:,.0f}" if "peak" in r else "-",
})  # fmt: skip
PARTS = (Part(features, SHOWN, data=False, resumes=True), Part(ridge, SHOWN, data=False, resumes=True))
