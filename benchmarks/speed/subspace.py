"""Subspaces of random features: residuals, sketches, solvers, passes, and a million features."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from benchmarks import data
from benchmarks.benchmark import Benchmark, Part, Record, Run, markdown
from benchmarks.clocks import in_turn, medians
from benchmarks.peers.job import peak
from benchmarks.residuals import energies, residual_over_least
from benchmarks.speed.subspace_claims import claims
from benchmarks.workers import connected
from distrf import RandomFourierFeatures
from distrf.execution.memory import PROCESS_BYTES, PassMemory
from distrf.execution.passes import run_pass
from distrf.execution.workers import peak_memory
from distrf.maps.tiles import FeatureTiles
from distrf.projections.cache import CACHE_BYTES
from distrf.subspace import RangeFinder, Search, subspace_costs
from distrf.subspace.choice import Solver
from distrf.subspace.reductions import ProductReduction, SketchReduction
from distrf.subspace.sketches import SKETCHES, make_sketch

#: Rows of a block of the passes.
BLOCK = 2048


def rows_of(run: Run, name: str, n: int) -> np.ndarray:
    """float32 rows: grey values to [0, 1], other columns in standard units; over and over where a set has fewer than n."""
    X, y, *_ = data.raw(run, name)
    X = data.dense(data.sample(X, y, n)[0])
    X = (data.unit_range if name in ("mnist", "usps") else data.standard)(X, X)[0]
    return np.concatenate([X] * -(-n // len(X)))[:n]


def base_of(X: np.ndarray, D: int) -> Any:
    return RandomFourierFeatures(n_components=D, random_state=0).fit(X[:5000]).map_


# ---- residual over the least --------------------------------------------------------------------------


def residual(run: Run) -> Iterator[Record]:
    """|F - F Q Q'| over the least, of our finder and of dask.array.linalg.svd_compressed, in float32 and float64."""
    n, D = run.pick(8000, 120), run.pick(2048, 32)
    for name in run.pick(("mnist", "cpu_act"), ("cpu_act",)):
        X = rows_of(run, name, n)
        base = base_of(X, D)
        F = base(X.astype(np.float64))
        squares = energies(F)
        for wide in run.pick((64, 256), (4,)):
            for q in (0, 1, 2):
                found = {
                    dtype.__name__: residual_over_least(
                        F, finder_basis(X.astype(dtype), base, wide, q), squares
                    )
                    for dtype in (np.float32, np.float64)
                }
                yield {"set": name, "rows": n, "D": D, "l": wide, "method": "finder", "q": q, **found}
            for q in (0, 2, 5):
                found = {
                    dtype.__name__: residual_over_least(F, compressed_basis(F.astype(dtype), wide, q), squares)
                    for dtype in (np.float32, np.float64)
                }
                yield {"set": name, "rows": n, "D": D, "l": wide, "method": "svd_compressed", "q": q, **found}


def finder_basis(X: np.ndarray, base: Any, wide: int, q: int) -> np.ndarray:
    return RangeFinder(wide, n_iter=q, solver="finder").find(X, base).basis


def compressed_basis(F: np.ndarray, wide: int, q: int) -> np.ndarray:
    """By Dask, with its default iteration."""
    lazy = da.from_array(F, chunks=(-(-len(F) // 8), F.shape[1]))
    return da.linalg.svd_compressed(lazy, wide, n_power_iter=q, seed=0)[2].compute().T


def show_residual(records: list[Record]) -> str:
    rows = [
        [f"{r['set']}, l = {r['l']}", r["method"], r["q"], f"{r['float32']:.3f}", f"{r['float64']:.3f}"]
        for r in records
    ]
    first = records[0]
    return (
        f"Residual $|F - FQQ^\\top|$ over the least that $l$ directions leave, {first['rows']:,} rows, $D = {first['D']:,}$; $q$ is `n_iter`, or "
        "`n_power_iter` of `dask.array.linalg.svd_compressed`.\n\n"
        + markdown(["rows", "method", "q", "float32", "float64"], rows)
    )


# ---- sketches -----------------------------------------------------------------------------------------


def sketches(run: Run) -> Iterator[Record]:
    """Seconds of the sketch alone on ready features, and of whole fits with q = 0."""
    X, D = rows_of(run, "mnist", run.pick(8000, 100)), run.pick(4096, 64)
    map_ = base_of(X, D)
    F = map_(X)
    for wide in run.pick((64, 512), (4,)):
        calls: dict[str, Callable[[], Any]] = {}
        for name in SKETCHES:
            theta = make_sketch(name, len(F), wide + 10, 0)
            made = SketchReduction(FeatureTiles(None, D), sketch=theta, first=0, last=D)
            calls[f"{name} sketch"] = lambda r=made: r.update(r.initial(), 0, F)
            finder = RangeFinder(wide, sketch=name, n_iter=0, solver="finder", values="sample")
            calls[f"{name} fit"] = partial(finder.find, X, map_)
        yield {"D": D, "l": wide, "rows": len(F), **medians(in_turn(calls, run.pick(3, 1)))}


def show_sketches(records: list[Record]) -> str:
    rows = [
        [r["l"], *(f"{r[f'{name} {what}']:.2f}" for what in ("sketch", "fit") for name in SKETCHES)]
        for r in records
    ]
    head = ["l", *(f"{name}, {what}" for what in ("sketch", "fit") for name in SKETCHES)]
    first = records[0]
    return (
        f"Processor seconds of {first['rows']:,} rows of mnist, $D = {first['D']:,}$: of $F^\\top\\Theta$ with $l + 10$ columns on ready "
        "features, and of a whole fit with `n_iter=0` and values from a sample; medians of runs that take turns.\n\n"
        + markdown(head, rows)
    )


# ---- solvers ------------------------------------------------------------------------------------------


def solvers(run: Run) -> Iterator[Record]:
    """Seconds of finder (q = 1) and Gram matrix, and what "auto" takes."""
    X = rows_of(run, "mnist", run.pick(8000, 100))
    for D in run.pick((1024, 2048), (64,)):
        map_ = base_of(X, D)
        for wide in (D // 16, D // 8, D // 2):
            calls = {s: partial(RangeFinder(wide, solver=s).find, X, map_) for s in ("finder", "gram")}
            taken = medians(in_turn(calls, run.pick(2, 1)))
            chosen = RangeFinder(wide).find(X, map_)
            yield {"D": D, "l": wide, "rows": len(X), **taken, "auto": chosen.solver, "reason": chosen.reason}


def show_solvers(records: list[Record]) -> str:
    rows = [
        [f"{r['D']:,}", r["l"], f"{r['finder']:.2f}", f"{r['gram']:.2f}", r["auto"], r["reason"]]
        for r in records
    ]
    return (
        f"Processor seconds of a fit on {records[0]['rows']:,} rows of mnist, `n_iter=1`; medians of runs that take turns.\n\n"
        + markdown(["D", "l", "finder", "gram", "auto takes", "its reason"], rows)
    )


# ---- one pass -----------------------------------------------------------------------------------------


def product(run: Run) -> Iterator[Record]:
    """One pass F'(F Q) beside the bare loop: features and two products, summed in float64."""
    X = rows_of(run, "mnist", run.pick(8192, 100))
    D, wide = run.pick(8192, 64), run.pick(512, 8)
    map_, Q = base_of(X, D), orthonormal(D, wide)
    lazy = da.from_array(X, chunks=(BLOCK, X.shape[1]))
    made: dict[str, np.ndarray] = {}

    def bare() -> None:
        W = np.zeros((D, wide))
        for a in range(0, len(X), BLOCK):
            F = map_(X[a : a + BLOCK])
            W += F.T @ (F @ Q)
        made["bare"] = W

    def by_pass() -> None:
        made["pass"] = run_pass(ProductReduction(FeatureTiles(map_, D), Q, wide, 0, D), [lazy])

    taken = medians(in_turn({"bare": bare, "pass": by_pass}, run.pick(3, 1)))
    gap = float(abs(made["pass"] - made["bare"]).max() / abs(made["bare"]).max())
    yield {"rows": len(X), "D": D, "l": wide, **taken, "gap": gap}


def orthonormal(D: int, wide: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(0).normal(size=(D, wide)))[0].astype(np.float32)


def show_product(records: list[Record]) -> str:
    rows = [
        [f"{r['rows']:,}", f"{r['D']:,}", r["l"], f"{r['bare']:.2f}", f"{r['pass']:.2f}",
         f"{r['pass'] / max(r['bare'], 1e-9):.2f}", f"{r['gap']:.0e}"]
        for r in records
    ]  # fmt: skip
    return (
        "Processor seconds of $F^\\top(FQ)$, float32: a loop of NumPy over blocks of the map, and a pass over a Dask array.\n\n"
        + markdown(["rows", "D", "l", "bare loop", "pass", "pass / loop", "largest difference"], rows)
    )


# ---- workers ------------------------------------------------------------------------------------------


def workers(run: Run) -> Iterator[Record]:
    """Wall seconds of one pass F'(F Q) on one worker and on two, in turns."""
    X = rows_of(run, "mnist", run.pick(20_000, 100))
    D, wide = run.pick(8192, 64), run.pick(512, 8)
    reduction = ProductReduction(FeatureTiles(base_of(X, D), D), orthonormal(D, wide), wide, 0, D)
    times: dict[int, list[float]] = {1: [], 2: []}
    made: dict[int, np.ndarray] = {}
    step = run.pick(BLOCK, 32)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", X)
        chunks = tuple(min(step, len(X) - a) for a in range(0, len(X), step))
        lazy = da.map_blocks(
            read_rows, f"{folder}/rows.npy", step, dtype=X.dtype, meta=X[:0], chunks=(chunks, X.shape[1:])
        )
        for _ in range(run.pick(3, 1)):
            for count in (1, 2):
                with connected(count, run.small, "4GiB"):
                    run_pass(reduction, [lazy[: 2 * step * count]])  # compiles, and makes weights
                    started = time.perf_counter()
                    made[count] = run_pass(reduction, [lazy])
                    times[count].append(time.perf_counter() - started)
    one, two = (float(np.median(times[count])) for count in (1, 2))
    same = bool((made[1] == made[2]).all())
    cores = len(os.sched_getaffinity(0))
    yield {"rows": len(X), "D": D, "l": wide, "one": one, "two": two, "cores": cores, "same bits": same}


def read_rows(path: str, step: int, block_info: Any = None) -> np.ndarray:
    first = block_info[None]["chunk-location"][0] * step
    return np.array(np.load(path, mmap_mode="r")[first : first + step])


def show_workers(records: list[Record]) -> str:
    rows = [
        [f"{r['rows']:,}", f"{r['D']:,}", r["l"], r["cores"], f"{r['one']:.2f}", f"{r['two']:.2f}",
         f"{r['one'] / r['two']:.2f}", "yes" if r["same bits"] else "no"]
        for r in records
    ]  # fmt: skip
    return "Wall seconds of one pass $F^\\top(FQ)$.\n\n" + markdown(
        ["rows", "D", "l", "cores", "one worker", "two workers", "speed-up", "same bits"], rows
    )


# ---- a million features -------------------------------------------------------------------------------


def million(run: Run) -> Iterator[Record]:
    """D = 1,000,000: planned and measured peaks of the worker and of the client."""
    X = rows_of(run, "usps", run.pick(320, 64))
    D, wide = run.pick(1_000_000, 256), run.pick(256, 8)
    map_ = RandomFourierFeatures(n_components=D, random_state=0, length_scale=5.0).fit(X).map_
    source, finder = FeatureTiles(map_, D), Solver("finder", "asked for")
    with connected(1, run.small, "6GiB") as client:
        lazy = da.from_array(X, chunks=(len(X), X.shape[1]))
        for q in (0, 1):
            started = time.perf_counter()
            found = RangeFinder(wide, n_iter=q, values="sample", sketch="srht", solver="finder").find(
                lazy, map_
            )
            seconds = time.perf_counter() - started
            search = Search(len(X), source, wide + 10, X.itemsize, "srht", q, False)
            costs = subspace_costs(finder, search)
            cached = int(min(map_.work()[1] * X.itemsize / 4, CACHE_BYTES))
            held = cached + costs.learned_bytes
            plan = PassMemory(
                len(X) * X.itemsize * X.shape[1], costs.reduction.scratch_bytes, costs.reduction.nbytes, held
            )
            gap = float(abs(found.basis.T @ found.basis - np.eye(wide)).max())
            yield {
                "D": D, "l": wide, "rows": len(X), "q": q, "seconds": seconds, "passes": found.passes,
                "worker GiB": max(peak_memory(client).values()) / 2**30, "worker planned": plan.peak / 2**30,
                "client GiB": peak() / 2**30, "client planned": (costs.client_bytes + PROCESS_BYTES) / 2**30,
                "residual": found.residual.value, "orthogonality": gap,
            }  # fmt: skip
            del found  # the next one is not held beside it


def show_million(records: list[Record]) -> str:
    rows = [
        [f"`n_iter={r['q']}`", r["passes"], f"{r['worker GiB']:.1f}", f"{r['worker planned']:.1f}",
         f"{r['client GiB']:.1f}", f"{r['client planned']:.1f}", f"{r['seconds']:.0f}"]
        for r in records
    ]  # fmt: skip
    first = records[0]
    return (
        f"$D$ = {first['D']:,} and $l$ = {first['l']}, {first['rows']} rows of usps, float32, `srht`, values from a sample, one worker of one "
        "thread, which shares one core with the client: highest memory so far and planned memory in GiB, wall seconds.\n\n"
        + markdown(["", "passes", "worker", "planned", "client", "planned", "seconds"], rows)
    )


ABOUT = """
The range finder behind [TEFM](../methods/tefm.md), and what it is built from: how near it comes to the best subspace, what each
sketch and solver costs, what a pass adds to its bare arithmetic, and whether a million features fit. The measurements of its
paper are on [their own page](tefm_2016.md).
"""

BENCHMARK = Benchmark(
    "subspace", "Subspaces of features", ABOUT,
    (
        Part("residual", residual, show_residual),
        Part("sketches", sketches, show_sketches),
        Part("solvers", solvers, show_solvers),
        Part("product", product, show_product),
        Part("workers", workers, show_workers),
        Part("million", million, show_million),
    ),
    claims,
)  # fmt: skip
