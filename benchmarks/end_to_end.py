"""Wall time and memory of the main job, beside a bare NumPy loop that does the same arithmetic.

    python benchmarks/end_to_end.py mnist.npz                       # time and accuracy, D = 8,192
    python benchmarks/end_to_end.py mnist.npz --flat -D 2048        # peak memory of 100,000 and 1,000,000 rows

The archive holds grey values X_train, y_train, X_test, y_test. They are ingested into Zarr once, as they are.

distrf: local workers of one thread each; from the Zarr store through division by 255 and random Fourier
features to an exact ridge classifier, which is factored in the client. A small fit comes first, so workers have
started, imported and compiled (or loaded from Numba's cache); its time is printed.
bare: one process, BLAS on all cores. It reads blocks of the same store, multiplies by the same weights, takes
cosines and sines with NumPy in float32, adds the lower tiles of the Gram matrix in float64, and factors it.

Both run in turn, `--repeats` times; times are medians. Processor time, of all processes, is printed too: other
jobs on the machine disturb it less. Peaks are VmHWM of each worker since its start.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from scipy.linalg import cho_solve, cholesky
from sklearn.pipeline import Pipeline, make_pipeline

from distrf import RandomFourierFeatures, StreamingRidgeClassifier, StreamingScaler, ingest, open_rows
from distrf.cluster import connect
from distrf.execution.memory import Workers
from distrf.execution.write_zarr import write_rows
from distrf.pipeline.inputs import open_input
from distrf.planning import plan_job

RATIO_BAR, ACCURACY_BAR, FLAT_BAR = 1.25, 0.976, 1.10
_MIB = 2**20


def make_model(args: argparse.Namespace) -> Pipeline:
    return make_pipeline(
        StreamingScaler("divide", divisor=255.0),
        RandomFourierFeatures(gamma=args.gamma, n_components=args.components, random_state=7),
        StreamingRidgeClassifier(args.alpha),
    )


# --- the data ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _archive(path: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return archive["X_train"], archive["y_train"]


def _jittered(path: str, block_info: Any = None) -> np.ndarray:
    """Rows repeated, each grey value above 0 moved by up to 8: a function of the row number."""
    first, last = block_info[None]["array-location"][0]
    X, _ = _archive(path)
    rows = X[np.arange(first, last) % len(X)].astype(np.int16)
    for i, row in enumerate(rows):
        row += np.random.default_rng(first + i).integers(-8, 9, len(row), dtype=np.int16) * (row > 0)
    return np.clip(rows, 0, 255).astype(np.uint8)


def _labels(path: str, block_info: Any = None) -> np.ndarray:
    first, last = block_info[None]["array-location"][0]
    _, y = _archive(path)
    return y[np.arange(first, last) % len(y)]


def make_store(args: argparse.Namespace, rows: int | None, folder: str) -> str:
    """The training rows in Zarr: as they are, or repeated with jitter up to `rows`."""
    out = str(Path(folder) / f"train-{rows or 'all'}-{args.block_rows or 'default'}.zarr")
    if os.path.exists(out):
        return out
    if rows is None:
        ingest(args.data, out, split="train", block_rows=args.block_rows)
        return out
    path = os.path.abspath(args.data)
    X, y = _archive(path)
    # The same blocks for every number of rows: the ingest default grows with small n, and memory with it.
    step = args.block_rows or 8192
    chunks = tuple(min(step, rows - a) for a in range(0, rows, step))
    Xd = da.map_blocks(
        _jittered, path, chunks=(chunks, (X.shape[1],)), dtype=np.uint8, meta=np.empty((0, 0), np.uint8)
    )
    yd = da.map_blocks(_labels, path, chunks=(chunks,), dtype=y.dtype, meta=np.empty(0, y.dtype))
    write_rows(out, {"X": Xd, "y": yd}, kind="rows", spec={"source": path, "jitter": 8})
    return out


# --- memory --------------------------------------------------------------------------------------------------


def peak_bytes() -> int:
    """Largest resident size of this process. Not ru_maxrss: it starts at the size of the parent."""
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def planned_bytes(args: argparse.Namespace, store: str, client: Any) -> int:
    """What `distrf plan` says that one worker needs."""
    steps = [step for _, step in make_model(args).steps]
    return plan_job("train", steps, open_input(store, "y"), Workers.of_client(client), 10).memory.peak


def cpu_seconds(client: Any | None = None) -> float:
    """Processor time of this process, and of the workers of a client: steadier than the clock on a busy machine."""
    return time.process_time() + (sum(client.run(time.process_time).values()) if client else 0.0)


# --- the two ways --------------------------------------------------------------------------------------------


def distrf_fit(args: argparse.Namespace, store: str) -> tuple[Pipeline, float]:
    start = time.perf_counter()
    X, y = open_rows(store)
    model = make_model(args).fit(X, y)
    return model, time.perf_counter() - start


def bare_fit(args: argparse.Namespace, store: str, weights: np.ndarray) -> tuple[Any, float, dict[str, float]]:
    """The same least squares, in plain NumPy on all cores. `weights` has shape (d, D / 2), radians, float32."""
    begun = time.perf_counter()
    group = zarr.open_group(store, mode="r")
    n, D, T = group["X"].shape[0], args.components, 1024
    labels = np.asarray(group["y"][:])
    classes = np.unique(labels)
    tiles = [
        (slice(i, min(i + T, D)), slice(j, min(j + T, D))) for i in range(0, D, T) for j in range(0, i + 1, T)
    ]
    gram = [np.zeros((r.stop - r.start, c.stop - c.start)) for r, c in tiles]
    right, sums, totals = np.zeros((D, len(classes))), np.zeros(D), np.zeros(len(classes))
    spent = dict.fromkeys(("read", "features", "gram", "solve"), 0.0)
    block = max(1, 128 * _MIB // (4 * D))
    Z = np.empty((block, D), dtype=np.float32)
    for a in range(0, n, block):
        t0 = time.perf_counter()
        b = min(a + block, n)
        X = np.asarray(group["X"][a:b])
        t1 = time.perf_counter()
        phases = (X.astype(np.float32) / np.float32(255)) @ weights
        z = Z[: b - a]
        np.cos(phases, out=z[:, : D // 2])
        np.sin(phases, out=z[:, D // 2 :])
        z *= np.float32(np.sqrt(2.0 / D))
        t2 = time.perf_counter()
        Y = np.where(labels[a:b, None] == classes, np.float32(1), np.float32(-1))
        for tile, (r, c) in zip(gram, tiles, strict=True):
            tile += z[:, r].T @ z[:, c]
        right += z.T @ Y
        sums += z.sum(axis=0, dtype=np.float64)
        totals += Y.sum(axis=0, dtype=np.float64)
        t3 = time.perf_counter()
        for name, seconds in zip(("read", "features", "gram"), (t1 - t0, t2 - t1, t3 - t2), strict=True):
            spent[name] += seconds
    t0 = time.perf_counter()
    S = np.zeros((D, D), order="F")
    mean = sums / n
    for tile, (r, c) in zip(gram, tiles, strict=True):
        S[r, c] = tile / n - np.outer(mean[r], mean[c])
    S.ravel(order="K")[:: D + 1] += args.alpha
    factor = cholesky(S, lower=True, overwrite_a=True, check_finite=False)
    coef = cho_solve((factor, True), right / n - np.outer(mean, totals / n), check_finite=False)
    spent["solve"] = time.perf_counter() - t0
    return (classes, coef, totals / n - mean @ coef), time.perf_counter() - begun, spent


def bare_accuracy(args, solution, weights, X, y) -> float:
    classes, coef, intercept = solution
    phases = X @ weights
    Z = np.concatenate([np.cos(phases), np.sin(phases)], axis=1) * np.float32(np.sqrt(2.0 / args.components))
    return float((classes[(Z @ coef + intercept).argmax(axis=1)] == y).mean())


# --- the runs ------------------------------------------------------------------------------------------------


def compare(args: argparse.Namespace, folder: str) -> dict[str, Any]:
    start = time.perf_counter()
    store = make_store(args, args.rows, folder)
    result: dict[str, Any] = {"ingest_seconds": time.perf_counter() - start}
    with np.load(args.data, allow_pickle=False) as archive:
        X_test, y_test = archive["X_test"], archive["y_test"]
    with connect(n_workers=args.workers) as client:
        X, y = open_rows(store)
        start = time.perf_counter()
        small = argparse.Namespace(**{**vars(args), "components": 256})
        make_model(small).fit(X[: 2000 * args.workers].rechunk({0: 500}), y[: 2000 * args.workers])
        result["warm_up_seconds"] = time.perf_counter() - start
        # Shape (d, D / 2): as the map makes them, so that both ways solve one problem.
        weights = make_model(args)[1].fit(np.zeros((2, X.shape[1]))).map_.frequencies().T.astype(np.float32)
        times: dict[str, list[float]] = {"distrf": [], "bare": []}
        cpu: dict[str, list[float]] = {"distrf": [], "bare": []}
        for _ in range(args.repeats):
            before = cpu_seconds(client)
            model, seconds = distrf_fit(args, store)
            times["distrf"].append(seconds)
            cpu["distrf"].append(cpu_seconds(client) - before)
            if not args.no_bare:
                before = cpu_seconds()
                solution, seconds, spent = bare_fit(args, store, weights)
                times["bare"].append(seconds)
                cpu["bare"].append(cpu_seconds() - before)
                result["bare_parts"] = spent
            print({k: [round(t, 1) for t in v] for k, v in times.items()}, file=sys.stderr, flush=True)
        result["times"], result["cpu_seconds"] = times, cpu
        result["accuracy"] = model.score(X_test, y_test)
        result["distrf_seconds"] = statistics.median(times["distrf"])
        if times["bare"]:
            result["cpu_ratio"] = statistics.median(cpu["distrf"]) / statistics.median(cpu["bare"])
            result["bare_seconds"] = statistics.median(times["bare"])
            result["bare_accuracy"] = bare_accuracy(
                args, solution, weights, X_test.astype(np.float32) / np.float32(255), y_test
            )
            result["ratio"] = result["distrf_seconds"] / result["bare_seconds"]
        result["rows"] = X.shape[0]
        result["rows_per_second"] = X.shape[0] / result["distrf_seconds"]
        result["peak_bytes_per_worker"] = sorted(client.run(peak_bytes).values())
        result["planned_bytes_per_worker"] = planned_bytes(args, store, client)
    return result


def memory_run(args: argparse.Namespace, store: str) -> dict[str, Any]:
    """One fit on a fresh cluster in a fresh process."""
    with connect(n_workers=args.workers) as client:
        X, _ = open_rows(store)
        _, seconds = distrf_fit(args, store)
        return {
            "rows": X.shape[0],
            "seconds": seconds,
            "peak_bytes_per_worker": sorted(client.run(peak_bytes).values()),
            "planned_bytes_per_worker": planned_bytes(args, store, client),
        }


def flat(args: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Peaks at a tenth of the rows and at all of them."""
    most = args.rows or 1_000_000
    runs = []
    for rows in (most // 10, most):
        store = make_store(args, rows, folder)
        command = [
            *(sys.executable, __file__, args.data, "--memory-run", store, "--json"),
            *("-D", str(args.components), "--gamma", str(args.gamma), "--alpha", str(args.alpha)),
            *("--workers", str(args.workers)),
        ]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        runs.append(json.loads(done.stdout))
        print(runs[-1], file=sys.stderr, flush=True)
    low, high = (max(run["peak_bytes_per_worker"]) for run in runs)
    return {"runs": runs, "flat_ratio": high / low}


def report(args: argparse.Namespace, result: dict[str, Any]) -> None:
    if "flat_ratio" in result:
        for run in result["runs"]:
            peaks = ", ".join(f"{p / _MIB:.0f}" for p in run["peak_bytes_per_worker"])
            print(
                f"{run['rows']:>9,} rows {run['seconds']:8.1f} s   peak MiB per worker: {peaks}   "
                f"plan: {run['planned_bytes_per_worker'] / _MIB:.0f}"
            )
        print(f"peak at 10 n over peak at n: {result['flat_ratio']:.3f} (bar: <= {FLAT_BAR})")
        return
    print(f"{result['rows']:,} rows, D = {args.components:,}, {args.workers} workers")
    print(f"ingest {result['ingest_seconds']:.1f} s, warm-up {result['warm_up_seconds']:.1f} s (not counted)")
    print(f"distrf {result['distrf_seconds']:.1f} s, {result['rows_per_second']:,.0f} rows/s")
    if "ratio" in result:
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in result["bare_parts"].items())
        print(f"bare   {result['bare_seconds']:.1f} s (last one: {parts})")
        print(
            f"ratio  {result['ratio']:.3f} (bar: <= {RATIO_BAR}); of processor time {result['cpu_ratio']:.3f}"
        )
        print(f"bare accuracy {result['bare_accuracy']:.4f}")
    print(f"test accuracy {result['accuracy']:.4f} (bar on MNIST: >= {ACCURACY_BAR})")
    peaks = ", ".join(f"{p / _MIB:.0f}" for p in result["peak_bytes_per_worker"])
    print(f"peak MiB per worker: {peaks}; plan: {result['planned_bytes_per_worker'] / _MIB:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help=".npz archive of grey values 0 ... 255 with a train and a test part")
    parser.add_argument("-D", "--components", type=int, default=8192)
    parser.add_argument("--gamma", type=float, default=0.01)
    parser.add_argument("--alpha", type=float, default=1e-7)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rows", type=int, help="repeat the rows with jitter up to so many")
    parser.add_argument(
        "--block-rows",
        type=int,
        help="rows of a block of the store; default that of ingest, 8,192 with --rows and --flat",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-bare", action="store_true", help="leave out the bare loop")
    parser.add_argument("--flat", action="store_true", help="compare peak memory at --rows / 10 and --rows")
    parser.add_argument("--folder", help="keep the Zarr stores here and use them again")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--memory-run", help=argparse.SUPPRESS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or scratch
        if args.memory_run:
            result = memory_run(args, args.memory_run)
        else:
            result = (flat if args.flat else compare)(args, folder)
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        report(args, result)


if __name__ == "__main__":
    main()
