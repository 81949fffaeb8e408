"""How a reader knows that a row store is what was written: checksums of its attributes and of its chunks.

The attribute ``checksum`` is over the other attributes and the metadata of every array. The manifest holds a record
for each block: the CRC32C of each of its chunks, which are the last four bytes of the chunk's file, after a CRC32 that
ties them to the store and to the number of the block. Zarr checks a chunk against its own CRC32C when it decodes it,
so comparing the four bytes is all that is left to do on reading.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from zarr.storage import WrapperStore

from ..errors import StoreError, reworded
from . import csr_groups, files, zarr_layout
from .files import Options
from .zarr_contents import COMPARED
from .zarr_layout import MANIFEST

#: Checksums that a process keeps of the chunks it has written to a store.
_MOST_SUMS = 2**16


def read_attributes(path: str, storage_options: Options) -> dict[str, Any] | None:
    """The attribute ``distrf`` of the group at ``path`` as JSON; None if there is none, or none that can be read."""
    fs, root = files.filesystem(path, storage_options)
    attributes = (files.read_object(fs, f"{root}/zarr.json") or {}).get("attributes")
    found = attributes.get("distrf") if isinstance(attributes, dict) else None
    return found if isinstance(found, dict) else None


def our_attributes(path: str, storage_options: Options) -> dict[str, Any]:
    """The attributes of a store that distrf wrote, with their checksum verified.

    Raises
    ------
    StoreError
        No such store, one of a newer format, or metadata that were changed since they were written.
    """
    attributes = read_attributes(path, storage_options)
    if attributes is None:
        files.require(path, storage_options)
        raise StoreError(f"{path!r} is not a store written by distrf: it has no distrf attribute")
    if attributes.get("format") != zarr_layout.FORMAT:
        raise StoreError(
            f"this version of distrf reads stores of format {zarr_layout.FORMAT}; {path!r} has format "
            f"{attributes.get('format')!r}; update distrf, or restore its zarr.json"
        )
    stored, unfinished = attributes.get("checksum"), attributes.get("complete") is False
    if stored is None and unfinished:  # its writer was killed while it created the store
        return attributes
    try:
        same = checksum(path, attributes, storage_options) == stored
    except StoreError:
        if unfinished:  # its writer was killed while it removed the store, to make it anew
            return attributes
        raise
    except (LookupError, TypeError, ValueError, AttributeError):
        same = False
    if not same:
        raise StoreError(
            f"the metadata of the store {path!r} are not what was written: a zarr.json in it is damaged or was edited "
            "(its checksum differs); restore it, or remove the store and make it again"
        )
    return attributes


def checksum(path: str, attributes: Mapping[str, Any], storage_options: Options) -> str:
    """SHA-256 of the attributes and of the metadata of every array; StoreError where one is missing."""
    fs, root = files.filesystem(path, storage_options)
    nodes = {}
    for name in [MANIFEST, *_node_names(attributes)]:
        nodes[name] = files.read_json(fs, f"{root}/{name}/zarr.json")
        if nodes[name] is None:
            raise StoreError(
                f"{name}/zarr.json of the store {path!r} is missing; restore it, or remove the store and make it again"
            )
    said = {key: value for key, value in attributes.items() if key not in ("complete", "checksum", "id")}
    return hashlib.sha256(json.dumps([said, nodes], sort_keys=True).encode()).hexdigest()


def _node_names(attributes: Mapping[str, Any]) -> list[str]:
    names = []
    for name, item in attributes["arrays"].items():
        names.append(name)
        if item["sparse"]:
            names += [f"{name}/{array}" for array in csr_groups.ARRAYS]
    return names


@dataclass(frozen=True)
class Ledger:
    """Where the checksum of a chunk stands in the manifest of a store.

    Attributes
    ----------
    places : dict
        For each array: its first slot in a record, the row chunks in a block, the chunks beside each other.
    width : int
        Numbers in a record.
    fingerprint : bytes
        SHA-256 of what determines the content of the store.
    """

    places: dict[str, tuple[int, int, int]]
    width: int
    fingerprint: bytes

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Ledger:
        """From the attributes of a store."""
        places, slot, block_rows = {}, 1, attributes["block_rows"]
        for name, item in attributes["arrays"].items():
            if item["sparse"]:
                chunk, capacity = csr_groups.sizes(block_rows, item["tail"][0])
                grids = {array: (capacity // chunk, 1) for array in csr_groups.ARRAYS} | {
                    "indptr_counts": (1, 1)
                }
                chunks = {f"{name}/{array}": grid for array, grid in grids.items()}
            else:
                columns = math.ceil(item["tail"][0] / item["chunks"][1]) if item["tail"] else 1
                chunks = {name: (block_rows // item["chunks"][0], columns)}
            for array, (rows, beside) in chunks.items():
                places[array] = slot, rows, beside
                slot += rows * beside
        made = json.dumps([attributes[key] for key in COMPARED], sort_keys=True)
        return cls(places, slot, hashlib.sha256(made.encode()).digest())

    def slot(self, array: str, row: int, column: int) -> tuple[int, int]:
        """Block and slot of the chunk at (row, column) of the grid of an array."""
        first, rows, beside = self.places[array]
        return row // rows, first + row % rows * beside + column

    def record(self, index: int, sums: np.ndarray) -> np.ndarray:
        """The record of a block, from the checksums of its chunks with slot 0 empty."""
        head = f"{index} ".encode() + self.fingerprint + sums[1:].astype("<u4").tobytes()
        return np.concatenate([[np.uint32(zlib.crc32(head))], sums[1:]]).astype(np.uint32)

    def read(self, manifest: Any, index: int, path: str) -> np.ndarray:
        """The record of a block; StoreError for one that was not written for this block of this store."""
        with reworded(lambda error: _damaged(index, path, str(error))):
            record = np.asarray(manifest[index * self.width : (index + 1) * self.width])
        if not np.array_equal(self.record(index, record), record):
            raise _damaged(index, path, "it is missing, or belongs to another block or store")
        return record


def _damaged(index: int, path: str, why: str) -> StoreError:
    return StoreError(
        f"{MANIFEST}/c/{index} of the store {path!r} is damaged ({why}); restore the file, or remove the store and make it again"
    )


def chunk_keys(array: Any, first: int, last: int) -> list[tuple[int, int, str]]:
    """``(row, column, key in the store)`` in the chunk grid, for the chunks with rows ``first:last`` of an array."""
    size, columns = array.chunks[0], -(-array.shape[1] // array.chunks[1]) if array.ndim > 1 else 1
    tail = (0,) * (array.ndim - 2)
    return [
        (row, column, f"{array.path}/{array.metadata.encode_chunk_key((row, column, *tail)[: array.ndim])}")
        for row in range(first // size, -(-last // size))
        for column in range(columns)
    ]


class ChunkError(Exception):
    """A chunk that is not there, or not the one that was written there; the message says which of these."""

    def __init__(self, array: str, key: str, missing: bool):
        super().__init__(array, key, missing)
        self.array, self.key, self.missing = array, key, missing


class CheckedStore(WrapperStore[Any]):
    """A store of distrf in which every chunk that is read must be there, and be the one that was written there.

    The chunk is compared as it arrives, so that a check costs no second request.

    Parameters
    ----------
    store : zarr.abc.store.Store
    ledger : Ledger

    Attributes
    ----------
    records : dict of int to array
        The record of each block whose chunks are read.
    """

    def __init__(self, store: Any, ledger: Ledger):
        super().__init__(store)
        self._ledger = ledger
        self.records: dict[int, np.ndarray] = {}

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """The bytes of a key; ChunkError where they are a chunk that cannot be right."""
        found = await super().get(key, prototype, byte_range)
        array, _, place = key.partition("/c/")
        if not place or array == MANIFEST:
            return found
        if found is None:
            raise ChunkError(array, place, True)
        row, column = [*(int(part) for part in place.split("/")), 0][:2]
        index, slot = self._ledger.slot(array, row, column)
        if last_sum(found) != self.records[index][slot]:
            raise ChunkError(array, place, False)
        return found


class RecordingStore(WrapperStore[Any]):
    """A store of distrf that keeps the CRC32C of every chunk that is written through it.

    Attributes
    ----------
    sums : dict of str to int
        By the key of the chunk; of the latest chunks, many more than a block has.
    """

    def __init__(self, store: Any):
        super().__init__(store)
        self.sums: dict[str, int] = {}

    async def set(self, key: str, value: Any) -> None:
        """Write the bytes of a key."""
        await super().set(key, value)
        if len(self.sums) >= _MOST_SUMS:
            self.sums.pop(next(iter(self.sums)))  # all writes run in Zarr's one thread
        self.sums[key] = last_sum(value)


def last_sum(chunk: Any) -> int:
    """The CRC32C at the end of the bytes of a chunk."""
    return int.from_bytes(chunk[-4:].to_bytes(), "little")
