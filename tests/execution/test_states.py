"""The tree on which states are added: fixed, balanced, and few states wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distrf.execution.memory import states_held
from distrf.execution.states import add_in_order, tree_height, tree_sums


def nested(n):
    """The sum as a nest of pairs, and the most states that waited at one time."""
    waiting, most = [0], [0]

    def states():
        for i in range(n):
            waiting[0] += 1
            most[0] = max(most[0], waiting[0])
            yield i

    def combine(left, right):
        waiting[0] -= 1
        return left, right

    return add_in_order(states(), n, combine), most[0]


def test_the_tree():
    assert nested(1)[0] == 0
    assert nested(5)[0] == (((0, 1), (2, 3)), 4)
    assert nested(7)[0] == (((0, 1), (2, 3)), ((4, 5), 6))


@given(n=st.integers(1, 600))
def test_every_state_once_and_few_wait(n):
    def listed(total):
        return [total] if isinstance(total, int) else [i for part in total for i in listed(part)]

    total, most = nested(n)
    assert listed(total) == list(range(n))
    assert most <= tree_height(n) + 1
    assert max(most, 3) <= states_held(n)
    assert len(list(tree_sums(n))) == n - 1
    assert 2 ** tree_height(n) >= n > 2 ** (tree_height(n) - 1)


@given(n=st.integers(1, 300), power=st.integers(0, 8))
def test_groups_of_a_power_of_two_are_parts_of_the_tree(n, power):
    """So a pass of several graphs gives the bits of one."""

    def pairs(states, n):
        return add_in_order(states, n, lambda left, right: (left, right))

    group = 2**power
    parts = [pairs(range(a, min(a + group, n)), min(group, n - a)) for a in range(0, n, group)]
    assert pairs(parts, len(parts)) == nested(n)[0]
