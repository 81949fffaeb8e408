"""What this machine does in a second: `Speeds` by small tasks of each kind, before any job runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np

from distrf import StreamingScaler, open_rows, write_rows
from distrf.execution.timing import Speeds, measured_gemm_rate


def least(call: Callable[[int], Any], times: int, clock: Callable[[], float] = time.process_time) -> float:
    """The least seconds of some calls, which get their number; the first does not count."""
    taken = []
    for i in range(times + 1):
        began = clock()
        call(i)
        taken.append(clock() - began)
    return min(taken[1:])


def measured_speeds(client: Any, folder: Path, mib: int = 64) -> Speeds:
    """Processor seconds of arithmetic, reading, writing and tasks; seconds on the clock of a message and of the shortest pass.

    mib : size of the rows that are written and read
    """
    rows = np.random.default_rng(0).normal(size=(mib * 2**10, 256)).astype(np.float32)
    X = da.from_array(rows, chunks=(8192, 256), name="rows-to-measure")
    with dask.config.set(scheduler="synchronous"):
        writing = least(lambda i: write_rows(X, folder / f"{i}.zarr"), 2)
        stored, _ = open_rows(folder / "0.zarr")
        reading = least(lambda i: [block.compute() for block in stored.blocks], 2)
        write_rows(X[: mib * 64, :64].rechunk((64, 64)), folder / "small.zarr")
        small, _ = open_rows(folder / "small.zarr")
        block = least(lambda i: [block.compute() for block in small.blocks], 2) / small.numblocks[0]
    count = 8 * mib
    tasks = least(lambda i: client.gather(client.map(abs, range(i * count, (i + 1) * count))), 2) / count
    state = client.submit(np.ones, mib * 2**17, pure=False)  # in float64: so many MiB
    network = least(lambda i: client.gather(state), 2, time.perf_counter)
    little = da.from_array(rows[:64], name="few-rows-to-measure")
    step = least(lambda i: StreamingScaler().fit(little), 10, time.perf_counter)
    return Speeds(
        measured_gemm_rate(time.process_time),
        rows.nbytes / reading,
        block,
        rows.nbytes / writing,
        mib * 2**20 / network,
        task=tasks,
        step=step,
    )
