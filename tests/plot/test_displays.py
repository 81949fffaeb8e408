"""Displays of scikit-learn, of sums over rows in memory or in blocks."""

import dask.array as da
import numpy as np
import pytest
from sklearn import metrics
from sklearn.calibration import CalibrationDisplay, calibration_curve
from sklearn.pipeline import make_pipeline

import distrf
from distrf import RandomFourierFeatures, StreamingRidgeClassifier
from distrf.errors import InputError
from distrf.plot import displays


@pytest.fixture(params=["memory", "lazy"])
def place(request):
    """Arrays as they are, or in blocks."""
    if request.param == "memory":
        return lambda array: array
    return lambda array: da.from_array(array, chunks=(70, *array.shape[1:]))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(400, 3)), 1)
    return X, X[:, 0] + 0.5 * rng.normal(size=400)


def machine(model):
    return make_pipeline(RandomFourierFeatures(length_scale=3.0, n_components=32, random_state=0), model)


def test_two_classes__are_those_of_scikit_learn(ax, rows, place):
    X, z = rows
    y = np.where(z > 0, "yes", "no")
    model = machine(StreamingRidgeClassifier(1e-3, calibrate=True)).fit(X, y)
    found = displays(distrf.evaluate(model, place(X), place(y)))
    assert list(found) == ["confusion_matrix", "roc_curve", "precision_recall_curve", "calibration"]
    decisions, p = model.decision_function(X), model.predict_proba(X)[:, 1]
    roc, curve = found["roc_curve"], found["precision_recall_curve"]
    assert type(roc) is metrics.RocCurveDisplay
    fpr, tpr, _ = metrics.roc_curve(y, decisions, pos_label="yes", drop_intermediate=False)
    np.testing.assert_allclose((roc.fpr, roc.tpr), (fpr, tpr), atol=1e-12)
    assert roc.roc_auc == pytest.approx(metrics.roc_auc_score(y, decisions), rel=1e-12)
    precision, recall, _ = metrics.precision_recall_curve(y, decisions, pos_label="yes")
    np.testing.assert_allclose((curve.precision, curve.recall), (precision, recall), atol=1e-12)
    assert curve.average_precision == pytest.approx(
        metrics.average_precision_score(y, decisions, pos_label="yes")
    )
    assert curve.prevalence_pos_label == pytest.approx((y == "yes").mean())
    np.testing.assert_array_equal(
        found["confusion_matrix"].confusion_matrix, metrics.confusion_matrix(y, model.predict(X))
    )
    true, said = calibration_curve(y == "yes", p, n_bins=10)
    assert type(found["calibration"]) is CalibrationDisplay
    np.testing.assert_allclose((found["calibration"].prob_true, found["calibration"].prob_pred), (true, said))
    assert roc.plot(ax=ax, plot_chance_level=True).ax_ is ax
    assert ax.get_xlabel() == "False Positive Rate (Positive label: yes)"


def test_the_rare_first_class_is_the_positive_one(rows):
    X = rows[0]
    y = np.where(X[:, 0] > 1.9, "a rare one", "common")
    model = StreamingRidgeClassifier(1e-3).fit(X, y)
    found = displays(distrf.evaluate(model, X, y))
    curve = found["precision_recall_curve"]
    precision, recall, _ = metrics.precision_recall_curve(y == "a rare one", -model.decision_function(X))
    np.testing.assert_allclose((curve.precision, curve.recall), (precision, recall))
    assert curve.pos_label == "a rare one"
    assert "calibration" not in found


def test_many_classes__a_matrix_alone(rows):
    X, z = rows
    y = np.array([f"${k:02} of a long name$" for k in np.digitize(z, [-0.5, 0.5])])
    found = displays(distrf.evaluate(machine(StreamingRidgeClassifier(1e-3)).fit(X, y), X, y))
    assert list(found) == ["confusion_matrix"]
    assert found["confusion_matrix"].display_labels[0].startswith(r"\$00")


def test_refusals():
    with pytest.raises(InputError, match=r"what distrf.evaluate returned, got dict"):
        displays({})
