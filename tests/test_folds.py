"""Folds that are given with the rows: what each estimator holds out, against explicit computation."""

from __future__ import annotations

import itertools

import dask.array as da
import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone, is_regressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, PredefinedSplit

from distrf import (
    CompactNonlinearClassifier,
    CompactNonlinearMap,
    CompactNonlinearRegressor,
    StreamingLinearRegressor,
    StreamingRidge,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
    TableEncoder,
    open_table,
)
from distrf.errors import InputError, SpecMismatchError
from distrf.folds import given_folds
from distrf.linear_model.base import loss_of
from distrf.maps import WithColumns
from distrf.maps.table_columns import FOLDS, TargetMeans
from distrf.sgd.alpha import sample_alpha
from distrf.targets import class_targets, regression_targets

#: Epochs are few, and the map of some is small.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ALPHAS = [1e-3, 1e-2, 1e-1, 1.0]
N, GROUPS = 600, 24
RNG = np.random.default_rng(0)
GROUP = RNG.integers(0, GROUPS, N)
X = RNG.normal(size=(N, 12)) + RNG.normal(size=(GROUPS, 12))[GROUP]
Y = X[:, 0] + RNG.normal(size=GROUPS)[GROUP] + RNG.normal(size=N)
LABELS = np.where(Y > 0, "above", "below")


def group_folds(k=4):
    """The test fold of each row in scikit-learn's GroupKFold."""
    folds = np.empty(N, dtype=int)
    for f, (_, held) in enumerate(GroupKFold(k).split(X, Y, GROUP)):
        folds[held] = f
    return folds


BY_GROUP = group_folds()
LATEST = np.where(np.arange(N) >= 480, 0, -1)
SOME_NEVER = np.where(GROUP < 6, -1, BY_GROUP)
CASES = {"groups": BY_GROUP, "latest": LATEST, "some never": SOME_NEVER}


def lazy(a, rows):
    return da.from_array(a, chunks=(rows, *a.shape[1:]))


def explicit_errors(folds, y, weight=None):
    """Mean squared error of each alpha over all held-out rows; scikit-learn's alpha is ours times the weight."""
    errors, w = [], np.ones(N) if weight is None else weight
    for alpha in ALPHAS:
        total = 0.0
        for train, held in PredefinedSplit(folds).split():
            model = Ridge(alpha=alpha * w[train].sum()).fit(X[train], y[train], sample_weight=w[train])
            total += w[held] @ (model.predict(X[held]) - y[held]) ** 2
        errors.append(total / w[folds >= 0].sum())
    return np.array(errors)


# --------------------------------------------------------------------- ridge
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_compares_alphas_as_scikit_learn_with_predefined_folds(name, weighted):
    folds = CASES[name]
    weight = np.random.default_rng(1).uniform(0.5, 2.0, N) if weighted else None
    expected = explicit_errors(folds, Y, weight)
    model = StreamingRidge(ALPHAS).fit(X, Y, weight, folds)
    np.testing.assert_allclose(model.cv_errors_, expected, rtol=1e-9)
    assert model.alpha_ == ALPHAS[int(np.argmin(expected))]
    for rows, own in ((100, 100), (37, 250)):  # the chunks of the folds need not be those of the rows
        more = None if weight is None else lazy(weight, 77)
        other = StreamingRidge(ALPHAS).fit(lazy(X, rows), lazy(Y, rows), more, lazy(folds, own))
        np.testing.assert_allclose(other.cv_errors_, expected, rtol=1e-9)
    held_out = StreamingRidge(ALPHAS, cv="holdout").fit(X, Y, weight, folds)  # fold 0 alone
    first = explicit_errors(np.where(folds == 0, 0, -1), Y, weight)
    np.testing.assert_allclose(held_out.cv_errors_, first, rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_ridge_calibrates_on_rows_of_other_folds(name):
    folds = CASES[name]
    model = StreamingRidge(0.01, calibrate=True).fit(lazy(X, 100), lazy(Y, 100), folds=lazy(folds, 100))
    errors = []
    for train, held in PredefinedSplit(folds).split():
        other = Ridge(alpha=0.01 * len(train)).fit(X[train], Y[train])
        errors.append(np.abs(other.predict(X[held]) - Y[held]))
    np.testing.assert_allclose(model.calibration_[:, 0], np.sort(np.concatenate(errors)), rtol=1e-6)


def test_what_ridge_cannot_do_with_folds_it_refuses():
    with pytest.raises(InputError, match="cv=3 asks for as many folds, but folds has 4"):
        StreamingRidge(ALPHAS, cv=3).fit(X, Y, folds=BY_GROUP)
    with pytest.raises(InputError, match="keep_state"):
        StreamingRidge(ALPHAS, keep_state=True).fit(X, Y, folds=BY_GROUP)
    assert StreamingRidge(ALPHAS, cv=4).fit(X, Y, folds=BY_GROUP).cv_errors_ is not None


# ----------------------------------------------------------------------- SGD
LEARNED = {"n_components": 8, "early_stopping": True, "n_epochs": 4, "batch_size": 100}
STOPPED = {
    "sgd": (StreamingSGDRegressor(early_stopping=True, n_epochs=5, batch_size=64), Y),
    "sgd classifier": (StreamingSGDClassifier(early_stopping=True, n_epochs=5, batch_size=64), LABELS),
    "learned regressor": (CompactNonlinearRegressor(**LEARNED), Y),
    "learned classifier": (CompactNonlinearClassifier(**LEARNED), LABELS),
    "learned map": (CompactNonlinearMap(objective="squared", **LEARNED), Y),
    "learned map with columns": (WithColumns(CompactNonlinearMap(objective="squared", **LEARNED)), Y),
}


@pytest.mark.parametrize("model", STOPPED)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rows", [None, 90])
def test_sgd_stops_by_the_rows_of_fold_0_alone(model, name, rows):
    (model, y), folds = STOPPED[model], CASES[name]
    arrays = (X, y, folds) if rows is None else tuple(lazy(a, rows) for a in (X, y, folds))
    fitted = clone(model).fit(arrays[0], arrays[1], folds=arrays[2])
    fitted, held = getattr(fitted, "base_", fitted), folds == 0
    assert {entry["rows"] for entry in fitted.history_} == {N - held.sum()}
    if hasattr(fitted, "predict"):
        numbers = is_regressor(fitted)
        targets = regression_targets(y, None) if numbers else class_targets(y, None, None)
        scores = (
            fitted.predict(X[held])[:, None] - targets.centre if numbers else fitted.decision_function(X[held])
        )
        loss = loss_of(fitted.loss, targets)(scores.reshape(held.sum(), -1), targets.encode(y[held], None)[0])[
            0
        ]
        best = fitted.history_[fitted.best_epoch_ - 1]["validation_loss"]
        assert best == pytest.approx(loss.mean(), rel=1e-5)
        assert best == min(entry["validation_loss"] for entry in fitted.history_)


@pytest.mark.parametrize("model", [StreamingSGDRegressor(n_epochs=1), StreamingLinearRegressor("squared")])
def test_given_folds_choose_the_penalty(model):
    """Columns that tell groups apart: rows of a known group are predicted by a small alpha, new groups are not."""
    rng = np.random.default_rng(3)
    marks, effect = rng.normal(size=(GROUPS, 60)), 3 * rng.normal(size=GROUPS)
    Z, y = marks[GROUP] + 0.1 * rng.normal(size=(N, 60)), effect[GROUP] + 0.3 * rng.normal(size=N)
    at_random, by_group = (clone(model).fit(Z, y, folds=folds).alpha_ for folds in (None, group_folds(5)))
    assert by_group > 20 * at_random


@pytest.mark.parametrize(("fold", "said"), [(-1, "none"), (0, "all")])
def test_some_sampled_rows_are_held_out_and_some_are_not(fold, said):
    with pytest.raises(InputError, match=f"fold 0 is held out, and it has {said} of them"):
        sample_alpha(X, Y[:, None], None, N, 0, folds=np.full(N, fold))


@pytest.mark.parametrize(
    ("model", "more"),
    [
        (StreamingRidge(ALPHAS, solver="passes"), {}),
        (StreamingSGDRegressor(n_epochs=2, early_stopping=True), {"n_epochs": 3}),
    ],
)
def test_a_checkpoint_of_other_folds_is_refused(tmp_path, model, more):
    model.set_params(checkpoint=tmp_path / "c").fit(X, Y, folds=BY_GROUP)
    with pytest.raises(SpecMismatchError):
        model.set_params(**more).fit(X, Y, folds=(BY_GROUP + 1) % 4)


# -------------------------------------------------------------- target means


@pytest.mark.parametrize("crossing", ["rows", "folds", "later"])
def test_target_means_of_other_folds(crossing):
    rng = np.random.default_rng(2)
    sums, totals = rng.uniform(1, 2, (3, FOLDS, 2)), rng.uniform(4, 8, (FOLDS, 2))
    means = TargetMeans.of_sums(0, np.arange(3.0), sums, totals, 2.0, crossing).means
    for fold in range(FOLDS + 1):
        others = [
            f for f in range(FOLDS) if f != fold and not (crossing == "later" and f == 0 and fold < FOLDS)
        ]
        known = others
        if crossing != "rows":
            known = [f for f in range(FOLDS) if not (crossing == "later" and f == 0 and fold < FOLDS)]
        mean = totals[known, 1].sum() / totals[known, 0].sum()
        expected = (sums[:, others, 1].sum(axis=1) + 2.0 * mean) / (sums[:, others, 0].sum(axis=1) + 2.0)
        np.testing.assert_allclose(means[fold, :-1, 0], expected)
        np.testing.assert_allclose(means[fold, -1, 0], mean)


@pytest.mark.parametrize("chunks", [None, 100, 91])
def test_encoder_crosses_by_given_folds(chunks):
    """A level that is in one group says nothing at training; without folds it tells the target of its group."""
    n, names = 3000, np.array([f"town {g:02d}" for g in range(50)])
    rng = np.random.default_rng(4)
    group = rng.integers(0, 50, n)
    y, folds = rng.normal(size=50)[group] + 0.1 * rng.normal(size=n), group % 5
    coded = open_table(pa.table({"town": names[group], "x": rng.normal(size=n)}))
    columns = {"town": "category", "x": "number"}
    encoder = TableEncoder(schema=coded.schema.spec(), columns=columns, max_levels=10)
    arrays = (coded.rows(), y, folds)
    rows, targets, given = (
        arrays if chunks is None else (lazy(a, k) for a, k in zip(arrays, (chunks, 100, 70), strict=True))
    )
    crossed, plain = (
        np.asarray(encoder.fit_transform(rows, targets, **more)) for more in ({"folds": given}, {})
    )
    town = list(encoder.get_feature_names_out()).index("town_mean")
    assert np.ptp(crossed[:, town]) < 1e-6 < 0.9 < np.corrcoef(plain[:, town], y)[0, 1]


# -------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("folds", "message"),
    [
        (np.zeros(N), "whole numbers"),
        (np.zeros((N, 1), int), "whole numbers"),
        (BY_GROUP[:-1], "as many rows"),
        (np.where(BY_GROUP == 1, 5, BY_GROUP), "numbered from 0"),
        (np.full(N, -1), "all rows are -1"),
        (np.zeros(N, int), "none are left to train on"),
        (BY_GROUP - 2, "row"),
        (BY_GROUP + 200, "row 0"),
        (lazy(BY_GROUP, 100), "compute"),
    ],
)
def test_folds_that_are_none(folds, message):
    with pytest.raises(InputError, match=message):
        StreamingRidge(ALPHAS).fit(X, Y, folds=folds)


@pytest.mark.parametrize("rows", [None, 64, 100, 600])
def test_training_rows_of_blocks(rows):
    values = BY_GROUP if rows is None else lazy(BY_GROUP, rows)
    given = given_folds(X if rows is None else lazy(X, rows), values)
    assert given.counts == tuple(np.bincount(BY_GROUP))
    assert given.never == 0
    for blocks in ([600], [100] * 6, [90] * 6 + [60], [0, 1, 599, 0]):
        ends = np.cumsum([0, *blocks])
        expected = [int((BY_GROUP[a:b] != 0).sum()) for a, b in itertools.pairwise(ends)]
        assert given.trained(blocks) == tuple(expected)
