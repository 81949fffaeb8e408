"""Optimizers: how the gradient of a batch changes the weights, with preconditioned SGD, and the state between batches.

Number code. Weights of linear models have shape (P, C): D features and, with an intercept, a last row for the
constant column, which is not penalised.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..errors import InputError
from .learning_rates import LearningRate
from .penalties import Penalty
from .preconditioner import Preconditioner
from .schedules import Batch

#: The largest automatic momentum.
_MOST_MOMENTUM = 0.8
#: The smallest one if steps come from a sample, whose bound on the curvature has a margin: MNIST with D = 4,096 after one
#: pass 96.63 % with it and 96.46 % without; kin40k, letter, covtype and census gain likewise.
_LEAST_MOMENTUM = 0.5
#: The curvature that momentum follows is a running average over about this many batches.
_MEMORY = 5.0
#: The average weighs the weights after batch t by about t^8, so that about the last tenth of the batches counts (Shamir &
#: Zhang, ICML 2013, Section 4).
_AVERAGE_POWER = 8.0
_MOST_HALVINGS = 30


@dataclass
class OptimizerState:
    """What an optimizer carries from batch to batch: arrays and plain numbers, all of which a checkpoint keeps.

    weights : those at which the next gradient is taken; t : number of batches done
    """

    weights: np.ndarray
    t: int = 0

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {k: v for k, v in self._items() if isinstance(v, np.ndarray)}

    @property
    def numbers(self) -> dict[str, Any]:
        return {k: v for k, v in self._items() if not isinstance(v, np.ndarray)}

    def _items(self) -> list[tuple[str, Any]]:
        return [(f.name, getattr(self, f.name)) for f in fields(self)]


class Optimizer:
    """Base: how the mean gradient of a batch changes the state."""

    def start(self, weights: np.ndarray) -> OptimizerState:
        """The state before the first batch. It takes over the array and may change it."""
        raise NotImplementedError

    def sent(self, state: OptimizerState) -> dict[str, Any]:
        """What else the gradient of a batch needs beside the weights: keyword arguments of `BatchWork.gradient`."""
        return {}

    def observe(self, state: Any, curved: float, longest: float) -> None:
        """Update the state with what a batch has measured beside its gradient.

        curved : curvature of its rows as a share of the largest possible; longest : its largest row, see `RowLengths`
        """

    def advance(self, state: Any, G: np.ndarray, batch: Batch, mean_weight: float, whole: bool) -> None:
        """Take one step, in place. G : sum of the gradients of the microbatches; whole : whether the batch is all rows."""
        self.step(state, G / (batch.rows * mean_weight), batch.rows, whole)

    def step(self, state: Any, G: np.ndarray, rows: int, whole: bool) -> None:
        """Take one step along G, the mean gradient of the loss over `rows` rows, in place."""
        raise NotImplementedError

    def solution(self, state: Any) -> np.ndarray:
        """The weights to predict with."""
        return state.weights

    def travelled(self, state: Any, rows: int) -> tuple[float, float, float]:
        """(eta0, the longest stable step, largest curvature times the sum of all steps), for batches of `rows` rows.

        The last is an upper bound. (0, 0, infinity) if the user gave no eta0.
        """
        return 0.0, 0.0, np.inf

    def penalty_value(self, weights: np.ndarray) -> float:
        """The penalty at these weights: the part of the objective beside the mean loss."""
        raise NotImplementedError

    def backs_off(self, state: Any) -> bool:
        """Whether steps may still be shortened."""
        return True

    def back_off(self, state: Any, weights: np.ndarray, loss: float) -> None:
        """Return to these weights and shorten the steps, in place. Raises InputError if steps cannot be shortened."""
        raise NotImplementedError

    def slow_down(self, state: Any) -> bool:
        """Shorten the steps because the loss has stopped falling. Returns False if the rule does not do so."""
        return False


@dataclass
class SGDState(OptimizerState):
    """State of PreconditionedSGD.

    velocity, average : of momentum, and of the weights: shape (P, C), float64; averaged : batches in the average
    scale : factor on the step, lowered by the rule "adaptive" and after a divergence
    curved : running average of the curvature of the batches, as a share of the largest, for which steps are made
    longest : largest weight times z'P z of a row so far, see `RowLengths`
    """

    velocity: np.ndarray = None  # type: ignore[assignment]
    average: np.ndarray = None  # type: ignore[assignment]
    averaged: int = 0
    scale: float = 1.0
    curved: float = 1.0
    longest: float = 0.0

    def __post_init__(self) -> None:
        if self.velocity is None:
            self.velocity = np.zeros_like(self.weights)
        if self.average is None:
            self.average = np.zeros_like(self.weights)


@dataclass(frozen=True)
class PreconditionedSGD(Optimizer):
    """Steps along the preconditioned gradient: learning rates, momentum, penalties, projection, averaging.

    rate, penalty : the learning rate and the penalty; average : whether weights are averaged
    momentum : of Nesterov; None takes it from the curvature. Steps are made for the largest curvature. If the rows of a
        batch have only the share c of it, 1 / c batches together have all of it, and a momentum of 1 - c averages over
        about that many. It is at least 1/2 if the curvature was measured on a sample
    intercept : whether the last row of the weights is the intercept, which is not penalised
    """

    preconditioner: Preconditioner
    rate: LearningRate
    penalty: Penalty
    momentum: float | None
    average: bool
    intercept: bool

    def start(self, weights: np.ndarray) -> SGDState:
        return SGDState(weights)

    def eta(self, state: SGDState, rows: int, whole: bool) -> float:
        """The step of batch state.t, counted from 0: for a batch of `rows` rows, or, with `whole`, of all rows."""
        stable = self.preconditioner.bounded(state.longest).step(None if whole else rows)
        return self.rate.step(state.t, stable, state.scale, self.penalty.alpha)

    def observe(self, state: SGDState, curved: float, longest: float) -> None:
        state.curved += (min(curved, 1.0) - state.curved) / _MEMORY
        state.longest = max(state.longest, longest)

    def step(self, state: SGDState, G: np.ndarray, rows: int, whole: bool) -> None:
        """Apply the mean gradient G of the loss, shape (P, C), in place."""
        eta = self.eta(state, rows, whole)
        W = state.weights
        D = len(W) - self.intercept
        G = G.copy()
        G[:D] += self.penalty.slope(W[:D])
        G = self.preconditioner(G)
        momentum = self._momentum(state)
        if momentum:
            state.velocity = momentum * state.velocity - eta * G
            W = W + momentum * state.velocity - eta * G
        else:
            W = W - eta * G
        units = self.penalty.units
        if units is None:
            self.rate.project(W[:D], self.penalty.alpha)
        else:
            U = W[:D] * units
            self.rate.project(U, self.penalty.alpha)
            W[:D] = U / units
        state.weights = W
        state.t += 1
        if self.average:
            state.averaged += 1
            state.average = state.average + _share(state.averaged) * (W - state.average)

    def _momentum(self, state: SGDState) -> float:
        if self.momentum is not None:
            return self.momentum
        least = _LEAST_MOMENTUM if self.preconditioner.unseen else 0.0
        return min(_MOST_MOMENTUM, max(least, 1.0 - state.curved))

    def solution(self, state: SGDState) -> np.ndarray:
        return state.average if self.average and state.averaged else state.weights

    def travelled(self, state: SGDState, rows: int) -> tuple[float, float, float]:
        stable, momentum = self.preconditioner.step(rows), self.momentum or 0.0
        eta0 = self.rate.first(stable)
        if eta0 == stable:
            return super().travelled(state, rows)
        return eta0, stable, state.t * eta0 * self.preconditioner.curvature / (1.0 - momentum)

    def penalty_value(self, weights: np.ndarray) -> float:
        return self.penalty.value(weights[: len(weights) - self.intercept])

    def backs_off(self, state: SGDState) -> bool:
        return not self.rate.user_set and state.scale >= 2.0**-_MOST_HALVINGS

    def back_off(self, state: SGDState, weights: np.ndarray, loss: float) -> None:
        """Return to these weights and halve the step."""
        if self.rate.user_set:
            raise InputError(
                f"the loss rose to {loss:.3g} in batch {state.t}: steps are too long or the features too "
                f"large; use learning_rate='auto' or a smaller eta0 (now {self.rate.eta0}), or scale the rows"
            )
        if self.backs_off(state):
            state.scale *= 0.5
        state.weights = weights.copy()
        state.velocity = np.zeros_like(weights)
        state.average, state.averaged = np.zeros_like(weights), 0

    def slow_down(self, state: SGDState) -> bool:
        if not self.rate.slows_down or not state.scale > 1e-4:
            return False
        state.scale /= 5.0
        return True


def _share(averaged: int) -> float:
    """The factor of the newest weights in an average of `averaged` batches."""
    return (_AVERAGE_POWER + 1.0) / (_AVERAGE_POWER + averaged)
