"""`distrf featurize --save-map` and `--like`: test rows through the map as it was fitted to training rows."""

from __future__ import annotations

import numpy as np
import pytest

from distrf import ingest
from distrf.datasets import load_digits_split
from distrf.execution.open_rows import open_array
from distrf.persistence import load_model

TRAIN_X, TRAIN_Y, TEST_X, TEST_Y = load_digits_split(0)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Training and test rows."""
    folder = tmp_path_factory.mktemp("featurize")
    np.savez(folder / "digits.npz", X_train=TRAIN_X, y_train=TRAIN_Y, X_test=TEST_X, y_test=TEST_Y)
    ingest(folder / "digits.npz", folder / "train.zarr", split="train", block_rows=400)
    ingest(folder / "digits.npz", folder / "test.zarr", split="test", block_rows=100)
    return folder


@pytest.mark.parametrize(
    "words", [["--map", "fourier"], ["--map", "nystroem", "--landmarks", "kmeans"]], ids=["seed", "learned"]
)
def test_test_rows_get_the_map_of_the_training_rows(cli, stores, tmp_path, words):
    train, test, map_ = (tmp_path / name for name in ("train.zarr", "test.zarr", "map"))
    words = [*words, "-D", 32, "--scale", "standard", "--save-map", map_]
    cli("featurize", stores / "train.zarr", train, *words, cluster=True)
    cli("featurize", stores / "test.zarr", test, "--like", map_, cluster=True)
    fitted = load_model(map_)
    for written, rows in ((train, TRAIN_X), (test, TEST_X)):
        np.testing.assert_allclose(open_array(written, "X").compute(), fitted.transform(rows), atol=1e-5)
    np.testing.assert_array_equal(open_array(test, "y").compute(), TEST_Y)
    cli("inspect", map_)


@pytest.mark.slow
def test_the_map_of_a_model(cli, stores, tmp_path):
    model, test = tmp_path / "model", tmp_path / "test.zarr"
    cli("train", stores / "train.zarr", model, "-D", 32, "--alpha", 1e-6, cluster=True)
    cli("featurize", stores / "test.zarr", test, "--like", model, cluster=True)
    expected = load_model(model)[:-1].transform(TEST_X)
    np.testing.assert_allclose(open_array(test, "X").compute(), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["--like", "nothing"], "nothing", 1),
        (["--like", "map", "-D", 64], "leave out their options", 2),
        (["--like", "map", "--save-map", "other"], "leave out their options", 2),
    ],
)
def test_refusals(cli, stores, tmp_path, monkeypatch, words, message, code):
    monkeypatch.chdir(tmp_path)
    printed = cli("featurize", stores / "test.zarr", "out.zarr", *words, code=code)
    assert message in " ".join(printed.err.split())
    assert not (tmp_path / "out.zarr").exists()
