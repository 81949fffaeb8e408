"""What every trained model does: a solver with a loss is one row of SOLVERS, a kind of rows one of FORMS, a wrong input one of REFUSED."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from distrf import (
    CompactNonlinearClassifier,
    CompactNonlinearRegressor,
    StreamingLinearClassifier,
    StreamingLinearRegressor,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
)
from distrf.errors import InputError, SpecMismatchError
from distrf.execution.row_blocks import ARRAYS_PREFIX

A, N, D = 1e-3, 600, 5
NAMES = np.array(["red", "green", "blue", "grey"])


@dataclass(frozen=True)
class Solver:
    model: Any
    #: Total weight -> an estimator of others with the same minimum.
    reference: Callable | None = None
    #: Of weights, against the reference, repeated rows and other forms of rows; None: steps follow the blocks, and scores are alike.
    atol: float | None = 1e-6
    #: Options with which it keeps a checkpoint, and one that makes another job; None: it takes none.
    kept: dict | None = None
    classes: int = 2


def by_passes(model, reference=None, atol=1e-4, classes=2):
    return Solver(model, reference, atol, {"alpha": 2 * A}, classes)


LOGISTIC = {"tol": 1e-10, "max_iter": 5000}
NARROW = {"n_components": 8, "n_epochs": 2, "random_state": 0}
SGD = {"alpha": A, "n_epochs": 4, "tol": None, "random_state": 0}
SOLVERS = {
    "ridge": Solver(StreamingRidge(A), lambda w: Ridge(w * A)),
    "ridge of several alphas": Solver(StreamingRidge((A, 10.0), cv="holdout"), lambda w: Ridge(w * A)),
    "ridge that is calibrated and kept": Solver(StreamingRidge(A, calibrate=True, keep_state=True), lambda w: Ridge(w * A)),
    "ridge by passes": by_passes(StreamingRidge(A, solver="passes", tol=1e-10), lambda w: Ridge(w * A)),
    "ridge classifier": Solver(StreamingRidgeClassifier(A), lambda w: RidgeClassifier(w * A), classes=4),
    "ridge classifier that is calibrated": Solver(StreamingRidgeClassifier(A, calibrate=True), lambda w: RidgeClassifier(w * A)),
    "passes squared": by_passes(StreamingLinearRegressor("squared", alpha=A, tol=1e-12), lambda w: Ridge(w * A)),
    "passes huber": by_passes(StreamingLinearRegressor(alpha=A, tol=1e-10), None, 2e-3),
    "passes logistic": by_passes(StreamingLinearClassifier("logistic", alpha=A, tol=1e-10), lambda w: LogisticRegression(C=1 / (w * A), **LOGISTIC)),
    "passes multinomial": by_passes(StreamingLinearClassifier(alpha=A, tol=1e-10), lambda w: LogisticRegression(C=1 / (w * A), **LOGISTIC), 1e-3, 4),
    "passes squared hinge": by_passes(
        StreamingLinearClassifier("squared_hinge", alpha=A, tol=1e-10, fit_intercept=False),
        lambda w: LinearSVC(C=1 / (w * A), dual=False, fit_intercept=False, tol=1e-10, max_iter=10_000), 1e-3),
    "sgd hinge": Solver(StreamingSGDClassifier(**SGD), None, None, {"alpha": 2 * A}, 4),
    "sgd logistic that is calibrated": Solver(StreamingSGDClassifier("squared_hinge", calibrate=True, **SGD), None, None, {"alpha": 2 * A}),
    "sgd squared": Solver(StreamingSGDRegressor(early_stopping=True, **SGD), None, None, {"alpha": 2 * A}),
    "sgd huber that is calibrated": Solver(StreamingSGDRegressor("huber", calibrate=True, **SGD), None, None, {"alpha": 2 * A}),
    "learned classifier": Solver(CompactNonlinearClassifier(**NARROW), None, None, {"alpha": 0.5}, 4),
    "learned regressor": Solver(CompactNonlinearRegressor(**NARROW), None, None, {"alpha": 0.5}),
}  # fmt: skip
every = pytest.mark.parametrize("name", SOLVERS)
exact = pytest.mark.parametrize("name", [name for name, solver in SOLVERS.items() if solver.atol is not None])
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::distrf.linear_model.calibration.CalibrationWarning"),
]
FORMS = {
    "float32": lambda X: X.astype("f4"),
    "csr": sp.csr_array,
    "dask": lambda X: da.from_array(X, chunks=(150, -1)),
    "dask csr": lambda X: da.from_array(X, chunks=(150, -1)).map_blocks(sp.csr_array),
    "blocks without rows": lambda X: da.from_array(X, chunks=((0, 1, 0, 399, 200), -1)),
    "fortran": np.asfortranarray,
}


def problem(name, n=N, far=0.5):
    """Rows, targets or labels that are text, and weights."""
    rng = np.random.default_rng([n, D])
    X = rng.normal(size=(n, D)) + far
    scores = X @ [1.0, -1.0, 0.5, 0.0, 2.0] + 0.3 * rng.normal(size=n)
    solver = SOLVERS[name]
    if is_classifier(solver.model):
        scores = NAMES[np.digitize(scores, np.quantile(scores, np.arange(1, solver.classes) / solver.classes))]
    return X, scores, rng.uniform(0.5, 2.0, size=n)


def fitted(name, X, y, w=None, **options):
    if isinstance(X, da.Array):
        y = da.from_array(y, chunks=X.chunks[0])
    return clone(SOLVERS[name].model).set_params(**options).fit(X, y, sample_weight=w)


def assert_alike(name, one, other, X, y):
    atol = SOLVERS[name].atol
    if atol is None:
        assert one.score(X, y) == pytest.approx(other.score(X, y), abs=0.1)
        return
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=0, atol=max(atol, 1e-5))
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=0, atol=max(atol, 1e-5))


FOLDS = "rows are held out by their numbers: a repeated row otherwise than its weighted twin; and cv takes no list of splits"
SIGMOIDS = "the largest score decides the label, and the sigmoids of the classes may cross elsewhere"
FEW = "none of the five rows with weight is held out, and so it says"


def expected_failures(model):
    found = {}
    if (
        getattr(model, "calibrate", False)
        or model.alpha == "auto"
        or np.ndim(model.alpha)
        or hasattr(model, "cv")
    ):
        found |= {f"check_sample_weight_equivalence_on_{kind}_data": FOLDS for kind in ("dense", "sparse")}
    if getattr(model, "calibrate", False):
        found["check_classifiers_train"] = SIGMOIDS
    if getattr(model, "cv", None) == "holdout":
        found["check_classifiers_one_label_sample_weights"] = FEW
    return found


@parametrize_with_checks(
    [
        StreamingRidge(), StreamingRidge(alpha=(0.01, 1.0)), StreamingRidge(alpha=0.1, fit_intercept=False),
        StreamingRidge(1e-2, calibrate=True, keep_state=True),
        StreamingRidgeClassifier(), StreamingRidgeClassifier(alpha=(0.01, 1.0), cv="holdout"),
        StreamingRidgeClassifier(class_weight="balanced"), StreamingRidgeClassifier(1e-2, calibrate=True, keep_state=True),
        StreamingLinearClassifier(), StreamingLinearClassifier("squared_hinge", alpha=A), StreamingLinearClassifier("logistic", alpha=A),
        StreamingLinearRegressor(), StreamingLinearRegressor("squared", alpha=A),
        StreamingSGDClassifier(), StreamingSGDClassifier("multinomial", alpha=A), StreamingSGDClassifier(calibrate=True),
        StreamingSGDRegressor(), StreamingSGDRegressor("huber", alpha=1e-4), StreamingSGDRegressor(calibrate=True),
    ],
    expected_failed_checks=expected_failures,
)  # fmt: skip
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@exact
@pytest.mark.parametrize("weighted", [False, True])
def test_the_minimum_of_others(name, weighted):
    solver = SOLVERS[name]
    X, y, w = problem(name)
    if solver.reference is None or (weighted and isinstance(solver.reference(N), LinearSVC)):
        pytest.skip("nobody else has this loss, or scales it so")
    peer = solver.reference(w.sum() if weighted else N).fit(X, y, w if weighted else None)
    ours = fitted(name, X, y, w if weighted else None)
    np.testing.assert_allclose(np.ravel(ours.coef_), np.ravel(peer.coef_), atol=solver.atol)
    np.testing.assert_allclose(np.ravel(ours.intercept_), np.ravel(peer.intercept_), atol=10 * solver.atol)
    np.testing.assert_array_equal(getattr(ours, "classes_", 0), getattr(peer, "classes_", 0))


@every
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_rows(name, form):
    X, y, w = problem(name)
    assert_alike(name, fitted(name, FORMS[form](X), y, w), fitted(name, X, y, w), X, y)


@pytest.mark.parametrize("name", ["ridge", "passes squared", "passes logistic", "sgd squared"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool])
def test_whole_numbers_are_rows_in_their_working_dtype(name, dtype):
    X = np.random.default_rng(0).integers(0, 2 if dtype is bool else 200, size=(N, D)).astype(dtype)
    y = (
        NAMES[(X[:, 0] > X[:, 1]).astype(int)]
        if is_classifier(SOLVERS[name].model)
        else X[:, 0] - 1.0 * X[:, 1]
    )
    lazy = da.from_array(X, chunks=(150, -1))
    found, wide = (fitted(name, rows, y) for rows in (lazy, lazy.astype("f8" if dtype is np.int64 else "f4")))
    np.testing.assert_allclose(found.coef_, wide.coef_, rtol=1e-3, atol=1e-6 * abs(wide.coef_).max())


@exact
def test_weights_repeat_rows(name):
    if getattr(SOLVERS[name].model, "calibrate", False) or np.ndim(SOLVERS[name].model.alpha):
        pytest.skip("repeated rows are held out otherwise")
    X, y, _ = problem(name)
    w = np.arange(N) % 3
    assert_alike(name, fitted(name, X, y, 1.0 * w), fitted(name, np.repeat(X, w, 0), np.repeat(y, w)), X, y)


@pytest.mark.parametrize("name", [name for name, solver in SOLVERS.items() if is_classifier(solver.model)])
@pytest.mark.parametrize("class_weight", ["balanced", {"red": 3.0}])
def test_weights_of_classes_are_weights_of_their_rows(name, class_weight):
    X, y, w = problem(name)
    X, y, w = X[100:], y[100:], np.where(y == "red", 2.0, 1.0)[100:]
    names = np.unique(y)
    total = {label: w[y == label].sum() for label in names}
    each = (
        {label: w.sum() / (len(names) * total[label]) for label in names}
        if class_weight == "balanced"
        else class_weight
    )
    factor = np.array([each.get(label, 1.0) for label in y])
    one, other = fitted(name, X, y, w, class_weight=class_weight), fitted(name, X, y, w * factor)
    assert_alike(name, one, other, X, y)


@every
def test_predictions_are_lazy(name):
    """One pass is one score, and what was learned travels once."""
    X, y, w = problem(name)
    model, lazy = fitted(name, X, y), da.from_array(X, chunks=(150, -1))
    unread = lazy.map_blocks(lambda block: pytest.fail("a block was read"), meta=X[:0])
    for method in ("predict", "decision_function", "predict_proba", "predict_interval"):
        if hasattr(model, method):
            made = getattr(model, method)(unread)
            assert made.chunks[0] == (150,) * 4
            learned = sum(str(key).startswith(ARRAYS_PREFIX) for key in dict(made.__dask_graph__()))
            assert learned == 1 + ("learned" in name)  # a map of its own
            now = getattr(model, method)(X)
            made = getattr(model, method)(lazy).compute()
            assert made.dtype == now.dtype
            assert (
                (made == now).all() if now.dtype.kind == "U" else np.allclose(made, now, rtol=1e-6, atol=1e-9)
            )
    score = accuracy_score if is_classifier(model) else r2_score
    known = score(y, model.predict(X), sample_weight=w)
    for given in ((X, y, w), (lazy, da.from_array(y, chunks=90), w)):
        assert model.score(*given) == pytest.approx(known, abs=1e-9)


@pytest.mark.parametrize(
    "labelled", [np.array([3, -1]), np.array([False, True]), np.array([0.0, 2.0]), np.array(["a", "bcd"])]
)
@pytest.mark.parametrize("name", ["ridge classifier", "passes logistic", "sgd hinge", "learned classifier"])
def test_labels_of_every_type(name, labelled):
    X, y, _ = problem(name)
    y = labelled[(X[:, 0] > np.median(X[:, 0])).astype(int)]
    lazy = da.from_array(X, chunks=(150, -1))
    one, two = fitted(name, X, y), fitted(name, lazy, y)
    assert one.classes_.dtype == two.classes_.dtype == two.predict(lazy).dtype == labelled.dtype
    assert (one.predict(X) == y).mean() > 0.6  # five deviations from a half


@every
def test_same_bits_for_one_and_two_workers(name, client, one_worker_client):
    X, y, _ = problem(name, 2000)
    made = []
    for workers in (client, one_worker_client):
        with workers.as_current():
            lazy = da.from_array(X, chunks=(130, -1))
            model = fitted(name, lazy, y)
            made.append(
                (model.coef_.tobytes(), pickle.dumps(getattr(model, "calibration_", 0)), model.score(lazy, y))
            )
    assert made[0] == made[1]


@pytest.mark.parametrize("name", [name for name, solver in SOLVERS.items() if solver.kept])
@pytest.mark.parametrize("changed", ["rows", "targets", "weights", "option"])
def test_a_checkpoint_is_of_one_job(name, changed, tmp_path):
    X, y, w = problem(name)
    options = {"checkpoint": str(tmp_path / "c")} | (
        {"resume": True} if "resume" in SOLVERS[name].model.get_params() else {}
    )
    first = fitted(name, X, y, w, **options)
    assert (
        fitted(name, X, y, w, **options).coef_.tobytes()
        == first.coef_.tobytes()
        == fitted(name, X, y, w).coef_.tobytes()
    )
    other = {"rows": (X[::-1], y, w), "targets": (X, y[::-1], w), "weights": (X, y, w[::-1])}.get(
        changed, (X, y, w)
    )
    with pytest.raises(SpecMismatchError):
        fitted(name, *other, **options | (SOLVERS[name].kept if changed == "option" else {}))


def with_one(value, place=16):
    def change(a):
        a = a.copy()
        a[(place, 1) if a.ndim == 2 else place] = value
        return a

    return change


BOTH, NUMBERS, LABELS = "both", "numbers", "labels"
#: Of whom, what is changed in rows, targets and weights, whether the rows are lazy, and the words of the message.
REFUSED = {
    "rows with NaN": (BOTH, lambda X, y, w: (with_one(np.nan)(X), y, w), (False, True), "NaN|row 16"),
    "rows with infinity": (BOTH, lambda X, y, w: (with_one(np.inf)(X), y, w), (False, True), "infinity|row 16"),
    "rows of one dimension": (BOTH, lambda X, y, w: (X[:, 0], y, w), (False, True), "Expected 2D array"),
    "fewer targets": (BOTH, lambda X, y, w: (X, y[:-1], w), (True,), "y must have as many rows as X, got 599 and 600"),
    "fewer targets in memory": (BOTH, lambda X, y, w: (X, y[:-1], w), (False,), "inconsistent numbers of samples"),
    "fewer weights": (BOTH, lambda X, y, w: (X, y, w[:-1]), (True,), "sample_weight must have as many rows as X, got 599 and 600"),
    "no targets": (BOTH, lambda X, y, w: (X, None, w), (False, True), "requires y to be passed"),
    "lazy targets of rows in memory": (BOTH, lambda X, y, w: (X, da.from_array(y), w), (False,), "X is in memory, but y or sample_weight is a Dask array"),
    "targets with NaN": (NUMBERS, lambda X, y, w: (X, with_one(np.nan)(y), w), (False, True), "y contains NaN|y must be finite, but row 16 of the block"),
    "weights with NaN": (BOTH, lambda X, y, w: (X, y, with_one(np.nan)(w)), (True,), "sample_weight must hold one finite number >= 0 for each row"),
    "negative weights": (BOTH, lambda X, y, w: (X, y, -w), (True,), "sample_weight must hold one finite number >= 0 for each row"),
    "weights of zero": (BOTH, lambda X, y, w: (X, y, 0 * w), (False, True), "must not be zero everywhere|at least one non-zero"),
    "one class": (LABELS, lambda X, y, w: (X, np.full(N, 3), w), (False, True), r"at least 2 classes, got 1 class: \[3\]"),
    "numbers as labels": (LABELS, lambda X, y, w: (X, X[:, 0], w), (False, True), "Unknown label type: continuous"),
    "two columns of labels": (LABELS, lambda X, y, w: (X, np.zeros((N, 2), int), w), (True,), r"one column, got y of shape \(n, 2\)"),
    "text as numbers": (NUMBERS, lambda X, y, w: (X, np.full(N, "a"), w), (True,), "needs numbers as y, got"),
    "complex targets": (BOTH, lambda X, y, w: (X, np.ones(N, "c16"), w), (False, True), "y must hold numbers, booleans or text"),
    "dates as targets": (BOTH, lambda X, y, w: (X, np.arange(N).astype("M8[D]"), w), (False, True), "y must hold numbers, booleans or text"),
    "rows of text": (BOTH, lambda X, y, w: (X.astype(str), y, w), (False, True), "numeric|text|could not convert"),
    "complex rows": (BOTH, lambda X, y, w: (X + 1j, y, w), (False, True), "numeric|[Cc]omplex"),
    "no columns": (BOTH, lambda X, y, w: (X[:, :0], y, w), (False, True), "0 feature"),
    "targets beyond squares": (NUMBERS, lambda X, y, w: (X, 1e200 * y, w), (False,), r"y must be at most 1e\+140"),
}  # fmt: skip


@every
@pytest.mark.parametrize("case", REFUSED)
def test_refused(name, case):
    whose, change, kinds, words = REFUSED[case]
    if whose == (NUMBERS if is_classifier(SOLVERS[name].model) else LABELS):
        return
    X, y, w = change(*problem(name))
    for lazy in kinds:
        with pytest.raises((ValueError, TypeError), match=words):
            clone(SOLVERS[name].model).fit(da.from_array(X, chunks=150) if lazy else X, y, sample_weight=w)


@every
def test_rows_that_are_refused_in_prediction(name):
    X, y, _ = problem(name)
    model, lazy = fitted(name, X, y), da.from_array(with_one(np.inf)(X), chunks=(150, -1))
    with pytest.raises(InputError, match=f"X has 3 features, but {type(model).__name__} is expecting 5"):
        model.predict(lazy[:, :3])
    with (
        dask.config.set(scheduler="sync"),
        pytest.raises(InputError, match="row 16 of the block, column 1 is infinity"),
    ):
        model.predict(lazy).compute()


@pytest.mark.parametrize("name", [name for name, solver in SOLVERS.items() if is_classifier(solver.model)])
def test_class_weights_that_are_refused(name):
    X, y, _ = problem(name)
    for weight, words in (
        ({"pink": 1.0}, "class_weight names labels that y lacks: .*pink"),
        ("even", "class_weight must be"),
    ):
        with pytest.raises(InputError, match=words):
            fitted(name, X, y, class_weight=weight)
