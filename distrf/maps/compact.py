"""Compact random features (Hamid et al. 2014): many cheap features, brought down by an SRHT.

u(x) has E = up x D features of a base map, padded with zeros to p = 2^ceil(log2 E); then

    z(x) = D^(-1/2) (H S u(x))_R,    H = H_p of entries +-1, S random signs, R a set of D distinct rows of H.

Each row of H is in R with probability D / p, so E z(x).z(y) = u(x).u(y) given u. For one row, the entries of
S u are independent signs times numbers, and all p rows together are an isometry, so exactly, given u = u(x)
and v = u(y),

    Var z(x).z(y) = (1 / D) ((p - D) / (p - 1)) [ |u|^2 |v|^2 + (u.v)^2 - 2 sum_j u_j^2 v_j^2 ].

E [of that] adds to the variance of E base features, which is smaller than that of D. H_p = H_(p/b) (x) H_b:
tiles of b base features are transformed on their own and added up with a sign for each row in R, so no
more than b of the E features exist at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..compiled import walsh_hadamard
from ..compiled.count_sketches import add_signed_columns
from ..errors import InputError
from ..projections.cache import weight_cache
from ..randomness import sample_indices, signs
from .base import FeatureMap, OverBase, check_rows, row_tiles, verify_checksum, working_dtype

#: Base features at once, a power of two.
_TILE = 8192
#: Bytes of one tile of base features.
_TILE_BYTES = 16 * 2**20


@dataclass(frozen=True)
class CompactMap(OverBase, FeatureMap):
    """An SRHT of the features of `base`, E to D <= E; E[z(x).z(y)] is that of the base map.

    base : FeatureMap with E features
    """

    base: FeatureMap
    seed: int

    kind: ClassVar[str] = "compact"
    whole_rows: ClassVar[bool] = True

    def __post_init__(self):
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
        """Diagonal of S, entries start:stop, float64; start on a multiple of the tile."""
        blocks = [
            signs(self.seed, "compact signs", a // _TILE, min(_TILE, stop - a))
            for a in range(start, stop, _TILE)
        ]
        return np.concatenate(blocks)

    def rows(self) -> np.ndarray:
        """R, sorted, shape (D,)."""
        return weight_cache.get(
            (self.n_components, self.order, self.seed, "compact rows"),
            lambda: sample_indices(self.seed, "compact rows", self.order, self.n_components),
        )

    def fill(self, X, out):
        self._fill(X, out, self.rows())

    def columns(self, X, start, stop):
        X = check_rows(X, self.n_features_in)
        out = np.empty((X.shape[0], stop - start), dtype=working_dtype(X.dtype))
        self._fill(X, out, self.rows()[start:stop])
        return out

    def _fill(self, X, out: np.ndarray, R: np.ndarray) -> None:
        out[:] = 0
        # A base map that makes all its features anyway makes them once.
        width = self.order if self.base.whole_rows else min(self.order, _TILE)
        rows = max(1, min(512, _TILE_BYTES // (width * out.dtype.itemsize)))
        places = R % width
        for a, b in row_tiles(X.shape[0], rows):
            tile = slice(a, b)
            for first, features in self._base_tiles(X[tile], width, out.dtype):
                walsh_hadamard(features)
                odd = np.bitwise_count((R // width) & (first // width)) & 1
                factors = (1.0 - 2.0 * odd) / np.sqrt(self.n_components)
                add_signed_columns(features, places, factors.astype(out.dtype), out[tile])

    def _base_tiles(self, X, width: int, dtype: np.dtype) -> Iterator[tuple[int, np.ndarray]]:
        """S u in tiles of `width` columns, padded with zeros; each is valid until the next."""
        E = self.base.n_components
        buffer = np.empty((X.shape[0], width), dtype=dtype)
        for first in range(0, E, width):
            last = min(first + width, E)
            S = weight_cache.get(
                (self.seed, first, last, dtype.str, "compact signs"),
                lambda a=first, b=last: self.input_signs(a, b).astype(dtype),  # type: ignore[misc]
            )
            u: Any = self.base(X) if last - first == E else self.base.columns(X, first, last)
            np.multiply(u.toarray() if sp.issparse(u) else u, S, out=buffer[:, : last - first])
            buffer[:, last - first :] = 0
            yield first, buffer

    def exact_kernel(self, X, Y=None):
        return self.base.exact_kernel(X, Y)

    def reduction_variance(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Exact variance of z(x).z(y) given base features, rows of U and V of shape (n, E); shape (n,)."""
        p, D = self.order, self.n_components
        products = (U * V).sum(axis=1) ** 2 - 2 * (U * U * V * V).sum(axis=1)
        norms = (U * U).sum(axis=1) * (V * V).sum(axis=1)
        return (p - D) / max(p - 1, 1) * (norms + products) / D

    def work(self):
        operations, parameters = self.base.work()
        transform = self.order * (np.log2(max(self.order, 2)) + 1.0)
        return operations + transform + 4.0 * self.n_components, parameters + 4.0 * self.order

    def checksum(self) -> float:
        return _checksum(self.n_components, self.order, self.seed)

    def spec(self) -> dict[str, Any]:
        return {
            "map": self.kind,
            "base": self.base.spec(),
            "n_features_in": self.n_features_in,
            "n_components": self.n_components,
            "seed": self.seed,
            "checksum": self.checksum(),
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> CompactMap:
        from . import map_from_spec  # the registry knows this class, and this class any other

        map_ = cls(
            n_features_in=int(spec["n_features_in"]),
            n_components=int(spec["n_components"]),
            base=map_from_spec(spec["base"], arrays),
            seed=int(spec["seed"]),
        )
        verify_checksum(map_.checksum(), spec["checksum"])
        return map_


@lru_cache(maxsize=64)
def _checksum(D: int, order: int, seed: int) -> float:
    """The rows in R, and the first signs with weights that tell them apart."""
    first = signs(seed, "compact signs", 0, min(order, 64))
    return float(sample_indices(seed, "compact rows", order, D).sum() + first @ np.arange(1, len(first) + 1))
