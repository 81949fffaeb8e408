"""The score over the number of rows or of features: would more of them help?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import learning_curve, validation_curve
from sklearn.utils.validation import check_is_fitted

from ..errors import InputError
from ..parameters import NONE, several, whole
from ..pipeline.inputs import rows_with_target
from ..pipeline.loaded import Loaded, predictor
from ..pipeline.sample import as_rows, as_targets
from ..pipeline.tables import encoder_of
from ..tuning import Tuned, read_sample
from .axes import Display, set_size_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZES, _FOLDS = several(whole()) | NONE, whole(2)


class LearningCurveDisplay(Display):
    """Scores of training rows and of held-out rows, over the number of rows or of features.

    Where the curve of the held-out rows still rises, more rows or features help. Where it is flat and both curves meet, they
    do not.

    Parameters
    ----------
    sizes : int array of shape (s,)
        Numbers of rows or features, ascending.
    test_scores : array of shape (s, folds)
        Scores of held-out rows.
    train_scores : array of shape (s, folds) or None, default=None
        Scores of the training rows.
    what : str, default="rows"
        "rows", or the parameter that was varied.
    score_name : str, default="R²"
        What the scores are.

    Attributes
    ----------
    lines_ : list of matplotlib containers
        Held-out rows first.
    ax_, figure_ : matplotlib axes and figure
        What was drawn on.
    """

    def __init__(
        self,
        *,
        sizes: np.ndarray,
        test_scores: np.ndarray,
        train_scores: np.ndarray | None = None,
        what: str = "rows",
        score_name: str = "R²",
    ):
        self.sizes = sizes
        self.test_scores = test_scores
        self.train_scores = train_scores
        self.what = what
        self.score_name = score_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        target: str | None = None,
        over: str = "rows",
        sizes: Sequence[int] | None = None,
        n_rows: int = 10_000,
        cv: int = 5,
        random_state: int = 0,
        ax: Axes | None = None,
    ) -> LearningCurveDisplay:
        """Fit a model to more and more rows, or with more and more features, and judge it by held-out rows.

        Parameters
        ----------
        estimator : str, PathLike, estimator or Pipeline
            Not fitted, or fitted, or the folder of a model: clones are fitted.
        X : str, PathLike, table or array of shape (n, d)
            Rows, lazy or in memory, of which a sample is used. Of a fitted model also the path of rows, read as those of its
            training were, and of a model of a table a data frame.
        y : array of shape (n,) or None, default=None
            Targets of rows that are no path.
        target : str or None, default=None
            The column of the targets at a path, or of a data frame of a model of a table. None is that of the training.
        over : str, default="rows"
            "rows", or a parameter of the estimator: "n_components" is that of its map, wherever it stands.
        sizes : sequence of int or None, default=None
            Numbers of rows or features. None takes six, each twice the one before: up to all training rows, or up to twice the
            features that the estimator has.
        n_rows : int, default=10000
            Rows of the sample.
        cv : int, default=5
            Folds.
        random_state : int, default=0
            Seed of the sample.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        LearningCurveDisplay

        Raises
        ------
        InputError
            The estimator has no such parameter, or a size exceeds the training rows. Rows have no targets; or they are at a
            path, or have columns that are no numbers, and the estimator is not fitted to such.
        """
        _SIZES.check("sizes", sizes)
        _FOLDS.check("cv", cv)
        estimator, X, y, coded = _opened(estimator, X, y, target)
        known = estimator.get_params(deep=True)
        name = over if over == "rows" or over in known else _parameter(known, over)
        sample = read_sample(X, y, n_rows, random_state, coded=coded)
        rows, targets = np.concatenate([sample.X, sample.Xv]), np.concatenate([sample.y, sample.yv])
        most = len(rows) - -(-len(rows) // cv) if name == "rows" else 2 * int(known[name])
        chosen = sorted(sizes) if sizes else [most >> k for k in range(5, -1, -1) if most >> k >= 2]
        shared: dict[str, Any] = {"cv": cv, "error_score": "raise"}
        if name == "rows":
            if chosen[-1] > most:
                raise InputError(f"sizes are at most the {most:,} training rows of a fold, got {chosen[-1]:,}")
            _, train, test = learning_curve(estimator, rows, targets, train_sizes=chosen, **shared)
        else:
            train, test = validation_curve(
                estimator, rows, targets, param_name=name, param_range=chosen, **shared
            )
        score = "accuracy" if is_classifier(estimator) else "R²"
        what = "rows" if name == "rows" else name.rpartition("__")[2]
        found = cls(sizes=np.array(chosen), test_scores=test, train_scores=train, what=what, score_name=score)
        return found.plot(ax)

    @classmethod
    def from_tuned(
        cls, tuned: Tuned, *, over: str = "n_components", ax: Axes | None = None
    ) -> LearningCurveDisplay:
        """Draw the best held-out score of a search, of each number of features or rows.

        Parameters
        ----------
        tuned : Tuned
            What `distrf.tune` returned.
        over : str, default="n_components"
            "rows", or a parameter that was searched. Of a parameter the trials of the last sample that compares several count.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        LearningCurveDisplay

        Raises
        ------
        InputError
            The search did not compare several.
        """
        names = {over} | {name for name in tuned.parameters if name.rpartition("__")[2] == over}
        best: dict[int, float] = {}
        for level in sorted({trial.level for trial in tuned.trials}, reverse=True):
            if over != "rows" and len(best) > 1:
                break
            best = best if over == "rows" else {}
            for trial in (t for t in tuned.trials if t.level == level):
                found = (
                    [trial.rows] if over == "rows" else [v for k, v in trial.parameters.items() if k in names]
                )
                for value in found[:1]:
                    best[value] = max(trial.score, best.get(value, -np.inf))
        if len(best) < 2:
            raise InputError(f"the search compares {len(best)} value(s) of {over!r}; a curve needs two")
        sizes = sorted(best)
        scores = np.array([[best[size]] for size in sizes])
        return cls(sizes=np.array(sizes), test_scores=scores, what=over, score_name=tuned.metric).plot(ax)

    @property
    def gain(self) -> tuple[float, float]:
        """What the last step gains on held-out rows, and its standard error over the folds; NaN of one fold."""
        steps = self.test_scores[-1] - self.test_scores[-2]
        error = np.std(steps, ddof=1) / len(steps) ** 0.5 if len(steps) > 1 else np.nan
        return float(steps.mean()), float(error)

    def plot(self, ax: Axes | None = None) -> LearningCurveDisplay:
        """Draw on axes.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        LearningCurveDisplay
            This one.
        """
        ax = self._begin(ax)
        self.lines_ = []
        for label, scores, style in (
            ("held-out rows", self.test_scores, "o-"), ("training rows", self.train_scores, "s--")
        ):  # fmt: skip
            if scores is None:
                continue
            scores = np.asarray(scores)
            spread = scores.std(axis=1, ddof=1) if scores.shape[1] > 1 else None
            self.lines_.append(
                ax.errorbar(
                    self.sizes,
                    scores.mean(axis=1),
                    yerr=spread,
                    fmt=style,
                    capsize=3,
                    markersize=5,
                    label=label,
                )
            )
        set_size_ticks(ax, self.sizes.tolist())
        names = {"rows": "training rows", "n_components": "features D"}
        ax.set_xlabel(names.get(self.what, self.what.replace("_", " ")))
        ax.set_ylabel(self.score_name)
        if len(self.sizes) > 1:
            gain, error = self.gain
            known = f" ± {error:.2g}" if error == error else ""
            ax.set_title(
                f"from {self.sizes[-2]:,} to {self.sizes[-1]:,}: {gain:+.2g}{known} {self.score_name}",
                fontsize="medium",
            )
        ax.legend(frameon=False)
        return self


def _opened(estimator: Any, X: Any, y: Any, target: str | None) -> tuple[Any, Any, Any, bool]:
    """(estimator, rows, targets, whether the rows are coded ones of a table).

    Of a fitted model rows are read as those of its training.
    """
    coded = False
    if isinstance(estimator, (str, os.PathLike)) or _is_fitted(estimator):
        trained = predictor(Loaded.of_any(estimator))
        estimator = trained.pipeline if trained.path is not None else estimator
        X, y = rows_with_target(trained.open(X, y, target=target, needs_target=True), "a learning curve")
        coded = encoder_of(trained.pipeline) is not None
    elif isinstance(X, (str, os.PathLike)) or target is not None:
        raise InputError(
            "rows at a path, and target=, are read as those of the training of a fitted model were; this "
            f"{type(estimator).__name__} is not fitted: give arrays X and y"
        )
    rows = as_rows(X)
    return estimator, rows, as_targets(rows, y), coded


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _parameter(known: dict[str, Any], name: str) -> str:
    """The parameter of a nested estimator, the least deep one. Raises InputError for none and for several."""
    ending = [key for key in known if key.endswith(f"__{name}") and isinstance(known[key], int)]
    depth = min((key.count("__") for key in ending), default=0)
    found = [key for key in ending if key.count("__") == depth]
    if len(found) != 1:
        raise InputError(
            f"over is 'rows' or a parameter of the estimator whose value is a whole number; {name!r} is "
            + (f"one of several: {', '.join(found)}; give one of these" if found else "none of them")
        )
    return found[0]
