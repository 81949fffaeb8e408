"""What is learned of one column: quantiles of a sample and counts within their errors, on any blocks and any tree of merges."""

from __future__ import annotations

import copy
import itertools

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import small_seeds

from distrf.tables import summary
from distrf.tables.frequent import FrequentCodes
from distrf.tables.summary import SummaryReduction, summarise


def total(empty, blocks, rng):
    """The sketch of all blocks: some start a state, the others join the last one; states are merged on a tree drawn by rng."""
    states = []
    for block in blocks:
        if not states or rng.random() < 0.4:
            states.append(copy.deepcopy(empty))
        states[-1].add(*block)
    while len(states) > 1:
        i = rng.integers(len(states) - 1)
        states[i].merge(states.pop(i + 1))
    return states[0]


def cut(rng, most, *arrays):
    """Blocks of up to `most` rows of the arrays; None stays None."""
    n = len(arrays[0])
    edges = np.unique([0, *np.cumsum(rng.integers(1, most + 1, n)).clip(max=n)])
    return [[None if x is None else x[a:b] for x in arrays] for a, b in itertools.pairwise(edges)]


def held_bytes(state):
    """Bytes of the arrays of a state, as Dask sees them."""
    return state.__sizeof__() - object.__sizeof__(state)


def draw_codes(rng, n, levels):
    return np.minimum(rng.zipf(1.3, n), levels).astype(float) * 1e9


@given(n=st.integers(1, 600), k=st.integers(1, 40), most=st.integers(1, 200), seed=small_seeds)
def test_a_sample_is_the_same_on_any_blocks(n, k, most, seed):
    rng = np.random.default_rng(seed)
    X, reduction = rng.normal(size=(n, 2)), SummaryReduction((0, 1), (), n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "_MOST_ROWS", k)
        whole, state, first = reduction.update(reduction.initial(), 0, X), reduction.initial(), 0
        for (block,) in cut(rng, most, X):
            state = reduction.combine(state, reduction.update(reduction.initial(), first, block))
            first += len(block)
    np.testing.assert_array_equal(state.sample, whole.sample)
    assert abs(len(whole.sample) - min(n, k)) <= (0 if n <= k else 5 * np.sqrt(k))
    assert np.isin(whole.sample, X).all()


def test_quantiles_are_exact_where_the_sample_holds_all_rows(rng):
    x = rng.standard_t(1, size=5000) ** 3
    for rows in (x[:, None], da.from_array(x[:, None], chunks=(700, 1))):
        found = summarise(rows, SummaryReduction((0,), (), len(x))).columns[0]
        shares = np.linspace(0, 1, 65)
        np.testing.assert_array_equal(found.quantiles(shares), np.quantile(x, shares, method="inverted_cdf"))


def test_quantiles_of_many_rows(rng, monkeypatch):
    """Ranks of quantiles of k sampled rows are off by four standard errors at most, 4 sqrt(q (1 - q) / k)."""
    n, k = 60_000, 1024
    X = np.sort(rng.normal(size=(n, 1)), axis=0)
    reduction = SummaryReduction((0,), (), n)
    monkeypatch.setattr(summary, "_MOST_ROWS", k)
    state = reduction.initial()
    for first in range(0, n, 9000):
        state = reduction.update(state, first, X[first : first + 9000])
    found = state.columns[0]
    found.values = np.sort(state.sample[:, 0])
    shares = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    ranks = np.searchsorted(X[:, 0], found.quantiles(shares)) / n
    assert (abs(ranks - shares) < 4 * np.sqrt(shares * (1 - shares) / k)).all()


def test_counts_are_within_what_is_lost(rng):
    """In any blocks and merges; of few codes nothing is lost, and targets are summed by fold."""
    x, folds, y = draw_codes(rng, 600, 60), rng.integers(0, 3, 600), rng.normal(size=(600, 2))
    codes, counts = np.unique(x, return_counts=True)
    for k in (10, 100):
        state = total(FrequentCodes(k, 3, 2), cut(rng, 200, x, folds, y), rng)
        at = np.searchsorted(codes, state.codes)
        assert (state.counts <= counts[at]).all()
        assert (counts[at] <= state.counts + state.lost).all()
        assert (np.delete(counts, at) <= state.lost).all()
        assert (k + 1) * state.lost <= state.rows - state.counts.sum()
        assert (state.lost == 0) == (k == 100)
        assert held_bytes(state) <= state.nbytes
    sums = [[[1.0, *row] for row in y[(x == codes[0]) & (folds == fold)]] for fold in range(3)]
    np.testing.assert_allclose(state.sums[0], [np.sum(part, axis=0) for part in sums], atol=1e-12)
