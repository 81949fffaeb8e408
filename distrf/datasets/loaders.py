"""Real data that needs no download, and a loader for .npz archives."""

from __future__ import annotations

import os
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.base import tokenize

from ..errors import InputError, StoreError
from .digits import PIXELS, distort_digits, expanded_labels, expanded_rows, load_digits_split

__all__ = ["distort_digits", "expanded_digits", "load_digits_split", "load_npz"]


def expanded_digits(
    n_rows: int, seed: int = 0, block_rows: int = 16_384, *, strength: float = 1.0
) -> tuple[da.Array, da.Array]:
    """Expand the training digits to `n_rows` rows by small seeded distortions, lazily.

    The test digits of `load_digits_split(seed)` play no part. Row i depends on (seed, strength, i) alone,
    whatever `block_rows` and `n_rows` are; see `distort_digits`.

    Parameters
    ----------
    n_rows : int
        Rows, at least 1.
    seed : int, default=0
        Seed of the split and of the distortions.
    block_rows : int, default=16384
        Rows of a block.
    strength : float, default=1.0
        Factor on the distortions.

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
    token = tokenize("distrf-digits", n_rows, seed, block_rows, strength)
    X = da.map_blocks(
        _rows_block,
        seed,
        strength,
        chunks=(rows, (PIXELS,)),
        dtype=np.float32,
        meta=np.empty((0, 0), np.float32),
        name=f"digits-{token}",
    )
    y = da.map_blocks(
        _labels_block,
        seed,
        chunks=(rows,),
        dtype=np.int32,
        meta=np.empty(0, np.int32),
        name=f"digit-labels-{token}",
    )
    return X, y


def _rows_block(seed: int, strength: float, block_info: Any = None) -> np.ndarray:
    first, last = block_info[None]["array-location"][0]
    return expanded_rows(first, last, seed, strength)


def _labels_block(seed: int, block_info: Any = None) -> np.ndarray:
    first, last = block_info[None]["array-location"][0]
    return expanded_labels(first, last, seed)


def load_npz(path: str | os.PathLike[str], split: str | None = None) -> tuple[Any, np.ndarray]:
    """Load rows and targets of a NumPy archive into memory; nothing is unpickled.

    Parameters
    ----------
    path : str or PathLike
        An .npz file with dense members `X_train, y_train, X_test, y_test` or `X, y`. A sparse X is the four
        members `X_train_data, X_train_indices, X_train_indptr, X_train_shape` of a CSR matrix.
    split : str or None, default=None
        Suffix of the members: "train", "test", ... None takes those without one.

    Returns
    -------
    X : array or CSR array of shape (n, d)
        Rows, in the dtype of the file.
    y : array of shape (n,) or (n, C)
        Targets.

    Raises
    ------
    StoreError
        There is no such file, or it is no archive.
    InputError
        The archive has no such members, they need unpickling, or X and y differ in length.
    """
    suffix = "" if split is None else f"_{split}"
    X_name, y_name = f"X{suffix}", f"y{suffix}"
    try:
        archive = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{os.fspath(path)!r} cannot be read as an .npz archive: {error}; check the path"
        ) from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise StoreError(
            f"{os.fspath(path)!r} holds a single array, not an .npz archive of X and y; use numpy.load"
        )
    with archive:
        names = set(archive.files)
        csr_members = [f"{X_name}_{name}" for name in ("data", "indices", "indptr", "shape")]
        if y_name not in names or not (X_name in names or names.issuperset(csr_members)):
            raise InputError(
                f"{os.fspath(path)!r} must hold {X_name} (or {csr_members[0]}, ... of a CSR matrix) and {y_name}; "
                f"it holds {sorted(names)}; choose split='train', 'test' or None"
            )
        try:
            if X_name in names:
                X: Any = archive[X_name]
            else:
                data, indices, indptr, shape = (archive[name] for name in csr_members)
                X = sp.csr_array((data, indices, indptr), shape=tuple(int(n) for n in shape))
            y = archive[y_name]
        except ValueError as error:
            raise InputError(
                f"members of {os.fspath(path)!r} must be plain numbers or text: {error}"
            ) from error
    if len(y) != X.shape[0]:
        raise InputError(f"{y_name} must have as many rows as {X_name}, got {len(y)} and {X.shape[0]}")
    return X, y
