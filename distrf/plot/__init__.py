"""Displays in the style of scikit-learn, drawn with matplotlib, which is imported when one is drawn; and reports."""

from ..execution.memory_trace import MemoryTrace, tracing_memory
from .alphas import AlphaDisplay
from .axes import MissingPlotError
from .calibration import CalibrationDisplay
from .confusion import ConfusionMatrixDisplay
from .importance import ImportanceDisplay
from .kernel_error import KernelErrorDisplay
from .kernel_scatter import KernelScatterDisplay
from .learning_curve import LearningCurveDisplay
from .memory import MemoryDisplay
from .ranking import PrecisionRecallDisplay, RocCurveDisplay
from .report import write_report
from .residuals import ResidualsDisplay
from .spectrum import SpectrumDisplay
from .training import plot_training
from .training_curve import TrainingCurveDisplay

__all__ = [
    "AlphaDisplay",
    "CalibrationDisplay",
    "ConfusionMatrixDisplay",
    "ImportanceDisplay",
    "KernelErrorDisplay",
    "KernelScatterDisplay",
    "LearningCurveDisplay",
    "MemoryDisplay",
    "MemoryTrace",
    "MissingPlotError",
    "PrecisionRecallDisplay",
    "ResidualsDisplay",
    "RocCurveDisplay",
    "SpectrumDisplay",
    "TrainingCurveDisplay",
    "plot_training",
    "tracing_memory",
    "write_report",
]
