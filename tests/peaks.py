"""A job on a fresh cluster of real worker processes, and the largest size each of them had."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import dask.array as da
import numpy as np

from distrf.blocks.writing import write_rows

MIB = 2**20


def _rows(d, block_info=None):
    first, last = block_info[None]["array-location"][0]
    return np.random.default_rng(first).normal(size=(last - first, d)).astype(np.float32)


def _labels(block_info=None):
    first, last = block_info[None]["array-location"][0]
    return (np.arange(first, last) % 10).astype(np.int32)


def make_store(path, rows, d, block_rows):
    """Normal rows with ten classes in float32; made block by block."""
    chunks = tuple(min(block_rows, rows - a) for a in range(0, rows, block_rows))
    X = da.map_blocks(_rows, d, chunks=(chunks, (d,)), dtype=np.float32, meta=np.empty((0, 0), np.float32))
    y = da.map_blocks(_labels, chunks=(chunks,), dtype=np.int32, meta=np.empty(0, np.int32))
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


def peak(result):
    """Largest worker of a finished command, in bytes."""
    return max(result["peak_bytes_per_worker"].values())
