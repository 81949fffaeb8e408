"""Yu, Kumar, Rowley & Chang (2015), "Compact Nonlinear Maps and Circulant Extensions": Figures 1-3, Table 2, the equations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from benchmarks import data
from benchmarks.benchmark import Benchmark, Part, Record, Run, spread
from benchmarks.clocks import cpu, in_turn
from benchmarks.papers import cnm_2015_tables as tables
from benchmarks.papers.cnm_2015_claims import claims
from benchmarks.papers.cnm_2015_equations import equations, show_equations
from distrf import (
    CompactNonlinearClassifier,
    CompactNonlinearMap,
    RandomFourierFeatures,
    StreamingRidgeClassifier,
)

#: Training and test rows of the sets without a customary split, and of letter, whose split in the paper is its own.
ROWS = {"letter": (12_000, 6_000), "magic04": (14_226, 4_795), "banana": (1_000, 4_300), "covtype_sample": (0.9, None)}  # fmt: skip
#: Length scales of drawn features: the paper's, and twice that, where CNM starts.
RULES = {"RFF": "knn-cnm", "RFF, wide": "knn"}
#: Sets of which less is measured, so that all takes minutes: one seed, and an RBF SVM on so many rows.
LARGE = ("mnist", "ijcnn1", "covtype_sample")
SVM_ROWS = 4_000


def load(run: Run, name: str) -> data.Split:
    """float32 rows: grey values and letters on [0, 1], columns of covtype too, those of magic04 and banana in standard units."""
    if name == "letter":
        X, y, T, t = data.raw(run, name)
        X, y, (n, m) = np.concatenate([X, T]), np.concatenate([y, t]), ROWS[name]
        order = np.random.default_rng(0).permutation(len(y))
        n, m = run.pick((n, m), (300, 100))
        X, y, T, t = X[order[:n]], y[order[:n]], X[order[n : n + m]], y[order[n : n + m]]
    else:
        X, y, T, t = data.split(run, name, *ROWS.get(name, (0, None)))
    X, T = data.dense(X), data.dense(T)
    if name in ("mnist", "letter"):
        X, T = data.unit_range(X, T)
    elif name == "covtype_sample":
        X, T = data.unit_columns(X, T)
    elif name in ("magic04", "banana"):
        X, T = data.standard(X, T)
    return X, y, T, t


def linear_score(Z: np.ndarray, y: np.ndarray, T: np.ndarray, t: np.ndarray) -> float:
    """Test accuracy in percent of ridge or of logistic regression, whichever is better."""
    scores = [StreamingRidgeClassifier(1e-6).fit(Z, y).score(T, t)]
    root = np.float32(np.sqrt(Z.shape[1]))  # so that the solver sees columns of about unit size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer = LogisticRegression(C=1e2, max_iter=60, tol=1e-3).fit(Z * root, y)
    scores.append(peer.score(T * root, t))
    return 100 * float(max(scores))


def score(map_: Any, split: data.Split) -> float:
    """`linear_score` on the features of a map."""
    X, y, T, t = split
    return linear_score(map_.transform(X), y, map_.transform(T), t)


def drawn(k: int, seed: int, rule: str = "knn-cnm", projection: str = "dense") -> RandomFourierFeatures:
    return RandomFourierFeatures(
        length_scale=rule, n_components=k, phase="offset", projection=projection, random_state=seed
    )


def learner(run: Run, k: int, seed: int, **given: Any) -> CompactNonlinearClassifier:
    """CNM for classification: distrf's defaults, fewer epochs in a small run."""
    return CompactNonlinearClassifier(k, random_state=seed, **run.pick({}, {"n_epochs": 2}) | given)


# ---- Figure 1 -----------------------------------------------------------------------------------------


def figure1(run: Run) -> Iterator[Record]:
    for name in run.pick(tables.SETS, ("banana", "letter")):
        yield from figure1_of(run, name)


def figure1_of(run: Run, name: str) -> Iterator[Record]:
    """Test accuracy against k, in powers of four; of two on usps, for which the paper states how many are needed."""
    split = load(run, name)
    usps, large = name == "usps", name in LARGE
    yield {
        "set": name,
        "method": "linear",
        "rows": len(split[0]),
        "columns": split[0].shape[1],
        **spread([linear_score(*split)]),
    }
    record, right = svm(name, split)
    yield record
    for k in run.pick((4, 8, 16, 32, 128, 512) if usps else (8, 32, 128), (4, 8)):
        seeds = run.pick(1 if large else 5 if k <= 32 else 2, 2)
        yield learned_scores(run, name, split, k, seeds, right)
    for k in run.pick((4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048) if usps else (8, 32, 128, 512), (4, 8)):
        for method, rule in RULES.items():
            scores = [
                score(drawn(k, seed, rule).fit(split[0]), split)
                for seed in range(run.pick(1 if large else 2, 2))
            ]
            yield {"set": name, "method": method, "k": k, **spread(scores)}


def learned_scores(
    run: Run, name: str, split: data.Split, k: int, seeds: int, rival: np.ndarray | None
) -> Record:
    """CNM; "apart" is the share of test rows that either CNM or the rival has right, but not both."""
    X, y, T, t = split
    scores, seconds, apart = [], [], []
    for seed in range(seeds):
        taken, model = cpu(lambda seed=seed: learner(run, k, seed).fit(X, y))
        right = model.predict(T) == t
        scores.append(100 * float(right.mean()))
        seconds.append(taken)
        apart += [] if rival is None else [float((right != rival).mean())]
    record = {"set": name, "method": "CNM", "k": k, **spread(scores), "seconds": float(np.median(seconds))}
    record["test_rows"] = len(t)
    return record | ({"apart": float(np.mean(apart))} if apart else {})


def svm(name: str, split: data.Split) -> tuple[Record, np.ndarray | None]:
    """The best of four RBF SVMs, two bandwidths and two C; and the test rows that the best of the paper's bandwidth has
    right, if it was trained on all rows."""
    X, y, T, t = split
    few, few_y = data.sample(X, y, SVM_ROWS if name in LARGE else len(X), seed=1)
    right = {}
    for rule in RULES.values():
        gamma = 0.5 / drawn(2, 0, rule).fit(X).length_scale_ ** 2
        for C in (1.0, 10.0):
            model = SVC(C=C, gamma=gamma, cache_size=1000).fit(few, few_y)
            right[rule, C] = model.predict(T) == t
    rule, C = max(right, key=lambda what: right[what].sum())
    own = max((rows for (rule, _), rows in right.items() if rule == "knn-cnm"), key=np.sum)
    every = len(few) == len(X)
    found = {"length_scale": rule, "C": C, "paper_bandwidth": 100 * float(own.mean()), "all_rows": every}
    record = {
        "set": name,
        "method": "RBF SVM",
        "rows": len(few),
        **found,
        **spread([100 * float(right[rule, C].mean())]),
    }
    return record, own if every else None


# ---- Figure 2 -----------------------------------------------------------------------------------------


def figure2(run: Run) -> Iterator[Record]:
    for name in run.pick(tables.SETS, ("banana",)):
        yield from figure2_of(run, name)


def figure2_of(run: Run, name: str) -> Iterator[Record]:
    """Mean squared error of the kernel over pairs of test rows, and the accuracy with the same features."""
    split = load(run, name)
    X, _, T, _ = split
    rows = T[np.random.default_rng(1).permutation(len(T))[: run.pick(2000, 50)]]
    K = drawn(2, 0).fit(X).map_.exact_kernel(rows)
    few = max(1, round(300 * 500 / min(len(X), 16_384)))  # epochs of about 300 batches
    makes: dict[str, Callable[[int, int], Any]] = {
        "RFF": drawn,
        "CNM-kerapp, 300 steps": lambda k, seed: for_kernel(k, seed, run.pick(few, 1)),
        "CNM-kerapp": lambda k, seed: for_kernel(k, seed, run.pick("auto", 3)),
    }
    for k in run.pick((8, 32, 128), (4, 8)):
        for method, make in makes.items():
            errors, scores, seconds = [], [], []
            for seed in range(run.pick(3 if method == "RFF" else 2 if name == "banana" else 1, 2)):
                taken, map_ = cpu(lambda make=make, k=k, seed=seed: make(k, seed).fit(X))
                Z = map_.transform(rows).astype(np.float64)
                errors.append(float(np.mean((K - Z @ Z.T) ** 2)))
                scores.append(score(map_, split))
                seconds.append(taken)
            found = {"mse": spread(errors), "accuracy": spread(scores), "seconds": float(np.median(seconds))}
            yield {"set": name, "method": method, "k": k, **found}


def for_kernel(k: int, seed: int, n_epochs: int | str) -> CompactNonlinearMap:
    return CompactNonlinearMap(k, length_scale="knn-cnm", n_epochs=n_epochs, random_state=seed)


# ---- Circulant maps: Figure 3 and Table 2 -------------------------------------------------------------

#: What is drawn: dense weights; a circulant with signs on the input, the paper's D; one without. (Signs on the rows of a
#: circulant, which "circulant-paper" has, change the law of no feature that has an offset.)
PROJECTIONS = {"dense": "dense", "circulant": "circulant", "circulant, no signs": "circulant-paper"}


def figure3(run: Run) -> Iterator[Record]:
    """Mean squared error of the kernel of drawn features over pairs of 1,000 test rows."""
    for name in run.pick(("usps", "mnist"), ("usps",)):
        X, _, T, _ = load(run, name)
        rows = T[np.random.default_rng(1).permutation(len(T))[: run.pick(1000, 50)]]
        for method, rule in RULES.items():
            K = drawn(2, 0, rule).fit(X).map_.exact_kernel(rows)
            scale = drawn(2, 0, rule).fit(X).length_scale_
            for k in run.pick((32, 128, 512, 2048), (4, 16)):
                for kind, projection in PROJECTIONS.items():
                    errors = []
                    for seed in range(run.pick(10, 2)):
                        Z = drawn(k, seed, scale, projection).fit(X[:10]).transform(rows).astype(np.float64)
                        errors.append(float(np.mean((K - Z @ Z.T) ** 2)))
                    yield {"set": name, "bandwidth": method, "projection": kind, "k": k, **spread(errors)}


def table2(run: Run) -> Iterator[Record]:
    for name in run.pick(("usps", "mnist"), ("usps",)):
        yield from table2_of(run, name)


def table2_of(run: Run, name: str) -> Iterator[Record]:
    """Accuracy of circulant maps with k = d and k = 2 d."""
    split = load(run, name)
    X, y, T, t = split
    seeds = range(run.pick(3 if name == "usps" else 2, 2))
    for times in (1, 2):
        k = times * X.shape[1]
        for method, projection in (("RFF", "dense"), ("circulant-random", "circulant")):
            scores = [score(drawn(k, seed, "knn", projection).fit(X), split) for seed in seeds]
            yield {"set": name, "times": times, "k": k, "method": method, **spread(scores)}
        models = (learner(run, k, seed, structure="circulant").fit(X, y) for seed in seeds)
        scores = [100 * float(model.score(T, t)) for model in models]
        yield {"set": name, "times": times, "k": k, "method": "circulant-optimised", **spread(scores)}


# ---- Section 6.1: regularisation, and the choices that distrf makes -----------------------------------

CHOICES: dict[str, dict[str, Any]] = {
    "as distrf has it": {},
    "no penalty on frequencies": {"theta_l2": 0.0},
    "no penalty, stopped early": {"theta_l2": 0.0, "early_stopping": True},
    "cosines and sines": {"phase": "paired"},
    "start with the paper's bandwidth": {"length_scale": "knn-cnm"},
    "hinge loss, steps in turn": {"loss": "hinge", "learning_rate": "pegasos", "alpha": 1e-3, "alternate": (100, 100)},
}  # fmt: skip


def choices(run: Run) -> Iterator[Record]:
    """Accuracy of CNM with few features, one choice changed at a time."""
    for name in run.pick(("usps", "letter", "magic04"), ("banana",)):
        X, y, T, t = load(run, name)
        for what, given in CHOICES.items():
            with warnings.catch_warnings():
                if run.small:  # too few steps to get anywhere
                    warnings.simplefilter("ignore", ConvergenceWarning)
                models = [learner(run, 8, seed, **given).fit(X, y) for seed in range(run.pick(5, 2))]
            yield {"set": name, "k": 8, "choice": what, **spread([100 * float(m.score(T, t)) for m in models])}


# ---- Cost ---------------------------------------------------------------------------------------------


def speed(run: Run) -> Iterator[Record]:
    """Processor seconds of the gradient of a batch with respect to everything that is learned, k = d, 10 classes."""
    for d in run.pick((256, 512, 1024, 2048, 4096, 8192, 16384), (64, 128)):
        kinds = ("circulant", "dense") if d <= 4096 else ("circulant",)
        taken = in_turn({kind: step_of(kind, d, 256) for kind in kinds}, run.pick(7, 1))
        yield {
            "d": d,
            "rows": 256,
            **{kind: min(taken[kind]) if kind in taken else None for kind in ("circulant", "dense")},
        }


def step_of(structure: str, d: int, n: int) -> Callable[[], Any]:
    from distrf.learned.objectives import CompactWork, Layout
    from distrf.losses import Multinomial
    from distrf.sgd.schedules import Holdout
    from distrf.targets import Targets

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    Y = np.where(np.arange(10) == rng.integers(0, 10, (n, 1)), 1.0, -1.0).astype(np.float32)
    layout = Layout(d, d, "offset", structure, 0, 10)
    targets = Targets(None, np.zeros(10))
    work = CompactWork(targets, Multinomial(), 0.0, 0, True, Holdout(0.0, 0), layout=layout)
    p = rng.normal(size=layout.size) / math.sqrt(d)
    return lambda: work.gradient((X, Y, None), p)


ABOUT = """
Felix X. Yu, Sanjiv Kumar, Henry Rowley, Shih-Fu Chang, *Compact Nonlinear Maps and Circulant Extensions*, arXiv:1503.03893, 2015.

*CNM* is {py:class}`~distrf.CompactNonlinearClassifier`, *CNM-kerapp* {py:class}`~distrf.CompactNonlinearMap` for a kernel, *RFF*
[Fourier features](../methods/fourier.md) with offsets; what they are is on [the page of the method](../methods/cnm.md). How ours
differ from the paper:

* CNM is trained as distrf does it, with Adam and a softmax loss, about 3,000 batches of 500 rows, not by Algorithm 3 with a hinge
  loss (100 steps each); one row under *Choices* comes close to that. Features have offsets.
* Features that are not learned for the classes get ridge or logistic regression, whichever is better on the test rows, not an
  SVM. The RBF SVM is the best of four on the test rows, $C$ = 1 or 10, of both bandwidths; on large sets it was trained on some of
  the rows only, as many as the table says. Both choices favour what CNM is compared with. Where there is one seed, the standard
  error of an accuracy is that of a share of the test rows.
* Bandwidths: *RFF* has the paper's, $\\gamma = 2/\\sigma^2$ with $\\sigma$ the mean distance to the 50th neighbour among 1,000 rows;
  *RFF, wide* has twice it ($\\gamma = 1/(2\\sigma^2)$), where CNM starts.
* Sets: FOREST is a sample of 43,844 rows of Covertype with all seven classes; splits of BANANA, MAGIC04 and LETTER have the
  paper's sizes and are drawn anew. CIFAR is left out: only 4,000 of its images are at hand.
* The paper prints no figures beside its curves, so Figures 1 to 3 are compared by what its text says of them.
"""

BENCHMARK = Benchmark(
    "cnm_2015", "Compact nonlinear maps (2015)", ABOUT,
    (
        Part("equations", equations, show_equations, data=False),
        Part("figure1", figure1, tables.show_figure1, tables.draw_figure1),
        Part("figure2", figure2, tables.show_figure2, tables.draw_figure2),
        Part("figure3", figure3, tables.show_figure3, tables.draw_figure3),
        Part("table2", table2, tables.show_table2),
        Part("choices", choices, tables.show_choices),
        Part("speed", speed, tables.show_speed, data=False),
    ),
    claims,
)  # fmt: skip
