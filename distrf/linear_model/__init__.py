"""Linear models on streams of features."""

from .ridge import StreamingRidge, StreamingRidgeClassifier
from .sgd import StreamingSGDClassifier, StreamingSGDRegressor

__all__ = ["StreamingRidge", "StreamingRidgeClassifier", "StreamingSGDClassifier", "StreamingSGDRegressor"]
