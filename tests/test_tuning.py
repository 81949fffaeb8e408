"""A search: the right winner, scores that a model fitted by hand confirms, and the same result wherever it runs."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from distrf import (
    CompactNonlinearMap,
    RandomFourierFeatures,
    StreamingRidge,
    StreamingScaler,
    StreamingSGDClassifier,
    load_model,
)
from distrf.datasets import load_digits_split
from distrf.errors import InputError, MemoryPlanError
from distrf.pipeline.sample import read_sample
from distrf.tuning import tune

pytestmark = pytest.mark.filterwarnings("ignore::distrf.pipeline.training.BaselineWarning")
X, Y, *_ = load_digits_split(0)
NUMBERS = (X[:, 20] + X[:, 30] ** 2).astype(float)
ALPHAS = [1e-6, 1e-4, 1e-2]
SCALES = {"length_scale": [0.2, 2.0, 40.0], "n_components": [32, 128]}


def fourier():
    return RandomFourierFeatures(random_state=1)


def plain(trial):
    """A trial without its time."""
    return {k: v for k, v in vars(trial).items() if k != "seconds"}


def search(X, y, map_, grid, model, alphas, **options):
    return tune(X, y, map=map_, grid={**grid, "alpha": alphas}, model=model, **{"scale": None} | options)


@pytest.mark.parametrize("model", ["ridge-classifier", StreamingSGDClassifier("logistic")])
def test_the_best_of_the_grid_wins_and_is_trained(tmp_path, model):
    """The middle of three length scales, by far; the model of the argument is not fitted."""
    tuned = search(X, Y, fourier(), SCALES, model, ALPHAS, out=tmp_path / "m")
    assert tuned.best.parameters == {"length_scale": 2.0, "n_components": 128}
    assert [sum(t.level == level for t in tuned.trials) for level in (0, 1)] == [6, 2]
    assert sum(t.ahead for t in tuned.trials) == 3
    assert tuned.best is tuned.trials[[t.ahead and t.level == 1 for t in tuned.trials].index(True)]
    assert (tuned.metric, tuned.validation_rows) == ("negative log loss", len(X))
    assert not hasattr(model, "coef_")
    assert (tuned.model[-1].alpha, tuned.model[-2].length_scale) == (tuned.best.alpha, 2.0)
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(X), tuned.model.predict(X))


def test_scores_are_those_of_a_model_fitted_by_hand():
    tuned = search(X, NUMBERS, fourier(), SCALES, StreamingRidge(), ALPHAS)
    sample = read_sample(X, NUMBERS, 0)
    assert tuned.metric == "R²"
    for trial in (t for t in tuned.trials if t.level == 1):
        predicted, held = np.empty(len(X)), np.concatenate([held for _, held in sample.splits])
        for rest, out in sample.splits:
            map_ = fourier().set_params(**trial.parameters).fit(sample.X[rest])
            model = StreamingRidge(trial.alpha).fit(map_.transform(sample.X[rest]), sample.y[rest])
            predicted[out] = model.predict(map_.transform(sample.X[out]))
        assert trial.score == pytest.approx(r2_score(sample.y[held], predicted[held]), abs=2e-3)


def test_tables_with_categories_and_gaps(tmp_path):
    """As `train` takes them; texts, arrays and ranges stand for values, and gamma is in place of a length scale."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=400), "b": rng.choice(["x", "y", "z"], 400)})
    frame["t"] = np.sin(3 * frame.a) + (frame.b == "x")
    frame.loc[::20, "a"] = np.nan
    grid = {"n_components": "32,64", "alpha": np.array([0, 1e-4]), "map__gamma": range(1, 3)}
    tuned = tune(frame, target="t", grid=grid, kinds={"b": "category"})
    assert (tuned.best.score > 0.6, sorted(tuned.parameters)) == (True, ["gamma", "n_components"])
    assert tuned.model[0].numbers == tuned.units
    assert len(tuned.model.predict(frame.drop(columns="t"))) == 400


def test_a_map_that_learns_from_targets_learns_from_training_rows():
    """Of targets without a rule nothing is found."""
    noise = np.random.default_rng(0).permutation(NUMBERS)
    map_ = CompactNonlinearMap(objective="squared", n_components=8, n_epochs=2, random_state=0)
    tuned = search(
        X, noise, map_, {"n_components": [8], "length_scale": [4.0]}, StreamingRidge(), [1e-3], n_rows=120
    )
    assert tuned.best.score < 0.05


def test_the_same_anywhere(client):
    """Lazy or in memory, in whatever chunks: one seed, one result."""
    arguments = (fourier(), SCALES, "ridge-classifier", ALPHAS)
    lazy = [da.from_array(a, chunks=(100, *a.shape[1:])) for a in (X, Y)]
    on_workers = search(*lazy, *arguments, n_rows=600)
    said = []
    here = search(X, Y, *arguments, n_rows=600, say=said.append)
    assert [plain(t) for t in on_workers.trials] == [plain(t) for t in here.trials]
    assert [line.split(": ")[0].strip() for line in said if line.startswith(" ")] == [
        str(t).split(": ")[0] for t in here.trials
    ]
    other = search(X, Y, *arguments, n_rows=600, random_state=1)
    assert [t.score for t in other.trials] != [t.score for t in here.trials]


SPOILED = X.copy()
SPOILED[:, 3] = np.nan


@pytest.mark.parametrize(
    ("X", "y", "grid", "alphas", "message"),
    [
        (X, Y, {"length_scale": []}, ALPHAS, "at least one value"),
        (X, Y, {"length": [1]}, ALPHAS, "has: .*got 'length'"),
        (X, Y, SCALES, [-1.0], "alpha must be"),
        (X, None, SCALES, ALPHAS, "needs a target"),
        (X, Y[:50], SCALES, ALPHAS, "as many rows as X, got 50 and 1437"),
        (X[:10], Y[:10], SCALES, ALPHAS, "at least 20 rows of positive weight.*got 10"),
        (SPOILED, Y, SCALES, ALPHAS, "X must be finite"),
        (X, np.zeros(len(X), int), SCALES, ALPHAS, "targets that differ"),
        (X, Y, {"n_components": [64, 2**32]}, ALPHAS, "tune"),
    ],
)
def test_refusals(X, y, grid, alphas, message):
    with pytest.raises((InputError, MemoryPlanError), match=message):
        search(X, y, fourier(), grid, "ridge-classifier", alphas)


def test_a_rule_stands_for_scales_around_its_number():
    """The search on scaled rows, with the numbers of the rule, is the search that the rule asks for."""
    given = {"scale": "standard", "n_rows": 400}
    found = search(X, Y, fourier(), {"n_components": [64]}, "ridge-classifier", ALPHAS, **given)
    tried = found.parameters["length_scale"]
    np.testing.assert_allclose(tried, tried[3] * 2.0 ** np.arange(-1.5, 2.0, 0.5), rtol=1e-3)
    grid = {"n_components": [64], "length_scale": tried}
    again = search(X, Y, fourier(), grid, "ridge-classifier", ALPHAS, **given)
    assert [plain(trial) for trial in found.trials] == [plain(trial) for trial in again.trials]
    assert found.units == "standard"
    rows = read_sample(X, Y, 0, most=400).X
    scaled = StreamingScaler("standard").fit_transform(rows).astype(np.float32)
    assert tried[3] == pytest.approx(fourier().set_params(random_state=0).fit(scaled).length_scale_, rel=1e-3)


@pytest.mark.parametrize(("map_", "least"), [(fourier(), 0.8), (None, 0.5)], ids=["fourier", "columns"])
def test_units_are_chosen(map_, least):
    spread = np.random.default_rng(0).permutation(10.0 ** np.linspace(-4, 4, X.shape[1]))
    grid = {} if map_ is None else {"n_components": [256]}
    tuned = search(X * spread, NUMBERS, map_, grid, StreamingRidge(), ALPHAS, scale="auto")
    assert tuned.units != "none"
    assert (tuned.best.score > least, {*tuned.best.parameters} >= {*grid}) == (True, True)
