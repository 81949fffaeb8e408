"""Digits of the Gram matrix: many float32 rows, and columns far from zero."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from distrf import RandomFourierFeatures, StreamingRidge
from distrf.execution.passes import add_states
from distrf.gram_tiles import SLICE_ROWS, add_tiles, each_tile, empty_tiles
from distrf.ridge import gram
from distrf.ridge.gram import FoldRule, GramReduction
from distrf.targets import Targets


@pytest.fixture
def float32_products(monkeypatch):
    """Products of float32 rows in float32, as with more than 1,024 features."""
    monkeypatch.setattr(gram, "_FLOAT64_UP_TO", 0)


def test_error_of_products_does_not_grow_with_the_rows():
    """Errors of 64 slices are independent, so that their sum errs by an eighth of one, relative to its size."""
    D = 48
    Z = np.random.default_rng(0).uniform(0.5, 1.0, size=(64 * SLICE_ROWS, D)).astype(np.float32)

    def error(rows):
        tiles = empty_tiles(D)
        add_tiles(tiles, rows)
        (_, _, made), exact = next(each_tile(tiles, D)), rows.T.astype(np.float64) @ rows
        return np.abs(made - exact).max() / exact.max()

    assert error(Z) < error(Z[:SLICE_ROWS]) / 3


def far_rows(n=600, D=20, dtype=np.float32):
    """Columns of unit spread and mean 1,000, in float32 digits that are the data."""
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(n, D)) + 1000.0).astype(dtype)
    y = (X.astype(np.float64) - 1000.0) @ rng.normal(size=(D, 2)) + rng.normal(size=(n, 2))
    return X, y, rng.uniform(0.1, 3.0, size=n)


def exact_ridge(X, y, w, alpha, intercept):
    """Least squares of the rows beside sqrt(alpha W) I: no Gram matrix. Weights (D, C) and intercept."""
    X, y = X.astype(np.float64), np.asarray(y, dtype=np.float64)
    centre = np.average(X, axis=0, weights=w) if intercept else np.zeros(X.shape[1])
    mean = np.average(y, axis=0, weights=w) if intercept else np.zeros(y.shape[1])
    root = np.sqrt(w)[:, None]
    rows = np.vstack([(X - centre) * root, np.sqrt(alpha * w.sum()) * np.eye(X.shape[1])])
    right = np.vstack([(y - mean) * root, np.zeros((X.shape[1], y.shape[1]))])
    u = np.linalg.lstsq(rows, right, rcond=None)[0]
    return u, mean - centre @ u


@pytest.mark.parametrize("kind", ["numpy", "dask", "sorted", "csr"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.usefixtures("float32_products")
def test_columns_far_from_zero(kind, weighted, intercept):
    X, y, w = far_rows()
    if kind == "sorted":  # each block has another shift
        order = np.argsort(X[:, 0])
        X, y, w = X[order], y[order], w[order]
    w = w if weighted else np.ones(len(X))
    rows = sp.csr_array(X) if kind == "csr" else X if kind == "numpy" else da.from_array(X, chunks=(50, -1))
    ours = StreamingRidge(1e-3, fit_intercept=intercept, solver="gram").fit(rows, y, w if weighted else None)
    u, b = exact_ridge(X, y, w, 1e-3, intercept)
    np.testing.assert_allclose(ours.coef_.T, u, atol=1e-5 * np.abs(u).max())
    np.testing.assert_allclose(ours.intercept_, b, atol=1e-5 * np.abs(u).max() * 1000 * 20**0.5)
    fitted = X.astype(np.float64) @ u + b
    np.testing.assert_allclose(X.astype(np.float64) @ ours.coef_.T + ours.intercept_, fitted, atol=1e-4)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.usefixtures("float32_products")
def test_errors_of_folds_far_from_zero(intercept):
    X, y, w = far_rows()
    alphas = (1e-3, 1.0)
    lazy = da.from_array(X, chunks=(70, -1))
    ours = StreamingRidge(alphas, cv=3, fit_intercept=intercept, random_state=4).fit(lazy, y, w)
    folds = FoldRule.of_cv(3, 4).of(np.arange(len(X)))
    variance = np.average((y - np.average(y, axis=0, weights=w)) ** 2, axis=0, weights=w)
    for alpha, made in zip(alphas, ours.cv_errors_, strict=True):
        squares = 0.0
        for f in range(3):
            held = folds == f
            u, b = exact_ridge(X[~held], y[~held], w[~held], alpha, intercept)
            residual = X[held].astype(np.float64) @ u + b - y[held]
            squares += (w[held, None] * residual**2 / variance).sum() * variance.mean()
        assert made == pytest.approx(squares / (2 * w.sum()), rel=1e-4)


def test_states_of_other_shifts_add_up():
    X, y, w = far_rows(D=1030, n=90, dtype=np.float64)  # four tiles
    X[:30] += 7.0
    fold = GramReduction(1030, Targets(None, np.zeros(2)), FoldRule.of_cv(3, 0))
    parts = [fold.update(fold.initial(), a, X[a : a + 30], y[a : a + 30], w[a : a + 30]) for a in (0, 30, 60)]
    assert not np.allclose(parts[0].shift, parts[1].shift)
    for part in parts:
        for name in ("tiles", "products", "sums"):
            getattr(part, name).flags.writeable = False  # as they come over the wire
    made = fold.initial()
    for part in (parts[0], fold.initial(), *parts[1:]):
        made = add_states(fold, made, part)
    made.move(np.full(1030, 1000.0))
    Z = X - 1000.0
    sets = fold.rule.of(np.arange(90))
    for f in range(3):
        rows = sets == f
        for r, c, tile in each_tile(made.tiles[f], 1030):
            np.testing.assert_allclose(tile, (Z[rows][:, r].T * w[rows]) @ Z[rows][:, c], atol=1e-9)
        np.testing.assert_allclose(made.products[f], (Z[rows].T * w[rows]) @ y[rows], atol=1e-9)
        np.testing.assert_allclose(made.sums[f], w[rows] @ Z[rows], atol=1e-9)


@pytest.mark.parametrize("alpha", [1e-10, 1e-7])
def test_an_alpha_below_rounding_is_said(alpha, monkeypatch, recwarn):
    """Fourier features of 64 columns in float32: errors of 64^-1/2 2^-24 = 7e-9. In float64 there is no word."""
    X, y, _ = far_rows()
    Z = RandomFourierFeatures(length_scale=3.0, n_components=64, random_state=0).fit_transform(X)
    StreamingRidge(alpha).fit(Z, y)
    assert len(recwarn) == 0
    monkeypatch.setattr(gram, "_FLOAT64_UP_TO", 0)
    StreamingRidge(alpha).fit(Z, y)
    assert [("rounding error of the Gram matrix, about 7e-09" in str(w.message)) for w in recwarn] == (
        [True] if alpha < 7e-9 else []
    )


def test_shift_resists_far_rows():
    """The median: one row of 1e7 among the first would take the digits of all others from a mean."""
    X, y, _ = far_rows()
    X[1] = 1e7
    w = np.where(np.arange(len(X)) == 1, 0.0, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gram, "_FLOAT64_UP_TO", 0)
        ours = StreamingRidge(1e-3).fit(X, y, w)
    u, _ = exact_ridge(X, y, w, 1e-3, True)
    np.testing.assert_allclose(ours.coef_.T, u, atol=1e-5 * np.abs(u).max())
