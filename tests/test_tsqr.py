"""Tall-skinny QR by blocks of rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distrf.subspace.tsqr import cholesky_qr2, cut_blocks, orthonormal, qr_positive, tree_qr


@given(
    rows=st.lists(st.integers(1, 40), min_size=1, max_size=20),
    width=st.integers(1, 12),
    fan_in=st.integers(2, 5),
    seed=st.integers(0, 3),
)
def test_tree_is_the_qr_of_the_stacked_blocks(rows, width, fan_in, seed):
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(r, width)) for r in rows]
    Y = np.concatenate(blocks)
    tree = tree_qr(blocks, fan_in)
    Q = np.concatenate(list(tree.blocks()))
    np.testing.assert_allclose(Q @ tree.R, Y, atol=1e-12)
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=1e-12)
    np.testing.assert_allclose(tree.block(0), Q[: rows[0]], atol=1e-12)
    M = rng.normal(size=(Q.shape[1], 3))
    np.testing.assert_allclose(np.concatenate(list(tree.blocks(M))), Q @ M, atol=1e-12)
    if len(Y) >= width:  # unique with a positive diagonal
        np.testing.assert_allclose(Q, qr_positive(Y)[0], atol=1e-8)


def graded(condition, rows=600, width=20):
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(rows, width)))[0]
    V = np.linalg.qr(rng.normal(size=(width, width)))[0]
    return (U * np.geomspace(1, 1 / condition, width)) @ V


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e5, 1e8, 1e12, 1e20])
def test_basis_is_orthonormal_at_every_condition(condition):
    Y = graded(condition)
    blocks = np.split(Y, 6)
    fast = cholesky_qr2(blocks)
    assert (fast is not None) == (condition < 1e6)
    Q = np.concatenate(orthonormal(blocks))
    np.testing.assert_allclose(Q.T @ Q, np.eye(20), atol=1e-13)
    assert np.linalg.norm(Y - Q @ (Q.T @ Y)) < 1e-13 * np.linalg.norm(Y) * 20


def test_columns_of_unlike_length_are_no_bad_condition():
    Y = graded(10.0) * np.geomspace(1, 1e-12, 20)
    assert cholesky_qr2(np.split(Y, 3)) is not None


def test_rank_deficient_columns_are_completed():
    Y = np.random.default_rng(0).normal(size=(200, 3)) @ np.ones((3, 8))
    Q = np.concatenate(orthonormal(np.split(Y, 2)))
    np.testing.assert_allclose(Q.T @ Q, np.eye(8), atol=1e-13)
    zero = np.concatenate(orthonormal([np.zeros((30, 4)), np.zeros((30, 4))]))
    assert np.isfinite(zero).all()


def test_blocks_of_a_whole_matrix_are_views():
    Y = np.zeros((40_000, 3))
    blocks = cut_blocks(Y)
    assert sum(len(b) for b in blocks) == 40_000
    assert all(np.shares_memory(b, Y) for b in blocks)
    assert len(cut_blocks(np.zeros((10, 3)))) == 1
