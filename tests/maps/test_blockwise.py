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

from distrf import Blockwise, load_model, save_model
from distrf.errors import InputError, SpecMismatchError, StoreError
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
