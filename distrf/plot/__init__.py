"""Displays of scikit-learn, fed by sums of one pass, and reports. matplotlib is imported when one is drawn."""

from .displays import displays
from .report import write_report

__all__ = ["displays", "write_report"]
