"""The `distrf` command: what each of its commands takes, opens, plans, runs and prints."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable
from contextvars import copy_context
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer

from .. import __version__
from . import console
from .console import Session
from .options import ALL, MAP, MODEL, OPTIONS, ROWS, SPLIT, by_rules, csv_reading, given_options

app = typer.Typer(
    name="distrf",
    help="Kernel machines on data larger than memory. Messages name options as Python does: target='price' is --target price, "
    "n_components -D, random_state --seed, and set={'model__cv': 5} is --set model__cv=5.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 100},
)
_INTERRUPTED = 130  # what Typer makes of Ctrl-C
Given = dict[str, Any]


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit()


Version = typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_version)
Debug = typer.Option("--debug", help="Show where an error arose; before the command.")


@app.callback()
def _options(version: Annotated[bool, Version] = False, debug: Annotated[bool, Debug] = False) -> None:
    console.debug = debug


def main() -> None:
    """Run the command line; leaves with 0, 1 for a failure, 2 for wrong usage, 130 when interrupted."""
    code: int
    gc.disable()  # until the work begins: a third of the time of imports went into looking for what they leave behind
    try:
        code = app(standalone_mode=True)
    except SystemExit as left:
        if left.code == _INTERRUPTED:
            again = "ingest, featurize and predict go on, and with --resume a training of many passes"
            console.print_line("interrupted", f"start the command again: {again}; others start anew")
        raise
    except Exception as error:
        code = console.print_error(error)
    finally:
        gc.freeze()  # nothing is looked for at the end either
    sys.exit(code)


def command(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command with these options, and those that all have.

    It gets the Session, its arguments, and `given`: {option: value} of those that were typed.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        arguments = list(signature(function).parameters)[1:-1]
        declared = {name: hints[name] for name in arguments} | {name: OPTIONS[name] for name in (*names, *ALL)}

        @functools.wraps(function)
        def called(**typed: Any) -> None:
            given = given_options(typed)
            csv, words = given.pop("csv", {}), [given.pop(name) for name in arguments]
            session = Session(**{name: given.pop(name) for name in ALL if name in given})
            with csv_reading(csv), session.hearing():
                copy_context().run(function, session, *words, given)  # a model may set how its CSV is read

        made = [
            Parameter(
                n, Parameter.KEYWORD_ONLY, annotation=k, default=Parameter.empty if n in arguments else None
            )
            for n, k in declared.items()
        ]
        called.__signature__ = Signature(made)  # type: ignore[attr-defined]
        called.__annotations__ = declared
        return app.command()(called)

    return decorate


Rows = Annotated[str, typer.Argument(help="Rows: a Zarr store, Parquet or CSV.", metavar="X")]
Source = Annotated[str, typer.Argument(help="Rows, also .npy, .npz or .svmlight.", metavar="SOURCE")]
Parts = Annotated[str, typer.Argument(help="The Zarr store, or .parquet folder, to write.", metavar="OUT")]
Model = Annotated[str, typer.Argument(help="The folder of the model.", metavar="MODEL")]
Out = Annotated[str, typer.Argument(help="The folder of the model to write.", metavar="OUT")]
Place = Annotated[str, typer.Argument(help="A store or a model.", metavar="PATH")]


def _of(given: Given, *names: str) -> Given:
    return {name: given[name] for name in names if name in given}


def _reading(given: Given, *more: str) -> Given:
    """What is said of how the rows at a path are read."""
    found = _of(given, "target", "columns", "drop_missing_target", *more)
    names = {"weight": "sample_weight", "kind": "kinds"}
    return found | {names[name]: value for name, value in _of(given, *names).items()}


def _training(function: Any, given: Given, *more: str) -> Given:
    """The options of `distrf.train`, checked."""
    return by_rules(function, _reading(given, *SPLIT) | _of(given, *MODEL, *more))


@command("rows", "n_components", "out", "seed")
def demo(session: Session, given: Given) -> None:
    """Train on scikit-learn's digits, expanded by small distortions. No network.

    \b
    Examples:
      distrf demo
    """
    from ..datasets.demo import demo

    given = by_rules(demo, given)
    with session.on_cluster():
        result = demo(**given, say=session.say)
    session.finish(result, console.facts("distrf demo", result))


_INGEST = "target columns csv block_rows dtype n_features zero_based overwrite append"


@command(*_INGEST.split())
def ingest(session: Session, source: Source, out: Parts, given: Given) -> None:
    """Copy rows into a chunked Zarr store.

    Started again, it resumes.

    \b
    Examples:
      distrf ingest digits.parquet data.zarr --target label
      distrf ingest rows.csv.gz data.zarr --target price
    """
    from ..ingestion import ingest

    given = by_rules(ingest, given)
    with session.progress():
        info = ingest(source, out, **given)
    session.finish(info.to_dict(), console.store(info))


@command("target", "columns", "csv", *MAP, "like", "save_map", "overwrite")
def featurize(session: Session, x: Rows, out: Parts, given: Given) -> None:
    """Write random features of rows to a Zarr store.

    Started again, it resumes.

    \b
    Examples:
      distrf featurize data.zarr features.zarr -D 4096 --save-map map/
      distrf featurize test.zarr test-features.zarr --like map/
    """
    from ..pipeline.writing import featurize

    like, own = given.pop("like", None), _of(given, *MAP)
    if like is not None and own:
        raise typer.BadParameter("--like takes the map and the scaling as they were fitted; leave these out")
    for name in own:
        del given[name]
    session.plan_jobs()
    written = featurize(_featurizer(own) if like is None else like, x, out, **given)
    info: Any = written.info  # of a Zarr store
    session.finish(info.to_dict() | {"blocks_computed": written.computed}, console.store(info))


def _featurizer(given: Given) -> Any:
    """The unfitted scaling and map; Fourier features of the columns as they are, where nothing is said."""
    from ..pipeline.options import Options, asked_scaler, chained, unfitted_map
    from ..pipeline.training import train

    options = Options(**{"scale": "none"} | by_rules(train, given))
    if options.scale == "auto":
        raise typer.BadParameter(
            "--scale auto is chosen by a target, which featurize has not; name a scaling, or none"
        )
    made = unfitted_map(options, None, options.random_state)
    if made is None:
        raise typer.BadParameter("featurize needs a map; --map none has no features")
    return chained(asked_scaler(options), made)


@command()
def inspect(session: Session, path: Place, given: Given) -> None:
    """Show what a store or a model holds.

    \b
    Examples:
      distrf inspect data.zarr
      distrf inspect model/
    """
    from .. import store

    if store.is_model_folder(path):
        result = {"kind": "model", **store.read_spec(path), "arrays": store.array_shapes(path)}
        shown, made = console.document(result), result["model"].get("training")
        session.finish(result, console.training(f"{shown}\n\nmodel {path}", made) if made else shown)
    else:
        info = store.info(path)
        made = {name: value for name, value in (("spec", info.spec), ("provenance", info.provenance)) if value}
        session.finish(info.to_dict(), f"{console.store(info)}\n{console.document(made)}")


@command(*ROWS, *SPLIT, *MODEL, "workers", "classes")
def plan(session: Session, x: Rows, given: Given) -> None:
    """Say what a training would take: tasks, bytes, memory.

    Nothing runs, and but a few labels are read.

    \b
    Examples:
      distrf plan data.zarr --map fourier -D 8192
      distrf plan data.zarr -D 65536 --workers 20 --memory-limit 8GiB
    """
    from .. import planning
    from ..pipeline.making import planned_pipeline
    from ..pipeline.options import Options
    from ..pipeline.rows import open_training
    from ..pipeline.training import train

    options = Options(**_of(_training(train, given), *MODEL))
    sizes = by_rules(planning.plan, _of(given, "workers", "classes"))
    data = open_training(x, numbers=options.numbers, **_reading(given, *SPLIT))
    known = sizes.get("classes") or len(data.info.classes or ())
    target = planning.planned_target(data.rows()[1], known, options.random_state)
    pipeline = planned_pipeline(data, options, target)
    if "workers" not in sizes:
        session.opened(data)
    sizes |= _of(vars(options), "n_components") if options.n_components == "auto" else {}
    made = planning.plan(pipeline, data, job="train", **sizes, **session.where)
    session.finish(made.to_dict(), str(made))
    made.check()


@command(*ROWS, *SPLIT, *MODEL, "resume", "overwrite", "report")
def train(session: Session, x: Rows, out: Out, given: Given) -> None:
    """Train a linear model on random features of rows.

    Nothing but the model is stored. What is not said is chosen on a sample of rows, and printed. Columns of Parquet and
    CSV may be numbers, categories and dates, with missing values.

    \b
    Examples:
      distrf train sales.parquet prices/ --target price
      distrf train data.zarr model/ --model svm -D 8192 --cluster local
    """
    from ..pipeline.training import Outputs
    from ..pipeline.training import train as fit
    from ..record import pipeline_facts

    options, title = _training(fit, given, "resume", "overwrite"), f"Training of {out}"
    session.report_to(given.get("report"), x, out)
    done = Outputs(out, **_of(options, "resume", "overwrite")).done
    session.plan_jobs()
    fitted = fit(x, out=out, **options)
    if done:  # of this job, or it were an error
        session.finish({"model": out, "done": True}, f"model {out} is done already", out, title)
        return
    result = {"model": out, "rows": session.data.n, **pipeline_facts(fitted)}
    session.finish(result, console.training(f"model {out}", result), fitted, title)


@command(*ROWS, *SPLIT, *MODEL, "grid", "overwrite")
def tune(session: Session, x: Rows, out: Out, given: Given) -> None:
    """Search a grid on a sample, train the best on all rows.

    What --grid does not name is chosen at each of its points, as train does.

    \b
    Examples:
      distrf tune data.zarr best/ --grid n_components=1024,8192
    """
    from ..pipeline.training import train as fit
    from ..tuning import tune as search

    options = _training(fit, given, "overwrite")
    session.plan_jobs()
    tuned = search(x, grid=given.get("grid", {}), out=out, say=session.say, **options)
    best = ", ".join(f"{name} {value}" for name, value in tuned.best["parameters"].items())
    lines = [f"best: {best}; {tuned.metric} {tuned.best['score']:.4f} on {tuned.judged}"]
    lines += [f"model {out}, trained on all {session.data.n:,} rows", *map(str, tuned.model.training_.choices)]
    session.finish(tuned.to_dict() | {"model": out}, "\n".join(lines))


@command("target", "weight", "csv", "again")
def add(session: Session, model: Model, x: Rows, given: Given) -> None:
    """Add rows to a ridge model, exactly and in one pass.

    The model was trained with --set model__keep_state=true.

    \b
    Examples:
      distrf add model/ new.zarr
    """
    from ..pipeline.adding import add_rows
    from ..pipeline.loaded import as_pipeline
    from ..store import read_spec

    session.plan_jobs()
    estimator = as_pipeline(add_rows(model, x, **_reading(given), **_of(given, "again")))[-1]
    rows = read_spec(model)["added"][-1]["rows"]
    counts = {"rows": rows, "rows_known": session.data.n - rows, "rows_in_all": estimator.state_.rows}
    result = {"model": model, **counts, **estimator.facts()}
    session.finish(result, console.facts(f"model {model}", result))


@command("keys", "probabilities", "interval", "csv", "overwrite")
def predict(session: Session, model: Model, x: Rows, out: Parts, given: Given) -> None:
    """Predict rows with a trained model.

    Started again, it resumes.

    \b
    Examples:
      distrf predict model/ new.parquet predictions.parquet --keys id
    """
    from ..pipeline.predicting import predict

    session.plan_jobs()
    written = predict(model, x, out, **by_rules(predict, given))
    counts = {"rows": session.data.n, "blocks": written.blocks, "blocks_computed": written.computed}
    session.finish({"predictions": out, **counts}, console.facts(f"predictions {out}", counts))


@command("target", "weight", "columns", "csv", "report")
def evaluate(session: Session, model: Model, x: Rows, given: Given) -> None:
    """Score a trained model on rows with known targets.

    In one pass over the rows.

    \b
    Examples:
      distrf evaluate model/ test.zarr
      distrf evaluate prices/ sales.parquet --report report.html
    """
    from ..pipeline.evaluating import evaluate

    session.report_to(given.get("report"), x, model)
    session.plan_jobs()
    found, title = evaluate(model, x, **_reading(given)), f"{model} on {x}"
    session.finish(dict(found) | {"model": model}, console.scores(title, found), found, title)
