"""alpha="auto": which penalties ridge compares, and that the choice holds on rows of every kind."""

from __future__ import annotations

import json
import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier, StreamingScaler
from distrf.errors import InputError
from distrf.execution.memory import PassMemory, Workers
from distrf.ridge.alphas import alpha_grid, best_alpha, search
from distrf.ridge.folds import fold_rules, gram_reductions
from distrf.ridge.gram import FoldRule, GramReduction
from distrf.ridge.solver import first_that_fits
from distrf.targets import Targets

# ---- the search -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("energy", "unit"), [(1.0, 0), (0.3, 0), (1.9, 0), (3e-9, -8), (1.9e12, 12), (0.0, 0)])
def test_the_grid_is_eight_decades_below_the_energy(energy, unit):
    assert alpha_grid(energy) == [float(f"1e{unit + k}") for k in range(-8, 0)]
    assert min(alpha_grid(energy, float(f"2e{unit - 5}"))) == float(f"1e{unit - 4}")


def valley(place, seen):
    """Errors that are least at 10^place."""

    def errors(alphas):
        seen.extend(alphas)
        return np.abs(np.log10(alphas) - place) + 1.0

    return errors


@pytest.mark.parametrize(
    ("place", "best", "ends"),
    [
        (-4.1, 1e-4, (1e-8, 1e-1)),
        (-4.6, 3e-5, (1e-8, 1e-1)),
        (-3.4, 3e-4, (1e-8, 1e-1)),
        (-10.0, 1e-10, (1e-11, 1e-1)),
        (0.4, 3.0, (1e-8, 10.0)),
        (9.0, 100.0, (1e-8, 100.0)),
        (-30.0, 1e-13, (1e-13, 1e-1)),
    ],
)
def test_an_edge_is_extended(place, best, ends):
    seen = []
    alphas, errors = search(valley(place, seen), 1.0, 0.5e-13)
    assert best_alpha(alphas, errors) == best
    assert (alphas[0], alphas[-1]) == ends
    assert sorted(seen) == alphas  # each once
    np.testing.assert_array_equal(errors, valley(place, [])(alphas))


def test_flat_errors_take_the_largest_alpha():
    assert best_alpha(*search(lambda alphas: np.zeros(len(alphas)), 1.0, 0.0)) == 100.0
    alphas, errors = search(lambda a: np.where(np.array(a) < 1e-5, 2.0, 1 + 1e-9 * np.log10(a)), 1.0, 0.0)
    assert best_alpha(alphas, errors) == 100.0  # but for rounding they are equal


def test_errors_that_overflow_are_not_best():
    alphas, errors = search(lambda a: np.where(np.array(a) < 1e-5, np.nan, a), 1.0, 0.0)
    assert best_alpha(alphas, errors) == 1e-5


def test_nothing_above_rounding():
    """A grid that lies below the rounding floor is replaced, not empty."""
    alphas, errors = search(lambda a: np.array(a), 1.0, 5.0)
    assert alphas[0] == best_alpha(alphas, errors) == 10.0


# ---- how folds are cut ------------------------------------------------------------------------------


def test_auto_takes_folds_where_they_are_cheap():
    def cut(n, D):
        return [(r.n_folds, r.holdout) for r in fold_rules("auto", n, D, 0)]

    assert cut(1000, 2048) == [(5, False), (2, True)]
    assert cut(1000, 2049) == [(2, True)]
    assert cut(3, 10) == cut(3, 10_000) == [(3, False)]
    assert cut(1, 10) == [(1, False)]


def test_short_memory_takes_one_held_out_set():
    """Five Gram matrices of 2,048 features take 84 MB: a worker that lacks them keeps two, and without two it takes passes."""
    folds = gram_reductions("auto", "auto", 10_000, 2048, Targets(None, np.zeros(1)), 0)

    def taken(limit, solver="auto"):
        made = first_that_fits(solver, folds, lambda fold: PassMemory(0, 0, fold.nbytes), Workers(1, 1, limit))
        return made[0].rule.n_folds, made[1]

    peaks = [PassMemory(0, 0, fold.nbytes).peak for fold in folds]
    assert peaks[1] < peaks[0]
    assert taken(peaks[0]) == (5, "gram")
    assert taken(peaks[0] - 1) == taken(peaks[1]) == (2, "gram")
    assert taken(peaks[1] - 1) == (2, "passes")
    assert taken(peaks[1] - 1, "gram") == (2, "gram")
    assert gram_reductions(1e-3, "auto", 10, 10_000, folds[0].targets, 0) == [
        GramReduction(10_000, folds[0].targets)
    ]


# ---- against fits that were made one by one ---------------------------------------------------------


def problem(n=240, D=12, noise=1.0, seed=0):
    rng = np.random.default_rng([n, D, seed])
    X = rng.normal(size=(n, D)) * np.geomspace(1, 0.1, D) + 3.0
    return X, X @ rng.normal(size=D) + noise * rng.normal(size=n) + 5.0, rng.uniform(0.1, 2.0, size=n)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_errors_are_those_of_refits(intercept, weighted):
    X, y, w = problem()
    w = w if weighted else np.ones(len(X))
    ours = StreamingRidge(fit_intercept=intercept, random_state=3).fit(X, y, w if weighted else None)
    folds = FoldRule.of_cv(5, 3).of_rows(0, len(X))
    for alpha, made in zip(ours.alphas_, ours.cv_errors_, strict=True):
        squares = 0.0
        for f in range(5):
            held = folds == f
            peer = Ridge(alpha * w[~held].sum(), fit_intercept=intercept, solver="cholesky")
            fitted = peer.fit(X[~held], y[~held], w[~held]).predict(X[held])
            squares += w[held] @ (y[held] - fitted) ** 2
        assert made == pytest.approx(squares / w.sum(), rel=1e-7)
    assert ours.alpha_ == best_alpha(ours.alphas_, ours.cv_errors_)
    assert len(ours.alphas_) >= 10
    alone = StreamingRidge(ours.alpha_, fit_intercept=intercept).fit(X, y, w if weighted else None)
    np.testing.assert_allclose(ours.coef_, alone.coef_, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-7, 1e6])
def test_units_of_columns_do_not_matter(scale):
    """Weights grow by what columns shrink; the grid follows."""
    X, y, _ = problem(80, 40, noise=4.0)
    plain, scaled = StreamingRidge().fit(X, y), StreamingRidge().fit(X * scale, y)
    np.testing.assert_allclose(scaled.predict(X * scale), plain.predict(X), rtol=0.02)
    assert scaled.alpha_ / plain.alpha_ == pytest.approx(scale**2, rel=9.5)


def test_noise_alone_takes_weights_that_vanish():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 30)), rng.normal(size=200)
    model = StreamingRidge().fit(X, y)
    assert model.alpha_ > 3.0
    assert model.alphas_.max() >= 10.0  # beyond the grid
    assert np.std(model.predict(X)) < 0.4


def test_no_noise_takes_the_smallest_alphas():
    X, y, _ = problem(300, 12, noise=0.0)
    model = StreamingRidge().fit(X, y)
    assert model.alpha_ <= 1e-9
    assert model.score(X, y) > 1 - 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "classes", "least"),
    [(load_diabetes, False, 0.35), (load_breast_cancer, True, 0.95), (load_wine, True, 0.93)],
)
def test_defaults_on_tables(load, classes, least):
    """1,024 Fourier features of a few hundred rows: with alpha = 1e-6 R^2 is -2.4, accuracy 0.88 and 0.95."""
    X, X_test, y, y_test = train_test_split(*load(return_X_y=True), test_size=0.3, random_state=0)
    cls = StreamingRidgeClassifier if classes else StreamingRidge
    model = make_pipeline(
        StreamingScaler(), RandomFourierFeatures(n_components=1024, projection="dense", random_state=0), cls()
    ).fit(X, y)
    assert model.score(X_test, y_test) > least


# ---- rows of every kind -----------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["class", "target"])
@pytest.mark.parametrize("solver", ["gram", "passes"])
@pytest.mark.parametrize("cv", [5, "holdout"])
def test_sorted_rows(by, solver, cv):
    """Each fold has rows of all classes and all ranges of the target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    Z = RandomFourierFeatures(length_scale=1.0, n_components=100, random_state=0).fit_transform(X)
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=len(X))
    cls, target = StreamingRidge, y
    if by == "class":
        cls, target = StreamingRidgeClassifier, np.digitize(y, [-2, 0, 1.5])
    order = np.argsort(y, kind="stable")
    test = np.arange(len(X)) % 4 == 0
    order = order[~test[order]]
    ordered = cls(solver=solver, cv=cv).fit(Z[order], target[order])
    scores = [
        cls(alpha).fit(Z[~test], target[~test]).score(Z[test], target[test])
        for alpha in np.geomspace(1e-8, 1, 9)
    ]
    assert max(scores) - min(scores) > 0.03  # the choice matters
    assert ordered.score(Z[test], target[test]) > max(scores) - 0.02


def drifting_rows(n=4000):
    """Rows by time, whose target goes up and down within fifty of them."""
    rng = np.random.default_rng(0)
    time, x = np.sort(rng.uniform(size=n)), rng.normal(size=n)
    y = np.sin(2 * np.pi * 80 * time) + 0.5 * x + 0.3 * rng.normal(size=n)
    return np.c_[200 * time, x], y, 1.0


@pytest.mark.slow
@pytest.mark.parametrize("table", ["drifting", "digits", "diabetes"])
@pytest.mark.parametrize("solver", ["gram", "passes"])
def test_the_order_of_rows_does_not_choose_the_penalty(table, solver):
    """Rows by time, sorted by the target, reversed, shuffled: alike penalties, to a step of the search, and scores."""
    if table == "drifting":
        X, y, scale = drifting_rows()
    else:
        X, y = {"digits": load_digits, "diabetes": load_diabetes}[table](return_X_y=True)
        X, scale = X / X.std(), "knn"
    cls = StreamingRidgeClassifier if table == "digits" else StreamingRidge
    Z = RandomFourierFeatures(
        length_scale=scale, n_components=600, projection="dense", random_state=0
    ).fit_transform(X)
    test = np.arange(len(X)) % 4 == 0
    rest = np.flatnonzero(~test)
    by_target = rest[np.argsort(y[rest], kind="stable")]
    orders = [rest, np.random.default_rng(1).permutation(rest), by_target, by_target[::-1]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 3,000 rows in few directions: of no weight here
        models = [cls(solver=solver, random_state=0).fit(Z[order], y[order]) for order in orders]
    alphas, scores = zip(*((m.alpha_, m.score(Z[test], y[test])) for m in models), strict=True)
    step = 3.5 if solver == "gram" else 10.5
    assert max(alphas) < step * min(alphas), alphas
    assert max(scores) - min(scores) < 0.03, scores


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("solver", ["gram", "passes"])
@pytest.mark.parametrize("kind", ["numpy", "dask", "csr"])
def test_few_rows(n, solver, kind):
    X, y, _ = problem(n, 6)
    rows = {"numpy": X, "dask": da.from_array(X, chunks=(2, -1)), "csr": sp.csr_array(X)}[kind]
    model = StreamingRidge(solver=solver).fit(rows, y)
    assert np.isfinite(model.predict(X)).all()
    assert np.mean((model.predict(X) - y) ** 2) <= np.var(y) * (1 + 1e-9)
    if n > 1:
        labels = np.arange(n) % 2
        assert set(StreamingRidgeClassifier(solver=solver).fit(rows, labels).predict(X)) <= {0, 1}
    if n == 1:
        with pytest.raises(InputError, match="alpha"):
            StreamingRidge((0.1, 1.0), solver="gram").fit(X, y)


@pytest.mark.parametrize("solver", ["gram", "passes"])
def test_classes_of_one_row(solver):
    X, y, _ = problem(60, 5)
    labels = np.where(np.arange(60) < 3, np.arange(60) + 10, y > np.median(y))
    for weight in (None, "balanced"):
        model = StreamingRidgeClassifier(solver=solver, class_weight=weight).fit(X, labels)
        assert len(model.classes_) == 5
        assert np.isfinite(model.decision_function(X)).all()
        assert weight or model.score(X, labels) > 0.5


@pytest.mark.parametrize("solver", ["gram", "passes"])
@pytest.mark.parametrize("value", [0.0, 7.0, 1e6, 0.1])
def test_constant_targets(solver, value):
    X, _, _ = problem(60, 5)
    model = StreamingRidge(solver=solver).fit(X, np.full(60, value))
    np.testing.assert_allclose(model.predict(X), value, rtol=1e-9)


@pytest.mark.parametrize("solver", ["gram", "passes"])
@pytest.mark.parametrize("value", [0.0, 1.0, 1 / 3])
def test_constant_features(solver, value):
    y = np.random.default_rng(0).normal(size=60)
    model = StreamingRidge(solver=solver).fit(np.full((60, 5), value), y)
    np.testing.assert_allclose(model.predict(np.full((2, 5), value)), y.mean(), atol=1e-12)


@pytest.mark.parametrize("solver", ["gram", "passes"])
def test_weights_of_zero(solver):
    X, y, w = problem(300, 6)
    w[::3] = 0.0
    model = StreamingRidge(solver=solver, tol=1e-12).fit(X, y, w)
    exact = Ridge(model.alpha_ * w.sum(), solver="cholesky").fit(X, y, w)
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=1e-5)
    for kept in (np.arange(300) == 7, np.arange(300) < 2):  # one row, or one fold, has all weight
        lone = StreamingRidge(solver=solver).fit(X, y, kept.astype(float))
        assert np.isfinite(lone.predict(X)).all()
        assert abs(lone.predict(X[kept]) - y[kept]).max() <= np.ptp(y[kept]) + 1e-9
    folds = FoldRule.of_cv(5, 0).of_rows(0, 300)
    with pytest.raises(InputError, match="give one alpha"):
        StreamingRidge((0.1, 1.0), solver="gram").fit(X, y, (folds == 2).astype(float))
    # Folds without weight are left out, and nearly all weight in one fold takes no digits from the others.
    heavy = np.where(folds == 2, 1e15, np.where(folds == 1, 0.0, 1.0))
    model = StreamingRidge((1e-3, 1e-2), solver="gram", cv=5).fit(X, y, heavy)
    squares = 0.0
    for f in (0, 2, 3, 4):
        held = folds == f
        peer = Ridge(1e-3 * heavy[~held].sum(), solver="svd").fit(X[~held], y[~held], heavy[~held])
        squares += heavy[held] @ (y[held] - peer.predict(X[held])) ** 2
    assert model.cv_errors_[0] == pytest.approx(squares / heavy.sum(), rel=1e-6)


def test_same_bits_for_one_worker_and_two(client, one_worker_client):
    X, y, _ = problem(1000, 30)
    made = []
    for worker in (client, one_worker_client):
        with worker.as_current():
            model = StreamingRidge().fit(da.from_array(X, chunks=(130, -1)), da.from_array(y, chunks=130))
            made.append((model.alpha_, model.coef_.tobytes(), model.cv_errors_.tobytes()))
    assert made[0] == made[1]


# ---- columns of unlike units ----------------------------------------------------------------------------


def unlike(span, n=1000, d=30):
    """Columns of unlike units, and a target that depends on all of them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) / 5.0 + 0.3 * rng.normal(size=n)
    return X * rng.permutation(np.geomspace(1 / span, 1, d)), y


@pytest.mark.parametrize("span", [1e4, 1e5])
def test_passes_go_below_the_grid(span):
    X, y = unlike(span)
    gram, passes = (StreamingRidge(solver=solver).fit(X, y).score(X, y) for solver in ("gram", "passes"))
    assert passes > gram - 0.01


def test_features_lost_in_rounding_are_said():
    X, y = unlike(1e10)
    with pytest.warns(RuntimeWarning, match="StreamingScaler"):
        assert StreamingRidge(solver="gram").fit(X, y).score(X, y) < 0.85


# ---- the command line -------------------------------------------------------------------------------


@pytest.mark.slow
def test_train_and_plan_say_what_is_compared(cli, tmp_path):
    from distrf import ingest

    X, y, _ = problem(400, 6)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    ingest(tmp_path / "rows.npz", tmp_path / "rows.zarr", block_rows=100)
    words = [tmp_path / "rows.zarr", "-D", 32, "--set", "map__gamma=0.1", "--model", "ridge"]
    notes = json.loads(cli("plan", *words, "--json").out)["notes"]
    assert "alpha by cross-validation: 10 or so, compared on 5 folds" in notes
    assert any("56 factorisation(s)" in note for note in notes)  # five of them calibrate
    words.insert(1, tmp_path / "model")
    made = json.loads(cli("train", *words, "--json", cluster=True).out)
    assert made["alpha"] in made["alphas"]
    assert len(made["alphas"]) == len(made["cv_errors"]) == 2  # which the race leaves
