"""Dask DataFrames as lazy arrays that keep the names of their columns.

pandas and Dask's data frames are never imported: who passes such an object has them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection
from dask.highlevelgraph import HighLevelGraph

from ..errors import InputError
from .graph import Alias
from .scheduler import computed


def noted(array: da.Array, **notes: Any) -> da.Array:
    """The array with notes, on a copy of its layer: they are copied and pickled with the array, and an edit in place leaves them.

    header : an empty data frame of the columns it was made of; frames : whether its blocks are data frames; reading : where it
    was read and how; made_from : see `row_blocks.made_from`
    """
    layer = copy(array.dask.layers[array.name])
    layer.__dict__["distrf_notes"] = notes_of(array) | notes
    graph = HighLevelGraph(array.dask.layers | {array.name: layer}, array.dask.dependencies)
    return da.Array(graph, array.name, array.chunks, meta=array._meta)


def notes_of(X: Any) -> dict[str, Any]:
    """The notes on a Dask array; {} of other rows."""
    return getattr(X.dask.layers.get(X.name), "distrf_notes", {}) if isinstance(X, da.Array) else {}


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
        A Dask DataFrame or Series; others are returned as they are.
    name : str
        Name in messages.

    Returns
    -------
    object
        A Dask array with known chunks, after one pass that counts the rows of each partition; it remembers the names of its
        columns.

    Raises
    ------
    InputError
        Columns are not numeric.
    """
    if is_lazy_frame(X):
        return _lazy_values(X, name)
    if not isinstance(getattr(X, "dtype", None), np.dtypes.StringDType):
        return X
    if not is_dask_collection(X):
        return X.astype(object)
    return X.map_blocks(np.ndarray.astype, object).map_blocks(
        np.ndarray.astype, str, meta=np.empty((0,) * X.ndim, "<U1")
    )


def header(X: Any) -> Any:
    """What scikit-learn finds the names of the columns of X in: X itself, or an empty data frame of the same columns."""
    return notes_of(X).get("header", X)


def with_header(array: da.Array, X: Any) -> da.Array:
    """The array, which has the columns of X, with the names that X has or remembers."""
    names = X.iloc[:0] if is_frame(X) else header(X)
    return array if names is X else noted(array, header=names)


def reading_of(X: Any) -> dict[str, Any]:
    """Path, target and columns by which `open_rows` read an array; nothing of other arrays, such as some of these rows, or these after an edit in place."""
    return notes_of(X).get("reading", {})


def frame_blocks(X: Any) -> da.Array:
    """A Dask DataFrame as a Dask array whose blocks are the partitions, data frames of pandas.

    Text is of dtype object, and missing text NaN, as scikit-learn takes it; Dask makes it a dtype of its own with NA. Only a block function that takes data frames can compute with it: see `map_rows`.
    """
    return noted(_blocks(X, "X", object, _with_text), frames=True)


def has_frames(X: Any) -> bool:
    """Whether the blocks of a Dask array are data frames."""
    return "frames" in notes_of(X)


def join_frames(parts: Sequence[Any]) -> Any:
    """Rows of neighbouring partitions as one data frame."""
    from dask.dataframe.dispatch import concat

    return concat(list(parts))


def partition_blocks(
    X: Any, dtype: Any, function: Callable, *arguments: Any, tail: tuple[int, ...] = ()
) -> da.Array:
    """What a function makes of each partition of a Dask DataFrame or Series: an array whose blocks have unknown lengths.

    Parameters
    ----------
    X : Dask DataFrame or Series
    dtype : dtype
        Of the array.
    function : callable
        Called as ``function(partition, *arguments)`` on a worker. It may return other blocks than arrays.
    *arguments : object
    tail : tuple of int
        Shape of the array without rows.

    Returns
    -------
    Dask array
        One layer reads the partitions: all that is made of it has the same ones. With fewer columns, Dask may read several
        files as one.
    """
    meta = np.empty((0, *tail), dtype)
    parts = X.map_partitions(function, *arguments, meta=meta, enforce_metadata=False)
    # Frames of delayed values have aliases under other names than their own, which Dask does not resolve when it fuses tasks.
    nodes = {k: Alias(k, v.target) if isinstance(v, Alias) else v for k, v in dict(parts.dask).items()}
    return da.Array(nodes, parts.name, parts.chunks, meta=meta)


def block_values(function: Callable, X: Any, *arguments: Any) -> list[Any]:
    """``function(block, *arguments)`` of every block of an array of one column of blocks, computed."""
    values = X.map_blocks(function, *arguments, dtype=object, meta=np.empty((0,) * X.ndim, object))
    return list(computed(*values.to_delayed().ravel()))


def _with_text(frame: Any) -> Any:
    """The partition with its text as objects. Runs on a worker."""
    made = {
        name: frame[name].astype(object).where(frame[name].notna(), np.nan)
        for name, dtype in frame.dtypes.items()
        if str(dtype).startswith(("string", "large_string"))
    }
    return frame.assign(**made) if made else frame


def _lazy_values(X: Any, name: str) -> da.Array:
    """The values of a Dask DataFrame or Series; text is fixed-width, as NumPy has it."""
    meta, labels = X._meta if X.ndim == 2 else X._meta.to_frame(), X.ndim == 1 and name == "y"
    dtypes = [_numeric(dtype, labels=labels) for dtype in meta.dtypes]
    odd = [str(column) for column, dtype in zip(meta.columns, dtypes, strict=True) if dtype is None]
    if odd and labels:
        return _blocks(X, name, "<U1", _values, None)
    if odd or not dtypes:
        raise InputError(
            f"{name} must be numeric, but columns {', '.join(odd[:10])} are not: encode them, for instance by "
            "Blockwise(make_column_transformer(...)), or drop them"
            if odd
            else f"{name} must have at least one column, got shape (n, 0)"
        )
    dtype = np.result_type(*(dtype for dtype in dtypes if dtype is not None))
    values = _blocks(X, name, dtype, _values, dtype)
    return values if X.ndim == 1 else noted(values, header=meta)


def _numeric(dtype: Any, *, labels: bool = False) -> np.dtype | None:
    """The NumPy dtype that holds the numbers of a column, with NaN for what is missing; None if it has none.

    labels : of targets, of which none is missing; those of categories are their values
    """
    if labels and getattr(dtype, "categories", None) is not None:
        dtype = dtype.categories.dtype
    inner = getattr(dtype, "numpy_dtype", dtype)  # of nullable columns
    if not isinstance(inner, np.dtype) or inner.kind not in "fiub":
        return None
    return inner if labels or inner is dtype or inner.kind == "f" else np.dtype(np.float64)


def _values(part: Any, dtype: np.dtype | None) -> np.ndarray:
    """The values of a partition. Runs on a worker."""
    if dtype is not None and dtype.kind == "f":
        return np.ascontiguousarray(part.to_numpy(dtype=dtype, na_value=np.nan))
    missing = part.isna().to_numpy()
    if missing.ndim == 1 and missing.any():
        row = int(missing.argmax())
        raise InputError(
            f"{part.name or 'y'} must have a value in every row, but row {row} of a partition (index {part.index[row]!r}) is missing; "
            "drop such rows"
        )
    values = part.to_numpy(dtype=dtype or object)
    return np.ascontiguousarray(values if dtype else values.astype(str))


#: Rows of each partition, by the name of the array that is made of them, which tells whether it is the same.
_counted: OrderedDict[str, list[int]] = OrderedDict()


def _blocks(X: Any, name: str, dtype: Any, function: Callable, *arguments: Any) -> da.Array:
    """As `partition_blocks`, with the lengths of the blocks, which are counted once."""
    parts = partition_blocks(X, dtype, function, *arguments, tail=X.shape[1:])
    lengths = _counted.get(parts.name)
    if lengths is None:
        lengths = _counted[parts.name] = block_values(len, parts)
        if len(_counted) > 256:
            _counted.popitem(last=False)
    if not sum(lengths):
        raise InputError(f"{name}: Found array with 0 sample(s), at least 1 is required")
    return da.Array(parts.dask, parts.name, (tuple(lengths), *parts.chunks[1:]), dtype=parts.dtype)
