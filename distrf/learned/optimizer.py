"""The optimizer of learned maps: Adam or Pegasos on the linear model, Adam or 1/(alpha t) on the map. Number code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import InputError
from ..sgd.learning_rates import project
from ..sgd.optimizer import Optimizer, OptimizerState
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
class StepRule:
    """Base of the rules: how the mean gradient changes one slice of the learned vector.

    Parameters
    ----------
    alpha : penalty of the linear model
    unit : the scale of gradients, which is small for small targets

    Attributes
    ----------
    name : str, the value of an estimator's `learning_rate` and `theta_learning_rate`
    """

    alpha: float
    unit: float = 1.0

    name: ClassVar[str]

    @classmethod
    def check(cls, alpha: float) -> None:
        """Raise InputError if the rule cannot be used with this penalty."""

    def step(self, state: MapState, G: np.ndarray, place: slice, rate: Any, t: int) -> Any:
        """Take step t, counted from 1, of one slice of the weights, in place.

        rate : length of the step under Adam, a number or one for each entry

        Returns the factor on the mean gradient, which a proximal step needs.
        """
        raise NotImplementedError

    def step_intercepts(self, state: MapState, G: np.ndarray, place: slice, rate: Any, t: int) -> None:
        """The same for the intercepts of the linear model."""
        self.step(state, G, place, rate, t)

    def project(self, w: np.ndarray) -> None:
        """Change the weights w of the linear model after a step, in place; most rules do nothing."""


@dataclass(frozen=True)
class Adam(StepRule):
    """Adam: steps of about the length `rate`, from running means of gradients and of their squares (Kingma & Ba 2015)."""

    name = "adam"

    def step(self, state: MapState, G: np.ndarray, place: slice, rate: Any, t: int) -> Any:
        first, second, g = state.first[place], state.second[place], G[place]
        first += (1.0 - _FIRST) * (g - first)
        second += (1.0 - _SECOND) * (g * g - second)
        size = rate / (np.sqrt(second / (1.0 - _SECOND**t)) + _TINY * self.unit)
        state.weights[place] -= size * (first / (1.0 - _FIRST**t))
        return size


@dataclass(frozen=True)
class Pegasos(StepRule):
    """1 / (alpha t), and w in the ball of radius 1 / sqrt(alpha): Algorithms 1 and 2 of the paper.

    The paper misprints the radius as 1 / alpha. t is not reset when training alternates. The first step overwrites w.
    """

    name = "pegasos"

    @classmethod
    def check(cls, alpha: float) -> None:
        if not alpha > 0:
            raise InputError(f"steps of 1 / (alpha t) need alpha > 0, got {alpha}")

    def step(self, state: MapState, G: np.ndarray, place: slice, rate: Any, t: int) -> Any:
        size = 1.0 / (self.alpha * t)
        state.weights[place] -= size * G[place]
        return size

    def step_intercepts(self, state: MapState, G: np.ndarray, place: slice, rate: Any, t: int) -> None:
        # The projection does not bound the intercept, so its early steps are bounded here.
        state.weights[place] -= min(1.0 / (self.alpha * t), 1.0 / np.sqrt(t)) * G[place]

    def project(self, w: np.ndarray) -> None:
        project(w, self.alpha)


#: The rules by name.
RULES: dict[str, type[StepRule]] = {rule.name: rule for rule in (Adam, Pegasos)}


class Rates(NamedTuple):
    """First steps under Adam: numbers, or one for each entry."""

    theta: Any
    b: Any
    w: Any
    c: Any


class Moves(NamedTuple):
    """Whether a batch updates the linear model, and whether the map."""

    model: bool
    map: bool


@dataclass(frozen=True)
class MapOptimizer(Optimizer):
    """Steps of the map and of the linear model, each by its own rule.

    model, map : the rules
    rates : the first steps; they fall linearly to 0 over `batches`
    alpha : penalty alpha / 2 |w|^2; l2, l1 : penalty l2 / 2 |Theta|^2 + l1 |Theta|_1
    alternate : (T1, T2): T1 batches of w, then T2 of Theta (Algorithm 3); None: both in each batch
    most : an entry of Theta above this has diverged: phases of rows would be arbitrary
    """

    layout: Layout
    model: StepRule
    map: StepRule
    rates: Rates
    batches: int
    alpha: float = 0.0
    l2: float = 0.0
    l1: float = 0.0
    alternate: tuple[int, int] | None = None
    most: float = np.inf

    def start(self, weights: np.ndarray) -> MapState:
        return MapState(weights)

    def moves(self, t: int) -> Moves:
        """Whether batch t, counted from 0, updates the linear model, and whether the map."""
        if self.alternate is None or not self.layout.n_outputs:
            return Moves(True, True)
        model = t % sum(self.alternate) < self.alternate[0]
        return Moves(model, not model)

    def sent(self, state: MapState) -> dict[str, Any]:  # type: ignore[override]
        return {"map_moves": self.moves(state.t).map}

    def step(self, state: MapState, G: np.ndarray, rows: int, whole: bool) -> None:
        """Apply the mean gradient of the loss, shape (P,), in place."""
        moves, G, fall = self.moves(state.t), G.copy(), max(0.0, 1.0 - state.t / max(self.batches, 1))
        if moves.model:
            self._step_model(state, G, fall)
        if moves.map:
            self._step_map(state, G, fall)
        state.t += 1

    def _step_model(self, state: MapState, G: np.ndarray, fall: float) -> None:
        """Move w and c; `fall` is the share of the first steps that is left."""
        at, rates = self.layout.places, self.rates
        state.t_model += 1
        length = fall * min(1.0, state.t_model / _WARM)
        G[at.w] += self.alpha * state.weights[at.w]
        self.model.step(state, G, at.w, length * rates.w, state.t_model)
        self.model.project(state.weights[at.w].reshape(self.layout.n_components, -1))
        self.model.step_intercepts(state, G, at.c, length * rates.c, state.t_model)

    def _step_map(self, state: MapState, G: np.ndarray, fall: float) -> None:
        """Move Theta and b."""
        at, rates = self.layout.places, self.rates
        state.t_map += 1
        length = fall * min(1.0, state.t_map / _WARM)
        G[at.theta] += self.l2 * state.weights[at.theta]
        size = self.map.step(state, G, at.theta, length * rates.theta, state.t_map)
        if self.l1:
            Theta = state.weights[at.theta]
            state.weights[at.theta] = np.sign(Theta) * np.maximum(np.abs(Theta) - size * self.l1, 0.0)
        self.map.step(state, G, at.b, length * rates.b, state.t_map)
        if not np.abs(state.weights[at.theta]).max() <= self.most:
            raise InputError(
                f"the frequencies of the map have diverged in batch {state.t}: steps are too long; take "
                f"theta_learning_rate='adam', whose eta0 may be smaller, or for 'pegasos' an alpha above {self.alpha:g}, "
                f"and above theta_l2={self.l2:g}"
            )

    def back_off(self, state: MapState, weights: np.ndarray, loss: float) -> None:
        raise InputError(
            f"the loss is no longer a number in batch {state.t}: steps are too long; scale the rows, use "
            "learning_rate='adam', or a smaller eta0"
        )

    def penalty_value(self, weights: np.ndarray) -> float:
        at = self.layout.places
        w, Theta = weights[at.w], weights[at.theta]
        model = 0.5 * self.alpha * float(w @ w)
        return model + 0.5 * self.l2 * float(Theta @ Theta) + self.l1 * float(np.abs(Theta).sum())
