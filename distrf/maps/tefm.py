"""Training-efficient feature maps: features times a learned basis, G = F Q (Chen et al. 2016, Algorithm 1)."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from ..errors import InputError, rows_from
from ..execution.planned import Costs, PlannedRows
from ..parameters import FOLDER, NONE, estimator, learned, one_of, param, whole
from ..randomness import draw_seed
from ..subspace import SKETCHES, RangeFinder, Search, check_width, choose, subspace_costs
from ..subspace.choice import SOLVERS
from ..typing import ArrayLike, Rows
from .base import FeatureMap
from .estimator import BASE, DrawnFeatures, FeatureEstimator, seed_base, validate_rows
from .fourier import RandomFourierFeatures
from .tiles import FeatureTiles


@dataclass(frozen=True)
class SubspaceMap(FeatureMap):
    """Features z(x) = base(x) Q for a learned matrix Q.

    Parameters
    ----------
    n_features_in : d
    n_components : l, the number of columns of Q
    base : FeatureMap with D features, or None where the rows are features already
    basis : Q, array of shape (D, l), orthonormal columns

    References
    ----------
    Chen et al., "Training-efficient feature map for shift-invariant kernels", 2016, Algorithm 1, step 5.
    """

    base: FeatureMap | None
    basis: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "tefm"

    @property
    def tiles(self) -> FeatureTiles:
        """The features of the base map, tile by tile."""
        return FeatureTiles(self.base, self.n_features_in if self.base is None else self.base.n_components)

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        assert self.basis is not None
        for a, tile in self.tiles.row_tiles(X):
            with rows_from(a):
                out[a : a + tile.shape[0]] = self.tiles.times(tile, self.basis[:, start:stop])

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        return super().exact_kernel(X, Y) if self.base is None else self.base.exact_kernel(X, Y)

    def work(self) -> tuple[float, float]:
        operations, parameters = (0.0, 0.0) if self.base is None else self.base.work()
        return operations + 2.0 * self.tiles.n_features * self.n_components, parameters

    def held_bytes(self, itemsize: int) -> int:
        return itemsize * self.tiles.n_features * self.n_components  # the basis

    def scratch_bytes(self, itemsize: int) -> int:
        return self.tiles.scratch_bytes(itemsize)  # base features, as many as are made at once


#: Features of the base for each that is kept, where nothing is said.
_BASE_FEATURES = 4


@estimator
class TEFM(DrawnFeatures):
    """The l leading directions of many random features: the training-efficient feature map.

    F, of shape (n, D), holds the features of all rows. TEFM finds an orthonormal Q of shape (D, l) and gives F
    Q in place of F. F is never stored: every pass makes it anew, block by block.

    Parameters
    ----------
    base : feature estimator or None, default=None
        Its clone is fitted first and makes F. None where X already holds features, as in
        `make_pipeline(RandomFourierFeatures(), TEFM(n_components=512))`.
    n_components : int, default=256
        l, the number of directions.
    sketch : {"gaussian", "srht"}, default="gaussian"
        Law of the matrix that F is multiplied by first: "gaussian" is TEFM-G; "srht" is TEFM-S, in O(n D log l).
    n_iter : int, default=1
        q, the products with F'F after the sketch, each of them one more pass. 0 is the paper's TEFM-S.
    oversampling : int, default=10
        Directions carried along and dropped at the end.
    solver : {"auto", "finder", "gram"}, default="auto"
        "finder" is the randomised range finder. "gram" takes the directions from the D x D Gram matrix in
        float64: one pass, exact but for singular values below 2e-8 of the largest. "auto" takes the cheaper
        one that fits, and `solver_reason_` says why.
    checkpoint : str, PathLike or None, default=None
        Folder or URL that keeps the basis after each pass. A fit that was interrupted and is called again
        goes on from there. Needs a `random_state`.

    Attributes
    ----------
    map_ : SubspaceMap
        The frozen map, with the array `basis` of shape (D, l).
    components_ : array of shape (l, D)
        Q', with orthonormal rows.
    singular_values_ : array of shape (l,)
        Singular values of F.
    explained_energy_ : array of shape (l,)
        Share of |F|^2, not centred, along each direction.
    residual_ : float
        |F - F Q Q'| / |F|, the root of what `explained_energy_` leaves of 1. Below 1e-3 it is rounding of float32 rows.
    solver_ : str
        The solver in use.
    solver_reason_ : str
        Why "auto" took it.
    n_passes_ : int
        Passes over the rows, those that a checkpoint kept included.
    n_features_in_ : int
        Number of input columns, d.

    References
    ----------
    .. [1] X. Chen, H. Yang, I. King and M. Lyu, "Training-Efficient Feature Map for Shift-Invariant Kernels",
           2016.
    .. [2] N. Halko, P. G. Martinsson and J. A. Tropp, "Finding Structure with Randomness", SIAM Review 53,
           2011, Algorithm 4.4.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import TEFM, RandomFourierFeatures
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> base = RandomFourierFeatures(length_scale=2.0, n_components=512)
    >>> TEFM(base, n_components=32, random_state=7).fit_transform(X).shape
    (500, 32)
    """

    map_: SubspaceMap = learned()

    #: Where the command line keeps its passes, below a folder of checkpoints.
    checkpoint_folder: ClassVar[str] = "subspace"
    base: FeatureEstimator | None = param(default=None, rule=BASE | NONE, kw_only=False)
    n_components: int = param(default=256, rule=whole(), kw_only=False)
    sketch: str = param(default="gaussian", rule=one_of(*SKETCHES))
    n_iter: int = param(default=1, rule=whole(0))
    oversampling: int = param(default=10, rule=whole(0))
    solver: str = param(default="auto", rule=one_of(*SOLVERS))
    checkpoint: str | os.PathLike[str] | None = param(default=None, rule=FOLDER)

    @classmethod
    def named_base(cls, n_components: int) -> FeatureEstimator:
        return RandomFourierFeatures(n_components=_BASE_FEATURES * n_components)

    def take_size(self, D: int) -> None:
        self.set_params(n_components=D // 2)
        if self.base is not None and "n_components" in self.base.parameter_rules:
            self.base.set_params(n_components=_BASE_FEATURES * (D // 2))

    def trial_map(self, D: int, seed: int) -> FeatureEstimator:
        return super().trial_map(D, seed) if self.base is None else self.base.trial_map(D, seed)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> TEFM:
        """Fit the base, then find the subspace: q + 2 passes over the rows, or one for a Gram matrix.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : array or Dask array of shape (n,), default=None
            Targets, handed to a base that learns from them.

        Returns
        -------
        TEFM
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, `checkpoint` has no `random_state`, or X holds NaN or infinity.
        SpecMismatchError
            The checkpoint belongs to another fit.
        MemoryPlanError
            The job cannot fit into memory.
        """
        X = validate_rows(self, X, reset=True)
        if self.checkpoint is not None and self.random_state is None:
            raise InputError(
                "checkpoint= needs a random_state: with None every fit draws another seed, and none could resume; "
                "give an integer"
            )
        seed = draw_seed(self.random_state)
        base: Any = None
        if self.base is not None:
            base = clone(self.base)
            seed_base(base, seed, "tefm base")
            base = base.fit(X, y).map_
        subspace = RangeFinder(
            int(self.n_components),
            sketch=self.sketch,
            n_iter=self.n_iter,
            oversampling=self.oversampling,
            solver=self.solver,
            seed=seed,
            checkpoint=self.checkpoint,
        ).find(X, base)
        self.singular_values_ = subspace.singular_values
        self.explained_energy_ = subspace.explained_energy
        self.residual_ = subspace.residual
        self.solver_, self.solver_reason_ = subspace.solver, subspace.reason
        self.n_passes_ = subspace.passes
        self.map_ = SubspaceMap(X.shape[1], subspace.basis.shape[1], base, subspace.basis)
        return self

    def facts(self) -> dict[str, Any]:
        return {"subspace_solver": self.solver_, "subspace_residual": self.residual_}

    def _planned_map(self, d: int) -> SubspaceMap:
        width, base = int(self.n_components), None if self.base is None else self.base.planned_map(d)
        check_width(width, d if base is None else base.n_components)
        return SubspaceMap(d, width, base)

    def planned_costs(self, rows: PlannedRows, planned: Any) -> Costs:
        tiles = planned.tiles
        width = min(tiles.n_features, planned.n_components + self.oversampling)
        search = Search(rows.n, tiles, width, rows.itemsize, self.n_iter)
        solver, reason = choose(self.solver, search, rows.workers)
        finder = subspace_costs(solver, search)
        note = f"subspace of {tiles.n_features} features by {solver!r}, {finder.passes} pass(es): {reason}"
        costs = finder.costs(rows)
        below = Costs() if self.base is None else self.base.planned_costs(rows, planned.base)
        return below + costs + Costs(notes=(note,))

    @property
    def components_(self) -> np.ndarray:
        """Q', shape (l, D)."""
        assert self.map_.basis is not None
        return self.map_.basis.T
