"""Model files: equal predictions after loading, refusals, damage; kills are in store/test_documents.py."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import KNNImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from distrf import (
    TEFM,
    LearnedMetric,
    RandomFourierFeatures,
    StreamingLinearClassifier,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingScaler,
    load_model,
    save_model,
)
from distrf.errors import InputError, SpecMismatchError, StoreError
from distrf.kernels import Gaussian, Matern
from distrf.persistence import SAVABLE
from distrf.store.spec import sealed

RNG = np.random.default_rng(3)
X = RNG.normal(size=(90, 6)).astype(np.float32)
NUMBERS = X[:, 0] * 2 + np.sin(X[:, 1])
TWO = np.where(NUMBERS > 0, "yes", "no")
THREE = np.array([10, -3, 7])[np.digitize(NUMBERS, [-1, 1])]


def small(cls):
    """One of a class that can be saved, and its targets."""
    wanted = {
        "n_components": 16,
        "n_grids": 8,
        "n_epochs": 5,
        "n_rounds": 1,
        "random_state": 1,
        "transformer": StandardScaler(),
    }
    model = cls(**{k: v for k, v in wanted.items() if k in inspect.signature(cls).parameters})
    if cls in (TEFM, LearnedMetric):
        model.set_params(base=RandomFourierFeatures(n_components=32, random_state=1))
    return model, TWO if is_classifier(model) else NUMBERS


MODELS = {
    **{name: small(cls) for name, cls in SAVABLE.items()},
    "fourier-seedless": (RandomFourierFeatures(n_components=32, length_scale=2.0), None),
    "fourier-metric": (RandomFourierFeatures(n_components=32, length_scale=np.arange(1.0, 7.0), order=2, random_state=1), None),
    "fourier-kernel-object": (RandomFourierFeatures(Matern(0.5), n_components=32, random_state=1), None),
    "learned-metric": (LearnedMetric(RandomFourierFeatures(n_components=32), metric="full", random_state=1), NUMBERS),
    "ridge-outputs": (StreamingRidge(1e-3, fit_intercept=False), np.c_[NUMBERS, -NUMBERS]),
    "ridge-calibrated": (StreamingRidge(1e-2, calibrate=True), NUMBERS),
    "classifier-calibrated": (StreamingRidgeClassifier(1e-2, calibrate=True), THREE),
    "passes-calibrated": (StreamingLinearClassifier("squared_hinge", alpha=1e-2, calibrate=True), TWO),
    "ridge-alphas": (StreamingRidge((1e-4, 1e-2), cv="holdout", random_state=5), NUMBERS),
    "classifier-objects": (StreamingRidgeClassifier(1e-3, class_weight={"yes": 3.0}), TWO.astype(object)),
    "classifier-weights": (StreamingRidgeClassifier(1e-3, class_weight={10: 2.0, -3: 0.5}), THREE),
    "classifier-bool": (StreamingRidgeClassifier([1e-3, 1e-1], class_weight="balanced", cv=3), TWO == "yes"),
    "nested": (Pipeline([
        ("prepare", Pipeline([("scale", StreamingScaler("minmax"))])),
        ("map", RandomFourierFeatures("laplacian", n_components=64, metric="whiten", random_state=2)),
        ("model", StreamingRidge()),
    ]), NUMBERS),
    **{f"after {type(step).__name__}": (make_pipeline(step, StreamingRidge()), NUMBERS) for step in (
        "passthrough",
        TruncatedSVD(3, algorithm="arpack", random_state=0),
        FeatureUnion([("its own", StreamingScaler()), ("theirs", StandardScaler())]),
        ColumnTransformer([("map", RandomFourierFeatures(n_components=8, random_state=1), [0, 1])]),
        Pipeline([("a/b c", StandardScaler()), ("d", RandomFourierFeatures(metric="whiten", random_state=1))]),
    )},
}  # fmt: skip


def outputs(model, rows):
    """Everything a model says about rows."""
    names = ("transform", "predict", "decision_function", "predict_proba", "predict_interval")
    return {name: getattr(model, name)(rows) for name in names if hasattr(model, name)}


def assert_same(a, b):
    """Equal in value, type and dtype, and what estimators hold too."""
    assert type(a) is type(b)
    if sp.issparse(a):
        a, b = a.toarray(), b.toarray()
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, BaseEstimator) and type(a) in SAVABLE.values():
        assert_same(*({k: v for k, v in vars(one).items() if k[0] != "_"} for one in (a, b)))
    elif isinstance(a, BaseEstimator):  # of scikit-learn, which hold caches and wrappers
        assert repr(a) == repr(b)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for mine, other in zip(a, b, strict=True):
            assert_same(mine, other)
    else:
        assert a == b


def load_without_pickle(path):
    """The loaded model; unpickling anything meanwhile is an error."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("pickle.load", "pickle.loads", "pickle.Unpickler", "cloudpickle.loads"):
            patch.setattr(name, lambda *args, **kwargs: pytest.fail("unpickled"))
        return load_model(path)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_round_trip(tmp_path, name):
    """To the bit."""
    model, y = MODELS[name]
    model = clone(model).fit(abs(X), y)
    save_model(model, tmp_path / "m")
    loaded = load_without_pickle(tmp_path / "m")
    assert repr(loaded) == repr(model)
    assert_same(outputs(model, abs(X)), outputs(loaded, abs(X)))
    assert_same(getattr(model, "steps", model), getattr(loaded, "steps", loaded))


def test_names_of_columns(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = make_pipeline(StreamingScaler(), StreamingRidge()).fit(frame, NUMBERS)
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert_same(loaded[0].feature_names_in_, model[0].feature_names_in_)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"a": "z"}))
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))


class Custom(StreamingRidge):
    """Of the user's own making, with the name of one of ours."""


Custom.__name__ = "StreamingRidge"


@dataclass(frozen=True)
class OwnGaussian(Gaussian):
    """It serves, but no spec can name it: a folder with one could not be loaded."""

    name: ClassVar[str] = "own"


REFUSED = {
    "sklearn": (Ridge().fit(X, NUMBERS), r"model is a sklearn.*Ridge, which cannot be saved.*savable: models and maps of distrf"),
    "same name": (Custom().fit(X, NUMBERS), "cannot be saved without running its code"),
    "function": (FunctionTransformer(np.nan_to_num).fit(X), r"model\.func is a .*nan_to_num\), which is not plain data"),
    "step": (make_pipeline(FunctionTransformer(abs), StreamingRidge()).fit(X, NUMBERS), r"model\.functiontransformer\.func is a .*abs\)"),
    "class": (make_pipeline(KNNImputer(), StreamingRidge()).fit(X, NUMBERS), r"model\.knnimputer is a sklearn.*cannot be saved.*StandardScaler"),
    "unfitted sklearn": (StandardScaler(), "This StandardScaler instance is not fitted"),
    "unfitted": (StreamingRidge(), "This StreamingRidge instance is not fitted"),
    "unfitted step": (make_pipeline(StreamingScaler(), StreamingRidge()), "This StreamingScaler instance is not fitted"),
    "kernel": (RandomFourierFeatures(OwnGaussian(), length_scale=1.0, n_components=8).fit(X), r"is not one of .* could not be loaded"),
    "object": (object(), "is not an estimator instance"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_leave_nothing(tmp_path, name):
    model, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        save_model(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def saved(tmp_path):
    """A saved pipeline, and a function that edits its JSON through a function of the spec."""
    save_model(clone(MODELS["nested"][0]).fit(X, NUMBERS), tmp_path / "m")
    path = tmp_path / "m"

    def edit(change):
        document = json.loads((path / "model.json").read_text())
        change(document)
        (path / "model.json").write_text(json.dumps(sealed(document)))

    return path, edit


def step(document, index):
    """The entry of one step of the saved Pipeline."""
    return document["spec"]["model"]["$pipeline"][index][1]


def of_map(document):
    """The fitted map of the saved Pipeline."""
    return step(document, 1)["fitted"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: of_map(d)["map_"]["$map"].update(seed=3), "checksum"),
        (lambda d: of_map(d)["map_"]["$map"].update(kernel={"name": "cauchy"}), "checksum"),
        (lambda d: of_map(d)["map_"]["$map"].update(n_components=62), "checksum"),
        (lambda d: d.update(format="distrf-model 99"), "99.; update distrf"),
        (lambda d: step(d, 2).update({"$estimator": "os.system"}), "names the class 'os.system'; this release loads"),
        (lambda d: step(d, 2).update({"$estimator": "Ridge"}), "names the class 'Ridge'"),
        (lambda d: step(d, 2).pop("fitted"), "not a valid model: NotFittedError"),
        (lambda d: step(d, 2)["parameters"].update(depth=3), "not a valid model: TypeError"),
        (lambda d: step(d, 2)["fitted"].update(predict=1), "not a valid model: .*predict"),
        (lambda d: step(d, 2)["fitted"].update(__class__=1), "not a valid model: .*__class__"),
        (lambda d: step(d, 2)["fitted"].update(coef_={"$array": "other"}), "not a valid model: KeyError"),
        (lambda d: step(d, 2)["fitted"].update(coef_={}), "not a valid model"),
        (lambda d: step(d, 2)["fitted"].update(coef_={"$pickle": "x"}), "not a valid model"),
        (lambda d: d["spec"].pop("model"), "not a valid model"),
    ],
)  # fmt: skip
def test_an_edited_model_is_refused(saved, change, message):
    path, edit = saved
    edit(change)
    with pytest.raises((StoreError, SpecMismatchError), match=message):
        load_model(path)


def test_a_damaged_array(saved):
    path, _ = saved
    next(path.glob("arrays-*.npz")).unlink()
    with pytest.raises(StoreError, match=r"no such file: .*arrays-.*npz'"):
        load_model(path)
