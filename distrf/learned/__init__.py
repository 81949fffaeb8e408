"""Compact nonlinear maps: Fourier features that learn."""

from .classifier import CompactNonlinearClassifier
from .features import CompactNonlinearMap
from .regressor import CompactNonlinearRegressor

__all__ = ["CompactNonlinearClassifier", "CompactNonlinearMap", "CompactNonlinearRegressor"]
