"""TensorSketch (Pham & Pagh 2013): random features of the polynomial kernel by convolution of count sketches.

Let t(x) = (sqrt(gamma) x, sqrt(coef0)), so that t(x).t(y) = gamma x.y + coef0, and p = degree. For k = 1 ... p,
a hash h_k sends each column to a place in range(D), and s_k gives it a sign. The p hashes and signs are
independent. Then

    C_k(x)_b = sum_{j: h_k(j) = b} s_k(j) t(x)_j,    z(x) = FFT^-1( FFT C_1(x) * ... * FFT C_p(x) ).

C_k is a count sketch of t(x). Their convolution z is a count sketch of the p-fold tensor power of t(x): its
hash is the sum of the h_k modulo D, its sign the product of the s_k. So E z(x).z(y) = (gamma x.y + coef0)^p,
exactly.

The variance is exact for fully random hashes. Let X = |t(x)|^2, Y = |t(y)|^2, s = t(x).t(y) and
q = sum_j t(x)_j^2 t(y)_j^2. The square of the estimate is a sum over tuples of four indices, two of each estimate. In
each of the p modes the signs leave only tuples whose indices pair: within each estimate (worth s^2), or between
the two estimates, straight (X Y - q, where the two indices differ) or crosswise (s^2 - q). Straight modes shift
the hash differences of both estimates alike, crossed modes against each other. Both differences are 0 modulo D
with probability 1 / D where modes of one kind only occur, and c / D^2 where both do, with c = 2 for even D and
1 for odd:

    Var = (1 / D) [(s^2 + X Y - q)^p + (2 s^2 - q)^p - 2 s^2p]
        + (c / D^2) [(2 s^2 + X Y - 2 q)^p - (s^2 + X Y - q)^p - (2 s^2 - q)^p + s^2p].

A row of d columns costs O(p (d + D log D)); of a CSR row the stored entries count in place of d.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.fft

from ..errors import InputError
from ..kernels.dot_product import Polynomial
from ..parameters import estimator, instance, learned, number, param, whole
from ..projections.base import weight_cache
from ..randomness import raw_words
from ..typing import Rows
from .base import SeededMap, all_finite, row_tiles, stored_entries
from .estimator import DrawnFeatures
from .rules import DOT_GAMMA, resolve_gamma

#: Bytes of the sketches of one tile of rows: so few that the FFT finds them in the cache.
_TILE_BYTES = 2**20


@dataclass(frozen=True)
class TensorSketchMap(SeededMap):
    """Features z(x) with E[z(x) . z(y)] = (gamma x.y + coef0)^degree.

    Parameters
    ----------
    n_features_in : d
    n_components : D, below 2^31
    kernel : Polynomial
    seed : seed of hashes and signs

    References
    ----------
    Pham & Pagh, "Fast and scalable polynomial kernels via explicit feature maps", KDD 2013.
    """

    kernel: Polynomial = field(metadata={"rule": instance(Polynomial, "a polynomial kernel")})
    seed: int

    kind: ClassVar[str] = "tensor-sketch"
    whole_rows: ClassVar[bool] = True

    def hashes(self) -> tuple[np.ndarray, np.ndarray]:
        """The hash h_k(j) and the sign s_k(j) of each column j; column d is the constant sqrt(coef0).

        Returns
        -------
        places : array of shape (degree, d + 1), int32, in 0 ... D - 1
        signs : array of shape (degree, d + 1), float64, -1 or 1
        """
        count = self.n_features_in + 1
        words = np.stack([raw_words(self.seed, "tensor-sketch", k, count) for k in range(self.kernel.degree)])
        # The upper half of a word is the hash, its lowest bit the sign.
        places = ((words >> np.uint64(32)) * np.uint64(self.n_components)) >> np.uint64(32)
        return places.astype(np.int32), 1.0 - 2.0 * (words & np.uint64(1))

    def _weights(self, dtype: np.dtype) -> np.ndarray:
        """The signs times sqrt(gamma) or sqrt(coef0), shape (degree, d + 1)."""
        weights = self.hashes()[1] * np.sqrt(self.kernel.gamma)
        weights[:, -1] *= np.sqrt(self.kernel.coef0 / self.kernel.gamma)
        return weights.astype(dtype)

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        from ..compiled.count_sketches import count_sketch  # late, with Numba

        p, D, dtype = self.kernel.degree, self.n_components, out.dtype
        places = weight_cache.get((self, "places"), lambda: self.hashes()[0])
        weights = weight_cache.get((self, "weights", dtype.str), lambda: self._weights(dtype))
        values, indices, indptr = stored_entries(X, dtype)
        tile = max(1, min(256, _TILE_BYTES // (p * D * dtype.itemsize)))
        buffer = np.empty((tile, p, D), dtype=dtype)
        for a, b in row_tiles(X.shape[0], tile):
            sketch = buffer[: b - a]
            count_sketch(values, indices, indptr[a : b + 1], places, weights, sketch)
            features = sketch[:, 0]
            if p > 1:
                with np.errstate(over="ignore", invalid="ignore"):  # refused below
                    features = scipy.fft.irfft(scipy.fft.rfft(sketch).prod(axis=1), D, overwrite_x=True)
            out[a:b] = features[:, start:stop]
        # Finite rows can have features that are not: entries are multiplied many times.
        if not all_finite(out) and not np.isfinite(out).all():
            raise InputError(
                f"features overflow {dtype}: powers of the entries of a row leave its range; choose a smaller gamma "
                "(gamma='norm' makes gamma x.x 1 on average) or degree, scale the rows, or pass float64 rows"
            )

    def work(self) -> tuple[float, float]:
        p, D, d = self.kernel.degree, self.n_components, self.n_features_in
        transforms = (p + 1) * 2.5 * D * np.log2(max(D, 2)) if p > 1 else 0.0
        # An operation of these long transforms takes the time of five in a matrix product (measured).
        return 4.0 * p * d + 5.0 * transforms, 8.0 * p * (d + 1)

    def scratch_bytes(self, itemsize: int) -> int:
        # While hashes are made: places and signs, and the words of one factor with two copies. Much for hashed text.
        return (12 * self.kernel.degree + 24) * (self.n_features_in + 1)

    def _sum_of_weights(self) -> float:
        """Sum of the hashes, each plus 1 and times its sign, of the first 64 columns and of the last 64."""
        places, signs = self.hashes()
        signed = (places.astype(np.int64) + 1) * signs.astype(np.int64)
        return float(signed[:, :64].sum() + signed[:, -64:].sum())


@estimator
class TensorSketchFeatures(DrawnFeatures):
    """Random features of the polynomial kernel (gamma x.y + coef0)^degree by TensorSketch.

    A row takes O(d + D log D) operations, a CSR row O(nonzeros + D log D). The fitted map is a seed.

    Parameters
    ----------
    degree : int, default=2
        Power, at least 1.
    gamma : float or {"norm"}, default="norm"
        Factor on x.y. "norm" is 1 / mean |x|^2 over at most 1,000 sampled rows, so that gamma x.x is 1 on
        average.
    coef0 : float, default=1.0
        Weight of the lower powers against the highest. 0 leaves the highest alone.
    n_components : int, default=1024
        D, the number of features. Products of small primes are fastest, since D is the length of an FFT.

    Attributes
    ----------
    map_ : TensorSketchMap
        The frozen map.
    gamma_ : float
        The gamma in use.
    n_features_in_ : int
        Number of input columns, d.

    References
    ----------
    .. [1] N. Pham and R. Pagh, "Fast and Scalable Polynomial Kernels via Explicit Feature Maps", KDD 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import TensorSketchFeatures
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> TensorSketchFeatures(degree=3, n_components=256, random_state=7).fit_transform(X).shape
    (100, 256)
    """

    map_: TensorSketchMap = learned()

    degree: int = param(default=2, rule=whole(), kw_only=False)
    gamma: float | str = param(default="norm", rule=DOT_GAMMA)
    coef0: float = param(default=1.0, rule=number(0))
    n_components: int = param(default=1024, rule=whole())

    def _make_map(self, d: int, seed: int, X: Any = None) -> TensorSketchMap:
        gamma = resolve_gamma(self.gamma, X, seed)
        if X is not None:
            self.gamma_ = gamma
        kernel = Polynomial(self.degree, gamma, self.coef0)
        return TensorSketchMap(d, int(self.n_components), kernel, seed)
