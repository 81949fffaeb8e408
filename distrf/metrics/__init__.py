"""Scores of predictions in one pass, named as in scikit-learn, and the error of a kernel approximation; out of core."""

from .approximation import NORMS, KernelError, kernel_error
from .classification import (
    accuracy,
    average_precision,
    balanced_accuracy,
    confusion_matrix,
    f1,
    precision,
    recall,
    roc_auc,
)
from .probabilities import brier, calibration_curve, log_loss
from .regression import mae, pinball, r2, relative_rmse, rmse

__all__ = [
    "NORMS",
    "KernelError",
    "accuracy",
    "average_precision",
    "balanced_accuracy",
    "brier",
    "calibration_curve",
    "confusion_matrix",
    "f1",
    "kernel_error",
    "log_loss",
    "mae",
    "pinball",
    "precision",
    "r2",
    "recall",
    "relative_rmse",
    "rmse",
    "roc_auc",
]
