"""Random binning and ridge against Fourier features and ridge at equal training time (Rahimi & Recht 2007, Table 1).

    python benchmarks/binning.py                  # covtype_sample: class 2 against the rest
    python benchmarks/binning.py --task all       # its seven classes

One core, float32 rows, processor seconds of featurising the training rows and solving. Length scale and alpha are
chosen for each method and size before, untimed, by the squared error on a held-out fifth of the training rows. Ridge is solved by conjugate gradients
for the sparse rows of binning and by the Gram matrix for Fourier features. The last table sets each binning run
beside the best Fourier run that took no longer, and the first that took longer.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from distrf import RandomBinningFeatures, RandomFourierFeatures, StreamingRidgeClassifier
from distrf.features.length_scale import resolve_length_scale
from distrf.kernels import get_shift_invariant_kernel

METHODS = {"binning": "laplacian", "fourier-gaussian": "gaussian", "fourier-laplacian": "laplacian"}
#: Length scales that are tried, in units of the mean distance to the 50th neighbour, and alphas.
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
ALPHAS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
console = Console()


def covtype(folder: Path, task: str, seed: int) -> tuple[np.ndarray, ...]:
    """Ten numeric columns standardised on the training rows, 44 indicators as they are; one row in five is a test."""
    with np.load(folder / "covtype_sample.npz") as z:
        X, y = z["X"].astype(np.float32), z["y"].astype(int)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order], y[order]
    n = len(X) * 4 // 5
    X[:, :10] = (X[:, :10] - X[:n, :10].mean(axis=0)) / X[:n, :10].std(axis=0)
    y = y if task == "all" else np.where(y == 2, 1, -1)
    return X[:n], y[:n], X[n:], y[n:]


def features(method: str, size: int, scale: float, columns: int, seed: int) -> Any:
    if method == "binning":
        return RandomBinningFeatures(
            length_scale=scale, n_grids=size, n_components=columns * size, random_state=seed, n_jobs=1
        )
    return RandomFourierFeatures(
        METHODS[method], length_scale=scale, n_components=size, random_state=seed, n_jobs=1
    )


def ridge(method: str, alphas: Any, args: argparse.Namespace) -> StreamingRidgeClassifier:
    if method == "binning":
        return StreamingRidgeClassifier(
            alphas, cv="holdout", solver="cg", n_directions=args.directions, tol=args.tol
        )
    return StreamingRidgeClassifier(alphas, cv="holdout", solver="gram")


def choose(method: str, size: int, X: np.ndarray, y: np.ndarray, args: argparse.Namespace) -> dict[str, float]:
    """The length scale and alpha of least squared error on the held-out rows."""
    unit = resolve_length_scale(get_shift_invariant_kernel(METHODS[method]), "knn", None, X, 0)
    best: dict[str, float] = {"held_out": np.inf}
    for scale in SCALES:
        Z = features(method, size, scale * unit, args.columns, 0).fit_transform(X)
        model = ridge(method, ALPHAS, args).fit(Z, y)
        held_out = float(np.min(model.cv_errors_))
        if held_out < best["held_out"]:
            best = {"held_out": held_out, "length_scale": scale * unit, "in_knn": scale, "alpha": model.alpha_}
    return best


def measure(
    method: str, size: int, chosen: dict[str, float], data: tuple[np.ndarray, ...], args: argparse.Namespace
) -> dict[str, Any]:
    X, y, T, y_test = data
    errors, seconds = [], []
    for seed in range(args.seeds):
        map_ = features(method, size, chosen["length_scale"], args.columns, seed).fit(X)
        start = time.process_time()
        Z = map_.transform(X)
        model = ridge(method, chosen["alpha"], args).fit(Z, y)
        seconds.append(time.process_time() - start)
        errors.append(100 - 100 * model.score(map_.transform(T), y_test))
    row = {"method": method, "size": size, "columns": Z.shape[1], "seconds": float(np.median(seconds))} | chosen
    row |= {
        "error": float(np.mean(errors)),
        "standard_error": float(np.std(errors) / max(1, args.seeds - 1) ** 0.5),
    }
    console.print(
        f"{method} {size}: length scale {chosen['in_knn']} x knn, alpha {chosen['alpha']:g}: {row['seconds']:.2f} s, "
        f"{row['error']:.2f} % of the test rows wrong"
    )
    return row


def show(measured: list[dict[str, Any]], title: str) -> None:
    table = Table(
        "method", "P or D", "columns", "l / knn", "alpha", "training, s", "test error, %", title=title
    )
    for m in measured:
        error = f"{m['error']:.2f} ± {m['standard_error']:.2f}"
        table.add_row(
            m["method"], str(m["size"]), str(m["columns"]), f"{m['in_knn']:g}", f"{m['alpha']:g}",
            f"{m['seconds']:.2f}", error,
        )  # fmt: skip
    console.print(table)
    rivals = sorted((m for m in measured if m["method"] != "binning"), key=lambda m: m["seconds"])
    table = Table(
        "binning", "Fourier, no slower", "Fourier, first slower", title="Test error at equal training time"
    )
    for m in (m for m in measured if m["method"] == "binning"):
        within = [r for r in rivals if r["seconds"] <= m["seconds"]]
        beyond = [r for r in rivals if r["seconds"] > m["seconds"]]
        best = min(within, key=lambda r: r["error"], default=None)
        table.add_row(_cell(m), _cell(best), _cell(beyond[0] if beyond else None))
    console.print(table)


def _cell(m: dict[str, Any] | None) -> str:
    return "none" if m is None else f"{m['error']:.2f} % in {m['seconds']:.1f} s ({m['method']} {m['size']})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help="folder with covtype_sample.npz"
    )
    parser.add_argument("--task", choices=("binary", "all"), default="binary")
    parser.add_argument("--methods", choices=list(METHODS), nargs="+", default=list(METHODS))
    parser.add_argument("--grids", type=int, nargs="+", default=[16, 32, 64, 128, 256], help="P of binning")
    parser.add_argument("--columns", type=int, default=512, help="hashed columns of a grid")
    parser.add_argument(
        "--D", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096], help="Fourier features"
    )
    parser.add_argument("--directions", type=int, default=64, help="starting directions of conjugate gradients")
    parser.add_argument("--tol", type=float, default=1e-2, help="of conjugate gradients, on predictions")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    data = covtype(args.data, args.task, 0)
    result: dict[str, Any] = {"task": args.task, "rows": len(data[0]), "runs": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ridge of alphas that are too small for float32, while they are tried
        for method in args.methods:
            for size in args.grids if method == "binning" else args.D:
                chosen = choose(method, size, data[0], data[1], args)
                result["runs"].append(measure(method, size, chosen, data, args))
    show(result["runs"], f"covtype_sample, {len(data[0])} training rows, {args.task}")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
