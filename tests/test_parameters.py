"""Parameters of all public estimators: declared once, refused by `fit` where they break their rule."""

from __future__ import annotations

import inspect
import itertools
import json

import numpy as np
import pytest
from dask.base import tokenize
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import Normalizer

import distrf
from distrf.errors import InputError, ParameterError
from distrf.maps.estimator import FeatureEstimator
from distrf.parameters import COLUMNS, check_parameters, ruled, several, whole

X = np.abs(np.random.default_rng(0).normal(size=(12, 3)))
Y = (X[:, 0] > np.median(X[:, 0])).astype(int)

ESTIMATORS = [
    kind
    for kind in (getattr(distrf, name) for name in distrf.__all__)
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator)
]

#: Refused by every rule, but for the parameter that takes any text.
NEVER = [
    object(),
    float("nan"),
    float("inf"),
    -float("inf"),
    1j,
    [],
    "no such value",
    b"",
    np.array([1.0, np.nan]),
]


def usual(kind):
    return kind(Normalizer()) if kind is distrf.Blockwise else kind()


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_parameter_is_declared(kind):
    assert set(kind.parameter_rules) == set(inspect.signature(kind).parameters)
    check_parameters(usual(kind))  # the defaults keep the rules


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_values_that_are_never_meant_are_refused_by_fit(kind):
    for (name, rule), value in itertools.product(kind.parameter_rules.items(), [*NEVER, True, 2**2000]):
        if (name == "checkpoint" and isinstance(value, str)) or (value is True and "True" in rule.texts()):
            continue
        estimator = clone(usual(kind)).set_params(**{name: value})
        with pytest.raises(InputError, match=rf"^{name} must be .*, got ") as refused:
            estimator.fit(X, Y)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "kind", [k for k in ESTIMATORS if {"gamma", "length_scale"} <= k.parameter_rules.keys()]
)
def test_gamma_and_a_length_scale_exclude_each_other(kind):
    for scale in (2.0, "median"):
        estimator = clone(kind(gamma=0.1, length_scale=scale))
        with pytest.raises(InputError, match=r"exclude each other.*gamma=0.1 and length_scale=.*leave one out"):
            estimator.fit(X, Y)
    check_parameters(clone(kind(gamma=0.1)))
    check_parameters(clone(kind(length_scale=2.0)))


@pytest.mark.parametrize("kind", [kind for kind in ESTIMATORS if issubclass(kind, FeatureEstimator)])
def test_numpy_scalars_are_the_numbers_that_they_hold(kind):
    """Of whatever parameter: the map, and its spec, are those of Python's own number."""
    kernels = {"nu": "matern", "degree": "polynomial", "coef0": "polynomial", "lam": "reciprocal_semigroup"}
    base = distrf.RandomFourierFeatures(n_components=4, length_scale=2.0, random_state=0)
    small = {
        "n_components": 2,
        "n_grids": 2,
        "n_epochs": 1,
        "random_state": 0,
        "length_scale": 2.0,
        "base": base,
        "n_rounds": 1,
    }
    numbers, rules = [np.bool_(True), np.float32(0.5), np.int64(2)], kind.parameter_rules
    for name in rules.keys() - {"resume"}:  # which needs a checkpoint
        known = {k: v for k, v in small.items() if k in rules and (k, name) != ("length_scale", "gamma")}
        if "kernel" in rules and name in kernels:
            known["kernel"] = kernels[name]
        for value in filter(rules[name].allows, [*numbers, np.int64(0)] if name == "exact" else numbers):
            given, plain = (
                usual(kind).set_params(**known | {name: one}).fit(X, Y).map_ for one in (value, value.item())
            )
            assert json.dumps(given.spec()) == json.dumps(plain.spec()), name
            assert tokenize(given) == tokenize(plain)


@pytest.mark.parametrize(
    ("kind", "name", "value", "message"),
    [
        (distrf.RandomFourierFeatures, "n_components", 10.5, "n_components must be an integer >= 1, got 10.5"),
        (distrf.RandomFourierFeatures, "length_scale", True, "length_scale must be a finite number > 0, .*True"),
        (distrf.StreamingSGDRegressor, "epsilon", float("inf"), "epsilon must be a finite number >= 0 or 'auto', got inf"),
        (distrf.StreamingRidgeClassifier, "class_weight", {0: np.nan}, "a dictionary {label: factor} of finite"),
        (distrf.TensorSketchFeatures, "n_components", 2**70, f"n_components must be an integer between 1 and {2**63 - 1}, got 118"),
    ],
)  # fmt: skip
def test_messages_name_parameter_rule_and_value(kind, name, value, message):
    with pytest.raises(InputError, match=message):
        usual(kind).set_params(**{name: value}).fit(X, Y)


@pytest.mark.parametrize("kind", [distrf.StreamingSGDClassifier, distrf.StreamingSGDRegressor])
def test_partial_fit_checks_too(kind):
    with pytest.raises(InputError, match="tol must be"):
        kind(tol=-1).partial_fit(X, Y, **({"classes": [0, 1]} if kind is distrf.StreamingSGDClassifier else {}))


def test_a_function_checks_its_arguments_by_rules():
    @ruled(n=whole(1), names=COLUMNS, sizes=several(whole(2)))
    def made(X, n=3, *, names=None, sizes=(2, 3)):
        return X, n

    assert made(1, names=np.array([0, 1]), sizes=[2]) == (1, 3)
    assert made.parameter_rules["n"].allows(5)
    for wrong, message in (
        ({"n": 0}, "n must be an integer >= 1, got 0"),
        (
            {"names": ["a", "a"]},
            "names must be a list of names or numbers of columns, each of them once or None",
        ),
        ({"names": "a"}, "each of them once"),
        ({"sizes": ()}, "sizes must be one or more, each an integer >= 2"),
        ({"sizes": [1]}, "one or more"),
    ):
        with pytest.raises(ParameterError, match=message):
            made(1, **wrong)
    with pytest.raises(TypeError, match=r"^made\(\) got an unexpected keyword argument 'm'"):
        made(1, m=2)
