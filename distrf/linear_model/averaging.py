"""Local steps and averaged weights: each block of a round is a run of small steps of its own.

All blocks of a round start from the same weights, and the mean of where they end, weighted by rows, is where the
next round starts (Zinkevich et al., NIPS 2010, with an average after every block). One message a block instead
of one a step; what it costs in accuracy grows with the steps between averages. Number code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .schedules import AVERAGED_BLOCKS
from .slices import SliceWork
from .steps import State, Stepper


@dataclass(frozen=True)
class LocalStepper:
    """A stepper that travels as maps do: its directions once to each worker, the rest with each task."""

    stepper: Stepper

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        p = self.stepper.preconditioner
        return {"directions": p.directions, "shrink": p.shrink}

    def with_arrays(self, arrays: dict[str, np.ndarray]) -> LocalStepper:
        given = replace(self.stepper.preconditioner, directions=arrays["directions"], shrink=arrays["shrink"])
        return LocalStepper(replace(self.stepper, preconditioner=given, average=False))

    def without_arrays(self) -> LocalStepper:
        empty = np.empty(0)
        return self.with_arrays({"directions": empty, "shrink": empty})


@dataclass(frozen=True)
class LocalWork(SliceWork):
    """Parcels that move the weights themselves; the last of the maps is a LocalStepper.

    step_rows : rows of a local step; mean_weight : of a row
    """

    step_rows: int = 1
    mean_weight: float = 1.0

    def take(self, loaded: Any, maps: Sequence[Any], epoch: int, parcel: Any) -> Any:
        """Rows of a parcel in the order of the epoch, and the maps: features are made step by step."""
        return self.joined(loaded, epoch, parcel), maps

    def gradient(self, taken: Any, W: np.ndarray, t: Any = 0, scale: Any = 1.0) -> tuple[Any, ...]:
        """Weights after the steps times the rows, and the sums of loss, weight and curvature along the way."""
        rows, (*maps, local) = taken
        zero = np.zeros_like(W)
        state = State(W.astype(np.float64), zero, zero, t=int(t), scale=float(scale))
        n, loss, weight, curved = rows[0].shape[0], 0.0, 0.0, 0.0
        steps = max(1, round(n / self.step_rows))
        for i in range(steps):
            a, b = n * i // steps, n * (i + 1) // steps
            G, *sums = super().gradient(self._features(rows, maps, slice(a, b)), state.weights)
            local.stepper.step(state, G.astype(np.float64) / ((b - a) * self.mean_weight), b - a, False)
            loss, weight, curved = loss + sums[0], weight + sums[1], curved + sums[2]
        return n * state.weights, loss, weight, curved

    def score_block(self, loaded: Any, maps: Sequence[Any], block: int, W: np.ndarray) -> np.ndarray:
        return super().score_block(loaded, maps[:-1], block, W)


def local_rows(round_rows: int) -> int:
    """Rows of a local step: the steps of a round side by side take about as many rows as one of all blocks."""
    return max(64, round_rows // AVERAGED_BLOCKS)
