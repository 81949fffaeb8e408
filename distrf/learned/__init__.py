"""Maps that learn from targets: compact nonlinear maps, and metrics."""

from ..lazy import exports

__getattr__, __all__ = exports(
    __name__,
    {
        ".estimators": "CompactNonlinearMap CompactNonlinearClassifier CompactNonlinearRegressor",
        ".metric": "LearnedMetric",
    },
)
