"""Blockwise on data frames: of pandas, and of Dask, whose partitions stay data frames inside the task."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder

from distrf import Blockwise, RandomFourierFeatures, StreamingRidge, predict, save_model
from distrf.errors import InputError

dd = pytest.importorskip("dask.dataframe", reason="needs dask[dataframe]")

N = 400
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "size": RNG.normal(size=N),
        "age": np.where(RNG.uniform(size=N) < 0.1, np.nan, RNG.normal(size=N)).astype(np.float32),
        "colour": RNG.choice(["red", "green", "blue"], size=N),
        "kind": pd.Categorical(RNG.choice(["a", "b"], size=N)),
        "text": pd.Series(RNG.choice(["x", "y", None], size=N), dtype="str"),
        "count": RNG.integers(0, 5, size=N),
    }
)
Y = FRAME["size"] ** 2 + (FRAME["colour"] == "red")


def columns():
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["size", "age"]),
            ("words", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["colour", "kind", "text"]),
            ("rest", "passthrough", ["count"]),
        ]
    )


def lazy(frame=FRAME, partitions=5):
    return dd.from_pandas(frame, npartitions=partitions, sort=False)


def dense(Z):
    return Z.toarray() if sp.issparse(Z) else Z


@pytest.mark.parametrize(
    "transformer",
    [
        columns(),
        make_column_transformer((OneHotEncoder(), ["colour"]), ("drop", ["size"])),
        make_pipeline(columns(), StandardScaler()),
        make_column_transformer((TargetEncoder(), ["colour"]), (SimpleImputer(), make_column_selector("age"))),
        make_column_transformer((OrdinalEncoder(), ["kind"])).set_output(transform="pandas"),
    ],
    ids=["columns", "csr", "pipeline", "target", "pandas-out"],
)
def test_same_as_scikit_learn(transformer):
    theirs = clone(transformer).fit(FRAME, Y).transform(FRAME)
    est = Blockwise(transformer).fit(FRAME, Y)
    ours = est.transform(FRAME)
    assert sp.issparse(ours) == sp.issparse(theirs)
    np.testing.assert_array_equal(dense(ours), dense(np.asarray(theirs) if hasattr(theirs, "iloc") else theirs))
    assert list(est.feature_names_in_) == list(FRAME.columns)
    Z = est.transform(lazy())
    assert isinstance(Z, da.Array)
    assert Z.dtype == ours.dtype
    assert Z.chunks == ((80,) * 5, (ours.shape[1],))
    assert sp.issparse(Z._meta) == sp.issparse(ours)
    np.testing.assert_array_equal(dense(Z.compute(scheduler="sync")), dense(ours))


def test_fits_on_the_same_sample():
    """The seeded rows are those of the frame, however it is partitioned."""
    est = Blockwise(columns(), n_sample=50, random_state=3)
    expected = clone(est).fit(FRAME).transform(FRAME)
    for partitions in (1, 3, 7):
        other = clone(est).fit(lazy(partitions=partitions))
        np.testing.assert_array_equal(other.transform(FRAME), expected)
    assert other.transformer_.named_transformers_["numbers"][1].n_samples_seen_ == 50


def pipeline():
    return make_pipeline(
        Blockwise(columns(), random_state=0),
        RandomFourierFeatures(n_components=64, length_scale=1.5, random_state=0),
        StreamingRidge(1e-3),
    )


def test_plain_steps_of_a_saved_model_run_on_lazy_frames(tmp_path):
    model = make_pipeline(
        columns(), RandomFourierFeatures(n_components=32, random_state=0), StreamingRidge(1e-3)
    )
    model.fit(FRAME, Y)
    save_model(model, tmp_path / "m")
    predicted = predict(tmp_path / "m", lazy())
    assert predicted.chunks == ((80,) * 5,)
    np.testing.assert_allclose(predicted.compute(scheduler="sync"), model.predict(FRAME), rtol=1e-9)
    np.testing.assert_array_equal(predict(tmp_path / "m", FRAME), model.predict(FRAME))
    turned = FRAME[FRAME.columns[::-1]].assign(more=1)
    np.testing.assert_array_equal(predict(tmp_path / "m", turned), model.predict(FRAME))


def test_missing_values_reach_an_imputer():
    rows = FRAME[["size", "age"]].to_numpy()
    est = Blockwise(make_pipeline(SimpleImputer(), StandardScaler()))
    lazy_rows = da.from_array(rows, chunks=(90, 2))
    np.testing.assert_allclose(
        est.fit(lazy_rows).transform(lazy_rows).compute(scheduler="sync"),
        make_pipeline(SimpleImputer(), StandardScaler()).fit_transform(rows),
        atol=1e-12,
    )
    scaled = Blockwise(StandardScaler()).fit(rows).transform(rows)  # as scikit-learn, missing stays missing
    np.testing.assert_array_equal(np.isnan(scaled), np.isnan(rows))
    with pytest.raises(InputError, match="NaN"):
        StreamingRidge().fit(scaled, Y)
    with pytest.raises(InputError, match="infinity"):
        est.fit(np.where(np.isnan(rows), np.inf, rows))


def test_refusals():
    est = Blockwise(columns()).fit(lazy())
    with pytest.raises(InputError, match="fitted to data frames with the columns size, got columns wide, age"):
        est.transform(FRAME.rename(columns={"size": "wide"}))
    with pytest.raises(InputError, match=r"fitted to data frames with the columns size, .*got ndarray"):
        est.transform(np.zeros((3, 6)))
    with pytest.raises(InputError, match=r"takes data frames with the columns size, .*got a Dask array"):
        est.transform(da.zeros((3, 6)))
    with pytest.raises(
        InputError, match="must be numeric, but columns colour, kind, text are not: encode them"
    ):
        StreamingRidge().fit(lazy(), Y)
    with pytest.raises(InputError, match="names that are text"):
        Blockwise(columns()).fit(FRAME.set_axis(range(6), axis=1))
    with pytest.raises(InputError, match="y must have as many rows as X, got 3 and 400"):
        Blockwise(make_column_transformer((TargetEncoder(), ["colour"]))).fit(lazy(), Y[:3])
