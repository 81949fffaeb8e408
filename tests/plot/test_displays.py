"""Displays of scikit-learn, of sums over rows in memory or in blocks, and the lines and bars that it has no display for."""

import sys

import dask.array as da
import numpy as np
import pytest
from sklearn import metrics
from sklearn.calibration import CalibrationDisplay, calibration_curve
from sklearn.pipeline import make_pipeline

import distrf
from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier, StreamingSGDClassifier
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


def texts(labels):
    return [label.get_text() for label in labels]


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
    with pytest.raises(InputError, match=r"no 'calibration' to draw, but confusion_matrix.*calibrate=True"):
        found["calibration"]


def test_many_classes__the_worst_ten_and_no_numbers(ax, rows):
    X, z = rows
    y = np.array([f"class ${k:02} of a long name$" for k in np.digitize(z, np.linspace(-1.5, 1.5, 17))])
    model = machine(StreamingRidgeClassifier(1e-3)).fit(X, y)
    found = displays(distrf.evaluate(model, X, y))
    scores = model.decision_function(X)
    areas = [metrics.roc_auc_score(y == name, scores[:, k]) for k, name in enumerate(np.unique(y))]
    found["roc_curve"].plot(ax=ax)
    assert len(ax.lines) == 10
    assert "10 of 18 classes" in ax.get_title()
    assert [text[-5:-1] for text in texts(ax.get_legend().get_texts())] == [
        f"{area:.2f}" for area in sorted(areas)[:10]
    ]
    assert len(found["precision_recall_curve"].plot().ax_.lines) == 10
    matrix = found["confusion_matrix"].plot()
    assert matrix.text_ is None
    matrix.figure_.canvas.draw()
    for labels in (matrix.ax_.get_xticklabels(), matrix.ax_.get_yticklabels()):
        boxes = [label.get_window_extent() for label in labels]
        assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[k + 1 :])
        assert labels[0].get_text().startswith(r"class \$")


def test_numbers__a_uniform_sample_of_rows(ax, rows, place):
    X, z = rows
    model = machine(StreamingRidge(1e-3)).fit(X, z)
    display = displays(distrf.evaluate(model, place(X), place(z)))["prediction_error"]
    drawn, wanted = (
        {*zip(*pair, strict=True)} for pair in ((display.y_true, display.y_pred), (z, model.predict(X)))
    )
    np.testing.assert_allclose(sorted(drawn), sorted(wanted))
    assert display.plot(ax=ax, kind="actual_vs_predicted").ax_ is ax


@pytest.mark.parametrize("alphas", [(1e-6, 1e-4, 1e-2), (1.0, 0.0, 1e-3)])
def test_alphas__mark_the_chosen_one(ax, rows, alphas):
    model = machine(StreamingRidge(alphas)).fit(*rows)
    displays(model)["alphas"].plot(ax=ax)
    curve, mark = ax.lines
    assert mark.get_xdata()[0] == model[-1].alpha_
    assert mark.get_ydata()[0] == min(curve.get_ydata())
    end = {max(alphas): ", the largest tried", min(alphas): ", the smallest tried"}.get(model[-1].alpha_, "")
    assert texts(ax.get_legend().get_texts())[1:] == [f"chosen: {model[-1].alpha_:g}{end}"]
    assert (np.diff(ax.transData.transform(np.column_stack([sorted(alphas)] * 2))[:, 0]) > 10).all()


@pytest.mark.filterwarnings("ignore:.*still falls")  # four epochs are few
def test_epochs__losses_of_training_and_of_held_out_rows(rows):
    X, z = rows
    model = StreamingSGDClassifier(early_stopping=True, n_epochs=4, tol=None, batch_size=100).fit(X, z > 0)
    found, keys = displays(make_pipeline(model)), {"epochs": "loss", "validation": "validation_loss"}
    assert list(found) == list(keys)
    for name in found:
        (line,) = found[name].plot().ax_.lines
        np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3, 4])
        np.testing.assert_array_equal(line.get_ydata(), [entry[keys[name]] for entry in model.history_])


def test_importance__the_longest_bars_at_the_top(ax, rows, monkeypatch):
    model = machine(StreamingRidge(1e-3)).fit(*rows)
    found = distrf.permutation_importance(model, *rows)
    monkeypatch.setattr(sys.modules["distrf.plot.displays"], "_BARS", 2)
    displays(found)["importance"].plot(ax=ax)
    assert texts(ax.get_yticklabels()) == [found.names[i] for i in found.order[:2]]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], found.importances_mean[found.order[:2]])
    assert ax.get_xlabel() == "r2 lost where the column is permuted\n1 shorter ones are not drawn"


def test_refusals(rows, monkeypatch):
    model = StreamingRidge(1e-3).fit(*rows)
    assert not displays(model)
    with pytest.raises(InputError, match="got dict"):
        displays({})
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r'pip install "distrf\[plot\]"'):
        displays(StreamingRidge([1e-3, 1e-2]).fit(*rows))["alphas"].plot()
