"""The normal equations of a linear model, accumulated block by block.

One pass builds, for each cross-validation fold, the Gram matrix Z'Z of the features and the products
Z'Y. Only lower tiles of the Gram matrix are computed and kept: half the arithmetic, memory and traffic
of the full product. Rows are multiplied in their own precision and summed in float64.

Before rows are multiplied, a shift is subtracted from them: the column medians over some 64 rows of the first block that is
added to a state. Without it, a column whose mean is a thousand times its spread would lose all digits in float32 products.
Two states with different shifts can still be added up exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..execution.passes import SizedState
from ..folds import random_folds
from ..gram_tiles import SLICE_ROWS, add_tiles, lower_tiles, tile_width, tiles_nbytes
from ..targets import Targets

#: Up to this many features the products are made in float64: cheap there, and raw columns may be large.
_FLOAT64_UP_TO = 1024
_TILE_BYTES = 16 * 2**20
#: Rows of which the shift is the median.
_SHIFT_ROWS = 64
_SUMS = ("tiles", "products", "sums", "weight", "targets", "squares")


@dataclass
class GramState(SizedState):
    """Sums of each fold, with Z the rows minus `shift`; the first axis of all arrays but `shift` is the fold.

    tiles (k, tiles, T, T) of Z'WZ; products (k, D, C) = Z'WY; sums (k, D) = Z'w; weight (k,);
    targets (k, C) = sums of wY; squares (k, C) = sums of wY^2; shift (D,), None before the first row. Float64.
    rounding : relative rounding error of the products, eps / 2 of their precision
    """

    tiles: np.ndarray
    products: np.ndarray
    sums: np.ndarray
    weight: np.ndarray
    targets: np.ndarray
    squares: np.ndarray
    shift: np.ndarray | None = None
    rounding: float = 0.0

    @property
    def shifts(self) -> np.ndarray:
        """The shift, zeros before the first row."""
        return np.zeros(self.sums.shape[1]) if self.shift is None else self.shift

    def move(self, shift: np.ndarray) -> None:
        """Turn the sums, in place, into those of rows minus another shift.

        Exact up to float64 rounding.
        """
        d = self.shifts - shift
        if not d.any():
            return
        # Allocate all memory first: a state that was changed half way could not be used for a retry.
        scratch = np.empty((2, *self.tiles.shape[2:]))
        products = self.products + d[:, None] * self.targets[:, None, :]
        sums = self.sums + d * self.weight[:, None]
        # (Z + d)'W(Z + d) = Z'WZ + d h' + h d' with h = Z'w + d w / 2
        for f, h in enumerate((self.sums + sums) / 2):
            for tile, (rows, columns) in zip(self.tiles[f], lower_tiles(len(d)), strict=True):
                shape = (rows.stop - rows.start, columns.stop - columns.start)
                one, two = (area[: shape[0], : shape[1]] for area in scratch)
                np.multiply.outer(d[rows], h[columns], out=one)
                one += np.multiply.outer(h[rows], d[columns], out=two)
                tile[: shape[0], : shape[1]] += one
        self.products, self.sums, self.shift = products, sums, shift


@dataclass(frozen=True)
class FoldRule:
    """Into which of `n_sets` a row falls, of which the first `held` are held out, each in turn.

    The folds come with the rows (`distrf.folds.GivenFolds`), as the last array of a block, or are drawn at random from row numbers and a
    seed alone (`random_folds`). Rows that are never held out are the last set.

    drawn : how many folds are drawn; 0 for given ones
    first : added to row numbers, where the rows follow others
    """

    n_sets: int = 1
    held: int = 0
    drawn: int = 0
    seed: int = 0
    first: int = 0

    @classmethod
    def of_cv(cls, cv: int | str, seed: int) -> FoldRule:
        """So many folds, or a fifth that is held out ("holdout")."""
        return cls(2, 1, 5, seed) if cv == "holdout" else cls(int(cv), int(cv), int(cv), seed)

    @property
    def given(self) -> bool:
        """Whether folds come with the rows."""
        return self.n_sets > 1 and not self.drawn

    def of(self, rows: np.ndarray, folds: np.ndarray | None = None) -> np.ndarray:
        """The set of rows by their numbers, ascending, or by their given folds, shape (m,)."""
        if self.n_sets == 1:
            return np.zeros(len(rows), dtype=int)
        folds = random_folds(rows + self.first, self.drawn, self.seed) if folds is None else np.asarray(folds)
        return np.where((folds < 0) | (folds >= self.held), self.n_sets - 1, folds)

    def of_block(self, first_row: int, n_rows: int, more: Sequence[Any]) -> tuple[np.ndarray, Any]:
        """(sets, weights or None) of a block; `more` are its arrays after the targets."""
        *weight, folds = more if self.given else (*more, None)
        return self.of(np.arange(first_row, first_row + n_rows), folds), weight[0] if weight else None


ALL_ROWS = FoldRule()
#: Fold 0 of given folds is held out.
FIRST_GIVEN = FoldRule(2, 1)


@dataclass(frozen=True)
class GramReduction:
    """The reduction of exact ridge: its state is a GramState, its blocks are (Z, y) or (Z, y, sample_weight), then given folds.

    exact : whether float32 rows are multiplied in float64, which alpha = 0 needs
    """

    n_features: int
    targets: Targets
    rule: FoldRule = FoldRule()
    exact: bool = False

    @property
    def nbytes(self) -> int:
        D = self.n_features
        return self.rule.n_sets * (tiles_nbytes(D) + 8 * D * (self.targets.width + 1)) + 8 * D

    @property
    def flops_per_row(self) -> float:
        return float(self.n_features) ** 2 + 2.0 * self.n_features * (self.targets.width + 1)

    @property
    def _wide(self) -> bool:
        return self.exact or self.n_features <= _FLOAT64_UP_TO

    @property
    def solve_bytes(self) -> int:
        """Bytes of the final solve in the client: the state as received and as copied, and two D x D matrices."""
        return 2 * self.nbytes + 16 * self.n_features**2

    @property
    def tile_rows(self) -> int:
        """Rows that are shifted and multiplied at a time."""
        return max(SLICE_ROWS, _TILE_BYTES // (8 * self.n_features))

    @property
    def scratch_bytes(self) -> int:
        """Bytes that an update needs beside the block: rows of a fold, their shifted copy, their targets, a product."""
        row = 16 * self.n_features + 24 * (self.targets.width + 1)
        return self.tile_rows * row + 16 * tile_width(self.n_features) ** 2

    def initial(self) -> GramState:
        k, D, C = self.rule.n_sets, self.n_features, self.targets.width
        T = tile_width(D)
        return GramState(
            tiles=np.zeros((k, len(lower_tiles(D)), T, T)),
            products=np.zeros((k, D, C)),
            sums=np.zeros((k, D)),
            weight=np.zeros(k),
            targets=np.zeros((k, C)),
            squares=np.zeros((k, C)),
        )

    def update(self, state: GramState, first_row: int, Z: Any, y: Any, *more: Any) -> GramState:
        if Z.shape[1] != self.n_features:
            raise InputError(f"blocks must have {self.n_features} columns, got {Z.shape[1]}")
        if state.shift is None and len(y):
            state.shift = _middle(Z[:: -(-len(y) // _SHIFT_ROWS)])
        folds, sample_weight = self.rule.of_block(first_row, len(y), more)
        for f in np.flatnonzero(np.bincount(folds)):
            chosen = np.flatnonzero(folds == f)
            for a in range(0, len(chosen), self.tile_rows):
                rows: Any = chosen[a : a + self.tile_rows]
                if rows[-1] - rows[0] + 1 == len(rows):
                    rows = slice(rows[0], rows[-1] + 1)  # no copy
                weight = None if sample_weight is None else np.asarray(sample_weight[rows])
                self._add_tile(state, int(f), first_row, rows, Z[rows], np.asarray(y[rows]), weight)
        return state

    def _add_tile(
        self, state: GramState, f: int, first_row: int, rows: Any, Z: Any, y: np.ndarray, weight: Any
    ) -> None:
        """Add rows of fold f to the state; `rows` are their indices in the block."""
        Z = Z.toarray() if sp.issparse(Z) else Z
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = not np.isfinite(Z.sum(dtype=np.float64))
        if suspect and (bad := ~np.isfinite(Z)).any():
            place = int(np.argwhere(bad)[0, 0])
            row = first_row + (rows.start + place if isinstance(rows, slice) else int(rows[place]))
            raise InputError(f"features must be finite, but row {row} is not; impute or drop such rows")
        dtype = np.float64 if self._wide or Z.dtype != np.float32 else np.float32
        Z = np.subtract(Z, state.shifts.astype(dtype), dtype=dtype)
        Y, weight = self.targets.encode(y, weight)
        w = np.ones(len(Y)) if weight is None else weight
        state.weight[f] += w.sum()
        state.targets[f] += w @ Y
        state.squares[f] += w @ Y**2
        right = np.empty((len(Y), Y.shape[1] + 1), dtype=dtype)
        right[:, :-1] = Y
        right[:, -1] = 1.0
        if weight is not None:  # both factors by sqrt(w), so that tiles stay symmetric
            root = np.sqrt(weight).astype(dtype)[:, None]
            Z *= root
            right *= root
        state.rounding = max(state.rounding, float(np.finfo(dtype).eps) / 2)
        left = Z.T @ right
        state.products[f] += left[:, :-1]
        state.sums[f] += left[:, -1]
        add_tiles(state.tiles[f], Z)

    def combine(self, left: GramState, right: GramState) -> GramState:
        if left.shift is None or right.shift is None:
            return right if left.shift is None else left
        left.move(right.shift)
        left.rounding = max(left.rounding, right.rounding)
        for name in _SUMS:
            into = getattr(left, name)
            into += getattr(right, name)
        return left


def _middle(Z: Any) -> np.ndarray:
    """The (upper) median of each column, float64."""
    rows = Z.toarray() if sp.issparse(Z) else np.asarray(Z)
    return np.sort(rows, axis=0)[len(rows) // 2].astype(np.float64)
