"""The blocks of rows that a process keeps from one pass of a fit to the next, so that a store is read once if they fit.

A process keeps a block when it first has it, as long as there is room, and none leaves for another: passes are cycles, in
which the block that was used longest ago is the next that is needed. A block that is not kept is read in every pass.

The store lies beside the data that Dask manages, so Dask neither spills nor counts it. Its room is what the plan of a pass
leaves free (see keeping.py). Each task brings that number along.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

#: Seconds after which a fit that uses none of its blocks gives way to another. Its client may have died without a word.
_ABANDONED = 600.0
#: Fits that ended last, whose late tasks are known.
_REMEMBERED = 1_000


class KeptBlocks:
    """Blocks by fit and key. All fits of a process share the room of the one that has the least."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fits: dict[str, _Fit] = {}
        self._ended: deque[str] = deque(maxlen=_REMEMBERED)

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        with self._lock:
            return self._total()

    def open(self, fit: str, room: int) -> None:
        """A task begins, whose plan leaves so many bytes free. Blocks beyond them leave, the newest first.

        fit : empty for a pass that keeps nothing itself
        """
        with self._lock:
            now = time.monotonic()
            for name, other in list(self._fits.items()):
                if name != fit and now - other.used > _ABANDONED:
                    del self._fits[name]
            if fit and fit not in self._ended:
                self._fits.setdefault(fit, _Fit({})).used = now
                self._fits[fit].room = room
            while self._total() > min(room, self._room()):
                largest = max(self._fits.values(), key=lambda fit: fit.nbytes)
                largest.nbytes -= largest.blocks.popitem()[1][1]

    def get(self, fit: str, key: Hashable) -> Any:
        """The block, or None."""
        with self._lock:
            held = self._fits.get(fit)
            return None if held is None else held.blocks.get(key, (None, 0))[0]

    def offer(self, fit: str, key: Hashable, block: Any) -> None:
        """Keep a block if there is room."""
        nbytes = held_bytes(block)
        with self._lock:
            held = self._fits.get(fit)  # None: the fit has ended meanwhile
            if held is None or nbytes is None or key in held.blocks or self._total() + nbytes > self._room():
                return
            held.blocks[key] = block, nbytes
            held.nbytes += nbytes

    def drop(self, fit: str) -> None:
        """Forget the blocks of a fit that has ended. If it failed, some of its tasks may still run: they keep nothing."""
        with self._lock:
            self._ended.append(fit)
            self._fits.pop(fit, None)

    def _total(self) -> int:
        return sum(fit.nbytes for fit in self._fits.values())

    def _room(self) -> int:
        return min((fit.room for fit in self._fits.values()), default=0)


@dataclass
class _Fit:
    blocks: dict[Hashable, tuple[Any, int]]
    nbytes: int = 0
    room: int = 0
    used: float = 0.0


#: The blocks that this process keeps.
kept_blocks = KeptBlocks()


@dataclass(frozen=True)
class Keep:
    """What a task is told: the fit that it belongs to, and how many bytes the plan leaves free in each process.

    A worker may have less memory than the plan counts with: it keeps what `share` of its own limit leaves beside `peak`.
    """

    fit: str
    room: int
    peak: int = 0
    share: float = 1.0

    def open(self) -> None:
        """See `KeptBlocks.open`."""
        kept_blocks.open(self.fit, min(self.room, self._own_room()))

    def _own_room(self) -> int:
        from distributed import get_worker

        try:
            limit = get_worker().memory_manager.memory_limit
        except (ValueError, AttributeError):  # threads of a process that is no worker
            return self.room
        return max(0, int(self.share * limit - self.peak)) if limit else 0

    def get(self, key: Hashable) -> Any:
        """See `KeptBlocks.get`."""
        return kept_blocks.get(self.fit, key)

    def offer(self, key: Hashable, block: Any) -> None:
        """See `KeptBlocks.offer`."""
        kept_blocks.offer(self.fit, key, block)


def held_bytes(block: Any) -> int | None:
    """Bytes that stay in memory with a block: of a view, those of the whole array. None if they cannot be told.

    Parameters
    ----------
    block : array or CSR matrix

    Returns
    -------
    int or None
    """
    if sp.issparse(block):
        parts = [held_bytes(getattr(block, name, None)) for name in ("data", "indices", "indptr")]
        return None if None in parts else sum(parts)  # type: ignore[arg-type]
    if not isinstance(block, np.ndarray) or block.dtype.hasobject:
        return None
    owner = block
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return max(block.nbytes, owner.nbytes)
