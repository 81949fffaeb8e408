"""Which classes are taken for which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay as MatrixDisplay

from ..errors import InputError
from ..metrics import confusion_matrix
from ..parameters import NONE, one_of
from ..scores.passes import as_array, label_pass
from .axes import plain
from .scores import ScoreDisplay, classifier_sums

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..pipeline.evaluating import Evaluation
    from ..typing import ArrayLike

#: Classes whose numbers are written into their squares, and whose names are at the axes.
_WRITTEN, _NAMED = 15, 40
#: Classes from which on all is written smaller, in a larger figure.
_FEW = 8
_NORMALIZE = one_of("true", "pred", "all") | NONE


def figure_size(classes: int) -> tuple[float, float]:
    """Inches, so that the names of the classes do not overlap."""
    return (6.4, 4.8) if classes <= _FEW else (6.4, 6.0)


class ConfusionMatrixDisplay(ScoreDisplay):
    """Rows by true class (down) and predicted class (across).

    Parameters
    ----------
    confusion_matrix : array of shape (c, c)
        Rows, or their weight.
    display_labels : sequence of length c
        The classes.

    Attributes
    ----------
    im_ : matplotlib image
        The matrix.
    text_ : array of matplotlib texts, or None
        The numbers in the squares, up to 15 classes.
    ax_, figure_ : matplotlib axes and figure
        What was drawn on.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from distrf.plot import ConfusionMatrixDisplay
    >>> display = ConfusionMatrixDisplay.from_predictions(["a", "b", "b", "b"], ["a", "b", "b", "a"])
    >>> display.confusion_matrix
    array([[1., 0.],
           [1., 2.]])
    """

    def __init__(self, *, confusion_matrix: np.ndarray, display_labels: Any):
        self.confusion_matrix = confusion_matrix
        self.display_labels = display_labels

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        normalize: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw labels against predicted labels.

        Parameters
        ----------
        y_true, y_pred : arrays or Dask arrays of shape (n,)
            True and predicted labels; Dask arrays take one pass.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.
        labels : array of shape (c,), default=None
            Which labels, in this order. None takes all, in ascending order.
        normalize : {"true", "pred", "all"} or None, default=None
            Divide by the rows of each true class, of each predicted class, or by all.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        ConfusionMatrixDisplay

        Raises
        ------
        InputError
            There are more than 100 labels, or as `distrf.metrics.confusion_matrix` does.
        """
        if labels is not None:
            matrix = confusion_matrix(y_true, y_pred, sample_weight, labels=labels)
            return cls(confusion_matrix=matrix, display_labels=as_array(labels)).plot(ax, normalize=normalize)
        found = label_pass(y_true, y_pred, sample_weight)
        return cls._counted(found).plot(ax, normalize=normalize)

    @classmethod
    def _of(cls, evaluation: Evaluation) -> Self:
        return cls._counted(classifier_sums(evaluation, "a confusion matrix").labels)

    @classmethod
    def _counted(cls, found: Any) -> Self:
        if found.matrix is None:
            raise InputError(
                f"a confusion matrix is drawn of at most {found.most} labels, got {len(found.labels):,}"
            )
        return cls(confusion_matrix=found.matrix, display_labels=found.labels)

    def plot(self, ax: Axes | None = None, *, normalize: str | None = None) -> Self:
        """Draw on axes.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.
        normalize : {"true", "pred", "all"} or None, default=None
            Divide by the rows of each true class, of each predicted class, or by all.

        Returns
        -------
        ConfusionMatrixDisplay
            This one.
        """
        _NORMALIZE.check("normalize", normalize)
        matrix = np.asarray(self.confusion_matrix, dtype=np.float64)
        if normalize is not None:
            sums = {"true": matrix.sum(axis=1, keepdims=True), "pred": matrix.sum(axis=0, keepdims=True)}
            total = np.broadcast_to(sums.get(normalize, matrix.sum()), matrix.shape)
            matrix = np.divide(matrix, total, out=np.zeros_like(matrix), where=total > 0)
        c, own = len(matrix), ax is None
        ax = self._begin(ax)
        ax.grid(visible=False)
        if own:
            self.figure_.set_size_inches(*figure_size(c))  # type: ignore[union-attr]
        names = [plain(label, 20) for label in self.display_labels]
        drawn = MatrixDisplay(matrix, display_labels=names).plot(
            ax=ax,
            include_values=c <= _WRITTEN,
            text_kw={"fontsize": "x-small"} if c > _FEW else None,
            cmap="Blues",
            values_format=".0f" if (matrix == np.round(matrix)).all() else ".3g",
            xticks_rotation="vertical" if max(map(len, names), default=0) * c > 40 else "horizontal",
        )
        if c > _FEW:
            ax.tick_params(labelsize="x-small" if c <= _WRITTEN else "xx-small")
        if c > _NAMED:
            ax.set(xticks=[], yticks=[])
        self.im_, self.text_ = drawn.im_, drawn.text_
        ax.set(xlabel="predicted class", ylabel="true class")
        return self
