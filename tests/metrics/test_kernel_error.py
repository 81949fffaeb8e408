"""The error of a kernel approximation: that of the dense matrices, from few blocks, in bounded memory."""

import tracemalloc

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from distrf import TEFM, RandomBinningFeatures, RandomFourierFeatures, StreamingScaler, TensorSketchFeatures
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


def test_reads_only_sampled_blocks():
    read = []

    def block(block_info=None):
        (first, last), _ = block_info[None]["array-location"]
        read.append(first)
        return np.random.default_rng(first).normal(size=(last - first, 3))

    X = da.map_blocks(block, chunks=((1000,) * 200, (3,)), dtype=float, meta=np.empty((0, 0)))
    features = RandomFourierFeatures(length_scale=2.0, n_components=32, random_state=0).fit(X)
    with dask.config.set(scheduler="synchronous"):
        kernel_error(features, X, n_rows=80)
    assert len(set(read)) <= 10


def test_memory_is_bounded_in_D():
    X = rows(100, d=2)
    features = RandomFourierFeatures(length_scale=3.0, n_components=1_000_000, random_state=0).fit(X)
    kernel_error(features, X[:5])
    tracemalloc.start()
    error = kernel_error(features, X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20  # the features alone would be 400 MB
    assert error < 5e-3


def test_refuses_bad_input():
    X = rows(50)
    features = RandomFourierFeatures(n_components=64, random_state=0)
    with pytest.raises(InputError, match="call fit first"):
        kernel_error(features, X)
    with pytest.raises(InputError, match="n_rows"):
        kernel_error(features.fit(X), X, n_rows=0)
    with pytest.raises(InputError, match="features"):
        kernel_error(features, X[:, :3])
    with pytest.raises(InputError, match="approximates no kernel"):
        kernel_error(StreamingScaler().fit(X), X)
    whitened = TEFM(features, n_components=16, whiten=True, random_state=0).fit(X)
    with pytest.raises(InputError, match=r"whiten=True .* approximate no kernel; .*whiten=False"):
        kernel_error(whitened, X)
    zero = TensorSketchFeatures(gamma=1.0, coef0=0.0, n_components=32, random_state=0).fit(np.ones((5, 3)))
    with pytest.raises(InputError, match="kernel matrix of the sampled rows is zero"):
        kernel_error(zero, np.zeros((100, 3)))


def test_of_csr_features():
    X = np.random.default_rng(0).normal(size=(200, 3))
    map_ = RandomBinningFeatures(length_scale=2.0, n_grids=400, n_components=40_000, random_state=0).fit(X)
    assert kernel_error(map_, X) < 0.1
