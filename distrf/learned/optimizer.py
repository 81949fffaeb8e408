"""The optimizer of learned maps: Adam (Kingma & Ba 2015), or the paper's Pegasos and Adam in turn. Number code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..sgd.optimizer import OptimizerState
from .objectives import Layout

#: Adam's decay of the means of gradients and of their squares (Kingma & Ba 2015), and the term that avoids division by 0.
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-12
#: Batches over which the steps of Adam grow to their full length: the first squared gradients say little.
_WARM = 20


@dataclass
class MapState(OptimizerState):
    """State of MapOptimizer.

    weights : what is learned, shape (P,), float64
    first, second : Adam's means of gradients and of their squares
    """

    first: np.ndarray = None  # type: ignore[assignment]
    second: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.first is None:
            self.first, self.second = np.zeros_like(self.weights), np.zeros_like(self.weights)


@dataclass(frozen=True)
class MapOptimizer:
    """Steps of the map and of the linear model.

    rates : the first steps of Adam, one for each entry of the learned vector; they fall linearly to 0 over `batches`
    units : the scales of gradients of the map and of the linear model, which are small for small targets
    alpha, l2 : penalty alpha / 2 |w|^2 + l2 / 2 |Theta|^2
    most : an entry of Theta above this has diverged: phases of rows would be arbitrary
    alternate : (T1, T2): T1 batches of the linear model by Pegasos, then T2 of the map (Yu et al. 2015, Algorithms 1 and 3); None: both in
        each batch by Adam
    """

    layout: Layout
    rates: np.ndarray
    batches: int
    units: tuple[float, float] = (1.0, 1.0)
    alpha: float = 0.0
    l2: float = 0.0
    most: float = np.inf
    alternate: tuple[int, int] | None = None

    def start(self, weights: np.ndarray) -> MapState:
        return MapState(weights)

    def solution(self, state: MapState) -> np.ndarray:
        return state.weights

    def step(self, state: MapState, G: np.ndarray, rows: int, whole: bool) -> None:
        """Apply the mean gradient of the loss, shape (P,), in place."""
        at, G = self.layout.places, G.copy()
        G[at.w] += self.alpha * state.weights[at.w]
        G[at.theta] += self.l2 * state.weights[at.theta]
        model, of_map = slice(at.w.start, at.c.stop), slice(at.theta.start, at.b.stop)
        if self.alternate is None:
            self._adam(state, G, model, state.t + 1, self.units[1])
            self._adam(state, G, of_map, state.t + 1, self.units[0])
        else:
            turn, t = divmod(state.t, sum(self.alternate))
            if (later := t - self.alternate[0]) < 0:
                self._pegasos(state, G, turn * self.alternate[0] + t + 1)
            else:
                self._adam(state, G, of_map, turn * self.alternate[1] + later + 1, self.units[0])
        if not np.abs(state.weights[at.theta]).max() <= self.most:
            raise InputError(
                f"the frequencies of the map have diverged in batch {state.t}: scale the rows, as StreamingScaler does"
            )
        state.t += 1

    def _adam(self, state: MapState, G: np.ndarray, place: slice, t: int, unit: float) -> None:
        """Take step t, counted from 1, of one slice of the weights, in place."""
        first, second, g = state.first[place], state.second[place], G[place]
        first += (1.0 - _FIRST) * (g - first)
        second += (1.0 - _SECOND) * (g * g - second)
        length = max(0.0, 1.0 - state.t / max(self.batches, 1)) * min(1.0, t / _WARM)
        size = length * self.rates[place] / (np.sqrt(second / (1.0 - _SECOND**t)) + _TINY * unit)
        state.weights[place] -= size * (first / (1.0 - _FIRST**t))

    def _pegasos(self, state: MapState, G: np.ndarray, t: int) -> None:
        """Take step t, counted from 1, of w and c, in place, of length 1 / (alpha t); the first one overwrites w.

        w stays in the ball of radius 1 / sqrt(alpha), which holds the minimum of alpha |w|^2 / 2 + mean hinge (Shalev-Shwartz et al. 2011,
        Theorem 1; the paper misprints it as 1 / alpha). The ball does not bound the intercept: its early steps are bounded.
        """
        at = self.layout.places
        state.weights[at.w] -= 1.0 / (self.alpha * t) * G[at.w]
        W = state.weights[at.w].reshape(self.layout.map.n_components, -1)
        W /= np.maximum(1.0, np.sqrt(self.alpha) * np.linalg.norm(W, axis=0))
        state.weights[at.c] -= min(1.0 / (self.alpha * t), 1.0 / np.sqrt(t)) * G[at.c]

    def back_off(self, state: MapState, weights: np.ndarray, loss: float) -> None:
        raise InputError(
            f"the loss is no longer a number in batch {state.t}: steps are too long; scale the rows"
        )

    def penalty_value(self, weights: np.ndarray) -> float:
        w, Theta = weights[self.layout.places.w], weights[self.layout.places.theta]
        return 0.5 * self.alpha * float(w @ w) + 0.5 * self.l2 * float(Theta @ Theta)
