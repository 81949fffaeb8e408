"""Counts of labels add up, whichever labels a block has; residuals are of a sample of rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from distrf.errors import InputError
from distrf.scores.labels import LabelCounts
from distrf.scores.models import headline, rare_class


@given(
    cuts=st.lists(st.integers(0, 40), max_size=4),
    known=st.integers(0, 5),
    more=st.sampled_from([0, 95, 96, 200]),
    text=st.booleans(),
    seed=st.integers(0, 99),
)
def test_blocks_with_other_labels_add_up(cuts, known, more, text, seed):
    rng = np.random.default_rng(seed)
    names = np.array(["fig", "ash", "elm-tree", "bay", "date"]) if text else np.array([5, -2, 300, 7, 0])
    y, p = rng.choice(names, 40), rng.choice(names[:3], 40)
    others = (
        np.array([f"x{i}" for i in range(more)]) if text else np.arange(1000, 1000 + more)
    )  # no row has them
    known = np.sort(np.concatenate([names[:known], others]))
    total = LabelCounts(known if len(known) else np.empty(0))
    edges = [0, *sorted(cuts), 40]
    for a, b in itertools.pairwise(edges):
        part = LabelCounts()
        part.add(y[a:b], p[a:b])
        total.merge(part)
    expected = reference.confusion_matrix(y, p, labels=total.labels)
    assert set(total.labels.tolist()) == {*y.tolist(), *p.tolist(), *known.tolist()}
    np.testing.assert_array_equal(total.truth, expected.sum(axis=1))
    np.testing.assert_array_equal(total.predicted, expected.sum(axis=0))
    np.testing.assert_array_equal(total.hits, np.diag(expected))
    assert (total.matrix is None) == (len(total.labels) > 100)
    if total.matrix is not None:
        np.testing.assert_array_equal(total.matrix, expected)


def test_what_is_no_label_is_refused():
    with pytest.raises(InputError, match="one column"):
        LabelCounts().add(np.ones((3, 2)), np.ones(3))
    with pytest.raises(InputError, match="labels of one kind"):
        LabelCounts(np.array(["a"])).add(np.array([1]), np.array([1]))
    numbers = np.arange(100_001.0)
    with pytest.raises(InputError, match="at most 100,000 different ones, got 100,001"):
        LabelCounts().add(numbers, numbers)


@pytest.mark.parametrize(
    ("rows", "rare", "name"),
    [
        ([50, 50], None, "accuracy"),
        ([95, 5], None, "accuracy"),
        ([951, 49], 1, "average_precision"),
        ([49, 951], 0, "average_precision"),
        ([100, 0], None, "accuracy"),
        ([0, 0], None, "accuracy"),
        ([10] * 26, None, "accuracy"),  # each has 4 %
        ([1000, 1000, 66], 2, "balanced_accuracy"),
        ([1000, 1000, 75], None, "accuracy"),
        ([1000, 0, 1000], None, "accuracy"),  # a class without rows says nothing
        ([1000, 0, 1], 2, "balanced_accuracy"),
    ],
)
def test_accuracy_is_first_unless_a_class_is_rare(rows, rare, name):
    assert rare_class(np.array(rows)) == rare
    assert rare_class(np.array(rows) / max(sum(rows), 1)) == rare
    assert headline(np.array(rows)) == name
