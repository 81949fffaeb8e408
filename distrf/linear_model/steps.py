"""One step of the solver: learning rates, preconditioner, momentum, penalties, projection, averaging.

Number code. Weights have shape (P, C): D features and, with an intercept, a last row for the constant
column, which no penalty touches.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .preconditioner import Preconditioner

RATES = ("auto", "pegasos", "constant", "inverse_scaling", "adaptive")
PENALTIES = ("l2", "l1", "elasticnet")
#: Momentum is at most this, and follows the curvature with the memory of so many rounds.
_MOST_MOMENTUM = 0.8
_MEMORY = 5.0
#: Averages weigh round t by about t^8: the last tenth of the rounds counts (Shamir & Zhang, ICML 2013, 4).
_AVERAGE_POWER = 8.0


@dataclass
class State:
    """What a checkpoint keeps of the solver.

    weights, velocity, average : shape (P, C), float64; t : rounds done; averaged : rounds in the average
    scale : factor on the step, lowered by "adaptive" and after a divergence
    curved : curvature of the last rounds as a share of the largest that steps are made for
    """

    weights: np.ndarray
    velocity: np.ndarray
    average: np.ndarray
    t: int = 0
    averaged: int = 0
    scale: float = 1.0
    curved: float = 1.0

    @classmethod
    def zeros(cls, P: int, C: int) -> State:
        return cls(np.zeros((P, C)), np.zeros((P, C)), np.zeros((P, C)))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights, "velocity": self.velocity, "average": self.average}

    @property
    def numbers(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in self.arrays}


@dataclass(frozen=True)
class Stepper:
    """How a gradient changes the state.

    rate : one of RATES; eta0 : first step, None for the one of the spectrum
    power_t : of inverse_scaling; average : whether weights are averaged
    momentum : of Nesterov; None: what the curvature leaves room for. Where the rows of a round have the share c of the
        largest curvature, 1 / c such rounds together are what one step was made for, and 1 - c is their memory
    alpha, l1_ratio : penalty alpha (l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2)
    intercept : whether the last row is one, unpenalised
    decay_rounds : for losses with a kink "auto" falls as 1 / sqrt(1 + t / decay_rounds); None: it does not fall
    """

    preconditioner: Preconditioner
    rate: str
    eta0: float | None
    power_t: float
    momentum: float | None
    average: bool
    alpha: float
    l1_ratio: float
    intercept: bool
    decay_rounds: float | None = None

    def eta(self, state: State, rows: int, whole: bool) -> float:
        """The step of round state.t, counted from 0, over so many rows or the whole of them."""
        t = state.t + 1
        if self.rate == "pegasos":
            return 1.0 / (self.alpha * t)
        first = self.preconditioner.step(None if whole else rows) if self.eta0 is None else self.eta0
        if self.rate == "inverse_scaling":
            return first / t**self.power_t
        if self.rate == "auto" and self.decay_rounds is not None:
            return state.scale * first / np.sqrt(1.0 + state.t / self.decay_rounds)
        return state.scale * first

    def observe(self, state: State, curved: float) -> None:
        """Take note of the curvature of a round, as a share."""
        state.curved += (min(curved, 1.0) - state.curved) / _MEMORY

    def step(self, state: State, G: np.ndarray, rows: int, whole: bool) -> None:
        """Apply the mean gradient G of the loss, shape (P, C), in place."""
        eta = self.eta(state, rows, whole)
        W = state.weights
        D = len(W) - self.intercept
        G = G.copy()
        G[:D] += (1.0 - self.l1_ratio) * self.alpha * W[:D]
        G = self.preconditioner(G)
        if self.rate == "pegasos" and self.intercept:
            # The intercept is outside the ball that bounds early steps of 1 / (lambda t).
            G[D:] *= min(1.0, 1.0 / (eta * np.sqrt(state.t + 1.0)))
        momentum = min(_MOST_MOMENTUM, 1.0 - state.curved) if self.momentum is None else self.momentum
        if momentum:
            state.velocity = momentum * state.velocity - eta * G
            W = W + momentum * state.velocity - eta * G
        else:
            W = W - eta * G
        if self.l1_ratio:
            shrunk = np.abs(W[:D]) - eta * self.alpha * self.l1_ratio
            W[:D] = np.sign(W[:D]) * np.maximum(shrunk, 0.0)
        if self.rate == "pegasos":
            project(W[:D], self.alpha)
        self.move(state, W)

    def move(self, state: State, W: np.ndarray, rounds: int = 1) -> None:
        """Take new weights over, and into the average."""
        state.weights = W
        state.t += rounds
        if self.average:
            state.averaged += 1
            share = (_AVERAGE_POWER + 1.0) / (_AVERAGE_POWER + state.averaged)
            state.average = state.average + share * (W - state.average)

    def solution(self, state: State) -> np.ndarray:
        """The weights to predict with."""
        return state.average if self.average and state.averaged else state.weights


def project(W: np.ndarray, alpha: float) -> None:
    """Each column into the ball of radius 1 / sqrt(alpha), in place.

    Pegasos, line 6 of Algorithm 1 of Yu et al. 2015, where the radius is misprinted as 1 / alpha: the minimum
    w of alpha |w|^2 / 2 + mean hinge has |w|^2 <= 1 / alpha (Shalev-Shwartz et al. 2011, Theorem 1).
    """
    norm = np.sqrt((W * W).sum(axis=0))
    W *= np.minimum(1.0, 1.0 / np.maximum(np.sqrt(alpha) * norm, np.finfo(np.float64).tiny))
