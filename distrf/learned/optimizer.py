"""The optimizer of learned maps: Adam on the map, Adam or Pegasos on the linear model. Number code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    t_model, t_map : batches that updated the linear model, and the map
    """

    first: np.ndarray = None  # type: ignore[assignment]
    second: np.ndarray = None  # type: ignore[assignment]
    t_model: int = 0
    t_map: int = 0

    def __post_init__(self) -> None:
        if self.first is None:
            self.first, self.second = np.zeros_like(self.weights), np.zeros_like(self.weights)


@dataclass(frozen=True)
class MapOptimizer:
    """Steps of the map and of the linear model.

    rates : the first steps of Adam, one for each entry of the learned vector; they fall linearly to 0 over `batches`
    units : the scales of gradients of the map and of the linear model, which are small for small targets
    pegasos : whether the linear model takes steps of 1 / (alpha t), with w in the ball of radius 1 / sqrt(alpha), as in
        Algorithm 1 of the paper (which misprints the radius as 1 / alpha). t is not reset when training alternates
    alpha, l2 : penalty alpha / 2 |w|^2 + l2 / 2 |Theta|^2
    alternate : (T1, T2): T1 batches of w, then T2 of Theta (Algorithm 3); None: both in each batch
    most : an entry of Theta above this has diverged: phases of rows would be arbitrary
    """

    layout: Layout
    rates: np.ndarray
    batches: int
    units: tuple[float, float] = (1.0, 1.0)
    pegasos: bool = False
    alpha: float = 0.0
    l2: float = 0.0
    alternate: tuple[int, int] | None = None
    most: float = np.inf

    def start(self, weights: np.ndarray) -> MapState:
        return MapState(weights)

    def solution(self, state: MapState) -> np.ndarray:
        return state.weights

    def moves(self, t: int) -> tuple[bool, bool]:
        """Whether batch t, counted from 0, updates the map, and whether the linear model."""
        if self.alternate is None or not self.layout.n_outputs:
            return True, True
        model = t % sum(self.alternate) < self.alternate[0]
        return not model, model

    def sent(self, state: MapState) -> dict[str, Any]:
        return {"map_moves": self.moves(state.t)[0]}

    def step(self, state: MapState, G: np.ndarray, rows: int, whole: bool) -> None:
        """Apply the mean gradient of the loss, shape (P,), in place."""
        (map_moves, model_moves), at, G = self.moves(state.t), self.layout.places, G.copy()
        if model_moves:
            state.t_model += 1
            G[at.w] += self.alpha * state.weights[at.w]
            if self.pegasos:
                self._pegasos(state, G)
            else:
                self._adam(state, G, slice(at.w.start, at.c.stop), state.t_model, self.units[1])
        if map_moves:
            state.t_map += 1
            G[at.theta] += self.l2 * state.weights[at.theta]
            self._adam(state, G, slice(at.theta.start, at.b.stop), state.t_map, self.units[0])
            if not np.abs(state.weights[at.theta]).max() <= self.most:
                raise InputError(
                    f"the frequencies of the map have diverged in batch {state.t}: scale the rows, as StreamingScaler does"
                )
        state.t += 1

    def _adam(self, state: MapState, G: np.ndarray, place: slice, t: int, unit: float) -> None:
        """Take step t, counted from 1, of one slice of the weights, in place (Kingma & Ba 2015)."""
        first, second, g = state.first[place], state.second[place], G[place]
        first += (1.0 - _FIRST) * (g - first)
        second += (1.0 - _SECOND) * (g * g - second)
        length = max(0.0, 1.0 - state.t / max(self.batches, 1)) * min(1.0, t / _WARM)
        size = length * self.rates[place] / (np.sqrt(second / (1.0 - _SECOND**t)) + _TINY * unit)
        state.weights[place] -= size * (first / (1.0 - _FIRST**t))

    def _pegasos(self, state: MapState, G: np.ndarray) -> None:
        """Take a step of w and c, in place. The first one overwrites w."""
        at, t = self.layout.places, state.t_model
        state.weights[at.w] -= 1.0 / (self.alpha * t) * G[at.w]
        project(state.weights[at.w].reshape(self.layout.map.n_components, -1), self.alpha)
        # The projection does not bound the intercept, so its early steps are bounded here.
        state.weights[at.c] -= min(1.0 / (self.alpha * t), 1.0 / np.sqrt(t)) * G[at.c]

    def back_off(self, state: MapState, weights: np.ndarray, loss: float) -> None:
        raise InputError(
            f"the loss is no longer a number in batch {state.t}: steps are too long; scale the rows, or use learning_rate='adam'"
        )

    def penalty_value(self, weights: np.ndarray) -> float:
        w, Theta = weights[self.layout.places.w], weights[self.layout.places.theta]
        return 0.5 * self.alpha * float(w @ w) + 0.5 * self.l2 * float(Theta @ Theta)


def project(W: np.ndarray, alpha: float) -> None:
    """Project each column onto the ball of radius 1 / sqrt(alpha), in place.

    Pegasos, line 6 of Algorithm 1 of Yu et al. 2015, where the radius is misprinted as 1 / alpha: the minimum
    w of alpha |w|^2 / 2 + mean hinge has |w|^2 <= 1 / alpha (Shalev-Shwartz et al. 2011, Theorem 1).
    """
    norm = np.sqrt((W * W).sum(axis=0))
    W *= np.minimum(1.0, 1.0 / np.maximum(np.sqrt(alpha) * norm, np.finfo(np.float64).tiny))
