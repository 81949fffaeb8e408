"""Commands about data: ingest, featurize, inspect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .function_options import FunctionOptions, ReadOptions
from .options import NO_FEATURES, RunOptions
from .session import Session
from .signatures import Place
from .usage import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from .estimator_options import MapOptions, PlainScaleOptions


class IngestOptions(FunctionOptions):
    """The options of `distrf.ingest`."""

    function = "distrf.ingestion.ingest:ingest"
    left_out = ("storage_options",)


class FeaturizeOptions(FunctionOptions):
    """The options of `distrf.featurize` beside those of the map and of reading."""

    function = "distrf.pipeline.writing:featurize"
    only = ("X", "out", "save_map", "overwrite")


def ingest(given: IngestOptions, *, run: RunOptions) -> None:
    """Turn a table into a chunked Zarr store; started again, it resumes.

    Examples
    --------
    distrf ingest digits.parquet data.zarr --target label
    distrf ingest rows.csv.gz data.zarr --target price --shuffle
    """
    session = Session(run)
    with session.progress():
        info = given.call(*given.places.values())
    session.finish(info.to_dict(), lambda console: print_store(console, info))


def featurize(
    given: FeaturizeOptions,
    map: MapOptions,
    rows: ReadOptions,
    scale: PlainScaleOptions,
    *,
    like: Place | None = None,
    run: RunOptions,
) -> None:
    """Write random features of rows to Zarr, block by block; started again, it resumes.

    Parameters
    ----------
    like : Place or None
        Take the map of this folder (of --save-map, or a model) as it was fitted.

    Examples
    --------
    distrf featurize data.zarr features.zarr --map fourier -D 4096 --save-map map/
    distrf featurize test.zarr test-features.zarr --like map/
    """
    from ..pipeline.loaded import Loaded
    from ..pipeline.writing import check_places
    from ..store.job_lock import hold

    session = Session(run)
    X, out = given.places["X"], given.places["out"]
    check_places(X, out, given.values.get("save_map"), like)
    if like is None:
        data: Any = rows.open(X)
        pipeline = made = _unfitted(map, scale, data.d)
    else:
        if map.said or scale.said or "save_map" in given.values or rows.typed.keys() & {"columns", "impute"}:
            raise UsageError(
                "--like takes map, scaling, columns and imputation as they were fitted; leave out their options and "
                "--save-map"
            )
        made = Loaded.of(like).transformers()
        data = made.open(X, **rows.values)
        pipeline = made.pipeline
    session.refuse_if_too_big("featurize", pipeline, data)
    with (
        hold(out, given.values.get("save_map"), takeover=bool(given.values.get("overwrite"))),
        session.connected(),
    ):
        written = given.call(made, data, out)
    session.say(
        f"{written.computed} of {written.blocks} blocks computed, {written.blocks - written.computed} were there"
    )
    result = written.info.to_dict() | {"blocks_computed": written.computed}
    session.finish(result, lambda console: print_store(console, written.info))


def _unfitted(map: MapOptions, scale: PlainScaleOptions, d: int) -> Any:
    """The pipeline that the options stand for."""
    from sklearn.pipeline import Pipeline

    estimator, scaler = map.make(d), scale.make()
    if scaler == "auto":
        raise UsageError("--scale auto judges by a target, which features do without; name a scaling, or none")
    if estimator is None:
        raise UsageError(NO_FEATURES)
    return Pipeline([*([] if scaler is None else [("scale", scaler)]), ("map", estimator)])


def inspect(path: Place, *, run: RunOptions) -> None:
    """Show what a store or a model holds: spec, shapes, manifest, provenance. Needs no cluster.

    Parameters
    ----------
    path : Place
        A store, a model, Parquet or CSV.

    Examples
    --------
    distrf inspect data.zarr
    distrf inspect model/
    """
    from .. import store

    session = Session(run)
    if store.is_model_folder(path):
        details, shapes = store.read_spec(path), store.array_shapes(path)
        result, shown = {"kind": "model", **details, "arrays": shapes}, _with_shapes(details, shapes)
        session.finish(result, lambda console: print_spec(console, f"model {path}", shown))
    elif store.made_from(path) is None:
        result = store.facts(path)
        shown = {name: value for name, value in result.items() if name != "kind"}
        session.finish(result, lambda console: print_spec(console, path, shown))
    else:
        info = store.info(path, measure=True)
        session.finish(info.to_dict(), lambda console: print_store(console, info))


def print_store(console: Console, info: Any) -> None:
    """A store as a short table."""
    from dask.utils import format_bytes

    from .reports import print_facts

    state = (
        "complete" if info.complete else f"{info.n_blocks - info.pending} of {info.n_blocks} blocks finished"
    )
    facts = [("rows", f"{info.n_rows:,} in {info.n_blocks} blocks of {info.block_rows:,} ({state})")]
    for name, array in info.arrays.items():
        chunks = "CSR rows" if array.sparse else f"chunks {array.chunks}"
        facts.append((name, f"{array.shape} {array.dtype}, {chunks}"))
    stored = "" if info.stored_bytes is None else f", {format_bytes(info.stored_bytes)} on disk"
    facts.append(("size", format_bytes(info.nbytes) + stored))
    for name in ("target", "classes", "columns"):
        value = getattr(info, name)
        if value:
            more = f", ... ({len(value)})" if len(value) > 12 else ""
            facts.append((name, value if isinstance(value, str) else ", ".join(map(str, value[:12])) + more))
    facts += [(key, _short(value)) for key, value in _flat(info.spec) if key not in ("target", "columns")]
    facts += [(key, str(value)) for key, value in info.provenance.items()]
    print_facts(console, f"{info.kind} in {info.path}", facts)


def print_spec(console: Console, title: str, spec: dict[str, Any]) -> None:
    """Nested JSON as a two-column table."""
    from .reports import print_facts

    print_facts(console, title, [(key, _short(value)) for key, value in _flat(spec)])


def _with_shapes(value: Any, shapes: dict[str, str]) -> Any:
    """The spec of a model with what its arrays are, in place of where they are stored."""
    if isinstance(value, list):
        return [_with_shapes(v, shapes) for v in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        return shapes.get(value["$array"], "missing")
    shown = {k: _with_shapes(v, shapes) for k, v in value.items()}
    if "$map" in value:
        shown["arrays"] = {name: shapes.get(key, "missing") for name, key in value["arrays"].items()}
    return shown


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 100 else text[:97] + "..."


def _flat(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        # Marks such as $map and $array say how a value is stored, not what it is.
        names = [".".join(part for part in (prefix, str(k)) if part and part[0] != "$") for k in value]
        return [row for name, v in zip(names, value.values(), strict=True) for row in _flat(v, name)]
    if isinstance(value, list) and any(isinstance(v, (dict, list)) for v in value):
        # The steps of a Pipeline are pairs of a name and what it stands for.
        named = [(v[0], v[1]) if _is_step(v) else (str(i), v) for i, v in enumerate(value)]
        return [row for name, v in named for row in _flat(v, f"{prefix}.{name}".replace(".steps.", "."))]
    return [] if value is None else [(prefix, value)]


def _is_step(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)
    )
