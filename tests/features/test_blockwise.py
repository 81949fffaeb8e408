"""Blockwise: scikit-learn transformers over blocks; what travels, what is saved, what is refused."""

from __future__ import annotations

import json
import pickle
import re

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from contracts import EPS, MapContract
from hypothesis import given
from reductions import count_calls
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectFpr, SelectKBest, VarianceThreshold, f_classif
from sklearn.kernel_approximation import AdditiveChi2Sampler, RBFSampler, SkewedChi2Sampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import chunk_bytes, chunked, dtypes

from distrf import Blockwise, StreamingRidge, load_model, save_model
from distrf.errors import InputError, SpecMismatchError, StoreError
from distrf.execution.row_blocks import ARRAYS_PREFIX
from distrf.execution.sampling import sampled_rows
from distrf.maps import BlockwiseMap, map_from_spec
from distrf.maps.base import arrays_fingerprint
from distrf.maps.blockwise import takes_missing

X = abs(np.random.default_rng(5).normal(size=(300, 4)))


class Centred(TransformerMixin, BaseEstimator):
    """Not row by row: what it takes away depends on the block."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X - X.mean(axis=0)


class Shifted(TransformerMixin, BaseEstimator):
    """Row by row, but not a class that is known."""

    def fit(self, X, y=None):
        self.shift_ = X.mean(axis=0)
        return self

    def transform(self, X):
        return X - self.shift_


# ---- the map ----------------------------------------------------------------------------------------


#: Its JSON is so long that it is an array too.
SCALERS = make_pipeline(MaxAbsScaler(), StandardScaler(with_mean=False), MaxAbsScaler())


class TestLearned(MapContract):
    seeded = False
    transformers = (MaxAbsScaler(), SCALERS, Shifted())

    @pytest.fixture(params=range(3))
    def make(self, request):
        def make(d, D):
            fitted = clone(self.transformers[request.param]).fit(self.rows(50, d))
            return BlockwiseMap.of_transformer(fitted, d, d)

        return make

    @pytest.fixture(autouse=True)
    def _sparse(self, map_):
        self.sparse = map_.savable
        self.takes_missing = takes_missing(map_.transformer)

    def explicit(self, map_, X):
        return map_.transformer.transform(X)

    def tolerance(self, map_, X, dtype):
        return 8 * EPS[dtype] * (abs(X) + 1) * (1 + abs(self.explicit(map_, np.eye(X.shape[1]))).max())

    def test_spec_round_trip(self, map_):
        if map_.savable:
            super().test_spec_round_trip(map_)

    def test_spec_with_a_missing_entry(self, map_):
        if map_.savable:
            super().test_spec_with_a_missing_entry(map_)

    def test_spec_of_other_arrays(self, map_):
        if map_.savable:
            super().test_spec_of_other_arrays(map_)
        else:
            with pytest.raises(InputError, match=r"Shifted.* cannot be saved without running its code on load"):
                map_.spec()


class TestStateless(TestLearned):
    transformers = (Normalizer(), Binarizer(threshold=0.3), Normalizer("l1"))

    def tolerance(self, map_, X, dtype):
        return 2 * EPS[dtype] * (X.shape[1] + 4) * np.ones_like(X)

    def test_spec_that_was_edited(self, map_):
        for edit, message in (
            ({"class": "Ridge"}, "the transformer"),
            ({"fitted": {"transform": 3}}, "no fitted attribute 'transform'"),
            ({"more": 1}, "the transformer"),
            ({"parameters": {"nope": 1}}, "does not take the stored parameters"),
        ):
            spec, arrays = edited(map_.spec(), map_.arrays, edit)
            with pytest.raises(SpecMismatchError, match=message):
                map_from_spec(spec, arrays)


def edited(spec, arrays, edit):
    """A spec and arrays whose JSON of the transformer was edited, and the digest with it."""
    entry = json.loads(arrays["state"].tobytes()) | edit
    arrays = arrays | {"state": np.frombuffer(json.dumps(entry).encode(), dtype=np.uint8)}
    return spec | {"digest": arrays_fingerprint(arrays)}, arrays


# ---- against scikit-learn ---------------------------------------------------------------------------

PLAIN = [
    AdditiveChi2Sampler(),
    AdditiveChi2Sampler(sample_steps=1, sample_interval=0.5),
    Binarizer(threshold=0.5),
    MaxAbsScaler(),
    MinMaxScaler(feature_range=(-1, 2)),
    Normalizer("l1"),
    PCA(2, random_state=0),
    PolynomialFeatures(2),
    QuantileTransformer(n_quantiles=50, random_state=0),
    RBFSampler(n_components=7, random_state=0),
    RobustScaler(),
    SkewedChi2Sampler(n_components=6, random_state=0),
    StandardScaler(),
    VarianceThreshold(0.01),
    PowerTransformer(),
    KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"),
    FunctionTransformer(np.log1p),
    make_pipeline(StandardScaler(), PolynomialFeatures(2)),
]


def halved(Z):
    return Z / 2


OTHERS = [FunctionTransformer(halved), make_pipeline(StandardScaler(), Shifted())]


def name_of(transformer):
    """Its text without the address of a function: both processes of pytest must find the same tests."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(transformer))


@pytest.mark.parametrize("transformer", [*PLAIN, *OTHERS], ids=name_of)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_as_scikit_learn(transformer, dtype):
    rows = X.astype(dtype)
    theirs = clone(transformer).fit(rows).transform(rows)
    theirs = theirs.toarray() if sp.issparse(theirs) else theirs
    est = Blockwise(transformer).fit(rows)
    ours = est.transform(rows)
    assert ours.dtype == dtype
    np.testing.assert_allclose(ours.toarray() if sp.issparse(ours) else ours, theirs, rtol=1e-5, atol=1e-6)
    lazy = est.transform(da.from_array(rows, chunks=(70, 4)))
    made = lazy.compute(scheduler="sync")
    assert sp.issparse(lazy._meta) == sp.issparse(made) == sp.issparse(ours)
    assert lazy.shape == theirs.shape
    np.testing.assert_allclose(made.toarray() if sp.issparse(made) else made, theirs, rtol=1e-5, atol=1e-6)
    assert not hasattr(transformer, "n_features_in_")


@pytest.mark.parametrize("transformer", PLAIN, ids=repr)
def test_files(transformer, tmp_path):
    est = Blockwise(transformer, random_state=0).fit(X)
    save_model(est, tmp_path / "model")
    again = load_model(tmp_path / "model")
    mine, other = (Z.toarray() if sp.issparse(Z) else Z for Z in (est.transform(X), again.transform(X)))
    np.testing.assert_array_equal(mine, other)
    assert repr(again) == repr(est)
    assert type(again.transformer_) is type(transformer)


def test_long_states_travel_once(tmp_path):
    """Many categories are no part of the message of each task."""
    words = np.arange(300.0)[:, None]
    est = Blockwise(OneHotEncoder(), random_state=0).fit(words)
    many = Blockwise(make_pipeline(OneHotEncoder(), StandardScaler(with_mean=False))).fit(words)
    for one in (est, many):
        assert len(pickle.dumps(one.map_.without_arrays())) < 1024
        save_model(one, tmp_path / "model", overwrite=True)
        again = load_model(tmp_path / "model")
        assert again.map_ == one.map_
        assert (again.transform(words) != one.transform(words)).nnz == 0


@pytest.mark.parametrize("transformer", OTHERS, ids=name_of)
def test_files_refuse(transformer, tmp_path):
    est = Blockwise(transformer).fit(X)
    with pytest.raises(InputError, match=r"model\.transformer\.(func|steps\.1\.1) is .*cannot be saved"):
        save_model(est, tmp_path / "model")
    with pytest.raises(InputError, match=r"on load: (func|steps\.1\.1) is .*; Blockwise saves"):
        est.map_.spec()
    assert not (tmp_path / "model").exists()


def test_subclass_is_not_its_parent(tmp_path):
    class StandardScaler(Shifted):
        pass

    with pytest.raises(InputError, match=r"cannot be pickled|cannot be saved"):
        save_model(Blockwise(StandardScaler()).fit(X), tmp_path / "model")


def test_files_do_not_run_code(tmp_path):
    """A pickle put where arrays belong is never loaded, and a class off the list is refused."""
    save_model(Blockwise(StandardScaler()).fit(X), tmp_path / "model")
    from distrf.persistence import _decode_model, model_details

    spec = model_details(tmp_path / "model")["model"]
    names = spec["fitted"]["map_"]["arrays"]
    mine = load_model(tmp_path / "model").map_.arrays
    for change, message in (
        (lambda spec: (spec, {"pickle": np.zeros(1)}), "the spec names a pickle, which is not loaded"),
        (lambda spec: edited(spec, mine, {"class": "Ridge"}), "'Ridge'; this release loads"),
    ):
        bad = json.loads(json.dumps(spec))
        entry, arrays = change(bad["fitted"]["map_"]["$map"])
        bad["fitted"]["map_"] = {
            "$map": entry | {"digest": arrays_fingerprint(arrays)},
            "arrays": {k: k for k in arrays},
        }
        with pytest.raises((SpecMismatchError, StoreError), match=message):
            _decode_model(bad, dict.fromkeys(names.values(), np.zeros(1)) | arrays)
    bad = json.loads(json.dumps(spec))
    bad["parameters"]["transformer"]["$sklearn"] = "Ridge"
    with pytest.raises((SpecMismatchError, StoreError), match="'Ridge'; this release loads"):
        _decode_model(bad, {})


# ---- fitting ----------------------------------------------------------------------------------------


def counted(rows, chunk, folder):
    return da.from_array(rows, chunks=(chunk, rows.shape[1])).map_blocks(
        count_calls, str(folder), dtype=rows.dtype, meta=np.empty((0, 0), rows.dtype)
    )


@pytest.mark.parametrize(
    "transformer", [Normalizer(), AdditiveChi2Sampler(), FunctionTransformer(np.log1p)], ids=repr
)
def test_stateless_reads_nothing(transformer, tmp_path):
    lazy = Blockwise(transformer).fit_transform(counted(X, 10, tmp_path))
    assert not list(tmp_path.iterdir())
    lazy[:10].compute(scheduler="sync")
    assert len(list(tmp_path.iterdir())) == 1


def test_fits_on_a_sample(tmp_path):
    rows = np.random.default_rng(0).normal(size=(3000, 2))
    est = Blockwise(MaxAbsScaler(), n_sample=100, random_state=4)
    chosen = rows[sampled_rows(3000, 100, 4, "blockwise")]
    for given_ in (rows, counted(rows, 10, tmp_path), sp.csr_array(rows)):
        np.testing.assert_array_equal(est.fit(given_).transformer_.max_abs_, abs(chosen).max(axis=0))
    assert len(list(tmp_path.iterdir())) <= 100


@pytest.mark.slow
@given(shape=chunked(rows=4), dtype=dtypes, chunk_bytes=chunk_bytes)
def test_dask_is_numpy(shape, dtype, chunk_bytes):
    chunks, d = shape
    rows = np.random.default_rng(d).normal(size=(sum(chunks), d)).astype(dtype)
    est = Blockwise(make_pipeline(StandardScaler(), PolynomialFeatures(2)), n_sample=20, random_state=0)
    Z = est.fit_transform(rows)
    dX = da.from_array(rows, chunks=shape)
    with dask.config.set({"array.chunk-size": f"{chunk_bytes}B", "scheduler": "sync"}):
        lazy = clone(est).fit(dX).transform(dX)
        made = lazy.compute()
    assert lazy.dtype == made.dtype == Z.dtype == dtype
    np.testing.assert_allclose(
        made, Z, rtol=8 * EPS[np.dtype(dtype)], atol=8 * EPS[np.dtype(dtype)] * abs(Z).max()
    )


@pytest.mark.parametrize("lazy_y", [False, True])
def test_target(lazy_y):
    y = (X[:, 2] > X[:, 2].mean()).astype(int)
    dy = da.from_array(y, chunks=90) if lazy_y else y
    est = Blockwise(SelectKBest(f_classif, k=1)).fit(da.from_array(X, chunks=(70, 4)), dy)
    np.testing.assert_array_equal(est.transform(X), X[:, 2:3])
    with pytest.raises(InputError, match="requires y to be passed"):
        Blockwise(SelectFpr()).fit(X)
    with pytest.raises(InputError, match="y must have as many rows as X, got 3 and 300"):
        Blockwise(SelectKBest(k=1)).fit(X, y[:3])


def test_not_row_wise():
    with pytest.raises(InputError, match="treats every row on its own, but Centred gives 3 rows other values"):
        Blockwise(Centred()).fit(X)
    with pytest.raises(InputError, match="treats every row on its own, but FunctionTransformer"):
        Blockwise(FunctionTransformer(lambda Z: Z / Z.sum())).fit(X)


def test_refusals():
    with pytest.raises(InputError, match=r"transformer must be .* a scikit-learn transformer.* got 3"):
        Blockwise(3).fit(X)
    with pytest.raises(InputError, match="n_sample must be an integer >= 1, got 0"):
        Blockwise(StandardScaler(), n_sample=0).fit(X)
    with pytest.raises(InputError, match=r"cannot be pickled: .*; use functions that are defined in a module"):
        Blockwise(FunctionTransformer(lambda Z: Z)).fit(X)
    with pytest.raises(InputError, match="a StandardScaler with these parameters does not take sparse rows"):
        Blockwise(StandardScaler()).fit(sp.csr_array(X))
    bad = X.copy()
    bad[7, 1] = np.nan
    with pytest.raises(InputError, match="row 7 of the block, column 1 is NaN"):
        Blockwise(Normalizer()).fit(X).transform(da.from_array(bad, chunks=(50, 4))).compute(scheduler="sync")


# ---- what travels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transformer", [RBFSampler(n_components=500, random_state=0), PowerTransformer()], ids=repr
)
def test_travels_once(transformer):
    dX = da.from_array(X, chunks=(10, 4))
    est = Blockwise(transformer).fit(dX)
    assert len(pickle.dumps(est.map_.without_arrays())) < 1024
    graph = dict(est.transform(dX).__dask_graph__())
    assert sum(str(k).startswith(ARRAYS_PREFIX) for k in graph) == 1


def test_csr_blocks_stay_sparse():
    rows = sp.csr_array(X * (X > 1))
    est = Blockwise(AdditiveChi2Sampler()).fit(rows)
    Z = est.transform(rows)
    assert sp.issparse(Z)
    np.testing.assert_allclose(Z.toarray(), est.transform(rows.toarray()), atol=1e-14)
    lazy = est.transform(da.from_array(rows.toarray(), chunks=(100, 4)).map_blocks(sp.csr_array))
    assert sp.issparse(lazy.blocks[1].compute(scheduler="sync"))
    assert sp.issparse(lazy._meta)  # by which stores know what to write


def test_in_a_pipeline(client, tmp_path):
    y = np.sqrt(X).sum(axis=1)
    model = make_pipeline(Blockwise(AdditiveChi2Sampler()), StreamingRidge(1e-6))
    dX, dy = da.from_array(X, chunks=(70, 4)), da.from_array(y, chunks=70)
    predicted = model.fit(dX, dy).predict(dX).compute()
    assert np.mean((predicted - y) ** 2) < 0.01 * y.var()
    save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))


@parametrize_with_checks(
    [
        Blockwise(StandardScaler(), random_state=0),
        Blockwise(Normalizer()),
        Blockwise(AdditiveChi2Sampler()),
        Blockwise(PolynomialFeatures(2)),
        Blockwise(RBFSampler(n_components=5, random_state=0)),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
