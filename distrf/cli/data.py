"""Commands about data: demo, ingest, featurize, inspect."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .command import command
from .options import MAP, ROWS
from .session import Session
from .values import by_rules

Rows = Annotated[str, typer.Argument(help="Rows: a Zarr store, Parquet or CSV.", metavar="X")]
Store = Annotated[str, typer.Argument(help="The Zarr store to write.", metavar="OUT")]
NO_FEATURES = "featurize needs a map; --map none has no features"


@command("rows n_components out seed")
def demo(session: Session, given: dict[str, Any]) -> None:
    """Train on scikit-learn's digits, expanded by small distortions. No network, no server.

    \b
    Examples:
      distrf demo
    """
    from ..datasets.demo import check_places, demo
    from .reports import facts

    given = by_rules(demo, given)
    check_places(given.get("out", "distrf-demo"))
    with session.on_cluster():
        result = demo(**given, say=session.say)
    session.finish(result, "\n".join([facts("distrf demo", result), facts("written, bytes", result["files"])]))


@command(
    "target columns sparse shuffle seed block_rows dtype impute split n_features zero_based overwrite append again"
)
def ingest(
    session: Session,
    source: Annotated[
        str, typer.Argument(help=".parquet, .csv, .npy, .npz, .svmlight or Zarr.", metavar="SOURCE")
    ],
    out: Store,
    given: dict[str, Any],
) -> None:
    """Turn a table into a chunked Zarr store; started again, it resumes.

    \b
    Examples:
      distrf ingest digits.parquet data.zarr --target label
      distrf ingest rows.csv.gz data.zarr --target price --shuffle
    """
    from ..ingestion.ingest import ingest
    from . import reports

    given = by_rules(ingest, given)
    with session.progress():
        info = ingest(source, out, **given)
    session.finish(info.to_dict(), reports.store(info))


@command("save_map like overwrite", map=MAP, rows={name: ROWS[name] for name in ROWS if name != "weight"})
def featurize(
    session: Session, X: Rows, out: Store, given: dict[str, Any], map: Any, rows: dict[str, Any]
) -> None:
    """Write random features of rows to Zarr, block by block; started again, it resumes.

    \b
    Examples:
      distrf featurize data.zarr features.zarr --map fourier -D 4096 --save-map map/
      distrf featurize test.zarr test-features.zarr --like map/
    """
    from ..pipeline.loaded import Loaded
    from ..pipeline.rows import open_input
    from ..pipeline.writing import check_places, featurize
    from ..store.job_lock import hold
    from . import reports

    like, save_map = given.pop("like", None), given.get("save_map")
    check_places(X, out, save_map, like)
    if like is None:
        data: Any = open_input(X, **rows)
        pipeline = made = _unfitted(map, data.d)
    elif map or save_map or rows.keys() & {"columns", "impute"}:
        raise typer.BadParameter(
            "--like takes map, scaling, columns and imputation as they were fitted; leave these out"
        )
    else:
        made = Loaded.of(like).transformers()
        data, pipeline = made.open(X, **rows), made.pipeline
    with (
        hold(out, save_map, takeover=given.get("overwrite", False)),
        session.connected("featurize", pipeline, data),
    ):
        written = featurize(made, data, out, **given)
    there = written.blocks - written.computed
    session.say(f"{written.computed} of {written.blocks} blocks computed, {there} were there")
    info: Any = written.info  # of a Zarr store
    session.finish(info.to_dict() | {"blocks_computed": written.computed}, reports.store(info))


def _unfitted(given: dict[str, Any], d: int) -> Any:
    """The pipeline that the options stand for: Fourier features of the columns as they are, where nothing is said."""
    from sklearn.pipeline import Pipeline

    from .estimators import Parts

    parts = Parts(**{"scale": "none"} | given)
    if parts.scale == "auto":
        raise typer.BadParameter(
            "--scale auto judges by a target, which features do without; name one, or none"
        )
    estimator, scaler = parts.plain_map(d), parts.scaler()
    if estimator is None:
        raise typer.BadParameter(NO_FEATURES)
    return Pipeline([*([] if scaler == "none" else [("scale", scaler)]), ("map", estimator)])


@command()
def inspect(
    session: Session,
    path: Annotated[str, typer.Argument(help="A store, a model, Parquet or CSV.", metavar="PATH")],
) -> None:
    """Show what a store or a model holds: spec, shapes, manifest, provenance. Needs no cluster.

    \b
    Examples:
      distrf inspect data.zarr
      distrf inspect model/
    """
    from .. import store
    from . import reports

    if store.is_model_folder(path):
        result = {"kind": "model", **store.read_spec(path), "arrays": store.array_shapes(path)}
    elif store.made_from(path) is None:
        result = store.facts(path)
    else:
        info = store.info(path, measure=True)
        made = {name: value for name, value in (("spec", info.spec), ("provenance", info.provenance)) if value}
        session.finish(info.to_dict(), f"{reports.store(info)}\n{reports.document(made)}")
        return
    session.finish(result, reports.document(result))
