"""A folder of Parquet part files, one for each row block: resumable and written atomically."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InputError, StoreError
from . import files
from .files import Options
from .job_lock import check
from .spec import require_same, to_json

_SPEC, _DONE = "_spec.json", "_SUCCESS"
_PART = re.compile(r"part-(\d+)\.parquet")


def create_parts(
    path: str | os.PathLike[str],
    spec: Mapping[str, Any],
    n_blocks: int,
    *,
    storage_options: Options = None,
    overwrite: bool = False,
) -> list[int]:
    """Create a folder of part files, or resume the one with the same spec.

    Parameters
    ----------
    path : path or URL
    spec : mapping
        What determines the content, as JSON.
    n_blocks : int
        Part files of the whole.
    storage_options : mapping, optional
        Options of the fsspec file system.
    overwrite : bool
        Replace a folder with another spec.

    Returns
    -------
    list of int
        Numbers of the blocks still to write.

    Raises
    ------
    SpecMismatchError
        The folder was made with another spec.
    StoreError
        The path holds something else.
    """
    path = files.normalise(path)
    fs, root = files.filesystem(path, storage_options)
    wanted = to_json({"format": "distrf-parts", "version": 1, "n_blocks": int(n_blocks), "spec": spec})
    old = existing_parts(path, storage_options=storage_options)
    resumed = old is not None and require_same(path, old, wanted, overwrite)
    if old is not None and not resumed:
        # The mark of completion goes first, the spec last: killed half-way, it is an unfinished folder of ours.
        for name in sorted(files.names_in(fs, root), key=lambda name: (name != _DONE, name == _SPEC)):
            files.remove(fs, f"{root}/{name}")
    if not resumed and not files.create_json(fs, f"{root}/{_SPEC}", wanted):  # another job was faster
        require_same(path, existing_parts(path, storage_options=storage_options), wanted, False)
    return pending_parts(path, n_blocks, storage_options=storage_options)


def existing_parts(path: str | os.PathLike[str], *, storage_options: Options = None) -> dict[str, Any] | None:
    """What of distrf is at an output path.

    Parameters
    ----------
    path : path or URL
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    dict, or None where the path is free
        What the part files were made from.

    Raises
    ------
    StoreError
        The path holds something else.
    """
    path = files.normalise(path)
    fs, root = files.filesystem(path, storage_options)
    try:
        found = files.read_json(fs, f"{root}/{_SPEC}")
    except ValueError:
        found = None
    ours = found if isinstance(found, dict) and found.get("format") == "distrf-parts" else None
    files.require_ours(path, ours, fs, root, "part files written by distrf")
    return ours


def pending_parts(path: str | os.PathLike[str], n_blocks: int, *, storage_options: Options = None) -> list[int]:
    """The blocks without a part file.

    Parameters
    ----------
    path : path or URL
    n_blocks : int
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    list of int
        Their numbers, ascending.
    """
    fs, root = files.filesystem(files.normalise(path), storage_options)
    matches = (_PART.fullmatch(name) for name in files.names_in(fs, root))
    done = {int(match[1]) for match in matches if match}
    return [index for index in range(n_blocks) if index not in done]


def write_parquet_block(
    path: str | os.PathLike[str],
    index: int,
    columns: Mapping[str, Any],
    *,
    storage_options: Options = None,
) -> int:
    """Write one part file. May be repeated at will.

    Parameters
    ----------
    path : path or URL
    index : int
        Number of the block.
    columns : mapping of str to array of shape (n,) or (n, k), or Arrow column
        A 2-D array becomes the columns name_0 ... name_{k-1}.
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    int
        Rows written.

    Raises
    ------
    InputError
        Names occur twice, or row counts differ.
    StoreError
        The folder was not created.
    """
    path = files.normalise(path)
    fs, root = files.filesystem(path, storage_options)
    if not fs.exists(f"{root}/{_SPEC}"):
        raise StoreError(f"{path!r} is not a folder of part files; create it before writing blocks")
    table = pa.table(_flatten(columns))
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", compression_level=1, write_page_checksum=True)
    files.write_bytes(fs, f"{root}/part-{index:06d}.parquet", buffer.getvalue())
    return int(table.num_rows)


def finish_parts(path: str | os.PathLike[str], n_blocks: int, *, storage_options: Options = None) -> None:
    """Write the ``_SUCCESS`` file, which says that the folder is whole.

    Parameters
    ----------
    path : path or URL
    n_blocks : int
    storage_options : mapping, optional
        Options of the fsspec file system.

    Raises
    ------
    StoreError
        Part files are missing.
    """
    check()
    path = files.normalise(path)
    missing = pending_parts(path, n_blocks, storage_options=storage_options)
    if missing:
        raise StoreError(
            f"a folder is finished when all part files are: {len(missing)} of {n_blocks} part files of {path!r} are missing, "
            f"the first is {missing[0]}; write them first"
        )
    fs, root = files.filesystem(path, storage_options)
    files.remove_partials(fs, root)
    files.write_bytes(fs, f"{root}/{_DONE}", b"")


def _flatten(columns: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, values in columns.items():
        if isinstance(values, pa.Array | pa.ChunkedArray):
            new = {name: values}
        else:
            array = np.asarray(values)
            if array.ndim == 1:
                new = {name: _arrow(array)}
            elif array.ndim == 2:
                new = {f"{name}_{j}": _arrow(np.ascontiguousarray(array[:, j])) for j in range(array.shape[1])}
            else:
                raise InputError(f"columns are 1-D or 2-D; {name!r} has shape {array.shape}")
        twice = sorted(new.keys() & flat.keys())
        if twice:
            raise InputError(f"column names are unique; {twice} occur twice; rename a key column")
        flat |= new
    lengths = {name: len(values) for name, values in flat.items()}
    if len(set(lengths.values())) != 1:
        raise InputError(f"the columns of a block have the same rows; received {lengths}")
    return flat


def _arrow(array: np.ndarray) -> pa.Array:
    return pa.array(array.tolist(), pa.string()) if array.dtype.kind == "U" else pa.array(array)
