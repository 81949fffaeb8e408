"""A model or a map, from its folder or as it is, and how it reads rows: as those that it was fitted to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.pipeline import Pipeline

from .. import store
from ..errors import InputError
from ..execution.open_table import Table, is_table
from ..features import Blockwise
from ..maps.transformers import listed_transformer
from ..persistence import load_model, model_details, model_identity
from ..tables.encoder import TableEncoder
from ..tables.kinds import ColumnKind
from .rows import NOT_SAID, Rows, is_table_path, open_input
from .tables import encoder_of, opened_table


@dataclass(frozen=True)
class Loaded:
    """A fitted pipeline and how it reads rows.

    path : of its folder, None for one in memory
    fitted : the estimator or Pipeline that is saved
    pipeline : the same as a Pipeline that takes lazy rows
    reading : how its training rows were read
    details : what its folder holds beside it; empty for one in memory
    """

    path: str | None
    fitted: Any
    pipeline: Pipeline
    reading: dict[str, Any]
    details: dict[str, Any]

    @classmethod
    def of(cls, model: Any) -> Loaded:
        """From the path of a model folder, or a fitted estimator. Raises StoreError for a folder that is none."""
        if isinstance(model, Loaded):
            return model
        path = os.fspath(model) if isinstance(model, (str, os.PathLike)) else None
        details, fitted = ({}, model) if path is None else (model_details(path), load_model(path))
        pipeline = as_pipeline(fitted)
        target = getattr(getattr(pipeline, "training_", None), "target", None)
        reading = {"target": target or getattr(pipeline[-1], "target_", None)}
        reading |= getattr(pipeline[0], "rows_", {})
        reading |= {name: value for name, value in details.get("input", {}).items() if value is not None}
        return cls(path, fitted, pipeline, NOT_SAID | reading, details)

    @property
    def spec(self) -> Any:
        """What determines it. Raises InputError for classes that cannot be saved: nothing tells such from others."""
        return self.details["model"] if self.details else model_identity(self.fitted)

    def transformers(self) -> Loaded:
        """The steps before the model. Raises InputError where none of them is a map."""
        steps = [(name, step) for name, step in self.pipeline.steps if hasattr(step, "transform")]
        if not any(hasattr(step, "map_") for _, step in steps):
            raise InputError(f"{self.path!r} holds no map: its features are the columns as they are")
        return replace(self, pipeline=Pipeline(steps))

    def open(
        self,
        rows: Any,
        y: Any = None,
        *,
        target: str | None = None,
        weight: str | None = None,
        columns: Sequence[Any] | None = None,
        needs_target: bool = False,
        strict: bool = False,
    ) -> Rows:
        """Rows read as the training rows were (same columns, same imputation); arrays as they are.

        needs_target : whether the target of the training is read where no other one is asked for
        """
        if isinstance(rows, Rows):
            return rows
        training, encoder = getattr(self.pipeline, "training_", None), encoder_of(self.pipeline)
        path = os.fspath(rows) if isinstance(rows, (str, os.PathLike)) else None
        if columns is not None and (encoder is not None or path is None):
            raise InputError(
                "columns= names the columns of rows at a path, for a model that does not know them by name"
            )
        if path is not None and training is not None:
            store.read_as(training.csv, path)
        if encoder is not None and (path is not None or is_table(rows)):
            usual = self.reading["target"] if needs_target else None
            dropped = getattr(training, "dropped", False)
            data = _coded(encoder, rows, y, target if needs_target else None, usual, weight, dropped)
        elif path is not None:
            data = self._numbers(path, target, weight, columns, needs_target, strict)
        elif target is not None:
            raise InputError(
                f"target={target!r} names a column of a table, and the model was trained on arrays; give y"
            )
        else:
            data = Rows(rows, y)
        form = getattr(training, "form", "")
        return replace(data, form=form) if form else data

    def _numbers(
        self, path: str, target: str | None, weight: str | None, columns: Any, needs_target: bool, strict: bool
    ) -> Rows:
        """Rows at a path for a model of numbers. Raises InputError for other columns than those of the training."""
        trained = self.reading
        columns = trained["columns"] if columns is None else list(columns)
        if is_table_path(path):
            target = target or (trained["target"] if needs_target else None)
        elif columns and isinstance(columns[0], str):
            # A Zarr store may have no names; then only the width can be compared.
            known = store.describe(path).columns
            missing = [c for c in columns if known and c not in known]
            if missing:
                raise InputError(f"the model was trained on columns that {path!r} lacks: {missing[:10]}")
            columns = columns if known and known != columns else None
        data = open_input(path, target, columns, trained["impute"], weight=weight, strict=strict)
        width = self.pipeline[0].n_features_in_
        if data.d != width:
            remedy = f"; of svmlight text, make the store again with `distrf ingest --n-features {width}`"
            raise InputError(
                f"{path!r} has {data.d} features, but the model{f' {self.path!r}' if self.path else ''} was trained on {width} "
                f"features; columns= names them{remedy if data.d < width else ''}"
            )
        return data


def _coded(
    encoder: TableEncoder,
    rows: Any,
    y: Any,
    target: str | None,
    usual: str | None,
    weight: str | None,
    drop: bool,
) -> Rows:
    """A table, read as the encoder read that of its training.

    target, usual : the column of the targets, where there is no y; and of the training, where none is asked for
    drop : whether rows without a target are left out

    Raises InputError for rows that are no table, or lack columns, and for a target that is given twice.
    """
    path = os.fspath(rows) if isinstance(rows, (str, os.PathLike)) else None
    if path is not None and not is_table_path(path):
        raise InputError(
            f"the model was trained on a table; give Parquet or CSV with its columns, got {path!r}"
        )
    if path is None and target is not None and (y is not None or isinstance(rows, Table)):
        raise InputError(f"target={target!r} names a column in place of y, or of open_table; give one of them")
    schema, target = encoder.reading_schema, target or usual if path is not None or y is None else None
    table, dropped, kept = rows, 0, None
    if not isinstance(rows, Table):
        table, dropped, kept = opened_table(rows, drop and target is not None, target=target, schema=schema)
    kinds = [ColumnKind(column["name"], column["kind"], column["why"]) for column in encoder.columns_]
    described = TableEncoder(schema=schema.spec(), columns={kind.name: kind.kind for kind in kinds})
    y = table.y if y is None or path is not None else y
    data = Rows(
        table.rows(schema), y, encoder=described, kinds=kinds, table=table if path else rows, dropped=dropped, kept=kept
    )  # fmt: skip
    return data if path is None else data.at(path, target, weight)


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
