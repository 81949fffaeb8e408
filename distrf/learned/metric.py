r"""A metric learned in rounds of ridge fits: the average outer product of the gradients, in the pass that is made anyway.

Let f_c(x) = sum_j p_jc C_j + q_jc S_j + l_c . x + b_c be the function of target c, with C_j = s cos(w_j . x),
S_j = s sin(w_j . x) and s = sqrt(2 / D): paired features with the weights p and q, and the columns with the weights l. The
derivative of C_j with respect to the phase is -S_j and that of S_j is C_j, which both are features again. So

    grad f_c(x) = sum_j u_jc w_j + l_c    with    u_jc = q_jc C_j - p_jc S_j,

and the mean of grad f_c grad f_c' over the rows is W' U_c W + (W' m_c) l_c' + l_c (W' m_c)' + l_c l_c', where W has the
rows w_j, and entry by entry

    U_c = mean u_c u_c' = E[C C'] * q q' + E[S S'] * p p' - E[C S'] * q p' - E[S C'] * p q',    m_c = q_c * E[C] - p_c * E[S].

The second moments E[z z'] and the means E[z] are what the pass of a ridge fit adds up. Rows with weights, several targets,
frequencies of any kernel, metric and order: all the same, as the identity holds row by row. It needs the sine with each
cosine: of offset features cos(w . x + b) the products of sines are no function of those of cosines, since
2 cos a cos b = cos(a - b) + cos(a + b) holds their sum and 2 sin a sin b their difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from dask.utils import format_bytes
from sklearn.base import clone
from sklearn.utils import Tags

from ..errors import InputError
from ..execution.memory import check_client
from ..execution.passes import run_pass
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import rows_per_block
from ..execution.sampling import sampled_rows, take_aligned, take_rows
from ..folds import given_folds
from ..linear_model.validation import validate_fit
from ..maps import RandomFourierFeatures
from ..maps.base import FeatureMap, times_root
from ..maps.estimator import BASE, FeatureEstimator, seed_base
from ..maps.fourier import FourierMap
from ..maps.rules import SAMPLE, median_distance, resolve_length_scale
from ..maps.tiles import FeatureTiles
from ..maps.with_columns import WithColumnsMap, column_scale
from ..parameters import (
    FLAG,
    FOLDER,
    JOBS,
    NONE,
    SEED,
    estimator,
    learned,
    number,
    one_of,
    param,
    several,
    whole,
)
from ..randomness import draw_seed
from ..ridge.alphas import ALPHAS, given_alphas
from ..ridge.gram import FIRST_GIVEN, FoldRule, GramReduction
from ..ridge.normal_equations import NormalEquations, compare_alphas
from ..ridge.plan import are_exact
from ..sgd.rows import Rows, open_checkpoint
from ..targets import Targets, class_targets, regression_targets, target_phase
from ..typing import Alphas, ArrayLike, RandomState

#: Columns up to which "auto" learns a matrix.
_FULL_UP_TO = 1024
#: Share of the frequencies of few columns that are drawn whatever was learned.
_UNIFORM = 0.2
#: What is added to a metric, in units of its mean over columns of unit variance: no direction is lost for good.
_FLOOR = 1e-6


def average_outer_product(
    S: np.ndarray,
    mean: np.ndarray,
    weights: np.ndarray,
    W: np.ndarray,
    linear: Any = 0.0,
    *,
    diagonal: bool = False,
) -> np.ndarray:
    """Mean over rows of the outer products of the gradients, summed over targets.

    Parameters
    ----------
    S, mean : second moments, shape (D, D), and means, shape (D,), of paired features, cosines at even columns
    weights : of the features, shape (D, C), for C targets
    W : frequencies in radians, shape (D / 2, d)
    linear : weights of the columns themselves, shape (d, C); 0 where there are none
    diagonal : whether only the diagonal is made

    Returns
    -------
    Array of shape (d, d), or (d,).
    """
    cos, sin, p, q = slice(0, None, 2), slice(1, None, 2), weights[0::2], weights[1::2]
    cross = S[cos, sin] * (q @ p.T)
    U = S[cos, cos] * (q @ q.T) + S[sin, sin] * (p @ p.T) - cross - cross.T
    drift = W.T @ (q * mean[cos, None] - p * mean[sin, None])
    if diagonal:
        return ((U @ W) * W).sum(axis=0) + ((2.0 * drift + linear) * linear + np.zeros_like(drift)).sum(axis=1)
    linear = np.broadcast_to(linear, drift.shape)
    mixed = drift @ linear.T
    return W.T @ U @ W + mixed + mixed.T + linear @ linear.T


def column_spread(rows: np.ndarray) -> np.ndarray:
    """Standard deviation of each column; with the outermost hundredth of rows clipped where it is a third of it or less."""
    spread = rows.std(axis=0)
    inner = np.clip(rows, *np.quantile(rows, (0.01, 0.99), axis=0, method="nearest")).std(axis=0)
    usual: np.ndarray = np.where((inner > 0) & (spread > 3 * inner), inner, spread)
    return usual


def metric_root(M: np.ndarray, rows: np.ndarray, before: np.ndarray | None, norm: str) -> np.ndarray:
    """The root of a metric in which the median distance of rows is that before.

    Parameters
    ----------
    M : average outer product, shape (d, d), or its diagonal, shape (d,)
    rows : shape (n, d)
    before : root of the metric before, or its diagonal; None is the identity
    norm : in which distances are measured, as of a kernel

    Returns
    -------
    A matrix A of shape (d, d), where A A' is the metric, or its diagonal, shape (d,).
    """
    spread = rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    mean = float(np.mean((M if M.ndim == 1 else np.diag(M)).clip(0.0) * spread**2)) or 1.0
    if M.ndim == 1:
        root = np.sqrt(M.clip(0.0) * spread**2 / mean + _FLOOR) / spread
    else:
        values, vectors = np.linalg.eigh(spread[:, None] * M * spread / mean)
        root = (vectors * np.sqrt(np.maximum(values, 0.0) + _FLOOR)) @ vectors.T / spread[:, None]
    old, new = (median_distance(rows if A is None else times_root(rows, A), norm) for A in (before, root))
    scaled: np.ndarray = root * (old / new if old > 0 < new else 1.0)
    return scaled


@dataclass(frozen=True)
class _RoundReduction(GramReduction):
    """Gram states of the features of several maps; blocks are (X, y[, weight][, folds]).

    maps : at several length scales, with the same arrays; full : whether a matrix is learned
    """

    maps: tuple[Any, ...] = ()
    full: bool = False

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return self.maps[0].arrays  # type: ignore[no-any-return]

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> Self:
        return replace(self, maps=tuple(map_.with_arrays(arrays) for map_ in self.maps))

    def without_arrays(self) -> Self:
        return self.with_arrays({})

    @property
    def nbytes(self) -> int:
        return len(self.maps) * super().nbytes

    @property
    def flops_per_row(self) -> float:
        return len(self.maps) * (super().flops_per_row + self.maps[0].work()[0])

    @property
    def scratch_bytes(self) -> int:
        """With a tile of features, and what its map takes meanwhile."""
        tiles = FeatureTiles(self.maps[0], self.n_features)
        return super().scratch_bytes + tiles.scratch_bytes() + self.maps[0].scratch_bytes(8)

    @property
    def solve_bytes(self) -> int:
        """With second moments, their parts by cosines and sines, frequencies, sampled rows thrice, and eigenvectors of the metric."""
        D, d = self.n_features, self.maps[0].n_features_in
        return super().solve_bytes + 24 * D**2 + 8 * d * (D + 3 * SAMPLE) + 24 * d**2 * self.full

    def initial(self) -> Any:
        return [super(_RoundReduction, self).initial() for _ in self.maps]

    def update(self, state: Any, first_row: int, Z: Any, y: Any, *more: Any) -> Any:
        for map_, one in zip(self.maps, state, strict=True):
            tiles = FeatureTiles(map_, self.n_features)
            for a, rows in tiles.row_tiles(Z):
                part = slice(a, a + rows.shape[0])
                super().update(one, first_row + a, tiles.all(rows), y[part], *(other[part] for other in more))
        return state

    def combine(self, left: Any, right: Any) -> Any:
        return [super(_RoundReduction, self).combine(a, b) for a, b in zip(left, right, strict=True)]


@estimator
class LearnedMetric(FeatureEstimator):
    """Fourier features in a metric that is learned from targets.

    Each round fits ridge regression to the features, in one pass, and takes the average outer product of the gradients of the
    fitted function as the metric of the next round: directions in which the function changes count, the others hardly. The
    outer product follows from the sums of that same pass.

    Parameters
    ----------
    base : RandomFourierFeatures or None, default=None
        Of which kernel, how many and which features the rounds are; phase="paired". None is RandomFourierFeatures(), of 1,024
        features. With base=RandomFourierFeatures(order=q), the weights of the columns of its frequencies are learned in place
        of a metric.
    metric : {"auto", "full", "diagonal"}, default="auto"
        Whether a matrix or a weight for each column is learned. A matrix takes d^2 numbers, d^3 operations a round, and
        d multiplications more for each column of a row. "auto" is "full" up to 1,024 columns.
    n_rounds : int, default=3
        Most metrics that are learned one after the other, in n_rounds + 1 passes: the last one is judged too. They end
        where the error of held-out rows no longer falls, and the best round is kept. 0 chooses the length scale alone.
    alpha : float, sequence of float or {"auto"}, default="auto"
        Penalties that each round compares on held-out rows, as in StreamingRidge.
    length_scales : sequence of float, default=(0.7, 1.0, 1.4)
        Multiples of the length scale of the base that each round compares in its pass. Each takes the time of a ridge fit.
    linear : bool, default=True
        Whether ridge gets the columns of the rows beside the features, as with WithColumns: up to D / 2 columns.
    labels : bool, default=False
        Whether y are labels, which are coded as in StreamingRidgeClassifier. `train` sets it.
    n_components : int or None, default=None
        D, the number of features of the map. None is that of the base. The rounds have those of the base: fewer take less time.
    n_rows : int or None, default=None
        Rows at most, a seeded sample, that the metric is learned from. None takes all.
    checkpoint : str, PathLike or None, default=None
        Folder or URL that keeps the result of each round. A fit that was interrupted and is called again goes on from
        there.
    n_jobs : int or None, default=-1
        Threads for NumPy and CSR input: -1 takes all cores, None takes one. Dask decides for Dask arrays.
    random_state : int, Generator, RandomState or None, default=0
        Seed of all draws. The base gets a seed derived from this one unless it has its own. None draws one seed.

    Attributes
    ----------
    map_ : FourierMap
        The frozen map of the best round.
    metric_ : array of shape (d, d) or (d,)
        M, in which its distances are measured, or the diagonal of M. The median distance between rows is that of the base.
    columns_ : array of shape (d,)
        Importance of the columns: the mean squared derivative of the function of the best round with respect to each, times
        the variance of the column, as shares of their sum. Rows far out count as the outermost hundredth where they have
        most of the variance.
    rounds_ : list of dict
        For each round "loss" (mean squared error of held-out rows), "alpha", "length_scale" and "best", from round 0,
        that of the base, on.
    length_scale_ : float
        l of the best round.
    projection_ : str
        Name of the projection in use.
    n_features_in_ : int
        Number of input columns, d.

    References
    ----------
    .. [1] A. Radhakrishnan, D. Beaglehole, P. Pandit and M. Belkin, "Mechanism for Feature Learning in Neural Networks and
           Backpropagation-Free Machine Learning Models", Science 383, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import LearnedMetric, RandomFourierFeatures
    >>> X = np.random.default_rng(0).normal(size=(1000, 10))
    >>> learned = LearnedMetric(RandomFourierFeatures(n_components=128)).fit(X, np.sin(2 * X[:, 3]))
    >>> int(learned.columns_.argmax()), bool(learned.columns_.max() > 0.9)
    (3, True)
    """

    #: Where the command line keeps its rounds, below a folder of checkpoints.
    checkpoint_folder: ClassVar[str] = "subspace"

    map_: FourierMap = learned()

    base: FeatureEstimator | None = param(default=None, rule=BASE | NONE, kw_only=False)
    metric: str = param(default="auto", rule=one_of("auto", "full", "diagonal"))
    n_rounds: int = param(default=3, rule=whole(0))
    alpha: Alphas = param(default="auto", rule=ALPHAS)
    length_scales: ArrayLike = param(default=(0.7, 1.0, 1.4), rule=several(number(above=0)))
    linear: bool = param(default=True, rule=FLAG)
    labels: bool = param(default=False, rule=FLAG)
    n_components: int | None = param(default=None, rule=whole() | NONE)
    n_rows: int | None = param(default=None, rule=whole(2) | NONE)
    checkpoint: str | None = param(default=None, rule=FOLDER)
    n_jobs: int | None = param(default=-1, rule=JOBS)
    random_state: RandomState = param(default=0, rule=SEED)

    @classmethod
    def named_base(cls, n_components: int) -> FeatureEstimator:
        return RandomFourierFeatures()

    def target_parameters(self, labels: bool) -> dict[str, Any]:
        return {"labels": labels}

    def trial_map(self, D: int, seed: int) -> FeatureEstimator:
        return self._base().trial_map(D, seed)

    def _base(self) -> FeatureEstimator:
        """The base, not fitted."""
        base = RandomFourierFeatures() if self.base is None else clone(self.base)
        if not isinstance(base, RandomFourierFeatures) or base.phase != "paired" or base.n_components % 2:
            raise InputError(
                "a metric is learned from cosines with their sines, of which gradients are made; give a base of "
                f"RandomFourierFeatures with phase='paired' and an even number of features, got {base!r}"
            )
        return base

    def _sized(self, map_: Any) -> FourierMap:
        """The map with as many features as were asked for."""
        return map_ if self.n_components is None else replace(map_, n_components=int(self.n_components))

    def fit(  # type: ignore[override]
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, folds: ArrayLike | None = None
    ) -> LearnedMetric:
        """Fit the base, then learn metrics in rounds of one pass each.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : array or Dask array of shape (n,) or (n, C)
            Targets: numbers, one or C for each row; labels with labels=True. Of several targets, each counts in its own units.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.
        folds : array or Dask array of shape (n,) of int, default=None
            Fold of each row, as StreamingRidge takes them: fold 0 is held out. None holds out a fifth at random.

        Returns
        -------
        LearnedMetric
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, the base has offset phases, or X holds NaN or infinity.
        SpecMismatchError
            The checkpoint belongs to another fit.
        MemoryPlanError
            The job cannot fit into memory.
        """
        # Whatever `labels` is: its rule is checked there.
        X, y, weight = validate_fit(self, X, y, sample_weight, numeric=not np.any(self.labels))  # type: ignore[arg-type]
        seed, base = draw_seed(self.random_state), self._base()
        if self.n_rows is not None and X.shape[0] > self.n_rows:
            picked = sampled_rows(X.shape[0], int(self.n_rows), seed, "metric rows")
            there = [values for values in (X, y, weight, folds) if values is not None]
            rows: Any = iter(take_aligned(there, picked, sparse=True))
            X, y = next(rows), next(rows)
            weight, folds = (None if values is None else next(rows) for values in (weight, folds))
        given = given_folds(X, folds)
        targets = class_targets(y, weight, None) if self.labels else regression_targets(y, weight)
        seed_base(base, seed, "metric base")
        map_: Any = base.fit(X).map_
        sample = take_rows(X, sampled_rows(X.shape[0], SAMPLE, seed, "length-scale")).astype(np.float64)
        scale = column_scale(X, seed) if self._joins(map_) else None
        reduction = self._reduction(map_, scale, X.shape[0], targets, seed, given)
        arrays = [a for a in (X, y, weight, getattr(given, "values", None)) if a is not None]
        checkpoint = open_checkpoint(
            self.checkpoint, partial(self._job, map_), Rows.of(X, y, weight, given), targets, seed
        )
        rounds, best = list[dict[str, Any]](), 0
        while True:
            made, k = replace(reduction, maps=self._maps(map_, scale)), len(rounds)
            found = checkpoint.run(partial(self._round, made, arrays, k))
            (loss, alpha, length), M = found[f"numbers{k}"].tolist(), found[f"outer{k}"]
            map_ = replace(map_, length_scale=length)
            rounds.append({"loss": loss, "alpha": alpha, "length_scale": length, "best": False})
            if loss < rounds[best]["loss"] or not k:
                best, best_map, outer = k, map_, M
            if best != k or k == self.n_rounds or not M.any():
                break
            map_ = self._next(map_, M, base, sample, seed)
        rounds[best]["best"] = True
        self.rounds_, self.map_ = rounds, self._sized(best_map)
        self.length_scale_, self.projection_ = best_map.length_scale, best_map.projection
        energy = np.maximum(outer if outer.ndim == 1 else np.diag(outer), 0.0) * column_spread(sample) ** 2
        self.columns_ = energy / (energy.sum() or 1.0)
        return self

    def _job(self, start: FourierMap) -> dict[str, Any]:
        """What determines the numbers of a fit, for its checkpoint."""
        free = ("base", "checkpoint", "n_jobs", "random_state", "n_components", "n_rounds")
        known = {name: value for name, value in self.get_params(deep=False).items() if name not in free}
        known |= {name: np.ravel(known[name]).tolist() for name in ("length_scales", "alpha")}
        return known | {"kind": "metric", "start": start.spec()}

    def _maps(self, map_: FourierMap, scale: float | None) -> tuple[FeatureMap, ...]:
        """The map at each length scale, after the columns unless their scale is None."""
        lengths = [map_.length_scale * multiple for multiple in np.ravel(self.length_scales).tolist()]
        maps = [replace(map_, length_scale=length) for length in lengths]
        return tuple(maps if scale is None else [WithColumnsMap.over(m, scale) for m in maps])

    def _reduction(
        self, map_: FourierMap, scale: Any, n: int, targets: Targets, seed: int, folds: Any = None
    ) -> _RoundReduction:
        """What a round sums up. One fold is held out: no metric may learn from rows that judge it."""
        rule = FIRST_GIVEN if folds is not None else FoldRule.of_cv("holdout" if n >= 5 else n, seed)
        maps, exact = self._maps(map_, scale), are_exact(self.alpha)
        return _RoundReduction(maps[0].n_components, targets, rule, exact, maps, self._full(map_))

    def _round(self, reduction: Any, arrays: list[Any], k: int, known: Any) -> dict[str, np.ndarray]:
        """One pass: the best length scale and penalty, and the average outer product of that fit."""
        check_client(reduction.solve_bytes, type(self).__name__)
        rows = rows_per_block(arrays[0].dtype.itemsize * reduction.n_features)
        tried, d, linear = [], 0, 0.0
        states = run_pass(reduction, arrays, label="metric", block_rows=rows)
        for map_, state in zip(reduction.maps, states, strict=True):
            system = NormalEquations(state, reduction.n_features, True)
            compared = compare_alphas(system, given_alphas(self.alpha), reduction)
            loss = np.inf if compared.errors is None else compared.errors.min()
            tried.append((loss, compared.alpha, system, map_))
        loss, alpha, system, map_ = min(tried, key=lambda one: one[0])
        sums = (part.sum(axis=0) for part in (system.state.targets, system.state.squares))
        factors = reduction.targets.error_factors(system.state.weight.sum(), *sums)
        without = 0 if np.isfinite(loss) else None
        weights = next(system.solve([alpha], without)).weights * np.sqrt(factors)
        S, mean = system.moments(without)
        if isinstance(map_, WithColumnsMap):
            d, map_ = map_.n_features_in, map_.base
            linear = weights[:d] / reduction.maps[0].scale
        W = map_.frequencies()
        outer = average_outer_product(S[d:, d:], mean[d:], weights[d:], W, linear, diagonal=not reduction.full)
        return {f"numbers{k}": np.array([loss, alpha, map_.length_scale]), f"outer{k}": outer}

    def _joins(self, map_: FourierMap) -> bool:
        """Whether the columns stand beside the features."""
        return bool(self.linear) and 2 * map_.n_features_in <= map_.n_components

    def _full(self, map_: FourierMap) -> bool:
        """Whether a matrix is learned."""
        most = {"full": np.inf, "auto": _FULL_UP_TO, "diagonal": 0}
        return map_.order is None and map_.n_features_in <= most[self.metric]

    def _next(self, map_: FourierMap, M: np.ndarray, base: Any, sample: np.ndarray, seed: int) -> FourierMap:
        """The map of the next round."""
        if map_.order is not None:
            shares = np.sqrt(np.maximum(M, 0.0)) * column_spread(sample)
            shares /= shares.sum()
            return replace(map_, column_weights=(1.0 - _UNIFORM) * shares + _UNIFORM / len(shares))
        root, length = metric_root(M, sample, map_.root, map_.kernel.metric), map_.length_scale
        if isinstance(base.length_scale, str) and base.gamma is None:
            length = resolve_length_scale(map_.kernel, base.length_scale, None, sample, seed, root)
        return replace(map_, root=root, length_scale=length)

    @property
    def metric_(self) -> np.ndarray:
        root = np.ones(self.map_.n_features_in) if self.map_.root is None else self.map_.root
        return root**2 if root.ndim == 1 else root @ root.T

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"rounds": self.rounds_}

    def _planned_map(self, d: int) -> FourierMap:
        map_: Any = self._sized(self._base().planned_map(d))
        return replace(map_, root=np.eye(d) if self._full(map_) else np.ones(d)) if map_.order is None else map_

    def planned_costs(self, rows: PlannedRows, planned: Any) -> Costs:
        if self.n_rows is not None and rows.n > self.n_rows:
            note = f"metric, learned from at most {self.n_rows:,} sampled rows"
            return self._base().planned_costs(rows, planned) + rows.sample_costs(int(self.n_rows), note)
        planned = replace(planned, n_components=self._base().planned_map(planned.n_features_in).n_components)
        scale = 1.0 if self._joins(planned) else None
        reduction = self._reduction(planned, scale, rows.n, Targets(None, np.zeros(rows.outputs)), 0)
        passes, d = int(self.n_rounds) + 1, planned.n_features_in
        learned = f"a {d} x {d} matrix" if self._full(planned) else f"a weight for each of {d} columns"
        note = (
            f"metric, {learned}, learned in {passes} passes or fewer, of {np.size(self.length_scales)} fit(s) with "
            f"{reduction.n_features} features each: {format_bytes(reduction.nbytes)} a state"
        )
        sent = int(planned.work()[1]) + planned.held_bytes(rows.itemsize)
        return self._base().planned_costs(rows, planned) + Costs(
            (target_phase(rows.n, rows.blocks), rows.passes(passes, reduction)),
            memory=rows.pass_memory(reduction, sent),
            client_bytes=reduction.solve_bytes,
            notes=(note,),
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
