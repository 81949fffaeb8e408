"""Blockwise: scikit-learn transformers over blocks; what travels, what is saved, what is refused."""

from __future__ import annotations

import json

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from contracts import EPS, MapContract
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, MaxAbsScaler, Normalizer, StandardScaler

from distrf import TEFM, Blockwise, load_model, save_model
from distrf.errors import InputError, SpecMismatchError, StoreError
from distrf.maps import BlockwiseMap, map_from_spec
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
        self.sparse = not isinstance(map_.transformer, Shifted)
        self.takes_missing = takes_missing(map_.transformer)

    def explicit(self, map_, X):
        return map_.transformer.transform(X)

    def tolerance(self, map_, X, dtype):
        return 8 * EPS[dtype] * (abs(X) + 1) * (1 + abs(self.explicit(map_, np.eye(X.shape[1]))).max())

    def test_spec_round_trip(self, map_):
        """A spec tells transformers apart, but does not hold them."""
        if isinstance(map_.transformer, Shifted):
            with pytest.raises(InputError, match=r"Shifted.* cannot be saved without running its code on load"):
                map_.spec()
            return
        with pytest.raises(SpecMismatchError, match="does not hold it"):
            map_from_spec(map_.spec(), {})

    test_spec_with_a_missing_entry = test_spec_of_other_arrays = None


class TestStateless(TestLearned):
    transformers = (Normalizer(), Binarizer(threshold=0.3), Normalizer("l1"))

    def tolerance(self, map_, X, dtype):
        return 2 * EPS[dtype] * (X.shape[1] + 4) * np.ones_like(X)


# ---- against scikit-learn ---------------------------------------------------------------------------


def test_subclass_is_not_its_parent(tmp_path):
    class StandardScaler(Shifted):
        pass

    with pytest.raises(InputError, match=r"cannot be pickled|cannot be saved"):
        save_model(Blockwise(StandardScaler()).fit(X), tmp_path / "model")


def test_files_do_not_run_code(tmp_path):
    """A model folder has no pickle, and a class off the list is refused."""
    est = Blockwise(SCALERS).fit(X)
    save_model(est, tmp_path / "model")
    from distrf.persistence import _CODEC
    from distrf.store import read_spec

    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(X), est.transform(X))
    assert again.map_ == est.map_
    spec = read_spec(tmp_path / "model")["model"]
    assert "pickle" not in json.dumps(spec)
    for part, name in (("parameters", "transformer"), ("fitted", "transformer_")):
        bad = json.loads(json.dumps(spec))
        bad[part][name]["$sklearn"] = "Ridge"
        with pytest.raises((SpecMismatchError, StoreError), match="'Ridge'; this release loads"):
            _CODEC.decode(bad, {})


def test_a_map_over_a_transformer_is_not_saved(tmp_path):
    model = TEFM(Blockwise(StandardScaler()), n_components=2, random_state=0).fit(X)
    with pytest.raises(InputError, match=r"map_ is a map over a Blockwise.* make Blockwise a step of its own"):
        save_model(model, tmp_path / "model")


# ---- fitting ----------------------------------------------------------------------------------------


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
