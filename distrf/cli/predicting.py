"""Predict and score described rows with a saved model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from .. import __version__, store
from ..errors import InputError
from ..execution.write_parquet import write_parts
from ..execution.write_zarr import write_rows
from ..linear_model.base import accuracy_pass, error_pass
from ..persistence import load_model, model_details
from ..pipeline.inputs import Input, open_input


@dataclass(frozen=True)
class Loaded:
    """A saved pipeline and how its training rows were read."""

    path: str
    pipeline: Any
    details: dict[str, Any]

    @classmethod
    def of(cls, path: str, pipeline: Pipeline, details: dict[str, Any]) -> Loaded:
        """From what a folder holds; a model that was saved in Python says nothing of how its input was read."""
        if "input" in details:
            return cls(path, pipeline, details)
        return cls(path, pipeline, {**details, "input": {"columns": None, "target": None, "impute": None}})

    def open(
        self, source: str, target: str | None = None, *, needs_target: bool = False, strict: bool = False
    ) -> Input:
        """The rows at `source`, read as the training rows were: same columns, same imputation."""
        trained = self.details["input"]
        columns = trained["columns"]
        if store.find_format(source).table:
            if needs_target:
                target = target or trained["target"]
        elif columns and isinstance(columns[0], str):
            # A Zarr store may have no names; then only the width can be compared.
            known = store.describe(source).columns
            missing = [c for c in columns if known and c not in known]
            if missing:
                raise InputError(f"the model was trained on columns that {source!r} lacks: {missing[:10]}")
            columns = columns if known and known != columns else None
        data = open_input(source, target, columns, trained["impute"], strict=strict)
        width = self.pipeline[0].n_features_in_
        if data.d != width:
            raise InputError(
                f"{source!r} has {data.d} features, but the model {self.path!r} was trained on {width} features"
            )
        return data


def as_pipeline(model: Any) -> Pipeline:
    """A Pipeline, of one step where the model is none."""
    return model if isinstance(model, Pipeline) else Pipeline([("model", model)])


def load_trained(path: str) -> Loaded:
    """Raises StoreError for a folder that is not a model, InputError for one that does not predict."""
    details, pipeline = model_details(path), as_pipeline(load_model(path))
    if not hasattr(pipeline, "predict"):
        raise InputError(
            f"a model that predicts ends in a classifier or a regressor; {path!r} ends in a "
            f"{type(pipeline[-1]).__name__}"
        )
    return Loaded.of(path, pipeline, details)


def is_parquet_output(out: str) -> bool:
    """Whether predictions go to Parquet, by the ending of the path."""
    return out.rstrip("/").endswith((".parquet", ".pq"))


def check_extras(trained: Loaded, data: Input, out: str, keys: list[str] | None, scores: bool) -> None:
    """Raise InputError for --keys or --scores that these rows, this output or this model do not have."""
    if keys and not (is_parquet_output(out) and store.find_format(data.info.path).table):
        raise InputError(
            f"--keys go with a .parquet output and a Parquet input, got {out!r} and {data.info.path!r}"
        )
    if scores and not is_classifier(trained.pipeline[-1]):
        raise InputError("--scores are decision values of a classifier; this model is a regressor")


def write_predictions(
    trained: Loaded, data: Input, out: str, keys: list[str] | None, scores: bool, overwrite: bool
) -> dict[str, Any]:
    """Predictions block by block, to Zarr or Parquet by the ending of `out`."""
    model = trained.pipeline
    parquet = is_parquet_output(out)
    X, _ = data.rows(uniform=not parquet)
    arrays = {"prediction": model.predict(X)}
    if scores:
        arrays["decision"] = model.decision_function(X)
    spec = {"model": trained.details["model"], "input": data.description, "scores": scores, "keys": keys}
    if parquet:
        computed, blocks = write_parts(
            out, arrays, data.info.path if keys else None, keys, spec, overwrite, data.columns
        )
    else:
        classes = None
        if arrays["prediction"].dtype.kind == "U":
            classes = [str(c) for c in model[-1].classes_]
        provenance = {"model": trained.path, "source": data.info.path, "distrf": __version__}
        written = write_rows(
            out,
            arrays,
            kind="predictions",
            spec=spec,
            classes=classes,
            provenance=provenance,
            overwrite=overwrite,
        )
        computed, blocks = written.computed, written.blocks
    return {"blocks": blocks, "blocks_computed": computed}


def score(trained: Loaded, data: Input) -> dict[str, Any]:
    """Accuracy, or RMSE, relative RMSE and R^2, in one pass."""
    model = trained.pipeline
    X, y = data.rows()
    if y is None:
        raise InputError(f"evaluation needs a target: {data.info.path!r} has none; give --target")
    predicted = model.predict(X)
    if is_classifier(model[-1]):
        return {"accuracy": accuracy_pass(predicted, y, classes=model[-1].classes_)}
    errors = error_pass(predicted, y)
    norm, varies = float(errors.norm.sum()), errors.spread > 0
    shares = errors.squares / np.where(varies, errors.spread, 1.0)
    return {
        "rmse": float(np.sqrt(errors.squares / errors.weight).mean()),
        "relative_rmse": float(np.sqrt(errors.squares.sum() / norm)) if norm > 0 else None,
        "r2": float(np.where(varies, 1.0 - shares, errors.squares == 0).mean()),
    }
