"""The sample of rows that residuals are drawn of: a function of the rows, uniform, of bounded size."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distrf.scores.models import OUTPUTS, SAMPLED, RegressorSums
from distrf.scores.samples import RowSample


def sample(rows, y, said, weight=None, cuts=(), k=50):
    """Of blocks that are added to states of their own, which are merged from the right."""
    states = []
    for a, b in itertools.pairwise([0, *sorted(cuts), len(rows)]):
        given_names = ("predicted", "rows") if weight is None else ("predicted", "rows", "weights")
        states.append(RegressorSums(given_names, sample=RowSample(k, 2 * OUTPUTS)))
        states[-1].add(y[a:b], said[a:b], rows[a:b], *([] if weight is None else [weight[a:b]]))
    while len(states) > 1:
        last = states.pop()
        states[-1].merge(last)
    return states[0].sample


@given(n=st.integers(0, 300), cuts=st.lists(st.integers(0, 300), max_size=5), seed=st.integers(0, 9))
def test_blocks_do_not_matter(n, cuts, seed):
    rng = np.random.default_rng(seed)
    rows, y, w = np.arange(n), rng.normal(size=n), rng.integers(0, 3, size=n)
    whole, parts = (sample(rows, y, rows, w, edges) for edges in ([], [min(cut, n) for cut in cuts]))
    assert len(whole.keys) == min(50, (w > 0).sum())
    np.testing.assert_array_equal(whole.keys, parts.keys)
    if len(whole.keys):
        np.testing.assert_array_equal(whole.values, parts.values)
        drawn = whole.values[:, 1].astype(int)
        np.testing.assert_array_equal(whole.values[:, 0], y[drawn])
        assert len(set(drawn)) == len(drawn)
        assert (w[drawn] > 0).all()


@pytest.mark.parametrize("step", [1, 1000])
def test_it_is_uniform_and_of_few_outputs(step):
    n = 20_000
    rows = step * np.arange(n)
    found = sample(rows, np.repeat(rows[:, None], 12, axis=1), np.zeros((n, 12)), k=SAMPLED)
    assert found.values.shape == (SAMPLED, 2 * OUTPUTS)
    assert found.values.nbytes + found.keys.nbytes == found.nbytes
    # Kolmogorov-Smirnov: beyond 1.95 / sqrt(size) once in a thousand
    places = np.sort(found.values[:, 0]) / (step * n)
    assert np.abs(places - np.arange(SAMPLED) / SAMPLED).max() < 1.95 / SAMPLED**0.5
