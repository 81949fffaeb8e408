"""Row stores in Zarr, written block by block: create, write, resume, append, finish (NumPy and SciPy blocks).

What is being written has an id: a store that is not complete, or the rows that are appended to one that is. Every task carries
the id of what it writes, and writes nothing where the store has another one.

An append writes into the store. The block that the old rows left unfinished is replaced by one that begins with the same rows,
further blocks lie behind it, and the document of the store is replaced last. Until then the store has the old rows alone.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..errors import InputError, SpecMismatchError, StoreError
from . import files, zarr_layout
from .fingerprints import fingerprint_of_spec
from .job_lock import require_id
from .outputs import check_zarr_ending
from .spec import require_same, to_json
from .zarr_arrays import Node, create_nodes, joined, open_nodes
from .zarr_layout import (
    MANIFEST,
    Contents,
    StoreInfo,
    checked_block,
    info,
    info_of,
    made,
    our_attributes,
    pending,
    read_attributes,
    write_attributes,
    writing,
)  # fmt: skip


@files.explains
def create(
    path: str | os.PathLike[str],
    contents: Contents,
    *,
    provenance: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> StoreInfo:
    """Create a row store, or return the existing one with the same contents so that it can be resumed.

    Parameters
    ----------
    path : path or URL
    contents : Contents
        What the store will hold.
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
    InputError
        An array cannot be stored.
    """
    path = files.normalise(path)
    wanted = to_json(contents.attributes(), where="store")
    old = existing_store(path)
    if old is not None and not require_same(path, made(old), wanted, overwrite):
        _delete(path, old)
        old = None
    if old is None:
        attributes = wanted | {
            "format": zarr_layout.FORMAT,
            "provenance": to_json(provenance or {}, where="provenance"),
            "complete": False,
            "id": uuid.uuid4().hex,
            "versions": [fingerprint_of_spec(wanted)],
        }
        if not write_attributes(path, attributes, new=True):  # another job was faster
            require_same(path, made(our_attributes(path)), wanted, False)
    attributes = our_attributes(path)
    create_nodes(path, attributes)
    found = info(path)
    require_id(path, found.id, attributes.get("id"))
    return found


def existing_store(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """What of distrf is at an output path.

    A store without zarr.json, or without our attribute, was not made here and is never touched.

    Parameters
    ----------
    path : path or URL

    Returns
    -------
    dict, or None where the path is free
        The document of the store.

    Raises
    ------
    StoreError
        The path holds something else, or ends like another format.
    """
    path = files.normalise(path)
    check_zarr_ending(path)
    fs, root = files.filesystem(path)
    found = read_attributes(path)
    files.require_ours(path, found, fs, root, "a distrf store")
    return found


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
    existing_store(path)
    old = info(path)
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
    *,
    classes: Sequence[Any] | None = None,
    again: bool = False,
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
    classes : sequence, optional
        Class names of the new rows. Those that the store does not know join its own.
    again : bool
        Append rows that are in the store already.

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
        Labels are text in one of both and numbers in the other, or there are no rows.
    """
    path = files.normalise(path)
    appendable(path)
    old = our_attributes(path)
    if n_rows < 1:
        raise InputError(f"an append has at least one row, got {n_rows}")
    known, spec = old["classes"], old["spec"]
    if (classes is None) != (known is None):
        theirs, ours = ("text", "numbers") if classes is None else ("numbers", "text")
        raise InputError(
            f"the labels of {path!r} are {theirs}, those of the new rows {ours}; convert them first"
        )
    parts = spec.get("parts") or [{"fingerprint": old["versions"][0], "rows": old["n_rows"]}]
    source = spec.get("source") or {"fingerprint": None}
    first = source | {"fingerprint": part_fingerprint(source["fingerprint"], spec.get("split"))}
    if not again and any(
        other["fingerprint"] == part["fingerprint"] and other.get("content") in (None, part.get("content"))
        for other in (first, *parts)
    ):
        raise SpecMismatchError(
            f"{path!r} has these rows already, and would have them twice; append others, or again=True"
        )
    wanted = {
        "n_rows": old["n_rows"] + n_rows,
        "spec": spec | {"parts": [*parts, to_json({**part, "rows": n_rows})]},
        "classes": None
        if classes is None
        else [*known, *(name for name in to_json(list(classes)) if name not in known)],
    }
    append = old.get("append")
    if append is None or {key: append[key] for key in wanted} != wanted:
        if append is not None:  # another one, which was interrupted: what it has written behind the old rows
            _resize(path, old, append["n_rows"], old["n_rows"])
            _forget_marks(path)
        append = wanted | {"id": uuid.uuid4().hex}
        write_attributes(path, old | {"append": append})
    return info_of(path, writing(old | {"append": append}, append["id"]))


def part_fingerprint(fingerprint: str | None, split: str | None) -> str | None:
    """The fingerprint of rows that were ingested: of their file, or of the members of a split in it.

    Parameters
    ----------
    fingerprint : str or None
        Of the file.
    split : str or None

    Returns
    -------
    str or None
    """
    return fingerprint if split is None else f"{fingerprint} {split}"


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
    path = files.normalise(path)
    return pending(path, writing(our_attributes(path), store_id))


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
        Every array of the store; SciPy sparse for the CSR ones. Of the first block of an append the new rows alone.
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
    path = files.normalise(path)
    attributes = our_attributes(path)
    longer = writing(attributes, store_id)
    require_id(path, longer.get("id"), store_id)
    described, old_rows = longer["arrays"], longer["first_row"]
    start, stop = zarr_layout.bounds(index, longer["n_rows"], longer["block_rows"])
    if set(arrays) != set(described):
        raise InputError(
            f"a block holds every array of its store: expected {sorted(described)}, received {sorted(arrays)}"
        )
    new = max(start, old_rows)
    checked = {name: checked_block(name, arrays[name], described[name], stop - new) for name in arrays}
    if new > start:
        for name, node in open_nodes(path, attributes).items():
            with files.reading(path, "rows of a store"):
                checked[name] = joined([node[start:new], checked[name]])
    nodes = _writable(path, store_id)
    for name, block in checked.items():
        nodes[name][start:stop] = block
    fs, root = files.filesystem(path)
    files.write_bytes(fs, f"{root}/{MANIFEST}/{store_id}/{index}", b"")
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
    path = files.normalise(path)
    attributes = our_attributes(path)
    longer = writing(attributes, store_id)
    require_id(path, longer.get("id"), store_id)
    if store_id is not None:
        missing = pending(path, longer)
        if missing:
            total = zarr_layout.count_blocks(longer["n_rows"], longer["block_rows"])
            raise StoreError(
                f"a store is finished when all blocks are: {len(missing)} of {total} blocks of {path!r} are "
                f"missing, the first is {missing[0]}; write them first"
            )
        written = {key: value for key, value in longer.items() if key not in ("id", "append", "first_row")}
        if attributes["complete"]:
            _resize(path, attributes, longer["n_rows"], longer["n_rows"])
            written["versions"] = [*attributes["versions"], fingerprint_of_spec(made(longer))]
        write_attributes(path, written | {"complete": True})
    fs, root = files.filesystem(path)
    files.remove_partials(fs, root)
    if "append" not in attributes or store_id is not None:
        _forget_marks(path)
    return info(path)


@lru_cache(maxsize=8)
def _writable(path: str, store_id: str | None) -> dict[str, Node]:
    """The open arrays of what has this id, kept for this process."""
    attributes = our_attributes(path)
    n_rows = writing(attributes, store_id)["n_rows"]
    return open_nodes(path, attributes, n_rows=n_rows, writable=True)


def _resize(path: str, attributes: dict[str, Any], now: int, wanted: int) -> None:
    """Give the arrays so many rows. Chunks of rows up to `now` that are then outside are removed."""
    for node in open_nodes(path, attributes, n_rows=now, writable=True).values():
        node.resize((wanted, *node.shape[1:]))


def _delete(path: str, attributes: dict[str, Any]) -> None:
    fs, root = files.filesystem(path)
    # If this process is killed half-way, what is left must still be known as an incomplete store of ours.
    gone = {**attributes, "complete": False, "id": uuid.uuid4().hex}
    gone.pop("append", None)
    write_attributes(path, gone)
    for name in sorted(files.names_in(fs, root) - {"zarr.json"}):
        files.remove(fs, f"{root}/{name}")
    files.remove(fs, f"{root}/zarr.json")


def _forget_marks(path: str) -> None:
    fs, root = files.filesystem(path)
    files.remove(fs, f"{root}/{MANIFEST}")
