"""Moments of columns against NumPy, of dense and CSR rows, in any blocks."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from peaks import traced

from distrf.maps.scaling import MomentsReduction, column_moments


@pytest.fixture
def numbers(rng):
    """Columns that are mostly 0, far from 0, never 0, always 0, and constant."""
    X = rng.normal(size=(300, 5)) * [1, 1, 3, 0, 0] + [0, 1e6, -2, 0, 7]
    X[rng.random(300) < 0.8, 0] = 0
    return X


@pytest.mark.parametrize("blocks", [None, 7, 299])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_moments(form, blocks, numbers):
    rows = form(numbers)
    if blocks:
        parts = [da.from_array(form(numbers[a : a + blocks]), chunks=(-1, -1)) for a in range(0, 300, blocks)]
        rows = da.concatenate(parts)
    found = column_moments(rows)
    assert found.count == 300
    squares = ((numbers - numbers.mean(axis=0)) ** 2).sum(axis=0)
    np.testing.assert_allclose(found.mean, numbers.mean(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.squares, squares, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(found.low, numbers.min(axis=0))
    np.testing.assert_array_equal(found.high, numbers.max(axis=0))


def test_scratch_of_a_covariance():
    """The rows less their mean as float64, dense, and a product of the size of the state."""
    reduction, rows = MomentsReduction(300, products=True), np.ones((20_000, 300), dtype=np.float32)
    state = reduction.initial()
    _, peak, _ = traced(lambda: reduction.update(state, 0, rows))
    assert 0.95 * peak <= 20_000 * reduction.scratch_per_row + reduction.scratch_bytes <= 1.1 * peak
