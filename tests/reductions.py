"""Folds and block functions for the tests; workers import this file, so it imports no pytest."""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass

import numpy as np

from distrf.errors import InputError


@dataclass(frozen=True)
class SumFold:
    """Column sums of all arrays in float32, so that the order of additions shows in the last bits."""

    width: int
    nbytes: int = 8
    flops_per_row: float = 1000.0

    def initial(self):
        return np.zeros(self.width, dtype=np.float32)

    def update(self, state, first_row, *blocks):
        state += np.concatenate([np.atleast_1d(b.sum(axis=0)) for b in blocks]).astype(np.float32)
        return state

    def combine(self, left, right):
        return left + right


@dataclass(frozen=True)
class ListFold:
    """(first row, rows, thread) of every block in order, and where states were merged."""

    nbytes: int = 8
    flops_per_row: float = 1.0e6

    def initial(self):
        return []

    def update(self, state, first_row, *blocks):
        assert len({len(b) for b in blocks}) == 1
        return [*state, (first_row, len(blocks[0]))]

    def combine(self, left, right):
        return [*left, "|", *right]


@dataclass(frozen=True)
class StackFold:
    """All blocks, stacked."""

    nbytes: int = 8
    flops_per_row: float = 1.0e6

    def initial(self):
        return []

    def update(self, state, first_row, *blocks):
        return [*state, *(np.array(b) for b in blocks)]

    def combine(self, left, right):
        return left + right


class ViewFold(StackFold):
    """All blocks, as they are handed over."""

    def update(self, state, first_row, *blocks):
        return [*state, *blocks]


@dataclass(frozen=True)
class RefusingFold(SumFold):
    """Refuses the block that holds row `row`."""

    row: int = 0
    error: type = InputError

    def update(self, state, first_row, *blocks):
        if first_row <= self.row < first_row + len(blocks[0]):
            raise self.error("this block is refused")
        return super().update(state, first_row, *blocks)


@dataclass(frozen=True)
class HiccupFold(SumFold):
    """Adds the block of row `row`, then fails, until the file `cured` exists or once if `once`."""

    row: int = 0
    cured: str = ""
    once: bool = False
    error: tuple = ("a hiccup",)

    def update(self, state, first_row, *blocks):
        state = super().update(state, first_row, *blocks)
        if first_row <= self.row < first_row + len(blocks[0]) and not os.path.exists(self.cured):
            if self.once:
                open(self.cured, "w").close()
            raise OSError(*self.error)
        return state


def refuse_row(block, bad, error=InputError):
    """A block function that refuses the block with the value `bad`."""
    if (block == bad).any():
        raise error("this block is refused")
    return block


class Live:
    """Blocks made by `make_live` that are still alive, and the most there ever were."""

    lock = threading.Lock()
    now = most = made = 0

    @classmethod
    def count(cls, change):
        with cls.lock:
            cls.now += change
            cls.made += change > 0
            cls.most = max(cls.most, cls.now)


def make_live(block):
    """A copy of the block that `Live` counts as long as it exists."""
    out = np.array(block)
    Live.count(1)
    weakref.finalize(out, Live.count, -1)
    return out


def count_calls(block, folder):
    """A block function that leaves one file in `folder` for each call."""
    import uuid

    with open(f"{folder}/{uuid.uuid4().hex}", "w") as file:
        file.write(str(block.flat[0]) if block.size else "")
    return block
