"""`tune`: the race of `train` at each point of a grid, on one sample; the best is trained on all rows."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from .errors import InputError
from .execution.memory import check_client
from .parameters import FLAG, read, whole
from .pipeline.making import can_judge, look, prepare
from .pipeline.options import OWN, STEPS, Options, choose_learner, unfitted_map
from .pipeline.rows import around_job, open_training
from .pipeline.training import Outputs, fit_prepared, job_of
from .randomness import draw_seed
from .store.csv_format import reads_csv
from .store.outputs import hold

__all__ = ["Tuned", "tune"]

#: Options of their own, and the parameters of steps that they are.
_OWN = {name: full for full, name in OWN.items()}


@dataclass(frozen=True)
class Tuned:
    """The winner, and everything that was tried.

    Attributes
    ----------
    trials : list of dict
        All, in the order of the grid: the "parameters" of each, and its "score", R^2 or of labels the negative log loss, of the
        best of its race, on the held-out rows.
    best : dict
        The winner of them.
    metric : str
        What the scores are: "negative log loss" or "R²".
    judged : str
        By which rows, in words.
    model : Pipeline
        The best, trained on all rows.
    """

    trials: list[dict[str, Any]]
    metric: str
    judged: str
    model: Pipeline

    best = property(lambda self: max(self.trials, key=lambda trial: trial["score"]))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"best": self.best, "trials": self.trials, "metric": self.metric, "judged": self.judged}


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
        Values of "alpha" and "n_components", and of parameters of steps, as `set` of `distrf.train` names them:
        "map__length_scale", "scale__divisor", "table__numbers". A text stands for values between commas.
    out : str, PathLike or None, default=None
        Folder or URL to save the model to.
    overwrite : bool, default=False
        Replace what is in `out`.
    say : callable or None, default=None
        Called with a line about each point.
    {csv}
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
    start, seed = time.perf_counter(), draw_seed(options.pop("random_state", 0))
    of_model = {field.name: options.pop(field.name) for field in fields(Options) if field.name in options}
    of_model["random_state"] = seed
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
    made = [Options(**_at(point, of_model)).with_encoder(rows.encoder) for point in points]
    for one in made:  # what is wrong is found before anything runs
        map_, n = unfitted_map(one, is_classifier(choose_learner(one, target)[0]), seed), len(sample.y)
        D = int(getattr(map_, "n_components", None) or 1)
        check_client(12 * n * D + 16 * min(n, D) ** 2, "tune")
    trials: list[dict[str, Any]] = []
    with hold(outputs.out), around_job.get()("tune", None, rows):
        for point, one in zip(points, made, strict=True):
            prepared = prepare(known, one, as_asked=True)
            (judged,) = prepared[0].training_.baseline
            score = judged.chosen if judged.what == "R²" else -judged.chosen
            trials.append({"parameters": point, "score": score})
            said = ", ".join(f"{name} {value}" for name, value in point.items())
            (say or str)(f"  {said}: score {score:.4f}")
            if max(trials, key=lambda trial: trial["score"]) is trials[-1]:
                best, winner = (*prepared, rows, y, outputs), one
        job = job_of(rows.description, winner) if outputs.out is not None else {}
        model = fit_prepared(*best, job, bool(options.get("drop_missing_target", False)), start)
    return Tuned(trials, "R²" if judged.what == "R²" else "negative log loss", judged.rows, model)


def _points(grid: Any, asked: Options) -> list[dict[str, Any]]:
    """Every combination of values. Raises InputError for what cannot be tried, or is an option already."""
    if not isinstance(grid, Mapping) or not grid:
        raise InputError(
            f"grid has values by name, {{'n_components': [1024, 4096]}}, got {grid!r}; what it does not name `train` chooses"
        )
    said = {f"{step}__{name}": value for step in STEPS for name, value in asked.of(step).items()}
    values: dict[str, list[Any]] = {}
    for name, given in grid.items():
        if name.startswith("model__"):
            raise InputError(
                f"grid has alpha and parameters of the map, the scaling or the table, not {name!r}: ridge judges, whatever the model is"
            )
        if (full := _OWN.get(name, name)) in said:
            raise InputError(f"{name} is in grid= and is {said[full]!r} by an option; leave one out")
        values[name] = _values(given)
        if not values[name]:
            raise InputError(f"tune needs at least one value for each parameter, got {name}={given!r}")
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


def _values(given: Any) -> list[Any]:
    """What a list, an array, a range, or a text of values between commas, holds; one value alone."""
    given = read(given) if isinstance(given, str) and given[:1] in ("[", "{") else given
    given = given.split(",") if isinstance(given, str) else getattr(given, "tolist", lambda: given)()
    return [read(value, whole(0)) for value in (given if isinstance(given, (list, tuple, range)) else [given])]


def _at(point: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options at a point: what has no option of its own is a parameter of a step, which `set` has."""
    own = {name: value for name, value in point.items() if name in _OWN}
    steps = {name: value for name, value in point.items() if name not in _OWN}
    return {**options, **own, "set": {**(options.get("set") or {}), **steps}}
