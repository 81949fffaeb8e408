"""Linear models on streams of features."""

from .linear import StreamingLinearClassifier, StreamingLinearRegressor
from .ridge import StreamingRidge, StreamingRidgeClassifier
from .sgd import StreamingSGDClassifier, StreamingSGDRegressor

__all__ = [
    "StreamingLinearClassifier",
    "StreamingLinearRegressor",
    "StreamingRidge",
    "StreamingRidgeClassifier",
    "StreamingSGDClassifier",
    "StreamingSGDRegressor",
]
