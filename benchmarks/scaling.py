"""A pass over random features on one and two Dask workers, beside the bare block loop on one core.

    python benchmarks/scaling.py --projection circulant dense
    python benchmarks/scaling.py --rows 400000 -d 1024 -D 8192

Rows lie in a Zarr store. Everything computes the column sums of their features: the map and one addition for each
feature, so nothing hides what Dask costs. bare: one process and one thread that reads block after block; bare two: two
processes with half of the blocks each, what the machine's memory gives. Workers have one thread each and are warm; all run
in turn, `--repeats` times, and numbers are medians.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_limits

from distrf import RandomFourierFeatures, open_rows
from distrf.execution.passes import run_pass
from distrf.execution.write_zarr import write_rows
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


def bare_loop(map_: FourierMap, store: str, block: int, start: int = 0, end: int | None = None) -> np.ndarray:
    """Read, map, add; one thread."""
    rows = zarr.open_group(store, mode="r")["X"]
    end = rows.shape[0] if end is None else end
    fold = ColumnSums(map_.n_components)
    state = fold.initial()
    with threadpool_limits(1):
        for first in range(start, end, block):
            state = fold.update(state, first, map_(np.asarray(rows[first : min(first + block, end)])))
    return state


def bare_halves(pool: Any, map_: FourierMap, store: str, block: int, n: int) -> np.ndarray:
    """The bare loop in two processes."""
    half = n // block // 2 * block
    calls = [(map_, store, block, 0, half), (map_, store, block, half, n)]
    return sum(pool.starmap(bare_loop, calls, chunksize=1))


def dask_pass(estimator: RandomFourierFeatures, store: str) -> np.ndarray:
    features = estimator.transform(open_rows(store)[0])
    return run_pass(ColumnSums(features.shape[1]), [features])


def timed(run: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def measure(projection: str, n: int, d: int, D: int, repeats: int, store: str) -> None:
    small = np.random.default_rng(0).normal(size=(256, d)).astype(np.float32)
    estimator = RandomFourierFeatures(
        length_scale=d**0.5, n_components=D, projection=projection, random_state=7, n_jobs=1
    ).fit(small)
    block = estimator.transform(open_rows(store)[0]).chunks[0][0]
    times: dict[str, list[float]] = {"bare": [], "halves": [], "one": [], "two": []}
    with (
        get_context("spawn").Pool(2) as pool,
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as one,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as two,
        Client(one, set_as_default=False) as one_worker,
        Client(two, set_as_default=False) as two_workers,
    ):
        for repeat in range(repeats + 1):
            seconds, expected = timed(lambda: bare_loop(estimator.map_, store, block))
            measured = {"bare": seconds}
            measured["halves"], _ = timed(lambda: bare_halves(pool, estimator.map_, store, block, n))
            for name, client in (("one", one_worker), ("two", two_workers)):
                with client.as_current():
                    measured[name], got = timed(lambda: dask_pass(estimator, store))
                np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-2 * n**0.5)
            if repeat:  # the first one warms up
                for name, seconds in measured.items():
                    times[name].append(seconds)
    bare, halves, one_, two_ = (statistics.median(times[name]) for name in ("bare", "halves", "one", "two"))
    print(
        f"{projection:22s} n {n:,} d {d:,} D {D:,}, blocks of {block:,} rows: bare {bare:.2f} s, bare two "
        f"{halves:.2f} s, one worker {one_:.2f} s, two {two_:.2f} s; one / bare {one_ / bare:.2f}, two / bare two "
        f"{two_ / halves:.2f}, one / two {one_ / two_:.2f}, bare / bare two {bare / halves:.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("-d", type=int, default=512)
    parser.add_argument("-D", type=int, default=8192)
    parser.add_argument("--projection", nargs="+", default=["circulant", "dense"])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "rows.zarr")
        rng = np.random.default_rng(1)
        X = rng.normal(size=(args.rows, args.d)).astype(np.float32)
        write_rows(store, {"X": da.from_array(X, chunks=(4096, -1))}, kind="rows", spec={"rows": "normal"})
        del X
        for projection in args.projection:
            measure(projection, args.rows, args.d, args.D, args.repeats, store)


if __name__ == "__main__":
    main()
