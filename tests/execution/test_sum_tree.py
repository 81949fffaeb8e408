"""Sums on a fixed tree: each state once, in order, the same sums in whatever order states come."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distrf.execution.sum_tree import SumTree, add_in_order, most_waiting


def add_all(order):
    """The states of all sums as nested pairs, and the most that waited."""
    tree, held, most = SumTree(len(order)), {}, 0
    for i in order:
        held[i, i + 1] = i
        for addition in tree.add(i):
            assert addition.left[1] == addition.right[0]
            assert addition.total == (addition.left[0], addition.right[1])
            held[addition.total] = (held.pop(addition.left), held.pop(addition.right))
        assert tree.waiting == held.keys()
        most = max(most, len(held))
    assert held.keys() == {tree.root}
    return held[tree.root], most


def leaves(sums):
    return [sums] if isinstance(sums, int) else leaves(sums[0]) + leaves(sums[1])


@given(n=st.integers(1, 200), seed=st.integers(0, 9))
def test_the_same_sums_in_any_order(n, seed):
    sums, most = add_all(range(n))
    assert leaves(sums) == list(range(n))
    assert most <= most_waiting(n)
    shuffled = list(range(n))
    random.Random(seed).shuffle(shuffled)
    assert add_all(shuffled)[0] == sums
    assert add_in_order(range(n), n, lambda left, right: (left, right)) == sums


@pytest.mark.parametrize("late", [0, 31, 63])
def test_one_late_state_leaves_few_sums(late):
    order = [i for i in range(64) if i != late]
    tree = SumTree(64)
    for i in order:
        tree.add(i)
    assert len(tree.waiting) <= 7


def test_few_sums_wait_however_many_states_there_are():
    assert add_all(range(5000))[1] == most_waiting(5000)
    assert most_waiting(5000) == most_waiting(33) == 6
    assert [most_waiting(n) for n in (1, 2, 3, 4, 32)] == [1, 1, 1, 2, 5]


@pytest.mark.slow
def test_additions_are_pairwise():
    """Rounding is far below that of adding one after the other."""
    states = np.full(2**18, 0.1, dtype=np.float32)
    total = add_in_order(iter(states), len(states), np.add)
    assert abs(total / (0.1 * 2**18) - 1) < abs(np.cumsum(states)[-1] / (0.1 * 2**18) - 1) / 10
