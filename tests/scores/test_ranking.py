"""Rankings: exact up to m distinct scores, close beyond, whatever the order of the rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from distrf.scores.ranking import BINS, Ranking, _ordered


def ranking(scores, positive, weight=None, m=BINS, cuts=()):
    """Of blocks that end at `cuts`, each added to a state of its own, which are merged."""
    total = Ranking(m)
    edges = [0, *sorted(cuts), len(scores)]
    for a, b in itertools.pairwise(edges):
        part = Ranking(m)
        part.add(scores[a:b], positive[a:b], None if weight is None else weight[a:b])
        total.merge(part)
    return total


def exact(scores, positive, weight=None):
    """AUC, average precision of the class, and of the others from below."""
    weight = np.ones(len(scores)) if weight is None else weight
    return (
        reference.roc_auc_score(positive, scores, sample_weight=weight),
        reference.average_precision_score(positive, scores, sample_weight=weight),
        reference.average_precision_score(~positive, -scores, sample_weight=weight),
    )


def ours(found):
    """The three values."""
    return np.array([found.roc_auc(), found.average_precision(), found.average_precision(of_others=True)])


SHAPES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "narrow, far from zero": lambda rng, n: -1 + 1e-3 * rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(n) ** 3,
    "probabilities near zero": lambda rng, n: np.exp(-20 * rng.random(n)),
    "few": lambda rng, n: rng.integers(-3, 3, n) / 7,
    "one and others": lambda rng, n: np.where(rng.random(n) < 0.5, 0.25, rng.normal(size=n)),
    "float32": lambda rng, n: rng.normal(size=n).astype(np.float32),
    "two scales": lambda rng, n: np.where(rng.random(n) < 0.1, 1e6, 1e-6) * rng.normal(size=n),
}


@given(
    shape=st.sampled_from(sorted(SHAPES)),
    n=st.integers(5, 400),
    m=st.sampled_from([2, 16, 1000]),
    share=st.sampled_from([0.02, 0.5, 0.9]),
    weighted=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_scores_are_exact_where_bins_are_enough(shape, n, m, share, weighted, seed):
    rng = np.random.default_rng(seed)
    scores, positive = SHAPES[shape](rng, n), rng.random(n) < share
    positive[:2] = True, False
    scores = scores + 0.5 * np.std(scores) * positive if seed % 2 else scores
    weight = np.r_[1, 1, rng.integers(0, 9, n - 2)] / 4 if weighted else None  # those of 0 do not count
    found = ranking(scores, positive, weight, m, rng.integers(0, n, 3))
    assert len(found.first) <= m
    error = np.abs(ours(found) - exact(scores, positive, weight))
    pairs = (found.positive * found.negative)[found.first < found.last].sum()
    assert (
        error[0] <= pairs / found.positive.sum() / found.negative.sum() / 2 + 1e-12
    )  # pairs in one bin may be in any order
    if len(np.unique(scores)) <= m:
        assert (error <= 1e-12).all()
        assert found.level == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_the_state_is_a_function_of_the_rows(rng, shape):
    """In any order, in any blocks, on any tree; counts are whole numbers, so that sums have no rounding."""
    n = 3000
    scores, positive = SHAPES[shape](rng, n), rng.random(n) < 0.3
    whole = ranking(scores, positive, m=100)
    order = rng.permutation(n)
    other = ranking(scores[order], positive[order], m=100, cuts=[7, 900, 901, 2500])
    assert whole.level == other.level
    for name in ("first", "last", "positive", "negative"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(other, name))
    assert whole.positive.sum() == positive.sum()
    assert whole.negative.sum() == n - positive.sum()


@pytest.mark.parametrize("shape", SHAPES)
def test_many_rows(rng, shape):
    """Ties of many rows are exact among scores in wide bins."""
    n = 200_000
    positive = rng.random(n) < 0.1
    scores = SHAPES[shape](rng, n)
    scores = np.where(positive, np.median(scores) + 1.5 * (scores - np.median(scores)), scores)
    np.testing.assert_allclose(ours(ranking(scores, positive, m=2**12)), exact(scores, positive), atol=2e-4)


@pytest.mark.parametrize("shift", [1, 4])
@pytest.mark.parametrize("weight", [None, 0.25])
def test_average_precision_of_a_rare_class(rng, shift, weight):
    """Of rows that stand alone among others in their bins: it was a twentieth too low."""
    n = 300_000
    positive = np.arange(n) < 30
    scores = rng.normal(size=n) + shift * positive
    weights = None if weight is None else np.full(n, weight)
    found, truth = ours(ranking(scores, positive, weights, m=2**12)), exact(scores, positive)
    assert found[1] == pytest.approx(truth[1], rel=6e-3)


def test_ordered_keys_keep_the_order():
    tiny, huge = np.nextafter(0, 1), np.finfo(float).max
    ascending = np.array([-huge, -1.5, -1.0, -tiny, 0.0, tiny, 1.0, np.nextafter(1, 2), huge])
    assert (np.diff(_ordered(ascending).astype(object)) > 0).all()
    assert _ordered(np.array([-0.0])) == _ordered(np.array([0.0]))
    found = ranking(ascending, ascending > 0, m=2)
    assert len(found.first) == 2
    assert found.roc_auc() > 0.8


def test_scores_that_are_not_defined():
    found = ranking(np.array([1.0, 2.0]), np.array([True, True]))
    assert np.isnan(found.roc_auc())
    assert found.average_precision() == 1.0
    assert np.isnan(found.average_precision(of_others=True))
