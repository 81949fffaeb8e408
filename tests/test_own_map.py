"""A map from outside the package: one file and one call make it known to everything."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from relu_features import RandomReluFeatures, ReluMap

import distrf
from distrf import ingest
from distrf.errors import InputError, SpecMismatchError, StoreError
from distrf.maps import MAPS as FROZEN
from distrf.maps import map_from_spec
from distrf.registry import MAPS, SAVABLE, register_map
from distrf.registry import load_plugins as import_plugins

HERE = Path(__file__).parent
OURS = [
    (MAPS, "relu", RandomReluFeatures),
    (SAVABLE, "RandomReluFeatures", RandomReluFeatures),
    (FROZEN, "relu", ReluMap),
]
for _registry, _name, _ in OURS:  # known in the tests of this file alone
    del _registry[_name]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for registry, name, entry in OURS:
        monkeypatch.setitem(registry, name, entry)


@pytest.fixture
def store(tmp_path, rng):
    X = rng.normal(size=(300, 4)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", X=X, y=np.maximum(X @ [1, -2, 0.5, 1], 0))
    ingest(tmp_path / "rows.npz", tmp_path / "rows.zarr", block_rows=100)
    return tmp_path / "rows.zarr"


def test_in_python(rng, client, tmp_path):
    X = rng.normal(size=(60, 4))
    est = RandomReluFeatures(20_000, random_state=3).fit(X)
    Z = est.transform(X)
    norms = np.linalg.norm(X, axis=1)
    angles = np.arccos(np.clip(X @ X.T / np.outer(norms, norms), -1, 1))
    exact = np.outer(norms, norms) * (np.sin(angles) + (np.pi - angles) * np.cos(angles)) / np.pi
    assert abs(Z @ Z.T - exact).max() < 5 * 2 * norms.max() ** 2 / np.sqrt(20_000)  # Var <= 4 |x|^2 |y|^2 / D
    np.testing.assert_allclose(est.transform(da.from_array(X, chunks=(20, 4))).compute(), Z, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(est)).transform(X), Z)
    np.testing.assert_array_equal(map_from_spec(est.map_.spec(), {})(X), Z)
    distrf.save_model(est, tmp_path / "model")
    np.testing.assert_array_equal(distrf.load_model(tmp_path / "model").transform(X), Z)
    assert distrf.plan(est, X).bytes_written == 60 * 20_000 * 8


def test_on_the_command_line(cli, store, tmp_path):
    words = ["--map", "relu", "--set", "map__bias=0.5", "-D", 128]
    assert json.loads(cli("plan", store, *words, "--json").out)["fits"]
    cli("featurize", store, tmp_path / "f.zarr", *words, "--quiet", cluster=True)
    assert json.loads(cli("inspect", tmp_path / "f.zarr", "--json").out)["spec"]["map"]["bias"] == 0.5
    cli("train", store, tmp_path / "m", *words[:-2], "--quiet", cluster=True)
    assert distrf.load_model(tmp_path / "m").named_steps["model"].n_features_in_ > 4
    assert json.loads(cli("evaluate", tmp_path / "m", store, "--json", cluster=True).out)["r2"] > 0.9
    printed = cli("plan", store, "--map", "fourier", "--set", "map__bias=0.5", code=2)
    assert "the map, RandomFourierFeatures, has: kernel, " in printed.err


@pytest.mark.slow
def test_an_installed_package_is_found(cli, store, tmp_path, monkeypatch):
    """The entry point of a distribution: the command line imports what registers itself."""
    site = tmp_path / "site"
    (site / "relu-1.0.dist-info").mkdir(parents=True)
    (site / "relu-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: relu\nVersion: 1.0\n")
    entry = site / "relu-1.0.dist-info" / "entry_points.txt"
    entry.write_text("[distrf]\nrelu = relu_features\n")
    (site / "relu_features.py").write_text((HERE / "relu_features.py").read_text())

    code = f"import sys; sys.path[:0] = [{str(site)!r}]; from distrf.cli import main; main()"
    words = ["plan", str(store), "--map", "relu", "-D", "64", "--json"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert json.loads(done.stdout)["fits"]
    saved = tmp_path / "saved"
    distrf.save_model(RandomReluFeatures(n_components=8, random_state=0).fit(np.ones((3, 2))), saved)
    code = (
        f"import sys; sys.path[:0] = [{str(site)!r}]; import distrf; print(distrf.load_model({str(saved)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("RandomReluFeatures("), done.stderr
    entry.write_text("[distrf]\nrelu = relu_features_gone\n")
    monkeypatch.syspath_prepend(site)
    import_plugins.cache_clear()
    assert "the plugin 'relu' cannot be imported" in cli(*words, code=1).err
    import_plugins.cache_clear()


def test_names_are_taken_once():
    with pytest.raises(InputError, match="'fourier' is registered already"):
        register_map("fourier", RandomReluFeatures, ReluMap)
    assert MAPS["fourier"] is distrf.RandomFourierFeatures
    register_map("relu", RandomReluFeatures, ReluMap)  # again: nothing changes
    assert SAVABLE["RandomReluFeatures"] is RandomReluFeatures


def test_a_model_whose_class_is_not_registered_names_the_remedy(rng, tmp_path, monkeypatch):
    """It listed the classes of the package and left the reader there."""
    distrf.save_model(RandomReluFeatures(8, random_state=3).fit(rng.normal(size=(9, 4))), tmp_path / "m")
    for registry, name in ((FROZEN, "relu"), (SAVABLE, "RandomReluFeatures")):
        monkeypatch.delitem(registry, name)
        with pytest.raises((StoreError, SpecMismatchError), match="import the module that registers it before"):
            distrf.load_model(tmp_path / "m")
