"""Learning-rate rules: the length of the step of each batch, and which other options go with a rule. Number code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError
from ..losses import Loss


@dataclass(frozen=True)
class LearningRate:
    """Base of the rules: a step of constant length.

    Parameters
    ----------
    eta0 : float > 0, the first step; None takes the longest stable step, which the spectrum of the features gives
    power_t : float >= 0, exponent of the rule "inverse_scaling"

    Attributes
    ----------
    name : str, the value of an estimator's `learning_rate`
    preconditions : bool, whether the rule may be used with a preconditioner
    averages : bool, whether average="auto" averages the weights, because the steps do not vanish
    follows_curvature : bool, whether momentum="auto" is taken from the curvature of the batches, else it is 0
    slows_down : bool, whether steps are shortened whenever the loss has stopped falling
    """

    eta0: float | None = None
    power_t: float = 0.5

    name: ClassVar[str]
    preconditions: ClassVar[bool] = True
    averages: ClassVar[bool] = False
    follows_curvature: ClassVar[bool] = False
    slows_down: ClassVar[bool] = False

    @classmethod
    def check(cls, loss: type[Loss], alpha: Any, momentum: Any) -> None:
        """Raise InputError if the rule cannot be used with these options; alpha and momentum are numbers or "auto"."""

    def step(self, t: int, stable: float, scale: float, alpha: float) -> float:
        """The step of batch t.

        Parameters
        ----------
        t : batches before this one
        stable : the longest stable step for a batch of this size
        scale : factor on the step, lowered when training diverged or slowed down
        alpha : strength of the penalty
        """
        return scale * self.first(stable)

    def first(self, stable: float) -> float:
        """The first step, before it is multiplied by `scale`."""
        return stable if self.eta0 is None else self.eta0

    @property
    def user_set(self) -> bool:
        """Whether the user set the exact length of the steps. They are then never shortened; divergence is an error."""
        return False

    def falling(self, batches: float) -> LearningRate:
        """The rule for an objective with a kink: steps that would stay constant decay over this many batches."""
        return self

    def for_stream(self, batches: float) -> LearningRate:
        """The rule for `partial_fit`: if steps decay, then over at least this many batches."""
        return self

    def project(self, U: np.ndarray, alpha: float) -> None:
        """Change the weights after a step, in place; most rules do nothing."""


@dataclass(frozen=True)
class Auto(LearningRate):
    """The longest stable step, constant or, if `decay_batches` is a number, times 1 / sqrt(1 + t / decay_batches)."""

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
    """Steps of 1 / (alpha t) with projection onto the ball of radius 1 / sqrt(alpha) (Shalev-Shwartz et al. 2011)."""

    name = "pegasos"
    preconditions = False
    averages = True

    @classmethod
    def check(cls, loss: type[Loss], alpha: Any, momentum: Any) -> None:
        strong = alpha == "auto" or float(alpha) > 0
        if not (loss.in_ball and strong and momentum in ("auto", 0)):
            raise InputError(
                "learning_rate='pegasos' needs loss='hinge', momentum=0 and alpha > 0, got "
                f"loss={loss.name!r}, momentum={momentum}, alpha={alpha}"
            )

    def step(self, t: int, stable: float, scale: float, alpha: float) -> float:
        # The second term bounds the step by the stable one: the first steps of 1 / (alpha t) alone would be far too long.
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
    def user_set(self) -> bool:
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
    """Project each column onto the ball of radius 1 / sqrt(alpha), in place.

    Pegasos, line 6 of Algorithm 1 of Yu et al. 2015, where the radius is misprinted as 1 / alpha: the minimum
    w of alpha |w|^2 / 2 + mean hinge has |w|^2 <= 1 / alpha (Shalev-Shwartz et al. 2011, Theorem 1).
    """
    norm = np.sqrt((W * W).sum(axis=0))
    W *= np.minimum(1.0, 1.0 / np.maximum(np.sqrt(alpha) * norm, np.finfo(np.float64).tiny))
