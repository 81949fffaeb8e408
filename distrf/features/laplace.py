"""Random Laplace features as a scikit-learn transformer."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from dask.base import is_dask_collection

from ..errors import InputError
from ..execution.sampling import sampled_rows, take_rows
from ..kernels.base import get_kernel
from ..kernels.semigroup import SEMIGROUP_KERNELS, SemigroupKernel, refuse_negative
from ..maps.laplace import LAPLACE_PROJECTIONS, LaplaceMap
from ..parameters import JOBS, SEED, Rule, estimator, instance, learned, name_in, number, one_of, param, whole
from ..projections import choose_projection
from ..randomness import permutation
from ..typing import ArrayLike, RandomState
from .base import FeatureEstimator
from .length_scale import refuse_not_finite

_SAMPLE = 1000
SEMIGROUP_PARAMETER = number(above=0) | one_of("median")


@estimator
class RandomLaplaceFeatures(FeatureEstimator):
    """Random Laplace features of a semigroup kernel on nonnegative data.

    For histograms, counts, probabilities and grey values. z(x) = exp(-W x) / sqrt(D), with W from a seed. The
    alternating circulant projections take O(D log d) operations a row.

    Parameters
    ----------
    kernel : str or SemigroupKernel, default="exponential_semigroup"
        "exponential_semigroup" is exp(-beta sum_j sqrt(x_j + y_j)), "reciprocal_semigroup" is prod_j lam /
        (x_j + y_j + lam). Or an object of `distrf.kernels.semigroup`.
    beta : float or {"median"}, default="median"
        Rate of the exponential semigroup kernel. "median" is 1 over the median, over sampled pairs, of
        sum_j sqrt(x_j + y_j): the median pair has k = 1/e.
    lam : float or {"median"}, default="median"
        Parameter of the reciprocal semigroup kernel. "median" solves sum_j log(1 + (x_j + y_j) / lam) = 1
        for the median sampled pair, which has k = 1/e.
    n_components : int, default=1024
        D, the number of features.
    projection : str, default="auto"
        "dense", "alternating_circulant", "quasi", or "circulant" (without signs; its variance is large, it is there
        for comparison). "auto" is "quasi", or "dense" for no more features than columns and above 21,200 columns.
    n_mixed : {2, "log2"}, default=2
        How many circulant matrices "alternating_circulant" mixes. "log2" takes log2 d of them: less
        variance for log2 d forward FFTs a row.
    n_jobs : int or None, default=-1
        Threads for NumPy and CSR input: -1 takes all cores, None takes one. Dask decides for Dask arrays.
    random_state : int, Generator, RandomState or None, default=None
        Seed of all draws. None draws one seed and keeps it in the map.

    Attributes
    ----------
    map_ : LaplaceMap
        The frozen map. It pickles to a few hundred bytes.
    kernel_ : SemigroupKernel
        The kernel with its parameter.
    n_features_in_ : int
        Number of input columns, d.

    References
    ----------
    .. [1] J. Yang, V. Sindhwani, Q. Fan, H. Avron and M. Mahoney, "Random Laplace Feature Maps for Semigroup
           Kernels on Histograms", CVPR 2014.
    .. [2] Y. Mukuta, Y. Ushiku and T. Harada, "Alternating Circulant Random Features for Semigroup Kernels",
           AAAI 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import RandomLaplaceFeatures
    >>> X = np.random.default_rng(0).dirichlet(np.ones(20), size=100)
    >>> RandomLaplaceFeatures(n_components=256, random_state=7).fit_transform(X).shape
    (100, 256)
    """

    map_: LaplaceMap = learned()

    kernel: str | SemigroupKernel = param(
        default="exponential_semigroup",
        rule=name_in(SEMIGROUP_KERNELS)
        | instance(SemigroupKernel, "a distrf.kernels.semigroup.SemigroupKernel"),
        kw_only=False,
    )
    beta: float | str = param(default="median", rule=SEMIGROUP_PARAMETER)
    lam: float | str = param(default="median", rule=SEMIGROUP_PARAMETER)
    n_components: int = param(default=1024, rule=whole())
    projection: str = param(
        default="auto",
        rule=Rule(
            (f"one that keeps weights nonnegative (auto, {', '.join(LAPLACE_PROJECTIONS)})",),
            one_of("auto", *LAPLACE_PROJECTIONS).allows,
        ),
    )
    n_mixed: int | str = param(default=2, rule=one_of(2, "log2"))
    n_jobs: int | None = param(default=-1, rule=JOBS)
    random_state: RandomState = param(default=None, rule=SEED)

    def _make_map(self, d: int, seed: int, X: Any = None) -> LaplaceMap:
        if X is not None and not is_dask_collection(X):
            refuse_negative(X, "row {row}")
        kernel = resolve_semigroup_kernel(self.kernel, self.beta, self.lam, X, seed)
        if X is not None:
            self.kernel_ = kernel
        mixed = self.projection == "alternating_circulant" and self.n_mixed == "log2"
        name, D = f"{self.projection}-log2" if mixed else self.projection, int(self.n_components)
        return LaplaceMap(d, D, kernel, choose_projection(name, kernel, d, D), seed)


def resolve_semigroup_kernel(
    kernel: str | SemigroupKernel, beta: float | str, lam: float | str, X: ArrayLike | None, seed: int
) -> SemigroupKernel:
    """The kernel, with its parameter set by the rule on sampled rows of X if it is not a number.

    None in place of rows is a plan: the default of the class stands for what the rule would give. Raises InputError for unknown
    kernels and rules, negative entries in the sampled rows, and rows of zeros.
    """
    if isinstance(kernel, SemigroupKernel):
        return kernel
    chosen = get_kernel(kernel, SemigroupKernel)
    name = chosen.parameter
    value = {"beta": beta, "lam": lam}.get(name, getattr(chosen, name))
    if isinstance(value, numbers.Real):
        return get_kernel(kernel, SemigroupKernel, **{name: float(value)})
    if value != "median":
        raise InputError(f"{name} must be a positive number or 'median', got {value!r}")
    if X is None:
        return chosen
    picked = sampled_rows(X.shape[0], _SAMPLE, seed, "semigroup")
    rows = take_rows(X, picked).astype(np.float64)
    refuse_not_finite(rows)
    refuse_negative(rows, "sampled row {row}")
    partners = rows[permutation(seed, "semigroup pairs", 0, len(rows))]
    return chosen.with_median(rows + partners)
