"""Ridge by conjugate gradients beside the Gram matrix: equality, passes, memory.

    python benchmarks/ridge_cg.py DATA            # MNIST, D = 4,096, l = 1,024: predictions and passes
    python benchmarks/ridge_cg.py DATA --wide     # usps, D = 65,536 on workers of 2 GiB

DATA is a folder of .npz archives.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from sklearn.pipeline import make_pipeline

from distrf import RandomFourierFeatures, StreamingRidgeClassifier
from distrf.execution.workers import peak_memory


def load(folder: str, name: str) -> tuple[np.ndarray, ...]:
    """Training and test rows with grey values in [0, 1], float32."""
    with np.load(Path(folder) / f"{name}.npz", allow_pickle=False) as z:
        top = np.float32(z["X_train"].max())
        return z["X_train"] / top, z["y_train"], z["X_test"] / top, z["y_test"]


def equality(args: argparse.Namespace) -> dict[str, Any]:
    X, y, X_test, y_test = load(args.data, "mnist")
    X, y = X[: args.rows], y[: args.rows]
    features = RandomFourierFeatures(n_components=args.components or 4096, random_state=0).fit(X)
    Z, Z_test = features.transform(X.astype(np.float32)), features.transform(X_test.astype(np.float32))
    alphas = list(np.geomspace(1e-8, 1e-3, 11))
    out: dict[str, Any] = {"rows": len(X), "D": Z.shape[1], "l": args.directions}
    models = {}
    for solver in ("gram", "cg"):
        start = time.perf_counter()
        models[solver] = StreamingRidgeClassifier(
            alphas, cv="holdout", solver=solver, n_directions=args.directions
        ).fit(Z, y)
        out[f"{solver} seconds"] = time.perf_counter() - start
        out[f"{solver} alpha"] = models[solver].alpha_
        out[f"{solver} accuracy"] = models[solver].score(Z_test, y_test)
    p, q = (models[s].decision_function(Z_test) for s in ("cg", "gram"))
    out["relative difference of predictions"] = float(np.linalg.norm(p - q) / np.linalg.norm(q))
    model = models["cg"]
    out |= {"cg passes": model.n_iter_, "finder passes": model.n_finder_passes_}
    single = StreamingRidgeClassifier(model.alpha_, solver="cg", n_directions=args.directions).fit(Z, y)
    p = single.decision_function(Z_test)
    out["one alpha: cg passes"] = single.n_iter_
    out["one alpha: difference"] = float(np.linalg.norm(p - q) / np.linalg.norm(q))
    return out | {"residual": model.residual_, "error bound": model.error_bound_}


def wide(args: argparse.Namespace) -> dict[str, Any]:
    X, y, X_test, y_test = load(args.data, "usps")
    D = args.components or 65_536
    options = {"threads_per_worker": 1, "memory_limit": "2GiB", "dashboard_address": ":0"}
    with LocalCluster(n_workers=args.workers, **options) as cluster, Client(cluster) as client:
        model = make_pipeline(
            RandomFourierFeatures(n_components=D, random_state=0), StreamingRidgeClassifier(1e-6)
        )
        start = time.perf_counter()
        model.fit(da.from_array(X.astype(np.float32), chunks=(512, X.shape[1])), da.from_array(y, chunks=512))
        seconds = time.perf_counter() - start
        ridge = model[-1]
        peak = max(peak_memory(client).values())
    return {
        "rows": len(X), "D": D, "solver": ridge.solver_, "reason": ridge.solver_reason_, "seconds": seconds,
        "cg passes": ridge.n_iter_, "finder passes": ridge.n_finder_passes_, "error bound": ridge.error_bound_,
        "worker peak GiB": peak / 2**30, "accuracy": model.score(X_test.astype(np.float32), y_test),
        "Gram matrix GB": 8 * D**2 / 1e9,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder of .npz archives")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--components", "-D", type=int)
    parser.add_argument("--directions", type=int, default=1024)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    result = wide(args) if args.wide else equality(args)
    print(json.dumps(result, indent=2) if args.json else "\n".join(f"{k}: {v}" for k, v in result.items()))


if __name__ == "__main__":
    main()
