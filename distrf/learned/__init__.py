"""Compact nonlinear maps: Fourier features that learn."""

from .features import CompactNonlinearMap
from .models import CompactNonlinearClassifier, CompactNonlinearRegressor

__all__ = ["CompactNonlinearClassifier", "CompactNonlinearMap", "CompactNonlinearRegressor"]
