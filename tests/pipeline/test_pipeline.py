"""make_model and train: the model follows the target, choices are measured and kept, baselines are honest."""

from __future__ import annotations

import re
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_diabetes, load_wine

import distrf
from distrf import (
    TEFM,
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
)
from distrf.errors import InputError
from distrf.pipeline.options import Options, choose_learner
from distrf.pipeline.target import look_at
from distrf.pipeline.training import BaselineWarning


def rows(rng, n=400, d=5):
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


# --- the model follows the target


@pytest.mark.parametrize(
    ("y", "labels"),
    [
        (np.array(["a", "b", "a"]), True),
        (np.array(["a", "b", "a"], dtype=object), True),
        (np.array([True, False, True]), True),
        (np.arange(300) % 7, True),
        (np.arange(300.0) % 7, True),
        (np.arange(5000) % 100, True),  # codes 0 ... 99
        (1922 + np.arange(5000) % 89, False),  # years
        (np.arange(300), False),
        (np.linspace(0, 1, 300), False),
        (np.random.default_rng(0).poisson(np.exp(1 + 0.7 * np.random.default_rng(1).normal(size=2000))), False),
        (np.random.default_rng(0).permutation(np.repeat(np.arange(26), np.arange(26) * 4 % 97 + 20)), True),
        (np.full(9, 3), False),
        (np.zeros((9, 2)), False),
    ],
)
def test_labels_or_numbers(y, labels):
    assert look_at(y).labels is labels


@pytest.mark.parametrize("kind", ["array", "lazy", "csr", "table"])
@pytest.mark.parametrize("labels", [False, True])
def test_a_few_whole_numbers_are_what_tells_more_of_held_out_rows(rng, kind, labels):
    """Grades were taken for labels, which cost up to thirty points of R^2. One line says what is taken, and how to change it."""
    X = rng.normal(size=(1200, 4))
    grades = np.clip(np.round(3 + X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=1200)), 1, 5)
    groups = (X[:, 0] > 0) * 2 + (X[:, 1] > 0) * (X[:, 2] > 0) + 1 + (X[:, 3] > 1)
    y = (groups if labels else grades).astype(int)
    if kind == "table":
        given = {"X": pd.DataFrame(X).add_prefix("x").assign(y=y), "target": "y"}
    else:
        given = {
            "X": {"array": X, "lazy": da.from_array(X, chunks=(500, 4)), "csr": sp.csr_matrix(X)}[kind],
            "y": y,
        }
    made = distrf.train(**given, n_components=64)
    assert is_classifier(made) is labels
    why = made.training_.choices[0].why
    taken, other, option = (
        ("labels", "numbers", "ridge") if labels else ("numbers", "labels", "ridge-classifier")
    )
    assert f"taken for {taken}: log loss" in why
    assert f"model='{option}' takes them for {other}" in why
    if kind == "array":
        assert is_classifier(distrf.make_model(X, y, model=option, map=None)) is not labels
        assert is_classifier(distrf.make_model(X, y, map=None, split="stratified"))  # by which they are labels


def test_counts_are_numbers(rng):
    """Beside a normal law of constant spread they looked like labels, of R^2 below 0; so did 0 ... 307, each for 13 rows."""
    X = rng.normal(size=(4000, 6))
    counts = rng.poisson(1.3 * np.exp(0.4 * np.sin(X[:, 0]) + 0.2 * X[:, 1])).astype(int)
    skewed = np.minimum(rng.geometric(1 / (1 + 3 * np.exp(0.3 * X[:, 0]))), 20)
    for y in (counts, skewed, np.argsort(np.argsort(X[:, 0])) // 13):
        assert not is_classifier(distrf.make_model(X, y, n_components=64))


@pytest.mark.parametrize("rows", [450, 1200])
def test_no_metric_learns_from_rows_that_judge_it(rows):
    """Of few rows each is held out once, and one metric would have seen four fifths of them; too few have none."""
    X, y = np.random.default_rng(0).normal(size=(2, rows, 60))
    made = distrf.make_model(X, y[:, 0], map="fourier")
    losses = [loss for name, loss in made.training_.candidates if "metric" in name]
    assert (min(losses, default=1.0) > 0.95, bool(losses and rows < 1000)) == (True, False)


@pytest.mark.parametrize("kind", ["array", "table", "labels"])
def test_few_columns_are_found_among_many_useless_ones(rng, kind):
    """Plain features explain a fifth of this, and a matrix learns the noise of 30 columns; a diagonal finds three."""
    X = rng.normal(size=(2000, 30))
    y = X[:, 3] * X[:, 7] + np.sin(2 * X[:, 11])
    y = np.where(y > 0, "high", "low") if kind == "labels" else y
    rows = pd.DataFrame(X, columns=[f"c{j}" for j in range(30)]) if kind == "table" else X
    model = distrf.train(rows[:1000], y[:1000], n_components=512)
    assert model.training_.chosen("metric") == "diagonal, learned"
    assert model.score(rows[1000:], y[1000:]) > (0.85 if kind == "labels" else 0.9)


@pytest.mark.parametrize("name", ["ridge-classifier", "svm", "logistic", "sgd-classifier"])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_classifier_of_continuous_targets_is_refused_before_anything_runs(rng, name, lazy):
    X, y = rng.normal(size=(1000, 3)), rng.normal(size=1000)
    if lazy:
        X = da.map_blocks(lambda: pytest.fail("a block was read"), chunks=((100,) * 10, 3), meta=X[:0])
        y = da.from_array(y, chunks=100)
    with pytest.raises(InputError, match=r"is a classifier, but .*model='ridge'"):
        distrf.make_model(X, y, model=name)


@pytest.mark.parametrize("model", ["huber", StreamingRidge(1e-3)])
@pytest.mark.parametrize("labels", [[True, False], ["a", "b"]])
def test_a_regressor_of_labels_is_refused(rng, model, labels):
    with pytest.raises(InputError, match=r"is a regressor, but labels are .*ridge-classifier"):
        distrf.make_model(rng.normal(size=(60, 2)), np.array(labels * 30), model=model)


@pytest.mark.parametrize(
    ("texts", "outcome"),
    [
        ([*map(str, np.arange(399) / 4), "n/a?"], "reads as numbers, but not 'n/a?': make numbers of it"),
        ([f"${k % 200 * 10:,.2f}" for k in range(400)], "with '$': make numbers of it"),
        ([f"id {k}" for k in range(400)], "text of nearly all distinct values, 400 in 400 rows looked at"),
        ([str(k % 7) for k in range(400)], 7),
        ([f"{k % 70 / 2:n}".replace(".", ",") for k in range(400)], "with a decimal comma: make numbers of it"),
        ([str(k % 50) for k in range(400)], 50),  # codes
        ([f"{k % 7} kg" for k in range(400)], 7),
        ([f"name {k % 300}" for k in range(400)], 300),
    ],
    ids=lambda x: str(x)[-12:],
)
def test_a_target_of_text_is_labels_or_refused(rng, texts, outcome):
    X, y = rng.normal(size=(400, 2)), np.array(texts)
    if isinstance(outcome, int):
        assert look_at(y).distinct == outcome
        assert is_classifier(choose_learner(Options(), look_at(y))[0])
    else:
        with pytest.raises(InputError, match=re.escape(outcome)):
            distrf.make_model(X, y)


@pytest.mark.parametrize("dtype", ["boolean", "Int64", "category", "object", "string"])
def test_labels_of_pandas_come_back_as_they_are(rng, dtype):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"a": rng.normal(size=300)})
    y = (X.a > 0).astype(str if dtype == "string" else dtype)
    options = {"map": None, "random_state": 0}
    by_y, by_name = distrf.train(X, y, **options), distrf.train(X.assign(t=y), target="t", **options)
    expected = {"Int64": [0, 1], "string": ["False", "True"]}.get(dtype, [False, True])
    for model in (by_y, by_name):
        assert model.classes_.tolist() == expected
        assert type(model.classes_.tolist()[0]) is type(expected[0])
        assert set(model.predict(X).tolist()) == set(expected)


def test_string_labels_of_a_dask_array_keep_their_width(rng):
    """`.astype(str)` of objects declares <U1, whatever the blocks hold: labels must not be cut to it."""
    names, X = np.array(["negative", "positive"], dtype=object), rng.normal(size=(300, 3))
    y = names[(X[:, 0] > 0).astype(int)]
    A, lazy = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100).astype(str)
    fitted = distrf.train(A, lazy, model="ridge-classifier", n_components=64)
    assert (fitted.predict(X) == y).mean() > 0.9
    assert fitted.score(A, lazy) == (fitted.predict(A).compute() == y).mean()


# --- what comes out


def test_a_pipeline_that_can_be_cloned_fitted_and_saved(rng, tmp_path):
    X, y = rows(rng)
    made = distrf.make_model(X, y, n_components=64)
    assert made.training_.chosen("model") == "StreamingRidge"
    assert not hasattr(made[-1], "coef_")
    fitted = distrf.train(X, y, n_components=64)
    assert np.array_equal(clone(made).fit(X, y).predict(X), fitted.predict(X))
    distrf.save_model(fitted, tmp_path / "model")
    loaded = distrf.load_model(tmp_path / "model")
    assert np.array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.training_ == fitted.training_
    assert "length scale" in str(loaded.training_)
    assert loaded.training_.baseline[0].chosen > loaded.training_.baseline[0].linear


def test_dask_and_numpy_give_the_same_model(rng):
    X, y = rows(rng)
    here = distrf.train(X, y, n_components=64)
    lazy = distrf.train(da.from_array(X, chunks=(90, 5)), da.from_array(y, chunks=400), n_components=64)
    assert here.training_.choices == lazy.training_.choices
    np.testing.assert_allclose(here.predict(X), lazy.predict(X), atol=1e-6)


def test_the_sample_is_over_all_rows_of_sorted_ones(rng):
    X, y = rows(rng, 3000)
    order = np.argsort(y)
    A = da.from_array(X[order], chunks=(250, 5))
    fitted = distrf.train(A, da.from_array(y[order], chunks=250), n_components=256)
    assert fitted.score(X, y) > 0.8


# --- each choice


def test_columns_of_unlike_scale_are_scaled_and_images_are_not(rng):
    X, y = rows(rng)
    fitted = distrf.train(X * [1, 1e3, 1e-3, 1e6, 1e-6], y, n_components=256)
    assert fitted.training_.chosen("scale") in ("robust", "standard")
    assert fitted.training_.baseline[0].chosen > 0.7
    from distrf.datasets import load_digits_split

    images, labels, _, _ = load_digits_split(0)
    assert distrf.make_model(images, labels, n_components=256).training_.chosen("scale") == "none"


@pytest.mark.parametrize(("heavy", "units"), [(4, 1), (2, [1, 1e4, 1e-4, 1])])
def test_a_target_that_is_linear_in_columns_of_heavy_tails_gets_the_linear_model(rng, heavy, units):
    """Robust units would bend them: no model on these sees where the tails lead."""
    X = np.hstack([rng.standard_t(1.2, (900, heavy)), rng.normal(size=(900, 4 - heavy))])
    y = X @ [1, -2, 3, 1] + 0.1 * rng.normal(size=900)
    X *= units
    fitted = distrf.train(X[:600], y[:600], n_components=64)
    assert fitted.score(X[600:], y[600:]) > 0.999
    assert fitted.training_.chosen("scale") == "standard"
    assert not fitted.training_.warnings


def test_a_target_that_bends_with_columns_of_heavy_tails_keeps_robust_units(rng):
    X = rng.standard_t(1.2, (900, 4))
    fitted = distrf.make_model(X, np.arcsinh(X) @ [1, -2, 3, 1] + np.sin(X[:, 0]), n_components=128)
    assert fitted.training_.chosen("scale") == "robust"
    assert "map" in fitted.named_steps


@pytest.mark.slow
def test_sparse_rows_of_unlike_columns_are_scaled(rng):
    """Levels of a factor beside a price: the price alone would be all that a kernel sees."""
    n, level = 900, rng.integers(20, size=900)
    price = rng.lognormal(11, 1, n)
    y = rng.normal(size=20)[level] + 0.5 * np.log(price)
    X = sp.hstack([sp.csr_matrix((np.ones(n), (np.arange(n), level))), price[:, None]]).tocsr()
    y += 0.3 * np.sin(5 * np.log(price))
    fitted = distrf.train(X[:700], y[:700], n_components=256)
    assert fitted.training_.chosen("scale") == "robust-zeros"
    assert fitted.score(X[700:], y[700:]) > 0.95
    dense = distrf.train(X[:700].toarray(), y[:700], n_components=256)
    np.testing.assert_allclose(
        fitted.score(X[700:], y[700:]), dense.score(X[700:].toarray(), y[700:]), atol=0.01
    )
    few = distrf.make_model(X[:5], y[:5])  # where nothing can be judged
    assert few.training_.chosen("scale") == "robust-zeros"


@pytest.mark.slow
def test_copies_of_rows_are_held_out_together(rng):
    """Scattered copies would choose a model that remembers rows; all of a row are on one side."""
    X, y = load_diabetes(return_X_y=True)
    many = rng.permutation(np.repeat(np.arange(300), 5))
    fitted = distrf.train(X[many], y[many], n_components=128)
    assert fitted.training_.chosen("copies").startswith("80 %")
    assert fitted.training_.baseline[0].chosen < 0.7
    assert fitted.score(X[300:], y[300:]) > 0.3
    given = distrf.train(X[many], y[many], n_components=64, model=StreamingRidge([1e-8, 1e-2]))
    assert given[-1].alpha_ == 1e-2  # with a copy of each row in training, the smaller one


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "are held out together"),
        ({"model": StreamingRidgeClassifier(keep_state=True)}, "may be held out apart"),
        ({"split": "stratified"}, "may be held out apart"),
    ],
)
def test_where_copies_are_held_out_is_said(rng, options, said):
    X, y = np.repeat(rng.normal(size=(120, 3)), 3, axis=0), np.repeat(rng.integers(0, 2, 120), 3)
    made = distrf.make_model(X, y, map=None, **options)
    assert [c.why for c in made.training_.choices if c.what == "copies"] == [f"each row and its copies {said}"]


SHAPE = (700, 4)
DRAWN = np.random.default_rng(5).normal(size=SHAPE)
SMOOTH = np.sin(2 * DRAWN[:, 0]) + DRAWN[:, 1] * DRAWN[:, 2]


@pytest.mark.parametrize(
    ("y", "options", "chosen", "warned"),
    [
        (SMOOTH, {}, {"features": "columns and map"}, ""),
        (SMOOTH, {"map": None}, {"features": "columns"}, ""),
        (SMOOTH, {"map": RandomFourierFeatures()}, {"features": "map"}, ""),
        (SMOOTH, {"scale": "minmax", "n_components": 64}, {"scale": "minmax", "n_components": None}, ""),
        (SMOOTH, {"model": StreamingRidge(1e-3)}, {"alpha": None}, ""),
        (np.where(SMOOTH > 1.5, "a", "b"), {}, {"features": "columns and map"}, ""),
        (DRAWN @ np.ones(4), {}, {"features": "columns"}, ""),
        (DRAWN @ np.ones(4), {"map": "fourier", "set": {"map__length_scale": 0.01}}, {"features": "columns and map"}, "do not beat"),
        (DRAWN[::-1, 3], {}, {"features": "constant"}, "no candidate beats a constant"),
        (DRAWN[::-1, 3], {"map": "fourier"}, {"features": "columns and map"}, "no candidate beats a constant"),
        (np.where(DRAWN[::-1, 3] > 1.5, "a", "b"), {}, {"features": "constant"}, "constant"),
        (DRAWN[::-1, 3], {"model": "sgd-regressor"}, {"features": "columns"}, "no candidate beats a constant"),
        (np.random.default_rng(37).random(700) < 0.03 * np.exp(0.8 * DRAWN[:, 0]), {}, {"features": "columns"}, "rare"),
    ],
)  # fmt: skip
def test_what_is_chosen_and_what_is_warned_of(y, options, chosen, warned):
    """Never worse than the constant or the linear model on held-out rows; what was asked for stays, and is warned of."""
    made = distrf.make_model(DRAWN, y, **options)
    assert {what: made.training_.chosen(what) for what in chosen} == chosen
    assert [warned in text for text in made.training_.warnings] == [True] * bool(warned)
    compared, (*_, constant) = made.training_.baseline[0], made.training_.candidates
    assert constant[0] == "constant"
    assert min(loss for _, loss in made.training_.candidates) > 0
    if chosen.get("features") == "constant":
        predicted = made.fit(DRAWN, y).predict(DRAWN)
        assert len(np.unique(predicted)) == 1 if y.dtype.kind == "U" else np.ptp(predicted) < 1e-3
    elif not warned and "map" not in options:
        better = np.sign(compared.chosen - compared.linear) * (-1 if y.dtype.kind == "U" else 1)
        assert better >= 0


@pytest.mark.parametrize("lazy", [False, True])
def test_rows_of_no_weight_decide_nothing(rng, lazy):
    X, y = rows(rng, 600)
    weight = np.r_[np.ones(400), np.zeros(200)]
    X[400:] *= 1e6
    y[400:] = rng.normal(size=200)
    given = [da.from_array(a, chunks=(150, 5)[: a.ndim]) for a in (X, y, weight)] if lazy else [X, y, weight]
    some = distrf.train(given[0], given[1], sample_weight=given[2], n_components=64)
    assert some.training_.baseline[0].rows.startswith("400 held-out")
    assert some.score(X[:400], y[:400]) > 0.8


@pytest.mark.parametrize(
    ("map_", "size", "length_scale"),
    [
        (RandomFourierFeatures(n_components=96), 96, None),
        (RandomFourierFeatures(length_scale=2.5), 512, 2.5),
        (RandomFourierFeatures(n_components=96, length_scale="median"), 96, "median"),
        (RandomFourierFeatures("matern", nu=1.5), 512, None),
        (TEFM(RandomFourierFeatures(length_scale=2.5, n_components=96), n_components=20), 20, 2.5),
    ],
)
def test_what_is_set_of_a_map_stays(rng, map_, size, length_scale):
    """It was fitted with other numbers, in silence. What is at its default is chosen."""
    made = distrf.make_model(*rows(rng, 300), map=map_)
    found = made["map"]
    assert found.n_components == size
    value = found.get_params()[found.scale_parameter()]
    assert isinstance(value, float) if length_scale is None else value == length_scale
    chosen = {choice.what for choice in made.training_.choices}
    assert ("length_scale" in chosen, "n_components" in chosen) == (length_scale is None, size == 512)


@pytest.mark.parametrize("class_weight", ["balanced", {"yes": 20.0}])
def test_a_model_of_weighted_classes_is_compared_by_these_weights(rng, class_weight):
    """It gives rare labels more often: right, though fewer rows are, and by accuracy the training seemed to have failed."""
    X = rng.normal(size=(1500, 3))
    y = np.where(X[:, 0] + rng.normal(size=1500) > 2.3, "yes", "no")  # 5 % of the rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = distrf.train(X, y, model=StreamingRidgeClassifier(class_weight=class_weight), n_components=64)
    assert fitted.score(X, y) < np.mean(y == "no") - 0.1
    compared = fitted.training_.baseline[0]
    assert compared.constant == pytest.approx(np.log(2), abs=0.02)  # of classes of equal weight
    assert compared.chosen < 0.5


# --- few rows, odd rows


def test_a_constant_is_predicted(rng):
    X = rng.normal(size=(50, 3))
    for rows, value in ((50, 7.25), (1, 3.0)):
        with pytest.warns(
            BaselineWarning, match=rf"the target is one number \({value}\) in all rows looked at"
        ):
            fitted = distrf.train(X[:rows], np.full(rows, value))
        np.testing.assert_allclose(fitted.predict(X[:rows]), value)
        assert f"({value})" in fitted.training_.warnings[0]
    assert "one number in 1 row looked at" in fitted.training_.choices[0].why


ODD = {
    "constant": lambda X: np.full_like(X, 4.0),
    "zero rows": lambda X: X * (np.arange(200)[:, None] % 2),
    "constant columns": lambda X: np.hstack([X[:, :1], np.full((200, 4), [0, 1, -5, 1e8])]),
    "heavy": lambda X: X / np.random.default_rng(1).random(size=X.shape) ** 4,
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore::distrf.pipeline.training.BaselineWarning")
def test_odd_columns(rng, kind, dtype):
    X, y = rows(rng, 200)
    X = ODD[kind](X).astype(dtype)
    assert np.isfinite(distrf.train(X, y).predict(X)).all()


@pytest.mark.parametrize("lazy", [False, True])
def test_a_missing_target_is_refused_and_its_row_named(rng, lazy):
    """The row of the table, whichever sample it was found in."""
    y, X = rng.normal(size=20_000), np.zeros((20_000, 1))
    y[12345 : 12346 + 8 * lazy] = np.nan
    lazy_X, lazy_y = da.from_array(X, chunks=(900, 1)), da.from_array(y, chunks=900)
    with pytest.raises(InputError, match=r"y must be finite, but row 123(4[5-9]|5[0-3]) is nan"):
        distrf.train(*((lazy_X, lazy_y) if lazy else (X, y)))


@pytest.mark.filterwarnings("ignore::distrf.pipeline.training.BaselineWarning")  # a linear model is better
@pytest.mark.parametrize("name", ["fourier", "nystroem", "tefm", "cnm", "learned", "binning", "tensor-sketch"])
def test_maps_by_name(name):
    X, y = load_wine(return_X_y=True)
    fitted = distrf.train(X[::2], y[::2], map=name, n_components="auto" if name == "binning" else 64)
    assert fitted.score(X[1::2], y[1::2]) > 0.9


def test_unknown_names(rng):
    X, y = rows(rng, 30)
    for options in ({"model": "forest"}, {"map": "wavelets"}, {"scale": "log"}, {"set": {"map__x": 1}}):
        with pytest.raises(InputError, match=r"^(model|map|scale|set) must be"):
            distrf.make_model(X, y, **options)
    with pytest.raises(TypeError, match="gamma"):
        distrf.train(X, y, gamma=1.0)


@pytest.mark.slow
def test_columns_of_few_values_are_trained_on(rng):
    """Most rows have copies: the length scale is between those that differ."""
    B = rng.integers(0, 2, (400, 3)).astype(float)
    y = B @ [1.0, 2.0, 3.0] + B[:, 0] * B[:, 1] + 0.1 * rng.normal(size=400)
    for X in (B, sp.csr_matrix(B)):
        assert distrf.train(X, y, n_components=128, random_state=0).score(X, y) > 0.95
    codes = rng.integers(0, 5, (300, 1)).astype(float)
    fitted = distrf.train(codes, codes[:, 0] ** 2, n_components=128, random_state=0)
    assert fitted.score(codes, codes[:, 0] ** 2) > 0.99
