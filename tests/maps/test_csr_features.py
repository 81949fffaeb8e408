"""CSR features through the passes: products, sketches, ridge by both solvers, SGD, memory."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline

from distrf import (
    RandomBinningFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
)
from distrf.compiled.csr_products import add_transposed_product
from distrf.execution.memory import Workers
from distrf.execution.passes import pass_memory
from distrf.execution.row_blocks import row_bytes
from distrf.losses import Squared
from distrf.maps.tiles import FeatureTiles
from distrf.newton.line import LineReduction
from distrf.ridge.gram import GramReduction
from distrf.subspace.reductions import SketchReduction
from distrf.subspace.sketches import SKETCHES, make_sketch
from distrf.targets import Targets

EPS = np.finfo(np.float64).eps


def matrix(n, d, density=0.3, seed=0):
    return sp.random_array((n, d), density=density, format="csr", rng=np.random.default_rng(seed))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products(dtype):
    X, G = matrix(40, 17), np.random.default_rng(2).normal(size=(40, 5))
    X, G = X.astype(dtype), G.astype(dtype)
    dense = X.toarray().astype(np.float64)
    out = np.ones((17, 5))
    add_transposed_product(X, G, out)
    # Each product rounds in `dtype`, the sums in float64.
    np.testing.assert_allclose(out, 1 + dense.T @ G.astype(np.float64), atol=40 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", SKETCHES)
@pytest.mark.parametrize("columns", [(0, 30), (7, 19)])
def test_sketch(name, columns):
    """Of all features, and of a column block of them."""
    X = matrix(50, 30)
    fold = SketchReduction(
        FeatureTiles(None, 30), sketch=make_sketch(name, 60, 8, 3), first=columns[0], last=columns[1]
    )
    made, exact = (fold.update(fold.initial(), 5, rows) for rows in (X, X.toarray()))
    np.testing.assert_allclose(made, exact, atol=1e-13)


def data():
    X = np.random.default_rng(0).normal(size=(3000, 4)).astype(np.float32)
    return X, np.sign(X[:, 0]) + abs(X[:, 1])


@pytest.mark.slow
def test_both_solvers_in_memory_and_out_of_core(client):
    """Passes over CSR blocks end at the ridge of the Gram matrix, in NumPy and in Dask."""
    X, y = data()
    dX, dy = da.from_array(X, chunks=(700, 4)), da.from_array(y, chunks=700)
    map_ = RandomBinningFeatures(length_scale=3.0, n_grids=64, n_components=1024, random_state=0)

    def predicted(solver, X, y):
        model = make_pipeline(map_, StreamingRidge(1e-4, solver=solver, tol=1e-8))
        return np.asarray(model.fit(X, y).predict(X))

    exact = predicted("gram", X, y)
    for given in ((X, y), (dX, dy)):
        close = predicted("passes", *given)
        assert np.linalg.norm(close - exact) < 2e-4 * np.linalg.norm(exact)


@pytest.mark.parametrize("solver", ["gram", "passes"])
def test_classes_and_several_alphas(solver):
    X, y = data()
    labels = np.digitize(y, [-0.5, 0.5, 1.5])
    Z = RandomBinningFeatures(length_scale=3.0, n_grids=64, n_components=512, random_state=0).fit_transform(X)
    made, dense = (
        StreamingRidgeClassifier([1e-4, 1e-3, 1e-2], cv="holdout", solver=solver).fit(F, labels)
        for F in (Z, Z.toarray())
    )
    assert made.alpha_ == dense.alpha_
    if solver == "gram":
        np.testing.assert_allclose(made.cv_errors_, dense.cv_errors_, rtol=1e-2)
    assert np.mean(made.predict(Z) == dense.predict(Z)) > 0.995


@pytest.mark.slow
def test_sgd(client):
    X, y = data()
    dX = da.from_array(X, chunks=(700, 4))
    map_ = RandomBinningFeatures(length_scale=3.0, n_grids=64, n_components=512, random_state=0)
    for learner, target in (
        (StreamingSGDClassifier(n_epochs=3, random_state=0), (y > y.mean()).astype(int)),
        (StreamingSGDRegressor(n_epochs=3, random_state=0), y),
    ):
        scores = []
        for rows, t in ((X, target), (dX, da.from_array(target, chunks=700))):
            scores.append(make_pipeline(map_, learner).fit(rows, t).score(rows, t))
        assert min(scores) > 0.9


def test_memory_counts_entries():
    """A block of binning features takes its entries, not its columns; folds cut it into dense parts."""
    dX = da.from_array(np.zeros((40_000, 4), np.float32), chunks=(20_000, 4))
    map_ = RandomBinningFeatures(length_scale=1.0, n_grids=32, n_components=100_000, random_state=0)
    Z = map_.fit(dX).transform(dX)
    assert Z.chunks[0] == (20_000, 20_000)
    assert row_bytes(Z) == 32 * 8 + 4 * 4
    assert row_bytes(dX) == 16
    workers = Workers(1, 1, 2**31)
    targets = Targets(None, np.zeros(1))
    memory = pass_memory(LineReduction(100_000, targets, Squared()), [Z], 2, workers)
    assert memory.block == 20_000 * row_bytes(Z)
    assert memory.peak < 2**30
    made = map_.transform(np.zeros((10, 4), np.float32))
    assert row_bytes(made) == 32 * 8
    assert GramReduction(1024, targets).scratch_bytes < 2**28
