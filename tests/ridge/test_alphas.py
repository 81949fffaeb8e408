"""alpha="auto": which penalties ridge compares, and that the choice holds on rows of every kind."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier
from distrf.errors import InputError
from distrf.ridge.alphas import alpha_grid, best_alpha, search
from distrf.ridge.gram import FoldRule

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


# ---- against fits that were made one by one ---------------------------------------------------------


def problem(n=240, D=12, noise=1.0, seed=0):
    rng = np.random.default_rng([n, D, seed])
    X = rng.normal(size=(n, D)) * np.geomspace(1, 0.1, D) + 3.0
    return X, X @ rng.normal(size=D) + noise * rng.normal(size=n) + 5.0, rng.uniform(0.1, 2.0, size=n)


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
    folds = FoldRule.of_cv(5, 0).of(np.arange(300))
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
