"""Rows, features and ridge of the sets of Rahimi & Recht (2007): how a method is chosen, trained and scored."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.benchmark import Record, Run, spread
from benchmarks.clocks import cpu
from distrf import (
    RandomBinningFeatures,
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingScaler,
)
from distrf.features.length_scale import resolve_length_scale
from distrf.kernels import get_shift_invariant_kernel

#: name: (its name in the paper, share of rows to train where no split is customary)
SETS = {
    "cpu_act": ("CPU", 6500 / 8192),
    "census_house_16h": ("Census", 18000 / 22784),
    "a9a": ("Adult", 1.0),
    "covtype_sample": ("Forest", 0.8),
    "kddcup99_10pct": ("KDDCUP99", 1.0),
}
REGRESSION = ("cpu_act", "census_house_16h")
KERNELS = {"fourier": "gaussian", "fourier-laplacian": "laplacian", "binning": "laplacian"}
#: Alphas that held-out rows choose from: those of the Gram matrix, and those of conjugate gradients.
ALPHAS = tuple(10.0**k for k in range(-9, -1))
CG_ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3)
#: Length scales are tried in these steps, up to so many either side of the mean distance to the 50th neighbour.
STEP, REACH = 2.0, 5
#: Rows that length scale and alpha are chosen on, and hashed columns of a grid.
CHOICE_ROWS, COLUMNS = 10_000, 512
#: The class that is told from the others: no attack, in KDDCUP99.
CHOSEN = {"a9a": 1, "covtype_sample": 2, "kddcup99_10pct": 0}


class Rows(NamedTuple):
    """Rows to train and to test; numbers, or the labels -1 and 1."""

    X: np.ndarray
    y: np.ndarray
    T: np.ndarray
    t: np.ndarray
    numbers: bool

    @property
    def columns(self) -> int:
        """Hashed columns of a grid: with the long length scales of the regressions a grid has few bins."""
        return COLUMNS // 8 if self.numbers else COLUMNS

    def error(self, predicted: np.ndarray) -> float:
        """The measure of the paper: percent wrong, or RMS error in percent of the norm of the truth."""
        if self.numbers:
            return float(100 * np.linalg.norm(self.t - predicted) / np.linalg.norm(self.t))
        return float(100 * np.mean(self.t != predicted))


def load(run: Run, name: str) -> Rows:
    """Columns on [0, 1] by the training rows, codes as indicators."""
    if name == "kddcup99_10pct":
        X, y, T, t = data.kddcup_attacks(run, unseen=True)
    else:
        X, y, T, t = data.split(run, name, SETS[name][1])
        X, T = data.dense(X), data.dense(T)
    if name not in REGRESSION:
        chosen = CHOSEN[name]
        y, t = np.where(y == chosen, 1, -1), np.where(t == chosen, 1, -1)
    scaler = StreamingScaler("minmax").fit(X)
    return Rows(scaler.transform(X), y, scaler.transform(T), t, name in REGRESSION)


def features(method: str, size: int, length_scale: float, seed: int, columns: int = COLUMNS) -> Any:
    """Binning of P = size grids, or Fourier features with offsets (Algorithm 1) of D = size."""
    common = {"length_scale": length_scale, "random_state": seed, "n_jobs": 1}
    if method == "binning":
        return RandomBinningFeatures(n_grids=size, n_components=columns * size, **common)
    return RandomFourierFeatures(KERNELS[method], n_components=size, phase="offset", **common)


def ridge(method: str, alpha: Any, numbers: bool, tol: float = 1e-2) -> Any:
    """Least squares (Eq. 4): from the Gram matrix, or by conjugate gradients for the sparse rows of binning."""
    model = StreamingRidge if numbers else StreamingRidgeClassifier
    if method == "binning":
        return model(alpha, cv="holdout", solver="cg", n_directions=64, tol=tol)
    return model(alpha, cv="holdout", solver="gram")


def unit_of(kernel: str, X: np.ndarray) -> float:
    """The mean distance to the 50th neighbour."""
    return resolve_length_scale(get_shift_invariant_kernel(kernel), "knn", None, X, 0)


def walk(error_of: Any, start: float = 1.0) -> float:
    """From `start` step by step to a length scale, in units, of less error than its neighbours."""
    known: dict[int, float] = {}

    def at(k: int) -> float:
        if abs(k) > REACH:
            return np.inf
        if k not in known:
            known[k] = error_of(STEP**k)
        return known[k]

    k = round(np.log(start) / np.log(STEP))
    while (best := min((k, k - 1, k + 1), key=at)) != k:
        k = best
    return STEP**k


def choose(method: str, size: int, rows: Rows, start: float = 1.0, most: int | None = None) -> Record:
    """Length scale and alpha of least squared error on a held-out fifth of at most CHOICE_ROWS training rows.

    start : see `walk`
    most : of more features than these, the length scale is that of so many, and alpha alone is chosen with all
    """
    X, y = data.sample(rows.X, rows.y, CHOICE_ROWS)
    unit = unit_of(KERNELS[method], X)
    alphas = CG_ALPHAS if method == "binning" else ALPHAS
    found: dict[float, Record] = {}

    def error_of(scale: float, size: int = min(size, most or size)) -> float:
        Z = features(method, size, scale * unit, 0, rows.columns).fit_transform(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # alphas that are too small for float32, while they are tried
            model = ridge(method, alphas, rows.numbers, tol=0.05).fit(Z, y)
        found[scale] = {"length_scale": scale * unit, "in_knn": scale, "alpha": float(model.alpha_)}
        return float(np.min(model.cv_errors_))

    best = walk(error_of, start)
    if most and size > most:
        error_of(best, size)
    return found[best]


def train(method: str, size: int, chosen: Record, rows: Rows, seed: int) -> tuple[float, Any, Any]:
    """Processor seconds of features and ridge, the features and the model."""
    map_ = features(method, size, chosen["length_scale"], seed, rows.columns)

    def both() -> Any:
        return ridge(method, chosen["alpha"], rows.numbers).fit(map_.fit_transform(rows.X), rows.y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, model = cpu(both)
    return seconds, map_, model


def measure(method: str, size: int, chosen: Record, rows: Rows, seeds: int) -> Record:
    """Test error and seconds of training over seeds."""
    X, y = data.sample(rows.X, rows.y, 500)
    train(method, size, chosen, rows._replace(X=X, y=y), 0)  # compiles
    seconds, errors = [], []
    for seed in range(seeds):
        taken, map_, model = train(method, size, chosen, rows, seed)
        seconds.append(taken)
        errors.append(rows.error(predict(map_, model, rows.T)))
    what = {"method": method, "size": size, "columns": model.coef_.shape[-1], "rows": len(rows.X)}
    return what | chosen | {"seconds": float(np.median(seconds)), **spread(errors), "errors": errors}


def predict(map_: Any, model: Any, T: np.ndarray, block: int = 20_000) -> np.ndarray:
    """Predictions, by blocks of rows."""
    parts = [model.predict(map_.transform(T[a : a + block])) for a in range(0, len(T), block)]
    return np.concatenate(parts)
