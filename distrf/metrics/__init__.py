"""Scores of predictions in one pass, named as in scikit-learn, and the error of a kernel approximation; out of core."""

from .approximation import kernel_error

from .functions import (  # isort: skip
    accuracy_score, average_precision_score, balanced_accuracy_score, brier_score_loss, confusion_matrix, log_loss,
    mean_absolute_error, precision_recall_fscore_support, r2_score, roc_auc_score, root_mean_squared_error,
)  # fmt: skip

__all__ = [
    "accuracy_score", "average_precision_score", "balanced_accuracy_score", "brier_score_loss", "confusion_matrix",
    "kernel_error", "log_loss", "mean_absolute_error", "precision_recall_fscore_support", "r2_score", "roc_auc_score",
    "root_mean_squared_error",
]  # fmt: skip
