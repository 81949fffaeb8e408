"""The sample of rows: a function of the rows, uniform, of bounded size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distrf.scores.samples import OUTPUTS, RowSample


def sample(rows, y, said, weight=None, cuts=(), size=50):
    """Of blocks that are added one by one to states which are merged from the right."""
    states = []
    for block in np.split(np.arange(len(rows)), sorted(cuts)):
        state = RowSample(size)
        state.add(rows[block], y[block], said[block], None if weight is None else weight[block])
        states.append(state)
    while len(states) > 1:
        last = states.pop()
        states[-1].merge(last)
    return states[0]


@settings(max_examples=30, deadline=None)
@given(n=st.integers(0, 300), cuts=st.lists(st.integers(0, 300), max_size=5), seed=st.integers(0, 9))
def test_blocks_do_not_matter(n, cuts, seed):
    rng = np.random.default_rng(seed)
    rows, y, said, w = np.arange(n), rng.normal(size=n), rng.normal(size=n), rng.integers(0, 3, size=n)
    whole = sample(rows, y, said, w)
    parts = sample(rows, y, said, w, cuts=[min(cut, n) for cut in cuts])
    assert len(whole.rows) == min(50, (w > 0).sum())
    for name in ("keys", "rows", "y", "predicted"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    np.testing.assert_array_equal(whole.y.ravel(), y[whole.rows])
    np.testing.assert_array_equal(whole.predicted.ravel(), said[whole.rows])
    assert len(set(whole.rows.tolist())) == len(whole.rows)
    assert (w[whole.rows] > 0).all()


@pytest.mark.parametrize("step", [1, 1000])
def test_it_is_uniform(step):
    n, size = 20_000, 1000
    rows = step * np.arange(n)
    found = sample(rows, rows, rows, size=size).rows / (step * n)
    # Kolmogorov-Smirnov: beyond 1.95 / sqrt(size) once in a thousand
    places = np.sort(found)
    assert np.abs(places - np.arange(size) / size).max() < 1.95 / size**0.5


def test_few_of_many_outputs_are_kept():
    y = np.arange(4000.0).reshape(200, 20)
    found = sample(np.arange(200), y, -y)
    assert found.y.shape == found.predicted.shape == (50, OUTPUTS)
    np.testing.assert_array_equal(found.y, y[found.rows, :OUTPUTS])
    arrays = (found.keys, found.rows, found.y, found.predicted)
    assert sum(a.nbytes for a in arrays) == found.nbytes
