"""Encodings of one column of coded rows each: numbers, categories and dates as numbers of like size.

Coded rows are float64 rows of a table: numbers as they are, texts as codes, dates as seconds since 1970 (UTC), and `MISSING` for
what is not there. An encoding makes `width` features of one column x. At most `slots` of them are not zero in a row. A column
may have several: an indicator beside its numbers, or standard units beside piecewise-linear features. All features are cut at +-2^20 (`distrf.compiled.table_rows.LIMIT`), so that float32 holds them and their products.

Every encoding is a pure function of what is known of its column; the loops are in `distrf.compiled.table_rows`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from ..errors import InputError
from ..parameters import check_fields, plain_type
from ..randomness import below, mixed_words, quantile
from .table_missing import is_missing

#: Folds of the rows in the cross-fitting of target means.
FOLDS = 5
#: What `Cycle` goes around.
PERIODS = ("hour", "weekday", "yearday")
#: Numbers that describe an encoding lie between +-this, so that their differences are finite.
_LARGEST = 1e300


def row_folds(first: int, rows: int) -> np.ndarray:
    """The folds of neighbouring rows, which are hashes of their numbers: equal in every chunking.

    What rows hold has no say: of equal rows, a fold would have all or none.

    Parameters
    ----------
    first : number of the first row
    rows : how many

    Returns
    -------
    Array of shape (rows,), int8, of numbers below `FOLDS`.
    """
    return below(mixed_words(np.arange(first, first + rows, dtype=np.uint64)), FOLDS)


def given_cells(first: int, folds: np.ndarray) -> np.ndarray:
    """`row_folds` where rows have folds of their own: rows of one are in one, and rows of fold -1 are not with those of 0.

    Parameters
    ----------
    first : number of the first row
    folds : whole numbers from -1, shape (rows,)
    """
    words = mixed_words(np.arange(first, first + len(folds), dtype=np.uint64))
    return np.where(folds < 0, 1 + below(words, FOLDS - 1), folds % FOLDS).astype(np.int8)


@dataclass(frozen=True, eq=False)
class Encoding:
    """Base of the encodings. A subclass adds what it needs to know of its column.

    Parameters
    ----------
    column : the column of the rows
    factor : every feature is multiplied by it; the caller chooses it so that columns count alike
    """

    column: int
    factor: float

    def __post_init__(self) -> None:
        check_fields(self)
        self._require(self.column >= 0, "a column that is counted from 0")
        self._require(bool((abs(self.numbers()) <= _LARGEST).all()), f"numbers within +-{_LARGEST:g}")

    def _require(self, good: bool, rule: str) -> None:
        if not good:
            raise InputError(
                f"{type(self).__name__} has {rule}; that of column {self.column} has not: clip the column or leave it out"
            )

    @property
    def width(self) -> int:
        """How many features it makes."""
        return 1

    @property
    def slots(self) -> int:
        """How many of them can differ from zero in one row."""
        return self.width

    def numbers(self) -> np.ndarray:
        """All fields but the column as one vector, as `distrf.compiled.table_rows` reads it: numbers first, arrays of like size last."""
        return np.concatenate([np.ravel(getattr(self, one.name)) for one in fields(self)[1:]]).astype(
            np.float64
        )

    @classmethod
    def of_numbers(cls, column: int, numbers: np.ndarray) -> Self:
        """The encoding of a column that has these numbers."""
        arrays = sum(plain_type(one) is None for one in fields(cls))
        scalars = len(fields(cls)) - 1 - arrays
        if len(numbers) < scalars or (len(numbers) > scalars and not arrays):
            raise ValueError(f"{len(numbers)} numbers for the {scalars} of {cls.__name__}")
        given = [int(value) if value % 1 == 0 else value for value in numbers[:scalars].tolist()]
        return cls(column, *given, *(numbers[scalars:].reshape(arrays, -1) if arrays else ()))


@dataclass(frozen=True, eq=False)
class Units(Encoding):
    """(x - middle) / spread ("standard"), or the arcsinh of that where `bent` ("robust").

    Parameters
    ----------
    column, factor : as in `Encoding`
    replacement : the number that stands in for a missing one
    middle, spread : numbers, spread > 0
    bent : whether the arcsinh is taken
    """

    replacement: float
    middle: float
    spread: float
    bent: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.spread > 0, "a positive spread")


@dataclass(frozen=True, eq=False)
class Scores(Encoding):
    """The line through the points (edge, score) at x, flat beyond the outer ones ("quantile").

    Parameters
    ----------
    column, factor : as in `Encoding`
    replacement : the number that stands in for a missing one
    edges : array of shape (m,), ascending, m >= 2
    scores : array of shape (m,)
    """

    replacement: float
    edges: np.ndarray
    scores: np.ndarray

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(_ascends(self.edges, 2), "ascending edges, 2 at least")
        self._require(self.scores.shape == self.edges.shape, "a score for each edge")

    @classmethod
    def of_quantiles(cls, column: int, factor: float, replacement: float, quantiles: np.ndarray) -> Self:
        """Normal scores, cut at +-3, of the quantiles at the probabilities 0, 1/(m - 1), ..., 1.

        Equal quantiles get the score of their mean probability, as in scikit-learn's QuantileTransformer.
        """
        edges, places = np.unique(quantiles, return_inverse=True)
        counts = np.bincount(places)
        shares = np.bincount(places, weights=np.linspace(0.0, 1.0, len(quantiles))) / counts
        scores = np.clip(quantile("normal", np.clip(shares, 1e-9, 1.0 - 1e-9)), -3.0, 3.0)
        return cls(column, factor, replacement, edges, scores)


@dataclass(frozen=True, eq=False)
class PiecewiseLinear(Encoding):
    """One feature for each of T bins b_0 < b_1 < ... < b_T: 0 before the bin, 1 after it, a line between.

    Feature t = 1, ..., T is 0 where x < b_{t-1} and t > 1, 1 where x >= b_t and t < T, else (x - b_{t-1}) / (b_t - b_{t-1})
    (the paper's equation 1). So the first feature goes on below b_0 and the last above b_T, which keeps the order of values
    that training never saw. Here they stop 3 bin widths beyond the edges: one far value would otherwise set the distances of
    its row, which the features of no row inside the edges can do.

    Parameters
    ----------
    column, factor : as in `Encoding`
    replacement : the number that stands in for a missing one
    edges : array of shape (T + 1,), ascending; b

    References
    ----------
    Gorishniy, Rubachev & Babenko, "On embeddings for numerical features in tabular deep learning", NeurIPS 2022, section 3.2.
    """

    replacement: float
    edges: np.ndarray

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(_ascends(self.edges, 2), "ascending edges, 2 at least")

    @property
    def width(self) -> int:
        return len(self.edges) - 1


@dataclass(frozen=True, eq=False)
class Indicator(Encoding):
    """`factor` where x is missing, else 0."""


@dataclass(frozen=True, eq=False)
class OneHot(Encoding):
    """`factor` in one of k + 2 features: those of the codes in their order, of other values, and of missing ones.

    Parameters
    ----------
    column, factor : as in `Encoding`
    codes : array of shape (k,), ascending, k >= 1, without `MISSING`
    """

    codes: np.ndarray

    def __post_init__(self) -> None:
        super().__post_init__()
        rule = "ascending codes, of which MISSING is none"  # it has a feature of its own
        self._require(_ascends(self.codes, 1) and not is_missing(self.codes).any(), rule)

    @property
    def width(self) -> int:
        return len(self.codes) + 2

    @property
    def slots(self) -> int:
        return 1


@dataclass(frozen=True, eq=False)
class TargetMeans(Encoding):
    """Numbers looked up by x: `factor` times the means of C targets over the training rows that share the value of x.

    At training a row takes the means over the rows of other folds (`row_folds`), so that its own target does not enter. At
    prediction it takes those over all rows.

    Parameters
    ----------
    column, factor : as in `Encoding`
    codes : array of shape (k,), ascending, k >= 1; `MISSING` may be one of them
    means : array of shape (FOLDS + 1, k + 1, C): without each fold, and over all rows last; after those of the codes, what
        values that are no code get
    """

    codes: np.ndarray
    means: np.ndarray

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(_ascends(self.codes, 1), "ascending codes")
        shape = FOLDS + 1, len(self.codes) + 1
        self._require(
            self.means.shape[:-1] == shape and self.width > 0, f"means of shape {(*shape, 'targets')}"
        )

    @classmethod
    def of_sums(
        cls,
        column: int,
        codes: np.ndarray,
        sums: np.ndarray,
        totals: np.ndarray,
        smoothing: float,
        crossing: str = "rows",
    ) -> Self:
        """The means (sum + m mean) / (weight + m), where `mean` is that of all values in the same folds; the factor is 1.

        Parameters
        ----------
        column, codes : as in the class
        sums : array of shape (k, FOLDS, 1 + C): the weight of the rows of a code in a fold, then their weighted targets
        totals : array of shape (FOLDS, 1 + C): the same over all rows
        smoothing : m > 0
        crossing : what the folds are: "rows" by their numbers, "folds" that are given, "later" where of these fold 0 is later
            than the others, which must not learn from it. `mean` is that of the other folds; where folds are given that of all
            (but later ones): a level that is in one fold alone, as the columns of a group are, then says nothing of its fold
        """
        means = np.empty((FOLDS + 1, len(codes) + 1, sums.shape[-1] - 1))
        for fold in range(FOLDS + 1):
            others = np.arange(FOLDS) != fold
            known = others if crossing == "rows" else np.ones(FOLDS, dtype=bool)
            if crossing == "later" and fold < FOLDS:
                others[0] = known[0] = False
            every, each = totals[known].sum(axis=0), sums[:, others].sum(axis=1)
            mean = every[1:] / every[0] if every[0] > 0 else np.zeros(len(every) - 1)
            means[fold, :-1] = (each[:, 1:] + smoothing * mean) / (each[:, :1] + smoothing)
            means[fold, -1] = mean
        return cls(column, 1.0, codes, means)

    @property
    def width(self) -> int:
        return self.means.shape[-1]

    def numbers(self) -> np.ndarray:
        return np.concatenate(
            [[self.factor, self.means.shape[-1], len(self.codes)], self.codes, self.means.ravel()]
        )

    @classmethod
    def of_numbers(cls, column: int, numbers: np.ndarray) -> Self:
        factor, C, k = float(numbers[0]), int(numbers[1]), int(numbers[2])
        means = numbers[3 + k :].reshape(FOLDS + 1, k + 1, C)
        return cls(column, factor, numbers[3 : 3 + k], means)


@dataclass(frozen=True, eq=False)
class Cycle(Encoding):
    """`factor` times the sine and the cosine of 2 pi times where a date lies in its period; both 0 where it is missing.

    Parameters
    ----------
    column, factor : as in `Encoding`
    period : "hour" (the time of day), "weekday" (whole days from Monday) or "yearday" (whole days from 1 January)
    """

    period: str

    def __post_init__(self) -> None:
        self._require(self.period in PERIODS, f"a period of {', '.join(PERIODS)}")
        super().__post_init__()

    @property
    def width(self) -> int:
        return 2

    def numbers(self) -> np.ndarray:
        return np.array([self.factor, PERIODS.index(self.period)], dtype=np.float64)

    @classmethod
    def of_numbers(cls, column: int, numbers: np.ndarray) -> Self:
        factor, period = numbers.tolist()
        return cls(column, factor, PERIODS[int(period)])


#: The encodings. Files and the compiled loops know each by its place here, so that places never change.
ENCODINGS: tuple[type[Encoding], ...] = (
    Units,
    Scores,
    PiecewiseLinear,
    Indicator,
    OneHot,
    TargetMeans,
    Cycle,
)


def date_parts(column: int, middle: float, spread: float, range_: float, timed: bool) -> list[Encoding]:
    """The encodings of a column of dates: the time elapsed, and the periods of which it shows enough to vary.

    Parameters
    ----------
    column : the column of the rows
    middle, spread : of its dates, in seconds; the middle stands in for a missing date
    range_ : what most dates lie in, in seconds
    timed : whether dates differ in the time of day

    Returns
    -------
    list of Encoding
        `Units`, bent, so that a date such as 9999-12-31 leaves the others apart; then the time of day where `timed`, the
        weekday beyond 14 days, the day of the year beyond 180. Each has variance 1 in all over dates that are spread evenly.
    """
    beyond = {"hour": timed, "weekday": range_ > 14 * 86400, "yearday": range_ > 180 * 86400}
    return [
        Units(column, 1.0, middle, middle, spread, True),
        *(Cycle(column, 1.0, period) for period in PERIODS if beyond[period]),
    ]


def _ascends(numbers: np.ndarray, least: int) -> bool:
    """Whether numbers ascend, and are so many at least, in one vector."""
    return numbers.ndim == 1 and len(numbers) >= least and bool((np.diff(numbers) > 0).all())
