"""Texts become values by the rules of parameters; parameters of maps and models by their names."""

from __future__ import annotations

import inspect

import pytest

from distrf.errors import InputError
from distrf.maps import RandomFourierFeatures, StreamingScaler
from distrf.parameters import CLASS_WEIGHT, COLUMNS, FLAG, NONE, SEED, number, one_of, read, whole
from distrf.pipeline.options import NOT_SET, Options, asked_scaler, choose_learner, unfitted_map
from distrf.pipeline.target import Target
from distrf.registry import MAPS, MODELS
from distrf.ridge.alphas import ALPHAS

LABELS, NUMBERS = Target(True, 2, 10, "labels"), Target(False, 9, 10, "numbers", classes=False)


@pytest.mark.parametrize(
    ("text", "rule", "value"),
    [
        ("3", whole(), 3), ("1e4", whole(), 10_000), ("3.0", number(), 3.0), ("1e-3", number(), 1e-3), ("2.5", whole(), 2.5),
        ("none", whole() | NONE, None), ("none", one_of("none", "auto"), "none"), ("yes", FLAG, True), ("False", FLAG, False),
        ("auto", whole() | one_of("auto"), "auto"), ("1e-6,1", ALPHAS, [1e-6, 1]), ("[1e-6, 1]", ALPHAS, [1e-6, 1]),
        ('["1e-6"]', ALPHAS, [1e-6]), ('{"1": 5}', CLASS_WEIGHT, {"1": 5}),
        ("a,b", COLUMNS, ["a", "b"]), ("x", whole(), "x"), ("²", whole(), "²"), ("", whole(), ""), ("[", whole(), "["),
        ("7", SEED, 7), ("3", None, 3), ("mean", None, "mean"), (4, None, 4),
    ],
)  # fmt: skip
def test_a_text_is_read_as_its_rule_allows(text, rule, value):
    assert read(text, rule) == value
    assert type(read(text, rule)) is type(value)


def text_of(value):
    return "none" if value is None else ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def made_map(name="auto", size="auto", **given):
    set_ = {f"map__{n}": value for n, value in given.items()}
    return unfitted_map(Options(map=name, n_components=size, set=set_), None, 0)


@pytest.mark.parametrize("name", MAPS)
def test_each_parameter_of_a_map_can_be_set(name):
    """To its default: the map is then that of its name alone."""
    cls, needed = MAPS[name], {"transformer": "PCA"} if name == "blockwise" else {}
    signature = inspect.signature(cls).parameters
    given = {
        n: text_of(signature[n].default)
        for n in cls.parameter_rules
        if n not in (*NOT_SET, "base", "n_components")
    }
    given = {n: text for n, text in given.items() if "class" not in text} | needed
    made, plain = (
        {n: list(v) if isinstance(v, tuple) else v for n, v in made_map(name, **more).get_params().items()}
        for more in (given, needed)
    )
    assert str(made) == str(plain)


@pytest.mark.parametrize("name", MODELS)
def test_each_parameter_of_a_model_can_be_set(name):
    target = LABELS if MODELS[name].classifier else NUMBERS
    plain = MODELS[name].make(random_state=0)
    apart = (*NOT_SET, "alpha")
    given = {f"model__{n}": text_of(getattr(plain, n)) for n in plain.parameter_rules if n not in apart}
    made = choose_learner(Options(name, alpha="0.5", set=given), target)[0]
    assert made.get_params() == plain.set_params(alpha=0.5).get_params()


def test_a_map_on_another():
    made = made_map("tefm", "16", base__n_components="64", base__kernel="laplacian")
    assert (made.n_components, made.base.kernel, made.base.n_components) == (16, "laplacian", 64)
    other = made_map("tefm", "16", base="laplace", base__beta="0.5")
    assert (type(other.base).__name__, other.base.beta) == ("RandomLaplaceFeatures", 0.5)


def test_steps_that_are_given_are_set_too():
    options = Options(
        map=RandomFourierFeatures(n_components=8), scale=StreamingScaler("divide"), n_components=16,
        set={"map__kernel": "cauchy", "scale__divisor": "255"},
    )  # fmt: skip
    made, scaler = unfitted_map(options, None, 0), asked_scaler(options)
    assert (made.kernel, made.n_components, scaler.divisor) == ("cauchy", 16, 255)
    assert options.map.kernel == "gaussian"


@pytest.mark.parametrize(
    ("options", "searched"),
    [
        ({}, (True, "auto")),
        ({"n_components": "64"}, (True, "64")),
        ({"set": {"map__length_scale": "median"}}, (False, "auto")),
        ({"set": {"map__kernel": "cauchy"}}, (True, "auto")),
        ({"set": {"map__gamma": 0.5}, "n_components": 8}, (False, 8)),
        ({"map": "tefm", "set": {"map__base__length_scale": "2"}}, (False, "auto")),
        ({"map": RandomFourierFeatures(length_scale=2.0)}, (False, "auto")),
        ({"map": RandomFourierFeatures(n_components=8)}, (True, None)),
        ({"map": None}, (False, "auto")),
    ],
)
def test_what_is_set_is_not_searched(options, searched):
    made = Options(**options)
    assert (made.searches_length, made.n_components) == searched


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"set": ["map__kernel"]}, "set has parameters by name"),
        ({"set": {"kernel": 1}}, "set or grid must be parameters of steps, map__NAME, .*got 'kernel'"),
        (
            {"alpha": 1.0, "set": {"model__alpha": 1}},
            "n_components and alpha have no step, got 'model__alpha'",
        ),
        ({"map": None, "n_components": 8}, "has no features and no parameters; leave n_components out"),
        ({"set": {"scale__divisor": 2}}, "scale__divisor needs a scaling"),
        ({"set": {"map__random_state": 3}}, "has: kernel, .*got 'random_state'"),
    ],
)
def test_refused(options, words):
    with pytest.raises(InputError, match=words):
        unfitted_map(Options(**options), None, 0)
