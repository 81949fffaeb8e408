"""Matrices in files: of NumPy, ``.npy`` mapped where it is local, ``.npz`` read whole by each process; and svmlight text (libsvm), plain
or packed, which is read in pieces, counted and checked by a first pass.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, reworded
from . import files
from .row_source import BLOCK_BYTES, RowSource, Selection, column_numbers

_MEMBERS = ("data", "indices", "indptr", "shape")
PIECE_BYTES = 2**20
_ENDINGS = tuple(
    f".{name}{packed}" for name in ("svmlight", "libsvm", "svm") for packed in ("", ".gz", ".bz2", ".zst")
)


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
        X: Any = _array(path, member, version)
        if X.ndim != 2 or X.dtype.kind not in "biuf" or X.shape[1] < 1:
            raise InputError(
                f"rows are a 2-D array of numbers with columns; {path!r} has shape {X.shape} and dtype {X.dtype}"
            )
        n, d = X.shape
        if packed:
            goal = f"{target or 'y'}{suffix}"
        elif not packed and target is not None:
            rule = f"the target of a .npy file is a column number in -{d}..{d - 1}; received {target!r}"
            with reworded(lambda _: InputError(rule)):
                goal = range(d)[int(target)]
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
        try:
            y = _array(self.path, self.goal, self.version)
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
    """What a file of this version holds, kept for this process. Raises InputError where there is no such member."""
    files.check_state(path, version, remote=True)
    with files.reading(path, f"{'an .npz' if member else 'an .npy'} file of numbers, without running code"):
        if not member:
            local = files.is_local(path)
            place: Any = path if local else io.BytesIO(files.read_bytes(path))
            return np.asarray(np.load(place, mmap_mode="r" if local else None))
        with files.opened(path) as file, np.load(file) as members:
            names = list(members.files)
            if member in names:
                return members[member]
            if all(f"{member}_{part}" in names for part in _MEMBERS):
                data, indices, indptr, shape = (members[f"{member}_{part}"] for part in _MEMBERS)
                rows = sp.csr_array((data, indices, indptr), shape=tuple(int(size) for size in shape))
                rows.check_format(full_check=True)  # an index out of its row is past the end of an array
                return rows
    splits = sorted({n[2:].split("_")[0] for n in names if n.startswith("X_")} - set(_MEMBERS))
    remedy = f"pass split= one of {splits}" if splits else "name the members X and y"
    raise InputError(f"rows are the member {member!r}; {path!r} has the members {names}; {remedy}")


@dataclass(frozen=True, kw_only=True)
class SvmlightSource(RowSource):
    """CSR rows (float64) of an svmlight file, whose indices count from 1 unless a 0 occurs or `zero_based` says so.

    Parameters
    ----------
    zero_based : bool
        Whether indices count from 0.
    stored : int
        Entries of the rows.
    labels : numpy.dtype
        Of the target.
    """

    options = ("n_features", "zero_based")
    zero_based: bool
    stored: int
    labels: np.dtype

    @classmethod
    def recognises(cls, path: str) -> bool:
        """By the ending of the name."""
        return path.endswith(_ENDINGS)

    def read(self, first: int = 0, last: int = 0) -> Any:
        """Not of such text; see `stream`."""
        raise InputError(
            f"the rows of {self.path!r} can only be read from the first to the last; make a store of them with `distrf ingest`"
        )

    blocks = read

    @classmethod
    def open(cls, path: str, selection: Selection) -> SvmlightSource:
        """The text is read once."""
        if selection.target is not None or selection.columns is not None:
            raise InputError("svmlight has one label and no column names; leave out target= and columns=")
        n = stored = 0
        lowest, highest, whole = 2**62, -1, True
        for X, y in _pieces(path, None):
            if X.nnz:
                lowest, highest = min(lowest, int(X.indices.min())), max(highest, int(X.indices.max()))
            whole = whole and bool(np.isfinite(y).all() and (y == np.rint(y)).all() and np.abs(y).max() < 2**53)
            n, stored = n + X.shape[0], stored + int(X.nnz)
        if not n or (highest < 0 and selection.n_features is None):
            raise InputError(f"{path!r} has no rows with values")
        zero_based = lowest == 0 if selection.zero_based is None else selection.zero_based
        if lowest == 0 and not zero_based:
            raise InputError(
                f"zero_based=False counts columns from 1, and {path!r} has the index 0; give zero_based=True"
            )
        found = highest + (1 if zero_based else 0)
        width = found if selection.n_features is None else selection.n_features
        if found > width:
            raise InputError(
                f"n_features={width} columns are fewer than those of {path!r}, whose highest index is {highest}, counted from "
                f"{0 if zero_based else 1}; give n_features={found} or more"
            )
        return cls(
            path=path, shape=(n, width), dtype=np.dtype(np.float64), block_lengths=(n,), sparse=True,
            zero_based=zero_based, stored=stored, labels=np.dtype(np.int64 if whole else np.float64),
            )  # fmt: skip

    def target_source(self) -> SvmlightSource:
        """The labels; `stream` of the rows gives them too."""
        return replace(self, shape=self.shape[:1], dtype=self.labels, sparse=False)

    @property
    def nbytes(self) -> int:
        """Of the stored entries."""
        return self.stored * 12 if self.sparse else super().nbytes

    def stream(self, target: RowSource | None, block_rows: int) -> Iterator[tuple[Any, np.ndarray | None]]:
        """In pieces of about 1 MiB of text."""
        for X, y in _pieces(self.path, self.shape[1] + 1):
            indices = X.indices if self.zero_based else X.indices - 1
            rows = sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], self.shape[1]))
            rows.sort_indices()
            yield rows, None if target is None else y.astype(self.labels)


def _pieces(path: str, width: int | None) -> Iterator[tuple[Any, np.ndarray]]:
    """Rows, whose columns count as the text does, and labels. Raises InputError for other text."""
    from sklearn.datasets import load_svmlight_file

    with files.open_text(path) as file, io.BufferedReader(file, PIECE_BYTES) as text:
        first = 1
        while lines := text.readlines(PIECE_BYTES):
            piece, last = b"".join(lines), first + len(lines) - 1
            if piece.strip():
                try:
                    X, y = load_svmlight_file(io.BytesIO(piece), n_features=width, zero_based=True)
                except ValueError as error:
                    raise InputError(
                        f"lines are `label index:value ...` with rising indices; {path!r} breaks this in lines {first} to {last}: "
                        f"{error}"
                    ) from error
                if X.shape[0]:
                    yield X, y
            first = last + 1
