"""Rows in Zarr: stores of distrf, groups of others with arrays X and y, single arrays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import zarr

from ..errors import InputError, StoreError
from . import csr_groups, files, zarr_writer
from .files import Options
from .fingerprints import fingerprint_of_files
from .foreign_arrays import check_foreign, count_missing
from .row_source import BLOCK_BYTES, RowSource, Selection
from .zarr_layout import MANIFEST, StoreInfo
from .zarr_reader import ZarrRows, class_array

_METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup")


@dataclass(frozen=True, kw_only=True)
class ZarrSource(RowSource):
    """One array of a Zarr store; see `RowSource`.

    Parameters
    ----------
    rows : ZarrRows
        What reads a block.
    node : zarr.Array or zarr.Group
        The open array, or the group of a CSR array.
    group : zarr.Group or zarr.Array
        The open store.
    store : StoreInfo, optional
        What distrf wrote of its own store; None for stores of others.
    selection : Selection
        As it was opened.
    """

    rows: ZarrRows
    node: Any
    group: Any
    store: StoreInfo | None
    selection: Selection

    @classmethod
    def recognises(cls, path: str, storage_options: Options = None) -> bool:
        """True where the metadata of a group or an array are."""
        fs, root = files.filesystem(path, storage_options)
        return any(fs.exists(f"{root}/{name}") for name in ("zarr.json", ".zgroup", ".zarray"))

    @classmethod
    def open(cls, path: str, selection: Selection) -> ZarrSource:
        """X: the array of that name, else the only 2-D array, or the store itself where it is one array."""
        group, store = _open_node(path, selection.storage_options)
        with files.reading(path, "a Zarr store"):
            node, name = _find_x(group, path)
        if store is None and isinstance(node, zarr.Array):
            check_foreign(path, node)
        n, d = _shape(node)
        lengths = _block_lengths(path, node, n, d, store, selection.rows_per_block)
        names = store.columns if store else None
        chosen = _column_numbers(path, selection.columns, d, names)
        if names is not None and chosen is not None:
            names = [names[j] for j in chosen]
        rows = replace(_reader(path, group, name, selection.storage_options), columns=chosen)
        sparse = not isinstance(node, zarr.Array)
        return cls(
            path=path,
            shape=(n, d if chosen is None else len(chosen)),
            dtype=np.dtype(node["data"].dtype if sparse else node.dtype),
            block_lengths=lengths,
            columns=names,
            sparse=sparse,
            target=store.target if store else selection.target,
            classes=store.classes if store else None,
            rows=rows,
            node=node,
            group=group,
            store=store,
            selection=selection,
        )

    @classmethod
    def open_array(cls, path: str, name: str, selection: Selection) -> ZarrSource:
        """One dense array of a store, by its name. Raises StoreError if there is none."""
        group, store = _open_node(path, selection.storage_options)
        with files.reading(path, "a Zarr store"):
            node = group[name] if isinstance(group, zarr.Group) and name in group else None
        if not isinstance(node, zarr.Array):
            raise StoreError(f"{path!r} has no dense array {name!r}; it has {_names(group)}")
        if store is None:
            check_foreign(path, node)
        row_size = int(np.prod(node.shape[1:], dtype=np.int64))
        lengths = _block_lengths(path, node, node.shape[0], row_size, store, selection.rows_per_block)
        return _dense(path, group, node, name, lengths, store, selection)

    def check_missing(self, strict: bool) -> None:
        """Count the chunks that a store of others lacks; a block of ours cannot be read without its chunks."""
        if self.store is None and isinstance(self.node, zarr.Array):
            count_missing(self.path, self.node, strict, self.selection.storage_options)

    def target_source(self) -> ZarrSource | None:
        """The array of that name, by default y."""
        with files.reading(self.path, "a Zarr store"):
            node, name = _find_y(self.group, self.path, self.selection.target)
        if node is None:
            return None
        if self.store is None:
            check_foreign(self.path, node)
        if node.ndim not in (1, 2) or node.shape[0] != self.shape[0]:
            raise StoreError(
                f"X and y must have the same rows: X has shape {_shape(self.node)}, {name!r} has shape {node.shape} "
                f"in {self.path!r}"
            )
        return _dense(self.path, self.group, node, name, self.block_lengths, self.store, self.selection)

    def read(self, first: int, last: int) -> Any:
        """Rows ``first:last``; see `ZarrRows.read`."""
        return self.rows.read(first, last)

    def blocks(self) -> Iterator[tuple[ZarrRows, int, int]]:
        """The same reader for all blocks."""
        return ((self.rows, first, last) for _, first, last in super().blocks())

    def filled(self, values: tuple[float, ...]) -> ZarrSource:
        """NaN read as these numbers."""
        return replace(self, rows=replace(self.rows, impute=values))

    @classmethod
    def fingerprint(cls, path: str, storage_options: Options = None) -> str:
        """What a store of distrf was made from; of another its path and metadata."""
        fs, root = files.filesystem(path, storage_options)
        if not fs.isdir(root):
            return fingerprint_of_files([path], storage_options)
        ours = zarr_writer.made_from(path, storage_options=storage_options)
        if ours is not None:
            return hashlib.sha256(json.dumps(ours, sort_keys=True).encode()).hexdigest()[:32]
        found = hashlib.sha256(path.encode())
        for name in sorted(fs.find(root, maxdepth=2)):
            if name.rsplit("/", 1)[-1] in _METADATA:
                found.update(fs.cat_file(name))
        return found.hexdigest()[:32]

    @property
    def nbytes(self) -> int:
        """Bytes in memory; of a CSR array those of its files."""
        if not self.sparse:
            return super().nbytes
        fs, root = files.filesystem(self.path, self.selection.storage_options)
        return int(fs.du(f"{root}/{self.rows.array}"))


def _open_node(path: str, storage_options: Options) -> tuple[zarr.Group | zarr.Array, StoreInfo | None]:
    """The Zarr node, and our information about it if it is our store."""
    files.require(path, storage_options)
    node = files.open_group(path, "r", storage_options)
    if _is_ours(node):
        store = zarr_writer.info(path, storage_options=storage_options)
        if not store.complete:
            raise StoreError(
                f"only a complete store can be read: {store.n_blocks - store.pending} of {store.n_blocks} blocks of "
                f"{path!r} are finished; run the command that writes it again, and it resumes where it stopped"
            )
        return node, store
    if isinstance(node, zarr.Group) and MANIFEST in node and "distrf" in node[MANIFEST].attrs:
        raise StoreError(
            f"the zarr.json of {path!r} is damaged: it has the manifest of a store of distrf and no distrf attribute; "
            "restore it, or remove the store and make it again"
        )
    return node, None


def _is_ours(group: Any) -> bool:
    return isinstance(group, zarr.Group) and "distrf" in group.attrs


def _names(group: Any) -> list[str]:
    return sorted(key for key in group) if isinstance(group, zarr.Group) else ["(a single array)"]


def _find_x(group: Any, path: str) -> tuple[Any, str]:
    """The node of X and its name; "" for a store that is a single array."""
    if isinstance(group, zarr.Array):
        node, name = group, ""
    elif "X" in group:
        node, name = group["X"], "X"
    else:
        matrices = [key for key, item in group.arrays() if item.ndim == 2]
        if len(matrices) != 1:
            raise StoreError(
                f"X is the array called X, or else the only 2-D array; {path!r} has {_names(group)}; open one "
                "array by its own path, or open_array(path, name)"
            )
        node, name = group[matrices[0]], matrices[0]
    if isinstance(node, zarr.Group) and not csr_groups.is_csr(node):
        raise StoreError(f"{name!r} of {path!r} is a group that is not in distrf's CSR layout")
    if isinstance(node, zarr.Array) and (node.ndim != 2 or node.dtype.kind not in "biuf"):
        raise StoreError(
            f"X is a 2-D numeric array; {name or path!r} has shape {node.shape} and dtype {node.dtype}"
        )
    return node, name


def _find_y(group: Any, path: str, target: str | None) -> tuple[Any, str]:
    if isinstance(group, zarr.Group):
        name = target or "y"
        if name in group and isinstance(group[name], zarr.Array):
            return group[name], name
    if target is None:
        return None, ""
    # An ingested store calls its target y, whatever its name was in the source.
    if _is_ours(group) and group.attrs["distrf"]["target"] == target and "y" in group:
        return group["y"], "y"
    raise StoreError(f"the target {target!r} is not an array of {path!r}; it has {_names(group)}")


def _shape(node: Any) -> tuple[int, int]:
    shape = node.shape if isinstance(node, zarr.Array) else node.attrs["shape"]
    return int(shape[0]), int(shape[1])


def _block_lengths(
    path: str, node: Any, n: int, row_size: int, store: StoreInfo | None, rows_per_block: int | None
) -> tuple[int, ...]:
    """Rows of every block: whole chunks, except the last."""
    if isinstance(node, zarr.Array):
        unit = int((node.shards or node.chunks)[0])
        itemsize = node.dtype.itemsize
    else:
        unit, itemsize = int(node.attrs["block_rows"]), 1
    if n < 1 or row_size < 1:
        raise StoreError(f"{path!r} is empty: {n} rows of {row_size} values")
    if rows_per_block is None:
        near = max(1, BLOCK_BYTES // (unit * row_size * itemsize)) * unit
        rows_per_block = store.block_rows if store else near
    elif rows_per_block < 1 or (rows_per_block % unit and rows_per_block < n):
        near = max(unit, rows_per_block // unit * unit)
        raise StoreError(
            f"a block is a whole multiple of the chunks it reads: rows_per_block={rows_per_block}, chunks of "
            f"{unit} rows in {path!r}; use rows_per_block={near} or {near + unit}"
        )
    return tuple(min(n - first, rows_per_block) for first in range(0, n, rows_per_block))


def _reader(path: str, group: Any, name: str, storage_options: Options) -> ZarrRows:
    fs, root = files.filesystem(path, storage_options)
    inner = f"{root}/{name}" if name else root
    metadata = [f"{root}/zarr.json", f"{inner}/zarr.json", f"{inner}/.zarray"]
    versions = json.dumps([files.fingerprint(fs, file) for file in metadata])
    return ZarrRows(
        path,
        name,
        hashlib.sha256(versions.encode()).hexdigest()[:16],
        checksum=files.checksum(fs, metadata[0]) if _is_ours(group) else None,
        storage_options=storage_options,
    )


def _dense(
    path: str,
    group: Any,
    node: zarr.Array,
    name: str,
    block_lengths: tuple[int, ...],
    store: StoreInfo | None,
    selection: Selection,
) -> ZarrSource:
    """A dense array beside X; codes of a target or a prediction become class names if the store has them."""
    classes = store.classes if store and node.dtype.kind in "iu" and name in ("y", "prediction") else None
    rows = _reader(path, group, name, selection.storage_options)
    return ZarrSource(
        path=path,
        shape=tuple(node.shape),
        dtype=np.dtype(class_array(classes).dtype if classes else node.dtype),
        block_lengths=block_lengths,
        classes=classes,
        rows=replace(rows, decode=bool(classes)),
        node=node,
        group=group,
        store=store,
        selection=selection,
    )


def _column_numbers(
    path: str, columns: Sequence[Any] | None, d: int, names: list[str] | None
) -> tuple[int, ...] | None:
    if columns is None:
        return None
    chosen = []
    for column in columns:
        if isinstance(column, str) and names and column in names:
            chosen.append(names.index(column))
        elif not isinstance(column, str) and 0 <= int(column) < d:
            chosen.append(int(column))
        else:
            known = f"columns {names[:20]}" if names else f"no column names, only numbers 0..{d - 1}"
            raise InputError(f"column {column!r} is not in {path!r}, which has {known}")
    if not chosen:
        raise InputError("columns= chooses at least one column; received none")
    return tuple(chosen)
