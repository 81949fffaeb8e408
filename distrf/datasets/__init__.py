"""Handwritten digits, small or expanded by small distortions to any number of rows. Graph code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np

from ..errors import InputError
from .digits import SIDE, expanded_labels, expanded_rows, load_digits_split

__all__ = ["expanded_digits", "load_digits_split"]


def expanded_digits(n_rows: int, seed: int = 0, block_rows: int = 16_384) -> tuple[da.Array, da.Array]:
    """Expand the training digits to `n_rows` rows by small seeded distortions, lazily.

    The test digits of `load_digits_split(seed)` play no part. Row i shows the training digit i mod 1,437, rotated, scaled,
    sheared and shifted a little; it depends on the seed and i alone, whatever `block_rows` and `n_rows` are.

    Parameters
    ----------
    n_rows : int
        Rows, at least 1.
    seed : int, default=0
        Seed of the split and of the distortions.
    block_rows : int, default=16384
        Rows of a block.

    Returns
    -------
    X : Dask array of shape (n_rows, 64)
        Grey values, float32.
    y : Dask array of shape (n_rows,)
        Digits 0 to 9, int32.

    Raises
    ------
    InputError
        `n_rows` or `block_rows` is below 1.
    """
    if n_rows < 1 or block_rows < 1:
        raise InputError(f"n_rows and block_rows must be at least 1, got {n_rows} and {block_rows}")
    rows = tuple(min(block_rows, n_rows - a) for a in range(0, n_rows, block_rows))
    X = da.map_blocks(_block, expanded_rows, seed, chunks=(rows, (SIDE**2,)), meta=np.empty((0, 0), np.float32))
    y = da.map_blocks(_block, expanded_labels, seed, chunks=(rows,), meta=np.empty(0, np.int32))
    return X, y


def _block(values: Callable[..., np.ndarray], *arguments: Any, block_info: Any = None) -> np.ndarray:
    return values(*block_info[None]["array-location"][0], *arguments)
