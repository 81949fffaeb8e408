"""Targets of linear models: class labels to +-1 columns, regression targets centred."""

from __future__ import annotations

import numbers
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.base import is_dask_collection

from .errors import InputError, first_not_finite
from .execution.labelled import plain_rows
from .execution.passes import count_segments, run_pass
from .execution.planned import Phase
from .store.frames import as_arrow, target_values

#: Targets of a larger size are refused.
_LARGEST = 1e140


@dataclass(frozen=True)
class Targets:
    """Encodes blocks of y as float64 columns of shape (rows, width), on which linear models are trained.

    Attributes
    ----------
    classes : array of shape (c,), the labels. Each class has a column of -1 and 1; two classes share a single one.
        None for regression
    centre : array of shape (width,), subtracted from the targets of regression, so that float32 products keep digits
    class_weight : array of shape (c,), factors on the weight of the rows of each class, or None
    shares : array of shape (c,), the share of each class in the weight of all rows; None if they were not counted
    units : array of shape (width,), factors on the centred targets of regression if their spreads are unlike; None is 1
    weight_unit : float, by which weights are divided, so that float32 products hold them, see `weight_unit`
    mean_weight : float, of all rows, of the weights that `encode` returns
    """

    classes: np.ndarray | None
    centre: np.ndarray
    class_weight: np.ndarray | None = None
    shares: np.ndarray | None = None
    units: np.ndarray | None = None
    weight_unit: float = 1.0
    mean_weight: float = 1.0

    @property
    def width(self) -> int:
        return len(self.centre)

    def encode(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Encode a block of targets.

        Parameters
        ----------
        y : array of shape (b,), labels or numbers; or (b, C), numbers
        weight : array of shape (b,), sample weights, or None

        Returns
        -------
        Y : array of shape (b, width), float64
        weight : array of shape (b,), sample weights times class weights over `weight_unit`; None if there are neither

        Raises
        ------
        InputError : a weight that is negative or not finite, or weights of another length
        """
        if (
            weight is not None or self.weight_unit != 1.0
        ):  # rows without weights, added to others that have some, have 1
            weight = checked_weights(np.ones(len(y)) if weight is None else weight, y) / self.weight_unit
        if self.classes is None:
            Y = float_columns(y) - self.centre
            return Y if self.units is None else Y * self.units, weight
        codes = np.searchsorted(self.classes, y)
        if self.class_weight is not None:
            factor = self.class_weight[codes]
            weight = factor if weight is None else weight * factor
        if len(self.classes) == 2:
            return np.where(codes == 1, 1.0, -1.0)[:, None], weight
        Y = np.full((len(y), len(self.classes)), -1.0)
        Y[np.arange(len(y)), codes] = 1.0
        return Y, weight

    def decode(self, scores: np.ndarray) -> np.ndarray:
        """Scores of shape (..., width) in the units of the targets. The centre is not added."""
        return scores if self.units is None else scores / self.units

    def error_factors(self, weight: float, sums: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """Factors on the squared errors of columns, by which each column counts alike.

        The mean over columns of factor x squared error, divided by the mean variance, is the mean of 1 - R^2.

        Parameters
        ----------
        weight : float, total weight of all rows
        sums, squares : arrays of shape (width,), weighted sums over all rows of the encoded columns and of their squares

        Returns
        -------
        Array of shape (width,): ones for classes and for a single target, 0 for a target that does not vary.
        """
        mean, moments = sums / weight, squares / weight
        variance = np.maximum(moments - mean**2, 0.0)
        varies = variance > 1e-12 * moments + (1e-12 * self.centre) ** 2  # more than rounding leaves
        if self.classes is not None or self.width == 1 or not varies.any():
            return np.ones(self.width)
        return variance.mean() / np.where(varies, variance, np.inf) / varies.mean()

    def __dask_tokenize__(self) -> tuple[object, ...]:
        known = ("distrf-targets", self.classes, self.centre, self.class_weight)
        return (*known, self.units, self.weight_unit)


@dataclass(frozen=True)
class _ClassReduction:
    """The reduction that adds up the weight of the rows of each label: {label: weight}."""

    nbytes: int = 1024
    flops_per_row: float = 10.0

    def initial(self) -> dict[Any, float]:
        return {}

    def update(
        self, state: dict[Any, float], first_row: int, y: np.ndarray, weight: np.ndarray | None = None
    ) -> dict[Any, float]:
        if y.ndim != 1:
            raise InputError(f"class labels must be one column, got y of shape (n, {y.shape[1]})")
        if y.dtype.kind == "f":
            if bad := first_not_finite(y):
                raise InputError(f"y must be finite, but row {bad[0]} of the block is not")
            if (y != np.floor(y)).any():
                raise InputError(
                    "Unknown label type: continuous; class labels are integers, strings or booleans"
                )
        weight = None if weight is None else checked_weights(weight, y, first_row)
        labels, codes = np.unique(y, return_inverse=True)
        counts = np.bincount(codes, weights=weight, minlength=len(labels))
        return self.combine(state, dict(zip(labels.tolist(), counts.tolist(), strict=True)))

    def combine(self, left: dict[Any, float], right: dict[Any, float]) -> dict[Any, float]:
        return {k: left.get(k, 0) + right.get(k, 0) for k in left.keys() | right.keys()}


@dataclass(frozen=True)
class _MeanReduction:
    """The reduction that adds up the weights and the weighted targets: [sum of w, sum of w y of shape (C,)]."""

    nbytes: int = 1024
    flops_per_row: float = 10.0

    def initial(self) -> list[Any]:
        return [0.0, 0.0]

    def update(
        self, state: list[Any], first_row: int, y: np.ndarray, weight: np.ndarray | None = None
    ) -> list[Any]:
        y = float_columns(y)
        if bad := first_not_finite(y):
            raise InputError(f"y must be finite, but row {bad[0]} of the block is not")
        if (np.abs(y) > _LARGEST).any():
            raise InputError(
                f"y must be at most {_LARGEST:g} in size, so that its squares are numbers; divide it first"
            )
        w = np.ones(len(y)) if weight is None else checked_weights(weight, y, first_row)
        return self.combine(state, [w.sum(), w @ y])

    def combine(self, left: list[Any], right: list[Any]) -> list[Any]:
        return [a + b for a, b in zip(left, right, strict=True)]


def float_columns(y: np.ndarray) -> np.ndarray:
    """A block of targets as float64 columns, shape (n, C); blocks may be empty."""
    y = np.asarray(y, dtype=np.float64)
    return y[:, None] if y.ndim == 1 else y


def checked_weights(weight: np.ndarray, y: np.ndarray, first_row: int = 0) -> np.ndarray:
    """Check the sample weights of a block of targets y.

    Parameters
    ----------
    weight : array of shape (n,)
    y : array of shape (n,) or (n, C)
    first_row : the number of the first row, for messages

    Returns
    -------
    The weights as float64, shape (n,).

    Raises
    ------
    InputError : a weight that is negative or not finite, or weights of another length
    """
    rule = "sample_weight must hold one finite number >= 0 for each row"
    weight = np.asarray(weight)
    if weight.dtype.kind not in "fiub" and weight.dtype.kind != "O":
        raise InputError(f"{rule}, got dtype {weight.dtype}; give numbers")
    weight = np.asarray(weight, dtype=np.float64)
    if weight.shape != y.shape[:1]:
        raise InputError(f"{rule}, got shape {weight.shape} for {y.shape[0]} rows")
    good = np.isfinite(weight) & (weight >= 0)
    if not good.all():
        row = int(good.argmin())
        raise InputError(f"{rule}, got {weight[row]:g} in row {first_row + row}; mend or drop such rows")
    return weight


def weight_unit(mean: float) -> float:
    """The power of two next to a mean weight, so that division by it keeps all digits; 1 for 0."""
    return float(np.exp2(np.round(np.log2(mean)))) if mean > 0 else 1.0


def _pass(reduction: Any, y: Any, weight: Any) -> Any:
    arrays = [y] if weight is None else [y, weight]
    return run_pass(reduction, arrays, label="targets", block_rows=1 << 20)


def class_counts(y: Any, weight: Any) -> dict[Any, float]:
    """Weighted count of every label of y."""
    return _pass(_ClassReduction(), y, weight)


def target_phase(n_rows: int, blocks: int, passes: int = 1) -> Phase:
    """Passes over the targets alone, for a plan."""
    return Phase.of_passes(passes, min(count_segments(n_rows, _ClassReduction()), blocks), 0.0)


def check_labels(counts: Collection[Any], classes: np.ndarray) -> None:
    """Raise InputError for labels, such as those of `class_counts`, that are not among the classes."""
    unknown = sorted(set(counts) - set(classes.tolist()), key=str)
    if unknown:
        raise InputError(
            f"y has labels that are not among the classes: {unknown}; classes: {classes.tolist()}; "
            "name all labels in classes= of the first call, or fit all rows again"
        )


def class_targets(y: Any, weight: Any, class_weight: Any, classes: np.ndarray | None = None) -> Targets:
    """The encoding of class labels, from one pass over the labels.

    Parameters
    ----------
    y : array or Dask array of shape (n,)
    weight : array or Dask array of shape (n,), sample weights, or None
    class_weight : None, {label: factor}, or "balanced": total weight / (number of classes x weight of the class)
    classes : array of shape (c,), all labels, sorted; None takes those of y

    Returns
    -------
    Targets

    Raises
    ------
    InputError : fewer than two classes, weights that are all zero where no classes are given, labels that are not finite or not whole, an unknown label in class_weight
    """
    counts, given = class_counts(y, weight), classes is not None
    if classes is not None:
        check_labels(counts, classes)
        counts = {label: counts.get(label, 0.0) for label in classes.tolist()}
    labels = sorted(counts)
    if len(labels) < 2:
        raise InputError(f"a classifier needs at least 2 classes, got {len(labels)} class: {labels}")
    if classes is None:
        classes = np.asarray(labels)  # of their true width: Dask declares <U1 for whatever .astype(str) makes
        if y.dtype.kind != "O":
            classes = classes.astype(
                np.result_type(y.dtype, classes.dtype) if y.dtype.kind in "US" else y.dtype
            )
    factors = None
    if class_weight == "balanced":
        total = sum(counts.values())
        factors = np.array([total / (len(labels) * counts[c]) if counts[c] else 0.0 for c in labels])
    elif isinstance(class_weight, dict):
        unknown = set(class_weight) - set(labels)
        if unknown:
            raise InputError(
                f"class_weight names labels that y lacks: {sorted(unknown, key=str)}; labels: {labels}"
            )
        factors = np.array([float(class_weight.get(c, 1.0)) for c in labels])
    elif class_weight is not None:
        raise InputError(f"class_weight is None, 'balanced' or a dictionary, got {class_weight!r}")
    shares = np.array([counts[c] for c in labels]) * (1.0 if factors is None else factors)
    mean = float(shares.sum()) / max(y.shape[0], 1)
    if not given and not mean > 0:
        raise InputError("sample_weight must not be zero everywhere")
    unit = weight_unit(mean)
    shares = shares / shares.sum() if mean > 0 else None
    centre = np.zeros(1 if len(labels) == 2 else len(labels))
    return Targets(classes, centre, factors, shares, weight_unit=unit, mean_weight=mean / unit)


def regression_targets(y: Any, weight: Any, otherwise: np.ndarray | None = None) -> Targets:
    """The encoding of targets of regression, centred at their weighted mean, from one pass over the targets.

    Parameters
    ----------
    y : array or Dask array of shape (n,) or (n, C)
    weight : array or Dask array of shape (n,), sample weights, or None
    otherwise : array of shape (C,), the centre where the weights are all zero; None refuses them

    Returns
    -------
    Targets

    Raises
    ------
    InputError : targets that are not finite, or weights that are all zero
    """
    total, sums = _pass(_MeanReduction(), y, weight)
    if not total > 0:
        if otherwise is None:
            raise InputError("sample_weight must not be zero everywhere")
        return Targets(None, otherwise, mean_weight=0.0)
    unit = weight_unit(mean := float(total) / y.shape[0])
    return Targets(None, np.atleast_1d(sums / total), weight_unit=unit, mean_weight=mean / unit)


def refuse_unlike_targets(y: Any) -> None:
    """Raise InputError for targets that are complex, times, records, or objects that are not of one kind."""
    kind = getattr(getattr(y, "dtype", None), "kind", "")
    if kind == "O" and not is_dask_collection(y):
        values = np.asarray(y).ravel().tolist()
        types = {type(v) for v in values}
        alike = all(issubclass(t, str) for t in types) or all(
            issubclass(t, (bool, np.bool_, numbers.Real)) for t in types
        )
        missing = [] if alike or np.ndim(y) == 0 else [i for i, v in enumerate(values) if is_missing(v)]
        if missing:
            row = missing[0] * len(y) // len(values)
            raise InputError(
                f"y must have a value in every row, but row {row} is {values[missing[0]]}; drop such rows"
            )
        if not alike:
            names = ", ".join(sorted(t.__name__ for t in types))
            raise InputError(
                f"Unknown label type: y must hold numbers, booleans or text of one kind, got objects of the types {names}; "
                "argument must be a string or a real number: convert them, or drop the rows"
            )
    if kind in ("c", "m", "M", "V"):
        what = "Complex data not supported: " if kind == "c" else ""
        raise InputError(f"{what}y must hold numbers, booleans or text, got dtype {y.dtype}; convert it first")


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or the NA or NaT of pandas."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and value != value)
    )


def as_columns(y: Any) -> Any:
    """The targets as an array; a Dask array stays lazy.

    Objects that are all text become an array of strings, those that are all booleans one of booleans, and columns of
    pandas with a dtype of its own (nullable ones, categories) what they hold. Raises InputError for values that are neither
    labels nor numbers, and for a Dask array of objects.
    """
    y = plain_rows(y, "y")
    if not isinstance(getattr(y, "dtype", np.dtype("f8")), np.dtype) and np.ndim(y) == 1:
        y = target_values(as_arrow({"y": y}), "y")
    refuse_unlike_targets(y)
    if is_dask_collection(y):
        if y.dtype.kind == "O":
            raise InputError("y of a Dask array must not have object dtype; use y.astype(str) or integers")
        return y
    y = np.asarray(y)
    for kind in (str, bool) if y.dtype.kind == "O" and y.size else ():
        if all(isinstance(v, kind) for v in y.ravel()):
            return y.astype(kind)
    return y
