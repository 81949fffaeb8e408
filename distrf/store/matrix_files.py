"""Rows of NumPy's ``.npy`` files (memory-mapped) and ``.npz`` files (members are read whole)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from . import files
from .row_source import InOrder, RowSource, Selection, column_numbers
from .zarr_reader import fill_nan

PIECE_BYTES = 8 * 2**20
_MEMBERS = ("data", "indices", "indptr", "shape")


@dataclass(frozen=True, kw_only=True)
class NpzSource(InOrder):
    """Rows of the members X and y (``X_train``, ``y_train`` of the split "train"); the target is a name instead of y.

    A sparse X is stored as ``X_data, X_indices, X_indptr, X_shape``. A member ``feature_names`` names columns.

    Parameters
    ----------
    values : array or csr_array
        This array.
    numbers : sequence of int, optional
        Of the columns that are read; None for all.
    labels : array, optional
    impute : tuple of float, optional
        What replaces NaN.
    """

    endings = (".npz",)
    options: ClassVar[tuple[str, ...]] = ("split",)
    values: Any
    numbers: Sequence[int] | None = None
    labels: np.ndarray | None = None
    impute: tuple[float, ...] | None = None

    @classmethod
    def open(cls, path: str, selection: Selection) -> Self:
        """Members are read."""
        target, suffix = selection.target, f"_{selection.split}" if selection.split else ""
        fs, root = files.filesystem(path)
        with (
            files.reading(path, "an .npz file of numbers, without running code"),
            fs.open(root, "rb") as file,
            np.load(file, allow_pickle=False) as members,
        ):
            names = list(members.files)
            X = _member(members, names, f"X{suffix}", path)
            label = f"{target or 'y'}{suffix}"
            y = members[label] if label in names else None
            titles = members["feature_names"].astype(str).tolist() if "feature_names" in names else []
        if y is None and target is not None:
            raise InputError(f"the target {label!r} is not in {path!r}; its members are {names}")
        titles = titles if titles and X.shape[1:] == (len(titles),) else None
        return cls._of(path, X, y, titles, selection.columns)

    @classmethod
    def _of(
        cls, path: str, X: Any, y: np.ndarray | None, titles: list[str] | None, columns: Sequence[Any] | None
    ) -> Self:
        if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
            raise InputError(
                f"rows are a 2-D array of numbers that is not empty; {path!r} has shape {X.shape} and dtype {X.dtype}"
            )
        if y is not None and (y.ndim not in (1, 2) or y.shape[0] != X.shape[0] or y.dtype.kind not in "biufUS"):
            raise InputError(
                f"X and y must have the same rows, and targets are numbers or text; X has shape {X.shape}, the target has shape "
                f"{y.shape} and dtype {y.dtype} in {path!r}"
            )
        chosen = None if columns is None else column_numbers(path, columns, titles, X.shape[1])
        # Half floats and booleans have no use further on; other numbers keep their type.
        dtype = np.dtype({"?": np.uint8, "e": np.float32}.get(X.dtype.char, X.dtype.newbyteorder("=")))
        n, d = X.shape
        return cls(
            path=path, shape=(n, d if chosen is None else len(chosen)), dtype=dtype, block_lengths=(n,),
            columns=titles if chosen is None or titles is None else [titles[j] for j in chosen], sparse=sp.issparse(X),
            values=X, numbers=chosen, labels=y,
        )  # fmt: skip

    def target_source(self) -> NpzSource | None:
        """The labels."""
        if (y := self.labels) is None:
            return None
        y = y.astype(str if y.dtype.kind in "US" else y.dtype.newbyteorder("="))
        return NpzSource(
            path=self.path, shape=y.shape, dtype=y.dtype, block_lengths=self.block_lengths, values=y
        )

    def filled(self, values: tuple[float, ...]) -> NpzSource:
        """NaN read as these numbers."""
        return replace(self, impute=values)

    def read(self, first: int, last: int) -> Any:
        """Rows ``first:last``."""
        rows = self.values[first:last]
        rows = rows if self.numbers is None else rows[:, list(self.numbers)]
        rows = rows.astype(self.dtype) if self.sparse else np.array(rows, self.dtype)
        return rows if self.impute is None else fill_nan(rows, self.impute)

    @property
    def nbytes(self) -> int:
        """In memory; of the stored entries for CSR rows."""
        return self.values.nnz * (self.dtype.itemsize + 4) if self.sparse else super().nbytes

    def stream(self, target: RowSource | None, block_rows: int) -> Iterator[tuple[Any, np.ndarray | None]]:
        """In pieces of about 8 MiB; CSR rows by their entries."""
        n, first = self.shape[0], 0
        ends: Any = (
            self.values.indptr if self.sparse else np.arange(n + 1, dtype=np.int64) * self.values.shape[1]
        )
        while first < n:
            most = ends[first] + PIECE_BYTES // self.values.dtype.itemsize
            last = max(int(np.searchsorted(ends, most, side="right")) - 1, first + 1)
            yield self.read(first, last), None if target is None else target.read(first, last)
            first = last


class NpySource(NpzSource):
    """Rows of a 2-D ``.npy`` file. The target and the columns are numbers; that of the target may count from the end."""

    endings = (".npy",)
    options = ()

    @classmethod
    def open(cls, path: str, selection: Selection) -> Self:
        """Mapped where it is local."""
        with files.reading(path, "an .npy file of numbers, without running code"):
            if files.is_local(path):
                array = np.load(path, mmap_mode="r", allow_pickle=False)
            else:
                fs, root = files.filesystem(path)
                array = np.load(io.BytesIO(fs.cat_file(root)), allow_pickle=False)
        if selection.target is None or array.ndim != 2:
            return cls._of(path, array, None, None, selection.columns)
        d, target = array.shape[1], selection.target
        number = int(target) if target.removeprefix("-").isdigit() else d
        if not -d <= number < d:
            raise InputError(
                f"the target of a .npy file is a column number in -{d}..{d - 1}; received {target!r}"
            )
        columns = selection.columns
        if columns is None:
            columns = [j for j in range(d) if j != number % d]
        elif str(number % d) in map(str, columns):
            raise InputError(f"the target column {number % d} is among columns=; leave it out")
        return cls._of(path, array, np.array(array[:, number]), None, columns)


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
