"""Fits by passes beside SGD and scikit-learn's solvers on the same features: gaps to the optimum, passes, seconds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import HuberRegressor, LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from benchmarks import data
from benchmarks.benchmark import Part, Record, Run, lines, markdown
from benchmarks.clocks import cpu
from distrf import (
    RandomFourierFeatures,
    StreamingLinearClassifier,
    StreamingLinearRegressor,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
)
from distrf.losses import get_loss
from distrf.newton.descent import descend, penalised
from distrf.newton.hessian import SampledHessian, SampledRows
from distrf.newton.line import sampled_points
from distrf.targets import class_targets, regression_targets

ALPHA, ROWS, COMPONENTS, EPOCHS = 1e-6, 40_000, 256, 10
#: name: (set, loss, what is done to the rows)
PROBLEMS = {
    "protein, squared": ("protein_casp", "squared", ""),
    "protein, Huber": ("protein_casp", "huber", ""),
    "airline, Huber": ("airline_delay_nyc2013", "huber", ""),
    "ijcnn1, logistic": ("ijcnn1", "logistic", ""),
    "ijcnn1, squared hinge": ("ijcnn1", "squared_hinge", ""),
    "covtype, multinomial": ("covtype_sample", "multinomial", ""),
    "mnist, multinomial": ("mnist", "multinomial", ""),
    "mnist, squared hinge": ("mnist", "squared_hinge", ""),
    "ijcnn1 with .1 % positive, logistic": ("ijcnn1", "logistic", "rare"),
    "kddcup99, 23 classes, multinomial": ("kddcup99_10pct", "multinomial", ""),
    "ijcnn1, weighted, logistic": ("ijcnn1", "logistic", "weighted"),
    "w8a in CSR, squared hinge": ("w8a", "squared_hinge", "csr"),
    "covtype, sorted, squared hinge": ("covtype_sample", "squared_hinge", "sorted"),
    "letter, whole numbers, logistic": ("letter", "logistic", "whole"),
    "usps, hinge": ("usps", "hinge", ""),
    "a9a, hinge": ("a9a", "hinge", ""),
    "ijcnn1, hinge": ("ijcnn1", "hinge", ""),
}


@dataclass(frozen=True)
class Problem:
    """Features to train and to test. given : "sample_weight", if there is one"""

    loss: str
    Z: Any
    y: np.ndarray
    given: dict[str, np.ndarray]
    Zt: Any
    t: np.ndarray
    regression: bool


def problem(run: Run, name: str, D: int = COMPONENTS) -> Problem:
    """At most 40,000 rows in float32, and Gaussian Fourier features of columns in standard units (mnist: in [0, 1])."""
    set_, loss, change = PROBLEMS[name]
    X, y, T, t = data.split(run, set_, 0.8)
    rng, given = np.random.default_rng(0), {}
    order = np.sort(rng.permutation(len(y))[: run.pick(ROWS, 300)])
    if change == "sorted":
        order = order[np.argsort(y[order], kind="stable")]
    if change == "rare":
        order = order[(y[order] != 1) | (np.cumsum(y[order] == 1) <= max(2, len(order) // 1000))]
    X, y = X[order], y[order]
    if change == "weighted":
        weight = rng.exponential(size=len(y))
        given = {"sample_weight": weight / weight.mean()}
    if change == "csr":
        X, T = (sp.csr_array(rows, dtype=np.float32) for rows in (X, T))
        return Problem(loss, X, y, given, T, t, False)
    if change == "whole":
        return Problem(loss, X.astype(np.uint8), y, given, T.astype(np.uint8), t, False)
    X, T = (data.unit_range if set_ == "mnist" else data.standard)(data.dense(X), data.dense(T))
    if numbers := set_ in ("protein_casp", "airline_delay_nyc2013"):
        y, t = ((v - y.mean()) / y.std() for v in (y, t))
    scale = {"gamma": 0.01} if set_ == "mnist" else {"length_scale": "knn"}
    map_ = RandomFourierFeatures(**scale, n_components=run.pick(D, 32), random_state=0).fit(X)
    return Problem(loss, map_.transform(X), y, given, map_.transform(T), t, numbers)


def peers(p: Problem, epsilon: float) -> dict[str, Any]:
    """Models of the same objective; that of HuberRegressor has a scale besides, and LinearSVC has a penalty on the intercept."""
    C, sgd = 1.0 / (len(p.y) * ALPHA), StreamingSGDRegressor if p.regression else StreamingSGDClassifier
    options: dict[str, Any] = {"alpha": ALPHA, "n_epochs": EPOCHS, "tol": None}
    options |= {"epsilon": epsilon} if p.loss == "huber" else {}
    made: dict[str, Any] = {"StreamingSGD": sgd(p.loss, **options)}
    if p.loss == "squared":
        made["Ridge"] = Ridge(1 / C, solver="cholesky")
    elif p.loss == "huber":
        made["HuberRegressor"] = HuberRegressor(alpha=1 / C)
    elif p.loss == "squared_hinge":
        made["LinearSVC"] = LinearSVC(C=C, dual=False)
    elif p.loss == "multinomial" or len(np.unique(p.y)) == 2:  # of more classes it is multinomial
        made["LogisticRegression, lbfgs"] = LogisticRegression(C=C, max_iter=200)
        if len(np.unique(p.y)) == 2:  # of more classes its Hessian has the square of the classes
            made["LogisticRegression, newton-cholesky"] = LogisticRegression(C=C, solver="newton-cholesky")
    return made


class Optimum:
    """The objective in float64, and its least by Newton's method on all rows, which a bound proves.

    Of weights u with the best intercept the objective is alpha-strongly convex: it is at most |g|^2 / (2 alpha) above its least.
    """

    def __init__(self, p: Problem, epsilon: float):
        weight = p.given.get("sample_weight")
        self.targets = regression_targets(p.y, weight) if p.regression else class_targets(p.y, weight, None)
        classes = 0 if p.regression else len(np.unique(p.y))
        self.loss = get_loss(p.loss, classes, epsilon)
        Y, weight = self.targets.encode(p.y, weight)
        Z = (p.Z.toarray() if sp.issparse(p.Z) else p.Z).astype(np.float64)
        weight = np.ones(len(Y)) if weight is None else weight
        self.rows = SampledRows(Z, Y, weight / weight.sum(), True)

    def at(self, weights: np.ndarray, d: Any = None, steps: Any = (0.0,), slopes: int = 1) -> Any:
        made = sampled_points(self.rows, self.loss, weights, d, steps, slopes)
        return penalised(made, weights, d, steps, ALPHA, True)

    def of(self, model: Any) -> float:
        """The objective of a fitted model."""
        intercept = np.atleast_1d(model.intercept_) - self.targets.centre
        return float(self.at(np.vstack([np.atleast_2d(model.coef_).T, intercept])).losses[0])

    def least(self) -> tuple[float, float]:
        """The least, and a bound on what it is above the true one, as a share."""
        found = descend(
            self.at, np.zeros((self.rows.Z.shape[1] + 1, self.rows.Y.shape[1])),
            partial(SampledHessian, self.rows, self.loss, ALPHA),
            tol=1e-10, most=500, slow=1.2, shifts=self.loss.shift_free,
        )  # fmt: skip
        slope = self.at(found.weights).slopes[0]
        return found.value, float((slope**2).sum() / (2 * ALPHA) / found.value)


def gaps(run: Run) -> Iterator[Record]:
    """Gap to the optimum in percent, accuracy or $R^2$ of test rows in percent, processor seconds; in one process on ready features: 40,000
    rows at most, D = 256, alpha = 1e-6 of the mean loss; 10 epochs of SGD.
    """
    for name in run.pick(PROBLEMS, ("protein, Huber", "w8a in CSR, squared hinge")):
        if PROBLEMS[name][1] == "hinge" or run.has(problem=name):
            continue
        p = problem(run, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = (StreamingLinearRegressor if p.regression else StreamingLinearClassifier)(
                p.loss, alpha=ALPHA
            )
            seconds, _ = cpu(lambda p=p, m=ours: m.fit(p.Z, p.y, **p.given))
            optimum = Optimum(p, ours.epsilon_)
            least, proved = optimum.least()
            fits = {"passes": (seconds, ours)}
            for peer, model in peers(p, ours.epsilon_).items():
                fits[peer] = cpu(lambda m=model, p=p: m.fit(p.Z, p.y, **p.given))
        record: Record = {"problem": name, "rows": len(p.y), "D": p.Z.shape[1], "proved": proved}
        record |= {"published": ours.gap_, "passes": ours.n_iter_, "solvers": [*fits]}
        record["gaps"] = [1 - least / optimum.of(model) for _, model in fits.values()]
        record["scores"] = [100 * float(model.score(p.Zt, p.t)) for _, model in fits.values()]
        yield record | {"seconds": [taken for taken, _ in fits.values()]}


def show_gaps(records: list[Record]) -> str:
    rows = [
        [
            f"{r['problem']}: {r['rows']:,} x {r['D']:,}" if solver == "passes" else "",
            f"{r['passes']} passes, says {100 * r['published']:.3f} %" if solver == "passes" else solver,
            "" if solver == "HuberRegressor" else f"{100 * gap:.4f}",
            f"{score:.2f}",
            f"{seconds:.1f}",
        ]
        for r in records
        for solver, gap, score, seconds in zip(r["solvers"], r["gaps"], r["scores"], r["seconds"], strict=True)
    ]
    return markdown(["", "solver", "gap", "score", "s"], rows)


def hinge(run: Run) -> Iterator[Record]:
    """The losses that are not smooth, which SGD has alone: test score in percent and processor seconds of five epochs, and of LIBLINEAR in
    LinearSVC, on the same 1,024 Fourier features with the same penalty.
    """
    for name in run.pick([name for name, of in PROBLEMS.items() if of[1] == "hinge"], ("usps, hinge",)):
        p = problem(run, name, 1024)
        ours = StreamingSGDClassifier(p.loss, alpha=1 / len(p.y), n_epochs=5, tol=None)
        peer = LinearSVC(loss="hinge", max_iter=run.pick(3000, 50))
        record: Record = {"problem": name, "rows": len(p.y), "D": p.Z.shape[1]}
        for who, model in (("ours", ours), ("peer", peer)):
            with warnings.catch_warnings(action="ignore"):
                record[f"{who} seconds"], _ = cpu(lambda m=model, p=p: m.fit(p.Z, p.y))
            record[who] = 100 * float(model.score(p.Zt, p.t))
        yield record


PARTS = (
    Part(gaps, show_gaps, resumes=True),
    Part(hinge, lines({
        "": "{problem}", "SGD": "{ours:.2f} ({ours seconds:.1f} s)", "LIBLINEAR": "{peer:.2f} ({peer seconds:.1f} s)",
    })),
)  # fmt: skip
