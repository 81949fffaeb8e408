from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from distrf.sgd.alpha import svd


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (1, 1)])
@pytest.mark.parametrize("converges", [True, False])
def test_svd(shape, converges, monkeypatch, rng):
    quick = linalg.svd

    def refusing(A, lapack_driver="gesdd", **rest):
        if lapack_driver == "gesdd":
            raise linalg.LinAlgError("SVD did not converge")
        return quick(A, lapack_driver=lapack_driver, **rest)

    if not converges:
        monkeypatch.setattr(linalg, "svd", refusing)
    A = rng.normal(size=shape)
    U, s, V = svd(A)
    k = min(shape)
    assert U.shape == (shape[0], k)
    np.testing.assert_allclose((U * s) @ V, A, atol=1e-14)
    np.testing.assert_allclose(U.T @ U, np.eye(k), atol=1e-14)
    assert (np.diff(s) <= 0).all()
