"""Outputs written block by block, row stores in Zarr and folders of Parquet files: create, write, resume, append, finish.

What is being written has an id: a store that is not complete, or the rows that are appended to one that is. Every task carries
the id of what it writes, and writes nothing where the store has another one.

An append writes into the store. The block that the old rows left unfinished is replaced by one that begins with the same rows,
further blocks lie behind it, and the document of the store is replaced last. Until then the store has the old rows alone.
"""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import InputError, SpecMismatchError, StoreError
from . import files
from .outputs import Output, check_zarr_ending, require_id, to_parquet
from .spec import fingerprint_of_spec, to_json
from .zarr_arrays import Node, create_nodes, joined, open_nodes
from .zarr_layout import MANIFEST, PARTS, StoreInfo, info, read_store, write_store, writing


def _output(path: str | os.PathLike[str], parts: bool = True) -> Output:
    """Parquet, where it may be, or Zarr, by the ending of the path. Raises StoreError for that of another format."""
    path = files.normalise(path)
    if parts and to_parquet(path):
        return Output(path, "part files written by distrf", PARTS)
    check_zarr_ending(path)
    return Output(path, "a distrf store", "zarr.json")


@files.explains
def create(
    path: str | os.PathLike[str],
    contents: StoreInfo,
    *,
    provenance: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> StoreInfo:
    """Create a row store or a folder of part files, or return the existing one of the same contents, to be resumed.

    Parameters
    ----------
    path : path or URL
    contents : StoreInfo
        What the store will hold; see `StoreInfo.of`.
    provenance : mapping, optional
        Kept beside the contents and not compared.
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
    versions = [fingerprint_of_spec(contents.made)]
    output = _output(path, contents.kind == "parts")
    wanted = replace(contents, provenance=dict(provenance or {}), versions=versions)
    begun = output.begin(wanted, overwrite)
    if begun.kind != "parts":
        create_nodes(begun)
        output.current(begun.id)
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
    return _output(path, parts).existing()


def appendable(path: str | os.PathLike[str]) -> StoreInfo:
    """What a store holds to which rows can be appended.

    Parameters
    ----------
    path : path or URL

    Returns
    -------
    StoreInfo

    Raises
    ------
    StoreError
        There is no complete store of rows.
    """
    path = files.normalise(path)
    old = existing_store(path) or info(path)
    if not old.complete:
        raise StoreError(
            f"rows are appended to a complete store; {path!r} is not: run the command that writes it again"
        )
    if old.kind != "rows":
        raise StoreError(
            f"rows are appended to stores of rows; {path!r} holds {old.kind}: make it again of all rows"
        )
    return old


@files.explains
def begin_append(
    path: str | os.PathLike[str],
    n_rows: int,
    part: Mapping[str, Any],
    arrays: Mapping[str, tuple[tuple[int, ...], bool]],
    *,
    classes: Sequence[Any] | None = None,
) -> StoreInfo:
    """Begin to append rows to a store, or resume it: then come `write_block` of each pending block, and `finish`.

    Parameters
    ----------
    path : path or URL
        A complete store of rows that distrf wrote.
    n_rows : int
        New rows, at least 1.
    part : mapping
        Where they come from, as JSON: "fingerprint", and of files "content", tell whether they are in the store already, and
        whether an append that was interrupted was of these rows.
    arrays : mapping of str to (tuple of int, bool)
        Of each array of the new rows the shape of a row, and whether they are CSR.
    classes : sequence, optional
        Class names of the new rows. Those that the store does not know join its own.

    Returns
    -------
    StoreInfo
        The longer store, unfinished; `first_row` is the first new one. Codes of labels are of its classes.

    Raises
    ------
    StoreError
        There is no such store, or nothing can be appended to it.
    SpecMismatchError
        The store has these rows.
    InputError
        The new rows have other arrays, labels are text in one of both and numbers in the other, or there are no rows.
    """
    old = appendable(path)
    if n_rows < 1:
        raise InputError(f"an append has at least one row, got {n_rows}")
    path, known, spec = old.path, old.classes, old.spec
    has = {name: (item.tail, item.sparse) for name, item in old.arrays.items()}
    if has != arrays:
        of, new = (
            ", ".join(f"{name} {tail} {'CSR' if sparse else 'dense'}" for name, (tail, sparse) in found.items())
            for found in (has, arrays)
        )
        raise InputError(f"rows of {path!r} have {of}, the new ones have {new}; give the same arrays")
    if (classes is None) != (known is None):
        theirs, ours = ("text", "numbers") if classes is None else ("numbers", "text")
        raise InputError(
            f"the labels of {path!r} are {theirs}, those of the new rows {ours}; convert them first"
        )
    parts = spec.get("parts") or [{"fingerprint": old.versions[0], "rows": old.n_rows}]
    first = spec.get("source") or {"fingerprint": None}
    if any(
        other["fingerprint"] == part["fingerprint"] and other.get("content") in (None, part.get("content"))
        for other in (first, *parts)
    ):
        raise SpecMismatchError(f"{path!r} has these rows already, and would have them twice; append others")
    classes = None if classes is None else to_json(list(classes))
    wanted = {
        "n_rows": old.n_rows + n_rows,
        "spec": spec | {"parts": [*parts, to_json({**part, "rows": n_rows})]},
        "classes": None
        if classes is None
        else [*(known or ()), *(c for c in classes if c not in (known or ()))],
    }
    append: dict[str, Any] | None = old.append
    if append is None or to_json({key: append[key] for key in wanted}) != to_json(wanted):
        if append is not None:  # another one, which was interrupted: what it has written behind the old rows
            _resize(old, append["n_rows"], old.n_rows)
            _forget_marks(path)
        append = {**wanted, "id": uuid.uuid4().hex}
        write_store(replace(old, append=append))
    return writing(replace(old, append=append), append["id"])


@files.explains
def pending_blocks(path: str | os.PathLike[str], *, store_id: str | None = None) -> list[int]:
    """The blocks that are not yet finished.

    Parameters
    ----------
    path : path or URL
    store_id : str, optional
        As `begin_append` has returned it: those of an append.

    Returns
    -------
    list of int
        Their numbers, ascending.

    Raises
    ------
    StoreError
        There is no such store, or it is damaged.
    """
    output = _output(path)
    return writing(read_store(output.path, output.file), store_id).pending


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
        Every array of the store; SciPy sparse for the CSR ones. Of the first block of an append the new rows alone. For a part file
        the columns of any type, also of Arrow; a 2-D array becomes the columns name_0 ... name_{k-1}.
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
    output = _output(path)
    store, longer = output.current(store_id)
    if store.kind == "parts":
        return _write_part(output, store, index, arrays)
    start, stop = longer.bounds(index)
    if set(arrays) != set(longer.arrays):
        raise InputError(
            f"a block holds every array of its store: expected {sorted(longer.arrays)}, received {sorted(arrays)}"
        )
    new = max(start, longer.first_row)
    checked = {name: longer.arrays[name].checked(name, block, stop - new) for name, block in arrays.items()}
    if new > start:
        for name, node in open_nodes(store).items():
            with files.reading(output.path, "rows of a store"):
                checked[name] = joined([node[start:new], checked[name]])
    nodes = _writable(output.path, store_id)
    for name, block in checked.items():
        nodes[name][start:stop] = block
    fs, root = output.place
    files.write_bytes(fs, f"{root}/{longer.mark(index)}", b"")
    return stop - new


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
    output = _output(path)
    store, longer = output.whole(store_id)
    if store.kind == "parts":
        fs, root = output.place
        files.write_bytes(fs, f"{root}/_SUCCESS", b"")
    if store_id is not None:
        versions = store.versions
        if store.complete:
            _resize(store, longer.n_rows, longer.n_rows)
            versions = [*versions, fingerprint_of_spec(longer.made)]
        longer = replace(longer, id=None, complete=True, versions=versions)
        write_store(longer)
    if store.kind != "parts" and (store.append is None or store_id is not None):
        _forget_marks(output.path)
    return replace(longer, first_row=0)


@lru_cache(maxsize=8)
def _writable(path: str, store_id: str | None) -> dict[str, Node]:
    """The open arrays of what has this id, kept for this process."""
    store = read_store(path)
    return open_nodes(store, n_rows=writing(store, store_id).n_rows, writable=True)


def _resize(store: StoreInfo, now: int, wanted: int) -> None:
    """Give the arrays so many rows. Chunks of rows up to `now` that are then outside are removed."""
    for node in open_nodes(store, n_rows=now, writable=True).values():
        node.resize((wanted, *node.shape[1:]))


def _forget_marks(path: str) -> None:
    fs, root = files.filesystem(path)
    files.remove(fs, f"{root}/{MANIFEST}")


def _write_part(output: Output, store: StoreInfo, index: int, columns: Mapping[str, Any]) -> int:
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
    table, buffer = pa.table(flat), io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", compression_level=1, write_page_checksum=True)
    fs, root = output.place
    files.write_bytes(fs, f"{root}/{store.mark(index)}", buffer.getvalue())
    # Unlike a Zarr store, a folder could not tell that this is no block of its own.
    later = read_store(output.path, PARTS).id
    if later not in (None, store.id):
        files.remove(fs, f"{root}/{store.mark(index)}")
        require_id(output.path, later, store.id)
    return int(table.num_rows)
