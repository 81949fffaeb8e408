"""A pass over random features on a Dask worker, beside the bare loop over blocks.

Everything computes the column sums of the features: the map and one addition for each feature, so nothing hides what Dask costs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from threadpoolctl import threadpool_limits

from benchmarks.benchmark import Record, Run, markdown
from benchmarks.clocks import medians
from benchmarks.workers import connected, measured
from distrf import RandomFourierFeatures, open_rows, write_rows
from distrf.execution.passes import run_pass
from distrf.maps import FourierMap


@dataclass(frozen=True)
class ColumnSums:
    """The sum of every column in float64."""

    width: int

    @property
    def nbytes(self) -> int:
        return 8 * self.width

    @property
    def flops_per_row(self) -> float:
        return 100.0 * self.width

    def initial(self) -> np.ndarray:
        return np.zeros(self.width)

    def update(self, state: np.ndarray, first_row: int, features: np.ndarray) -> np.ndarray:
        state += features.sum(axis=0, dtype=features.dtype)
        return state

    def combine(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return left + right


def bare_loop(map_: FourierMap, store: str, block: int) -> np.ndarray:
    """Read, map, add; one thread."""
    rows: Any = zarr.open_group(store, mode="r")["X"]
    sums = ColumnSums(map_.n_components)
    state = sums.initial()
    with threadpool_limits(1):
        for first in range(0, rows.shape[0], block):
            state = sums.update(state, first, map_(np.asarray(rows[first : first + block])))
    return state


def overhead(run: Run) -> Iterator[Record]:
    """Both in turn; the first round warms up."""
    n, d, D = run.pick((50_000, 512, 8192), (500, 16, 64))
    with tempfile.TemporaryDirectory() as folder, connected(1, run.small) as client:
        store = str(Path(folder) / "rows.zarr")
        X = np.random.default_rng(1).normal(size=(n, d)).astype(np.float32)
        write_rows(da.from_array(X, chunks=(4096, -1)), store)
        for projection in ("circulant", "dense"):
            map_ = RandomFourierFeatures(
                length_scale=d**0.5, n_components=D, projection=projection, random_state=7, n_jobs=1
            ).fit(X[:256])
            features = map_.transform(open_rows(store)[0])
            taken: dict[str, list[float]] = {"bare": [], "worker": [], "client": []}
            for i in range(run.pick(3, 1) + 1):
                began = time.process_time()
                expected = bare_loop(map_.map_, store, features.chunks[0][0])
                bare = time.process_time() - began
                found, got = measured(client, lambda Z=features: run_pass(ColumnSums(D), [Z]))
                np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-2 * n**0.5)
                found["bare"] = bare
                for name in taken if i else ():
                    taken[name].append(found[name])
            yield {"projection": projection, "rows": n, "d": d, "D": D, **medians(taken)}


def show_overhead(records: list[Record]) -> str:
    rows = [
        [
            r["projection"], f"{r['bare']:.2f}", f"{r['worker']:.2f}", f"{r['client']:.2f}", f"{(r['worker'] + r['client']) / r['bare']:.2f}",
        ]
        for r in records
    ]  # fmt: skip
    first = records[0]
    return (
        f"Processor seconds of the features of {first['rows']:,} rows, {first['d']:,} columns, D = {first['D']:,}, and of their column sums; "
        "medians.\n\n" + markdown(["projection", "bare loop", "worker", "client", "both / bare"], rows)
    )
