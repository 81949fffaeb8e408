"""Rahimi & Recht (2007), "Random Features for Large-Scale Kernel Machines": Table 1, its features at equal time, Claim 1."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from benchmarks import data
from benchmarks.benchmark import Part, Record, Run, grid, lines, pm, spread
from benchmarks.clocks import cpu
from distrf import (
    RandomBinningFeatures,
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
)
from distrf.kernels import get_kernel
from distrf.kernels.exact import kernel_block
from distrf.maps.rules import resolve_length_scale

#: name: (its name in the paper, share of rows to train where no split is customary, the class that is told from the others,
#: {features: the paper's error, seconds, and D or P}); without a class it is a regression
SETS: dict[str, tuple[str, float, int | None, dict[str, tuple[float, float, int]]]] = {
    "cpu_act": ("CPU", 6500 / 8192, None, {"fourier": (3.6, 20, 300), "binning": (5.3, 180, 350)}),
    "census_house_16h": ("Census", 18000 / 22784, None, {"fourier": (5, 36, 500), "binning": (7.5, 1140, 30)}),
    "a9a": ("Adult", 1.0, 1, {"fourier": (14.9, 9, 500), "binning": (15.3, 90, 30)}),
    "covtype_sample": ("Forest", 0.8, 2, {"fourier": (11.6, 4260, 5000), "binning": (2.2, 1500, 50)}),
    "kddcup99_10pct": ("KDDCUP99", 1.0, 0, {"fourier": (7.3, 90, 50), "binning": (7.3, 2100, 10)}),
}  # fmt: skip
KERNELS = {"fourier": "gaussian", "binning": "laplacian", "fourier-laplacian": "laplacian"}
#: Alphas that held-out rows choose from: those of the Gram matrix, and those of passes.
ALPHAS, FEW_ALPHAS = tuple(10.0**k for k in range(-9, -1)), (1e-6, 1e-5, 1e-4, 1e-3)
#: Rows that length scale and alpha are chosen on, most features for it, hashed columns of a grid, steps of the length scale.
CHOICE_ROWS, MOST, COLUMNS, REACH = 10_000, 2048, 512, 5


class Rows(NamedTuple):
    """Rows to train and to test; numbers, or the labels -1 and 1."""

    X: np.ndarray
    y: np.ndarray
    T: np.ndarray
    t: np.ndarray
    numbers: bool

    def error(self, predicted: np.ndarray) -> float:
        """The measure of the paper: percent wrong, or RMS error in percent of the norm of the truth."""
        if self.numbers:
            return float(100 * np.linalg.norm(self.t - predicted) / np.linalg.norm(self.t))
        return float(100 * np.mean(self.t != predicted))


def load(run: Run, name: str) -> Rows:
    """Columns on [0, 1] by the training rows, codes as indicators."""
    _, share, label, _ = SETS[name]
    if name == "kddcup99_10pct":
        X, y, T, t = data.kddcup_attacks(run)
    else:
        X, y, T, t = data.split(run, name, share)
        X, T = data.dense(X), data.dense(T)
    if label is not None:
        y, t = np.where(y == label, 1, -1), np.where(t == label, 1, -1)
    X, T = data.unit_columns(X, T)
    return Rows(X, y, T, t, label is None)


def features(method: str, size: int, length_scale: float, seed: int, columns: int = COLUMNS) -> Any:
    """Binning of P = size grids, or Fourier features with offsets (Algorithm 1) of D = size."""
    common: dict[str, Any] = {"length_scale": length_scale, "random_state": seed, "n_jobs": 1}
    if method == "binning":
        return RandomBinningFeatures(n_grids=size, n_components=columns * size, **common)
    return RandomFourierFeatures(
        KERNELS[method], n_components=size, projection="dense", phase="offset", **common
    )


def trained(
    method: str, size: int, scale: float, alpha: Any, rows: Rows, seed: int, tol: float = 1e-4
) -> tuple[Any, Any]:
    """Map, and least squares (Eq. 4): from the Gram matrix, or by passes for the sparse rows of binning.

    A grid has fewer columns for the regressions, whose long length scales make few bins.
    """
    map_ = features(method, size, scale, seed, COLUMNS // 8 if rows.numbers else COLUMNS)
    options: dict[str, Any] = {"solver": "passes", "tol": tol} if method == "binning" else {"solver": "gram"}
    model = (StreamingRidge if rows.numbers else StreamingRidgeClassifier)(alpha, cv="holdout", **options)
    with warnings.catch_warnings(
        action="ignore"
    ):  # alphas that are too small for float32, while they are tried
        return map_, model.fit(map_.fit_transform(rows.X), rows.y)


def choose(method: str, size: int, rows: Rows, start: float) -> Record:
    """Length scale and alpha of least squared error on a held-out fifth of some training rows.

    From `start`, times the mean distance to the 50th neighbour, by factors of 2 to a length scale of less error than its neighbours. Of
    more than MOST features the length scale is that of MOST, and alpha alone is chosen with all.
    """
    few = rows._replace(**dict(zip("Xy", data.sample(rows.X, rows.y, CHOICE_ROWS), strict=True)))
    held = np.arange(len(few.y)) % 5 == 0
    part = Rows(few.X[~held], few.y[~held], few.X[held], few.y[held], rows.numbers)
    unit = resolve_length_scale(get_kernel(KERNELS[method]), "knn", None, few.X, 0)
    found: dict[int, tuple[float, float]] = {}

    def error_of(k: int, D: int = min(size, MOST)) -> float:
        if abs(k) > REACH:
            return math.inf
        if k not in found or D > MOST:
            alphas = FEW_ALPHAS if method == "binning" else ALPHAS
            map_, model = trained(method, D, 2.0**k * unit, alphas, part, 0, 1e-2)
            scores = (model.predict if rows.numbers else model.decision_function)(map_.transform(part.T))
            found[k] = float(np.mean((scores - part.t) ** 2)), float(model.alpha_)
        return found[k][0]

    k = round(math.log2(start))
    while (best := min((k, k - 1, k + 1), key=error_of)) != k:
        k = best
    if size > MOST:
        error_of(k, size)
    return {"length_scale": 2.0**k * unit, "in_knn": 2.0**k, "alpha": found[k][1]}


def measure(method: str, size: int, chosen: Record, rows: Rows, seeds: int) -> Record:
    """Test error and processor seconds of features and ridge over seeds."""
    few = rows._replace(**dict(zip("Xy", data.sample(rows.X, rows.y, 500), strict=True)))
    given = method, size, chosen["length_scale"], chosen["alpha"]
    trained(*given, few, 0)  # compiles
    seconds, errors = [], []
    for seed in range(seeds):
        taken, (map_, model) = cpu(lambda seed=seed: trained(*given, rows, seed))
        blocks = [model.predict(map_.transform(rows.T[a : a + 20_000])) for a in range(0, len(rows.T), 20_000)]
        seconds.append(taken), errors.append(rows.error(np.concatenate(blocks)))
    what = {"method": method, "size": size, "columns": model.coef_.shape[-1], "rows": len(rows.X)}
    return what | chosen | {"seconds": float(np.median(seconds)), **spread(errors)}


def table1(run: Run) -> Iterator[Record]:
    """Test error in percent (of the norm of the truth for CPU and Census, of the rows for the others), and processor seconds of training;
    in brackets the paper's. ± is over draws of the features.
    """
    for name in run.pick(tuple(SETS), ("cpu_act", "covtype_sample")):
        rows = load(run, name)
        for method in KERNELS:
            size = run.pick(SETS[name][3][method.split("-")[0]][2], 4)
            if method != "fourier-laplacian" or size <= MOST:
                chosen = choose(method, size, rows, 1.0 if name == "covtype_sample" else 2.0)
                yield {"set": name, **measure(method, size, chosen, rows, run.pick(2 if size > MOST else 3, 2))}


def beside_paper(r: Record) -> str:
    theirs = SETS[r["set"]][3].get(r["method"])
    paper = f" ({theirs[0]}, {theirs[1]:,} s)" if theirs else ""
    return f"{'P' if r['method'] == 'binning' else 'D'} = {r['size']:,}: {pm()(r)}, {r['seconds']:.2f} s{paper}"


def equal_time(run: Run) -> Iterator[Record]:
    """Forest Cover, class 2 against the rest, 35,075 training rows; processor seconds of features and ridge, test error in percent."""
    rows, best = load(run, "covtype_sample"), dict.fromkeys(KERNELS, 1.0)
    for P, D in zip(*run.pick(((16, 32, 64, 128), (256, 512, 1024, 2048)), ((2, 4), (16, 32))), strict=True):
        for method, start in best.items():
            size = P if method == "binning" else D
            chosen = choose(method, size, rows, start)
            best[method] = chosen["in_knn"]
            yield measure(method, size, chosen, rows, run.pick(3, 2))


def convergence(run: Run) -> Iterator[Record]:
    """Error of the kernel over the pairs of 200 rows drawn on $[0, 1]^2$, length scale 0.5, 20 seeds: root mean square (by its variance),
    largest, and the error that Claim 1 says is exceeded in half of the draws at most. It says nothing of the Laplacian kernel.
    """
    X = np.random.default_rng(0).uniform(size=(run.pick(200, 30), 2))
    pairs = np.triu_indices(len(X), 1)
    for method, name in KERNELS.items():
        k, twice = (kernel_block(get_kernel(name), X, X, 0.5 / c)[pairs] for c in (1, 2))
        for size in run.pick((64, 256, 1024, 4096), (16, 64)):
            square, largest = [], []
            for seed in range(run.pick(20, 3)):
                Z = features(method, size, 0.5, seed).fit_transform(X)
                K = Z @ Z.T
                error = (K.toarray() if method == "binning" else K)[pairs] - k
                square.append(float(np.mean(error**2))), largest.append(float(np.abs(error).max()))
            one = k * (1 - k) + (1 - k) / COLUMNS if method == "binning" else 1 + twice / 2 - k**2
            found = {"rms": math.sqrt(np.mean(square)), "predicted": math.sqrt(float(one.mean()) / size)}
            bound = claim1(size) if name == "gaussian" else None
            yield {"method": method, "size": size, **found, "largest": spread(largest), "bound": bound}


def claim1(D: int) -> float:
    """The error at which Eq. 3 for the Gaussian kernel is 1/2: two columns, length scale 0.5, diameter sqrt(2)."""

    def log_probability(e: float) -> float:
        return 8 * math.log(2) + math.log(8 * 2 / e**2) - D * e**2 / 16

    return float(brentq(lambda e: log_probability(e) - math.log(0.5), 1e-6, 1e3))


PARTS = (
    Part(table1, grid(lambda r: f"{SETS[r['set']][0]}, {r['rows']:,} rows", "{method}", beside_paper)),
    Part(equal_time, lines({
        "features": "{method}", "D or P": "{size:,}", "columns": "{columns:,}", "length scale / knn": "{in_knn:g}",
        "alpha": "{alpha:.0e}", "seconds": "{seconds:.1f}", "test error, %": pm(),
    })),
    Part(convergence, grid("{method}", "D or P = {size:,}", lambda r: (
        f"{r['rms']:.4f} ({r['predicted']:.4f}), {r['largest']['mean']:.3f}"
        + (f", Claim 1 {r['bound']:.2f}" if r["bound"] else "")
    )), data=False),
)  # fmt: skip
