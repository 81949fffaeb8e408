"""`predict` and `evaluate`: a fitted model on rows larger than memory."""

from __future__ import annotations

import os
from typing import Any

from sklearn.base import is_classifier

from .. import __version__, store
from ..errors import InputError
from ..execution.write_parquet import write_parts
from ..execution.write_zarr import Written, write_rows
from ..linear_model.base import accuracy_pass, error_pass
from .inputs import Arrays, Input
from .loaded import Loaded, predictor
from .writing import to_parquet


def predict(
    model: Any,
    X: Any,
    out: str | os.PathLike[str] | None = None,
    *,
    keys: list[str] | None = None,
    scores: bool = False,
    strict: bool = False,
    overwrite: bool = False,
) -> Any:
    """Predict rows, block by block; a write that was interrupted resumes.

    Parameters
    ----------
    model : str, PathLike, estimator or Pipeline
        Folder of a model, or a fitted model.
    X : str, PathLike or array of shape (n, d)
        Path of a store or of Parquet, read as the training rows were; or rows, lazy or in memory.
    out : str, PathLike or None, default=None
        The Zarr store to write, or a folder that ends in .parquet. None returns the predictions.
    keys : list of str or None, default=None
        Parquet columns of X to write beside the predictions, to Parquet.
    scores : bool, default=False
        Whether to write the decision values of a classifier too.
    strict : bool, default=False
        Refuse a Zarr store of others that lacks chunks.
    overwrite : bool, default=False
        Replace an output that was made with another model or of other rows.

    Returns
    -------
    Written or array of shape (n,) or (n, C)
        What was written; where `out` is None the predictions, lazy but for rows in memory.

    Raises
    ------
    InputError
        The model does not predict, the rows have another width, or there are no such keys or scores.
    SpecMismatchError
        `out` holds other predictions.
    """
    trained = predictor(model)
    if out is None:
        if keys or scores:
            raise InputError("keys and scores are written beside predictions; give out=")
        plain = not isinstance(X, (str, os.PathLike, Input, Arrays))
        return trained.pipeline.predict(X if plain else trained.open(X, strict=strict).rows()[0])
    out = os.fspath(out)
    data = trained.open(X, strict=strict)
    check_extras(trained, data, out, keys, scores)
    pipeline, parquet = trained.pipeline, to_parquet(out)
    rows, _ = data.rows(uniform=not parquet)
    arrays = {"prediction": pipeline.predict(rows)}
    if scores:
        arrays["decision"] = pipeline.decision_function(rows)
    spec = {"model": trained.spec, "input": data.description, "scores": scores, "keys": keys}
    if parquet:
        source = data.path if keys else None
        return Written(None, *write_parts(out, arrays, source, keys, spec, overwrite, data.columns))
    texts = arrays["prediction"].dtype.kind == "U"
    return write_rows(
        out,
        arrays,
        kind="predictions",
        spec=spec,
        classes=[str(c) for c in pipeline[-1].classes_] if texts else None,
        provenance={"model": trained.path, "source": data.path, "distrf": __version__},
        overwrite=overwrite,
    )


def check_extras(trained: Loaded, data: Input | Arrays, out: str, keys: list[str] | None, scores: bool) -> None:
    """Raise InputError for keys or scores that these rows, this output or this model do not have."""
    if keys and not (to_parquet(out) and data.path and store.find_format(data.path).table):
        raise InputError(f"--keys go with a .parquet output and a Parquet input, got {out!r} and {data.path!r}")
    if scores and not is_classifier(trained.pipeline[-1]):
        raise InputError("--scores are decision values of a classifier; this model is a regressor")


def evaluate(
    model: Any, X: Any, y: Any = None, *, target: str | None = None, strict: bool = False
) -> dict[str, Any]:
    """Score a fitted model on rows with known targets, in one pass.

    Parameters
    ----------
    model : str, PathLike, estimator or Pipeline
        Folder of a model, or a fitted model.
    X : str, PathLike or array of shape (n, d)
        Path of a store or of Parquet, read as the training rows were; or rows, lazy or in memory.
    y : array of shape (n,) or (n, C), or None, default=None
        Targets of rows that are no path.
    target : str or None, default=None
        The column (Parquet) or array (Zarr) of the targets. None is that of the training rows.
    strict : bool, default=False
        Refuse a Zarr store of others that lacks chunks.

    Returns
    -------
    dict
        {"accuracy"} of a classifier. Of a regressor {"rmse", "relative_rmse", "r2"}, in means over the targets;
        "relative_rmse" is over the root mean square of y, and None where y is 0 everywhere.

    Raises
    ------
    InputError
        The rows have no target, or labels of another kind than those of the model.
    """
    trained = predictor(model)
    data = trained.open(X, y, target=target, needs_target=True, strict=strict)
    rows, truth = data.rows()
    if truth is None:
        raise InputError(f"evaluation needs a target: {data.path!r} has none; give --target")
    predicted = trained.pipeline.predict(rows)
    if is_classifier(trained.pipeline[-1]):
        return {"accuracy": accuracy_pass(predicted, truth, classes=trained.pipeline[-1].classes_)}
    errors = error_pass(predicted, truth)
    return {"rmse": errors.rmse, "relative_rmse": errors.relative_rmse, "r2": errors.r2}
