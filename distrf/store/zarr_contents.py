"""What a row store is made to hold, and whether the arrays of a block fit it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from . import zarr_layout
from .zarr_layout import MANIFEST

#: The attributes of a store that say what it holds.
COMPARED = (
    "kind", "n_rows", "block_rows", "arrays", "spec", "classes", "columns", "target",
)  # fmt: skip


@dataclass(frozen=True)
class Contents:
    """What a row store is made to hold. A path that holds other contents is not written to.

    Parameters
    ----------
    arrays : mapping of str to (tuple of int, dtype)
        For each row-aligned array the shape of a row and its dtype: the array has shape (n_rows, *tail).
    n_rows : int
    block_rows : int
        Rows of a block; more than n_rows means n_rows.
    kind : "rows", "features" or "predictions"
        Features are stored without compression.
    spec : mapping
        What determines the numbers, as JSON.
    classes : collection, optional
        Class names behind integer codes.
    columns : collection of str, optional
        Names of the columns of X.
    target : str, optional
        Name of the target in the source.
    sparse : collection of str
        Names of arrays that are kept as CSR rows.
    chunk_rows : int, optional
        Rows of a chunk of every dense array; must divide ``block_rows``.
    """

    arrays: Mapping[str, tuple[tuple[int, ...], Any]]
    n_rows: int
    block_rows: int
    _: KW_ONLY
    kind: str
    spec: Mapping[str, Any]
    classes: Collection[Any] | None = None
    columns: Collection[str] | None = None
    target: str | None = None
    sparse: Collection[str] = ()
    chunk_rows: int | None = None

    def attributes(self) -> dict[str, Any]:
        """The contents as attributes of a store: the entries called `COMPARED`.

        Raises
        ------
        InputError
            An array cannot be stored, or there are no rows.
        StoreError
            Blocks and chunks do not line up.
        """
        n_rows, block_rows = int(self.n_rows), min(int(self.block_rows), int(self.n_rows))
        if self.kind not in zarr_layout.KINDS:
            raise InputError(f"kind must be one of {zarr_layout.KINDS}; received {self.kind!r}")
        if n_rows < 1 or block_rows < 1:
            raise InputError(f"a store needs rows: received n_rows={n_rows}, block_rows={block_rows}")
        if not self.arrays or MANIFEST in self.arrays or not set(self.sparse) <= set(self.arrays):
            raise InputError(
                f"a store needs arrays not called {MANIFEST!r}, and sparse names among them; received arrays "
                f"{sorted(self.arrays)}, sparse {sorted(self.sparse)}"
            )
        for name, (tail, dtype) in self.arrays.items():
            _check_array(name, tail, np.dtype(dtype), name in self.sparse)
        return {
            "kind": self.kind,
            "n_rows": n_rows,
            "block_rows": block_rows,
            "arrays": {name: self._described(name, block_rows) for name in self.arrays},
            "spec": self.spec,
            "classes": None if self.classes is None else list(self.classes),
            "columns": None if self.columns is None else list(self.columns),
            "target": self.target,
        }

    def _described(self, name: str, block_rows: int) -> dict[str, Any]:
        tail, dtype = tuple(self.arrays[name][0]), np.dtype(self.arrays[name][1])
        return {
            "tail": [int(size) for size in tail],
            "dtype": dtype.newbyteorder("<").str,
            "chunks": list(zarr_layout.chunk_shape(tail, dtype, block_rows, self.chunk_rows)),
            "sparse": name in self.sparse,
        }


def _check_array(name: str, tail: tuple[int, ...], dtype: np.dtype, sparse: bool) -> None:
    if dtype.kind not in "biuf":
        raise InputError(
            f"stored arrays are numeric; {name!r} has dtype {dtype}; store labels as int32 codes and pass classes="
        )
    if any(int(size) < 1 for size in tail) or (sparse and len(tail) != 1):
        raise InputError(f"sizes are >= 1 and CSR rows 1-D; array {name!r} has the row shape {tuple(tail)}")


def checked_block(name: str, block: Any, item: dict[str, Any], rows: int) -> Any:
    """The block in the dtype of the store; InputError for a wrong shape or an unsafe cast."""
    wanted, dtype = (rows, *item["tail"]), np.dtype(item["dtype"])
    if sp.issparse(block) != item["sparse"]:
        raise InputError(
            f"array {name!r} is stored {'as CSR rows' if item['sparse'] else 'dense'}; received a "
            f"{type(block).__name__}"
        )
    if not item["sparse"]:
        block = np.asarray(block)
    if tuple(block.shape) != wanted:
        raise InputError(f"array {name!r} of this block has shape {wanted}; received {tuple(block.shape)}")
    safe = np.can_cast(block.dtype, dtype, "same_kind")
    if safe and dtype.kind in "iu" and not np.can_cast(block.dtype, dtype) and block.size:
        # An integer out of range would wrap around.
        limits = np.iinfo(dtype)
        safe = limits.min <= block.min() and block.max() <= limits.max
    if not safe:
        raise InputError(
            f"array {name!r} is stored as {dtype}; the {block.dtype} values received do not fit; cast them first"
        )
    return block.astype(dtype, copy=False)
