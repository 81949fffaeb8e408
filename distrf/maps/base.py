"""The frozen map: a seeded, picklable function of one block of rows, NumPy in and NumPy out."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, SpecMismatchError


def working_dtype(dtype: np.dtype | type) -> np.dtype:
    """float32 for float32 and for integers that float32 holds exactly (16 bits or fewer); else float64."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "fiub":
        raise InputError(f"X must be numeric, got dtype {dtype}; encode or drop the other columns")
    return np.dtype(np.float32 if np.can_cast(dtype, np.float32, "safe") else np.float64)


def check_rows(X: Any, n_features_in: int) -> Any:
    """The block, sparse rows in `canonical` form.

    Raises InputError unless it is two-dimensional, of the right width, numeric and finite.
    """
    if X.ndim != 2:
        raise InputError(f"X must have 2 dimensions (rows, columns), got shape {X.shape}")
    if X.shape[1] != n_features_in:
        raise InputError(f"X has {X.shape[1]} features, but the map was made for {n_features_in} features")
    working_dtype(X.dtype)
    X = canonical(X)
    values = X.data if sp.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype.kind != "f" or np.isfinite(_any_sum(values)):
            return X
    bad = ~np.isfinite(values)
    if not bad.any():  # the sum overflowed, the entries did not
        return X
    if sp.issparse(X):
        at = int(np.flatnonzero(bad)[0])
        row, column = int(np.searchsorted(X.indptr, at, side="right") - 1), int(X.indices[at])
        value = values[at]
    else:
        row, column = (int(i) for i in np.argwhere(bad)[0])
        value = X[row, column]
    what = "NaN" if np.isnan(value) else "infinity"
    raise InputError(
        f"X must be finite, but row {row} of the block, column {column} is {what} "
        f"({int(bad.sum())} such entries in the block); impute or drop them, or recompute an unfinished store"
    )


def refuse_overflow(features: np.ndarray) -> None:
    """Raise InputError where finite rows have features too large for their dtype: powers of entries grow fast."""
    with np.errstate(over="ignore", invalid="ignore"):
        lost = not np.isfinite(_any_sum(features)) and not np.isfinite(features).all()
    if lost:
        raise InputError(
            f"features overflow {features.dtype}: powers of the entries of a row leave its range; choose a smaller gamma "
            "(gamma='norm' makes gamma x.x 1 on average) or degree, scale the rows, or pass float64 rows"
        )


def canonical(X: Any) -> Any:
    """Sparse rows as CSR whose entries are in order and not repeated. X itself where it is like that already, or dense.

    SciPy lets a matrix store one entry as several that add up. Bins, norms, signs and products of those several are not
    those of their sum.
    """
    if not sp.issparse(X):
        return X
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _any_sum(values: np.ndarray) -> float:
    """A sum that is finite only if all values are. BLAS sums squares where it can, which is 5 times as fast."""
    if values.dtype in (np.float32, np.float64) and values.flags.forc:
        flat = values.ravel(order="K")
        return float(np.dot(flat, flat))
    return float(values.sum(dtype=np.float64))


@dataclass(frozen=True)
class FeatureMap:
    """Base of the maps: d = n_features_in columns to D = n_components features.

    A map is a plain value: equal fields mean equal maps. Whatever can be made from the seed is made on
    the worker and never pickled; what was learned from data is in `arrays` and travels apart from the
    map (`without_arrays`, `with_arrays`), once per worker.
    """

    n_features_in: int
    n_components: int

    kind: ClassVar[str]
    #: Whether `columns` costs as much as all features.
    whole_rows: ClassVar[bool] = False
    #: Whether the features are CSR arrays.
    sparse_output: ClassVar[bool] = False
    #: Whether the columns stay what they are, in other units.
    same_columns: ClassVar[bool] = False

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Features of a block, shape (n, D); float32 for float32 and small integers, else float64.

        X : array or CSR matrix of shape (n, d). Raises InputError for a wrong width, NaN or infinity.
        """
        X = check_rows(X, self.n_features_in)
        out = np.empty((X.shape[0], self.n_components), dtype=working_dtype(X.dtype))
        self.fill(X, out)
        return out

    def fill(self, X: np.ndarray, out: np.ndarray) -> None:
        """Write the features of checked rows X into the C-contiguous `out` of shape (n, D)."""
        raise NotImplementedError

    def columns(self, X: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Features start:stop of a block, shape (n, stop - start), without making the others."""
        raise NotImplementedError

    def exact_kernel(self, X: np.ndarray, Y: np.ndarray | None = None) -> np.ndarray:
        """The kernel matrix that the features approximate, shape (n, m), float64.

        X : array of shape (n, d); Y : array of shape (m, d), default X. Raises InputError for a map without one.
        """
        raise InputError(
            f"a map of kind {self.kind!r} approximates no kernel of its own; give the map that makes the features"
        )

    def makes_csr(self, of_csr: bool) -> bool:
        """Whether the features of CSR rows, or of dense ones, are CSR arrays."""
        return self.sparse_output

    @property
    def longest(self) -> float:
        """A bound of |z|^2 over all rows; infinity where there is none."""
        return float("inf")

    @property
    def entries_per_row(self) -> int:
        """Numbers that a row of features takes in memory."""
        return self.n_components

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """What was learned from data; empty for maps that are a seed."""
        return {}

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> FeatureMap:
        return self

    def without_arrays(self) -> FeatureMap:
        return self

    def spec(self) -> dict[str, Any]:
        """The JSON that, with `arrays`, determines the map; holds a checksum of some weights."""
        raise NotImplementedError

    def checksum(self) -> float | None:
        """A number made from some of the weights, equal in every process; None for a map without drawn weights."""
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.__getstate__(), self.checksum())

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> FeatureMap:
        raise NotImplementedError

    def work(self) -> tuple[float, float]:
        """Floating-point operations per row, and bytes of cached parameters; for the plan."""
        raise NotImplementedError

    def held_bytes(self, itemsize: int) -> int:
        """Bytes that a worker holds beside cached parameters and blocks; for the plan."""
        return 0

    def scratch_bytes(self, itemsize: int) -> int:
        """Bytes beside a block and its features while these are made; for the plan."""
        return 0

    def __dask_tokenize__(self):
        try:
            state: Any = json.dumps(self.spec(), sort_keys=True)
        except InputError:  # a kernel of one's own: no spec can name it
            state = [getattr(self, f.name) for f in fields(self) if f.compare]
        return (type(self).__name__, state, arrays_fingerprint(self.arrays))


class OverBase:
    """Mixin of maps over a `base` map: what was learned from data is the base's."""

    base: FeatureMap

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return self.base.arrays

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> Any:
        return replace(self, base=self.base.with_arrays(arrays))  # type: ignore[type-var]

    def without_arrays(self) -> Any:
        return replace(self, base=self.base.without_arrays())  # type: ignore[type-var]

    def held_bytes(self, itemsize: int) -> int:
        return self.base.held_bytes(itemsize)

    def scratch_bytes(self, itemsize: int) -> int:
        return self.base.scratch_bytes(itemsize)


def _unpickled(cls: type[FeatureMap], state: dict[str, Any], sent: float | None) -> Any:
    """The map, after a check that this process makes the weights that the sender of the map makes."""
    map_ = cls.__new__(cls)
    map_.__dict__.update(state)
    made = map_.checksum()
    if made is not None and not _agree(made, sent):
        return _OtherWeights(
            f"{socket.gethostname()} makes other weights from the seed of a {cls.kind!r} map than the process that sent "
            f"it: checksum {made!r}, sent {sent!r}; install the same distrf and NumPy on both, or leave that worker out"
        )
    return map_


class _OtherWeights:
    """Stands in for a map whose weights differ here; any use of it raises.

    The error so appears in a task, which reports it. If it were raised while a worker reads its messages, the worker
    would end without a word.
    """

    def __init__(self, message: str):
        self.__dict__["message"] = message

    def __getattr__(self, name: str) -> Any:
        raise SpecMismatchError(self.message)

    def __call__(self, X: Any) -> Any:
        raise SpecMismatchError(self.message)


def _agree(made: float, stored: Any) -> bool:
    return bool(np.isclose(made, float(stored), rtol=1e-9, atol=1e-9))


def verify_checksum(made: Any, stored: Any) -> None:
    """Raise SpecMismatchError where weights made from a spec are not those it was written with."""
    if not _agree(made, stored):
        raise SpecMismatchError(
            f"this version makes other weights from the spec: checksum {made!r}, stored {float(stored)!r}; "
            "the spec was edited or written by an incompatible release"
        )


def arrays_fingerprint(arrays: Mapping[str, np.ndarray]) -> str:
    """Fingerprint of named arrays: a hash of names, dtypes, shapes and bytes."""
    fingerprint = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        fingerprint.update(f"{name}{array.dtype.str}{array.shape}".encode())
        fingerprint.update(array.data)
    return fingerprint.hexdigest()


def verify_fingerprint(arrays: Mapping[str, np.ndarray], stored: str) -> None:
    """Raise SpecMismatchError where learned arrays are not those that a spec was written with."""
    if arrays_fingerprint(arrays) != stored:
        raise SpecMismatchError(
            f"the arrays {sorted(arrays)} are not those that the spec was written with; restore both, or fit again"
        )


@lru_cache(maxsize=32)
def _row_tiles(n: int, tile: int) -> tuple[tuple[int, int], ...]:
    return tuple((a, min(a + tile, n)) for a in range(0, n, tile))


def row_tiles(n: int, tile: int) -> tuple[tuple[int, int], ...]:
    """Bounds of the tiles of `tile` rows that cover range(n)."""
    return _row_tiles(n, tile)
