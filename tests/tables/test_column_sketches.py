"""What is learned of one column: quantiles of a sample and counts within their errors, on any blocks and any tree of merges."""

from __future__ import annotations

import copy
import itertools

import dask.array as da
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import small_seeds

from distrf.tables.frequent import FrequentCodes
from distrf.tables.summary import RowSample, SummaryReduction, summarise


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
def test_a_sample_is_the_same_on_any_blocks_and_merges(n, k, most, seed):
    rng = np.random.default_rng(seed)
    keys, values = rng.permutation(n).astype(np.uint64), rng.normal(size=(n, 2))

    found = total(RowSample(k, 2), cut(rng, most, keys, values), rng)
    order = np.argsort(keys)[:k]
    np.testing.assert_array_equal(found.keys, keys[order])
    np.testing.assert_array_equal(found.values, values[order])
    assert held_bytes(found) <= 8 * k * 3


def test_quantiles_are_exact_where_the_sample_holds_all_rows(rng):
    x = rng.standard_t(1, size=5000) ** 3
    for rows in (x[:, None], da.from_array(x[:, None], chunks=(700, 1))):
        found = summarise(rows, SummaryReduction((0,), (), len(x))).columns[0]
        shares = np.linspace(0, 1, 65)
        np.testing.assert_array_equal(found.quantiles(shares), np.quantile(x, shares, method="inverted_cdf"))


def test_quantiles_of_many_rows(rng):
    """Ranks of quantiles of k sampled rows are off by four standard errors at most, 4 sqrt(q (1 - q) / k)."""
    n, k = 60_000, 1024
    X = np.sort(rng.normal(size=(n, 1)), axis=0)
    reduction = SummaryReduction((0,), (), n)
    state = reduction.initial()
    state.sample.k = k
    for first in range(0, n, 9000):
        state = reduction.update(state, first, X[first : first + 9000])
    found = state.columns[0]
    found.values = np.sort(state.sample.values[:, 0])
    shares = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    ranks = np.searchsorted(X[:, 0], found.quantiles(shares)) / n
    assert (abs(ranks - shares) < 4 * np.sqrt(shares * (1 - shares) / k)).all()


@given(
    n=st.integers(1, 600), k=st.integers(1, 30), levels=st.integers(1, 60), most=st.integers(1, 200),
    outputs=st.integers(0, 3), seed=small_seeds,
)  # fmt: skip
def test_counts_within_what_is_lost(n, k, levels, most, outputs, seed):
    rng = np.random.default_rng(seed)
    x, folds, y = draw_codes(rng, n, levels), rng.integers(0, 3, n), rng.normal(size=(n, outputs))
    state = total(FrequentCodes(k, 3, outputs), cut(rng, most, x, folds, y), rng)
    codes, counts = np.unique(x, return_counts=True)
    at = np.searchsorted(codes, state.codes)
    assert state.rows == n
    assert (np.diff(state.codes) > 0).all()
    np.testing.assert_array_equal(codes[at], state.codes)
    assert len(state.codes) <= k
    assert (state.counts > 0).all()
    assert (state.counts <= counts[at]).all()
    assert (counts[at] <= state.counts + state.lost).all()
    assert (np.delete(counts, at) <= state.lost).all()
    assert (k + 1) * state.lost <= state.rows - state.counts.sum()
    assert held_bytes(state) <= state.nbytes
    if len(codes) > k:
        return
    assert state.lost == 0
    for i, code in enumerate(codes):
        for fold in range(3):
            rows = (x == code) & (folds == fold)
            assert state.sums[i, fold, 0] == rows.sum()
            np.testing.assert_allclose(state.sums[i, fold, 1:], rows @ y, atol=1e-12)
