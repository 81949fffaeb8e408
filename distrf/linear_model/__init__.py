"""Linear models on streams of features."""

from .linear import StreamingLinearClassifier, StreamingLinearRegressor
from .ridge import StreamingRidge, StreamingRidgeClassifier
from .sgd import StreamingSGDClassifier
from .sgd_regressor import StreamingSGDRegressor

__all__ = [
    "StreamingLinearClassifier",
    "StreamingLinearRegressor",
    "StreamingRidge",
    "StreamingRidgeClassifier",
    "StreamingSGDClassifier",
    "StreamingSGDRegressor",
]
