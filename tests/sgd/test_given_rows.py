"""X_val and y_val: validation rows that `fit` is given, in place of held-out ones."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline

from distrf import (
    CompactNonlinearClassifier,
    CompactNonlinearMap,
    CompactNonlinearRegressor,
    RandomFourierFeatures,
    StreamingScaler,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
)
from distrf.errors import InputError, SpecMismatchError

RNG = np.random.default_rng(5)
N, M = 600, 200
X, X_VAL = RNG.normal(size=(N, 4)) + 3, RNG.normal(size=(M, 4)) + 3
WEIGHT, WEIGHT_VAL = RNG.uniform(0.5, 2, size=N), RNG.uniform(0.5, 2, size=M)


def numbers(rows):
    return np.sin(rows[:, 0]) + 0.3 * rows[:, 1]


def labels(rows):
    return np.array(["low", "mid", "high"])[np.digitize(numbers(rows), [0.5, 1.2])]


def targets_of(est):
    return (labels(X), labels(X_VAL)) if is_classifier(est) else (numbers(X), numbers(X_VAL))


ESTIMATORS = {
    "classifier": StreamingSGDClassifier(n_epochs=4, tol=None, batch_size=64),
    "regressor": StreamingSGDRegressor(n_epochs=4, tol=None, batch_size=64),
    "learned classifier": CompactNonlinearClassifier(n_components=8, n_epochs=4),
    "learned regressor": CompactNonlinearRegressor(n_components=8, n_epochs=4),
}
each = pytest.mark.parametrize("name", ESTIMATORS)


def array(values, rows=100):
    return da.from_array(values, chunks=(rows, *values.shape[1:]))


def scores(est):
    return [entry["validation_score"] for entry in est.history_]


@each
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weighted", [False, True])
def test_the_score_is_that_of_the_model(name, weighted):
    """The best epoch is kept, and its score is what `score` says of those rows, weighted if they are."""
    est = clone(ESTIMATORS[name]).set_params(early_stopping=True)
    y, y_val = targets_of(est)
    weight = {"sample_weight_val": WEIGHT_VAL} if weighted else {}
    est.fit(X, y, X_val=X_VAL, y_val=y_val, **weight)
    assert len(est.history_) == 4
    exact = est.score(X_VAL, y_val, WEIGHT_VAL if weighted else None)
    assert max(scores(est)) == pytest.approx(exact, abs=1e-5)
    assert scores(est)[est.best_epoch_ - 1] == max(scores(est))
    assert all(entry["rows"] == N for entry in est.history_)  # none is held out


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_held_out_for_calibration_are_others():
    est = StreamingSGDClassifier("hinge", n_epochs=4, tol=None, early_stopping=True, calibrate=True)
    est.fit(X, labels(X), X_val=X_VAL, y_val=labels(X_VAL))
    assert max(scores(est)) == pytest.approx(est.score(X_VAL, labels(X_VAL)))
    assert all(entry["rows"] == N - N // 10 for entry in est.history_)
    assert est.predict_proba(X_VAL).shape == (M, 3)


@each
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_without_early_stopping_they_change_nothing(name):
    est = ESTIMATORS[name]
    y, y_val = targets_of(est)
    plain, noted = clone(est).fit(X, y), clone(est).fit(X, y, X_val=X_VAL, y_val=y_val)
    np.testing.assert_array_equal(plain.coef_, noted.coef_)
    assert scores(plain) == [None] * 4
    assert all(-1 < score <= 1 for score in scores(noted))
    assert [e["loss"] for e in plain.history_] == [e["loss"] for e in noted.history_]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_they_stop_training():
    """Training ends when the given rows gain no more, though the training loss would."""
    rng = np.random.default_rng(0)
    rows, rows_val = rng.normal(size=(40, 60)), rng.normal(size=(500, 60))
    y, y_val = rng.normal(size=40), rng.normal(size=500)  # nothing to learn
    est = CompactNonlinearRegressor(n_components=64, n_epochs=200, n_iter_no_change=3, early_stopping=True)
    est.fit(rows, y, X_val=rows_val, y_val=y_val)
    assert est.n_iter_ < 200
    assert est.best_epoch_ == int(np.argmax(scores(est))) + 1
    sgd = StreamingSGDRegressor(n_epochs=200, n_iter_no_change=3, early_stopping=True, alpha=1e-8)
    sgd.fit(rows, y, X_val=rows_val, y_val=y_val)
    assert sgd.n_iter_ < 200


@each
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_lazy_is_in_memory(name):
    est = clone(ESTIMATORS[name]).set_params(early_stopping=True)
    y, y_val = targets_of(est)
    there = clone(est).fit(array(X), array(y), X_val=X_VAL, y_val=y_val)
    lazy = clone(est).fit(
        array(X), array(y), X_val=array(X_VAL, 70), y_val=array(y_val, 30), sample_weight_val=None
    )
    np.testing.assert_allclose(scores(there), scores(lazy), atol=1e-6)
    np.testing.assert_allclose(there.coef_, lazy.coef_, rtol=1e-5, atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["classifier", "learned regressor"])
def test_same_bits_for_any_workers(client, one_worker_client, name):
    est = clone(ESTIMATORS[name]).set_params(early_stopping=True)
    y, y_val = targets_of(est)

    def fitted():
        return clone(est).fit(
            array(X), array(y), X_val=array(X_VAL), y_val=array(y_val), sample_weight_val=array(WEIGHT_VAL)
        )

    two = fitted()
    with one_worker_client.as_current():
        one = fitted()
    assert scores(one) == scores(two)
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_far_rows_are_moved_like_the_training_rows():
    """A learned map subtracts large means; the given rows must follow."""
    y, y_val = numbers(X), numbers(X_VAL)
    for move in (0.0, 1e4):
        est = CompactNonlinearRegressor(n_components=8, n_epochs=3, early_stopping=True)
        est.fit(X + move, y, X_val=X_VAL + move, y_val=y_val)
        assert max(scores(est)) == pytest.approx(est.score(X_VAL + move, y_val), abs=1e-4)


def test_maps_that_learn():
    est = CompactNonlinearMap(n_components=8, objective="squared", n_epochs=3, early_stopping=True)
    est.fit(X, numbers(X), X_val=X_VAL, y_val=numbers(X_VAL))
    assert all(score is not None for score in scores(est))
    with pytest.raises(InputError, match=r"objective='kernel' learns from pairs of rows .* leave out X_val"):
        CompactNonlinearMap(n_components=8).fit(X, X_val=X_VAL, y_val=numbers(X_VAL))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("lazy", [False, True])
def test_in_a_pipeline(lazy):
    """scikit-learn transforms X_val like X where `transform_input` names it."""
    with sklearn.config_context(enable_metadata_routing=True):
        model = StreamingSGDRegressor(n_epochs=3, early_stopping=True)
        model.set_fit_request(X_val=True, y_val=True)
        steps = [
            ("scale", StreamingScaler()),
            ("map", RandomFourierFeatures(n_components=32, random_state=0)),
            ("model", model),
        ]
        pipeline = Pipeline(steps, transform_input=["X_val"])
        given = [X, numbers(X), X_VAL, numbers(X_VAL)]
        rows, y, X_val, y_val = (array(a) for a in given) if lazy else given
        pipeline.fit(rows, y, X_val=X_val, y_val=y_val)
    exact = pipeline.score(X_VAL, numbers(X_VAL))
    assert max(scores(pipeline[-1])) == pytest.approx(exact, abs=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["regressor", "learned classifier"])
def test_a_checkpoint_knows_them(name, tmp_path):
    est = clone(ESTIMATORS[name]).set_params(early_stopping=True, checkpoint=str(tmp_path / "state"))
    y, y_val = targets_of(est)
    first = clone(est).fit(X, y, X_val=X_VAL, y_val=y_val)
    again = clone(est).set_params(resume=True).fit(X, y, X_val=X_VAL, y_val=y_val)
    assert again.history_ == first.history_
    np.testing.assert_array_equal(again.coef_, first.coef_)
    for given in ({}, {"X_val": X_VAL[::-1], "y_val": y_val}, {"X_val": X_VAL, "y_val": y_val[::-1]}):
        with pytest.raises(SpecMismatchError, match="validation"):
            clone(est).set_params(resume=True).fit(X, y, **given)


@pytest.mark.parametrize("lazy", [False, True])
def test_refusals(lazy):
    est, y, y_val = StreamingSGDRegressor(), numbers(X), numbers(X_VAL)

    def fit(est, y, X_val=None, y_val=None, weight=None):
        given = [None if a is None else array(a) if lazy else a for a in (X_val, y_val, weight)]
        est.fit(X, y, X_val=given[0], y_val=given[1], sample_weight_val=given[2])

    for given in ((X_VAL, None), (None, y_val), (None, None, WEIGHT_VAL)):
        with pytest.raises(InputError, match="X_val and y_val go together"):
            fit(est, y, *given)
    with pytest.raises(InputError, match=r"X_val, y_val: X has 3 features, but .* is expecting 4"):
        fit(est, y, X_VAL[:, :3], y_val)
    with pytest.raises(InputError, match="X_val, y_val"):
        fit(est, y, X_VAL, y_val[:5])
    with pytest.raises(InputError, match=r"y_val has shape \(200, 2\), but y has 1 columns"):
        fit(est, y, X_VAL, np.c_[y_val, y_val])
    with pytest.raises(InputError, match=r"y_val has labels that are not among the classes: \['none'\]"):
        fit(StreamingSGDClassifier(), labels(X), X_VAL, np.where(X_VAL[:, 0] > 4, "none", labels(X_VAL)))
    bad = X_VAL.copy()
    bad[150, 2] = np.nan
    with pytest.raises(InputError, match="NaN"):
        fit(est, y, bad, y_val)
    with pytest.raises(InputError, match=r"finite|NaN"):
        fit(est, y, X_VAL, np.where(np.arange(M) == 150, np.nan, y_val))
    with pytest.raises(InputError, match=r"[Nn]egative|got -1 in row 150"):
        fit(StreamingSGDClassifier(), labels(X), X_VAL, labels(X_VAL), np.where(np.arange(M) == 150, -1.0, 1.0))


def test_one_class_in_the_given_rows():
    """A share of right labels needs not all classes."""
    est = StreamingSGDClassifier(n_epochs=2, tol=None).fit(
        X, labels(X), X_val=X_VAL[:3], y_val=np.array(["low", "low", "mid"])
    )
    assert all(0 <= score <= 1 for score in scores(est))
