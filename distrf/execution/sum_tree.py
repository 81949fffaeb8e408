"""The order in which states are added: on fixed binary trees, so that sums have the same bits in whatever order states come.

Sums of floating-point numbers depend on which two are added first, not on when. So the tree follows from the number of
states alone. A state that comes late delays only the sums above it: all others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

#: The first state of a sum, and the state after its last.
Span = tuple[int, int]
#: States that are added on a binary tree: as many as the threads that one slow thread may delay, and few sums that wait.
_GROUP = 32


@dataclass(frozen=True)
class Addition:
    """One sum of two neighbours: `left` and `right` give `total`."""

    total: Span
    left: Span
    right: Span


class SumTree:
    """Says which sums can be made, state by state.

    Groups of 32 neighbours are added on a binary tree. The left part of each of its sums has as many states as the largest
    power of two below their number. The sums of the groups are added one after the other. So if the states come in order, the
    total waits and at most one sum of each power of two, however many states there are.

    Parameters
    ----------
    n_states : int
        At least 1.

    Attributes
    ----------
    root : Span
        The sum of all states.
    waiting : set of Span
        States and sums that are there, and not yet part of a sum.
    """

    def __init__(self, n_states: int):
        self.root: Span = (0, n_states)
        self.waiting: set[Span] = set()
        self._addition: dict[Span, Addition] = {}  # of which a span is one part
        stack = [self.root]
        while stack:
            first, last = stack.pop()
            if last - first == 1:
                continue
            # The sum of several groups begins at the first: its last group, maybe a short one, is the right part.
            step = _GROUP if last - first > _GROUP else 2 ** ((last - first - 1).bit_length() - 1)
            middle = first + (last - first - 1) // step * step
            addition = Addition((first, last), (first, middle), (middle, last))
            for part in (addition.left, addition.right):
                self._addition[part] = addition
                stack.append(part)

    def add(self, state: int) -> list[Addition]:
        """The sums that can be made now that this state is there; each after those it needs."""
        span, additions = (state, state + 1), []
        self.waiting.add(span)
        while span != self.root:
            addition = self._addition[span]
            if not {addition.left, addition.right} <= self.waiting:
                break
            self.waiting -= {addition.left, addition.right}
            self.waiting.add(addition.total)
            additions.append(addition)
            span = addition.total
        return additions


def most_waiting(n_states: int) -> int:
    """The most sums that wait at one time where the states come in order: at most six."""
    return max(1, min(n_states, _GROUP).bit_length() - (n_states <= _GROUP))


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
    tree, held = SumTree(n_states), {}
    for i, state in enumerate(states):
        held[i, i + 1] = state
        for addition in tree.add(i):
            held[addition.total] = combine(held.pop(addition.left), held.pop(addition.right))
    return held[tree.root]
