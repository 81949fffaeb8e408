"""A metric learned in rounds of ridge fits: the average outer product of the gradients, in the pass that is made anyway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

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
from ..features import RandomFourierFeatures
from ..features.base import BASE, FeatureEstimator, seed_base
from ..features.length_scale import SAMPLE, resolve_length_scale
from ..features.with_columns import column_scale
from ..folds import given_folds
from ..linear_model.validation import validate_fit
from ..maps.fourier import FourierMap
from ..maps.tiles import FeatureTiles
from ..maps.with_columns import WithColumnsMap
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
from ..ridge.gram import GramReduction
from ..ridge.normal_equations import NormalEquations, compare_alphas
from ..ridge.plan import choose_solver, first_that_fits, given_reductions, gram_reductions
from ..sgd.rows import Rows, open_checkpoint
from ..targets import Targets, class_targets, regression_targets, target_phase
from ..typing import Alphas, ArrayLike, RandomState
from .outer_products import average_outer_product, metric_root

#: Columns up to which "auto" learns a matrix.
_FULL_UP_TO = 1024
#: Share of the frequencies of few columns that are drawn whatever was learned.
_UNIFORM = 0.2


@dataclass(frozen=True)
class _RoundReduction(GramReduction):
    """Gram states of the features of a map at several length scales, after the columns; blocks are (X, y[, weight][, folds]).

    map : None in the fields of a GramReduction alone; column_scale : None without the columns; full : whether a matrix is learned
    """

    map: Any = None
    length_scales: tuple[float, ...] = ()
    column_scale: float | None = None
    full: bool = False

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return self.map.arrays

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> Self:
        return replace(self, map=self.map.with_arrays(arrays))

    def without_arrays(self) -> Self:
        return self.with_arrays({})

    @property
    def nbytes(self) -> int:
        return len(self.length_scales) * super().nbytes

    @property
    def flops_per_row(self) -> float:
        return len(self.length_scales) * (super().flops_per_row + self.map.work()[0])

    @property
    def scratch_bytes(self) -> int:
        """With a tile of features, and its copy beside the columns."""
        tiles = 1 + (self.column_scale is not None)
        return super().scratch_bytes + tiles * FeatureTiles(self.map, self.n_features).scratch_bytes()

    @property
    def solve_bytes(self) -> int:
        """With second moments, their parts by cosines and sines, frequencies, sampled rows, and eigenvectors of the metric."""
        D, d = self.n_features, self.map.n_features_in
        return super().solve_bytes + 24 * D**2 + 8 * d * (D + SAMPLE) + 24 * d**2 * self.full

    def initial(self) -> Any:
        return [super(_RoundReduction, self).initial() for _ in self.length_scales]

    def update(self, state: Any, first_row: int, Z: Any, y: Any, *more: Any) -> Any:
        for length, one in zip(self.length_scales, state, strict=True):
            map_ = replace(self.map, length_scale=length)
            map_ = map_ if self.column_scale is None else WithColumnsMap.over(map_, self.column_scale)
            tiles = FeatureTiles(map_, self.n_features)
            for a, rows in tiles.row_tiles(Z):
                part = slice(a, a + rows.shape[0])
                super().update(one, first_row + a, tiles.all(rows), y[part], *(other[part] for other in more))
        return state

    def combine(self, left: Any, right: Any) -> Any:
        return [super(_RoundReduction, self).combine(a, b) for a, b in zip(left, right, strict=True)]


class _Round(NamedTuple):
    """What a round found: held-out error, penalty, the map at its best length scale, the average outer product or its diagonal."""

    loss: float
    alpha: float
    map: FourierMap
    outer: np.ndarray


@estimator
class LearnedMetric(FeatureEstimator):
    """Fourier features in a metric that is learned from targets.

    Each round fits ridge regression to the features, in one pass, and takes the average outer product of the gradients of the
    fitted function as the metric of the next round: directions in which the function changes count, the others hardly. The
    outer product follows from the sums of that same pass.

    Parameters
    ----------
    base : RandomFourierFeatures or None, default=None
        Of which kernel, how many and which features; phase="paired". None is RandomFourierFeatures(). With
        base=RandomFourierFeatures(order=q), the weights of the columns of its frequencies are learned in place of a
        metric.
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
        D, the number of features of the map. None is that of the base. Where a base is given, the rounds have its features,
        of which fewer take less time.
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
        the variance of the column, as shares of their sum.
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
        return RandomFourierFeatures(n_components=n_components) if n_components else RandomFourierFeatures()

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
        D = 0 if self.base is not None else self.n_components or 0
        return base.set_params(n_components=D + D % 2) if D else base

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
        start: Any = base.fit(X).map_
        sample = take_rows(X, sampled_rows(X.shape[0], SAMPLE, seed, "length-scale")).astype(np.float64)
        scale = column_scale(X, seed) if self._joins(start) else None
        arrays = [X, y] if weight is None else [X, y, weight]
        reductions = self._reductions(start, scale, X.shape[0], targets, seed, given)
        reduction: Any = choose_solver("gram", reductions, arrays)[0]
        if given is not None and reduction.rule.given:
            arrays.append(given.values)
        checkpoint = open_checkpoint(
            self.checkpoint, lambda: self._job(start), Rows.of(X, y, weight, given), targets, seed
        )
        rounds, map_ = list[_Round](), start
        while True:
            lengths = tuple(map_.length_scale * multiple for multiple in np.ravel(self.length_scales).tolist())
            made, k = replace(reduction, map=map_, length_scales=lengths), len(rounds)
            found = checkpoint.run(partial(self._round, made, arrays, k))
            loss, alpha, length = found[f"numbers{k}"].tolist()
            rounds.append(_Round(loss, alpha, replace(map_, length_scale=length), found[f"outer{k}"]))
            best = min(rounds, key=lambda one: one.loss)
            if best is not rounds[-1] or k == self.n_rounds or not rounds[-1].outer.any():
                break
            map_ = self._next(rounds[-1], base, sample, seed)
        self._publish(rounds, best, sample)
        return self

    def _job(self, start: FourierMap) -> dict[str, Any]:
        """What determines the numbers of a fit, for its checkpoint."""
        free = ("base", "checkpoint", "n_jobs", "random_state", "n_components", "n_rounds")
        known = {name: value for name, value in self.get_params(deep=False).items() if name not in free}
        known |= {name: np.ravel(known[name]).tolist() for name in ("length_scales", "alpha")}
        return known | {"kind": "metric", "start": start.spec()}

    def _reductions(
        self, map_: FourierMap, scale: Any, n: int, targets: Targets, seed: int, folds: Any = None
    ) -> list[Any]:
        """The reductions that would serve a round. One fold is held out: no metric may learn from rows that judge it."""
        D = map_.n_components + (0 if scale is None else map_.n_features_in)
        if folds is None:
            cv = "auto" if n < 5 else "holdout"
            grams = gram_reductions(self.alpha, cv, n, D, targets, seed, held_out=True)
        else:
            grams = given_reductions(self.alpha, "holdout", folds, D, targets, True)
        lengths = (map_.length_scale,) * np.size(self.length_scales)
        more = {"map": map_, "length_scales": lengths, "column_scale": scale, "full": self._full(map_)}
        return [_RoundReduction(**vars(gram), **more) for gram in grams]

    def _round(self, reduction: Any, arrays: list[Any], k: int, known: Any) -> dict[str, np.ndarray]:
        """One pass: the best length scale and penalty, and the average outer product of that fit."""
        check_client(reduction.solve_bytes, type(self).__name__)
        rows = rows_per_block(arrays[0].dtype.itemsize * reduction.n_features)
        states = run_pass(reduction, arrays, label="metric", block_rows=rows)
        tried = []
        for state in states:
            system = NormalEquations(state, reduction.n_features, True)
            compared = compare_alphas(system, given_alphas(self.alpha), reduction)
            tried.append((np.inf if compared.errors is None else compared.errors.min(), compared.alpha, system))
        best = int(np.argmin([loss for loss, _, _ in tried]))
        (loss, alpha, system), length = tried[best], reduction.length_scales[best]
        state, d = system.state, reduction.n_features - reduction.map.n_components
        sums = (part.sum(axis=0) for part in (state.targets, state.squares))
        factors, _ = reduction.targets.error_factors(state.weight.sum(), *sums)
        without = 0 if np.isfinite(loss) else None
        weights = next(system.solve([alpha], without)).weights * np.sqrt(factors)
        S, mean = system.moments(without)
        linear = weights[:d] / reduction.column_scale if reduction.column_scale else 0.0
        W = replace(reduction.map, length_scale=length).frequencies()
        outer = average_outer_product(S[d:, d:], mean[d:], weights[d:], W, linear, diagonal=not reduction.full)
        return {f"numbers{k}": np.array([loss, alpha, length]), f"outer{k}": outer}

    def _joins(self, map_: FourierMap) -> bool:
        """Whether the columns stand beside the features."""
        return bool(self.linear) and 2 * map_.n_features_in <= map_.n_components

    def _full(self, map_: FourierMap) -> bool:
        """Whether a matrix is learned."""
        most = {"full": np.inf, "auto": _FULL_UP_TO, "diagonal": 0}
        return map_.order is None and map_.n_features_in <= most[self.metric]

    def _next(self, last: _Round, base: Any, sample: np.ndarray, seed: int) -> FourierMap:
        """The map of the next round."""
        map_, M = last.map, last.outer
        if map_.order is not None:
            shares = np.sqrt(np.maximum(M, 0.0)) * sample.std(axis=0)
            shares /= shares.sum()
            return replace(map_, column_weights=(1.0 - _UNIFORM) * shares + _UNIFORM / len(shares))
        root = metric_root(M, sample, map_.root, map_.kernel.metric)
        length = map_.length_scale
        if isinstance(base.length_scale, str) and base.gamma is None:
            length = resolve_length_scale(map_.kernel, base.length_scale, None, sample, seed, root)
        return replace(map_, root=root, length_scale=length)

    def _publish(self, rounds: list[_Round], best: _Round, sample: np.ndarray) -> None:
        self.map_, M = self._sized(best.map), best.outer
        self.length_scale_, self.projection_ = best.map.length_scale, best.map.projection
        energy = np.maximum(M if M.ndim == 1 else np.diag(M), 0.0) * sample.var(axis=0)
        self.columns_ = energy / (energy.sum() or 1.0)
        self.rounds_ = [
            {"loss": one.loss, "alpha": one.alpha, "length_scale": one.map.length_scale, "best": one is best}
            for one in rounds
        ]

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
        reductions = self._reductions(planned, scale, rows.n, Targets(None, np.zeros(rows.outputs)), 0)
        reduction: Any = first_that_fits("gram", reductions, rows.pass_memory, rows.workers)[0]
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
