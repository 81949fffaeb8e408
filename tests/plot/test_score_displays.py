"""Displays of scores against the numbers of scikit-learn, of arrays, lazy rows and models."""

import dask.array as da
import numpy as np
import pytest
from sklearn import metrics
from sklearn.calibration import calibration_curve
from sklearn.pipeline import make_pipeline

import distrf
from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier
from distrf.errors import InputError, ParameterError
from distrf.plot import (
    CalibrationDisplay,
    ConfusionMatrixDisplay,
    PrecisionRecallDisplay,
    ResidualsDisplay,
    RocCurveDisplay,
)
from distrf.plot.ranking import thinned


@pytest.fixture(params=["memory", "lazy"])
def place(request):
    """Arrays as they are, or in blocks."""
    if request.param == "memory":
        return lambda array: array
    return lambda array: da.from_array(array, chunks=(70, *array.shape[1:]))


@pytest.fixture
def two(rng):
    """Labels, scores with ties, weights."""
    y = rng.integers(0, 2, size=300)
    return y, np.round(rng.normal(size=300) + y, 1), rng.uniform(0.5, 2.0, size=300)


def test_roc__is_that_of_scikit_learn(ax, two, place):
    y, scores, w = two
    display = RocCurveDisplay.from_predictions(place(y), place(scores), sample_weight=place(w), ax=ax)
    false, true, _ = metrics.roc_curve(y, scores, sample_weight=w, drop_intermediate=False)
    np.testing.assert_allclose(display.fpr[0], false, atol=1e-12)
    np.testing.assert_allclose(display.tpr[0], true, atol=1e-12)
    assert display.roc_auc[0] == pytest.approx(metrics.roc_auc_score(y, scores, sample_weight=w), rel=1e-12)
    assert display.roc_auc[0] == pytest.approx(metrics.auc(display.fpr[0], display.tpr[0]), rel=1e-12)
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), display.fpr[0])
    assert display.lines_[0].get_label() == f"1 (AUC = {display.roc_auc[0]:.3f})"
    assert ax.get_xlabel() == "false positive rate"


def test_precision_recall__is_that_of_scikit_learn(ax, two, place):
    y, scores, w = two
    display = PrecisionRecallDisplay.from_predictions(place(y), place(scores), sample_weight=place(w), ax=ax)
    precision, recall, _ = metrics.precision_recall_curve(y, scores, sample_weight=w)
    np.testing.assert_allclose(display.precision[0], precision, atol=1e-12)
    np.testing.assert_allclose(display.recall[0], recall, atol=1e-12)
    wanted = metrics.average_precision_score(y, scores, sample_weight=w)
    assert display.average_precision[0] == pytest.approx(wanted, rel=1e-12)
    assert display.prevalence[0] == pytest.approx(w[y == 1].sum() / w.sum(), rel=1e-12)
    assert display.lines_[0].get_drawstyle() == "steps-post"


def test_curves__of_labels_and_of_several_classes(ax, rng):
    y = np.array(["a", "b", "c"])[rng.integers(0, 3, size=200)]
    scores = rng.normal(size=(200, 3))
    display = RocCurveDisplay.from_predictions(y, scores, ax=ax)
    assert display.labels == ["a", "b", "c"]
    for k, label in enumerate("abc"):
        false, true, _ = metrics.roc_curve(y == label, scores[:, k], drop_intermediate=False)
        np.testing.assert_allclose(display.fpr[k], false)
        np.testing.assert_allclose(display.tpr[k], true)
    other = RocCurveDisplay.from_predictions(np.where(y == "a", "a", "b"), -scores[:, 0], pos_label="a")
    assert other.roc_auc[0] == pytest.approx(1 - display.roc_auc[0])


def test_curves__draw_the_worst_ten(ax, rng):
    display = RocCurveDisplay.from_predictions(rng.integers(0, 12, size=400), rng.normal(size=(400, 12)), ax=ax)
    assert len(display.lines_) == 10
    assert len(display.roc_auc) == 12
    assert "10 of 12 classes" in ax.get_title()
    assert display.lines_[0].get_label() == f"{np.argmin(display.roc_auc)} (AUC = {min(display.roc_auc):.3f})"


def test_curves__refusals(two):
    y, scores, _ = two
    with pytest.raises(InputError, match="a ROC curve needs rows"):
        RocCurveDisplay.from_predictions(np.ones(5), np.arange(5.0))
    with pytest.raises(InputError, match="pos_label must be one of the labels"):
        RocCurveDisplay.from_predictions(y, scores, pos_label=7)
    with pytest.raises(InputError, match="finite"):
        PrecisionRecallDisplay.from_predictions(y, np.where(y == 1, np.nan, scores))


def test_thinned__keeps_ends_and_shape(rng):
    x = np.sort(rng.uniform(size=50_000))
    few_x, few_y = thinned(x, x**2, 200)
    assert len(few_x) <= 200
    assert (few_x[0], few_x[-1]) == (x[0], x[-1])
    assert np.abs(np.interp(x, few_x, few_y) - x**2).max() < 1e-4
    assert thinned(x[:5], x[:5], 200)[0] is not None


def test_confusion_matrix__is_that_of_scikit_learn(ax, rng, place):
    y, said = (np.array(["a", "b", "$c$"])[rng.integers(0, 3, size=200)] for _ in range(2))
    display = ConfusionMatrixDisplay.from_predictions(place(y), place(said), ax=ax)
    np.testing.assert_array_equal(display.confusion_matrix, metrics.confusion_matrix(y, said))
    np.testing.assert_array_equal(display.im_.get_array(), display.confusion_matrix)
    assert [t.get_text() for t in ax.get_xticklabels()] == [r"\$c\$", "a", "b"]
    assert display.text_[0, 1].get_text() == f"{display.confusion_matrix[0, 1]:.0f}"


@pytest.mark.parametrize("normalize", ["true", "pred", "all"])
def test_confusion_matrix__normalized(ax, rng, normalize):
    y, said, w = rng.integers(0, 4, size=100), rng.integers(0, 4, size=100), rng.uniform(size=100)
    display = ConfusionMatrixDisplay.from_predictions(y, said, sample_weight=w, normalize=normalize, ax=ax)
    wanted = metrics.confusion_matrix(y, said, sample_weight=w, normalize=normalize)
    np.testing.assert_allclose(display.im_.get_array(), wanted)


def test_confusion_matrix__labels_and_refusals(ax, rng):
    y, said = rng.integers(0, 4, size=100), rng.integers(0, 4, size=100)
    display = ConfusionMatrixDisplay.from_predictions(y, said, labels=[2, 0], ax=ax)
    np.testing.assert_array_equal(display.confusion_matrix, metrics.confusion_matrix(y, said, labels=[2, 0]))
    with pytest.raises(ParameterError, match="normalize must be"):
        ConfusionMatrixDisplay.from_predictions(y, said, normalize="rows")
    with pytest.raises(InputError, match="at most 100 labels, got 200"):
        ConfusionMatrixDisplay.from_predictions(np.arange(200), np.arange(200))


def test_confusion_matrix__of_lists(ax):
    display = ConfusionMatrixDisplay.from_predictions(["a", "b", "b"], ["a", "b", "a"], ax=ax)
    np.testing.assert_array_equal(display.confusion_matrix, [[1, 0], [1, 1]])


def test_confusion_matrix__many_classes_have_no_numbers(ax):
    display = ConfusionMatrixDisplay.from_predictions(np.arange(60), np.arange(60), ax=ax)
    assert display.text_ is None
    assert len(ax.get_xticks()) == 0


def overlaps(boxes):
    return any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[k + 1 :])


def test_confusion_matrix__long_names_do_not_overlap():
    names = np.array([f"{chr(97 + k)} class of a long name" for k in range(18)])
    display = ConfusionMatrixDisplay.from_predictions(names, names)
    display.figure_.canvas.draw()
    for labels in (display.ax_.get_xticklabels(), display.ax_.get_yticklabels()):
        assert not overlaps([label.get_window_extent() for label in labels])


def test_calibration__points_are_as_large_as_their_bins(ax):
    p = np.array([0.1] * 60 + [0.5] * 30 + [0.9])
    display = CalibrationDisplay.from_predictions(np.arange(91) % 2, p, ax=ax)
    few, many = sorted(display.points_.get_sizes())[::2]
    assert many > 10 * few
    assert len(display.points_.get_offsets()) == 3


def test_calibration__is_that_of_scikit_learn(ax, rng, place):
    p = rng.uniform(size=400)
    y = np.where(rng.uniform(size=400) < p**2, "yes", "no")
    display = CalibrationDisplay.from_predictions(place(y), place(p), pos_label="yes", n_bins=8, ax=ax)
    true, said = calibration_curve(y == "yes", p, n_bins=8)
    np.testing.assert_allclose(display.prob_true, true)
    np.testing.assert_allclose(display.prob_pred, said)
    np.testing.assert_allclose(display.line_.get_ydata(), true)
    heights = [bar.get_height() for bar in display.bars_]
    np.testing.assert_allclose(heights, np.histogram(p, np.linspace(0, 1, 9))[0] / 400)
    assert ax.get_xlabel() == "mean probability of 'yes'"
    with pytest.raises(InputError, match="one column of probabilities"):
        CalibrationDisplay.from_predictions(y, np.stack([p, 1 - p], axis=1))


@pytest.mark.parametrize("kind", ["residual_vs_predicted", "actual_vs_predicted"])
def test_residuals__all_of_few_rows(ax, rng, place, kind):
    y, said = rng.normal(size=200), rng.normal(size=200)
    display = ResidualsDisplay.from_predictions(place(y), place(said), kind=kind, ax=ax)
    (points,) = display.points_
    drawn = set(zip(points.get_xdata(), points.get_ydata(), strict=True))
    assert drawn == set(zip(said, y if kind[0] == "a" else y - said, strict=True))
    assert ax.get_xlabel() == "prediction"


def test_residuals__a_sample_of_many_rows(ax, rng):
    y = rng.normal(size=(5000, 2))
    said = y + np.arange(5000)[:, None]
    first = ResidualsDisplay.from_predictions(y, said, ax=ax)
    assert first.y_true.shape == (1000, 2)
    assert ax.get_xlabel() == "prediction, 1,000 of 5,000 rows"
    rows = np.rint(first.y_pred - first.y_true)[:, 0]
    assert len(set(rows)) == 1000
    assert np.histogram(rows, 5, (0, 5000))[0].min() > 140  # 200 - 5 standard deviations
    for chunk in (130, 5000):
        lazy = ResidualsDisplay.from_predictions(*(da.from_array(a, chunks=(chunk, 2)) for a in (y, said)))
        np.testing.assert_array_equal(lazy.y_true, first.y_true)
        np.testing.assert_array_equal(lazy.y_pred, first.y_pred)


def test_residuals__refusals():
    with pytest.raises(ParameterError, match="kind must be"):
        ResidualsDisplay.from_predictions([1.0, 2.0], [1.0, 2.0], kind="rows")
    with pytest.raises(InputError, match="one shape"):
        ResidualsDisplay.from_predictions([1.0, 2.0], [1.0])
    with pytest.raises(InputError, match="holds text"):
        ResidualsDisplay.from_predictions(["a", "b"], ["a", "b"])


@pytest.fixture(scope="module")
def models():
    """Rows, and a classifier of two classes, of three, and a regressor."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    z = X[:, 0] + 0.5 * rng.normal(size=400)
    targets = {"two": np.where(z > 0, "yes", "no"), "three": np.digitize(z, [-0.5, 0.5]), "number": z}
    features = RandomFourierFeatures(length_scale=3.0, n_components=32, random_state=0)
    made = {}
    for name, y in targets.items():
        model = StreamingRidge(1e-3) if name == "number" else StreamingRidgeClassifier(1e-3, calibrate=True)
        made[name] = make_pipeline(features, model).fit(X, y)
    return X, targets, made


def test_from_estimator__is_from_predictions(models, place):
    X, targets, made = models
    model, y = made["two"], targets["two"]
    given = model, place(X), place(y)
    decisions, probabilities = model.decision_function(X), model.predict_proba(X)[:, 1]
    found = RocCurveDisplay.from_estimator(*given)
    np.testing.assert_allclose(
        found.tpr[0], RocCurveDisplay.from_predictions(y, decisions, pos_label="yes").tpr[0]
    )
    found = PrecisionRecallDisplay.from_estimator(*given)
    wanted = PrecisionRecallDisplay.from_predictions(y, decisions, pos_label="yes")
    np.testing.assert_allclose(found.precision[0], wanted.precision[0])
    found = ConfusionMatrixDisplay.from_estimator(*given, normalize="true")
    np.testing.assert_array_equal(found.confusion_matrix, metrics.confusion_matrix(y, model.predict(X)))
    found = CalibrationDisplay.from_estimator(*given)
    wanted = CalibrationDisplay.from_predictions(y, probabilities, pos_label="yes", n_bins=10)
    np.testing.assert_allclose(found.prob_true, wanted.prob_true)
    found = ResidualsDisplay.from_estimator(made["number"], place(X), place(targets["number"]))
    order = np.argsort(found.y_true[:, 0])
    np.testing.assert_allclose(found.y_true[order, 0], np.sort(targets["number"]))
    predicted = made["number"].predict(X)[np.argsort(targets["number"])]
    np.testing.assert_allclose(found.y_pred[order, 0], predicted)


def test_from_evaluation__takes_no_other_pass(ax, models):
    X, targets, made = models
    found = distrf.evaluate(made["three"], X, targets["three"])
    display = RocCurveDisplay.from_evaluation(found, ax=ax)
    assert display.labels == [0, 1, 2]
    assert np.mean(display.roc_auc) == pytest.approx(found["roc_auc"])
    assert CalibrationDisplay.from_evaluation(found).of == "largest probability"
    with pytest.raises(InputError, match="residuals are of a regressor"):
        ResidualsDisplay.from_evaluation(found)
    with pytest.raises(InputError, match="a ROC curve is of a classifier"):
        RocCurveDisplay.from_estimator(made["number"], X, targets["number"])


def test_precision_recall__of_the_rare_first_class(models, rng):
    X, _, _ = models
    y = np.where(X[:, 0] > 1.9, "a rare one", "common")
    model = StreamingRidgeClassifier(1e-3).fit(X, y)
    display = PrecisionRecallDisplay.from_estimator(model, X, y)
    assert display.labels == ["a rare one"]
    precision, recall, _ = metrics.precision_recall_curve(y == "a rare one", -model.decision_function(X))
    np.testing.assert_allclose(display.precision[0], precision)
    np.testing.assert_allclose(display.recall[0], recall)


def test_calibration__of_a_model_without_probabilities(models):
    X, targets, _ = models
    model = StreamingRidgeClassifier(1e-3).fit(X, targets["two"])
    with pytest.raises(InputError, match="calibrate=True"):
        CalibrationDisplay.from_estimator(model, X, targets["two"])
