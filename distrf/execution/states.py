"""States of reductions: their sums on a fixed tree, those that say how large they are, and counts of rows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any


def tree_sum(state: Callable[[int], Any], first: int, last: int, combine: Callable[[Any, Any], Any]) -> Any:
    """The sum of the states first:last on a balanced binary tree.

    The tree follows from the number of states alone, so sums have the same bits in whatever order states come.

    Parameters
    ----------
    state : callable
        Gives the state of this number; called in ascending order.
    first, last : int
        The first number, and the one after the last; there is at least one.
    combine : callable
        Called as ``combine(left, right)``; it may change `left` in place.

    Returns
    -------
    object
        What `combine` returned last, or the only state.
    """
    n = last - first
    if n == 1:
        return state(first)
    middle = first + 2 ** ((n - 1).bit_length() - 1)
    left = tree_sum(state, first, middle, combine)
    return combine(left, tree_sum(state, middle, last, combine))


def tree_height(n_states: int) -> int:
    """The sums from a state to the root: as many states wait at most where they come in order."""
    return max(n_states - 1, 0).bit_length()


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


class StateOfStates:
    """Mixin of states that are made of others: `states` lists them, each with `nbytes` and `merge`."""

    states: list[Any]

    @property
    def nbytes(self) -> int:
        """Most bytes of the state, however many rows come."""
        return sum(state.nbytes for state in self.states)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(state.__sizeof__() for state in self.states)

    def merge(self, other: Any) -> None:
        """Count the rows of another state, which is left as it is."""
        for mine, others in zip(self.states, other.states, strict=True):
            mine.merge(others)


class RowCount:
    """Mixin of reductions whose state is the number of rows that they have dealt with."""

    nbytes = 0
    flops_per_row = 1.0

    def initial(self) -> int:
        return 0

    def combine(self, left: int, right: int) -> int:
        return left + right
