"""States of reductions: their sums on a fixed tree, those that say how large they are, and counts of rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

#: The first state of a sum, and the state after its last.
Span = tuple[int, int]


def tree_sums(n_states: int) -> Iterator[tuple[Span, Span]]:
    """The sums of a balanced binary tree over so many states, as pairs of neighbours, each after those it needs.

    The tree follows from the number of states alone, so sums have the same bits in whatever order states come. A group of
    2^k neighbours from a multiple of 2^k on is one part of it.

    Yields
    ------
    (Span, Span)
        The left and the right part.
    """
    level = [(i, i + 1) for i in range(n_states)]
    while len(level) > 1:
        pairs = list(zip(level[::2], level[1::2], strict=False))
        yield from pairs
        level = [(left[0], right[1]) for left, right in pairs] + level[2 * len(pairs) :]


def tree_height(n_states: int) -> int:
    """The sums from a state to the root: as many states wait at most where they come in order."""
    return max(n_states - 1, 0).bit_length()


def add_in_order(states: Iterable[Any], n_states: int, combine: Callable[[Any, Any], Any]) -> Any:
    """The sum of all states.

    Parameters
    ----------
    states : iterable
        Taken one at a time; at least one.
    n_states : int
        Their number.
    combine : callable
        Called as ``combine(left, right)``; it may change `left` in place.

    Returns
    -------
    object
        What `combine` returned last, or the only state.
    """
    left_of = {right: left for left, right in tree_sums(n_states)}
    held: dict[Span, Any] = {}
    for i, state in enumerate(states):
        span = i, i + 1
        while span in left_of:
            left = left_of[span]
            state, span = combine(held.pop(left), state), (left[0], span[1])
        held[span] = state
    return held[0, n_states]


def add_states(reduction: Any, left: Any, right: Any) -> Any:
    """The sum of two neighbouring states; the task of a pass for each of its sums.

    Both states are left as they are, like the inputs of every task. Dask hands the data of a worker that retires to others
    while its tasks still run, and then runs these again: a `left` that had `right` added to it in place would count twice.

    Parameters
    ----------
    reduction : Reduction
    left, right : object
        States.

    Returns
    -------
    object
        A state that shares no memory with `left`.
    """
    return reduction.combine(copy.deepcopy(left), right)


class SizedState:
    """Mixin of dataclasses of arrays. Dask asks a state for `__sizeof__`, and places, sends and spills it by that size."""

    def __sizeof__(self) -> int:
        held: Any = vars(self).values()
        return object.__sizeof__(self) + sum(getattr(value, "nbytes", 0) for value in held)


class RowCount:
    """Mixin of reductions whose state is the number of rows that they have dealt with."""

    nbytes = 0
    flops_per_row = 1.0

    def initial(self) -> int:
        return 0

    def combine(self, left: int, right: int) -> int:
        return left + right
