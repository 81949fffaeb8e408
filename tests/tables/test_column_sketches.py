"""Sketches of one column: quantiles and counts within their stated errors, on any blocks and any tree of merges."""

from __future__ import annotations

import copy
import itertools
import pickle
from dataclasses import dataclass

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import small_seeds

from distrf.errors import InputError
from distrf.execution.passes import run_pass
from distrf.tables.frequent import FrequentCodes
from distrf.tables.quantiles import QuantileSketch, levels_for

SHARES = np.linspace(0, 1, 65)

#: Columns of n values, by what is odd about them.
COLUMNS = {
    "sorted": lambda rng, n: np.sort(rng.normal(size=n)),
    "reversed": lambda rng, n: -np.sort(rng.normal(size=n)),
    "constant": lambda rng, n: np.full(n, 3.5),
    "duplicated": lambda rng, n: rng.integers(0, 4, n).astype(float),
    "heavy": lambda rng, n: rng.standard_t(1, size=n) ** 3,
    "zigzag": lambda rng, n: np.arange(n) * (-1.0) ** np.arange(n),
    "one far": lambda rng, n: np.where(np.arange(n) == n // 2, 1e300, rng.normal(size=n)),
}
WEIGHTS = {
    "none": lambda rng, n: None,
    "ones": lambda rng, n: np.ones(n),
    "uneven": lambda rng, n: np.exp(3 * rng.normal(size=n)),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, rng.random(n)),
    "decades": lambda rng, n: 10.0 ** rng.uniform(-150, 150, size=n),
}


@dataclass(frozen=True)
class Columns:
    """A reduction of a sketch for each column."""

    empty: QuantileSketch | FrequentCodes
    d: int
    flops_per_row: float = 1e6

    @property
    def nbytes(self):
        return self.d * self.empty.nbytes

    def initial(self):
        return [copy.deepcopy(self.empty) for _ in range(self.d)]

    def update(self, state, first_row, X):
        for sketch, column in zip(state, X.T, strict=True):
            sketch.add(column)
        return state

    def combine(self, left, right):
        for a, b in zip(left, right, strict=True):
            a.merge(b)
        return left


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


def miss(x, w, shares, found):
    """How far q W is from the weights of the rows below, and up to, the value found for q."""
    order = np.argsort(x, kind="stable")
    up_to = np.append(0.0, np.cumsum(w[order]))
    below, here = (up_to[np.searchsorted(x[order], found, side)] for side in ("left", "right"))
    asked = shares * up_to[-1]
    return np.max(np.maximum(below - asked, asked - here)) - 1e-9 * up_to[-1]


def held_bytes(state):
    """Bytes of the arrays of a state, as Dask sees them."""
    return state.__sizeof__() - object.__sizeof__(state)


def same(a, b):
    return pickle.dumps(a.__dict__) == pickle.dumps(b.__dict__)


@pytest.mark.parametrize("column", COLUMNS)
@given(
    weights=st.sampled_from(sorted(WEIGHTS)), n=st.integers(1, 600), m=st.integers(2, 40),
    most=st.integers(1, 200), seed=small_seeds,
)  # fmt: skip
def test_quantiles_within_their_bound(column, weights, n, m, most, seed):
    rng = np.random.default_rng(seed)
    x, w = COLUMNS[column](rng, n), WEIGHTS[weights](rng, n)
    sketch = total(QuantileSketch(m), cut(rng, most, x, w), rng)
    w = np.ones(n) if w is None else w
    x, w = x[w > 0], w[w > 0]
    assert sketch.rows == len(x)
    assert sketch.weight == pytest.approx(w.sum())
    assert held_bytes(sketch) <= sketch.nbytes
    assert all(len(held) <= m and (np.diff(held) >= 0).all() for held in sketch.levels.values())
    if len(x):
        found = sketch.quantiles(SHARES)
        assert (np.diff(found) >= 0).all()
        assert (found[0], found[-1]) == (sketch.low, sketch.high) == (x.min(), x.max())
        assert np.isin(found, x).all()
        assert miss(x, w, SHARES, found) <= sketch.error_bound


@given(n=st.integers(1, 600), m=st.integers(2, 40), most=st.integers(1, 200), seed=small_seeds)
def test_the_bound_of_equal_weights_is_known_beforehand(n, m, most, seed):
    rng = np.random.default_rng(seed)
    H = levels_for(n, m)
    sketch = total(QuantileSketch(m, H), cut(rng, most, rng.normal(size=n)), rng)
    assert len(sketch.levels) <= H
    assert sketch.error_bound <= n * (H + 2) / (2 * m) * (1 + 1 / m) ** (H + 1)


def test_a_block_is_thinned_to_m_values(rng):
    sketch = QuantileSketch(256)
    sketch.add(rng.permutation(2**14))
    assert list(sketch.levels) == [6]
    np.testing.assert_array_equal(sketch.levels[6], np.arange(31, 2**14, 64))
    assert (sketch.over, sketch.under) == (32, 31)


@pytest.mark.parametrize("column", ["sorted", "heavy"])
def test_long_blocks_halve_few_levels(rng, column):
    n, b, m = 2**20, 2**14, 256
    x = COLUMNS[column](rng, n)
    sketch = total(QuantileSketch(m), [[x[a : a + b]] for a in range(0, n, b)], rng)
    H = 1 + np.log2(n / b)
    assert sketch.error_bound <= n * (H + 2) / (2 * m) * (1 + 1 / m) ** (H + 1)
    assert miss(x, np.ones(n), SHARES, sketch.quantiles(SHARES)) <= sketch.error_bound / 2
    assert held_bytes(sketch) < 8 * m * (H + 3)


@given(n=st.integers(1, 50), most=st.integers(1, 20), weighted=st.booleans(), seed=small_seeds)
def test_quantiles_are_exact_up_to_m_rows(n, most, weighted, seed):
    rng = np.random.default_rng(seed)
    x, w = rng.integers(-9, 9, n).astype(float), rng.integers(1, 5, n).astype(float) if weighted else None
    sketch = total(QuantileSketch(50), cut(rng, most, x, w), rng)
    assert sketch.error_bound == 0
    expected = np.quantile(x, SHARES, weights=w, method="inverted_cdf")
    np.testing.assert_array_equal(sketch.quantiles(SHARES), expected)


def test_quantiles_of_few_rows():
    sketch = QuantileSketch(4)
    assert np.isnan(sketch.quantiles([0.0, 0.5])).all()
    sketch.add(np.empty(0))
    sketch.add(np.array([7.0]), np.array([0.0]))
    assert same(sketch, QuantileSketch(4))
    sketch.add(np.array([-0.0]))
    sketch.merge(QuantileSketch(4))
    assert (sketch.rows, sketch.weight, sketch.error_bound) == (1, 1.0, 0.0)
    assert not np.signbit(sketch.quantiles([0.0, 0.3, 1.0])).any()
    assert sketch.quantiles(0.5).shape == ()


def test_rows_lighter_than_all_levels_cost_their_weight_and_no_more():
    sketch = QuantileSketch(8, n_levels=3)
    sketch.add(np.arange(100.0))
    before = sketch.error_bound
    for _ in range(50):
        sketch.add(np.arange(9.0), np.full(9, 1e-12))
    assert sketch.error_bound <= before + 1e-6
    assert all(len(values) for values in sketch.levels.values())


def test_sums_need_folds_and_targets():
    counts = FrequentCodes(4, n_folds=2, n_outputs=1)
    codes, folds = np.arange(3.0), np.array([0, 1, 0])
    for said in [{}, {"folds": folds}, {"folds": folds + 1, "targets": np.ones((3, 1))}]:
        with pytest.raises(InputError, match="folds"):
            counts.add(codes, **said)


def test_light_rows_do_not_fill_levels(rng):
    """Levels far below the highest go up, and the bound counts what that costs: nothing that matters."""
    sketch = QuantileSketch(8, n_levels=12)
    sketch.add(rng.normal(size=100))
    before = sketch.error_bound
    for _ in range(30):
        sketch.add(rng.normal(size=100), np.full(100, 1e-9))
    assert len(sketch.levels) <= 12
    assert before < sketch.error_bound <= before + 1.0


def test_a_weight_is_as_many_rows(rng):
    x, w = rng.normal(size=300), rng.integers(0, 6, 300)
    one, many = QuantileSketch(32), QuantileSketch(32)
    one.add(x, w)
    many.add(np.repeat(x, w))
    assert one.weight == many.weight == w.sum()
    np.testing.assert_array_equal(one.quantiles(SHARES), many.quantiles(SHARES))


@pytest.mark.parametrize("empty", [QuantileSketch(64), FrequentCodes(20)], ids=["quantiles", "codes"])
def test_the_same_bits_on_any_number_of_workers(rng, empty):
    X = np.round(np.exp(2 * rng.normal(size=(6_000, 2))), 2)
    reduction = Columns(empty, 2)
    expected = run_pass(reduction, [X], block_rows=200)
    for workers in (1, 2, 5):
        with dask.config.set(scheduler="threads", num_workers=workers):
            found = run_pass(reduction, [da.from_array(X, chunks=(200, 2))])
        for a, b in zip(found, expected, strict=True):
            assert same(a, b)


@pytest.mark.parametrize("empty", [QuantileSketch(16), FrequentCodes(16)], ids=["quantiles", "codes"])
def test_merging_leaves_the_other_as_it_is(rng, empty):
    left, right = copy.deepcopy(empty), copy.deepcopy(empty)
    right.add(np.round(rng.normal(size=200), 1))
    before = pickle.dumps(right)
    left.merge(right)
    left.add(np.round(rng.normal(size=200), 1))
    left.merge(right)
    assert pickle.dumps(right) == before


def draw_codes(rng, n, levels):
    return np.minimum(rng.zipf(1.3, n), levels).astype(float) * 1e9


@given(
    n=st.integers(1, 600), k=st.integers(1, 30), levels=st.integers(1, 60), most=st.integers(1, 200),
    outputs=st.integers(0, 3), seed=small_seeds,
)  # fmt: skip
def test_counts_within_what_is_lost(n, k, levels, most, outputs, seed):
    rng = np.random.default_rng(seed)
    x, folds, y = draw_codes(rng, n, levels), rng.integers(0, 3, n), rng.normal(size=(n, outputs))
    w = np.where(rng.random(n) < 0.2, 0.0, rng.exponential(size=n))
    state = total(FrequentCodes(k, 3, outputs), cut(rng, most, x, folds, y, w), rng)
    used = w > 0
    codes, counts = np.unique(x[used], return_counts=True)
    at = np.searchsorted(codes, state.codes)
    assert state.rows == used.sum()
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
            np.testing.assert_allclose(state.sums[i, fold, 0], w[rows].sum(), atol=1e-12)
            np.testing.assert_allclose(state.sums[i, fold, 1:], w[rows] @ y[rows], atol=1e-12)


def test_sums_of_codes_that_come_and_go(rng):
    """They are over some rows of the code: as many as its count at least, and all of one fold's targets."""
    x = draw_codes(rng, 2_000, 300)
    folds = rng.integers(0, 5, len(x))
    state = total(FrequentCodes(10, 5, 1), cut(rng, 80, x, folds, np.outer(1 + folds, [1.0])), rng)
    assert state.lost > 0
    rows = state.sums[:, :, 0].sum(axis=1)
    assert (state.counts <= rows).all()
    assert (rows <= (x[:, None] == state.codes).sum(axis=0)).all()
    np.testing.assert_allclose(state.sums[:, :, 1], state.sums[:, :, 0] * np.arange(1, 6))


def test_codes_of_few_rows():
    state = FrequentCodes(2, 1, 1)
    state.add(np.empty(0), np.empty(0, dtype=int), np.empty((0, 1)))
    state.merge(FrequentCodes(2, 1, 1))
    assert (state.rows, state.lost, len(state.codes)) == (0, 0, 0)
    state.add(np.array([-0.0, 0.0]), np.array([0, 0]), np.array([[2.0], [3.0]]))
    assert (state.codes.tolist(), state.counts.tolist()) == ([0.0], [2])
    np.testing.assert_array_equal(state.sums, [[[2.0, 5.0]]])
    counts = FrequentCodes(2)
    counts.add(np.array([4.0]), weights=np.array([2.5]))
    assert (counts.counts.tolist(), counts.sums.size) == ([1], 0)
