"""distrf beside its peers: features, ridge and SVM on them, tables, subspaces."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.benchmark import Benchmark, Part, Record, Run, spread
from benchmarks.peers import environments, job, processes
from benchmarks.peers.claims import claims
from benchmarks.peers.environments import LEFT_OUT, PEERS
from benchmarks.peers.methods import JOBS
from benchmarks.peers.processes import LIMIT
from benchmarks.peers.rows import BLOCK
from benchmarks.peers.shown import (
    LEVEL,
    SAME_TIME,
    show_environments,
    show_features,
    show_ridge,
    show_subspace,
    show_tables,
)

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
    T, t = _labelled(np.random.default_rng(1), tests, w, b, a)
    X, y = np.empty((n, d), np.float32), np.empty(n, np.int64)
    for i, first in enumerate(range(0, n, 10_000)):
        last = min(first + 10_000, n)
        X[first:last], y[first:last] = _labelled(np.random.default_rng(2 + i), last - first, w, b, a)
    return {"X": X, "y": y, "T": T, "t": t}


def _labelled(
    rng: np.random.Generator, n: int, w: np.ndarray, b: np.ndarray, a: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, len(w))).astype(np.float32)
    y = np.cos(X @ w + b) @ a > a @ (np.cos(b) * np.exp(-0.5 * (w * w).sum(axis=0)))  # its mean
    return X, np.where(rng.random(n) < 0.05, ~y, y).astype(np.int64)


def seeds_of(method: str, name: str, wanted: int) -> int:
    """An exact machine draws nothing."""
    return 1 if name == "ridge" and method in EXACT else wanted


def over_seeds(run: Run, name: str, method: str, folder: str, options: dict[str, Any], seeds: int) -> Record:
    """Medians of seconds and bytes, mean of the error or score; what failed once is not tried again."""
    made: list[Record] = []
    for seed in range(seeds_of(method, name, seeds)):
        given = options | {"seed": seed}
        if run.small:
            record = {"peer": JOBS[name][method].peer, "method": method} | job.run(name, method, folder, given)
        else:
            record = processes.measure(name, method, folder, given, SECONDS)
        if "failed" in record:
            return record
        made.append(record)
    what = "score" if "score" in made[0] else "error"
    times = [t for t in ("start", "fit", "predict", "wall", "peak") if t in made[0]]
    kept = {t: statistics.median(r[t] for r in made) for t in times}
    head = {"peer": made[0]["peer"], "method": method, **kept, "what": what, **over([r[what] for r in made])}
    return head | {"versions": made[0]["versions"]}


def over(values: list[float]) -> Record:
    """Mean and standard error over so many seeds."""
    found = spread(values)
    return {
        "mean": found["mean"],
        "standard_error": found["standard_error"],
        "seeds": found["n"],
        "values": values,
    }


def methods_of(run: Run, name: str) -> list[str]:
    """The methods of a job; in a small run those that this Python has."""
    return [method for method, how in JOBS[name].items() if not run.small or how.peer in HERE]


def environments_(run: Run) -> Iterator[Record]:
    """What pip makes of each peer."""
    for peer, wanted in PEERS.items():
        if run.small and peer not in HERE:
            continue
        record: Record = {"peer": peer, "wanted": list(wanted)}
        try:
            yield record | {"installed": environments.installed(peer)}
        except environments.UnavailableError as error:
            yield record | {"failed": str(error)}


# ---- parts --------------------------------------------------------------------------------------------


def features(run: Run) -> Iterator[Record]:
    """Column means of D features of n rows with 64 columns."""
    d, D = run.pick(64, 8), run.pick(1024, 64)
    for n, seeds in run.pick(((10_000, 3), (100_000, 1), (1_000_000, 1)), ((800, 1),)):
        with folder_of(smooth(n, d, 0)) as folder:
            for method in methods_of(run, "features"):
                if n <= JOBS["features"][method].most:
                    options = {"D": D, "gamma": 0.5 / d}
                    found = over_seeds(run, "features", method, folder, options, seeds)
                    yield {"n": n, "d": d, "D": D, **found}


def ridge(run: Run) -> Iterator[Record]:
    """Classification of n rows with 16 columns on D features."""
    yield from ridge_of(run, run.pick(((10_000, 2), (100_000, 1)), ((800, 2),)))


def million(run: Run) -> Iterator[Record]:
    """The same of rows whose features do not fit in memory."""
    yield from ridge_of(run, run.pick(((1_000_000, 1),), ((1000, 1),)))


def ridge_of(run: Run, sizes: tuple[tuple[int, int], ...]) -> Iterator[Record]:
    d, D = 16, run.pick(2048, 64)
    options = {"D": D, "gamma": 0.5 / d, "alpha": 1e-5, "labels": True}
    for n, seeds in sizes:
        with folder_of(smooth(n, d, run.pick(20_000, 400))) as folder:
            for method in methods_of(run, "ridge"):
                if n <= JOBS["ridge"][method].most:
                    yield {"n": n, "d": d, "D": D, **over_seeds(run, "ridge", method, folder, options, seeds)}


def tables(run: Run) -> Iterator[Record]:
    """Three tables of numbers, with the defaults of all."""
    for name in run.pick(("covtype_sample", "a9a", "kin40k"), ("kin40k",)):
        labels = data.SETS[name][1] > 0
        for method in methods_of(run, "tables"):
            made: list[Record] = []
            for seed in range(run.pick(2, 1)):
                with folder_of(table_rows(run, name, seed)) as folder:
                    made.append(over_seeds(run, "tables", method, folder, {"labels": labels}, 1))
                if "values" not in made[-1]:
                    break
            yield {"set": name, "labels": labels, **together(made)}


def together(made: list[Record]) -> Record:
    """One record of several splits."""
    if "values" not in made[-1]:
        return made[-1]
    values = [v for r in made for v in r["values"]]
    kept = {t: statistics.median(r[t] for r in made) for t in ("start", "fit", "predict", "wall", "peak")}
    return made[0] | kept | over(values)


def table_rows(run: Run, name: str, seed: int) -> dict[str, np.ndarray]:
    """20,000 rows at most to train, 10,000 to test, as float32; labels as 0, 1, ..."""
    X, y, T, t = data.raw(run, name)
    X, y = (
        (data.dense(X), y) if T is None else (np.vstack([data.dense(X), data.dense(T)]), np.concatenate([y, t]))
    )
    if data.SETS[name][1]:
        y = np.unique(y, return_inverse=True)[1]
    order = np.random.default_rng(seed).permutation(len(y))
    n = min(20_000, 3 * len(y) // 4)
    train, test = order[:n], order[n : n + 10_000]
    return {"X": X[train], "y": y[train], "T": X[test], "t": y[test]}


def subspace(run: Run) -> Iterator[Record]:
    """The 64 largest singular values of n x D features."""
    d, D, k = 16, run.pick(1024, 64), run.pick(64, 8)
    for n in run.pick((20_000, 100_000), (800,)):
        with folder_of(smooth(n, d, 0)) as folder:
            for method in methods_of(run, "subspace"):
                for n_iter in (
                    (2, 5) if "randomized" in method or "finder" in method or "sklearn" in method else (2,)
                ):
                    options = {"D": D, "gamma": 0.5 / d, "k": k, "n_iter": n_iter}
                    found = over_seeds(run, "subspace", method, folder, options, 1)
                    yield {"n": n, "D": D, "k": k, "n_iter": n_iter, **found}


ABOUT = f"""
The same rows and the same job for distrf and for others. Every method runs in a process of its own, and every peer in a virtual
environment of its own, with one thread; scikit-learn is that of distrf's environment. Rows come from `.npy` files; methods that stream read them in blocks of {BLOCK:,} rows. Times are processor seconds. Peaks are `VmHWM` of the whole process, its imports
included. A process beyond {LIMIT / 2**30:.0f} GiB, or {SECONDS:.0f} seconds, is ended, and the table says so. `±` is one standard error over
seeds of the features, or splits of a table; without it there was one. A part, a size or a
method that has no line below has not been measured.

* `features`: the mean of every column of random features. The Gaussian kernel has its length scale, $\\sqrt d$, given; rows are normal.
* `ridge`, `million`: labels are the sign of a function that the kernel's own law draws. All have the kernel, D and
  $\\alpha = 10^{{-5}}$ of the mean loss, but for LIBLINEAR's and LIBSVM's SVMs: C = 1. Peers in a *loop over blocks* are a loop around `partial_fit`, three epochs;
  dask-ml's `Incremental` takes one, as it does by itself. distrf's SGD goes on until its loss falls no more, unless its line says *three epochs*.
* `tables`: no method is given an option, except those that keep it to one thread. covtype_sample is a table for trees, kin40k one for kernels, a9a neither; all
  tables are in [figures on tables](../guide/tables_results.md). xgboost.dask
  and lightgbm.dask run on a Dask worker in the same process.
* `subspace`: features of the same kernel, each method's own draw; each is compared with the exact values of its own features.

Two methods are level where they differ by less than {100 * LEVEL:.1f} points or two standard errors, or by less than a factor of {SAME_TIME} in time.

Environments are made when first needed, in `~/.cache/distrf-benchmarks` or the folder that `DISTRF_BENCHMARKS_CACHE` names;
`python -m benchmarks.peers.environments` makes them all. Left out: {"; ".join(f"{p} ({why})" for p, why in LEFT_OUT.items())}. Clusters of
many workers are not measured here, nor are GPUs.
"""

BENCHMARK = Benchmark(
    "peers", "distrf beside its peers", ABOUT,
    (
        Part("environments", environments_, show_environments, data=False),
        Part("features", features, show_features, data=False),
        Part("ridge", ridge, show_ridge, data=False),
        Part("million", million, show_ridge, data=False),
        Part("tables", tables, show_tables),
        Part("subspace", subspace, show_subspace, data=False),
    ),
    claims,
)  # fmt: skip
