"""Every `--map` from the command line: plan, features, model, predictions, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

import distrf
from distrf import ingest, open_rows

N, M, D = 300, 60, 16
#: Options of each map and what they make in Python, on the same rows; None where a width is all that is known.
MAPS = {
    "laplace": (
        ["--set", "map__projection=alternating_circulant", "--set", "map__n_mixed=log2"],
        distrf.RandomLaplaceFeatures(
            n_components=D, projection="alternating_circulant", n_mixed="log2", random_state=3
        ),
    ),
    "laplace-beta": (["--set", "map__beta=0.3"], distrf.RandomLaplaceFeatures(beta=0.3, n_components=D, random_state=3)),
    "laplace-lam": (
        ["--kernel", "reciprocal_semigroup", "--set", "map__lam=2"],
        distrf.RandomLaplaceFeatures("reciprocal_semigroup", lam=2.0, n_components=D, random_state=3),
    ),
    "binning": (
        ["--set", "map__n_grids=8", "--length-scale", "20"],
        distrf.RandomBinningFeatures(length_scale=20.0, n_grids=8, n_components=D, random_state=3),
    ),
    "tensor-sketch": (
        ["--set", "map__degree=3", "--set", "map__coef0=0.5", "--set", "map__gamma=0.1"],
        distrf.TensorSketchFeatures(3, gamma=0.1, coef0=0.5, n_components=D, random_state=3),
    ),
    "nystroem": (
        ["--set", "map__landmarks=kmeans", "--length-scale", "4"],
        distrf.NystroemFeatures(length_scale=4.0, n_components=D, landmarks="kmeans", random_state=3),
    ),
    "nystroem-beta": (
        ["--kernel", "exponential_semigroup", "--set", "map__beta=0.2"],
        distrf.NystroemFeatures("exponential_semigroup", beta=0.2, n_components=D, random_state=3),
    ),
    "nystroem-polynomial": (
        ["--kernel", "polynomial", "--set", "map__degree=3", "--set", "map__landmarks=k-means++"],
        distrf.NystroemFeatures(
            "polynomial", degree=3, n_components=D, landmarks="k-means++", random_state=3
        ),
    ),
    "cnm": (
        ["--length-scale", "4", "--kernel", "cauchy", "--set", "map__phase=paired", "--set", "map__n_epochs=5"],
        distrf.CompactNonlinearMap(
            D, kernel="cauchy", length_scale=4.0, phase="paired", n_epochs=5, random_state=3
        ),
    ),
    "learned": (
        ["--length-scale", "4", "--set", "map__metric=diagonal", "--set", "map__n_rounds=2"],
        distrf.LearnedMetric(
            distrf.RandomFourierFeatures(length_scale=4.0),
            metric="diagonal",
            n_rounds=2,
            n_components=D,
            random_state=3,
        ),
    ),
    "cnm-hinge": (
        ["--set", "map__objective=hinge", "--set", "map__structure=circulant", "--set", "map__n_epochs=2"],
        distrf.CompactNonlinearMap(D, "hinge", structure="circulant", n_epochs=2, random_state=3),
    ),
    "blockwise": (["--set", "map__transformer=AdditiveChi2Sampler"], None),
    "blockwise-pca": (["--set", "map__transformer=PCA"], None),
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Counts with two classes, dense and CSR, in blocks of 100 rows; `test` without targets that matter."""
    folder = tmp_path_factory.mktemp("maps")
    rng = np.random.default_rng(0)
    y = np.arange(N + M) % 2
    X = rng.poisson(np.where(y[:, None], [3, 1, 0.5, 2, 1, 0.2], [1, 3, 2, 0.5, 1, 0.2])).astype(np.float32)
    for name, rows in (("train", slice(N)), ("test", slice(N, None))):
        np.savez(folder / f"{name}.npz", X=X[rows], y=y[rows])
        ingest(folder / f"{name}.npz", folder / f"{name}.zarr", block_rows=100)
    ingest(folder / "train.npz", folder / "csr.zarr", block_rows=100, sparse="csr")
    np.savez(folder / "signed.npz", X=X - 2, y=np.arange(N + M) % 2)
    ingest(folder / "signed.npz", folder / "signed.zarr", block_rows=100)
    return folder


def rows_of(path):
    X, y = open_rows(path)
    Z = X.compute(scheduler="sync")
    return (Z.toarray() if sp.issparse(Z) else Z), y.compute(scheduler="sync")


def kind(name):
    return next(m for m in sorted(MAPS, key=len) if name.startswith(m))


def size(name, D):
    return [] if kind(name) == "blockwise" else ["-D", D]


@pytest.mark.parametrize("name", MAPS)
def test_features_are_those_of_python(cli, files, tmp_path, name):
    options, estimator = MAPS[name]
    words = ["--map", kind(name), *size(name, D), "--seed", 3, *options]
    cli("featurize", files / "train.zarr", tmp_path / "f.zarr", *words, "--quiet", cluster=True)
    Z, y = rows_of(tmp_path / "f.zarr")
    X, labels = rows_of(files / "train.zarr")
    np.testing.assert_array_equal(y, labels)
    if estimator is not None:
        expected = estimator.fit(*open_rows(files / "train.zarr")).transform(X)
        expected = expected.toarray() if sp.issparse(expected) else expected
        np.testing.assert_allclose(Z, expected, atol=2e-5 * abs(expected).max())
    if name != kind(name):  # other options of a map that is in this list already
        return
    planned = json.loads(cli("plan", files / "train.zarr", "--featurize", *words, "--json").out)
    assert planned["fits"]
    assert planned["rows"] == N
    cli("featurize", files / "csr.zarr", tmp_path / "c.zarr", *words, "--quiet", cluster=True)
    S, _ = rows_of(tmp_path / "c.zarr")
    np.testing.assert_allclose(S, Z, atol=2e-5 * abs(Z).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MAPS if name == kind(name)])
def test_train_and_evaluate(cli, files, tmp_path, name):
    words = ["--map", kind(name), *size(name, 64), *MAPS[name][0]]
    planned = json.loads(cli("plan", files / "train.zarr", *words, "--json").out)
    assert planned["peak_bytes_per_worker"] > 0
    cli("train", files / "train.zarr", tmp_path / "m", *words, "--alpha", "1e-4", "--quiet", cluster=True)
    X, y = rows_of(files / "test.zarr")
    model = distrf.load_model(tmp_path / "m")
    result = json.loads(cli("evaluate", tmp_path / "m", files / "test.zarr", "--json", cluster=True).out)
    assert result["accuracy"] == pytest.approx(np.mean(model.predict(X) == y))
    assert result["accuracy"] > 0.8


@pytest.mark.parametrize("name", ["laplace", "laplace-lam", "nystroem-beta"])
def test_negative_entries(cli, files, tmp_path, name):
    printed = cli(
        "featurize", files / "signed.zarr", tmp_path / "f.zarr", "--map", kind(name), *MAPS[name][0], code=1,
        cluster=True,
    )  # fmt: skip
    assert "Negative values in data" in printed.err
    assert "column" in printed.err


def test_a_plan_counts_the_entries_of_sparse_features(cli, files):
    """Not the columns: 8 grids among a million columns are 8 values and 8 places a row."""

    def planned(*words):
        words = ("plan", files / "train.zarr", "--map", "binning", "--set", "map__n_grids=8", *words, "--json")
        return json.loads(cli(*words).out)

    few, many = (planned("-D", size, "--featurize") for size in (1_000, 1_000_000))
    for count in ("block_rows", "bytes_written", "peak_bytes_per_worker"):
        assert few[count] == many[count]
    assert planned("-D", 100_000)["fits"]  # by conjugate gradients
