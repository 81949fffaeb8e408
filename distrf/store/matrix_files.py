"""Matrices in files: of NumPy, ``.npy`` mapped where it is local; ``.npz`` and svmlight text (libsvm), plain or packed, read whole by each process."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, reworded
from . import files
from .row_source import BLOCK_BYTES, RowSource, Selection, column_numbers

_MEMBERS = ("data", "indices", "indptr", "shape")
_SVMLIGHT = tuple(
    f".{name}{packed}" for name in ("svmlight", "libsvm", "svm") for packed in ("", ".gz", ".bz2", ".zst")
)


@dataclass(frozen=True, kw_only=True)
class MatrixSource(RowSource):
    """Rows of a 2-D ``.npy`` file, of the members X and y of ``.npz`` (``X_train``, ``y_train`` of the split "train"), or of svmlight text.

    The target of ``.npz`` is a member instead of y, that of ``.npy`` the number of a column, which may count from the end. A sparse
    X is stored as ``X_data, X_indices, X_indptr, X_shape``. Rows of svmlight are CSR (float64), and their indices count from 1 unless
    a 0 occurs or the selection says so.

    Parameters
    ----------
    member : str
        Which is read; "" of ``.npy``.
    version : str
        Of the file.
    width : int
        Columns that may be read.
    numbers : tuple of int, optional
        Of the columns that are read; None for all.
    goal : str or int, optional
        The member, or the column, of the target.
    zero_based : bool, optional
        Of svmlight: whether its indices count from 0.
    """

    member: str
    version: str
    width: int
    numbers: tuple[int, ...] | None = None
    goal: str | int | None = None
    zero_based: bool | None = None

    @classmethod
    def recognises(cls, path: str) -> bool:
        """By the ending of the name."""
        return path.endswith((".npy", ".npz", *_SVMLIGHT))

    @classmethod
    def open(cls, path: str, selection: Selection) -> Self:
        """Members are read."""
        with files.reading(path, "a file of numbers"):
            version = files.state(path, remote=True)
        target, columns, text = selection.target, selection.columns, is_svmlight(path)
        suffix = f"_{selection.split}" if selection.split else ""
        member = "" if path.endswith(".npy") else f"X{suffix}"
        X: Any = _member(path, member, version)
        zero_based = _counts_from_0(path, X, selection) if text else None
        if X.ndim != 2 or X.dtype.kind not in "biuf" or not (text or X.shape[1]):
            raise InputError(
                f"rows are a 2-D array of numbers with columns; {path!r} has shape {X.shape} and dtype {X.dtype}"
            )
        n, d = X.shape
        if text:
            d = selection.n_features or d - (not zero_based)
        goal: Any = None
        if member and (target or _array(path, f"y{suffix}", version) is not None):
            goal = f"{target or 'y'}{suffix}"
        elif not member and target is not None:
            rule = f"the target of a .npy file is a column number in -{d}..{d - 1}; received {target!r}"
            with reworded(lambda _: InputError(rule)):
                goal = range(d)[int(target)]
            columns = [j for j in range(d) if j != goal] if columns is None else columns
            if str(goal) in map(str, columns):
                raise InputError(f"the target column {goal} is among columns=; leave it out")
        numbers = None if columns is None else column_numbers(path, columns, None, d)
        shape = n, d if numbers is None else len(numbers)
        row_bytes = X.nnz * 12 // max(1, n) if sp.issparse(X) else shape[1] * X.dtype.itemsize
        step = selection.rows_per_block or max(1, BLOCK_BYTES // max(1, row_bytes))
        lengths = tuple(min(step, n - first) for first in range(0, n, step)) or (0,)
        return cls(
            path=path, shape=shape, dtype=_dtype(X), block_lengths=lengths, sparse=sp.issparse(X), target=target,
            member=member, version=version, width=d, numbers=numbers, goal=goal, zero_based=zero_based,
        )  # fmt: skip

    def target_source(self) -> Self | None:
        """The member, or the column, of the target."""
        if self.goal is None:
            return None
        labels = replace(self, goal=None, sparse=False, numbers=None)
        if isinstance(self.goal, int):
            return replace(labels, shape=self.shape[:1], numbers=(self.goal,))
        y = _member(self.path, self.goal, self.version)
        if y.ndim not in (1, 2) or y.shape[0] != self.shape[0] or y.dtype.kind not in "biufUS":
            raise InputError(
                f"X and y must have the same rows, and targets are numbers or text; X has {self.shape[0]} rows, the target has "
                f"shape {y.shape} and dtype {y.dtype} in {self.path!r}"
            )
        dtype = y.astype(str).dtype if y.dtype.kind == "S" else y.dtype.newbyteorder("=")
        return replace(labels, shape=y.shape, dtype=dtype, member=self.goal)

    def read(self, first: int, last: int) -> Any:
        """Rows ``first:last``."""
        rows: Any = _array(self.path, self.member, self.version)
        files.check_state(self.path, self.version if files.is_local(self.path) else "")  # of what is mapped
        rows = rows[first:last]
        if self.sparse and self.zero_based is not None:
            parts = (rows.data, rows.indices - (not self.zero_based), rows.indptr)
            rows = sp.csr_array(parts, shape=(last - first, self.width))
        rows = (rows if self.numbers is None else rows[:, list(self.numbers)]).astype(self.dtype)
        return rows if len(self.shape) == rows.ndim else rows[:, 0]

    @property
    def nbytes(self) -> int:
        """In memory; of the stored entries for CSR rows."""
        stored: Any = _array(self.path, self.member, self.version)
        return int(stored.nnz) * (self.dtype.itemsize + 4) if self.sparse else super().nbytes


def is_svmlight(path: str) -> bool:
    """Whether a file is svmlight text, by the ending of its name."""
    return path.endswith(_SVMLIGHT)


def check_options(path: str, selection: Selection) -> None:
    """Raise InputError for what says how a file of another kind is read."""
    takes = ("n_features", "zero_based") if is_svmlight(path) else ("split",) if path.endswith(".npz") else ()
    for name in ("split", "n_features", "zero_based"):
        if name not in takes and (value := getattr(selection, name)) is not None:
            raise InputError(
                f"split= chooses the members of an .npz file, n_features= and zero_based= are of svmlight text; received "
                f"{name}={value!r} for {path!r}"
            )
    if is_svmlight(path) and (selection.target, selection.columns) != (None, None):
        raise InputError("svmlight has one label and no column names; leave out target= and columns=")


def _counts_from_0(path: str, X: Any, selection: Selection) -> bool:
    """Whether the indices of svmlight rows count from 0. Raises InputError where that, or `n_features`, cannot be."""
    lowest, highest = (int(X.indices.min()), int(X.indices.max())) if X.nnz else (1, 0)
    if not X.shape[0] or (not X.nnz and selection.n_features is None):
        raise InputError(f"{path!r} has no rows with values")
    zero_based = lowest == 0 if selection.zero_based is None else selection.zero_based
    if lowest == 0 and not zero_based:
        raise InputError(
            f"zero_based=False counts columns from 1, and {path!r} has the index 0; give zero_based=True"
        )
    found = highest + zero_based
    if selection.n_features is not None and found > selection.n_features:
        raise InputError(
            f"n_features={selection.n_features} columns are fewer than those of {path!r}, whose highest index is {highest}, counted from "
            f"{0 if zero_based else 1}; give n_features={found} or more"
        )
    return zero_based


def _dtype(array: Any) -> np.dtype:
    """Half floats and booleans have no use further on; other numbers keep their type."""
    return np.dtype({"?": np.uint8, "e": np.float32}.get(array.dtype.char, array.dtype.newbyteorder("=")))


@lru_cache(maxsize=8)
def _array(path: str, member: str, version: str) -> Any:
    """What a file of this version holds, kept for this process; None where there is no such member."""
    fs, root = files.filesystem(path)
    files.check_state(path, version, remote=True)
    if is_svmlight(path):
        return _svmlight(path, version).get(member)
    with files.reading(path, f"{'an .npz' if member else 'an .npy'} file of numbers, without running code"):
        if not member:
            local = files.is_local(path)
            return np.asarray(
                np.load(path if local else io.BytesIO(fs.cat_file(root)), mmap_mode="r" if local else None)
            )
        with fs.open(root, "rb") as file, np.load(file) as members:
            if member in members.files:
                return members[member]
            if not all(f"{member}_{part}" in members.files for part in _MEMBERS):
                return None
            data, indices, indptr, shape = (members[f"{member}_{part}"] for part in _MEMBERS)
            rows = sp.csr_array((data, indices, indptr), shape=tuple(int(size) for size in shape))
            rows.check_format(
                full_check=True
            )  # an index out of its row would be written past the end of an array
            return rows


@lru_cache(maxsize=2)
def _svmlight(path: str, version: str) -> dict[str, Any]:
    """X, whose columns count as the text does, and y. Raises InputError for other text."""
    from sklearn.datasets import load_svmlight_file

    with files.open_text(path) as file, io.BufferedReader(file) as lines:
        try:
            X, y = load_svmlight_file(lines, zero_based=True)
        except ValueError as error:
            raise InputError(
                f"lines are `label index:value ...` with rising indices; {path!r} breaks this: {error}"
            ) from error
    whole = np.isfinite(y).all() and (y == np.rint(y)).all() and np.abs(y).max(initial=0) < 2**53
    return {"X": sp.csr_array(X), "y": y.astype(np.int64) if whole else y}


def _member(path: str, name: str, version: str) -> Any:
    """`_array`; InputError where there is no such member."""
    if (found := _array(path, name, version)) is not None:
        return found
    fs, root = files.filesystem(path)
    with fs.open(root, "rb") as file, np.load(file) as members:
        names = list(members.files)
    splits = sorted({n[2:].split("_")[0] for n in names if n.startswith("X_")} - set(_MEMBERS))
    remedy = f"pass split= one of {splits}" if splits else "name the members X and y"
    raise InputError(f"rows are the member {name!r}; {path!r} has the members {names}; {remedy}")
