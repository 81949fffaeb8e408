"""The frozen map: a seeded function of one block of rows that can be pickled, NumPy in and NumPy out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from ..errors import InputError, RowError, SpecMismatchError, first_entry
from ..kernels.base import AnyKernel, get_kernel
from ..lazy import Registry
from ..parameters import check_fields, plain_type, whole
from ..typing import Rows


def working_dtype(dtype: np.dtype | type) -> np.dtype:
    """The dtype in which the features of rows of a dtype are computed.

    Parameters
    ----------
    dtype : dtype of the rows

    Returns
    -------
    float32 for float32 and for what float32 holds exactly (float16, integers of 16 bits or fewer, booleans);
    float64 for every other number.

    Raises
    ------
    InputError : the dtype is not numeric
    """
    dtype = np.dtype(dtype)
    if dtype.kind not in "fiub":
        raise InputError(
            f"X must be numeric, got dtype {dtype}; encode or drop the other columns; X.astype(float) makes numbers of objects"
        )
    return np.dtype(np.float32 if np.can_cast(dtype, np.float32, "safe") else np.float64)


def check_rows(X: Rows, n_features_in: int, *, missing: bool = False) -> Rows:
    """Check one block of rows before its features are made.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    n_features_in : d, the number of columns that the map was made for
    missing : whether NaN is allowed

    Returns
    -------
    X itself where it is an array; a sparse matrix in the form that `canonical` gives.

    Raises
    ------
    InputError : X does not have two dimensions and d columns, is not numeric, or holds NaN or infinity
    """
    if X.ndim != 2:
        raise InputError(f"X must have 2 dimensions (rows, columns), got shape {X.shape}")
    if X.shape[1] != n_features_in:
        raise InputError(f"X has {X.shape[1]} features, but the map was made for {n_features_in} features")
    working_dtype(X.dtype)
    X = canonical(X)
    values = X if isinstance(X, np.ndarray) else X.data
    if values.dtype.kind != "f" or all_finite(values):
        return X
    bad = np.isinf(values) if missing else ~np.isfinite(values)
    if not bad.any():  # the sum overflowed, the entries did not
        return X
    row, column, value = first_entry(X, bad)
    what = "NaN" if np.isnan(value) else "infinity"
    raise RowError(
        f"X must be finite, but row {{row}} of the block, column {column} is {what} "
        f"({int(bad.sum())} such entries in the block); impute or drop them, or recompute an unfinished store",
        row,
    )


def canonical(X: Rows) -> Rows:
    """Sparse rows as CSR in which the columns of a row ascend and none is stored twice.

    SciPy lets a matrix store one entry as several numbers that add up. Our loops over stored entries would treat each of
    those numbers as an entry of its own, and compute a wrong bin, norm or sign.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)

    Returns
    -------
    X itself where it is an array or has that form already, else a CSR matrix of the same rows.
    """
    if isinstance(X, np.ndarray):
        return X
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def all_finite(values: np.ndarray) -> bool:
    """Whether all numbers are finite. Where their sum overflows it may say no though they are."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


class ArraysApart:
    """Mixin of frozen dataclasses that are sent with every task, and their arrays apart, once to each worker.

    Arrays are the fields with ``compare=False``; each may be None.
    """

    @classmethod
    def _apart(cls) -> list[str]:
        """Names of the fields that hold arrays."""
        return [f.name for f in fields(cls) if not f.compare]  # type: ignore[arg-type]

    @classmethod
    def _inner(cls) -> list[str]:
        """Names of the fields that are maps."""
        return [f.name for f in fields(cls) if str(f.type).removesuffix(" | None").endswith("Map")]  # type: ignore[arg-type]

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays, by name, those of an inner map after its name and a dot; empty for a map that is determined by its seed."""
        named = {name: getattr(self, name) for name in self._apart() if getattr(self, name) is not None}
        for inner in self._inner():
            below = getattr(self, inner)
            named |= {} if below is None else {f"{inner}.{name}": array for name, array in below.arrays.items()}
        return named

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> Self:
        """The same with these arrays in place of its own."""
        made: dict[str, Any] = {name: arrays.get(name) for name in self._apart()}
        for inner in self._inner():
            below = getattr(self, inner)
            made[inner] = below and below.with_arrays(_below(inner, arrays))
        return replace(self, **made) if made else self  # type: ignore[type-var]

    def without_arrays(self) -> Self:
        """The same without arrays, small enough to be sent with every task."""
        return self.with_arrays({})


@dataclass(frozen=True)
class FeatureMap(ArraysApart):
    """Base of the maps, which turn d columns into D features.

    A map is a plain value: maps of equal fields are equal. Weights are made from the seed on the worker and never
    pickled. Arrays learned from data are the fields with ``compare=False``. They are sent apart from the map
    (`without_arrays`, `with_arrays`), once to each worker.

    A subclass defines `fill_columns` and `work`. Fields that are no arrays are its spec: plain values, kernels, other maps.

    Parameters
    ----------
    n_features_in : d, the number of columns of the rows
    n_components : D, the number of features

    Attributes
    ----------
    kind : str, key in the registry of maps and in specs
    whole_rows : bool, whether computing some columns of the features costs as much as computing all
    sparse_output : bool, whether the features are CSR arrays
    same_columns : bool, whether feature j is column j of the rows, rescaled
    """

    n_features_in: int
    n_components: int

    kind: ClassVar[str]
    whole_rows: ClassVar[bool] = False
    sparse_output: ClassVar[bool] = False
    same_columns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def label(self) -> str:
        """What progress displays and Dask's dashboard call the work of computing features."""
        return f"featurize {getattr(self, 'projection', self.kind)}"

    def __call__(self, X: Rows) -> Rows:
        """All features of one block of rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)

        Returns
        -------
        Array of shape (n, D), CSR where `sparse_output` says so, of `out_dtype`: the `working_dtype` of X.

        Raises
        ------
        InputError : what `check_rows` refuses
        """
        return self.columns(X, 0, self.n_components)

    def out_dtype(self, dtype: np.dtype) -> np.dtype:
        """The dtype of the features of rows of a dtype."""
        return working_dtype(dtype)

    def columns(self, X: Rows, start: int, stop: int) -> Rows:
        """Features start:stop of one block. The other features are not computed, unless `whole_rows` is true.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        start, stop : the features wanted

        Returns
        -------
        Array of shape (n, stop - start), otherwise as a call of the map returns it.
        """
        X = check_rows(X, self.n_features_in)
        out = np.empty((X.shape[0], stop - start), dtype=self.out_dtype(X.dtype))
        self.fill_columns(X, out, start, stop)
        return out

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        """Write features start:stop of rows that `check_rows` has passed into `out`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        out : C-contiguous array of shape (n, stop - start), overwritten
        start, stop : the features wanted
        """
        raise NotImplementedError

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        """The kernel matrix that products of features approximate.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        Y : array or CSR matrix of shape (m, d); None takes X

        Returns
        -------
        Array of shape (n, m), float64.

        Raises
        ------
        InputError : the map approximates no kernel
        """
        kernel: AnyKernel | None = getattr(self, "kernel", None)
        if kernel is None:
            raise InputError(
                f"a map of kind {self.kind!r} approximates no kernel of its own; give the map that makes the features"
            )
        return kernel(X, Y, getattr(self, "length_scale", 1.0))

    def makes_csr(self, of_csr: bool) -> bool:
        """Whether the features are a CSR array, of CSR rows (`of_csr`) or of dense ones."""
        return self.sparse_output

    @property
    def longest(self) -> float:
        """A bound on |z(x)|^2 over all rows x; infinity where there is none."""
        return float("inf")

    @property
    def entries_per_row(self) -> int:
        """How many numbers a row of features takes in memory."""
        return self.n_components

    def spec(self) -> dict[str, Any]:
        """The JSON that, with `arrays`, determines the map: its fields, a checksum of drawn weights, a digest of learned arrays.

        Raises
        ------
        InputError : no spec can name the kernel or the transformer of the map
        """
        spec: dict[str, Any] = {"map": self.kind}
        for name in (f.name for f in fields(self) if f.compare):
            value = getattr(self, name)
            spec[name] = value.spec() if isinstance(value, (AnyKernel, FeatureMap)) else value
        if (checksum := self.checksum()) is not None:
            spec["checksum"] = checksum
        return {**spec, "digest": arrays_fingerprint(self.arrays)} if self.arrays else spec

    def checksum(self) -> float | None:
        """A number made from some of the weights, equal in every process; None for a map that draws no weights."""
        return None

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> FeatureMap:
        """The map of a spec and its learned arrays; `map_from_spec` calls it and compares checksum and digest.

        Raises
        ------
        SpecMismatchError : the arrays are not those that the spec needs
        KeyError : the spec lacks an entry
        """
        # Fields are numbers, words, true and false, kernels and maps. A map refuses kernels that are not its.
        read, inner = {}, cls._inner()
        for one in fields(cls):
            if one.compare:
                value = spec[one.name]
                if one.name in inner:
                    value = value and map_from_spec(value, _below(one.name, arrays))
                elif value is not None and not plain_type(one):
                    value = get_kernel(value)
                read[one.name] = value
        return cls(**read).with_arrays(arrays)

    def work(self) -> tuple[float, float]:
        """Floating-point operations for one row, and bytes of the weights that a worker caches. The plan asks."""
        raise NotImplementedError

    def held_bytes(self, itemsize: int) -> int:
        """Bytes that a worker holds beside cached weights and blocks, for numbers of `itemsize` bytes.

        The plan asks.
        """
        return 0

    def scratch_bytes(self, itemsize: int) -> int:
        """Bytes beside a block and its features while these are made. The plan asks."""
        return 0

    def __dask_tokenize__(self) -> tuple[object, ...]:
        try:
            state: Any = json.dumps(self.spec(), sort_keys=True)
        except InputError:  # a kernel of one's own: no spec can name it
            state = [getattr(self, f.name) for f in fields(self) if f.compare]
        return (type(self).__name__, state, arrays_fingerprint(self.arrays))


def _below(inner: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of an inner map, by their names there."""
    return {
        name.removeprefix(f"{inner}."): array for name, array in arrays.items() if name.startswith(f"{inner}.")
    }


#: The families, by kind: file, frozen map and, where it stands beside it, estimator.
FAMILIES: dict[str, tuple[str, str, str]] = {
    "fourier": ("fourier", "FourierMap", "RandomFourierFeatures"),
    "laplace": ("laplace", "LaplaceMap", "RandomLaplaceFeatures"),
    "binning": ("binning", "BinningMap", "RandomBinningFeatures"),
    "tensor-sketch": ("tensor_sketch", "TensorSketchMap", "TensorSketchFeatures"),
    "nystroem": ("nystroem", "NystroemMap", "NystroemFeatures"),
    "tefm": ("tefm", "SubspaceMap", "TEFM"),
    "learned": ("learned", "LearnedFourierMap", ""),
    "scaling": ("scaling", "ScalingMap", "StreamingScaler"),
    "blockwise": ("blockwise", "BlockwiseMap", "Blockwise"),
    "with-columns": ("with_columns", "WithColumnsMap", "WithColumns"),
    "table": ("table", "TableMap", ""),
}
#: Frozen maps by their `kind`.
MAPS: Registry[type[FeatureMap]] = Registry(
    {kind: f"{__package__}.{file}:{frozen}" for kind, (file, frozen, _) in FAMILIES.items()}
)


def map_from_spec(spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> FeatureMap:
    """The map that a spec and its learned arrays determine.

    Parameters
    ----------
    spec : what `FeatureMap.spec` returned, also after a way through JSON
    arrays : what `FeatureMap.arrays` held; None for a map that learned nothing from data

    Returns
    -------
    FeatureMap

    Raises
    ------
    SpecMismatchError : the kind of map is unknown, an entry is missing, the arrays are not those that the spec was written
        with, or this release makes other weights from it than the one that wrote it
    """
    if spec.get("map") not in MAPS:
        raise SpecMismatchError(
            f"unknown map {spec.get('map')!r} in the spec; known: {', '.join(sorted(MAPS))}; if it is none of distrf, import the "
            "module that registers it before"
        )
    arrays = arrays or {}
    try:
        if (arrays or "digest" in spec) and arrays_fingerprint(arrays) != spec["digest"]:
            raise SpecMismatchError(
                f"the arrays {sorted(arrays)} are not those that the spec was written with; restore both, or fit again"
            )
        map_ = MAPS[spec["map"]].from_spec(spec, arrays)
        checksum = map_.checksum()
        if checksum is not None and not np.isclose(checksum, stored := spec["checksum"], rtol=1e-9, atol=1e-9):
            raise SpecMismatchError(
                f"this version makes other weights from the spec: checksum {checksum!r}, stored {stored!r}; "
                "the spec was edited or written by an incompatible release"
            )
    except KeyError as error:
        raise SpecMismatchError(f"the spec of the {spec['map']!r} map lacks the entry {error}") from None
    return map_


@dataclass(frozen=True)
class SeededMap(FeatureMap):
    """Base of the maps that draw weights from a seed. A subclass defines `_sum_of_weights`."""

    n_components: int = field(metadata={"rule": whole(1, 2**31 - 1)})

    def checksum(self) -> float:
        return _cached_sum(self.without_arrays())

    def _sum_of_weights(self) -> float:
        """A sum over some of the first weights and of the last ones."""
        raise NotImplementedError


@lru_cache(maxsize=256)
def _cached_sum(map_: SeededMap) -> float:
    return map_._sum_of_weights()


def arrays_fingerprint(arrays: Mapping[str, np.ndarray]) -> str:
    """Fingerprint of named arrays: a hash of their names, dtypes, shapes and bytes, as 32 hexadecimal digits."""
    fingerprint = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        fingerprint.update(f"{name}{array.dtype.str}{array.shape}".encode())
        fingerprint.update(array.data)
    return fingerprint.hexdigest()


@lru_cache(maxsize=32)
def row_tiles(n: int, tile: int) -> tuple[tuple[int, int], ...]:
    """Bounds (first, last + 1) of the tiles of at most `tile` rows that cover range(n)."""
    return tuple((a, min(a + tile, n)) for a in range(0, n, tile))


def dense(X: Rows) -> np.ndarray:
    """The rows as an array."""
    return X if isinstance(X, np.ndarray) else X.toarray()


def stored_entries(X: Rows, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """The arrays of CSR rows in a dtype; those of an array, which holds all entries in order, need no columns."""
    if isinstance(X, np.ndarray):
        n, d = X.shape
        return np.ascontiguousarray(X, dtype=dtype).ravel(), None, np.arange(0, n * d + 1, max(d, 1))
    return X.data.astype(dtype, copy=False), X.indices, X.indptr


def for_product(X: Rows, dtype: np.dtype, keep_csr: bool) -> Rows:
    """Rows in a dtype: CSR where it may stay and products over few entries cost less than dense ones, else a C-contiguous array."""
    X = X.astype(dtype, copy=False)
    few = not isinstance(X, np.ndarray) and X.nnz < 0.05 * np.prod(X.shape)
    return X if keep_csr and few else np.ascontiguousarray(dense(X))


def times_diagonal(X: Rows, factors: np.ndarray | float) -> Rows:
    """Rows times a number, or column by column times factors of shape (d,); CSR rows stay CSR."""
    if isinstance(X, np.ndarray) or np.ndim(factors) == 0:
        return X * np.asarray(factors, dtype=X.dtype)
    return type(X)((X.data * np.asarray(factors, dtype=X.dtype)[X.indices], X.indices, X.indptr), shape=X.shape)


def times_root(X: Rows, root: np.ndarray) -> Rows:
    """Rows times a matrix, or times a diagonal of shape (d,); CSR rows stay CSR then."""
    return X @ root if root.ndim == 2 else times_diagonal(X, root)
