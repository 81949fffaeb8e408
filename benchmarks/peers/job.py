"""python job.py JOB METHOD FOLDER OPTIONS: one method does one job; prints a line of JSON.

Run by the Python of a peer, which has neither distrf nor this package. JOB and METHOD are names of `methods.JOBS`, FOLDER
holds the rows, OPTIONS are JSON. A first go on few rows imports, compiles and starts what there is to start: `start`. `fit`
and `predict` are processor seconds of all threads after that; `peak` is the largest resident size in bytes, of all; `error` is
that of the kernel matrix or of the singular values.
"""

from __future__ import annotations

import importlib.metadata
import json
import resource
import sys
import time
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np

if __package__:
    from .methods import JOBS, Options
    from .rows import Rows
else:  # a script, run by the Python of a peer: they lie beside it
    from methods import JOBS, Options
    from rows import Rows

#: Rows, features and directions of the first go.
FIRST = {"D": 64, "k": 8}
FIRST_ROWS = 600
#: Rows on which a kernel is compared with that of its features.
KERNEL_ROWS = 500
PACKAGES = (
    "distrf", "numpy", "scipy", "scikit-learn", "scikit-learn-extra", "dask", "dask-ml", "xgboost-cpu", "lightgbm",
    "thundersvm-cpu", "snapml",
)  # fmt: skip


def cpu() -> float:
    """Processor seconds of this process, and of its children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def peak() -> int:
    """Bytes. Not ru_maxrss, which starts at the size of the parent."""
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def gaussian(X: np.ndarray, o: Options) -> np.ndarray:
    square = (X * X).sum(axis=1)
    return np.exp(-o.gamma * np.maximum(square[:, None] + square - 2 * X @ X.T, 0))


def polynomial(X: np.ndarray, o: Options) -> np.ndarray:
    return (o.gamma * X @ X.T + 1) ** 2


def kernel_error(method: str, transform: Any, rows: Rows, o: Options) -> float:
    """|K - Z Z'| / |K|, Frobenius."""
    X = rows.block("X", 0, KERNEL_ROWS)
    Z = np.asarray(transform(X), dtype=np.float64)
    X = X.astype(np.float64)
    K = (polynomial if "Sketch" in method else gaussian)(X, o)
    return float(np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K))


def score(predicted: Any, t: np.ndarray, o: Options) -> float:
    """Accuracy, or R^2 of numbers."""
    if o.labels:
        return float(np.mean(np.asarray(predicted).ravel() == t))
    return float(1 - np.sum((np.asarray(predicted).ravel() - t) ** 2) / np.sum((t - t.mean()) ** 2))


def singular_values(transform: Any, rows: Rows, k: int) -> np.ndarray:
    """The k largest of the features, from their Gram matrix in float64."""
    gram: Any = 0.0
    for X, _ in rows.blocks():
        Z = np.asarray(transform(X), dtype=np.float64)
        gram = gram + Z.T @ Z
    return np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1][:k], 0))


def run(job: str, method: str, folder: str, given: dict[str, Any]) -> dict[str, Any]:
    """What `python job.py` prints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _run(job, method, folder, given)


def _run(job: str, method: str, folder: str, given: dict[str, Any]) -> dict[str, Any]:
    o, call = SimpleNamespace(**given), JOBS[job][method].call
    first = SimpleNamespace(**{**given, **{name: min(FIRST[name], given.get(name, 1)) for name in FIRST}})
    began = cpu() if __package__ else 0.0  # a process of its own starts at 0
    call(Rows(folder, FIRST_ROWS), first)
    rows = Rows(folder)
    found: dict[str, Any] = {"start": cpu() - began}
    began, wall = cpu(), time.perf_counter()
    made = call(rows, o)
    found["fit"] = cpu() - began
    if job in ("ridge", "tables"):
        T, t = rows.array("T"), rows.array("t")
        began = cpu()
        predicted = made(T)
        found["predict"] = cpu() - began
    found |= {"wall": time.perf_counter() - wall, "peak": peak()}
    if job == "features":
        found["error"] = kernel_error(method, made[1], rows, o)
    elif job == "subspace":
        exact = singular_values(made[1], rows, o.k)
        found["error"] = float(np.max(np.abs(np.asarray(made[0]) - exact) / exact))
    else:
        found["score"] = score(predicted, t, o)
    return found | {"versions": versions()}


def main() -> None:
    job, method, folder, options = sys.argv[1:]
    print(json.dumps(run(job, method, folder, json.loads(options))), flush=True)


if __name__ == "__main__":
    main()
