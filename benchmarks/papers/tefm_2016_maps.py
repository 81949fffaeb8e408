"""The feature maps that Chen et al. (2016) compare, and their algorithms to the letter."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from distrf import TEFM, RandomFourierFeatures
from distrf.compiled import walsh_hadamard
from distrf.subspace.sketches import make_sketch

#: d = 4 l.
TIMES = 4


def plain(D: int, scale: float, seed: int, projection: str = "dense") -> RandomFourierFeatures:
    """RKS, Quasi and Ffood: cosines and sines, Eq. 2."""
    return RandomFourierFeatures(length_scale=scale, n_components=D, projection=projection, random_state=seed)


class AsPrinted:
    """Algorithms 1 and 2 to the letter: F in memory, l columns of Theta, (F'F)^q F' Theta multiplied out.

    between : orthonormalise between the products instead
    seconds : processor seconds of {"F", "Y", "QR", "FQ"}, steps 1 to 5, of the last `fit_transform`
    """

    def __init__(self, base: Any, l: int, sketch: str, q: int, seed: int, between: bool = False):  # noqa: E741
        self.base, self.l, self.sketch, self.q, self.seed, self.between = base, l, sketch, q, seed, between
        self.seconds: dict[str, float] = {}

    def fit_transform(self, X: np.ndarray) -> np.ndarray:
        F = self._timed("F", lambda: self.base.fit_transform(X))
        return self.subspace_of(F)

    def subspace_of(self, F: np.ndarray) -> np.ndarray:
        """G of the features F."""
        Y = self._timed("Y", lambda: self._product(F))
        self.Q = self._timed("QR", lambda: np.linalg.qr(Y)[0].astype(F.dtype))
        return self._timed("FQ", lambda: F @ self.Q)

    def transform(self, X: np.ndarray) -> np.ndarray:
        return self.base.transform(X) @ self.Q

    def _product(self, F: np.ndarray) -> np.ndarray:
        Y = np.zeros((F.shape[1], self.l))
        make_sketch(self.sketch, len(F), self.l, self.seed).add(0, F, Y)
        Y = Y.astype(F.dtype)
        for _ in range(self.q):
            Y = F.T @ (F @ (np.linalg.qr(Y)[0] if self.between else Y))
        return Y

    def _timed(self, name: str, call: Any) -> Any:
        started = time.process_time()
        made = call()
        self.seconds[name] = time.process_time() - started
        return made


class Compact:
    """Comp, of Hamid et al. (2014): features brought down to l by random signs and l sampled rows of a Hadamard matrix."""

    def __init__(self, base: Any, l: int, seed: int):  # noqa: E741
        self.base, self.l, self.seed = base, l, seed

    def fit_transform(self, X: np.ndarray) -> np.ndarray:
        self.base.fit(X)
        return self.transform(X)

    def transform(self, X: np.ndarray) -> np.ndarray:
        F, rng = self.base.transform(X), np.random.default_rng(self.seed)
        padded = np.zeros((len(F), 1 << (F.shape[1] - 1).bit_length()), F.dtype)
        padded[:, : F.shape[1]] = F * rng.choice(np.array([-1, 1], F.dtype), F.shape[1])
        walsh_hadamard(padded)
        return padded[:, rng.permutation(padded.shape[1])[: self.l]] / np.sqrt(F.dtype.type(self.l))


def maps_of_figure(l: int, scale: float, seed: int) -> dict[str, Any]:  # noqa: E741
    """All methods, and F, the features that TEFM starts from."""
    base = plain(TIMES * l, scale, seed)
    finder = {"solver": "finder", "values": "sample", "random_state": seed}
    return {
        "RKS": plain(l, scale, seed),
        "Quasi": plain(l, scale, seed, "quasi"),
        "Comp": Compact(base, l, seed),
        "Ffood": plain(l, scale, seed, "fastfood"),
        "TEFM-G": TEFM(base, l, n_iter=1, **finder),
        "TEFM-S": TEFM(base, l, sketch="srht", n_iter=0, **finder),
        "TEFM-G printed": AsPrinted(base, l, "gaussian", 1, seed),
        "TEFM-S printed": AsPrinted(base, l, "srht", 0, seed),
        "F": plain(TIMES * l, scale, seed),
    }
