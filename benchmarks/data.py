"""Data sets of the benchmarks: the archives of the folder, or rows drawn in their place for small runs."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import OneHotEncoder

from benchmarks.benchmark import Run
from distrf import StreamingScaler

Split = tuple[Any, np.ndarray, Any, np.ndarray]

#: name: (columns, classes or 0 for numbers, values, customary split). The columns and values are those of small runs.
SETS: dict[str, tuple[int, int, str, bool]] = {
    "a9a": (20, 2, "flags", True),
    "airline_delay_nyc2013": (10, 0, "real", False),
    "banana": (2, 2, "real", False),
    "blogfeedback": (20, 0, "real", True),
    "census_house_16h": (16, 0, "real", False),
    "covtype_sample": (12, 7, "real", False),
    "cpu_act": (21, 0, "real", False),
    "dna": (18, 3, "flags", True),
    "ijcnn1": (22, 2, "real", True),
    "kddcup99_10pct": (41, 3, "real", True),
    "kin40k": (8, 0, "real", False),
    "letter": (16, 26, "real", True),
    "magic04": (10, 2, "real", False),
    "mnist": (49, 10, "grey", True),
    "mushrooms": (20, 2, "flags", False),
    "newsgroups20_counts": (40, 20, "counts", False),
    "protein_casp": (9, 0, "real", False),
    "sector_counts": (40, 5, "counts", True),
    "splice": (60, 2, "real", True),
    "ujiindoorloc": (20, 13, "real", True),
    "usps": (16, 10, "grey", True),
    "w8a": (30, 2, "flags", True),
}


def load_npz(path: str, split: str | None = None) -> tuple[Any, np.ndarray]:
    """X and y of an archive; those of a split end in its name. A CSR matrix is four members: data, indices, indptr, shape."""
    end = "" if split is None else f"_{split}"
    with np.load(path, allow_pickle=False) as archive:
        names = [] if f"X{end}" in archive else ["data", "indices", "indptr", "shape"]
        *parts, shape = [archive[f"X{end}_{name}"] for name in names] or [None]
        X = archive[f"X{end}"] if shape is None else sp.csr_array(tuple(parts), shape=tuple(shape.tolist()))
        return X, archive[f"y{end}"]


def raw(run: Run, name: str) -> tuple[Any, np.ndarray, Any, Any]:
    """X, y, test X, test y as the archive has them; None for test rows that it does not set apart."""
    split = SETS[name][-1]
    if run.small:
        X, y = drawn(name, 400)
        return (*(v[:300] for v in (X, y)), *(v[300:] for v in (X, y))) if split else (X, y, None, None)
    path = os.path.join(str(run.data), f"{name}.npz")
    return (*load_npz(path, "train"), *load_npz(path, "test")) if split else (*load_npz(path), None, None)


def split(run: Run, name: str, train: int | float, test: int | None = None, seed: int = 0) -> Split:
    """The customary split, or so many rows, or such a share, of the shuffled rows to train, and of the rest to test."""
    X, y, T, t = raw(run, name)
    if T is not None:
        return X, y, T, t
    order = np.random.default_rng(seed).permutation(len(y))
    n = round(train * len(y)) if isinstance(train, float) else min(train, 3 * len(y) // 4)
    first, last = order[:n], order[n : None if test is None else n + test]
    return X[first], y[first], X[last], y[last]


def sample(X: Any, y: np.ndarray, rows: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """So many rows at most, in their own order."""
    if len(y) <= rows:
        return X, y
    kept = np.sort(np.random.default_rng(seed).permutation(len(y))[:rows])
    return X[kept], y[kept]


def dense(X: Any) -> np.ndarray:
    """float32, dense."""
    return (X.toarray() if sp.issparse(X) else np.asarray(X)).astype(np.float32)


def kddcup_attacks(run: Run) -> Split:
    """Connections, with protocol, service and flag as indicators, those of test rows too, and 1 for an attack, 0 for none."""
    X, y, T, t = raw(run, "kddcup99_10pct")
    X, T, normal = dense(X), dense(T), 0
    if not run.small:
        with np.load(os.path.join(str(run.data), "kddcup99_10pct.npz")) as archive:
            normal = int(np.flatnonzero(archive["class_names"].astype(str) == "normal")[0])
        codes = OneHotEncoder(sparse_output=False, dtype=np.float32).fit(np.vstack([X, T])[:, 1:4])
        X, T = (np.hstack([np.delete(Z, [1, 2, 3], axis=1), codes.transform(Z[:, 1:4])]) for Z in (X, T))
    return X, (y != normal).astype(np.int64), T, (t != normal).astype(np.int64)


def unit_range(X: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both divided by the largest value of X."""
    scale = np.float32(max(float(np.abs(X).max()), 1e-30))
    return X / scale, T / scale


def scaled(how: str, X: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both by a `StreamingScaler` of X."""
    scaler = StreamingScaler(how).fit(X)
    return scaler.transform(X), scaler.transform(T)


standard, unit_columns = partial(scaled, "standard"), partial(scaled, "minmax")


def signals(X: np.ndarray) -> np.ndarray:
    """Strengths of ujiindoorloc in dBm on [0, 1]; 100, not seen, is weaker than the weakest."""
    return np.where(X == 100, -105, X) / np.float32(105) + 1


def drawn(name: str, n: int) -> tuple[Any, np.ndarray]:
    """Rows in place of a data set: a target that depends on two columns, values of the same kind."""
    columns, classes, values, _ = SETS[name]
    rng = np.random.default_rng(len(name) + columns)
    X = rng.normal(size=(n, columns))
    y = np.sin(X[:, 0]) + X[:, 1 % columns] + 0.1 * rng.normal(size=n)
    if classes:
        y = np.searchsorted(np.quantile(y, np.arange(1, classes) / classes), y)
        y = np.where(y == 0, -1, 1) if classes == 2 else y
    if values == "grey":
        X = np.clip(X + 1, 0, 3) / 3
    if values == "flags":
        X = sp.csr_matrix((X > 0).astype(np.float32)) if name in ("a9a", "w8a", "mushrooms") else X > 0
    if values == "counts":
        X = sp.csr_matrix(np.floor(np.abs(2 * X)) + 1)
    return (X if sp.issparse(X) else X.astype(np.float32)), y
