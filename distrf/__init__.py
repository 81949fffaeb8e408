"""distrf: kernel machines on data larger than memory."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_EXPORTS = {
    "RandomFourierFeatures": "distrf.features",
    "RandomLaplaceFeatures": "distrf.features",
    "RandomBinningFeatures": "distrf.features",
    "StreamingScaler": "distrf.features",
    "Blockwise": "distrf.features",
    "NystroemFeatures": "distrf.features",
    "TensorSketchFeatures": "distrf.features",
    "TEFM": "distrf.features",
    "CompactNonlinearMap": "distrf.learned",
    "CompactNonlinearClassifier": "distrf.learned",
    "CompactNonlinearRegressor": "distrf.learned",
    "LearnedMetric": "distrf.learned",
    "StreamingRidge": "distrf.linear_model",
    "StreamingRidgeClassifier": "distrf.linear_model",
    "StreamingLinearClassifier": "distrf.linear_model",
    "StreamingLinearRegressor": "distrf.linear_model",
    "StreamingSGDClassifier": "distrf.linear_model",
    "StreamingSGDRegressor": "distrf.linear_model",
    "open_rows": "distrf.execution.open_rows",
    "open_table": "distrf.execution.open_table",
    "Table": "distrf.execution.open_table",
    "save_model": "distrf.persistence",
    "load_model": "distrf.persistence",
    "ingest": "distrf.ingestion.ingest",
    "make_model": "distrf.pipeline",
    "plan": "distrf.planning.job",
    "featurize": "distrf.pipeline.writing",
    "write_rows": "distrf.pipeline.writing",
    "append_rows": "distrf.pipeline.writing",
    "predict": "distrf.pipeline.predicting",
    "evaluate": "distrf.pipeline.evaluating",
    "Evaluation": "distrf.pipeline.evaluating",
    "add_rows": "distrf.pipeline.adding",
    "permutation_importance": "distrf.pipeline.importance",
    "tune": "distrf.tuning",
    "connect": "distrf.cluster",
    "show_progress": "distrf.progress",
    "train": "distrf.pipeline",
    "WithColumns": "distrf.features",
    "TableEncoder": "distrf.tables.encoder",
}

__all__ = ["__version__", *sorted(_EXPORTS)]


def __getattr__(name: str) -> Any:
    # Imports happen on first use, so `distrf --help` and cold workers start quickly.
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'distrf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
