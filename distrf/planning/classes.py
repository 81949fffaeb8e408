"""How many classes a target has, from a few of its labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from dask.base import is_dask_collection

from ..pipeline.sample import look_at_target
from ..pipeline.target import Target

#: How many blocks a plan reads targets of. They are spread over all blocks.
_BLOCKS = 8


def planned_target(y: Any, known: int, seed: int = 0) -> Target:
    """What a plan knows of a target: by labels of a few blocks, or of none where `known` says the number of classes.

    Then whole numbers and texts are taken for labels, and no rows are looked at.
    """
    if y is not None and not known:
        blocks = None
        if is_dask_collection(y):
            blocks = np.unique(np.linspace(0, y.numblocks[0] - 1, _BLOCKS).astype(int)).tolist()
        seen = look_at_target(y, seed, blocks)
        if seen.distinct > 1:
            return seen
    return Target(y is None or y.dtype.kind != "f", known or 2, 0, "it is not looked at", doubtful=True)
