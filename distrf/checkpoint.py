"""A folder from which an interrupted job resumes and ends with the same bits: for passes and for training in batches."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .errors import SpecMismatchError, StoreError
from .store import files, is_model_folder, read_model_folder, read_spec, write_model_folder
from .store.spec import differences, from_json, to_json

_FORMAT = "distrf-checkpoint"
#: How many rows, and how many targets, a checkpoint keeps. A resumed job compares them with its own data.
COMPARED_ROWS, COMPARED_TARGETS = 16, 256
_STEP = re.compile(r"step-(\d{6,})")


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
    """What a job keeps on disk: a chain of steps, then states of the training loop, each of which replaces an older one.

    A step makes named arrays from the arrays of the steps before it. It is written to a folder of its own, whole or not at
    all, and removed once later steps have replaced all of its arrays. So a job that dies loses the step it was in and no
    other. The last two states are kept, in case the newest is damaged.

    Parameters
    ----------
    path : path or URL, optional
        Folder of the checkpoint; None keeps nothing.
    job : mapping
        What determines the numbers, as JSON. A checkpoint of another job is refused.
    resume : bool
        Whether to continue from what the folder holds. If not, its steps are removed when the first new one is written.

    Attributes
    ----------
    arrays : dict of str to array
        The named arrays after the last step.

    Raises
    ------
    SpecMismatchError
        The folder holds a checkpoint of another job.
    StoreError
        The folder holds a model.
    """

    def __init__(self, path: str | os.PathLike[str] | None, job: Mapping[str, Any], *, resume: bool = True):
        self.path = None if path is None else files.normalise(path)
        self.job = from_json(to_json(dict(job)))
        self.arrays: dict[str, np.ndarray] = {}
        # Written with each step. Steps with another token were left behind by another run with the same options.
        self._token = uuid.uuid4().hex
        self._names: dict[int, set[str]] = {}
        self._states: dict[int, tuple[dict[str, np.ndarray], dict[str, Any]] | None] = {}
        self._damaged: list[int] = []
        self._count = 0
        self._fresh = not resume
        if self.path is not None:
            if is_model_folder(self.path):
                raise StoreError(f"{self.path!r} holds a model, not a checkpoint; choose another folder")
            if resume:
                self._read()

    def _read(self) -> None:
        newest, damaged = True, None
        for number in sorted(self._found(), reverse=True):
            try:
                if not is_model_folder(self._place(number)):  # an earlier run died while it removed this step
                    continue
                spec = read_spec(self._place(number))
            except StoreError as error:
                damaged = error
                self._damaged.append(number)
                continue
            if damaged is not None and spec["numbers"] is None:
                raise damaged
            damaged = None  # only a newer state is damaged, so the job resumes from this older one
            changed = differences(spec["identity"], self.job)
            if changed:
                raise SpecMismatchError(
                    f"the checkpoint {self.path!r} is of another job; old -> new: "
                    + "; ".join(changed[:8])
                    + "; give the options it was started with, choose another folder, or remove it"
                )
            if newest:
                self._token, newest = spec["run"], False
            elif spec["run"] != self._token:
                continue
            self._names[number] = set(spec["names"])
            if spec["numbers"] is not None:
                self._states[number] = None
                if not any(self._states.values()):
                    try:
                        self._states[number] = read_model_folder(self._place(number))[1], spec["numbers"]
                    except StoreError:  # this state is damaged: take the one before it
                        continue
            elif self._names[number] - self.arrays.keys():
                self.arrays = read_model_folder(self._place(number))[1] | self.arrays
        if damaged is not None:
            raise damaged

    def _found(self) -> list[int]:
        assert self.path is not None
        fs, root = files.filesystem(self.path)
        return [int(match[1]) for name in files.names_in(fs, root) if (match := _STEP.fullmatch(name))]

    def _place(self, number: int) -> str:
        return f"{self.path}/step-{number:06d}"

    @property
    def _done(self) -> int:
        return max(self._names, default=0)

    def check_rows(self, rows: np.ndarray, name: str = "rows") -> None:
        """Keep a few rows as a step. If an earlier run has kept rows, compare them with these.

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
        known = self._count < self._done
        stored = self.run(lambda _: {name: rows})[name]
        if not known:
            return
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
            self._write(self._count, results)
            self._remove([k for k, names in self._names.items() if k < self._count and names <= results.keys()])
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
        self._count += 1
        name = f"array{self._count}"
        if self._count > self._done:
            array = np.asarray(make(), order="C")
            self._write(self._count, {name: array})
            return array
        return self.arrays.pop(name)

    def keep(self, arrays: Mapping[str, np.ndarray], numbers: Mapping[str, Any]) -> None:
        """Write a state of the training loop, and remove the one before the last. All steps must be done.

        Parameters
        ----------
        arrays : mapping of str to array
        numbers : mapping
            Plain values, as JSON.
        """
        number = self._done + 1
        self._remove(self._damaged)
        self._damaged = []
        self._write(number, arrays, numbers)
        self._remove(sorted(self._states)[:-1])
        if self.path is not None:
            self._states[number] = None

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """The newest state that an earlier run has kept. It is returned once and then forgotten, to free its memory.

        Returns
        -------
        (dict of str to array, dict), or None where there is none
        """
        for number, state in self._states.items():
            if state is not None:
                self._states[number] = None
                return {name: np.array(array) for name, array in state[0].items()}, state[1]
        return None

    def _write(
        self, number: int, arrays: Mapping[str, np.ndarray], numbers: Mapping[str, Any] | None = None
    ) -> None:
        if self.path is None:
            return
        if files.is_local(self.path):
            os.makedirs(self.path, exist_ok=True)
        if self._fresh:
            self._remove(self._found())
            self._fresh = False
        spec = {
            "format": _FORMAT,
            "identity": self.job,  # its name on disk
            "run": self._token,
            "names": sorted(arrays),
            "numbers": None if numbers is None else dict(numbers),
        }
        write_model_folder(self._place(number), spec, arrays, overwrite=True)
        self._names[number] = set(arrays)

    def _remove(self, numbers: Sequence[int]) -> None:
        if self.path is None:
            return
        fs, root = files.filesystem(self.path)
        for number in sorted(numbers, reverse=True):  # a job that dies here leaves a chain without gaps
            files.remove(fs, f"{root}/step-{number:06d}/model.json")  # no longer a step
            files.remove(fs, f"{root}/step-{number:06d}")
            self._names.pop(number, None)
            self._states.pop(number, None)
