"""The dominant subspace of F = base(X) by passes over row blocks (Halko et al. 2011; Chen et al. 2016).

F, of shape (n, D), is never stored: each pass makes it anew, block by block. Between the steps of subspace
iteration the basis is orthonormalised in float64: (F'F)^q F' Theta formed literally loses the small
directions.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checkpoint import COMPARED_ROWS, Checkpoint
from ..errors import InputError
from ..execution.memory import Workers, check_client
from ..execution.passes import run_pass
from ..execution.row_blocks import rows_per_block
from ..execution.sampling import sampled_rows, take_rows
from ..execution.scheduler import current_client
from ..gram_tiles import lower_matrix
from ..maps import FeatureMap, working_dtype
from ..maps.base import arrays_fingerprint
from ..maps.tiles import FeatureTiles
from .choice import Search, choose, column_blocks, gram_client_bytes, sketch_width
from .reductions import GramTilesReduction, ProductReduction, RitzReduction, SketchReduction
from .sketches import make_sketch
from .spectrum import fix_signs, ritz, rotated, top_eigenpairs
from .tsqr import leading, orthonormalise


@dataclass(frozen=True)
class Subspace:
    """The result of a search.

    basis : Q, shape (D, l), orthonormal columns, leading direction first; in the dtype of the features
    singular_values : shape (l,), of F; energy : |F|_F^2
    solver, reason : "finder" or "gram", and why; passes : sweeps over the rows
    """

    basis: np.ndarray
    singular_values: np.ndarray
    energy: float
    solver: str
    reason: str
    passes: int

    @property
    def explained_energy(self) -> np.ndarray:
        """Share of |F|^2 along each direction, shape (l,)."""
        return self.singular_values**2 / self.energy if self.energy > 0 else np.zeros_like(self.singular_values)

    @property
    def residual(self) -> float:
        """|F - F Q Q'|_F / |F|_F over all rows: the root of the share of the energy that no direction explains."""
        return float(np.sqrt(max(0.0, 1.0 - self.explained_energy.sum()))) if self.energy > 0 else 0.0


@dataclass(frozen=True)
class RangeFinder:
    """The options of a search for the leading right singular directions of F = base(X).

    Parameters
    ----------
    n_components : l
    sketch : Theta, see `distrf.subspace.sketches`
    n_iter : q, products with F'F after the sketch; each is a pass
    oversampling : directions carried along and dropped at the end
    solver : "finder" | "gram" (one pass, D x D numbers, products in float64: exact to 2e-8 of the largest
        singular value) | "auto" (the cheaper that fits)
    seed : of the sketch and of the sampled rows
    checkpoint : folder that keeps the basis after each pass; the same search then resumes there

    Notes
    -----
    Memory, with k = l + oversampling. A worker holds Q in the dtype of the features, partial sums of at most 1 GiB
    (wider maps are summed by column blocks, see `distrf.subspace.choice.column_blocks`), and two tiles of features of
    64 to 128 MiB. The client holds Q, the next one, two copies while it is sent, and the sum of one column block; a worker Q
    of the pass before and of the next. No process ever holds all D x k sums in float64. For D = 1,000,000 and k = 266 with
    float32 rows a worker needs 2.0 + 1.0 + 0.4 GiB beside its process.

    A residual below about 1e-3 with float32 rows, and 1e-7 with float64 ones, is rounding.
    """

    n_components: int
    sketch: str = "gaussian"
    n_iter: int = 1
    oversampling: int = 10
    solver: str = "auto"
    seed: int = 0
    checkpoint: str | os.PathLike[str] | None = None

    def find(self, X: Any, base: FeatureMap | None) -> Subspace:
        """The subspace of rows X, an array, CSR matrix or Dask array of shape (n, d); base=None takes X as features.

        Raises InputError for more directions than features, SpecMismatchError for a checkpoint of another search.
        """
        return _Finding(X, base, self).find()


def check_width(width: int, n_features: int) -> None:
    """Raise InputError for more directions than features."""
    if not 1 <= width <= n_features:
        raise InputError(f"n_components must be between 1 and the {n_features} base features, got {width}")


class _Finding:
    """One search: runs the passes and keeps their results."""

    def __init__(self, X: Any, base: FeatureMap | None, how: RangeFinder):
        self.X, self.n, self.how = X, int(X.shape[0]), how
        self.source = FeatureTiles(base, X.shape[1] if base is None else base.n_components)
        self.dtype = working_dtype(X.dtype)
        D = self.source.n_features
        check_width(how.n_components, D)
        self.limit = min(D, how.n_components + how.oversampling)
        self.passes = 0
        search = Search(self.n, self.source, self.limit, self.dtype.itemsize, how.n_iter)
        self.solver, self.reason = choose(how.solver, search, Workers.of_client(current_client()))
        self.steps = Checkpoint(None, {})
        if how.checkpoint is not None:
            self.steps = Checkpoint(how.checkpoint, self._job())
            some = sampled_rows(self.n, min(self.n, COMPARED_ROWS), how.seed, "subspace/identity")
            self.steps.check_rows(take_rows(X, some).astype(self.dtype, copy=False))

    def _job(self) -> dict[str, Any]:
        base = self.source.base
        return {
            "rows": self.n,
            "columns": int(self.X.shape[1]),
            "dtype": self.dtype.name,
            "base": None if base is None else base.spec(),
            "base_arrays": None if base is None else arrays_fingerprint(base.arrays),
            **{name: value for name, value in vars(self.how).items() if name != "checkpoint"},
            "solver": self.solver,
        }

    # --- passes -----------------------------------------------------------------------------------------------

    def _pass(self, reduction: Any, label: str) -> Any:
        self.passes += 1
        rows = rows_per_block(self.dtype.itemsize * self.X.shape[1])
        return run_pass(reduction, [self.X], label=label, block_rows=rows)

    def _step(self, make: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Run one step, or read it from the checkpoint, which also keeps the number of passes made by its end."""

        def counted(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return make(arrays) | {"passes": np.array(self.passes)}

        arrays = self.steps.run(counted)
        self.passes = int(arrays["passes"])
        return arrays

    def _by_column_blocks(self, width: int, make: Callable[[int, int], Any], label: str) -> np.ndarray:
        """A sum of shape (D, width), by one pass for each column block of the features."""
        blocks = column_blocks(self.n, self.source, width)
        if len(blocks) == 1:
            return np.require(self._pass(make(*blocks[0]), label), requirements="W")
        out = np.empty((self.source.n_features, width), self.dtype)
        for first, last in blocks:
            out[first:last] = self._pass(make(first, last), label)
        return out

    def _sketched(self, width: int) -> np.ndarray:
        theta = make_sketch(self.how.sketch, self.n, width, self.how.seed, "sketch/0")
        return self._by_column_blocks(
            width,
            lambda a, b: SketchReduction(self.source, sketch=theta, first=a, last=b),
            "range finder|sketch",
        )

    def _product(self, basis: np.ndarray) -> np.ndarray:
        Q, width = basis.astype(self.dtype, copy=False), basis.shape[1]
        return self._by_column_blocks(
            width, lambda a, b: ProductReduction(self.source, Q, width, a, b), "range finder|iteration"
        )

    # --- steps ------------------------------------------------------------------------------------------------

    def basis(self) -> np.ndarray:
        """`limit` orthonormal directions: one sketch, then `n_iter` products.

        They are float64, or have the dtype of the features if these are so wide that they are summed by column blocks.
        """

        def sketch(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            wide = sketch_width(self.n, self.source, self.limit)
            Y = self._sketched(wide)
            return {"basis": leading(Y, self.limit) if wide > self.limit else orthonormalise(Y)}

        def product(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {"basis": orthonormalise(self._product(arrays["basis"]))}

        arrays = self._step(sketch)
        for _ in range(self.how.n_iter):
            arrays = self._step(product)
        return arrays["basis"]

    def _ritz(self, basis: np.ndarray) -> tuple[np.ndarray, float]:
        """(Q'F'FQ, |F|^2), by a pass."""

        def step(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            Q = basis.astype(self.dtype, copy=False)
            state = self._pass(RitzReduction(self.source, Q, width=Q.shape[1]), "range finder|singular values")
            return {"ritz": state[:-1], "energy": state[-1, :1]}

        arrays = self._step(step)
        return arrays["ritz"], float(arrays["energy"][0])

    # --- results ----------------------------------------------------------------------------------------------

    def find(self) -> Subspace:
        Q, sigma, energy = self._gram() if self.solver == "gram" else self._finder()
        return Subspace(Q, sigma[: Q.shape[1]], energy, self.solver, self.reason, self.passes)

    def _gram(self) -> tuple[np.ndarray, np.ndarray, float]:
        D = self.source.n_features
        check_client(gram_client_bytes(D), "solver='gram'")

        def step(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            S = lower_matrix(self._pass(GramTilesReduction(self.source), "gram"), D)
            energy = float(np.trace(S))
            sigma, vectors = top_eigenpairs(S, self.how.n_components)
            return {"basis": fix_signs(vectors), "sigma": sigma, "energy": np.array([energy])}

        arrays = self._step(step)
        return arrays["basis"].astype(self.dtype), arrays["sigma"], float(arrays["energy"][0])

    def _finder(self) -> tuple[np.ndarray, np.ndarray, float]:
        basis = self.basis()
        T, energy = self._ritz(basis)
        sigma, directions = ritz(T)
        return rotated(basis, directions[:, : self.how.n_components], self.dtype), sigma, energy
