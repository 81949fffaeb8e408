"""Search of length scale, D and alpha; the winner becomes a job file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import SpecMismatchError
from ..planning.workers import WORDS
from .function_options import FunctionOptions, SplitOptions, TrainingReadOptions
from .groups import path_parameters
from .jobs import job_text, keys_of
from .options import RunOptions
from .session import Session, running
from .signatures import Place
from .usage import UsageError

if TYPE_CHECKING:
    from ..pipeline.inputs import Input
    from ..tuning import Trial, Tuned
    from .estimator_options import ScaleOptions
    from .search_options import SearchedMap, SearchedModel


class TuneOptions(FunctionOptions):
    """The options of `distrf.tune` beside those of the map, the model and scaling."""

    function = "distrf.tuning:tune"
    only = ("n_rows", "factor")


def tune(
    X: Place,
    *,
    out: Place,
    map: SearchedMap,
    model: SearchedModel,
    rows: TrainingReadOptions,
    split: SplitOptions,
    scale: ScaleOptions,
    given: TuneOptions,
    model_out: Place = "model",
    report: Place | None = None,
    overwrite: bool = False,
    run: RunOptions,
) -> None:
    """Search length scale, D and alpha on growing row samples; write the winner as a job file.

    Parameters
    ----------
    X : Place
        Rows: a Zarr store, Parquet or CSV.
    out : Place
        The job file to write, such as best.toml.
    model_out : Place
        The folder of the model that the job file will train.
    report : Place or None
        Write a page about the search to this file, report.html: figures, trials, time, memory, environment.
    overwrite : bool
        Replace an output made with another spec.

    Examples
    --------
    distrf tune data.zarr --out best.toml -D 1024,8192
    distrf run best.toml
    """
    from sklearn.base import is_classifier

    from ..pipeline.inputs import rows_with_target
    from ..pipeline.sample import look_at_target, numbers_of

    session = Session(run)
    data = rows.open(X, split=split)
    by = split.column(data).get("by")
    scaler = scale.make()
    estimator, parameters = map.searched(data.d)
    features, targets = rows_with_target(data, "training")
    with session.noting():
        targets, _ = numbers_of(targets, map.seed, model.model)
    model = model.for_target(look_at_target(targets, map.seed))
    learner = model.first.make(seed=map.seed)
    map.follow_target(estimator, is_classifier(learner))
    _check_places(X, out, model_out, overwrite)
    session.report_to(report, X, out, model_out)
    shown = {} if run.json or run.quiet else _printer(session, hasattr(learner, "compares_alphas"))
    session.need_no_workers(data)
    with session.connected():
        tuned = given.call(
            features, targets, estimator, parameters, learner, model.alphas, scale=scaler,
            random_state=map.seed, sample_weight=data.weights(), split=split.kind, by=by, **shown,
        )  # fmt: skip
    values = _winner(map, model, estimator, tuned)
    values |= {"X": X, "out": model_out, **rows.typed, **split.typed, "memory_limit": run.memory_limit}
    if not running(run.cluster):  # a scheduler is gone when others run the job
        values |= {"cluster": run.cluster, "tls": run.tls}
    _write(out, values, tuned, data)
    result = tuned.to_dict() | {"job": out}
    title = f"Search on {X}"
    session.finish(result, lambda console: _report(console, result, tuned), about=tuned, title=title, data=data)


def _check_places(source: str, out: str, model_out: str, overwrite: bool) -> None:
    """Raise for a job file that cannot be written, or lies in what it names."""
    from ..store import check_apart, check_writable, files

    check_apart(out, [source], what="--out")
    check_apart(model_out, [source], what="--model-out")
    check_apart(out, [model_out], what="--out", than="--model-out")
    fs, root = files.filesystem(files.normalise(out))
    if fs.isdir(root):
        raise UsageError(f"--out names a file, but {out!r} is a folder")
    if fs.exists(root) and not overwrite:
        raise SpecMismatchError(f"{out!r} exists; choose another file, or --overwrite")
    check_writable(out)


def _winner(map: SearchedMap, model: SearchedModel, estimator: Any, tuned: Tuned) -> dict[str, Any]:
    """{option of `train`: value} of the best map, model and scaling."""
    from .signatures import as_number

    values: dict[str, Any] = dict(model.typed)
    if estimator is not None:
        values |= map.typed | map.found(estimator, tuned.best.parameters) | {"raw_columns": "no"}
    values = {name: as_number(value) if isinstance(value, str) else value for name, value in values.items()}
    values |= {"map": map.map, "model": model.model, "alpha": tuned.best.alpha, "random_state": map.seed}
    if tuned.scaler is not None and tuned.scaler.method == "divide":
        values["divisor"] = tuned.scaler.divisor
    return values | {"scale": "none" if tuned.scaler is None else tuned.scaler.method}


def _write(path: str, values: Mapping[str, Any], tuned: Tuned, data: Input) -> None:
    from ..store import files
    from .app import get_command

    command = get_command("train")
    path = files.normalise(path)
    local, paths, folder = files.is_local(path), path_parameters(command), os.path.dirname(path)
    entries = {}
    for key, parameter in keys_of(command).items():
        value = values.get(parameter.name)
        if value == parameter.default:
            continue
        if (
            parameter.name in paths
            and value is not None
            and value not in WORDS
            and "://" not in value
            and not os.path.isabs(value)
        ):
            value = os.path.relpath(os.path.abspath(value), folder) if local else os.path.abspath(value)
        entries[key] = value
    best = tuned.best
    comment = (
        f"Found by distrf tune: {tuned.metric} {best.score:.4f} on {tuned.validation_rows:,} held-out rows, trained "
        f"on {best.rows:,} of {data.info.n:,}."
    )
    fs, root = files.filesystem(path)
    files.write_bytes(fs, root, job_text("train", entries, comment).encode())


def _printer(session: Session, squares: bool) -> dict[str, Any]:
    """Callbacks that print the table as it grows; mean squared errors for models that minimise them."""

    def on_level(level: int, candidates: int, rows: int) -> None:
        session.output.print(f"\nlevel {level + 1}: {candidates} candidates on {rows:,} rows")

    def on_trial(trial: Trial) -> None:
        named = _named(trial, " {:>7,}")
        error = f"  error {trial.error:<8.4g}" if squares else ""
        session.output.print(
            f"  {named}  alpha {trial.alpha:<7g} score {trial.score:.4f}{error}  {trial.seconds:6.2f} s",
            soft_wrap=True,
        )

    return {"on_level": on_level, "on_trial": on_trial}


def _named(trial: Trial, form: str) -> str:
    """The parameters of a trial, D first, and the value of each in a form."""
    found = sorted(trial.parameters.items(), key=lambda item: item[0] != "n_components")
    words = {name: name.removeprefix("base__").replace("_", " ") for name, _ in found} | {"n_components": "D"}
    return ", ".join(words[name] + form.format(value) for name, value in found)


def _report(console: Any, result: dict[str, Any], tuned: Tuned) -> None:
    best = tuned.best
    named = _named(best, " = {:,}")
    console.print(
        f"\nbest: {named}{', ' if named else ''}alpha = {best.alpha:g}: {tuned.metric} {best.score:.4f} on "
        f"{tuned.validation_rows:,} held-out rows",
        soft_wrap=True,
    )
    if tuned.split:
        console.print(f"split by {tuned.split}", soft_wrap=True)
    for note in result["notes"]:
        console.print(f"note: {note}", soft_wrap=True)
    console.print(f"written {result['job']}; train on all rows: distrf run {result['job']}", soft_wrap=True)
