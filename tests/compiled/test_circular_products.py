"""Products with circulant matrices by transforms in vectors: against scipy.fft and against the explicit matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
from scipy.linalg import circulant

from distrf.compiled.circular_products import (
    circulant_spectra,
    circular_products,
    forward_transform,
    inverse_transform,
    row_spectra,
    transform_plan,
)

SIXTEENS = [16, 32, 48, 64, 80, 144, 240, 400, 512, 720, 800, 1024, 3600]
lengths = pytest.mark.parametrize("L", SIXTEENS)
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def bound(L, dtype):
    """Rounding of a transform as a share of the norm of its result: eps log2 L, and a bit for the twiddles."""
    return 2.0 * np.finfo(dtype).eps * np.log2(L)


def products(X, factors, vectors, dtype):
    """Shape (n, t, L)."""
    t, _, L = vectors.shape
    out = np.full((len(X), t + t % 2, L), np.nan, dtype)
    spectra = row_spectra(X.astype(dtype), factors.astype(dtype), L)
    circular_products(spectra, circulant_spectra(vectors).astype(dtype), out)
    return out[:, :t]


def test_which_lengths_have_a_plan():
    served = {16 * 2**a * 3**b * 5**c for a in range(12) for b in range(8) for c in range(6)}
    for L in [*range(1, 1200), 4096, 4097, 8192]:
        if L in served:
            assert transform_plan(L).order.size == L
        else:
            with pytest.raises(ValueError, match=f"got {L}"):
                transform_plan(L)


@lengths
@dtypes
def test_transforms_are_those_of_scipy(L, dtype, rng):
    plan = transform_plan(L, np.dtype(dtype).str)
    cos, sin = plan.cos, plan.sin
    assert sorted(plan.order) == list(range(L))
    z = (rng.normal(size=L) + 1j * rng.normal(size=L)).astype(np.result_type(dtype, np.complex64))
    re, im = (np.ascontiguousarray(part[plan.order]) for part in (z.real, z.imag))
    inverse_transform(re, im, plan.radices, cos, sin)
    exact = scipy.fft.ifft(z.astype(np.complex128)) * L
    assert np.linalg.norm(re + 1j * im - exact) <= bound(L, dtype) * np.linalg.norm(exact)
    re, im = z.real.copy(), np.zeros(L, dtype)
    forward_transform(re, im, plan.radices, cos, sin)
    exact = scipy.fft.fft(z.real.astype(np.float64))[plan.order]
    assert np.linalg.norm(re + 1j * im - exact) <= bound(L, dtype) * np.linalg.norm(exact)


@lengths
@dtypes
@pytest.mark.parametrize("mixed", [1, 2, 3])
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_products_are_those_of_the_matrices(L, dtype, mixed, blocks, rng):
    d = L - 3
    X, factors = rng.normal(size=(3, d)), rng.choice([-1.0, 0.0, 1.0], (mixed, d))
    vectors = rng.normal(size=(blocks, mixed, L))
    x = np.fft.rfft(X[:, None] * factors, L)
    exact = np.fft.irfft((x[:, None] * np.fft.rfft(vectors)).sum(axis=2), L)
    made = products(X, factors, vectors, dtype)
    assert np.linalg.norm(made - exact) <= 4 * bound(L, dtype) * np.linalg.norm(exact)
    if L <= 80:
        W = sum(circulant(vectors[0, k])[:, :d] @ np.diag(factors[k]) for k in range(mixed))
        np.testing.assert_allclose(exact[:, 0], X @ W.T, atol=1e-11)


@dtypes
def test_a_row_does_not_depend_on_others(dtype, rng):
    """To the same bits, however large its neighbours are."""
    X, factors, vectors = rng.normal(size=(5, 90)), np.ones((1, 90)), rng.normal(size=(4, 1, 96))
    alone = products(X[2:3], factors, vectors, dtype)
    X[[1, 3]] *= 1e20
    np.testing.assert_array_equal(products(X, factors, vectors, dtype)[2:3], alone)
