"""Random Laplace features: speed, kernel error and accuracy (Mukuta et al. 2018, Tables 2-5 and Figure 1).

    python benchmarks/laplace.py --part speed --d 4096 16384
    python benchmarks/laplace.py --part error
    python benchmarks/laplace.py --part accuracy --seeds 10 --json accuracy.json

One core, float64, runs interleaved, medians. "bare" is the FFTs and exponentials that a projection cannot do
without, on arrays of the same shapes: n_mixed forward and D / d inverse transforms a row. Data are read from
--data (usps.npz, newsgroups20_counts.npz); newsgroups keeps the --words most frequent words of its 36,568, and
all rows have unit l1 norm.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
# A dense W of 16,384 columns takes 2 GiB: cached, so that no run makes it anew.
os.environ.setdefault("DISTRF_CACHE_BYTES", str(3 * 2**30))

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.fft
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import train_test_split

from distrf import RandomFourierFeatures, RandomLaplaceFeatures, StreamingRidgeClassifier
from distrf.kernels import ExponentialSemigroup
from distrf.maps import LaplaceMap

PROJECTIONS = ("dense", "alternating_circulant-log2", "alternating_circulant", "circulant")
SHORT = {
    "dense": "dense Laplace",
    "alternating_circulant-log2": "altcirc m = log2 d",
    "alternating_circulant": "altcirc m = 2",
    "circulant": "circulant",
}
#: Mean squared loss + (alpha / 2) |w|^2; Laplace features vary little, so small ones are needed.
ALPHAS = [10.0**e for e in range(-11, -3)]
console = Console()


# ---- data -------------------------------------------------------------------------------------------


def l1(X: np.ndarray) -> np.ndarray:
    norms = X.sum(axis=1, keepdims=True)
    return X / np.where(norms == 0, 1.0, norms)


def usps(folder: Path) -> tuple[np.ndarray, ...]:
    with np.load(folder / "usps.npz") as z:
        parts = [z[k].astype(np.float64) for k in ("X_train", "X_test")]
        return l1(parts[0]), l1(parts[1]), z["y_train"], z["y_test"]


def newsgroups(folder: Path, words: int) -> tuple[np.ndarray, ...]:
    """The `words` most frequent words (by documents), a fixed split of four to one."""
    with np.load(folder / "newsgroups20_counts.npz") as z:
        name = next(k[:-6] for k in z.files if k.endswith("_shape"))
        X = sp.csr_matrix(
            tuple(z[f"{name}_{p}"] for p in ("data", "indices", "indptr")), shape=tuple(z[f"{name}_shape"])
        )
        y = z["y"]
    frequent = np.sort(np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")[:words])
    X = l1(X[:, frequent].toarray().astype(np.float64))
    return tuple(train_test_split(X, y, test_size=0.2, random_state=0, stratify=y))


# ---- speed ------------------------------------------------------------------------------------------


def seconds(runs: dict[str, Callable[[], Any]], repeat: int) -> dict[str, float]:
    """Median processor seconds of each run, interleaved, after one round to warm up."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(repeat + 1):
        for name, run in runs.items():
            start = time.thread_time()
            run()
            if round_:
                taken[name].append(time.thread_time() - start)
    return {name: float(np.median(values)) for name, values in taken.items()}


def bare(map_: LaplaceMap, n: int) -> Callable[[], None]:
    """The FFTs and exponentials of n rows, by the batch."""
    projector, d = map_.projector, map_.n_features_in
    rows, blocks = min(n, 8), -(-map_.n_components // d)
    parts = np.zeros((rows, projector.n_mixed, d))
    spectra = scipy.fft.rfft(np.random.default_rng(0).random((rows, blocks, d)))
    phases = np.random.default_rng(0).random((rows, map_.n_components))

    def run():
        for _ in range(-(-n // rows)):
            scipy.fft.rfft(parts)
            scipy.fft.irfft(spectra, d)
            np.exp(-phases)

    return run


def speed(sizes: list[int], n: int, repeat: int) -> list[dict[str, Any]]:
    measured = []
    for d in sizes:
        X = l1(np.random.default_rng(0).random((n, d)))
        kernel = ExponentialSemigroup().with_median(2 * X[:50])
        for rows in (n, 1):
            batch, out = X[:rows], np.empty((rows, d))
            runs: dict[str, Callable[[], Any]] = {}
            for name in ("dense", "alternating_circulant", "alternating_circulant-log2"):
                map_ = LaplaceMap(d, d, kernel, name, 0)
                runs[name] = lambda map_=map_, batch=batch, out=out: map_.fill(batch, out)
                if name != "dense":
                    runs["bare " + name] = bare(map_, rows)
            taken = seconds(runs, repeat if rows > 1 else 5 * repeat)
            for name, value in taken.items():
                if not name.startswith("bare"):
                    lean = taken.get("bare " + name)
                    measured.append(
                        {"d": d, "rows": rows, "projection": name, "seconds": value, "bare_seconds": lean}
                        | {"faster_than_dense": taken["dense"] / value, "over_bare": lean and value / lean}
                    )
    table = Table(
        "d = D", "rows", "projection", "seconds", "x dense", "x bare", title="Speed, float64, one core"
    )
    for m in measured:
        over = "" if m["over_bare"] is None else f"{m['over_bare']:.2f}"
        table.add_row(
            str(m["d"]), str(m["rows"]), SHORT[m["projection"]], f"{m['seconds']:.2e}",
            f"{m['faster_than_dense']:.1f}", over,
        )  # fmt: skip
    console.print(table)
    return measured


# ---- kernel error -----------------------------------------------------------------------------------


def error(sets: dict[str, tuple[np.ndarray, ...]], seeds: int, times: int) -> list[dict[str, Any]]:
    """|K - Z Z'|_F / |K|_F over 500 rows, D = times * d."""
    measured = []
    for data, (X, *_) in sets.items():
        X = X[:500]
        d = X.shape[1]
        kernel = ExponentialSemigroup().with_median(X + X[::-1])
        K = kernel(X)
        for name in PROJECTIONS:
            errors = []
            for seed in range(seeds):
                Z = LaplaceMap(d, times * d, kernel, name, seed)(X)
                errors.append(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))
            measured.append({"data": data, "d": d, "D": times * d, "projection": name} | spread(errors))
    table = Table("data", "D", "projection", "relative error", title=f"Frobenius error, D = {times} d")
    for m in measured:
        table.add_row(
            m["data"], str(m["D"]), SHORT[m["projection"]], f"{m['mean']:.2e} ± {m['standard_error']:.1e}"
        )
    console.print(table)
    return measured


def spread(values: list[float]) -> dict[str, float]:
    n = len(values)
    deviation = float(np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    return {"mean": float(np.mean(values)), "standard_error": deviation, "n": n}


# ---- accuracy ---------------------------------------------------------------------------------------


def features(method: str, D: int, seed: int) -> Any:
    if method == "gauss":
        return RandomFourierFeatures("gaussian", n_components=D, random_state=seed, n_jobs=1)
    projection, _, mixed = method.partition("-")
    return RandomLaplaceFeatures(
        n_components=D, projection=projection, n_mixed=mixed or 2, random_state=seed, n_jobs=1
    )


def accuracy(sets: dict[str, tuple[np.ndarray, ...]], seeds: int, multiples: list[int]) -> list[dict[str, Any]]:
    measured = []

    def score(Z, T, y_train, y_test) -> float:
        model = StreamingRidgeClassifier(ALPHAS, cv="holdout").fit(Z, y_train)
        return 100 * model.score(T, y_test)

    for data, (X, T, y_train, y_test) in sets.items():
        d = X.shape[1]
        base = score(X, T, y_train, y_test)
        for multiple in multiples:
            for method in (*PROJECTIONS, "gauss"):
                scores = []
                for seed in range(seeds):
                    map_ = features(method, multiple * d, seed).fit(X)
                    scores.append(score(map_.transform(X), map_.transform(T), y_train, y_test))
                row = {"data": data, "d": d, "D": multiple * d, "method": method} | spread(scores)
                measured.append(row)
                console.print(
                    f"{data} {method} D = {row['D']}: {row['mean']:.2f} ± {row['standard_error']:.2f}"
                )
        measured.append({"data": data, "d": d, "D": d, "method": "linear"} | spread([base]))
    for data in sets:
        mine = [m for m in measured if m["data"] == data]
        table = Table(
            "method", *(f"D = {k}d" if k > 1 else "D = d" for k in multiples), title=f"Accuracy, {data}"
        )
        for method in (*PROJECTIONS, "gauss", "linear"):
            cells = [f"{m['mean']:.2f} ± {m['standard_error']:.2f}" for m in mine if m["method"] == method]
            table.add_row(SHORT.get(method, method), *cells)
        console.print(table)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("speed", "error", "accuracy"), nargs="+", default=["speed", "error"])
    parser.add_argument("--d", type=int, nargs="+", default=[4096, 16384], help="sizes of the speed part")
    parser.add_argument("--rows", type=int, default=1000, help="batch of the speed part")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--times", type=int, default=8, help="D / d of the error part")
    parser.add_argument(
        "--multiples", type=int, nargs="+", default=[1, 2, 4], help="D / d of the accuracy part"
    )
    parser.add_argument("--sets", choices=("usps", "newsgroups"), nargs="+", default=["usps", "newsgroups"])
    parser.add_argument("--words", type=int, default=2048)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    result: dict[str, Any] = {"machine": platform.processor(), "numpy": np.__version__}
    sets: dict[str, tuple[np.ndarray, ...]] = {}
    if set(args.part) & {"error", "accuracy"}:
        if "usps" in args.sets:
            sets["usps"] = usps(args.data)
        if "newsgroups" in args.sets:
            sets["newsgroups"] = newsgroups(args.data, args.words)
    if "speed" in args.part:
        result["speed"] = speed(args.d, args.rows, args.repeat)
    if "error" in args.part:
        result["error"] = error(sets, args.seeds, args.times)
    if "accuracy" in args.part:
        result["accuracy"] = accuracy(sets, args.seeds, args.multiples)
    if args.json:
        args.json.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
