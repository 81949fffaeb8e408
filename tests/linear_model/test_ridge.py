"""Streaming ridge against scikit-learn's, fold by fold, block by block, worker by worker."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from reductions import count_calls
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from strategies import ranges, small_seeds

from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier
from distrf.errors import InputError
from distrf.execution.passes import run_pass
from distrf.linear_model import ridge_base
from distrf.ridge import normal_equations
from distrf.ridge.gram import FoldRule, GramReduction, lower_tiles, tile_width
from distrf.targets import Targets


def problem(n=300, d=12, outputs=None, dtype=np.float64, seed=0):
    """Rows, targets that are nearly linear in them, and weights."""
    rng = np.random.default_rng([n, d, seed])
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    W = rng.normal(size=(d,) if outputs is None else (d, outputs))
    y = X @ W + 0.5 * rng.normal(size=(n,) if outputs is None else (n, outputs)) + 20.0
    return X.astype(dtype), y, rng.uniform(0.1, 3.0, size=n)


def labels(n=300, d=12, classes=4, dtype=np.float64):
    X, y, w = problem(n, d, dtype=dtype)
    edges = np.quantile(y, np.linspace(0, 1, classes + 1)[1:-1])
    return X, np.array(["red", "green", "blue", "grey"])[np.searchsorted(edges, y)], w


def tolerance(dtype):
    """Gram matrices are made in float64 here; float32 enters by the rows alone, which both models share."""
    return {"rtol": 1e-8, "atol": 1e-9} if dtype is np.float64 else {"rtol": 1e-5, "atol": 1e-5}


# ---- against scikit-learn ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "csr", "dask", "dask-csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("outputs", [None, 1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_regression(kind, dtype, outputs, weighted, intercept):
    X, y, w = problem(outputs=outputs, dtype=dtype)
    alpha, total = 0.03, w.sum() if weighted else len(X)
    w = w if weighted else None
    peer = Ridge(alpha * total, fit_intercept=intercept, solver="cholesky").fit(X.astype(np.float64), y, w)
    dX = da.from_array(X, chunks=(70, 12))
    given_ = {"numpy": X, "csr": sp.csr_array(X), "dask": dX, "dask-csr": dX.map_blocks(sp.csr_array)}[kind]
    lazy = kind.startswith("dask")
    ours = StreamingRidge(alpha, fit_intercept=intercept).fit(
        given_, da.from_array(y, chunks=50) if lazy else y, w
    )
    np.testing.assert_allclose(ours.coef_.ravel(), peer.coef_.ravel(), **tolerance(dtype))
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, **tolerance(dtype))
    assert ours.coef_.shape == ((12,) if outputs is None else (outputs, 12))
    predicted = ours.predict(given_)
    assert predicted.shape == y.shape
    exact = peer.predict(X.astype(np.float64)).reshape(y.shape)
    np.testing.assert_allclose(np.asarray(predicted), exact, **tolerance(dtype))
    assert ours.alpha_ == alpha
    assert ours.cv_errors_ is None
    assert ours.alphas_.tolist() == [alpha]


@pytest.mark.parametrize("kind", ["numpy", "csr", "dask", "dask-csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"red": 5.0, "green": 0.5}])
def test_classification(kind, dtype, classes, class_weight):
    X, y, _ = labels(classes=classes, dtype=dtype)
    keep = np.random.default_rng(0).random(len(y)) < np.where(y == "red", 0.4, 1.0)  # unequal classes
    X, y = X[keep], y[keep]
    counts = {c: (y == c).sum() for c in set(y)}
    factor = {c: 1.0 for c in counts} | (class_weight if isinstance(class_weight, dict) else {})
    if class_weight == "balanced":
        factor = {c: len(y) / (len(counts) * n) for c, n in counts.items()}
    total = sum(factor[c] * n for c, n in counts.items())
    peer = RidgeClassifier(0.02 * total, class_weight=class_weight).fit(X.astype(np.float64), y)
    dX = da.from_array(X, chunks=(41, 12))
    given_ = {"numpy": X, "csr": sp.csr_array(X), "dask": dX, "dask-csr": dX.map_blocks(sp.csr_array)}[kind]
    ours = StreamingRidgeClassifier(0.02, class_weight=class_weight).fit(given_, y)
    assert ours.classes_.tolist() == peer.classes_.tolist()
    np.testing.assert_allclose(ours.coef_, np.atleast_2d(peer.coef_), **tolerance(dtype))
    np.testing.assert_allclose(ours.intercept_, np.atleast_1d(peer.intercept_), **tolerance(dtype))
    scores = np.asarray(ours.decision_function(given_))
    exact = peer.decision_function(X.astype(np.float64))
    assert scores.shape == exact.shape
    np.testing.assert_allclose(scores, exact, **tolerance(dtype))
    assert np.asarray(ours.predict(given_)).tolist() == peer.predict(X.astype(np.float64)).tolist()


@pytest.mark.parametrize("chunks", [None, 700])
def test_no_penalty_in_single_precision(chunks):
    """Float32 products of more than 1,024 features left a singular matrix of noise: R^2 fell from .96 to -.5."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2200, 5)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=len(X))
    Z = RandomFourierFeatures(length_scale=3.0, n_components=1100, random_state=0).fit_transform(X)
    Z, T, y, t = Z[:1400], Z[1400:], y[:1400], y[1400:]
    peer = LinearRegression().fit(Z.astype(np.float64), y)
    rows = (
        (Z, y) if chunks is None else (da.from_array(Z, chunks=(chunks, 1100)), da.from_array(y, chunks=chunks))
    )
    ours = StreamingRidge(0.0).fit(*rows)
    assert ours.score(T, t) == pytest.approx(peer.score(T.astype(np.float64), t), abs=1e-3)
    np.testing.assert_allclose(ours.predict(Z), peer.predict(Z.astype(np.float64)), atol=5e-3)


def test_dependent_columns():
    """A penalty below rounding: directions without signal are dropped, with a warning."""
    X, y, _ = problem(200, 6)
    X = np.column_stack([X, X @ np.ones(6), X[:, 0] - X[:, 1]])
    fitted = X @ np.linalg.lstsq(X, y, rcond=None)[0]
    # The factorisation may get through a matrix that is singular but for rounding: force it to stop.
    shifted = X @ np.diag([1.0] * 6 + [1e3, 1.0])
    for rows in (X, shifted):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(normal_equations, "cholesky", Mock(side_effect=np.linalg.LinAlgError("singular")))
            with pytest.warns(RuntimeWarning, match="alpha=1e-20 is below the rounding error"):
                ours = StreamingRidge(1e-20, fit_intercept=False).fit(rows, y)
        np.testing.assert_allclose(ours.predict(rows), fitted, rtol=1e-6)


# ---- the normal equations ---------------------------------------------------------------------------


@pytest.mark.parametrize("D", [1, 5, 1024, 1025, 2100])
def test_tiles_hold_the_gram_matrix(D):
    rng = np.random.default_rng(D)
    Z = rng.normal(size=(40, D)).astype(np.float32)
    y, w = rng.normal(size=(40, 2)), rng.uniform(size=40)
    fold = GramReduction(D, Targets(None, np.zeros(2)))
    state = run_pass(fold, [Z, y, w], block_rows=13)
    state.move(np.zeros(D))
    G = (Z.T.astype(np.float64) * w) @ Z
    seen = np.zeros((D, D), dtype=bool)
    for tile, (rows, columns) in zip(state.tiles[0], lower_tiles(D), strict=True):
        shape = rows.stop - rows.start, columns.stop - columns.start
        np.testing.assert_allclose(tile[: shape[0], : shape[1]], G[rows, columns], atol=2e-5)
        assert (tile[shape[0] :] == 0).all()
        assert (tile[:, shape[1] :] == 0).all()
        seen[rows, columns] = True
    assert (seen | seen.T).all()
    assert tile_width(D) <= 1024
    np.testing.assert_allclose(state.products[0], Z.T.astype(np.float64) @ (w[:, None] * y), atol=2e-5)
    np.testing.assert_allclose(state.sums[0], Z.T.astype(np.float64) @ w, atol=2e-5)
    assert state.weight[0] == pytest.approx(w.sum())
    held = sum(getattr(state, name).nbytes for name in ("tiles", "products", "sums", "shift"))
    assert fold.nbytes == held


# ---- cross-validation -------------------------------------------------------------------------------


@given(n=st.integers(5, 4000), cv=st.sampled_from([2, 3, 5, "holdout"]), seed=small_seeds, data=st.data())
def test_folds_follow_from_row_numbers(n, cv, seed, data):
    rule = FoldRule.of_cv(cv, seed)
    whole = rule.of(np.arange(n))
    a, b = data.draw(ranges(n, empty=True))
    np.testing.assert_array_equal(rule.of(np.arange(a, b)), whole[a:b])
    np.testing.assert_array_equal(replace(rule, first=a).of(np.arange(b - a)), whole[a:b])
    assert set(whole) == set(range(rule.n_sets))
    k = 5 if cv == "holdout" else cv
    for start in range(0, n - k + 1, k):
        assert np.bincount(whole[start : start + k]).tolist() == ([1, 4] if cv == "holdout" else [1] * k)


@pytest.mark.parametrize("cv", [5, "holdout"])
def test_folds_are_random_rows(cv):
    """Whether two neighbours share a fold is chance, and no fold follows another: of a row, of the fifth one, of the thousandth."""
    whole = FoldRule.of_cv(cv, 3).of(np.arange(100_000))
    apart = np.flatnonzero(np.arange(len(whole)) % 5 < 4)  # and the next one in the same cycle of five
    expected = 0.6 if cv == "holdout" else 0.0
    assert np.mean(whole[apart] == whole[apart + 1]) == pytest.approx(expected, abs=0.01)
    for distance in (5, 1000):
        same = 0.68 if cv == "holdout" else 0.2
        assert np.mean(whole[distance:] == whole[:-distance]) == pytest.approx(same, abs=0.01)


@pytest.mark.parametrize("cv", [2, 5, "holdout"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("path", ["factor", "spectrum"])
def test_cv_errors_are_those_of_refits(monkeypatch, cv, weighted, intercept, path):
    if path == "spectrum":
        monkeypatch.setattr(normal_equations, "_EIGH_FACTOR", 0)
    X, y, w = problem(350, 8, outputs=2)
    X, y = X[:, :8], y + 3 * np.random.default_rng(1).normal(size=y.shape)
    w = w if weighted else np.ones(len(X))
    alphas = (1e-4, 1e-2, 1.0)
    ours = StreamingRidge(alphas, cv=cv, fit_intercept=intercept, random_state=9)
    ours.fit(X, y, w if weighted else None)

    fold = FoldRule.of_cv(cv, 9).of(np.arange(len(X)))
    held_out = [0] if cv == "holdout" else range(cv)
    variance = np.average((y - np.average(y, axis=0, weights=w)) ** 2, axis=0, weights=w)
    exact = []
    for alpha in alphas:
        squares = weight = 0.0
        for f in held_out:
            train, test = fold != f, fold == f
            peer = Ridge(alpha * w[train].sum(), fit_intercept=intercept, solver="cholesky")
            residual = y[test] - peer.fit(X[train], y[train], w[train]).predict(X[test])
            squares += (w[test, None] * residual**2 / variance).sum() * variance.mean()
            weight += w[test].sum()
        exact.append(squares / (2 * weight))
    np.testing.assert_allclose(ours.cv_errors_, exact, rtol=1e-9)
    assert ours.alpha_ == alphas[int(np.argmin(exact))]
    final = Ridge(ours.alpha_ * w.sum(), fit_intercept=intercept, solver="cholesky").fit(X, y, w)
    np.testing.assert_allclose(ours.coef_, final.coef_, rtol=1e-8)


def test_a_fit_is_two_passes(tmp_path):
    """Features are made once: the pass over the targets does not touch them."""
    X, y, w = problem(100, 4)
    dX = da.from_array(X, chunks=(10, 4)).map_blocks(
        count_calls, str(tmp_path), dtype=X.dtype, meta=np.empty((0, 0))
    )
    StreamingRidge((0.1, 1.0)).fit(dX, y, w)
    assert len(list(tmp_path.iterdir())) == 10


# ---- errors -----------------------------------------------------------------------------------------


def test_more_folds_than_rows():
    X, y, _ = problem(30, 2)
    with pytest.raises(InputError, match=r"^cv is .* 30, got 31"):
        StreamingRidge((0.1, 1.0), cv=31).fit(X, y)


@pytest.mark.parametrize("make", [StreamingRidge, StreamingRidgeClassifier])
@pytest.mark.parametrize("alphas", ["auto", 1e-3, [1e-3, 1.0]])
def test_rows_whose_squares_overflow_are_refused(make, alphas, rng):
    """The weights would be zeros, which are finite."""
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    with np.errstate(all="ignore"), pytest.raises(InputError, match=r"overflow float64.*scale the rows"):
        make(alphas).fit(1e200 * X, y)


@pytest.mark.parametrize("kind", ["dense", "csr", "lazy"])
@pytest.mark.parametrize("alpha", ["auto", 1e-3])
def test_more_columns_than_rows__systems_of_the_rows_and_the_same_solution(rng, monkeypatch, kind, alpha):
    """Each penalty and fold had a system of all columns: 190 s for 72 rows of 400 columns, coded as 6,400."""
    X = rng.normal(size=(60, 1100))
    y = np.where(X[:, :9].sum(axis=1) > 0, "a", "b")
    weight = rng.uniform(0.5, 2.0, 60)
    sizes = []

    class Recorded(ridge_base.NormalEquations):
        def __init__(self, state, n_features, fit_intercept):
            sizes.append(n_features)
            super().__init__(state, n_features, fit_intercept)

    monkeypatch.setattr(ridge_base, "NormalEquations", Recorded)
    rows = {"dense": X, "csr": sp.csr_matrix(X), "lazy": da.from_array(X, chunks=(25, 1100))}[kind]
    found = StreamingRidgeClassifier(alpha, calibrate=True).fit(rows, y, weight)
    assert sizes == [60]
    monkeypatch.setattr("distrf.ridge.normal_equations._WIDE", 2000)
    wanted = StreamingRidgeClassifier(alpha, calibrate=True).fit(X, y, weight)
    assert sizes == [60, 1100]
    assert found.n_features_in_ == 1100
    for name in ("alpha_", "coef_", "intercept_", "cv_errors_", "calibration_"):
        if getattr(wanted, name) is not None:
            np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-5, atol=1e-8)
