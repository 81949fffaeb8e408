"""The preconditioner against the explicit matrices, and the step sizes against their bounds."""

from __future__ import annotations

import numpy as np
import pytest

from distrf.linear_model import preconditioner
from distrf.linear_model.preconditioner import (
    intercept_scale,
    make_preconditioner,
    orthonormal,
    top_directions,
    weighted_rows,
)


def rows(s=400, P=30, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(s, P)) * np.arange(1, P + 1) ** -1.5).astype(dtype)


@pytest.mark.parametrize(("s", "P"), [(400, 30), (20, 50)])
def test_directions_are_eigenvectors(s, P):
    Z = rows(s, P)
    values, Q = top_directions(Z, 7, 0)
    exact = np.linalg.eigvalsh(Z.T @ Z / s)[::-1]
    np.testing.assert_allclose(values, exact[:8], rtol=1e-10)
    np.testing.assert_allclose(Z.T @ (Z @ Q) / s, Q * values[:7], atol=1e-12)


def test_large_matrices_by_subspace_iteration(monkeypatch):
    monkeypatch.setattr(preconditioner, "_DENSE_UP_TO", 100)
    Z = rows(400, 300, np.float32)
    values, Q = top_directions(Z, 60, 3)
    exact = np.linalg.eigvalsh(Z.T.astype(np.float64) @ Z / 400)[::-1]
    np.testing.assert_allclose(values[:50], exact[:50], rtol=1e-3)
    np.testing.assert_allclose(Q.T @ Q, np.eye(60), atol=1e-4)
    residual = Z - (Z @ Q) @ Q.T
    assert np.linalg.norm(residual, 2) ** 2 / 400 <= 1.1 * exact[60]
    np.testing.assert_array_equal(Q, top_directions(Z, 60, 3)[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_orthonormal_basis_of_nearly_dependent_columns(dtype):
    Y = rows(300, 40, dtype)
    Y[:, 20:] = Y[:, :20] + np.sqrt(np.finfo(dtype).eps) * Y[:, 20:]
    Q = orthonormal(Y)
    np.testing.assert_allclose(Q.T @ Q, np.eye(40), atol=2e-4)
    np.testing.assert_allclose(Q @ (Q.T @ Y), Y, atol=1e-4 * abs(Y).max())
    assert orthonormal(np.zeros((5, 2), dtype)).shape == (5, 2)


@pytest.mark.parametrize("k", [0, 5, 30])
def test_the_preconditioned_hessian(k):
    Z, L, alpha = rows(), 0.25, 1e-3
    P = make_preconditioner(Z, L, alpha, k, True, 0)
    H = L * Z.T @ Z / len(Z) + alpha * np.eye(30)
    matrix = P(np.eye(30))
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    curved = np.linalg.eigvals(matrix @ H).real
    assert curved.max() == pytest.approx(P.curvature)
    assert P.step(None) == 1.0 / P.curvature
    mu = np.linalg.eigvalsh(H)[::-1]
    assert P.curvature == pytest.approx(mu[min(k, 29)], rel=1e-6)
    longest = max(z @ matrix @ z for z in Z)
    assert P.row_bound == pytest.approx(L * longest + alpha)
    assert P.step(1) == pytest.approx(1.0 / P.row_bound)
    assert P.step(10**9) == pytest.approx(1.0 / P.curvature, rel=1e-4)


def test_steps_of_small_batches_do_not_diverge():
    """E|w - w*|^2 falls for the step of every batch size: noiseless least squares from random batches."""
    Z = rows(2000, 20)
    P = make_preconditioner(Z, 1.0, 0.0, 5, True, 0)
    exact = np.random.default_rng(1).normal(size=(20, 1))
    for m in (1, 8, 64, 512):
        w, rng = np.zeros((20, 1)), np.random.default_rng(2)
        for _ in range(2000):
            B = Z[rng.integers(2000, size=m)]
            w -= P.step(m) * P(B.T @ (B @ (w - exact)) / m)
        assert np.linalg.norm(Z @ (w - exact)) < 0.1 * np.linalg.norm(Z @ exact)


def test_a_sample_is_not_trusted_as_far_as_all_rows():
    Z = rows()
    sampled, whole = (make_preconditioner(Z, 1.0, 0.0, 5, w, 0) for w in (False, True))
    assert sampled.curvature == pytest.approx(whole.curvature * (1 + np.sqrt(5 / 400)) ** 2)


def test_weights_are_repeated_rows():
    Z, weight = rows(50, 6), np.random.default_rng(0).integers(0, 4, 50).astype(float)
    repeated = np.repeat(Z, weight.astype(int), axis=0)
    A, B = weighted_rows(Z, weight, 2.0), weighted_rows(repeated, None, 2.0)
    np.testing.assert_allclose(A.T @ A / len(A), B.T @ B / len(B))


def test_intercept_scale_is_the_largest_singular_value():
    Z = rows()
    assert intercept_scale(Z) == pytest.approx(np.linalg.norm(Z, 2) / 20, rel=1e-2)
    assert intercept_scale(np.zeros((4, 3))) == 1.0


def test_rows_of_zeros():
    P = make_preconditioner(np.zeros((10, 3)), 1.0, 0.0, 3, True, 0)
    assert np.isfinite(P.curvature)
    assert P.curvature > 0
