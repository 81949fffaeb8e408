"""Feng, Hu & Liao (2015), "Random Feature Mapping with Signed Circulant Matrix Projection": Figures 1-3, Tables 1 and 2."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.fft
from sklearn.kernel_approximation import RBFSampler
from sklearn.svm import SVC, LinearSVC

from benchmarks import data
from benchmarks.benchmark import Part, Record, Run, grid, lines, pm, spread
from benchmarks.clocks import cpu, in_turn, medians
from distrf.kernels import Gaussian
from distrf.maps import FourierMap

#: The paper's maps, and what distrf takes by default.
MAPS = {"RKS": "dense", "Fastfood": "fastfood", "SCRF": "", "circulant": "circulant"}
ALTERNATING = {"alternating": "alternating_circulant", "alternating, log2": "alternating_circulant-log2"}
#: Rows of the exact SVM at most: its time grows with their square.
SVM_ROWS = 20_000
#: Table 1 of the paper: seconds of RKS, Fastfood and SCRF on its machine.
PAPER_SECONDS = {
    512: (39.8, 18.8, 9.3),
    1024: (113.1, 18.9, 9.6),
    2048: (255.0, 21.7, 10.5),
    4096: (424.1, 27.0, 10.6),
}
#: Table 2: (log2 C, log2 gamma, D, accuracies of LIBSVM, RKS, Fastfood, SCRF, in percent).
PAPER_ACCURACY: dict[str, tuple[int, int, int, tuple[float, ...]]] = {
    "splice": (0, -8, 400, (86.90, 86.26, 86.23, 86.31)),
    "dna": (2, -6, 1000, (95.44, 92.34, 90.70, 92.34)),
    "mushrooms": (0, -4, 100, (100.0, 99.57, 99.31, 99.26)),
    "usps": (6, -6, 2000, (95.56, 94.83, 95.05, 94.31)),
    "a9a": (4, -6, 1000, (85.11, 85.17, 85.14, 85.15)),
    "w8a": (2, -4, 2000, (99.08, 99.07, 99.05, 99.08)),
    "ijcnn1": (0, -8, 500, (98.78, 97.78, 97.10, 97.66)),
    "mnist": (6, -6, 3000, (98.42, 97.29, 96.85, 96.38)),
}  # fmt: skip


class Printed:
    """The paper's map as it prints it: circulant matrices, whose rows have random signs."""

    def __init__(self, d: int, D: int, scale: float, phase: str, seed: int):
        self.D, self.d, self.scale, self.phase, rng = D, d, scale, phase, np.random.default_rng(seed)
        self.n = D if phase == "offset" else D // 2
        self.spectra = np.fft.rfft(rng.normal(size=(-(-self.n // d), d)))
        self.signs = rng.choice([-1.0, 1.0], self.n)
        self.offsets = rng.uniform(0, 2 * np.pi, self.n)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        spectra = scipy.fft.rfft(X / self.scale)[:, None] * self.spectra.astype(np.result_type(X, np.complex64))
        phases = scipy.fft.irfft(spectra, self.d).reshape(len(X), -1)[:, : self.n] * self.signs.astype(X.dtype)
        if self.phase == "offset":
            return np.cos(phases + self.offsets.astype(X.dtype)) * X.dtype.type(np.sqrt(2 / self.D))
        return np.hstack([np.cos(phases), np.sin(phases)]) * X.dtype.type(np.sqrt(1 / self.n))


def feature_map(name: str, d: int, D: int, scale: float, seed: int, phase: str = "offset") -> Any:
    """A map of the paper: features with offsets."""
    if name == "SCRF":
        return Printed(d, D, scale, phase, seed)
    return FourierMap(d, D, Gaussian(), scale, (MAPS | ALTERNATING)[name], phase, seed)


def variance(run: Run) -> Iterator[Record]:
    r"""Variance of the estimate of a kernel value over Eq. 12 of the paper, for differences $x - y$ of length $\sigma$; one block of
    cosines and sines, d = 256.
    """
    d, seeds = run.pick(256, 32), run.pick(1500, 50)
    smooth = 1.0 + 0.5 * np.sin(2 * np.pi * np.arange(d) / d)
    differences = {"random": np.random.default_rng(0).normal(size=d), "smooth": smooth, "constant": np.ones(d)}
    for kind, v in differences.items():
        rows = np.stack([v / np.linalg.norm(v), np.zeros(d)])
        dense = (1 - np.exp(-1.0)) ** 2 / (2 * d)
        for name in MAPS | ALTERNATING:
            maps = (feature_map(name, d, 2 * d, 1.0, seed, "paired") for seed in range(seeds))
            values = [float(np.prod(m(rows), axis=0).sum()) for m in maps]
            ratio = float(np.var(values, ddof=1) / dense)
            yield {"difference": kind, "map": name, "ratio": ratio, "seeds": seeds}


def figure1(run: Run) -> Iterator[Record]:
    """Relative error of the kernel matrix of 500 rows on [0, 1]^16, percent, over 20 draws of a map."""
    X = np.random.default_rng(0).uniform(size=(run.pick(500, 60), 16))
    scale = Gaussian().length_scale_of_gamma(0.25)
    K = feature_map("RKS", 16, 2, scale, 0).exact_kernel(X)
    for D in run.pick((64, 128, 256, 512, 1024, 2048), (64, 128)):
        for name in MAPS:
            made = (feature_map(name, 16, D, scale, seed)(X) for seed in range(run.pick(20, 2)))
            errors = [float(np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K)) for Z in made]
            yield {"map": name, "D": D, **spread(errors)}


def seconds_of(d: int, D: int, n: int, rounds: int) -> Record:
    """Medians of processor seconds of the features of n float32 rows; SCRF as distrf makes it, which has its signs on the input."""
    X, scale = np.random.default_rng(0).uniform(size=(n, d)).astype(np.float32), np.sqrt(2.0 * d)
    maps = {"RKS": "RKS", "Fastfood": "Fastfood", "SCRF": "circulant"}
    made = {name: feature_map(kind, d, D, scale, 0) for name, kind in maps.items()}
    peer = RBFSampler(gamma=0.25 / d, n_components=D, random_state=0).fit(X)
    calls: dict[str, Any] = {name: partial(m, X) for name, m in made.items()}
    taken = medians(in_turn(calls | {"RBFSampler": partial(peer.transform, X)}, rounds))
    kept = {f"{name} bytes": m.work()[1] for name, m in made.items()}
    return {"d": d, "D": D, "rows": n, "rounds": rounds, **taken, **kept}


def table1(run: Run) -> Iterator[Record]:
    """Processor seconds of 5,000 float32 rows, D = 8,192, medians of 3 runs that take turns, and their ratios, in brackets the paper's.
    RBFSampler is scikit-learn's, RKS ours with the same dense weights.
    """
    for d in run.pick((512, 1024, 2048, 4096), (64, 128)):
        yield seconds_of(d, run.pick(8192, 256), run.pick(5000, 50), run.pick(3, 1))


def figure2(run: Run) -> Iterator[Record]:
    """The same of 2,000 rows with D = d."""
    for d in run.pick((512, 1024, 2048, 4096, 8192), (64, 128)):
        yield seconds_of(d, d, run.pick(2000, 50), run.pick(3, 1))


def over(name: str, rival: str, of: tuple[int, int] | None = None) -> Any:
    """How many times as long the rival takes, and in the paper; of : their places in its table."""

    def cell(r: Record) -> str:
        theirs = PAPER_SECONDS.get(r["d"]) if r["D"] == 8192 else None
        paper = f" ({theirs[of[1]] / theirs[of[0]]:.1f})" if of and theirs else ""
        return f"{r[rival] / r[name]:.1f}{paper}"

    return cell


SECONDS = lines({
    "d": "{d:,}", **{f"{name} s": f"{{{name}:.3f}}" for name in ("RBFSampler", "RKS", "Fastfood", "SCRF")},
    "RBFSampler / SCRF": over("SCRF", "RBFSampler"), "RKS / SCRF": over("SCRF", "RKS", (2, 0)),
    "RKS / Fastfood": over("Fastfood", "RKS", (1, 0)),
    "numbers kept, RKS / SCRF": lambda r: f"{r['RKS bytes'] / r['SCRF bytes']:.0f}",
})  # fmt: skip


def load(run: Run, name: str) -> data.Split:
    """Rows as LIBSVM scales them: grey values to [0, 1] or [-1, 1], letters of splice to [-1, 1]."""
    X, y, T, t = data.split(run, name, 4062, seed=1)
    X, T = data.dense(X), data.dense(T)
    if name == "mnist":
        X, T = data.unit_range(X, T)
    shift, scale = {"usps": (1, 2), "splice": (5 / 3, 2 / 3)}.get(name, (0, 1))
    return (X * scale - shift).astype(np.float32), y, (T * scale - shift).astype(np.float32), t


def linear(split: data.Split, name: str, method: str, D: int, seeds: int) -> Record:
    """LIBLINEAR with its own tolerance on the features of a map."""
    X, y, T, t = split
    C, gamma, *_ = PAPER_ACCURACY[name]
    scores, fits, predicts = [], [], []
    for seed in range(seeds):
        map_ = feature_map(method, X.shape[1], D, Gaussian().length_scale_of_gamma(2.0**gamma), seed)
        model = LinearSVC(C=2.0**C, random_state=0, max_iter=300, tol=0.01)
        with warnings.catch_warnings(action="ignore"):  # liblinear's dual stops at max_iter
            fits.append(cpu(lambda m=map_, model=model: model.fit(m(X), y))[0])
        seconds, score = cpu(lambda m=map_, model=model: 100 * model.score(m(T), t))
        scores.append(score), predicts.append(seconds)
    times = {"fit": float(np.median(fits)), "predict": float(np.median(predicts))}
    return {"set": name, "method": method, "rows": len(X), "D": D, **times, **spread(scores)}


def table2(run: Run) -> Iterator[Record]:
    """Accuracy in percent of LIBLINEAR on features, and of LIBSVM on 20,000 rows at most (the paper's in brackets); processor seconds of
    training and predicting.
    """
    for name in run.pick(PAPER_ACCURACY, ("splice",)):
        C, gamma, D, _ = PAPER_ACCURACY[name]
        D, seeds = run.pick(D, 32), run.pick(2 if name in ("mnist", "w8a", "a9a") else 5, 2)
        missing = [m for m in MAPS if not run.has(set=name, method=m, D=D, n=seeds)]
        X, y, T, t = load(run, name)
        if not run.has(set=name, method="SVC"):
            few, few_y = data.sample(X, y, SVM_ROWS)
            svm = SVC(C=2.0**C, gamma=2.0**gamma, cache_size=1000)
            times = {"fit": cpu(lambda m=svm, X=few, y=few_y: m.fit(X, y))[0]}
            times["predict"], score = cpu(lambda m=svm, T=T, t=t: 100 * m.score(T, t))
            yield {"set": name, "method": "SVC", "rows": len(few), **times, **spread([score])}
        for method in missing:
            yield linear((X, y, T, t), name, method, D, seeds)


def beside_paper(r: Record) -> str:
    names = ("SVC", "RKS", "Fastfood", "SCRF")
    theirs = dict(zip(names, PAPER_ACCURACY[r["set"]][-1], strict=True)).get(r["method"])
    return f"{pm()(r)}{f' ({theirs})' if theirs else ''} {r['fit']:.1f} + {r['predict']:.1f} s"


def figure3(run: Run) -> Iterator[Record]:
    """Test accuracy of LIBLINEAR in percent against D."""
    for name in run.pick(("dna", "ijcnn1"), ("dna",)):
        split, most = load(run, name), 2000 if name == "dna" else 1000
        for D in run.pick([D for D in (50, 100, 200, 500, 1000, 2000) if most >= D], (16, 32)):
            for method in MAPS:
                yield linear(split, name, method, D, run.pick(5 if name == "dna" else 2, 2))


PARTS = (
    Part(variance, grid("{map}", "{difference}", "{ratio:.1f}"), data=False),
    Part(figure1, grid("{map}", "D = {D:,}", pm(times=100)), data=False),
    Part(table1, SECONDS, data=False),
    Part(figure2, SECONDS, data=False),
    Part(table2, grid(lambda r: f"{r['set']}, D = {PAPER_ACCURACY[r['set']][2]:,}", "{method}", beside_paper), resumes=True),
    Part(figure3, grid("{set}, {method}", "D = {D:,}", pm())),
)  # fmt: skip
