"""Dask DataFrames and xarray DataArrays as lazy arrays that keep the names of their columns.

pandas, Dask's data frames and xarray are never imported: who passes such an object has them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.base import is_dask_collection

from ..errors import InputError
from .scheduler import computed

#: Of an array: an empty data frame of the columns it was made of; and whether its blocks are data frames.
_HEADER, _FRAMES = "distrf_header", "distrf_frames"


def is_lazy_frame(X: Any) -> bool:
    """Whether X is a Dask DataFrame or Series."""
    return type(X).__module__.startswith(("dask.dataframe", "dask_expr")) and hasattr(X, "to_dask_array")


def is_frame(X: Any) -> bool:
    """Whether X is a data frame, of pandas or of Dask."""
    return getattr(X, "ndim", 0) == 2 and hasattr(X, "columns") and (is_lazy_frame(X) or hasattr(X, "iloc"))


def plain_rows(X: Any, name: str = "X") -> Any:
    """Rows, targets or weights without what labels them.

    Parameters
    ----------
    X : object
        A Dask DataFrame or Series, or an xarray DataArray whose first dimension are the rows; others are returned as they are.
    name : str
        Name in messages.

    Returns
    -------
    object
        A Dask array with known chunks, from Dask's data frames after one pass that counts the rows of each partition, or from
        lazy DataArrays; it remembers the names of its columns. Of a DataArray in memory an array, or a data frame if its
        columns have labels.

    Raises
    ------
    InputError
        Columns are not numeric, or X is another object of xarray or has other dimensions.
    """
    if is_lazy_frame(X):
        return _lazy_values(X, name)
    if type(X).__module__.split(".")[0] != "xarray":
        if not isinstance(getattr(X, "dtype", None), np.dtypes.StringDType):
            return X
        if not is_dask_collection(X):
            return X.astype(object)
        return X.map_blocks(np.ndarray.astype, object).map_blocks(
            np.ndarray.astype, str, meta=np.empty((0,) * X.ndim, "<U1")
        )
    if not hasattr(X, "to_pandas") or not hasattr(X, "dims") or not hasattr(X, "dtype"):
        raise InputError(
            f"{name} must be a DataArray whose first dimension are the rows, got an xarray {type(X).__name__}; "
            "take one of its variables, or .to_dataarray('column').transpose(..., 'column')"
        )
    if X.ndim not in (1, 2):
        raise InputError(
            f"Expected 2D array: {name} must have the dimensions (rows, columns), got {dict(X.sizes)}; stack or select others"
        )
    labels = X.indexes.get(X.dims[1]) if X.ndim == 2 else None
    if not is_dask_collection(X):
        return X.data if labels is None else X.to_pandas()
    array = X.data
    if labels is not None:
        array = da.Array(array.dask, array.name, array.chunks, meta=array._meta)
        array.__dict__[_HEADER] = labels.to_series().to_frame().T.iloc[:0]
    return array


def header(X: Any) -> Any:
    """What scikit-learn finds the names of the columns of X in: X itself, or an empty data frame of the same columns."""
    return vars(X).get(_HEADER, X) if isinstance(X, da.Array) else X


def with_header(array: da.Array, X: Any) -> da.Array:
    """The array, which has the columns of X, with the names that X has or remembers."""
    names = header(X)
    if names is not X or is_frame(X):
        array.__dict__[_HEADER] = names if names is not X else X.iloc[:0]
    return array


def frame_blocks(X: Any) -> da.Array:
    """A Dask DataFrame as a Dask array whose blocks are the partitions, data frames of pandas.

    Text is of dtype object, and missing text NaN, as scikit-learn takes it; Dask makes it a dtype of its own with NA. Only a block function that takes data frames can compute with it: see `map_rows`.
    """
    array = _with_lengths(
        X.map_partitions(_with_text, meta=np.empty((0, X.shape[1]), dtype=object), enforce_metadata=False), "X"
    )
    array.__dict__[_FRAMES] = True
    return array


def has_frames(X: Any) -> bool:
    """Whether the blocks of a Dask array are data frames."""
    return _FRAMES in vars(X)


def take_frame_rows(X: Any, rows: np.ndarray) -> Any:
    """Rows of a Dask DataFrame with these sorted numbers, as a data frame; only their partitions are computed."""
    from dask.dataframe.dispatch import concat

    blocks = frame_blocks(X)
    ends = np.cumsum(blocks.chunks[0])
    block = np.searchsorted(ends, rows, side="right")
    take = dask.delayed(_take)
    parts = blocks.to_delayed().ravel()
    taken = [
        take(parts[i], rows[block == i] - (ends[i] - blocks.chunks[0][i])) for i in np.unique(block).tolist()
    ]
    return concat(list(computed(*taken)))


def _with_text(frame: Any) -> Any:
    """The partition with its text as objects. Runs on a worker."""
    texts = [j for j, dtype in enumerate(frame.dtypes) if str(dtype).startswith(("string", "large_string"))]
    made = {frame.columns[j]: _objects(frame.iloc[:, j]) for j in texts}
    return frame.assign(**made) if made else frame


def _objects(column: Any) -> Any:
    return column.astype(object).where(column.notna(), np.nan)


def _take(frame: Any, rows: np.ndarray) -> Any:
    return frame.iloc[rows]


def _lazy_values(X: Any, name: str) -> da.Array:
    """The values of a Dask DataFrame or Series; text is fixed-width, as NumPy has it."""
    meta = X._meta
    if X.ndim == 1:
        dtype = _label_dtype(meta.dtype) if name == "y" else _numeric(meta.dtype)
        if dtype is None and name != "y":
            raise InputError(f"{name} must be numeric, got a Series of dtype {meta.dtype}")
        parts = X.map_partitions(_values, dtype, meta=np.empty(0, dtype or "<U1"), enforce_metadata=False)
        return _with_lengths(parts, name)
    dtypes = [_numeric(dtype) for dtype in meta.dtypes]
    odd = [str(column) for column, dtype in zip(meta.columns, dtypes, strict=True) if dtype is None]
    if odd or not dtypes:
        raise InputError(
            f"{name} must be numeric, but columns {', '.join(odd[:10])} are not: encode them, for instance by "
            "Blockwise(make_column_transformer(...)), or drop them"
            if odd
            else f"{name} must have at least one column, got shape (n, 0)"
        )
    dtype = np.result_type(*(dtype for dtype in dtypes if dtype is not None))
    parts = X.map_partitions(_values, dtype, meta=np.empty((0, len(dtypes)), dtype), enforce_metadata=False)
    array = _with_lengths(parts, name)
    array.__dict__[_HEADER] = meta
    return array


def _numeric(dtype: Any) -> np.dtype | None:
    """The NumPy dtype that holds the numbers of a column, with NaN for what is missing; None if it has none."""
    if isinstance(dtype, np.dtype):
        return dtype if dtype.kind in "fiub" else None
    inner = getattr(dtype, "numpy_dtype", None)  # of nullable columns
    if inner is None or inner.kind not in "fiub":
        return None
    return inner if inner.kind == "f" else np.dtype(np.float64)


def _label_dtype(dtype: Any) -> np.dtype | None:
    """The dtype of targets: that of the values, of nullable types and of categories too; None for text."""
    values = getattr(dtype, "categories", None)
    dtype = dtype if values is None else values.dtype
    inner = getattr(dtype, "numpy_dtype", dtype)
    return inner if isinstance(inner, np.dtype) and inner.kind in "fiub" else None


def _values(part: Any, dtype: np.dtype | None) -> np.ndarray:
    """The values of a partition. Runs on a worker."""
    if dtype is not None and dtype.kind == "f":
        return np.ascontiguousarray(part.to_numpy(dtype=dtype, na_value=np.nan))
    missing = part.isna().to_numpy()
    if missing.ndim == 1 and missing.any():
        row = int(missing.argmax())
        raise InputError(
            f"y must have a value in every row, but row {row} of a partition (index {part.index[row]!r}) is missing; "
            "drop such rows"
        )
    return (
        part.to_numpy(dtype=object).astype(str)
        if dtype is None
        else np.ascontiguousarray(part.to_numpy(dtype=dtype))
    )


_counted: OrderedDict[str, tuple[int, ...]] = OrderedDict()
_lock = threading.Lock()


def _with_lengths(parts: Any, name: str) -> da.Array:
    """The array of the partitions with the number of rows of each.

    They are counted once for a frame: its name tells whether it is the same.
    """
    with _lock:
        lengths = _counted.get(parts.name)
    if lengths is None:
        one = ((1,) * parts.npartitions, *((1,) for _ in parts.shape[1:]))
        counts = parts.map_blocks(
            _count, dtype=np.int64, chunks=one, meta=np.empty((0,) * parts.ndim, np.int64)
        )
        lengths = tuple(int(n) for n in computed(counts)[0].ravel())
        with _lock:
            _counted[parts.name] = lengths
            while len(_counted) > 256:
                _counted.popitem(last=False)
    if not sum(lengths):
        raise InputError(f"{name}: Found array with 0 sample(s), at least 1 is required")
    return da.Array(parts.dask, parts.name, (lengths, *parts.chunks[1:]), dtype=parts.dtype)


def _count(block: Any) -> np.ndarray:
    return np.full((1,) * block.ndim, len(block))
