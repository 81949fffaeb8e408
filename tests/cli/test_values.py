"""Texts become values by the rules of parameters; parameters of maps and models by their names."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import typer

from distrf.cli.options import column_names, pairs, read, several
from distrf.cli.steps import NOT_SET, Steps
from distrf.features.length_scale import LENGTH_SCALES
from distrf.parameters import CLASS_WEIGHT, COLUMNS, FLAG, NONE, SEED, number, one_of, whole
from distrf.pipeline.target import Target
from distrf.registry import MAPS, MODELS
from distrf.ridge.alphas import ALPHAS

LABELS, NUMBERS = Target(True, 2, 10, "labels"), Target(False, 9, 10, "numbers", whole=False)


@pytest.mark.parametrize(
    ("text", "rule", "value"),
    [
        ("3", whole(), 3), ("1e4", whole(), 10_000), ("3.0", number(), 3.0), ("1e-3", number(), 1e-3), ("2.5", whole(), 2.5),
        ("none", whole() | NONE, None), ("none", one_of("none", "auto"), "none"), ("yes", FLAG, True), ("False", FLAG, False),
        ("auto", whole() | one_of("auto"), "auto"), ("1e-6,1", ALPHAS, [1e-6, 1]), ("[1e-6, 1]", ALPHAS, [1e-6, 1]),
        ('["1e-6"]', ALPHAS, [1e-6]), ("{1: 5, up: 2}", CLASS_WEIGHT, {1: 5, "up": 2}), ('{"1": 5}', CLASS_WEIGHT, {"1": 5}),
        ("a,b", COLUMNS, ["a", "b"]), ("x", whole(), "x"), ("²", whole(), "²"), ("", whole(), ""), ("[", whole(), "["),
        ("7", SEED, 7), ("3", None, 3), ("mean", None, "mean"), (4, None, 4),
    ],
)  # fmt: skip
def test_a_text_is_read_as_its_rule_allows(text, rule, value):
    assert read(text, rule) == value
    assert type(read(text, rule)) is type(value)


def test_lists_and_pairs():
    assert several("n", "1,2,3", whole()) == [1, 2, 3]
    assert several("n", "0.5,2", LENGTH_SCALES) == [0.5, 2]
    assert pairs("set", ["a=1", " b =x=y", "a=2"]) == {"a": "2", "b": "x=y"}
    assert column_names("columns", ["a,b", '"size, mm"," id"', "c d"]) == ["a", "b", "size, mm", " id", "c d"]
    with pytest.raises(typer.BadParameter, match="one value or several"):
        several("n", "1,1", whole())


def text_of(value):
    return "none" if value is None else ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


NEEDED = {"blockwise": {"map__transformer": "PCA"}}


@pytest.mark.parametrize("name", MAPS)
def test_each_parameter_of_a_map_can_be_set(name):
    """To its default: the map is then that of its name alone."""
    cls = MAPS[name]
    signature = inspect.signature(cls).parameters
    given = {f"map__{n}": text_of(signature[n].default) for n in cls.parameter_rules if n not in NOT_SET}
    given = {n: text for n, text in given.items() if n != "map__base" and "class" not in text} | NEEDED.get(
        name, {}
    )
    plain = Steps({"map": name, "set": NEEDED.get(name, {})}).made_map()
    made, plain = (
        {n: list(v) if isinstance(v, tuple) else v for n, v in map_.get_params().items()}
        for map_ in (Steps({"map": name, "set": given}).made_map(), plain)
    )
    assert str(made) == str(plain)


@pytest.mark.parametrize("name", MODELS)
def test_each_parameter_of_a_model_can_be_set(name):
    target = LABELS if MODELS[name].classifier else NUMBERS
    plain = MODELS[name].make(random_state=0)
    settable = [
        n for n in plain.parameter_rules if n not in NOT_SET and n not in getattr(plain, "parameter_needs", {})
    ]
    set_ = {f"model__{n}": text_of(getattr(plain, n)) for n in settable}
    made = Steps({"model": name, "set": set_ | {"model__alpha": "0.5"}}).learner(target)
    assert made.get_params() == plain.set_params(alpha=0.5).get_params()


def test_a_map_on_another():
    lower = {"map__base__n_components": "64", "map__base__kernel": "laplacian"}
    made = Steps({"map": "tefm", "n_components": "16", "set": lower}).made_map()
    assert (made.n_components, made.base.kernel, made.base.n_components) == (16, "laplacian", 64)
    lower = {"map__base": "laplace", "map__base__beta": "0.5"}
    other = Steps({"map": "tefm", "n_components": "16", "set": lower}).made_map()
    assert (type(other.base).__name__, other.base.beta) == ("RandomLaplaceFeatures", 0.5)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("auto", "auto", "auto")),
        ({"n_components": "64"}, ("auto", "auto", 64)),
        ({"set": {"length_scale": "median"}, "n_components": "auto"}, ("auto", "median", "auto")),
        ({"set": {"map__kernel": "cauchy"}}, ("RandomFourierFeatures", "auto", "auto")),
        ({"map": "nystroem"}, ("nystroem", "auto", "auto")),
        ({"map": "tefm", "set": {"map__base__length_scale": "2"}}, ("TEFM", None, "auto")),
        ({"set": {"map__length_scale": "2", "map__phase": "offset"}}, ("RandomFourierFeatures", None, "auto")),
        ({"map": "none"}, ("none", "auto", "auto")),
    ],
)
def test_what_training_chooses(given, expected):
    made = Steps(given).options(LABELS)
    name = made["map"] if isinstance(made["map"], str) else type(made["map"]).__name__
    assert (name, made["length_scale"], made["n_components"]) == expected
    assert np.isscalar(made["random_state"])
