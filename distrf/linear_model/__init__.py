"""Linear models on streams of features."""

from .ridge import StreamingRidge, StreamingRidgeClassifier
from .sgd import StreamingSGDClassifier
from .sgd_regressor import StreamingSGDRegressor

__all__ = ["StreamingRidge", "StreamingRidgeClassifier", "StreamingSGDClassifier", "StreamingSGDRegressor"]
