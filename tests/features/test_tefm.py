"""The TEFM estimator and its frozen map."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from contracts import EPS, MapContract
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from distrf import (
    TEFM,
    Blockwise,
    RandomBinningFeatures,
    RandomFourierFeatures,
    StreamingRidge,
    load_model,
    save_model,
)
from distrf.errors import InputError
from distrf.kernels import Gaussian
from distrf.maps import FourierMap, SubspaceMap


@parametrize_with_checks(
    [
        TEFM(RandomFourierFeatures(n_components=16, length_scale=1.0), n_components=4, random_state=0),
        TEFM(n_components=1, solver="finder", sketch="srht", random_state=0),
        TEFM(n_components=1, solver="gram", whiten=True, random_state=0),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def subspace_map(d, D, *, based=True, scaled=False):
    wide = 3 * D if based else d
    base = FourierMap(d, wide + wide % 2, Gaussian(), 2.0, "dense", "paired", 5) if based else None
    rows = d if base is None else base.n_components
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(rows, min(D, rows))))[0]
    basis = basis.astype(np.float32).astype(np.float64)  # float32 rows see the same numbers
    scale = np.geomspace(1, 0.125, basis.shape[1]) if scaled else None
    return SubspaceMap(d, basis.shape[1], base, scaled, basis, scale)


class TestSubspaceMap(MapContract):
    seeded = False
    d, D = 30, 24

    @pytest.fixture(
        params=[(True, False), (True, True), (False, False)], ids=["fourier", "whitened", "features"]
    )
    def make(self, request):
        based, scaled = request.param
        return lambda d, D: subspace_map(d, D, based=based, scaled=scaled)

    def explicit(self, map_, X):
        F = X if map_.base is None else map_.base(X)
        return F @ map_.weights()

    def tolerance(self, map_, X, dtype):
        F = abs(X) if map_.base is None else np.ones((len(X), map_.base.n_components))
        error = EPS[dtype] * (len(map_.basis) + 60) * (F + 1) @ abs(map_.weights())
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
    assert tefm.residual_interval_[0] <= tefm.residual_ <= tefm.residual_interval_[1]
    assert tefm.residual_ == pytest.approx(np.sqrt(1 - tefm.explained_energy_.sum()), rel=1e-3)


def test_whitened_features_have_unit_second_moments(rows, tefm):
    G = tefm.set_params(whiten=True).fit_transform(rows)
    np.testing.assert_allclose((G.astype(float) ** 2).mean(axis=0), 1, rtol=1e-3)


def test_dask_in_lazy_out(rows, tefm):
    X = da.from_array(rows, chunks=(250, 6))
    now = clone(tefm).fit_transform(rows)
    with dask.config.set(scheduler="synchronous"):
        lazy = tefm.fit(X).transform(X)
        assert isinstance(lazy, da.Array)
        assert lazy.shape == (900, 16)
        np.testing.assert_allclose(lazy.compute(), now, atol=2e-5)


def test_nothing_is_pulled_in_by_transform(rows, tefm):
    def refuse(block):
        raise AssertionError("computed")

    tefm.fit(rows)
    X = da.from_array(rows, chunks=(250, 6)).map_blocks(
        refuse, dtype=np.float32, meta=np.empty((0, 0), np.float32)
    )
    tefm.transform(X)


def test_basis_travels_once(rows, tefm):
    X = da.from_array(rows, chunks=(10, 6))
    lazy = tefm.fit(rows).transform(X)
    graph = dict(lazy.__dask_graph__())
    big = [key for key in graph if str(key).startswith("distrf-arrays-")]
    assert len(big) == 1


@pytest.mark.parametrize("solver", ["finder", "gram"])
def test_pipeline_out_of_core(client, rows, solver):
    y = np.sin(rows[:, 0]) + rows[:, 1]
    X = da.from_array(rows, chunks=(200, 6))
    model = make_pipeline(
        RandomFourierFeatures(length_scale=2.0, n_components=128, random_state=0),
        TEFM(n_components=60, solver=solver, random_state=0),
        StreamingRidge(1e-4),
    )
    model.fit(X, da.from_array(y, chunks=200))
    in_memory = clone(model).fit(rows, y)
    np.testing.assert_allclose(model.predict(X).compute(), in_memory.predict(rows), atol=2e-3)
    assert in_memory.score(rows, y) > 0.95


@pytest.mark.parametrize("whiten", [False, True])
def test_fold_into_the_base_features(rows, tefm, whiten):
    G = tefm.set_params(whiten=whiten).fit_transform(rows)
    model = StreamingRidge(1e-3).fit(G, rows[:, 0])
    folded = tefm.map_.base(rows) @ (tefm.map_.weights() @ model.coef_) + model.intercept_
    np.testing.assert_allclose(folded, model.predict(G), atol=1e-4)


@pytest.mark.parametrize("based", [True, False])
def test_save_and_load(tmp_path, rows, based):
    base = RandomFourierFeatures(length_scale=2.0, n_components=64, metric="whiten") if based else None
    model = TEFM(base, n_components=5, whiten=True, random_state=0).fit(rows)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.transform(rows), model.transform(rows))
    np.testing.assert_array_equal(again.components_, model.components_)
    assert again.residual_ == model.residual_


def test_same_seed_same_map(rows, tefm):
    a, b = clone(tefm).fit(rows), clone(tefm).fit(rows)
    np.testing.assert_array_equal(a.components_, b.components_)
    c = clone(tefm).set_params(random_state=2).fit(rows)
    assert a.map_.base != c.map_.base


def test_checkpoint_resumes(tmp_path, rows, tefm):
    tefm.set_params(checkpoint=tmp_path / "c", solver="finder").fit(rows)
    again = clone(tefm).fit(rows)
    assert again.n_passes_ == tefm.n_passes_ > 0  # of the whole job, made or kept
    np.testing.assert_array_equal(again.components_, tefm.components_)
    save_model(again, tmp_path / "m")
    assert load_model(tmp_path / "m").checkpoint == str(tmp_path / "c")


def test_checkpoint_of_a_seed_that_changes(tmp_path, rows, tefm):
    with pytest.raises(InputError, match="checkpoint= needs a random_state"):
        tefm.set_params(checkpoint=tmp_path / "c", random_state=None).fit(rows)
    assert not (tmp_path / "c").exists()


def test_sparse_rows(tefm, rng):
    X = rng.normal(size=(300, 40)) * (rng.random((300, 40)) < 0.1)
    dense = tefm.fit_transform(X)
    np.testing.assert_allclose(tefm.transform(sp.csr_array(X)), dense, atol=1e-10)
    features = TEFM(n_components=4, random_state=0)
    np.testing.assert_allclose(features.fit_transform(sp.csr_array(X)), features.fit_transform(X), atol=1e-9)


def test_base_must_be_a_feature_estimator(rows):
    with pytest.raises(InputError, match="base must be a feature estimator of distrf or None"):
        TEFM(StreamingRidge(), 3).fit(rows)


def test_exact_kernel_is_that_of_the_base(rows, tefm):
    tefm.fit(rows)
    K = tefm.map_.exact_kernel(rows[:50])
    np.testing.assert_allclose(K, tefm.map_.base.exact_kernel(rows[:50]))
    with pytest.raises(InputError, match="no kernel of its own"):
        subspace_map(8, 4, based=False).exact_kernel(rows[:, :4])


@pytest.fixture
def store(tmp_path, cli):
    """400 rows of 5 columns; the label is the sign of the first."""
    X = np.random.default_rng(0).normal(size=(400, 5)).astype(np.float32)
    np.savez(tmp_path / "d.npz", X=X, y=(X[:, 0] > 0).astype(np.int32))
    cli("ingest", tmp_path / "d.npz", tmp_path / "d.zarr", "-q", cluster=True)
    return tmp_path / "d.zarr"


OPTIONS = (
    "--map",
    "tefm",
    "--set",
    "map__base__n_components=128",
    "-D",
    16,
    "--set",
    "map__sketch=srht",
    "--set",
    "map__n_iter=1",
    "--set",
    "map__solver=finder",
)


def test_plan_counts_the_passes_of_the_finder(cli, store):
    plain = json.loads(cli("plan", store, "-D", 16, "--json").out)
    made = json.loads(cli("plan", store, *OPTIONS, "--json").out)
    assert made["passes"] == plain["passes"] + 3
    assert made["bytes_read"] - plain["bytes_read"] == 3 * 400 * 5 * 4
    assert made["peak_bytes_per_worker"] > plain["peak_bytes_per_worker"]
    assert any("subspace of 128 features by 'finder', 3 pass(es): " in note for note in made["notes"])
    wide = json.loads(
        cli(
            "plan", store, "--map", "tefm", "--set", "map__base__n_components=1_000_000", "-D", 256, "--json"
        ).out
    )
    assert any("above which a Gram matrix costs more" in n for n in wide["notes"])
    assert wide["peak_parts"]["cached weights"] > 4 * 256 * 10**6
    wrong = cli("plan", store, *OPTIONS, "--set", "map__sketch=dct", code=2)
    assert "map__sketch must be 'gaussian' or 'srht', got 'dct'" in wrong.err


def test_train_from_the_command_line(cli, store, tmp_path):
    cli(
        "train",
        store,
        tmp_path / "m",
        *OPTIONS,
        "--scale",
        "none",
        "-q",
        cluster=True,
    )
    loaded = load_model(tmp_path / "m")
    assert loaded[0].map_.base.base.n_components == 128
    X = np.random.default_rng(1).normal(size=(300, 5)).astype(np.float32)
    assert loaded.score(X, (X[:, 0] > 0).astype(np.int32)) > 0.9


def steps_of(folder):
    """How many steps a checkpoint holds."""
    place = folder / "checkpoint.json"
    return json.loads(place.read_text())["spec"]["steps"] if place.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize("reached", [("subspace", 2), ("passes", 2)])
def test_killed_and_resumed_to_the_same_bits(cli, store, tmp_path, two_worker_cluster, reached):
    """SIGKILL in the finder, or in the passes after it; --resume makes the passes that are missing."""
    plain = ["--scale", "none", "-q"]
    state, job = (
        tmp_path / "m-state",
        [
            *OPTIONS,
            *plain,
            "--set",
            "model__solver=passes",
            "--set",
            "model__tol=1e-9",
        ],
    )
    kept = ["train", store, tmp_path / "m", *job]
    command = [sys.executable, "-m", "distrf", *kept, "--cluster", two_worker_cluster.scheduler_address]
    with subprocess.Popen([str(word) for word in command]) as process:
        deadline = time.monotonic() + 300
        while steps_of(state / reached[0]) < reached[1]:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "m").exists()
    cli("train", store, tmp_path / "whole", *job, cluster=True)
    assert "--resume continues it" in cli(*kept, code=1).err
    assert "is of another job" in cli(*kept, "--resume", "--set", "map__n_iter=2", code=1).err
    if reached[0] == "passes":
        other = cli(*kept, "--resume", "--alpha", "0.5", code=1, cluster=True).err
        assert "alphas: " in other
    cli(*kept, "--resume", cluster=True)
    whole, resumed = (load_model(tmp_path / name) for name in ("whole", "m"))
    np.testing.assert_array_equal(resumed["map"].base_.components_, whole["map"].base_.components_)
    np.testing.assert_array_equal(resumed["model"].coef_, whole["model"].coef_)
    assert whole["map"].base_.n_passes_ == resumed["map"].base_.n_passes_ == 3


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
