"""Tall-skinny QR by blocks of rows."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import small_seeds

from distrf.subspace import tsqr
from distrf.subspace.tsqr import cut_blocks, leading, orthonormalise, qr_positive


@given(rows=st.integers(1, 2000), width=st.integers(1, 12), most=st.integers(1, 100), seed=small_seeds)
def test_tree_is_the_qr_of_all_rows(rows, width, most, seed):
    Y = np.random.default_rng(seed).normal(size=(max(rows, width), width))
    with patch.object(tsqr, "BLOCK_ROWS", most):  # several levels
        Q = orthonormalise(Y.copy())
    np.testing.assert_allclose(Q, qr_positive(Y)[0], atol=1e-8)  # unique with a positive diagonal


def graded(condition, rows=600, width=20):
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(rows, width)))[0]
    V = np.linalg.qr(rng.normal(size=(width, width)))[0]
    return (U * np.geomspace(1, 1 / condition, width)) @ V


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 100 rows, so that small matrices are cut."""
    monkeypatch.setattr(tsqr, "BLOCK_ROWS", 100)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e5, 1e8, 1e12, 1e20])
def test_basis_is_orthonormal_at_every_condition(condition, dtype):
    Y = graded(condition).astype(dtype)
    eps = np.finfo(dtype).eps
    Q = orthonormalise(Y.copy())
    assert Q.dtype == dtype
    np.testing.assert_allclose(Q.T @ Q, np.eye(20), atol=10 * eps * np.sqrt(20))
    Y, Q = Y.astype(float), Q.astype(float)
    assert np.linalg.norm(Y - Q @ (Q.T @ Y)) < 10 * eps * np.linalg.norm(Y) * 20


@pytest.mark.usefixtures("small_blocks")
def test_rank_deficient_columns_are_completed():
    Y = np.random.default_rng(0).normal(size=(250, 3)) @ np.ones((3, 8))
    Q = orthonormalise(Y)
    np.testing.assert_allclose(Q.T @ Q, np.eye(8), atol=1e-13)
    zero = orthonormalise(np.zeros((330, 4)))
    np.testing.assert_allclose(zero.T @ zero, np.eye(4), atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_leading_directions(dtype):
    Y = graded(1e4).astype(dtype)
    Q = leading(Y.copy(), 6)
    U = np.linalg.svd(Y.astype(float), full_matrices=False)[0][:, :6]
    assert Q.dtype == np.float64
    np.testing.assert_allclose(Q @ Q.T, U @ U.T, atol=1e-12)
    np.testing.assert_allclose(Q.T @ Q, np.eye(6), atol=1e-13)


@pytest.mark.parametrize(("rows", "width"), [(40_000, 3), (16_390, 20), (16_384, 5), (50_000, 20_000), (10, 3)])
def test_blocks_cover_the_matrix_and_none_is_wide(rows, width):
    Y = np.broadcast_to(np.zeros(()), (rows, width))
    blocks = cut_blocks(Y)
    assert sum(len(b) for b in blocks) == rows
    assert all(len(b) >= width for b in blocks)
    assert all(np.shares_memory(b, Y) for b in blocks)
