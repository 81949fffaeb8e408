"""The preconditioner against the explicit matrices, and the step sizes against their bounds."""

from __future__ import annotations

import numpy as np
import pytest

from distrf.sgd import preconditioner
from distrf.sgd.preconditioner import (
    SampledRows,
    deflated_curvature,
    largest_eigenvalue,
    make_preconditioner,
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


@pytest.mark.parametrize("k", [0, 5, 30])
def test_the_preconditioned_hessian(k):
    Z, L, alpha = rows(), 0.25, 1e-3
    P = make_preconditioner(SampledRows(Z, whole=True), L, alpha, most=k)
    H = L * Z.T @ Z / len(Z) + alpha * np.eye(30)
    matrix = P(np.eye(30))
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    curved = np.linalg.eigvals(matrix @ H).real
    assert curved.max() == pytest.approx(P.curvature)
    assert P.step(None) == 1.0 / P.curvature
    mu = np.linalg.eigvalsh(H)[::-1]
    assert P.curvature == pytest.approx(mu[k] if k < 30 else alpha, rel=1e-6)
    longest = max(z @ matrix @ z for z in Z)
    assert P.row_bound == pytest.approx(L * longest + alpha)
    assert P.step(1) == pytest.approx(1.0 / P.row_bound)
    assert P.step(10**9) == pytest.approx(1.0 / P.curvature, rel=1e-4)


def test_steps_of_small_batches_do_not_diverge():
    """E|w - w*|^2 falls for the step of every batch size: noiseless least squares from random batches."""
    Z = rows(2000, 20)
    P = make_preconditioner(SampledRows(Z, whole=True), 1.0, 0.0, most=5)
    exact = np.random.default_rng(1).normal(size=(20, 1))
    for m in (1, 8, 64, 512):
        w, rng = np.zeros((20, 1)), np.random.default_rng(2)
        for _ in range(2000):
            B = Z[rng.integers(2000, size=m)]
            w -= P.step(m) * P(B.T @ (B @ (w - exact)) / m)
        assert np.linalg.norm(Z @ (w - exact)) < 0.1 * np.linalg.norm(Z @ exact)


def heavy(n=20_000, P=60, seed=0):
    """Rows of falling variance and heavy tails; three tight clusters of 0.1 % each lie far out along axes of their own."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, P)) * np.arange(1, P + 1) ** -1.0 * np.sqrt(4 / rng.chisquare(4, size=n))[:, None]
    for c in range(3):
        rare = rng.choice(n, n // 1000, replace=False)
        Z[rare] = 0.01 * rng.normal(size=(len(rare), P))
        Z[rare, P - 1 - c] += 20.0
    return Z


def largest(P, Z):
    return float(np.linalg.eigvals(P(np.eye(Z.shape[1])) @ (Z.T @ Z / len(Z))).real.max())


@pytest.mark.parametrize("chosen", [True, False])
def test_curvature_holds_for_rows_that_were_not_sampled(chosen):
    """Rows that fitted the directions say many times too little about the others; rows that did not say enough."""
    Z = heavy()
    too_little = []
    for seed in range(8):
        picked = np.random.default_rng(seed).permutation(len(Z))[:900]
        fitted, held = Z[picked[:600]], Z[picked[600:]]
        P = make_preconditioner(
            SampledRows(fitted, held, unseen=1 / 900), 1.0, 1e-9, most=None if chosen else 55, chosen=chosen
        )
        lengths = P.lengths(Z)
        known, true = P.bounded(float(lengths.max())), largest(P, Z)
        assert known.row_bound >= lengths.max()
        assert true <= known.curvature <= 30 * true
        assert known.bounded(0.1) is known
        too_little.append(true / largest(P, fitted))
    if not chosen:
        assert max(too_little) > 9


def test_lengths_are_the_quadratic_form():
    Z, held = rows(400, 30)[:300], rows(400, 30)[300:]
    P = make_preconditioner(SampledRows(Z, held), 0.25, 1e-3, most=7, chosen=False)
    matrix = P(np.eye(30))
    expected = np.einsum("ij,jk,ik->i", held, matrix, held)
    np.testing.assert_allclose(P.lengths(held), expected, rtol=1e-10)


@pytest.mark.parametrize("P", [20, 60])
def test_deflated_curvature_is_the_largest_eigenvalue(P):
    """Small matrices in full, larger ones by Lanczos."""
    Z = rows(500, P)
    made = make_preconditioner(SampledRows(Z[:300], Z[300:]), 1.0, 1e-6, most=9, chosen=False)
    exact = np.linalg.eigvals(made(np.eye(P)) @ (Z[300:].T @ Z[300:] / 200)).real.max()
    assert deflated_curvature(Z[300:], made, 0) == pytest.approx(exact, rel=1e-2)
    none = make_preconditioner(SampledRows(Z[:300], Z[300:]), 1.0, 1e-6, most=0)
    assert deflated_curvature(Z, none, 0) == pytest.approx(np.linalg.norm(Z, 2) ** 2 / 500, rel=1e-2)


def test_fewer_directions_where_the_rows_cannot_tell_more():
    """Of 400 directions of 450 rows the last are noise: they are left out, and steps are longer for it."""
    Z = np.random.default_rng(0).normal(size=(900, 400)) * np.arange(1, 401) ** -0.5
    told = make_preconditioner(SampledRows(Z[:450], Z[450:]), 1.0, 1e-9)
    every = make_preconditioner(SampledRows(Z[:450], Z[450:]), 1.0, 1e-9, most=400, chosen=False)
    assert 0 < len(told.shrink) < len(every.shrink)
    mu = top_directions(Z[:450], 400, 0)[0]
    assert told.curvature <= 8 * mu[len(told.shrink)]


def test_weights_are_repeated_rows():
    Z, weight = rows(50, 6), np.random.default_rng(0).integers(0, 4, 50).astype(float)
    repeated = np.repeat(Z, weight.astype(int), axis=0)
    A, B = weighted_rows(Z, weight, 2.0), weighted_rows(repeated, None, 2.0)
    np.testing.assert_allclose(A.T @ A / len(A), B.T @ B / len(B))


@pytest.mark.parametrize("shape", [(400, 30), (60, 40)])
def test_the_largest_eigenvalue(shape):
    Z = rows(*shape)
    assert largest_eigenvalue(Z, 0) == pytest.approx(np.linalg.norm(Z, 2) ** 2 / shape[0], rel=1e-2)
    assert largest_eigenvalue(np.zeros(shape), 0) == 0.0


def test_rows_of_zeros():
    P = make_preconditioner(SampledRows(np.zeros((10, 3)), whole=True), 1.0, 0.0, most=3)
    assert np.isfinite(P.curvature)
    assert P.curvature > 0
