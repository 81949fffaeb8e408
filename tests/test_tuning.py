"""A search: the right winner, by scores that a model fitted by hand confirms, and the same result wherever it runs."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier
from sklearn.metrics import r2_score

from distrf import (
    CompactNonlinearMap,
    RandomFourierFeatures,
    StreamingRidge,
    StreamingSGDClassifier,
    load_model,
    train,
    tune,
)
from distrf.datasets import load_digits_split
from distrf.errors import InputError, MemoryPlanError
from distrf.pipeline.sample import read_sample

pytestmark = pytest.mark.filterwarnings("ignore::distrf.pipeline.training.BaselineWarning")
X, Y, *_ = load_digits_split(0)
NUMBERS = (X[:, 20] + X[:, 30] ** 2).astype(float)
GRID = {"map__length_scale": [0.2, 2.0, 40.0], "n_components": [32, 128]}


def search(X, y, grid, model="ridge", map_=None, **options):
    map_ = RandomFourierFeatures(random_state=1) if map_ is None else map_
    return tune(X, y, map=map_, grid=grid, model=model, **{"scale": None} | options)


@pytest.mark.parametrize("model", ["ridge-classifier", StreamingSGDClassifier("logistic")])
def test_the_best_of_the_grid_wins_and_is_trained(tmp_path, model):
    """The middle of three length scales, by far; the model of the argument is not fitted."""
    tuned = search(X, Y, GRID | {"alpha": [1e-4]}, model, out=tmp_path / "m")
    assert tuned.best["parameters"] == {"map__length_scale": 2.0, "n_components": 128, "alpha": 1e-4}
    assert len(tuned.trials) == 6
    assert (tuned.metric, tuned.judged) == ("negative log loss", "1,437 held-out rows of a sample (ridge)")
    assert not hasattr(model, "coef_")
    assert (tuned.model[-1].alpha, tuned.model[-2].length_scale) == (1e-4, 2.0)
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(X), tuned.model.predict(X))


def test_scores_are_those_of_a_model_fitted_by_hand():
    """Of as many features, and with the penalty, that were asked for, more than `train` judges by itself."""
    tuned = search(X, NUMBERS, {"n_components": [64, 1536], "alpha": [1e-5, 1e-2], "map__length_scale": [3.0]})
    sample = read_sample(X, NUMBERS, 0)
    assert tuned.metric == "R²"
    for trial in tuned.trials:
        predicted, held = np.empty(len(X)), np.concatenate([held for _, held in sample.splits])
        point = dict(trial["parameters"])
        alpha, length_scale = point.pop("alpha"), point.pop("map__length_scale")
        for rest, out in sample.splits:
            map_ = RandomFourierFeatures(length_scale=length_scale, random_state=1, **point).fit(sample.X[rest])
            model = StreamingRidge(alpha).fit(map_.transform(sample.X[rest]), sample.y[rest])
            predicted[out] = model.predict(map_.transform(sample.X[out]))
        assert trial["score"] == pytest.approx(r2_score(sample.y[held], predicted[held]), abs=2e-3)


def test_tables_with_categories_and_gaps(tmp_path):
    """As `train` takes them; texts, arrays and ranges stand for values, and gamma is in place of a length scale."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=400), "b": rng.choice(["x", "y", "z"], 400)})
    frame["t"] = np.sin(3 * frame.a) + (frame.b == "x")
    frame.loc[::20, "a"] = np.nan
    grid = {"n_components": "32,64", "alpha": np.array([0, 1e-4]), "map__gamma": range(1, 3)}
    tuned = tune(frame, target="t", grid=grid | {"table__numbers": "standard"}, kinds={"b": "category"})
    assert (tuned.best["score"] > 0.6, len(tuned.trials)) == (True, 8)
    assert tuned.model[0].numbers == "standard"
    assert len(tuned.model.predict(frame.drop(columns="t"))) == 400


def test_a_map_that_learns_from_targets_learns_from_training_rows():
    """Of targets without a rule nothing is found."""
    noise = np.random.default_rng(0).permutation(NUMBERS)
    map_ = CompactNonlinearMap(objective="squared", n_components=8, n_epochs=2, random_state=0)
    assert search(X, noise, {"map__length_scale": [4.0]}, map_=map_, n_components=8).best["score"] < 0.05


def test_the_same_anywhere(client):
    """Lazy or in memory, in whatever chunks: one seed, one result."""
    few, grid = (X[:500], Y[:500]), {"map__length_scale": [0.2, 2.0], "n_components": [32]}
    lazy = [da.from_array(a, chunks=(100, *a.shape[1:])) for a in few]
    on_workers, said = search(*lazy, grid, "ridge-classifier"), []
    here = search(*few, grid, "ridge-classifier", say=said.append)
    assert on_workers.trials == here.trials
    assert [line.split(": ")[0].strip() for line in said] == [
        f"map__length_scale {length}, n_components 32" for length in (0.2, 2.0)
    ]
    other = search(*few, grid, "ridge-classifier", random_state=1)
    assert other.trials != here.trials


def test_lists_and_texts_are_values():
    lengths = [[length] * 63 + [1.0] for length in (2.0, 3.0)]
    tuned = search(X, NUMBERS, {"alpha": "1e-6,9", "n_components": "6.4e1", "map__length_scale": lengths})
    assert [trial["parameters"] for trial in tuned.trials] == [
        {"alpha": alpha, "n_components": 64, "map__length_scale": length}
        for alpha in (1e-6, 9)
        for length in lengths
    ]


def test_what_was_judged_is_trained():
    """Whole numbers that the sample takes for labels: with eight features they would be numbers by a tenth of a nat."""
    rng = np.random.default_rng(23)
    rows, classes = rng.normal(size=(400, 3)), rng.integers(4, 8)
    score = rows[:, 0] + np.sin(3 * rows[:, 1]) * rng.uniform(0, 2)
    codes = np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))
    order = rng.permutation(classes)
    y = np.where(rng.random(400) < rng.uniform(0, 0.5), order[codes], codes)
    tuned = tune(rows, y, grid={"n_components": [8, 16]})
    assert (tuned.metric, is_classifier(tuned.model)) == ("negative log loss", True)
    assert "taken for labels: log loss" in tuned.model.training_.choices[0].why
    assert not is_classifier(train(rows, y, n_components=tuned.best["parameters"]["n_components"]))


SPOILED = X.copy()
SPOILED[:, 3] = np.nan


@pytest.mark.parametrize(
    ("X", "y", "grid", "options", "message"),
    [
        (X, Y, {"map__length_scale": []}, {}, "at least one value"),
        (X, Y, {}, {}, "grid has values by name"),
        (X, Y, "alpha=1", {}, "grid has values by name.*got 'alpha=1'"),
        (X, Y, {"length_scale": [1]}, {}, "parameters of steps, map__NAME.*got 'length_scale'"),
        (X, Y, {"map__length": [1]}, {}, "has: .*got 'length'"),
        (X, Y, {"model__cv": [3, 5]}, {}, "not 'model__cv': ridge judges"),
        (X, Y, {"alpha": [-1.0]}, {}, "alpha must be"),
        (X, Y, {"alpha": [1.0]}, {"alpha": 2.0}, "alpha is in grid= and is 2.0 by an option"),
        (X, Y, {"map__n_components": [2]}, {}, "n_components and alpha have no step"),
        (X, Y, {"map__gamma": [1.0]}, {"set": {"map__gamma": 2.0}}, "map__gamma is in grid= and is 2.0"),
        (X, None, GRID, {}, "needs a target"),
        (X, Y[:50], GRID, {}, "as many rows as X, got 50 and 1437"),
        (X[:9], Y[:9], GRID, {}, "tune needs rows to hold out.*got 9"),
        (SPOILED, Y, GRID, {}, "X must be finite"),
        (X, np.zeros(len(X), int), GRID, {}, "targets that differ"),
        (X, Y, {"n_components": [64, 2**32]}, {}, "tune"),
    ],
)  # fmt: skip
def test_refusals(X, y, grid, options, message):
    with pytest.raises((InputError, MemoryPlanError), match=message):
        search(X, y, grid, "ridge-classifier", **options)
