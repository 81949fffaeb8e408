"""Steps of a long fit whose arrays are kept in a folder, so that it resumes at the last finished pass."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import SpecMismatchError, StoreError
from ..store import files, is_bundle, read_bundle, read_spec, write_bundle
from ..store.spec import differences, to_json

_FORMAT = "distrf-steps"
#: Rows whose equality tells a checkpoint of the same data.
IDENTITY_ROWS = 16
_STEP = re.compile(r"step-(\d{6})")


class Steps:
    """A chain of steps; each turns the named arrays of the steps before into new ones.

    A step is written to a folder of its own, whole or not at all, and the folders of steps whose arrays have all
    been made anew are removed: a job that dies at any moment loses the step it was in and no other.

    Parameters
    ----------
    path : folder or URL of the checkpoint; None keeps nothing
    identity : JSON that determines the numbers. A checkpoint of another one is refused
    """

    def __init__(self, path: str | os.PathLike[str] | None, identity: Mapping[str, Any]):
        self.path = None if path is None else files.normalise(path)
        self.identity = to_json(dict(identity))
        self.arrays: dict[str, np.ndarray] = {}
        self._names: dict[int, set[str]] = {}
        self._count = 0
        if self.path is not None:
            self._read()

    def _read(self) -> None:
        assert self.path is not None
        if is_bundle(self.path):
            raise StoreError(f"{self.path!r} holds a model, not a checkpoint; choose another folder")
        fs, root = files.filesystem(self.path)
        numbers = [int(found[1]) for name in files.names_in(fs, root) if (found := _STEP.fullmatch(name))]
        for number in sorted(numbers, reverse=True):
            if not is_bundle(self._place(number)):  # was being removed
                continue
            spec = read_spec(self._place(number))
            changed = differences(spec["identity"], self.identity)
            if changed:
                raise SpecMismatchError(
                    f"the checkpoint {self.path!r} was written by another fit; old -> new: "
                    + "; ".join(changed[:8])
                    + "; choose another folder, or remove it"
                )
            self._names[number] = set(spec["names"])
            if self._names[number] - self.arrays.keys():
                self.arrays = read_bundle(self._place(number))[1] | self.arrays

    def _place(self, number: int) -> str:
        return f"{self.path}/step-{number:06d}"

    @property
    def _done(self) -> int:
        return max(self._names, default=0)

    def check_rows(self, rows: np.ndarray, name: str = "rows") -> None:
        """Keep a few rows as a step, or raise SpecMismatchError where those of the checkpoint are others."""
        kept = self.run(lambda _: {name: rows})[name]
        close = 1e-3 * float(abs(rows).max(initial=0))  # features vary by rounding with the chunking
        if not np.allclose(kept, rows, rtol=0, atol=close):
            raise SpecMismatchError(
                f"the checkpoint {self.path!r} was written by a fit to other {name}; choose another folder, or "
                "remove it"
            )

    def run(self, step: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """The arrays after this step; a step that an earlier run finished is not computed again."""
        self._count += 1
        if self._count > self._done:
            # Rows first, as files give them back: another layout takes other ways through BLAS, to other last bits.
            made = {name: np.asarray(array, order="C") for name, array in step(self.arrays).items()}
            self.arrays = self.arrays | made
            self._write(made)
        return self.arrays

    def once(self, make: Callable[[], np.ndarray]) -> np.ndarray:
        """One array as a step of its own, which is handed out and not held here."""
        self._count += 1
        name = f"array{self._count}"
        if self._count > self._done:
            made = np.asarray(make(), order="C")
            self._write({name: made})
            return made
        return self.arrays.pop(name)

    def _write(self, made: dict[str, np.ndarray]) -> None:
        if self.path is None:
            return
        if files.is_local(self.path):
            os.makedirs(self.path, exist_ok=True)
        spec = {"format": _FORMAT, "identity": self.identity, "names": sorted(made)}
        write_bundle(self._place(self._count), spec, made, overwrite=True)
        fs, root = files.filesystem(self.path)
        for number in [k for k, names in self._names.items() if names <= made.keys()]:
            files.remove(fs, f"{root}/step-{number:06d}")
            del self._names[number]
        self._names[self._count] = set(made)
