"""Commands about models: plan, train, predict, evaluate."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from dask.utils import format_bytes
from rich.console import Console
from rich.table import Table

from . import options as o
from .inputs import open_input
from .session import Session, UsageError

ModelPath = Annotated[str, typer.Argument(help="The folder of the model.")]
Source = Annotated[str, typer.Argument(help="Rows: a Zarr store or Parquet.")]


def plan(
    source: Source,
    map: o.MapName = "fourier",
    kernel: o.KernelName = None,
    length_scale: o.LengthScale = "knn",
    gamma: o.Gamma = None,
    nu: o.Nu = 1.5,
    components: o.Components = 1024,
    projection: o.Projection = "dense",
    phase: o.Phase = "paired",
    whiten: o.Whiten = False,
    beta: o.Beta = "median",
    lam: o.Lam = "median",
    n_mixed: o.Mixed = "2",
    grids: o.Grids = 128,
    bins: o.Bins = "hashed",
    degree: o.Degree = 2,
    coef0: o.Coef0 = 1.0,
    base: o.Base = "tensor-sketch",
    up_factor: o.UpFactor = 8.0,
    landmarks: o.Landmarks = "uniform",
    transformer: o.Transformer = None,
    base_components: o.BaseComponents = None,
    sketch: o.SketchName = "gaussian",
    n_iter: o.Iterations = 1,
    seed: o.Seed = 0,
    model: o.ModelName = "ridge-classifier",
    alpha: o.Alpha = "1e-6",
    cv: o.Folds = "5",
    job: Annotated[str, typer.Option("--job", help="train or featurize.")] = "train",
    classes: Annotated[
        int, typer.Option("--classes", help="Classes or targets, where the store does not tell.")
    ] = 10,
    target: o.Target = None,
    columns: o.Columns = None,
    cluster: o.Cluster = None,
    memory_limit: o.MemoryLimit = None,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Say what a job would do: tasks, bytes, peak memory, time. Runs nothing."""
    from .plans import planned_workers, write_plan

    session = Session(cluster, memory_limit, quiet, json)
    data = open_input(source, target, columns, None)
    estimator = o.make_map(
        map, data.d, kernel=kernel, length_scale=length_scale, gamma=gamma, nu=nu, components=components,
        projection=projection, phase=phase, whiten=whiten, seed=seed,
        beta=beta, lam=lam, n_mixed=n_mixed, grids=grids, bins=bins,
        degree=degree, coef0=coef0, base=base, up_factor=up_factor, landmarks=landmarks, transformer=transformer,
        base_components=base_components, sketch=sketch, n_iter=n_iter,
    )  # fmt: skip
    learner = o.make_model(model, alpha=alpha, cv=cv, intercept=True, class_weight=None, seed=seed)
    if job not in ("train", "featurize"):
        raise UsageError(f"--job is train or featurize, got {job!r}")
    made = write_plan(job, data, estimator, learner, classes, planned_workers(cluster, memory_limit))
    session.finish(made.to_dict(), lambda console: print_plan(console, made))
    made.check()


def train(
    source: Source,
    out: ModelPath,
    map: o.MapName = "fourier",
    kernel: o.KernelName = None,
    length_scale: o.LengthScale = "knn",
    gamma: o.Gamma = None,
    nu: o.Nu = 1.5,
    components: o.Components = 1024,
    projection: o.Projection = "dense",
    phase: o.Phase = "paired",
    whiten: o.Whiten = False,
    beta: o.Beta = "median",
    lam: o.Lam = "median",
    n_mixed: o.Mixed = "2",
    grids: o.Grids = 128,
    bins: o.Bins = "hashed",
    degree: o.Degree = 2,
    coef0: o.Coef0 = 1.0,
    base: o.Base = "tensor-sketch",
    up_factor: o.UpFactor = 8.0,
    landmarks: o.Landmarks = "uniform",
    transformer: o.Transformer = None,
    base_components: o.BaseComponents = None,
    sketch: o.SketchName = "gaussian",
    n_iter: o.Iterations = 1,
    seed: o.Seed = 0,
    model: o.ModelName = "ridge-classifier",
    alpha: o.Alpha = "1e-6",
    cv: o.Folds = "5",
    intercept: o.Intercept = True,
    class_weight: o.ClassWeight = None,
    target: o.Target = None,
    columns: o.Columns = None,
    impute: o.Impute = None,
    overwrite: o.Overwrite = False,
    cluster: o.Cluster = None,
    memory_limit: o.MemoryLimit = None,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Train a linear model on random features of the rows; nothing but the model is stored."""
    from ..models import check_output
    from .plans import refuse_if_too_big
    from .training import fit_pipeline, save_trained

    session = Session(cluster, memory_limit, quiet, json)
    data = open_input(source, target, columns, impute)
    estimator = o.make_map(
        map, data.d, kernel=kernel, length_scale=length_scale, gamma=gamma, nu=nu, components=components,
        projection=projection, phase=phase, whiten=whiten, seed=seed,
        beta=beta, lam=lam, n_mixed=n_mixed, grids=grids, bins=bins,
        degree=degree, coef0=coef0, base=base, up_factor=up_factor, landmarks=landmarks, transformer=transformer,
        base_components=base_components, sketch=sketch, n_iter=n_iter,
    )  # fmt: skip
    learner = o.make_model(model, alpha=alpha, cv=cv, intercept=intercept, class_weight=class_weight, seed=seed)
    check_output(out, overwrite)
    refuse_if_too_big("train", data, estimator, learner, cluster, memory_limit)
    with session.connected():
        trained = fit_pipeline(data, estimator, learner)
    save_trained(trained, data, source, out, overwrite)
    result = trained.summary() | {"model": out, "rows": data.info.n}
    session.finish(result, lambda console: print_result(console, f"model {out}", result))


def predict(
    model: ModelPath,
    source: Source,
    out: Annotated[str, typer.Argument(help="A .zarr store or a .parquet folder to write.")],
    keys: Annotated[
        str | None, typer.Option("--keys", help="Parquet columns to write beside the predictions.")
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Write decision values too.")] = False,
    overwrite: o.Overwrite = False,
    cluster: o.Cluster = None,
    memory_limit: o.MemoryLimit = None,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Predict rows with a trained model, block by block; started again, it resumes."""
    from .plans import refuse_if_too_big
    from .predicting import load_trained, write_predictions

    session = Session(cluster, memory_limit, quiet, json)
    trained = load_trained(model)
    data = trained.open(source)
    refuse_if_too_big("predict", data, trained.map, None, cluster, memory_limit)
    with session.connected():
        written = write_predictions(trained, data, out, o.listed(keys), scores, overwrite)
    result = {"predictions": out, "rows": data.info.n, **written}
    session.finish(result, lambda console: print_result(console, f"predictions {out}", result))


def evaluate(
    model: ModelPath,
    source: Source,
    target: o.Target = None,
    cluster: o.Cluster = None,
    memory_limit: o.MemoryLimit = None,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Score a trained model on rows with known targets, in one pass."""
    from .plans import refuse_if_too_big
    from .predicting import load_trained, score

    session = Session(cluster, memory_limit, quiet, json)
    trained = load_trained(model)
    data = trained.open(source, target, needs_target=True)
    refuse_if_too_big("evaluate", data, trained.map, None, cluster, memory_limit)
    with session.connected():
        result = score(trained, data) | {"model": model, "rows": data.info.n}
    session.finish(result, lambda console: print_result(console, f"{model} on {source}", result))


def print_plan(console: Console, made: Any) -> None:
    """A plan as a table."""
    table = Table(title=f"plan: {made.job}", title_justify="left", show_header=False)
    table.add_row("rows", f"{made.rows:,} in {made.blocks} blocks of up to {made.block_rows:,}")
    table.add_row("tasks", f"{made.tasks} in {made.passes} passes")
    table.add_row("read", format_bytes(made.bytes_read))
    table.add_row("written", format_bytes(made.bytes_written))
    limit = made.workers.memory_limit
    table.add_row(
        "peak per worker", f"{format_bytes(made.memory.peak)} of {format_bytes(limit) if limit else 'no limit'}"
    )
    for part, size in made.memory.parts.items():
        if size:
            table.add_row(f"  {part}", format_bytes(size))
    table.add_row("peak of the client", format_bytes(made.client_peak))
    table.add_row("workers", f"{made.workers.count} x {made.workers.threads} threads")
    table.add_row("time, roughly", f"{made.seconds:,.0f} s ({made.flops:.2g} operations)")
    for note in made.notes:
        table.add_row("note", note)
    console.print(table)


def print_result(console: Console, title: str, result: dict[str, Any]) -> None:
    """Flat facts as a table."""
    table = Table(title=title, title_justify="left", show_header=False)
    for key, value in result.items():
        if key == "peak_bytes_per_worker":
            value = ", ".join(format_bytes(v) for v in value.values())
        elif isinstance(value, float):
            value = f"{value:.6g}"
        elif isinstance(value, int) and not isinstance(value, bool):
            value = f"{value:,}"
        if value is not None and not isinstance(value, (dict, list)):
            table.add_row(key.replace("_", " "), str(value))
    console.print(table)
