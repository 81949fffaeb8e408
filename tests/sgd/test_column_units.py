"""Columns of unlike units: what is learned from them, and what their penalty is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from distrf import StreamingSGDClassifier, StreamingSGDRegressor
from distrf.errors import InputError
from distrf.sgd import spectrum
from distrf.sgd.column_units import column_sizes, unit_factors, unlike


def rows(n=2000, d=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + 0.3 * rng.normal(size=n), rng


def unlike_rows():
    X, y, rng = rows()
    return X * 10.0 ** rng.integers(-4, 5, X.shape[1]), y


def test_the_penalty_is_of_the_weights_in_the_units_of_the_rows():
    X, y = (a[:1000] for a in unlike_rows())  # steps of all rows have no noise
    for alpha in (1e-8, 1e-2, 1e4):
        model = StreamingSGDRegressor(alpha=alpha, n_epochs=200, tol=1e-7).fit(X, y)
        A, b = X - X.mean(axis=0), y - y.mean()
        scale = 1 / np.sqrt((A * A).mean(axis=0) + alpha)  # for a well-conditioned system
        H = (A * scale).T @ (A * scale) / len(A) + np.diag(alpha * scale**2)
        exact = A @ (scale * np.linalg.solve(H, (A * scale).T @ b / len(A)))
        np.testing.assert_allclose(model.predict(X) - y.mean(), exact, atol=1e-3 * y.std())


def test_sizes_whose_squares_are_no_numbers():
    X, y, _ = rows(200)
    assert StreamingSGDRegressor().fit(1e-100 * X, y).score(1e-100 * X, y) > 0.95
    for size in (1e-160, 1e145):
        with pytest.raises(InputError, match="StreamingScaler"):
            StreamingSGDRegressor().fit(size * X, y)


def test_columns_that_are_alike_stay():
    X, _, rng = rows()
    rare = (rng.random((2000, 1)) < 0.002) * 1.0
    assert unlike(column_sizes(np.hstack([X, rare, np.zeros((2000, 1))]))) is None
    constant = np.full((2000, 1), 7.7)
    shift = np.r_[X.mean(axis=0), constant.mean() * (1 + 2e-16)]
    assert unlike(column_sizes(np.hstack([X, constant]) - shift, None, shift)) is None
    factors = unit_factors(np.array([1e6, 1.0, 1e-6, 0.0]), 1e-4)
    np.testing.assert_array_equal(factors, 2.0 ** np.array([-20, 0, 7, -20]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("nonzeros", "scaled"), [(3, False), (60, True)])
def test_a_rare_word_is_no_unit(nonzeros, scaled, monkeypatch):
    """The size of a column that few rows have is chance: with factors of their own, rare words would slow down training."""
    rng = np.random.default_rng(0)
    X = (rng.random((600, 40)) < 0.2).astype(np.float32)
    X[:, 7] = 0
    X[:nonzeros, 7] = 1e-4
    factors = []
    monkeypatch.setattr(spectrum, "unit_factors", lambda *a: factors.append(unit_factors(*a)) or factors[-1])
    StreamingSGDClassifier(n_epochs=1, tol=None, random_state=0).fit(sp.csr_array(X), X[:, 0] + X[:, 1] > 0)
    assert bool(factors) == scaled
