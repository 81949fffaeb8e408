"""Steps of what is learned: Adam or Pegasos on the linear model, Adam or 1/(alpha t) on the map. Number code."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..linear_model.steps import project
from .objectives import BOTH, MAP, MODEL, Layout

RATES = ("adam", "pegasos")
#: Adam's memory of gradients and of their squares (Kingma & Ba 2015), and its guard against zeros.
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-12
#: Rounds of a part over which its steps grow to their length: early squares of gradients say little.
_WARM = 20


@dataclass
class State:
    """What a checkpoint keeps: shapes (P,), float64; rounds of both parts, of the model and of the map."""

    parameters: np.ndarray
    first: np.ndarray
    second: np.ndarray
    best: np.ndarray
    t: int = 0
    t_model: int = 0
    t_map: int = 0

    @classmethod
    def of(cls, start: np.ndarray) -> State:
        return cls(start.copy(), np.zeros_like(start), np.zeros_like(start), start.copy())

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "parameters": self.parameters,
            "first": self.first,
            "second": self.second,
            "best": self.best,
        }

    @property
    def numbers(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in self.arrays}


@dataclass(frozen=True)
class Stepper:
    """How a gradient changes the state.

    rates : first steps of Theta, b, w and c under Adam, numbers or one for each entry of a part; they fall
        linearly to 0 over `rounds`
    model_rate, map_rate : "adam", or the paper's "pegasos": 1 / (alpha t), and w in the ball of radius
        1 / sqrt(alpha) (Algorithms 1 and 2, where the radius is misprinted as 1 / alpha). t goes on over the
        alternations: Pegasos' first step forgets w
    alpha : penalty alpha / 2 |w|^2; l2, l1 : penalty l2 / 2 |Theta|^2 + l1 |Theta|_1
    alternate : (T1, T2): T1 rounds of w, then T2 of Theta (Algorithm 3); None: both in each round
    units : what gradients of the linear model and of the map are measured in: small for targets of small numbers
    """

    layout: Layout
    rates: tuple[Any, Any, Any, Any]
    rounds: int
    model_rate: str = "adam"
    map_rate: str = "adam"
    alpha: float = 1e-6
    l2: float = 0.0
    l1: float = 0.0
    alternate: tuple[int, int] | None = None
    units: tuple[float, float] = (1.0, 1.0)

    def mode(self, t: int) -> float:
        """What round t, counted from 0, updates."""
        if self.alternate is None or not self.layout.n_outputs:
            return BOTH
        return MODEL if t % sum(self.alternate) < self.alternate[0] else MAP

    def step(self, state: State, G: np.ndarray) -> None:
        """Apply the mean gradient of the loss, shape (P,), in place; the next round's word is set."""
        mode = state.parameters[0]
        _, theta, b, w, c = self.layout.bounds
        fall = max(0.0, 1.0 - state.t / max(self.rounds, 1))
        rate_theta, rate_b, rate_w, rate_c = self.rates
        G = G.copy()
        if mode != MAP:
            state.t_model += 1
            length = fall * min(1.0, state.t_model / _WARM)
            G[w] += self.alpha * state.parameters[w]
            if self.model_rate == "pegasos":
                self._pegasos(state, G)
            else:
                for part, rate in ((w, rate_w), (c, rate_c)):
                    self._adam(state, G, part, length * rate, state.t_model, self.units[0])
        if mode != MODEL:
            state.t_map += 1
            length = fall * min(1.0, state.t_map / _WARM)
            G[theta] += self.l2 * state.parameters[theta]
            for part, rate in ((theta, rate_theta), (b, rate_b)):
                if self.map_rate == "pegasos":
                    size: Any = 1.0 / (self.alpha * state.t_map)
                    state.parameters[part] -= size * G[part]
                else:
                    size = self._adam(state, G, part, length * rate, state.t_map, self.units[1])
                if self.l1 and part == theta:
                    p = state.parameters[part]
                    state.parameters[part] = np.sign(p) * np.maximum(np.abs(p) - size * self.l1, 0.0)
        state.t += 1
        state.parameters[0] = self.mode(state.t)

    def _adam(self, state: State, G: np.ndarray, part: slice, rate: Any, t: int, unit: float) -> np.ndarray:
        """One Adam step of a part, its t-th; returns the factor on the mean gradient, for proximal steps."""
        first, second, g = state.first[part], state.second[part], G[part]
        first += (1.0 - _FIRST) * (g - first)
        second += (1.0 - _SECOND) * (g * g - second)
        size = rate / (np.sqrt(second / (1.0 - _SECOND**t)) + _TINY * unit)
        state.parameters[part] -= size * (first / (1.0 - _FIRST**t))
        return size

    def _pegasos(self, state: State, G: np.ndarray) -> None:
        _, _, _, w, c = self.layout.bounds
        eta, p = 1.0 / (self.alpha * state.t_model), state.parameters
        p[w] -= eta * G[w]
        project(p[w].reshape(self.layout.n_components, -1), self.alpha)
        # The intercept is outside the ball that bounds early steps.
        p[c] -= min(eta, 1.0 / np.sqrt(state.t_model)) * G[c]

    def penalty(self, p: np.ndarray) -> float:
        """The penalty at these parameters."""
        _, theta, _, w, _ = self.layout.bounds
        model = 0.5 * self.alpha * float(p[w] @ p[w])
        return model + 0.5 * self.l2 * float(p[theta] @ p[theta]) + self.l1 * float(np.abs(p[theta]).sum())
