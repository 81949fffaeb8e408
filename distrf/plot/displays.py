"""`displays`: what there is to draw of an evaluation, a model or an importance, by scikit-learn where it can."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibrationDisplay

from ..errors import InputError
from ..pipeline.evaluating import Evaluation
from ..pipeline.importance import Importance
from ..pipeline.loaded import Loaded
from ..scores.models import ClassifierSums, RegressorSums
from ..scores.ranking import Ranking

#: Classes whose numbers are written into a confusion matrix; curves that are drawn, those of the smallest areas; bars.
_WRITTEN, _CURVES, _BARS = 15, 10, 20
_OF_EPOCHS = {"loss": "loss with penalty, rows of the epoch", "validation_score": "score on held-out rows"}


class Displays(dict[str, Any]):
    """{name: display}, each with `plot(ax=)`. A name that is not there is an InputError with those that are."""

    def __missing__(self, name: str) -> Any:
        raise InputError(
            f"there is no {name!r} to draw, but {', '.join(self) or 'nothing'}; a classifier has calibration if it was "
            "trained with calibrate=True, curves with decision values of at most 512 classes, a matrix of at most 100"
        )


def displays(result: Any) -> Displays:
    """Make the displays of a result: those of scikit-learn where it has them, fed by sums over all rows. Nothing is drawn.

    Parameters
    ----------
    result : Evaluation, estimator, Pipeline, str, PathLike or Importance
        What `distrf.evaluate` or `distrf.permutation_importance` returned. Or a fitted model, or its folder.

    Returns
    -------
    dict of str to display
        Each has `plot(ax=)`. Of an evaluation of labels "confusion_matrix", "roc_curve", "precision_recall_curve" and
        "calibration", as far as the model allows; of numbers "prediction_error", for a uniform sample of 1,000 rows. Of a
        model "alphas" (errors of several penalties), "epochs" and "validation" (of SGD) and "spectrum" (of TEFM). Of an importance "importance".

    Raises
    ------
    InputError
        The result is none of these; or later, where a display is asked for that is not there.

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
    if isinstance(result, Evaluation):
        sums = result.sums
        return Displays(_of_classifier(sums) if isinstance(sums, ClassifierSums) else _of_regressor(sums))
    if isinstance(result, Importance):
        label = f"{result.scoring.replace('_', ' ')} lost where the column is permuted"
        values, deviations = result.importances_mean, result.importances_std
        return Displays(importance=_bars(result.names, values, deviations, label))
    if isinstance(result, (str, os.PathLike, BaseEstimator, Loaded)):
        return Displays(_of_model(Loaded.of(result).pipeline))
    raise InputError(
        "displays are of a model or its folder, or of what distrf.evaluate or distrf.permutation_importance returned, "
        f"got {type(result).__name__}"
    )


def new_figure() -> Any:
    """A figure that no window shows and pyplot does not keep. Raises InputError where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            f'plots need matplotlib, which is not there ({error}); pip install "distrf[plot]"'
        ) from error
    return Figure(figsize=(6.4, 4.4), layout="constrained")


@dataclass
class Drawing:
    """What `draw` draws on axes. `plot` leaves in `ax_` and `figure_` what it was drawn on."""

    draw: Callable[[Any], None]

    def plot(self, *, ax: Any = None) -> Any:
        """Draw on axes; None makes new ones of pyplot."""
        if ax is None:
            new_figure()
            from matplotlib import pyplot

            ax = pyplot.subplots(layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        self.draw(ax)
        return self


def plain(text: Any, most: int = 40) -> str:
    """A name from data as a label: dollars are no formulas, and what is long is cut."""
    text = "".join(c if c.isprintable() else "?" for c in " ".join(str(text).split())) or "(empty)"
    return (text if len(text) <= most else text[: most - 1] + "…").replace("$", r"\$")


def _lines(
    lines: dict[str, tuple[Any, Any]], labels: tuple[str, str], log: str = "", title: str = ""
) -> Drawing:
    """Lines over a shared axis, {label: (x, y)}.

    labels : of the horizontal axis and of the vertical one
    log : axes that may be logarithmic, where their numbers span more than a factor of five
    """

    def draw(ax: Any) -> None:
        for label, xy in lines.items():
            ax.plot(*xy, "o" if len(xy[0]) == 1 else ".-" if log else "-", label=label)
        for letter in log:
            values = np.concatenate([np.asarray(xy[letter == "y"], float) for xy in lines.values()])
            positive = values[values > 0]
            if len(positive) and positive.max() > 5 * positive.min():  # a penalty may be 0
                getattr(ax, f"set_{letter}scale")("symlog", linthresh=positive.min())
        ax.set(xlabel=labels[0], ylabel=labels[1])
        ax.set_title(title, fontsize="medium")
        ax.grid(alpha=0.3)
        if len(lines) > 1:
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")

    return Drawing(draw)


def _bars(names: Sequence[str], values: np.ndarray, deviations: np.ndarray, label: str) -> Drawing:
    """Bars with their standard deviations, the longest at the top."""

    def draw(ax: Any) -> None:
        order = np.argsort(-values, kind="stable")[:_BARS]
        places, left = np.arange(len(order)), len(names) - len(order)
        ax.barh(places, values[order], xerr=deviations[order], capsize=3)
        ax.set_yticks(places, [plain(names[k]) for k in order])
        ax.invert_yaxis()
        ax.axvline(0.0, color="black", linewidth=1)
        ax.set_xlabel(label + (f"\n{left:,} shorter ones are not drawn" if left else ""))

    return Drawing(draw)


class _Matrix(metrics.ConfusionMatrixDisplay):
    """Of many classes smaller, without numbers."""

    def plot(self, **options: Any) -> Any:
        c = len(self.display_labels)
        size, long = min(10.0, 110 / c), c * max(map(len, self.display_labels)) > 40
        usual = {"include_values": c <= _WRITTEN, "cmap": "Blues", "text_kw": {"fontsize": size}}
        super().plot(**usual | {"xticks_rotation": "vertical" if long else "horizontal"} | options)
        self.ax_.tick_params(labelsize=size)
        return self


def _of_classifier(sums: ClassifierSums) -> dict[str, Any]:
    found: dict[str, Any] = {}
    counts, held = sums.labels.matrix, sums.probabilities
    if counts is not None:
        whole = counts.astype(np.int64) if (counts == counts.round()).all() else counts
        names = [plain(label, 20) for label in sums.labels.labels.tolist()]
        found["confusion_matrix"] = _Matrix(whole, display_labels=names)
    ranked = zip(sums.rankings.classes.tolist(), sums.rankings.states, strict=True)
    each = {label: ranking for label, ranking in ranked if ranking.defined}
    if each and sums.two:
        (ranking,), positive = each.values(), sums.positive
        area, fpr, tpr = _roc(ranking)
        options: dict[str, Any] = {"pos_label": plain(sums.classes[1])}
        found["roc_curve"] = metrics.RocCurveDisplay(fpr=fpr, tpr=tpr, roc_auc=area, **options)
        area, recall, precision = _precision(ranking, not positive)
        options = {"pos_label": plain(sums.classes[positive]), "prevalence_pos_label": float(precision[0])}
        curve = metrics.PrecisionRecallDisplay(precision, recall, average_precision=area, **options)
        found["precision_recall_curve"] = curve
    elif each:
        rates = "false positive rate", "true positive rate"
        found["roc_curve"] = _worst({label: _roc(one) for label, one in each.items()}, rates)
        curves = {label: _precision(one) for label, one in each.items()}
        found["precision_recall_curve"] = _worst(curves, ("recall", "precision"))
    if held.weight > 0:
        true, told, _ = held.calibration
        words = {"pos_label": plain(sums.classes[1])} if sums.two else {"estimator_name": "largest probability"}
        found["calibration"] = CalibrationDisplay(true, told, None, **words)
    return found


def _roc(ranking: Ranking) -> tuple[float, Any, Any]:
    """The area, and the curve's x and y."""
    y, score, weight = ranking.weighted_labels
    fpr, tpr, _ = metrics.roc_curve(y, score, sample_weight=weight, drop_intermediate=False)
    return ranking.roc_auc(), fpr, tpr


def _precision(ranking: Ranking, of_others: bool = False) -> tuple[float, Any, Any]:
    y, score, weight = ranking.weighted_labels
    y, score = (~y, -score) if of_others else (y, score)
    precision, recall, _ = metrics.precision_recall_curve(y, score, sample_weight=weight)
    return ranking.average_precision(of_others), recall, precision


def _worst(curves: dict[Any, tuple[float, Any, Any]], labels: tuple[str, str]) -> Drawing:
    """The curves, {class: (area, x, y)}, of the ten smallest areas: of a class against the rest."""
    drawn = sorted(curves, key=lambda label: curves[label][0])[:_CURVES]
    title = f"{_CURVES} of {len(curves)} classes, of the smallest area" if len(curves) > _CURVES else ""
    lines = {f"{plain(label, 20)} (area {curves[label][0]:.2f})": curves[label][1:] for label in drawn}
    return _lines(lines, labels, title=title)


def _of_regressor(sums: RegressorSums) -> dict[str, Any]:
    if not any(map(len, sums.sample)):
        return {}
    y, predicted = (half.ravel() for half in np.hsplit(np.concatenate(sums.sample), 2))
    return {"prediction_error": metrics.PredictionErrorDisplay(y_true=y, y_pred=predicted)}


def _of_model(pipeline: Any) -> dict[str, Any]:
    found, model = dict[str, Any](), pipeline[-1]
    for energy in [step.explained_energy_ for step in pipeline if hasattr(step, "explained_energy_")][:1]:
        shares = np.asarray(energy, dtype=np.float64)
        # Rounding leaves a few 1e-8 where everything is explained, or less than nothing.
        left, count = np.maximum(1.0 - np.cumsum(shares), 1e-8), np.arange(1, len(shares) + 1)
        lines = {"along direction l": (count, np.maximum(shares, 1e-12)), "beyond the first l": (count, left)}
        found["spectrum"] = _lines(lines, ("direction l", "share of the energy |F|²"), log="y")
    if history := getattr(model, "history_", None):
        for name, key in (("epochs", "loss"), ("validation", "validation_score")):
            scored = [entry for entry in history if entry[key] is not None]
            line = [entry["epoch"] for entry in scored], [entry[key] for entry in scored]
            if scored:
                found[name] = _lines({key: line}, ("epoch", _OF_EPOCHS[key]), log="y" * (key == "loss"))
    elif getattr(model, "cv_errors_", None) is not None:
        alphas, order = np.asarray(model.alphas_, dtype=np.float64), np.argsort(model.alphas_)
        errors = np.asarray(model.cv_errors_)
        ends = {alphas.min(): ", the smallest tried", alphas.max(): ", the largest tried"}
        chosen = f"chosen: {model.alpha_:g}{ends.get(model.alpha_, '')}"
        curves: dict[str, Any] = {
            "errors": (alphas[order], errors[order]),
            chosen: ([model.alpha_], errors[alphas == model.alpha_][:1]),
        }
        found["alphas"] = _lines(curves, ("alpha", "mean squared error, held-out rows"), log="xy")
    return found
