"""Matrices in files that each process reads whole: of NumPy (a local ``.npy`` is mapped), and svmlight text (libsvm), plain or packed."""

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
from .zarr_layout import block_lengths

#: Endings of the names of svmlight text.
SVMLIGHT = tuple(
    f".{name}{packed}" for name in ("svmlight", "libsvm", "svm") for packed in ("", ".gz", ".bz2", ".zst")
)


@dataclass(frozen=True, kw_only=True)
class MatrixSource(RowSource):
    """Rows of a 2-D ``.npy`` file, of the members X and y of ``.npz``, or CSR rows (float64) of svmlight text.

    The target of ``.npz`` is a member instead of y, that of ``.npy`` the number of a column, which may count from the end. Indices
    of svmlight count from 1 unless a 0 occurs, or `zero_based` says so.

    Parameters
    ----------
    member : str
        Which is read, X or another one; "" of ``.npy``.
    version : str
        Of the file.
    counting : tuple of (int or None, bool or None)
        Of svmlight the columns, and whether indices count from 0.
    numbers : tuple of int, optional
        Of the columns that are read; None for all.
    goal : str or int, optional
        The member, or the column, of the target.
    """

    member: str
    version: str
    counting: tuple[int | None, bool | None]
    numbers: tuple[int, ...] | None = None
    goal: str | int | None = None

    @classmethod
    def recognises(cls, path: str) -> bool:
        """By the ending of the name."""
        return path.endswith((".npy", ".npz", *SVMLIGHT))

    @classmethod
    def open(cls, path: str, selection: Selection) -> Self:
        """Members and text are read."""
        with files.reading(path, "a file of numbers"):
            version = files.state(path, remote=True)
        target, columns = selection.target, selection.columns
        counting = selection.n_features, selection.zero_based
        member = "" if path.endswith(".npy") else "X"
        goal: Any = (target or "y") if member else None
        X: Any = _array(path, member, version, counting)
        if X.ndim != 2 or X.dtype.kind not in "biuf" or X.shape[1] < 1:
            raise InputError(
                f"rows are a 2-D array of numbers with columns; {path!r} has shape {X.shape} and dtype {X.dtype}"
            )
        n, d = X.shape
        if target is not None and not member:
            rule = f"the target of a .npy file is a column number in -{d}..{d - 1}; received {target!r}"
            with reworded(lambda _: InputError(rule)):
                goal = range(d)[int(target)]
            columns = [j for j in range(d) if j != goal] if columns is None else columns
            if str(goal) in map(str, columns):
                raise InputError(f"the target column {goal} is among columns=; leave it out")
        numbers = None if columns is None else column_numbers(path, columns, None, d)
        width = d if numbers is None else len(numbers)
        row_bytes = X.nnz * 12 // max(1, n) if sp.issparse(X) else width * X.dtype.itemsize
        lengths = block_lengths(n, 1, BLOCK_BYTES // max(1, row_bytes), selection.rows_per_block)
        return cls(
            path=path, shape=(n, width), dtype=_dtype(X), block_lengths=lengths, sparse=sp.issparse(X), target=target,
            member=member, version=version, counting=counting, numbers=numbers, goal=goal,
        )  # fmt: skip

    def target_source(self) -> Self | None:
        """The member, or the column, of the target."""
        if self.goal is None:
            return None
        labels = replace(self, goal=None, sparse=False, numbers=None)
        if isinstance(self.goal, int):
            return replace(labels, shape=self.shape[:1], numbers=(self.goal,))
        try:
            y = _array(self.path, self.goal, self.version, self.counting)
        except InputError:
            if self.target is None:
                return None
            raise
        if y.ndim not in (1, 2) or y.shape[0] != self.shape[0] or y.dtype.kind not in "biufUS":
            raise InputError(
                f"X and y must have the same rows, and targets are numbers or text; X has {self.shape[0]} rows, the target has "
                f"shape {y.shape} and dtype {y.dtype} in {self.path!r}"
            )
        dtype = y.astype(str).dtype if y.dtype.kind == "S" else y.dtype.newbyteorder("=")
        return replace(labels, shape=y.shape, dtype=dtype, member=self.goal)

    def read(self, first: int, last: int) -> Any:
        """Rows ``first:last``."""
        rows: Any = _array(self.path, self.member, self.version, self.counting)
        files.check_state(self.path, self.version if files.is_local(self.path) else "")  # of what is mapped
        rows = rows[first:last]
        rows = (rows if self.numbers is None else rows[:, list(self.numbers)]).astype(self.dtype)
        return rows if len(self.shape) == rows.ndim else rows[:, 0]

    @property
    def nbytes(self) -> int:
        """In memory; of the stored entries for CSR rows."""
        stored: Any = _array(self.path, self.member, self.version, self.counting)
        return int(stored.nnz) * (self.dtype.itemsize + 4) if self.sparse else super().nbytes


def _dtype(array: Any) -> np.dtype:
    """Half floats and booleans have no use further on; other numbers keep their type."""
    return np.dtype({"?": np.uint8, "e": np.float32}.get(array.dtype.char, array.dtype.newbyteorder("=")))


@lru_cache(maxsize=8)
def _array(path: str, member: str, version: str, counting: tuple[int | None, bool | None]) -> Any:
    """What a file of this version holds, kept for this process. Raises InputError where there is no such member."""
    files.check_state(path, version, remote=True)
    names = ["X", "y"]
    if path.endswith(SVMLIGHT) and member in names:
        return _text(path, version, *counting)[names.index(member)]
    with files.reading(path, f"{'an .npz' if member else 'an .npy'} file of numbers, without running code"):
        if not member:
            local = files.is_local(path)
            place: Any = path if local else io.BytesIO(files.read_bytes(path))
            return np.asarray(np.load(place, mmap_mode="r" if local else None))
        if path.endswith(".npz"):
            with files.opened(path) as file, np.load(file) as members:
                names = list(members.files)
                if member in names:
                    return members[member]
    raise InputError(f"rows are the member {member!r}; {path!r} has the members {names}; name them X and y")


@lru_cache(maxsize=1)
def _text(path: str, version: str, n_features: int | None, zero_based: bool | None) -> tuple[Any, np.ndarray]:
    """CSR rows and labels of svmlight text, these as integers where all are whole. Raises InputError for other text."""
    from sklearn.datasets import load_svmlight_file

    counted = "auto" if zero_based is None else zero_based
    with files.open_text(path) as file, io.BufferedReader(file) as lines:
        try:
            X, y = load_svmlight_file(lines, n_features=n_features, zero_based=counted)
        except ValueError as error:
            raise InputError(
                f"lines are `label index:value ...` with rising indices, counted as zero_based= says, of at most n_features= columns; "
                f"{path!r} is not so: {error}"
            ) from error
    if n_features is None and not X.nnz:
        raise InputError(f"{path!r} has no rows with values")
    whole = np.isfinite(y).all() and (y == np.rint(y)).all() and np.abs(y).max(initial=0) < 2**53
    return sp.csr_array(X), y.astype(np.int64) if whole else y
