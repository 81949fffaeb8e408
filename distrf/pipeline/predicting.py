"""`predict`: a fitted model on rows larger than memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from .. import __version__, store
from ..errors import InputError
from ..execution.graph_inputs import input_version
from ..execution.labelled import reading_of
from ..execution.open_table import is_table
from ..execution.writing import write_parts, write_rows
from ..linear_model.base import COVERAGE
from ..linear_model.calibration import error_bound
from ..parameters import COLUMNS, FLAG, NONE, PLACE, one_of, ruled
from ..store.csv_format import reads_csv
from ..store.job_lock import hold
from .inputs import Arrays, Input
from .loaded import Loaded, predictor
from .tables import encoder_of, warn_of_drift

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
    scores : bool, default=False
        Write the decision values of a classifier too.
    strict : bool, default=False
        Refuse a Zarr store of others that lacks chunks; else it is a warning.
    overwrite : bool, default=False
        Replace an output that was made with another model or of other rows.

    Returns
    -------
    Written or array of shape (n,) or (n, C)
        What was written; where `out` is None the predictions, lazy but for rows in memory. Then probabilities=True gives
        these in their place, of shape (n, c), and `interval` the ends, of shape (n, 2) or (n, C, 2).

    Raises
    ------
    InputError
        The model does not predict, the rows have another width, or there are no such keys, scores, probabilities or
        intervals.
    SpecMismatchError
        `out` holds other predictions.

    Warns
    -----
    DriftWarning
        Rows of a table differ from those of the training: see `TableEncoder.find_drift`.
    """
    trained = predictor(model)
    beside = Beside(scores, probabilities, interval)
    if out is None:
        if keys or scores:
            raise InputError("keys and scores are written beside predictions; give out=")
        plain = not isinstance(X, (str, os.PathLike, Input, Arrays))
        rows = X if plain and columns is None else trained.open(X, columns=columns, strict=strict).rows()[0]
        encoder = encoder_of(trained.pipeline)
        if not plain or is_table(X):
            warn_of_drift(encoder, rows)
        return beside.alone(trained.pipeline, rows)
    out = os.fspath(out)
    # What is described has been checked.
    if isinstance(X, Input):
        data: Input | Arrays = X
    else:
        data = open_rows(trained, X, out, keys, scores, probabilities, interval, strict, columns)
    pipeline, parquet = trained.pipeline, store.to_parquet(out)
    rows, _ = data.rows(uniform=not parquet)
    warn_of_drift(encoder_of(pipeline), rows)
    arrays, headings = beside.arrays(pipeline, rows, parquet)
    spec = {
        "model": trained.spec,
        "input": data.description | input_version([rows]),
        "scores": scores,
        "keys": keys,
    }
    spec |= {"probabilities": "probability" in arrays, "interval": interval}
    with hold(out, takeover=overwrite):
        if parquet:
            source = _path_of(data) if keys else None
            return write_parts(out, arrays, source, keys, spec, overwrite, data.columns, headings=headings)
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


@dataclass(frozen=True)
class Beside:
    """What goes beside the predictions; see `predict`."""

    scores: bool = False
    probabilities: bool | str = "auto"
    interval: float | None = None

    def check(self, model: Any) -> None:
        """Raise InputError for what this model does not have."""
        if self.scores and not is_classifier(model):
            raise InputError("scores=True writes decision values of a classifier; this model is a regressor")
        if self.probabilities is True and not hasattr(model, "predict_proba"):
            raise InputError(
                "probabilities=True needs a classifier that was calibrated, or has the logistic loss; this is a "
                f"{type(model).__name__} without; train it with calibrate=True"
            )
        if self.interval is not None:
            if not hasattr(model, "predict_interval"):
                raise InputError(
                    f"interval= needs a regressor that was calibrated; this is a {type(model).__name__} that was not; "
                    "train a regressor with calibrate=True"
                )
            error_bound(model.calibration_, self.interval)

    def headings(self, model: Any, parquet: bool) -> list[str]:
        """Names of the columns of probabilities; none where they are not written."""
        if self.probabilities == "auto":
            wanted = parquet and hasattr(model, "predict_proba") and len(model.classes_) <= _FEW_CLASSES
        else:
            wanted = bool(self.probabilities)
        return [f"p_{label}" for label in model.classes_.tolist()] if wanted else []

    def alone(self, pipeline: Pipeline, rows: Any) -> Any:
        """The probabilities or intervals that are asked for, else the predictions."""
        self.check(pipeline[-1])
        if self.interval is not None:
            return self._ends(pipeline, rows)
        return pipeline.predict_proba(rows) if self.probabilities is True else pipeline.predict(rows)

    def arrays(
        self, pipeline: Pipeline, rows: Any, parquet: bool
    ) -> tuple[dict[str, Any], dict[str, list[str]]]:
        """What is written, by name, and the names of columns."""
        arrays, headings = {"prediction": pipeline.predict(rows)}, {}
        if named := self.headings(pipeline[-1], parquet):
            arrays["probability"], headings = pipeline.predict_proba(rows), {"probability": named}
        if self.interval is not None:
            ends = self._ends(pipeline, rows)
            arrays |= {"low": ends[..., 0], "high": ends[..., 1]}
        if self.scores:
            arrays["decision"] = pipeline.decision_function(rows)
        return arrays, headings

    def _ends(self, pipeline: Pipeline, rows: Any) -> Any:
        features = pipeline[:-1].transform(rows) if len(pipeline) > 1 else rows
        return pipeline[-1].predict_interval(features, self.interval)


def open_rows(
    trained: Loaded,
    X: Any,
    out: str,
    keys: list[str] | None = None,
    scores: bool = False,
    probabilities: bool | str = "auto",
    interval: float | None = None,
    strict: bool = False,
    columns: Sequence[Any] | None = None,
) -> Input | Arrays:
    """The rows to predict. Raises before anything runs for an output that cannot be written or would destroy others.

    InputError for keys, or for what `Beside` names, that these rows, this output or this model do not have.
    """
    if isinstance(X, (str, os.PathLike)):
        store.check_apart(out, [X])
    store.check_apart(out, [trained.path], than="the model")
    store.check_writable(out)
    store.existing_parts(out) if store.to_parquet(out) else store.existing_store(out)
    data = trained.open(X, columns=columns, strict=strict)
    path = _path_of(data)
    if keys and not (store.to_parquet(out) and path and store.find_format(path).table):
        raise InputError(
            f"keys= goes with a .parquet output and an input of Parquet or CSV, got {out!r} and {path!r}"
        )
    beside = Beside(scores, probabilities, interval)
    beside.check(trained.pipeline[-1])
    named = ["prediction", "low", "high", *beside.headings(trained.pipeline[-1], True)]
    if twice := sorted(set(keys or ()) & set(named)):
        raise InputError(f"keys= has {twice}, names that predictions have; rename these columns of {path!r}")
    return data


def _path_of(data: Input | Arrays) -> str | None:
    """Where the rows are, or were opened."""
    return data.path if isinstance(data, Input) else reading_of(data.X).get("path")
