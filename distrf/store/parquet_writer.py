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
from .job_lock import require_id
from .spec import require_same, to_json

_SPEC, _DONE, _FORMAT = "_spec.json", "_SUCCESS", "distrf-parts"
_PART = re.compile(r"part-(\d+)\.parquet")


@files.explains
def create_parts(
    path: str | os.PathLike[str],
    spec: Mapping[str, Any],
    n_blocks: int,
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
    fs, root = files.filesystem(path)
    wanted = to_json({"format": _FORMAT, "version": 1, "n_blocks": int(n_blocks), "spec": spec})
    new = {"id": uuid.uuid4().hex}
    old = existing_parts(path)
    if old is not None and not _same(path, old, wanted, overwrite):
        # Tasks of the job that writes it see another id. The mark of completion goes first, the spec last: killed half-way, it is an unfinished folder of ours.
        files.write_json(fs, f"{root}/{_SPEC}", old | new)
        for name in sorted(files.names_in(fs, root), key=lambda name: (name != _DONE, name == _SPEC)):
            files.remove(fs, f"{root}/{name}")
        old = None
    if old is None:
        old = new
        if not files.create_json(fs, f"{root}/{_SPEC}", wanted | new):  # of another job, which was faster
            old = existing_parts(path) or {}
            _same(path, old, wanted, False)
    return old.get("id"), pending_parts(path, n_blocks)


def _same(path: str, old: dict[str, Any], wanted: dict[str, Any], overwrite: bool) -> bool:
    return require_same(path, {k: v for k, v in old.items() if k != "id"}, wanted, overwrite)


def existing_parts(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """What of distrf is at an output path.

    Parameters
    ----------
    path : path or URL

    Returns
    -------
    dict, or None where the path is free
        What the part files were made from, and the id of the folder until it is finished.

    Raises
    ------
    StoreError
        The path holds something else.
    """
    path = files.normalise(path)
    fs, root = files.filesystem(path)
    ours = _spec(fs, root) or None
    files.require_ours(path, ours, fs, root, "part files written by distrf")
    return ours


def _spec(fs: Any, root: str) -> dict[str, Any]:
    """The content of _spec.json, empty where it is none of ours."""
    found = files.read_object(fs, f"{root}/{_SPEC}") or {}
    return found if found.get("format") == _FORMAT else {}


def pending_parts(path: str | os.PathLike[str], n_blocks: int) -> list[int]:
    """The blocks without a part file.

    Parameters
    ----------
    path : path or URL
    n_blocks : int

    Returns
    -------
    list of int
        Their numbers, ascending.
    """
    fs, root = files.filesystem(files.normalise(path))
    matches = (_PART.fullmatch(name) for name in files.names_in(fs, root))
    done = {int(match[1]) for match in matches if match}
    return [index for index in range(n_blocks) if index not in done]


@files.explains
def write_parquet_block(
    path: str | os.PathLike[str],
    index: int,
    columns: Mapping[str, Any],
    *,
    folder_id: str | None,
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
    fs, root = files.filesystem(path)
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


@files.explains
def finish_parts(path: str | os.PathLike[str], n_blocks: int, *, folder_id: str | None) -> None:
    """Write the ``_SUCCESS`` file, which says that the folder is whole.

    Parameters
    ----------
    path : path or URL
    n_blocks : int
    folder_id : str or None
        As for `write_parquet_block`.

    Raises
    ------
    StoreError
        Part files are missing.
    InUseError
        Another job has made the folder anew.
    """
    path = files.normalise(path)
    missing = pending_parts(path, n_blocks)
    if missing:
        raise StoreError(
            f"a folder is finished when all part files are: {len(missing)} of {n_blocks} part files of {path!r} are missing, "
            f"the first is {missing[0]}; write them first"
        )
    fs, root = files.filesystem(path)
    made = existing_parts(path) or {}
    found = made.pop("id", None)
    require_id(path, found, folder_id)
    if found is not None:
        files.write_json(fs, f"{root}/{_SPEC}", made)
    files.remove_partials(fs, root)
    files.write_bytes(fs, f"{root}/{_DONE}", b"")


def _flatten(columns: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, values in columns.items():
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            values = np.asarray(values)
        new = {name: values}
        if isinstance(values, np.ndarray) and values.ndim > 1:
            new = {f"{name}_{j}": np.ascontiguousarray(column) for j, column in enumerate(values.T)}
        if twice := sorted(new.keys() & flat.keys()):
            raise InputError(f"column names are unique; {twice} occur twice; rename a key column")
        flat |= new
    return flat
