"""What a row store takes: the arrays it is created for, and the blocks that are written to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from . import zarr_layout
from .zarr_layout import MANIFEST


def check_request(
    arrays: Mapping[str, tuple[tuple[int, ...], Any]],
    n_rows: int,
    block_rows: int,
    kind: str,
    sparse: set[str],
) -> None:
    """Raise InputError for a store that cannot be: its kind, its rows, or one of its arrays."""
    if kind not in zarr_layout.KINDS:
        raise InputError(f"kind must be one of {zarr_layout.KINDS}; received {kind!r}")
    if n_rows < 1 or block_rows < 1:
        raise InputError(f"a store needs rows: received n_rows={n_rows}, block_rows={block_rows}")
    if not arrays or MANIFEST in arrays or not sparse <= set(arrays):
        raise InputError(
            f"a store needs arrays not called {MANIFEST!r}, and sparse names among them; received arrays "
            f"{sorted(arrays)}, sparse {sorted(sparse)}"
        )
    for name, (tail, dtype) in arrays.items():
        if np.dtype(dtype).kind not in "biuf":
            raise InputError(
                f"stored arrays are numeric; {name!r} has dtype {np.dtype(dtype)}; store labels as int32 "
                "codes and pass classes="
            )
        if any(int(size) < 1 for size in tail) or (name in sparse and len(tail) != 1):
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
