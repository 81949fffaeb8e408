"""Sketches against their explicit matrices, and their independence of the chunking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard
from strategies import row_chunks, small_seeds

from distrf.errors import InputError
from distrf.subspace.sketches import SKETCHES, make_sketch


def applied(sketch, F, chunks):
    out, a = np.zeros((F.shape[1], sketch.width)), 0
    for rows in chunks:
        sketch.add(a, F[a : a + rows], out)
        a += rows
    return out


@pytest.mark.parametrize("name", SKETCHES)
@given(chunks=row_chunks(most=90), width=st.integers(1, 70), seed=small_seeds)
def test_any_chunking_is_the_dense_product(name, chunks, width, seed):
    n = sum(chunks)
    sketch = make_sketch(name, n, width, seed)
    F = np.random.default_rng(seed).normal(size=(n, 37))
    theta = sketch.rows(0, n)
    assert theta.shape == (n, width)
    Y = applied(sketch, F, chunks)
    np.testing.assert_allclose(Y, F.T @ theta, rtol=0, atol=1e-13 * np.sqrt(n) * 30)
    a = n // 3
    np.testing.assert_array_equal(sketch.rows(a, n), theta[a:])


@pytest.mark.parametrize(("n", "width"), [(1, 1), (5, 3), (64, 8), (100, 13), (1000, 60), (300, 256)])
def test_srht_is_the_hadamard_matrix_of_all_rows(n, width):
    """H_N = H_B (x) H_R, zero rows beyond n, `width` distinct samples."""
    sketch = make_sketch("srht", n, width, 3)
    R, B = sketch.block, sketch.n_blocks
    assert R >= width > R / 2
    assert n <= B * R
    signs = np.concatenate([sketch.row_signs(b) for b in range(B)])
    s_b, s_r = sketch.samples()
    chosen = s_b * R + s_r
    assert len(set(chosen.tolist())) == width
    theta = (hadamard(B * R)[chosen] * signs).T / np.sqrt(width)
    np.testing.assert_allclose(sketch.rows(0, n), theta[:n], atol=1e-13)
    F = np.random.default_rng(0).normal(size=(n, 21))
    padded = np.zeros((B * R, 21))
    padded[:n] = F
    np.testing.assert_allclose(
        applied(sketch, F, [n // 3, n // 2 - n // 3, n - n // 2]), padded.T @ theta, atol=1e-13 * 10
    )


@pytest.mark.parametrize("name", SKETCHES)
def test_float32_blocks_are_summed_in_float64(name):
    F = np.random.default_rng(1).normal(size=(3000, 40)).astype(np.float32)
    sketch = make_sketch(name, 3000, 24, 0)
    exact = F.astype(np.float64).T @ sketch.rows(0, 3000)
    error = abs(applied(sketch, F, [500] * 6) - exact).max() / abs(exact).max()
    assert error < 3e-6


@pytest.mark.parametrize("name", SKETCHES)
def test_rows_have_mean_zero_and_equal_expected_energy(name):
    n, width, draws = 96, 16, 400
    thetas = np.stack([make_sketch(name, n, width, seed).rows(0, n) for seed in range(draws)])
    second = np.einsum("snw,smw->nm", thetas, thetas) / draws
    scale = second.trace() / n
    # E[Theta Theta'] = scale I; entries of Theta Theta' have a standard deviation of at most scale.
    assert abs(second / scale - np.eye(n)).max() < 6 / np.sqrt(draws)
    assert abs(thetas.mean(axis=0)).max() < 6 * abs(thetas).std() * 2 / np.sqrt(draws) + 6 / np.sqrt(draws)


def test_unknown_sketch():
    with pytest.raises(InputError, match="unknown sketch 'fourier'; known: gaussian"):
        make_sketch("fourier", 10, 2, 0)
