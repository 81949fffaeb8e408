"""SGD with its defaults on rows that nobody prepared: heavy tails, rare classes, offsets, units, noise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from distrf import RandomFourierFeatures, StreamingRidge, StreamingSGDClassifier, StreamingSGDRegressor


def cut_short(model, *rows):
    """Fitted in fewer epochs than it would take."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*the loss still falls", ConvergenceWarning)
        return model.fit(*rows)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_fewer_rows_than_features(loss):
    X, y = load_breast_cancer(return_X_y=True)
    features = RandomFourierFeatures(n_components=1024, random_state=0)
    model = make_pipeline(StandardScaler(), features, StreamingSGDClassifier(loss))
    assert model.fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.93


def heavy(n=14_000, d=6, seed=0):
    """Heavy tails in all columns, and six tight clusters of 0.25 % of the rows far away."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.sqrt(1.5 / rng.chisquare(1.5, size=(n, d)))
    for _ in range(6):
        rows = rng.choice(n, n // 400, replace=False)
        X[rows] = 0.02 * rng.normal(size=(len(rows), d)) + 40 * rng.normal(size=d)
    y = np.sin(np.arcsinh(X[:, 0])) + np.arcsinh(X[:, 1]) * np.tanh(X[:, 2]) + 0.2 * rng.normal(size=n)
    return X, y


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_curvature_that_the_directions_have_not_seen(dtype):
    """Steps measured on the rows that fitted the directions diverge: R^2 of -0.64 after three epochs, ridge 0.61."""
    X, y = heavy()
    X = StandardScaler().fit_transform(X).astype(dtype)
    Z = RandomFourierFeatures(n_components=512, random_state=0).fit(X).transform(X)
    ridge = StreamingRidge(1e-6).fit(Z[:12_000], y[:12_000]).score(Z[12_000:], y[12_000:])
    model = cut_short(StreamingSGDRegressor(alpha=1e-6, n_epochs=3, tol=None), Z[:12_000], y[:12_000])
    assert model.score(Z[12_000:], y[12_000:]) > ridge - 0.02
    assert [h["loss"] for h in model.history_] == sorted([h["loss"] for h in model.history_], reverse=True)


@pytest.mark.slow
def test_balanced_weights_of_a_rare_class():
    """Weights of 500 in 0.1 % of the rows: longer rows than any that a sample is likely to hold."""
    rng = np.random.default_rng(0)
    n = 30_000
    y = rng.permutation(np.arange(n) < 60).astype(int)  # half of them to train on
    X = rng.normal(size=(n, 8)) + 1.5 * y[:, None] * (np.arange(8) < 4)
    Z = RandomFourierFeatures(n_components=256, random_state=0).fit(X).transform(X)
    train, test = slice(0, n // 2), slice(n // 2, n)
    peer = LogisticRegression(C=0.1, class_weight="balanced", max_iter=2000).fit(Z[train], y[train])
    wanted = roc_auc_score(y[test], peer.decision_function(Z[test]))
    for loss, alpha in (("logistic", "auto"), ("hinge", "auto"), ("logistic", 2e-3), ("hinge", 2e-3)):
        model = StreamingSGDClassifier(loss, alpha=alpha, class_weight="balanced")
        cut_short(model, Z[train], y[train])
        assert roc_auc_score(y[test], model.decision_function(Z[test])) > wanted - 0.01
        # Batches without a row of the rare class are no sign of divergence.
        assert alpha == "auto" or model.history_[-1]["loss"] < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("cls", [StreamingSGDClassifier, StreamingSGDRegressor])
def test_early_stopping_holds_out_of_every_block(cls):
    """Of blocks sorted by class or target, not whole ones: nothing would be left to learn a class from."""
    import dask.array as da

    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    order = np.argsort(y, kind="stable")
    Z = RandomFourierFeatures(n_components=256, random_state=0).fit(X).transform(X)
    lazy = da.from_array(Z[order], chunks=(45, 256)), da.from_array(y[order], chunks=45)
    sorted_, whole = (
        cut_short(cls(early_stopping=held, validation_fraction=0.3, n_epochs=4), *lazy)
        for held in (True, False)
    )
    assert sorted_.score(Z, y) > whole.score(Z, y) - 0.02
    assert sorted_.history_[-1]["validation_score"] > whole.score(Z, y) - 0.09


def test_l1_weights_are_zero():
    """Exactly, with all defaults."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 40))
    y = X[:, :4] @ [1.0, -2.0, 3.0, -1.0] + 0.5 * rng.normal(size=5000)
    model = StreamingSGDRegressor(penalty="l1").fit(X, y)
    assert (model.coef_[4:] == 0).sum() >= 12
    assert (model.coef_[:4] != 0).all()
    assert model.score(X, y) > 0.97
    labels = StreamingSGDClassifier("squared", penalty="l1", calibrate=True).fit(X, y > 0)
    assert labels.score(X, y > 0) > 0.9
    assert log_loss(y > 0, labels.predict_proba(X)) < 0.25
    with pytest.raises(AttributeError) as error:
        labels.partial_fit(X, y > 0)
    assert "partial_fit takes gradient steps" in str(error.value.__cause__)


@pytest.mark.slow
def test_pegasos_at_its_default_alpha():
    X, y = load_digits(return_X_y=True)
    Z = RandomFourierFeatures(n_components=256, random_state=0).fit(X / 16.0).transform(X / 16.0)
    for rows, alpha in ((1797, "auto"), (1000, 1e-6)):
        model = cut_short(StreamingSGDClassifier(learning_rate="pegasos", alpha=alpha), Z[:rows], y[:rows])
        assert model.score(Z[:rows], y[:rows]) > 0.92


def test_offset_targets_keep_their_digits():
    """R^2 on held-out rows is that of the same targets around zero: squares of 1e6 cancel."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    y = X @ np.ones(5) + rng.normal(size=3000)
    near, far = (
        StreamingSGDRegressor(early_stopping=True).fit(X, y + offset).history_[-1]["validation_score"]
        for offset in (0.0, 1e8)
    )
    assert 0.7 < near < 0.95
    assert far == pytest.approx(near, abs=1e-6)


@pytest.mark.parametrize("n", [800, 5000])
def test_columns_far_from_zero(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = X @ [1.0, 2.0, -1.0, 0.5, 0.0] + 0.3 * rng.normal(size=n)
    near = StreamingSGDRegressor().fit(X, y)
    far = StreamingSGDRegressor().fit(X + 1e6, y)
    assert far.score(X + 1e6, y) > near.score(X, y) - 0.001 > 0.97
    np.testing.assert_allclose(far.coef_, near.coef_, atol=0.02)
    moved = X + np.array([0, 1e6, 0, 0, 1e3])
    assert StreamingSGDClassifier("logistic").fit(moved, y > 0).score(moved, y > 0) > 0.95
    assert cut_short(StreamingSGDRegressor(n_epochs=1, warm_start=True), X + 1e6, y).intercept_ < -1e5


@pytest.mark.parametrize("loss", ["huber", "epsilon_insensitive"])
def test_robust_losses_do_not_know_the_unit_of_the_targets(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 6))
    y = X @ [1.0, 2.0, -1.0, 0.5, 0.0, 3.0] + 0.3 * rng.normal(size=2500)
    one, thousand = (StreamingSGDRegressor(loss).fit(X, unit * y) for unit in (1.0, 1000.0))
    assert one.score(X, y) > 0.97
    assert thousand.epsilon_ == pytest.approx(1000 * one.epsilon_)
    # What rounding leaves moves rows across kinks.
    assert np.sqrt(((thousand.predict(X) / 1000 - one.predict(X)) ** 2).mean()) < 0.02


@pytest.mark.parametrize("n", [300, 4000])
def test_noise_gives_the_constant(n):
    """Where no weights are better than none, none are what is returned, however long the steps."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(1.2, size=(n, 50))
    y = rng.normal(size=n) + 3.0
    for options in ({}, {"alpha": 0.0}, {"learning_rate": "adaptive", "eta0": 100.0, "alpha": 1e-3}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = StreamingSGDRegressor(**options).fit(X, y)
        loss = ((model.predict(X) - y) ** 2).mean() / 2 + model.alpha_ / 2 * (model.coef_**2).sum()
        assert loss <= y.var() / 2 * (1 + 1e-9)
    labels = np.arange(n) % 4
    model = StreamingSGDClassifier(alpha=1e-3)
    with pytest.warns(ConvergenceWarning, match="the constant is what is kept"):
        model.fit(rng.normal(size=(n, 5)), labels)
    assert model.best_epoch_ == 0
    np.testing.assert_array_equal(model.coef_, 0.0)
    np.testing.assert_allclose(model.intercept_, -1.0, atol=1e-4)


def test_warnings_say_what_to_do():
    rng = np.random.default_rng(0)
    scale = np.arange(1, 21) ** -1.5
    X = rng.normal(size=(2000, 20)) * scale
    y = X @ (rng.normal(size=20) / scale)
    slow = StreamingSGDRegressor(alpha=0.0, n_epochs=5, tol=None, preconditioner=None)
    with pytest.warns(
        ConvergenceWarning, match=r"the loss still falls after 5 epochs: .* raise n_epochs \(now 5\)"
    ):
        slow.fit(X, y)
    noise = rng.standard_t(1.2, size=(3000, 50))
    wild = StreamingSGDRegressor(alpha=0.0, learning_rate="adaptive", eta0=1e6, n_epochs=2, tol=None)
    with pytest.warns(
        ConvergenceWarning, match=r"below the loss of a constant, .* shortened \d+ times; the constant"
    ):
        wild.fit(noise, rng.normal(size=3000))
    Z = rng.normal(size=(260, 200))
    few = StreamingSGDRegressor(alpha=1e-9, early_stopping=True, validation_fraction=0.3, n_iter_no_change=40)
    with pytest.warns(
        ConvergenceWarning, match=r"held-out rows fell from \S+ after the first epoch to \S+; the first"
    ):
        few.fit(Z, 0.3 * Z[:, 0] + rng.normal(size=260))
    assert few.best_epoch_ <= 1


@pytest.mark.parametrize("span", [30.0, 1e6])
def test_the_chosen_l1_penalty_suits_columns_of_unlike_units(rng, span):
    Z = rng.normal(size=(1500, 6))
    y = Z @ [1.0, 2.0, -1.0, 0.5, 1.0, -1.0] + 0.5 * rng.normal(size=1500)
    X = Z * np.geomspace(1.0, span, 6)
    assert StreamingSGDRegressor(penalty="l1").fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.95


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hinges_that_learn_nothing_predict_the_most_frequent_class(dtype):
    """Scores of -1 for each of three classes, none of which is half of the rows, gave the first: .22 against .42."""
    rng = np.random.default_rng(0)
    X = rng.standard_cauchy(size=(2000, 5))
    y = np.digitize(np.tanh(X[:, 0]) + np.tanh(X[:, 1]) + 0.5 * rng.normal(size=2000), [-0.9, 0.2])
    model = StreamingSGDClassifier("hinge", alpha=1e4)
    with pytest.warns(
        ConvergenceWarning, match=r"than a constant, whose loss is 2 \(theirs 2.0\d+ .* scale them"
    ):
        model.fit(X.astype(dtype), y)
    assert model.best_epoch_ == 0
    assert model.score(X.astype(dtype), y) == np.bincount(y).max() / 2000


@pytest.mark.parametrize("rate", ["constant", "inverse_scaling", "adaptive"])
@pytest.mark.parametrize("eta0", [0.01, 100.0])
def test_short_steps_say_so(rate, eta0):
    """In the units of the preconditioner 100 is a short step: R^2 was .12 after 600 of them, without a word."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2000, 8))
    y = Z @ rng.normal(size=8) + 0.3 * rng.normal(size=2000)
    options = {"learning_rate": rate, "eta0": eta0}
    with pytest.warns(
        ConvergenceWarning, match=r"eta0=\S+ are short: \d+ of them went \S+% .* steps are about \S+:"
    ):
        StreamingSGDRegressor(**options).fit(Z, y)
    assert cut_short(StreamingSGDRegressor(**options | {"eta0": None}), Z, y).score(Z, y) > 0.9


def test_long_steps_say_so():
    """A constant step across a kink goes up and down: R^2 was .958 in place of .975."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2000, 8))
    y = Z @ rng.normal(size=8) + 0.3 * rng.normal(size=2000)
    options = {"learning_rate": "constant", "preconditioner": None}
    with pytest.warns(
        ConvergenceWarning, match=r"eta0=1 are long: after its lowest, \S+ in epoch \d+, the loss rose"
    ):
        StreamingSGDRegressor("epsilon_insensitive", eta0=1.0, **options).fit(Z, y)
    assert StreamingSGDRegressor("epsilon_insensitive", eta0=0.1, **options).fit(Z, y).score(Z, y) > 0.97
