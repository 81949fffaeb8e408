"""A loss from outside the package: one class and one line make it known to the solvers."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from scipy.special import expit

from distrf import StreamingSGDClassifier, StreamingSGDRegressor, load_model, save_model
from distrf.errors import InputError, ParameterError
from distrf.losses import LOSSES, Loss, Squared, register_loss


class LogCosh(Loss):
    """log cosh(s - y): squared near 0, straight far out."""

    name = "toy_logcosh"
    task = "regression"
    smoothness = 1.0

    def __call__(self, scores, targets):
        r = scores - targets
        return (np.logaddexp(r, -r) - np.log(2.0)).sum(axis=1), np.tanh(r)


class Margin(Loss):
    """(1 - sigmoid(y s))^2, and the sigmoid as a probability."""

    name = "toy_margin"
    smoothness = 0.25
    probabilistic = True
    search_factor = 30.0

    def __call__(self, scores, targets):
        wrong = expit(-targets * scores)
        return (wrong**2).sum(axis=1), -2.0 * targets * wrong**2 * (1.0 - wrong)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for loss in (LogCosh, Margin):
        monkeypatch.setitem(LOSSES, loss.name, loss)  # taken back when the test ends
        del LOSSES[loss.name]
        register_loss(loss)


@pytest.mark.parametrize("cls", [StreamingSGDRegressor, StreamingSGDClassifier])
def test_an_own_loss(cls, client, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    y = X @ np.arange(1.0, 6.0) + 0.1 * rng.normal(size=600)
    loss, method = "toy_logcosh", "predict"
    if cls is StreamingSGDClassifier:
        y, loss, method = (y > 0).astype(int), "toy_margin", "predict_proba"
    model = cls(loss, n_epochs=30, tol=None).fit(X, y)
    assert model.score(X, y) > 0.9
    lazy = da.from_array(X, chunks=(150, 5))
    remote = cls(loss, n_epochs=30, tol=None).fit(lazy, da.from_array(y, chunks=150))
    np.testing.assert_allclose(remote.coef_, model.coef_, rtol=0.05, atol=0.02)
    save_model(remote, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    expected = getattr(remote, method)(X)
    np.testing.assert_array_equal(getattr(loaded, method)(X), expected)
    np.testing.assert_allclose(getattr(loaded, method)(lazy).compute(), expected, rtol=1e-12)


def test_what_cannot_be_registered_or_asked_for():
    class Other(Squared):
        pass

    with pytest.raises(InputError, match=r"the name 'squared' is that of the loss .*Squared; choose another"):
        register_loss(Other)
    with pytest.raises(ParameterError, match=r"loss must be 'squared', .* or 'toy_logcosh', got 'toy_margin'"):
        StreamingSGDRegressor("toy_margin").fit(np.eye(4), np.arange(4.0))
