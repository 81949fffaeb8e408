"""Learning-rate rules: how long the step of a batch is, and what goes with such steps. Number code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError
from ..losses import Loss
from .penalties import Penalty


@dataclass(frozen=True)
class LearningRate:
    """Base: a step of constant length.

    Parameters
    ----------
    eta0 : float > 0, the first step; None takes the longest stable one of the spectrum
    power_t : float >= 0, of inverse_scaling

    Attributes
    ----------
    name : str, the value of an estimator's `learning_rate`
    preconditions : bool, whether a preconditioner goes with the rule
    averages : bool, whether weights are averaged unless asked otherwise: steps do not vanish
    follows_curvature : bool, whether momentum="auto" is what the curvature of batches leaves
    slows_down : bool, whether steps are shortened each time that the loss has stopped falling
    """

    eta0: float | None = None
    power_t: float = 0.5

    name: ClassVar[str]
    preconditions: ClassVar[bool] = True
    averages: ClassVar[bool] = False
    follows_curvature: ClassVar[bool] = False
    slows_down: ClassVar[bool] = False

    @classmethod
    def check(cls, loss: type[Loss], penalty: Penalty, alpha: Any, momentum: Any) -> None:
        """Raise InputError for what does not go with the rule; alpha and momentum are numbers or "auto"."""

    def step(self, t: int, stable: float, scale: float, alpha: float) -> float:
        """The step of batch t.

        Parameters
        ----------
        t : batches before this one
        stable : the longest stable step of the batch
        scale : factor on the step, lowered where training diverged or slowed down
        alpha : of the penalty
        """
        return scale * self.first(stable)

    def first(self, stable: float) -> float:
        """The first step, unscaled."""
        return stable if self.eta0 is None else self.eta0

    @property
    def asked(self) -> bool:
        """Whether steps are of the very length that was asked for, so that they are not shortened unasked."""
        return False

    def falling(self, batches: float) -> LearningRate:
        """The rule for an objective with a kink: steps that do not vanish by themselves fall over so many batches."""
        return self

    def for_stream(self, batches: float) -> LearningRate:
        """The rule for rows that come in calls of `partial_fit`: falling over so many batches at least."""
        return self

    def project(self, U: np.ndarray, alpha: float) -> None:
        """What is done to the weights after a step, in place."""


@dataclass(frozen=True)
class Auto(LearningRate):
    """The stable step, constant; it falls as 1 / sqrt(1 + t / decay_batches) where `decay_batches` is a number."""

    decay_batches: float | None = None

    name = "auto"
    averages = True
    follows_curvature = True

    def step(self, t: int, stable: float, scale: float, alpha: float) -> float:
        if self.decay_batches is None:
            return scale * self.first(stable)
        return scale * self.first(stable) / np.sqrt(1.0 + t / self.decay_batches)

    def falling(self, batches: float) -> Auto:
        return replace(self, decay_batches=batches)

    def for_stream(self, batches: float) -> Auto:
        return self if self.decay_batches is None else self.falling(max(self.decay_batches, batches))


@dataclass(frozen=True)
class Pegasos(LearningRate):
    """1 / (alpha t), and weights in the ball of radius 1 / sqrt(alpha) (Shalev-Shwartz et al. 2011)."""

    name = "pegasos"
    preconditions = False
    averages = True

    @classmethod
    def check(cls, loss: type[Loss], penalty: Penalty, alpha: Any, momentum: Any) -> None:
        strong = alpha == "auto" or float(alpha) > 0
        if not (loss.in_ball and penalty.name == "l2" and strong and momentum in ("auto", 0)):
            raise InputError(
                "learning_rate='pegasos' needs loss='hinge', penalty='l2', momentum=0 and alpha > 0, got "
                f"loss={loss.name!r}, penalty={penalty.name!r}, momentum={momentum}, alpha={alpha}"
            )

    def step(self, t: int, stable: float, scale: float, alpha: float) -> float:
        # As if some batches had gone before: the first steps of 1 / (alpha t) would throw weights far away.
        return 1.0 / (alpha * (t + 1) + 1.0 / (scale * stable))

    def first(self, stable: float) -> float:
        return stable

    def project(self, U: np.ndarray, alpha: float) -> None:
        project(U, alpha)


@dataclass(frozen=True)
class Constant(LearningRate):
    """eta0 in every batch."""

    name = "constant"

    @property
    def asked(self) -> bool:
        return self.eta0 is not None


@dataclass(frozen=True)
class InverseScaling(Constant):
    """eta0 / t^power_t in batch t, counted from 1."""

    name = "inverse_scaling"

    def step(self, t: int, stable: float, scale: float, alpha: float) -> float:
        return scale * self.first(stable) / (t + 1) ** self.power_t


@dataclass(frozen=True)
class Adaptive(LearningRate):
    """eta0, divided by 5 each time that the loss has stopped falling."""

    name = "adaptive"
    slows_down = True


#: The rules by name.
RATES: dict[str, type[LearningRate]] = {r.name: r for r in (Auto, Pegasos, Constant, InverseScaling, Adaptive)}


def project(W: np.ndarray, alpha: float) -> None:
    """Each column into the ball of radius 1 / sqrt(alpha), in place.

    Pegasos, line 6 of Algorithm 1 of Yu et al. 2015, where the radius is misprinted as 1 / alpha: the minimum
    w of alpha |w|^2 / 2 + mean hinge has |w|^2 <= 1 / alpha (Shalev-Shwartz et al. 2011, Theorem 1).
    """
    norm = np.sqrt((W * W).sum(axis=0))
    W *= np.minimum(1.0, 1.0 / np.maximum(np.sqrt(alpha) * norm, np.finfo(np.float64).tiny))
