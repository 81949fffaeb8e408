"""Linear models on streams of features."""

from .ridge import StreamingRidge, StreamingRidgeClassifier

__all__ = ["StreamingRidge", "StreamingRidgeClassifier"]
