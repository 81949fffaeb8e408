"""CSR features through the passes: products and sketches."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from distrf.maps.tiles import FeatureTiles
from distrf.subspace.reductions import SketchReduction
from distrf.subspace.sketches import SKETCHES, make_sketch


def matrix(n, d, density=0.3, seed=0):
    return sp.random_array((n, d), density=density, format="csr", rng=np.random.default_rng(seed))


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
