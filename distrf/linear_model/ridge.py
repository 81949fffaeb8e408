"""Exact ridge regression on a stream of features: one pass, then every alpha."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from sklearn.utils.validation import _check_sample_weight, validate_data

from ..blocks.passes import run_pass
from ..blocks.plan import check_client
from ..blocks.rows import align_rows, rows_per_block
from ..errors import InputError
from ..features.base import validate_rows
from ..maps import working_dtype
from ..randomness import draw_seed
from .base import LinearClassifier, LinearModel, LinearRegressor
from .gram import FoldRule, GramFold
from .solve import NormalEquations, choose_alpha
from .targets import Targets, as_columns, class_targets, regression_targets


class _Ridge(LinearModel):
    alphas: Any
    fit_intercept: bool
    cv: int | str
    random_state: Any

    def _fit(self, X: Any, y: Any, sample_weight: Any, targets: Targets) -> None:
        alphas = check_alphas(self.alphas)
        n, D = X.shape
        rule = FoldRule()
        if len(alphas) > 1:
            folds = check_folds(self.cv, n)
            rule = FoldRule.for_rows(n, folds, draw_seed(self.random_state))
        fold = GramFold(D, targets, rule)
        check_client(solve_bytes(fold), type(self).__name__)
        arrays = [X, y] if sample_weight is None else [X, y, sample_weight]
        state = run_pass(fold, arrays, label="Gram matrix", block_rows=rows_per_block(X.dtype.itemsize * D))
        if not state.weight.sum() > 0:
            raise InputError("sample_weight must not be zero everywhere")
        system = NormalEquations(state, D, self.fit_intercept)
        self.alpha_, self.cv_errors_ = alphas[0], None
        if len(alphas) > 1:
            self.alpha_, self.cv_errors_ = choose_alpha(system, alphas, rule.holdout)
        solution = next(system.solve([self.alpha_]))
        self.coef_ = np.ascontiguousarray(solution.weights.T)
        self.intercept_ = solution.intercept + (targets.centre if self.fit_intercept else 0.0)


class StreamingRidge(LinearRegressor, _Ridge):
    """Ridge regression by one pass that accumulates the normal equations.

    Minimises (1 / 2W) sum_i w_i |y_i - b - z_i.u|^2 + (alpha / 2) |u|^2 with W = sum_i w_i; the intercept b is
    not penalised. scikit-learn's `Ridge(alpha)` is ours with alpha / n.

    Parameters
    ----------
    alphas : penalty, or several, of which cross-validation picks one. Each costs one factorisation
        of a D x D matrix for each fold; no further pass over the data
    fit_intercept : whether to fit b
    cv : number of folds of seeded stripes of rows, or "holdout" for one set of a fifth. Used when there
        are several alphas; the pass then keeps one Gram matrix for each fold
    random_state : seed of the folds

    Attributes
    ----------
    coef_ : array of shape (D,) or (C, D); intercept_ : number or array of shape (C,)
    alpha_ : the alpha used
    cv_errors_ : mean squared error of each alpha over held-out rows, or None
    """

    def __init__(
        self, alphas: Any = 1e-6, *, fit_intercept: bool = True, cv: int | str = 5, random_state: Any = 0
    ):
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> StreamingRidge:
        """Fit to features X of shape (n, D) and targets y of shape (n,) or (n, C); Dask arrays out of core."""
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=True)
        targets = regression_targets(y, sample_weight)
        if not self.fit_intercept:
            targets = Targets(None, np.zeros_like(targets.centre))
        self._fit(X, y, sample_weight, targets)
        if y.ndim == 1:
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class StreamingRidgeClassifier(LinearClassifier, _Ridge):
    """Ridge regression on +-1 targets, one-vs-rest; the largest score wins.

    Parameters
    ----------
    alphas, fit_intercept, cv, random_state : see StreamingRidge. Cross-validation compares squared errors
    class_weight : None, "balanced" (n / (classes * count)), or {label: factor}

    Attributes
    ----------
    classes_ : labels, shape (c,)
    coef_ : array of shape (c, D), or (1, D) for two classes; intercept_ : shape (c,) or (1,)
    alpha_, cv_errors_ : see StreamingRidge
    """

    def __init__(
        self,
        alphas: Any = 1e-6,
        *,
        fit_intercept: bool = True,
        class_weight: Any = None,
        cv: int | str = 5,
        random_state: Any = 0,
    ):
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> StreamingRidgeClassifier:
        """Fit to features X of shape (n, D) and labels y of shape (n,); Dask arrays out of core."""
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=False)
        targets = class_targets(y, sample_weight, self.class_weight)
        self.classes_ = np.asarray(targets.classes)
        self._fit(X, y, sample_weight, targets)
        return self


def solve_bytes(fold: GramFold) -> int:
    """Memory of the final solve: the sums as they arrive, and a D x D matrix with its copy."""
    return 2 * fold.nbytes + 16 * fold.n_features**2


def check_alphas(alphas: Any) -> list[float]:
    """A number or a sequence of them as a list; raises InputError for anything else or negatives."""
    listed = list(alphas) if np.iterable(alphas) else [alphas]
    values = [float(a) if isinstance(a, numbers.Real) else np.nan for a in listed]
    if not values or not all(np.isfinite(a) and a >= 0 for a in values):
        raise InputError(f"alphas must be one or more finite numbers >= 0, got {alphas!r}")
    return values


def check_folds(cv: int | str, n: int) -> int | str:
    """`cv` if it is "holdout" or a number of folds in 2 ... n."""
    if cv == "holdout" and n >= 5:
        return cv
    if not isinstance(cv, numbers.Integral) or not 2 <= cv <= n:
        raise InputError(
            f"cv is 'holdout' or a number of folds between 2 and n_samples = {n}, got {cv!r}; give one alpha"
        )
    return int(cv)


def validate_fit(
    estimator: LinearModel, X: Any, y: Any, sample_weight: Any, *, numeric: bool
) -> tuple[Any, Any, Any]:
    """Checked (X, y, sample_weight) for fitting; Dask arrays stay lazy and come out aligned."""
    if y is None:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    if is_dask_collection(X):
        X = validate_rows(estimator, X, reset=True)
        y = align_rows(X, as_columns(y), "y")
        if sample_weight is not None:
            sample_weight = align_rows(X, sample_weight, "sample_weight")
        return X, y, sample_weight
    if is_dask_collection(y) or is_dask_collection(sample_weight):
        raise InputError("X is in memory, but y or sample_weight is a Dask array; compute() it first")
    X, y = validate_data(
        estimator, X, y, accept_sparse="csr", dtype="numeric", multi_output=True, y_numeric=numeric
    )
    X = X.astype(working_dtype(X.dtype), copy=False)
    if not numeric:
        from sklearn.utils.multiclass import check_classification_targets
        from sklearn.utils.validation import column_or_1d

        y = as_columns(column_or_1d(y, warn=True))
        check_classification_targets(y)
    if sample_weight is not None:
        sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    return X, y, sample_weight
