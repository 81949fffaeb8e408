"""Compact random features (Hamid et al. 2014): many cheap features, reduced by a subsampled Walsh-Hadamard transform.

The base map gives E = up x D features u(x), which are padded with zeros to p = 2^ceil(log2 E). Then

    z(x) = D^(-1/2) (H S u(x))_R,

where H = H_p has entries +-1, S is a diagonal of random signs and R a random set of D rows of H, all distinct.
Such a transform is called an SRHT. Each row of H is in R with probability D / p, so E z(x).z(y) = u(x).u(y)
given u.

In one row of H, the products of signs and numbers are independent; all p rows together preserve products. So
exactly, given u = u(x) and v = u(y),

    Var z(x).z(y) = (1 / D) ((p - D) / (p - 1)) [ |u|^2 |v|^2 + (u.v)^2 - 2 sum_j u_j^2 v_j^2 ].

The mean of that over base maps is added to the variance of E base features, which is smaller than that of D.

H_p = H_(p/b) (x) H_b: column blocks of b base features are transformed one by one, and added up with a sign for
each row in R. So no more than b of the E base features exist at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..compiled import walsh_hadamard
from ..compiled.count_sketches import add_signed_columns
from ..errors import InputError
from ..projections.base import HADAMARD_COST
from ..projections.cache import weight_cache
from ..randomness import sample_indices, signs
from ..typing import Rows
from .base import OverBase, SeededMap, dense, row_tiles

#: Base features in one column block, a power of two. Another number would make other signs.
_TILE = 8192
#: Bytes of base features made at once: one column block for one tile of rows.
_TILE_BYTES = 16 * 2**20


@dataclass(frozen=True)
class CompactMap(OverBase, SeededMap):
    """An SRHT that takes the E features of a base map to D <= E; E[z(x).z(y)] is that of the base map.

    Parameters
    ----------
    n_features_in : d, that of the base map
    n_components : D
    base : FeatureMap with E features
    seed : seed of signs and rows

    References
    ----------
    Hamid et al., "Compact random feature maps", ICML 2014.
    """

    seed: int

    kind: ClassVar[str] = "compact"
    spec_fields: ClassVar[tuple[str, ...]] = ("base", "n_features_in", "n_components", "seed")
    whole_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.n_features_in != self.base.n_features_in:
            raise InputError(
                f"a compact map has the columns of its base map, got {self.n_features_in} and "
                f"{self.base.n_features_in}"
            )
        if not 1 <= self.n_components <= self.base.n_components:
            raise InputError(
                "a compact map goes down, from E base features to D: it needs 1 <= D <= E, got "
                f"D = {self.n_components}, E = {self.base.n_components}; ask for a larger up_factor"
            )

    @property
    def order(self) -> int:
        """p, the order of the Hadamard matrix."""
        return 1 << (self.base.n_components - 1).bit_length()

    def input_signs(self, start: int, stop: int) -> np.ndarray:
        """Entries start:stop of the diagonal of S, float64.

        `start` is a multiple of the width of a column block.
        """
        blocks = [
            signs(self.seed, "compact signs", a // _TILE, min(_TILE, stop - a))
            for a in range(start, stop, _TILE)
        ]
        return np.concatenate(blocks)

    def rows(self) -> np.ndarray:
        """R in ascending order, shape (D,)."""
        return weight_cache.get(
            (self.n_components, self.order, self.seed, "compact rows"),
            lambda: sample_indices(self.seed, "compact rows", self.order, self.n_components),
        )

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        out[:] = 0
        R = self.rows()[start:stop]
        # A base map that cannot make some of its features without the others makes all of them at once.
        width = self.order if self.base.whole_rows else min(self.order, _TILE)
        rows = max(1, min(512, _TILE_BYTES // (width * out.dtype.itemsize)))
        places = R % width
        for a, b in row_tiles(X.shape[0], rows):
            tile = slice(a, b)
            for first, features in self._column_blocks(X[tile], width, out.dtype):
                walsh_hadamard(features)
                odd = np.bitwise_count((R // width) & (first // width)) & 1
                factors = (1.0 - 2.0 * odd) / np.sqrt(self.n_components)
                add_signed_columns(features, places, factors.astype(out.dtype), out[tile])

    def _column_blocks(self, X: Rows, width: int, dtype: np.dtype) -> Iterator[tuple[int, np.ndarray]]:
        """S u in column blocks of `width` base features, the last padded with zeros.

        Yields
        ------
        first : int, the first base feature of the block
        column_block : array of shape (n, width), valid until the next is asked for; the caller may overwrite it
        """
        E = self.base.n_components
        buffer = np.empty((X.shape[0], width), dtype=dtype)
        for first in range(0, E, width):
            last = min(first + width, E)
            S = weight_cache.get(
                (self.seed, first, last, dtype.str, "compact signs"),
                lambda a=first, b=last: self.input_signs(a, b).astype(dtype),  # type: ignore[misc]
            )
            u = self.base(X) if last - first == E else self.base.columns(X, first, last)
            np.multiply(dense(u), S, out=buffer[:, : last - first])
            buffer[:, last - first :] = 0
            yield first, buffer

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        return self.base.exact_kernel(X, Y)

    def reduction_variance(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Exact variance over seeds of z(x).z(y) for given base features, by the formula at the head of this file.

        Parameters
        ----------
        U, V : arrays of shape (n, E), the base features of one pair of rows x, y for each i

        Returns
        -------
        Array of shape (n,).
        """
        p, D = self.order, self.n_components
        products = (U * V).sum(axis=1) ** 2 - 2 * (U * U * V * V).sum(axis=1)
        norms = (U * U).sum(axis=1) * (V * V).sum(axis=1)
        return (p - D) / max(p - 1, 1) * (norms + products) / D

    def work(self) -> tuple[float, float]:
        operations, parameters = self.base.work()
        transform = HADAMARD_COST * self.order * (np.log2(max(self.order, 2)) + 1.0)
        return operations + transform + 4.0 * self.n_components, parameters + 4.0 * self.order

    def _sum_of_weights(self) -> float:
        """Sum of R, and of the first 64 signs with weights that differ."""
        first = signs(self.seed, "compact signs", 0, min(self.order, 64))
        return float(self.rows().sum() + first @ np.arange(1, len(first) + 1))

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> CompactMap:
        from . import map_from_spec  # the registry imports this file

        return cls(base=map_from_spec(spec["base"], arrays), **cls._plain_fields(spec))
