"""Training-efficient feature maps as a scikit-learn transformer."""

from __future__ import annotations

import copy
import os
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..errors import InputError
from ..execution.planned import Costs, PlannedRows
from ..maps import SubspaceMap
from ..parameters import FLAG, FOLDER, JOBS, NONE, SEED, Rule, number, one_of, whole
from ..randomness import draw_seed
from ..subspace import SKETCHES, check_width, choose, find_subspace, subspace_costs
from ..subspace.choice import SOLVERS
from ..subspace.range_finder import LEAST_TOL, VALUES
from .base import BASE, FeatureEstimator, seed_base, validate_rows


class TEFM(FeatureEstimator):
    """The l leading directions of many random features: F Q in place of F (Chen et al. 2016).

    F, of shape (n, D), is never stored: every pass makes it anew, block by block.

    Parameters
    ----------
    base : feature estimator that is cloned and fitted first; None where X already holds features, as in
        `Pipeline([("map", RandomFourierFeatures(...)), ("tefm", TEFM(n_components=512)), ...])`
    n_components : l; with `tol` the most that it may grow to
    sketch : "gaussian" (TEFM-G) | "srht" (TEFM-S, O(n D log l)) | "sparse" (eight signs a row)
    n_iter : q, products with F'F after the sketch, each one more pass. 0 is the paper's TEFM-S
    oversampling : directions carried along and dropped at the end
    solver : "finder" | "gram" (directions from the D x D Gram matrix in float64, one pass; exact but for singular
        values below 2e-8 of the largest) | "auto": the cheaper of the two that fits, see `solver_reason_`
    tol : grow l until |F - F Q Q'| / |F| <= tol, keeping only what that takes; a warning says where `n_components`
        do not suffice. At least 1e-7, with float32 rows 1e-3
    values : singular values from a "pass" of their own (exact within the subspace), or from a "sample" of rows,
        which saves that pass
    whiten : divide each feature by its root mean square, so that features have unit second moments
    checkpoint : folder that keeps the basis after each pass; an interrupted fit, called again, resumes there.
        Needs a `random_state`
    n_jobs : threads for NumPy and CSR input of `transform`; -1 takes all cores. Dask decides for Dask arrays
    random_state : seed of the sketch; the base gets one derived from it unless it has its own

    Attributes
    ----------
    map_ : SubspaceMap, with arrays `basis` (D, l) and, if whitened, `scale` (l,)
    base_ : the fitted base estimator, or None
    components_ : array of shape (l, D), orthonormal rows
    singular_values_ : array of shape (l,), of F
    explained_energy_ : array of shape (l,), shares of |F|^2 (not centred)
    residual_ : |F - F Q Q'| / |F| estimated on 1,000 rows; `residual_interval_` : approximate 95 % confidence bounds,
        too narrow where a few rows have most of the energy, see `distrf.subspace.spectrum.Residual`
    solver_, solver_reason_ : what "auto" took and why; n_passes_ : passes over the rows, those that a checkpoint kept included
    n_features_in_ : int, d

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import TEFM, RandomFourierFeatures
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> base = RandomFourierFeatures(length_scale=2.0, n_components=512)
    >>> G = TEFM(base, n_components=32, random_state=7).fit_transform(X)
    >>> G.shape
    (500, 32)
    """

    map_: SubspaceMap

    parameter_rules: ClassVar[dict[str, Rule]] = {
        "base": BASE | NONE,
        "n_components": whole(),
        "sketch": one_of(*SKETCHES),
        "n_iter": whole(0),
        "oversampling": whole(0),
        "solver": one_of(*SOLVERS),
        "tol": number(LEAST_TOL, below=1) | NONE,
        "values": one_of(*VALUES),
        "whiten": FLAG,
        "checkpoint": FOLDER,
        "n_jobs": JOBS,
        "random_state": SEED,
    }

    def __init__(
        self,
        base: FeatureEstimator | None = None,
        n_components: int = 256,
        *,
        sketch: str = "gaussian",
        n_iter: int = 1,
        oversampling: int = 10,
        solver: str = "auto",
        tol: float | None = None,
        values: str = "pass",
        whiten: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        n_jobs: int | None = -1,
        random_state: Any = None,
    ):
        self.base = base
        self.n_components = n_components
        self.sketch = sketch
        self.n_iter = n_iter
        self.oversampling = oversampling
        self.solver = solver
        self.tol = tol
        self.values = values
        self.whiten = whiten
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> TEFM:
        """Fit the base, then find the subspace: q + 2 passes over the rows, or one for a Gram matrix.

        X : array, CSR matrix or Dask array of shape (n, d). Raises InputError for a parameter that breaks a
        rule, SpecMismatchError for a checkpoint of another fit, MemoryPlanError for a job that cannot fit.
        """
        X = validate_rows(self, X, reset=True)
        if self.checkpoint is not None and self.random_state is None:
            raise InputError(
                "checkpoint= needs a random_state: with None every fit draws another seed, and none could resume; "
                "give an integer"
            )
        seed = draw_seed(self.random_state)
        base = None if self.base is None else fitted_base(self.base, X, y, seed)
        found = find_subspace(
            X,
            base,
            int(self.n_components),
            sketch=self.sketch,
            n_iter=self.n_iter,
            oversampling=self.oversampling,
            solver=self.solver,
            tol=self.tol,
            values=self.values,
            seed=seed,
            checkpoint=self.checkpoint,
        )
        self.singular_values_ = found.singular_values
        self.explained_energy_ = found.explained_energy
        self.residual_ = found.residual.value
        self.residual_interval_ = np.array([found.residual.low, found.residual.high])
        self.solver_, self.solver_reason_ = found.solver, found.reason
        self.n_passes_ = found.passes
        scale = None
        if self.whiten:
            scale = found.singular_values / np.sqrt(X.shape[0])
            # A direction without energy stays as it is: dividing by rounding would fill it with noise.
            floor = scale.max(initial=0.0) * np.finfo(found.basis.dtype).eps * len(found.basis)
            scale = np.where(scale > floor, scale, 1.0)
        self.map_ = SubspaceMap(X.shape[1], found.basis.shape[1], base, self.whiten, found.basis, scale)
        return self

    @property
    def base_(self) -> Any:
        """The fitted base estimator, or None: `make_pipeline(tefm.base_, tefm.to_base_model(model))`."""
        check_is_fitted(self)
        if self.base is None:
            return None
        base = clone(self.base)
        base.map_, base.n_features_in_ = self.map_.base, self.n_features_in_
        return base

    def _planned_map(self, d: int) -> SubspaceMap:
        wanted, base = int(self.n_components), None if self.base is None else self.base.planned_map(d)
        check_width(wanted, d if base is None else base.n_components)
        return SubspaceMap(d, wanted, base, self.whiten)

    def planned_costs(self, rows: PlannedRows, planned: Any) -> Costs:
        tiles, final = planned.tiles, self.values == "pass"
        width = min(tiles.n_features, planned.n_components + self.oversampling)
        how = (rows.n, tiles, width, self.sketch, self.n_iter, final)
        found = subspace_costs(choose(self.solver, *how, rows.workers, rows.itemsize), *how, rows.itemsize)
        notes = [
            f"subspace of {tiles.n_features} features by {found.choice.solver!r}, {found.passes} pass(es): "
            f"{found.choice.reason}"
        ]
        if self.tol is not None:
            notes.append("tol: passes, time and memory are those of one round with all components")
        costs = found.costs(rows, 0.0 if planned.base is None else planned.base.work()[1])
        below = Costs() if self.base is None else self.base.planned_costs(rows, planned.base)
        return below + costs + Costs(notes=tuple(notes))

    @property
    def components_(self) -> np.ndarray:
        """Q', shape (l, D)."""
        assert self.map_.basis is not None
        return self.map_.basis.T

    def to_base_model(self, model: Any) -> Any:
        """A linear model on the l features as one on the D base features: weights Q w.

        Predicting with it costs what the base map costs: `make_pipeline(tefm.base_, tefm.to_base_model(model))` gives the
        predictions of `make_pipeline(tefm, model)`.

        model : a fitted linear model with `coef_` of shape (l,) or (C, l); it is left as it is
        """
        check_is_fitted(self)
        check_is_fitted(model, "coef_")
        coef = np.asarray(model.coef_)
        if coef.shape[-1] != self.map_.n_components:
            raise InputError(
                f"to_base_model takes a linear model on the {self.map_.n_components} features of this map, got coef_ of "
                f"shape {coef.shape}; fit the model on the output of transform"
            )
        made = copy.copy(model)
        made.coef_ = coef @ self.map_.weights().T.astype(coef.dtype)
        made.n_features_in_ = made.coef_.shape[-1]
        if hasattr(made, "feature_names_in_"):
            del made.feature_names_in_
        return made


def fitted_base(base: Any, X: Any, y: Any, seed: int) -> Any:
    """The frozen map of a fitted clone of `base`; its seed comes from ours unless it has its own."""
    base = clone(base)
    seed_base(base, seed, "tefm base")
    return base.fit(X, y).map_  # type: ignore[attr-defined]
