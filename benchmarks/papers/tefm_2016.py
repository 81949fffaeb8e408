"""Chen, Yang, King & Lyu (2016), "Training-Efficient Feature Map for Shift-Invariant Kernels": Figures 1-3."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from benchmarks import data
from benchmarks.benchmark import Part, Record, Run, grid, pm, spread
from benchmarks.clocks import cpu
from distrf import TEFM, RandomFourierFeatures, StreamingRidge
from distrf.compiled.walsh_hadamard import walsh_hadamard

#: Rows that the paper samples for Figure 1.
PAPER_ROWS = {"cpu_act": 6554, "a9a": 8141, "blogfeedback": 8733, "ujiindoorloc": 6646, "mnist": 6006}
#: Figure 2: {set: widest features of all methods; RKS alone goes on to four times that, which is d of the widest TEFM}.
WIDEST = {"cpu_act": 2048, "kin40k": 1024, "ujiindoorloc": 1024}
#: Penalties that the first seed chooses from; beyond so many features one is compared with its neighbours alone.
ALPHAS, MANY = tuple(float(a) for a in np.geomspace(1e-10, 1e-3, 8)), 1024


class Compact:
    """Comp, of Hamid et al. (2014): features brought down to l by random signs and l sampled rows of a Hadamard matrix."""

    def __init__(self, base: Any, l: int, seed: int):  # noqa: E741
        self.base, self.l, self.seed = base, l, seed

    def fit_transform(self, X: np.ndarray) -> np.ndarray:
        return self.transform(X, self.base.fit_transform(X))

    def transform(self, X: np.ndarray, F: np.ndarray | None = None) -> np.ndarray:
        F, rng = self.base.transform(X) if F is None else F, np.random.default_rng(self.seed)
        padded = np.zeros((len(F), 1 << (F.shape[1] - 1).bit_length()), F.dtype)
        padded[:, : F.shape[1]] = F * rng.choice(np.array([-1, 1], F.dtype), F.shape[1])
        walsh_hadamard(padded)
        return padded[:, rng.permutation(padded.shape[1])[: self.l]] / np.sqrt(F.dtype.type(self.l))


def plain(D: int, scale: float, seed: int, projection: str = "dense") -> RandomFourierFeatures:
    """RKS, Quasi and Ffood: cosines and sines, Eq. 2."""
    return RandomFourierFeatures(length_scale=scale, n_components=D, projection=projection, random_state=seed)


def maps(l: int, scale: float, seed: int) -> dict[str, Any]:  # noqa: E741
    """All methods, with d = 4 l, and F, the features that TEFM starts from."""
    base = plain(4 * l, scale, seed)
    finder: dict[str, Any] = {"solver": "finder", "random_state": seed}
    return {
        "RKS": plain(l, scale, seed),
        "Quasi": plain(l, scale, seed, "quasi"),
        "Comp": Compact(base, l, seed),
        "Ffood": plain(l, scale, seed, "fastfood"),
        "TEFM-G": TEFM(base, l, n_iter=1, **finder),
        "TEFM-S": TEFM(base, l, sketch="srht", n_iter=0, **finder),
        "F": plain(4 * l, scale, seed),
    }


def compile_all(X: np.ndarray) -> float:
    """The length scale of the rule; all loops are compiled."""
    scale = RandomFourierFeatures(n_components=64, random_state=0).fit(X).length_scale_
    for estimator in maps(8, scale, 0).values():
        estimator.fit_transform(X[:200])
    return float(scale)


def spectral_norm(K: np.ndarray, G: np.ndarray | None = None) -> float:
    """|K| or |K - G G'|."""

    def product(v: np.ndarray) -> np.ndarray:
        v = v.astype(np.float32)
        return K @ v - (0 if G is None else G @ (G.T @ v))

    operator = LinearOperator(K.shape, product, dtype=np.float32)
    start = np.random.default_rng(0).normal(size=len(K)).astype(np.float32)
    return float(abs(eigsh(operator, k=1, v0=start, ncv=8, tol=1e-3, return_eigenvectors=False)[0]))


def figure1(run: Run) -> Iterator[Record]:
    r"""Error of the kernel matrix, $|K - GG^\top| / |K|$ in spectral norms, $d = 4l$, 10 seeds, 5 at l = 512. *F* is the $4l$ features
    that TEFM starts from.
    """
    for name in run.pick(tuple(PAPER_ROWS), ("mnist",)):
        X, y, *_ = data.raw(run, name)
        X = data.dense(data.sample(X, y, run.pick(PAPER_ROWS[name], 150))[0])
        if name in ("cpu_act", "blogfeedback"):
            X, _ = data.standard(X, X)
        elif name != "a9a":
            X = data.unit_range(X, X)[0] if name == "mnist" else data.signals(X)
        scale = compile_all(X)
        K = plain(2, scale, 0).fit(X).map_.exact_kernel(X).astype(np.float32)
        size = spectral_norm(K)
        for wide in run.pick((64, 128, 256, 512), (8,)):
            found: dict[str, list[tuple[float, float]]] = {}
            for seed in range(run.pick(10 if wide < 512 else 5, 2)):
                for label, estimator in maps(wide, scale, seed).items():
                    taken, G = cpu(partial(estimator.fit_transform, X))
                    found.setdefault(label, []).append((spectral_norm(K, G) / size, taken))
            for label, pairs in found.items():
                errors, seconds = zip(*pairs, strict=True)
                record = {"set": name, "rows": len(X), "l": wide, "method": label, **spread(errors)}
                yield record | {"seconds": statistics.median(seconds)}


def load(run: Run, name: str) -> data.Split:
    """Four fifths to train; columns in standard units; of ujiindoorloc the longitude, about its mean."""
    X, y, *_ = data.raw(run, name)
    if name == "ujiindoorloc":
        with np.load(os.path.join(str(run.data), f"{name}.npz"), allow_pickle=False) as archive:
            y = archive["pos_train"][:, 0]
        X = data.signals(X)
    order, n = np.random.default_rng(1).permutation(len(y)), 4 * len(y) // 5
    train, test = order[:n], order[n:]
    X, T, y = data.dense(X[train]), data.dense(X[test]), y.astype(np.float64)
    if name != "ujiindoorloc":
        return *data.standard(X, T), y[train], y[test]
    return X, T, y[train] - y[train].mean(), y[test] - y[train].mean()


def regression(run: Run) -> Iterator[Record]:
    """Figures 2 and 3, ridge: relative RMSE $|y - y_o| / |y|$ on held-out rows, in brackets the processor seconds of features and of
    training with one penalty, which a held-out fifth of the training rows chose before. Five seeds at 64, one at the widest.
    """
    for name in run.pick(tuple(WIDEST), ("cpu_act",)):
        X, T, y, t = load(run, name)
        scale, near = compile_all(X), {}
        for wide in run.pick([64 * 2**k for k in range(8) if 64 * 2**k <= 4 * WIDEST[name]], (8, 16)):
            seeds = run.pick(5 if wide <= 256 else 3 if wide <= 512 else 2 if wide <= 1024 else 1, 2)
            for label in [m for m in maps(1, scale, 0) if m != "F"] if wide <= WIDEST[name] else ["RKS"]:
                found = []
                for seed in range(seeds):
                    estimator = plain(wide, scale, seed) if label == "RKS" else maps(wide, scale, seed)[label]
                    mapping, F = cpu(partial(estimator.fit_transform, X))
                    if seed == 0:
                        best = near.get(label) if wide > MANY else None
                        alphas = ALPHAS if best is None else (best / 10, best, 10 * best)
                        near[label] = float(StreamingRidge(alphas, cv="holdout").fit(F, y).alpha_)
                    training, model = cpu(partial(StreamingRidge(near[label]).fit, F, y))
                    gap = np.linalg.norm(model.predict(estimator.transform(T)) - t) / np.linalg.norm(t)
                    found.append((float(gap), mapping, training))
                errors, mappings, trainings = zip(*found, strict=True)
                times = {"mapping": statistics.median(mappings), "training": statistics.median(trainings)}
                record = {"set": name, "rows": len(X), "method": label, "l": wide, **spread(errors)}
                yield record | times | {"alpha": near[label]}


LINE, COLUMN = "{set}, l = {l:,}", "{method}"
PARTS = (
    Part(figure1, grid(LINE, COLUMN, pm(3))),
    Part(regression, grid(LINE, COLUMN, lambda r: f"{pm(4)(r)} ({r['mapping'] + r['training']:.3g} s)")),
)
