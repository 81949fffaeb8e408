"""Mukuta, Ushiku & Harada (2018), "Alternating Circulant Random Features for Semigroup Kernels": Figure 1, Tables 2-5."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.benchmark import Part, Record, Run, grid, lines, over, pm, spread
from benchmarks.clocks import in_turn
from distrf import RandomFourierFeatures, RandomLaplaceFeatures, StreamingRidgeClassifier
from distrf.kernels import ExponentialSemigroup
from distrf.maps import LaplaceMap

MAPS = {
    "random": "dense", "altcirc, log2 d": "alternating_circulant-log2", "altcirc, 2": "alternating_circulant", "circ": "circulant",
}  # fmt: skip
FAST = ("altcirc, log2 d", "altcirc, 2")
#: Seeds of the accuracies of each set, and words of a set of counts.
SETS, WORDS = {"newsgroups20_counts": 6, "sector_counts": 10, "usps": 10}, 512
#: Table 5 of the paper: random over altcirc, log2 d, and over altcirc, 2; one row.
PAPER = {1024: (5.4, 9.4), 2048: (17.6, 40.5), 4096: (34.4, 129), 8192: (62.5, 260), 16384: (116, 588)}


def unit_sums(X: np.ndarray) -> np.ndarray:
    """Rows of sum 1, float64; a row of zeros is left as it is."""
    sums = X.sum(axis=1, keepdims=True, dtype=np.float64)
    return X / np.where(sums > 0, sums, 1.0)


def load(run: Run, name: str) -> data.Split:
    """Rows of unit l1 norm, float64: grey values, or the words that most training rows have."""
    X, y, T, t = data.split(run, name, 0.8)
    if name != "usps":
        rows = np.bincount(X.indices, minlength=X.shape[1])
        kept = np.sort(np.argsort(-rows, kind="stable")[: run.pick(WORDS, 16)])
        X, T = X[:, kept], T[:, kept]
    return unit_sums(data.dense(X)), y, unit_sums(data.dense(T)), t


def figure1(run: Run) -> Iterator[Record]:
    """Relative error of the kernel matrix of 500 rows in percent, 20 seeds."""
    for name in run.pick(SETS, ("usps", "sector_counts")):
        X, y, _, _ = load(run, name)
        X, _ = data.sample(X, y, run.pick(500, 40))
        d = X.shape[1]
        kernel = RandomLaplaceFeatures(n_components=1, random_state=0).fit(X).kernel_
        K = kernel(X)
        for times in run.pick((1, 2, 4, 8, 16), (1, 2)):
            for method, projection in MAPS.items():
                errors = []
                for seed in range(run.pick(20, 3)):
                    Z = LaplaceMap(d, times * d, kernel, projection, seed)(X)
                    errors.append(float(np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K)))
                yield {"set": name, "map": method, "d": d, "D": times * d, **spread(errors)}


def features(method: str, D: int, seed: int) -> Any:
    """The features of a method, not fitted; the parameter of the kernel by its rule."""
    if method == "gauss":
        return RandomFourierFeatures(n_components=D, projection="dense", random_state=seed, n_jobs=1)
    return RandomLaplaceFeatures(n_components=D, projection=MAPS[method], random_state=seed, n_jobs=1)


def score(Z: np.ndarray, y: np.ndarray, T: np.ndarray, t: np.ndarray) -> float:
    """Test accuracy in percent of ridge whose penalty is picked on a held-out fifth of the training rows."""
    return 100 * StreamingRidgeClassifier(cv="holdout").fit(Z, y).score(T, t)


def accuracy(run: Run) -> Iterator[Record]:
    """Tables 2 to 4 on our sets: test accuracy in percent."""
    for name, seeds in run.pick(SETS, {"usps": 2}).items():
        X, y, T, t = load(run, name)
        d = X.shape[1]
        yield {"set": name, "method": "linear", "d": d, "D": d, **spread([score(X, y, T, t)])}
        for D in [times * d for times in run.pick((1, 2, 4), (1,))]:
            for method in (*MAPS, "gauss"):
                made = (features(method, D, seed).fit(X) for seed in range(run.pick(seeds, 2)))
                scores = [score(map_.transform(X), y, map_.transform(T), t) for map_ in made]
                yield {"set": name, "method": method, "d": d, "D": D, **spread(scores)}


def table5(run: Run) -> Iterator[Record]:
    """Processor milliseconds a row, D = d, float64, one row at a time and 128 together; in brackets the paper's ratio."""
    for d in run.pick((1024, 2048, 4096, 8192, 16384), (64, 128)):
        X = np.random.default_rng(0).uniform(size=(run.pick(128, 8), d))
        kernel = ExponentialSemigroup().with_median(2 * X[:50])
        for rows in (1, len(X)):
            # Each turn makes several calls, so that caches are warm.
            yield seconds_of(X[:rows], kernel, run.pick(5, 1), run.pick(10 if rows == 1 else 1, 1))


def seconds_of(X: np.ndarray, kernel: ExponentialSemigroup, rounds: int, times: int) -> Record:
    """Processor seconds a row of each map."""
    rows, d = X.shape
    out = np.empty((rows, d))
    calls: dict[str, Callable[[], Any]] = {}
    for name in ("random", *FAST):
        map_ = LaplaceMap(d, d, kernel, MAPS[name], 0)
        calls[name] = lambda map_=map_: [map_.fill_columns(X, out, 0, d) for _ in range(times)]
    taken = in_turn(calls, rounds)
    return {"d": d, "rows": rows, **{name: value / (times * rows) for name, value in taken.items()}}


PARTS = (
    Part(figure1, grid("{set}, {map}", lambda r: f"D = {r['D'] // r['d']} d", pm(times=100))),
    Part(accuracy, grid("{set}, {method}", lambda r: f"D = {r['D'] // r['d']} d", pm())),
    Part(table5, lines({
        "d = D": "{d:,}", "rows": "{rows}",
        **{name: lambda r, name=name: f"{1e3 * r[name]:.3f}" for name in ("random", *FAST)},
        **{f"random / {name}": over("random", name, "{:.1f}", {d: of[i] for d, of in PAPER.items()}, "{:.0f}") for i, name in enumerate(FAST)},
    }), data=False),
)  # fmt: skip
