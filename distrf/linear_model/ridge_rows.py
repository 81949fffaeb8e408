"""Ridge models that take more rows: `partial_fit` adds their sums to those that were kept, and solves anew."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import replace
from types import MethodType
from typing import Any, Self

import numpy as np

from ..errors import InputError
from ..execution.memory import check_client
from ..ridge.alphas import given_alphas
from ..ridge.folds import are_exact
from ..ridge.gram import GramReduction
from ..ridge.kept_state import Calibrated, KeptState, check_same_weights
from ..targets import Targets, class_targets, joined_classes, regression_targets
from ..typing import ArrayLike, ClassWeight
from .calibration import CalibrationWarning, HeldOut, enough_rows, learn_calibration
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
        model._check_keeps_state(True)
        if hasattr(model, "coef_") and not hasattr(model, "state_"):
            why = "conjugate gradients, which add up none" if model.solver_ == "cg" else "keep_state=False"
            raise NoStateError(
                f"partial_fit adds rows to the sums of the rows before, and this {type(model).__name__} was fitted with "
                f"{why}; fit it again with keep_state=True"
            )
        return MethodType(self.fn, model)


class _Rows(BaseRidge):
    def _add(self, X: Any, y: Any, sample_weight: Any, kept: KeptState, targets: Targets) -> None:
        """Add rows to the sums that are kept, and solve anew.

        kept : in terms of the classes of `targets`; targets : of these rows
        """
        if kept.rule.n_folds == 1 and (self.compares_alphas or self.calibrate):
            raise InputError(
                "alphas are compared by folds, and calibration needs them; one alpha and calibrate=False were given when "
                "the sums were made, so they have none; give these again, or fit all rows again"
            )
        arrays = [X, y] if sample_weight is None else [X, y, sample_weight]
        targets = replace(targets, weight_unit=kept.targets.weight_unit)
        reduction = GramReduction(kept.n_features, targets, kept.next_rule(), are_exact(self.alpha))
        check_client(reduction.solve_bytes + kept.nbytes, type(self).__name__)
        state, _ = self._add_up(reduction, arrays)
        total = self._sum(kept, KeptState(state, targets, reduction.rule, X.shape[0]))
        solved = self._solve(total.state, total.reduction, given_alphas(self.alpha))
        solved = solved._replace(rule=reduction.rule)  # of the rows that can be scored: the others are gone
        held = self._score_held_out(arrays, total.targets, solved, kept.rule.seed)
        calibration, calibrated = self._calibrate_anew(held, kept, total)
        self._publish(solved, total.targets, calibration)
        self.state_ = replace(total, calibrated=calibrated)

    def _sum(self, kept: KeptState, more: KeptState) -> KeptState:
        """The sums of all rows, of targets about the mean of all where there is an intercept."""
        if kept.targets.classes is None:
            weights = np.array([part.state.weight.sum() for part in (kept, more)])
            centre = weights / weights.sum() @ np.stack([kept.targets.centre, more.targets.centre])
            if not self.fit_intercept:
                centre = np.zeros_like(centre)
            kept, more = kept.centred(centre), more.centred(centre)
        return kept.added(more)

    def _calibrate_anew(
        self, held: HeldOut | None, kept: KeptState, total: KeptState
    ) -> tuple[np.ndarray | None, Calibrated | None]:
        """`calibration_` after rows were added, and what it rests on; `partial_fit` has the rule.

        held : of the rows that were added, None without `calibrate`; kept, total : the sums without and with them
        """
        if held is None:
            return None, None
        new, last, classes = self._calibrated(held, total), kept.calibrated, total.targets.classes
        assert new is not None
        if last is None or (new.counts >= enough_rows(last.counts)).all():
            return learn_calibration(held, classes), new
        old = self.__dict__.get("calibration_")
        if old is None:  # was dropped before
            return None, last
        what, each = ("intervals", "") if classes is None else ("probabilities", " of each class")
        joined, fault = classes is not None and len(old) < len(classes), ""
        if joined or (last.alphas, last.fit_intercept) != (new.alphas, new.fit_intercept):
            why = "classes joined" if joined else "alpha or fit_intercept is another"
            fault = f"{what} are dropped: {why}, and the rows that were added are too few to learn them from"
            old = None
        elif total.rows > 2 * last.rows:
            fault = f"{what} are those that {last.rows:,} of the {total.rows:,} rows taught; later calls had too few rows each"
        if fault:
            enough = f"{enough_rows(last.counts).max():,} held-out rows{each}"
            message = f"{fault}; add {enough} or more at once, or fit all rows again"
            warnings.warn(message, CalibrationWarning, stacklevel=4)
        return old, last


class RegressorRows(_Rows):
    """The part of the regressor."""

    @_NeedsState
    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows to those of all calls so far, and solve anew.

        The sums are those of all rows together, so the result is that of one `fit` up to rounding, in whatever pieces the
        rows come; `alpha` and `fit_intercept` may change between calls. With several alphas, the fold of a row follows from
        its number among all rows.

        With `calibrate`, intervals are learned anew from errors of rows of this call, by solutions without their folds, if there
        are 1,000 of them, or as many as those before were learned from: they hold for rows like these. Else they stay. A
        CalibrationWarning says when the model has more than twice the rows since, or that they are dropped, because `alpha` or
        `fit_intercept` has changed.

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
            self._fit_beside(X, None, y, sample_weight, keep=True)
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
        return targets if self.fit_intercept else replace(targets, centre=np.zeros_like(targets.centre))

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
        rows come; `alpha` and `fit_intercept` may change between calls. With several alphas, the fold of a row follows from
        its number among all rows.

        With `calibrate`, probabilities are learned anew from scores of rows of this call, by solutions without their folds, if
        there are 100 of each class, or as many as those before were learned from: they hold for rows like these. Else they
        stay. A CalibrationWarning says when the model has more than twice the rows since, or that they are dropped, because
        classes have joined, or `alpha` or `fit_intercept` has changed.

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
            self._fit(X, y, sample_weight, None, targets, None, True)
        else:
            check_same_weights(kept.targets, targets)
            self._add(X, y, sample_weight, kept.with_classes(targets), targets)
        self.classes_ = np.asarray(targets.classes)
        return self

    def _check_keeps_state(self, keep: bool) -> None:
        super()._check_keeps_state(keep)
        if keep and isinstance(self.class_weight, str):
            raise NoStateError(
                "class_weight='balanced' follows from all rows, and would change the weights of those that are added up "
                "already; give a dictionary {label: factor}, or fit all rows again without keep_state"
            )
