"""What the estimators of learned maps share: parameters and their rules, training in batches, the learned map."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from dask.base import is_dask_collection
from sklearn.base import is_regressor
from sklearn.exceptions import ConvergenceWarning

from ..checkpoint import Checkpoint
from ..errors import InputError
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import map_features
from ..execution.sampling import sampled_rows
from ..folds import GivenFolds, given_folds
from ..kernels.base import get_kernel
from ..kernels.shift_invariant import Kernel
from ..linear_model.base import LinearModel, loss_of
from ..linear_model.validation import validate_fit
from ..losses import Loss
from ..maps import FeatureMap
from ..maps.estimator import apply_map
from ..maps.fourier import GAMMA, KERNEL, NU, PHASE, FourierMap
from ..maps.learned import STRUCTURES, LearnedFourierMap, count_learned
from ..maps.rules import LENGTH_SCALE
from ..parameters import (  # fmt: skip
    FLAG,
    FOLDER,
    JOBS,
    NONE,
    SEED,
    check_parameters,
    estimator,
    number,
    one_of,
    param,
    several,
    whole,
)
from ..randomness import draw_seed
from ..ridge.alphas import ALPHA
from ..sgd.rows import Rows, open_checkpoint
from ..sgd.schedules import Schedule
from ..sgd.spectrum import with_epsilon
from ..sgd.trainer import Rules, Trainer
from ..targets import Targets, float_columns, target_phase, weight_unit
from ..typing import ArrayLike, RandomState
from .objectives import CompactWork, CosineFeatures, KernelWork, Layout
from .optimizer import MapOptimizer
from .start import (  # fmt: skip
    SAMPLE,
    learning_batch_size,
    learning_epochs,
    pair_rows,
    planned_learning,
    reach,
    start_parameters,
    starting_map,
    warn_if_far,
)

#: First steps of Adam: the most that one batch may move the phase of an average row, in radians, and its score, in
#: standard deviations of the target.
_PHASE_STEP = 0.3
_SCORE_STEP = 0.5
#: Frequencies have diverged if the phases of two average rows differ by more than this many radians.
_MOST_PHASE = 1e9
#: Parameters that do not determine the numbers, or of which more than the parameter counts.
_FREE = (
    "checkpoint", "checkpoint_every", "n_jobs", "random_state", "kernel", "length_scale", "nu", "class_weight",
)  # fmt: skip


@estimator
class MapLearner:
    """Mixin of the estimators of learned maps.

    Parameters
    ----------
    n_components : int, default=128
        D, the number of features; even for phase="paired". 8 to 128 learned ones do the work of hundreds to
        thousands that are drawn.
    structure : {"dense", "circulant"}, default="dense"
        "dense" learns D x d numbers. "circulant" learns ceil(D / L) vectors of about d numbers through the
        FFT, in O(D log d) a row.
    phase : {"offset", "paired"}, default="offset"
        "offset" takes cos(theta.x + b) of D frequencies and learns b too. "paired" takes cosines and sines
        of D/2 frequencies: a shift-invariant kernel for any Theta, which the other is not.
    kernel : str or Kernel, default="gaussian"
        Kernel of the random Fourier features from which Theta starts, as in RandomFourierFeatures.
    length_scale : float or {"knn", "knn-cnm", "median", "scale"}, default="knn"
        Length scale of the start, as in RandomFourierFeatures. "knn-cnm" is the paper's rule; "knn" starts
        smoother and generalises better.
    gamma : float or None, default=None
        scikit-learn's parameter, which sets l: 1 / (2 l^2) for the gaussian kernel, 1 / l for the
        laplacian. With it, leave `length_scale` at its default.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness of the Matern kernel. Read by that kernel alone.
    alpha : float, default=1e-06
        Penalty (alpha / 2) |w|^2 of the linear model. The intercept has none.
    theta_l2 : float or {"auto"}, default="auto"
        Penalty (theta_l2 / 2) |Theta|^2, with Theta in radians by units of the columns (of the vectors if
        circulant). Without one, learned maps fit few rows perfectly. "auto" is l^2 / n: it makes the law
        that the frequencies are drawn from their prior (exactly for a Gaussian kernel of length scale l).
        For regression it is multiplied by twice the loss of a residual of one standard deviation of the
        targets.
    fit_intercept : bool, default=True
        Whether to fit the intercept c.
    n_epochs : int or {"auto"}, default="auto"
        Passes over the rows. "auto" makes about 3,000 batches, in 10 passes at least.
    batch_size : int or {"auto"}, default="auto"
        Rows of a batch. "auto" is 500 (the paper's), more where there are millions of rows, a quarter of
        few. It never depends on the workers.
    alternate : tuple of (int, int) or None, default=None
        (T1, T2) takes the paper's steps (Algorithms 1 and 3): T1 batches of w by Pegasos, then T2 of Theta; the paper has
        (100, 100). None takes both in each batch, by Adam.
    early_stopping : bool, default=False
        Hold out rows and keep the epoch that is best on them, the paper's regularisation. The prior of
        Theta and falling steps mostly gain more, and use all rows.
    validation_fraction : float, default=0.1
        Share of the rows that early stopping holds out, rounded to one of 2, 3, ... neighbouring rows.
    n_iter_no_change : int, default=20
        With early stopping, training stops after so many epochs without a lower loss of held-out rows.
    checkpoint : str, PathLike or None, default=None
        Folder or URL that keeps the state of training; the same call resumes from it, and ends with the same bits.
    checkpoint_every : int, default=200
        Batches from one saved state to the next; the end of an epoch is saved too.
    n_jobs : int or None, default=-1
        Threads of predictions for NumPy and CSR input: -1 takes all cores, None takes one. Dask decides for
        Dask arrays.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the start, of the order of rows and of what is held out. None draws one seed.

    Attributes
    ----------
    map_ : LearnedFourierMap
        The learned map, with the arrays `frequencies` and, for offset phases, `offsets`.
    history_ : list of dict
        For each epoch "epoch", "loss" (with penalty, while training), "validation_loss", "seconds", "rows"
        and "batches".
    n_iter_ : int
        Epochs.
    best_epoch_ : int
        The epoch that was kept, counted from 1.
    t_ : int
        Batches.
    batch_size_ : int
        Rows of a batch.
    length_scale_ : float
        Length scale of the start.
    n_features_in_ : int
        Number of input columns, d.
    """

    n_components: int = param(default=128, rule=whole(), kw_only=False)
    structure: str = param(default="dense", rule=one_of(*STRUCTURES))
    phase: str = param(default="offset", rule=PHASE)
    kernel: str | Kernel = param(default="gaussian", rule=KERNEL)
    length_scale: float | str = param(default="knn", rule=LENGTH_SCALE)
    gamma: float | None = param(default=None, rule=GAMMA)
    nu: float = param(default=1.5, rule=NU)
    alpha: float = param(default=1e-6, rule=ALPHA)
    theta_l2: float | str = param(default="auto", rule=number(0) | one_of("auto"))
    fit_intercept: bool = param(default=True, rule=FLAG)
    n_epochs: int | str = param(default="auto", rule=whole() | one_of("auto"))
    batch_size: int | str = param(default="auto", rule=whole() | one_of("auto"))
    alternate: tuple[int, int] | None = param(default=None, rule=several(whole()) | NONE)
    early_stopping: bool = param(default=False, rule=FLAG)
    validation_fraction: float = param(default=0.1, rule=number(1e-6, 0.5))
    n_iter_no_change: int = param(default=20, rule=whole())
    checkpoint: str | None = param(default=None, rule=FOLDER)
    checkpoint_every: int = param(default=200, rule=whole())
    n_jobs: int | None = param(default=-1, rule=JOBS)
    random_state: RandomState = param(default=0, rule=SEED)

    def _check_together(self) -> None:
        """Raise InputError for parameters that do not go together."""
        count_learned(self.phase, int(self.n_components))
        pair = isinstance(self.alternate, (tuple, list)) and len(self.alternate) == 2  # a spec holds no arrays
        if self.alternate is not None and not (pair and self.alpha > 0):
            raise InputError(
                "alternate=(T1, T2) are batches of w, of length 1 / (alpha t), and of Theta; a pair, and alpha > 0; got "
                f"alternate={self.alternate!r}, alpha={self.alpha!r}"
            )
        kernel = get_kernel(self.kernel, Kernel, vars(self))
        if self.structure == "circulant" and kernel.radii(0, 0, 1) is not None:
            raise InputError(
                "structure='circulant' starts from circulant blocks alone, of a kernel whose weight rows have no radii, got "
                f"kernel={kernel.name!r}; take structure='dense', or kernel='gaussian'"
            )

    def _learn(
        self, X: Any, y: Any, weight: Any, targets: Targets, loss_name: str, folds: GivenFolds | None
    ) -> tuple[Layout, np.ndarray]:
        """Learn the map together with a linear model, and set the fitted attributes of the map.

        folds : of which fold 0 is held out in place of drawn rows; None draws them

        Returns the vector of everything that is learned, after its layout.
        """
        self._check_together()
        epsilon: Any = getattr(self, "epsilon", "auto")
        loss = loss_of(loss_name, targets, epsilon)
        seed = draw_seed(self.random_state)
        rows = Rows.of(X, y, weight, folds)
        sample, y_sample, v, _ = rows.sample(min(SAMPLE, sum(rows.blocks)), seed)
        warn_if_far(sample)
        Y, v = targets.encode(y_sample, v)
        v = v if v is None or v.any() else None
        if epsilon == "auto":
            loss = with_epsilon(loss, Y, v)
        start = starting_map(self, X, seed)
        checkpoint = self._checkpoint(rows, targets, start, seed)
        rows = rows.holding_out(self.validation_fraction if self.early_stopping else 0.0, seed)
        spreads, unit = (np.ones(targets.width), 1.0) if targets.classes is not None else _units(loss, y_sample)
        layout = Layout(self._map(X.shape[1], start.seed), targets.width, bool(self.fit_intercept))
        work = CompactWork(targets, loss, 0.0, seed, layout=layout)
        p = self._train(rows, work, start, sample, checkpoint, spreads, unit)
        features = CosineFeatures(layout, p, sample.dtype)
        scores = features.scores(features.forward(sample)[0])
        mean, null = (float(np.average(loss(S, Y)[0], weights=v)) for S in (scores, np.zeros_like(Y)))
        if not mean <= 1.01 * null + 0.01 * unit:
            warnings.warn(
                f"the map and its linear model were learned to a loss of {mean:.3g}, and a constant has {null:.3g}: steps are too "
                "long, or too few; scale the rows, or take more epochs",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._keep(layout, p)
        return layout, p

    def _learn_kernel(self, X: Any, weight: Any) -> None:
        """Learn the map without a linear model, from pairs of sampled rows (Yu et al. 2015, Section 5)."""
        self._check_together()
        seed, n = draw_seed(self.random_state), X.shape[0]
        whole = Rows.of(X, np.zeros(n), weight)
        size = min(pair_rows(X.shape[1]), n)
        sample, _, sample_weight, _ = whole.sample(size, seed)
        warn_if_far(sample[:SAMPLE])
        start = starting_map(self, X, seed)
        unit = 1.0 if sample_weight is None else weight_unit(float(sample_weight.mean()))
        mean = 1.0 if sample_weight is None else float(sample_weight.mean()) / unit
        targets = Targets(None, np.zeros(1), weight_unit=unit, mean_weight=mean)
        checkpoint = self._checkpoint(whole, targets, start, seed)
        missing = len(sampled_rows(n, size, seed, "sgd sample")) - len(sample)
        if missing:
            raise InputError(f"X must be finite, but {missing} sampled rows are not; impute or drop such rows")
        none: Any = None
        map_ = replace(self._map(X.shape[1], start.seed), kernel=start.kernel, length_scale=start.length_scale)
        work = KernelWork(targets, none, 0.0, seed, layout=Layout(map_, 0, False))
        rows = Rows.of(sample, np.zeros(len(sample)), sample_weight)
        p = self._train(rows, work, start, sample[:SAMPLE], checkpoint, np.ones(0), 1.0)
        self._keep(work.layout, p)

    def _checkpoint(self, rows: Rows, targets: Targets, start: FourierMap, seed: int) -> Checkpoint:
        def job() -> dict[str, Any]:
            known: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
            options = {name: value for name, value in known.items() if name not in _FREE}
            return options | {"kind": "learned map", "start": start.spec()}

        return open_checkpoint(self.checkpoint, job, rows, targets, seed)

    def _train(
        self,
        rows: Rows,
        work: CompactWork | KernelWork,
        start: FourierMap,
        sample: np.ndarray,
        checkpoint: Checkpoint,
        spreads: np.ndarray,
        unit: float,
    ) -> np.ndarray:
        """Train from the start or the checkpoint, set the attributes that describe training, and return the vector.

        sample : rows by which steps are set; spreads, unit : standard deviations of the targets, and the unit of the loss
        """
        trained = rows.trained
        usable = sum(trained)
        schedule = Schedule(trained, learning_batch_size(self.batch_size, usable), rows.block_bytes, work.seed)
        n_epochs = learning_epochs(self.n_epochs, schedule.count(0))
        prior = unit * start.length_scale**2 / max(usable, 1) if work.layout.n_outputs else 0.0
        optimizer = self._optimizer(
            work.layout, reach(sample), schedule.count(0) * n_epochs, spreads, unit, prior
        )
        validates = usable < sum(rows.blocks)
        rules = Rules(n_epochs, 0.0 if validates else None, int(self.n_iter_no_change), validates)
        trainer = Trainer(
            rows.batches(work), schedule, optimizer, optimizer.start(start_parameters(work.layout, start)), rules,
            work.targets.mean_weight, rows, validates, checkpoint=checkpoint, every=int(self.checkpoint_every),
        )  # fmt: skip
        trainer.resume()
        try:
            trainer.run()
        finally:
            trainer.batches.close()
        self.length_scale_ = start.length_scale
        self.history_ = trainer.training.history
        self.n_iter_ = len(self.history_)
        self.t_ = trainer.state.t
        self.best_epoch_ = trainer.epoch_of_solution
        self.batch_size_ = trainer.schedule.batch_size
        return trainer.solution

    def _optimizer(
        self, layout: Layout, reach: float, batches: int, spreads: np.ndarray, unit: float, prior: float
    ) -> MapOptimizer:
        """The optimizer, with the length of steps set from the rows.

        batches : of all epochs; prior : the value of theta_l2="auto"
        """
        D = layout.map.n_components
        rates = np.zeros(layout.size)
        first = layout.split(rates)
        first.theta[:], first.b[:] = _PHASE_STEP / reach, _PHASE_STEP
        first.w[:] = _SCORE_STEP * spreads / np.sqrt(D)
        if layout.intercept:
            first.c[:] = _SCORE_STEP * spreads / D
        return MapOptimizer(
            layout,
            rates,
            batches,
            (unit, unit / float(spreads.min(initial=np.inf))),
            float(self.alpha),
            prior if self.theta_l2 == "auto" else float(self.theta_l2),
            _MOST_PHASE / reach,
            self.alternate if layout.n_outputs else None,
        )

    def _map(self, d: int, seed: int = 0) -> LearnedFourierMap:
        """The map of d columns, not learned."""
        return LearnedFourierMap(d, int(self.n_components), self.phase, self.structure, seed)

    def _keep(self, layout: Layout, p: np.ndarray) -> None:
        """Set `map_` to that of the vector p."""
        learned = layout.split(p)
        offsets = (learned.b / (2.0 * np.pi)) % 1.0 if len(learned.b) else None
        self.map_: FeatureMap = replace(layout.map, frequencies=learned.theta.copy(), offsets=offsets)


def _units(loss: Loss, y: np.ndarray) -> tuple[np.ndarray, float]:
    """The standard deviations of the targets, and the unit of the loss, in which theta_l2="auto" is measured.

    That is twice the loss of a residual of one standard deviation; of several targets, the smallest one.
    """
    spreads = np.std(float_columns(y), axis=0)
    spreads = np.where(spreads > 0, spreads, spreads.max() or 1.0)
    return spreads, 2.0 * float(loss(np.zeros((1, 1)), np.full((1, 1), spreads.min()))[0][0]) or 1.0


class CompactModel(MapLearner, LinearModel):
    """Base of the classifier and the regressor, which document the parameters."""

    loss: str

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, folds: ArrayLike | None = None
    ) -> Self:
        """Learn the map and the linear model from rows and labels, or numbers.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : array or Dask array of shape (n,) or (n, C)
            Labels of a classifier: numbers or text, shape (n,). Numbers of a regressor, one or C for each row.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.
        folds : array or Dask array of shape (n,) of int, default=None
            Fold of each row, from 0 on; -1 for rows that are never held out (as scikit-learn's PredefinedSplit). With
            `early_stopping` the rows of fold 0 are held out, whatever `validation_fraction` is. None draws them.

        Returns
        -------
        Self
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, or the data do: NaN or infinity, another length of y, text for
            numbers.
        SpecMismatchError
            The checkpoint belongs to another fit.
        """
        X, y, weight = validate_fit(self, X, y, sample_weight, numeric=is_regressor(self))
        targets = self._encoded(y, weight)
        layout, p = self._learn(X, y, weight, targets, self.loss, given_folds(X, folds))
        learned = layout.split(p)
        self.coef_ = np.ascontiguousarray(learned.w.T)
        self.intercept_ = (learned.c if len(learned.c) else np.zeros(targets.width)) + targets.centre
        self._finish(targets, y.ndim == 1)
        return self

    def planned_costs(self, rows: PlannedRows) -> Costs:
        check_parameters(self)
        self._check_together()
        written = 8 * int(self.n_components) * (rows.d + rows.outputs)
        return Costs((target_phase(rows.n, rows.blocks),), written) + planned_learning(self, rows)

    def _features(self, X: Any) -> Any:
        if not is_dask_collection(X):
            return apply_map(self.map_, X, self.n_jobs)
        return map_features(self.map_, X)
