"""Every `--map` from the command line: plan and features."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

import distrf
from distrf import ingest, open_rows

N, D = 300, 16
#: Options of each map and what they make in Python, on the same rows; None where a width is all that is known.
MAPS = {
    "laplace": ("projection=alternating_circulant n_mixed=log2", distrf.RandomLaplaceFeatures(
        n_components=D, projection="alternating_circulant", n_mixed="log2", random_state=3)),
    "binning": ("n_grids=8 length_scale=20", distrf.RandomBinningFeatures(
        length_scale=20.0, n_grids=8, n_components=D, random_state=3)),
    "tensor-sketch": ("degree=3 coef0=0.5 gamma=0.1", distrf.TensorSketchFeatures(
        3, gamma=0.1, coef0=0.5, n_components=D, random_state=3)),
    "nystroem": ("kernel=polynomial degree=3 landmarks=k-means++", distrf.NystroemFeatures(
        "polynomial", degree=3, n_components=D, landmarks="k-means++", random_state=3)),
    "cnm": ("length_scale=4 kernel=cauchy phase=paired n_epochs=5", distrf.CompactNonlinearMap(
        D, kernel="cauchy", length_scale=4.0, phase="paired", n_epochs=5, random_state=3)),
    "learned": ("base__length_scale=4 metric=diagonal n_rounds=2", distrf.LearnedMetric(
        distrf.RandomFourierFeatures(length_scale=4.0), metric="diagonal", n_rounds=2, n_components=D, random_state=3)),
    "blockwise": ("transformer=AdditiveChi2Sampler", None),
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Counts with two classes, dense and CSR, in blocks of 100 rows."""
    folder = tmp_path_factory.mktemp("maps")
    rng = np.random.default_rng(0)
    y = np.arange(N) % 2
    X = rng.poisson(np.where(y[:, None], [3, 1, 0.5, 2, 1, 0.2], [1, 3, 2, 0.5, 1, 0.2])).astype(np.float32)
    np.savez(folder / "train.npz", X=X, y=y)
    ingest(folder / "train.npz", folder / "train.zarr", block_rows=100)
    ingest(folder / "train.npz", folder / "csr.zarr", block_rows=100, sparse="csr")
    return folder


def rows_of(path):
    X, y = open_rows(path)
    Z = X.compute(scheduler="sync")
    return (Z.toarray() if sp.issparse(Z) else Z), y.compute(scheduler="sync")


@pytest.mark.parametrize("name", MAPS)
def test_features_are_those_of_python(cli, files, tmp_path, name):
    options, estimator = MAPS[name]
    words = ["--map", name, *(["-D", D] if estimator is not None else []), "--seed", 3]
    words += [word for option in options.split() for word in ("--set", f"map__{option}")]
    cli("featurize", files / "train.zarr", tmp_path / "f.zarr", *words, "--quiet", cluster=True)
    Z, y = rows_of(tmp_path / "f.zarr")
    X, labels = rows_of(files / "train.zarr")
    np.testing.assert_array_equal(y, labels)
    if estimator is not None:
        expected = estimator.fit(*open_rows(files / "train.zarr")).transform(X)
        expected = expected.toarray() if sp.issparse(expected) else expected
        np.testing.assert_allclose(Z, expected, atol=2e-5 * abs(expected).max())
    planned = json.loads(cli("plan", files / "train.zarr", "--for", "featurize", *words, "--json").out)
    assert (planned["fits"], planned["rows"]) == (True, N)
    cli("featurize", files / "csr.zarr", tmp_path / "c.zarr", *words, "--quiet", cluster=True)
    S, _ = rows_of(tmp_path / "c.zarr")
    np.testing.assert_allclose(S, Z, atol=2e-5 * abs(Z).max())
