"""A folder of Parquet part files, one for each row block: resumable and written atomically."""

from __future__ import annotations

import io
import os
import re
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InputError, StoreError
from . import files
from .files import Options
from .job_lock import require_id
from .spec import require_same, to_json

_SPEC, _DONE, _FORMAT = "_spec.json", "_SUCCESS", "distrf-parts"
_PART = re.compile(r"part-(\d+)\.parquet")


def create_parts(
    path: str | os.PathLike[str],
    spec: Mapping[str, Any],
    n_blocks: int,
    *,
    storage_options: Options = None,
    overwrite: bool = False,
) -> tuple[str | None, list[int]]:
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
    id : str or None
        Of the folder; None for a finished one. The file ``_spec.json`` has it until then.
    pending : list of int
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
    wanted = to_json({"format": _FORMAT, "version": 1, "n_blocks": int(n_blocks), "spec": spec})
    folder_id: str | None = uuid.uuid4().hex
    old, old_id = _existing(path, fs, root)
    resumed = old is not None and require_same(path, old, wanted, overwrite)
    if resumed:
        folder_id = old_id
    elif old is not None:
        # Tasks of the job that writes it see another id. The mark of completion goes first, the spec last: killed half-way, it is an unfinished folder of ours.
        files.write_json(fs, f"{root}/{_SPEC}", old | {"id": folder_id})
        for name in sorted(files.names_in(fs, root), key=lambda name: (name != _DONE, name == _SPEC)):
            files.remove(fs, f"{root}/{name}")
    if not resumed and not files.create_json(fs, f"{root}/{_SPEC}", wanted | {"id": folder_id}):
        old, folder_id = _existing(path, fs, root)  # of another job, which was faster
        require_same(path, old, wanted, False)
    return folder_id, pending_parts(path, n_blocks, storage_options=storage_options)


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
    return _existing(path, *files.filesystem(path, storage_options))[0]


def _existing(path: str, fs: Any, root: str) -> tuple[dict[str, Any] | None, str | None]:
    """What the part files at a path were made from, and the id of the folder; None for nothing."""
    ours = _spec(fs, root)
    files.require_ours(path, ours or None, fs, root, "part files written by distrf")
    folder_id = ours.pop("id", None)
    return ours or None, folder_id


def _spec(fs: Any, root: str) -> dict[str, Any]:
    """The content of _spec.json, empty where it is none of ours."""
    found = files.read_object(fs, f"{root}/{_SPEC}") or {}
    return found if found.get("format") == _FORMAT else {}


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
    folder_id: str | None,
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
    folder_id : str or None
        The id of the folder for which the block was made, as `create_parts` has returned it.
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    int
        Rows written.

    Raises
    ------
    InputError
        Names occur twice.
    StoreError
        The folder was not created.
    InUseError
        Another job has made the folder anew.
    """
    path = files.normalise(path)
    fs, root = files.filesystem(path, storage_options)
    table = pa.table(_flatten(columns))
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", compression_level=1, write_page_checksum=True)
    found, part = _spec(fs, root), f"{root}/part-{index:06d}.parquet"
    if not found:
        raise StoreError(f"{path!r} is not a folder of part files; create it before writing blocks")
    require_id(path, found.get("id"), folder_id)
    files.write_bytes(fs, part, buffer.getvalue())
    # Unlike a Zarr store, a folder could not tell that this is no block of its own.
    later = _spec(fs, root).get("id")
    if later not in (None, folder_id):
        files.remove(fs, part)
        require_id(path, later, folder_id)
    return int(table.num_rows)


def finish_parts(
    path: str | os.PathLike[str], n_blocks: int, *, folder_id: str | None, storage_options: Options = None
) -> None:
    """Write the ``_SUCCESS`` file, which says that the folder is whole.

    Parameters
    ----------
    path : path or URL
    n_blocks : int
    folder_id : str or None
        As for `write_parquet_block`.
    storage_options : mapping, optional
        Options of the fsspec file system.

    Raises
    ------
    StoreError
        Part files are missing.
    InUseError
        Another job has made the folder anew.
    """
    path = files.normalise(path)
    missing = pending_parts(path, n_blocks, storage_options=storage_options)
    if missing:
        raise StoreError(
            f"a folder is finished when all part files are: {len(missing)} of {n_blocks} part files of {path!r} are missing, "
            f"the first is {missing[0]}; write them first"
        )
    fs, root = files.filesystem(path, storage_options)
    made, found = _existing(path, fs, root)
    require_id(path, found, folder_id)
    if found is not None:
        files.write_json(fs, f"{root}/{_SPEC}", made)
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
            else:
                new = {f"{name}_{j}": _arrow(np.ascontiguousarray(array[:, j])) for j in range(array.shape[1])}
        twice = sorted(new.keys() & flat.keys())
        if twice:
            raise InputError(f"column names are unique; {twice} occur twice; rename a key column")
        flat |= new
    return flat


def _arrow(array: np.ndarray) -> pa.Array:
    return pa.array(array.tolist(), pa.string()) if array.dtype.kind == "U" else pa.array(array)
