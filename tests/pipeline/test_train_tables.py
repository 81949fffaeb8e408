"""From a table to a model and back: train, predict and evaluate on files and frames of mixed columns."""

from __future__ import annotations

import os
import warnings

import dask.array as da
import numpy as np
import pytest
from sklearn.inspection import permutation_importance
from threadpoolctl import threadpool_info, threadpool_limits

import distrf
from distrf import StreamingRidge, load_model, make_model
from distrf.errors import InputError
from distrf.pipeline.judge import ridge
from distrf.tables.kinds import ColumnWarning

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
dd = pytest.importorskip("dask.dataframe")

N = 1500
#: Of the id of the customers, which is left out: tests/tables/test_kinds.py looks at that.
pytestmark = pytest.mark.filterwarnings("ignore:left out. 'customer_id':distrf.tables.kinds.ColumnWarning")


def frame(n=N, seed=0):
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(
        {
            "customer_id": np.arange(n),
            "age": rng.normal(40, 10, n),
            "plan": rng.choice(["basic", "plus", "pro"], n),
            "zip": [f"{code:05d}" for code in rng.integers(0, 200, n)],
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), "D"),
            "loyal": rng.random(n) < 0.5,
        }
    )
    score = (
        (made["age"] - 40) / 10 * (made["plan"] == "basic") + np.sin(made["zip"].astype(int)) + made["loyal"]
    )
    made["churned"] = np.where(score + rng.normal(0, 0.5, n) > 1, "yes", "no")
    made.loc[::9, "age"] = None
    made.loc[::11, "plan"] = None
    return made


@pytest.fixture(scope="module")
def model():
    return distrf.train(frame(), target="churned", n_components=256)


def test_train_takes_a_frame_as_it_is(model):
    assert [name for name, _ in model.steps] == ["table", "map", "model"]
    kinds = {column["name"]: column["kind"] for column in model[0].columns_}
    assert kinds == {
        "customer_id": "id", "age": "number", "plan": "category", "zip": "category", "since": "date", "loyal": "category",
    }  # fmt: skip
    test = frame(seed=1)
    scores = distrf.evaluate(model, test, test["churned"].to_numpy(str))
    assert scores["roc_auc"] > 0.85  # rows are told apart, on rows that were not seen
    assert any(choice.what == "numbers" for choice in model.training_.choices)
    reasons = {column["name"]: column["why"] for column in model[0].columns_}
    assert reasons["customer_id"].startswith("whole numbers, all distinct in 1,500 rows looked at")
    assert reasons["plan"].startswith("text, 3 levels in ")
    assert reasons["loyal"] == "booleans"
    told = distrf.train(
        frame(300), target="churned", n_components=16, kinds={"zip": "category", "since": "drop"}
    )
    assert [column["name"] for column in told[0].columns_ if column["why"] == "as said"] == ["zip"]


@pytest.mark.parametrize("kind", ["pandas", "dask", "arrow"])
def test_a_frame_is_scored_by_the_names_of_its_columns(model, kind):
    test = frame(600, seed=1).assign(where=lambda rows: np.where(rows.index % 3 == 0, "north", "south"))
    if kind != "dask":
        test.loc[::7, "where"] = None
    expected = distrf.evaluate(model, test.drop(columns="churned"), test["churned"].to_numpy(str))
    if kind == "arrow":
        rows = pa.Table.from_pandas(test)
    else:
        rows = test if kind == "pandas" else dd.from_pandas(test, npartitions=3)
    found = distrf.evaluate(model, rows, target="churned")
    assert found["accuracy"] == expected["accuracy"]
    opened = distrf.open_table(rows, target="churned", exclude=["where"])
    assert distrf.evaluate(model, opened)["accuracy"] == expected["accuracy"]


def test_targets_that_are_named_and_given(tmp_path):
    rows = frame(100).drop(columns="churned").assign(t=np.arange(100.0))
    rows.to_parquet(tmp_path / "a.parquet")
    distrf.write_rows(rows[["t"]].to_numpy(), tmp_path / "a.zarr", rows.t.to_numpy())
    places = [rows, tmp_path / "a.parquet", distrf.open_table(rows, target="t"), tmp_path / "a.zarr"]
    for place, target in zip(places, ("t", "t", None, "y"), strict=True):
        with pytest.raises(InputError, match=f"the target is '{target or 't'}', and y is given too"):
            distrf.train(place, rows.t.to_numpy(), target=target)
    for place in places[:2]:
        with pytest.raises(InputError, match="a column of a table is named by target='t'"):
            distrf.train(place, "t")


def test_scikit_learn_permutes_the_columns_of_a_table(model):
    """A category moves with all its encoding; a column that the encoder leaves out does nothing."""
    test = frame(400, seed=1)
    rows, y = test.drop(columns="churned"), test["churned"].to_numpy(str)
    found = permutation_importance(model, rows, y, scoring="neg_log_loss", n_repeats=1, random_state=0)
    lost = dict(zip(rows.columns, found.importances_mean, strict=True))
    assert lost["customer_id"] == 0 < 0.02 < min(lost["plan"], lost["zip"])


@pytest.mark.filterwarnings("ignore::distrf.pipeline.training.BaselineWarning")
def test_targets_of_rows_that_no_path_names(model):
    test = frame(100, seed=1)
    for options, message in (
        ({"target": "gone"}, "gone"),
        ({"target": "churned", "y": test["churned"]}, "give one of them"),
        ({"sample_weight": "gone"}, "'gone' is no column of the table; columns: .'customer_id'"),
        ({"X": test.drop(columns="churned")}, "churned"),
    ):
        with pytest.raises(InputError, match=message):
            distrf.evaluate(model, **{"X": test} | options)
    assert distrf.evaluate(model, test) == distrf.evaluate(model, test, target="churned")
    unnamed = distrf.train(test.drop(columns="churned"), test["churned"].to_numpy(str), n_components=16)
    assert unnamed.training_.target is None
    with pytest.raises(InputError, match="needs a target: give y, or target= where X is a table"):
        distrf.evaluate(unnamed, test)
    X = np.arange(20.0).reshape(10, 2)
    with pytest.raises(InputError, match="target='y' names a column of a table"):
        distrf.evaluate(StreamingRidge().fit(X, X[:, 0]), X, target="y")


LABELS = {
    "y": ("float64", None), "t": ("object", ["no", "yes"]), "b": ("boolean", [False, True]),
}  # fmt: skip


@pytest.mark.parametrize("target", LABELS)
def test_rows_without_a_target_are_dropped_where_that_is_asked_for(tmp_path, target):
    """From every source the rows that have one, their weights, and labels of their own type."""
    dtype, classes = LABELS[target]
    made = frame(300)[["age", "plan"]].assign(w=np.arange(300.0))
    high = made.age > 40
    value = {"y": made.w, "t": np.where(high, "yes", "no"), "b": high}[target]
    missing = np.where(np.arange(300) % 10 > 0, None, "" if target == "t" else None)
    made[target] = pd.Series(value, dtype=object).where(np.arange(300) % 5 > 0, missing).astype(dtype)
    made.to_parquet(tmp_path / "a.parquet", row_group_size=50)
    made.to_csv(tmp_path / "a.csv", index=False)
    options = {"target": target, "kinds": {"w": "drop"}, "map": None, "random_state": 0}
    with pytest.raises(InputError, match=r"drop the rows that have no target .*drop_missing_target=True"):
        distrf.train(tmp_path / "a.parquet", **options)
    found = []
    for source in (made, tmp_path / "a.parquet", tmp_path / "a.csv", dd.from_pandas(made, npartitions=3)):
        with pytest.warns(ColumnWarning, match="60 of 300 rows have no target, and are left out"):
            model = distrf.train(source, drop_missing_target=True, **options)
        found.append(model.predict(made))
        if classes:
            assert (model.classes_.tolist(), type(model.classes_.tolist()[0])) == (classes, type(classes[0]))
    for other in found[1:]:
        np.testing.assert_allclose(
            other, found[0], rtol=1e-5
        ) if target == "y" else np.testing.assert_array_equal(other, found[0])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_columns_beside_rows_that_are_dropped_are_dropped_with_them(tmp_path):
    """Named weights; values that are given are those of the rows that are left."""
    table = frame(300)[["age", "plan"]].assign(y=np.arange(300.0), w=np.arange(300.0) % 7)
    table.loc[::5, "y"] = np.nan
    left, options = table[table.y.notna()], {"target": "y", "map": None, "sample_weight": "w"}
    model = distrf.train(table, drop_missing_target=True, **options)
    np.testing.assert_array_equal(model[-1].coef_, distrf.train(left, **options)[-1].coef_)
    wanted = distrf.evaluate(model, left, sample_weight=left.w)
    table.to_parquet(tmp_path / "a.parquet")
    for rows in (table, pa.Table.from_pandas(table), tmp_path / "a.parquet"):
        found = distrf.evaluate(model, rows, sample_weight="w")
        assert found["r2"] == pytest.approx(wanted["r2"])
        assert found["rows"] == wanted["rows"] == 240
    assert distrf.evaluate(model, table, sample_weight=left.w)["r2"] == pytest.approx(wanted["r2"])
    with pytest.raises(InputError, match="got 300 and 240"):
        distrf.evaluate(model, table, sample_weight=table.w)
    lazy = dd.from_pandas(table, npartitions=2)
    assert distrf.evaluate(model, lazy, sample_weight="w")["r2"] == pytest.approx(wanted["r2"])
    distrf.featurize(model, left, tmp_path / "features.zarr", target="y")
    np.testing.assert_array_equal(distrf.open_rows(tmp_path / "features.zarr")[1].compute(), left.y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "nothing"}, "nothing"),
        ({"target": "churned", "kinds": {"nothing": "drop"}}, "nothing"),
        ({"target": "churned", "kinds": {"plan": "number"}}, "column 'plan' are not; .* leave its kind out"),
        ({"target": "churned", "kinds": {"age": "ordinal"}}, "the kind of 'age' must be 'category', "),
        ({"target": "churned", "kinds": ["age"]}, "kinds has what columns are"),
        ({"target": "churned", "sample_weight": "w"}, r"columns \['w'\] are not in"),
    ],
)
def test_refused(options, words):
    with pytest.raises(InputError, match=words):
        distrf.train(frame(100), **options)


def test_choices_are_made_with_one_thread_of_blas(monkeypatch):
    """Several that wait for each other take many times as long, and add in an order that depends on the cores."""
    seen = []

    def looking(*args):
        seen.extend(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")
        return ridge(*args)

    monkeypatch.setattr("distrf.pipeline.race.ridge", looking)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    with threadpool_limits(2, user_api="blas"):
        make_model(X, np.sin(X[:, 0]), random_state=0)
        after = [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]
    assert seen
    assert set(seen) == {1}
    assert set(after) == {min(2, os.cpu_count())}


@pytest.mark.parametrize("kind", ["parquet", "csv", "frame"])
def test_text_of_whole_numbers_is_numbers(tmp_path, kind):
    """With a bad cell that no sample shows, and a row without a target, which `evaluate` leaves out as `train` did.

    The name of the column is a word of the warning about such cells.
    """
    rng = np.random.default_rng(0)
    numbers = rng.integers(1000, 9000, 6000)
    rows = pd.DataFrame({"missing": numbers.astype(str), "y": numbers + rng.normal(size=6000)})
    rows.loc[4100, "missing"], rows.loc[5, "y"] = "unknown", np.nan
    source = rows if kind == "frame" else str(tmp_path / f"a.{kind}")
    if kind != "frame":
        getattr(rows, f"to_{kind}")(source, index=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = distrf.train(
            source, target="y", map=None, model=StreamingRidge(), drop_missing_target=True, out=tmp_path / "m"
        )
    texts = [str(warning.message) for warning in caught if "'missing'" in str(warning.message)]
    assert "column 'missing' has what is infinite, or no number (1)" in texts.pop()
    assert texts == []  # numbers that repeat are codes: numbers and levels, of which no other word is due
    for trained in (made, load_model(tmp_path / "m")):
        with pytest.warns(ColumnWarning, match="1 of 6,000 rows have no target"):
            scores = distrf.evaluate(trained, source)
        assert (scores["rows"], scores["r2"] > 0.98) == (5999, True)
    assert len(distrf.predict(made, source)) == 6000


@pytest.mark.slow
def test_levels_that_the_sample_lacks_leave_a_learned_metric(rng):
    """It is learned anew in the encoded columns of all rows, which are others than those of the sample."""
    X = rng.normal(size=(9000, 5))
    table = pd.DataFrame(X, columns=list("abcde"))
    table["kind"] = np.where(
        rng.random(9000) < 0.05, np.char.add("kind ", rng.integers(0, 150, 9000).astype(str)), "usual"
    )
    y = np.sin(2 * X[:, 0] * X[:, 1])
    model = distrf.train(table, y, n_components=512)
    assert model.training_.chosen("metric") in ("diagonal, learned", "full, learned")
    assert model.training_.chosen("length_scale") is None  # the metric takes one of its own
    assert model.score(table, y) > 0.8
    shares = model.named_steps["map"].base_.columns_
    assert shares.sum() == pytest.approx(1)


def test_arrays_with_missing_values_are_columns(rng, tmp_path):
    """In memory, lazy and in a store alike; a scaling that is asked for refuses them."""
    X = rng.normal(size=(400, 3))
    y = X @ [1.0, -2.0, 0.5]
    X[::9, 1] = np.nan
    np.savez(tmp_path / "a.npz", X=X, y=y)
    distrf.ingest(tmp_path / "a.npz", tmp_path / "a.zarr", block_rows=100)
    lazy = da.from_array(X, chunks=(150, 3)), da.from_array(y, chunks=150)
    models = [distrf.train(*rows, n_components=32) for rows in ((X, y), lazy, (tmp_path / "a.zarr",))]
    for model, rows in zip(models, (X, lazy[0], tmp_path / "a.zarr"), strict=True):
        assert [column["missing"] > 0 for column in model[0].columns_] == [False, True, False]
        np.testing.assert_allclose(np.asarray(distrf.predict(model, rows)), models[0].predict(X), rtol=1e-6)
    with pytest.raises(InputError, match="X must be finite, but row 0, column 1 is nan"):
        distrf.train(X, y, scale="standard")


@pytest.mark.filterwarnings("ignore:no candidate beats:distrf.pipeline.training.BaselineWarning")
@pytest.mark.parametrize(
    "given", [{}, {"set": {"model__keep_state": True}}, {"split": "stratified"}], ids=lambda x: str([*x])
)
def test_copies_tell_no_target_by_the_means_of_levels(given, rng):
    """Records of pure noise, three times each: no level tells the target of a copy, on the sample or in the fit."""
    frame = pd.DataFrame({"k": np.arange(900) * 7 + 3, "x": rng.normal(size=900)})
    y = rng.normal(size=900) if "split" not in given else np.where(rng.random(900) < 0.5, "a", "b")
    order = rng.permutation(2700) % 900
    model = distrf.train(frame.iloc[order], y[order], kinds={"k": "code"}, **given)
    compared = model.training_.baseline[0]
    assert abs(compared.chosen - compared.constant) < 0.1
    assert "means" not in model[0].columns_[0]["encoding"]
