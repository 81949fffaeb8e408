"""What all feature estimators share: NumPy or CSR in, arrays out; Dask in, lazy Dask out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import joblib
import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection
from joblib.parallel import ThreadingBackend
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted, validate_data

from ..errors import InputError, input_errors, rows_from
from ..execution.labelled import header, is_frame, plain_rows, reading_of
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import check_dask_rows, map_features
from ..execution.scheduler import ONE_BLAS_THREAD
from ..kernels.semigroup import SEMIGROUP_KERNELS, SemigroupKernel
from ..parameters import JOBS, SEED, Rule, check_parameters, estimator, instance, param
from ..projections.base import weight_cache
from ..randomness import draw_seed, raw_words
from ..typing import ArrayLike, RandomState, Rows
from .base import FeatureMap, canonical, working_dtype

#: Rows of the smallest tile that a thread takes, and the most tiles.
_TILE, _TILES = 512, 64


def in_memory(X: Any) -> bool:
    """Whether rows are an array or a sparse matrix, not lazy."""
    return isinstance(X, np.ndarray) or sp.issparse(X)


def seed_base(base: BaseEstimator, seed: int, stream: str) -> None:
    """Give the base of a map a seed derived from that of the map, unless it has its own or takes none."""
    if "random_state" in base.get_params() and base.random_state is None:
        base.set_params(random_state=int(raw_words(seed, stream, 0, 1)[0] >> 1))


def positive_only(part: Any) -> bool:
    """Whether an estimator, or a parameter of one, is for rows without negative entries.

    Such are semigroup kernels, and estimators whose tag says so: maps with such a part, pipelines that begin with one.
    """
    if steps := getattr(part, "steps", [])[:1] or getattr(part, "transformer_list", []):
        return any(positive_only(step) for _, step in steps)
    if isinstance(part, BaseEstimator):
        return bool(get_tags(part).input_tags.positive_only)
    return isinstance(part, SemigroupKernel) or (isinstance(part, str) and part in SEMIGROUP_KERNELS)


@contextmanager
def row_errors(X: Any) -> Iterator[None]:
    """Turn an error of scikit-learn's checks of rows into an InputError, which names the columns of a data frame that are at fault."""
    try:
        yield
    except (TypeError, ValueError) as error:
        names = [str(name) for name, column in X.items() if _is_faulty(column)] if is_frame(X) else []
        if not names and isinstance(error, (TypeError, InputError)):
            raise
        remedy = (
            f": not only finite numbers in the columns {', '.join(names[:10])}; encode, impute or drop them"
        )
        raise InputError(f"{error}{remedy if names else ''}") from error


def _is_faulty(column: Any) -> bool:
    """Whether a column of a data frame holds text, dates or missing values."""
    try:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        return True
    return column.dtype.kind in "Mm" or not np.isfinite(values).all()


def validate_rows(estimator: BaseEstimator, X: ArrayLike, *, reset: bool, missing: bool = False) -> Any:
    """Check the rows that a method of an estimator received.

    Parameters
    ----------
    estimator : the estimator, which gets `n_features_in_` from `fit`
    X : array, CSR matrix, data frame, Dask array or Dask DataFrame of shape (n, d)
    reset : bool, whether `fit` calls: then the parameters are checked too, else the number of columns
    missing : bool, whether NaN is allowed in rows in memory

    Returns
    -------
    Lazy rows as a Dask array; other rows as array or CSR matrix in their working dtype.

    Raises
    ------
    InputError : rows that are no numbers, have another width or other names of columns than at `fit`, or hold NaN or
        infinity
    """
    if reset:
        check_parameters(estimator)
    X = plain_rows(X)
    if reset:  # so that rows at a path can be read as these
        estimator.__dict__.pop("rows_", None)
        if (read := reading_of(X)).get("columns"):
            estimator.rows_ = {"columns": read["columns"]}
    if is_dask_collection(X):  # before any scikit-learn call: that would pull everything in
        X = check_dask_rows(X)
        working_dtype(X.dtype)
        with input_errors():
            _check_feature_names(estimator, header(X), reset=reset)
            _check_n_features(estimator, X, reset=reset)
        if X.shape[0] == 0:
            raise InputError("Found array with 0 sample(s), at least 1 is required")
        return X
    with row_errors(X):
        finite = "allow-nan" if missing else True
        X = validate_data(
            estimator, X, accept_sparse="csr", dtype="numeric", reset=reset, ensure_all_finite=finite
        )
        return canonical(X.astype(working_dtype(X.dtype), copy=False))


def apply_map(map_: FeatureMap, X: Rows, n_jobs: int | None) -> Rows:
    """Features of rows in memory, shape (n, D), by `n_jobs` threads with one core each.

    Rows are cut into the same tiles, and BLAS has one thread, for every `n_jobs`: so the bits do not depend on it.
    """
    jobs, n = ThreadingBackend().effective_n_jobs(n_jobs), X.shape[0]
    fills = type(map_).fill_columns is not FeatureMap.fill_columns
    if n <= _TILE or not (fills or map_.sparse_output):
        return map_(X)
    # Weights that do not fit the cache are made anew for each tile, so each thread has one. The bits are the same: such maps cut rows
    # at multiples of _TILE, or of a part of it.
    tiles = _TILES if map_.work()[1] <= weight_cache.max_bytes else jobs
    step = _TILE * -(-n // (_TILE * tiles))
    shape = (0 if map_.sparse_output else n, map_.n_components)
    out = np.empty(shape, dtype=map_.out_dtype(X.dtype))

    def featurize(first: int) -> Rows:
        rows, features = X[first : first + step], out[first : first + step]
        with rows_from(first):
            if map_.sparse_output:
                return map_(rows)
            map_.fill_columns(rows, features, 0, map_.n_components)
            return features

    with ONE_BLAS_THREAD:
        threads = joblib.Parallel(jobs, require="sharedmem")
        made = threads(joblib.delayed(featurize)(first) for first in range(0, n, step))
    return sp.vstack(made, format="csr") if map_.sparse_output else out


class FeatureEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the estimators over the maps: `fit` sets `map_`, `transform` applies it."""

    #: What each parameter of the constructor may be.
    parameter_rules: ClassVar[dict[str, Rule]] = {}
    #: Whether the columns may stand beside the features as another block of them.
    joins_columns: ClassVar[bool] = True
    map_: FeatureMap
    n_features_in_: int

    def planned_map(self, d: int) -> FeatureMap:
        """The map that `fit` would make on d columns, but for what it takes from the rows.

        Parameters
        ----------
        d : int
            Number of input columns.

        Returns
        -------
        FeatureMap
            A map of the right width and cost, for planning.

        Raises
        ------
        InputError
            A parameter breaks its rule, or parameters do not go together.
        """
        check_parameters(self)
        return self._planned_map(d)

    def _planned_map(self, d: int) -> FeatureMap:
        return self._make_map(d, 0)

    def _make_map(self, d: int, seed: int, X: Any = None) -> FeatureMap:
        """The map for d columns. Rules take their numbers from the rows X; None in place of rows is a plan, and rules give 1."""
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Set the numbers that rules take from the rows, and freeze the map.

        A rule reads at most 1,000 sampled rows, a number none; whitening takes one pass.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : ignored, default=None
            Not used; it is there so that the estimator fits into a Pipeline.

        Returns
        -------
        FeatureEstimator
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, parameters do not go together, X holds NaN, infinity, or entries for which the kernel is not
            defined, or the sampled rows do not determine what a rule sets.
        """
        X = validate_rows(self, X, reset=True)
        self.map_ = self._make_map(X.shape[1], draw_seed(getattr(self, "random_state", 0)), X)
        return self

    def planned_costs(self, rows: PlannedRows, planned: FeatureMap) -> Costs:
        """What `fit` takes on such rows, before anything runs.

        Parameters
        ----------
        rows : PlannedRows
            Number and width of the rows, their blocks, and the workers.
        planned : FeatureMap
            What `planned_map` returned.

        Returns
        -------
        Costs
            Passes, tasks, and bytes that are read, written and held.
        """
        return Costs()

    @classmethod
    def named_base(cls, n_components: int) -> FeatureEstimator | None:
        """The usual base of a map that needs the features of another map, if the user named no base.

        Parameters
        ----------
        n_components : int
            Number of features of this map, not of the base.

        Returns
        -------
        FeatureEstimator or None
            Not fitted. None for a map that needs no base.
        """
        return None

    def target_parameters(self, labels: bool) -> dict[str, Any]:
        """Parameters that follow from the kind of target unless the user sets them: the loss of a map that learns.

        Parameters
        ----------
        labels : bool
            Whether the targets are labels.

        Returns
        -------
        dict
            For `set_params`.
        """
        return {}

    def take_size(self, D: int) -> None:
        """Set `n_components`, if there is one, so that the features do as well as D random features.

        Parameters
        ----------
        D : int
            Number of random features.
        """
        if "n_components" in self.parameter_rules:
            self.set_params(n_components=D)

    def trial_map(self, D: int, seed: int) -> FeatureEstimator:
        """A cheap map that replaces this one in trials on a sample. It learns without targets, in one pass at most.

        Parameters
        ----------
        D : int
            Number of features, at most.
        seed : int
            Seed of the draw.

        Returns
        -------
        FeatureEstimator
            Not fitted.
        """
        trial = clone(self)
        if "n_components" in self.parameter_rules:
            trial.set_params(n_components=min(D, trial.n_components or D))
        return trial

    def scale_parameter(self) -> str | None:
        """The parameter that holds the length scale, of this map or of its base.

        Returns
        -------
        str or None
            Its name for `set_params`. None if there is none, if each column has its own, or if `gamma` is set in its place.
        """
        known = self.get_params(deep=True)
        for prefix in ("", "base__"):
            name = f"{prefix}length_scale"
            if np.ndim(known.get(name, ())) == 0 and known.get(f"{prefix}gamma") is None:
                return name
        return None

    def facts(self) -> dict[str, Any]:
        """What `fit` took from the rows, for reports.

        Returns
        -------
        dict
            Plain JSON by name: length scale, where all columns share it, projection and kernel, where the map has them.
        """
        names = (n for n in ("length_scale", "projection") if np.ndim(getattr(self, n, 1.0)) == 0)
        fitted = {name: getattr(self, f"{name}_") for name in names if hasattr(self, f"{name}_")}
        return fitted | ({"kernel": self.kernel_.spec()} if hasattr(self, "kernel_") else {})

    def transform(self, X: ArrayLike) -> ArrayLike:
        """Compute the features of X.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.

        Returns
        -------
        array, CSR array or Dask array of shape (n, D)
            Features of the rows, now for NumPy and CSR input, lazily for a Dask array. Row chunks of a Dask
            array are cut where blocks of D columns would exceed Dask's `array.chunk-size`. float32 gives
            float32; small integers give float32, other numbers float64.

        Raises
        ------
        InputError
            X has another width than at `fit`, or holds NaN or infinity; or a Dask array meets `set_output`
            with a container of data frames.
        """
        check_is_fitted(self)
        X = self._checked(X)
        if not is_dask_collection(X):
            return apply_map(self.map_, X, getattr(self, "n_jobs", -1))
        container = getattr(self, "_sklearn_output_config", {}).get(
            "transform", get_config()["transform_output"]
        )
        if container != "default":  # scikit-learn would pull every block in to fill the data frame
            raise InputError(
                f"a Dask array goes in, a lazy Dask array comes out: transform output {container!r} is for rows in "
                "memory; use set_output(transform='default')"
            )
        return self._mapped(X)

    def _checked(self, X: Any) -> Any:
        """The rows of `transform`, after the checks."""
        return validate_rows(self, X, reset=False)

    def _mapped(self, X: Any) -> Any:
        """Lazy features of lazy rows."""
        return map_features(self.map_, X)

    @property
    def _n_features_out(self) -> int:
        return self.map_.n_components

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = any(map(positive_only, self.get_params(deep=False).values()))
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@estimator
class DrawnFeatures(FeatureEstimator):
    """Base of the estimators that draw.

    Parameters
    ----------
    n_jobs : int or None, default=-1
        Threads of `transform` for NumPy and CSR input: -1 takes all cores, None takes one. Dask decides for Dask arrays.
    random_state : int, Generator, RandomState or None, default=None
        Seed of all draws. None draws one seed and keeps it in the map. A base without a seed of its own gets one derived from this.
    """

    n_jobs: int | None = param(default=-1, rule=JOBS)
    random_state: RandomState = param(default=None, rule=SEED)


BASE = instance(FeatureEstimator, "a feature estimator of distrf")
