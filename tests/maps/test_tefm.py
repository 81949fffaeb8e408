"""The TEFM estimator and its frozen map."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from contracts import EPS, MapContract
from sklearn.base import clone
from sklearn.preprocessing import OneHotEncoder

from distrf import (
    TEFM,
    Blockwise,
    RandomBinningFeatures,
    RandomFourierFeatures,
    load_model,
    save_model,
)
from distrf.errors import InputError
from distrf.kernels import Gaussian
from distrf.maps import FourierMap, SubspaceMap


def subspace_map(d, D, *, based=True):
    wide = 3 * D if based else d
    base = FourierMap(d, wide + wide % 2, Gaussian(), 2.0, "dense", "paired", 5) if based else None
    rows = d if base is None else base.n_components
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(rows, min(D, rows))))[0]
    basis = basis.astype(np.float32).astype(np.float64)  # float32 rows see the same numbers
    return SubspaceMap(d, basis.shape[1], base, basis)


class TestSubspaceMap(MapContract):
    seeded = False
    d, D = 30, 24

    @pytest.fixture(params=[True, False], ids=["fourier", "features"])
    def make(self, request):
        return lambda d, D: subspace_map(d, D, based=request.param)

    def explicit(self, map_, X):
        F = X if map_.base is None else map_.base(X)
        return F @ map_.basis

    def tolerance(self, map_, X, dtype):
        F = abs(X) if map_.base is None else np.ones((len(X), map_.base.n_components))
        error = EPS[dtype] * (len(map_.basis) + 60) * (F + 1) @ abs(map_.basis)
        return error * (20 if map_.base is not None else 1)


@pytest.fixture
def rows(rng):
    return rng.normal(size=(900, 6)).astype(np.float32)


@pytest.fixture
def tefm():
    base = RandomFourierFeatures(length_scale=2.0, n_components=128)
    return TEFM(base, n_components=16, random_state=1)


def test_transform_is_features_times_q(rows, tefm):
    G = tefm.fit_transform(rows)
    F = tefm.map_.base(rows)
    np.testing.assert_allclose(G, F @ tefm.components_.T, atol=1e-6)
    assert tefm.components_.shape == (16, 128)
    assert G.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(G, axis=0), tefm.singular_values_, rtol=1e-4)
    assert (np.diff(tefm.explained_energy_) <= 0).all()
    left = np.linalg.norm(F - G @ tefm.components_) / np.linalg.norm(F)
    assert tefm.residual_ == pytest.approx(left, rel=1e-3)


def test_checkpoint_resumes(tmp_path, rows, tefm):
    tefm.set_params(checkpoint=tmp_path / "c", solver="finder").fit(rows)
    again = clone(tefm).fit(rows)
    assert again.n_passes_ == tefm.n_passes_ > 0  # of the whole job, made or kept
    np.testing.assert_array_equal(again.components_, tefm.components_)
    save_model(again, tmp_path / "m")
    assert load_model(tmp_path / "m").checkpoint == str(tmp_path / "c")


def test_exact_kernel_is_that_of_the_base(rows, tefm):
    tefm.fit(rows)
    K = tefm.map_.exact_kernel(rows[:50])
    np.testing.assert_allclose(K, tefm.map_.base.exact_kernel(rows[:50]))
    with pytest.raises(InputError, match="no kernel of its own"):
        subspace_map(8, 4, based=False).exact_kernel(rows[:, :4])


@pytest.mark.parametrize("solver", ["finder", "gram"])
@pytest.mark.parametrize("make", ["binning", "one-hot"])
def test_csr_features_below(make, solver, rng):
    """Bases that make CSR rows, from NumPy and Dask rows."""
    X = np.floor(2 * rng.normal(size=(300, 3)))
    base = Blockwise(OneHotEncoder(handle_unknown="ignore"), random_state=0)
    if make == "binning":
        base = RandomBinningFeatures(length_scale=2.0, n_grids=32, n_components=512, random_state=0)
    tefm = TEFM(base, n_components=12, n_iter=4, solver=solver, random_state=0).fit(X)
    F = tefm.map_.base(X).toarray()
    np.testing.assert_allclose(tefm.singular_values_, np.linalg.svd(F, compute_uv=False)[:12], rtol=0.02)
    np.testing.assert_allclose(tefm.transform(X), F @ tefm.components_.T, atol=1e-10)
    dX = da.from_array(X, chunks=(70, 3))
    lazy = TEFM(base, n_components=12, n_iter=4, solver=solver, random_state=0).fit(dX)
    np.testing.assert_allclose(lazy.singular_values_, tefm.singular_values_, rtol=1e-6)
