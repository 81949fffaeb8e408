"""Outputs written block by block, row stores in Zarr and folders of Parquet files: create, write, resume, append, finish.

What is being written has an id until it is finished: a new store, or the longer one of an append. Every task carries the id of what
it writes, and writes nothing where there is another one: object stores have no locks, and a lock is no proof.

An append writes into the store. The block that the old rows left unfinished is replaced by one that begins with the same rows,
further blocks lie behind it, and the document of the store is replaced last. Until then the store has the old rows alone.
"""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import InputError, InUseError, StoreError
from . import files
from .outputs import check_zarr_ending, to_parquet
from .spec import fingerprint_of_spec, require_same
from .zarr_layout import APPEND, MANIFEST, NAME, PARTS, ZARR, StoreInfo, info, stored, write_store


@files.explains
def create(
    path: str | os.PathLike[str],
    contents: StoreInfo,
    *,
    overwrite: bool = False,
) -> StoreInfo:
    """Create a row store or a folder of part files, or return the existing one of the same contents, to be resumed.

    Parameters
    ----------
    path : path or URL
    contents : StoreInfo
        What the store will hold; see `StoreInfo.of`.
    overwrite : bool
        Replace an existing store of distrf with other contents.

    Returns
    -------
    StoreInfo

    Raises
    ------
    SpecMismatchError
        The store exists with another spec or other shapes.
    StoreError
        The path holds something else, or blocks and chunks do not line up.
    InUseError
        Another job makes the store anew at the same time.
    """
    path = files.normalise(path)
    wanted = replace(contents, path=path, id=uuid.uuid4().hex, versions=[fingerprint_of_spec(contents.made)])
    begun = existing_store(path, parts=wanted.kind == "parts")
    if begun is not None and not require_same(path, begun.made, wanted.made, overwrite):
        # Tasks of the job that writes it see another id. The document goes last: killed half-way, it is an unfinished output of ours.
        write_store(replace(begun, id=uuid.uuid4().hex, complete=False))
        for name in sorted(files.names_in(path), key=lambda name: (name == wanted.file, name)):
            files.remove(f"{path}/{name}")
        begun = None
    if begun is None:
        begun = wanted
        write_store(begun)
    if begun.kind != "parts":
        from .zarr_arrays import create_nodes  # here and below, as part files need no Zarr

        create_nodes(begun)
        _current(path, begun.id)
    return begun


def existing_store(path: str | os.PathLike[str], *, parts: bool = False) -> StoreInfo | None:
    """What of distrf is at an output path.

    A store without zarr.json, or without our attribute, was not made here and is never touched.

    Parameters
    ----------
    path : path or URL
    parts : bool
        It may be a folder of part files.

    Returns
    -------
    StoreInfo, or None where the path is free

    Raises
    ------
    StoreError
        The path holds something else, or ends like another format.
    """
    path = files.normalise(path)
    parts = parts and to_parquet(path)
    if not parts:
        check_zarr_ending(path)
    found = stored(path, PARTS if parts else ZARR)
    what = "part files written by distrf" if parts else "a distrf store"
    files.require_ours(path, found, what)
    return found


def appendable(path: str | os.PathLike[str]) -> StoreInfo:
    """What a store holds to which rows can be appended. Raises StoreError where there is no complete store of rows."""
    old = existing_store(path) or info(path)
    if not old.complete or old.kind != "rows":
        state = "" if old.complete else "unfinished "
        raise StoreError(
            f"rows are appended to a complete store of rows; {old.path!r} holds {state}{old.kind}: run the command that "
            "writes it again"
        )
    return old


@files.explains
def begin_append(path: str, longer: StoreInfo) -> StoreInfo:
    """Begin to append rows to a store, or resume it: then come `write_block` of each pending block, and `finish`.

    Parameters
    ----------
    path : str
        Of the store, as `appendable` has found it.
    longer : StoreInfo
        What it will hold.

    Returns
    -------
    StoreInfo
        The longer store, unfinished.
    """
    old, begun = info(path), None
    with suppress(StoreError):  # of one that is damaged; the rows of the store are whole
        begun = stored(path, APPEND)
    if begun is not None:
        if (begun.first_row, begun.made) == (old.n_rows, longer.made):
            return begun
        # Another one, which was interrupted: what it has written behind the old rows.
        _resize(begun, old.n_rows)
        files.remove(f"{path}/{MANIFEST}")
    versions = [*old.versions, fingerprint_of_spec(longer.made)]
    begun = replace(longer, id=uuid.uuid4().hex, complete=False, first_row=old.n_rows, versions=versions)
    write_store(begun)
    return begun


@files.explains
def write_block(
    path: str | os.PathLike[str],
    index: int,
    arrays: Mapping[str, Any],
    *,
    store_id: str | None,
) -> int:
    """Write all arrays of one block, then mark the block as finished. May be repeated at will.

    Parameters
    ----------
    path : path or URL
    index : int
        Number of the block.
    arrays : mapping of str to array of shape (rows of the block, ...)
        Every array of the store; SciPy sparse for the CSR ones. For a part file the columns of any type, also of Arrow; a 2-D
        array becomes the columns name_0 ... name_{k-1}.
    store_id : str or None
        The id of what is written, as `create` or `begin_append` has returned it.

    Returns
    -------
    int
        Rows written.

    Raises
    ------
    InputError
        Arrays are missing, or have another shape or dtype.
    StoreError
        There is no such store or block.
    InUseError
        Another job has made the store anew.
    """
    store = _current(files.normalise(path), store_id)
    if store.kind == "parts":
        return _write_part(store, index, arrays)
    start, stop = store.bounds(index)
    if set(arrays) != set(store.arrays):
        raise InputError(
            f"a block holds every array of its store: expected {sorted(store.arrays)}, received {sorted(arrays)}"
        )
    checked = {name: store.arrays[name].checked(name, block, stop - start) for name, block in arrays.items()}
    nodes = _writable(store.path, store_id)
    for name, block in checked.items():
        nodes[name][start:stop] = block
    files.write_bytes(f"{store.path}/{store.mark(index)}", b"")
    return stop - start


@files.explains
def finish(path: str | os.PathLike[str], *, store_id: str | None) -> StoreInfo:
    """Mark the store as complete, or make the appended rows a part of it.

    Parameters
    ----------
    path : path or URL
    store_id : str or None
        As for `write_block`.

    Returns
    -------
    StoreInfo

    Raises
    ------
    StoreError
        Blocks are missing.
    InUseError
        Another job has made the store anew.
    """
    store = _current(files.normalise(path), store_id)
    if missing := store.pending:
        raise StoreError(
            f"an output is finished when all blocks are: {len(missing)} of {store.n_blocks} blocks of {store.path!r} are missing, "
            f"the first is {missing[0]}; write them first"
        )
    files.remove_partials(store.path)
    if store.kind == "parts":
        files.write_bytes(f"{store.path}/_SUCCESS", b"")
    if store_id is not None:
        if store.first_row is not None:
            _resize(store, store.n_rows)
        store = replace(store, id=None, complete=True, first_row=None)
        write_store(store)
        files.remove(f"{store.path}/{APPEND}")
    if store.kind != "parts" and not files.exists(f"{store.path}/{APPEND}"):
        files.remove(f"{store.path}/{MANIFEST}")
    return store


def _current(path: str, store_id: str | None) -> StoreInfo:
    """What is written with this id: a store, or the longer one of an append. Raises InUseError where another job has made it anew."""
    store = info(path, PARTS if to_parquet(path) else ZARR)
    if store.complete and store.kind != "parts" and store_id is not None:
        store = stored(path, APPEND) or store
    if store.id != store_id:
        raise InUseError(
            f"this job writes nothing more to {path!r}: another job has made it anew, or finished it, since this one began "
            f"(its id is {store.id!r}, that of this job {store_id!r}); let that job end, and give each job a path of its own"
        )
    return store


@lru_cache(maxsize=8)
def _writable(path: str, store_id: str | None) -> dict[str, Any]:
    """The open arrays of what has this id, kept for this process."""
    from .zarr_arrays import open_nodes

    return open_nodes(_current(path, store_id), writable=True)


def _resize(store: StoreInfo, n_rows: int) -> None:
    """Give the arrays so many rows. Chunks of rows of the store that are then outside are removed."""
    from .zarr_arrays import open_nodes

    for node in open_nodes(store, writable=True).values():
        node.resize((n_rows, *node.shape[1:]))


def _write_part(store: StoreInfo, index: int, columns: Mapping[str, Any]) -> int:
    """Write one part file."""
    import pyarrow as pa  # which Zarr does without
    import pyarrow.parquet as pq

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
    table, buffer = pa.table(flat).replace_schema_metadata({NAME: store.mark(index)}), io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", compression_level=1, write_page_checksum=True)
    files.write_bytes(f"{store.path}/{store.mark(index)}", buffer.getvalue())
    # Unlike a Zarr store, a folder could not tell that this is no block of its own.
    if info(store.path, PARTS).id not in (None, store.id):
        files.remove(f"{store.path}/{store.mark(index)}")
        _current(store.path, store.id)
    return int(table.num_rows)
