"""Which rows are held out together while a model is made: at random, by class, by group, the latest ones, or runs of neighbours.

A split is a fold for each row (`distrf.folds.GivenFolds`), made of its number, its target or another column, block by block. It
is the same for any chunking and any workers. What each split holds out stands in docs/guide/splits.md.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection

from .errors import InputError
from .execution.labelled import plain_rows
from .execution.passes import run_pass
from .execution.row_blocks import align_rows
from .execution.sampling import take_rows
from .execution.scheduler import computed
from .folds import FoldCounts, GivenFolds, counted, random_folds
from .maps.table_missing import MISSING, is_missing
from .parameters import one_of
from .randomness import below, mixed_words, raw_words, sample_indices
from .tables.frequent import FrequentCodes

#: The values of `split`, and the rule for it.
KINDS = ("random", "stratified", "group", "time", "blocks")
SPLIT = one_of(*KINDS)
#: Folds of which each is held out in turn.
_FOLDS = 5
#: The share of the latest rows, and how many sampled rows say where it begins.
_LATEST, _TIMES = 0.2, 10_000
#: Up to so many groups are dealt out by their sizes; of more a hash decides.
_COUNTED = 4096
#: Bytes of labels that are sorted in memory.
_LABEL_BYTES = 2**28
_BLOCK_ROWS = 1 << 18
#: Most neighbouring rows of a run of the split "blocks"; of few rows so many that each fold has 20 runs.
_RUN, _RUNS = 1024, 20
#: Entries of rows that are hashed at a time.
_ENTRIES = 1 << 20


@dataclass(frozen=True)
class Split:
    """How rows are held out.

    Attributes
    ----------
    kind : str, one of `KINDS`; "random" where copies of a row are kept together
    by : str or None, the column of groups or times, if it has a name
    folds : GivenFolds
    why : str, what the folds are, in words
    groups : array or Dask array of shape (n,), a number for the group of each row; None where rows are not in groups
    """

    kind: str
    by: str | None
    folds: GivenFolds
    why: str
    groups: Any = None


def check_split(split: str, by: Any) -> None:
    """Raise InputError for a split that is not known, and for one without the column that it needs, or with one too many."""
    SPLIT.check("split", split)
    if split in ("group", "time") and by is None:
        raise InputError(f"split={split!r} is by a column of {_WHAT[split]}; name it with by=")
    if split not in ("group", "time") and by is not None:
        shown = by if isinstance(by, str) else type(by).__name__
        raise InputError(
            f"by={shown!r} is the column of groups or times of split='group' and split='time'; got split={split!r}"
        )


_WHAT = {"group": "groups", "time": "times"}


def make_split(
    split: str,
    X: Any,
    y: Any,
    by: Any = None,
    *,
    name: str | None = None,
    labels: bool = True,
    dates: bool = False,
    seed: int = 0,
) -> Split | None:
    """The folds of a split; None for "random", which needs none.

    Parameters
    ----------
    split : one of `KINDS`
    X, y : rows and targets, in memory or lazy
    by : array or Dask array of shape (n,): the group or the time of each row, numbers, text or dates. Of coded rows of a table
        `MISSING` is a missing value
    name : of the column `by`
    labels : whether the targets are classes
    dates : whether times are seconds since 1970, which messages then show as dates
    seed : of the hash of groups, and of the rows at which times are looked

    Raises
    ------
    InputError
        There are fewer than two groups, classes or times, missing ones, or fewer values than rows.
    """
    check_split(split, by)
    if split == "random":
        return None
    if split == "stratified":
        if not labels or y.ndim != 1:
            raise InputError(
                "split='stratified' gives each fold its share of every class, and the target is numbers; take another split"
            )
        folds, why, keys = *_stratified(y, seed), None
    elif split == "blocks":
        folds, why, keys = *_neighbouring(X, seed), None
    else:
        keys = _keys(X, by, split, "by" if name is None else repr(name))
        dates = dates or getattr(getattr(by, "dtype", None), "kind", "") == "M"
        folds, why = (_grouped if split == "group" else _latest)(keys, name, seed, dates)
    return Split(split, name, folds, why, keys if split == "group" else None)


def _keys(X: Any, by: Any, split: str, name: str) -> Any:
    """The column as float64 keys, with the row chunks of X."""
    by = plain_rows(by, "by")
    if not hasattr(by, "dtype") or not isinstance(by.dtype, np.dtype):
        by = np.asarray(by)
    if by.ndim == 2 and by.shape[1] == 1:
        by = by[:, 0]
    if by.ndim != 1 or by.shape[0] != X.shape[0]:
        raise InputError(f"by has one value for each row of X, got shape {by.shape} for {X.shape[0]} rows")
    if split == "time" and by.dtype.kind not in "fiuM":
        raise InputError(
            f"times are numbers or dates, and {name} has dtype {by.dtype}; convert it, such as by numpy.datetime64"
        )
    if is_dask_collection(by) and not is_dask_collection(X):
        raise InputError("X is in memory, but by is a Dask array; compute() it first")
    if not is_dask_collection(X):
        return column_keys(np.asarray(by))
    lazy: Any = align_rows(X, by, "by")
    return lazy.map_blocks(column_keys, dtype=np.float64, meta=np.empty(0))


def column_keys(values: np.ndarray) -> np.ndarray:
    """A block of groups or times as float64 numbers: equal for equal values, in the order of numbers and dates.

    Missing values are `MISSING`. Integers beyond 2^53 that are next to each other, and two texts in 2^53, may share a number:
    such groups stay together.
    """
    if values.dtype.kind in "fiub":
        keys = np.add(values, 0.0, dtype=np.float64)
        keys[~np.isfinite(keys)] = MISSING
        return keys
    if values.dtype.kind in "mM":
        keys = values.astype(values.dtype.kind + "8[us]").astype(np.int64) / 1e6
        keys[np.isnat(values)] = MISSING
        return keys
    known: dict[Any, float] = {}
    return np.array(
        [known.get(v) or known.setdefault(v, _text_key(v)) for v in values.tolist()], dtype=np.float64
    )


def _text_key(value: Any) -> float:
    if value is None or value == "" or value != value or type(value).__name__ in ("NAType", "NaTType"):
        return MISSING
    key = hashlib.blake2b(str(value).encode(), digest_size=8).digest()
    return float(1 + (int.from_bytes(key, "little") >> 12))


def _count(folds: Any) -> GivenFolds:
    return counted(folds, run_pass(FoldCounts(), [folds], label="folds", block_rows=_BLOCK_ROWS))


def _mapped(rows: Any, function: Any) -> Any:
    """The folds, shape (n,), that a function makes of each block of rows."""
    if not is_dask_collection(rows):
        return function(rows)
    dropped = list(range(1, rows.ndim))
    return rows.map_blocks(function, dtype=np.int8, drop_axis=dropped, meta=np.empty(0, np.int8))


def hold_copies_together(X: Any, seed: int) -> Split | None:
    """Folds at random in which equal rows share one: of a hash of what they hold, in place of their number.

    None where that leaves a fold empty, or with two fifths of the rows: few rows are unlike, or most are the same.

    X : array, CSR matrix or Dask array of shape (n, d), d in one chunk
    """
    word = int(raw_words(seed, "split of copies", 0, 1)[0])
    folds = _mapped(X, partial(_by_contents, word=word))
    counts = run_pass(FoldCounts(), [folds], label="folds", block_rows=_BLOCK_ROWS)
    if not counts[:_FOLDS].all() or counts.max() > 2 * X.shape[0] // _FOLDS:
        return None
    return Split("random", None, counted(folds, counts), "copies of a row are in one fold")


def _by_contents(X: Any, word: int) -> np.ndarray:
    """A fold from a seeded hash of the entries of a row; those that are 0 add nothing, so CSR rows have the same."""
    step = max(1, _ENTRIES * X.shape[0] // max(1, X.nnz if sp.issparse(X) else X.size))
    folds = [np.empty(0, np.int8)]
    for first in range(0, X.shape[0], step):
        rows = sp.csr_array(X[first : first + step], copy=True)
        rows.sum_duplicates()
        factors = mixed_words(rows.indices.astype(np.uint64) ^ np.uint64(word)) | np.uint64(1)
        words = mixed_words(np.add(rows.data, 0.0, dtype=np.float64).view(np.uint64)) * factors  # -0 is 0
        ends = np.concatenate([np.zeros(1, np.uint64), np.cumsum(words, dtype=np.uint64)])[rows.indptr]
        folds.append(below(mixed_words(np.diff(ends)), _FOLDS))
    return np.concatenate(folds)


def _neighbouring(X: Any, seed: int) -> tuple[GivenFolds, str]:
    """Folds of runs of neighbouring rows: no row is judged by those next to it, but at the ends of runs."""
    n = X.shape[0]
    run = max(1, min(n // (_RUNS * _FOLDS), _RUN))
    numbers = da.arange(n, chunks=(X.chunks[0],)) if is_dask_collection(X) else np.arange(n)
    folds = _count(_mapped(numbers, partial(_by_runs, run=run, folds=min(_FOLDS, n), seed=seed)))
    return folds, f"{folds.n_folds} folds of runs of {run:,} neighbouring rows"


def _by_runs(numbers: np.ndarray, run: int, folds: int, seed: int) -> np.ndarray:
    """A fold from the number of a row; neighbours of a run share one."""
    return random_folds(numbers // run, folds, seed).astype(np.int8)


def _latest(keys: Any, name: str | None, seed: int, dates: bool) -> tuple[GivenFolds, str]:
    """Fold 0: rows from a time on, about a fifth; others are never held out, since later rows would judge them.

    The time is looked up at 10,000 seeded rows (all, if there are no more), so the share is a fifth to within .02, five
    standard errors, or as near to it as rows of equal time allow: these stay together.
    """
    what = "by" if name is None else repr(name)
    rows = sample_indices(seed, "split by time", keys.shape[0], _TIMES)
    times = np.sort(np.asarray(take_rows(keys, rows)))
    _refuse_missing(times[:1], what, "time", "some rows have none")
    values, firsts = np.unique(times, return_index=True)
    if len(values) < 2:
        raise InputError(
            f"split='time' holds out the latest rows, and {what} is the same in all {len(times):,} rows looked at; take "
            "another column, or another split"
        )
    later = 1.0 - firsts / len(times)  # the share of rows from each value on
    cut = float(values[1:][np.argmin(np.abs(later[1:] - _LATEST))])
    folds = _count(_mapped(keys, partial(_by_time, cut=cut, what=what)))
    total = folds.counts[0] + folds.never
    since = np.datetime64(round(cut), "s").item().isoformat(" ") if dates and abs(cut) < 1e11 else f"{cut:.15g}"
    why = f"the {folds.counts[0]:,} latest of {total:,} rows, {what} from {since} on; the {folds.never:,} before teach"
    return folds, why


def _by_time(keys: np.ndarray, cut: float, what: str) -> np.ndarray:
    """0 from a time on, -1 before."""
    _refuse_missing(keys, what, "time", "a row has none")
    return np.where(keys >= cut, 0, -1).astype(np.int8)


def _refuse_missing(keys: np.ndarray, what: str, kind: str, found: str) -> None:
    if is_missing(keys).any():
        raise InputError(
            f"split={kind!r} needs the {kind} of every row, and in {what} {found}; drop such rows, or fill them in"
        )


def _grouped(keys: Any, name: str | None, seed: int, dates: bool) -> tuple[GivenFolds, str]:
    """All rows of a group in one fold, of five, or as many as there are groups."""
    what = "by" if name is None else repr(name)
    known = run_pass(_GroupReduction(what), [keys], label="groups", block_rows=_BLOCK_ROWS)
    if not known.lost and len(known.codes) < 2:
        raise InputError(
            f"split='group' holds out groups, and {what} has one group in all {keys.shape[0]:,} rows; take another column, or "
            "another split"
        )
    word = int(raw_words(seed, "split by group", 0, 1)[0])
    function, count = partial(_by_hash, word=word), f"more than {_COUNTED:,} groups"
    if not known.lost:
        dealt = _dealt(known.codes, known.counts, word)
        function, count = partial(_by_group, codes=known.codes, folds=dealt), f"{len(known.codes):,} groups"
    folds = _count(_mapped(keys, function))
    why = f"{count}{'' if name is None else f' of {name!r}'} in {folds.n_folds} folds: no group is in two"
    return folds, why


@dataclass(frozen=True)
class _GroupReduction:
    """Counts the rows of each group: exact up to `_COUNTED` groups."""

    what: str
    nbytes: int = 16 * _COUNTED
    flops_per_row: float = 50.0

    def initial(self) -> FrequentCodes:
        return FrequentCodes(_COUNTED)

    def update(self, state: FrequentCodes, first_row: int, keys: np.ndarray) -> FrequentCodes:
        missing = is_missing(keys)
        if missing.any():
            _refuse_missing(keys, self.what, "group", f"row {first_row + int(missing.argmax())} has none")
        state.add(keys)
        return state

    def combine(self, left: FrequentCodes, right: FrequentCodes) -> FrequentCodes:
        left.merge(right)
        return left


def _hashes(keys: np.ndarray, word: int) -> np.ndarray:
    return mixed_words(np.ascontiguousarray(keys, np.float64).view(np.uint64) ^ np.uint64(word))


def _by_hash(keys: np.ndarray, word: int) -> np.ndarray:
    """A fold from a seeded hash of the key of a group."""
    return below(_hashes(keys, word), _FOLDS)


def _dealt(codes: np.ndarray, counts: np.ndarray, word: int) -> np.ndarray:
    """The folds of groups: each, the largest first, goes to the fold of the fewest rows; of equal ones a hash says which is first."""
    loads = np.zeros(min(_FOLDS, len(codes)), dtype=np.int64)
    folds = np.empty(len(codes), dtype=np.int8)
    for g in np.lexsort([codes, _hashes(codes, word), -counts]):
        folds[g] = np.argmin(loads)
        loads[folds[g]] += counts[g]
    return folds


def _by_group(keys: np.ndarray, codes: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """The folds of known groups; codes ascend."""
    return folds[np.searchsorted(codes, keys)]


def _stratified(y: Any, seed: int) -> tuple[GivenFolds, str]:
    """The rows of each class, in the order of hashes of their numbers, go to the folds in turn: each has a fifth, to one row."""
    n = y.shape[0]
    if y.nbytes > _LABEL_BYTES:
        raise InputError(
            f"split='stratified' sorts the labels in memory, up to {_LABEL_BYTES:,} bytes of them, got {y.nbytes:,} of {n:,} rows; "
            "take split='random': of so many rows a fold has its share of every class but for a few rows"
        )
    classes, codes, counts = np.unique(computed(y)[0], return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise InputError(
            f"split='stratified' needs at least 2 classes, got {len(classes)} class: {classes.tolist()}; take another split"
        )
    if len(few := classes[counts < _FOLDS]):
        raise InputError(
            f"split='stratified' has a row of each class in each of {_FOLDS} folds, and of {few[:10].tolist()} there are fewer "
            f"than {_FOLDS} rows; leave such rows out, or take split='random'"
        )
    hashes = mixed_words(np.arange(n, dtype=np.uint64) ^ raw_words(seed, "split by class", 0, 1))
    folds: Any = np.empty(n, dtype=np.int8)
    folds[np.lexsort([hashes, codes])] = np.arange(n) % _FOLDS
    folds = da.from_array(folds, chunks=(y.chunks[0],)) if is_dask_collection(y) else folds
    return _count(folds), f"{_FOLDS} folds, each with a fifth of the rows of each of {len(classes):,} classes"
