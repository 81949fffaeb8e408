"""Fourier maps beside scikit-learn's RBFSampler and beside what each cannot do without."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler

from benchmarks.benchmark import Benchmark, Part, Record, Run, markdown, where
from benchmarks.clocks import in_turn, medians
from benchmarks.speed import transforms
from benchmarks.speed.floors import cosines, floor, project, write
from benchmarks.speed.maps_claims import claims, crossover
from distrf.kernels import Gaussian
from distrf.maps import FourierMap
from distrf.projections.auto import auto_projection
from distrf.projections.cache import weight_cache

PROJECTIONS = ("dense", "circulant", "alternating_circulant", "fastfood", "structured_orthogonal")
DTYPES = ("float32", "float64")


def rows_of(n: int, d: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d)).astype(dtype)


def map_of(d: int, D: int, projection: str, phase: str = "offset") -> FourierMap:
    return FourierMap(d, D, Gaussian(), float(np.sqrt(d)), projection, phase, 1)


@contextmanager
def all_kept() -> Iterator[None]:
    """A job has one map, here several take turns: each keeps its weights in the cache, as it would alone."""
    before, weight_cache.max_bytes = weight_cache.max_bytes, max(weight_cache.max_bytes, 2**32)
    try:
        yield
    finally:
        weight_cache.max_bytes = before
        weight_cache.clear()


def size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"


# ---- Many columns -------------------------------------------------------------------------------------


def wide_of(n: int, D: int, d: int, dtype: str, rounds: int) -> Iterator[Record]:
    """A record for each projection: the map, its projection and cosines alone, and the floor of the projection."""
    X, kind = rows_of(n, d, dtype), np.dtype(dtype)
    peer = RBFSampler(gamma=0.5 / d, n_components=D, random_state=0).fit(X)
    maps = {name: map_of(d, D, name) for name in PROJECTIONS}
    writing = partial(write, n, D, kind)
    calls: dict[str, Any] = {"RBFSampler": lambda: peer.transform(X), "write": writing}
    calls["cosines"] = partial(cosines, n, D, "offset", kind)
    for name, map_ in maps.items():
        calls[f"{name} map"] = partial(map_, X)
        calls[f"{name} product"] = partial(project, map_, X)
        calls[f"{name} floor"] = floor(map_.projector, X)
    # A virtual machine takes back memory that idles through a long product; who allocates next would pay for it.
    with all_kept():
        seconds = medians(in_turn(calls, rounds, before=writing))
    common = {name: seconds[name] for name in ("RBFSampler", "write", "cosines")}
    for name, map_ in maps.items():
        own = {what: seconds[f"{name} {what}"] for what in ("map", "product", "floor")}
        kept = {
            "weights": int(map_.projector.work()[1] * kind.itemsize / 4),
            "pickle": len(pickle.dumps(map_)),
        }
        yield {"n": n, "D": D, "d": d, "dtype": dtype, "projection": name, **own, **common, **kept}


def wide(run: Run) -> Iterator[Record]:
    for dtype in DTYPES:
        for d in run.pick((512, 1024, 4096), (64, 128)):
            yield from wide_of(run.pick(2000, 50), run.pick(8192, 256), d, dtype, run.pick(5, 1))


def show_wide(records: list[Record]) -> str:
    first = records[0]
    blocks = [
        f"Milliseconds of processor time for {first['n']:,} rows and D = {first['D']:,} features with offsets, medians of runs "
        "that take turns. A *map* is a projection and the cosines, and writes its result once. *Product* is the "
        "projection alone, its column blocks dropped; *floor* is what it cannot do without: the bare matrix product, or the bare "
        "transforms, of numbers in the cache."
    ]
    for dtype, d in dict.fromkeys((r["dtype"], r["d"]) for r in records):
        here = where(records, dtype=dtype, d=d)
        lines = [
            [
                r["projection"],
                *(f"{1e3 * r[what]:.0f}" for what in ("map", "product", "floor")),
                f"{r['product'] / r['floor']:.2f}",
                f"**{r['RBFSampler'] / r['map']:.1f}**",
                size(r["weights"]),
                f"{r['pickle']} B",
            ]
            for r in here
        ]
        head = here[0]
        blocks.append(
            f"d = {d:,}, {dtype}: RBFSampler {1e3 * head['RBFSampler']:.0f} ms, the cosines {1e3 * head['cosines']:.0f} ms, "
            f"writing {1e3 * head['write']:.0f} ms."
        )
        blocks.append(
            markdown(
                [
                    "projection",
                    "map",
                    "product",
                    "floor",
                    "x floor",
                    "faster than RBFSampler",
                    "weights",
                    "pickled",
                ],
                lines,
            )
        )
    return "\n\n".join(blocks)


# ---- Few columns --------------------------------------------------------------------------------------


def narrow(run: Run) -> Iterator[Record]:
    """Whole maps where dense weights are as fast as structured ones."""
    for dtype in DTYPES:
        for D in run.pick((8192, 512), (64,)):
            for d in run.pick((16, 32, 64, 128, 256, 512), (16, 32)):
                n = run.pick(2000 if D == 8192 else 16_000, 50)
                X = rows_of(n, d, dtype)
                calls = {name: partial(map_of(d, D, name), X) for name in PROJECTIONS}
                writing = partial(write, n, D, np.dtype(dtype))
                with all_kept():
                    seconds = medians(in_turn(calls, run.pick(7, 1), before=writing))
                # Quasi-random weights are multiplied as dense ones are.
                chosen = auto_projection(Gaussian(), d, D).replace("quasi", "dense")
                yield {"n": n, "D": D, "d": d, "dtype": dtype, "auto": chosen, **seconds}


def show_narrow(records: list[Record]) -> str:
    """The columns from which on a projection is faster than dense weights."""
    sizes = list(dict.fromkeys((r["D"], r["dtype"]) for r in records))
    lines = [
        [f"`{name}`", *(crossover(where(records, D=D, dtype=dtype), name) for D, dtype in sizes)]
        for name in PROJECTIONS[1:]
    ]
    text = "The number of columns from which on a whole map is faster than that of dense weights (offsets, one thread)."
    return text + "\n\n" + markdown(["", *(f"D = {D:,}, {dtype}" for D, dtype in sizes)], lines)


def draw_narrow(records: list[Record], figure: Any) -> None:
    from matplotlib.ticker import NullLocator

    sizes = list(dict.fromkeys((r["D"], r["dtype"]) for r in records))
    figure.set_size_inches(3.5 * len(sizes), 3.4)
    axes = np.atleast_1d(figure.subplots(1, len(sizes), sharey=True))
    for ax, (D, dtype) in zip(axes, sizes, strict=True):
        here = where(records, D=D, dtype=dtype)
        for name in PROJECTIONS:
            rate = [r["n"] * D / r[name] / 1e9 for r in here]
            ax.plot([r["d"] for r in here], rate, marker="o", markersize=3, label=name)
        ax.set(xscale="log", yscale="log", xlabel="columns d", title=f"D = {D:,}, {dtype}")
        columns = [r["d"] for r in here]
        ax.set_xticks(columns, [str(d) for d in columns], fontsize=8)
        ax.xaxis.set_minor_locator(NullLocator())
    axes[0].set_ylabel("billions of features a second")
    axes[-1].legend(fontsize=7)


ABOUT = """
[Fourier maps](../methods/fourier.md) with every [structured projection](../methods/projections.md), on one thread. Times are
processor seconds. The peer is scikit-learn's `RBFSampler`, which multiplies by a dense matrix and takes NumPy's cosines, of the same
dtype. The floors say how much faster a map could become without another algorithm.
"""

BENCHMARK = Benchmark(
    "speed", "Speed of maps", ABOUT,
    (
        Part("wide", wide, show_wide, data=False, by_processor=True),
        Part("narrow", narrow, show_narrow, draw_narrow, data=False),
        Part("hadamard", transforms.measure, transforms.show, data=False),
        Part("fft", transforms.measure_fft, transforms.show_fft, data=False),
    ),
    claims,
)  # fmt: skip
