"""`tune`: the race of `train` at each point of a grid, on one sample; the best is trained on all rows."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from inspect import signature
from typing import Any

from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from .errors import InputError
from .execution.memory import check_client
from .parameters import FLAG, read, whole
from .pipeline.making import can_judge, look, prepare
from .pipeline.options import STEPS, Options, asked_scaler, choose_learner, unfitted_map
from .pipeline.rows import around_job, open_training
from .pipeline.training import Outputs, fit_prepared, job_of, train
from .randomness import draw_seed
from .store.csv_format import reads_csv

__all__ = ["Trial", "Tuned", "tune"]


@dataclass(frozen=True)
class Trial:
    """One point of the grid.

    Attributes
    ----------
    parameters : dict
        Its values.
    score : float
        R^2, or of labels the negative log loss, of the best of its race, on the held-out rows.
    seconds : float
        Of the race.
    """

    parameters: dict[str, Any]
    score: float
    seconds: float

    def __str__(self) -> str:
        values = ", ".join(f"{name} {value}" for name, value in self.parameters.items())
        return f"{values}: score {self.score:.4f}, {self.seconds:.2f} s"


@dataclass(frozen=True)
class Tuned:
    """The winner, and everything that was tried.

    Attributes
    ----------
    best : Trial
        The winner.
    trials : list of Trial
        All, in the order of the grid.
    metric : str
        What the scores are: "negative log loss" or "R²".
    judged : str
        By which rows, in words.
    model : Pipeline
        The best, trained on all rows.
    """

    best: Trial
    trials: list[Trial]
    metric: str
    judged: str
    model: Pipeline

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        plain = {"metric": self.metric, "judged": self.judged, "notes": self.notes}
        return {"best": vars(self.best), "trials": [vars(trial) for trial in self.trials], **plain}

    @property
    def notes(self) -> list[str]:
        """Says which best values are the smallest or the largest that were tried: better ones may lie beyond."""
        notes = []
        for name, best in self.best.parameters.items():
            values = [trial.parameters[name] for trial in self.trials]
            numbers = all(isinstance(value, (int, float)) for value in values)
            if numbers and len(set(values)) > 2 and best in (min(values), max(values)):
                end = "smallest" if best == min(values) else "largest"
                notes.append(f"{name} {best:g} is the {end} that was tried; better ones may lie beyond")
        return notes


@reads_csv
def tune(
    X: Any,
    y: Any = None,
    *,
    grid: Mapping[str, Any],
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    say: Callable[[str], None] | None = None,
    **options: Any,
) -> Tuned:
    """Try every combination of values of a grid by the race of `train`, all on the same sample, and train the best on all rows.

    What the grid does not name is chosen by each race for itself, as `train` chooses it. Ridge judges, whatever the model
    is: alpha means the same for every linear model.

    Parameters
    ----------
    X : {array, CSR matrix, Dask array} of shape (n, d), a table, or the path of a store
        As of `distrf.train`, and so is `y`.
    y : array or Dask array of shape (n,) or (n, C), or None, default=None
        Targets.
    grid : mapping of str to list or str
        Values of "alpha" and of parameters of the map by name ("n_components", "length_scale", "base__gamma"), as in
        scikit-learn's grid search, of a scaling ("scale__divisor") or a table ("table__numbers"); a text stands for values
        between commas.
    out : str, PathLike or None, default=None
        Folder or URL to save the model to.
    overwrite : bool, default=False
        Replace what is in `out`.
    say : callable or None, default=None
        Called with a line about each point.
    **options : dict
        Other options of `distrf.train`, but for `resume`.

    Returns
    -------
    Tuned
        All trials, the best, and the fitted `model`.

    Raises
    ------
    InputError
        The grid has no values, names what it cannot, or what an option says already; rows are not finite or too few to hold
        any out, all targets are equal, or a parameter breaks its rule.
    MemoryPlanError
        A trial does not fit into memory.
    """
    FLAG.check("overwrite", overwrite)
    for name in options.keys() - signature(train).parameters.keys() | options.keys() & {"resume"}:
        raise TypeError(f"tune() got an unexpected keyword argument {name!r}")
    start = time.perf_counter()
    options["random_state"] = seed = draw_seed(options.get("random_state", 0))
    of_model = {field.name: options.pop(field.name) for field in fields(Options) if field.name in options}
    asked = Options(**of_model)
    points = _points(grid, asked)
    rows = open_training(X, y, numbers=asked.numbers, **options)
    outputs = Outputs(None if out is None else os.fspath(out), overwrite=overwrite)
    outputs.check_places(rows.path)
    y, asked = rows.targets("training"), asked.with_encoder(rows.encoder)
    known = look(rows.X, y, asked, rows.weights, rows.held)
    sample, target = known.sample, known.target
    if not can_judge(sample):
        raise InputError(
            f"tune needs rows to hold out, and targets that differ, got {len(sample.y)} rows of positive weight in its sample"
        )
    made = [Options(**of_model | _options_of(of_model, point)).with_encoder(rows.encoder) for point in points]
    for one in made:  # what is wrong is found before anything runs
        asked_scaler(one)
        map_, n = unfitted_map(one, is_classifier(choose_learner(one, target)[0]), seed), len(sample.y)
        D = int(getattr(map_, "n_components", None) or 1)
        check_client(12 * n * D + 16 * min(n, D) ** 2, "tune")
    trials: list[Trial] = []
    with outputs.held(), around_job.get()("tune", None, rows):
        for point, one in zip(points, made, strict=True):
            started = time.perf_counter()
            prepared = prepare(known, one, as_asked=True)
            (judged,) = prepared[0].training_.baseline
            score = judged.chosen if judged.what == "R²" else -judged.chosen
            trials.append(Trial(point, score, round(time.perf_counter() - started, 3)))
            (say or str)(f"  {trials[-1]}")
            if max(trials, key=lambda trial: trial.score) is trials[-1]:
                best, winner = (*prepared, rows, y, outputs), one
        job = job_of(rows.description, winner) if outputs.out is not None else {}
        model = fit_prepared(*best, job, bool(options.get("drop_missing_target", False)), start)
    metric = "R²" if judged.what == "R²" else "negative log loss"
    return Tuned(max(trials, key=lambda trial: trial.score), trials, metric, judged.rows, model)


def _points(grid: Any, asked: Options) -> list[dict[str, Any]]:
    """Every combination of values. Raises InputError for what cannot be tried, or is an option already."""
    if not isinstance(grid, Mapping) or not grid:
        raise InputError(
            f"grid has values by name, {{'n_components': [1024, 4096]}}, got {grid!r}; what it does not name `train` chooses"
        )
    values: dict[str, list[Any]] = {}
    for name, given in grid.items():
        step, parameter = _step_of(name)
        if (step, parameter) in map(_step_of, values):
            raise InputError(f"{name} is in grid= by another name, too; leave one out")
        if step == "model" and parameter != "alpha":
            raise InputError(
                f"grid has alpha and parameters of the map, the scaling or the table, not {name!r}: ridge judges, whatever the model is"
            )
        if parameter in asked.of(step):
            raise InputError(
                f"{name} is in grid= and is {asked.of(step)[parameter]!r} by an option; leave one out"
            )
        values[name] = _values(given)
        if not values[name]:
            raise InputError(f"tune needs at least one value for each parameter, got {name}={given!r}")
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


def _values(given: Any) -> list[Any]:
    """What a list, an array, a range, or a text of values between commas, holds; one value alone."""
    given = read(given) if isinstance(given, str) and given[:1] in ("[", "{") else given
    given = given.split(",") if isinstance(given, str) else getattr(given, "tolist", lambda: given)()
    return [read(value, whole(0)) for value in (given if isinstance(given, (list, tuple, range)) else [given])]


def _step_of(name: str) -> tuple[str, str]:
    """The step, and its parameter, that a name in a grid is of: of the map where it names no step."""
    step, _, parameter = ("model__alpha" if name == "alpha" else str(name)).partition("__")
    return (step, parameter) if step in STEPS and parameter else ("map", str(name))


def _options_of(options: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a point: as `set` has them, but for alpha and n_components, which are options of their own."""
    own = {name: point[name] for name in ("alpha", "n_components") if name in point}
    of_steps = {"__".join(_step_of(name)): value for name, value in point.items() if name not in own}
    return own | {"set": {**(options.get("set") or {}), **of_steps}}
