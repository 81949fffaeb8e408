"""Fourier maps beside scikit-learn's RBFSampler."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline

import distrf
from benchmarks import results
from benchmarks.benchmark import Part, Record, Run, grid, lines, where
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


def pairs(run: Run) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """Ours and scikit-learn's, on drawn float32 rows: Table 1 of `scrf_2015` on fewer rows, features into a store, a subspace."""
    D = run.pick(8192, 256)
    for d in run.pick((512, 1024, 2048, 4096), (64,)):
        X = np.random.default_rng(0).uniform(size=(run.pick(2000, 50), d)).astype(np.float32)
        map_ = FourierMap(d, D, Gaussian(), float(np.sqrt(2 * d)), "circulant", "offset", 0)
        peer = RBFSampler(gamma=0.25 / d, n_components=D, random_state=0).fit(X)
        yield f"SCRF, d = {d:,}", partial(map_, X), partial(peer.transform, X)
    X = np.random.default_rng(0).normal(size=(run.pick(20_000, 200), 64)).astype(np.float32)
    ours = distrf.RandomFourierFeatures(gamma=0.01, n_components=D // 4, random_state=0).fit(X)
    peer = RBFSampler(gamma=0.01, n_components=D // 4, random_state=0).fit(X)
    yield (
        "featurize, d = 64",
        lambda: stored(lambda path: distrf.featurize(ours, X, f"{path}.zarr")),
        lambda: stored(lambda path: np.save(f"{path}.npy", peer.transform(X))),
    )
    base = distrf.RandomFourierFeatures(gamma=0.01, n_components=D // 8, random_state=0)
    finder = distrf.TEFM(base, n_components=16, solver="finder", n_iter=2, random_state=0)
    sampler = RBFSampler(gamma=0.01, n_components=D // 8, random_state=0)
    svd = make_pipeline(sampler, TruncatedSVD(16, n_iter=2, random_state=0))
    yield "TEFM, 16 directions", partial(finder.fit, X), partial(svd.fit, X)


def stored(call: Callable[[str], Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        call(f"{folder}/made")


def guard(run: Run) -> Iterator[Record]:
    """How many times as fast as scikit-learn, beside commit aea275b (of one kind of processor): least processor seconds of runs that take
    turns. A ratio is to be at least .9 of what it was.
    """
    for what, ours, theirs in pairs(run):
        if not run.has(what=what):
            yield {"what": what, **in_turn({"ours": ours, "theirs": theirs}, run.pick(5, 1), of=min)}


def was(r: Record) -> str:
    """The ratio of the frozen run."""
    frozen = where(results.read(results.FOLDER / "frozen.json")["parts"]["speed"]["records"], what=r["what"])
    return f"{frozen[0]['theirs'] / frozen[0]['ours']:.2f}" if frozen else ""


PARTS = (
    Part(wide, grid(
        lambda r: f"{r['d']:,}, {r['dtype']}, RBFSampler {1e3 * r['RBFSampler']:.0f} ms", "{projection}",
        lambda r: f"{1e3 * r['map']:.0f} ms, **{r['RBFSampler'] / r['map']:.1f}**",
    ), data=False),
    Part(narrow, lambda records: lines({
        "D": "{D:,}", "d": "{d}", "auto": "`{auto}`",
        **{name: lambda r, name=name: f"{r['n'] * r['D'] / r[name] / 1e9:.2f}" for name in PROJECTIONS},
    })([record for record in records if record["dtype"] == "float32"]), data=False),
    Part(guard, lines({"": "{what}", "aea275b": was, "now": lambda r: f"{r['theirs'] / r['ours']:.2f}"}), data=False, resumes=True),
)  # fmt: skip
