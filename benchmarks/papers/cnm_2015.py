"""Yu, Kumar, Rowley & Chang (2015), "Compact Nonlinear Maps and Circulant Extensions": Figures 1 and 2, Table 2."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from benchmarks import data
from benchmarks.benchmark import Part, Record, Run, grid, pm, spread
from benchmarks.clocks import cpu
from distrf import (
    CompactNonlinearClassifier,
    CompactNonlinearMap,
    RandomFourierFeatures,
    StreamingRidgeClassifier,
)

SETS = ("usps", "mnist", "letter", "magic04", "banana", "ijcnn1", "covtype_sample")
#: Training and test rows of the sets without a customary split, and of letter, whose split in the paper is its own.
ROWS = {"letter": (12_000, 6_000), "magic04": (14_226, 4_795), "banana": (1_000, 4_300), "covtype_sample": (0.9, None)}  # fmt: skip
#: Length scales of drawn features: the paper's, and twice that, where CNM starts.
RULES = {"RFF": "knn-cnm", "RFF, wide": "knn"}
#: Sets of which less is measured, so that all takes minutes: one seed, and an RBF SVM on so many rows.
LARGE, SVM_ROWS = ("mnist", "ijcnn1", "covtype_sample"), 4_000
#: Table 2 of the paper, RFF, circulant-random, circulant-optimised: accuracy in percent.
PAPER = {
    ("usps", 1): (89.05, 89.40, 91.96), ("usps", 2): (91.90, 91.87, 93.08),
    ("mnist", 1): (91.33, 91.01, 92.73), ("mnist", 2): (92.95, 93.22, 94.11),
}  # fmt: skip


def load(run: Run, name: str) -> data.Split:
    """float32 rows: grey values and letters on [0, 1], columns of covtype too, those of magic04 and banana in standard units."""
    X, y, T, t = data.split(run, name, *ROWS.get(name, (0, None)))
    if name == "letter":
        X, y, (n, m) = np.concatenate([X, T]), np.concatenate([y, t]), run.pick(ROWS[name], (300, 100))
        order = np.random.default_rng(0).permutation(len(y))
        X, y, T, t = X[order[:n]], y[order[:n]], X[order[n : n + m]], y[order[n : n + m]]
    X, T = data.dense(X), data.dense(T)
    if name in ("mnist", "letter"):
        X, T = data.unit_range(X, T)
    elif name in ROWS:
        X, T = (data.unit_columns if name == "covtype_sample" else data.standard)(X, T)
    return X, y, T, t


def linear_score(Z: np.ndarray, y: np.ndarray, T: np.ndarray, t: np.ndarray) -> float:
    """Test accuracy in percent of ridge or of logistic regression, whichever is better."""
    root = np.float32(np.sqrt(Z.shape[1]))  # so that the solver sees columns of about unit size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer = LogisticRegression(C=1e2, max_iter=60, tol=1e-3).fit(Z * root, y)
    return 100 * float(max(StreamingRidgeClassifier(1e-6).fit(Z, y).score(T, t), peer.score(T * root, t)))


def score(map_: Any, split: data.Split) -> float:
    """`linear_score` on the features of a map."""
    X, y, T, t = split
    return linear_score(map_.transform(X), y, map_.transform(T), t)


def drawn(k: int, seed: int, rule: str = "knn-cnm", projection: str = "dense") -> RandomFourierFeatures:
    options = {"n_components": k, "length_scale": rule, "projection": projection, "random_state": seed}
    return RandomFourierFeatures(phase="offset", **options)


def learner(run: Run, k: int, seed: int, **given: Any) -> CompactNonlinearClassifier:
    """CNM for classification: distrf's defaults, fewer epochs in a small run."""
    return CompactNonlinearClassifier(k, random_state=seed, **run.pick({}, {"n_epochs": 2}) | given)


def figure1(run: Run) -> Iterator[Record]:
    """Test accuracy in percent against k; in brackets processor seconds to train CNM. The RBF SVM is the best of four."""
    for name in run.pick(SETS, ("banana", "letter")):
        X, y, T, t = split = load(run, name)
        usps, large = name == "usps", name in LARGE
        common = {"set": name, "rows": len(X), "columns": X.shape[1]}
        yield common | {"method": "linear", **spread([linear_score(*split)])}
        few, few_y = data.sample(X, y, SVM_ROWS if large else len(X), seed=1)
        gammas = [0.5 / drawn(2, 0, rule).fit(X).length_scale_ ** 2 for rule in RULES.values()]
        svms = [SVC(C=C, gamma=gamma, cache_size=1000).fit(few, few_y) for gamma in gammas for C in (1.0, 10.0)]
        best = spread([100 * max(m.score(T, t) for m in svms)])
        yield common | {"method": "RBF SVM", "rows": len(few), **best}
        for k in run.pick((4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048) if usps else (8, 32, 128, 512), (4, 8)):
            if k in (4, 8, 16, 32, 128, 512) and (usps or k <= 128):
                seeds = range(run.pick(1 if large else 5 if k <= 32 else 2, 2))
                made = [cpu(partial(learner(run, k, seed).fit, X, y)) for seed in seeds]
                scores, seconds = [100 * model.score(T, t) for _, model in made], [taken for taken, _ in made]
                yield common | {"method": "CNM", "k": k, **spread(scores), "seconds": float(np.median(seconds))}
            for method, rule in RULES.items():
                maps = (drawn(k, seed, rule).fit(X) for seed in range(run.pick(1 if large else 2, 2)))
                yield common | {"method": method, "k": k, **spread([score(map_, split) for map_ in maps])}


def figure2(run: Run) -> Iterator[Record]:
    """Mean squared error of the kernel, times 1,000, over pairs of at most 2,000 test rows; after it the test accuracy in percent of a
    linear model on the same features. The bandwidth is the paper's.
    """
    for name in run.pick(SETS, ("banana",)):
        X, _, T, _ = split = load(run, name)
        rows = T[np.random.default_rng(1).permutation(len(T))[: run.pick(2000, 50)]]
        K = drawn(2, 0).fit(X).map_.exact_kernel(rows)
        few = max(1, round(300 * 500 / min(len(X), 16_384)))  # epochs of about 300 batches
        makes: dict[str, Callable[[int, int], Any]] = {
            "RFF": drawn,
            "CNM-kerapp, 300 steps": lambda k, seed, n=few: for_kernel(k, seed, run.pick(n, 1)),
            "CNM-kerapp": lambda k, seed: for_kernel(k, seed, run.pick("auto", 3)),
        }
        for k in run.pick((8, 32, 128), (4, 8)):
            for method, make in makes.items():
                seeds = range(run.pick(3 if method == "RFF" else 2 if name == "banana" else 1, 2))
                maps = [make(k, seed).fit(X) for seed in seeds]
                made = (map_.transform(rows).astype(np.float64) for map_ in maps)
                mse = spread([float(np.mean((K - Z @ Z.T) ** 2)) for Z in made])
                accuracy = spread([score(map_, split) for map_ in maps])
                yield {"set": name, "method": method, "k": k, "mse": mse, "accuracy": accuracy}


def for_kernel(k: int, seed: int, n_epochs: int | str) -> CompactNonlinearMap:
    return CompactNonlinearMap(k, length_scale="knn-cnm", n_epochs=n_epochs, random_state=seed)


def table2(run: Run) -> Iterator[Record]:
    """Test accuracy in percent, the paper's in brackets. Drawn features have the wide bandwidth, where CNM starts."""
    for name in run.pick(("usps", "mnist"), ("usps",)):
        X, y, T, t = split = load(run, name)
        seeds = range(run.pick(3 if name == "usps" else 2, 2))
        for times in (1, 2):
            k = times * X.shape[1]
            for method, projection in (("RFF", "dense"), ("circulant-random", "circulant")):
                scores = [score(drawn(k, seed, "knn", projection).fit(X), split) for seed in seeds]
                yield {"set": name, "times": times, "k": k, "method": method, **spread(scores)}
            made = (learner(run, k, seed, structure="circulant").fit(X, y) for seed in seeds)
            scores = [100 * float(model.score(T, t)) for model in made]
            yield {"set": name, "times": times, "k": k, "method": "circulant-optimised", **spread(scores)}


def beside_paper(r: Record) -> str:
    methods = ("RFF", "circulant-random", "circulant-optimised")
    return f"{pm()(r)} ({PAPER[r['set'], r['times']][methods.index(r['method'])]:.2f})"


PARTS = (
    Part(figure1, grid("{set}, {method}", lambda r: f"k = {r['k']:,}" if "k" in r else "any k", (
        lambda r: pm(1)(r) + (f" ({r['seconds']:.1f} s)" if "seconds" in r else "")
    ))),
    Part(figure2, grid("{set}, {method}", "k = {k}", lambda r: (
        f"{1e3 * r['mse']['mean']:.3g}; {pm(1, of='accuracy')(r)}"
    ))),
    Part(table2, grid("{set}, k = {k:,}", "{method}", beside_paper)),
)  # fmt: skip
