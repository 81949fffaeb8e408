"""The normal equations of a linear model, accumulated block by block.

One pass builds, for each cross-validation fold, the Gram matrix Z'Z of the features and the products
Z'Y. Only lower tiles of the Gram matrix are computed and kept: half the arithmetic, memory and traffic
of the full product. Blocks are multiplied in their own precision and summed in float64.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..blocks.gram_tiles import add_tiles, lower_tiles, tile_width, tiles_nbytes
from ..errors import InputError
from ..randomness import permutation
from .targets import Targets

#: Up to this many features the products are made in float64: cheap there, and raw columns may be large.
_FLOAT64_UP_TO = 1024
_DENSE_BYTES = 64 * 2**20


@dataclass
class GramState:
    """Sums of one fold set; the first axis of every array is the cross-validation fold.

    tiles (k, tiles, T, T) of Z'WZ; products (k, D, C) = Z'WY; sums (k, D) = Z'w; weight (k,);
    targets (k, C) = sums of wY; squares (k, C) = sums of wY^2. Float64.
    """

    tiles: np.ndarray
    products: np.ndarray
    sums: np.ndarray
    weight: np.ndarray
    targets: np.ndarray
    squares: np.ndarray


@dataclass(frozen=True)
class FoldRule:
    """Which cross-validation fold a row belongs to: seeded stripes of neighbouring global rows.

    Independent of the chunking. `n_folds` sets; with `holdout`, set 0 is one stripe in five and set 1
    the rest.
    """

    n_folds: int = 1
    stripe: int = 1
    holdout: bool = False
    seed: int = 0

    @classmethod
    def for_rows(cls, n_rows: int, cv: int | str, seed: int) -> FoldRule:
        k = 5 if cv == "holdout" else int(cv)
        return cls(2 if cv == "holdout" else k, max(1, min(n_rows // (20 * k), 1024)), cv == "holdout", seed)

    def of_rows(self, first_row: int, n_rows: int) -> np.ndarray:
        """Fold of rows first_row ... first_row + n_rows - 1, shape (n_rows,)."""
        k = 5 if self.holdout else self.n_folds
        stripes = np.arange(first_row, first_row + n_rows) // self.stripe
        groups, place = np.divmod(stripes, k)
        orders = {int(g): permutation(self.seed, "folds", int(g), k) for g in np.unique(groups)}
        fold = np.stack([orders[g] for g in sorted(orders)])[groups - groups[0], place] if n_rows else stripes
        return np.minimum(fold, 1) if self.holdout else fold


@dataclass(frozen=True)
class GramFold:
    """Pass that accumulates a GramState over blocks (Z, y) or (Z, y, sample_weight)."""

    n_features: int
    targets: Targets
    rule: FoldRule = FoldRule()

    @property
    def nbytes(self) -> int:
        per_fold = tiles_nbytes(self.n_features) + 8 * self.n_features * (self.targets.width + 1)
        return self.rule.n_folds * per_fold

    @property
    def flops_per_row(self) -> float:
        return float(self.n_features) ** 2 + 2.0 * self.n_features * (self.targets.width + 1)

    @property
    def scratch_per_row(self) -> float:
        """Bytes a row takes while it is folded in: a float64 copy, a copy of its fold, the targets."""
        copies = (8 if self.n_features <= _FLOAT64_UP_TO else 0) + (8 if self.rule.n_folds > 1 else 0)
        return float(copies * self.n_features + 16 * (self.targets.width + 1))

    @property
    def csr_scratch_bytes(self) -> int:
        """The most that CSR rows of a block take while they are folded in: dense parts and their copies."""
        return 3 * _DENSE_BYTES

    def start(self) -> GramState:
        k, D, C = self.rule.n_folds, self.n_features, self.targets.width
        T = tile_width(D)
        return GramState(
            tiles=np.zeros((k, len(lower_tiles(D)), T, T)),
            products=np.zeros((k, D, C)),
            sums=np.zeros((k, D)),
            weight=np.zeros(k),
            targets=np.zeros((k, C)),
            squares=np.zeros((k, C)),
        )

    def add(self, state: GramState, first_row: int, Z: Any, y: Any, sample_weight: Any = None) -> GramState:
        if Z.shape[1] != self.n_features:
            raise InputError(f"blocks must have {self.n_features} columns, got {Z.shape[1]}")
        step = max(1, _DENSE_BYTES // (8 * self.n_features)) if sp.issparse(Z) else max(len(y), 1)
        for a in range(0, len(y), step):
            part = slice(a, min(a + step, len(y)))
            rows = Z[part].toarray() if sp.issparse(Z) else Z[part]
            weight = None if sample_weight is None else np.asarray(sample_weight[part])
            self._add_dense(state, first_row + a, rows, np.asarray(y[part]), weight)
        return state

    def _add_dense(self, state: GramState, first_row: int, Z, y, weight) -> None:
        dtype = np.float64 if self.n_features <= _FLOAT64_UP_TO or Z.dtype != np.float32 else np.float32
        Z = np.ascontiguousarray(Z, dtype=dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = not np.isfinite(Z.sum(dtype=np.float64))
        if suspect and (bad := ~np.isfinite(Z)).any():
            row = first_row + int(np.argwhere(bad)[0, 0])
            raise InputError(f"features must be finite, but row {row} is not; impute or drop such rows")
        Y, weight = self.targets.encode(y, weight)
        if self.rule.n_folds == 1:
            self._add_fold(state, 0, Z, Y, weight)
            return
        fold = self.rule.of_rows(first_row, len(y))
        for f in np.unique(fold):
            rows = np.flatnonzero(fold == f)
            if len(rows) == len(y):
                self._add_fold(state, int(f), Z, Y, weight)
            else:
                self._add_fold(state, int(f), Z[rows], Y[rows], None if weight is None else weight[rows])

    def _add_fold(self, state: GramState, f: int, Z, Y, weight) -> None:
        n, C = Y.shape
        right = np.empty((n, C + 1), dtype=Z.dtype)
        right[:, :C] = Y
        right[:, C] = 1.0
        w = np.ones(n) if weight is None else weight
        state.weight[f] += w.sum()
        state.targets[f] += w @ Y
        state.squares[f] += w @ Y**2
        if weight is not None:  # both factors by sqrt(w), so that tiles stay symmetric
            root = np.sqrt(weight).astype(Z.dtype)[:, None]
            Z, right = Z * root, right * root
        left = Z.T @ right
        state.products[f] += left[:, :C]
        state.sums[f] += left[:, C]
        add_tiles(state.tiles[f], Z)

    def merge(self, left: GramState, right: GramState) -> GramState:
        """In place on `left`: it has no other reader, and a D = 8,192 state is hundreds of MB."""
        names = [field.name for field in fields(GramState)]
        for name in names:  # copies first: a merge that fails half way would, tried again, add twice
            if not getattr(left, name).flags.writeable:  # arrived over the wire in a read-only buffer
                setattr(left, name, getattr(left, name).copy())
        for name in names:
            into = getattr(left, name)
            into += getattr(right, name)
        return left
