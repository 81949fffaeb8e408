"""Ridge models that take more rows: `partial_fit` adds their sums to those that were kept, and solves anew."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, Self

import numpy as np

from ..errors import InputError
from ..execution.memory import check_client
from ..ridge.alphas import given_alphas
from ..ridge.gram import GramReduction
from ..ridge.kept_state import KeptState, check_same_weights
from ..targets import Targets, class_targets, joined_classes, regression_targets
from ..typing import ArrayLike, ClassWeight
from .ridge_base import BaseRidge, NoStateError
from .validation import validate_fit


class _NeedsState:
    """A method that a fitted model has if its sums were kept; NoStateError says what to do if not."""

    def __init__(self, fn: Callable[..., Any]):
        self.fn = fn
        functools.update_wrapper(self, fn)  # type: ignore[arg-type]

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self.fn
        model._check_keeping(True)
        if hasattr(model, "coef_") and not hasattr(model, "state_"):
            why = "conjugate gradients, which add up none" if model.solver_ == "cg" else "keep_state=False"
            raise NoStateError(
                f"partial_fit adds rows to the sums of the rows before, and this {type(model).__name__} was fitted with "
                f"{why}; fit it again with keep_state=True (--keep-state)"
            )
        return MethodType(self.fn, model)


class _Rows(BaseRidge):
    def _add(self, X: Any, y: Any, sample_weight: Any, kept: KeptState, targets: Targets) -> None:
        """Add rows to the sums that are kept, and solve anew.

        kept : in terms of the classes of `targets`; targets : of these rows
        """
        if self.compares_alphas and kept.rule.n_folds == 1:
            raise InputError(
                "alphas are compared by folds, and one alpha was given when the sums were made, so they have none; give one "
                "alpha, or fit all rows again"
            )
        arrays = [X, y] if sample_weight is None else [X, y, sample_weight]
        reduction = GramReduction(kept.n_features, targets, kept.next_rule())
        check_client(reduction.solve_bytes + kept.nbytes, type(self).__name__)
        state, _ = self._add_up(reduction, arrays)
        more = KeptState(state, targets, reduction.rule, X.shape[0])
        if targets.classes is None:
            weights = np.array([kept.state.weight.sum(), state.weight.sum()])
            shares = weights / weights.sum()
            centre = shares @ np.stack([kept.targets.centre, targets.centre])
            if not self.fit_intercept:
                centre = np.zeros_like(centre)
            kept, more = kept.centred(centre), more.centred(centre)
        total = kept.added(more)
        self._publish(self._solve(total.state, total.reduction, given_alphas(self.alpha)), total.targets)
        self.state_ = total


class RegressorRows(_Rows):
    """The part of the regressor."""

    @_NeedsState
    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows to those of all calls so far, and solve anew.

        The sums are those of all rows together, so the result is that of one `fit` up to rounding, in whatever pieces the
        rows come; `alpha` and `fit_intercept` may change between calls. With several alphas, rows follow the folds of the
        first call by their number among all rows. One difference remains: how many neighbours a fold takes together depends
        on the rows of the first call alone.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Features. A Dask array is read block by block, out of core.
        y : array or Dask array of shape (n,) or (n, C)
            Targets: numbers, one or C for each row.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.

        Returns
        -------
        StreamingRidge
            The fitted estimator itself.

        Raises
        ------
        InputError
            The model was fitted without `keep_state`, or by conjugate gradients; a parameter breaks a rule, or the data
            do: NaN or infinity, other columns. The model is as it was then.
        MemoryPlanError
            The job cannot fit into memory.

        Examples
        --------
        >>> import numpy as np
        >>> from distrf import StreamingRidge
        >>> Z = np.random.default_rng(0).normal(size=(200, 3))
        >>> y = Z @ [1.0, 2.0, 3.0] + 4.0
        >>> model = StreamingRidge(alpha=1e-9, keep_state=True).fit(Z[:150], y[:150])
        >>> model.partial_fit(Z[150:], y[150:]).coef_.round(3)
        array([1., 2., 3.])
        """
        if not hasattr(self, "coef_"):
            self._fit_beside(X, None, y, sample_weight, True)
            return self
        kept = self.state_
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=True, reset=False)
        columns, width = 1 if y.ndim == 1 else y.shape[1], kept.targets.width
        if columns != width:
            raise InputError(f"y must have as many columns as in the rows before, {width}, got {columns}")
        flat = np.ndim(self.coef_) == 1
        self._add(X, y, sample_weight, kept, self._targets(y, sample_weight, kept.targets.centre))
        self._flatten(flat)
        return self

    def _targets(self, y: Any, sample_weight: Any, centre: np.ndarray | None = None) -> Targets:
        targets = regression_targets(y, sample_weight, centre)
        return targets if self.fit_intercept else Targets(None, np.zeros_like(targets.centre))

    def _flatten(self, flat: bool) -> None:
        if flat:
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])


class ClassifierRows(_Rows):
    """The part of the classifier."""

    class_weight: ClassWeight
    classes_: np.ndarray

    @_NeedsState
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add rows to those of all calls so far, and solve anew.

        The sums are those of all rows together, so the result is that of one `fit` up to rounding, in whatever pieces the
        rows come; `alpha` and `fit_intercept` may change between calls. With several alphas, rows follow the folds of the
        first call by their number among all rows. One difference remains: how many neighbours a fold takes together depends
        on the rows of the first call alone.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Features. A Dask array is read block by block, out of core.
        y : array or Dask array of shape (n,)
            Labels: numbers or text.
        classes : array of shape (c,), default=None
            Labels that there may be, beside those that are known. None takes the labels of the first rows; a label that is
            not known is refused later. Labels may join in any call: the sums of the rows before tell what they would
            have been.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.

        Returns
        -------
        StreamingRidgeClassifier
            The fitted estimator itself.

        Raises
        ------
        InputError
            The model was fitted without `keep_state`, or by conjugate gradients; labels are not known;
            `class_weight` is "balanced", or not what it was; a parameter breaks a rule, or the data do: NaN or infinity,
            other columns. The model is as it was then.
        MemoryPlanError
            The job cannot fit into memory.
        """
        first = not hasattr(self, "coef_")
        kept = None if first else self.state_
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=False, reset=first)
        known = None if kept is None else kept.targets.classes
        targets = class_targets(y, sample_weight, self.class_weight, joined_classes(known, classes))
        if kept is None:
            self._fit(X, y, sample_weight, targets, None, True)
        else:
            check_same_weights(kept.targets, targets)
            self._add(X, y, sample_weight, kept.with_classes(targets), targets)
        self.classes_ = np.asarray(targets.classes)
        return self

    def _check_keeping(self, keep: bool) -> None:
        super()._check_keeping(keep)
        if keep and isinstance(self.class_weight, str):
            raise NoStateError(
                "class_weight='balanced' follows from all rows, and would change the weights of those that are added up "
                "already; give a dictionary {label: factor}, or fit all rows again without keep_state"
            )
