"""TensorSketch beside scikit-learn's PolynomialCountSketch, Nystroem landmarks, compact features.

    python benchmarks/polynomial.py sketch              # time and kernel error, dense and CSR
    python benchmarks/polynomial.py landmarks           # kernel error against m for each choice
    python benchmarks/polynomial.py compact             # kernel error and time at equal D

One core, one process; jobs that are compared take turns, times are medians of processor seconds.
`--data` is a folder with the .npz files of the data sets.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from scipy.sparse.linalg import eigsh
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from distrf import (
    CompactRandomFeatures,
    NystroemFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    TensorSketchFeatures,
)


def load(folder: Path, name: str, n: int, seed: int = 0) -> Any:
    """n seeded rows of a data set as float32, dense or CSR."""
    with np.load(folder / f"{name}.npz") as z:
        key = "X_train" if any(k.startswith("X_train") for k in z.files) else "X"
        if f"{key}_data" in z.files:
            parts = tuple(z[f"{key}_{part}"] for part in ("data", "indices", "indptr"))
            X: Any = sp.csr_array(parts, shape=tuple(z[f"{key}_shape"]))
        else:
            X = z[key]
    rows = np.sort(np.random.default_rng(seed).permutation(X.shape[0])[:n])
    return X[rows].astype(np.float32)


def medians(jobs: dict[str, Callable[[], Any]], repeat: int) -> dict[str, float]:
    """Median processor seconds of each job; the jobs take turns after one untimed round."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for round_ in range(repeat + 1):
        for name, job in jobs.items():
            if round_ == 0 and name == "scikit-learn":
                continue
            start = time.process_time()
            job()
            if round_:
                seconds[name].append(time.process_time() - start)
    return {name: float(np.median(times)) for name, times in seconds.items()}


def relative_error(K: np.ndarray, Z: Any) -> float:
    Z = np.asarray(Z, dtype=np.float64)
    return float(np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K))


def sketch(options: argparse.Namespace) -> list[dict]:
    """PolynomialCountSketch against TensorSketch: seconds of transform, relative Frobenius error of the kernel."""
    records = []
    for name in options.sets or ["newsgroups20_counts", "sector_counts", "mnist", "usps"]:
        X = normalize(load(options.data, name, options.n))
        few = X[:500]
        for degree in options.degree:
            for D in options.D or [1024, 4096]:
                peer = PolynomialCountSketch(
                    degree=degree, gamma=1.0, coef0=1, n_components=D, random_state=0
                ).fit(X)
                ours = TensorSketchFeatures(
                    degree, gamma=1.0, coef0=1, n_components=D, n_jobs=1, random_state=0
                ).fit(X)
                t = medians(
                    {
                        name: partial(est.transform, X)
                        for name, est in (("scikit-learn", peer), ("distrf", ours))
                    },
                    1 if sp.issparse(X) else options.repeat,
                )
                K = (np.asarray((few @ few.T).todense() if sp.issparse(few) else few @ few.T) + 1.0) ** degree
                records.append(
                    {
                        "data": name,
                        "n": X.shape[0],
                        "d": X.shape[1],
                        "degree": degree,
                        "D": D,
                        "scikit-learn s": t["scikit-learn"],
                        "distrf s": t["distrf"],
                        "ratio": t["scikit-learn"] / t["distrf"],
                        "scikit-learn error": relative_error(K, peer.transform(few)),
                        "distrf error": relative_error(K, ours.transform(few)),
                    }
                )
    return records


def spectral_norm(A: np.ndarray) -> float:
    """Of a symmetric matrix."""
    return float(abs(eigsh(A, k=1, v0=np.ones(len(A)), return_eigenvectors=False)[0]))


def landmarks(options: argparse.Namespace) -> list[dict]:
    """Spectral and Frobenius error of the Gaussian kernel against landmarks, mean over seeds."""
    records = []
    for name in options.sets or ["mnist", "usps", "letter", "covtype_sample", "cpu_act"]:
        X = load(options.data, name, options.n)
        X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1) if name not in IMAGES else X
        scale = RandomFourierFeatures(n_components=2, random_state=0).fit(X).length_scale_
        few = X[:: max(1, len(X) // 1500)]
        K = None
        for m in options.m:
            for rule in ("uniform", "k-means++", "kmeans", "leverage"):
                spectral, frobenius, seconds = [], [], []
                for seed in range(options.seeds):
                    start = time.perf_counter()
                    est = NystroemFeatures(
                        length_scale=scale, n_components=m, landmarks=rule, n_jobs=1, random_state=seed
                    ).fit(X)
                    seconds.append(time.perf_counter() - start)
                    if K is None:
                        K = est.map_.exact_kernel(few)
                        norm = spectral_norm(K)
                    Z = est.transform(few.astype(np.float64))
                    spectral.append(spectral_norm(K - Z @ Z.T) / norm)
                    frobenius.append(np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K))
                records.append(
                    {
                        "data": name,
                        "n": len(X),
                        "m": m,
                        "landmarks": rule,
                        "spectral": float(np.mean(spectral)),
                        "se": float(np.std(spectral, ddof=1) / np.sqrt(options.seeds)),
                        "frobenius": float(np.mean(frobenius)),
                        "fit s": float(np.median(seconds)),
                    }
                )
    return records


IMAGES = ("mnist", "usps")


def compact(options: argparse.Namespace) -> list[dict]:
    """Compact features against their base at equal D: error of the kernel, seconds of transform."""
    records = []
    for name in options.sets or ["mnist", "usps"]:
        X = normalize(load(options.data, name, options.n))
        few = X[:1000]
        for D in options.D or [256, 1024]:
            bases = {
                "fourier": RandomFourierFeatures(n_jobs=1),
                "tensor-sketch": TensorSketchFeatures(options.degree[0], gamma=1.0, n_jobs=1),
                "maclaurin": RandomMaclaurinFeatures(degree=options.degree[0], gamma=1.0, n_jobs=1),
            }
            for base_name, base in bases.items():
                jobs, errors = {}, {}
                for up in (1, *options.up):
                    made = []
                    for seed in range(options.seeds):
                        if up == 1:
                            est: Any = base.set_params(n_components=D, random_state=seed)
                        else:
                            base.set_params(random_state=None)
                            est = CompactRandomFeatures(
                                base, up_factor=up, n_components=D, n_jobs=1, random_state=seed
                            )
                        map_ = est.fit(X).map_
                        made.append(relative_error(map_.exact_kernel(few), map_(few)))
                    errors[up] = float(np.mean(made))
                    jobs[str(up)] = partial(map_, X)
                t = medians(jobs, options.repeat)
                records += [
                    {"data": name, "base": base_name, "D": D, "up_factor": up, "error": e, "s": t[str(up)]}
                    for up, e in errors.items()
                ]
    return records


def show(title: str, records: list[dict], console: Console) -> None:
    table = Table(title=title, title_justify="left")
    for key in records[0]:
        table.add_column(key, justify="left" if isinstance(records[0][key], str) else "right")
    for record in records:
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in record.values()))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", choices=["sketch", "landmarks", "compact"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", nargs="+", help="data sets")
    parser.add_argument("--n", type=int, default=2000, help="rows")
    parser.add_argument("--D", type=int, nargs="+", help="features")
    parser.add_argument("--m", type=int, nargs="+", default=[64, 256], help="landmarks")
    parser.add_argument("--degree", type=int, nargs="+", default=[2])
    parser.add_argument("--up", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the records here as well")
    options = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=140)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        records = {"sketch": sketch, "landmarks": landmarks, "compact": compact}[options.part](options)
    show(options.part, records, console)
    if options.json:
        options.json.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
