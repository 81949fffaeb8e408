"""Search of map parameters and penalty: a race over a grid, judged on one sample.

Successive halving (Jamieson & Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS
2016) with rows as the budget: every candidate is fitted to a few rows, the best third to three times as many, and so on. The
same held-out rows judge all.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline

from .errors import InputError
from .execution.labelled import plain_rows
from .execution.memory import check_client
from .kernels.base import kernel_with
from .kernels.shift_invariant import KERNELS, Kernel
from .maps.rules import resolve_length_scale
from .parameters import COLUMNS, FLAG, SEED, Rule, ruled, whole
from .pipeline.making import can_judge, short_race, units_tried
from .pipeline.options import Options, choose_learner, split_for, unfitted_map
from .pipeline.race import Candidate, Race
from .pipeline.rows import Rows, open_training, rows_with_target
from .pipeline.sample import Sample, as_rows, as_targets, read_sample, see_target, wants_labels, weigh_classes
from .pipeline.settings import checked, owner_of, read
from .pipeline.target import tell_apart
from .pipeline.training import Outputs, train
from .randomness import draw_seed
from .ridge.alphas import ALPHA
from .splits import SPLIT
from .store.csv_format import reads_csv

__all__ = ["Trial", "Tuned", "tune"]

#: Rows of the smallest sample, unless there are fewer; a level has so many times the rows of the one before, and candidates less.
_FEWEST_ROWS, _FACTOR = 500, 3
#: What is searched of what is not said.
_ALPHAS, _SIZES = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3), (1024, 4096)
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

    def __str__(self) -> str:
        values = ", ".join(
            f"{name} {value}" for name, value in {**self.parameters, "alpha": self.alpha}.items()
        )
        return f"{values}: score {self.score:.4f}, {self.seconds:.2f} s"


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
    units : str
        Scaling, or encoding of the numbers of a table, that the rows went through.
    split : str, optional
        How rows were held out, in words; None is at random.
    model : Pipeline
        The best, trained on all rows.
    """

    best: Trial
    trials: list[Trial]
    alphas: list[float]
    validation_rows: int
    metric: str
    parameters: dict[str, list[Any]]
    units: str
    split: str | None
    model: Pipeline

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; levels count from 1."""
        best, *trials = ({**vars(trial), "level": trial.level + 1} for trial in (self.best, *self.trials))
        plain = {name: getattr(self, name) for name in ("metric", "validation_rows", "units", "split", "notes")}
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
@ruled(
    n_rows=whole(20), random_state=SEED, split=SPLIT, columns=COLUMNS, drop_missing_target=FLAG, overwrite=FLAG
)  # fmt: skip
def tune(
    X: Any,
    y: Any = None,
    *,
    target: str | None = None,
    sample_weight: Any = None,
    columns: Sequence[Any] | None = None,
    kinds: Mapping[str, str] | None = None,
    drop_missing_target: bool = False,
    split: str = "random",
    by: Any = None,
    grid: Mapping[str, Any] | None = None,
    n_rows: int = 6_000,
    model: Any = "auto",
    map: Any = "auto",
    scale: Any = "auto",
    n_components: int | str | None = "auto",
    alpha: Any = "auto",
    set: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    random_state: Any = 0,
    say: Callable[[str], None] | None = None,
) -> Tuned:
    """Search every combination of values of a map's parameters, and all penalties of each, and train the best on all rows.

    A race of ridge fits on one sample judges them: alpha means the same for every linear model.

    Parameters
    ----------
    X : {array, CSR matrix, Dask array} of shape (n, d), a table, or the path of a store
        As of `distrf.train`, and so are all but `grid`, `n_rows` and `say`. At most `n_rows` rows are read for the search.
    y : array or Dask array of shape (n,) or (n, C), or None, default=None
        Targets.
    target : str or None, default=None
        The column, or array, that holds the targets.
    sample_weight : array or Dask array of shape (n,), str or None, default=None
        Weight of each row, by which candidates are fitted and judged.
    columns : sequence or None, default=None
        Columns that are read.
    kinds : mapping of str to str or None, default=None
        What columns of a table are.
    drop_missing_target : bool, default=False
        Leave out the rows of a table that have no `target`.
    split : {"random", "stratified", "group", "time", "blocks"}, default="random"
        How rows are held out.
    by : str, array or Dask array of shape (n,), default=None
        The group or the time of each row.
    grid : mapping of str to list or str, or None, default=None
        Values of parameters of the map by name ("length_scale", "base__gamma"), as in scikit-learn's grid search, and of
        "alpha"; a text stands for values between commas. What is neither there nor set is searched: penalties from 1e-8 to
        1e-3, 1,024 and 4,096 features, and length scales around their rule: its number on these rows, times 0.35, 0.5, 0.71,
        1, 1.4, 2 and 2.8.
    n_rows : int, default=6000
        Rows of the sample, at least 20, of which a quarter is held out, or of few rows each is once.
    model : str or estimator, default="auto"
        The model that is trained.
    map : str, estimator or None, default="auto"
        "auto" is Fourier features.
    scale : str, StreamingScaler or None, default="auto"
        Units of the columns.
    n_components : int, str or None, default="auto"
        Number of features.
    alpha : float, list of float or "auto", default="auto"
        Penalties that are searched.
    set : mapping of str to object or None, default=None
        Other parameters of these steps.
    out : str, PathLike or None, default=None
        Folder or URL to save the model to.
    overwrite : bool, default=False
        Replace what is in `out`.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sample, the map and the model. The result depends on nothing else but the arguments.
    say : callable or None, default=None
        Called with a line about each level and each trial.

    Returns
    -------
    Tuned
        All trials, the best of the last level, and the fitted `model`.

    Raises
    ------
    InputError
        There are no candidates, rows are not finite or fewer than 20, all targets are equal, or a parameter breaks its rule.
    MemoryPlanError
        A trial does not fit into memory.
    """
    options = Options(model, map, scale, n_components, alpha, set, draw_seed(random_state))
    rows = X
    if not isinstance(X, Rows):
        rows = open_training(
            X, y, target=target, sample_weight=sample_weight, columns=columns, kinds=kinds, numbers=options.numbers,
            drop_missing_target=drop_missing_target, split=split, by=by,
        )  # fmt: skip
    options = options.with_encoder(rows.encoder)
    Outputs(None if out is None else os.fspath(out), overwrite=overwrite).check_places(rows.path)
    learner, sample, how = _look(rows, options, n_rows)
    labels, seed = is_classifier(learner), options.random_state
    map_ = unfitted_map(options, labels, seed)
    parameters, alphas = _searched(options, map_, dict(grid or {}), rows)
    tried = units_tried(sample, options, map_, labels)
    race = Race(sample, labels, seed, tried, map_, joined=False)
    units = race.best_units() if len(race.units) > 1 else next(iter(race.units))
    values = {
        name: _around(found, map_, name, race.units[units], seed) if isinstance(found, str) else found
        for name, found in parameters.items()
    }
    points = [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]
    trials = _halving(
        race, [Candidate(units, map_ is not None, more=p) for p in points], alphas, say or (lambda line: None)
    )
    best = next(t for t in reversed(trials) if t.ahead)
    more = {name: value for name, value in (set or {}).items() if name.startswith("table__")}
    fitted = train(
        rows, model=learner.set_params(alpha=best.alpha), map=map_ and map_.set_params(**best.parameters),
        scale="auto" if rows.encoder else tried[units], n_components=None, random_state=seed,
        set=more | ({"table__numbers": units} if rows.encoder else {}), out=out, overwrite=overwrite,
    )  # fmt: skip
    metric = "negative log loss" if labels else "R²"
    return Tuned(best, trials, alphas, sample.judged, metric, values, units, how, fitted)


def _look(rows: Rows, options: Options, n_rows: int) -> tuple[Any, Sample, str | None]:
    """The unfitted model for the target of rows, the sample that judges, and in words how rows are held out."""
    if rows.y is None:
        rows_with_target(rows, "training")  # which says what to do
    seed, X = options.random_state, as_rows(rows.X)
    y, _, target = see_target(plain_rows(rows.y, "y"), seed, options.model, rows.seen)
    y, weight = as_targets(X, y), plain_rows(rows.weights, "sample_weight")
    split = split_for(X, y, options, target=target, **rows.held)
    sample = read_sample(X, y, seed, weight, rows.encoder is not None, split, n_rows)
    if len(sample.y) < 20 or not can_judge(sample):
        raise InputError(
            f"tune needs at least 20 rows of positive weight, and targets that differ, got {len(sample.y)} rows in its sample"
        )
    if target.either and wants_labels(options.model) is None and rows.split != "stratified":
        target = tell_apart(target, partial(short_race, sample, options), sample.judged)
    learner = choose_learner(options, target)[0]
    how = None if split is None else f"{split.kind}: {split.why}"
    return learner, weigh_classes(sample, getattr(learner, "class_weight", None)), how


def _searched(
    options: Options, map_: Any, grid: dict[str, Any], rows: Rows
) -> tuple[dict[str, Any], list[float]]:
    """The values of parameters of a map, or a rule for its length scale, and the alphas, that are tried.

    Raises for values that the map, or these rows, do not take.
    """

    def several(name: str, given: Any, rule: Rule) -> list[Any]:
        given = read(given) if isinstance(given, str) and given[:1] in ("[", "{") else given
        parts = given.split(",") if isinstance(given, str) else getattr(given, "tolist", lambda: given)()
        parts = list(parts) if isinstance(parts, (list, tuple, range)) else [parts]
        if not parts:
            raise InputError(f"tune needs at least one value for each parameter, got {name}={given!r}")
        return [checked(name, part.strip() if isinstance(part, str) else part, rule) for part in parts]

    found: dict[str, Any] = {}
    usual = _ALPHAS if isinstance(options.alpha, str) and options.alpha == "auto" else options.alpha
    alphas = several("alpha", grid.pop("alpha", usual), ALPHA)
    for name, given in grid.items():
        if map_ is None:
            raise InputError(f"grid= has alpha alone where map='none', got {name!r}")
        parameter = name.removeprefix("map__")
        owner, last = owner_of(map_, parameter, "map")
        found[parameter] = several(name, given, owner.parameter_rules[last])
    if map_ is not None:
        if options.n_components == "auto" and "n_components" in map_.parameter_rules:
            found.setdefault("n_components", list(_SIZES))
        scale = map_.scale_parameter()
        if scale is not None and found.keys().isdisjoint((scale, scale.replace("length_scale", "gamma"))):
            value = map_.get_params()[scale]
            found[scale] = value if isinstance(value, str) else [value]
        for size in found.get("n_components", ()) if rows.encoder is None else ():
            clone(map_).set_params(n_components=size).planned_map(rows.d)  # too large, before anything runs
    return found, alphas


def _halving(
    race: Race, candidates: list[Candidate], alphas: list[float], say: Callable[[str], None]
) -> list[Trial]:
    """All trials in their order, level by level; `ahead` are those that go on, and the winner."""
    n, constant, trials = len(race.sample.splits[0][0]), race.constant().loss or 1.0, list[Trial]()
    for c in candidates:
        D = int(c.more.get("n_components", getattr(race.map_, "n_components", None) or 1))
        check_client(12 * len(race.sample.y) * D + 16 * min(n, D) ** 2, "tune")
    sizes = level_sizes(len(candidates), n, _FACTOR)
    for level, rows in enumerate(sizes):
        say(f"level {level + 1}: {len(candidates)} candidates on {rows:,} rows")
        done, last = list[Trial](), level + 1 == len(sizes)
        for candidate in candidates:
            started = time.perf_counter()
            found = race.judge(candidate, rows, None, alphas, 5 if last else 1)
            score = -found.loss if race.labels else 1.0 - found.loss / constant
            seconds = round(time.perf_counter() - started, 3)
            done.append(Trial(level, rows, dict(candidate.more), found.alpha, score, seconds))
            say(f"  {done[-1]}")
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
