"""Search of map parameters and penalty: a race over a grid, judged on one sample.

Successive halving (Jamieson & Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS
2016) with rows as the budget: every candidate is fitted to a few rows, the best third to three times as many, and so on. The
same held-out rows judge all.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import is_classifier

from .errors import InputError
from .execution.labelled import plain_rows
from .execution.memory import check_client
from .features.length_scale import resolve_length_scale
from .kernels.base import kernel_with
from .kernels.shift_invariant import KERNELS, Kernel
from .parameters import ruled, whole
from .pipeline.making import can_judge, units_tried
from .pipeline.options import Options
from .pipeline.race import Candidate, Race
from .pipeline.sample import as_rows, as_targets, read_sample, weigh_classes
from .ridge.alphas import SEVERAL, given_alphas
from .splits import SPLIT, make_split
from .store.csv_format import reads_csv

__all__ = ["Trial", "Tuned", "tune"]

#: Rows of the smallest sample, unless there are fewer; a level has so many times the rows of the one before, and candidates less.
_FEWEST_ROWS, _FACTOR = 500, 3
#: What a length-scale rule is multiplied by.
FACTORS = tuple(2.0**k for k in (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5))


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
    score : float
        R^2, or of labels the negative log loss, on the held-out rows with that alpha.
    seconds : float
        Of the whole trial.
    ahead : bool
        Whether the candidate went on to the next level, or won.
    """

    level: int
    rows: int
    parameters: dict[str, Any]
    alpha: float
    score: float
    seconds: float
    ahead: bool = False


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
        What the scores are: "negative log loss" or "R²".
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
        best, *trials = ({**vars(trial), "level": trial.level + 1} for trial in (self.best, *self.trials))
        plain = {name: getattr(self, name) for name in ("metric", "validation_rows", "split", "notes")}
        return {"best": best, "trials": trials, **plain}

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
@ruled(n_rows=whole(20), random_state=whole(0), split=SPLIT)
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
    n_rows: int = 6_000,
    random_state: int = 0,
    on_level: Callable[[int, int, int], None] | None = None,
    on_trial: Callable[[Trial], None] | None = None,
) -> Tuned:
    """Search every combination of map parameters, and all penalties of each, by a race of ridge fits.

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
        The unfitted linear model that is to be trained; candidates are judged by ridge, of which alpha means the same.
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
    n_rows : int, default=6000
        Rows of the sample, at least 20, of which a quarter is held out, or of few rows each is once.
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
        There are no candidates, rows are not finite or fewer than 20, all targets are equal, or a parameter breaks its rule.
    MemoryPlanError
        A trial does not fit into memory.
    """
    SEVERAL.check("alphas", alphas)
    values, labels = given_alphas(alphas) or [], is_classifier(model)
    if not all(len(tried) for tried in parameters.values()):
        raise InputError(f"tune needs at least one value for each parameter, got {dict(parameters)}")
    X, weight = as_rows(X), plain_rows(sample_weight, "sample_weight")
    y = as_targets(X, y)
    made = make_split(split, X, y, by, labels=labels, seed=random_state)
    sample = read_sample(X, y, random_state, weight, split=made, most=n_rows)
    if len(sample.y) < 20 or not can_judge(sample):
        raise InputError(
            f"tune needs at least 20 rows of positive weight, and targets that differ, got {len(sample.y)} rows in its sample"
        )
    sample = weigh_classes(sample, getattr(model, "class_weight", None))
    tried_units = units_tried(sample, Options(scale=scale), map, labels)
    race = Race(sample, labels, random_state, tried_units, map, joined=False)
    units = race.best_units() if len(race.units) > 1 else next(iter(race.units))
    searched = {
        name: _around(tried, map, name, race.units[units], random_state)
        if isinstance(tried, str)
        else list(tried)
        for name, tried in parameters.items()
    }
    points = [dict(zip(searched, point, strict=True)) for point in itertools.product(*searched.values())]
    candidates = [Candidate(units, map is not None, more=point) for point in points]
    trials = _halving(race, candidates, values, on_level, on_trial)
    best = next(t for t in reversed(trials) if t.ahead)
    metric, how = "negative log loss" if labels else "R²", None if made is None else f"{made.kind}: {made.why}"
    return Tuned(best, trials, values, sample.judged, metric, searched, tried_units[units], how)


def _halving(
    race: Race,
    candidates: list[Candidate],
    alphas: list[float],
    on_level: Callable[[int, int, int], None] | None,
    on_trial: Callable[[Trial], None] | None,
) -> list[Trial]:
    """All trials in their order, level by level; `ahead` are those that go on, and the winner."""
    n, constant, trials = len(race.sample.splits[0][0]), race.constant().loss or 1.0, list[Trial]()
    for c in candidates:
        D = int(c.more.get("n_components", getattr(race.map_, "n_components", None) or 1))
        check_client(12 * len(race.sample.y) * D + 16 * min(n, D) ** 2, "tune")
    sizes = level_sizes(len(candidates), n, _FACTOR)
    for level, rows in enumerate(sizes):
        if on_level is not None:
            on_level(level, len(candidates), rows)
        done, last = list[Trial](), level + 1 == len(sizes)
        for candidate in candidates:
            started = time.perf_counter()
            found = race.judge(candidate, rows, None, alphas, 5 if last else 1)
            score = -found.loss if race.labels else 1.0 - found.loss / constant
            seconds = round(time.perf_counter() - started, 3)
            done.append(Trial(level, rows, dict(candidate.more), found.alpha, score, seconds))
            if on_trial is not None:
                on_trial(done[-1])
        order = sorted(range(len(done)), key=lambda i: -done[i].score)
        ahead = sorted(order[: 1 if last else -(-len(done) // _FACTOR)])
        trials += [replace(trial, ahead=i in ahead) for i, trial in enumerate(done)]
        candidates = [candidates[i] for i in ahead]
    return trials


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
