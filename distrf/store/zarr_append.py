"""Rows appended to a row store: a store of all rows is made beside it, and takes its place in one step.

The new store shares the files of all full blocks with the old one, by hard links: no file of a row store is ever changed, only
replaced. What is written is the block that the old rows left unfinished, the blocks after it, and the manifest. Until the
last step the old store is read as it was; an append that was interrupted goes on from the blocks that are there.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, SpecMismatchError, StoreError
from . import files, zarr_writer
from .checksums import Ledger, our_attributes
from .fingerprints import fingerprint_of_spec
from .job_lock import check, require_id
from .row_source import Selection
from .zarr_contents import COMPARED
from .zarr_layout import MANIFEST, StoreInfo
from .zarr_place import ZarrPlace

#: Of renameat2(2) on Linux: paths of the working folder, and the exchange of two.
_HERE, _EXCHANGE = -100, 2


@dataclass(frozen=True)
class Append:
    """An append under way.

    Attributes
    ----------
    old : StoreInfo
        The store as it is.
    info : StoreInfo
        The longer one, unfinished, beside it. Codes of labels are of its classes.
    checksum : str
        Of the attributes of the old store.
    """

    old: StoreInfo
    info: StoreInfo
    checksum: str

    @property
    def first(self) -> int:
        """The first block that is not one of the old store as it is."""
        return self.old.n_rows // self.old.block_rows

    @property
    def lengths(self) -> list[int]:
        """New rows of each block from `first` on."""
        ends = [stop for index, _, stop in self.info.blocks() if index >= self.first]
        return np.diff([self.old.n_rows, *ends]).tolist()

    def pending(self) -> list[int]:
        """The blocks with new rows that are not yet written."""
        return [index for index in zarr_writer.pending_blocks(self.info.path) if index >= self.first]

    def share_blocks(self) -> None:
        """Give the longer store the blocks that are full in the old one."""
        old, new = self.old.path, self.info.path
        attributes = our_attributes(old, None)
        before, after = Ledger.of(attributes), Ledger.of(our_attributes(new, None))
        require_id(new, zarr_writer.info(new).id, self.info.id)
        groups: list[Any] = [files.open_group(old, "r"), files.open_group(new, "r+")]
        read, written = (group[MANIFEST] for group in groups)
        left = [index for index in zarr_writer.pending_blocks(new) if index < self.first]
        for index in left:
            record = before.read(read, index, old)
            for key, may_lack in _chunk_files(attributes, before, index):
                _share(f"{old}/{key}", f"{new}/{key}", may_lack)
            written[index * after.width : (index + 1) * after.width] = after.record(index, record)

    def completed(self, index: int, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays of a block that begins with new rows; before those of the first one come the last of the old store."""
        return complete(self.old.path, self.old.n_rows, index * self.old.block_rows, arrays)

    def finish(self) -> StoreInfo:
        """Let the longer store take the place of the old one."""
        zarr_writer.finish(self.info.path, store_id=self.info.id)
        check()
        require_id(self.old.path, our_attributes(self.old.path, None)["checksum"], self.checksum)
        _swap(self.info.path, self.old.path)
        return zarr_writer.info(self.old.path)


def complete(path: str, n_rows: int, first: int, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """New rows with the rows of a store before them, from which their block begins.

    Parameters
    ----------
    path : str
        The store to which rows are appended.
    n_rows : int
        Its rows.
    first : int
        The first row of the block.
    arrays : mapping of str to array
        The new rows of every array of the store.

    Returns
    -------
    dict of str to array
    """
    if first >= n_rows:
        return dict(arrays)
    place = ZarrPlace.open(path, Selection())
    return {name: _joined(place.reader(name).read(first, n_rows), new) for name, new in arrays.items()}


def begin(
    path: str | os.PathLike[str],
    n_rows: int,
    part: Mapping[str, Any],
    *,
    classes: Sequence[Any] | None = None,
    again: bool = False,
) -> Append:
    """Begin to append rows to a store, or resume it.

    Parameters
    ----------
    path : path
        A complete store of rows that distrf wrote, on a file system.
    n_rows : int
        New rows, at least 1.
    part : mapping
        Where they come from, as JSON; its "fingerprint" tells whether they are in the store already.
    classes : sequence, optional
        Class names of the new rows. Those that the store does not know join its own.
    again : bool
        Append rows that are in the store already.

    Returns
    -------
    Append

    Raises
    ------
    StoreError
        There is no such store, or nothing can be appended to it.
    SpecMismatchError
        The store has these rows.
    InputError
        Labels are text in one of both and numbers in the other, or there are no rows.
    """
    path = _checked_place(path)
    recover(path)
    attributes = _checked_store(path)
    old = zarr_writer.info(path)
    if n_rows < 1:
        raise InputError(f"an append has at least one row, got {n_rows}")
    if (classes is None) != (old.classes is None):
        theirs, ours = ("text", "numbers") if classes is None else ("numbers", "text")
        raise InputError(
            f"the labels of {path!r} are {theirs}, those of the new rows {ours}; convert them first"
        )
    known = old.classes or []
    joined = None if classes is None else [*known, *(name for name in classes if name not in known)]
    made = {key: attributes[key] for key in COMPARED}
    parts = made["spec"].get("parts") or [{"fingerprint": fingerprint_of_spec(made), "rows": old.n_rows}]
    if part["fingerprint"] in {_source_of(made["spec"]), *(p["fingerprint"] for p in parts)} and not again:
        raise SpecMismatchError(
            f"{path!r} has these rows already, and would have them twice; append others, or again=True"
        )
    spec = made["spec"] | {"parts": [*parts, {**part, "rows": n_rows}]}
    entries = made | {"n_rows": old.n_rows + n_rows, "spec": spec, "classes": joined}
    info = zarr_writer.create(_beside(path), entries, provenance=attributes["provenance"], overwrite=True)
    return Append(old, info, attributes["checksum"])


def part_fingerprint(fingerprint: str, split: str | None) -> str:
    """The fingerprint of rows that were ingested: of their file, or of the members of a split in it.

    Parameters
    ----------
    fingerprint : str
        Of the file.
    split : str or None

    Returns
    -------
    str
    """
    return fingerprint if split is None else f"{fingerprint} {split}"


def _source_of(spec: Mapping[str, Any]) -> str | None:
    """The fingerprint of what a store was ingested from."""
    source = spec.get("source")
    return None if not source else part_fingerprint(source["fingerprint"], spec.get("split"))


def recover(path: str) -> None:
    """Undo or end what a process that was killed in `_swap` has left, where a system cannot exchange two paths.

    Parameters
    ----------
    path : str
        Normalised, of a store.
    """
    retired = _retired(_beside(path))
    if not os.path.isdir(retired):
        return
    if os.path.isdir(path):
        files.remove(files.filesystem(path)[0], retired)
    else:
        os.rename(retired, path)


def _checked_place(path: str | os.PathLike[str]) -> str:
    path = files.normalise(path)
    if not files.is_local(path):
        raise StoreError(
            f"rows are appended on a file system, where a store takes the place of another in one step; {path!r} is a URL: "
            "append where the store is made and copy it, or write the rows to a store of their own"
        )
    files.refuse_root(path)
    return path


def _checked_store(path: str) -> dict[str, Any]:
    """The attributes of a store to which rows can be appended."""
    zarr_writer.existing_store(path)
    attributes = our_attributes(path, None)
    if not attributes["complete"]:
        raise StoreError(
            f"rows are appended to a complete store; {path!r} is not: run the command that writes it again"
        )
    if attributes["kind"] != "rows":
        raise StoreError(
            f"rows are appended to stores of rows; {path!r} holds {attributes['kind']}: make it again of all rows"
        )
    return attributes


def _beside(path: str) -> str:
    """Where the longer store is made: always the same place, so that the next call goes on there."""
    folder, base = os.path.split(path)
    return os.path.join(folder, f".{base}.append")


def _retired(new: str) -> str:
    return f"{new}.old"


def _chunk_files(attributes: Mapping[str, Any], ledger: Ledger, index: int) -> Iterator[tuple[str, bool]]:
    """The files of a block, by their names in the store, and whether they may lack: CSR rows need not all of their room."""
    for array, (_, rows, beside) in ledger.places.items():
        dense = attributes["arrays"].get(array)
        more = 0 if dense is None else max(0, len(dense["tail"]) - 1)
        for row in range(index * rows, (index + 1) * rows):
            for column in range(beside):
                place = [row, *([column, *[0] * more] if dense is not None and dense["tail"] else [])]
                yield f"{array}/c/{'/'.join(map(str, place))}", dense is None


def _share(old: str, new: str, may_lack: bool) -> None:
    """Make a file of the old store one of the new store too."""
    if may_lack and not os.path.exists(old):
        return
    os.makedirs(os.path.dirname(new), exist_ok=True)
    if os.path.lexists(new):  # of a call that was interrupted
        os.unlink(new)
    try:
        os.link(old, new)
    except FileNotFoundError as error:
        raise StoreError(f"{old!r} is missing though its store is complete; restore it") from error
    except OSError:  # a file system without hard links
        shutil.copyfile(old, new)


def _joined(old: Any, new: Any) -> Any:
    if sp.issparse(old):
        return sp.csr_array(sp.vstack([old, new], format="csr"))
    return np.concatenate([old, np.asarray(new)])


def _swap(new: str, path: str) -> None:
    """Put a store in the place of another, which is removed."""
    fs = files.filesystem(path)[0]
    if _exchanged(new, path):
        files.remove(fs, new)
        return
    os.rename(path, _retired(new))
    os.rename(new, path)
    files.remove(fs, _retired(new))


def _exchanged(one: str, other: str) -> bool:
    """Exchange two paths in one step; False where the system cannot."""
    try:
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # not Linux
        return False
    return bool(exchange(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)
