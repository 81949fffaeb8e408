"""Search of map parameters and penalty by successive halving on growing row samples.

Jamieson & Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization" (AISTATS 2016), with
rows as the budget: every candidate is fitted to a small seeded sample, the best third to three times as many rows,
and so on. All samples are judged by the same held-out rows.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import dask
import numpy as np
from dask.base import is_dask_collection
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

from .errors import InputError, first_not_finite
from .execution.labelled import plain_rows
from .execution.memory import PassMemory, Workers
from .execution.sampling import sampled_rows, take_rows
from .execution.scheduler import computed, current_client
from .execution.worker_checks import able_workers
from .features.length_scale import resolve_length_scale
from .kernels.base import kernel_with
from .kernels.shift_invariant import KERNELS, Kernel
from .maps import working_dtype
from .parameters import ruled, whole
from .pipeline.making import scaler_for_map
from .pipeline.sample import as_rows
from .randomness import permutation
from .ridge.alphas import SEVERAL, given_alphas
from .ridge.path import BLOCK_ROWS, path_bytes, ridge_path
from .splits import SPLIT, Split, make_split
from .store.csv_format import reads_csv
from .targets import Targets, as_columns, checked_weights, class_targets, r2_of_sums, regression_targets

__all__ = ["Trial", "Tuned", "tune"]

#: Rows of the smallest sample, unless there are fewer, and of the validation set at most.
_FEWEST_ROWS = 1_000
_MOST_VALIDATION = 10_000
#: What a length-scale rule is multiplied by.
FACTORS = tuple(2.0**k for k in (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5))
#: Bytes of the sample, which is held in memory.
_SAMPLE_BYTES = 2**30


@dataclass(frozen=True)
class Trial:
    """One candidate on one sample.

    Attributes
    ----------
    level : int
        0 for the smallest sample.
    rows : int
        Training rows.
    parameters : dict
        Of the map.
    alpha : float
        The best of those tried.
    score, error : float
        Accuracy or R^2, and mean squared error, on the held-out rows with that alpha.
    scores : tuple of float
        The score of every alpha.
    seconds : float
        Of the whole trial.
    kept : bool
        Whether the candidate went on to the next level, or won.
    """

    level: int
    rows: int
    parameters: dict[str, Any]
    alpha: float
    score: float
    error: float
    scores: tuple[float, ...]
    seconds: float
    kept: bool = False


@dataclass(frozen=True)
class Tuned:
    """The winner, and everything that was tried.

    Attributes
    ----------
    best : Trial
        The winner.
    trials : list of Trial
        All trials, in their order.
    alphas : list of float
        Penalties that were tried.
    validation_rows : int
        Held-out rows, by which every trial was judged.
    metric : str
        What the scores are: "accuracy" or "R²".
    parameters : dict of str to list
        What was searched. A rule stands there as its numbers.
    scaler : StreamingScaler, optional
        Unfitted: what the rows went through.
    split : str, optional
        How rows were held out, in words; None is at random.
    """

    best: Trial
    trials: list[Trial]
    alphas: list[float]
    validation_rows: int
    metric: str
    parameters: dict[str, list[Any]]
    scaler: Any = None
    split: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; levels count from 1."""

        def plain(trial: Trial) -> dict[str, Any]:
            scores = {str(a): s for a, s in zip(self.alphas, trial.scores, strict=True)}
            return {**vars(trial), "level": trial.level + 1, "scores": scores}

        return {
            "best": plain(self.best),
            "trials": [plain(trial) for trial in self.trials],
            "metric": self.metric,
            "validation_rows": self.validation_rows,
            "split": self.split,
            "notes": self.notes,
        }

    @property
    def notes(self) -> list[str]:
        """Says which best values are the smallest or the largest that were tried: better ones may lie beyond."""
        best_values = {**self.best.parameters, "alpha": self.best.alpha}
        notes = []
        for name, values in {**self.parameters, "alpha": self.alphas}.items():
            value = best_values[name]
            if name != "n_components" and len(values) > 2 and value in (min(values), max(values)):
                end = "smallest" if value == min(values) else "largest"
                words = name.removeprefix("base__").replace("_", " ")
                notes.append(f"{words} {value:g} is the {end} that was tried; better ones may lie beyond")
        return notes


@reads_csv
@ruled(n_rows=whole(20), factor=whole(2), random_state=whole(0), split=SPLIT)
def tune(
    X: Any,
    y: Any,
    map: Any,
    parameters: Mapping[str, Sequence[Any] | str],
    model: Any,
    alphas: Sequence[float],
    *,
    sample_weight: Any = None,
    split: str = "random",
    by: Any = None,
    scale: Any = None,
    n_rows: int = 20_000,
    factor: int = 3,
    random_state: int = 0,
    on_level: Callable[[int, int, int], None] | None = None,
    on_trial: Callable[[Trial], None] | None = None,
) -> Tuned:
    """Search every combination of map parameters, and all penalties of each, by successive halving.

    Parameters
    ----------
    X : array, CSR matrix or Dask array of shape (n, d)
        Rows; at most `n_rows` of them are read.
    y : array of shape (n,)
        Targets.
    map : estimator or None
        An unfitted feature estimator; None takes the columns as they are.
    parameters : dict of str to list or str
        Values of parameters of the map, as in scikit-learn's grid search. A rule in place of length scales
        ("knn") stands for its number on these rows, times 0.35, 0.5, 0.71, 1, 1.4, 2 and 2.8.
    model : estimator
        An unfitted StreamingRidge, StreamingRidgeClassifier or SGD model. Ridge makes one Gram matrix for all
        alphas; SGD trains once for each.
    alphas : list of float
        Penalties.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row, by which candidates are fitted and judged. Rows of weight 0 are left out.
    split : {"random", "stratified", "group", "time", "blocks"}, default="random"
        How rows are held out, as of `distrf.train`.
    by : array or Dask array of shape (n,), default=None
        Of "group" the group of each row, of "time" its time: numbers, text (groups) or dates.
    scale : str, StreamingScaler or None, default=None
        As in `distrf.make_model`; the rows are scaled first.
    n_rows : int, default=20000
        Rows of the largest sample, at least 20, a fifth of which (at most 10,000) is held out.
    factor : int, default=3
        A level keeps one candidate in so many, at least 2, and the next has that many times the rows.
    random_state : int, default=0
        Seed of the sample. The result depends on nothing else but the arguments.
    on_level : callable or None, default=None
        Called with (level, candidates, rows) before a level.
    on_trial : callable or None, default=None
        Called with each trial when it is done.

    Returns
    -------
    Tuned
        All trials, and the best of the last level.

    Raises
    ------
    InputError
        There are no candidates, rows are not finite or fewer than 20, or a parameter breaks its rule.
    MemoryPlanError
        A trial does not fit a worker.
    """
    SEVERAL.check("alphas", alphas)
    values = given_alphas(alphas) or []
    if not all(len(tried) for tried in parameters.values()):
        raise InputError(f"tune needs at least one value for each parameter, got {dict(parameters)}")
    X, y = as_rows(X), None if y is None else as_columns(y)
    weight = plain_rows(sample_weight, "sample_weight")
    scaler, labels = None, is_classifier(model)
    if y is None:
        raise InputError("tune needs targets, but y is None")
    made = make_split(split, X, y, by, labels=labels, seed=random_state)
    if scale is not None:
        scaler = scaler_for_map(X, y, labels, map, scale, random_state, weight, made)
    if scaler is not None:
        X = scaler.fit(X).transform(X)
    searched = {
        name: _around(tried, map, name, X, random_state) if isinstance(tried, str) else list(tried)
        for name, tried in parameters.items()
    }
    candidates = [dict(zip(searched, point, strict=True)) for point in itertools.product(*searched.values())]
    sample = read_sample(X, y, n_rows, random_state, weight, made)
    task = Task(map, model, values, sample.targets(model))
    with _quiet():  # of the threads of this process, which share their filters; a worker has its own
        trials = _halving(task, sample, candidates, factor, on_level, on_trial)
    best = next(t for t in reversed(trials) if t.kept)
    metric, how = "accuracy" if labels else "R²", None if made is None else f"{made.kind}: {made.why}"
    return Tuned(best, trials, values, len(sample.Xv), metric, searched, scaler, how)


def _halving(
    task: Task,
    sample: Sample,
    candidates: list[dict[str, Any]],
    factor: int,
    on_level: Callable[[int, int, int], None] | None,
    on_trial: Callable[[Trial], None] | None,
) -> list[Trial]:
    """Successive halving: all trials in their order, level by level; `kept` are those that go on, and the winner."""
    sizes = level_sizes(len(candidates), len(sample.X), factor)
    client = current_client()
    widest = max(task.memory(c, sample, max(sizes)) for c in candidates)
    workers = Workers.of_client(client)
    PassMemory(sample.nbytes, widest, 0, threads=workers.threads).check(workers, "tune")
    able = able_workers(workers.each, workers.memory_limit)
    trials: list[Trial] = []
    for level, rows in enumerate(sizes):
        if on_level is not None:
            on_level(level, len(candidates), rows)
        arrays, run = dask.delayed(sample.arrays, traverse=False), dask.delayed(run_trial)
        with dask.annotate(workers=[*able], allow_other_workers=True) if able else nullcontext():
            calls = [run(arrays, task, candidate, level, rows) for candidate in candidates]
        done: list[Trial] = list(computed(*calls))
        for trial in done:
            if on_trial is not None:
                on_trial(trial)
        survivors = _best(done, 1 if level + 1 == len(sizes) else -(-len(done) // factor))
        trials += [replace(trial, kept=i in survivors) for i, trial in enumerate(done)]
        candidates = [candidates[i] for i in sorted(survivors)]
    return trials


def _best(trials: list[Trial], count: int) -> set[int]:
    """Which trials of a level score best: of equal ones those of fewer squared errors, then the first."""
    order = sorted(range(len(trials)), key=lambda i: (-trials[i].score, trials[i].error))
    return set(order[:count])


def _around(rule: str, map: Any, name: str, X: Any, seed: int) -> list[float]:
    """Length scales around what a rule gives on the rows, rounded to four digits.

    For a kernel without a length scale it is that of the map alone.
    """
    owner = map if name == "length_scale" else map.base
    if not isinstance(owner.kernel, Kernel) and owner.kernel not in KERNELS:
        return [owner.length_scale]
    kernel = kernel_with(owner.kernel, owner.get_params(deep=False), Kernel)
    middle = resolve_length_scale(kernel, rule, None, X, seed)
    return [float(f"{middle * factor:.4g}") for factor in FACTORS]


def level_sizes(candidates: int, rows: int, factor: int) -> list[int]:
    """Training rows of each level, ascending.

    The last level has all rows and, unless there are few rows, at most `factor` candidates.
    """
    levels = 1
    while candidates > factor:
        candidates = -(-candidates // factor)
        levels += 1
    fewest = min(_FEWEST_ROWS, rows)
    return sorted({max(fewest, rows // factor ** (levels - 1 - i)) for i in range(levels)})


@dataclass(frozen=True)
class Sample:
    """Seeded rows in memory: training rows in random order, and the held-out ones."""

    X: np.ndarray
    y: np.ndarray
    Xv: np.ndarray
    yv: np.ndarray
    w: np.ndarray | None = None
    wv: np.ndarray | None = None

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {name: array for name, array in vars(self).items() if array is not None}

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    def targets(self, model: Any) -> Targets:
        y = np.concatenate([self.y, self.yv])
        weight = None if self.w is None or self.wv is None else np.concatenate([self.w, self.wv])
        if is_classifier(model):
            return class_targets(y, weight, model.class_weight)
        targets = regression_targets(y, weight)
        return targets if model.fit_intercept else replace(targets, centre=np.zeros_like(targets.centre))


def read_sample(
    X: Any, y: Any, n_rows: int, seed: int, weight: Any = None, split: Split | None = None, coded: bool = False
) -> Sample:
    """At most n_rows seeded rows, a fifth held out, or fold 0 of a split; `coded` ones may lack values. InputError as of `tune`."""
    n, d = X.shape
    if len(y.shape) != 1 or y.shape[0] != n:
        raise InputError(f"y of tune has shape (n,), one target for each row of X: got {y.shape} and {X.shape}")
    most = max(20, _SAMPLE_BYTES // (d * working_dtype(X.dtype).itemsize))
    rows = sampled_rows(n, int(min(n, n_rows, most)), seed, "tune")
    if len(rows) < 20:
        raise InputError(f"tune needs at least 20 rows, got {len(rows)}")
    order = permutation(seed, "tune order", 0, len(rows))
    X = take_rows(X, rows)[order]
    X = np.ascontiguousarray(X, dtype=working_dtype(X.dtype))
    y = take_rows(y[:, None], rows)[order, 0]
    folds = None if split is None else split.folds.take(rows)[order]
    w = None
    if weight is not None:
        weight = weight if is_dask_collection(weight) else np.asarray(weight)
        if weight.shape != (n,):
            raise InputError(f"sample_weight of tune has shape (n,), got {weight.shape} for {n} rows")
        w = checked_weights(take_rows(weight, rows), rows)[order]
        folds = None if folds is None else folds[w > 0]
        X, y, w = X[w > 0], y[w > 0], w[w > 0]
        if len(w) < 20:
            raise InputError(f"tune needs at least 20 rows of positive weight, got {len(w)} in its sample")
    for name, array in (("X", X), ("y", y))[coded:]:
        if first_not_finite(array):
            raise InputError(f"{name} must be finite, but a sampled row is not; impute or drop such rows")
    held: Any = slice(0, min(_MOST_VALIDATION, len(X) // 5))
    rest: Any = slice(held.stop, None)
    if folds is not None:
        held, rest = np.flatnonzero(folds == 0)[:_MOST_VALIDATION], np.flatnonzero(folds != 0)
        if not (len(held) and len(rest)):
            raise InputError(
                f"fold 0 is held out of the {len(X):,} rows of tune, and has {len(held):,} of them; take larger n_rows, or "
                "another split"
            )
    weights = () if w is None else (w[rest], w[held])
    return Sample(X[rest], y[rest], X[held], y[held], *weights)


@dataclass(frozen=True)
class Task:
    """What the trials of a search share, but for the rows."""

    map: Any
    model: Any
    alphas: list[float]
    targets: Targets = field(repr=False)

    def estimator(self, parameters: Mapping[str, Any]) -> Any:
        """The unfitted map of a candidate, on one core; None where the columns stand for themselves."""
        if self.map is None:
            return None
        map_ = clone(self.map).set_params(**parameters)
        return map_.set_params(n_jobs=1) if "n_jobs" in map_.get_params(deep=False) else map_

    @property
    def ridge(self) -> bool:
        return hasattr(self.model, "compares_alphas")

    def memory(self, parameters: Mapping[str, Any], sample: Sample, rows: int) -> int:
        """Bytes of a trial beside the sample."""
        map_ = self.estimator(parameters)
        d = sample.X.shape[1]
        D = int(getattr(map_, "n_components", None) or d)
        itemsize = sample.X.dtype.itemsize
        if self.ridge:
            return path_bytes(rows, D, self.targets.width, len(self.alphas), itemsize)
        return 3 * rows * D * itemsize


def run_trial(
    arrays: dict[str, np.ndarray], task: Task, parameters: Mapping[str, Any], level: int, rows: int
) -> Trial:
    """Fit a candidate to the first rows of the sample with every alpha; runs where the rows are."""
    started = time.perf_counter()
    X, y = arrays["X"][:rows], arrays["y"][:rows]
    weight = arrays["w"][:rows] if "w" in arrays else None
    estimator = task.estimator(parameters)
    if estimator is not None:
        estimator.fit(X, y)
    features = (lambda rows: rows) if estimator is None else estimator.transform
    solve = _ridge_weights if task.ridge else _sgd_weights
    weights = list(solve(task, features, X, y, weight))
    scores, errors = _judge(features, task.targets, weights, arrays["Xv"], arrays["yv"], arrays.get("wv"))
    best = min(range(len(scores)), key=lambda i: (-scores[i], errors[i]))
    return Trial(
        level, rows, dict(parameters), task.alphas[best], scores[best], errors[best], tuple(scores),
        round(time.perf_counter() - started, 3),
    )  # fmt: skip


@contextmanager
def _quiet() -> Iterator[None]:
    """No warning of a fit that does not converge: its score says what a candidate is worth."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _ridge_weights(
    task: Task, features: Any, X: np.ndarray, y: np.ndarray, weight: Any
) -> Iterable[tuple[Any, Any]]:
    D = features(X[:1]).shape[1]
    path = ridge_path(features, D, X, y, task.targets, task.alphas, task.model.fit_intercept, weight)
    return ((s.weights, s.intercept) for s in path)


def _sgd_weights(
    task: Task, features: Any, X: np.ndarray, y: np.ndarray, weight: Any
) -> Iterable[tuple[Any, Any]]:
    Z = features(X)
    for alpha in task.alphas:
        model = clone(task.model).set_params(alpha=alpha)
        if hasattr(model, "calibrate"):  # trials are judged by predictions
            model.set_params(calibrate=False)
        if is_classifier(model) and len(np.unique(y)) < len(task.targets.classes):  # type: ignore[arg-type]
            raise InputError(
                "the smallest sample of tune lacks a class; give more rows, or leave rare classes out"
            )
        with _quiet():
            model.fit(Z, y, sample_weight=weight)
        # `_judge` takes weights as ridge gives them: for centred targets.
        yield np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_) - task.targets.centre


def _judge(
    features: Any,
    targets: Targets,
    weights: Sequence[tuple[Any, Any]],
    X: np.ndarray,
    y: np.ndarray,
    sample_weight: np.ndarray | None = None,
) -> tuple[list[float], list[float]]:
    """(accuracy or R^2, mean squared error) of each solution on the held-out rows, all in one product."""
    W = np.hstack([w for w, _ in weights])
    b = np.concatenate([b for _, b in weights])
    A, C = len(weights), targets.width
    hits, squares = np.zeros(A), np.zeros((A, C))
    total, first, second = 0.0, np.zeros(C), np.zeros(C)
    for start in range(0, len(X), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        Z = features(X[rows])
        F = (np.asarray(Z @ W.astype(Z.dtype)) + b).reshape(-1, A, C)
        Y, weight = targets.encode(y[rows], None if sample_weight is None else sample_weight[rows])
        w = np.ones(len(Y)) if weight is None else weight
        total, first, second = total + w.sum(), first + w @ Y, second + w @ Y**2
        squares += np.einsum("i,iac->ac", w, (F - Y[:, None]) ** 2.0)
        if targets.classes is not None:
            right = (F > 0) == (Y[:, None] > 0) if C == 1 else F.argmax(axis=2) == Y.argmax(axis=1)[:, None]
            hits += w @ right.reshape(len(Y), A)
    errors = (squares.sum(axis=1) / (total * C)).tolist()
    if targets.classes is not None:
        return (hits / total).tolist(), errors
    spread = second - first**2 / total
    return np.mean(r2_of_sums(squares, spread, second), axis=1).tolist(), errors
