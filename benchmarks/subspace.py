"""Subspaces of random features: accuracy, the paper's figures, times and memory.

    python benchmarks/subspace.py DATA --residual       # residual over the best one, beside svd_compressed
    python benchmarks/subspace.py DATA --kernel         # Figure 1: kernel error with d = 4 l
    python benchmarks/subspace.py DATA --regression     # Figures 2 and 3
    python benchmarks/subspace.py DATA --sketches       # TEFM-S beside TEFM-G, sketch by sketch
    python benchmarks/subspace.py DATA --solvers        # finder beside Gram matrix
    python benchmarks/subspace.py DATA --product        # one pass beside the bare loop
    python benchmarks/subspace.py DATA --workers        # one pass on one worker and on two
    python benchmarks/subspace.py DATA --million        # D = 1,000,000, l = 256: time and memory

DATA is a folder of .npz archives. Parts combine; --json prints one object. Figures follow Chen et al. 2016
("Training-efficient feature map for shift-invariant kernels"). Times are wall seconds; with --cpu, seconds of one
core (set OPENBLAS_NUM_THREADS=1), which a busy machine leaves alone. --quick takes fewer seeds and sizes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distrf import TEFM, CompactRandomFeatures, RandomFourierFeatures, StreamingRidge
from distrf.execution.memory import PROCESS_BYTES, PassMemory
from distrf.execution.passes import run_pass
from distrf.maps.tiles import FeatureTiles
from distrf.projections.cache import CACHE_BYTES
from distrf.subspace import RangeFinder, Search, subspace_costs
from distrf.subspace.choice import Solver
from distrf.subspace.reductions import ProductReduction, SketchReduction
from distrf.subspace.sketches import SKETCHES, make_sketch

#: Rows that the paper samples for Figure 1.
PAPER_ROWS = {"cpu_act": 6554, "a9a": 8141, "blogfeedback": 8733, "ujiindoorloc": 6646, "mnist": 6006}


def load(folder: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """All training rows, float32: grey values and signals to [0, 1], real columns standardised."""
    with np.load(Path(folder) / f"{name}.npz", allow_pickle=False) as z:
        suffix = "_train" if "y_train" in z.files else ""
        if f"X{suffix}_shape" in z.files:
            parts = (z[f"X{suffix}_{p}"] for p in ("data", "indices", "indptr"))
            X = sp.csr_array(tuple(parts), shape=tuple(z[f"X{suffix}_shape"])).toarray()
        else:
            X = z[f"X{suffix}"]
        y = z[f"y{suffix}"]
    X = X.astype(np.float32)
    if name in ("mnist", "usps"):
        return X / max(1.0, float(X.max())), y
    if name == "ujiindoorloc":
        return np.where(X == 100, -105, X) / 105 + 1, y
    if name == "a9a":
        return X, y
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1), y


def sample(X: np.ndarray, n: int, seed: int = 0) -> np.ndarray:
    return X[np.sort(np.random.default_rng(seed).permutation(len(X))[:n])]


def repeated(X: np.ndarray, n: int) -> np.ndarray:
    """n rows, the set over and over where it has fewer."""
    return np.concatenate([X] * -(-n // len(X)))[:n]


# --- residual over the best one ------------------------------------------------------------------------------


def residual(args: argparse.Namespace) -> list[dict[str, Any]]:
    out = []
    for name in args.sets or ("mnist", "cpu_act", "a9a"):
        X = sample(load(args.data, name)[0], args.rows)
        base = RandomFourierFeatures(n_components=4096, random_state=0).fit(X).map_
        F = base(X.astype(np.float64))
        values = np.linalg.eigvalsh(F.T @ F)
        values, energy = np.maximum(values[::-1], 0), float(values.sum())
        F32 = da.from_array(F.astype(np.float32), chunks=(-(-len(F) // 8), F.shape[1]))
        F64 = da.from_array(F, chunks=F32.chunks)
        for wide in args.widths or (64, 256, 512):
            best = np.sqrt(max(energy - values[:wide].sum(), 0))

            def ratio(Q, best=best, F=F):
                Q = np.linalg.qr(Q.astype(np.float64))[0]
                return float(np.linalg.norm(F - (F @ Q) @ Q.T) / best)

            for q in (0, 1, 2):
                row = {"set": name, "l": wide, "q": q}
                for dtype in (np.float32, np.float64):
                    found = RangeFinder(wide, n_iter=q, solver="finder").find(X.astype(dtype), base)
                    row[np.dtype(dtype).name] = ratio(found.basis)
                whole = RangeFinder(wide + 10, n_iter=q, oversampling=0, values="sample", solver="finder").find(
                    X, base
                )
                row["l + 10 kept"] = ratio(whole.basis)
                row["float32 / float64"] = row["float32"] / row["float64"]
                out.append(row)
                report(args, row)
            for q in (0, 2, 5):
                row = {"set": name, "l": wide, "svd_compressed n_power_iter": q}
                for label, lazy in (("float32", F32), ("float64", F64)):
                    v = da.linalg.svd_compressed(lazy, wide, n_power_iter=q, seed=0)[2].compute()
                    row[label] = ratio(v.T)
                out.append(row)
                report(args, row)
    return out


# --- Figure 1 ------------------------------------------------------------------------------------------------


def maps_of_figure(wide: int, scale: float, seed: int) -> dict[str, Any]:
    def rff(D, projection="dense", **more):
        return RandomFourierFeatures(
            length_scale=scale, n_components=D, projection=projection, random_state=seed, **more
        )

    return {
        "rff": rff(wide),
        "quasi": rff(wide, "quasi"),
        "fastfood": rff(wide, "fastfood"),
        "compact": CompactRandomFeatures(rff(4 * wide), up_factor=4, n_components=wide, random_state=seed),
        "tefm-g": TEFM(rff(4 * wide), wide, n_iter=1, random_state=seed),
        "tefm-s": TEFM(
            rff(4 * wide), wide, sketch="srht", n_iter=0, solver="finder", values="sample", random_state=seed
        ),
    }


def spectral_norms(product, n: int, count: int, steps: int = 16) -> np.ndarray:
    """Norms of `count` symmetric operators by Lanczos in lockstep, to about 1 %; product takes (n, count)."""
    rng = np.random.default_rng(0)
    V = rng.normal(size=(n, count))
    V /= np.linalg.norm(V, axis=0)
    before, beta = np.zeros_like(V), np.zeros(count)
    T = np.zeros((count, steps, steps))
    for k in range(steps):
        W = product(V.astype(np.float32)) - beta * before
        alpha = (V * W).sum(axis=0)
        W -= alpha * V
        beta = np.linalg.norm(W, axis=0)
        T[:, k, k] = alpha
        if k + 1 < steps:
            T[:, k, k + 1] = T[:, k + 1, k] = beta
        before, V = V, W / beta
    return abs(np.linalg.eigvalsh(T)).max(axis=1)


def kernel(args: argparse.Namespace) -> list[dict[str, Any]]:
    """|K - G G'|_2 / |K|_2, mean over seeds, and its ratio to dense random features with l features."""
    out = []
    for name in args.sets or PAPER_ROWS:
        X = sample(load(args.data, name)[0], PAPER_ROWS.get(name, 6500))
        fitted = RandomFourierFeatures(n_components=64, random_state=0).fit(X)
        K = fitted.map_.exact_kernel(X).astype(np.float32)
        size = spectral_norms(lambda V, K=K: K @ V, len(K), 1)[0]
        for wide in args.widths or (64, 128, 256, 512):
            made = [
                (label, estimator.fit_transform(X))
                for seed in range(args.seeds)
                for label, estimator in maps_of_figure(wide, fitted.length_scale_, seed).items()
            ]

            def product(V, K=K, made=made):
                out = (K @ V).astype(np.float64)
                for i, (_, G) in enumerate(made):
                    out[:, i] -= G @ (G.T @ V[:, i])
                return out

            errors: dict[str, list[float]] = {}
            for (label, _), error in zip(made, spectral_norms(product, len(K), len(made)) / size, strict=True):
                errors.setdefault(label, []).append(float(error))
            mean = {label: float(np.mean(e)) for label, e in errors.items()}
            row = {"set": name, "l": wide, **mean}
            row |= {f"{label} / rff": mean[label] / mean["rff"] for label in ("tefm-g", "tefm-s")}
            row["single draws"] = [a / b for a, b in zip(errors["tefm-g"], errors["rff"], strict=True)]
            out.append(row)
            report(args, row)
    return out


# --- Figures 2 and 3 -----------------------------------------------------------------------------------------


def regression(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Relative RMSE on held-out rows, and seconds of mapping and training, for each number of features."""
    out = []
    for name in args.sets or ("kin40k", "cpu_act"):
        X, y = load(args.data, name)
        order = np.random.default_rng(1).permutation(len(X))
        train, test = order[: 4 * len(X) // 5], order[4 * len(X) // 5 :]
        y = y.astype(np.float64)
        fitted = RandomFourierFeatures(n_components=64, length_scale="knn", random_state=0).fit(X[train])
        scale = fitted.length_scale_
        alphas = list(np.geomspace(1e-10, 1e-3, 8))
        for wide in args.widths or (64, 128, 256, 512, 1024, 2048, 4096, 8192):
            maps = maps_of_figure(wide, scale, 0)
            # TEFM of 2,048 has 8,192 below: plain features go as far as that, alone.
            labels = ("rff", "quasi", "fastfood", "tefm-g", "tefm-s") if wide <= 2048 else ("rff",)
            for label in labels:
                times, error = [], np.nan
                for _ in range(args.repeats):
                    start = args.clock()
                    estimator = maps[label].fit(X[train])
                    model = StreamingRidge(alphas, cv="holdout")
                    model.fit(estimator.transform(X[train]), y[train])
                    times.append(args.clock() - start)
                    miss = model.predict(estimator.transform(X[test])) - y[test]
                    error = float(np.linalg.norm(miss) / np.linalg.norm(y[test]))
                row = {"set": name, "map": label, "l": wide, "relative RMSE": error}
                row["seconds"] = statistics.median(times)
                out.append(row)
                report(args, row)
    for name in {row["set"] for row in out}:
        rows = [r for r in out if r["set"] == name and "map" in r]
        best = min((r for r in rows if r["map"] == "rff"), key=lambda r: r["relative RMSE"])
        for label in ("tefm-g", "tefm-s"):
            reach = [r for r in rows if r["map"] == label and r["relative RMSE"] <= best["relative RMSE"]]
            quick = min(reach, key=lambda r: r["seconds"]) if reach else None
            verdict = {
                "set": name, "best rff": best["relative RMSE"], "rff l": best["l"], "rff seconds": best["seconds"],
                "reached by": label, "l": quick and quick["l"], "seconds": quick and quick["seconds"],
                "faster": bool(quick and quick["seconds"] < best["seconds"]),
            }  # fmt: skip
            out.append(verdict)
            report(args, verdict)
    return out


# --- times ---------------------------------------------------------------------------------------------------


def sketches(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds of the sketch alone on ready features, and of whole fits with q = 0; interleaved medians."""
    X = sample(load(args.data, "mnist")[0], args.rows)
    out = []
    for D in (4096,) if args.quick else (4096, 8192):
        estimator = RandomFourierFeatures(n_components=D, random_state=0)
        map_ = estimator.fit(X).map_
        F = map_(X)
        for wide in args.widths or (64, 256, 512):
            alone: dict[str, list[float]] = {}
            fits: dict[str, list[float]] = {}
            for repeat in range(args.repeats + 1):
                for name in SKETCHES:
                    theta = make_sketch(name, len(F), wide + 10, repeat)
                    fold = SketchReduction(FeatureTiles(None, D), sketch=theta, first=0, last=D)
                    start = args.clock()
                    fold.update(fold.initial(), 0, F)
                    alone.setdefault(name, []).append(args.clock() - start)
                    start = args.clock()
                    RangeFinder(wide, sketch=name, n_iter=0, solver="finder", values=args.values).find(X, map_)
                    fits.setdefault(name, []).append(args.clock() - start)
            row: dict[str, Any] = {"D": D, "l": wide, "rows": len(F), "values": args.values}
            for name in SKETCHES:  # the first round compiles
                row[f"{name} sketch s"] = statistics.median(alone[name][1:])
                row[f"{name} fit s"] = statistics.median(fits[name][1:])
            out.append(row)
            report(args, row)
    return out


def solvers(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds of finder (q = 1) and Gram matrix, and what "auto" takes."""
    X = sample(load(args.data, "mnist")[0], args.rows)
    out = []
    for D in (1024, 2048, 4096):
        map_ = RandomFourierFeatures(n_components=D, random_state=0).fit(X).map_
        for wide in (64, D // 8, D // 2):
            times: dict[str, list[float]] = {}
            for _ in range(args.repeats):
                for solver in ("finder", "gram"):
                    start = args.clock()
                    RangeFinder(wide, solver=solver).find(X, map_)
                    times.setdefault(solver, []).append(args.clock() - start)
            chosen = RangeFinder(wide).find(X, map_)
            row = {"D": D, "l": wide, "rows": len(X)} | {
                f"{k} s": statistics.median(v) for k, v in times.items()
            }
            out.append(row | {"auto": chosen.solver, "reason": chosen.reason})
            report(args, out[-1])
    return out


def product(args: argparse.Namespace) -> list[dict[str, Any]]:
    """One pass F'(F Q) beside the bare loop: features and two products, summed in float64."""
    X = repeated(load(args.data, "mnist")[0], args.rows)
    D, width = 8192, 512
    map_ = RandomFourierFeatures(n_components=D, random_state=0).fit(X[:5000]).map_
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(D, width)))[0].astype(np.float32)
    lazy = da.from_array(X, chunks=(2048, X.shape[1]))

    def bare() -> np.ndarray:
        W = np.zeros((D, width))
        for a in range(0, len(X), 2048):
            F = map_(X[a : a + 2048])
            W += F.T @ (F @ Q)
        return W

    def by_pass() -> np.ndarray:
        return run_pass(ProductReduction(FeatureTiles(map_, D), Q, width, 0, D), [lazy])

    times: dict[str, list[float]] = {"bare": [], "pass": []}
    made = {}
    for _ in range(args.repeats + 1):
        for name, function in (("bare", bare), ("pass", by_pass)):
            start = args.clock()
            made[name] = function()
            times[name].append(args.clock() - start)
    bare_s, pass_s = (statistics.median(t[1:]) for t in times.values())
    gap = float(abs(made["pass"] - made["bare"]).max() / abs(made["bare"]).max())
    row = {
        "rows": len(X),
        "D": D,
        "l": width,
        "bare s": bare_s,
        "pass s": pass_s,
        "ratio": pass_s / bare_s,
        "gap": gap,
    }
    report(args, row)
    return [row]


def workers(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Wall seconds of one pass F'(F Q) on one worker and on two, of one thread each, in turns."""
    from distributed import Client, LocalCluster

    D, width = 8192, 512
    X = repeated(load(args.data, "mnist")[0], args.rows)
    map_ = RandomFourierFeatures(n_components=D, random_state=0).fit(X[:5000]).map_
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(D, width)))[0].astype(np.float32)
    fold = ProductReduction(FeatureTiles(map_, D), Q, width, 0, D)
    times: dict[int, list[float]] = {1: [], 2: []}
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", X)
        lazy = da.map_blocks(
            _read_rows, f"{folder}/rows.npy", 2048, dtype=X.dtype, meta=X[:0],
            chunks=(tuple(min(2048, len(X) - a) for a in range(0, len(X), 2048)), X.shape[1:]),
        )  # fmt: skip
        options = {"threads_per_worker": 1, "memory_limit": "4GiB", "dashboard_address": ":0"}
        for repeat in range(args.repeats + 1):  # the first compiles and makes weights
            for count in (1, 2):
                with LocalCluster(n_workers=count, **options) as cluster, Client(cluster):
                    run_pass(fold, [lazy[: 4096 * count]])
                    start = time.perf_counter()
                    made[count] = run_pass(fold, [lazy])
                    if repeat:
                        times[count].append(time.perf_counter() - start)
    one, two = (statistics.median(times[count]) for count in (1, 2))
    row = {
        "rows": len(X), "D": D, "l": width, "one worker s": one, "two workers s": two, "speed-up": one / two,
        "same bits": bool((made[1] == made[2]).all()),
    }  # fmt: skip
    report(args, row)
    return [row]


def _read_rows(path: str, step: int, block_info: Any = None) -> np.ndarray:
    first = block_info[None]["chunk-location"][0] * step
    return np.array(np.load(path, mmap_mode="r")[first : first + step])


def million(args: argparse.Namespace) -> list[dict[str, Any]]:
    """D = 1,000,000, l = 256 on workers of stated memory: planned and measured peak."""
    from distributed import Client, LocalCluster

    from distrf.execution.workers import peak_memory

    X = sample(load(args.data, "usps")[0], args.million_rows)
    map_ = (
        RandomFourierFeatures(n_components=args.million_components, random_state=0, length_scale=5.0)
        .fit(X)
        .map_
    )
    source, finder, out = FeatureTiles(map_, map_.n_components), Solver("finder", "asked for"), []
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, memory_limit="6GiB", dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        lazy = da.from_array(X, chunks=(512, X.shape[1]))
        for q, values in ((0, "sample"), (1, "sample")):
            start = time.perf_counter()
            found = RangeFinder(256, n_iter=q, values=values, sketch="srht").find(lazy, map_)
            gap = abs(found.basis.T @ found.basis - np.eye(256)).max()
            costs = subspace_costs(finder, Search(len(X), source, 266, X.itemsize, "srht", q, False))
            cached = int(min(map_.work()[1] * X.itemsize / 4, CACHE_BYTES))
            held = cached + (costs.learned_bytes if q else 0)  # a sketch alone sends no basis
            plan = PassMemory(512 * 4 * X.shape[1], costs.reduction.scratch_bytes, costs.reduction.nbytes, held)
            row = {
                "D": map_.n_components, "l": 256, "rows": len(X), "q": q, "values": values,
                "seconds": time.perf_counter() - start, "passes": found.passes, "solver": found.solver,
                "worker peak GiB": max(peak_memory(client).values()) / 2**30, "worker planned GiB": plan.peak / 2**30,
                "client planned GiB": (costs.client_bytes + PROCESS_BYTES) / 2**30,
                "residual": found.residual.value, "orthogonality": float(gap),
            }  # fmt: skip
            del found  # the next one is not held beside it
            out.append(row)
            report(args, row)
    with open("/proc/self/status") as status:
        peak = next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    out.append({"client peak GiB": peak / 2**30})
    report(args, out[-1])
    return out


PARTS = {f.__name__: f for f in (residual, kernel, regression, sketches, solvers, product, workers, million)}


def report(args: argparse.Namespace, row: dict[str, Any]) -> None:
    """One line a result, as it comes."""
    if not args.json:
        print("  ".join(f"{k}: {_short(v)}" for k, v in row.items()), flush=True)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "[" + " ".join(_short(v) for v in value) + "]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder of .npz archives")
    for name in PARTS:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--sets", nargs="+", help="data sets instead of the usual ones")
    parser.add_argument("--rows", type=int, default=20_000, help="rows sampled for residuals and times")
    parser.add_argument("--widths", type=int, nargs="+", help="l, instead of the usual ones")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--values", default="sample", choices=("pass", "sample"))
    parser.add_argument("--million-rows", type=int, default=1024)
    parser.add_argument("--million-components", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.clock = time.process_time if args.cpu else time.perf_counter
    if args.quick:
        args.seeds, args.repeats = min(args.seeds, 2), 1
    wanted = [name for name in PARTS if getattr(args, name)]
    if not wanted:
        parser.error("name at least one part: " + ", ".join(f"--{name}" for name in PARTS))
    result = {name: PARTS[name](args) for name in wanted}
    if args.json:
        json.dump(result, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
