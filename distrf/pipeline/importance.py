"""`permutation_importance`: what a model loses on rows whose columns are taken from other rows, by scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import wraps
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.inspection import permutation_importance as permuted
from sklearn.metrics import get_scorer
from threadpoolctl import threadpool_limits

from ..errors import InputError
from ..execution.labelled import plain_rows
from ..execution.row_blocks import rows_per_block
from ..execution.sampling import sampled_rows, take_aligned
from ..parameters import COLUMNS, SEED, ruled, whole
from ..randomness import draw_seed
from ..scores.errors import ProbabilitySums
from ..store.csv_format import reads_csv
from ..targets import checked_weights
from .loaded import predictor

#: Bytes of the sampled rows, which the client holds; columns that are permuted one by one.
_BYTES, _MOST_COLUMNS = 2**26, 5000


class Importance(dict[str, Any]):
    """How much worse a model is where a column is taken from other rows, as plain JSON; prints as a table.

    "scoring" is what was measured, in scikit-learn's words: more of it is better. "baseline" is that of the rows as they are,
    "n_rows" how many were predicted of all "rows". "columns" has, the most important first, the "name" of each, and what the
    score loses: the "mean" and the deviation "std" of "each" repeat. The deviation is that of the permutations, not of the rows.
    """

    def __repr__(self) -> str:
        sampled = "" if self["n_rows"] == self["rows"] else f" sampled of {self['rows']:,}"
        head = f"{self['scoring']} {self['baseline']:.4g} on {self['n_rows']:,} rows{sampled}; lost where a column is permuted:"
        width = max(len(column["name"]) for column in self["columns"])
        lines = [f"{c['name']:<{width}}  {c['mean']:.4g} ± {c['std']:.2g}" for c in self["columns"]]
        return "\n".join([head, *lines])


@reads_csv
@ruled(n_repeats=whole(1), columns=COLUMNS, n_rows=whole(2), random_state=SEED)
def permutation_importance(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    n_repeats: int = 5,
    columns: Sequence[Any] | None = None,
    scoring: str | None = None,
    n_rows: int = 20_000,
    target: str | None = None,
    random_state: Any = 0,
) -> Importance:
    """Measure how much a fitted model loses where a column does not belong to the row: permutation importance.

    A seeded sample of the rows is read, as the columns of the table before any encoding. scikit-learn's function permutes a
    column, with all that the model makes of it, among these rows, and predicts them again: 1 + n_repeats x columns
    predictions of each row, in this process. So the answer is the same for any number of workers, and memory does not grow
    with the rows. Give rows that the model was not trained on: on training rows, columns that it has learned by heart look
    important. Of columns that say the same, each alone looks unimportant.

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
    n_repeats : int, default=5
        How often each column is permuted.
    columns : sequence or None, default=None
        Columns of rows at a path that the model takes, by name or number. None is those of the training rows, as far as the
        model knows them: from `train`, and of rows of `open_rows`.
    scoring : str or None, default=None
        The score, a name of `sklearn.metrics.get_scorer_names()`, such as "neg_log_loss" or "average_precision". None is
        "neg_log_loss" of a classifier that has probabilities, "accuracy" of another, and "r2" of a regressor.
    n_rows : int, default=20000
        Rows to sample, fewer where they exceed 64 MiB. Above 64,000 rows, neighbours are sampled eight at a time.
    target : str or None, default=None
        The column (Parquet, a data frame) or array (Zarr) of the targets. None is that of the training
        rows.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sample and of the permutations. None draws one seed.
    {csv}

    Returns
    -------
    Importance
        A dict of plain JSON, which prints as a table. "columns" has, the most important first, the "name" of each, and what
        the score loses: the "mean", the deviation "std" and "each" of the repeats. "scoring" and "baseline" are the score
        and its value on the rows as they are, "n_rows" the rows that were predicted, of "rows".

    Raises
    ------
    InputError
        The model does not predict; the rows have no target, or more than 5,000 columns; there are no such columns.

    Warns
    -----
    DriftWarning
        Rows of a table differ from those of the training: see `TableEncoder.find_drift`.

    References
    ----------
    .. [1] L. Breiman, "Random Forests", Machine Learning 45, 2001 (section 10).

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import StreamingRidge, permutation_importance
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = 2 * X[:, 0] + X[:, 2]
    >>> model = StreamingRidge(alpha=1e-6).fit(X, y)
    >>> found = permutation_importance(model, X, y)
    >>> [column["name"] for column in found["columns"]]
    ['x0', 'x2', 'x1']
    """
    trained = predictor(model)
    reading = {"target": target, "sample_weight": sample_weight, "columns": columns}
    data, rows, truth = trained.open_labelled(X, y, "importance", **reading)
    rows = plain_rows(rows)  # a data frame of pandas stays one, for steps that take its columns by name
    labels, n, d = is_classifier(trained.pipeline), *map(int, rows.shape)
    if d > _MOST_COLUMNS:
        raise InputError(
            f"a column is permuted after the other, {n_repeats} times each, of at most {_MOST_COLUMNS:,} columns; the rows have {d:,}; "
            "look at the weights of a linear model without a map instead (coef_), or ask for columns of the table before it is hashed"
        )
    proper = "neg_log_loss" if hasattr(trained.pipeline, "predict_proba") else "accuracy"
    scoring, seed = scoring or (proper if labels else "r2"), draw_seed(random_state)
    header = getattr(data.X, "columns", None) if data.info is None else data.info.columns
    known = (trained.reading["columns"], getattr(trained.pipeline[0], "feature_names_in_", None), header)
    columns = next((names for names in known if names is not None and len(names) == d), range(d))
    names = [name if isinstance(name, str) else f"x{name}" for name in columns]
    chosen = sampled_rows(n, min(n, max(2, _BYTES // (8 * d)), n_rows), seed, "importance")
    weights = [] if data.weights is None else [data.weights]
    rows, truth, *weights = take_aligned([rows, truth, *weights], chosen)
    rows = rows.reset_index(drop=True) if hasattr(rows, "iloc") else rows  # so that slices count rows
    given = {} if not weights else {"sample_weight": checked_weights(weights[0], truth)}
    if given and not given["sample_weight"].any():
        raise InputError("sample_weight must not be zero everywhere")
    blocked = _InBlocks(trained.pipeline, d)
    # BLAS on several threads waits for them at each small block. Models fitted to data frames are used on their values.
    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        scorer = _negative_log_loss if scoring == "neg_log_loss" else get_scorer(scoring)
        baseline = float(scorer(blocked, rows, truth, **given))
        options: dict[str, Any] = {"n_repeats": n_repeats, "random_state": seed % 2**32, **given}
        found = permuted(blocked, rows, truth, scoring=scorer, **options)
    each = zip(names, found.importances_mean, found.importances_std, found.importances, strict=True)
    told = [
        {"name": name, "mean": float(mean), "std": float(std), "each": of.tolist()}
        for name, mean, std, of in each
    ]
    told.sort(key=lambda column: -column["mean"])
    return Importance(scoring=scoring, baseline=baseline, n_rows=len(truth), rows=n, columns=told)


def _negative_log_loss(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """That of scikit-learn, which refuses rows that lack a class of the model, as a sample may lack a rare one."""
    probabilities, sums = model.predict_proba(X), ProbabilitySums(np.asarray(model.classes_))
    sums.add(np.asarray(y), probabilities, sample_weight)
    return -sums.scores()["log_loss"]


class _InBlocks:
    """A fitted pipeline that predicts one block of rows after another, so that its features stay small."""

    def __init__(self, pipeline: Any, d: int):
        entries = sum(step.map_.entries_per_row for step in pipeline[:-1] if hasattr(step, "map_"))
        # Blocks that a cache holds take a third of the time of large ones.
        self._pipeline, self._rows = pipeline, min(1024, rows_per_block(8.0 * (2 * d + entries)))

    def __getattr__(self, name: str) -> Any:
        found, step = getattr(self._pipeline, name), self._rows
        if name not in ("predict", "predict_proba", "decision_function"):
            return found
        # scikit-learn asks for its name
        return wraps(found)(lambda X: np.concatenate([found(X[k : k + step]) for k in range(0, len(X), step)]))
