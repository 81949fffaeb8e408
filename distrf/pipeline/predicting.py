"""`predict`: a fitted model on rows larger than memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from sklearn.pipeline import Pipeline

from .. import __version__, store
from ..errors import InputError
from ..execution.graph import input_version
from ..execution.writing import write_parts, write_rows
from ..linear_model.base import COVERAGE
from ..linear_model.calibration import error_bound
from ..parameters import COLUMNS, FLAG, NONE, PLACE, one_of, ruled
from ..persistence import model_identity
from ..store.csv_format import reads_csv
from ..store.outputs import hold
from .loaded import predictor
from .rows import around_job, is_table_path, path_of

#: Classes up to which probabilities are written where nothing is said of them.
_FEW_CLASSES = 100


@reads_csv
@ruled(
    out=PLACE | NONE,
    keys=COLUMNS,
    columns=COLUMNS,
    probabilities=FLAG | one_of("auto"),
    interval=COVERAGE | NONE,
)
def predict(
    model: Any,
    X: Any,
    out: str | os.PathLike[str] | None = None,
    *,
    keys: list[str] | None = None,
    columns: Sequence[Any] | None = None,
    probabilities: bool | str = "auto",
    interval: float | None = None,
    overwrite: bool = False,
) -> Any:
    """Predict rows, block by block; a write that was interrupted resumes.

    Parameters
    ----------
    model : str, PathLike, estimator or Pipeline
        Folder of a model. Or the fitted model itself.
    X : str, PathLike or array of shape (n, d)
        Path of a Zarr store, Parquet or CSV, read as the training rows were. Or rows, lazy or in memory.
    out : str, PathLike or None, default=None
        The Zarr store to write, or a folder that ends in .parquet. Without one the predictions are returned.
    keys : list of str or None, default=None
        Columns of X, Parquet or CSV, to write beside the predictions, to Parquet. X may be rows of `open_rows`.
    columns : sequence or None, default=None
        Columns of rows at a path that the model takes, by name or number. None is those of the training rows, as far as the
        model knows them: from `train`, and of rows of `open_rows`.
    probabilities : bool or {"auto"}, default="auto"
        Whether to write the probability of each class beside the label: columns "p_" and the class in Parquet, an array
        "probability" in Zarr. "auto" writes them to Parquet, if the model has them and at most 100 classes.
    interval : float or None, default=None
        Write the ends of the intervals "low" and "high" that hold this share of targets, such as 0.9, beside the numbers
        that a regressor predicts. None writes no intervals.
    overwrite : bool, default=False
        Replace an output that was made with another model or of other rows.
    {csv}

    Returns
    -------
    Written or array of shape (n,) or (n, C)
        What was written; where `out` is None the predictions, lazy but for rows in memory. Then probabilities=True gives
        these in their place, of shape (n, c), and `interval` the ends, of shape (n, 2) or (n, C, 2).

    Raises
    ------
    InputError
        The model does not predict, the rows have another width, or there are no such keys, probabilities or intervals.
    SpecMismatchError
        `out` holds other predictions.

    Warns
    -----
    DriftWarning
        Rows of a table differ from those of the training: see `TableEncoder.find_drift`.
    """
    place = None if out is None else os.fspath(out)
    parquet = place is not None and store.to_parquet(place)
    if place is not None:  # refused before anything is read
        store.check_apart(place, [path_of(X), path_of(model)])
        store.check_writable(place)
        store.existing_store(place, parts=True)
    trained = predictor(model)
    data, pipeline, last = trained.open(X, columns=columns), trained.pipeline, trained.pipeline[-1]
    if keys and not (parquet and is_table_path(data.place)):
        raise InputError(
            f"keys= goes with out= of .parquet and an input of Parquet or CSV, got {out!r} and {data.place!r}"
        )
    headings = _headings(last, probabilities, interval, parquet)
    if twice := sorted({*(keys or ())} & {"prediction", "low", "high", *headings}):
        raise InputError(
            f"keys= has {twice}, names that predictions have; rename these columns of {data.place!r}"
        )
    if place is None:
        trained.warn_of_drift(data.X)
        if interval is not None:
            return _ends(pipeline, data.X, interval)
        return pipeline.predict_proba(data.X) if probabilities is True else pipeline.predict(data.X)
    with hold(place), around_job.get()("predict", pipeline, data):
        rows, _ = data.rows(uniform=not parquet)
        trained.warn_of_drift(rows)
        arrays = {"prediction": pipeline.predict(rows)}
        if headings:
            arrays["probability"] = pipeline.predict_proba(rows)
        if interval is not None:
            ends = _ends(pipeline, rows, interval)
            arrays |= {"low": ends[..., 0], "high": ends[..., 1]}
        identity = trained.details.get("model") or model_identity(trained.fitted)
        spec = {"model": identity, "input": data.description | input_version([rows]), "keys": keys}
        spec |= {"probabilities": bool(headings), "interval": interval}
        if parquet:
            source, named = data.place if keys else None, {"probability": headings}
            return write_parts(
                place, arrays, source, keys, spec, overwrite, data.reading.get("columns"), headings=named
            )
        classes = [str(c) for c in last.classes_] if arrays["prediction"].dtype.kind == "U" else None
        made = {"model": trained.path, "source": data.path, "distrf": __version__}
        return write_rows(
            place, arrays, kind="predictions", spec=spec, classes=classes, provenance=made, overwrite=overwrite
        )


def _headings(model: Any, probabilities: bool | str, interval: float | None, parquet: bool) -> list[str]:
    """Names of the columns of probabilities, none where they are not written. Raises InputError for what the model does not have."""
    name, has = type(model).__name__, hasattr(model, "predict_proba")
    if probabilities is True and not has:
        raise InputError(
            f"probabilities=True needs a classifier that was calibrated, or has the logistic loss; this is a {name} without; "
            "train it with calibrate=True"
        )
    if interval is not None:
        if not hasattr(model, "predict_interval"):
            raise InputError(
                f"interval= needs a regressor that was calibrated; this is a {name} that was not; train a regressor with "
                "calibrate=True"
            )
        error_bound(model.calibration_, interval)
    few = parquet and has and len(model.classes_) <= _FEW_CLASSES
    wanted = few if probabilities == "auto" else probabilities
    return [f"p_{label}" for label in model.classes_.tolist()] if wanted else []


def _ends(pipeline: Pipeline, rows: Any, interval: float) -> Any:
    features = pipeline[:-1].transform(rows) if len(pipeline) > 1 else rows
    return pipeline[-1].predict_interval(features, interval)
