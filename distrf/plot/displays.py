"""`displays`: scikit-learn's displays of an evaluation, fed by its sums over all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.calibration import CalibrationDisplay

from ..errors import InputError
from ..pipeline.evaluating import Evaluation
from ..scores.models import ClassifierSums


def displays(result: Evaluation) -> dict[str, Any]:
    """Make scikit-learn's displays of an evaluation, from sums over all rows. Nothing is drawn.

    Parameters
    ----------
    result : Evaluation
        What `distrf.evaluate` returned.

    Returns
    -------
    dict of str to display
        Each has `plot(ax=)`. Of labels "confusion_matrix" (up to 100 classes), "roc_curve" and "precision_recall_curve" (of
        two), and "calibration", where the model has probabilities; of numbers none: scikit-learn's `PredictionErrorDisplay`
        takes predictions of a sample.

    Raises
    ------
    InputError
        The result is no evaluation.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import StreamingRidgeClassifier, evaluate
    >>> from distrf.plot import displays
    >>> X = np.arange(8.0)[:, None]
    >>> found = evaluate(StreamingRidgeClassifier(1e-6).fit(X, X[:, 0] > 3), X, X[:, 0] > 3)
    >>> list(displays(found))
    ['confusion_matrix', 'roc_curve', 'precision_recall_curve']
    >>> displays(found)["roc_curve"].roc_auc
    1.0
    """
    if not isinstance(result, Evaluation):
        raise InputError(f"displays are of what distrf.evaluate returned, got {type(result).__name__}")
    return _of_classifier(result.sums) if isinstance(result.sums, ClassifierSums) else {}


def new_figure() -> Any:
    """A figure that no window shows and pyplot does not keep. Raises InputError where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            f'plots need matplotlib, which is not there ({error}); pip install "distrf[plot]"'
        ) from error
    return Figure(figsize=(6.4, 4.4), layout="constrained")


def _plain(text: Any, most: int = 40) -> str:
    """A name from data as a label: dollars are no formulas, and what is long is cut."""
    text = "".join(c if c.isprintable() else "?" for c in " ".join(str(text).split())) or "(empty)"
    return (text if len(text) <= most else text[: most - 1] + "…").replace("$", r"\$")


def _of_classifier(sums: ClassifierSums) -> dict[str, Any]:
    found: dict[str, Any] = {}
    counts, held, positive = sums.labels.matrix, sums.probabilities, sums.positive
    if counts is not None:
        whole = counts.astype(np.int64) if (counts == counts.round()).all() else counts
        names = [_plain(label, 20) for label in sums.labels.labels.tolist()]
        found["confusion_matrix"] = metrics.ConfusionMatrixDisplay(whole, display_labels=names)
    for ranking in [ranking for ranking in sums.rankings if sums.two and ranking.defined]:  # one at most
        y, score, weight = ranking.weighted_labels
        fpr, tpr, _ = metrics.roc_curve(y, score, sample_weight=weight, drop_intermediate=False)
        options: dict[str, Any] = {"roc_auc": ranking.roc_auc(), "pos_label": _plain(sums.classes[1])}
        found["roc_curve"] = metrics.RocCurveDisplay(fpr=fpr, tpr=tpr, **options)
        y, score = (y, score) if positive else (~y, -score)
        precision, recall, _ = metrics.precision_recall_curve(y, score, sample_weight=weight)
        options = {"pos_label": _plain(sums.classes[positive]), "prevalence_pos_label": float(precision[0])}
        options["average_precision"] = ranking.average_precision(not positive)
        found["precision_recall_curve"] = metrics.PrecisionRecallDisplay(precision, recall, **options)
    if held.weight > 0:
        true, told, _ = held.calibration
        words = (
            {"pos_label": _plain(sums.classes[1])} if sums.two else {"estimator_name": "largest probability"}
        )
        found["calibration"] = CalibrationDisplay(true, told, None, **words)
    return found
