"""Stores and model folders that were written before: they open, say what they said, and are made anew alike.

`python tests/golden.py` makes the file anew after a meant change.
"""

from __future__ import annotations

import tempfile
import warnings
import zipfile
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from distrf import (
    TEFM,
    Blockwise,
    CompactNonlinearClassifier,
    CompactNonlinearMap,
    CompactNonlinearRegressor,
    NystroemFeatures,
    RandomBinningFeatures,
    RandomFourierFeatures,
    RandomLaplaceFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingScaler,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
    TensorSketchFeatures,
    WithColumns,
    load_model,
    open_rows,
    save_model,
)
from distrf.execution.writing import write_rows
from distrf.kernels import Matern
from distrf.randomness import variates

FILE = Path(__file__).parent / "golden_files.zip"
N, D = 40, 6
#: Other processors add in another order.
RTOL = {"float32": 1e-4, "float64": 1e-9}


def rows(dtype="float64"):
    """Nonnegative rows, so that every map takes them; half of the entries are zero."""
    X = variates(0, "golden files", 0, N * D, "normal").reshape(N, D)
    return np.where(X > 0, X, 0.0).astype(dtype)


NUMBERS = rows() @ np.arange(1.0, D + 1) / D
TEXT = np.where(np.median(NUMBERS) < NUMBERS, "yes", "no")
CLASSES = np.array([10, -3, 7])[np.digitize(NUMBERS, np.quantile(NUMBERS, [0.3, 0.6]))]


def fourier(**options):
    return RandomFourierFeatures(
        **{"n_components": 16, "length_scale": 1.5, "projection": "dense", "random_state": 4} | options
    )


SEEDED = {"n_components": 16, "random_state": 4}
LEARNED = {"n_components": 4, "n_epochs": 1, "length_scale": 1.0, "random_state": 4}

#: (estimator, targets)
MODELS = {
    **{f"fourier {p}": (fourier(projection=p), None)
       for p in ("dense", "circulant", "alternating_circulant", "fastfood", "orthogonal", "quasi")},
    **{f"fourier {k}": (fourier(kernel=k), None) for k in ("laplacian", "cauchy", "matern")},
    "fourier kernel object": (fourier(kernel=Matern(2.5)), None),
    "fourier offset": (fourier(phase="offset"), None),
    "fourier whitened": (fourier(metric="whiten"), None),
    "fourier rule": (fourier(length_scale="knn"), None),
    "fourier gamma": (fourier(length_scale="knn", gamma=0.3), None),
    "laplace": (RandomLaplaceFeatures(projection="dense", **SEEDED), None),
    "laplace reciprocal": (RandomLaplaceFeatures("reciprocal_semigroup", projection="circulant", **SEEDED), None),
    "binning": (RandomBinningFeatures(n_grids=4, random_state=4), None),
    "tensor sketch": (TensorSketchFeatures(**SEEDED), None),
    "nystroem": (NystroemFeatures(n_components=8, random_state=4), None),
    "nystroem kmeans": (NystroemFeatures(n_components=8, landmarks="kmeans", random_state=4), None),
    "tefm": (TEFM(fourier(n_components=32), n_components=4, random_state=4), None),
    "blockwise": (Blockwise(StandardScaler()), None),
    "with columns": (WithColumns(fourier()), None),
    **{f"scaler {m}": (StreamingScaler(m), None) for m in ("standard", "minmax", "maxabs", "robust", "l1-rows", "l2-rows")},
    "learned map": (CompactNonlinearMap(**LEARNED), None),
    "learned classifier": (CompactNonlinearClassifier(**LEARNED), CLASSES),
    "learned regressor": (CompactNonlinearRegressor(structure="circulant", **LEARNED), NUMBERS),
    "ridge": (StreamingRidge(1e-3), NUMBERS),
    "ridge outputs": (StreamingRidge((1e-4, 1e-2), random_state=4), np.c_[NUMBERS, -NUMBERS]),
    "ridge text": (StreamingRidgeClassifier(1e-3, class_weight={"yes": 3.0}), TEXT),
    "ridge classes": (StreamingRidgeClassifier(1e-3, class_weight="balanced"), CLASSES),
    "sgd": (StreamingSGDRegressor(alpha=1e-3, n_epochs=2, random_state=4), NUMBERS),
    "sgd classes": (StreamingSGDClassifier("logistic", alpha=1e-3, n_epochs=2, random_state=4), CLASSES),
    "pipeline": (make_pipeline(StreamingScaler("minmax"), fourier(), StreamingRidgeClassifier(1e-3)), TEXT),
}  # fmt: skip


def outputs(model, X):
    """What a model says about rows; sparse features dense."""
    names = ("transform", "decision_function", "predict")
    said = {name: getattr(model, name)(X) for name in names if hasattr(model, name)}
    return {name: v.toarray() if sp.issparse(v) else v for name, v in said.items()}


def fitted(name):
    model, y = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(rows(), y)


def write_stores(folder):
    """Dense rows with targets, CSR rows with text labels, features of a map."""
    X, y = da.from_array(rows("float32"), chunks=(16, D)), da.from_array(NUMBERS, chunks=16)
    write_rows(f"{folder}/rows.zarr", {"X": X, "y": y}, kind="rows", spec={"made": "before"})
    sparse = X.map_blocks(sp.csr_array, dtype=X.dtype, meta=sp.csr_array((0, 0), dtype=X.dtype))
    labels = da.from_array(TEXT, chunks=16)
    write_rows(f"{folder}/sparse.zarr", {"X": sparse, "y": labels}, kind="rows", spec={}, classes=["no", "yes"])
    map_ = fourier().fit(rows())
    write_rows(f"{folder}/features.zarr", {"X": map_.transform(X)}, kind="features", spec=map_.map_.spec())


def assert_said(found, golden):
    assert found.keys() == set(golden.files)
    for name, value in found.items():
        if value.dtype.kind in "fc":
            rtol = RTOL[value.dtype.name]
            scale = np.abs(golden[name]).max(initial=0)
            np.testing.assert_allclose(value, golden[name], rtol=rtol, atol=rtol * scale, err_msg=name)
        else:
            np.testing.assert_array_equal(value, golden[name])
        assert value.dtype == golden[name].dtype


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    with zipfile.ZipFile(FILE) as archive:
        archive.extractall(folder)
    return folder


def test_each_model_is_there(golden):
    assert {path.stem for path in golden.glob("*.npz")} == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_folder_opens_and_says_what_it_said(golden, name):
    with np.load(golden / f"{name}.npz") as said:
        assert_said(outputs(load_model(golden / name), rows()), said)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_made_as_before(golden, name):
    with np.load(golden / f"{name}.npz") as said:
        assert_said(outputs(fitted(name), rows()), said)


def test_stores_open(golden):
    X, y = open_rows(golden / "rows.zarr")
    np.testing.assert_array_equal(X.compute(), rows("float32"))
    np.testing.assert_array_equal(y.compute(), NUMBERS)
    X, y = open_rows(golden / "sparse.zarr")
    np.testing.assert_array_equal(X.compute().toarray(), rows("float32"))
    np.testing.assert_array_equal(y.compute(), TEXT)
    X, _ = open_rows(golden / "features.zarr")
    np.testing.assert_allclose(X.compute(), fourier().fit(rows()).transform(rows("float32")), atol=1e-5)


def write_golden(target):
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            model = fitted(name)
            save_model(model, f"{folder}/{name}")
            np.savez_compressed(f"{folder}/{name}.npz", **outputs(model, rows()))
        write_stores(folder)
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path in sorted(Path(folder).rglob("*")):
                archive.write(path, path.relative_to(folder))


def test_a_map_that_changed_is_not_written_unless_it_is_named():
    import golden  # which imports this file

    before = np.ones(3)
    changes = {
        "fourier dense: transform": golden.change(before, before * (1 + 1e-8)),
        "fourier quasi: transform": golden.change(before, before),
        "laplace: transform": golden.change(before, before[:2]),
        "binning: transform": golden.change(None, before),
        "ridge: predict": golden.change(before, 2 * before),
    }
    assert golden.refused(changes, ["laplace"]) == ["fourier dense", "binning"]
    assert changes["ridge: predict"] == 1.0
