"""Tables as features: numbers, categories and dates encoded by what one pass learns of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted

from ..errors import InputError, input_errors, warn
from ..execution.open_table import Table, is_table, open_table
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import align_rows, check_dask_rows, map_features
from ..execution.sampling import sampled_rows, take_rows
from ..folds import GivenFolds, given_folds
from ..maps.base import FeatureMap
from ..maps.estimator import FeatureEstimator, apply_map
from ..maps.table import TableMap
from ..maps.table_missing import MISSING, UNREAD
from ..parameters import (
    JOBS,
    NONE,
    check_parameters,
    estimator,
    instance,
    learned,
    one_of,
    param,
    whole,
)
from ..store.csv_source import CsvSource
from ..store.table_facts import column_facts
from ..store.table_schema import TableSchema, listed
from ..targets import Targets, as_columns, class_targets, regression_targets
from ..typing import ArrayLike
from .drift import find_drift
from .encodings import MOST_TARGETS, NUMBERS, Choices, encode_columns, feature_names, planned_encodings
from .kinds import AS_SAID, ColumnKind, ColumnWarning, cautions, infer_kinds
from .summary import SummaryReduction, summarise, with_folds

#: Encoded targets up to which codes have their means: more columns of means than numbers drown these in the distances.
_CODE_TARGETS = 8


@estimator
class TableEncoder(FeatureEstimator):
    """Encode the columns of a table as numbers of like size, in one pass.

    Numbers are scaled, and missing ones replaced by the median beside a column that marks them. Categories of few levels
    become one-hot columns; those of many the mean of the target over the rows of other folds (or, without a target, one-hot
    columns of the most frequent ones). Dates become the time elapsed and what returns with day, week and year. Ids and constant columns are
    left out. `columns_` says what was taken for what.

    Parameters
    ----------
    numbers : {"auto", "standard", "robust", "quantile", "piecewise", "both"}, default="auto"
        "standard" units have mean 0 and variance 1. "robust" is arcsinh of the distance from the median in spreads.
        "quantile" gives normal scores. "piecewise" cuts a column at quantiles into `n_bins` features, each of which
        goes from 0 to 1 over a bin [1]_. "both" is "quantile" and "piecewise" beside each other. "auto" is "robust";
        `make_model` and `train` choose it by held-out rows.
    n_bins : int, default=16
        Bins of "piecewise"; fewer where quantiles coincide.
    max_levels : int, default=32
        Most levels that become one-hot columns, beside one for other levels and one for missing values. Where there are more,
        a category is the means of the target [2]_ if there is one with at most 64 columns, else the most frequent ones have columns.
    columns : dict of str to str or None, default=None
        What some columns are, in place of a guess: "number", "category", "code", "date", "id" or "drop".
    target_type : {"auto", "labels", "numbers"}, default="auto"
        What y is. "auto" takes text and booleans for labels.
    schema : dict or None, default=None
        Rows are coded rows of this schema: what `Table.schema.spec()` returns. Then `columns` names all columns.
    n_jobs : int or None, default=-1
        Threads for rows in memory: -1 takes all cores, None takes one.

    Attributes
    ----------
    map_ : TableMap
        The frozen map of coded rows.
    schema_ : dict
        The columns and their types, as JSON.
    columns_ : list of dict
        Of each column "name", "kind", "encoding", "why" and the share of rows where it is "missing"; "low" and "high" of
        numbers, how many of its values are none ("unread"), and whether all levels of a category are known ("exact").
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : object array of str, of shape (d,)
        Their names, if they have names.

    Notes
    -----
    The state of the pass is bounded: a sample of 100,000 rows for quantiles (to 0.16 %), and at most 65,536 levels a
    column. `fit_transform` gives a row the target means of the rows of other folds, `transform` those of all rows: so what
    is fitted on the features of `fit_transform` has not seen the target of a row in its features.

    References
    ----------
    .. [1] Gorishniy, Rubachev & Babenko, "On embeddings for numerical features in tabular deep learning", NeurIPS 2022.
    .. [2] Micci-Barreca, "A preprocessing scheme for high-cardinality categorical attributes", SIGKDD Explorations 2001.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from distrf import TableEncoder
    >>> table = pa.table({"age": [31.0, None, 52.0, 47.0], "city": ["Ulm", "Bonn", "Ulm", "Ulm"]})
    >>> encoder = TableEncoder()
    >>> encoder.fit_transform(table).shape
    (4, 6)
    >>> [column["encoding"] for column in encoder.columns_]
    ['robust units, whether it is missing', 'one-hot, 2 levels']
    """

    map_: TableMap = learned()
    schema_: dict[str, Any] | None = learned()
    columns_: list[dict[str, Any]] = learned()

    numbers: str = param(default="auto", rule=one_of("auto", *NUMBERS), kw_only=False)
    n_bins: int = param(default=16, rule=whole(2, 1024))
    max_levels: int = param(default=32, rule=whole(2, 4096))
    columns: Mapping[str, str] | None = param(
        default=None, rule=instance(Mapping, "a dictionary of kinds by name") | NONE
    )
    target_type: str = param(default="auto", rule=one_of("auto", "labels", "numbers"))
    schema: Mapping[str, Any] | None = param(
        default=None, rule=instance(Mapping, "the spec of a schema") | NONE
    )
    n_jobs: int | None = param(default=-1, rule=JOBS)

    def fit(self, X: Any, y: ArrayLike | None = None, folds: ArrayLike | None = None) -> TableEncoder:
        """Learn the encodings, in one pass over the rows.

        Parameters
        ----------
        X : Table, data frame, Arrow table, Dask DataFrame, or array or Dask array of shape (n, d)
            Rows. The columns of an array are numbers, NaN and infinity where they are missing; with `schema`, it holds
            coded rows.
        y : array or Dask array of shape (n,) or (n, C), default=None
            Targets, for categories of many levels.
        folds : array or Dask array of shape (n,) of int, default=None
            Fold of each row, from 0 on; -1 for rows that are never held out. The target means of a row are those of rows of
            other folds (of five, which unite given ones beyond). Where fold 0 alone is held out, other rows do not learn
            from it. None cuts five folds by the numbers of rows.

        Returns
        -------
        TableEncoder
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, no column can be learned from, or y has other rows.

        Warns
        -----
        ColumnWarning
            A column is left out, or may not be what it is taken for.
        """
        self._learn(X, y, folds)
        return self

    def fit_transform(self, X: Any, y: ArrayLike | None = None, folds: ArrayLike | None = None) -> ArrayLike:
        """Learn the encodings, and encode the rows that they were learned from.

        Parameters
        ----------
        X : Table, data frame, Arrow table, Dask DataFrame, or array or Dask array of shape (n, d)
            Rows, as `fit` takes them.
        y : array or Dask array of shape (n,) or (n, C), default=None
            Targets, for categories of many levels.
        folds : array or Dask array of shape (n,) of int, default=None
            As of `fit`.

        Returns
        -------
        array, CSR array or Dask array of shape (n, D)
            Features, in which the target means of a row are those of the rows of other folds.

        Raises
        ------
        InputError
            As of `fit`.
        """
        rows, given = self._learn(X, y, folds)
        map_ = self.map_.crossed()
        if map_ is not self.map_:
            rows = with_folds(rows, None if given is None else given.values)
        return self._apply(map_, rows)

    def transform(self, X: Any) -> ArrayLike:
        """Encode rows.

        Parameters
        ----------
        X : Table, data frame, Arrow table, Dask DataFrame, or array or Dask array of shape (n, d)
            Only the columns that features are made of are looked at, in any order: those that were left out may be missing.

        Returns
        -------
        array, CSR array or Dask array of shape (n, D)
            float32 features; lazy where the rows are.

        Raises
        ------
        InputError
            Columns are missing, renamed, or of another type.
        """
        check_is_fitted(self)
        return self._apply(self.map_, self.coded_rows(X))

    def coded_rows(self, X: Any) -> Any:
        """The coded rows of a table, read as `fit` read its rows.

        Parameters
        ----------
        X : Table, data frame, Arrow table, Dask DataFrame, or array or Dask array of shape (n, d)
            Rows, as `transform` takes them.

        Returns
        -------
        array or Dask array of shape (n, d)
            One float64 number a value; lazy where the rows are.

        Raises
        ------
        InputError
            As of `transform`.
        """
        if not is_table(X):
            rows = _number_rows(X, self.n_features_in_)
            return rows if self.schema is not None else coded_numbers(rows)
        if self.schema_ is None:
            raise InputError(
                "the encoder was fitted to an array; give an array of the same columns, or fit it to the table"
            )
        schema = self.reading_schema
        return (X if isinstance(X, Table) else open_table(X, schema=schema)).rows(schema)

    @property
    def reading_schema(self) -> TableSchema:
        """The columns of coded rows, of which those are read that features are made of."""
        used = {one.column for one in self.map_.encodings()}
        return TableSchema.from_spec(self.schema_ or {}).reading(used)

    def find_drift(self, X: Any, n_rows: int = 2000) -> list[str]:
        """How rows differ from those of `fit`, by a seeded sample of them.

        Parameters
        ----------
        X : Table, data frame, Arrow table, Dask DataFrame, or array or Dask array of shape (n, d)
            Rows, as `transform` takes them.
        n_rows : int, default=2000
            Rows to look at.

        Returns
        -------
        list of str
            A sentence for each column of which 1 % of these rows have a level that was never seen, a missing value where
            none was, or a number beyond those of `fit`.
        """
        check_is_fitted(self)
        rows = self.coded_rows(X)
        taken = take_rows(rows, sampled_rows(rows.shape[0], n_rows, 0, "drift"))
        return find_drift(taken, self.columns_, self.map_.encodings())

    def _learn(self, X: Any, y: Any, folds: Any) -> tuple[Any, GivenFolds | None]:
        """Fit; returns the coded rows, and their folds if these are given."""
        check_parameters(self)
        schema, kinds, rows = self._described(X)
        self.n_features_in_ = rows.shape[1]
        targets, y = self._targets(rows, y, kinds)
        reduction = self._reduction(kinds, rows.shape[0], targets)
        given = given_folds(rows, folds)
        summary = summarise(rows, reduction, y, None if given is None else given.values)
        crossing = "rows" if given is None else "later" if given.n_folds == 1 else "folds"
        encoded = encode_columns(kinds, summary, replace(self._choices(), crossing=crossing))
        encodings = [one for _, made in encoded for one in made]
        if not encodings:
            left = listed(f"{c['name']!r}: {c['why'].replace(AS_SAID, c['kind'])}" for c, _ in encoded)
            raise InputError(f"no column varies: {left}; give others")
        self.map_ = TableMap.of_encodings(rows.shape[1], encodings)
        self.schema_ = None if schema is None else schema.spec()
        self.columns_ = [facts for facts, _ in encoded]
        self.__dict__.pop("feature_names_in_", None)
        if schema is not None:
            self.feature_names_in_ = np.array(schema.names, dtype=object)
        return rows, given

    def _described(self, X: Any) -> tuple[TableSchema | None, list[ColumnKind], Any]:
        """Schema, kinds of the columns, and coded rows."""
        said = dict(self.columns or {})
        if not is_table(X):
            rows = _number_rows(X)
            if self.schema is not None:
                schema = TableSchema.from_spec(self.schema)
                if sorted(said) != sorted(schema.names) or rows.shape[1] != len(schema.names):
                    raise InputError(
                        f"coded rows of {rows.shape[1]} columns need a schema and the kinds of as many, got "
                        f"{len(schema.names)} and {len(said)}"
                    )
                return schema, [ColumnKind(name, said[name], AS_SAID) for name in schema.names], rows
            names = [f"x{j}" for j in range(rows.shape[1])]
            if unknown := [name for name in said if name not in names]:
                raise InputError(f"columns of an array are called x0, x1, ...; received {unknown[:10]}")
            kinds = [ColumnKind(name, said.get(name, "number"), "a column of an array") for name in names]
            return None, kinds, coded_numbers(rows)
        table = X if isinstance(X, Table) else open_table(X)
        schema, kinds = describe_columns(table, said)
        return schema, kinds, table.rows(schema)

    def _targets(self, rows: Any, y: Any, kinds: list[ColumnKind]) -> tuple[Targets | None, Any]:
        """The encoding of the targets and the targets, where levels take their means."""
        if y is None or not any(k.kind in ("category", "code") for k in kinds):
            return None, None
        y = as_columns(y)
        if y.shape[:1] != rows.shape[:1]:
            raise InputError(f"y must have as many rows as X, got {y.shape[0]} and {rows.shape[0]}")
        if is_dask_collection(rows):
            y = align_rows(rows, y, "y")
        labels = y.dtype.kind in "USb" if self.target_type == "auto" else self.target_type == "labels"
        targets = class_targets(y, None, None) if labels else regression_targets(y, None)
        return (targets, y) if targets.width <= MOST_TARGETS else (None, None)

    def _choices(self) -> Choices:
        numbers = "robust" if self.numbers == "auto" else self.numbers
        return Choices(numbers, self.n_bins, self.max_levels)

    def _reduction(self, kinds: list[ColumnKind], n: int, targets: Targets | None) -> SummaryReduction:
        counted = ("category", "code") if targets and targets.width <= _CODE_TARGETS else ("category",)
        levels = tuple(j for j, kind in enumerate(kinds) if kind.kind in counted)
        numbers = tuple(j for j, kind in enumerate(kinds) if kind.used and kind.kind != "category")
        return SummaryReduction(numbers, levels, n, targets)

    def _apply(self, map_: TableMap, rows: Any) -> Any:
        if not is_dask_collection(rows):
            return apply_map(map_, rows, self.n_jobs)
        return map_features(map_, rows)

    def _planned_map(self, d: int) -> FeatureMap:
        return TableMap.of_encodings(d, planned_encodings(self._planned_kinds(d), self._choices()))

    def _planned_kinds(self, d: int) -> list[ColumnKind]:
        said = self.columns if self.schema is not None and self.columns else dict.fromkeys(range(d), "number")
        return [ColumnKind(str(name), kind, "") for name, kind in said.items()]

    def planned_costs(self, rows: PlannedRows, planned: FeatureMap) -> Costs:
        targets = Targets(None, np.zeros(min(rows.outputs, MOST_TARGETS)))
        return rows.costs_of(self._reduction(self._planned_kinds(planned.n_features_in), rows.n, targets))

    def facts(self) -> dict[str, Any]:
        return {"columns": self.columns_}

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features: the column, and what of it the feature is.

        Parameters
        ----------
        input_features : ignored, default=None
            Not used; columns have the names of the table.

        Returns
        -------
        object array of str, of shape (D,)
            Such as "age", "age_missing", "city_level0", "when_weekday_sin".
        """
        check_is_fitted(self)
        return feature_names([column["name"] for column in self.columns_], self.map_.encodings())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def describe_columns(
    table: Table, said: Mapping[str, str] | None = None
) -> tuple[TableSchema, list[ColumnKind]]:
    """What the columns of a table are, from some of its rows.

    Parameters
    ----------
    table : Table
    said : mapping of str to str, optional
        Kinds of some columns, in place of a guess.

    Returns
    -------
    schema : TableSchema
        In which text that writes dates or numbers is read as these.
    kinds : list of ColumnKind

    Raises
    ------
    InputError
        As of `infer_kinds`.

    Warns
    -----
    ColumnWarning
        A column is left out, or may not be what it is taken for.
    """
    guessed = isinstance(getattr(table.place, "source", None), CsvSource)
    facts = column_facts(table.sample(), table.schema, said, guessed)
    kinds = infer_kinds(table.schema, facts, said, table.n)
    for caution in cautions(kinds):
        warn(caution, ColumnWarning)
    columns = tuple(kind.column or column for column, kind in zip(table.schema.columns, kinds, strict=True))
    return TableSchema(columns), kinds


def _number_rows(X: Any, d: int | None = None) -> Any:
    """An array or Dask array of numbers of two dimensions."""
    if is_dask_collection(X):
        X = check_dask_rows(X)
        if X.dtype.kind not in "fiub":
            raise InputError(f"rows of an array are numbers, got dtype {X.dtype}")
        if X.shape[0] == 0:
            raise InputError("Found array with 0 sample(s), at least 1 is required")
    else:
        with input_errors():
            X = check_array(X, dtype=np.float64, ensure_all_finite=False, estimator="TableEncoder")
    if d is not None and X.shape[1] != d:
        raise InputError(f"X has {X.shape[1]} features, but TableEncoder is expecting {d} features as input")
    return X


def coded_numbers(X: Any) -> Any:
    """Numbers as coded rows: of NaN and infinities what stands for missing values."""
    return X.map_blocks(_coded_block, dtype=np.float64) if is_dask_collection(X) else _coded_block(X)


def _coded_block(X: np.ndarray) -> np.ndarray:
    X = np.add(X, 0.0, dtype=np.float64)
    X[np.isnan(X)] = MISSING
    X[~np.isfinite(X)] = UNREAD
    return X
