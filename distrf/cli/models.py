"""Commands about models: plan, train, add, predict, evaluate."""

from __future__ import annotations

import os
import time
import warnings
from typing import Annotated, Any

import typer

from .command import command
from .data import NO_FEATURES, Rows
from .options import MAP, MODEL, RAW_COLUMNS, ROWS, SPLIT, TABLE
from .session import Session
from .values import by_rules

Model = Annotated[str, typer.Argument(help="The folder of the model.", metavar="MODEL")]
Out = Annotated[str, typer.Argument(help="The folder of the model to write.", metavar="OUT")]
Given = dict[str, Any]
_PARTS: Given = {"model": MAP | MODEL | RAW_COLUMNS, "rows": ROWS, "table": TABLE, "held_out": SPLIT}


@command("featurize classes workers", **_PARTS)
def plan(
    session: Session, X: Rows, given: Given, model: Given, rows: Given, table: Given, held_out: Given
) -> None:
    """Say what a training would do: tasks, bytes, peak memory. Runs nothing, and reads but a few labels.

    It takes the job files of train and of featurize too, and plans these.

    \b
    Examples:
      distrf plan data.zarr --map fourier -D 8192
      distrf plan s3://bucket/data.zarr -D 65536 --workers 20 --memory-limit 8GiB
      distrf plan --job job.yaml
    """
    from ..pipeline.making import chained, planned_pipeline
    from ..pipeline.tables import open_training
    from ..planning import job
    from .estimators import Parts

    parts, featurize = Parts(**model), given.pop("featurize", False)
    given = by_rules(job.plan, given)
    data = open_training(X, numbers=parts.numbers or featurize, plan=True, **rows, **table, **held_out)
    if featurize:
        estimator, auto = parts.plain_map(data.d), "n_components" not in parts.given["map"]
        if estimator is None:
            raise typer.BadParameter(NO_FEATURES)
        pipeline = chained(parts.scaler(), estimator)
    else:
        known = given.get("classes") or len(data.info.classes or ())
        target = job.planned_target(data.rows()[1], known, parts.seed)
        options = parts.options(data, target)
        pipeline, auto = planned_pipeline(data, options, target), options.n_components == "auto"
    if "workers" not in given:
        session.need_no_workers(data)
    given |= {"n_components": "auto"} if auto else {}
    made = session.planned("featurize" if featurize else "train", pipeline, data, **given, **session.where)
    session.finish(made.to_dict(), str(made))
    made.check()


@command("checkpoint checkpoint_every resume overwrite plot report", **_PARTS)
def train(
    session: Session,
    X: Rows,
    out: Out,
    given: Given,
    model: Given,
    rows: Given,
    table: Given,
    held_out: Given,
) -> None:
    """Train a linear model on random features of the rows; nothing but the model is stored.

    What is not said is chosen from a sample of rows, and printed with a linear model on the columns beside it. Columns of
    Parquet and CSV may be numbers, categories and dates, with missing values.

    \b
    Examples:
      distrf train sales.parquet prices/ --target price
      distrf train data.zarr model/ --model svm -D 8192 --cluster local
      distrf train --job job.yaml --overwrite
    """
    from ..pipeline.making import planned_pipeline
    from ..pipeline.outputs import Outputs
    from ..pipeline.rows import rows_with_target
    from ..pipeline.tables import open_training
    from ..pipeline.training import BaselineWarning
    from ..pipeline.training import train as fit
    from ..record import pipeline_facts
    from . import plots, reports
    from .estimators import Parts

    parts, plot, report = Parts(**model), given.pop("plot", None), given.pop("report", None)
    data = open_training(X, numbers=parts.numbers, **rows, **table, **held_out)
    outputs = Outputs(out, **given)
    outputs.check_places(X)
    plots.check_place(plot, X)
    session.report_to(report, X, out, outputs.checkpoint)
    target = parts.target(data, rows_with_target(data, "training")[1])
    options = parts.options(data, target)
    pipeline = planned_pipeline(data, options, target)
    if plot:
        plots.check_drawable(pipeline)
    options_of_fit = vars(options) | held_out | {"out": out} | given
    result: Given = {"model": out, "rows": data.n}
    if outputs.done:
        fit(data, **options_of_fit)  # of this job, or an error
        if plot and not os.path.exists(plot):
            result["plot"] = plots.draw_training(out, plot)
        if report and os.path.exists(report):
            session.report = None
        session.finish(result | {"done": True}, f"model {out} is done already", out, f"Training of {out}", data)
        return
    sizes: Given = {"classes": len(data.info.classes or ()) or target.distinct}
    sizes |= {"n_components": "auto"} if options.n_components == "auto" else {}
    with session.connected("train", pipeline, data, **sizes), warnings.catch_warnings():
        warnings.simplefilter("ignore", BaselineWarning)  # they are in the result
        start = time.perf_counter()
        fitted = fit(data, **options_of_fit)
        seconds = time.perf_counter() - start
    found = pipeline_facts(fitted)
    read = sum(entry["rows"] for entry in found["history"]) if "history" in found else data.n
    result |= {"rows_per_second": read / seconds, **found}
    if plot:
        result["plot"] = plots.draw_training(fitted, plot)
    session.finish(result, reports.training(f"model {out}", result), fitted, f"Training of {out}", data)


@command("target weight new_classes again strict report")
def add(session: Session, model: Model, X: Rows, given: Given) -> None:
    """Add rows to a ridge model that was trained with --set model__keep_state=true, exactly and in one pass over them.

    \b
    Examples:
      distrf add model/ new.zarr
    """
    from ..pipeline.adding import add_rows, growing, open_more
    from ..store.job_lock import hold
    from . import reports

    session.report_to(given.pop("report", None), X, model)
    with hold(model):
        loaded = growing(model)
        data = open_more(loaded, X, **{n: given[n] for n in ("target", "weight", "strict") if n in given})
        estimator = loaded.pipeline[-1]
        classes, before = len(getattr(estimator, "classes_", ())) or None, estimator.state_.rows
        with session.connected("fit", loaded.pipeline, data, classes=classes):
            add_rows(loaded, data, **given)
    rows = estimator.state_.rows
    counts = {"rows": rows - before, "rows_known": data.n - (rows - before), "rows_in_all": rows}
    result = {"model": model, **counts, **estimator.facts()}
    session.finish(result, reports.facts(f"model {model}", result), model, f"Rows added to {model}", data)


@command("keys probabilities interval strict overwrite")
def predict(
    session: Session,
    model: Model,
    X: Rows,
    out: Annotated[
        str, typer.Argument(help="The Zarr store to write, or a folder that ends in .parquet.", metavar="OUT")
    ],
    given: Given,
) -> None:
    """Predict rows with a trained model, block by block; started again, it resumes.

    \b
    Examples:
      distrf predict model/ new.parquet predictions.parquet --keys id
    """
    from ..pipeline.loaded import predictor
    from ..pipeline.predicting import open_rows, predict
    from ..store.job_lock import hold
    from . import reports

    trained, overwrite, given = predictor(model), given.pop("overwrite", False), by_rules(predict, given)
    data = open_rows(trained, X, out, **given)
    with hold(out, takeover=overwrite), session.connected("predict", trained.pipeline, data):
        written = predict(trained, data, out, **given, overwrite=overwrite)
    counts = {"rows": data.n, "blocks": written.blocks, "blocks_computed": written.computed}
    session.finish({"predictions": out, **counts}, reports.facts(f"predictions {out}", counts))


@command("target weight by strict importance columns n_repeats n_rows scoring plot report")
def evaluate(session: Session, model: Model, X: Rows, given: Given) -> None:
    """Score a trained model on rows with known targets, in one pass; or measure which columns it needs.

    \b
    Examples:
      distrf evaluate model/ test.zarr
      distrf evaluate prices/ sales.parquet --by region --report report.html
      distrf evaluate model/ test.zarr --importance --plot importance.png
    """
    from ..pipeline.evaluating import evaluate
    from ..pipeline.importance import permutation_importance
    from ..pipeline.loaded import predictor
    from . import plots, reports

    importance = given.pop("importance", False)
    others = ("by", "report") if importance else ("columns", "n_repeats", "n_rows", "scoring", "plot")
    if wrong := [name for name in others if name in given]:
        raise typer.BadParameter(
            f"{', '.join(wrong)}: {'not ' if importance else ''}of --importance; leave one of them out"
        )
    plot, report = given.pop("plot", None), given.pop("report", None)
    session.report_to(report, X, model)
    plots.check_place(plot, X)
    wanted: Any = permutation_importance if importance else evaluate
    trained, given = predictor(model), by_rules(wanted, given)
    data = trained.open(
        X, needs_target=True, **{n: given[n] for n in ("target", "weight", "strict") if n in given}
    )
    if "by" in given:
        data.column(given["by"])  # lazy; one that is not there is an error now
    with session.connected("evaluate", trained.pipeline, data):
        found = wanted(trained, data, **given)
    result, title = (found.to_dict() if importance else dict(found)) | {"model": model}, f"{model} on {X}"
    if plot:
        result["plot"] = plots.draw_importance(found, plot)
    session.finish(
        result, f"{title}\n{found}" if importance else reports.scores(title, found), found, title, data
    )
