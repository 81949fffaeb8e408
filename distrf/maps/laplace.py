"""Random Laplace features of semigroup kernels (Yang et al. 2014; Mukuta et al. 2018)."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..errors import RowError
from ..kernels.base import get_kernel
from ..kernels.semigroup import SEMIGROUP_KERNELS, SemigroupKernel, refuse_negative
from ..parameters import estimator, instance, learned, name_in, number, one_of, param, whole
from ..projections import Projection, choose_projection, make_projection
from ..randomness import permutation
from ..typing import ArrayLike, Rows
from .base import SeededMap, for_product, row_tiles
from .estimator import DrawnFeatures, in_memory
from .rules import sample_of

#: The projections whose weights are nonnegative where the law is: the circulant ones then draw no signs.
LAPLACE_PROJECTIONS = ("dense", "circulant", "alternating_circulant", "alternating_circulant-log2", "quasi")
_KERNEL = instance(SemigroupKernel, "a distrf.kernels.semigroup.SemigroupKernel")


@dataclass(frozen=True)
class LaplaceMap(SeededMap):
    """Features z(x) = exp(-W x) / sqrt(D) of rows x >= 0, the rows of W drawn from the law of a semigroup kernel.

    E[z(x) . z(y)] = E[exp(-w . (x + y))] = k(x, y) (Mukuta et al. 2018, Eq. 1). W x is computed in float64 for
    rows of every dtype, because Levy weights span more decades than float32 has digits; the features are cast
    last. Circulant products round by eps times the largest weight times the largest entry: features are then
    1e-13 off, 5e-8 at worst (histograms, counts, one-hot rows, entries of 1e-12 to 1e15; D^-1/2 is 1). Rounding may
    leave entries of W x just below 0, where there are none in exact arithmetic: these are taken for 0.

    Parameters
    ----------
    n_features_in : d
    n_components : D
    kernel : SemigroupKernel
    projection : str, one of `LAPLACE_PROJECTIONS`
    seed : seed of all draws

    References
    ----------
    Yang et al., "Random Laplace feature maps for semigroup kernels on histograms", CVPR 2014.
    Mukuta, Ushiku & Harada, "Alternating circulant random features for semigroup kernels", AAAI 2018.
    """

    kernel: SemigroupKernel = field(metadata={"rule": _KERNEL})
    projection: str = field(metadata={"rule": one_of(*LAPLACE_PROJECTIONS)})
    seed: int

    kind: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.projector  # noqa: B018  checks the combination of kernel and projection

    @property
    def projector(self) -> Projection:
        """The projection that draws W, up to the factor `kernel.weight_scale`."""
        return make_projection(self.projection, self.kernel, self.n_features_in, self.n_components, self.seed)

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows start:stop of W, shape (stop - start, d), float64."""
        return self.projector.weights(start, stop) * self.kernel.weight_scale

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        refuse_negative(X)
        if start == stop:
            return
        amplitude = 1.0 / np.sqrt(self.n_components)
        projector, scale, dtype = self.projector, self.kernel.weight_scale, np.dtype(np.float64)
        for begin, end in projector.weight_blocks(start, stop, 8):
            for a, b in row_tiles(X.shape[0], projector.rows_per_tile):
                tile = for_product(X[a:b], dtype, projector.accepts_sparse)
                # A product beyond float64 is infinite, and its feature 0; of an FFT it is no number.
                with np.errstate(over="ignore", invalid="ignore"):
                    for first, products in projector.phases(tile, begin, end, scale, dtype):
                        if np.isnan(products.max(initial=0.0)):
                            raise RowError(
                                "row {row} of the block is too large for circulant products in float64; divide the rows by "
                                "a constant, or take projection='dense'",
                                a + int(np.isnan(products).any(axis=1).argmax()),
                            )
                        np.maximum(products, 0.0, out=products)
                        np.exp(np.negative(products, out=products), out=products)
                        out[a:b, first - start : first - start + products.shape[1]] = amplitude * products

    def work(self) -> tuple[float, float]:
        operations, parameters = self.projector.work()
        # An operation in float64 takes twice the time of one in float32, and a weight twice the bytes.
        return 2.0 * operations + 40.0 * self.n_components, 2.0 * parameters

    def _sum_of_weights(self) -> float:
        """Sum of the logarithms of the first 64 weights of the first row of W and of the last 64 of the last."""
        D = self.n_components
        head, tail = self.projector.weights(0, 1)[0, :64], self.projector.weights(D - 1, D)[0, -64:]
        return float(np.log(head).sum() + np.log(tail).sum())


SEMIGROUP_PARAMETER = number(above=0) | one_of("median")


@estimator
class RandomLaplaceFeatures(DrawnFeatures):
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
        "dense", "quasi", "alternating_circulant" (columns from two circulant matrices), "alternating_circulant-log2" (from log2 d:
        less variance for log2 d forward FFTs a row), or "circulant" (without signs; its variance is large, it is there for
        comparison). "auto" is "quasi", or "dense" for no more features than columns and above 21,200 columns.

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
        default="exponential_semigroup", rule=name_in(SEMIGROUP_KERNELS) | _KERNEL, kw_only=False
    )
    beta: float | str = param(default="median", rule=SEMIGROUP_PARAMETER)
    lam: float | str = param(default="median", rule=SEMIGROUP_PARAMETER)
    n_components: int = param(default=1024, rule=whole())
    projection: str = param(default="auto", rule=one_of("auto", *LAPLACE_PROJECTIONS))

    def _make_map(self, d: int, seed: int, X: Any = None) -> LaplaceMap:
        if in_memory(X):
            refuse_negative(X, "row {row}")
        kernel = resolve_semigroup_kernel(self.kernel, self.beta, self.lam, X, seed)
        if X is not None:
            self.kernel_ = kernel
        D = int(self.n_components)
        return LaplaceMap(d, D, kernel, choose_projection(self.projection, kernel, d, D), seed)


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
        return get_kernel(kernel, SemigroupKernel, {name: float(value)})
    if X is None:
        return chosen
    rows = sample_of(X, seed, "semigroup")
    refuse_negative(rows, "sampled row {row}")
    partners = rows[permutation(seed, "semigroup pairs", 0, len(rows))]
    return chosen.with_median(rows + partners)
