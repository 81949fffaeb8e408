"""Steps of a long fit whose arrays are kept in a folder, so that it resumes at the last finished pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import SpecMismatchError, StoreError
from ..store import is_bundle, read_bundle, write_bundle
from ..store.spec import differences, to_json

_FORMAT = "distrf-steps"


class Steps:
    """A chain of steps; each turns the named arrays of the step before into new ones.

    Parameters
    ----------
    path : folder or URL of the checkpoint; None keeps nothing
    identity : JSON that determines the numbers. A checkpoint of another one is refused
    """

    def __init__(self, path: str | os.PathLike[str] | None, identity: Mapping[str, Any]):
        self.path, self.identity = path, to_json(dict(identity))
        self.arrays: dict[str, np.ndarray] = {}
        self._done = self._count = 0
        if path is not None and is_bundle(path):
            spec, self.arrays = read_bundle(path)
            if spec.get("format") != _FORMAT:
                raise StoreError(f"{os.fspath(path)!r} holds a model, not a checkpoint; choose another folder")
            changed = differences(spec["identity"], self.identity)
            if changed:
                raise SpecMismatchError(
                    f"the checkpoint {os.fspath(path)!r} was written by another fit; old -> new: "
                    + "; ".join(changed[:8])
                    + "; choose another folder, or remove it"
                )
            self._done = int(spec["step"])

    def run(self, step: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """The arrays after this step; a step that an earlier run finished is not computed again."""
        self._count += 1
        if self._count > self._done:
            self.arrays = self.arrays | step(self.arrays)
            self._done = self._count
            if self.path is not None:
                spec = {"format": _FORMAT, "identity": self.identity, "step": self._done}
                write_bundle(self.path, spec, self.arrays, overwrite=True)
        return self.arrays
