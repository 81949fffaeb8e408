"""`permutation_importance`: what a model loses on rows whose columns are taken from other rows."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection
from sklearn.base import is_classifier

from ..errors import InputError, did_you_mean
from ..execution.labelled import plain_rows
from ..execution.passes import run_pass
from ..execution.row_blocks import align_rows, rows_per_block, split_rows
from ..execution.sampling import sampled_rows, take_aligned
from ..maps import working_dtype
from ..parameters import COLUMNS, NONE, SEED, Rule, one_of, ruled, whole
from ..pipeline.inputs import Arrays, Input, rows_with_target, weights_of
from ..pipeline.loaded import Loaded, predictor
from ..pipeline.tables import encoder_of, warn_of_drift
from ..randomness import draw_seed
from ..representation import facts_html
from ..scores.passes import check_kinds, check_numbers
from ..store.csv_format import reads_csv
from ..store.table_schema import TableSchema
from ..targets import float_columns
from .permuted import SCORES, Judge, PermutedReduction, scores_of

#: Rows of the pool at most, and bytes of the rows that the client holds.
_POOL_ROWS, _BYTES = 20_000, 2**26
#: Columns that a notebook shows.
_SHOWN = 20
#: Rows of a block of sampled rows, so that several threads share them.
_BLOCK_ROWS = 1_024
#: Attributes of models that predictions do not need, and that may be large.
_OF_TRAINING = {"state_", "_stream"}

_GROUPS = Rule(
    ("a dictionary {name: columns}",),
    lambda value: isinstance(value, Mapping) and bool(value) and all(map(COLUMNS.allows, value.values())),
)


@dataclass(frozen=True, repr=False)
class Importance:
    """How much worse a model is where a column, or a group of them, is taken from other rows.

    Attributes
    ----------
    names : tuple of str
        Of the columns or groups.
    importances : array of shape (len(names), n_repeats)
        What the score loses, or what a loss gains; 0 where the model does not use the columns.
    score : str
        What was measured: "accuracy", "log_loss", "r2" or "squared_error".
    baseline : float
        The score of the rows as they are.
    n_rows, rows : int
        Rows that were predicted, and all rows.
    """

    names: tuple[str, ...]
    importances: np.ndarray
    score: str
    baseline: float
    n_rows: int
    rows: int

    @property
    def importances_mean(self) -> np.ndarray:
        """Mean over the repeats, shape (len(names),)."""
        return self.importances.mean(axis=1)

    @property
    def importances_std(self) -> np.ndarray:
        """Standard deviation over the repeats: of the permutations, not of the rows. Shape (len(names),)."""
        return self.importances.std(axis=1)

    @property
    def order(self) -> np.ndarray:
        """Numbers of the columns or groups, the most important first."""
        return np.argsort(-self.importances_mean, kind="stable")

    def __repr__(self) -> str:
        """A table, the most important columns first."""
        width = max(map(len, self.names))
        return "\n".join([f"{self._head}:", *(f"{name:<{width}}  {lost}" for name, lost in self._lines())])

    def _repr_html_(self) -> str:
        lines, left = self._lines(), len(self.names) - _SHOWN
        more = [("...", f"{left:,} more")] if left > 0 else []
        return facts_html(self._head, [*lines[:_SHOWN], *more])

    @property
    def _head(self) -> str:
        what = "lost" if SCORES[self.score][1] else "gained"
        sampled = "" if self.n_rows == self.rows else f" sampled of {self.rows:,}"
        return f"{self.score} {self.baseline:.4g} on {self.n_rows:,} rows{sampled}; {what} where a column is permuted"

    def _lines(self) -> list[tuple[str, str]]:
        """(name, mean and standard deviation), the most important first."""
        mean, std = self.importances_mean, self.importances_std
        return [(self.names[i], f"{mean[i]:.4g} ± {std[i]:.2g}") for i in self.order]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; columns with the most important first."""
        mean, std = self.importances_mean, self.importances_std
        columns = [
            {
                "name": self.names[i],
                "mean": float(mean[i]),
                "std": float(std[i]),
                "each": self.importances[i].tolist(),
            }
            for i in self.order
        ]
        known = {name: getattr(self, name) for name in ("score", "baseline", "n_rows", "rows")}
        return {**known, "columns": columns}


@reads_csv
@ruled(
    n_repeats=whole(1),
    columns=COLUMNS | _GROUPS,
    score=one_of(*SCORES) | NONE,
    n_rows=whole(2) | NONE,
    random_state=SEED,
)
def permutation_importance(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    n_repeats: int = 5,
    columns: Sequence[Any] | Mapping[str, Sequence[Any]] | None = None,
    score: str | None = None,
    n_rows: int | None = 20_000,
    target: str | None = None,
    weight: str | None = None,
    strict: bool = False,
    random_state: Any = 0,
) -> Importance:
    """Measure how much a fitted model loses where a column does not belong to the row: permutation importance.

    Each block of rows is predicted as it is, and `n_repeats` times with each column taken from other rows; sums of the losses
    are all that is kept, so all comes from one pass. The other rows are a seeded sample of all rows (up to 20,000), not
    those of the block, which may be sorted or few. It takes 1 + n_repeats x columns predictions of each row, so rows are
    sampled; `n_rows=None` takes all. Give rows that the model was not trained on: on training rows, columns that it
    has learned by heart look important. Of columns that say the same, each alone looks unimportant: permute them together,
    as a group.

    Parameters
    ----------
    model : str, PathLike, estimator or Pipeline
        Folder of a model. Or the fitted model itself.
    X : str, PathLike, table or array of shape (n, d)
        Path of a Zarr store or of Parquet, read as the training rows were. Or rows, lazy or in memory; of a model of a table
        a data frame.
    y : array of shape (n,) or (n, C), or None, default=None
        Targets of rows that are no path.
    sample_weight : array of shape (n,) or None, default=None
        Weights of rows that are no path. None weighs all alike.
    n_repeats : int, default=5
        How often each column is permuted.
    columns : sequence, dict or None, default=None
        Columns by name or number; a dict {name: columns} permutes those of a name together. None takes each column of the
        first step of the model.
    score : {"accuracy", "log_loss", "r2", "squared_error"} or None, default=None
        What is measured. None is "accuracy" of a classifier and "r2" of a regressor. "log_loss" needs a model that has
        `predict_proba`.
    n_rows : int or None, default=20000
        Rows to sample, fewer where they exceed 64 MiB. None takes all rows.
    target : str or None, default=None
        The column (Parquet, a data frame) or array (Zarr) of the targets. None is that of the training
        rows.
    weight : str or None, default=None
        The column (Parquet) or array (Zarr) of the weights of rows at a path. None weighs all alike.
    strict : bool, default=False
        Refuse a Zarr store of others that lacks chunks; else it is a warning.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sample and of the permutations. None draws one seed.

    Returns
    -------
    Importance
        `importances` of shape (columns, n_repeats), their `importances_mean` and `importances_std`, `names`; prints as a
        table, `distrf.plot.ImportanceDisplay` draws it.

    Raises
    ------
    InputError
        The model does not predict, or not what the score needs; the rows have no target; there are no such columns.
    MemoryPlanError
        The job cannot fit into memory.

    Warns
    -----
    DriftWarning
        Rows of a table differ from those of the training: see `TableEncoder.find_drift`.

    References
    ----------
    .. [1] L. Breiman, "Random Forests", Machine Learning 45, 2001 (section 10).
    .. [2] A. Fisher, C. Rudin and F. Dominici, "All Models are Wrong, but Many are Useful: Learning a Variable's
           Importance by Studying an Entire Class of Prediction Models Simultaneously", JMLR 20, 2019 (model reliance).

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import StreamingRidge, permutation_importance
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = 2 * X[:, 0] + X[:, 2]
    >>> model = StreamingRidge(alpha=1e-6).fit(X, y)
    >>> found = permutation_importance(model, X, y)
    >>> [found.names[i] for i in found.order]
    ['x0', 'x2', 'x1']
    """
    trained = predictor(Loaded.of_any(model))
    data = trained.open(X, y, target=target, weight=weight, needs_target=True, strict=strict)
    rows, truth = _rows_of(data)
    warn_of_drift(encoder_of(trained.pipeline), rows)
    names, groups = _groups(columns, _names(trained, data, rows.shape[1]))
    score = _checked_score(score, trained.pipeline[-1], truth)
    lazy = is_dask_collection(rows)
    given = [rows, truth]
    weights = weights_of(data, sample_weight, weight)
    if weights is not None:
        given.append(align_rows(rows, weights, "sample_weight") if lazy else np.asarray(weights))
    seed, n = draw_seed(random_state), int(rows.shape[0])
    most = max(2, _BYTES // ((rows.dtype.itemsize if lazy else 8) * rows.shape[1]))
    taken = _sampled(given, min(n, most, n_rows or _POOL_ROWS), seed)
    judge = _judge(trained.pipeline, score, *taken[:2])
    reduction = _reduction(judge, trained.pipeline, groups, int(n_repeats), seed)
    if n_rows is None and len(taken[1]) < n:
        given = [split_rows(rows, rows_per_block(reduction.row_bytes)), *given[1:]] if lazy else given
    else:
        given = [_in_blocks(values) for values in taken] if lazy else taken
    sums = run_pass(reduction, given, label="importance", block_rows=_BLOCK_ROWS)
    if not sums.weight > 0:
        raise InputError("sample_weight must not be zero everywhere")
    baseline, lost = scores_of(sums, score, judge.centre)
    return Importance(tuple(names), lost, score, baseline, int(given[0].shape[0]), n)


def _rows_of(data: Input | Arrays) -> tuple[Any, Any]:
    """Lazy rows and their targets; a data frame of pandas as it is, for steps that take its columns by name."""
    rows, truth = rows_with_target(data, "importance")
    return plain_rows(rows), truth


def _names(trained: Loaded, data: Input | Arrays, d: int) -> list[str]:
    """Names of the columns: as the model was trained on them, else as the rows have them, else x0, x1, ..."""
    encoder = encoder_of(trained.pipeline)
    coded = None if encoder is None else TableSchema.from_spec(encoder.schema_ or {}).names
    learned = getattr(trained.pipeline[0], "feature_names_in_", None)
    header = getattr(data.X, "columns", None) if isinstance(data, Arrays) else data.info.columns
    for found in (coded, trained.reading["columns"], learned, header):
        if found is not None and len(found) == d:
            return [name if isinstance(name, str) else f"x{name}" for name in found]
    return [f"x{j}" for j in range(d)]


def _groups(columns: Any, names: list[str]) -> tuple[list[str], tuple[tuple[int, ...], ...]]:
    """Names of the groups, and the numbers of the columns of each. Raises InputError for a column that is not there."""

    def number(column: Any) -> int:
        if column in names:
            return names.index(column)
        if not isinstance(column, bool) and str(column).isdigit() and int(column) < len(names):
            return int(column)
        raise InputError(
            f"column {column!r} is not among those of the model{did_you_mean(column, names)}: {names[:50]}"
        )

    if columns is None:
        return names, tuple((j,) for j in range(len(names)))
    if isinstance(columns, Mapping):
        return [str(name) for name in columns], tuple(tuple(map(number, group)) for group in columns.values())
    chosen = [number(column) for column in columns]
    return [names[j] for j in chosen], tuple((j,) for j in chosen)


def _checked_score(score: str | None, model: Any, y: Any) -> str:
    """The score. Raises InputError for one that does not go with the model, or the target."""
    labels = is_classifier(model)
    score = score or ("accuracy" if labels else "r2")
    if SCORES[score][0] != labels:
        known = ", ".join(name for name, (of_labels, _) in SCORES.items() if of_labels == labels)
        raise InputError(
            f"score {score!r} is not for a {'classifier' if labels else 'regressor'}; take one of {known}"
        )
    if score == "log_loss" and not hasattr(model, "predict_proba"):
        raise InputError(
            f"score 'log_loss' needs probabilities, which {type(model).__name__} does not predict; take 'accuracy'"
        )
    check_kinds(y, model.classes_) if labels else check_numbers(y)
    return score


def _sampled(arrays: Sequence[Any], size: int, seed: int) -> list[Any]:
    """About `size` seeded rows of aligned arrays, in memory."""
    chosen = sampled_rows(arrays[0].shape[0], size, seed, "importance")
    if hasattr(arrays[0], "iloc"):
        return [arrays[0].iloc[chosen], *(values[chosen] for values in arrays[1:])]
    return take_aligned(arrays, chosen, sparse=True)


def _judge(pipeline: Any, score: str, pool: Any, y: np.ndarray) -> Judge:
    """The model without what only its training needs, with the pool."""
    framed, model = hasattr(pool, "iloc"), copy.copy(pipeline[-1])
    for name in _OF_TRAINING & vars(model).keys():
        delattr(model, name)
    maps = [step.transform if framed or not hasattr(step, "map_") else step.map_ for step in pipeline[:-1]]
    labels = is_classifier(model)
    centre = np.zeros(1) if labels else float_columns(y).mean(axis=0)
    return Judge(maps, model, score, np.asarray(model.classes_) if labels else None, centre, pool)


def _reduction(
    judge: Judge, pipeline: Any, groups: tuple[tuple[int, ...], ...], n_repeats: int, seed: int
) -> PermutedReduction:
    """The reduction, with what a prediction of a row takes."""
    maps = [step.map_ for step in pipeline[:-1] if hasattr(step, "map_")]
    d = judge.pool.shape[1]
    widths = [d, *(map_.entries_per_row for map_ in maps)]
    dtype = np.dtype(np.float64) if hasattr(judge.pool, "iloc") else working_dtype(judge.pool.dtype)
    return PermutedReduction.of(
        judge,
        groups=groups,
        n_repeats=n_repeats,
        seed=seed,
        row_flops=sum(map_.work()[0] for map_ in maps) + 2.0 * widths[-1] * len(judge.centre),
        row_bytes=float(dtype.itemsize * (2 * d + sum(widths))),
    )


def _in_blocks(values: Any) -> da.Array:
    """Sampled rows as lazy blocks, so that several threads or workers share them."""
    return da.from_array(values, chunks=(min(_BLOCK_ROWS, values.shape[0]), *values.shape[1:]), asarray=False)
