"""`write_rows` and `featurize`: rows, or their features, into a store."""

from __future__ import annotations

import os
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .. import __version__, store
from ..errors import InputError
from ..execution import writing
from ..execution.graph import input_version
from ..execution.row_blocks import blocks_are_csr
from ..execution.writing import Written, write_parts
from ..parameters import PLACE, ruled
from ..persistence import save_model
from ..store.csv_format import reads_csv
from ..store.outputs import hold
from .loaded import Loaded
from .rows import Rows, around_job, open_input, path_of


@ruled(out=PLACE)
def write_rows(X: Any, out: str | os.PathLike[str], y: Any = None, *, overwrite: bool = False) -> Written:
    """Write rows to a store that `open_rows` opens, block by block; a write that was interrupted resumes.

    Parameters
    ----------
    X : array, CSR matrix or Dask array of shape (n, d)
        Rows. Blocks of unequal numbers of rows are cut anew for Zarr.
    out : str or PathLike
        The Zarr store to write, or a folder that ends in .parquet, whose columns are X_0, X_1, ... and y.
    y : array of shape (n,) or (n, C), or None, default=None
        Targets.
    overwrite : bool, default=False
        Replace an output that was made of other arrays.

    Returns
    -------
    Written
        `info` of the finished store (None for Parquet), and how many of its `blocks` this call `computed`.

    Raises
    ------
    InputError
        NaN or infinity, CSR rows for Parquet, or y of another length.
    SpecMismatchError
        `out` holds other rows.
    """
    out, rows = os.fspath(out), Rows(X, y)
    spec = {"rows": rows.description["data"]}
    X, y = rows.rows(uniform=not store.to_parquet(out))
    arrays = {"X": X} | ({} if y is None else {"y": y})
    if store.to_parquet(out) and blocks_are_csr(X):
        raise InputError(f"Parquet holds dense columns, got CSR rows for {out!r}; write a .zarr store")
    with hold(out):
        if store.to_parquet(out):
            return write_parts(out, arrays, None, None, spec, overwrite)
        return writing.write_rows(
            out, arrays, kind="rows", spec=spec, classes=rows.classes(y), overwrite=overwrite
        )


@reads_csv
@ruled(out=PLACE)
def featurize(
    map: Any,
    X: Any,
    out: str | os.PathLike[str],
    y: Any = None,
    *,
    target: str | None = None,
    columns: list[Any] | None = None,
    save_map: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Written:
    """Write the features of rows to a Zarr store, block by block; a write that was interrupted resumes.

    Parameters
    ----------
    map : estimator, Pipeline, str or PathLike
        A feature estimator or a Pipeline of them; one that is not fitted is cloned and fitted to the rows. Or the
        folder of a saved map or model, whose maps are taken as they were fitted.
    X : str, PathLike or array of shape (n, d)
        Path of a Zarr store or of Parquet. Or rows, lazy or in memory.
    out : str or PathLike
        The Zarr store of features to write.
    y : array of shape (n,) or (n, C), or None, default=None
        Targets to write beside the features.
    target : str or None, default=None
        Column or array of the targets of rows at a path.
    columns : list or None, default=None
        Columns to read of rows at a path, by name or number. None reads all. Those of a saved map are read as the
        rows that it was fitted to.
    save_map : str, PathLike or None, default=None
        Folder to keep the fitted map in, which stands for the map where other rows are featurised.
    overwrite : bool, default=False
        Replace an output, and a saved map, of another spec.
    {csv}

    Returns
    -------
    Written
        `info` of the finished store, and how many of its `blocks` this call `computed`.

    Raises
    ------
    InputError
        A parameter breaks its rule, or a folder holds no map.
    SpecMismatchError
        `out` holds other features.
    """
    path, like = path_of(X), path_of(map)
    store.check_apart(save_map, [path], what="save_map=")
    store.check_apart(out, [path, like, save_map])
    store.check_writable(os.fspath(out), save_map)
    store.existing_store(os.fspath(out))  # of others: refused now
    if save_map is not None:
        store.existing_model_folder(save_map)
    steps = map.steps if isinstance(map, Pipeline) else [("map", map)]
    steps = [(name, step) for name, step in steps if hasattr(step, "transform")]
    if not steps and like is None:
        raise InputError(f"featurize takes a feature estimator, or a Pipeline with some, got {map!r}")
    fitted = like is not None or all(hasattr(step, "map_") for _, step in steps)
    if fitted:
        loaded = Loaded.of(map).transformers()
        data, pipeline = loaded.open(X, y, target=target, columns=columns), loaded.pipeline
    else:
        data = Rows(X, y) if path is None else open_input(path, target, columns, y=y)
        pipeline = Pipeline([(name, clone(step)) for name, step in steps])
    with hold(out, save_map), around_job.get()("featurize", pipeline, data):
        features, y = data.rows(uniform=True)
        read = data.description | input_version([features])
        for _, step in pipeline.steps:
            features = (step if fitted else step.fit(features, y)).transform(features)
        provenance = {"source": data.path, "distrf": __version__}
        if save_map is not None:
            save_model(pipeline, save_map, overwrite=overwrite, input=data.description, provenance=provenance)
        specs = [step.map_.spec() for step in pipeline]
        return writing.write_rows(
            os.fspath(out),
            {"X": features} | ({} if y is None else {"y": y}),
            kind="features",
            spec={"map": specs if fitted or len(specs) > 1 else specs[0], "input": read},
            classes=data.classes(y),
            target=data.target,
            provenance=provenance,
            overwrite=overwrite,
        )
