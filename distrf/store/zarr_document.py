"""What a row store says of itself, with its checksum, and its arrays, of which every chunk must be there.

The attribute ``distrf`` of the group is a document of all that the store holds. It carries a checksum of itself; the metadata of
the arrays are compared with it when a store is opened. A chunk carries its CRC32C, by Zarr's own codec. Zarr takes a chunk that
is not there for one of fill values, so the store through which rows are read refuses it.

Two whole chunks of one array that are exchanged are not noticed: each is what was written, at another place.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.storage import WrapperStore

from ..errors import StoreError
from . import files, zarr_layout
from .csr_groups import CsrArray, layout
from .files import Options
from .fingerprints import fingerprint_of_spec
from .spec import from_json
from .zarr_layout import COMPARED, MANIFEST, ArrayInfo, StoreInfo

Node = zarr.Array | CsrArray


def read_attributes(path: str, storage_options: Options) -> dict[str, Any] | None:
    """The attribute ``distrf`` of the group at ``path`` as JSON; None if there is none, or none that can be read."""
    fs, root = files.filesystem(path, storage_options)
    attributes = (files.read_object(fs, f"{root}/zarr.json") or {}).get("attributes")
    found = attributes.get("distrf") if isinstance(attributes, dict) else None
    return found if isinstance(found, dict) else None


def our_attributes(path: str, storage_options: Options) -> dict[str, Any]:
    """The document of a store that distrf wrote, with its checksum verified.

    Raises
    ------
    StoreError
        No such store, one of another format, or a document that was changed since it was written.
    """
    attributes = read_attributes(path, storage_options)
    if attributes is None:
        files.require(path, storage_options)
        raise StoreError(f"{path!r} is not a store written by distrf: it has no distrf attribute")
    check_attributes(path, attributes)
    return attributes


def check_attributes(path: str, attributes: Mapping[str, Any]) -> None:
    """Raise StoreError for a document of another format, or one that was changed since it was written."""
    if attributes.get("format") != zarr_layout.FORMAT:
        raise StoreError(
            f"this version of distrf reads stores of format {zarr_layout.FORMAT}; {path!r} has format "
            f"{attributes.get('format')!r}; update distrf, or make the store again"
        )
    if attributes.get("checksum") != _checksum(attributes):
        raise StoreError(
            f"the metadata of the store {path!r} are not what was written: its zarr.json is damaged or was edited (its "
            "checksum differs); restore it, or remove the store and make it again"
        )


def write_attributes(
    path: str, attributes: Mapping[str, Any], storage_options: Options, *, new: bool = False
) -> bool:
    """Write the document of a store in one step; False where `new` is asked for and there is one."""
    fs, root = files.filesystem(path, storage_options)
    document = {**attributes, "checksum": _checksum(attributes)}
    group = {"attributes": {"distrf": document}, "zarr_format": 3, "node_type": "group"}
    if new:
        return files.create_json(fs, f"{root}/zarr.json", group)
    files.write_json(fs, f"{root}/zarr.json", group)
    return True


def _checksum(attributes: Mapping[str, Any]) -> str:
    return fingerprint_of_spec({key: value for key, value in attributes.items() if key != "checksum"})


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
    return info_of(path, {**attributes, "first_row": 0}, storage_options, measure)


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
    return None if attributes is None else made(attributes)


def made(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: attributes.get(key) for key in COMPARED}


def writing(attributes: dict[str, Any], store_id: str | None) -> dict[str, Any]:
    """The document as it will be when what has this id is written; `first_row` is the first row that is not there yet."""
    append = attributes.get("append")
    if append is None or append["id"] != store_id:
        return attributes | {"first_row": 0}
    return attributes | append | {"complete": False, "first_row": attributes["n_rows"]}


def info_of(
    path: str, attributes: dict[str, Any], storage_options: Options, measure: bool = False
) -> StoreInfo:
    n_rows = attributes["n_rows"]
    arrays = {
        name: ArrayInfo((n_rows, *item["tail"]), item["dtype"], tuple(item["chunks"]), item["sparse"])
        for name, item in attributes["arrays"].items()
    }
    fs, root = files.filesystem(path, storage_options)
    same = {*COMPARED, "provenance", "complete", "first_row"} - {"arrays"}
    return StoreInfo(
        path=path,
        arrays=arrays,
        pending=len(pending(path, attributes, storage_options)),
        nbytes=sum(item.nbytes for item in arrays.values() if not item.sparse),
        id=attributes.get("id"),
        stored_bytes=int(fs.du(root)) if measure else None,
        **{key: from_json(attributes[key]) for key in same},
    )


def pending(path: str, attributes: dict[str, Any], storage_options: Options) -> list[int]:
    """The blocks without a mark, which is written when the data of its block are."""
    fs, root = files.filesystem(path, storage_options)
    total = zarr_layout.count_blocks(attributes["n_rows"], attributes["block_rows"])
    if attributes["complete"]:
        return []
    done = files.names_in(fs, f"{root}/{MANIFEST}/{attributes['id']}")
    first = attributes["first_row"] // attributes["block_rows"]
    return [index for index in range(first, total) if str(index) not in done]


def stored_arrays(
    attributes: Mapping[str, Any], n_rows: int
) -> dict[str, tuple[tuple[int, ...], tuple[int, ...], np.dtype]]:
    """Shape, chunks and type of the Zarr arrays of a store with so many rows, by name; those of CSR rows are in a group.

    Parameters
    ----------
    attributes : mapping
        The document.
    n_rows : int

    Returns
    -------
    dict of str to (tuple, tuple, numpy.dtype)
    """
    arrays: dict[str, tuple[tuple[int, ...], tuple[int, ...], np.dtype]] = {}
    for name, item in attributes["arrays"].items():
        shape, dtype = (n_rows, *item["tail"]), np.dtype(item["dtype"])
        if item["sparse"]:
            for key, (size, chunk, kind) in layout(shape, attributes["block_rows"], dtype).items():
                arrays[f"{name}/{key}"] = ((size,), (chunk,), kind)
        else:
            arrays[name] = (shape, tuple(item["chunks"]), dtype)
    return arrays


def create_nodes(path: str, attributes: Mapping[str, Any], storage_options: Options) -> None:
    """Create the arrays of a store that are missing."""
    group = files.open_group(path, "r+", storage_options, zarr_format=3)
    assert isinstance(group, zarr.Group)
    compress = [] if attributes["kind"] == "features" else [ZstdCodec(level=1)]
    # The attribute tells arrays of a store of ours whose document is gone.
    options: dict[str, Any] = {"compressors": [*compress, Crc32cCodec()], "attributes": {"distrf": "rows"}}
    for name, (shape, chunks, dtype) in stored_arrays(attributes, attributes["n_rows"]).items():
        if "/" in name:
            group.require_group(name.split("/")[0])
        if name not in group:
            fill = math.nan if dtype.kind == "f" else 0
            group.create_array(name, shape=shape, chunks=chunks, dtype=dtype, fill_value=fill, **options)


def open_nodes(
    path: str,
    attributes: Mapping[str, Any],
    storage_options: Options,
    *,
    n_rows: int | None = None,
    writable: bool = False,
) -> dict[str, Node]:
    """The arrays of a store, compared with its document.

    Parameters
    ----------
    path : str
    attributes : mapping
        The document.
    storage_options : mapping, optional
        Options of the fsspec file system.
    n_rows : int, optional
        Rows that the arrays shall have here. None takes those of the document: what is stored may have more, of an append
        that has not ended.
    writable : bool
        Open them to be written.

    Returns
    -------
    dict of str to (zarr.Array or CsrArray)

    Raises
    ------
    StoreError
        An array is missing, or is not the one of the document.
    """
    length = attributes["n_rows"] if n_rows is None else n_rows
    store: Any = files.zarr_store(path, not writable, storage_options)
    store = store if writable else _WholeStore(store)
    group: Any = files.open_group(path, "r+" if writable else "r", storage_options, store=store, zarr_format=3)
    least = stored_arrays(attributes, attributes["n_rows"])
    arrays: dict[str, zarr.Array] = {}
    for name, (shape, chunks, dtype) in stored_arrays(attributes, length).items():
        with files.reading(f"{path}/{name}", "a Zarr array"):
            found: Any = group[name]
            same = (found.shape[1:], found.chunks, found.dtype) == (shape[1:], chunks, dtype)
            metadata = found.metadata.update_shape(shape)
            # Zarr skips chunks that equal the fill value by default; then a finished block of zeros leaves no file.
            arrays[name] = zarr.Array(zarr.AsyncArray(metadata, found.store_path, {"write_empty_chunks": True}))
        if not same or found.shape[0] < least[name][0][0]:
            raise StoreError(
                f"the metadata of array {name!r} in {path!r} are not what was written; restore {name}/zarr.json, or "
                "remove the store and make it again"
            )
    nodes: dict[str, Node] = {}
    for name, item in attributes["arrays"].items():
        if item["sparse"]:
            parts = (arrays[f"{name}/{key}"] for key in ("data", "indices", "indptr_counts"))
            nodes[name] = CsrArray(item["tail"][0], attributes["block_rows"], *parts)
        else:
            nodes[name] = arrays[name]
    return nodes


class _WholeStore(WrapperStore[Any]):
    """A store in which every chunk that is read must be there."""

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """The bytes of a key."""
        found = await super().get(key, prototype, byte_range)
        if found is None and "/c/" in key:
            raise LookupError(f"chunk {key!r} is missing though the store is complete")
        return found
