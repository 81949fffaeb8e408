"""An open Zarr store, ours or of others: where X, y and other arrays are in it, and in which blocks they are read."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

import zarr

from ..errors import StoreError, did_you_mean
from . import files, zarr_document
from .csr_groups import CsrArray, is_csr
from .foreign_arrays import check_foreign
from .row_source import BLOCK_BYTES, Selection
from .zarr_document import Node, open_nodes, our_attributes
from .zarr_layout import StoreInfo
from .zarr_reader import ZarrRows


@dataclass(frozen=True)
class ZarrPlace:
    """An open Zarr group, or a store that is a single array.

    Parameters
    ----------
    path : str
        Normalised.
    selection : Selection
        As it was opened.
    node : zarr.Group or zarr.Array
    store : StoreInfo, optional
        What distrf wrote of its own store; None for stores of others.
    nodes : dict, optional
        The arrays of a store of distrf by name, compared with what it says of them.
    """

    path: str
    selection: Selection
    node: Any
    store: StoreInfo | None = None
    nodes: dict[str, Node] | None = None

    @classmethod
    def open(cls, path: str, selection: Selection) -> ZarrPlace:
        """Raises StoreError where nothing can be read, or where a store of ours is not complete or is damaged."""
        options = selection.storage_options
        files.require(path, options)
        node = files.open_group(path, "r", options)
        if isinstance(node, zarr.Group) and "distrf" in node.attrs:
            store = zarr_document.info(path, storage_options=options)
            if not store.complete:
                raise StoreError(
                    f"only a complete store can be read: {store.n_blocks - store.pending} of {store.n_blocks} blocks of "
                    f"{path!r} are finished; run the command that writes it again, and it resumes where it stopped"
                )
            nodes = open_nodes(path, our_attributes(path, options), options, n_rows=store.n_rows)
            return cls(path, selection, node, store, nodes)
        return cls(path, selection, node)

    @property
    def names(self) -> list[str]:
        """What it holds, for messages."""
        if self.nodes is not None:
            return sorted(self.nodes)
        return sorted(self.node) if isinstance(self.node, zarr.Group) else ["(a single array)"]

    def find_x(self) -> tuple[Any, str]:
        """The node of X and its name; "" for a store that is a single array. Raises StoreError if there is none."""
        with files.reading(self.path, "a Zarr store"):
            node: Any = self.node if isinstance(self.node, zarr.Array) else self._get("X")
            name = "" if node is self.node else "X"
            if node is None:
                arrays = self.nodes.items() if self.nodes is not None else self.node.arrays()
                matrices = [key for key, item in arrays if len(item.shape) == 2]
                if len(matrices) != 1:
                    raise StoreError(
                        f"X is the array called X, or else the only 2-D array; {self.path!r} has {self.names}; open one "
                        "array by its own path, or open_array(path, name)"
                    )
                node, name = self._get(matrices[0]), matrices[0]
            if is_csr(node):
                node = CsrArray.open(node)
            if isinstance(node, zarr.Group):
                raise StoreError(f"{name!r} of {self.path!r} is a group that is not in distrf's CSR layout")
            if isinstance(node, zarr.Array) and (node.ndim != 2 or node.dtype.kind not in "biuf"):
                raise StoreError(
                    f"X is a 2-D numeric array; {name or self.path!r} has shape {node.shape} and dtype {node.dtype}"
                )
        return self._as_stored(node), name

    def find_y(self) -> tuple[zarr.Array | None, str]:
        """The array of the selected target, by default y, and its name. Raises StoreError if a named one is missing."""
        target = self.selection.target
        with files.reading(self.path, "a Zarr store"):
            found = self._array(target or "y")
            if found is not None:
                return self._as_stored(found), target or "y"
            if target is None:
                return None, ""
            # An ingested store calls its target y, whatever its name was in the source.
            if self.store is not None and self.store.target == target:
                return self._array("y"), "y"
        raise StoreError(
            f"the target {target!r} is not an array of {self.path!r}{did_you_mean(target, self.names)}; it has {self.names}"
        )

    def find_array(self, name: str) -> zarr.Array:
        """The dense array of a name. Raises StoreError if there is none."""
        with files.reading(self.path, "a Zarr store"):
            found = self._array(name)
        if found is None:
            raise StoreError(
                f"{self.path!r} has no dense array {name!r}{did_you_mean(name, self.names)}; it has {self.names}"
            )
        return self._as_stored(found)

    def _array(self, name: str) -> zarr.Array | None:
        found = self._get(name)
        return found if isinstance(found, zarr.Array) else None

    def _get(self, name: str) -> Any:
        if self.nodes is not None:
            return self.nodes.get(name)
        return self.node[name] if isinstance(self.node, zarr.Group) and name in self.node else None

    def _as_stored(self, node: Any) -> Any:
        """The node. Raises StoreError for an array of ours that should be one of others, or one of others that is encoded."""
        if self.store is None:
            array = node.data if isinstance(node, CsrArray) else node
            if "distrf" in array.attrs and isinstance(self.node, zarr.Group):
                raise StoreError(
                    f"the zarr.json of {self.path!r} is damaged: it has arrays of a store of distrf and no distrf attribute; "
                    "restore it, or remove the store and make it again"
                )
            check_foreign(self.path, array)
        return node

    def block_lengths(self, node: Any) -> tuple[int, ...]:
        """Rows of every block of an array: whole chunks, except the last."""
        n, *tail = node.shape
        row_size = math.prod(tail)
        if isinstance(node, zarr.Array):
            unit = int((node.shards or node.chunks)[0])
            itemsize = node.dtype.itemsize
        else:
            unit, itemsize = node.block_rows, 1
        if n < 1 or row_size < 1:
            raise StoreError(f"{self.path!r} is empty: {n} rows of {row_size} values")
        wanted = self.selection.rows_per_block
        if wanted is None:
            near = max(1, BLOCK_BYTES // (unit * row_size * itemsize)) * unit
            wanted = self.store.block_rows if self.store else near
        elif wanted < 1 or (wanted % unit and wanted < n):
            near = max(unit, wanted // unit * unit)
            raise StoreError(
                f"a block is a whole multiple of the chunks it reads: rows_per_block={wanted}, chunks of "
                f"{unit} rows in {self.path!r}; use rows_per_block={near} or {near + unit}"
            )
        return tuple(min(n - first, wanted) for first in range(0, n, wanted))

    def reader(self, name: str) -> ZarrRows:
        """What reads the array of a name, and names this version of the data."""
        options = self.selection.storage_options
        fs, root = files.filesystem(self.path, options)
        inner = f"{root}/{name}" if name else root
        metadata = [f"{root}/zarr.json", f"{inner}/zarr.json", f"{inner}/.zarray"]
        versions = json.dumps([files.fingerprint(fs, file) for file in metadata])
        return ZarrRows(
            self.path,
            name,
            hashlib.sha256(versions.encode()).hexdigest()[:16],
            version=self.store.fingerprint if self.store else None,
            storage_options=options,
        )
