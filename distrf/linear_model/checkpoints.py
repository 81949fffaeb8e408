"""Training state on disk, so that a killed job goes on to the bits it would have reached."""

from __future__ import annotations

import os
import uuid
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import SpecMismatchError, StoreError
from ..store import is_bundle, read_bundle, write_bundle
from .preconditioner import Preconditioner
from .steps import State

if TYPE_CHECKING:
    from .training import Progress


@dataclass
class Checkpoint:
    """A folder with the preconditioner, written once, and the state, written in turn to two places.

    Replacing a folder is two renames, and a job can die between them: the other place then has the state of
    `every` rounds before.
    """

    path: str
    spec: dict[str, Any]
    every: int
    turn: int = 0

    def _place(self, name: str) -> str:
        return f"{os.fspath(self.path).rstrip('/')}/{name}"

    def write_start(self, preconditioner: Preconditioner, constant: float) -> None:
        """Forget an earlier job, and keep what this one derived from its row sample."""
        if not self.path.count("://"):
            os.makedirs(self.path, exist_ok=True)
        arrays = {"directions": preconditioner.directions, "shrink": preconditioner.shrink}
        # A token of this job: states that an earlier one with the same options left behind are not taken up.
        self.spec = self.spec | {"run": uuid.uuid4().hex}
        numbers = {
            "curvature": preconditioner.curvature,
            "row_bound": preconditioner.row_bound,
            "constant": constant,
        }
        write_bundle(self._place("start"), self.spec | {"start": numbers}, arrays, overwrite=True)

    def read_start(self) -> tuple[Preconditioner, float] | None:
        """What `write_start` kept; None where there is no checkpoint. Refuses one of another job."""
        if not is_bundle(self._place("start")):
            return None
        spec, arrays = read_bundle(self._place("start"))
        changed = [k for k in self.spec if spec.get(k) != self.spec[k]]
        if changed:
            raise SpecMismatchError(
                f"the checkpoint {self.path!r} is of another job: {', '.join(changed)} differ; "
                "train without resume, or give the options it was started with"
            )
        self.spec = self.spec | {"run": spec["run"]}
        numbers = spec["start"]
        made = Preconditioner(
            arrays["directions"], arrays["shrink"], numbers["curvature"], numbers["row_bound"]
        )
        return made, numbers["constant"]

    def write(self, state: State, progress: Progress) -> None:
        """Keep the state; atomic."""
        spec = self.spec | {"state": state.numbers, "progress": asdict(progress)}
        self.turn = 1 - self.turn
        write_bundle(self._place(f"state-{self.turn}"), spec, state.arrays, overwrite=True)

    def read(self) -> tuple[State, dict[str, Any]] | None:
        """The newest state of this job; None where no round was kept."""
        found: list[tuple[int, int, State, dict[str, Any]]] = []
        for turn in (0, 1):
            place = self._place(f"state-{turn}")
            try:
                if not is_bundle(place):
                    continue
                spec, arrays = read_bundle(place)
            except StoreError:  # the one that was being written
                continue
            if any(spec.get(k) != v for k, v in self.spec.items()):
                continue
            named: dict[str, Any] = {k: np.array(v) for k, v in arrays.items()}
            state = State(**named, **spec["state"])
            found.append((state.t, turn, state, spec["progress"]))
        if not found:
            return None
        _, self.turn, state, progress = max(found, key=lambda f: (f[0], f[3]["epoch"]))
        return state, progress
