"""From a table to a model and back: train, predict and evaluate on files and frames of mixed columns."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_info, threadpool_limits

import distrf
from distrf import StreamingRidge, TableEncoder, load_model, make_model, save_model
from distrf.errors import InputError, StoreError
from distrf.pipeline.judge import ridge
from distrf.tables.drift import DriftWarning
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


def test_a_bad_cell_in_a_column_of_numbers_is_said(cli, tmp_path):
    rng = np.random.default_rng(0)
    weights = [*map(str, rng.normal(size=400))]
    weights[7] = "12kg"
    made = pd.DataFrame({"weight": weights, "x": rng.normal(size=400), "y": rng.normal(size=400)})
    path, out = tmp_path / "a.csv", tmp_path / "m"
    made.to_csv(path, index=False)
    words = "'weight' is text that reads as numbers, but not '12kg' .row 8 of .*such texts count as missing"
    with pytest.warns(ColumnWarning, match=words):
        TableEncoder(random_state=0).fit(path)
    with pytest.warns(ColumnWarning, match="not '12kg': such"):
        TableEncoder(random_state=0).fit(made)
    said = cli("train", path, out, "--target", "y", "--map", "none", "--cluster", "none", "--quiet")
    assert "row 8 of" in said.err
    assert "missing; say categorical=['weight'] for levels" in said.err
    found = json.loads(
        cli("train", path, out, "--target", "y", "--map", "none", "--cluster", "none", "--overwrite", "--json",
            "--kind", "weight=drop").out
    )  # fmt: skip
    assert not any("weight" in text for text in found.get("warnings", ()))


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


def test_columns_say_why_they_were_taken_for_what_they_are(model):
    reasons = {column["name"]: column["why"] for column in model[0].columns_}
    assert reasons["customer_id"].startswith("whole numbers, all distinct in 1,500 rows looked at")
    assert reasons["plan"].startswith("text, 3 levels in ")
    assert reasons["loyal"] == "booleans"
    assert "as said" not in reasons.values()
    table = frame(300)
    told = distrf.train(table, target="churned", n_components=16, categorical=["zip"], exclude=["since"])
    assert [column["name"] for column in told[0].columns_ if column["why"] == "as said"] == ["zip"]


@pytest.mark.parametrize("kind", ["pandas", "dask", "arrow"])
def test_a_frame_is_scored_by_the_names_of_its_columns(model, kind):
    test = frame(600, seed=1).assign(where=lambda rows: np.where(rows.index % 3 == 0, "north", "south"))
    if kind != "dask":
        test.loc[::7, "where"] = None
    expected = distrf.evaluate(
        model, test.drop(columns="churned"), test["churned"].to_numpy(str), by=test["where"].to_numpy(object)
    )
    if kind == "arrow":
        rows = pa.Table.from_pandas(test)
    else:
        rows = test if kind == "pandas" else dd.from_pandas(test, npartitions=3)
    found = distrf.evaluate(model, rows, target="churned", by="where")
    assert found["by"] == "where"
    assert {s["value"]: s["rows"] for s in found["slices"]} == {
        s["value"]: s["rows"] for s in expected["slices"]
    }
    assert found["accuracy"] == expected["accuracy"]
    named = distrf.permutation_importance(model, rows, target="churned", n_repeats=1)
    given = distrf.permutation_importance(model, test, test["churned"].to_numpy(str), n_repeats=1)
    assert named.names == given.names
    np.testing.assert_array_equal(named.importances, given.importances)
    opened = distrf.open_table(rows, target="churned", exclude=["where"])
    assert distrf.evaluate(model, opened)["accuracy"] == expected["accuracy"]


@pytest.mark.filterwarnings("ignore::distrf.pipeline.training.BaselineWarning")
def test_targets_of_rows_that_no_path_names(model):
    test = frame(100, seed=1)
    cases = [
        ({"target": "gone"}, "gone"),
        ({"target": "churned", "y": test["churned"]}, "give one of them"),
        ({"target": "churned", "by": "gone"}, "by='gone' is no column of the table; columns: .'customer_id'"),
    ]
    for options, message in cases:
        with pytest.raises(InputError, match=message):
            distrf.evaluate(model, test, **options)
    assert distrf.evaluate(model, test) == distrf.evaluate(model, test, target="churned")
    with pytest.raises(InputError, match="churned"):
        distrf.evaluate(model, test.drop(columns="churned"))
    unnamed = distrf.train(test.drop(columns="churned"), test["churned"].to_numpy(str), n_components=16)
    with pytest.raises(InputError, match="needs a target: give y, or target= where X is a table"):
        distrf.evaluate(unnamed, test)
    X = np.arange(20.0).reshape(10, 2)
    plain = StreamingRidge().fit(X, X[:, 0])
    with pytest.raises(InputError, match="trained on arrays; give y"):
        distrf.evaluate(plain, X, target="y")


def test_the_same_rows_from_every_source(model, tmp_path):
    rows = frame(400, seed=2).drop(columns="churned")
    expected = model.predict(rows)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "parts").mkdir()
    for part in range(3):
        rows[part * 150 : (part + 1) * 150].to_parquet(tmp_path / "parts" / f"{part}.parquet", index=False)
    for source in (tmp_path / "parts", tmp_path / "rows.csv"):
        predicted = distrf.predict(model, str(source))
        np.testing.assert_array_equal(np.asarray(predicted), expected)
    moved = rows[rows.columns[::-1]].assign(new=1.0)
    np.testing.assert_array_equal(model.predict(moved), expected)
    dd = pytest.importorskip("dask.dataframe")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of dask.dataframe itself
        lazy = dd.from_pandas(rows, npartitions=4)
        np.testing.assert_array_equal(np.asarray(model.predict(lazy)), expected)


def test_saved_and_loaded(model, tmp_path):
    save_model(model, tmp_path / "model")
    rows = frame(300, seed=3)
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(rows), model.predict(rows))


def test_a_model_knows_the_target_of_its_table(model, tmp_path):
    """In memory, and from a folder that was written in Python."""
    frame(300, seed=4).to_parquet(tmp_path / "new.parquet")
    said = distrf.evaluate(model, tmp_path / "new.parquet", target="churned")
    save_model(model, tmp_path / "model")
    for given in (model, tmp_path / "model", load_model(tmp_path / "model")):
        assert distrf.evaluate(given, tmp_path / "new.parquet") == said
    test = frame(300, seed=4)
    in_memory = distrf.train(test, test["churned"].to_numpy(str), n_components=32, exclude=["churned"])
    assert in_memory.training_.target is None


def test_a_model_by_hand(tmp_path):
    """The encoder in a pipeline of one's own, on the rows of a file."""
    from sklearn.pipeline import make_pipeline

    table = frame()
    table.to_parquet(tmp_path / "rows.parquet", index=False)
    opened = distrf.open_table(str(tmp_path / "rows.parquet"), target="age", exclude=["churned"])
    present = ~np.isnan(table["age"].to_numpy())
    pipeline = make_pipeline(TableEncoder(random_state=0), StreamingRidge())
    pipeline.fit(table[present].drop(columns=["age", "churned"]), table["age"].to_numpy()[present])
    assert pipeline.predict(opened).shape == (N,)


def test_drift_is_said(model, tmp_path):
    other = frame(300, seed=4).drop(columns="churned").assign(plan="team", loyal=None)
    other.to_parquet(tmp_path / "rows.parquet", index=False)
    with pytest.warns(DriftWarning, match="'plan' has a level that was never seen.*'loyal' is missing"):
        distrf.predict(model, str(tmp_path / "rows.parquet"), str(tmp_path / "out.parquet"))
    for rows in (str(tmp_path / "rows.parquet"), other):
        with pytest.warns(DriftWarning, match="'plan' has a level that was never seen"):
            distrf.predict(model, rows)
    with pytest.raises(InputError, match="'plan' is missing"):
        model.predict(other.rename(columns={"plan": "Plan"}))


LABELS = {
    "y": ("float64", None), "t": ("object", ["no", "yes"]), "i": ("Int64", [0, 1]), "b": ("boolean", [False, True]),
}  # fmt: skip


@pytest.mark.parametrize("target", LABELS)
def test_rows_without_a_target_are_dropped_where_that_is_asked_for(cli, tmp_path, target):
    """From every source the rows that have one, their weights, and labels of their own type."""
    dtype, classes = LABELS[target]
    made = frame(300)[["age", "plan"]].assign(w=np.arange(300.0))
    high = made.age > 40
    value = {"y": made.w, "t": np.where(high, "yes", "no"), "i": high.astype(int), "b": high}[target]
    missing = np.where(np.arange(300) % 10 > 0, None, "" if target == "t" else None)
    made[target] = pd.Series(value, dtype=object).where(np.arange(300) % 5 > 0, missing).astype(dtype)
    made.to_parquet(tmp_path / "a.parquet", row_group_size=50)
    made.to_csv(tmp_path / "a.csv", index=False)
    options = {"target": target, "exclude": ["w"], "map": None, "random_state": 0}
    with pytest.raises(InputError, match=r"drop the rows that have no target .*drop_missing_target=True"):
        distrf.train(tmp_path / "a.parquet", **options)
    found = []
    for source in (made, tmp_path / "a.parquet", tmp_path / "a.csv", dd.from_pandas(made, npartitions=3)):
        with pytest.warns(ColumnWarning, match="60 of 300 rows have no target, and are left out") as caught:
            model = distrf.train(source, drop_missing_target=True, **options)
        words = any("words such as NA are none: keep_default_na=False" in str(one.message) for one in caught)
        assert words == (isinstance(source, Path) and source.suffix == ".csv" and target == "t")
        found.append(model.predict(made))
        if classes:
            assert (model.classes_.tolist(), type(model.classes_.tolist()[0])) == (classes, type(classes[0]))
    for other in found[1:]:
        np.testing.assert_allclose(
            other, found[0], rtol=1e-5
        ) if target == "y" else np.testing.assert_array_equal(other, found[0])
    said = cli("train", tmp_path / "a.parquet", tmp_path / "m", "--target", target, "--weight", "w", "--map", "none",
               "--drop-missing-target", "--quiet", "--cluster", "none")  # fmt: skip
    assert "60 of 300 rows have no target" in said.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "nothing"}, "nothing"),
        ({"target": "churned", "exclude": ["nothing"]}, "nothing"),
        ({"target": "churned", "numeric": ["plan"]}, "column 'plan' are not; .* numeric="),
        ({"target": "churned", "categorical": ["age"], "numeric": ["age"]}, "category and number"),
    ],
)
def test_refused(options, words):
    with pytest.raises(InputError, match=words):
        distrf.train(frame(100), **options)


def test_columns_of_arrays_have_no_names():
    with pytest.raises(InputError, match="exclude name columns of a table"):
        distrf.train(np.zeros((10, 2)), np.zeros(10), exclude=["a"])


def test_maps_of_nonnegative_rows_take_the_columns_as_they_are():
    rng = np.random.default_rng(0)
    counts = pd.DataFrame(rng.poisson(3, size=(300, 4)).astype(float), columns=list("abcd"))
    y = counts["a"] / (1 + counts["b"])
    fitted = distrf.train(counts, y, map="laplace", n_components=64)
    assert "table" not in fitted.named_steps
    assert fitted.predict(counts).shape == (300,)


@pytest.mark.slow
def test_on_the_command_line(cli, tmp_path):
    rows, new, model, out = (
        str(tmp_path / name) for name in ("rows.parquet", "new.csv", "model", "out.parquet")
    )
    frame().to_parquet(rows, index=False)
    frame(300, seed=5).to_csv(new, index=False)  # zip codes keep their zeros: the model says that they are text
    said = json.loads(
        cli("train", rows, model, "--target", "churned", "--kind", "since=drop", "-D", "128", "--json").out
    )
    assert [column["kind"] for column in said["columns"]] == [
        "id",
        "number",
        "category",
        "category",
        "category",
    ]
    scores = json.loads(cli("evaluate", model, new, "--json").out)
    assert scores["roc_auc"] > 0.75
    cli("predict", model, new, out, "--keys", "customer_id")
    written = pd.read_parquet(out)
    assert written.columns.tolist() == ["customer_id", "prediction", "p_no", "p_yes"]
    np.testing.assert_array_equal(written["prediction"], load_model(model).predict(frame(300, seed=5)))


@pytest.mark.slow
def test_a_target_of_another_name_and_a_model_of_a_command(cli, tmp_path):
    """The command line and Python know the same of a model, whichever trained it."""
    rows = frame(400, seed=5)
    rows.to_parquet(tmp_path / "rows.parquet")
    rows.rename(columns={"churned": "left"}).to_parquet(tmp_path / "renamed.parquet")
    words = ("--target", "churned", "-D", 32, "--quiet")
    cli("train", tmp_path / "rows.parquet", tmp_path / "m", *words)
    said, renamed = (
        json.loads(cli("evaluate", tmp_path / "m", tmp_path / place, *more, "--json").out)
        for place, *more in (("rows.parquet",), ("renamed.parquet", "--target", "left"))
    )
    assert said["accuracy"] == renamed["accuracy"]
    loaded = load_model(tmp_path / "m")
    assert loaded.training_.target == "churned"
    assert distrf.evaluate(loaded, tmp_path / "rows.parquet")["accuracy"] == said["accuracy"]
    found = distrf.permutation_importance(loaded, tmp_path / "rows.parquet", columns=["age"], n_repeats=2)
    assert list(found.names) == ["age"]


def test_what_users_try_first():
    with pytest.raises(InputError, match=r"got 'churned'; .* is named by target='churned'"):
        distrf.train(frame(50), "churned")
    with pytest.raises(TypeError, match=r"keyword 'D' \(the number of features is n_components\)"):
        distrf.train(frame(50), target="churned", D=64)


@pytest.mark.slow
def test_a_classifier_takes_whole_numbers_when_it_is_asked_for(rng):
    X = rng.normal(size=(900, 2))
    y = X[:, 0].argsort().argsort() // 30 * 7.0
    assert distrf.make_model(X, y)[-1].__class__.__name__ == "StreamingRidge"
    assert len(distrf.train(X, y, model="ridge-classifier", n_components=16).classes_) == 30
    with pytest.raises(InputError, match="is a classifier, but"):
        distrf.make_model(X, np.arange(900.0), model="ridge-classifier")


@pytest.mark.slow
def test_a_store_is_trained_on_by_its_path(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3))
    distrf.write_rows(X, tmp_path / "rows.zarr", X[:, 0])
    options = {"n_components": 32, "random_state": 0}
    made, same = (
        distrf.train(tmp_path / "rows.zarr", **options),
        distrf.train(*distrf.open_rows(tmp_path / "rows.zarr"), **options),
    )
    assert made[-1].coef_.tobytes() == same[-1].coef_.tobytes()
    other = distrf.train(tmp_path / "rows.zarr", X[:, 1], **options)
    assert other[-1].coef_.tobytes() != made[-1].coef_.tobytes()
    with pytest.raises(
        InputError, match=r"id=: of Parquet and CSV .*; those of '.*rows.zarr' are read as numbers"
    ):
        distrf.train(tmp_path / "rows.zarr", id=["a"], **options)
    with pytest.raises(StoreError, match="lengths"):
        distrf.train(tmp_path / "rows.zarr", target="lengths", **options)


def test_choices_are_made_with_one_thread_of_blas(monkeypatch):
    """Several that wait for each other take many times as long, and add in an order that depends on the cores."""
    seen = []

    def looking(*args):
        seen.extend(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")
        return ridge(*args)

    monkeypatch.setattr("distrf.pipeline.race.ridge", looking)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    with threadpool_limits(2, user_api="blas"):
        make_model(X, np.sin(X[:, 0]), random_state=0)
        after = [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]
    assert seen
    assert set(seen) == {1}
    assert set(after) == {min(2, os.cpu_count())}


@pytest.mark.slow
def test_choices_leave_workers_with_one_thread_of_blas():
    """Also those in this process, which the first choice makes ready."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    with LocalCluster(processes=False, dashboard_address=":0") as cluster, Client(cluster):
        make_model(X, np.sin(X[:, 0]), random_state=0)
        StreamingRidge(1e-3).fit(da.from_array(X, chunks=(100, 3)), da.from_array(X[:, 0], chunks=100))
        assert {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"} == {1}


@pytest.mark.parametrize("kind", ["parquet", "csv", "frame"])
def test_text_of_whole_numbers_is_numbers(tmp_path, kind):
    """With a bad cell that no sample shows, and a row without a target, which `evaluate` leaves out as `train` did."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(1000, 9000, 6000)
    rows = pd.DataFrame({"x": numbers.astype(str), "y": numbers + rng.normal(size=6000)})
    rows.loc[4100, "x"], rows.loc[5, "y"] = "unknown", np.nan
    source = rows if kind == "frame" else str(tmp_path / f"a.{kind}")
    if kind != "frame":
        getattr(rows, f"to_{kind}")(source, index=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = distrf.train(
            source, target="y", map=None, model=StreamingRidge(), drop_missing_target=True, out=tmp_path / "m"
        )
    text = "\n".join(str(warning.message) for warning in caught)
    assert (
        "not 'unknown' (row 4,101" if kind == "csv" else "column 'x' has what is infinite, or no number (1)"
    ) in text
    assert ("numeric=['x'] for numbers, categorical=['x'] for levels" in text) == (kind != "csv")
    for trained in (made, load_model(tmp_path / "m")):
        with pytest.warns(ColumnWarning, match="1 of 6,000 rows have no target"):
            scores = distrf.evaluate(trained, source)
        assert (scores["rows"], scores["r2"] > 0.98) == (5999, True)
    assert len(distrf.predict(made, source)) == 6000
