"""Fourier maps beside scikit-learn's RBFSampler."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler

from benchmarks.benchmark import Part, Record, Run, grid, lines
from benchmarks.clocks import in_turn
from distrf.kernels import Gaussian
from distrf.maps import FourierMap
from distrf.projections import auto_projection

PROJECTIONS = ("dense", "circulant", "alternating_circulant", "fastfood", "structured_orthogonal")
DTYPES = ("float32", "float64")


def rows_of(n: int, d: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d)).astype(dtype)


def map_of(d: int, D: int, projection: str) -> FourierMap:
    return FourierMap(d, D, Gaussian(), float(np.sqrt(d)), projection, "offset", 1)


def write(n: int, D: int, dtype: str) -> None:
    """Write a result. A virtual machine takes back memory that idles through a long product; who allocates next would pay for it."""
    np.empty((n, D), dtype).fill(1.0)


def wide(run: Run) -> Iterator[Record]:
    """Milliseconds of processor time for 2,000 rows and D = 8,192 features with offsets, medians of runs that take turns, and how many
    times as fast as RBFSampler that is.
    """
    n, D = run.pick((2000, 8192), (50, 256))
    for dtype in DTYPES:
        for d in run.pick((512, 1024, 4096), (64, 128)):
            X = rows_of(n, d, dtype)
            peer = RBFSampler(gamma=0.5 / d, n_components=D, random_state=0).fit(X)
            calls: dict[str, Any] = {"RBFSampler": partial(peer.transform, X)}
            calls |= {name: partial(map_of(d, D, name), X) for name in PROJECTIONS}
            seconds = in_turn(calls, run.pick(5, 1), partial(write, n, D, dtype))
            for name in PROJECTIONS:
                about = {"n": n, "D": D, "d": d, "dtype": dtype, "projection": name}
                yield about | {"map": seconds[name], "RBFSampler": seconds["RBFSampler"]}


def narrow(run: Run) -> Iterator[Record]:
    """Billions of features a second of whole maps, offsets, where dense weights may be as fast as structured ones, and what `auto` takes:
    quasi-random weights are multiplied as dense ones are. Shown are those of float32.
    """
    for dtype in DTYPES:
        for D in run.pick((8192, 512), (64,)):
            for d in run.pick((16, 32, 64, 128, 256, 512), (16, 32)):
                n = run.pick(2000 if D == 8192 else 16_000, 50)
                calls = {name: partial(map_of(d, D, name), rows_of(n, d, dtype)) for name in PROJECTIONS}
                seconds = in_turn(calls, run.pick(7, 1), partial(write, n, D, dtype))
                chosen = auto_projection(Gaussian(), d, D).replace("quasi", "dense")
                yield {"n": n, "D": D, "d": d, "dtype": dtype, "auto": chosen, **seconds}


PARTS = (
    Part(wide, grid(
        lambda r: f"{r['d']:,}, {r['dtype']}, RBFSampler {1e3 * r['RBFSampler']:.0f} ms", "{projection}",
        lambda r: f"{1e3 * r['map']:.0f} ms, **{r['RBFSampler'] / r['map']:.1f}**",
    ), data=False),
    Part(narrow, lambda records: lines({
        "D": "{D:,}", "d": "{d}", "auto": "`{auto}`",
        **{name: lambda r, name=name: f"{r['n'] * r['D'] / r[name] / 1e9:.2f}" for name in PROJECTIONS},
    })([record for record in records if record["dtype"] == "float32"]), data=False),
)  # fmt: skip
