"""Linear models on streams of features."""

from ..lazy import exports

__getattr__, __all__ = exports(
    __name__,
    {
        ".linear": "StreamingLinearClassifier StreamingLinearRegressor",
        ".ridge": "StreamingRidge StreamingRidgeClassifier",
        ".sgd": "StreamingSGDClassifier StreamingSGDRegressor",
    },
)
