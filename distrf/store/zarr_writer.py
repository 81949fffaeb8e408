"""Row stores in Zarr, written block by block: create, write, resume, finish (NumPy and SciPy blocks)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from ..errors import InputError, StoreError
from . import csr_groups, files, zarr_layout
from .checksums import (
    Ledger,
    RecordingStore,
    checksum,
    chunk_keys,
    our_attributes,
    read_attributes,
)
from .files import HashableOptions, Options
from .job_lock import check, require_id
from .spec import from_json, require_same, to_json
from .writable import check_zarr_ending
from .zarr_contents import COMPARED, Contents, checked_block
from .zarr_layout import MANIFEST, ArrayInfo, StoreInfo


def create(
    path: str | os.PathLike[str],
    contents: Contents | Mapping[str, Any],
    *,
    provenance: Mapping[str, Any] | None = None,
    storage_options: Options = None,
    overwrite: bool = False,
) -> StoreInfo:
    """Create a row store, or return the existing one with the same contents so that it can be resumed.

    Parameters
    ----------
    path : path or URL
    contents : Contents or mapping
        What the store will hold; or the attributes called `COMPARED`, of another store.
    provenance : mapping, optional
        Kept beside the contents and not compared.
    storage_options : mapping, optional
        Options of the fsspec file system.
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
    InputError
        An array cannot be stored.
    """
    path = files.normalise(path)
    attributes = to_json(
        {
            "format": zarr_layout.FORMAT,
            **(contents.attributes() if isinstance(contents, Contents) else contents),
            "provenance": provenance or {},
            "complete": False,
            "id": uuid.uuid4().hex,
        },
        where="store",
    )
    old = existing_store(path, storage_options=storage_options)
    if old is not None:
        wanted = {key: attributes[key] for key in COMPARED}
        if require_same(path, {key: old.get(key) for key in COMPARED}, wanted, overwrite):
            attributes = old
        else:
            _delete(path, old, storage_options)
            old = None
    if old is None and not _claim(path, attributes, storage_options):  # another job was faster
        old = our_attributes(path, storage_options)
        require_same(path, {key: old.get(key) for key in COMPARED}, {k: attributes[k] for k in COMPARED}, False)
        attributes = old
    _create_nodes(path, attributes, storage_options)
    made = info(path, storage_options=storage_options)
    require_id(path, made.id, attributes.get("id"))
    return made


def existing_store(path: str | os.PathLike[str], *, storage_options: Options = None) -> dict[str, Any] | None:
    """What of distrf is at an output path.

    A store without zarr.json, or without our attribute, was not made here and is never touched.

    Parameters
    ----------
    path : path or URL
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    dict, or None where the path is free
        The attributes of the store.

    Raises
    ------
    StoreError
        The path holds something else, or ends like another format.
    """
    path = files.normalise(path)
    check_zarr_ending(path)
    fs, root = files.filesystem(path, storage_options)
    found = read_attributes(path, storage_options)
    files.require_ours(path, found, fs, root, "a distrf store")
    return found


def pending_blocks(path: str | os.PathLike[str], *, storage_options: Options = None) -> list[int]:
    """The blocks that are not yet finished.

    Parameters
    ----------
    path : path or URL
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    list of int
        Their numbers, ascending.

    Raises
    ------
    StoreError
        There is no such store, or it is damaged.
    """
    path = files.normalise(path)
    return _pending(path, our_attributes(path, storage_options), storage_options)


def write_block(
    path: str | os.PathLike[str],
    index: int,
    arrays: Mapping[str, Any],
    *,
    store_id: str | None,
    storage_options: Options = None,
) -> int:
    """Write all arrays of one block, then mark the block as finished. May be repeated at will.

    Parameters
    ----------
    path : path or URL
    index : int
        Number of the block.
    arrays : mapping of str to array of shape (rows of the block, ...)
        Every array of the store; SciPy sparse for the CSR ones.
    store_id : str or None
        The id of the store for which the block was made, as `create` has returned it.
    storage_options : mapping, optional
        Options of the fsspec file system.

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
    path = files.normalise(path)
    store = _opened(path, storage_options)
    require_id(path, store.id, store_id)
    start, stop = zarr_layout.bounds(index, store.n_rows, store.block_rows)
    if set(arrays) != set(store.described):
        raise InputError(
            f"a block holds every array of its store: expected {sorted(store.described)}, received "
            f"{sorted(arrays)}"
        )
    checked = {name: checked_block(name, arrays[name], store.described[name], stop - start) for name in arrays}
    written: list[tuple[zarr.Array, int, int]] = []
    for name, block in checked.items():
        node = store.nodes[name]
        if isinstance(node, zarr.Group):
            written += csr_groups.write(node, index, start, block)
        else:
            node[start:stop] = block
            written.append((node, start, stop))
    sums = np.zeros(store.ledger.width, np.uint32)
    for array, first, last in written:
        for row, column, key in chunk_keys(array, first, last):
            sums[store.ledger.slot(array.path, row, column)[1]] = store.recording.sums[key]
    record = store.ledger.record(index, sums)
    store.manifest[index * len(record) : (index + 1) * len(record)] = record
    return stop - start


def finish(path: str | os.PathLike[str], *, store_id: str | None, storage_options: Options = None) -> StoreInfo:
    """Mark the store as complete.

    Parameters
    ----------
    path : path or URL
    store_id : str or None
        As for `write_block`.
    storage_options : mapping, optional
        Options of the fsspec file system.

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
    check()
    path = files.normalise(path)
    attributes = our_attributes(path, storage_options)
    require_id(path, attributes.get("id"), store_id)
    group = files.open_group(path, "r+", storage_options)
    assert isinstance(group, zarr.Group)
    if not attributes["complete"]:
        missing = _pending(path, attributes, storage_options)
        if missing:
            total = zarr_layout.count_blocks(attributes["n_rows"], attributes["block_rows"])
            raise StoreError(
                f"a store is finished when all blocks are: {len(missing)} of {total} blocks of {path!r} are "
                f"missing, the first is {missing[0]}; write them first"
            )
        fs, root = files.filesystem(path, storage_options)
        files.remove_partials(fs, root)
        group.attrs["distrf"] = {k: v for k, v in attributes.items() if k != "id"} | {"complete": True}
    return info(path, storage_options=storage_options)


def info(path: str | os.PathLike[str], *, storage_options: Options = None, measure: bool = False) -> StoreInfo:
    """What a store of distrf holds.

    Parameters
    ----------
    path : path or URL
    storage_options : mapping, optional
        Options of the fsspec file system.
    measure : bool
        Also sum the bytes of all files.

    Returns
    -------
    StoreInfo

    Raises
    ------
    StoreError
        There is no such store, or it is damaged.
    """
    path = files.normalise(path)
    attributes = our_attributes(path, storage_options)
    pending = 0 if attributes["complete"] else len(_pending(path, attributes, storage_options))
    arrays = tuple(
        ArrayInfo(
            name, (attributes["n_rows"], *item["tail"]), item["dtype"], tuple(item["chunks"]), item["sparse"]
        )
        for name, item in attributes["arrays"].items()
    )
    fs, root = files.filesystem(path, storage_options)
    decoded = from_json(attributes)
    return StoreInfo(
        path=path,
        kind=decoded["kind"],
        n_rows=decoded["n_rows"],
        block_rows=decoded["block_rows"],
        arrays=arrays,
        spec=decoded["spec"],
        classes=decoded["classes"],
        columns=decoded["columns"],
        target=decoded["target"],
        provenance=decoded["provenance"],
        complete=decoded["complete"],
        pending=pending,
        nbytes=sum(item.nbytes for item in arrays if not item.sparse),
        id=attributes.get("id"),
        stored_bytes=int(fs.du(root)) if measure else None,
    )


def made_from(path: str | os.PathLike[str], *, storage_options: Options = None) -> dict[str, Any] | None:
    """What determines the content of a store, as JSON.

    Parameters
    ----------
    path : path or URL
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    dict, or None for a store that distrf did not write
    """
    attributes = read_attributes(files.normalise(path), storage_options)
    return None if attributes is None else {k: attributes.get(k) for k in COMPARED}


@dataclass(frozen=True)
class _Opened:
    n_rows: int
    block_rows: int
    described: dict[str, Any]
    nodes: dict[str, zarr.Array | zarr.Group]
    manifest: zarr.Array
    ledger: Ledger
    recording: RecordingStore
    id: str | None


def _opened(path: str, storage_options: Options) -> _Opened:
    """The open arrays of a store, kept for this process until the store is made anew."""
    fs, root = files.filesystem(path, storage_options)
    written = files.checksum(fs, f"{root}/zarr.json")
    if written is None:
        raise StoreError(f"no such store: {path!r}; create it before writing blocks")
    return _open_version(path, written, HashableOptions.of(storage_options))


@lru_cache(maxsize=8)
def _open_version(path: str, checksum_of_metadata: str, hashable: HashableOptions) -> _Opened:
    attributes = our_attributes(path, hashable.options)
    recording = RecordingStore(files.zarr_store(path, False, hashable.options))
    group = files.open_group(path, "r+", store=recording, zarr_format=3)
    assert isinstance(group, zarr.Group)
    nodes = {name: _writable(group[name]) for name in attributes["arrays"]}
    manifest = _writable(group[MANIFEST])
    assert isinstance(manifest, zarr.Array)
    return _Opened(
        attributes["n_rows"], attributes["block_rows"], attributes["arrays"], nodes, manifest, Ledger.of(attributes),
        recording, attributes.get("id"),
    )  # fmt: skip


def _writable(node: Any) -> Any:
    # Zarr skips chunks that equal the fill value by default; then a finished block of zeros leaves no file.
    return node.with_config({"write_empty_chunks": True}) if isinstance(node, zarr.Array) else node


def _claim(path: str, attributes: dict[str, Any], storage_options: Options) -> bool:
    """Create the group with its attributes (incomplete); False where it is there. Of two jobs at once, one succeeds."""
    fs, root = files.filesystem(path, storage_options)
    group = {"attributes": {"distrf": attributes}, "zarr_format": 3, "node_type": "group"}
    return files.create_json(fs, f"{root}/zarr.json", group)


def _create_nodes(path: str, attributes: dict[str, Any], storage_options: Options) -> None:
    """Create what is missing: arrays first, the manifest last; then the checksum of them all."""
    group = files.open_group(path, "r+", storage_options, zarr_format=3)
    assert isinstance(group, zarr.Group)
    n_rows, block_rows = attributes["n_rows"], attributes["block_rows"]
    compress = [] if attributes["kind"] == "features" else [ZstdCodec(level=1)]
    options = {"compressors": [*compress, Crc32cCodec()]}
    for name, item in attributes["arrays"].items():
        dtype = np.dtype(item["dtype"])
        if item["sparse"]:
            csr_groups.create(group, name, n_rows, item["tail"][0], dtype, block_rows, options)
        elif name not in group:
            fill = float("nan") if dtype.kind == "f" else 0
            group.create_array(
                name,
                shape=(n_rows, *item["tail"]),
                chunks=tuple(item["chunks"]),
                dtype=dtype,
                fill_value=fill,
                **options,  # type: ignore[arg-type]
            )
    if MANIFEST not in group:
        blocks = zarr_layout.count_blocks(n_rows, block_rows)
        width = Ledger.of(attributes).width
        group.create_array(
            MANIFEST, shape=(blocks * width,), chunks=(width,), dtype="uint32", fill_value=0,
            compressors=[*([ZstdCodec(level=1)] if width > 64 else []), Crc32cCodec()], attributes={"distrf": MANIFEST},
        )  # fmt: skip
    if "checksum" not in attributes:
        whole = {**attributes, "checksum": checksum(path, attributes, storage_options)}
        # Else these would become the attributes of the arrays of another job.
        found = read_attributes(path, storage_options) or {}
        require_id(path, found.get("id"), attributes["id"])
        group.attrs["distrf"] = whole


def _delete(path: str, attributes: dict[str, Any], storage_options: Options) -> None:
    fs, root = files.filesystem(path, storage_options)
    # If this process is killed half-way, what is left must still be known as an incomplete store of ours.
    group = files.open_group(path, "r+", storage_options)
    group.attrs["distrf"] = {**attributes, "complete": False, "id": uuid.uuid4().hex}
    # The manifest goes first, so that no block counts as finished whose data are gone.
    for name in sorted(files.names_in(fs, root) - {"zarr.json"}, key=lambda name: name != MANIFEST):
        files.remove(fs, f"{root}/{name}")
    files.remove(fs, f"{root}/zarr.json")


def _pending(path: str, attributes: dict[str, Any], storage_options: Options) -> list[int]:
    # A manifest chunk is written only when its block is done, so one listing replaces n_blocks small reads.
    fs, root = files.filesystem(path, storage_options)
    done = files.names_in(fs, f"{root}/{MANIFEST}/c")
    total = zarr_layout.count_blocks(attributes["n_rows"], attributes["block_rows"])
    return [index for index in range(total) if str(index) not in done]
