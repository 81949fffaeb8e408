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
from ..parameters import COLUMNS, ruled
from ..store.job_lock import hold
from .inputs import Arrays, Input, rows_with_target
from .loaded import Loaded, predictor


@ruled(keys=COLUMNS)
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
        Folder of a model. Or the fitted model itself.
    X : str, PathLike or array of shape (n, d)
        Path of a Zarr store or of Parquet, read as the training rows were. Or rows, lazy or in memory.
    out : str, PathLike or None, default=None
        The Zarr store to write, or a folder that ends in .parquet. Without one the predictions are returned.
    keys : list of str or None, default=None
        Parquet columns of X to write beside the predictions, to Parquet.
    scores : bool, default=False
        Write the decision values of a classifier too.
    strict : bool, default=False
        Refuse a Zarr store of others that lacks chunks; else it is a warning.
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
    # What is described has been checked.
    data = X if isinstance(X, Input) else open_rows(trained, X, out, keys, scores, strict)
    pipeline, parquet = trained.pipeline, store.to_parquet(out)
    rows, _ = data.rows(uniform=not parquet)
    arrays = {"prediction": pipeline.predict(rows)}
    if scores:
        arrays["decision"] = pipeline.decision_function(rows)
    spec = {"model": trained.spec, "input": data.description, "scores": scores, "keys": keys}
    with hold(out):
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


def open_rows(
    trained: Loaded,
    X: Any,
    out: str,
    keys: list[str] | None = None,
    scores: bool = False,
    strict: bool = False,
) -> Input | Arrays:
    """The rows to predict. Raises before anything runs for an output that cannot be written or would destroy others.

    InputError for keys or scores that these rows, this output or this model do not have.
    """
    if isinstance(X, (str, os.PathLike)):
        store.check_apart(out, [X])
    store.check_apart(out, [trained.path], than="the model")
    store.check_writable(out)
    store.existing_parts(out) if store.to_parquet(out) else store.existing_store(out)
    data = trained.open(X, strict=strict)
    if keys and not (store.to_parquet(out) and data.path and store.find_format(data.path).table):
        raise InputError(f"--keys go with a .parquet output and a Parquet input, got {out!r} and {data.path!r}")
    if scores and not is_classifier(trained.pipeline[-1]):
        raise InputError("--scores are decision values of a classifier; this model is a regressor")
    return data


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    target: str | None = None,
    weight: str | None = None,
    strict: bool = False,
) -> dict[str, Any]:
    """Score a fitted model on rows with known targets, in one pass.

    Parameters
    ----------
    model : str, PathLike, estimator or Pipeline
        Folder of a model. Or the fitted model itself.
    X : str, PathLike or array of shape (n, d)
        Path of a Zarr store or of Parquet, read as the training rows were. Or rows, lazy or in memory.
    y : array of shape (n,) or (n, C), or None, default=None
        Targets of rows that are no path.
    sample_weight : array of shape (n,) or None, default=None
        Weights of rows that are no path. None weighs all alike.
    target : str or None, default=None
        The column (Parquet) or array (Zarr) of the targets. None is that of the training rows.
    weight : str or None, default=None
        The column (Parquet) or array (Zarr) of the weights of rows at a path. None weighs all alike.
    strict : bool, default=False
        Refuse a Zarr store of others that lacks chunks; else it is a warning.

    Returns
    -------
    dict
        {"accuracy"} of a classifier. Of a regressor {"rmse", "relative_rmse", "r2"}, in means over the targets;
        "relative_rmse" is over the root mean square of y, and None where y is 0 everywhere.

    Raises
    ------
    InputError
        The rows have no target, or labels of another kind than those of the model; or a weight is negative or not
        finite.
    """
    trained = predictor(model)
    at_path = isinstance(X, (str, os.PathLike, Input))
    if (sample_weight if at_path else weight) is not None:
        raise InputError(
            "weight= names the weights of rows at a path, sample_weight= holds those of other rows; received "
            f"{'sample_weight= for a path' if at_path else 'weight= for rows that are no path'}"
        )
    data = trained.open(X, y, target=target, weight=weight, needs_target=True, strict=strict)
    rows, truth = rows_with_target(data, "evaluation")
    weights = data.weights() if isinstance(data, Input) else sample_weight
    predicted = trained.pipeline.predict(rows)
    if is_classifier(trained.pipeline[-1]):
        return {"accuracy": accuracy_pass(predicted, truth, weights, classes=trained.pipeline[-1].classes_)}
    errors = error_pass(predicted, truth, weights)
    return {"rmse": errors.rmse, "relative_rmse": errors.relative_rmse, "r2": errors.r2}
