import tracemalloc

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import distrf.metrics.approximation as metrics_module
from distrf import (
    TEFM,
    RandomBinningFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    StreamingScaler,
    WithColumns,
)
from distrf.errors import InputError
from distrf.maps import FourierMap
from distrf.metrics import KernelError, kernel_error


def rows(n=600, d=6, dtype=np.float32):
    return np.random.default_rng(2).normal(size=(n, d)).astype(dtype)


def dense_errors(map_, X):
    Z = np.asarray(map_(X), dtype=np.float64)
    K = map_.exact_kernel(X)
    E = K - Z @ Z.T
    return (
        np.linalg.norm(E) / np.linalg.norm(K),
        np.linalg.norm(E, 2) / np.linalg.norm(K, 2),
        np.mean(E**2),
    )


def values(error):
    return error.frobenius, error.spectral, error.mse


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "cauchy", "matern"])
@pytest.mark.parametrize("phase", ["paired", "offset"])
def test_kernel_error__equals_the_dense_matrices(kernel, phase):
    X = rows(300)
    features = RandomFourierFeatures(kernel, length_scale=3.0, n_components=256, phase=phase, random_state=0)
    error = kernel_error(features.fit(X), X)
    assert (error.n_rows, error.n_components) == (300, 256)
    np.testing.assert_allclose(values(error), dense_errors(features.map_, X), rtol=2e-4)


@pytest.mark.parametrize("n", [1, 2, 150])
def test_kernel_error__few_rows(n):
    X = rows(n, dtype=np.float64)
    features = RandomFourierFeatures(length_scale=3.0, n_components=64, phase="offset", random_state=0).fit(X)
    np.testing.assert_allclose(values(kernel_error(features, X)), dense_errors(features.map_, X), rtol=1e-9)


def test_kernel_error__whitening_is_part_of_the_kernel():
    X = rows(400) * np.array([1, 10, 100, 1, 1, 1], dtype=np.float32)
    features = RandomFourierFeatures(length_scale=3.0, n_components=8192, whiten=True, random_state=0).fit(X)
    assert kernel_error(features, X, norms=["frobenius"]).frobenius < 0.05


def test_kernel_error__shrinks_as_one_over_root_D():
    X = rows()
    small, large = (
        kernel_error(FourierMap(6, D, RandomFourierFeatures().fit(X).map_.kernel, 3.0, "dense", "paired", 5), X)
        for D in (512, 8192)
    )
    # 16 times the features: a quarter of the error, give or take what one draw of weights varies.
    assert 0.15 < large.frobenius / small.frobenius < 0.4


def test_kernel_error__strips_equal_the_whole(monkeypatch):
    X = rows()
    features = RandomFourierFeatures(length_scale=3.0, n_components=1026, random_state=0).fit(X)
    whole = values(kernel_error(features, X))
    monkeypatch.setattr(metrics_module, "_WHOLE_BYTES", 0)
    monkeypatch.setattr(metrics_module, "_TILE_BYTES", 8 * 600 * 70)
    monkeypatch.setattr(metrics_module, "_COLUMN_BYTES", 4 * 600 * 100)
    np.testing.assert_allclose(values(kernel_error(features, X)), whole, rtol=2e-4)


def test_kernel_error__same_for_dask_csr_and_numpy():
    X = rows()
    features = RandomFourierFeatures(length_scale=3.0, n_components=128, random_state=0).fit(X)
    expected = kernel_error(features, X, n_rows=250, seed=3)
    assert kernel_error(features.map_, da.from_array(X, chunks=(70, 6)), n_rows=250, seed=3) == expected
    assert kernel_error(features, sp.csr_array(X), n_rows=250, seed=3) == expected
    assert kernel_error(features, X, n_rows=250, seed=4) != expected


def test_kernel_error__reads_only_sampled_blocks():
    read = []

    def block(block_info=None):
        (first, last), _ = block_info[None]["array-location"]
        read.append(first)
        return np.random.default_rng(first).normal(size=(last - first, 3))

    n = 200_000
    X = da.map_blocks(block, chunks=((1000,) * (n // 1000), (3,)), dtype=float, meta=np.empty((0, 0)))
    features = RandomFourierFeatures(length_scale=2.0, n_components=32, random_state=0).fit(X)
    with dask.config.set(scheduler="synchronous"):
        error = kernel_error(features, X, n_rows=80)
    assert error.n_rows == 80
    assert len(set(read)) <= 10


def test_kernel_error__only_the_norms_asked_for():
    X = rows(100)
    features = RandomFourierFeatures(n_components=64, random_state=0).fit(X)
    error = kernel_error(features, X, norms=("mse",))
    assert error.mse > 0
    assert error == KernelError(100, 64, mse=error.mse)


def test_kernel_error__memory_is_bounded_in_D():
    X = rows(100, d=2)
    features = RandomFourierFeatures(length_scale=3.0, n_components=1_000_000, random_state=0).fit(X)
    kernel_error(features, X[:5], norms=("mse",))
    tracemalloc.start()
    error = kernel_error(features, X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20  # the features alone would be 400 MB
    assert error.frobenius < 5e-3


def test_kernel_error__refuses_bad_input():
    X = rows(50)
    features = RandomFourierFeatures(n_components=64, random_state=0)
    with pytest.raises(InputError, match="call fit first"):
        kernel_error(features, X)
    features.fit(X)
    with pytest.raises(InputError, match="norms are"):
        kernel_error(features, X, norms=("nuclear",))
    with pytest.raises(InputError, match="n_rows"):
        kernel_error(features, X, n_rows=0)
    with pytest.raises(InputError, match="features"):
        kernel_error(features, X[:, :3])
    with pytest.raises(InputError, match="approximates no kernel"):
        kernel_error(StreamingScaler().fit(X), X)


def test_kernel_error__refuses_whitened_directions():
    """Features divided by their root mean squares approximate no kernel: 15.5 said nothing."""
    X = np.random.default_rng(0).normal(size=(300, 4))
    base = RandomFourierFeatures(length_scale=2.0, n_components=64, random_state=0)
    tefm = TEFM(base, n_components=16, whiten=True, random_state=0).fit(X)
    for map_ in (tefm, WithColumns(tefm, random_state=0).fit(X)):
        with pytest.raises(InputError, match=r"whiten=True .* approximate no kernel; .*whiten=False"):
            print("kernel_error of whitened directions:", kernel_error(map_, X))
    plain = TEFM(base, n_components=16, random_state=0).fit(X)
    assert kernel_error(plain, X).frobenius < 0.3


@pytest.mark.parametrize("n", [100, 300])
def test_kernel_error__refuses_a_kernel_matrix_of_zeros(n):
    map_ = RandomMaclaurinFeatures("homogeneous", gamma=1.0, n_components=32, random_state=0).fit(
        np.ones((5, 3))
    )
    for norms in (("frobenius",), ("spectral",), ("frobenius", "spectral", "mse")):
        with pytest.raises(InputError, match=r"kernel matrix of the sampled rows is zero .*norms=\('mse',\)"):
            kernel_error(map_, np.zeros((n, 3)), norms=norms)
    assert kernel_error(map_, np.zeros((n, 3)), norms=("mse",)).mse == 0.0


def test_kernel_error__of_csr_features():
    X = np.random.default_rng(0).normal(size=(200, 3))
    map_ = RandomBinningFeatures(length_scale=2.0, n_grids=400, n_components=40_000, random_state=0).fit(X)
    assert kernel_error(map_, X).frobenius < 0.1
