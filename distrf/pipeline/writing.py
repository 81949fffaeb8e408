"""`write_rows` and `featurize`: rows, or their features, into a store."""

from __future__ import annotations

import os
from typing import Any

import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .. import __version__
from ..errors import InputError
from ..execution import write_zarr
from ..execution.write_parquet import write_parts
from ..execution.write_zarr import Written
from ..persistence import save_model
from .inputs import Arrays, described
from .loaded import Loaded


def to_parquet(out: str) -> bool:
    """Whether an output is Parquet, by the ending of its path."""
    return out.rstrip("/").endswith((".parquet", ".pq"))


def write_rows(X: Any, out: str | os.PathLike[str], y: Any = None, *, overwrite: bool = False) -> Written:
    """Write rows to a store that `open_rows` opens, block by block; a write that was interrupted resumes.

    Parameters
    ----------
    X : Dask array of shape (n, d), or rows in memory, dense or CSR; blocks of unequal rows are cut anew for Zarr
    out : the Zarr store to write, or a folder that ends in .parquet, whose columns are X_0, X_1, ... and y
    y : targets of shape (n,), or (n, C)
    overwrite : replace an output that was made of other arrays

    Returns
    -------
    Written: `info` of the finished store (None for Parquet), `computed` of its `blocks` by this call

    Raises
    ------
    InputError : NaN or infinity, CSR rows to Parquet, y of another length
    SpecMismatchError : `out` holds other rows
    """
    out, rows = os.fspath(out), Arrays(X, y)
    spec = {"rows": rows.description["data"]}
    X, y = rows.rows(uniform=not to_parquet(out))
    arrays = {"X": X} | ({} if y is None else {"y": y})
    if not to_parquet(out):
        return write_zarr.write_rows(
            out, arrays, kind="rows", spec=spec, classes=rows.classes(y), overwrite=overwrite
        )
    if sp.issparse(X._meta):
        raise InputError(f"Parquet holds dense columns, got CSR rows for {out!r}; write a .zarr store")
    return Written(None, *write_parts(out, arrays, None, None, spec, overwrite))


def featurize(
    map: Any,
    X: Any,
    out: str | os.PathLike[str],
    y: Any = None,
    *,
    target: str | None = None,
    columns: list[Any] | None = None,
    impute: str | float | None = None,
    strict: bool = False,
    save_map: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Written:
    """Write the features of rows to a Zarr store, block by block; a write that was interrupted resumes.

    Parameters
    ----------
    map : feature estimator or Pipeline of them: one that is not fitted is cloned and fitted to the rows; or the
        folder of a saved map or model, whose maps are taken as they were fitted
    X, y : path of a store or of Parquet; or rows, and targets to write beside, lazy or in memory
    out : the Zarr store to write
    target, columns, impute, strict : how rows at a path are read, see `open_rows`; those of a saved map are read as the
        rows it was fitted to
    save_map : folder to keep the fitted map in
    overwrite : replace an output, and a saved map, of another spec

    Returns
    -------
    Written: `info` of the finished store, `computed` of its `blocks` by this call

    Raises
    ------
    InputError : parameters that break a rule, a folder without a map
    SpecMismatchError : `out` holds other features
    """
    given = map.steps if isinstance(map, Pipeline) else [("map", map)]
    steps = [(name, step) for name, step in given if hasattr(step, "transform")]
    if isinstance(map, (str, os.PathLike, Loaded)):
        steps = []  # as they were fitted
    elif not steps:
        raise InputError(f"featurize takes a feature estimator, or a Pipeline with some, got {map!r}")
    fitted = all(hasattr(step, "map_") for _, step in steps)
    if fitted:
        loaded = Loaded.of(map).transformers()
        data = loaded.open(X, y, target=target, strict=strict)
        pipeline = loaded.pipeline
        rows, y = data.rows(uniform=True)
        features = pipeline.transform(rows)
    else:
        data = described(X, y, target=target, columns=columns, impute=impute, strict=strict)
        pipeline = Pipeline([(name, clone(step)) for name, step in steps])
        rows, y = data.rows(uniform=True)
        features = rows
        for _, step in pipeline.steps:
            features = step.fit(features, y).transform(features)
    provenance = {"source": data.path, "distrf": __version__}
    if save_map is not None:
        save_model(pipeline, save_map, overwrite=overwrite, input=data.description, provenance=provenance)
    specs = [step.map_.spec() for step in pipeline]
    return write_zarr.write_rows(
        os.fspath(out),
        {"X": features} | ({} if y is None else {"y": y}),
        kind="features",
        spec={"map": specs if fitted or len(specs) > 1 else specs[0], "input": data.description},
        classes=data.classes(y),
        target=data.target,
        provenance=provenance,
        overwrite=overwrite,
    )
