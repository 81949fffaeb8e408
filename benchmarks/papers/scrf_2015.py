"""Feng, Hu & Liao (2015), "Random Feature Mapping with Signed Circulant Matrix Projection": Figure 1, Table 1, variance."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.fft
from sklearn.kernel_approximation import RBFSampler

from benchmarks.benchmark import Part, Record, Run, grid, lines, over, pm, spread
from benchmarks.clocks import in_turn
from distrf.kernels import Gaussian
from distrf.maps import FourierMap

#: The paper's maps, and what distrf takes by default.
MAPS = {"RKS": "dense", "Fastfood": "fastfood", "SCRF": "", "circulant": "circulant"}
ALTERNATING = {"alternating": "alternating_circulant", "alternating, log2": "alternating_circulant-log2"}
#: Table 1 of the paper: seconds of RKS, Fastfood and SCRF on its machine.
PAPER_SECONDS = {
    512: (39.8, 18.8, 9.3), 1024: (113.1, 18.9, 9.6), 2048: (255.0, 21.7, 10.5), 4096: (424.1, 27.0, 10.6),
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


def table1(run: Run) -> Iterator[Record]:
    """Processor seconds of 5,000 float32 rows, D = 8,192, medians of 3 runs that take turns, and their ratios, in brackets the paper's.
    RBFSampler is scikit-learn's, RKS ours with the same dense weights.
    """
    # SCRF as distrf makes it, which has its signs on the input.
    D, n, rounds = run.pick((8192, 5000, 3), (256, 50, 1))
    for d in run.pick((512, 1024, 2048, 4096), (64, 128)):
        X, scale = np.random.default_rng(0).uniform(size=(n, d)).astype(np.float32), np.sqrt(2.0 * d)
        maps = {"RKS": "RKS", "Fastfood": "Fastfood", "SCRF": "circulant"}
        made = {name: feature_map(kind, d, D, scale, 0) for name, kind in maps.items()}
        peer = RBFSampler(gamma=0.25 / d, n_components=D, random_state=0).fit(X)
        calls: dict[str, Any] = {name: partial(m, X) for name, m in made.items()}
        taken = in_turn(calls | {"RBFSampler": partial(peer.transform, X)}, rounds)
        kept = {f"{name} bytes": m.work()[1] for name, m in made.items()}
        yield {"d": d, "D": D, "rows": n, "rounds": rounds, **taken, **kept}


SECONDS = lines({
    "d": "{d:,}", **{f"{name} s": f"{{{name}:.3f}}" for name in ("RBFSampler", "RKS", "Fastfood", "SCRF")},
    "RBFSampler / SCRF": lambda r: f"{r['RBFSampler'] / r['SCRF']:.1f}",
    **{f"RKS / {name}": over("RKS", name, "{:.1f}", {d: of[0] / of[i] for d, of in PAPER_SECONDS.items()})
       for name, i in (("SCRF", 2), ("Fastfood", 1))},
    "numbers kept, RKS / SCRF": lambda r: f"{r['RKS bytes'] / r['SCRF bytes']:.0f}",
})  # fmt: skip


PARTS = (
    Part(variance, grid("{map}", "{difference}", "{ratio:.1f}"), data=False),
    Part(figure1, grid("{map}", "D = {D:,}", pm(times=100)), data=False),
    Part(table1, SECONDS, data=False),
)
