"""Losses of linear models: everything that solvers ask of a loss, in one class each.

Number code. Scores and encoded targets have shape (b, C). Every column of a one-vs-rest loss is a problem of
its own, and the loss of a row is their sum. A loss is a subclass of `Loss` under the line `@register_loss`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from .errors import InputError
from .parameters import Rule

#: The losses by name.
LOSSES: dict[str, type[Loss]] = {}
L = TypeVar("L", bound="type[Loss]")


@dataclass(frozen=True)
class Loss:
    """Base of the losses: a value and a gradient with respect to scores, and what solvers ask beside them.

    Parameters
    ----------
    epsilon : float >= 0, for the losses that name it; or an array of shape (C,), one for each column

    Attributes
    ----------
    name : str, key in the registry and the value of an estimator's `loss`
    smoothness : float, the largest second derivative with respect to the scores: the Hessian of the mean loss is at
        most smoothness x E[z z'] for each column. None: the loss has a kink
    task : str, "classification", "regression" or "both". Classes come as columns of -1 and 1, a single one for two
        classes; numbers come centred at the mean over all rows
    probabilistic : bool, whether scores become probabilities
    epsilon_in_spreads : float, the value of epsilon="auto" in robust standard deviations of the targets; None for a loss
        without an epsilon
    search_factor : float, the best constant score lies between the smallest and the largest target, each times this
    shift_free : bool, whether a number added to all scores of a row changes nothing
    """

    epsilon: float | np.ndarray = 0.1

    name: ClassVar[str]
    smoothness: ClassVar[float | None]
    task: ClassVar[str] = "classification"
    probabilistic: ClassVar[bool] = False
    epsilon_in_spreads: ClassVar[float | None] = None
    search_factor: ClassVar[float] = 1.0
    shift_free: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (np.isfinite(self.epsilon) & (np.asarray(self.epsilon) >= 0)).all():
            raise InputError(
                f"epsilon of the {self.name} loss must be a finite number >= 0, got {self.epsilon!r}"
            )

    def __call__(self, scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The loss and its gradient.

        Parameters
        ----------
        scores : array of shape (b, C)
        targets : array of shape (b, C), -1 or 1 for classes, numbers for regression

        Returns
        -------
        value : array of shape (b,), the loss of each row
        gradient : array of shape (b, C), with respect to the scores, in their dtype
        """
        raise NotImplementedError

    @classmethod
    def serves(cls, task: str) -> bool:
        """Whether the loss is one for "classification" or "regression"."""
        return cls.task in (task, "both")

    def for_two_classes(self) -> Loss:
        """The same loss on the single score of two classes."""
        return self

    def second(self, gradient: np.ndarray) -> np.ndarray:
        """Second derivative of a smooth loss with respect to each score: the diagonal of the Hessian of each row.

        Parameters
        ----------
        gradient : array of shape (b, C), as `__call__` returns it

        Returns
        -------
        Array of shape (b, C).
        """
        raise NotImplementedError

    def curvature(self, spread: float) -> float:
        """The curvature L that sets the length of the first steps.

        It is the smoothness. A loss with a kink (or a narrow Huber loss) has L = 1 / spread: then a step moves scores by
        about their range, as a step of the squared loss does, and later steps must be shorter.

        Parameters
        ----------
        spread : float, standard deviation of the targets; 1 for classes
        """
        return 1.0 / max(spread, 1e-12) if self.smoothness is None else self.smoothness

    def best_constant(self, Y: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The constant scores of least mean loss, found from values of the loss, since its slope may jump.

        Parameters
        ----------
        Y : array of shape (b, C), encoded targets
        w : array of shape (b,), weights of the rows

        Returns
        -------
        Array of shape (C,).
        """
        epsilons = np.broadcast_to(self.epsilon, Y.shape[1]).tolist()
        alone = [replace(self, epsilon=epsilon) for epsilon in epsilons]
        return np.array([loss._best_score(y[:, None], w) for loss, y in zip(alone, Y.T, strict=True)])

    def _best_score(self, Y: np.ndarray, w: np.ndarray) -> float:
        low, high = self.search_factor * float(Y.min()), self.search_factor * float(Y.max())

        def mean_loss(score: float) -> float:
            return float(w @ self(np.full_like(Y, score), Y)[0])

        candidates = [low, high]
        if high > low:
            options = {"xatol": 1e-9 * (high - low)}
            minimum = minimize_scalar(mean_loss, bounds=(low, high), method="bounded", options=options)
            candidates.append(float(minimum.x))
        return min(candidates, key=mean_loss)

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Class probabilities from scores of shape (b, C), of a probabilistic loss: shape (b, c).

        One-vs-rest by the logistic function, divided by their sum; of a single score, of the second class.
        """
        if scores.shape[1] == 1:
            return np.concatenate([expit(-scores), expit(scores)], axis=1)
        return softmax(-np.logaddexp(np.zeros_like(scores), -scores))  # sigmoids of far scores would all be 0


def softmax(logits: np.ndarray) -> np.ndarray:
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def register_loss(loss: L) -> L:
    """Make a loss known by its name, as a decorator of its class: to estimators and to saved models.

    A program that asks a loaded model for probabilities must register its loss first.

    Raises InputError if another loss has the name.
    """
    known = LOSSES.get(loss.name)
    # The same class again is a notebook's cell that ran twice.
    if known and (known.__module__, known.__qualname__) != (loss.__module__, loss.__qualname__):
        raise InputError(
            f"the name {loss.name!r} is that of the loss {known.__module__}.{known.__qualname__}; choose another"
        )
    LOSSES[loss.name] = loss
    return loss


@register_loss
class Hinge(Loss):
    """max(0, 1 - y s); at the kink the subgradient 0."""

    name = "hinge"
    smoothness = None

    def __call__(self, scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slack = np.maximum(1.0 - targets * scores, 0.0)
        return slack.sum(axis=1), np.where(slack > 0, -targets, np.zeros_like(targets))


@register_loss
class SquaredHinge(Loss):
    """max(0, 1 - y s)^2, as scikit-learn's LinearSVC has it."""

    name = "squared_hinge"
    smoothness = 2.0

    def __call__(self, scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slack = np.maximum(1.0 - targets * scores, 0.0)
        return (slack * slack).sum(axis=1), -2.0 * targets * slack

    def second(self, gradient: np.ndarray) -> np.ndarray:
        return 2.0 * (gradient != 0)


@register_loss
class Logistic(Loss):
    """log(1 + exp(-y s)): binary, or one-vs-rest."""

    name = "logistic"
    smoothness = 0.25
    probabilistic = True
    search_factor = 30.0  # logarithms of odds

    def __call__(self, scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        margin = targets * scores
        return np.logaddexp(0.0, -margin).sum(axis=1), -targets * expit(-margin)

    def second(self, gradient: np.ndarray) -> np.ndarray:
        wrong = np.abs(gradient)
        return wrong * (1.0 - wrong)


@register_loss
class Multinomial(Loss):
    """log sum_c exp(s_c) - s_y; the Hessian diag(p) - p p' is at most 1/2."""

    name = "multinomial"
    smoothness = 0.5
    probabilistic = True
    shift_free = True

    def __call__(self, scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shifted = scores - scores.max(axis=1, keepdims=True)
        gradient = np.exp(shifted)
        total = gradient.sum(axis=1, keepdims=True)
        right = targets > 0
        value = np.log(total[:, 0]) - (shifted * right).sum(axis=1)
        gradient /= total
        gradient -= right
        return value, gradient

    def second(self, gradient: np.ndarray) -> np.ndarray:
        wrong = np.abs(gradient)
        return wrong * (1.0 - wrong)

    def for_two_classes(self) -> Loss:
        return Logistic(self.epsilon)

    def best_constant(self, Y: np.ndarray, w: np.ndarray) -> np.ndarray:
        shares = w @ (Y > 0) / w.sum()
        return np.log(shares) - np.log(shares).mean()

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """The softmax."""
        return super().probabilities(scores) if scores.shape[1] == 1 else softmax(scores)


@register_loss
class Squared(Loss):
    """(s - y)^2 / 2, for regression and, on targets -1 and 1, for classes."""

    name = "squared"
    smoothness = 1.0
    task = "both"

    def __call__(self, scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residual = scores - targets
        return 0.5 * (residual * residual).sum(axis=1), residual

    def second(self, gradient: np.ndarray) -> np.ndarray:
        return np.ones_like(gradient)


@register_loss
class Huber(Loss):
    """r^2 / 2 up to |r| = epsilon, epsilon |r| - epsilon^2 / 2 beyond; r = s - y."""

    name = "huber"
    smoothness = 1.0
    task = "regression"
    epsilon_in_spreads = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.all(np.asarray(self.epsilon) > 0):
            raise InputError(f"epsilon of the huber loss must be positive, got {self.epsilon!r}")

    def __call__(self, scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residual = scores - targets
        epsilon = np.asarray(self.epsilon, dtype=residual.dtype)
        gradient = np.clip(residual, -epsilon, epsilon)
        return (gradient * (residual - 0.5 * gradient)).sum(axis=1), gradient

    def second(self, gradient: np.ndarray) -> np.ndarray:
        return 1.0 * (np.abs(gradient) < self.epsilon)

    def curvature(self, spread: float) -> float:
        return min(1.0, float(np.max(self.epsilon)) / max(spread, 1e-12))


@register_loss
class EpsilonInsensitive(Loss):
    """max(0, |s - y| - epsilon)."""

    name = "epsilon_insensitive"
    smoothness = None
    task = "regression"
    epsilon_in_spreads = 0.1

    def __call__(self, scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residual = scores - targets
        slack = np.maximum(np.abs(residual) - self.epsilon, 0.0)
        return slack.sum(axis=1), np.where(slack > 0, np.sign(residual), np.zeros_like(residual))


def losses_for(task: str) -> list[str]:
    """Names of the losses for "classification" or "regression"."""
    return [name for name, loss in LOSSES.items() if loss.serves(task)]


def loss_rule(task: str) -> Rule:
    """The rule for the parameter `loss` of an estimator. It reads the registry whenever it is asked."""
    return Rule(
        lambda: tuple(map(repr, losses_for(task))),
        lambda value: isinstance(value, str) and value in losses_for(task),
    )


def get_loss(name: str, n_classes: int = 0, epsilon: float = 0.1) -> Loss:
    """The loss of that name, which the rule of a parameter has checked.

    Parameters
    ----------
    name : str, one of `losses_for(task)`
    n_classes : int, number of classes; two classes share one score
    epsilon : float, for the losses that have one

    Raises
    ------
    InputError : an epsilon that the loss does not allow
    """
    loss = LOSSES[name](float(epsilon))
    return loss.for_two_classes() if n_classes == 2 else loss
