"""distrf beside its peers: features, ridge and SVM on them.

A job runs by the Python of a peer, in a process of its own with one thread, which is ended where it takes too much memory or time. A virtual
environment for each peer is made the first time that it is needed, in the folder that the environment variable
DISTRF_BENCHMARKS_CACHE names, or in ~/.cache/distrf-benchmarks.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from sklearn.preprocessing import StandardScaler

from benchmarks.benchmark import Cell, Part, Record, Run, grid, lines, pm, spread, where
from benchmarks.peers.job import JOBS
from benchmarks.tables.arrays import TEST_ROWS, load
from benchmarks.tables.tables import METRIC_SETS

ROOT = Path(__file__).parents[2]
#: Bytes that a job may take.
LIMIT = {"features": 4 * 2**30, "ridge": 4 * 2**30, "tables": 12 * 2**30}
#: Seconds between two looks at a process.
LOOK = 0.05
THREADS = ("OMP", "OPENBLAS", "MKL", "NUMBA")
#: peer: what pip installs. Empty: the packages of this Python.
PEERS: dict[str, tuple[str, ...]] = {
    "distrf": (),
    "scikit-learn": (),
    "dask-ml": ("dask-ml==2025.1.0", "dask[array,dataframe]", "distributed"),
    "thundersvm": ("thundersvm-cpu==0.3.3", "scikit-learn"),
    "snapml": ("snapml==1.17.2", "scikit-learn"),
    "xrfm": ("xrfm==0.4.5",),
}
#: Processor seconds that one go may take.
SECONDS = 150.0
#: Exact kernel machines, which draw nothing.
EXACT = ("SVC", "thundersvm.SVC", "KernelRidge")
#: The peers of small runs: what this Python has.
HERE = ("distrf", "scikit-learn")


# ---- processes ----------------------------------------------------------------------------------------


def python_of(peer: str) -> Path:
    """The Python of a peer.

    Raises RuntimeError with the last error of pip.
    """
    wanted = PEERS[peer]
    if not wanted:
        return Path(sys.executable)
    cache = Path(os.environ.get("DISTRF_BENCHMARKS_CACHE", "~/.cache/distrf-benchmarks")).expanduser()
    place = cache / f"{peer}-{hashlib.sha256(repr((wanted, sys.version_info[:2])).encode()).hexdigest()[:8]}"
    python, ready = place / "bin" / "python", place / "ready"
    if not ready.exists():
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place, with_pip=True)
        done = subprocess.run(
            [python, "-m", "pip", "install", "-q", *wanted], capture_output=True, text=True, check=False
        )
        if done.returncode:
            shutil.rmtree(place, ignore_errors=True)
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no message"]
            raise RuntimeError(f"pip install {' '.join(wanted)}: {said[-1][:300]}")
        ready.touch()
    return python


def measure(job: str, method: str, folder: str, options: dict[str, Any], seconds: float) -> Record:
    """The record of one method: what `job.py` found, or why it found nothing, "failed".

    seconds : of processor time at most
    """
    peer = JOBS[job][method].peer
    record: Record = {"peer": peer, "method": method}
    try:
        python = python_of(peer)
    except RuntimeError as error:
        return record | {"failed": str(error)}
    words = [job, method, folder, json.dumps(options)]
    command = [str(python), str(Path(__file__).parent / "job.py"), *words]
    return record | watched(command, peer, seconds, LIMIT[job])


def surroundings(peer: str) -> dict[str, str]:
    """One thread for all; this checkout for distrf alone."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    kept |= {f"{name}_NUM_THREADS": "1" for name in THREADS} | {"DASK_NUM_WORKERS": "1"}
    return kept | ({"PYTHONPATH": str(ROOT)} if peer == "distrf" else {})


def watched(command: list[str], peer: str, seconds: float, limit: int) -> Record:
    """Run a command; returns the JSON of its last line, or {"failed": why}."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            command, stdout=out, stderr=err, env=surroundings(peer), start_new_session=True
        )
        try:
            stopped = wait(process, seconds, limit)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0), err.seek(0)
        printed, said = out.read().strip().splitlines(), err.read().strip().splitlines()
    if stopped:
        return {"failed": stopped}
    if process.returncode:
        return {"failed": (said or [f"exit code {process.returncode}"])[-1][:300]}
    if not printed:
        return {"failed": "it ended and printed nothing"}
    return json.loads(printed[-1])


def wait(process: subprocess.Popen[Any], seconds: float, limit: int) -> str | None:
    """Wait for the end; returns why the process must not go on, where it must not."""
    looked_at = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            family = [looked_at, *looked_at.children(recursive=True)]
            resident = sum(p.memory_info().rss for p in family)
            spent = sum(p.cpu_times().user + p.cpu_times().system for p in family)
        except psutil.Error:  # it ended meanwhile
            time.sleep(LOOK)
            continue
        if resident > limit:
            return f"out of memory at {limit / 2**30:.0f} GiB"
        if spent > seconds:
            return f"not done after {seconds:.0f} processor seconds"
        time.sleep(LOOK)
    return None


# ---- what is measured ---------------------------------------------------------------------------------


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


def over_seeds(name: str, method: str, folder: str, options: dict[str, Any], seeds: int) -> Record:
    """Medians of seconds and bytes, mean of the error or score; what failed once is not tried again."""
    made: list[Record] = []
    for seed in range(1 if method in EXACT else seeds):
        found = measure(name, method, folder, options | {"seed": seed}, SECONDS)
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
                    yield over_seeds(name, method, folder, options, seeds) | {"n": n}


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


def tables(run: Run) -> Iterator[Record]:
    r"""8,000 rows at most of ten sets in standard units: accuracy or $R^2$ on the test rows. distrf has D = 4,096, a metric that is learned
    with 1,024 features, and two penalties; xRFM and boosting have their defaults.
    """
    rows, D = run.pick((8_000, 4096), (100, 64))
    for name in run.pick(METRIC_SETS[:10], ["array wine"]):
        p = load(name.removeprefix("array "), run.data, 0).first(rows, TEST_ROWS)
        scaler = StandardScaler().fit(p.X)
        classes = np.unique(p.y)  # xRFM takes labels 0, 1, ...
        y, t = (np.searchsorted(classes, v) if p.labels else (v - p.y.mean()) / p.y.std() for v in (p.y, p.t))
        X, T = (scaler.transform(A).astype(np.float32) for A in (p.X, p.T))
        with folder_of({"X": X, "y": y, "T": T, "t": t}) as folder:
            for method, how in JOBS["tables"].items():
                if not run.has(set=name, method=method) and (not run.small or how.peer in HERE):
                    given = {"D": D, "labels": p.labels}
                    yield over_seeds("tables", method, folder, given, 1) | {"set": name}


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


def spent(r: Record) -> float:
    return r["fit"] + r["predict"]


def with_costs(r: Record) -> str:
    return result(r) if "failed" in r else f"{result(r)} ({spent(r):.1f} s, {r['peak'] / 2**20:,.0f} MiB)"


def show_tables(records: list[Record]) -> str:
    """A row for each set; below it on how many distrf is level or ahead, and its share of the processor time of each peer."""
    shown = grid("{set}", "{method}", with_costs, "set")(records)
    made = {
        method: {r["set"]: r for r in where(records, method=method) if "score" in r}
        for method in JOBS["tables"]
    }
    ours, *peers = made
    for peer in peers:
        pairs = [(made[ours][name], r) for name, r in made[peer].items()]
        if pairs:
            ahead = sum(mine["score"] > other["score"] - 0.005 for mine, other in pairs)
            share = sum(spent(mine) for mine, _ in pairs) / sum(spent(other) for _, other in pairs)
            shown += f"\n\nBeside {peer}: ahead or less than half a point behind on {ahead} of {len(pairs)}, "
            shown += f"with {100 * share:,.0f} % of its processor time."
    return shown


PARTS = (
    Part(features, SHOWN, data=False, resumes=True),
    Part(ridge, SHOWN, data=False, resumes=True),
    Part(tables, show_tables, resumes=True),
)
