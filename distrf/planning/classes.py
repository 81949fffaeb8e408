"""How many classes a target has, from a few of its labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.base import is_dask_collection

from ..pipeline.sample import sample_targets
from ..pipeline.target import Target, look_at

#: How many blocks a plan reads targets of. They are spread over all blocks.
_BLOCKS = 8


@dataclass(frozen=True)
class PlannedTarget:
    """What a plan knows of a target.

    Attributes
    ----------
    classes : int
        Number of classes in the sample, or what the caller knows of it.
    seen : Target, optional
        What the sample says about the target; None if no labels were read.
    """

    classes: int
    seen: Target | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        if self.seen is None:
            return ()
        return (f"classes: at least {self.seen.distinct:,}, in {self.seen.rows:,} sampled rows",)


def planned_target(y: Any, known: int, seed: int = 0) -> PlannedTarget:
    """The number of classes of a target, from the labels of a few blocks.

    Parameters
    ----------
    y : array or Dask array of shape (n,), or None
    known : int, the number of classes if it is known: then no labels are read; else 0
    seed : int, of the sample
    """
    if y is None or known:
        return PlannedTarget(known or 2)
    blocks = None
    if is_dask_collection(y):
        blocks = np.unique(np.linspace(0, y.numblocks[0] - 1, _BLOCKS).astype(int)).tolist()
    seen = look_at(sample_targets(y, seed, blocks))
    return PlannedTarget(seen.distinct, seen) if seen.distinct > 1 else PlannedTarget(2)
