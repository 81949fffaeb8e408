"""distrf: kernel machines on data larger than memory."""

from .lazy import exports

__version__ = "0.1.0"

# Imports happen on first use, so `distrf --help` and cold workers start quickly.
__getattr__, _names = exports(
    __name__,
    {
        ".maps": (
            "Blockwise NystroemFeatures RandomBinningFeatures RandomFourierFeatures RandomLaplaceFeatures "
            "StreamingScaler TEFM TensorSketchFeatures WithColumns"
        ),
        ".learned": "CompactNonlinearClassifier CompactNonlinearMap CompactNonlinearRegressor LearnedMetric",
        ".linear_model": (
            "StreamingLinearClassifier StreamingLinearRegressor StreamingRidge StreamingRidgeClassifier "
            "StreamingSGDClassifier StreamingSGDRegressor"
        ),
        ".tables.encoder": "TableEncoder",
        ".execution.open_rows": "open_rows",
        ".execution.open_table": "open_table Table",
        ".persistence": "save_model load_model",
        ".ingestion": "ingest",
        ".pipeline.making": "make_model",
        ".pipeline.training": "train",
        ".pipeline.writing": "featurize write_rows",
        ".pipeline.predicting": "predict",
        ".pipeline.evaluating": "evaluate Evaluation",
        ".pipeline.adding": "add_rows",
        ".planning": "plan",
        ".tuning": "tune",
        ".cluster": "connect",
        ".progress": "show_progress",
    },
)
__all__ = ["__version__", *_names]
