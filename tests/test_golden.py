"""What small seeded models say, fits learn and stores hold, as it was before: a change of it is meant, or a fault.

`python tests/test_golden.py` makes golden.zip anew after a meant change, and prints by how much each entry changed. What the seed draws, and
the weights of each projection, stand besides as numbers in the tests of `randomness`, `projections` and `maps`; no command writes those.
"""

from __future__ import annotations

import tempfile
import warnings
import zipfile
from functools import partial
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

FILE = Path(__file__).parent / "golden.zip"
#: Other processors add in another order, and hundreds of steps enlarge that. Measured with the kernels of OpenBLAS for
#: Haswell, Sandy Bridge and Prescott (OPENBLAS_CORETYPE) beside those for AVX-512, which made the file: at most 6.5e-9; where a row
#: lies at the kink of its loss, 1.8e-4; in float32 6.6e-6.
RTOL, WIDER = (
    {"float32": 1e-4, "float64": 2e-8},
    {"regressor epsilon_insensitive": 5e-4, "float32": 2e-5, "circulant map of a kernel": 2e-5},
)
N, D = 40, 6


def normal(name, *shape):
    return variates(0, f"golden {name}", 0, int(np.prod(shape)), "normal").reshape(shape)


# ---- models, which are saved --------------------------------------------------------------------------
#: Nonnegative rows, so that every map takes them; half of the entries are zero.
ROWS = np.maximum(variates(0, "golden files", 0, N * D, "normal").reshape(N, D), 0.0)
NUMBERS = ROWS @ np.arange(1.0, D + 1) / D
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


def fitted(name):
    model, y = MODELS[name]
    return model.fit(ROWS, y)


def outputs(model):
    """What a model says about rows; sparse features dense."""
    names = ("transform", "decision_function", "predict")
    said = {name: getattr(model, name)(ROWS) for name in names if hasattr(model, name)}
    return {name: v.toarray() if sp.issparse(v) else v for name, v in said.items()}


# ---- fits that go in rounds or passes -----------------------------------------------------------------
#: Features of falling variance.
X = normal("rows", 500, 12) / np.arange(1, 13)
SCORES = X @ normal("weights", 12, 3) + 0.2 * normal("noise", 500, 3) + 0.5
LABELS = SCORES.argmax(axis=1)
SGD = {"n_epochs": 3, "batch_size": 60, "random_state": 3, "alpha": 1e-3}
COMPACT = {"n_components": 6, "n_epochs": 3, "batch_size": 100, "random_state": 5, "length_scale": 1.0}


def learned(model):
    """What a fit has learned."""
    out = (
        {"basis": np.abs(model.map_.basis), "values": model.singular_values_} if isinstance(model, TEFM) else {}
    )
    if isinstance(model, CompactNonlinearMap | CompactNonlinearClassifier | CompactNonlinearRegressor):
        out |= {"theta": model.map_.frequencies, "losses": [h["loss"] for h in model.history_]}
        out |= {} if model.map_.arrays.get("offsets") is None else {"offsets": model.map_.offsets}
    if hasattr(model, "coef_"):
        out |= {"coef": model.coef_, "intercept": model.intercept_}
        if hasattr(model, "history_"):
            out |= {"losses": [h["loss"] for h in model.history_], "t": model.t_}
            out["held_out"] = [h["validation_loss"] or 0.0 for h in model.history_]
    return out


def regressor(y=SCORES[:, 0], weight=None, **options):
    return learned(StreamingSGDRegressor(**SGD | options).fit(X, y, weight))


def classifier(rows=X, y=LABELS, **options):
    return learned(StreamingSGDClassifier(**SGD | options).fit(rows, y))


def lazy():
    return classifier(da.from_array(X, chunks=(90, 12)), da.from_array(LABELS, chunks=90), early_stopping=True)


def stream():
    model = StreamingSGDClassifier("logistic", alpha=1e-3, batch_size=60, random_state=3)
    for rows in (slice(0, 250), slice(250, 500)):
        model.partial_fit(X[rows], LABELS[rows], classes=[0, 1, 2])
    return learned(model)


def compact(kind=CompactNonlinearClassifier, y=LABELS, **options):
    return learned(kind(**COMPACT | options).fit(X[:, :4], y))


def with_checkpoint(make, *stages):
    """A fit with a checkpoint, by its stages."""
    with tempfile.TemporaryDirectory() as folder:
        return [make(checkpoint=f"{folder}/c", **stage) for stage in stages]


def resumed():
    """A fit that goes on after two epochs is the whole one."""
    make = partial(classifier, tol=None, checkpoint_every=3)
    return with_checkpoint(make, {"n_epochs": 2}, {"n_epochs": 4})[1]


def again(make):
    """A fit, and the same fit taken up again where it ended."""
    first, second = with_checkpoint(make, {}, {})
    return first | {f"again {name}": value for name, value in second.items()}


def ridge(**options):
    model = StreamingRidge([1e-4, 1e-2], solver="passes", random_state=2, **options)
    return learned(model.fit(X, SCORES))


def tefm(**options):
    base = RandomFourierFeatures(length_scale=2.0, n_components=40, projection="dense", random_state=1)
    return learned(TEFM(base, n_components=5, solver="finder", random_state=2, **options).fit(X))


WEIGHTS = 0.5 + np.abs(normal("sample weights", 500))
KERNEL_MAP = {"kind": CompactNonlinearMap, "y": None, "n_components": 8, "n_epochs": 4}
FITS = {
    **{f"regressor {loss}": partial(regressor, loss=loss, epsilon=0.3) for loss in ("squared", "huber", "epsilon_insensitive")},
    **{f"classifier {loss}": partial(classifier, loss=loss)
       for loss in ("hinge", "squared_hinge", "logistic", "multinomial", "squared")},
    "float32": partial(classifier, X.astype("f4"), loss="logistic"),
    "early stopping": partial(classifier, early_stopping=True, n_epochs=6, n_iter_no_change=2),
    "weights": partial(regressor, SCORES, WEIGHTS, n_directions=3),
    "balanced": partial(classifier, y=(SCORES[:, 0] > 0.5).astype(int), class_weight="balanced", fit_intercept=False),
    "whole": partial(regressor, batch_size="auto", n_epochs=5),
    "lazy": lazy,
    "stream": stream,
    "resumed": resumed,
    "compact dense": compact,
    "compact paired": partial(compact, phase="paired", loss="logistic"),
    "compact circulant": partial(compact, structure="circulant", loss="hinge", early_stopping=True),
    "compact kept": partial(again, partial(compact, early_stopping=True)),
    "compact regressor": partial(compact, CompactNonlinearRegressor, SCORES, loss="squared"),
    "compact circulant regressor": partial(compact, CompactNonlinearRegressor, SCORES, structure="circulant"),
    "map of a loss": partial(compact, CompactNonlinearMap, objective="multinomial"),
    "map of a kernel": partial(compact, **KERNEL_MAP),
    "circulant map of a kernel": partial(compact, **KERNEL_MAP, structure="circulant", phase="paired"),
    "ridge by passes": partial(again, ridge),
    "directions": partial(again, tefm),
}  # fmt: skip


# ---- before and now -----------------------------------------------------------------------------------
pytestmark = pytest.mark.filterwarnings("ignore")  # of few rows and epochs


def made(name):
    """{output, or what was learned: array}"""
    found = FITS[name]() if name in FITS else outputs(fitted(name))
    return {part: np.asarray(value) for part, value in found.items()}


def write_stores(folder):
    """Dense rows with numbers as targets, CSR rows with text labels."""
    rows, y = da.from_array(ROWS.astype("f4"), chunks=(16, D)), da.from_array(NUMBERS, chunks=16)
    write_rows(f"{folder}/rows.zarr", {"X": rows, "y": y}, kind="rows", spec={"made": "before"})
    sparse = rows.map_blocks(sp.csr_array, dtype=rows.dtype, meta=sp.csr_array((0, 0), dtype=rows.dtype))
    labels = da.from_array(TEXT, chunks=16)
    write_rows(f"{folder}/sparse.zarr", {"X": sparse, "y": labels}, kind="rows", spec={}, classes=["no", "yes"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    zipfile.ZipFile(FILE).extractall(folder)
    return folder


def assert_as_before(name, found, folder):
    with np.load(folder / "values.npz") as values:
        before = {key.partition(": ")[2]: values[key] for key in values.files if key.partition(": ")[0] == name}
    assert found.keys() == before.keys()
    for part, value in found.items():
        assert (value.shape, value.dtype) == (before[part].shape, before[part].dtype)
        if value.dtype.kind == "f":
            rtol, scale = WIDER.get(name, RTOL[value.dtype.name]), np.abs(before[part]).max(initial=0)
            np.testing.assert_allclose(value, before[part], rtol=rtol, atol=rtol * scale, err_msg=part)
        else:
            np.testing.assert_array_equal(value, before[part])


@pytest.mark.parametrize("name", [*MODELS, *FITS])
def test_as_before(folder, name):
    assert_as_before(name, made(name), folder)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_folder_opens_and_says_what_it_said(folder, name):
    assert_as_before(name, outputs(load_model(folder / name)), folder)


def test_stores_open(folder):
    for name, targets in (("rows", NUMBERS), ("sparse", TEXT)):
        rows, y = (a.compute() for a in open_rows(folder / f"{name}.zarr"))
        np.testing.assert_array_equal(rows.toarray() if sp.issparse(rows) else rows, ROWS.astype("f4"))
        np.testing.assert_array_equal(y, targets)


def write():
    with tempfile.TemporaryDirectory() as made_here, zipfile.ZipFile(FILE) as archive:
        now = {f"{name}: {part}": value for name in (*MODELS, *FITS) for part, value in made(name).items()}
        before = dict(np.load(archive.open("values.npz")))
        for key in sorted(before | now):
            a, b = before.get(key), now.get(key)
            alike = a is not None and b is not None and (a.shape, a.dtype) == (b.shape, b.dtype)
            size = (
                np.abs(a - b).max(initial=0)
                if alike and a.dtype.kind in "fc"
                else float(not np.array_equal(a, b))
            )
            print(f"{size:8.1e}  {key}")
        np.savez_compressed(f"{made_here}/values.npz", **now)
        for name in MODELS:
            save_model(fitted(name), f"{made_here}/{name}")
        write_stores(made_here)
        with zipfile.ZipFile(FILE, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
            for path in sorted(Path(made_here).rglob("*")):
                new.write(path, path.relative_to(made_here))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write()
