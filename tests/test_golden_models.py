"""What small seeded fits of every model that goes in rounds or passes gave before: a change of them is meant, or a fault.

`python tests/golden.py` makes the file anew after a meant change.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from distrf import (
    TEFM,
    CompactNonlinearClassifier,
    CompactNonlinearMap,
    CompactNonlinearRegressor,
    RandomFourierFeatures,
    StreamingRidge,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
)
from distrf.randomness import variates

FILE = Path(__file__).parent / "golden_models.npz"
#: Other processors add in another order, and hundreds of steps enlarge that. Measured with the kernels of OpenBLAS for
#: Haswell, Sandy Bridge and Prescott (OPENBLAS_CORETYPE) beside those for AVX-512, which made the file: at most 6.5e-9; where a row
#: lies at the kink of its loss, 1.8e-4; in float32 6.6e-6.
RTOL, WIDER = 2e-8, {"regressor epsilon_insensitive": 5e-4, "float32": 2e-5}
N, D = 500, 12


def normal(name, *shape):
    return variates(0, f"golden {name}", 0, int(np.prod(shape)), "normal").reshape(shape)


def rows(dtype="float64"):
    """Features of falling variance, shape (N, D)."""
    return (normal("rows", N, D) / np.arange(1, D + 1)).astype(dtype)


def scores():
    return rows() @ normal("weights", D, 3) + 0.2 * normal("noise", N, 3) + 0.5


def labels(classes=3):
    return scores()[:, :classes].argmax(axis=1) if classes > 2 else (scores()[:, 0] > 0.5).astype(int)


def weights():
    return 0.5 + np.abs(normal("sample weights", N))


def linear(model):
    out = {"coef": model.coef_, "intercept": model.intercept_}
    if hasattr(model, "history_"):
        out["losses"] = [h["loss"] for h in model.history_]
        out["scores"] = [h["validation_score"] or 0.0 for h in model.history_]
        out["t"] = model.t_
    return out


def learned(model):
    out = {"theta": model.map_.frequencies, "losses": [h["loss"] for h in model.history_]}
    if model.map_.arrays.get("offsets") is not None:
        out["offsets"] = model.map_.offsets
    return out | (linear(model) if hasattr(model, "coef_") else {})


def regressor(dtype="float64", y=None, weight=None, **options):
    options = {"n_epochs": 3, "batch_size": 60, "random_state": 3, "alpha": 1e-3} | options
    y = scores()[:, 0] if y is None else y
    return linear(StreamingSGDRegressor(**options).fit(rows(dtype), y, weight))


def classifier(dtype="float64", y=None, **options):
    options = {"n_epochs": 3, "batch_size": 60, "random_state": 3, "alpha": 1e-3} | options
    return linear(StreamingSGDClassifier(**options).fit(rows(dtype), labels() if y is None else y))


def lazy(**options):
    X, y = da.from_array(rows(), chunks=(90, D)), da.from_array(labels(), chunks=90)
    options = {"n_epochs": 3, "batch_size": 60, "random_state": 3, "alpha": 1e-3} | options
    return linear(StreamingSGDClassifier(**options).fit(X, y))


def stream():
    model = StreamingSGDClassifier("logistic", alpha=1e-3, batch_size=60, random_state=3)
    X, y = rows(), labels()
    for a in range(0, N, 250):
        model.partial_fit(X[a : a + 250], y[a : a + 250], classes=[0, 1, 2])
    return linear(model)


def resumed(kind, **options):
    """A fit that goes on after two epochs is the whole one."""
    with tempfile.TemporaryDirectory() as folder:
        options |= {"checkpoint": f"{folder}/state", "checkpoint_every": 3}
        kind(n_epochs=2, **options)
        return kind(n_epochs=4, **options)


def compact(kind=CompactNonlinearClassifier, y=None, show=learned, **options):
    options = {
        "n_components": 6,
        "n_epochs": 3,
        "batch_size": 100,
        "random_state": 5,
        "length_scale": 1.0,
    } | options
    y = labels() if y is None else y
    return show(kind(**options).fit(rows()[:, :4], y))


def kernel_map(**options):
    options = {"n_epochs": 4, "batch_size": 100, "random_state": 5, "length_scale": 1.0} | options
    return learned(CompactNonlinearMap(8, **options).fit(rows()[:, :4]))


def kept(make, show):
    """A fit with a checkpoint, and the same fit taken up again where it ended."""
    with tempfile.TemporaryDirectory() as folder:
        first, again = show(make(f"{folder}/c")), show(make(f"{folder}/c"))
    return first | {f"again {name}": value for name, value in again.items()}


def ridge(path):
    model = StreamingRidge([1e-4, 1e-2], solver="passes", checkpoint=path, random_state=2)
    return model.fit(rows(), scores())


def tefm(path, **options):
    base = RandomFourierFeatures(length_scale=2.0, n_components=40, projection="dense", random_state=1)
    return TEFM(base, n_components=5, checkpoint=path, solver="finder", random_state=2, **options).fit(rows())


def subspace(model):
    return {"basis": np.abs(model.map_.basis), "values": model.singular_values_}


CASES = {
    **{f"regressor {loss}": lambda loss=loss: regressor(loss=loss, epsilon=0.3)
       for loss in ("squared", "huber", "epsilon_insensitive")},
    **{f"classifier {loss}": lambda loss=loss: classifier(loss=loss)
       for loss in ("hinge", "squared_hinge", "logistic", "multinomial", "squared")},
    "float32": lambda: classifier("float32", loss="logistic"),
    "early stopping": lambda: classifier(early_stopping=True, n_epochs=6, n_iter_no_change=2),
    "weights": lambda: regressor(y=scores(), weight=weights(), n_directions=3),
    "balanced": lambda: classifier(class_weight="balanced", y=labels(2), fit_intercept=False),
    "whole": lambda: regressor(batch_size="auto", n_epochs=5),
    "lazy": lambda: lazy(early_stopping=True),
    "stream": stream,
    "resumed": lambda: resumed(classifier, tol=None),
    "compact dense": compact,
    "compact paired": lambda: compact(phase="paired", loss="logistic"),
    "compact circulant": lambda: compact(structure="circulant", loss="hinge", early_stopping=True),
    "compact pegasos": lambda: compact(learning_rate="pegasos", alpha=0.1, loss="hinge", alternate=(2, 3)),
    "compact kept": lambda: kept(
        lambda path: compact(early_stopping=True, checkpoint=path), dict),
    "compact regressor": lambda: compact(CompactNonlinearRegressor, scores(), loss="squared"),
    "compact circulant regressor": lambda: compact(CompactNonlinearRegressor, scores(), structure="circulant"),
    "map of a loss": lambda: compact(CompactNonlinearMap, objective="multinomial"),
    "map of a kernel": kernel_map,
    "circulant map of a kernel": lambda: kernel_map(structure="circulant", phase="paired"),
    "ridge by passes": lambda: kept(ridge, linear),
    "tefm": lambda: kept(tefm, subspace),
}  # fmt: skip


def made(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {f"{name}: {part}": np.asarray(value) for part, value in CASES[name]().items()}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_as_before(name):
    rtol = WIDER.get(name, RTOL)
    with np.load(FILE) as golden:
        found = made(name)
        assert set(found) == {key for key in golden.files if key.partition(":")[0] == name}
        for key, value in found.items():
            assert value.shape == golden[key].shape
            scale = np.abs(golden[key]).max(initial=0)
            np.testing.assert_allclose(value, golden[key], rtol=rtol, atol=rtol * scale, err_msg=key)


def write_golden(target):
    np.savez_compressed(target, **{key: value for name in CASES for key, value in made(name).items()})
