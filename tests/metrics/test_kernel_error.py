"""The error of a kernel approximation: that of the dense matrices, of rows of every kind."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from distrf import TEFM, RandomFourierFeatures, TensorSketchFeatures
from distrf.errors import InputError
from distrf.metrics import kernel_error


def rows(n=600, d=6, dtype=np.float32):
    return np.random.default_rng(2).normal(size=(n, d)).astype(dtype)


@pytest.mark.parametrize(
    ("kernel", "phase"), [("gaussian", "paired"), ("laplacian", "offset"), ("matern", "paired")]
)
@pytest.mark.parametrize("n", [1, 300])
def test_equals_the_dense_matrices(kernel, phase, n):
    X = rows(n, dtype=np.float64)
    features = RandomFourierFeatures(
        kernel, length_scale=3.0, n_components=2500, phase=phase, random_state=0
    ).fit(X)
    K, Z = features.map_.exact_kernel(X), features.transform(X)
    wanted = np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K)
    assert kernel_error(features, X) == pytest.approx(wanted, rel=1e-9)


def test_same_for_dask_csr_and_numpy():
    X = rows()
    features = RandomFourierFeatures(length_scale=3.0, n_components=128, random_state=0).fit(X)
    expected = kernel_error(features, X, n_rows=250, seed=3)
    assert kernel_error(features.map_, da.from_array(X, chunks=(70, 6)), n_rows=250, seed=3) == expected
    assert kernel_error(features, sp.csr_array(X), n_rows=250, seed=3) == expected
    assert kernel_error(features, X, n_rows=250, seed=4) != expected


def test_refuses_bad_input():
    X = rows(50)
    features = RandomFourierFeatures(n_components=64, random_state=0)
    with pytest.raises(InputError, match="call fit first"):
        kernel_error(features, X)
    with pytest.raises(InputError, match="n_rows"):
        kernel_error(features.fit(X), X, n_rows=0)
    whitened = TEFM(features, n_components=16, whiten=True, random_state=0).fit(X)
    with pytest.raises(InputError, match=r"whiten=True .* approximate no kernel; .*whiten=False"):
        kernel_error(whitened, X)
    zero = TensorSketchFeatures(gamma=1.0, coef0=0.0, n_components=32, random_state=0).fit(np.ones((5, 3)))
    with pytest.raises(InputError, match="kernel matrix of the sampled rows is zero"):
        kernel_error(zero, np.zeros((100, 3)))
