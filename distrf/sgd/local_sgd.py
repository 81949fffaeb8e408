"""Local SGD: for each block of a batch a worker takes many small steps, and the resulting weights are averaged.

All blocks of a batch start from the same weights. The next batch starts from the mean of their final weights, weighted by
rows (Zinkevich et al., NIPS 2010, with an average after every block). So there is one message for each block instead of
one for each step. The loss of accuracy grows with the number of steps between averages. Number code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .batch_work import BatchWork, Sums
from .optimizer import PreconditionedSGD, SGDState
from .schedules import LOCAL_BLOCKS, Batch


@dataclass(frozen=True)
class LocalSGD(PreconditionedSGD):
    """The client's side of local SGD: workers take the steps and return weights in place of gradients.

    step_rows : rows of a local step
    """

    step_rows: int = 1

    def sent(self, state: SGDState) -> dict[str, Any]:  # type: ignore[override]
        return {"t": state.t, "scale": state.scale}

    def advance(self, state: SGDState, G: np.ndarray, batch: Batch, mean_weight: float, whole: bool) -> None:
        """Set the weights to the mean over blocks. G is the sum of the blocks' weights, each times its rows."""
        steps = max(1, round(batch.rows / len(batch.microbatches) / self.step_rows))
        self.move(state, G / batch.rows, steps)


@dataclass(frozen=True)
class LocalSteps:
    """The optimizer as workers get it. Like a map, it travels without its directions, which each worker gets once."""

    optimizer: PreconditionedSGD

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        p = self.optimizer.preconditioner
        return {"directions": p.directions, "shrink": p.shrink}

    def with_arrays(self, arrays: dict[str, np.ndarray]) -> LocalSteps:
        P = replace(self.optimizer.preconditioner, directions=arrays["directions"], shrink=arrays["shrink"])
        return LocalSteps(replace(self.optimizer, preconditioner=P, average=False))

    def without_arrays(self) -> LocalSteps:
        empty = np.empty(0)
        return self.with_arrays({"directions": empty, "shrink": empty})


@dataclass(frozen=True)
class LocalWork(BatchWork):
    """The workers' side of local SGD: a microbatch is a block, which takes steps. The last of `maps` is a LocalSteps.

    step_rows : rows of a local step; mean_weight : mean weight of the training rows
    """

    step_rows: int = 1
    mean_weight: float = 1.0

    @classmethod
    def of(cls, work: BatchWork, step_rows: int, mean_weight: float) -> LocalWork:
        """The work of a synchronous batch turned into local steps."""
        return cls(**vars(work), step_rows=step_rows, mean_weight=mean_weight)

    def take(self, loaded: Any, maps: Sequence[Any], epoch: int, microbatch: Any) -> Any:
        """The rows of a microbatch in the order of the epoch, and the maps; each step makes its own features."""
        return self.joined(loaded, epoch, microbatch), maps

    def gradient(self, taken: Any, W: np.ndarray, t: Any = 0, scale: Any = 1.0) -> Sums:
        """Take the steps of a block. In place of the gradient, the sums have its final weights times its rows."""
        rows, (*maps, local) = taken
        state = SGDState(W.astype(np.float64), t=int(t), scale=float(scale))
        n, others = rows[0].shape[0], np.zeros(4)
        steps = max(1, round(n / self.step_rows))
        for i in range(steps):
            a, b = n * i // steps, n * (i + 1) // steps
            G, *sums, _ = super().gradient(self._features(rows, maps, slice(a, b)), state.weights)
            local.optimizer.step(state, G.astype(np.float64) / ((b - a) * self.mean_weight), b - a, False)
            others += sums
        return Sums(n * state.weights, *others.tolist())

    def score_block(
        self, loaded: tuple[Any, ...], maps: Sequence[Any], block: int, W: np.ndarray, held: bool = True
    ) -> np.ndarray:
        return super().score_block(loaded, maps[:-1], block, W, held)


def local_rows(batch_size: int) -> int:
    """Rows of a local step, such that one step on every block of a batch takes about `batch_size` rows in all."""
    return max(64, batch_size // LOCAL_BLOCKS)
