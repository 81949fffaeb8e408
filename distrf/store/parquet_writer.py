"""A folder of Parquet part files, one for each row block: resumable and written atomically."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InputError
from . import files
from .outputs import Output, require_id
from .zarr_layout import PARTS, StoreInfo, read_store, write_store


def _parts(path: str | os.PathLike[str]) -> Output:
    return Output(files.normalise(path), "part files written by distrf", PARTS)


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
    begun = _parts(path).begin(StoreInfo.of({}, n_blocks, 1, kind="parts", spec=spec), overwrite)
    return begun.id, begun.pending


def existing_parts(path: str | os.PathLike[str]) -> StoreInfo | None:
    """What of distrf is at an output path, None where it is free. Raises StoreError where it holds something else."""
    return _parts(path).existing()


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
    output = _parts(path)
    table = pa.table(_flatten(columns))
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", compression_level=1, write_page_checksum=True)
    store, _ = output.current(folder_id)
    fs, root = output.place
    files.write_bytes(fs, f"{root}/{store.mark(index)}", buffer.getvalue())
    # Unlike a Zarr store, a folder could not tell that this is no block of its own.
    later = read_store(output.path, PARTS).id
    if later not in (None, folder_id):
        files.remove(fs, f"{root}/{store.mark(index)}")
        require_id(output.path, later, folder_id)
    return int(table.num_rows)


@files.explains
def finish_parts(path: str | os.PathLike[str], *, folder_id: str | None) -> None:
    """Write the ``_SUCCESS`` file, which says that the folder is whole.

    Parameters
    ----------
    path : path or URL
    folder_id : str or None
        As for `write_parquet_block`.

    Raises
    ------
    StoreError
        Part files are missing.
    InUseError
        Another job has made the folder anew.
    """
    output = _parts(path)
    store, _ = output.whole(folder_id)
    fs, root = output.place
    files.write_bytes(fs, f"{root}/_SUCCESS", b"")
    write_store(replace(store, id=None, complete=True))


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
