"""Compact nonlinear maps: the figures and tables of Yu et al. (2015) on real data.

    python benchmarks/cnm.py figure1 DATA --out figure1.png   # accuracy by k: learned, for a kernel, drawn, linear, SVM
    python benchmarks/cnm.py figure2 DATA                     # kernel error by k, learned and drawn
    python benchmarks/cnm.py table2 DATA                      # circulant maps on usps and mnist, k = d and 2 d
    python benchmarks/cnm.py speed DATA                       # an epoch of MNIST at k = 128; circulant cost by d

DATA is the folder of the .npz archives. Rows are scaled here, with the training part only; splits are those of
the paper's Table 1, as far as the data allow. Times are CPU seconds unless they say otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from distrf import (
    CompactNonlinearClassifier,
    CompactNonlinearMap,
    RandomFourierFeatures,
    StreamingRidgeClassifier,
)
from distrf.datasets import load_npz

SETS = ("usps", "mnist", "letter", "magic04", "banana", "ijcnn1", "covtype")
SIZES = (4, 8, 16, 32, 64, 128, 256, 512)
#: Length scales of what is not learned for the classes: the paper's, and twice that, where CNM starts.
RULES = ("knn-cnm", "knn")
#: (training, test) rows of the sets without a customary split; of covtype, the paper's shares of a sample.
ROWS = {
    "letter": (12_000, 6_000),
    "magic04": (14_226, 4_794),
    "banana": (1_000, 4_300),
    "covtype": (39_460, 4_384),
}


def load(folder: str, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(X, y, test X, test y), float32, scaled."""
    path = os.path.join(folder, {"covtype": "covtype_sample"}.get(name, name) + ".npz")
    if name in ("usps", "mnist", "ijcnn1", "letter"):
        (X, y), (T, t) = load_npz(path, "train"), load_npz(path, "test")
    if name in ROWS:
        X, y = (np.concatenate([X, T]), np.concatenate([y, t])) if name == "letter" else load_npz(path)
        order, (n, m) = np.random.default_rng(0).permutation(len(X)), ROWS[name]
        X, y = X[order], y[order]
        X, y, T, t = X[:n], y[:n], X[n : n + m], y[n : n + m]
    shift, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
    if name in ("mnist", "letter"):
        scale *= X.max()
    elif name == "covtype":
        shift, scale = X.min(axis=0), np.maximum(np.ptp(X, axis=0), 1)
    elif name in ("magic04", "banana"):
        shift, scale = X.mean(axis=0), X.std(axis=0)
    return ((X - shift) / scale).astype(np.float32), y, ((T - shift) / scale).astype(np.float32), t


def linear_score(Z: np.ndarray, y: np.ndarray, T: np.ndarray, t: np.ndarray) -> float:
    """Test accuracy of the better of ridge and logistic regression."""
    from sklearn.linear_model import LogisticRegression

    scores = [StreamingRidgeClassifier(1e-6).fit(Z, y).score(T, t)]
    root = np.float32(np.sqrt(Z.shape[1]))  # so that the solver sees columns of about unit size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer = LogisticRegression(C=1e2, max_iter=60, tol=1e-3).fit(Z * root, y)
    scores.append(peer.score(T * root, t))
    return 100 * max(scores)


def drawn(k: int, seed: int, rule: str = "knn-cnm") -> RandomFourierFeatures:
    return RandomFourierFeatures(length_scale=rule, n_components=k, phase="offset", random_state=seed)


def svm_score(X: np.ndarray, y: np.ndarray, T: np.ndarray, t: np.ndarray, rows: int) -> float:
    from sklearn.svm import SVC

    order = np.random.default_rng(1).permutation(len(X))[:rows]
    # The better of two bandwidths.
    gammas = (0.5 / drawn(2, 0, rule).fit(X).length_scale_ ** 2 for rule in RULES)
    models = (SVC(C=10.0, gamma=gamma, cache_size=2000).fit(X[order], y[order]) for gamma in gammas)
    return 100 * max(float(model.score(T, t)) for model in models)


def figure1(args: argparse.Namespace) -> None:
    results: dict[str, Any] = {}
    if args.json and os.path.exists(args.json):
        with open(args.json) as file:
            results = json.load(file)
    for name in args.sets:
        if name not in results:
            results[name] = figure1_set(name, args)
            if args.json:
                with open(args.json, "w") as file:
                    json.dump(results, file, indent=1)
    for key, what in (("rff", "RFF"), ("wide", "RFF of twice the bandwidth")):
        short = [
            f"{name} k={k} by {rff - cnm:.2f}"
            for name, entry in results.items()
            for k, cnm, rff in zip(entry["k"], entry["cnm"], entry[key], strict=True)
            if k <= 128 and not cnm > rff
        ]
        print(
            f"CNM above {what} at every k <= 128 on every set: {'no: ' + ', '.join(short) if short else 'yes'}"
        )
    if args.out:
        plot(results, args.out)


def figure1_set(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Accuracies by k on one set: means over the seeds."""
    X, y, T, t = load(args.data, name)
    columns = ("cnm", "kerapp", "rff", "wide")
    entry: dict[str, Any] = {"k": list(args.sizes), "seconds": []} | {key: [] for key in columns}
    entry["linear"] = linear_score(X, y, T, t)
    entry["svm"] = svm_score(X, y, T, t, args.svm_rows) if args.svm_rows else None
    note = "" if len(X) <= args.svm_rows else f" on {args.svm_rows:,} rows"
    svm = "-" if entry["svm"] is None else f"{entry['svm']:.2f}{note}"
    print(f"\n{name}: {len(X):,} x {X.shape[1]}, linear {entry['linear']:.2f}, RBF SVM {svm}", flush=True)
    print("    k     CNM  kerapp     RFF RFF wide  CPU s of CNM", flush=True)

    def score(map_: Any) -> float:
        return linear_score(map_.fit(X).transform(X), y, map_.transform(T), t)

    for k in args.sizes:
        found: dict[str, list[float]] = {key: [] for key in (*columns, "seconds")}
        for seed in range(args.seeds):
            started = time.process_time()
            model = CompactNonlinearClassifier(k, random_state=seed).fit(X, y)
            found["seconds"].append(time.process_time() - started)
            found["cnm"].append(100 * model.score(T, t))
            found["rff"].append(score(drawn(k, seed)))
            found["wide"].append(score(drawn(k, seed, "knn")))
            if k <= args.kerapp_up_to:
                found["kerapp"].append(score(CompactNonlinearMap(k, length_scale=RULES[0], random_state=seed)))
        for key, values in found.items():
            entry[key].append(float(np.mean(values)) if values else float("nan"))
        last = (entry[key][-1] for key in columns)
        print(f"{k:5d}", *(f"{v:7.2f}" for v in last), f"{entry['seconds'][-1]:8.1f}", flush=True)
    return entry


def plot(results: dict[str, Any], path: str) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    columns = min(4, len(results))
    rows = -(-len(results) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3.6 * columns, 3.0 * rows), squeeze=False)
    for axis in axes.flat[len(results) :]:
        axis.axis("off")
    spare = axes.size > len(results)
    for axis, (name, entry) in zip(axes.flat, results.items(), strict=False):
        for key, label, style in (
            ("cnm", "CNM", "o-"),
            ("kerapp", "CNM-kerapp", "s--"),
            ("rff", "RFF", "^-"),
            ("wide", "RFF, twice the bandwidth", "v:"),
        ):
            axis.plot(entry["k"], entry[key], style, label=label, markersize=4)
        axis.axhline(entry["linear"], color="grey", linestyle=":", label="linear")
        if entry["svm"] is not None:
            axis.axhline(entry["svm"], color="black", linestyle="-.", label="RBF SVM")
        axis.set_xscale("log", base=2)
        axis.set_xticks(entry["k"][::2], [str(k) for k in entry["k"][::2]])
        axis.set_title(name)
        axis.set_xlabel("k")
    axes.flat[0].set_ylabel("test accuracy, %")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    place = axes.flat[-1] if spare else axes.flat[0]
    place.legend(handles, labels, fontsize=9 if spare else 7, loc="center" if spare else "best")
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    print(f"plot: {path}")


def figure2(args: argparse.Namespace) -> None:
    ok = True
    for name in args.sets:
        X, _, T, _ = load(args.data, name)
        rows = T[np.random.default_rng(1).permutation(len(T))[:2000]]
        print(f"\n{name}: mean squared error of the kernel over pairs of {len(rows):,} test rows")
        print("    k        CNM        RFF  ratio", flush=True)
        for k in (k for k in args.sizes if k <= 128):
            errors = np.empty((args.seeds, 2))
            for seed in range(args.seeds):
                start = drawn(k, seed).fit(X)
                K = start.map_.exact_kernel(rows)
                for i, map_ in enumerate(
                    (CompactNonlinearMap(k, length_scale=start.length_scale, random_state=seed).fit(X), start)
                ):
                    Z = map_.transform(rows).astype(np.float64)
                    errors[seed, i] = np.mean((K - Z @ Z.T) ** 2)
            ok &= bool((errors[:, 0] < errors[:, 1]).all())
            learned, random = errors.mean(axis=0)
            print(f"{k:5d} {learned:10.2e} {random:10.2e} {learned / random:6.2f}", flush=True)
    print(f"\nlower than RFF at every k and seed: {'yes' if ok else 'no'}")


def table2(args: argparse.Namespace) -> None:
    paper = {("usps", 1): 91.96, ("usps", 2): 93.08, ("mnist", 1): 92.73, ("mnist", 2): 94.11}
    print("            RFF        circulant-random  circulant-optimised  paper", flush=True)
    for (name, times), bar in paper.items():
        if name not in args.sets:
            continue
        X, y, T, t = load(args.data, name)
        k = times * X.shape[1]
        columns: list[list[float]] = [[], [], []]
        for seed in range(args.seeds):
            for scores, projection in ((columns[0], "dense"), (columns[1], "circulant")):
                map_ = drawn(k, seed, "knn").set_params(projection=projection).fit(X)
                Z, U = map_.transform(X), map_.transform(T)
                scores.append(linear_score(Z, y, U, t))
            model = CompactNonlinearClassifier(k, structure="circulant", random_state=seed).fit(X, y)
            columns[2].append(100 * model.score(T, t))
        text = "  ".join(f"{np.mean(c):6.2f} +- {np.std(c):.2f}" for c in columns)
        print(f"{name} k={times}d  {text}  {bar} {'ok' if np.mean(columns[2]) >= bar else 'SHORT'}", flush=True)


def speed(args: argparse.Namespace) -> None:
    from distrf.learned.objectives import CompactWork, Layout
    from distrf.losses import Multinomial
    from distrf.sgd.schedules import Holdout
    from distrf.targets import Targets

    X, y, T, t = load(args.data, "mnist")
    started, used = time.perf_counter(), time.process_time()
    model = CompactNonlinearClassifier(128, n_epochs=3, random_state=0).fit(X, y)
    wall, cpu = (
        (now - then) / 3 for now, then in ((time.perf_counter(), started), (time.process_time(), used))
    )
    print(f"MNIST, k = 128: an epoch takes {wall:.2f} s, {cpu:.2f} CPU s (bar 10 s on 2 cores), fit included")
    print(f"test accuracy after 3 epochs {100 * model.score(T, t):.2f} %")
    print(
        "\ngradient of 256 rows, k = d, 10 classes, CPU ms: circulant; d log2 d, scaled to the first; dense",
        flush=True,
    )
    first = None
    for d in (256, 512, 1024, 2048, 4096, 8192, 16384):
        rng, times = np.random.default_rng(0), []
        rows = rng.normal(size=(256, d)).astype(np.float32)
        labels = np.where(np.arange(10) == rng.integers(0, 10, (256, 1)), 1.0, -1.0).astype(np.float32)
        for structure in ("circulant", "dense"):
            if structure == "dense" and d > 4096:
                times.append(float("nan"))
                continue
            layout = Layout(d, d, "offset", structure, 0, 10)
            holdout = Holdout(0.0, frozenset(), 0)
            work = CompactWork(Targets(None, np.zeros(10)), Multinomial(), 0.0, 0, True, holdout, layout)
            p = 0.01 * rng.normal(size=sum(layout.sizes))
            p[0] = 0.0
            best = np.inf
            for _ in range(6):
                then = time.process_time()
                work.gradient((rows, labels, None), p)
                best = min(best, time.process_time() - then)
            times.append(1e3 * best)
        first = first or times[0] / (d * np.log2(d))
        print(f"{d:6d} {times[0]:8.1f} {first * d * np.log2(d):8.1f} {times[1]:8.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("figure1", "figure2", "table2", "speed"))
    parser.add_argument("data", help="folder of the .npz archives")
    parser.add_argument("--sets", type=lambda s: s.split(","), default=list(SETS))
    parser.add_argument("--sizes", type=lambda s: [int(k) for k in s.split(",")], default=list(SIZES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument(
        "--svm-rows", type=int, default=10_000, help="training rows of the RBF SVM at most; 0: none"
    )
    parser.add_argument("--kerapp-up-to", type=int, default=128, help="largest k of CNM-kerapp")
    parser.add_argument("--out", help="file of the plot of figure1")
    parser.add_argument("--json", help="file of the numbers of figure1; sets that it has are not run again")
    args = parser.parse_args()
    {"figure1": figure1, "figure2": figure2, "table2": table2, "speed": speed}[args.part](args)


if __name__ == "__main__":
    main()
