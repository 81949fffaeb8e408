"""A job on a fresh cluster of real worker processes, and the largest size each of them had."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import dask.array as da
import numpy as np

from distrf.execution.writing import write_rows

MIB = 2**20


def traced(work):
    """What some work returns, the most bytes that it allocated in this process, and those that are left with its result."""
    tracemalloc.start()
    try:
        result = work()
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return result, peak, left


def _rows(d, block_info=None):
    first, last = block_info[None]["array-location"][0]
    return np.random.default_rng(first).normal(size=(last - first, d)).astype(np.float32)


def _labels(X):
    """Ten classes that Gaussian features tell apart and a linear model does not: the same choices for any rows."""
    distance = np.searchsorted([0.0642, 0.275, 0.708, 1.642], X[:, 0] ** 2)  # quantiles of chi-squared
    return (distance + 5 * (X[:, 1] * X[:, 2] > 0)).astype(np.int32)


def make_store(path, rows, d, block_rows):
    """Normal rows with ten classes in float32; made block by block."""
    chunks = tuple(min(block_rows, rows - a) for a in range(0, rows, block_rows))
    X = da.map_blocks(_rows, d, chunks=(chunks, (d,)), dtype=np.float32, meta=np.empty((0, 0), np.float32))
    y = X.map_blocks(_labels, drop_axis=1, dtype=np.int32, meta=np.empty(0, np.int32))
    write_rows(str(path), {"X": X, "y": y}, kind="rows", spec={"rows": rows, "d": d})
    return path


def cluster_file(path, workers=1, threads=1, limit="8GiB"):
    """A spec file for a local cluster of processes."""
    arguments = {"n_workers": workers, "threads_per_worker": threads, "memory_limit": limit}
    Path(path).write_text(json.dumps({"class": "distributed.LocalCluster", "arguments": arguments}))
    return path


def distrf(*arguments):
    """The JSON that a `distrf` command prints, run in a process of its own."""
    command = [sys.executable, "-m", "distrf", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_flat(tmp_path, rows, d, options):
    """Training on ten times the rows takes at most a tenth more, and stays below the plan of both."""
    cluster = cluster_file(tmp_path / "c.json", workers=2)
    peaks = []
    for n in (rows, 10 * rows):
        store = make_store(tmp_path / f"{n}.zarr", n, d, 4096)
        done = distrf("train", store, tmp_path / f"m-{n}", *options, "--cluster", cluster)
        assert len(done["peak_bytes_per_worker"]) == 2
        planned = distrf("plan", store, *options, "--cluster", cluster)["peak_bytes_per_worker"]
        peaks.append(peak(done))
        print(f"{n} rows: peak {peaks[-1] / MIB:.0f} MiB, plan {planned / MIB:.0f} MiB")
        assert peaks[-1] <= planned
    print(f"ratio {peaks[1] / peaks[0]:.3f}")
    assert peaks[1] <= 1.1 * peaks[0]


def peak(result):
    """Largest worker of a finished command, in bytes."""
    return max(result["peak_bytes_per_worker"].values())
