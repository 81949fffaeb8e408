"""`evaluate`: all scores of a model in one pass, as scikit-learn computes them, and by slice."""

from __future__ import annotations

import itertools
import json

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn import metrics as reference
from sklearn.pipeline import make_pipeline

import distrf
from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier, StreamingSGDClassifier
from distrf.errors import InputError
from distrf.execution.open_rows import open_column
from distrf.pipeline.rows import open_input
from distrf.tables.drift import DriftWarning


def problem(classes=2, n=900, rare=False):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 4))
    f = X[:, 0] + X[:, 1] ** 2 / 3 + 0.4 * rng.normal(size=n)
    cuts = np.quantile(f, [0.97] if rare else np.arange(1, classes) / classes)
    return X, np.array(["high", "low", "middle", "top"])[np.searchsorted(cuts, f)], f


def fitted(X, y, model):
    features = RandomFourierFeatures(n_components=64, length_scale=2.0, random_state=0)
    return make_pipeline(features, model).fit(X[:600], y[:600])


def logistic():
    return StreamingSGDClassifier("logistic", n_epochs=3, tol=None, alpha=1e-4, random_state=0)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    "make",
    [
        logistic,
        lambda: StreamingRidgeClassifier(alpha=1e-3),
        lambda: StreamingRidgeClassifier(alpha=1e-3, calibrate=True),
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_scores_of_a_classifier__equal_scikit_learn(classes, make, lazy):
    X, y, _ = problem(classes)
    model = fitted(X, y, make())
    rows = da.from_array(X, chunks=(170, 4)) if lazy else X
    found = distrf.evaluate(model, rows, y)
    predicted, decisions = model.predict(X), model.decision_function(X)
    assert found["score"] == "accuracy"
    assert found["rows"] == 900
    expected = {
        "accuracy": reference.accuracy_score(y, predicted),
        "balanced_accuracy": reference.balanced_accuracy_score(y, predicted),
        "f1_macro": reference.f1_score(y, predicted, average="macro"),
    }
    if classes == 2:
        expected["roc_auc"] = reference.roc_auc_score(y, decisions)
        expected["average_precision"] = reference.average_precision_score(y, decisions, pos_label="low")
    else:
        ranked = model.predict_proba(X) if hasattr(model, "predict_proba") else decisions
        each = [reference.roc_auc_score(y == c, ranked[:, k]) for k, c in enumerate(model[-1].classes_)]
        expected["roc_auc"] = np.mean(each)
        expected["average_precision"] = reference.average_precision_score(y, ranked)
    if hasattr(model, "predict_proba"):
        p = model.predict_proba(X)
        expected["log_loss"] = reference.log_loss(y, p)
        expected["brier"] = reference.brier_score_loss(
            y, p if classes > 2 else p[:, 1], **({} if classes > 2 else {"pos_label": "low"})
        )
        assert sum(b["rows"] for b in found["calibration"]) == 900
    else:
        assert found["log_loss"] is found["brier"] is found["calibration"] is None
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-6), name
    assert found["roc_auc_error"] == found["average_precision_error"] == 0.0
    assert found["positive"] == ("low" if classes == 2 else None)
    np.testing.assert_array_equal(found["confusion_matrix"], reference.confusion_matrix(y, predicted))
    precisions, recalls, f1s, rows_of = reference.precision_recall_fscore_support(y, predicted)
    table = found["classes"]
    assert [c["label"] for c in table] == model[-1].classes_.tolist()
    assert [c["rows"] for c in table] == rows_of.tolist()
    for name, values in (("precision", precisions), ("recall", recalls), ("f1", f1s)):
        np.testing.assert_allclose([c[name] for c in table], values)
    json.dumps(found)


@pytest.mark.parametrize("outputs", [None, 2])
def test_scores_of_a_regressor__equal_scikit_learn(outputs):
    X, _, f = problem()
    y = f if outputs is None else np.c_[f, X[:, 2] ** 2]
    model = fitted(X, y, StreamingRidge(alpha=1e-3))
    found = distrf.evaluate(model, da.from_array(X, chunks=(200, 4)), y)
    p = model.predict(X)
    assert found["score"] == "r2"
    assert list(found) == ["score", "rows", "r2", "rmse", "relative_rmse", "mae"]
    expected = (
        reference.r2_score(y, p),
        reference.root_mean_squared_error(y, p),
        reference.mean_absolute_error(y, p),
    )
    np.testing.assert_allclose([found["r2"], found["rmse"], found["mae"]], expected, rtol=1e-6)


@pytest.mark.parametrize("names", [{"high": "no", "low": "yes"}, {"high": "usual", "low": "odd"}])
def test_a_rare_class_is_the_one_whose_average_precision_comes_first(names):
    """Whether it is the first or the second of the two: that of the frequent class says nothing."""
    X, y, _ = problem(rare=True)
    y, rare = np.array([names[label] for label in y]), names["low"]
    model = fitted(X, y, logistic())
    found = distrf.evaluate(model, X, y)
    toward = 1 if model[-1].classes_[1] == rare else -1
    expected = reference.average_precision_score(y == rare, toward * model.decision_function(X))
    assert (found["score"], found["positive"]) == ("average_precision", rare)
    assert found["average_precision"] == pytest.approx(expected, rel=1e-9)


def test_a_class_is_missing_or_new():
    X, y, _ = problem(4)
    model = fitted(X, y, StreamingRidgeClassifier(alpha=1e-3))
    few = y != "top"
    found = distrf.evaluate(model, X[few], y[few])
    table = {c["label"]: c for c in found["classes"]}
    assert (table["top"]["rows"], table["top"]["recall"]) == (0, None)
    decisions = model.decision_function(X[few])
    each = [
        reference.roc_auc_score(y[few] == c, decisions[:, k]) for k, c in enumerate(["high", "low", "middle"])
    ]
    assert found["roc_auc"] == pytest.approx(np.mean(each), rel=1e-9)
    new = np.where(y == "top", "above all", y)
    with pytest.warns(
        DriftWarning, match=r"^25 % of the rows have a label that no training row had, 'above all'; they count"
    ):
        found = distrf.evaluate(model, X, new)
    assert [c["label"] for c in found["classes"]] == ["above all", "high", "low", "middle", "top"]
    assert found["accuracy"] == np.mean(model.predict(X) == new)
    alone = distrf.evaluate(model, X[y == "low"], y[y == "low"])
    assert alone["roc_auc"] is alone["roc_auc_error"] is None
    with pytest.raises(InputError, match="labels are compared with labels of one kind"):
        distrf.evaluate(model, X, np.arange(900))
    with pytest.raises(InputError, match="the errors of a regressor are of numbers"):
        distrf.evaluate(fitted(X, X[:, 0], StreamingRidge(alpha=1.0)), X, y)


# --- slices --------------------------------------------------------------------------------------------------


@pytest.fixture
def sliced():
    X, y, f = problem()
    group = np.where(X[:, 2] > 1, "far", np.where(X[:, 3] > 0, "near", None))
    return X, y, f, group


def same(one, other):
    return one is other is None or one == pytest.approx(other, rel=1e-9)


def check_slices(model, X, y, slices, groups):
    assert {s["value"]: s["rows"] for s in slices} == {g: int(np.sum(rows)) for g, rows in groups.items()}
    for piece in slices:
        rows = groups[piece["value"]]
        alone = distrf.evaluate(model, X[rows], y[rows])
        names = piece.keys() - {"value"}
        assert names >= {"rows", alone["score"]}
        for name in names:
            assert same(piece[name], alone[name]), name


@pytest.mark.parametrize("place", ["memory", "parquet", "zarr"])
def test_each_slice_has_the_scores_of_its_rows(sliced, place, tmp_path):
    X, y, f, group = sliced
    classifier, regressor = fitted(X, y, logistic()), fitted(X, f, StreamingRidge(alpha=1e-3))
    groups = {"far": group == "far", "near": group == "near", "missing": group == None}  # noqa: E711
    quartiles = np.quantile(X[:, 1], [0.25, 0.5, 0.75], method="inverted_cdf")
    edges = [f"{q:.6g}" for q in quartiles]
    quarter = np.searchsorted(quartiles, X[:, 1])
    names = [
        f"<= {edges[0]}",
        *(f"({a}, {b}]" for a, b in itertools.pairwise(edges)),
        f"> {edges[-1]}",
    ]
    quarters = {name: quarter == k for k, name in enumerate(names)}
    if place == "memory":
        text = distrf.evaluate(classifier, X, y, by=group)
        numbers = distrf.evaluate(
            regressor, da.from_array(X, chunks=(250, 4)), f, by=da.from_array(X[:, 1], chunks=100)
        )
    elif place == "parquet":
        columns = {f"x{j}": X[:, j] for j in range(4)} | {"y": y, "f": f, "group": pa.array(group.tolist())}
        pq.write_table(pa.table(columns), tmp_path / "r.parquet", row_group_size=300)
        said = {"columns": ["x0", "x1", "x2", "x3"]}
        data = open_input
        text = distrf.evaluate(classifier, data(str(tmp_path / "r.parquet"), "y", **said), by="group")
        numbers = distrf.evaluate(regressor, data(str(tmp_path / "r.parquet"), "f", **said), by="x1")
    else:
        distrf.write_rows(da.from_array(X, chunks=(300, 4)), tmp_path / "y.zarr", y)
        distrf.write_rows(da.from_array(X, chunks=(300, 4)), tmp_path / "f.zarr", f)
        text = distrf.evaluate(classifier, tmp_path / "y.zarr", by="y")
        groups = {"high": y == "high", "low": y == "low"}
        numbers = distrf.evaluate(regressor, tmp_path / "f.zarr", by="1")
    check_slices(classifier, X, y, text["slices"], groups)
    check_slices(regressor, X, f, numbers["slices"], quarters)
    whole = distrf.evaluate(classifier, X, y)
    assert all(same(text[name], value) for name, value in whole.items() if isinstance(value, float))


def test_a_column_beside_coded_rows(tmp_path):
    """Of a table with text among its columns, in the blocks of its coded rows."""
    region = ["north", None, "south"] * 300
    table = pa.table(
        {"x": np.arange(900.0), "region": region, "shop": ["a", "b", "c"] * 300, "y": np.arange(900) % 2}
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=250)
    said = {"target": "y", "columns": ["x", "shop"], "coded": True}
    for name in ("region", "shop"):
        column = open_column(tmp_path / "t.parquet", name, **said)
        assert column.compute(scheduler="sync").tolist() == table.column(name).to_pylist()


def test_a_column_that_is_none_is_refused(sliced, tmp_path):
    X, y, _, group = sliced
    model = fitted(X, y, StreamingRidgeClassifier(alpha=1e-3))
    distrf.write_rows(X, tmp_path / "r.zarr", y)
    with pytest.raises(InputError, match="column 'region' is not in"):
        distrf.evaluate(model, tmp_path / "r.zarr", by="region")
    with pytest.raises(InputError, match="give the values of 'region'"):
        distrf.evaluate(model, X, y, by="region")
    with pytest.raises(InputError, match="by has one value for each of 900 rows"):
        distrf.evaluate(model, X, y, by=group[:5])
    when = np.arange(900).astype("datetime64[s]")
    table = {f"x{j}": X[:, j] for j in range(4)} | {"y": y, "when": when}
    pq.write_table(pa.table(table), tmp_path / "r.parquet")
    data = open_input(str(tmp_path / "r.parquet"), "y", ["x0", "x1", "x2", "x3"])
    with pytest.raises(InputError, match="'when' has type timestamp"):
        distrf.evaluate(model, data, by="when")
    with pytest.raises(InputError, match=r"columns .'where'. are not in"):
        distrf.evaluate(model, data, by="where")


# --- passes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("trained", [False, True])
def test_a_model_of_opened_rows_goes_back_to_files(rng, tmp_path, saved, trained):
    """It knew neither its columns nor its target: every column of the file was read, and refused."""
    frame = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd")).assign(id=range(300), note="text")
    path, out = tmp_path / "rows.parquet", tmp_path / "out.parquet"
    frame.assign(y=2 * frame["a"] + frame["c"]).to_parquet(path)
    X, y = distrf.open_rows(path, target="y", columns=["c", "a"])
    model = distrf.train(X, y, map=None) if trained else StreamingRidge(alpha=1e-6).fit(X, y)
    wanted = np.asarray(model.predict(X))
    if saved:
        distrf.save_model(model, tmp_path / "model")
        model = tmp_path / "model"
    assert distrf.evaluate(model, path)["r2"] > 0.999
    np.testing.assert_array_equal(distrf.predict(model, path).compute(), wanted)
    assert distrf.permutation_importance(model, path, n_rows=100).names == ("c", "a")
    for rows in (path, X):
        distrf.predict(model, rows, out, keys=["id"], overwrite=True)
        written = pd.read_parquet(out)
        assert written["id"].tolist() == frame["id"].tolist()
        np.testing.assert_array_equal(written["prediction"], wanted)


def test_rows_edited_in_place_are_those_of_no_file(rng, tmp_path):
    """Keys of other rows were written behind rows that had been turned round."""
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"]).assign(y=range(60))
    frame.to_parquet(tmp_path / "rows.parquet")
    X, y = distrf.open_rows(tmp_path / "rows.parquet", target="y", columns=np.array(["a", "b"]))
    model = StreamingRidge(alpha=1e-6).fit(X, y)
    X[:] = X[::-1]
    with pytest.raises(InputError, match="keys"):
        distrf.predict(model, X, tmp_path / "out.parquet", keys=["y"])


def test_columns_of_files_for_a_model_of_arrays(rng, tmp_path):
    frame = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd")).assign(note="text")
    path = tmp_path / "rows.parquet"
    frame.assign(y=2 * frame["a"] + frame["c"]).to_parquet(path)
    X = frame[["c", "a"]].to_numpy()
    model = StreamingRidge(alpha=1e-6).fit(X, 2 * frame["a"] + frame["c"])
    assert distrf.evaluate(model, path, target="y", columns=["c", "a"])["r2"] > 0.999
    np.testing.assert_allclose(distrf.predict(model, path, columns=["c", "a"]), model.predict(X))
    found = distrf.permutation_importance(model, path, target="y", columns=["c", "a"], n_rows=50)
    assert found.names == ("c", "a")
    with pytest.raises(InputError, match="columns= names the columns of rows at a path"):
        distrf.predict(model, X, columns=["c", "a"])
