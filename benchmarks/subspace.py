"""Subspaces of random features: residuals, sketches, solvers, passes, and a million features."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from benchmarks import data
from benchmarks.benchmark import Part, Record, Run, grid, lines
from benchmarks.clocks import in_turn
from benchmarks.peers.job import peak
from benchmarks.workers import connected
from distrf import RandomFourierFeatures
from distrf.execution.memory import PROCESS_BYTES, PassMemory
from distrf.execution.workers import peak_memory
from distrf.maps.tiles import FeatureTiles
from distrf.projections.base import cached_bytes
from distrf.subspace import RangeFinder, Search, subspace_costs


def rows_of(run: Run, name: str, n: int) -> np.ndarray:
    """float32 rows: grey values to [0, 1], other columns in standard units; over and over where a set has fewer than n."""
    X, y, *_ = data.raw(run, name)
    X = data.dense(data.sample(X, y, n)[0])
    X = (data.unit_range if name in ("mnist", "usps") else data.standard)(X, X)[0]
    return np.concatenate([X] * -(-n // len(X)))[:n]


def base_of(X: np.ndarray, D: int) -> Any:
    return RandomFourierFeatures(n_components=D, random_state=0).fit(X[:5000]).map_


def finder(F: np.ndarray, X: np.ndarray, base: Any, wide: int, q: int, dtype: Any) -> np.ndarray:
    return RangeFinder(wide, n_iter=q, solver="finder").find(X.astype(dtype), base).basis


def svd_compressed(F: np.ndarray, X: np.ndarray, base: Any, wide: int, q: int, dtype: Any) -> np.ndarray:
    """By Dask, with its default iteration."""
    lazy = da.from_array(F.astype(dtype), chunks=(-(-len(F) // 8), F.shape[1]))
    return da.linalg.svd_compressed(lazy, wide, n_power_iter=q, seed=0)[2].compute().T


def residual(run: Run) -> Iterator[Record]:
    r"""Residual $|F - FQQ^\top|$ over the least that $l$ directions leave, 8,000 rows, $D = 2,048$; $q$ is `n_iter`, or `n_power_iter` of
    `dask.array.linalg.svd_compressed`. float32, in brackets float64.
    """
    n, D = run.pick((8000, 2048), (120, 32))
    for name in run.pick(("mnist", "cpu_act"), ("cpu_act",)):
        X = rows_of(run, name, n)
        base = base_of(X, D)
        F = base(X.astype(np.float64))
        squares = np.maximum(np.linalg.eigvalsh(F.T @ F)[::-1], 0)
        for wide in run.pick((64, 256), (4,)):
            for method, q in [*((finder, q) for q in (0, 1, 2)), *((svd_compressed, q) for q in (0, 2, 5))]:
                found = {}
                for dtype in ("float32", "float64"):
                    Q = np.linalg.qr(method(F, X, base, wide, q, dtype).astype(np.float64))[0]
                    found[dtype] = float(np.linalg.norm(F - (F @ Q) @ Q.T) / np.sqrt(squares[wide:].sum()))
                yield {"set": name, "rows": n, "D": D, "l": wide, "method": method.__name__, "q": q, **found}


def solvers(run: Run) -> Iterator[Record]:
    """Processor seconds of a fit on 8,000 rows of mnist, `n_iter=1`; medians of runs that take turns; and what "auto" takes."""
    X = rows_of(run, "mnist", run.pick(8000, 100))
    for D in run.pick((1024, 2048), (64,)):
        map_ = base_of(X, D)
        for wide in (D // 16, D // 8, D // 2):
            calls = {s: partial(RangeFinder(wide, solver=s).find, X, map_) for s in ("finder", "gram")}
            taken, chosen = in_turn(calls, run.pick(2, 1)), RangeFinder(wide).find(X, map_)
            yield {"D": D, "l": wide, "rows": len(X), **taken, "auto": chosen.solver, "reason": chosen.reason}


def million(run: Run) -> Iterator[Record]:
    """$D$ = 1,000,000 and $l$ = 256, 320 rows of usps, float32, `srht`, values from a sample, one worker of one thread, which shares one
    core with the client: highest memory so far and planned memory in GiB, wall seconds.
    """
    X, (D, wide) = rows_of(run, "usps", run.pick(320, 64)), run.pick((1_000_000, 256), (256, 8))
    map_ = RandomFourierFeatures(n_components=D, random_state=0, length_scale=5.0).fit(X).map_
    source = FeatureTiles(map_, D)
    cached = cached_bytes(map_.work()[1], X.itemsize)
    with connected(1, run.small, "6GiB") as client:
        lazy = da.from_array(X, chunks=(len(X), X.shape[1]))
        for q in (0, 1):
            started = time.perf_counter()
            how = RangeFinder(wide, n_iter=q, sketch="srht", solver="finder")
            passes = how.find(lazy, map_).passes
            seconds = time.perf_counter() - started
            costs = subspace_costs("finder", Search(len(X), source, wide + 10, X.itemsize, q))
            reduction, held = costs.reduction, cached + costs.learned_bytes
            planned = PassMemory(X.nbytes, reduction.scratch_bytes, reduction.nbytes, held).peak
            sizes = [max(peak_memory(client).values()), planned, peak(), costs.client_bytes + PROCESS_BYTES]
            names = ("worker GiB", "worker planned", "client GiB", "client planned")
            found = dict(zip(names, (size / 2**30 for size in sizes), strict=True))
            yield {"D": D, "l": wide, "rows": len(X), "q": q, "seconds": seconds, "passes": passes, **found}


PARTS = (
    Part(residual, grid("{set}, l = {l}", "{method}, q = {q}", "{float32:.3f} ({float64:.3f})")),
    Part(solvers, lines({
        "D": "{D:,}", "l": "{l}", "finder": "{finder:.2f}", "gram": "{gram:.2f}", "auto takes": "{auto}", "its reason": "{reason}",
    })),
    Part(million, lines({
        "": "`n_iter={q}`", "passes": "{passes}", "worker": "{worker GiB:.1f}", "planned": "{worker planned:.1f}",
        "client": "{client GiB:.1f}", "client planned": "{client planned:.1f}", "seconds": "{seconds:.0f}",
    })),
)  # fmt: skip
