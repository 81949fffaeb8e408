"""Streams: positions, laws, and golden values that pin them for good."""

from __future__ import annotations

from functools import partial

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from distrf import randomness
from distrf.errors import InputError
from distrf.randomness import (
    chi,
    draw_seed,
    permutation,
    quantile,
    raw_words,
    sample_indices,
    signs,
    uniforms,
    variates,
)


def test_golden_words():
    assert [int(w) for w in raw_words(7, "dense", 0, 6)] == [
        0xEE7357D47FD92ED4,
        0x2E8929603456D63D,
        0xD763EDAEE774DBD9,
        0x734238CE00DBBBEB,
        0xE74CEE139D8E13ED,
        0x8FE20506A1773EC8,
    ]
    assert [int(w) for w in raw_words(2**62 + 1, "offset", 3, 2, start=1)] == [
        0xAF383F7153EE98FA,
        0x7B55AABF5B8F37C1,
    ]


def test_golden_draws():
    def same(made, stored):
        np.testing.assert_allclose(made, stored, rtol=1e-8)

    same(uniforms(7, "dense", 0, 3), [0.9314475, 0.18178042, 0.84136854])
    same(variates(7, "dense", 0, 3, "normal"), [1.48665858, -0.90860088, 1.00009833])
    same(variates(7, "dense", 0, 3, "cauchy"), [4.57128966, -1.55643631, 1.8376643])
    same(variates(7, "dense", 0, 3, "laplace"), [1.98700816, -1.01180862, 1.14802443])
    same(chi(7, "chi", 0, 3, 5), [2.2634932, 2.08347795, 2.08715903])
    assert signs(7, "signs", 1, 12).tolist() == [1, 1, 1, 1, 1, -1, -1, -1, -1, 1, 1, -1]
    assert permutation(7, "p", 2, 8).tolist() == [7, 0, 6, 3, 1, 5, 4, 2]
    assert sample_indices(7, "s", 1_000_000, 5).tolist() == [8007, 179132, 385996, 807215, 995661]
    assert sample_indices(7, "s", 50, 5).tolist() == [1, 24, 39, 43, 45]


@given(seed=seeds, first=st.sampled_from([0, 10**15]), start=st.integers(0, 5000), count=st.integers(0, 70))
def test_words_by_position(seed, first, start, count):
    """One beyond any array is reached without making the words before it."""
    whole = raw_words(seed, "x", 3, start + count, first)
    np.testing.assert_array_equal(raw_words(seed, "x", 3, count, first + start), whole[start:])


def test_streams_differ_by_seed_name_and_block():
    names = [(s, n, b) for s in (0, 1, 10) for n in ("dense", "dense/0", "offset") for b in (0, 1, 10)]
    words = np.concatenate([raw_words(*name, 200) for name in names])
    assert len(np.unique(words)) == len(words)


def test_streams_are_independent():
    """Correlations of 45 pairs of blocks: at most 4.5 standard errors of 1 / sqrt(n)."""
    n = 20_000
    u = np.stack([uniforms(5, "x", block, n) for block in range(10)])
    correlation = np.corrcoef(u)[np.triu_indices(10, 1)]
    assert abs(correlation).max() < 4.5 / np.sqrt(n)


def test_uniforms_are_inside_the_interval(monkeypatch):
    words = np.array([0, 1, 2**12 - 1, 2**12, 2**63, 2**64 - 2**12, 2**64 - 1], dtype=np.uint64)
    monkeypatch.setattr(randomness, "raw_words", lambda *_: words)
    u = uniforms(0, "x", 0, len(words))
    assert u.min() == 2.0**-53
    assert u.max() == 1.0 - 2.0**-53
    np.testing.assert_array_equal(u[[0, 3]] + u[[-1, -2]], [1.0, 1.0 + 2.0**-52])
    for law in ("normal", "cauchy", "laplace"):
        assert np.isfinite(quantile(law, u)).all()


@pytest.mark.parametrize(
    "p",
    [2.0**-53, 1e-15, 1e-11, 1.4e-11, 1e-8, 1e-3, 0.0749, 0.0751, 0.3, 0.5 + 2.0**-30, 0.925, 1 - 2.0**-30],
)
def test_normal_quantiles_against_mpmath(p):
    with mpmath.workdps(60):
        exact = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(p) - 1)
        found = quantile("normal", np.array([p]))[0]
        assert abs(mpmath.mpf(found) / exact - 1) < 2e-15


LAWS = {
    **{law: (partial(variates, law=law), getattr(scipy.stats, name).cdf) for law, name in (("normal", "norm"), ("cauchy", "cauchy"), ("laplace", "laplace"))},
    **{f"chi {dof}": (partial(chi, dof=dof), scipy.stats.chi(dof).cdf) for dof in (2, 3, 16, 1024)},
    "uniform": (uniforms, "uniform"),
}  # fmt: skip


@pytest.mark.parametrize("law", LAWS)
def test_laws(law):
    draw, exact = LAWS[law]
    for block in range(3):
        assert scipy.stats.kstest(draw(11, "law", block, 50_000), exact).pvalue > 1e-3


def test_signs_are_balanced():
    n = 1_000_003
    s = signs(11, "signs", 0, n)
    assert set(np.unique(s)) == {-1.0, 1.0}
    assert max(abs(s.sum()), abs(s[1:] @ s[:-1])) < 4.5 * np.sqrt(n)


def test_unknown_law():
    with pytest.raises(InputError, match="unknown law 'gumbel'; known: normal, cauchy, laplace"):
        quantile("gumbel", np.array([0.5]))


@given(seed=seeds, n=st.integers(0, 300))
def test_permutation(seed, n):
    assert sorted(permutation(seed, "p", 0, n)) == list(range(n))


def test_permutations_are_uniform():
    """All 24 orders of 4 come up alike: chi-square over 4,800 blocks."""
    counts = {}
    for block in range(4800):
        order = tuple(permutation(2, "p", block, 4))
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert scipy.stats.chisquare(list(counts.values())).pvalue > 1e-3


@given(
    seed=seeds,
    n=st.one_of(st.integers(1, 500), st.integers(100_001, 10**13)),
    size=st.integers(1, 300),
)
def test_sample_indices(seed, n, size):
    rows = sample_indices(seed, "s", n, size)
    assert len(rows) == min(size, n)
    assert (np.diff(rows) > 0).all()
    assert rows[0] >= 0
    assert rows[-1] < n
    np.testing.assert_array_equal(rows, sample_indices(seed, "s", n, size))


def test_sample_indices_covers_the_range_evenly():
    for n in (5_000, 10**9):  # by permutation, by rejection
        rows = np.concatenate([sample_indices(seed, "s", n, 500) for seed in range(20)])
        assert scipy.stats.kstest(rows / n, "uniform").pvalue > 1e-3


def test_draw_seed():
    assert draw_seed(5) == draw_seed(np.int64(5)) == 5
    assert draw_seed(np.random.default_rng(1)) == draw_seed(np.random.default_rng(1))
    assert draw_seed(np.random.RandomState(1)) == draw_seed(np.random.RandomState(1))
    drawn = {draw_seed(None) for _ in range(50)}
    assert len(drawn) == 50
    assert all(0 <= seed < randomness._MAX_SEED for seed in drawn)


@pytest.mark.parametrize("state", [-1, 2**63, "7", 1.5])
def test_draw_seed_refuses(state):
    with pytest.raises(InputError, match="random_state must be an integer"):
        draw_seed(state)
