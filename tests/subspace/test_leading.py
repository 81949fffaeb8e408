"""The basis of a sum."""

from __future__ import annotations

import numpy as np
import pytest

from distrf.subspace.spectrum import leading


def graded(condition, rows=600, width=20):
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(rows, width)))[0]
    V = np.linalg.qr(rng.normal(size=(width, width)))[0]
    return (U * np.geomspace(1, 1 / condition, width)) @ V


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e5, 1e8, 1e12, 1e20])
def test_basis_is_orthonormal_at_every_condition(condition, dtype):
    Y = graded(condition).astype(dtype)
    eps = np.finfo(dtype).eps
    Q = leading(Y.copy(), 20)
    assert Q.dtype == dtype
    np.testing.assert_allclose(Q.T @ Q, np.eye(20), atol=10 * eps * np.sqrt(20))
    Y, Q = Y.astype(float), Q.astype(float)
    assert np.linalg.norm(Y - Q @ (Q.T @ Y)) < 10 * eps * np.linalg.norm(Y) * 20


def test_the_basis_takes_the_place_of_the_sum_and_is_completed():
    Y = np.random.default_rng(0).normal(size=(250, 3)) @ np.ones((3, 8))
    Q = leading(Y, 8)
    assert np.shares_memory(Q, Y)
    np.testing.assert_allclose(Q.T @ Q, np.eye(8), atol=1e-13)
    zero = leading(np.zeros((330, 4)), 4)
    np.testing.assert_allclose(zero.T @ zero, np.eye(4), atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_leading_directions(dtype):
    Y = graded(1e4).astype(dtype)
    Q = leading(Y.copy(), 6)
    U = np.linalg.svd(Y.astype(float), full_matrices=False)[0][:, :6]
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(Q @ Q.T, U @ U.T, atol=1e4 * eps)
    np.testing.assert_allclose(Q.T @ Q, np.eye(6), atol=100 * eps)
