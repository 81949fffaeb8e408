"""Places of rows: what each says of itself, and how its blocks are read as NumPy or SciPy arrays, without Dask."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, did_you_mean
from .spec import fingerprint_of_files

if TYPE_CHECKING:  # it needs pyarrow, which readers of Zarr do without
    from .table_schema import TableSchema

#: Bytes of X in a block where the caller does not say how many rows it has.
BLOCK_BYTES = 32 * 2**20


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a caller wants of a place of rows.

    Parameters
    ----------
    target : str, optional
        Name of the target. None: the usual one of the place, if it has one.
    columns : sequence of str or int, optional
        Columns of X in this order, by name or number. None: all but the target.
    rows_per_block : int, optional
        Wanted rows of a block.
    coded : bool or TableSchema
        Of a table: X has columns of any type, as coded rows (see `distrf.store.table_codes`). They are read as the
        schema says, which names the columns too; True reads them as their types say.
    exclude : sequence of str
        Of a table: columns that are no part of X where `columns` is None.
    labelled : bool
        Of a table: rows that have no target are left out.
    others : sequence of str
        Of a table: columns that `key_blocks` or `column_source` will be asked for. All files must have them.
    n_features : int, optional
        Columns of svmlight rows; more than this file has where others have more.
    zero_based : bool, optional
        Whether svmlight indices count from 0. None: where a 0 occurs.
    """

    target: str | None = None
    columns: Sequence[Any] | None = None
    rows_per_block: int | None = None
    coded: bool | TableSchema = False
    exclude: Sequence[str] = ()
    labelled: bool = False
    others: Sequence[str] = ()
    n_features: int | None = None
    zero_based: bool | None = None

    def __post_init__(self) -> None:
        if isinstance(self.target, (int, float)):  # of data frames whose names are numbers
            object.__setattr__(self, "target", str(self.target))
        if self.target is not None and not isinstance(self.target, str):
            raise InputError(
                f"target= is the name of one column; received {self.target!r}; give several targets as y, shape (n, C)"
            )


def column_numbers(path: str, columns: Sequence[Any], names: Sequence[str] | None, d: int) -> tuple[int, ...]:
    """The numbers of chosen columns, for formats whose columns need not have names.

    Parameters
    ----------
    path : str
        For messages.
    columns : sequence of str or int
        Names, or numbers from 0.
    names : sequence of str, optional
        Of all columns.
    d : int
        How many columns there are.

    Returns
    -------
    tuple of int

    Raises
    ------
    InputError
        There is no such column, or none is chosen.
    """
    chosen = []
    for column in columns:
        if names and column in names:
            chosen.append(names.index(column))
        elif str(column).isdigit() and int(column) < d:
            chosen.append(int(column))
        else:
            known = f"columns {list(names)[:50]}" if names else f"no column names, only numbers 0..{d - 1}"
            raise InputError(
                f"column {column!r} is not in {path!r}{did_you_mean(column, names or ())}, which has {known}"
            )
    if not chosen:
        raise InputError("columns= chooses at least one column; received none")
    return tuple(chosen)


class RowReader(Protocol):
    """Reads the rows of a block inside its task.

    A reader travels in every task: it can be pickled, takes less than 1 KiB, and has the same Dask token for the same
    data.
    """

    @property
    def paths(self) -> tuple[str, ...]:
        """Files and stores that are read."""

    def read(self, first: int, last: int) -> Any:
        """Rows of the array.

        Parameters
        ----------
        first, last : int
            The first row, and the row after the last.

        Returns
        -------
        array of shape (last - first, ...) or csr_array

        Raises
        ------
        StoreError
            Data are damaged or gone.
        InputError
            A target is missing, or an integer.
        """


@dataclass(frozen=True, kw_only=True)
class RowSource(ABC):
    """One array of rows in a place: X, or through `target_source` its y.

    A format is a subclass, itself a frozen dataclass, that implements `recognises`, `open` and `read`, and is named in
    `distrf.store.formats`. Rows of others are Dask arrays, such as ``da.from_delayed`` makes of what reads a block.

    Parameters
    ----------
    path : str
        The normalised path or URL.
    shape : tuple of int
        (n, d) for X; (n,) or (n, t) for a target.
    dtype : numpy.dtype
        Type of what `read` returns.
    block_lengths : tuple of int
        Rows of each block; their sum is n.
    columns : list of str, optional
        Names of the columns.
    sparse : bool
        Whether `read` returns a ``csr_array``.
    target : str, optional
        Name of the target.
    classes : list, optional
        Class names, where the place knows them: behind integer codes of the target `read` gives the names.

    Attributes
    ----------
    table : bool
        Whether the place is a table of named columns: the target is one of them and must be named, and other columns
        can be carried along as keys.
    """

    table: ClassVar[bool] = False

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype
    block_lengths: tuple[int, ...]
    columns: list[str] | None = None
    sparse: bool = False
    target: str | None = None
    classes: list[Any] | None = None

    @classmethod
    def recognises(cls, path: str) -> bool:
        """Whether the rows at a path are of this format; decided by names, without reading data.

        Parameters
        ----------
        path : str
            Normalised.

        Returns
        -------
        bool
            By default True: a format that is asked last takes what no other one does.
        """
        return True

    @classmethod
    @abstractmethod
    def open(cls, path: str, selection: Selection) -> Self:
        """X at a path, without reading data; text is scanned once.

        Parameters
        ----------
        path : str
            Normalised.
        selection : Selection
            Columns, target and blocks that are wanted.

        Returns
        -------
        RowSource

        Raises
        ------
        StoreError
            Nothing can be read there.
        InputError
            There are no such columns or target.
        """

    @abstractmethod
    def read(self, first: int, last: int) -> Any:
        """Rows of the array; see `RowReader.read`.

        Parameters
        ----------
        first, last : int
            The first row, and the row after the last: 0 <= first <= last <= n.

        Returns
        -------
        array of shape (last - first, ...), or csr_array where `sparse`
        """

    def pieces(self, first: int, last: int, most: int) -> Generator[Any, None, None]:
        """What `read` gives, in pieces of at most so many rows; each block, and of a table each row group, is read once."""
        for reader, start, stop in self.blocks():
            if start < last and first < stop:
                rows = reader.read(max(start, first), min(stop, last))
                yield from (rows[at : at + most] for at in range(0, rows.shape[0], most))

    def target_source(self) -> RowSource | None:
        """The selected target, in the blocks of X.

        Returns
        -------
        RowSource, or None where there is no target
        """
        return None

    def column_source(self, name: str) -> RowSource:
        """One column beside X or of it, with its missing values, by whose values rows can be told apart.

        Parameters
        ----------
        name : str
            Of a column, or its number.

        Returns
        -------
        RowSource
            Of shape (n,) or (n, 1): numbers, of which NaN are missing; or text, an array of strings, or of objects
            among which None is missing.

        Raises
        ------
        InputError
            There is no such column.
        """
        return type(self).open(self.path, Selection(columns=[name]))

    def blocks(self) -> Iterator[tuple[RowReader, int, int]]:
        """What the tasks of the blocks carry.

        Yields
        ------
        (RowReader, int, int)
            What travels in the task of a block, its first row, and the row after its last.
        """
        last, reader = 0, replace(self, block_lengths=())
        for length in self.block_lengths:
            yield reader, last, last + length
            last += length

    def key_blocks(self, keys: Sequence[str]) -> list[tuple[Any, int, int]]:
        """`blocks` with readers of other columns of a table.

        Parameters
        ----------
        keys : sequence of str
            Names of columns of any type.

        Returns
        -------
        list of (reader, int, int)
            ``reader.read_table(first, last)`` returns an Arrow table.

        Raises
        ------
        InputError
            The place is no table, or has no such columns.
        """
        raise InputError(f"key columns {list(keys)} need rows that come from a table; {self.path!r} is none")

    @classmethod
    def fingerprint(cls, path: str) -> str:
        """The same text for a copy of the data, and another for other data, as far as sizes and edges tell."""
        return fingerprint_of_files([path])

    @classmethod
    def part_fingerprints(cls, path: str) -> list[tuple[str, int]]:
        """The fingerprint of each part of the data, by which it is known in other data too, and its rows, in their order."""
        source = cls.open(path, Selection())
        return [(cls.fingerprint(path), source.shape[0])]

    @property
    def paths(self) -> tuple[str, ...]:
        """Files and stores that are read."""
        return (self.path,)

    @property
    def nbytes(self) -> int:
        """Bytes in memory; of the stored entries for CSR rows."""
        return math.prod(self.shape) * self.dtype.itemsize


def single(found: Any, name: str) -> Any:
    """An array beside X that is a column. Raises InputError where it has several."""
    if math.prod(found.shape[1:]) != 1:
        raise InputError(f"a column has one value a row; {name!r} of {found.path!r} has shape {found.shape}")
    return found


def joined(parts: Sequence[Any]) -> Any:
    """Parts of rows, dense or CSR, as one."""
    if len(parts) == 1:
        return parts[0]
    return sp.csr_array(sp.vstack(parts, format="csr")) if sp.issparse(parts[0]) else np.concatenate(parts)
