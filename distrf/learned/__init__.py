"""Maps that learn from targets: compact nonlinear maps, and metrics."""

from .features import CompactNonlinearMap
from .metric import LearnedMetric
from .models import CompactNonlinearClassifier, CompactNonlinearRegressor

__all__ = ["CompactNonlinearClassifier", "CompactNonlinearMap", "CompactNonlinearRegressor", "LearnedMetric"]
