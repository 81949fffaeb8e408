"""Transformers of scikit-learn as data: every listed class, alone and nested, predicts the same bits after loading."""

from __future__ import annotations

import json
import pickle
import re

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection

from distrf import Blockwise
from distrf.errors import InputError, SpecMismatchError
from distrf.maps.transformers import (
    CODEC,
    SAVABLE_TRANSFORMERS,
    TRANSFORMERS,
    listed_transformer,
    restore_transformer,
)

RNG = np.random.default_rng(0)
N = 80
NUMBERS = abs(RNG.normal(size=(N, 4)))
HOLES = np.where(RNG.uniform(size=(N, 4)) < 0.2, np.nan, NUMBERS)
FEW = RNG.integers(0, 4, size=(N, 3)).astype(float)
WORDS = np.array(["red", "green", "bluish", "grey"], dtype=object)[FEW.astype(int)]
GAPS = WORDS.copy()
GAPS[::7, 1] = None
NANS = WORDS.copy()
NANS[::7, 1] = np.nan
Y = NUMBERS @ np.arange(1.0, 5.0)
LABELS = np.array(["low", "mid", "high"])[np.digitize(Y, np.quantile(Y, [0.3, 0.6]))]

FRAME = pd.DataFrame(
    {
        "size": NUMBERS[:, 0],
        "age of it": HOLES[:, 1].astype(np.float32),
        "colour": WORDS[:, 0],
        "kind": pd.Categorical(WORDS[:, 1]),
        "text": pd.Series(GAPS[:, 1], dtype="str"),
        "count": FEW[:, 0].astype(np.int16),
        "flag": FEW[:, 1] > 1,
    }
)

CASES = {
    "chi2": (AdditiveChi2Sampler(sample_steps=2), NUMBERS, None),
    "binarizer": (Binarizer(threshold=0.3), NUMBERS, None),
    "identity": (FunctionTransformer(feature_names_out="one-to-one"), NUMBERS, None),
    "projection": (GaussianRandomProjection(3, random_state=0), NUMBERS, None),
    "bins": (KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"), NUMBERS, None),
    "maxabs": (MaxAbsScaler(), NUMBERS, None),
    "minmax": (MinMaxScaler(feature_range=(-1, 2)), NUMBERS, None),
    "indicator": (MissingIndicator(), HOLES, None),
    "normalizer": (Normalizer("l1"), NUMBERS, None),
    "onehot-words": (OneHotEncoder(), WORDS, None),
    "onehot-nan": (OneHotEncoder(handle_unknown="ignore", sparse_output=False), NANS, None),
    "onehot-rare": (OneHotEncoder(min_frequency=22, handle_unknown="infrequent_if_exist"), WORDS, None),
    "onehot-drop-first": (OneHotEncoder(drop="first", max_categories=3), WORDS, None),
    "ordinal": (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan), NANS, None),
    "pca": (PCA(2, random_state=0), NUMBERS, None),
    "count-sketch": (PolynomialCountSketch(n_components=9, random_state=0), NUMBERS, None),
    "polynomial": (PolynomialFeatures((2, 3), interaction_only=True), NUMBERS, None),
    "power": (PowerTransformer(), NUMBERS, None),
    "quantiles": (QuantileTransformer(n_quantiles=30, output_distribution="normal", random_state=0), NUMBERS, None),
    "rbf": (RBFSampler(n_components=7, random_state=0), NUMBERS, None),
    "robust": (RobustScaler(quantile_range=(10.0, 90.0)), HOLES, None),
    "imputer": (SimpleImputer(), HOLES, None),
    "imputer-median": (SimpleImputer(strategy="median", add_indicator=True), HOLES, None),
    "imputer-words": (SimpleImputer(strategy="most_frequent", missing_values=None), GAPS, None),
    "skewed": (SkewedChi2Sampler(n_components=6, random_state=0), NUMBERS, None),
    "standard": (StandardScaler(), HOLES, None),
    "target": (TargetEncoder(), WORDS, Y),
    "svd": (TruncatedSVD(2, random_state=0), NUMBERS, None),
    "variance": (VarianceThreshold(0.01), NUMBERS, None),
    "pipeline": (
        make_pipeline(SimpleImputer(), StandardScaler(), "passthrough", PolynomialFeatures(2)), HOLES, None,
    ),
    "union": (
        FeatureUnion([("one", StandardScaler()), ("two", "passthrough"), ("no", "drop"), ("three", PCA(1))],
                     transformer_weights={"one": 2.0}), NUMBERS, None,
    ),
    "columns-by-number": (
        ColumnTransformer([("a b", StandardScaler(), [0, 2]), ("keep", "passthrough", slice(1, 2))],
                          remainder=MinMaxScaler()), NUMBERS, None,
    ),
    "frame": (
        ColumnTransformer(
            [
                ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["size", "age of it"]),
                ("words", OneHotEncoder(handle_unknown="ignore"), ["colour", "kind", "text"]),
                ("one column", FunctionTransformer(), ["count"]),
                ("not", "drop", ["flag"]),
            ]
        ), FRAME, None,
    ),
    "frame-rest": (
        make_column_transformer((OrdinalEncoder(), ["colour", "kind"]), ("drop", ["text"]), remainder="passthrough"),
        FRAME, None,
    ),
    "frame-pandas-out": (
        make_pipeline(SimpleImputer(), StandardScaler()).set_output(transform="pandas"), FRAME[["size", "age of it"]],
        None,
    ),
}  # fmt: skip


def reloaded(transformer):
    """Through JSON text and arrays that were copied."""
    arrays = {}
    entry = json.loads(json.dumps(CODEC.encode(transformer, "", arrays)))
    return restore_transformer(entry, {name: array.copy(order="K") for name, array in arrays.items()})


def equal(a, b):
    assert type(a) is type(b)
    if isinstance(a, pd.DataFrame):
        pd.testing.assert_frame_equal(a, b, check_exact=True)
    elif sp.issparse(a):
        assert (a != b).nnz == 0
        assert a.dtype == b.dtype
    else:
        assert a.dtype == b.dtype
        if a.dtype == object:
            a, b = pd.DataFrame(a), pd.DataFrame(b)  # whose NaN are equal
            return pd.testing.assert_frame_equal(a, b, check_exact=True)
        np.testing.assert_array_equal(a, b)
    return None


def shown(transformer):
    return re.sub(" at 0x[0-9a-f]+", "", repr(transformer))


def test_every_listed_class_is_tried():
    classes = {name for name in SAVABLE_TRANSFORMERS if any(name in repr(case[0]) for case in CASES.values())}
    assert classes == set(SAVABLE_TRANSFORMERS)
    for name in SAVABLE_TRANSFORMERS:
        assert listed_transformer(name).__module__.startswith("sklearn.")
    for name in TRANSFORMERS:
        listed_transformer(name)()
    assert listed_transformer("Ridge") is None


@pytest.mark.parametrize("name", CASES)
def test_same_bits(name, monkeypatch):
    transformer, rows, y = CASES[name]
    fitted = clone(transformer).fit(rows, y)
    before = fitted.transform(rows)
    monkeypatch.setattr(pickle, "loads", None)
    again = reloaded(fitted)
    equal(before, again.transform(rows))
    assert shown(again) == shown(fitted)
    for one in range(3):  # other shapes go other ways through BLAS
        before, after = (t.transform(rows[one : one + 1]) for t in (fitted, again))
        if name == "svd":  # components are columns of a wider matrix: of a copy BLAS rounds otherwise
            np.testing.assert_allclose(after, before, rtol=1e-14)
        else:
            equal(before, after)
    try:
        names = fitted.get_feature_names_out()
    except AttributeError:
        return
    equal(names, again.get_feature_names_out())


@pytest.mark.parametrize(
    "name", [name for name, (_, rows, y) in CASES.items() if rows is NUMBERS and y is None]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blockwise_is_the_transformer(name, dtype):
    transformer, rows = clone(CASES[name][0]), NUMBERS.astype(dtype)
    theirs = clone(transformer).fit_transform(rows)
    est = Blockwise(transformer).fit(rows)
    lazy = est.transform(da.from_array(rows, chunks=(70, 4)))
    for ours in (est.transform(rows), lazy.compute(scheduler="sync")):
        assert ours.dtype == dtype
        assert sp.issparse(ours) == sp.issparse(lazy._meta) == sp.issparse(theirs)
        plain, known = (Z.toarray() if sp.issparse(Z) else Z for Z in (ours, theirs))
        np.testing.assert_allclose(plain, known, rtol=1e-5, atol=1e-6)
    assert not hasattr(transformer, "n_features_in_")


def test_names_of_columns_are_kept():
    again = reloaded(clone(CASES["frame"][0]).fit(FRAME))
    with pytest.raises(ValueError, match=r"columns are missing:.*colour"):
        again.transform(FRAME.rename(columns={"colour": "hue"}))
    turned = FRAME[FRAME.columns[::-1]]
    equal(again.transform(turned), again.transform(FRAME))  # columns are taken by name


def halved(Z):
    return Z / 2


class Scaler(StandardScaler):
    pass


Scaler.__name__ = "StandardScaler"


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (FunctionTransformer(halved), r"at\.func is a function \(.*halved\), which is not plain data"),
        (FunctionTransformer(np.log1p), r"at\.func is a ufunc"),
        (FunctionTransformer(np.nan_to_num), r"at\.func is a .*nan_to_num"),
        (make_pipeline(StandardScaler(), KNNImputer()), r"at\.steps\.1\.1 is a sklearn.*KNNImputer, which cannot"),
        (Scaler(), r"at is a .*StandardScaler, which cannot be saved"),
        (RBFSampler(random_state=np.random.RandomState(0)), r"at\.random_state is a RandomState"),
        (ColumnTransformer([("a", "passthrough", halved)]), r"at\.transformers\.0\.2 is a function"),
        (SimpleImputer(missing_values=pd.NA), r"at\.missing_values is a NAType"),
        (make_column_transformer(("drop", make_column_selector(dtype_include=pd.CategoricalDtype()))), "dtype_include|transformers"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_refusals_name_the_attribute(transformer, message):
    with pytest.raises(InputError, match=message):
        CODEC.encode(transformer, "at", {})


def described(transformer=None):
    return CODEC.encode(transformer or StandardScaler().fit(NUMBERS), "", {})


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"$sklearn": "Ridge"}, "the spec names the transformer 'Ridge'; this release loads"),
        ({"$sklearn": "os.system"}, "the spec names the transformer 'os.system'"),
        ({"more": 1}, "is not one of this release"),
        ({"parameters": {"nope": 1}}, "does not take the stored parameters"),
        ({"parameters": {"copy": {"$function": "eval"}}}, "is not one of this release"),
        (
            {
                "parameters": {
                    "copy": {"$sklearn": "Ridge", "scikit_learn": "1", "parameters": {}, "fitted": {}}
                }
            },
            "transformer 'Ridge'",
        ),
        ({"fitted": {"transform": 3}}, "has no fitted attribute 'transform'"),
        ({"fitted": {"__class__": 3}}, "has no fitted attribute '__class__'"),
        ({"fitted": {"mean_": {"$array": "mean_"}}}, "its arrays are missing"),
    ],
    ids=str,
)
def test_edited_specs(edit, message):
    with pytest.raises(SpecMismatchError, match=message):
        restore_transformer(described() | edit, {})


def test_a_cache_of_pickles_is_left_out(tmp_path):
    entry = described(Pipeline([("a", StandardScaler())], memory=str(tmp_path)))
    assert entry["parameters"]["memory"] is None
    entry["parameters"]["memory"] = str(tmp_path)
    with pytest.raises(SpecMismatchError, match="names a cache of pickles"):
        restore_transformer(entry, {})
