"""Outputs that are written block by block, Zarr stores and folders of Parquet files: begun, resumed or replaced, and finished.

An output has a record: what it is made from, and an id until it is finished. Every task carries the id of what it writes, and
writes nothing where the record has another one.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from ..errors import StoreError
from . import files
from .job_lock import require_id
from .spec import require_same


class Output(ABC):
    """An output of blocks.

    Parameters
    ----------
    path : path or URL
    """

    #: What it is, in words.
    what: str
    #: The name of the file of the record.
    file: str

    def __init__(self, path: Any):
        self.path = files.normalise(path)
        self.fs, self.root = files.filesystem(self.path)

    @abstractmethod
    def read(self) -> Any:
        """The record, a dataclass with `made`, `id`, `complete` and `n_blocks`; None where there is none."""

    @abstractmethod
    def write(self, record: Any, *, new: bool = False) -> bool:
        """Write the record in one step; False where `new` is asked for and there is one."""

    @abstractmethod
    def pending(self, record: Any) -> list[int]:
        """The blocks that are not finished."""

    def existing(self) -> Any:
        """The record of an output path, None where it is free. Raises StoreError where it holds something else."""
        found = self.read()
        files.require_ours(self.path, found, self.fs, self.root, self.what)
        return found

    def begin(self, wanted: Any, overwrite: bool) -> Any:
        """The record of the output that is made from the same, to be resumed, or else a new one.

        Raises SpecMismatchError for an output that is made from something else, unless it may be replaced.
        """
        old = self.existing()
        if old is not None and not require_same(self.path, old.made, wanted.made, overwrite):
            # Tasks of the job that writes it see another id. The record goes last: killed half-way, it is an unfinished output of ours.
            self.write(replace(old, id=uuid.uuid4().hex, complete=False))
            for name in sorted(files.names_in(self.fs, self.root), key=lambda name: (name == self.file, name)):
                files.remove(self.fs, f"{self.root}/{name}")
            old = None
        if old is None:
            old = replace(wanted, id=uuid.uuid4().hex, complete=False)
            if not self.write(old, new=True):  # another job was faster
                old = self.existing()
                require_same(self.path, old.made, wanted.made, False)
        return old

    def check(self, record: Any, wanted: str | None) -> None:
        """Raise InUseError where another job has made the output anew, StoreError where blocks are missing."""
        require_id(self.path, record.id, wanted)
        if missing := self.pending(record):
            raise StoreError(
                f"an output is finished when all blocks are: {len(missing)} of {record.n_blocks} blocks of {self.path!r} are missing, "
                f"the first is {missing[0]}; write them first"
            )
