"""`evaluate`: the scores of a fitted model on rows larger than memory, in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from ..errors import warn
from ..linear_model.base import LinearClassifier
from ..plain_data import shown
from ..scores.errors import ErrorSums
from ..scores.labels import LabelCounts
from ..scores.models import ClassifierSums
from ..scores.passes import ROW_FLOPS, sum_pass
from ..scores.ranking import bins_of_each
from ..store.csv_format import reads_csv
from ..tables.drift import DriftWarning
from .loaded import predictor
from .rows import around_job


class Evaluation(dict[str, Any]):
    """What `evaluate` returns: scores as plain JSON, and what they were made of. Displays of `distrf.plot` draw it.

    It prints the scores, rounded; the dict has them as they are, and what is of each class or bin.

    Parameters
    ----------
    scores : mapping of str to scores
        Plain JSON.
    sums : ClassifierSums or ErrorSums
        Sums over all rows.

    Attributes
    ----------
    sums : ClassifierSums or ErrorSums
        What the scores were made of: counts by class and score, or moments of the errors.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import StreamingRidge, evaluate
    >>> X = np.arange(8.0)[:, None]
    >>> found = evaluate(StreamingRidge(1e-6).fit(X, 2 * X[:, 0]), X, 2 * X[:, 0])
    >>> round(found["r2"], 3)
    1.0
    """

    def __init__(self, scores: Mapping[str, Any], sums: ClassifierSums | ErrorSums):
        super().__init__(scores)
        self.sums = sums

    def __repr__(self) -> str:
        """The first score and the others, one a line, rounded, without those that are not defined."""
        first, lists = self["score"], [name for name, value in self.items() if isinstance(value, (list, dict))]
        known: dict[str, Any] = {first: self[first]}
        for name, value in self.items():
            if value is not None and name not in ("score", *lists):
                known.setdefault(name, repr(value) if name == "positive" else value)  # a class, not a fact
        known |= {"also holds": ", ".join(lists)} if lists else {}
        width = max(map(len, known))
        return "\n".join(f"{name.replace('_', ' '):<{width}}  {shown(value)}" for name, value in known.items())


@reads_csv
def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    target: str | None = None,
    columns: Sequence[Any] | None = None,
) -> Evaluation:
    """Score a fitted model on rows with known targets, in one pass.

    The first score is R^2 for numbers, and accuracy for labels. But if a class is rare, with fewer than a tenth of the rows
    of an even share (5 % of two classes), it is average precision for two classes, and balanced accuracy for more.

    Parameters
    ----------
    model : str, PathLike, estimator or Pipeline
        Folder of a model. Or the fitted model itself.
    X : str, PathLike, table or array of shape (n, d)
        Path of a Zarr store or of Parquet, read as the training rows were. Or rows, lazy or in memory; of a model of a table
        a data frame.
    y : array of shape (n,) or (n, C), or None, default=None
        Targets of rows that are no path.
    sample_weight : str, array of shape (n,) or None, default=None
        Weight of each row; or the column (of a table) or array (Zarr) of the weights. None weighs all alike.
    target : str or None, default=None
        The column (Parquet, a data frame) or array (Zarr) of the targets. None is that of the training
        rows.
    columns : sequence or None, default=None
        Columns of rows at a path that the model takes, by name or number. None is those of the training rows, as far as the
        model knows them: from `train`, and of rows of `open_rows`.
    {csv}

    Returns
    -------
    Evaluation
        A dict of plain JSON, with the attribute `sums`, of which the displays of `distrf.plot` and a report are made. "score" is the name of the first score, "score_of_constant" what it is of a prediction that is the same for
        all rows, "rows" their number. Of a classifier "accuracy",
        "balanced_accuracy" (mean recall), "f1_macro" (mean F1), "roc_auc", "average_precision", "log_loss" and "brier",
        all as in scikit-learn; "classes", for each its "label", "rows", "precision", "recall" and "f1";
        "confusion_matrix" of up to 100 classes, true ones in rows, in the order of "classes"; "calibration", for bins of
        the probability its mean "predicted", the share "observed" and the "rows". With weights, rows are counted there by
        their weight. Of a regressor "r2", "rmse"
        and "mae", in means over the targets.
        A score is None if it is not defined, as the AUC of a single class is not, or if the model has no probabilities.

    Raises
    ------
    InputError
        The rows have no target, or labels of another kind than those of the model.

    Warns
    -----
    DriftWarning
        Rows of a table differ from those of the training: see `TableEncoder.find_drift`. Or rows have labels that no
        training row had.

    Notes
    -----
    AUC and average precision are of the decision values. Of two classes the second is "positive", unless the first is
    rare; of more it is the mean over the classes, each against the rest, ranked by its probability if the model has such. Up to 65,536 distinct values (262,144 of all
    classes together) they are exact. Beyond, values are counted in bins, which changes the scores
    by some millionths. More than 512 classes are not ranked. Of more than two classes "calibration" is of the largest
    probability.
    """
    trained = predictor(model)
    pipeline, last = trained.pipeline, trained.pipeline[-1]
    data = trained.open(X, y, needs_target=True, target=target, sample_weight=sample_weight, columns=columns)
    with around_job.get()("evaluate", pipeline, data):
        rows, truth = trained.labelled(data, "evaluation")
        blocks = {"y": truth, **_outputs(pipeline, rows), "weight": data.weights}
        work = _flops_per_row(pipeline, int(rows.shape[1]))
        sums = sum_pass(empty_sums(last, int(truth.shape[0])), flops_per_row=work, **blocks)
    if isinstance(sums, ClassifierSums):
        _warn_of_new_labels(sums.labels, last.classes_)
    return Evaluation(sums.report(), sums)


def _warn_of_new_labels(counts: LabelCounts, classes: np.ndarray) -> None:
    """Warn of rows whose label the model cannot predict, since no training row had it: they count as wrong."""
    new = (counts.truth > 0) & ~np.isin(counts.labels, classes)
    if new.any():
        named = ", ".join([*map(repr, counts.labels[new][:5].tolist()), *["..."] * bool(new.sum() > 5)])
        share = counts.truth[new].sum() / counts.truth.sum()
        text = f"{100 * share:.3g} % of the rows have a label that no training row had, {named}; they count as wrong"
        warn(text, DriftWarning)


def _outputs(pipeline: Pipeline, rows: Any) -> dict[str, Any]:
    """What the model says of the rows, lazily, as far as it does, by the names that its sums have for it.

    Two classes are ranked by decision values, more by probabilities: decision values of several classes do not compare
    across rows. Either stands in where the model has not the other.
    """
    last, outputs = pipeline[-1], {}
    if not is_classifier(last):
        return {"predicted": pipeline.predict(rows)}
    if hasattr(pipeline, "predict_proba"):
        outputs["probabilities"] = pipeline.predict_proba(rows)
    if hasattr(pipeline, "decision_function") and (not outputs or len(last.classes_) == 2):
        outputs["decisions"] = pipeline.decision_function(rows)
    if "decisions" not in outputs or not isinstance(last, LinearClassifier):  # of which the largest wins
        outputs["predicted"] = pipeline.predict(rows)
    return outputs


def empty_sums(model: Any, n: int) -> ClassifierSums | ErrorSums:
    """The state without rows; rankings have no more bins than there are rows."""
    if not is_classifier(model):
        return ErrorSums()
    ranked = 1 if len(model.classes_) == 2 else len(model.classes_)
    return ClassifierSums(model.classes_, min(bins_of_each(ranked), max(n, 2)))


def _flops_per_row(pipeline: Pipeline, width: int) -> float:
    """Operations for a row: its features, what the model says of it, and what becomes of that."""
    maps = [step.map_ for step in pipeline if getattr(step, "map_", None) is not None]
    outputs = len(getattr(pipeline[-1], "classes_", ())) or 1
    width = maps[-1].entries_per_row if maps else width
    return sum(map_.work()[0] for map_ in maps) + outputs * (2.0 * width + ROW_FLOPS)
