"""A document from which an interrupted job resumes and ends with the same bits: for passes and for training in batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .errors import SpecMismatchError
from .store import files
from .store.documents import Document
from .store.spec import from_json, require_same, to_json

#: How many rows, and how many targets, a checkpoint keeps. A resumed job compares them with its own data.
COMPARED_ROWS, COMPARED_TARGETS = 16, 256


def _tolerances(rows: np.ndarray) -> Any:
    """How far the numbers of each column may differ: features differ by rounding if the chunks differ.

    Rounding is small against the spread of a column. Columns of nothing but rounding have that of a middle column: not of
    the widest, beside whose identifiers near 10^7 float32 columns of other rows would pass.
    """
    if rows.dtype.kind != "f":
        return 0
    known = np.where(np.isfinite(rows), rows, 0)
    spread, rounding = np.ptp(known, axis=0), 8 * np.finfo(rows.dtype).eps
    return 1e-3 * spread + rounding * (np.abs(known).max(axis=0) + np.median(spread))


class Checkpoint:
    """What a job keeps on disk: the arrays of its steps, then states of the training loop, each of which replaces an older one.

    A step makes named arrays from the arrays of the steps before it. All are one document (`distrf.store.documents`), which
    each step and each state swaps for the next: a job that dies loses the step it was in and no other.

    Parameters
    ----------
    path : path or URL, optional
        Folder of the checkpoint; None keeps nothing.
    job : mapping
        What determines the numbers, as JSON. A checkpoint of another job is refused.

    Attributes
    ----------
    arrays : dict of str to array
        The named arrays after the last step.

    Raises
    ------
    SpecMismatchError
        The folder holds a checkpoint of another job.
    StoreError
        The folder holds a model, or what it holds is damaged.
    """

    def __init__(self, path: str | os.PathLike[str] | None, job: Mapping[str, Any]):
        self.path = None if path is None else files.normalise(path)
        self.job = from_json(to_json(dict(job)))
        self.arrays: dict[str, np.ndarray] = {}
        self._document = Document(self.path or "", "checkpoint")
        #: Of the files of arrays that are kept: "1", "2", ... of steps in their order, "state".
        self._records: dict[str, Any] = {}
        self._count = self._done = 0
        self._numbers: dict[str, Any] | None = None
        self._earlier = True
        if self.path is None or (found := self._document.existing()) is None:
            return
        spec = from_json(found["spec"])
        remedy = "give the options it was started with, choose another folder, or remove it"
        require_same(self.path, spec["job"], self.job, False, "is the checkpoint of another job", remedy)
        self._records, self._done, self._numbers = found["arrays"], spec["steps"], spec["state"]
        for step in sorted(self._records.keys() - {"state"}, key=int):
            self.arrays |= self._read(step)

    def check_rows(self, rows: np.ndarray, name: str = "rows") -> None:
        """Keep a few rows as a step, or those that an earlier run has kept, and compare them with these.

        Parameters
        ----------
        rows : array of shape (rows, columns)
        name : str
            Name of the array, and of the rows in the message.

        Raises
        ------
        SpecMismatchError
            The checkpoint was made from other rows.
        """
        stored = self.run(lambda _: {name: rows})[name]
        if stored.shape != rows.shape or not np.allclose(
            stored, rows, rtol=0, atol=_tolerances(rows), equal_nan=True
        ):
            raise SpecMismatchError(
                f"the checkpoint {self.path!r} was written by a fit to other {name}; choose another folder, or "
                "remove it"
            )

    def run(self, step: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Compute a step, unless an earlier run has finished it.

        Parameters
        ----------
        step : callable
            Takes the arrays so far and returns the new ones, by name.

        Returns
        -------
        dict of str to array
            All arrays after this step.
        """
        self._count += 1
        if self._count > self._done:
            # In C order, as arrays are read from files: with another memory order BLAS results differ in the last bits.
            results = {name: np.asarray(array, order="C") for name, array in step(self.arrays).items()}
            self.arrays = self.arrays | results
            self._done = self._count
            self._write(str(self._done), results)
        return self.arrays

    def once(self, make: Callable[[], np.ndarray]) -> np.ndarray:
        """Compute one array as a step of its own. It is returned, and not kept in `arrays`.

        Parameters
        ----------
        make : callable
            Makes the array. It is not called if an earlier run has kept the array.

        Returns
        -------
        array
        """
        name = f"array{self._count + 1}"
        self.run(lambda _: {name: make()})
        return self.arrays.pop(name)

    def keep(self, arrays: Mapping[str, np.ndarray], numbers: Mapping[str, Any]) -> None:
        """Write a state of the training loop in place of the one before. All steps must be done.

        Parameters
        ----------
        arrays : mapping of str to array
        numbers : mapping
            Plain values, as JSON.
        """
        self._numbers = dict(numbers)  # JSON of them where they are written: histories are long
        self._write("state", arrays)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """The state that an earlier run has kept. It is returned once.

        Returns
        -------
        (dict of str to array, dict), or None where there is none
        """
        earlier, self._earlier = self._earlier, False
        return (self._read("state"), self._numbers) if earlier and self._numbers is not None else None

    def _read(self, file: str) -> dict[str, np.ndarray]:
        found = self._document.arrays(self._records[file]) if file in self._records else {}
        # Copies, at addresses as those of arrays that are computed: elsewhere products may have other last bits.
        return {name: np.array(array, order="C") for name, array in found.items()}

    def _write(self, file: str, arrays: Mapping[str, np.ndarray]) -> None:
        if self.path is None:
            return
        kept, seen = {}, set() if file == "state" else set(arrays)
        for key in sorted(self._records.keys() - {"state", file}, key=int, reverse=True):
            names = self._records[key]["shapes"].keys()
            if names - seen:  # which later steps have not replaced
                kept[key] = self._records[key]
            seen |= names
        spec = {"job": self.job, "steps": self._done, "state": self._numbers}
        self._records = self._document.write(spec, {file: arrays}, kept=kept)
