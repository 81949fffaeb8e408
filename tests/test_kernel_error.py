"""The error of a kernel approximation: that of the dense matrices, of rows of every kind."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from distrf import RandomFourierFeatures, TensorSketchFeatures
from distrf.errors import InputError
from distrf.metrics import kernel_error

X = np.random.default_rng(2).normal(size=(600, 6))
FEATURES = RandomFourierFeatures(length_scale=3.0, n_components=128, random_state=0).fit(X)


@pytest.mark.parametrize(
    ("kernel", "phase"), [("gaussian", "paired"), ("laplacian", "offset"), ("matern", "paired")]
)
@pytest.mark.parametrize("n", [1, 300])
def test_equals_the_dense_matrices(kernel, phase, n):
    options = {"length_scale": 3.0, "n_components": 2500, "phase": phase, "random_state": 0}
    features = RandomFourierFeatures(kernel, **options).fit(X[:n])
    K, Z = features.map_.exact_kernel(X[:n]), features.transform(X[:n])
    wanted = np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K)
    assert kernel_error(features, X[:n]) == pytest.approx(wanted, rel=1e-9)


def test_same_for_dask_csr_and_numpy():
    expected = kernel_error(FEATURES, X, n_rows=250, seed=3)
    for rows in (da.from_array(X, chunks=(70, 6)), sp.csr_array(X)):
        assert kernel_error(FEATURES.map_, rows, n_rows=250, seed=3) == expected
    assert kernel_error(FEATURES, X, n_rows=250, seed=4) != expected


@pytest.mark.parametrize(
    ("features", "rows", "options", "match"),
    [
        (RandomFourierFeatures(), X, {}, "call fit first"),
        (FEATURES, X, {"n_rows": 0}, "n_rows"),
        (
            TensorSketchFeatures(gamma=1.0, coef0=0.0, n_components=32, random_state=0).fit(np.ones((5, 3))), np.zeros((100, 3)), {},
            "kernel matrix of the sampled rows is zero",
        ),
    ],
)  # fmt: skip
def test_refuses_bad_input(features, rows, options, match):
    with pytest.raises(InputError, match=match):
        kernel_error(features, rows, **options)
