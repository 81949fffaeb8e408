"""A model or a map, from its folder or as it is, and how it reads rows: as those that it was fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from .. import store
from ..errors import InputError, warn
from ..execution.labelled import is_frame
from ..execution.open_table import Table, is_table
from ..maps.transformers import listed_transformer
from ..persistence import load_model
from ..scores.passes import check_targets
from ..tables.drift import DriftWarning
from ..tables.encoder import TableEncoder
from ..tables.kinds import AS_SAID, ColumnKind, ColumnWarning
from .rows import Rows, coded_rows, is_table_path, open_input, opened_table, path_of, refuse_names


@dataclass(frozen=True)
class Loaded:
    """A fitted pipeline and how it reads rows.

    path : of its folder, None for one in memory
    fitted : the estimator or Pipeline that is saved
    pipeline : the same as a Pipeline that takes lazy rows
    reading : how its training rows were read
    details : what else its folder holds; empty for one in memory
    """

    path: str | None
    fitted: Any
    pipeline: Pipeline
    reading: dict[str, Any]
    details: dict[str, Any]

    @classmethod
    def of(cls, model: Any) -> Loaded:
        """From the path of a model folder, or a fitted estimator. Raises StoreError for a folder that is none."""
        path = path_of(model)
        details, fitted = ({}, model) if path is None else (store.read_spec(path), load_model(path))
        pipeline = as_pipeline(fitted)
        target = getattr(getattr(pipeline, "training_", None), "target", None)
        reading = {"target": target or getattr(pipeline[-1], "target_", None), "columns": None}
        reading |= getattr(pipeline[0], "rows_", {})
        reading |= {name: value for name, value in details.get("input", {}).items() if value is not None}
        return cls(path, fitted, pipeline, reading, details)

    @property
    def encoder(self) -> TableEncoder | None:
        """The encoder with which the pipeline begins; None where it takes arrays."""
        first = self.pipeline[0]
        return first if isinstance(first, TableEncoder) and first.schema_ is not None else None

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
        sample_weight: Any = None,
        columns: Sequence[Any] | None = None,
        needs_target: bool = False,
    ) -> Rows:
        """Rows read as the training rows were (same columns); arrays as they are.

        needs_target : whether the target of the training is read where no other one is asked for
        """
        encoder, training, path = self.encoder, getattr(self.pipeline, "training_", None), path_of(rows)
        named = is_table_path(path) or (path is None and encoder is not None and is_table(rows))
        if columns is not None and encoder is not None:
            raise InputError("columns= is for a model that does not know its columns by name, as this one does")
        if named and needs_target and y is None and not isinstance(rows, Table):
            target = target or self.reading["target"]
        if path is not None and training is not None:
            store.read_as(training.csv, path)
        if path is None and not named:
            refuse_names(rows, y=y, target=target, columns=columns)
            return Rows(rows, y).weighted(sample_weight)
        if encoder is not None:
            schema, dropped = encoder.reading_schema, getattr(training, "dropped", False)
            kinds = [ColumnKind(column["name"], column["kind"], column["why"]) for column in encoder.columns_]
            table = opened_table(rows, dropped and target is not None, target=target, schema=schema)
            return coded_rows(rows, table, schema, kinds, y).weighted(sample_weight)
        columns = self.reading["columns"] if columns is None else list(columns)
        if columns and not named and not all(str(column).isdigit() for column in columns):
            # A Zarr store may have no names; then only the width can be compared.
            columns = columns if store.open_source(str(path), store.Selection()).columns else None
        return open_input(str(path), target, columns, y=y, sample_weight=sample_weight)

    def labelled(self, data: Rows, job: str) -> tuple[Any, Any]:
        """Lazy (X, y) of rows with targets, after a look at how they differ from those of the training.

        Raises InputError for targets of another kind than the model predicts.
        """
        truth, rows, last = data.targets(job), data.X, self.pipeline[-1]
        if data.path is not None or not is_frame(rows):
            rows, truth = data.rows()
        check_targets(truth, last.classes_ if is_classifier(last) else None)
        self.warn_of_drift(rows)
        return rows, truth

    def warn_of_drift(self, rows: Any) -> None:
        """Give a DriftWarning where rows to predict differ from those of the training, by a sample of them."""
        found = [] if self.encoder is None else self.encoder.find_drift(rows)
        if found:
            warn(f"the rows differ from those of the training: {'; '.join(found)}", DriftWarning)


def predictor(model: Any) -> Loaded:
    """A model that predicts, from its folder or as it is. Raises InputError for one that does not."""
    loaded = Loaded.of(model)
    if not hasattr(loaded.pipeline, "predict"):
        raise InputError(
            f"a model that predicts ends in a classifier or a regressor; {loaded.path!r} ends in a "
            f"{type(loaded.pipeline[-1]).__name__}"
        )
    return loaded


def as_pipeline(model: Any) -> Pipeline:
    """A Pipeline, of one step where the model is none. Transformers of scikit-learn run block by block on lazy rows."""
    steps = model.steps if isinstance(model, Pipeline) else [("model", model)]
    pipeline = Pipeline([(name, _lazily(step)) for name, step in steps])
    pipeline.__dict__ |= {
        k: v for k, v in vars(model).items() if k.endswith("_") and isinstance(model, Pipeline)
    }
    return pipeline


def _lazily(step: Any) -> Any:
    theirs = listed_transformer(type(step).__name__) is type(step)
    if not theirs or (isinstance(step, Pipeline) and hasattr(step, "predict")):
        return step
    from ..maps.blockwise import Blockwise

    return Blockwise.of_fitted(step)


def note_reasons(first: Any, kinds: Sequence[ColumnKind]) -> None:
    """Say in the encoder of a table, the first step, why columns were taken for what they are; it was told the kinds alone."""
    for column, kind in zip(first.columns_ if kinds else (), kinds, strict=True):
        name = column["name"]
        if column["why"] == AS_SAID:
            column["why"] = kind.why
        if column["unread"] and not kind.unread:
            what = f"what is infinite, or no number ({column['unread']:,}): it counts as missing"
            warn(f"column {name!r} has {what}; give kinds={{{name!r}: 'category'}} for levels", ColumnWarning)
