"""Row streams of ``.npy`` (memory-mapped) and ``.npz`` files (each member is read whole)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..store import files
from ..store.row_source import column_numbers
from .streams import PIECE_BYTES, Pieces, RowStream, TableSelection, encode

_MEMBERS = ("data", "indices", "indptr", "shape")


def npy_stream(path: str, selection: TableSelection) -> RowStream:
    """Rows of a 2-D ``.npy`` file, memory-mapped where it is local.

    Parameters
    ----------
    path : str
    selection : TableSelection
        Target and columns are numbers; that of the target may count from the end.

    Returns
    -------
    RowStream

    Raises
    ------
    InputError
        There are no such columns.
    StoreError
        The file is damaged.
    """
    with files.reading(path, "an .npy file of numbers, without running code"):
        if files.is_local(path):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            fs, root = files.filesystem(path, selection.storage_options)
            array = np.load(io.BytesIO(fs.cat_file(root)), allow_pickle=False)
    _require_matrix(array, path)
    d, target, columns = array.shape[1], selection.target, selection.columns
    chosen = list(range(d)) if columns is None else column_numbers(path, columns, None, d)
    y = None
    if target is not None:
        try:
            position = int(target)
        except ValueError:
            position = d
        if not -d <= position < d:
            raise InputError(
                f"the target of a .npy file is a column number in -{d}..{d - 1}; received {target!r}"
            )
        position %= d
        y = np.array(array[:, position])
        if columns is not None and position in chosen:
            raise InputError(f"the target column {position} is among columns=; leave it out")
        chosen = [j for j in chosen if j != position]
    return _matrix_stream(array, y, None, chosen)


def npz_stream(path: str, selection: TableSelection) -> RowStream:
    """Rows of the members X and y (``X_train``, ``y_train`` of the split "train"); the target is a name instead of y.

    A sparse X is stored as ``X_data, X_indices, X_indptr, X_shape``. A member ``feature_names`` names columns.
    """
    target, columns = selection.target, selection.columns
    suffix = f"_{selection.split}" if selection.split else ""
    fs, root = files.filesystem(path, selection.storage_options)
    with (
        files.reading(path, "an .npz file of numbers, without running code"),
        fs.open(root, "rb") as file,
        np.load(file, allow_pickle=False) as members,
    ):
        names = list(members.files)
        X = _member(members, names, f"X{suffix}", path)
        label = f"{target or 'y'}{suffix}"
        y = None
        if label in names:
            y = members[label]
        elif target is not None:
            raise InputError(f"the target {label!r} is not in {path!r}; its members are {names}")
        titles = members["feature_names"].astype(str).tolist() if "feature_names" in names else None
    _require_matrix(X, path)
    if y is not None and (y.ndim not in (1, 2) or y.shape[0] != X.shape[0]):
        raise InputError(
            f"X and y must have the same rows; X has shape {X.shape}, {label!r} has shape {y.shape} in {path!r}"
        )
    titles = titles if titles and len(titles) == X.shape[1] else None
    chosen = (
        column_numbers(path, columns, titles, X.shape[1]) if columns is not None else list(range(X.shape[1]))
    )
    return _matrix_stream(X, y, titles, chosen)


def _member(members: Any, names: list[str], name: str, path: str) -> Any:
    if name in names:
        return members[name]
    if all(f"{name}_{member}" in names for member in _MEMBERS):
        data, indices, indptr, shape = (members[f"{name}_{member}"] for member in _MEMBERS)
        rows = sp.csr_array((data, indices, indptr), shape=tuple(int(size) for size in shape))
        rows.check_format(full_check=True)  # an index out of its row would be written past the end of an array
        return rows
    splits = sorted({n[2:].split("_")[0] for n in names if n.startswith("X_")} - set(_MEMBERS))
    remedy = f"pass split= one of {splits}" if splits else "name the members X and y"
    raise InputError(f"rows are the member {name!r}; {path!r} has the members {names}; {remedy}")


def _require_matrix(X: Any, path: str) -> None:
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise InputError(
            f"rows are a 2-D array of numbers that is not empty; {path!r} has shape {X.shape} and dtype {X.dtype}"
        )


def _matrix_stream(X: Any, y: np.ndarray | None, names: list[str] | None, chosen: Sequence[int]) -> RowStream:
    chosen = list(chosen)
    everything = chosen == list(range(X.shape[1]))
    # Half floats and booleans have no use further on; other numbers keep their dtype.
    dtype = X.dtype.newbyteorder("=")
    if dtype.char in "?e":
        dtype = np.dtype(np.uint8 if dtype.char == "?" else np.float32)
    if y is not None:
        y = y.astype(y.dtype.newbyteorder("="), copy=False)
    labels, classes = (None, None) if y is None else encode(y)
    step = max(1, PIECE_BYTES // (X.shape[1] * X.dtype.itemsize))

    def read() -> Pieces:
        for start in range(0, X.shape[0], step):
            rows = X[start : start + step]
            rows = rows if everything else rows[:, chosen]
            yield (
                rows.astype(dtype) if sp.issparse(rows) else np.array(rows, dtype),
                None if labels is None else labels[start : start + step],
            )

    stream = RowStream(X.shape[0], len(chosen), dtype, read, columns=names and [names[j] for j in chosen])
    if sp.issparse(X):
        stream = replace(stream, sparse=True, stored=int(X.nnz))
    if labels is not None:
        stream = replace(stream, y_dtype=labels.dtype, y_tail=labels.shape[1:], classes=classes)
    return stream
