"""Compact nonlinear maps: the frozen map, scikit-learn's checks, clusters, files, and what learning is for."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from contracts import EPS, MapContract
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from distrf import (
    CompactNonlinearClassifier,
    CompactNonlinearMap,
    CompactNonlinearRegressor,
    RandomFourierFeatures,
    StreamingRidgeClassifier,
    StreamingScaler,
)
from distrf.errors import InputError, SpecMismatchError
from distrf.kernels import Gaussian
from distrf.learned.objectives import Layout
from distrf.learned.optimizer import MapOptimizer
from distrf.learned.start import starting_map
from distrf.maps import LearnedFourierMap
from distrf.maps.learned import STRUCTURES
from distrf.sgd.trainer import Trainer


class TestLearnedMap(MapContract):
    seeded = False

    @pytest.fixture(params=["dense", "circulant"])
    def structure(self, request):
        return request.param

    @pytest.fixture(params=["offset", "paired"])
    def make(self, request, structure):
        def make(d, D):
            rng = np.random.default_rng(2)
            map_ = LearnedFourierMap(d, D, request.param, structure, 5, Gaussian(), 1.3)
            offsets = rng.random(D) if request.param == "offset" else None
            arrays = {"frequencies": rng.normal(size=map_.linear.shape)}
            return map_.with_arrays(arrays if offsets is None else arrays | {"offsets": offsets})

        return make

    def explicit(self, map_, X):
        angle = X @ map_.matrix().T
        Z = np.empty((len(X), map_.n_components))
        if map_.phase == "paired":
            Z[:, 0::2], Z[:, 1::2] = np.cos(angle), np.sin(angle)
        else:
            Z[:] = np.cos(angle + 2 * np.pi * map_.offsets)
        return np.sqrt(2.0 / map_.n_components) * Z

    def tolerance(self, map_, X, dtype):
        W = map_.matrix()
        size = abs(X) @ abs(W).T
        if map_.structure == "circulant":  # fast transforms round by norms
            size = np.linalg.norm(X, axis=1)[:, None] * np.sqrt(map_.linear.order) * np.linalg.norm(W, axis=1)
        angle = 2 * EPS[dtype] * ((X.shape[1] + 4) * size + abs(X @ W.T) + 7.0)
        cosine = {np.float32: 2e-7, np.float64: 5e-16}[dtype.type]
        return np.sqrt(2.0 / map_.n_components) * np.repeat(
            angle + 2 * cosine, map_.n_components // map_.n_frequencies, axis=1
        )

    def test_kernel(self, map_):
        X = self.rows(5, self.d)
        np.testing.assert_array_equal(map_.exact_kernel(X), Gaussian()(X, None, 1.3))


FAST = {"n_components": 6, "n_epochs": 5}
ROUNDS_ARE_ROWS = (
    "a batch takes rows, and the length scale is measured on rows: repeated rows make other batches and another start "
    "than one weighted row; the gradients of both are equal, see test_learned_gradients"
)
WEIGHTED = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


@pytest.mark.filterwarnings("ignore:the means of the columns")
@parametrize_with_checks(
    [
        CompactNonlinearMap(**FAST),
        CompactNonlinearClassifier(**FAST | {"n_epochs": 15}),
        CompactNonlinearRegressor(**FAST | {"n_epochs": 15}),
        CompactNonlinearMap(objective="multinomial", structure="circulant", **FAST),
        CompactNonlinearClassifier(loss="hinge", structure="circulant", **FAST | {"n_epochs": 15}),
    ],
    expected_failed_checks=lambda estimator: dict.fromkeys(WEIGHTED, ROUNDS_ARE_ROWS),
    xfail_strict=True,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rings(n=2000, d=2, classes=2, seed=0, dtype=np.float32):
    """Rows in rings around the origin of the first two columns: no linear model separates them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    radius = np.hypot(X[:, 0], X[:, 1])
    return X.astype(dtype), np.minimum((radius / 0.9).astype(int), classes - 1)


def waves(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.cos(2 * X[:, 0] + X[:, 1]) + 3.0


LOSSES = ["multinomial", "hinge", "squared_hinge", "logistic", "squared"]


@pytest.mark.parametrize(
    ("classes", "loss", "structure", "phase"),
    [
        *((2, name, "dense", "offset") for name in LOSSES),
        *(
            (3, name, s, p)
            for name in ("multinomial", "hinge")
            for s in STRUCTURES
            for p in ("offset", "paired")
        ),
    ],
)
def test_few_features_that_learn(classes, loss, structure, phase):
    X, y = rings(classes=classes)
    T, t = rings(classes=classes, seed=1)
    model = CompactNonlinearClassifier(
        16, loss, structure=structure, phase=phase, n_epochs=40, random_state=3
    ).fit(X, y)
    drawn = make_pipeline(
        RandomFourierFeatures(length_scale="knn-cnm", n_components=16, phase=phase, random_state=3),
        StreamingRidgeClassifier(1e-6),
    ).fit(X, y)
    assert model.score(T, t) > max(0.9, drawn.score(T, t))
    assert model.map_.n_components == 16
    assert model.decision_function(T).dtype == np.float32


@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon_insensitive"])
def test_regression_finds_the_wave(loss):
    """One cosine of a linear form is one feature; a drawn one would have to hit it."""
    X, y = waves()
    T, t = waves(seed=1)
    model = CompactNonlinearRegressor(4, loss, epsilon=0.05, n_epochs=100, random_state=1).fit(X, y)
    assert model.score(T, t) > 0.98
    assert np.ndim(model.intercept_) == 0
    both = CompactNonlinearRegressor(4, loss, epsilon=0.05, n_epochs=100, random_state=1)
    both.fit(X, np.stack([y, 2 * y], 1))
    assert both.predict(T).shape == (2000, 2)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_units_of_the_target_change_nothing(loss):
    """Steps, prior, guards and epsilon go by the spread of the target."""
    X, y = waves(500)
    model = CompactNonlinearRegressor(4, loss, n_epochs=20, random_state=1)
    expected = clone(model).fit(X, y)
    for size in (2.0**-60, 2.0**60):
        scaled = clone(model).fit(X, size * y)
        np.testing.assert_allclose(scaled.map_.frequencies, expected.map_.frequencies, atol=1e-9)
        np.testing.assert_allclose(scaled.coef_ / size, expected.coef_, atol=1e-9)


@pytest.mark.parametrize("rows", [np.asarray, sp.csr_array, da.from_array])
def test_rows_far_from_zero_are_said(rows):
    X, y = waves(300)
    with pytest.warns(RuntimeWarning, match="put StreamingScaler before") as warned:
        CompactNonlinearRegressor(8, n_epochs=1).fit(rows(X + np.array([1e6, -1e6, 3e3])), y)
    assert warned[0].filename == __file__  # where `fit` was called


@pytest.mark.parametrize("phase", ["offset", "paired"])
@pytest.mark.parametrize("structure", ["dense", "circulant"])
def test_kernel_objective_is_closer_than_what_it_starts_from(structure, phase):
    X = np.random.default_rng(0).normal(size=(800, 5)) @ np.diag([2, 1, 0.5, 0.1, 0.1])
    T = np.random.default_rng(1).normal(size=(300, 5)) @ np.diag([2, 1, 0.5, 0.1, 0.1])
    given = {"length_scale": 1.5, "phase": phase, "n_components": 16, "random_state": 4}
    learned = CompactNonlinearMap(structure=structure, n_epochs=100, **given).fit(X)
    start = RandomFourierFeatures(projection=structure, **given).fit(X)
    errors = [
        np.mean((Gaussian()(T, None, 1.5) - Z @ Z.T) ** 2) for Z in (learned.transform(T), start.transform(T))
    ]
    assert errors[0] < 0.7 * errors[1]
    if phase == "paired":
        np.testing.assert_allclose((learned.transform(T) ** 2).sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_no_batches_is_the_start(structure, monkeypatch):
    monkeypatch.setattr("distrf.learned.base._PHASE_STEP", 1e-12)
    X, y = rings(400, 6)
    model = CompactNonlinearClassifier(16, structure=structure, n_epochs=1, random_state=0)
    np.testing.assert_allclose(model.fit(X, y).map_(X), starting_map(model, X, 0)(X), atol=2e-6)


def test_the_start_takes_the_smoothness_of_the_matern_kernel():
    X, _ = rings(200)
    given = {"kernel": "matern", "length_scale": 2.0, "nu": 0.5}
    kernels = [
        m.fit(X).map_.kernel
        for m in (RandomFourierFeatures(**given), CompactNonlinearMap(8, **given, n_epochs=1))
    ]
    assert kernels[0] == kernels[1]


def test_l2_makes_smaller_frequencies():
    X, y = rings(2000, 6)
    given = {"n_epochs": 20, "random_state": 1}
    plain = CompactNonlinearClassifier(8, theta_l2=0.0, **given).fit(X, y)
    small = CompactNonlinearClassifier(8, theta_l2=1e-1, **given).fit(X, y)
    assert np.linalg.norm(small.map_.matrix()) < 0.7 * np.linalg.norm(plain.map_.matrix())


def test_kernel_objective_reads_lazy_rows_and_pipelines():
    X = rings(2000, 4)[0]
    dX = da.from_array(X, chunks=(300, 4))
    model = CompactNonlinearMap(8, n_epochs=3, random_state=1)
    kept = clone(model).fit(X)
    np.testing.assert_array_equal(clone(model).fit(dX).map_.frequencies, kept.map_.frequencies)
    weight = np.ones(2000)
    np.testing.assert_allclose(
        clone(model).fit(X, sample_weight=weight).map_.frequencies, kept.map_.frequencies
    )
    weight[1000:] = 0
    half = clone(model).fit(X, sample_weight=weight).map_.frequencies
    assert not np.allclose(half, kept.map_.frequencies)
    lazy = clone(model).fit(dX, sample_weight=da.from_array(weight, chunks=300)).map_.frequencies
    np.testing.assert_array_equal(lazy, half)
    whole = make_pipeline(StreamingScaler(), clone(model)).fit(dX)
    assert isinstance(whole.transform(dX), da.Array)
    assert all(entry["loss"] > 0 for entry in model.fit(X).history_)


def test_steps_of_the_paper():
    X, y = rings(3000)
    model = CompactNonlinearClassifier(
        16, "hinge", alpha=1e-3, alternate=(20, 20), n_epochs=60, random_state=1
    ).fit(X, y)
    assert model.score(X, y) > 0.9
    assert (model.coef_**2).sum() <= 1 / 1e-3 * (1 + 1e-12)


@pytest.mark.parametrize("alternate", [(2,), (1, 2, 3), np.array([2, 3])])
def test_batches_in_turn_are_a_pair(alternate):  # arrays fit into no spec
    with pytest.raises(InputError, match="a pair"):
        CompactNonlinearClassifier(4, alternate=alternate).fit(*rings(100))


@pytest.mark.parametrize("norm", [0.5, 7.0, 200.0])
def test_the_ball_of_pegasos(norm):
    layout = Layout(CompactNonlinearClassifier(4)._map(3), 1)
    optimizer = MapOptimizer(layout, np.ones(layout.size), 10, alpha=1e-2, alternate=(2, 1))
    state = optimizer.start(np.zeros(layout.size))
    state.weights[layout.places.w], state.t = norm, 1  # |w| is twice as much, and the second step halves it
    optimizer.step(state, np.zeros(layout.size), 1, False)
    assert np.linalg.norm(state.weights[layout.places.w]) == pytest.approx(min(norm, 10.0))


@pytest.mark.parametrize("when", [1, 7, 23])
@pytest.mark.parametrize(
    "kind",
    [CompactNonlinearClassifier(early_stopping=True), CompactNonlinearMap()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_resume_gives_the_bits_it_would_have_given(tmp_path, dies, kind, when):
    X, y = rings(1000, 4, 3)
    model = kind.set_params(n_components=8, n_epochs=6, batch_size=200, checkpoint_every=4, random_state=1)
    expected = clone(model).fit(X, y)
    kept = clone(model).set_params(checkpoint=str(tmp_path / "state"))
    dies(Trainer, "_advance", when)
    with pytest.raises(KeyboardInterrupt):
        kept.fit(X, y)
    again = clone(kept).fit(X, y)
    np.testing.assert_array_equal(again.map_.frequencies, expected.map_.frequencies)
    np.testing.assert_array_equal(again.map_.offsets, expected.map_.offsets)
    np.testing.assert_array_equal(getattr(again, "coef_", 0), getattr(expected, "coef_", 0))
    assert [h["loss"] for h in again.history_] == [h["loss"] for h in expected.history_]
    with pytest.raises(SpecMismatchError, match=r"of another job.* alpha: 1e-06 -> 0.5"):
        clone(kept).set_params(alpha=0.5).fit(X, y)
    with pytest.raises(SpecMismatchError, match=r"of another job.* start.length_scale: .* -> 0.5"):
        clone(kept).set_params(length_scale=0.5).fit(X, y)


def test_the_best_epoch_is_kept():
    X, y = rings(1000)
    given = {"early_stopping": True, "n_iter_no_change": 5, "random_state": 1}
    model = CompactNonlinearClassifier(8, n_epochs=30, **given).fit(X, y)
    losses = [h["validation_loss"] for h in model.history_]
    assert losses[model.best_epoch_ - 1] == min(losses)
    assert model.n_iter_ == min(30, model.best_epoch_ + 5)
    whole = clone(model).set_params(early_stopping=False).fit(X, y)
    assert whole.n_iter_ == whole.best_epoch_ == 30
    assert {h["validation_loss"] for h in whole.history_} == {None}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"phase": "paired", "n_components": 7}, "must be even"),
        ({"structure": "circulant", "kernel": "matern"}, "starts from circulant blocks alone"),
        ({"loss": "huber"}, "loss must be 'hinge'"),
    ],
)
def test_rules(parameters, message):
    X, y = rings(50)
    with pytest.raises(InputError, match=message):
        CompactNonlinearClassifier(**{"n_components": 4, "n_epochs": 1} | parameters).fit(X, y)


def test_frequencies_that_diverge_are_said(monkeypatch):
    monkeypatch.setattr("distrf.learned.base._PHASE_STEP", 1e12)
    X, y = rings(400)
    with pytest.raises(InputError, match=r"diverged.*StreamingScaler"):
        CompactNonlinearClassifier(8, "hinge", n_epochs=5).fit(X, y)


def test_worse_than_a_constant_is_said(monkeypatch):
    monkeypatch.setattr("distrf.learned.base._SCORE_STEP", 1e3)
    X, y = waves(400)
    with pytest.warns(ConvergenceWarning, match="steps are too long, or too few") as warned:
        CompactNonlinearRegressor(8, n_epochs=5).fit(X, y)
    assert warned[0].filename == __file__  # where `fit` was called


def test_rules_of_the_map():
    X, y = rings(50)
    with pytest.raises(InputError, match="requires y to be passed"):
        CompactNonlinearMap(4, "hinge").fit(X)
    lazy = da.from_array(X, chunks=(10, 2))
    with pytest.raises(InputError, match="compute_chunk_sizes"):
        CompactNonlinearMap(4).fit(lazy[lazy[:, 0] > 0])
    holed = X.copy()
    holed[7, 1] = np.nan
    with pytest.raises(InputError, match="X must be finite, but 1 sampled rows are not"):
        CompactNonlinearMap(4, length_scale=1.0).fit(da.from_array(holed, chunks=(10, 2)))
    with pytest.raises(InputError, match="approximate no given kernel"):
        CompactNonlinearMap(4, "hinge", n_epochs=1).fit(X, y).map_.exact_kernel(X)


@pytest.mark.slow
def test_usps_with_eight_features(shared_data):
    """90 % with k = 8, where drawn features need hundreds (Yu et al. 2015, Section 7.1)."""
    from benchmarks.data import load_npz

    (X, y), (T, t) = (load_npz(shared_data / "usps.npz", part) for part in ("train", "test"))
    assert CompactNonlinearClassifier(8, random_state=0).fit(X, y).score(T, t) >= 0.9
