"""Weights of rows, from a column or an array: read, checked with the row, and counted in all that is judged."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, log_loss
from stored_arrays import fill

from distrf import (
    StreamingRidge,
    StreamingRidgeClassifier,
    evaluate,
    ingest,
    make_model,
    open_rows,
    train,
    tune,
)
from distrf.errors import InputError
from distrf.pipeline.judge import ridge
from distrf.pipeline.rows import open_input
from distrf.pipeline.sample import read_sample

N = 600
RNG = np.random.default_rng(4)
X = RNG.normal(size=(N, 3))
Y = X[:, 0] - 0.5 * X[:, 1] + 0.1 * RNG.normal(size=N)
WEIGHT = RNG.integers(1, 4, size=N).astype(float)
LABELS = np.where(Y > 0, "up", "down")


def parquet(path, weight=WEIGHT, **more):
    columns = {"a": X[:, 0], "w": weight, "b": X[:, 1], "c": X[:, 2], "y": Y, **more}
    pq.write_table(pa.table(columns), path, row_group_size=200)
    return str(path)


# ---- reading ----------------------------------------------------------------------------------------


def test_a_column_of_parquet_or_of_zarr_or_an_array(tmp_path):
    path = parquet(tmp_path / "rows.parquet")
    ingest(path, tmp_path / "rows.zarr", target="y")
    fill(tmp_path / "others.zarr", {"X": X, "y": Y, "mass": WEIGHT}, 100)
    places = {path: ("y", "w"), tmp_path / "rows.zarr": (None, "w"), tmp_path / "others.zarr": (None, "mass")}
    for place, (target, weight) in places.items():
        rows, y, weights = open_rows(place, target=target, weight=weight)
        data = open_input(str(place), target, sample_weight=weight)
        for found, wanted in (
            (rows, X),
            (data.rows()[0], X),
            (y, Y),
            (weights, WEIGHT),
            (data.weights, WEIGHT),
        ):
            np.testing.assert_array_equal(found.compute(), wanted)
        assert weights.chunks[0] == rows.chunks[0]
        assert data.description["weight"] == weight
    rows, _, weight = open_rows(path, weight="w", columns=["b"])
    assert (rows.shape, len(open_rows(path, target="y"))) == ((N, 1), 2)
    assert open_input(path, "y").weights is None
    assert "weight" not in open_input(path, "y").description


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"target": "y", "weight": "y", "columns": ["a"]}, "the weight 'y' is the target"),
        ({"target": "y", "weight": "w", "columns": ["a", "w"]}, "the weight 'w' is among columns="),
        ({"target": "label", "weight": "none", "columns": ["a"]}, "none"),
        ({"target": "y", "weight": "label", "columns": ["a"]}, "one number for each row; 'label' has shape"),
        ({"zarr": True, "weight": "many"}, "one value a row; 'many' of"),
        ({"zarr": True, "weight": "none"}, "column 'none' is not in"),
    ],
)
def test_columns_that_are_no_weight(options, match, tmp_path):
    path = parquet(tmp_path / "rows.parquet", label=LABELS)
    if options.pop("zarr", False):
        path = tmp_path / "others.zarr"
        fill(path, {"X": X, "many": X}, 100)
    with pytest.raises(InputError, match=match):
        open_rows(path, **options)


@pytest.mark.parametrize(("bad", "said"), [(-2.0, "-2"), (np.nan, "nan"), (np.inf, "inf")])
def test_the_row_of_a_bad_weight_is_named(tmp_path, bad, said):
    weight = WEIGHT.copy()
    weight[417] = bad
    rows, y, lazy = open_rows(
        parquet(tmp_path / "rows.parquet", weight), target="y", weight="w", rows_per_block=200
    )
    with pytest.raises(InputError, match=f"got {said} in row 417; mend or drop"):
        StreamingRidge().fit(rows, y, lazy)
    model = StreamingRidge().fit(rows, y)
    with pytest.raises(InputError, match=rf"got {said} in row 17; .*\[block: rows 400 to 599\]"):
        evaluate(model, rows, y, sample_weight=lazy)
    with pytest.raises(InputError, match=f"got {said} in row 417"):
        tune(X, Y, map=None, grid={"alpha": [1e-3]}, sample_weight=weight)


# ---- what is judged ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [20, 60, 120])  # fewer rows than columns go by the kernel matrix
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_ridge_of_the_race(n, kind):
    """That of StreamingRidge, and a weight is so many copies of the row."""
    Z = np.random.default_rng(1).normal(size=(n, 30)).astype(np.float32)
    y, w = Y[:n, None], WEIGHT[:n]
    times = w.astype(int)
    alphas = [1e-2, 1.0]
    weighted = ridge(kind(Z.copy()), y, w, alphas)  # which it overwrites
    repeated = ridge(kind(Z.repeat(times, axis=0)), y.repeat(times, axis=0), None, alphas)
    for alpha, scores, others in zip(alphas, weighted.scores(Z), repeated.scores(Z), strict=True):
        exact = StreamingRidge(alpha).fit(Z.astype(float), y[:, 0], w).predict(Z)
        np.testing.assert_allclose(scores[:, 0], exact, atol=2e-4)
        np.testing.assert_allclose(scores, others, atol=2e-4)


@pytest.mark.parametrize("lazy", [False, True])
def test_choices_follow_the_weights(lazy):
    """Two kinds of rows: the light ones are linear in the columns, the heavy ones are not."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1500, 2))
    heavy = rng.uniform(size=1500) < 0.3
    y = np.where(heavy, np.sin(3 * rows[:, 0]), rows[:, 0] * 2) + 0.05 * rng.normal(size=1500)
    rows = np.c_[rows, heavy]
    for weight, linear in ((np.where(heavy, 1e-3, 1.0), True), (np.where(heavy, 1.0, 1e-3), False)):
        given = [rows, y, weight]
        if lazy:
            given = [da.from_array(a, chunks=(500, *a.shape[1:])) for a in given]
        options = {"n_components": 256, "set": {"map__length_scale": 0.7}, "scale": "none", "random_state": 0}
        made = train(given[0], given[1], sample_weight=given[2], **options)
        first = made.training_.baseline[0]
        assert (first.linear > 0.95) == linear
        score = made.score(rows, y, weight)
        assert score > 0.9
        assert first.chosen == pytest.approx(score, abs=0.1)
        chosen = make_model(given[0], given[1], sample_weight=given[2], **options)
        assert repr(chosen) == repr(make_model(rows, y, sample_weight=weight, **options))


# ---- from the command to the model ------------------------------------------------------------------


def test_weights_of_rows_are_named_or_given(tmp_path):
    path, model = parquet(tmp_path / "rows.parquet"), StreamingRidge().fit(X, Y)
    wanted = model.score(X, Y, WEIGHT)
    assert evaluate(model, X, Y, sample_weight=WEIGHT)["r2"] == pytest.approx(wanted)
    for weight in ("w", WEIGHT):
        found = evaluate(model, path, target="y", columns=["a", "b", "c"], sample_weight=weight)
        assert found["r2"] == pytest.approx(wanted)
    with pytest.raises(InputError, match="columns are named where rows are at a path or a data frame"):
        evaluate(model, X, Y, sample_weight="w")
    with pytest.raises(InputError, match="sample_weight='w' names a column of a table"):
        train(X, Y, sample_weight="w")


def test_counts_of_weighted_rows_are_sums_of_weights():
    """As in scikit-learn's confusion matrix; weights of a thousandth are not rounded to no row at all."""
    model = StreamingRidgeClassifier(1e-3).fit(X, LABELS)
    light = evaluate(model, X, LABELS, sample_weight=0.001 * WEIGHT)
    whole = evaluate(model, X, LABELS, sample_weight=WEIGHT)
    expected = confusion_matrix(LABELS, model.predict(X), sample_weight=WEIGHT, labels=["down", "up"])
    assert whole["confusion_matrix"] == expected.astype(int).tolist()
    assert all(isinstance(count, int) for row in whole["confusion_matrix"] for count in row)
    np.testing.assert_allclose(light["confusion_matrix"], 0.001 * expected)
    np.testing.assert_allclose([c["rows"] for c in light["classes"]], 0.001 * expected.sum(axis=1))


def test_softmax_of_the_race_is_multinomial_regression():
    """Of two classes and of three, with weights: the probabilities of scikit-learn's."""
    from scipy.special import softmax

    from distrf.pipeline.judge import softmax_scores

    rng = np.random.default_rng(0)
    Z, weight = rng.normal(size=(300, 5)).astype(np.float32) + 1, rng.uniform(0.5, 2, 300)
    for count in (2, 3):
        codes = (Z[:, :count] + rng.normal(size=(300, count))).argmax(axis=1)
        alphas = [1e-2, 1e-1]
        found = softmax(softmax_scores(Z, Z, codes, count, weight, alphas), axis=2)
        for alpha, P in zip(alphas, found, strict=True):
            exact = LogisticRegression(C=1 / (alpha * weight.sum()), tol=1e-8).fit(Z, codes, weight)
            np.testing.assert_allclose(P, exact.predict_proba(Z), atol=5e-3)


def test_rare_classes_are_fitted_by_passes():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 4))
    y = rng.random(3000) < 1 / (1 + np.exp(5.0 - 3.0 * rows[:, 0]))
    model = train(rows, np.where(y, "yes", "no"))
    assert type(model[-1]).__name__ == "StreamingLinearClassifier"
    assert model.training_.chosen("model") == "StreamingLinearClassifier, logistic loss"


@pytest.mark.parametrize(("positive", "judged"), [(60, 3000), (1200, 750)])
def test_every_sampled_row_judges_a_rare_class(positive, judged):
    """A quarter of the rows has 15 of a rare class: by these, models were taken that do worse than a constant."""
    X, y = np.random.default_rng(0).normal(size=(3000, 2)), np.arange(3000) < positive
    sample = read_sample(X, y.astype(int), 0)
    assert sample.judged == len(np.unique(sample.held()[0])) == judged
    assert all(len(np.intersect1d(*split)) == 0 for split in sample.splits)


def test_two_values_of_several_targets_are_no_classes():
    X = np.random.default_rng(0).normal(size=(800, 3))
    Y = (X[:, :2] > 0).astype(float)
    assert read_sample(X, Y, 0).judged == 800
    assert train(X, Y).predict(X).shape == Y.shape


def test_columns_of_a_rare_class_are_judged_by_the_logistic_loss():
    """Calibrated ridge does worse on them, and would hide them behind features."""
    rng = np.random.default_rng(1)
    X = np.exp(rng.normal(size=(9000, 3)))
    y = rng.random(9000) < 1 / (1 + np.exp(6.0 - 1.2 * X[:, 0]))
    model = train(X[:3000], y[:3000])
    exact = LogisticRegression().fit(X[:3000], y[:3000])
    lost, least = (log_loss(y[3000:], each.predict_proba(X[3000:])) for each in (model, exact))
    assert lost < 1.03 * least
