"""A model or a map, from its folder or as it is, and how the rows it was fitted to were read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.pipeline import Pipeline

from .. import store
from ..errors import InputError
from ..execution.open_table import is_table
from ..features import Blockwise
from ..maps.transformers import listed_transformer
from ..persistence import load_model, model_details, model_identity
from .inputs import Arrays, Input, described, open_input
from .tables import TableArrays, encoder_of, like_training

#: Of rows that no path names.
NOT_SAID = {"columns": None, "target": None, "impute": None}


@dataclass(frozen=True)
class Loaded:
    """A fitted pipeline; `reading` says how its training rows were read, `spec` what determines it."""

    path: str | None
    pipeline: Pipeline
    reading: dict[str, Any]
    spec: Any

    @classmethod
    def of(cls, model: Any) -> Loaded:
        """From the path of a model folder, or a fitted estimator. Raises StoreError for a folder that is none."""
        if isinstance(model, Loaded):
            return model
        if not isinstance(model, (str, os.PathLike)):
            pipeline = as_pipeline(model)
            return cls(None, pipeline, _reading_of(pipeline), model_identity(model))
        details, pipeline = model_details(model), as_pipeline(load_model(model))
        reading = _reading_of(pipeline)
        reading |= {name: value for name, value in details.get("input", {}).items() if value is not None}
        return cls(os.fspath(model), pipeline, reading, details["model"])

    @classmethod
    def of_any(cls, model: Any) -> Loaded:
        """As `of`, but a fitted estimator may be of any class, savable or not: nothing here tells it from others."""
        if isinstance(model, (Loaded, str, os.PathLike)):
            return cls.of(model)
        pipeline = as_pipeline(model)
        return cls(None, pipeline, _reading_of(pipeline), None)

    def transformers(self) -> Loaded:
        """The steps before the model. Raises InputError where none of them is a map."""
        steps = [(name, step) for name, step in self.pipeline.steps if hasattr(step, "transform")]
        if not any(hasattr(step, "map_") for _, step in steps):
            raise InputError(f"{self.path!r} holds no map: its features are the columns as they are")
        return Loaded(self.path, Pipeline(steps), self.reading, self.spec)

    def open(self, rows: Any, y: Any = None, **reading: Any) -> Input | Arrays:
        """The rows at a path or of a table, read as the training rows were (same columns, same imputation), or arrays as they
        are; reading : target, weight, columns, needs_target, strict"""
        training = getattr(self.pipeline, "training_", None)
        if isinstance(rows, (str, os.PathLike)) and training is not None:
            store.read_as(training.csv, rows)
        data = self._open(rows, y, **reading)
        form = getattr(training, "form", "")
        return replace(data, form=form) if form else data

    def _open(
        self,
        rows: Any,
        y: Any = None,
        *,
        target: str | None = None,
        weight: str | None = None,
        columns: Sequence[Any] | None = None,
        needs_target: bool = False,
        strict: bool = False,
    ) -> Input | Arrays:
        if isinstance(rows, (Input, Arrays)):
            return rows
        encoder = encoder_of(self.pipeline)
        drop = needs_target and getattr(getattr(self.pipeline, "training_", None), "dropped", False)
        if columns is not None and (encoder is not None or not isinstance(rows, (str, os.PathLike))):
            raise InputError(
                "columns= names the columns of rows at a path, for a model that does not know them by name"
            )
        if not isinstance(rows, (str, os.PathLike)):
            if encoder is not None and is_table(rows):
                asked, usual = (target, self.reading["target"]) if needs_target else (None, None)
                return TableArrays.of(encoder, rows, y, asked, usual, drop)
            if target is not None:
                raise InputError(
                    f"target={target!r} names a column of a table, and the model was trained on arrays; give y"
                )
            return described(rows, y)
        if encoder is not None:
            target = (target or self.reading["target"]) if needs_target else None
            return like_training(encoder, os.fspath(rows), target, weight, drop)
        source, trained = os.fspath(rows), self.reading
        columns = trained["columns"] if columns is None else list(columns)
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
        data = open_input(source, target, columns, trained["impute"], weight=weight, strict=strict)
        width = self.pipeline[0].n_features_in_
        if data.d != width:
            remedy = f"; of svmlight text, make the store again with `distrf ingest --n-features {width}`"
            raise InputError(
                f"{source!r} has {data.d} features, but the model{f' {self.path!r}' if self.path else ''} was trained on {width} "
                f"features; columns= names them{remedy if data.d < width else ''}"
            )
        return data


def _reading_of(pipeline: Pipeline) -> dict[str, Any]:
    """How the rows of a model that was trained in Python were read, as far as its steps know."""
    target = getattr(getattr(pipeline, "training_", None), "target", None)
    read = {"target": target or getattr(pipeline[-1], "target_", None)} | getattr(pipeline[0], "rows_", {})
    return NOT_SAID | read


def as_pipeline(model: Any) -> Pipeline:
    """A Pipeline, of one step where the model is none. Transformers of scikit-learn run block by block on lazy rows."""
    if not isinstance(model, Pipeline):
        return Pipeline([("model", _lazily(model))])
    steps = [(name, _lazily(step)) for name, step in model.steps]
    if all(mine is step for (_, mine), (_, step) in zip(steps, model.steps, strict=True)):
        return model
    pipeline = Pipeline(steps)
    pipeline.__dict__ |= {k: v for k, v in vars(model).items() if k.endswith("_")}
    return pipeline


def _lazily(step: Any) -> Any:
    if listed_transformer(type(step).__name__) is not type(step) or (
        isinstance(step, Pipeline) and hasattr(step, "predict")
    ):
        return step
    return Blockwise.of_fitted(step)


def predictor(model: Any) -> Loaded:
    """A model that predicts, from its folder or as it is. Raises InputError for one that does not."""
    loaded = Loaded.of(model)
    if not hasattr(loaded.pipeline, "predict"):
        raise InputError(
            f"a model that predicts ends in a classifier or a regressor; {loaded.path!r} ends in a "
            f"{type(loaded.pipeline[-1]).__name__}"
        )
    return loaded
