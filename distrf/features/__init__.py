"""scikit-learn estimators over the maps."""

from .fourier import RandomFourierFeatures
from .scaler import StreamingScaler

__all__ = ["RandomFourierFeatures", "StreamingScaler"]
