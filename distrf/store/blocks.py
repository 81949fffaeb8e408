"""Outputs that are written block by block, Zarr stores and folders of Parquet files: begun, resumed or replaced, and finished.

An output has a document: what it is made from, and an id until it is finished. Every task carries the id of what it writes, and
writes nothing where the document has another one.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Any

from ..errors import StoreError
from . import files
from .files import Place
from .job_lock import require_id
from .spec import require_same
from .zarr_layout import StoreInfo, read_document, read_store, write_store, writing


@dataclass(frozen=True)
class Output:
    """An output of blocks.

    Parameters
    ----------
    path : Place
    what : str
        What it is, in words.
    file : str
        The name of the file of its document.
    """

    path: Place
    what: str
    file: str

    @property
    def place(self) -> tuple[Any, str]:
        """The file system, and the path in it."""
        return files.filesystem(self.path)

    def existing(self) -> StoreInfo | None:
        """What is at an output path, None where it is free. Raises StoreError where it holds something else."""
        found = None if read_document(self.path, self.file) is None else read_store(self.path, self.file)
        files.require_ours(self.path, found, *self.place, self.what)
        return found

    def begin(self, wanted: StoreInfo, overwrite: bool) -> StoreInfo:
        """The output that is made from the same, to be resumed, or else a new one.

        Raises SpecMismatchError for an output that is made from something else, unless it may be replaced.
        """
        wanted = replace(wanted, path=self.path, id=uuid.uuid4().hex, complete=False)
        old = self.existing()
        if old is not None and not require_same(self.path, old.made, wanted.made, overwrite):
            # Tasks of the job that writes it see another id. The document goes last: killed half-way, it is an unfinished output of ours.
            write_store(replace(old, id=uuid.uuid4().hex, complete=False, append=None))
            fs, root = self.place
            for name in sorted(files.names_in(fs, root), key=lambda name: (name == self.file, name)):
                files.remove(fs, f"{root}/{name}")
            old = None
        if old is not None or write_store(wanted, new=True):
            return old or wanted
        old = read_store(self.path, self.file)  # another job was faster
        require_same(self.path, old.made, wanted.made, False)
        return old

    def current(self, store_id: str | None) -> tuple[StoreInfo, StoreInfo]:
        """The output, and as it will be when what has this id is written. Raises InUseError where another job has made it anew."""
        store = read_store(self.path, self.file)
        longer = writing(store, store_id)
        require_id(self.path, longer.id, store_id)
        return store, longer

    def whole(self, store_id: str | None) -> tuple[StoreInfo, StoreInfo]:
        """`current`, without what a killed writer left; StoreError where blocks are missing."""
        store, longer = self.current(store_id)
        if missing := longer.pending:
            raise StoreError(
                f"an output is finished when all blocks are: {len(missing)} of {longer.n_blocks} blocks of {self.path!r} are missing, "
                f"the first is {missing[0]}; write them first"
            )
        files.remove_partials(*self.place)
        return store, longer
