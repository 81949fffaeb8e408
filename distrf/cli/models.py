"""Commands about models: plan, train, predict, evaluate."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import did_you_mean
from .function_options import FunctionOptions, SplitOptions, TableOptions, TrainingReadOptions
from .jobs import command_line
from .options import NO_FEATURES, CheckpointOptions, RunOptions
from .session import Session
from .signatures import Place
from .usage import UsageError, checked

if TYPE_CHECKING:
    from .estimator_options import ModelOptions, ScaleOptions, TrainMapOptions


class PlanOptions(FunctionOptions):
    """The options of `distrf.plan` beside those of reading and of the cluster."""

    function = "distrf.planning.job:plan"
    only = ("classes", "workers", "measure")


def plan(
    X: Place,
    *,
    map: TrainMapOptions,
    model: ModelOptions,
    rows: TrainingReadOptions,
    table: TableOptions,
    split: SplitOptions,
    scale: ScaleOptions,
    given: PlanOptions,
    job: str = "train",
    run: RunOptions,
) -> None:
    """Say what a job would do: tasks, bytes, peak memory. Runs nothing unless asked to, and reads but a few labels.

    Parameters
    ----------
    X : Place
        Rows: a Zarr store, Parquet or CSV.
    job : {"train", "featurize"}
        train or featurize.

    Examples
    --------
    distrf plan data.zarr --map fourier -D 8192
    distrf plan s3://bucket/data.zarr -D 65536 --workers 20 --memory-limit 8GiB
    """
    from ..planning.job import planned_target
    from .reports import print_facts
    from .training import chained, unfitted

    session = Session(run)
    numbers = scale.asked or job != "train" or map.takes_numbers
    with session.noting():
        data = table.open(X, rows, numbers, plan=True, split=split)
    if job not in ("train", "featurize"):
        raise UsageError(f"--job is train or featurize, got {job!r}{did_you_mean(job, ('train', 'featurize'))}")
    if job == "train":
        known = given.values.get("classes") or len(data.info.classes or ())
        target = planned_target(data.rows()[1], known, map.seed)
        steps: Any = unfitted(data, map, model, scale, target)
    elif (estimator := map.planned(data.d, data.n)) is None:
        raise UsageError(NO_FEATURES)
    else:
        steps = scale.make(), estimator
    made = session.planned(job, chained(steps), data, n_components=map.size, split=split.kind, **given.values)
    session.finish(made.to_dict(), lambda console: print_facts(console, f"plan: {made.job}", made.lines()))
    made.check()


def train(
    X: Place,
    out: Place,
    *,
    map: TrainMapOptions,
    model: ModelOptions,
    kept: CheckpointOptions,
    rows: TrainingReadOptions,
    table: TableOptions,
    split: SplitOptions,
    scale: ScaleOptions,
    plot: Place | None = None,
    report: Place | None = None,
    overwrite: bool = False,
    run: RunOptions,
) -> None:
    """Train a linear model on random features of the rows; nothing but the model is stored.

    What is not said is chosen from a sample of rows, and printed with a linear model on the columns beside it. Columns
    of Parquet and CSV may be numbers, categories and dates, with missing values.

    Parameters
    ----------
    X : Place
        Rows: a Zarr store, Parquet or CSV.
    out : Place
        The folder of the model.
    plot : Place or None
        Write the learning curve (SGD), the errors of several alphas, the spectrum (tefm) to this file.
    report : Place or None
        Write a page about the training to this file, report.html: choices, figures, time, memory, environment, spec.
    overwrite : bool
        Replace an output made with another spec.

    Examples
    --------
    distrf train sales.parquet prices/ --target price
    distrf train data.zarr model/ --model svm -D 8192 --cluster local
    """
    from ..pipeline.inputs import rows_with_target
    from ..pipeline.making import Options, prepare, split_for
    from ..pipeline.outputs import Outputs, job_of
    from ..pipeline.sample import look_at_target, numbers_of
    from ..pipeline.tables import keep_reasons
    from ..pipeline.training import BaselineWarning, fit_prepared
    from .plots import check_place
    from .reports import print_done, print_training
    from .training import chained, check_drawable, facts_of, unfitted

    session = Session(run)  # and then all of a training in its order, in one place
    with session.noting():
        data = table.open(X, rows, scale.asked or map.takes_numbers, split=split)
    outputs = Outputs(out, kept.checkpoint, kept.every, kept.resume, overwrite)
    outputs.check_places(X)
    check_place(plot, X)
    session.report_to(report, X, out, kept.checkpoint)
    lazy, y = rows_with_target(data, "training")
    with session.noting():
        y, form = numbers_of(y, map.seed, model.model)
    target = look_at_target(y, map.seed)
    scaler, estimator, learner = steps = unfitted(data, map, model, scale, target)
    if plot:
        check_drawable(learner, estimator)
    options = Options(learner, scale=scaler, **map.chosen(estimator))
    identity, by = data.identity | split.asked, split.column(data)
    job = job_of(identity, options)
    if outputs.done:
        outputs.check_same_job(job)
        facts = {"model": out, "done": True} | _draw(None if plot and os.path.exists(plot) else plot, out)
        if report and os.path.exists(report):
            session.report = None
        shown: dict[str, Any] = {"about": out, "title": f"Training of {out}", "data": data}
        session.finish(facts, lambda console: print_done(console, facts), **shown)
        return
    sizes: dict[str, Any] = {
        "classes": len(data.info.classes or ()) or target.distinct,
        "n_components": map.size,
        "split": split.kind,
    }
    session.refuse_if_too_big("train", chained(steps), data, **sizes)
    with outputs.held():
        checked(lambda: outputs.keep_state(estimator, learner, identity))
        options = options if model.asked or kept.checkpoint else replace(options, model="auto")
        with session.connected(), warnings.catch_warnings():
            warnings.simplefilter("ignore", BaselineWarning)  # in the report
            session.refuse_if_too_big("train", chained(steps), data, connected=True, **sizes)
            start = time.perf_counter()
            weight = data.weights()
            made = split_for(lazy, y, options, split.kind, **by)
            prepared = prepare(lazy, y, options, weight, target=target, split=made)
            pipeline = fit_prepared(prepared, lazy, y, weight)
            keep_reasons(pipeline, data.kinds)
            pipeline.training_ = replace(pipeline.training_, form=form)
            seconds = time.perf_counter() - start
        outputs.save(
            pipeline,
            data.description | split.asked,
            job,
            seconds,
            lambda: data.parts,
            source=X,
            command=command_line(),
        )
    result = facts_of(pipeline, data.n, seconds) | {"model": out, "rows": data.n} | _draw(plot, pipeline)
    shown = {"about": pipeline, "title": f"Training of {out}", "data": data}
    session.finish(result, lambda console: print_training(console, f"model {out}", result), **shown)


def _draw(path: str | None, model: Any) -> dict[str, Any]:
    """Draw how a model, or the one in a folder, was trained; what the report says of it."""
    if path is None:
        return {}
    from ..persistence import load_model
    from ..plot import plot_training
    from .plots import write_plot

    write_plot(plot_training(load_model(model) if isinstance(model, str) else model), path)
    return {"plot": path}


class AddOptions(FunctionOptions):
    """The options of `distrf.add_rows`."""

    function = "distrf.pipeline.adding:add_rows"
    left_out = ("y", "sample_weight")


def add(given: AddOptions, *, report: Place | None = None, run: RunOptions) -> None:
    """Add rows to a ridge model that was trained with --keep-state, exactly and in one pass over them.

    Parameters
    ----------
    report : Place or None
        Write a page about the model, as it is then, to this file, report.html.

    Examples
    --------
    distrf add model/ new.zarr
    """
    from ..pipeline.adding import Growing, open_more
    from ..store.job_lock import hold
    from .reports import print_result

    session = Session(run)
    model, X = given.places.values()
    session.report_to(report, X, model)
    with hold(model):
        growing = Growing.of(model)
        reading = {name: given.values[name] for name in ("target", "weight", "strict") if name in given.values}
        data = open_more(growing, X, **reading)
        classes = len(getattr(growing.estimator, "classes_", ())) or None
        session.refuse_if_too_big("fit", growing.loaded.pipeline, data, classes=classes)
        before = growing.estimator.state_.rows
        with session.connected(), session.noting():
            given.call(growing, data)
    rows = growing.estimator.state_.rows
    counts = {"rows": rows - before, "rows_known": data.n - (rows - before), "rows_in_all": rows}
    result = {"model": model, **counts, **growing.estimator.facts()}
    shown: dict[str, Any] = {"about": model, "title": f"Rows added to {model}", "data": data}
    session.finish(result, lambda console: print_result(console, f"model {model}", result), **shown)


class PredictOptions(FunctionOptions):
    """The options of `distrf.predict`."""

    function = "distrf.pipeline.predicting:predict"


class EvaluateOptions(FunctionOptions):
    """The options of `distrf.evaluate`."""

    function = "distrf.pipeline.evaluating:evaluate"
    left_out = ("y", "sample_weight")


def predict(given: PredictOptions, *, run: RunOptions) -> None:
    """Predict rows with a trained model, block by block; started again, it resumes.

    Examples
    --------
    distrf predict model/ new.parquet predictions.parquet --keys id
    """
    from ..pipeline.loaded import predictor
    from ..pipeline.predicting import open_rows
    from ..store.job_lock import hold
    from .reports import print_result

    session = Session(run)
    model, X, out = given.places.values()
    trained = predictor(model)
    checks = {name: value for name, value in given.values.items() if name != "overwrite"}
    data = open_rows(trained, X, out, **checks)
    session.refuse_if_too_big("predict", trained.pipeline, data)
    with hold(out, takeover=bool(given.values.get("overwrite"))), session.connected(), session.noting():
        written = given.call(trained, data, out)
    counts = {"blocks": written.blocks, "blocks_computed": written.computed}
    result = {"predictions": out, "rows": data.n, **counts}
    session.finish(result, lambda console: print_result(console, f"predictions {out}", result))


def evaluate(given: EvaluateOptions, *, report: Place | None = None, run: RunOptions) -> None:
    """Score a trained model on rows with known targets, in one pass.

    Parameters
    ----------
    report : Place or None
        Write a page about the scores to this file, report.html: figures, tables by class, time, memory, environment.

    Examples
    --------
    distrf evaluate model/ test.zarr
    distrf evaluate prices/ sales.parquet --by region --report report.html
    """
    from ..pipeline.loaded import predictor
    from .reports import print_scores

    session = Session(run)
    model, X = given.places.values()
    session.report_to(report, X, model)
    trained = predictor(model)
    reading = {name: value for name, value in given.values.items() if name != "by"}
    data = trained.open(X, needs_target=True, **reading)
    if "by" in given.values:
        data.column(given.values["by"])  # lazy; one that is not there is an error now
    session.refuse_if_too_big("evaluate", trained.pipeline, data)
    with session.connected(), session.noting():
        found = given.call(trained, data)
    result, title = found | {"model": model}, f"{model} on {X}"
    session.finish(
        result, lambda console: print_scores(console, title, result), about=found, title=title, data=data
    )


class ImportanceOptions(FunctionOptions):
    """The options of `distrf.permutation_importance`."""

    function = "distrf.inspection.importance:permutation_importance"
    left_out = ("y", "sample_weight")


def importance(given: ImportanceOptions, *, plot: Place | None = None, run: RunOptions) -> None:
    """Measure which columns a trained model needs: what it loses where a column is taken from other rows.

    Parameters
    ----------
    plot : Place or None
        Draw the importances to this file.

    Examples
    --------
    distrf importance model/ test.zarr --plot importance.png
    """
    from ..pipeline.loaded import predictor
    from ..plot import ImportanceDisplay
    from .plots import check_place, write_plot

    session = Session(run)
    model, X = given.places.values()
    check_place(plot, X)
    trained = predictor(model)
    reading = {name: given.values[name] for name in ("target", "weight", "strict") if name in given.values}
    data = trained.open(X, needs_target=True, **reading)
    session.refuse_if_too_big("evaluate", trained.pipeline, data)
    with session.connected(), session.noting():
        found = given.call(trained, data)
    if plot:
        write_plot(ImportanceDisplay.from_importance(found).ax_, plot)
    result = found.to_dict() | {"model": model} | ({"plot": plot} if plot else {})
    session.finish(result, lambda console: console.print(str(found), soft_wrap=True))
