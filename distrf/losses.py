"""Losses of linear models: value and gradient with respect to the scores of a few rows.

Number code. Scores and encoded targets have shape (b, C). Every column of a one-vs-rest loss is a problem of
its own, and the loss of a row is their sum. `smoothness` is the largest second derivative with respect to the
scores: the Hessian of the mean loss is at most smoothness x E[z z'] for each column. None: the loss has a kink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from .errors import InputError


@dataclass(frozen=True)
class Loss:
    """Base. `epsilon` is used by the losses that name it."""

    epsilon: float = 0.1

    name: ClassVar[str]
    smoothness: ClassVar[float | None]
    task: ClassVar[str] = "classification"
    #: Whether scores become probabilities.
    probabilistic: ClassVar[bool] = False

    def __call__(self, scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(loss of each row, shape (b,); gradient, shape (b, C)).

        targets : -1 or 1 for classes, numbers for regression, shape (b, C)
        """
        raise NotImplementedError

    def curved(self, gradient: np.ndarray) -> np.ndarray:
        """Second derivative of each row as a share of the largest, from 0 to 1, mean over columns; shape (b,).

        Of a loss with a kink: whether the row is not on its flat side.
        """
        return np.count_nonzero(gradient, axis=1) / gradient.shape[1]


class Hinge(Loss):
    """max(0, 1 - y s); at the kink the subgradient 0."""

    name = "hinge"
    smoothness = None

    def __call__(self, scores, targets):
        slack = np.maximum(1.0 - targets * scores, 0.0)
        return slack.sum(axis=1), np.where(slack > 0, -targets, np.zeros_like(targets))


class SquaredHinge(Loss):
    """max(0, 1 - y s)^2, as scikit-learn's LinearSVC has it."""

    name = "squared_hinge"
    smoothness = 2.0

    def __call__(self, scores, targets):
        slack = np.maximum(1.0 - targets * scores, 0.0)
        return (slack * slack).sum(axis=1), -2.0 * targets * slack


class Logistic(Loss):
    """log(1 + exp(-y s)): binary, or one-vs-rest."""

    name = "logistic"
    smoothness = 0.25
    probabilistic = True

    def __call__(self, scores, targets):
        margin = targets * scores
        return np.logaddexp(0.0, -margin).sum(axis=1), -targets * expit(-margin)

    def curved(self, gradient):
        wrong = np.abs(gradient)
        return (4.0 * wrong * (1.0 - wrong)).mean(axis=1, dtype=np.float64)


class Multinomial(Loss):
    """log sum_c exp(s_c) - s_y; the Hessian diag(p) - p p' is at most 1/2."""

    name = "multinomial"
    smoothness = 0.5
    probabilistic = True

    def __call__(self, scores, targets):
        shifted = scores - scores.max(axis=1, keepdims=True)
        gradient = np.exp(shifted)
        total = gradient.sum(axis=1, keepdims=True)
        right = targets > 0
        value = np.log(total[:, 0]) - (shifted * right).sum(axis=1)
        gradient /= total
        gradient -= right
        return value, gradient

    def curved(self, gradient):
        """The trace of diag(p) - p p', which bounds its largest eigenvalue, over 1/2."""
        wrong = np.abs(gradient)
        trace = (wrong * (1.0 - wrong)).sum(axis=1, dtype=np.float64)
        return np.minimum(2.0 * trace, 1.0)


class Squared(Loss):
    """(s - y)^2 / 2, for regression and, on targets -1 and 1, for classes."""

    name = "squared"
    smoothness = 1.0
    task = "both"

    def __call__(self, scores, targets):
        residual = scores - targets
        return 0.5 * (residual * residual).sum(axis=1), residual

    def curved(self, gradient):
        return np.ones(len(gradient))


class Huber(Loss):
    """r^2 / 2 up to |r| = epsilon, epsilon |r| - epsilon^2 / 2 beyond; r = s - y."""

    name = "huber"
    smoothness = 1.0
    task = "regression"

    def __call__(self, scores, targets):
        residual = scores - targets
        gradient = np.clip(residual, -self.epsilon, self.epsilon)
        return (gradient * (residual - 0.5 * gradient)).sum(axis=1), gradient

    def curved(self, gradient):
        return np.count_nonzero(np.abs(gradient) < self.epsilon, axis=1) / gradient.shape[1]


class EpsilonInsensitive(Loss):
    """max(0, |s - y| - epsilon)."""

    name = "epsilon_insensitive"
    smoothness = None
    task = "regression"

    def __call__(self, scores, targets):
        residual = scores - targets
        slack = np.maximum(np.abs(residual) - self.epsilon, 0.0)
        return slack.sum(axis=1), np.where(slack > 0, np.sign(residual), np.zeros_like(residual))


LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (Hinge, SquaredHinge, Logistic, Multinomial, Squared, Huber, EpsilonInsensitive)
}


#: Losses whose epsilon is in units of the targets: outliers hardly move them.
SCALED = ("huber", "epsilon_insensitive")


def losses_for(task: str) -> list[str]:
    """Names of the losses for "classification" or "regression"."""
    return [name for name, loss in LOSSES.items() if loss.task in (task, "both")]


def get_loss(name: str, task: str, n_classes: int = 0, epsilon: float = 0.1) -> Loss:
    """The loss of that name for "classification" or "regression".

    Two classes share one score, for which multinomial and logistic are the same. Raises InputError for an
    unknown name, a loss of the other task, and epsilon below 0.
    """
    known = losses_for(task)
    if name not in known:
        raise InputError(f"loss for {task} is one of {', '.join(known)}; got {name!r}")
    if not np.isfinite(epsilon) or epsilon < 0 or (epsilon == 0 and name == "huber"):
        raise InputError(f"epsilon of the {name} loss must be positive, got {epsilon!r}")
    if name == "multinomial" and n_classes == 2:
        name = "logistic"
    return LOSSES[name](float(epsilon))


def probabilities(loss: str, scores: np.ndarray) -> np.ndarray:
    """Class probabilities, shape (b, c), from scores (b, C): softmax, or one-vs-rest divided by its sum."""
    if scores.shape[1] == 1:
        p = expit(scores)
        return np.concatenate([1.0 - p, p], axis=1)
    if loss == "multinomial":
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
    else:
        p = np.maximum(expit(scores), np.finfo(scores.dtype).tiny)
    return p / p.sum(axis=1, keepdims=True)
