"""Compact nonlinear maps: a transformer, for a kernel without labels or a loss with them, and linear models learned together with the map."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from dask.base import is_dask_collection
from sklearn.utils import Tags
from sklearn.utils.validation import _num_samples

from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import check_dask_rows
from ..folds import given_folds
from ..linear_model.base import LinearClassifier, LinearRegressor
from ..linear_model.validation import validate_fit
from ..losses import LOSSES, loss_rule
from ..maps.estimator import FeatureEstimator
from ..maps.fourier import kernel_trial
from ..maps.learned import LearnedFourierMap
from ..parameters import CLASS_WEIGHT, check_parameters, estimator, name_in, number, one_of, param
from ..targets import class_targets, regression_targets
from ..typing import ArrayLike, ClassWeight
from .base import CompactModel, MapLearner
from .start import planned_learning

#: The most features that `make_model` takes: accuracy hardly grows with more learned ones.
_MOST_COMPONENTS = 256


@estimator
class CompactNonlinearMap(MapLearner, FeatureEstimator):
    """Fourier features whose frequencies are learned, from a kernel or from labels.

    z(x) = sqrt(2/D) cos(Theta x + b). Theta and b are learned by stochastic gradients in batches.

    Parameters
    ----------
    objective : str, default="kernel"
        "kernel" needs no labels: it minimises the mean squared error of the kernel on pairs of sampled rows
        (Section 5). Or a loss of CompactNonlinearClassifier or CompactNonlinearRegressor, with labels or
        targets y; "squared" is regression.
    class_weight : {"balanced"}, dict or None, default=None
        Factor on the weight of the rows of each class: "balanced" is n / (classes * count), a dict is
        {label: factor}.
    epsilon : float or {"auto"}, default="auto"
        Width of the Huber and of the epsilon-insensitive loss, in units of the targets. "auto" is a robust
        standard deviation of the targets for the first, a tenth of it for the second.

    Attributes
    ----------
    map_ : LearnedFourierMap
        The learned map, with the arrays `frequencies` and, for offset phases, `offsets`.

    Notes
    -----
    The kernel objective reads a seeded sample of at most 16,384 rows, once, and learns from it where `fit` is
    called. Its loss is the mean of (k(x, y) - z(x).z(y))^2 over pairs of different rows of a batch, and
    theta_l2="auto" is 0. It does not read the parameters of a loss: `alpha`, `alternate`,
    `early_stopping`, `validation_fraction`, `n_iter_no_change`, `class_weight`, `epsilon` and `fit_intercept`.

    References
    ----------
    .. [1] F. X. Yu, S. Kumar, H. Rowley and S.-F. Chang, "Compact Nonlinear Maps and Circulant Extensions",
           2015, arXiv:1503.03893.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import CompactNonlinearMap
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> CompactNonlinearMap(16, n_epochs=20, random_state=7).fit_transform(X).shape
    (500, 16)
    """

    #: Subfolder of the checkpoint of a training for the state of training. TEFM uses the same name.
    checkpoint_folder: ClassVar[str] = "subspace"

    objective: str = param(default="kernel", rule=one_of("kernel") | name_in(LOSSES), kw_only=False)
    class_weight: ClassWeight = param(default=None, rule=CLASS_WEIGHT)
    epsilon: float | str = param(default="auto", rule=number(0) | one_of("auto"))

    def trial_map(self, D: int, seed: int) -> FeatureEstimator:
        return kernel_trial(self, D, seed) or super().trial_map(D, seed)

    def take_size(self, D: int) -> None:
        self.set_params(n_components=min(D, _MOST_COMPONENTS))

    def target_parameters(self, labels: bool) -> dict[str, Any]:
        return {"objective": "multinomial" if labels else "squared"}

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        folds: ArrayLike | None = None,
    ) -> CompactNonlinearMap:
        """Learn the map from rows, and from targets where the objective is a loss.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : array or Dask array of shape (n,), default=None
            Labels or targets of a loss. The kernel objective does not read them.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.
        folds : array or Dask array of shape (n,) of int, default=None
            Fold of each row, from 0 on; -1 for rows that are never held out (as scikit-learn's PredefinedSplit). With
            `early_stopping` the rows of fold 0 are held out, whatever `validation_fraction` is. None draws rows of every
            block.

        Returns
        -------
        CompactNonlinearMap
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, X holds NaN or infinity, or a loss has no y.
        SpecMismatchError
            The checkpoint belongs to another fit.
        """
        check_parameters(self)
        kernel = self.objective == "kernel"
        numeric = kernel or LOSSES[self.objective].serves("regression")
        X = check_dask_rows(X) if is_dask_collection(X) else X
        y = np.zeros(_num_samples(X)) if kernel else y
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=numeric)  # type: ignore[arg-type]
        given = given_folds(X, folds)
        if kernel:
            self._learn_kernel(X, sample_weight)
            return self
        if numeric:
            targets = regression_targets(y, sample_weight)
        else:
            targets = class_targets(y, sample_weight, self.class_weight)
        self._learn(X, y, sample_weight, targets, self.objective, given)
        return self

    def _planned_map(self, d: int) -> LearnedFourierMap:
        self._check_together()
        return self._map(d)

    def planned_costs(self, rows: PlannedRows, planned: Any) -> Costs:
        return planned_learning(self, rows)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.objective != "kernel"
        return tags


@estimator
class CompactNonlinearClassifier(LinearClassifier, CompactModel):
    """Classification on Fourier features whose frequencies are learned with the linear model.

    Minimises over Theta, b, w and c

        (1 / W) sum_i w_i loss(w.z(x_i) + c, y_i) + (alpha/2) |w|^2 + (theta_l2/2) |Theta|^2,

    z(x) = sqrt(2/D) cos(Theta x + b), by stochastic gradients in batches. Any number of workers gives the same
    bits.

    Parameters
    ----------
    loss : str, default="multinomial"
        "multinomial" (softmax over all classes), "hinge", "squared_hinge", "logistic" or "squared" (on
        targets -1 and 1). All but the first are one against the rest, on shared features.
    class_weight : {"balanced"}, dict or None, default=None
        Factor on the weight of the rows of each class: "balanced" is n / (classes * count), a dict is
        {label: factor}.

    Attributes
    ----------
    classes_ : array of shape (c,)
        The labels, sorted.
    coef_ : array of shape (c, D) or (1, D)
        Weights; one row for two classes.
    intercept_ : array of shape (c,) or (1,)
        Intercepts.

    References
    ----------
    .. [1] F. X. Yu, S. Kumar, H. Rowley and S.-F. Chang, "Compact Nonlinear Maps and Circulant Extensions",
           2015, arXiv:1503.03893.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import CompactNonlinearClassifier
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = X[:, 0] ** 2 + X[:, 1] ** 2 > 1
    >>> CompactNonlinearClassifier(4, n_epochs=50, random_state=7).fit(X, y).score(X, y) > 0.9
    True
    """

    loss: str = param(default="multinomial", rule=loss_rule("classification"), kw_only=False)
    class_weight: ClassWeight = param(default=None, rule=CLASS_WEIGHT)


@estimator
class CompactNonlinearRegressor(LinearRegressor, CompactModel):
    """Regression on Fourier features whose frequencies are learned with the linear model.

    The objective is that of CompactNonlinearClassifier, with a loss of regression.

    Parameters
    ----------
    loss : {"squared", "huber", "epsilon_insensitive"}, default="squared"
        Loss of a row. "squared" is residual^2 / 2.
    epsilon : float or {"auto"}, default="auto"
        Width of the Huber and of the epsilon-insensitive loss, in units of the targets. "auto" is a robust
        standard deviation of the targets for the first, a tenth of it for the second.

    Attributes
    ----------
    coef_ : array of shape (D,) or (C, D)
        Weights.
    intercept_ : float or array of shape (C,)
        Intercept.

    References
    ----------
    .. [1] F. X. Yu, S. Kumar, H. Rowley and S.-F. Chang, "Compact Nonlinear Maps and Circulant Extensions",
           2015, arXiv:1503.03893.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import CompactNonlinearRegressor
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = np.sin(X[:, 0] + X[:, 1])
    >>> CompactNonlinearRegressor(4, n_epochs=50, random_state=7).fit(X, y).score(X, y) > 0.9
    True
    """

    loss: str = param(default="squared", rule=loss_rule("regression"), kw_only=False)
    epsilon: float | str = param(default="auto", rule=number(0) | one_of("auto"))
