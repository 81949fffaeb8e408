"""Commands about data: ingest, featurize, inspect."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from dask.utils import format_bytes
from rich.console import Console
from rich.table import Table

from .. import __version__
from ..errors import StoreError
from . import options as o
from .session import Session, UsageError


def ingest(
    source: Annotated[
        str, typer.Argument(help="A .parquet, .csv, .npy, .npz or .svmlight file (or Parquet folder).")
    ],
    out: Annotated[str, typer.Argument(help="The Zarr store to write.")],
    target: o.Target = None,
    columns: o.Columns = None,
    impute: o.Impute = None,
    scale: Annotated[
        str | None,
        typer.Option(
            "--scale", help="standard, minmax, maxabs, l1-rows, l2-rows: fitted in one pass, kept in the store."
        ),
    ] = None,
    divide_by: Annotated[
        float | None, typer.Option("--divide-by", help="Scale by a number: 255 for grey values.")
    ] = None,
    shuffle: Annotated[
        bool, typer.Option("--shuffle", help="Shuffle all rows (files sorted by date or class).")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the shuffle.")] = 0,
    sparse: Annotated[
        str | None, typer.Option("--sparse", help="csr or dense. Default: as the source suggests.")
    ] = None,
    split: Annotated[str | None, typer.Option("--split", help="train or test members of an .npz file.")] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", help="float32 or float64. Default: the source's.")
    ] = None,
    rows_per_block: Annotated[int | None, typer.Option("--rows-per-block", help="Rows of a block.")] = None,
    overwrite: o.Overwrite = False,
    cluster: o.Cluster = None,
    memory_limit: o.MemoryLimit = None,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Turn a table into a chunked Zarr store; started again, it resumes."""
    from ..blocks.progress import pass_topic, report
    from ..ingest import ingest as run_ingest

    scalings = ("standard", "minmax", "maxabs", "l1-rows", "l2-rows")
    o.one_of("--scale", scale, scalings)
    o.one_of("--sparse", sparse, ("csr", "dense"))
    o.one_of("--dtype", dtype, ("float32", "float64"))
    o.one_of("--split", split, ("train", "test"))
    if scale and divide_by is not None:
        raise UsageError("--scale and --divide-by exclude each other")
    if divide_by is not None and not 0 < abs(divide_by) < float("inf"):
        raise UsageError(f"--divide-by is a finite number other than 0, got {divide_by}")
    session = Session(cluster, memory_limit, quiet, json)
    method, divisor = (scale, 1.0) if divide_by is None else ("divide", divide_by)

    def write() -> Any:
        shown: list[Any] = []

        def progress(done: int, total: int) -> None:
            if not shown:
                context = pass_topic("ingest", total, None)
                shown.extend([context, context.__enter__(), 0])
            report(shown[1], done - shown[2])
            shown[2] = done

        info = run_ingest(
            source,
            out,
            target=target,
            columns=o.listed(columns),
            sparse=sparse,
            shuffle=shuffle,
            seed=seed,
            block_rows=rows_per_block,
            dtype=dtype,
            impute=o.number_or_rule(impute),
            split=split,
            scale=method,
            divisor=divisor,
            progress=progress,
            overwrite=overwrite,
        )
        if shown:
            shown[0].__exit__(None, None, None)
        return info

    if method in ("standard", "minmax", "maxabs"):
        with session.connected():
            info = write()
    else:
        with session.progress():
            info = write()
    session.finish(store_summary(info), lambda console: print_store(console, info))


def featurize(
    source: Annotated[str, typer.Argument(help="Rows: a Zarr store or Parquet.")],
    out: Annotated[str, typer.Argument(help="The Zarr store of features to write.")],
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
    target: o.Target = None,
    columns: o.Columns = None,
    impute: o.Impute = None,
    overwrite: o.Overwrite = False,
    cluster: o.Cluster = None,
    memory_limit: o.MemoryLimit = None,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Write random features of rows to Zarr, block by block; started again, it resumes."""
    from ..blocks.writing import write_rows
    from .inputs import open_input
    from .plans import refuse_if_too_big

    session = Session(cluster, memory_limit, quiet, json)
    data = open_input(source, target, columns, impute)
    estimator = o.make_map(
        map, data.d, kernel=kernel, length_scale=length_scale, gamma=gamma, nu=nu, components=components,
        projection=projection, phase=phase, whiten=whiten, seed=seed,
        beta=beta, lam=lam, n_mixed=n_mixed, grids=grids, bins=bins,
        degree=degree, coef0=coef0, base=base, up_factor=up_factor, landmarks=landmarks, transformer=transformer,
        base_components=base_components, sketch=sketch, n_iter=n_iter,
    )  # fmt: skip
    if estimator is None:
        raise UsageError("featurize needs a map; --map none has no features")
    refuse_if_too_big("featurize", data, estimator, None, cluster, memory_limit)
    with session.connected():
        X, y = data.rows(uniform=True)
        estimator.fit(X)
        arrays = {"X": estimator.transform(X)} | ({} if y is None else {"y": y})
        spec = {"map": estimator.map_.spec(), "input": data.description}
        written = write_rows(
            out,
            arrays,
            kind="features",
            spec=spec,
            classes=data.classes(y),
            target=data.target,
            provenance={"source": source, "distrf": __version__},
            overwrite=overwrite,
        )
    session.say(
        f"{written.computed} of {written.blocks} blocks computed, {written.blocks - written.computed} were there"
    )
    result = store_summary(written.info) | {"blocks_computed": written.computed}
    session.finish(result, lambda console: print_store(console, written.info))


def inspect(
    path: Annotated[str, typer.Argument(help="A store, a model, or Parquet.")],
    json: o.Json = False,
) -> None:
    """Show what a store or a model holds: spec, shapes, manifest, provenance."""
    from .. import store
    from ..models import model_details

    session = Session(quiet=False, as_json=json)
    if store.is_bundle(path):
        details = model_details(path)
        session.finish(
            {"kind": "model", **details}, lambda console: print_spec(console, f"model {path}", details)
        )
        return
    if store.is_parquet(path):
        rows, groups, columns = store.table_columns(path)
        facts = {"rows": rows, "row_groups": groups, "columns": columns}
        session.finish({"kind": "parquet", **facts}, lambda console: print_spec(console, path, facts))
        return
    try:
        info = store.info(path, measure=True)
    except StoreError as error:
        if "no such" in str(error):
            raise
        described = store.describe(path)
        entries = {k: v for k, v in vars(described).items() if v is not None}
        session.finish({"kind": "rows", **entries}, lambda console: print_spec(console, path, entries))
        return
    session.finish(store_summary(info), lambda console: print_store(console, info))


def store_summary(info: Any) -> dict[str, Any]:
    """The facts of a store as JSON."""
    return {
        "kind": info.kind,
        "path": info.path,
        "rows": info.n_rows,
        "block_rows": info.block_rows,
        "blocks": info.n_blocks,
        "blocks_pending": info.pending,
        "complete": info.complete,
        "arrays": {
            a.name: {"shape": list(a.shape), "dtype": a.dtype, "chunks": list(a.chunks), "sparse": a.sparse}
            for a in info.arrays
        },
        "bytes": info.nbytes,
        "stored_bytes": info.stored_bytes,
        "target": info.target,
        "classes": info.classes,
        "columns": info.columns,
        "spec": info.spec,
        "preprocessing": None if not info.preprocessing else info.preprocessing.get("map", info.preprocessing),
        "provenance": info.provenance,
    }


def print_store(console: Console, info: Any) -> None:
    """A store as a short table."""
    table = Table(title=f"{info.kind} in {info.path}", title_justify="left", show_header=False)
    state = (
        "complete" if info.complete else f"{info.n_blocks - info.pending} of {info.n_blocks} blocks finished"
    )
    table.add_row("rows", f"{info.n_rows:,} in {info.n_blocks} blocks of {info.block_rows:,} ({state})")
    for array in info.arrays:
        chunks = "CSR rows" if array.sparse else f"chunks {tuple(array.chunks)}"
        table.add_row(array.name, f"{tuple(array.shape)} {array.dtype}, {chunks}")
    stored = "" if info.stored_bytes is None else f", {format_bytes(info.stored_bytes)} on disk"
    table.add_row("size", format_bytes(info.nbytes) + stored)
    for name in ("target", "classes", "columns"):
        value = getattr(info, name)
        if value:
            table.add_row(name, value if isinstance(value, str) else ", ".join(str(v) for v in value[:12]))
    if info.preprocessing:
        table.add_row("scaling", str(info.preprocessing["map"]["method"]))
    for key, value in _flat(info.spec):
        table.add_row(key, _short(value))
    for key, value in info.provenance.items():
        table.add_row(key, str(value))
    console.print(table)


def print_spec(console: Console, title: str, spec: dict[str, Any]) -> None:
    """Nested JSON as a two-column table."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(overflow="fold")
    for key, value in _flat(spec):
        table.add_row(key, _short(value))
    console.print(table)


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
