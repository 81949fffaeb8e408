"""Columns and rows of extreme size: right numbers, or a refusal that says what to do."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from distrf import RandomFourierFeatures
from distrf.errors import InputError
from distrf.kernels import Gaussian, Laplacian, Matern
from distrf.kernels.exact import kernel_block
from distrf.maps import BinningMap, FourierMap, LearnedFourierMap
from distrf.maps.learned import get_frequencies
from distrf.maps.nystroem import NystroemMap


def whitening(X):
    return (
        RandomFourierFeatures(metric="whiten", length_scale=1.0, n_components=2, random_state=0)
        .fit(X)
        .map_.root
    )


@pytest.mark.parametrize("kind", ["numpy", "dask", "csr"])
def test_whitening_of_columns_of_unlike_units(kind, rng):
    """No direction is lost because another column has large units."""
    X = rng.normal(size=(300, 3)) * [3e7, 0.1, 1.0]
    X[:, 2] += X[:, 1]  # correlated at their own size
    given = {"numpy": X, "dask": da.from_array(X, chunks=(90, 3)), "csr": sp.csr_array(X)}[kind]
    A = whitening(given)
    # Whitened rows, hence the kernel, know no units.
    plain = X / [3e7, 0.1, 1.0]
    B = whitening(plain)
    error = abs(Gaussian()(X @ A) - Gaussian()(plain @ B)).max()
    print(f"kernel error of unlike units: {error:.2g}")
    assert error < 1e-13
    np.testing.assert_allclose(np.cov((X @ A).T, bias=True), np.eye(3), atol=1e-12)


def test_whitening_drops_constant_columns_of_any_size(rng):
    """The rounding of a column of equal numbers is no direction."""
    for constant in (0.1, 1e9 / 3, 1e-300):
        X = np.column_stack([rng.normal(size=(200, 2)), np.full(200, constant)])
        A = whitening(X)
        assert not A[2].any()
        assert not A[:, 2].any()
        np.testing.assert_allclose(np.cov((X @ A)[:, :2].T, bias=True), np.eye(2), atol=1e-10)


# ---- exact kernels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [Gaussian(), Matern(1.5), Matern(2.5)], ids=repr)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_far_row_cancels_no_others(kernel, kind, rng):
    """Distances between ordinary rows keep their digits beside it."""
    X = rng.normal(size=(50, 4))
    X[0, 1] = 1e9
    error = abs(kernel_block(kernel, kind(X), kind(X[:40]), 1.0) - kernel(X, X[:40]))[1:]
    assert error.max() < 1e-9
    map_ = NystroemMap.of_landmarks(kernel, 1.0, X)
    Z = map_(kind(X))[1:]
    assert abs(Z @ Z.T - kernel(X[1:])).max() < 1e-6


# ---- phases of far rows -------------------------------------------------------------------------------------

STRUCTURED = ["dense", "structured_orthogonal", "fastfood", "circulant", "orthogonal", "quasi"]


@pytest.mark.parametrize("phase", ["paired", "offset"])
@pytest.mark.parametrize("projection", STRUCTURED)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_far_float32_rows_do_not_coincide(kind, projection, phase, rng):
    """Rows of size 1e8 l: k = 0 between them, 1 with themselves, as their float64 features say."""
    X = (rng.normal(size=(40, 64)) * 1e8).astype(np.float32)
    X[:20] = rng.normal(size=(20, 64))
    map_ = FourierMap(64, 4096, Gaussian(), 5.0, projection, phase, seed=1)
    Z = map_(kind(X))
    assert Z.dtype == np.float32
    far = abs((Z @ Z.T)[20:] - np.eye(40)[20:]).max()
    print(f"{projection}, {phase}: largest error of k between far rows {far:.2g}")
    assert far < 6 / np.sqrt(2048)
    np.testing.assert_allclose(Z, map_(kind(X.astype(np.float64))), atol=1e-5)
    # Ordinary rows do not see the far ones, but for rounding.
    for a, b in ((0, 20), (19, 21), (39, 40)):
        np.testing.assert_allclose(map_(kind(X[a:b])), Z[a:b], atol=1e-6)
    near = X.copy()
    near[20:] = 0
    np.testing.assert_allclose(map_(kind(near))[:20], Z[:20], atol=1e-6)


@pytest.mark.parametrize("projection", STRUCTURED)
def test_a_constant_column_of_large_size(projection, rng):
    """It changes no difference between rows, hence no kernel."""
    X = rng.normal(size=(60, 64)).astype(np.float32)
    X[:, 3] = 1e8
    map_ = FourierMap(64, 8192, Gaussian(), 10.0, projection, "paired", seed=1)
    Z = map_(X)
    error = abs(Z @ Z.T - map_.exact_kernel(X)).max()
    print(f"{projection}: kernel error with a column of 1e8: {error:.2g}")
    assert error < 6 / np.sqrt(4096)


@pytest.mark.parametrize("structure", ["dense", "circulant"])
def test_far_rows_of_learned_maps(structure, rng):
    X = rng.normal(size=(40, 8)).astype(np.float32)
    X[20:] *= 1e8
    shape = get_frequencies(structure, 8, 512, 3).shape
    map_ = LearnedFourierMap(8, 1024, "paired", structure, 3, frequencies=rng.normal(size=shape))
    Z = map_(X)
    error = abs(Z - map_(X.astype(np.float64))).max() * np.sqrt(512)
    print(f"{structure}: error of a cosine {error:.2g}")
    assert error < 1e-3
    np.testing.assert_allclose(map_(X[:20]), Z[:20], atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian()], ids=repr)
def test_rows_beyond_float64_are_refused(kernel, kind, dtype, rng):
    """Beyond 1e15 length scales float64 phases are whole turns: all rows would coincide with the origin."""
    X = rng.normal(size=(600, 8)).astype(dtype)
    X[555, 2] = 3e19
    maps = [FourierMap(8, 256, kernel, 2.0, "dense", "paired", seed=1)]
    maps += [BinningMap(8, 4096, kernel, 2.0, 32, 1)] if kernel == Laplacian() else []
    for map_ in maps:
        with pytest.raises(
            InputError, match=r"row 555 of the block .* 1.5e\+19 .* beyond 1e\+15.*scale or centre"
        ):
            map_(kind(X))
        X[555, 2] = 1e12
        assert np.isfinite(map_(kind(X)).sum())
        X[555, 2] = 3e19


@pytest.mark.parametrize("length_scale", [1e-300, 1e-310, 1e300])
def test_length_scales_that_leave_float64_are_refused(length_scale):
    with pytest.raises(InputError, match=r"length_scale must be a finite number >= 1e-290 and <= 1e[+]290"):
        FourierMap(3, 8, Gaussian(), length_scale, "dense", "paired", seed=1)


# ---- narrow structured orthogonal blocks --------------------------------------------------------------------


@pytest.mark.parametrize("p", [16, 32])
def test_narrow_sorf_returns_to_one_far_along_an_axis(p):
    """As its docstring says, so that `fit` refuses it; dense weights do not."""
    X = np.zeros((2, p))
    X[1, 0] = np.pi * p / 2
    for projection, low, high in (("structured_orthogonal", 0.999, 1.001), ("dense", -0.1, 0.1)):
        Z = FourierMap(p, 4096, Gaussian(), 1.0, projection, "paired", seed=1)(X)
        assert low < Z[0] @ Z[1] < high


@pytest.mark.parametrize("d", [2, 17, 33, 64])
def test_narrow_sorf_is_refused(d, rng):
    X = rng.normal(size=(20, d))
    est = RandomFourierFeatures(
        projection="structured_orthogonal", length_scale=2.0, n_components=64, random_state=0
    )
    if d > 32:
        est.fit(X)
        return
    for run in (est.fit, lambda X: est.planned_map(X.shape[1])):
        with pytest.raises(InputError, match=f"is for 33 columns or more, X has {d}: .* take 'orthogonal'"):
            run(X)
