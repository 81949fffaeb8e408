"""`evaluate`: all scores of a model in one pass, as scikit-learn computes them."""

from __future__ import annotations

import json

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as reference
from sklearn.pipeline import make_pipeline

import distrf
from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier, StreamingSGDClassifier
from distrf.errors import InputError
from distrf.tables.drift import DriftWarning

RNG = np.random.default_rng(3)
X = RNG.normal(size=(900, 4))
F = X[:, 0] + X[:, 1] ** 2 / 3 + 0.4 * RNG.normal(size=900)


def labels(*quantiles):
    names = np.array(["high", "low", "middle", "top"])
    return names[np.searchsorted(np.quantile(F, quantiles), F)]


def fitted(y, model):
    features = RandomFourierFeatures(n_components=64, length_scale=2.0, random_state=0)
    return make_pipeline(features, model).fit(X[:600], y[:600])


def logistic():
    return StreamingSGDClassifier("logistic", n_epochs=3, tol=None, alpha=1e-4, random_state=0)


TWO, FOUR = labels(0.5), labels(0.25, 0.5, 0.75)


@pytest.mark.parametrize("y", [TWO, FOUR], ids=["two", "four"])
@pytest.mark.parametrize(
    "model",
    [logistic(), StreamingRidgeClassifier(alpha=1e-3), StreamingRidgeClassifier(1e-3, calibrate=True)],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_scores_of_a_classifier__equal_scikit_learn(y, model, lazy):
    model, two = fitted(y, model), y is TWO
    found = distrf.evaluate(model, da.from_array(X, chunks=(170, 4)) if lazy else X, y)
    predicted, decisions = model.predict(X), model.decision_function(X)
    p = model.predict_proba(X) if hasattr(model, "predict_proba") else None
    ranked = decisions if p is None or two else p
    each = [(y == "low", ranked)] if two else [(y == c, ranked[:, k]) for k, c in enumerate(model[-1].classes_)]
    expected = {
        "accuracy": reference.accuracy_score(y, predicted),
        "balanced_accuracy": reference.balanced_accuracy_score(y, predicted),
        "f1_macro": reference.f1_score(y, predicted, average="macro"),
        "roc_auc": np.mean([reference.roc_auc_score(*one) for one in each]),
        "average_precision": np.mean([reference.average_precision_score(*one) for one in each]),
    }
    if p is None:
        assert found["log_loss"] is found["brier"] is found["calibration"] is None
    else:
        expected["log_loss"] = reference.log_loss(y, p)
        expected["brier"] = ((p - (y[:, None] == model[-1].classes_)) ** 2).sum(axis=1).mean() / (
            2 if two else 1
        )
        assert sum(b["rows"] for b in found["calibration"]) == 900
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    assert (found["score"], found["rows"], found["positive"]) == ("accuracy", 900, "low" if two else None)
    np.testing.assert_array_equal(found["confusion_matrix"], reference.confusion_matrix(y, predicted))
    precisions, recalls, f1s, rows_of = reference.precision_recall_fscore_support(y, predicted)
    columns = {
        "label": model[-1].classes_,
        "rows": rows_of,
        "precision": precisions,
        "recall": recalls,
        "f1": f1s,
    }
    pd.testing.assert_frame_equal(pd.DataFrame(found["classes"]), pd.DataFrame(columns), check_dtype=False)
    assert found["score_of_constant"] == max(np.mean(y == label) for label in set(y))
    json.dumps(found)


@pytest.mark.parametrize("y", [F, np.c_[F, X[:, 2] ** 2]], ids=["one", "two"])
def test_scores_of_a_regressor__equal_scikit_learn(y):
    model = fitted(y, StreamingRidge(alpha=1e-3))
    found, p = distrf.evaluate(model, da.from_array(X, chunks=(200, 4)), y), model.predict(X)
    expected = {
        "rows": 900, "r2": reference.r2_score(y, p), "rmse": reference.root_mean_squared_error(y, p),
        "mae": reference.mean_absolute_error(y, p),
        "score_of_constant": 0.0,
    }  # fmt: skip
    assert found.pop("score") == "r2"
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("names", [{"high": "no", "low": "yes"}, {"high": "usual", "low": "odd"}])
def test_a_rare_class_is_the_one_whose_average_precision_comes_first(names):
    """Whether it is the first or the second of the two: that of the frequent class says nothing."""
    y, rare = np.array([names[label] for label in labels(0.97)]), names["low"]
    model = fitted(y, logistic())
    found = distrf.evaluate(model, X, y)
    toward = 1 if model[-1].classes_[1] == rare else -1
    expected = reference.average_precision_score(y == rare, toward * model.decision_function(X))
    assert (found["score"], found["positive"]) == ("average_precision", rare)
    assert found["average_precision"] == pytest.approx(expected, rel=1e-9)
    assert found["score_of_constant"] == np.mean(y == rare)


def test_a_class_is_missing_or_new():
    model, few = fitted(FOUR, StreamingRidgeClassifier(alpha=1e-3)), FOUR != "top"
    found, decisions = distrf.evaluate(model, X[few], FOUR[few]), model.decision_function(X[few])
    (top,) = (c for c in found["classes"] if c["label"] == "top")
    assert (top["rows"], top["recall"]) == (0, None)
    each = [
        reference.roc_auc_score(FOUR[few] == c, decisions[:, k])
        for k, c in enumerate(["high", "low", "middle"])
    ]
    assert found["roc_auc"] == pytest.approx(np.mean(each), rel=1e-9)
    new = np.where(few, FOUR, "above all")
    said = r"^25 % of the rows have a label that no training row had, 'above all'; they count"
    with pytest.warns(DriftWarning, match=said):
        found = distrf.evaluate(model, X, new)
    assert [c["label"] for c in found["classes"]] == ["above all", "high", "low", "middle", "top"]
    assert found["accuracy"] == np.mean(model.predict(X) == new)
    alone = distrf.evaluate(model, X[FOUR == "low"], FOUR[FOUR == "low"])
    assert alone["roc_auc"] is None
    with pytest.raises(InputError, match="labels are compared with labels of one kind"):
        distrf.evaluate(model, X, np.arange(900))
    with pytest.raises(InputError, match="the errors of a regressor are of numbers"):
        distrf.evaluate(fitted(X[:, 0], StreamingRidge(alpha=1.0)), X, FOUR)


# --- files ---------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    """A table on disk whose text no model of numbers takes, and the frame that it holds."""
    frame = pd.DataFrame(X[:300], columns=list("abcd")).assign(id=range(300), note="text")
    frame["y"] = 2 * frame["a"] + frame["c"]
    frame.to_parquet(tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet", frame


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("trained", [False, True])
def test_a_model_of_opened_rows_goes_back_to_files(file, tmp_path, saved, trained):
    """It knew neither its columns nor its target: every column of the file was read, and refused."""
    (path, frame), out = file, tmp_path / "out.parquet"
    rows, y = distrf.open_rows(path, target="y", columns=["c", "a"])
    model = distrf.train(rows, y, map=None) if trained else StreamingRidge(alpha=1e-6).fit(rows, y)
    wanted = np.asarray(model.predict(rows))
    if saved:
        distrf.save_model(model, tmp_path / "model")
        model = tmp_path / "model"
    assert distrf.evaluate(model, path)["r2"] > 0.999
    np.testing.assert_array_equal(distrf.predict(model, path).compute(), wanted)
    for given in (path, rows):
        distrf.predict(model, given, out, keys=["id"], overwrite=True)
        written = pd.read_parquet(out)
        assert written["id"].tolist() == frame["id"].tolist()
        np.testing.assert_array_equal(written["prediction"], wanted)


def test_columns_of_files_for_a_model_of_arrays(file):
    path, frame = file
    given, rows = {"columns": ["c", "a"]}, frame[["c", "a"]].to_numpy()
    model = StreamingRidge(alpha=1e-6).fit(rows, frame["y"])
    assert distrf.evaluate(model, path, target="y", **given)["r2"] > 0.999
    np.testing.assert_allclose(distrf.predict(model, path, **given), model.predict(rows))
    with pytest.raises(InputError, match="names a column of a table or of rows at a path"):
        distrf.predict(model, rows, **given)
