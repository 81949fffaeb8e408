"""Steps of what is learned: Adam or Pegasos on the linear model, Adam or 1/(alpha t) on the map. Number code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..sgd.learning_rates import project
from ..sgd.optimizer import Optimizer, OptimizerState
from ..sgd.penalties import soft
from .objectives import BOTH, MAP, MODEL, Layout

RATES = ("adam", "pegasos")
#: Adam's memory of gradients and of their squares (Kingma & Ba 2015), and its guard against zeros.
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-12
#: Batches over which the steps of Adam grow to their full length: the first squared gradients say little.
_WARM = 20


@dataclass
class MapState(OptimizerState):
    """State of MapOptimizer.

    weights : what is learned, shape (P,), float64, its first number being the word of the next batch
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
class MapOptimizer(Optimizer):
    """Steps of the map and of the linear model, each by its own rule.

    rates : first steps of Theta, b, w and c under Adam, numbers or one for each entry; they fall
        linearly to 0 over `batches`
    model_rate, map_rate : "adam", or the paper's "pegasos": 1 / (alpha t), and w in the ball of radius
        1 / sqrt(alpha) (Algorithms 1 and 2, where the radius is misprinted as 1 / alpha). t goes on over the
        alternations: Pegasos' first step forgets w
    alpha : penalty alpha / 2 |w|^2; l2, l1 : penalty l2 / 2 |Theta|^2 + l1 |Theta|_1
    alternate : (T1, T2): T1 batches of w, then T2 of Theta (Algorithm 3); None: both in each batch
    units : what gradients of the linear model and of the map are measured in: small for targets of small numbers
    """

    layout: Layout
    rates: tuple[Any, Any, Any, Any]
    batches: int
    model_rate: str = "adam"
    map_rate: str = "adam"
    alpha: float = 1e-6
    l2: float = 0.0
    l1: float = 0.0
    alternate: tuple[int, int] | None = None
    units: tuple[float, float] = (1.0, 1.0)

    def start(self, weights: np.ndarray) -> MapState:
        weights[0] = self.mode(0)
        return MapState(weights)

    def mode(self, t: int) -> float:
        """What batch t, counted from 0, updates."""
        if self.alternate is None or not self.layout.n_outputs:
            return BOTH
        return MODEL if t % sum(self.alternate) < self.alternate[0] else MAP

    def step(self, state: MapState, G: np.ndarray, rows: int, whole: bool) -> None:
        """Apply the mean gradient of the loss, shape (P,), in place.

        Also writes the word that tells the next batch what to update.
        """
        mode = state.weights[0]
        _, theta, b, w, c = self.layout.bounds
        fall = max(0.0, 1.0 - state.t / max(self.batches, 1))
        rate_theta, rate_b, rate_w, rate_c = self.rates
        G = G.copy()
        if mode != MAP:
            state.t_model += 1
            length = fall * min(1.0, state.t_model / _WARM)
            G[w] += self.alpha * state.weights[w]
            if self.model_rate == "pegasos":
                self._pegasos(state, G)
            else:
                for part, rate in ((w, rate_w), (c, rate_c)):
                    self._adam(state, G, part, length * rate, state.t_model, self.units[0])
        if mode != MODEL:
            state.t_map += 1
            length = fall * min(1.0, state.t_map / _WARM)
            G[theta] += self.l2 * state.weights[theta]
            for part, rate in ((theta, rate_theta), (b, rate_b)):
                if self.map_rate == "pegasos":
                    size: Any = 1.0 / (self.alpha * state.t_map)
                    state.weights[part] -= size * G[part]
                else:
                    size = self._adam(state, G, part, length * rate, state.t_map, self.units[1])
                if self.l1 and part == theta:
                    p = state.weights[part]
                    state.weights[part] = soft(p, size * self.l1)
        state.t += 1
        state.weights[0] = self.mode(state.t)

    def _adam(self, state: MapState, G: np.ndarray, part: slice, rate: Any, t: int, unit: float) -> np.ndarray:
        """Take the t-th Adam step of one slice of the weights.

        Returns the factor on the mean gradient, which a proximal step needs.
        """
        first, second, g = state.first[part], state.second[part], G[part]
        first += (1.0 - _FIRST) * (g - first)
        second += (1.0 - _SECOND) * (g * g - second)
        size = rate / (np.sqrt(second / (1.0 - _SECOND**t)) + _TINY * unit)
        state.weights[part] -= size * (first / (1.0 - _FIRST**t))
        return size

    def _pegasos(self, state: MapState, G: np.ndarray) -> None:
        _, _, _, w, c = self.layout.bounds
        eta, p = 1.0 / (self.alpha * state.t_model), state.weights
        p[w] -= eta * G[w]
        project(p[w].reshape(self.layout.n_components, -1), self.alpha)
        # The intercept is outside the ball that bounds early steps.
        p[c] -= min(eta, 1.0 / np.sqrt(state.t_model)) * G[c]

    def back_off(self, state: MapState, weights: np.ndarray, loss: float) -> None:
        raise InputError(
            f"the loss is no longer a number in batch {state.t}: steps are too long; scale the rows, use "
            "learning_rate='adam', or a smaller eta0"
        )

    def penalty_value(self, weights: np.ndarray) -> float:
        _, theta, _, w, _ = self.layout.bounds
        model = 0.5 * self.alpha * float(weights[w] @ weights[w])
        Theta = weights[theta]
        return model + 0.5 * self.l2 * float(Theta @ Theta) + self.l1 * float(np.abs(Theta).sum())
