"""Displays of scikit-learn, fed by sums of one pass, and reports. matplotlib is imported when one is drawn."""

from .displays import displays, plot_training
from .report import write_report

__all__ = ["displays", "plot_training", "write_report"]
