"""CSR features through the passes: products and sketches."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from distrf.compiled.csr_products import add_transposed_product
from distrf.maps.tiles import FeatureTiles
from distrf.subspace.reductions import SketchReduction
from distrf.subspace.sketches import SKETCHES, make_sketch


def matrix(n, d, density=0.3, seed=0):
    return sp.random_array((n, d), density=density, format="csr", rng=np.random.default_rng(seed))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products(dtype):
    X, G = matrix(40, 17), np.random.default_rng(2).normal(size=(40, 5))
    X, G = X.astype(dtype), G.astype(dtype)
    dense = X.toarray().astype(np.float64)
    out = np.ones((17, 5))
    add_transposed_product(X, G, out)
    # Each product rounds in `dtype`, the sums in float64.
    np.testing.assert_allclose(out, 1 + dense.T @ G.astype(np.float64), atol=40 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", SKETCHES)
@pytest.mark.parametrize("columns", [(0, 30), (7, 19)])
def test_sketch(name, columns):
    """Of all features, and of a column block of them."""
    X = matrix(50, 30)
    fold = SketchReduction(
        FeatureTiles(None, 30), sketch=make_sketch(name, 60, 8, 3), first=columns[0], last=columns[1]
    )
    made, exact = (fold.update(fold.initial(), 5, rows) for rows in (X, X.toarray()))
    np.testing.assert_allclose(made, exact, atol=1e-13)
