"""Rows of NumPy's files: a ``.npy`` file, which is mapped where it is local, and members of ``.npz``, which each process reads whole."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from . import files
from .row_source import BLOCK_BYTES, RowSource, Selection, column_numbers

_MEMBERS = ("data", "indices", "indptr", "shape")


@dataclass(frozen=True, kw_only=True)
class MatrixSource(RowSource):
    """Rows of a 2-D ``.npy`` file, or of the members X and y of ``.npz`` (``X_train``, ``y_train`` of the split "train").

    The target of ``.npz`` is a member instead of y, that of ``.npy`` the number of a column, which may count from the end. A sparse
    X is stored as ``X_data, X_indices, X_indptr, X_shape``.

    Parameters
    ----------
    member : str
        Which is read; "" of ``.npy``.
    version : str
        Of the file.
    numbers : tuple of int, optional
        Of the columns that are read; None for all.
    goal : str or int, optional
        The member, or the column, of the target.
    """

    options: ClassVar[tuple[str, ...]] = ("split",)
    member: str
    version: str
    numbers: tuple[int, ...] | None = None
    goal: str | int | None = None

    @classmethod
    def recognises(cls, path: str) -> bool:
        """By the ending of the name."""
        return path.endswith((".npy", ".npz"))

    @classmethod
    def open(cls, path: str, selection: Selection) -> Self:
        """Members are read."""
        with files.reading(path, "a file of numbers"):
            version = files.state(path, remote=True)
        target, columns, packed = selection.target, selection.columns, path.endswith(".npz")
        if selection.split and not packed:
            raise InputError(
                f"split= chooses the members of an .npz file; received {selection.split!r} for {path!r}"
            )
        suffix = f"_{selection.split}" if selection.split else ""
        goal: Any = None
        member = f"X{suffix}" if packed else ""
        X: Any = _member(path, member, version)
        if X.ndim != 2 or X.dtype.kind not in "biuf" or X.shape[1] < 1:
            raise InputError(
                f"rows are a 2-D array of numbers with columns; {path!r} has shape {X.shape} and dtype {X.dtype}"
            )
        n, d = X.shape
        if packed and (target or _array(path, f"y{suffix}", version) is not None):
            goal = f"{target or 'y'}{suffix}"
        elif not packed and target is not None:
            goal = int(target) if target.removeprefix("-").isdigit() else d
            if not -d <= goal < d:
                raise InputError(
                    f"the target of a .npy file is a column number in -{d}..{d - 1}; received {target!r}"
                )
            goal %= d
            columns = [j for j in range(d) if j != goal] if columns is None else columns
            if str(goal) in map(str, columns):
                raise InputError(f"the target column {goal} is among columns=; leave it out")
        numbers = None if columns is None else column_numbers(path, columns, None, d)
        width = d if numbers is None else len(numbers)
        row_bytes = X.nnz * 12 // max(1, n) if sp.issparse(X) else width * X.dtype.itemsize
        step = selection.rows_per_block or max(1, BLOCK_BYTES // max(1, row_bytes))
        lengths = tuple(min(step, n - first) for first in range(0, n, step)) or (0,)
        return cls(
            path=path, shape=(n, width), dtype=_dtype(X), block_lengths=lengths, sparse=sp.issparse(X), target=target,
            member=member, version=version, numbers=numbers, goal=goal,
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
        rows = (rows if self.numbers is None else rows[:, list(self.numbers)]).astype(self.dtype)
        return rows if len(self.shape) == rows.ndim else rows[:, 0]

    @property
    def nbytes(self) -> int:
        """In memory; of the stored entries for CSR rows."""
        stored: Any = _array(self.path, self.member, self.version)
        return int(stored.nnz) * (self.dtype.itemsize + 4) if self.sparse else super().nbytes


def _dtype(array: Any) -> np.dtype:
    """Half floats and booleans have no use further on; other numbers keep their type."""
    return np.dtype({"?": np.uint8, "e": np.float32}.get(array.dtype.char, array.dtype.newbyteorder("=")))


@lru_cache(maxsize=8)
def _array(path: str, member: str, version: str) -> Any:
    """What a file of this version holds, kept for this process; None where there is no such member."""
    fs, root = files.filesystem(path)
    files.check_state(path, version, remote=True)
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
