"""A folder of Parquet part files, one for each row block: resumable and written atomically."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InputError, StoreError
from . import files
from .blocks import Output
from .job_lock import require_id
from .spec import to_json

_SPEC, _DONE, _FORMAT = "_spec.json", "_SUCCESS", "distrf-parts"
_PART = re.compile(r"part-(\d+)\.parquet")


@dataclass(frozen=True)
class PartsInfo:
    """What part files are made from, how many there shall be, and the id of the folder until it is finished."""

    n_blocks: int
    spec: Any
    id: str | None = None
    complete: bool = False

    @property
    def made(self) -> dict[str, Any]:
        """What determines the content, as JSON."""
        return {"format": _FORMAT, "version": 1, "n_blocks": self.n_blocks, "spec": self.spec}


class _Parts(Output):
    what, file = "part files written by distrf", _SPEC

    def read(self) -> PartsInfo | None:
        found = files.read_object(self.fs, f"{self.root}/{_SPEC}") or {}
        ours = found.get("format") == _FORMAT
        return PartsInfo(found["n_blocks"], found["spec"], found.get("id"), "id" not in found) if ours else None

    def write(self, record: PartsInfo, *, new: bool = False) -> bool:
        content = record.made | ({} if record.id is None else {"id": record.id})
        if not record.complete and not new:
            files.remove(self.fs, f"{self.root}/{_DONE}")
        return files.write_json(self.fs, f"{self.root}/{_SPEC}", content, new=new)

    def pending(self, record: PartsInfo) -> list[int]:
        matches = (_PART.fullmatch(name) for name in files.names_in(self.fs, self.root))
        done = {int(match[1]) for match in matches if match}
        return [index for index in range(record.n_blocks) if index not in done]


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
    place = _Parts(path)
    begun = place.begin(PartsInfo(int(n_blocks), to_json(spec)), overwrite)
    return begun.id, place.pending(begun)


def existing_parts(path: str | os.PathLike[str]) -> PartsInfo | None:
    """What of distrf is at an output path, None where it is free. Raises StoreError where it holds something else."""
    found: PartsInfo | None = _Parts(path).existing()
    return found


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
    place = _Parts(path)
    table = pa.table(_flatten(columns))
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", compression_level=1, write_page_checksum=True)
    found, part = place.read(), f"{place.root}/part-{index:06d}.parquet"
    if found is None:
        raise StoreError(f"{place.path!r} is not a folder of part files; create it before writing blocks")
    require_id(place.path, found.id, folder_id)
    files.write_bytes(place.fs, part, buffer.getvalue())
    # Unlike a Zarr store, a folder could not tell that this is no block of its own.
    later = place.read()
    if later is not None and later.id not in (None, folder_id):
        files.remove(place.fs, part)
        require_id(place.path, later.id, folder_id)
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
    place = _Parts(path)
    found = place.read() or PartsInfo(n_blocks, None)
    place.check(found, folder_id)
    files.remove_partials(place.fs, place.root)
    files.write_bytes(place.fs, f"{place.root}/{_DONE}", b"")
    place.write(replace(found, id=None, complete=True))


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
