"""The l1 penalty of the squared loss: the lasso, exact and from one pass over the rows, in place of gradient steps."""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from .ridge import StreamingRidge


def check_lasso(model: Any) -> None:
    """Raise `InputError` for parameters that go with gradient steps alone."""
    if model.loss != "squared":
        raise InputError(
            "penalty='l1' is for the squared loss, whose exact solution follows from one pass (gradient steps end far "
            f"above it), got loss={model.loss!r}; take loss='squared', or penalty='l2'"
        )
    if model.checkpoint is not None or model.warm_start:
        raise InputError(
            "penalty='l1' is solved at once: checkpoint= and warm_start= are for penalty='l2'; leave them out"
        )


def takes_steps(model: Any) -> bool:
    """Whether the model has `partial_fit`. Raises `AttributeError`, which says why not."""
    if model.penalty == "l1":
        raise AttributeError(
            "partial_fit takes gradient steps, which penalty='l1' does not; call fit, or take penalty='l2'"
        )
    return True


def lasso_of(model: Any) -> StreamingRidge:
    """The ridge estimator whose normal equations are solved with alpha |u|_1 (see ridge/normal_equations.py).

    Parameters
    ----------
    model : StreamingSGDRegressor or StreamingSGDClassifier
        With penalty="l1".
    """
    options = {name: getattr(model, name) for name in ("alpha", "fit_intercept", "random_state")}
    exact = StreamingRidge(**options, calibrate=model._calibrates, solver="gram")
    exact.l1 = True
    return exact


def fit_lasso(model: Any, X: Any, y: Any, weight: Any, targets: Any, folds: Any) -> None:
    """Fit the model by the exact solution; there are no epochs. The arguments are those of `BaseSGD._fit`."""
    exact = lasso_of(model)
    exact._fit(X, y, weight, folds, targets, None, False)
    for name in ("coef_", "intercept_", "alpha_", *(["calibration_"] if model._calibrates else [])):
        setattr(model, name, getattr(exact, name))
    model.epsilon_, model.batch_size_ = model._loss(targets).epsilon, X.shape[0]
    model.t_ = model.best_epoch_ = model.n_iter_ = 0
    model.history_, model._stream = [], None
