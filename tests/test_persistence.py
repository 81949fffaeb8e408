"""Model files: equal predictions after loading, refusals, damage; kills are in store/test_documents.py."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import ClassVar

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from distrf import (
    LearnedMetric,
    NystroemFeatures,
    RandomFourierFeatures,
    RandomLaplaceFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingScaler,
    load_model,
    predict,
    save_model,
)
from distrf.errors import InputError, SpecMismatchError, StoreError
from distrf.kernels import Exponential, Gaussian, Matern, ReciprocalSemigroup
from distrf.persistence import SAVABLE, model_details
from distrf.store.documents import with_checksum

RNG = np.random.default_rng(3)
X = RNG.normal(size=(90, 6)).astype(np.float32)
NUMBERS = X[:, 0] * 2 + np.sin(X[:, 1])
TWO = np.where(NUMBERS > 0, "yes", "no")
THREE = np.array([10, -3, 7])[np.digitize(NUMBERS, [-1, 1])]

MODELS = {
    "fourier": (RandomFourierFeatures(n_components=32, random_state=1), None),
    "fourier-seedless": (RandomFourierFeatures(n_components=32, length_scale=2.0), None),
    "fourier-whitened": (RandomFourierFeatures(n_components=32, metric="whiten", random_state=1), None),
    "learned-metric": (
        LearnedMetric(n_components=32, metric="full", random_state=1),
        NUMBERS,
    ),
    "fourier-metric": (
        RandomFourierFeatures(n_components=32, length_scale=np.arange(1.0, 7.0), order=2, random_state=1),
        None,
    ),
    "fourier-offset": (RandomFourierFeatures(gamma=0.1, n_components=9, phase="offset", random_state=1), None),
    "fourier-matern": (RandomFourierFeatures("matern", nu=2.5, n_components=32, random_state=1), None),
    "fourier-kernel-object": (RandomFourierFeatures(Matern(0.5), n_components=32, random_state=1), None),
    **{f"scaler-{m}": (StreamingScaler(m), None) for m in ("standard", "minmax", "maxabs", "robust", "robust-zeros", "l1-rows", "l2-rows")},
    "scaler-divide": (StreamingScaler("divide", divisor=3.0), None),
    "ridge": (StreamingRidge(1e-3), NUMBERS),
    "ridge-outputs": (StreamingRidge(1e-3, fit_intercept=False), np.c_[NUMBERS, -NUMBERS]),
    "ridge-alphas": (StreamingRidge((1e-4, 1e-2), cv="holdout", random_state=5), NUMBERS),
    "classifier-text": (StreamingRidgeClassifier(1e-3), TWO),
    "classifier-objects": (StreamingRidgeClassifier(1e-3), TWO.astype(object)),
    "classifier-weights": (StreamingRidgeClassifier(1e-3, class_weight={10: 2.0, -3: 0.5}), THREE),
    "classifier-text-weights": (StreamingRidgeClassifier(1e-3, class_weight={"yes": 3.0}), TWO),
    "classifier-bool": (StreamingRidgeClassifier([1e-3, 1e-1], class_weight="balanced", cv=3), TWO == "yes"),
    "pipeline": (make_pipeline(StreamingScaler(), RandomFourierFeatures(n_components=64, random_state=2), StreamingRidgeClassifier()), TWO),
    "nested": (Pipeline([
        ("prepare", Pipeline([("scale", StreamingScaler("minmax"))])),
        ("map", RandomFourierFeatures("laplacian", n_components=64, metric="whiten", random_state=2)),
        ("model", StreamingRidge()),
    ]), NUMBERS),
}  # fmt: skip


def outputs(model, rows):
    """Everything a model says about rows."""
    names = ("transform", "predict", "decision_function")
    return {name: getattr(model, name)(rows) for name in names if hasattr(model, name)}


def leaves(model):
    """The estimators of a possibly nested Pipeline."""
    return (
        [leaf for _, step in model.steps for leaf in leaves(step)] if isinstance(model, Pipeline) else [model]
    )


def assert_equal(a, b):
    """Equal in value, type and dtype."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b


def load_without_pickle(path):
    """The loaded model; unpickling anything meanwhile is an error."""

    def refuse(*args, **kwargs):
        raise AssertionError("unpickled")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("pickle.load", "pickle.loads", "pickle.Unpickler", "cloudpickle.loads"):
            patch.setattr(name, refuse)
        return load_model(path)


def assert_says_the_same(model, loaded, rows):
    """To the bit."""
    expected, got = outputs(model, rows), outputs(loaded, rows)
    assert expected
    assert expected.keys() == got.keys()
    for key, value in expected.items():
        assert sp.issparse(value) == sp.issparse(got[key])
        assert_equal(*(v.toarray() if sp.issparse(v) else v for v in (value, got[key])))


@pytest.mark.parametrize("name", sorted(SAVABLE))
def test_every_registered_class(tmp_path, name):
    """A small one of each class predicts and transforms to the bit as it did."""
    cls = SAVABLE[name]
    wanted = {"n_components": 16, "n_grids": 8, "random_state": 1, "transformer": StandardScaler()}
    known = inspect.signature(cls).parameters
    model = cls(**{k: v for k, v in wanted.items() if k in known})
    if name.startswith("CompactNonlinear"):
        model.set_params(n_epochs=5)
    if name == "TEFM":
        model.set_params(base=RandomFourierFeatures(n_components=32, random_state=1))
    model.fit(abs(X), TWO if is_classifier(model) else NUMBERS)
    save_model(model, tmp_path / "m")
    assert_says_the_same(model, load_without_pickle(tmp_path / "m"), abs(X))


@pytest.mark.parametrize("name", MODELS)
def test_round_trip(tmp_path, name):
    model, y = MODELS[name]
    model = clone(model).fit(X, y)
    save_model(model, tmp_path / "m")
    loaded = load_without_pickle(tmp_path / "m")
    assert_says_the_same(model, loaded, X)
    for a, b in zip(leaves(model), leaves(loaded), strict=True):
        assert type(a) is type(b)
        for mine, other in ((a.get_params(), b.get_params()), (vars(a), vars(b))):
            assert mine.keys() == other.keys()
            for key in mine:
                assert_equal(mine[key], other[key])
    if isinstance(model, Pipeline):
        assert [step for step, _ in loaded.steps] == [step for step, _ in model.steps]


def test_names_of_columns(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = make_pipeline(StreamingScaler(), StreamingRidge()).fit(frame, NUMBERS)
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert_equal(loaded[0].feature_names_in_, model[0].feature_names_in_)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"a": "z"}))
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))


FRAME = pd.DataFrame({
    "a": X[:, 0],
    "b b": np.where(X[:, 1] > 1, np.nan, X[:, 1]),
    "colour": np.array(["red", "green", "blue"], dtype=object)[(abs(X[:, 2]) * 7).astype(int) % 3],
})  # fmt: skip


def of_columns():
    """Steps of scikit-learn on columns by name, then ours."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    columns = [
        ("the numbers", numbers, ["a", "b b"]),
        ("the words", OneHotEncoder(handle_unknown="ignore"), ["colour"]),
    ]
    map_ = RandomFourierFeatures(n_components=32, random_state=0)
    return make_pipeline(ColumnTransformer(columns), map_, StreamingRidge(1e-3))


def test_steps_of_scikit_learn(tmp_path):
    model = of_columns().fit(FRAME, NUMBERS)
    save_model(model, tmp_path / "m")
    loaded = load_without_pickle(tmp_path / "m")
    assert_equal(model.predict(FRAME), loaded.predict(FRAME))
    assert_equal(model.predict(FRAME[:1]), loaded.predict(FRAME[:1][["colour", "a", "b b"]]))
    assert repr(loaded) == repr(model)
    with pytest.raises(ValueError, match="columns are missing"):
        loaded.predict(FRAME.rename(columns={"a": "z"}))
    again = clone(loaded).fit(FRAME, NUMBERS)
    np.testing.assert_array_equal(again.predict(FRAME), model.predict(FRAME))
    save_model(loaded, tmp_path / "again")  # what was loaded is saved as it was
    assert (tmp_path / "m/model.json").read_text() == (tmp_path / "again/model.json").read_text()


@pytest.mark.parametrize(
    "before",
    [
        StandardScaler(),
        "passthrough",
        TruncatedSVD(3, algorithm="arpack", random_state=0),
        TruncatedSVD(3, random_state=0),
        FeatureUnion([("its own", StreamingScaler()), ("theirs", StandardScaler())]),
        ColumnTransformer([("map", RandomFourierFeatures(n_components=8, random_state=1), [0, 1])]),
        Pipeline([("a/b c", StandardScaler()), ("d", RandomFourierFeatures(metric="whiten", random_state=1))]),
    ],
    ids=lambda step: type(step).__name__,
)
def test_steps_of_both_kinds(tmp_path, before):
    model = make_pipeline(clone(before, safe=False), StreamingRidge()).fit(X, NUMBERS)
    save_model(model, tmp_path / "m")
    loaded = load_without_pickle(tmp_path / "m")
    assert_equal(model.predict(X), loaded.predict(X))
    assert repr(loaded) == repr(model)


def test_another_release_of_scikit_learn(tmp_path):
    save_model(make_pipeline(StandardScaler(), StreamingRidge()).fit(X, NUMBERS), tmp_path / "s")
    place = tmp_path / "s/model.json"
    document = json.loads(place.read_text())
    assert step(document, 0)["scikit_learn"] == sklearn.__version__
    step(document, 0)["scikit_learn"] = "0.20.1"
    place.write_text(json.dumps(with_checksum(document)))
    with pytest.warns(UserWarning, match=r"the StandardScaler was saved with scikit-learn 0\.20\.1"):
        load_model(tmp_path / "s")


@pytest.mark.parametrize(
    "first", [StandardScaler(), RandomFourierFeatures(length_scale=2.0, n_components=64, random_state=2)]
)
def test_lazy_and_sparse_rows(tmp_path, first):
    """`predict` of a saved model reads block by block, also what scikit-learn's own step would pull into memory."""
    model = make_pipeline(clone(first), StreamingRidge()).fit(X, NUMBERS)
    save_model(model, tmp_path / "m")
    lazy = predict(tmp_path / "m", da.from_array(X, chunks=(40, 6)))
    assert isinstance(lazy, da.Array)
    assert lazy.chunks == ((40, 40, 10),)
    np.testing.assert_allclose(lazy.compute(scheduler="sync"), model.predict(X), rtol=1e-5)
    if not isinstance(first, StandardScaler):
        np.testing.assert_array_equal(
            load_model(tmp_path / "m").predict(sp.csr_array(X)), model.predict(sp.csr_array(X))
        )


def test_equal_fits_are_equal_files(tmp_path):
    """Nothing but the model is in the file: no time, no path, no order of a dictionary."""
    for name in ("a", "b"):
        save_model(clone(MODELS["nested"][0]).fit(X, NUMBERS), tmp_path / name)
    a, b = (
        {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()}
        for name in ("a", "b")
    )
    assert a == b


class Custom(StreamingRidge):
    """Of the user's own making, with the name of one of ours."""


Custom.__name__ = "StreamingRidge"


REFUSED = {
    "sklearn": (Ridge().fit(X, NUMBERS), r"model is a sklearn.*Ridge, which cannot be saved.*savable: .*RandomFourier"),
    "same name": (Custom().fit(X, NUMBERS), "cannot be saved without running its code"),
    "function": (FunctionTransformer(np.nan_to_num).fit(X), r"model\.func is a .*nan_to_num\), which is not plain data"),
    "step": (make_pipeline(FunctionTransformer(abs), StreamingRidge()).fit(X, NUMBERS), r"model\.functiontransformer\.func is a .*abs\)"),
    "class": (make_pipeline(KNNImputer(), StreamingRidge()).fit(X, NUMBERS), r"model\.knnimputer is a sklearn.*cannot be saved.*StandardScaler"),
    "unfitted sklearn": (StandardScaler(), r"model \(StandardScaler\) is not fitted; call fit"),
    "unfitted": (StreamingRidge(), r"model \(StreamingRidge\) is not fitted; call fit"),
    "unfitted step": (make_pipeline(StreamingScaler(), StreamingRidge()), r"model\.streamingscaler .* not fitted"),
    "object": (object(), "builtins.object, which cannot be saved"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_leave_nothing(tmp_path, name):
    model, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        save_model(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [lambda: 1, np.random.RandomState(0), b"bytes", {1, 2}])
def test_parameters_that_are_not_data(tmp_path, value):
    model = StreamingRidge().fit(X, NUMBERS)
    model.random_state = value
    with pytest.raises(
        InputError, match=rf"model\.random_state is a {type(value).__name__}.*, which is not plain data"
    ):
        save_model(model, tmp_path / "m")
    with pytest.raises(InputError, match="provenance"):
        save_model(StreamingRidge().fit(X, NUMBERS), tmp_path / "m", provenance=value)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def saved(tmp_path):
    """A saved pipeline, and a function that edits its JSON through a function of the spec."""
    save_model(clone(MODELS["nested"][0]).fit(X, NUMBERS), tmp_path / "m")
    path = tmp_path / "m"

    def edit(change):
        document = json.loads((path / "model.json").read_text())
        change(document)
        (path / "model.json").write_text(json.dumps(with_checksum(document)))

    return path, edit


def step(document, index):
    """The entry of one step of the saved Pipeline."""
    return document["spec"]["model"]["steps"][index][1]


def of_map(document):
    """The fitted map of the saved Pipeline."""
    return step(document, 1)["fitted"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: of_map(d)["map_"]["$map"].update(seed=3), "checksum"),
        (lambda d: of_map(d)["map_"]["$map"].update(kernel={"name": "cauchy"}), "checksum"),
        (lambda d: of_map(d)["map_"]["$map"].update(n_components=62), "checksum"),
        (lambda d: d.update(version=99), "has version 99; update distrf"),
        (lambda d: step(d, 2).update({"class": "os.system"}), "names the class 'os.system'; this release loads"),
        (lambda d: step(d, 2).update({"class": "Ridge"}), "names the class 'Ridge'"),
        (lambda d: step(d, 2).pop("fitted"), "not a valid model: KeyError"),
        (lambda d: step(d, 2)["parameters"].update(depth=3), "not a valid model: TypeError"),
        (lambda d: step(d, 2)["fitted"].update(predict=1), "not a valid model: .*predict"),
        (lambda d: step(d, 2)["fitted"].update(__class__=1), "not a valid model: .*__class__"),
        (lambda d: step(d, 2)["fitted"].update(coef_={"$array": "other"}), "not a valid model: KeyError"),
        (lambda d: step(d, 2)["fitted"].update(coef_={}), "not a valid model"),
        (lambda d: step(d, 2)["fitted"].update(coef_={"$pickle": "x"}), "not a valid model"),
        (lambda d: d["spec"].pop("model"), "not a valid model"),
        (lambda d: d.pop("spec"), "is not what was written"),
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
    with pytest.raises(StoreError, match=r"'arrays-.*npz' .*damaged"):
        load_model(path)


def test_overwriting(tmp_path):
    first = StreamingRidge(1e-3).fit(X, NUMBERS)
    save_model(first, tmp_path / "m", note="a")
    assert model_details(tmp_path / "m")["note"] == "a"
    with pytest.raises(SpecMismatchError, match=r"model.parameters.alpha: 0.001 -> 0.01.*overwrite=True"):
        save_model(StreamingRidge(1e-2).fit(X, NUMBERS), tmp_path / "m", note="a")
    assert load_model(tmp_path / "m").alpha == 1e-3
    save_model(StreamingRidge(1e-2).fit(X, NUMBERS), tmp_path / "m", overwrite=True)
    assert load_model(tmp_path / "m").alpha == 1e-2


@dataclass(frozen=True)
class OwnGaussian(Gaussian):
    name: ClassVar[str] = "own"


@dataclass(frozen=True)
class OwnExponential(Exponential):
    gamma: float = 0.1


@dataclass(frozen=True)
class OwnSemigroup(ReciprocalSemigroup):
    name: ClassVar[str] = "own"


@pytest.mark.parametrize(
    "est",
    [
        RandomFourierFeatures(OwnGaussian(), length_scale=1.0, n_components=8, random_state=0),
        NystroemFeatures(OwnExponential(), n_components=8, random_state=0),
        RandomLaplaceFeatures(OwnSemigroup(), n_components=8, random_state=0),
        NystroemFeatures(OwnSemigroup(), n_components=8, random_state=0),
    ],
    ids=lambda est: type(est).__name__,
)
def test_kernels_of_ones_own_are_refused_before_anything_is_written(est, tmp_path):
    """They serve, lazily too, but no spec can name them: a folder with one could not be loaded."""
    X = np.random.default_rng(0).random((40, 3))
    est.fit(X)
    lazy = est.transform(da.from_array(X, chunks=(10, 3)))
    np.testing.assert_allclose(lazy.compute(), est.transform(X), atol=1e-12)
    with pytest.raises(InputError, match=r"is not one of .* could not be loaded"):
        save_model(make_pipeline(est, StreamingRidge()).fit(X, X[:, 0]), tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("attribute", ["coef_", "intercept_"])
def test_lost_weights_are_not_saved(attribute, tmp_path, rng):
    model = StreamingRidge(1e-3).fit(rng.normal(size=(20, 3)), rng.normal(size=20))
    setattr(model, attribute, getattr(model, attribute) * np.nan)
    with pytest.raises(InputError, match=rf"model\.{attribute} holds NaN or infinity"):
        save_model(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()
