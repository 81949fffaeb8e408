"""Commands about models: plan, train, predict, evaluate."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o
from .groups import PATH
from .session import Session
from .usage import UsageError

if TYPE_CHECKING:
    from .estimator_options import ModelOptions, ScaleOptions, TrainMapOptions


def plan(
    source: o.Source,
    map: TrainMapOptions,
    model: ModelOptions,
    rows: o.ReadOptions,
    scale: ScaleOptions,
    job: Annotated[str, typer.Option("--job", help="train or featurize.")] = "train",
    classes: Annotated[
        int | None,
        typer.Option(
            "--classes",
            help="Classes, where the store does not tell. Default: those in a sample of the labels.",
            min=1,
            max=2**31,
        ),
    ] = None,
    *,
    run: o.RunOptions,
) -> None:
    """Say what a job would do: tasks, bytes, peak memory, time. Runs nothing, and reads but a few labels."""
    from sklearn.base import is_classifier
    from sklearn.pipeline import Pipeline

    from .. import planning
    from .reports import print_plan
    from .training import planned_estimator, planned_model

    session = Session(run)
    data = o.open_source(source, rows, plan=True)
    estimator, scaler = planned_estimator(map, data, run), scale.make()
    if job not in ("train", "featurize"):
        raise UsageError(f"--job is train or featurize, got {job!r}")
    steps: list[tuple[str, Any]] = [] if scaler in (None, "auto") else [("scale", scaler)]
    steps += [] if estimator is None else [("map", estimator)]
    notes: tuple[str, ...] = ()
    if job == "train":
        learner, target = planned_model(model, data, classes, map.seed)
        map.follow_target(estimator, is_classifier(learner))
        steps.append(("model", learner))
        classes, notes = target.classes, target.notes if is_classifier(learner) else ()
    elif estimator is None:
        raise UsageError(o.NO_FEATURES)
    where = {"cluster": run.cluster, "memory_limit": run.memory_limit, "tls": run.tls}
    made = planning.plan(Pipeline(steps), data, job=job, classes=classes, **where)
    made = replace(made, notes=[*notes, *made.notes])
    session.finish(made.to_dict(), lambda console: print_plan(console, made))
    made.check()


def train(
    source: o.Source,
    out: o.ModelPath,
    map: TrainMapOptions,
    model: ModelOptions,
    kept: o.CheckpointOptions,
    rows: o.ReadOptions,
    scale: ScaleOptions,
    plot: Annotated[
        str | None,
        PATH,
        typer.Option(
            "--plot",
            help="Write the learning curve (SGD), the errors of several alphas, the spectrum (tefm) to this file.",
        ),
    ] = None,
    overwrite: o.Overwrite = False,
    *,
    run: o.RunOptions,
) -> None:
    """Train a linear model on random features of the rows; nothing but the model is stored.

    What is not said is chosen from a sample of rows, and printed with a linear model on the columns beside it.
    """
    from sklearn.base import is_classifier

    from ..store import is_model_folder
    from .checkpoints import claim_checkpoint
    from .outputs import check_same_job, job_of
    from .plots import check_plot
    from .reports import print_done, print_training
    from .training import (
        check_drawable,
        fit_pipeline,
        follow_target,
        look_at_target,
        planned_estimator,
        save_trained,
    )

    session = Session(run)  # and then all of a training in its order, in one place
    data = o.open_source(source, rows)
    estimator, scaler = planned_estimator(map, data, run), scale.make()
    done = kept.resume and not overwrite and is_model_folder(out)
    _check_places(source, out, kept.checkpoint, plot, None if done else overwrite)
    target = look_at_target(data, map.seed)
    model = follow_target(model, target)
    learner = model.make(seed=map.seed)
    map.follow_target(estimator, is_classifier(learner))
    if plot:
        check_plot(plot)
        check_drawable(learner, estimator)
    job = job_of(data, map, scaler, learner)
    if done:
        check_same_job(out, job)
        facts = {"model": out, "done": True} | _draw(None if plot and os.path.exists(plot) else plot, out)
        session.finish(facts, lambda console: print_done(console, facts))
        return
    steps = [step for step in (scaler, estimator, learner) if step not in (None, "auto")]
    classes = len(data.info.classes or ()) or target.distinct
    session.refuse_if_too_big("train", steps, data, classes=classes)
    claim_checkpoint(kept, learner, estimator, data, overwrite)
    with session.connected() as client:
        session.refuse_if_too_big("train", steps, data, client, classes)
        trained = fit_pipeline(data, map, scaler, estimator, learner)
    save_trained(trained, data, source, out, overwrite, job)
    result = trained.summary() | {"model": out, "rows": data.n} | _draw(plot, trained.pipeline)
    session.finish(result, lambda console: print_training(console, f"model {out}", result))


def _check_places(
    source: str, out: str, checkpoint: str | None, plot: str | None, overwrite: bool | None
) -> None:
    """Raise for outputs that cannot be written, or lie in each other; overwrite : None for a model that is done."""
    from ..persistence import check_output
    from ..store import check_apart, check_writable

    check_apart(out, [source], what="the model")
    check_apart(checkpoint, [source], what="--checkpoint")
    check_apart(checkpoint, [out], what="--checkpoint", than="the model folder")
    check_apart(plot, [source], what="--plot")
    if overwrite is not None:
        check_writable(out, checkpoint)
        check_output(out, overwrite)
    check_writable(plot)


def _draw(path: str | None, model: Any) -> dict[str, Any]:
    """Draw how a model, or the one in a folder, was trained; what the report says of it."""
    if path is None:
        return {}
    from ..persistence import load_model
    from ..plot import plot_training
    from .plots import write_plot

    write_plot(plot_training(load_model(model) if isinstance(model, str) else model), path)
    return {"plot": path}


def predict(
    model: o.ModelPath,
    source: o.Source,
    out: Annotated[str, PATH, typer.Argument(help="A .zarr store or a .parquet folder to write.")],
    keys: Annotated[
        str | None, typer.Option("--keys", help="Parquet columns to write beside the predictions.")
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Write decision values too.")] = False,
    strict: o.Strict = False,
    overwrite: o.Overwrite = False,
    *,
    run: o.RunOptions,
) -> None:
    """Predict rows with a trained model, block by block; started again, it resumes."""
    from .. import pipeline
    from ..pipeline.loaded import predictor
    from ..pipeline.predicting import check_extras
    from ..pipeline.writing import to_parquet
    from ..store import check_apart, check_writable, existing_parts, existing_store
    from .reports import print_result

    session = Session(run)
    check_apart(out, [source])
    check_apart(out, [model], than="the model")
    check_writable(out)
    existing_parts(out) if to_parquet(out) else existing_store(out)
    trained = predictor(model)
    data = trained.open(source, strict=strict)
    names = o.column_names(keys, "--keys")
    check_extras(trained, data, out, names, scores)
    session.refuse_if_too_big("predict", list(trained.pipeline), data)
    with session.connected():
        written = pipeline.predict(trained, data, out, keys=names, scores=scores, overwrite=overwrite)
    counts = {"blocks": written.blocks, "blocks_computed": written.computed}
    result = {"predictions": out, "rows": data.n, **counts}
    session.finish(result, lambda console: print_result(console, f"predictions {out}", result))


def evaluate(
    model: o.ModelPath,
    source: o.Source,
    target: o.Target = None,
    strict: o.Strict = False,
    *,
    run: o.RunOptions,
) -> None:
    """Score a trained model on rows with known targets, in one pass."""
    from .. import pipeline
    from ..pipeline.loaded import predictor
    from .reports import print_result

    session = Session(run)
    trained = predictor(model)
    data = trained.open(source, target=target, needs_target=True, strict=strict)
    session.refuse_if_too_big("evaluate", list(trained.pipeline), data)
    with session.connected():
        result = pipeline.evaluate(trained, data) | {"model": model, "rows": data.n}
    session.finish(result, lambda console: print_result(console, f"{model} on {source}", result))
