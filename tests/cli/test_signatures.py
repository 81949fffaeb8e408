"""Options made of the constructors of estimators."""

from __future__ import annotations

import inspect
from math import inf
from typing import ClassVar

import pytest

import distrf
from distrf.cli.compare import CompareOptions
from distrf.cli.data import FeaturizeOptions, IngestOptions
from distrf.cli.function_options import ReadOptions
from distrf.cli.models import EvaluateOptions, PlanOptions, PredictOptions
from distrf.cli.signatures import (
    arguments,
    described,
    listed_names,
    merged,
    option,
    outline,
    parameters_of,
    read,
)
from distrf.cli.tune import TuneOptions
from distrf.cli.usage import UsageError
from distrf.parameters import FLAG, NONE, number, one_of, whole

KINDS = {
    "fourier": distrf.RandomFourierFeatures,
    "binning": distrf.RandomBinningFeatures,
    "nystroem": distrf.NystroemFeatures,
    "cnm": distrf.CompactNonlinearMap,
    "svm": distrf.StreamingSGDClassifier,
    "ridge": distrf.StreamingRidge,
}


@pytest.mark.parametrize(
    ("text", "rule", "value"),
    [
        ("3", whole(), 3),
        ("1e3", whole(), 1000),
        ("3", number(), 3),
        ("0.5", number(), 0.5),
        ("none", number() | NONE, None),
        ("none", one_of("none"), "none"),
        ("auto", whole() | one_of("auto"), "auto"),
        ("true", FLAG, True),
        ("2", one_of("2"), "2"),
        ("0", whole(), 0),
        ("1e400", number(), inf),
    ],
)
def test_a_text_is_read_as_its_rule_allows(text, rule, value):
    found = read(text, rule)
    assert found == value
    assert type(found) is type(value)


def test_lists():
    rules = {name: p.rule for name, p in parameters_of(distrf.StreamingRidge).items()}
    assert read("1e-3,1", rules["alpha"]) == [1e-3, 1]
    rules = {name: p.rule for name, p in parameters_of(distrf.CompactNonlinearMap).items()}
    assert list(read("100,100", rules["alternate"])) == [100, 100]


@pytest.mark.parametrize("cls", KINDS.values(), ids=list(KINDS))
def test_every_parameter_has_a_rule_and_a_sentence(cls):
    left = {"n_jobs", "random_state", "checkpoint", "checkpoint_every", "resume", "warm_start"}
    found = parameters_of(cls)
    assert {p.name for p in found.values()} == set(inspect.signature(cls).parameters) - left
    for parameter in found.values():
        assert parameter.text.endswith("."), parameter
        assert len(parameter.text) < 300, parameter


def test_defaults_typed_are_the_defaults():
    """What the help shows can be typed."""
    for cls in KINDS.values():
        for parameter in parameters_of(cls).values():
            if isinstance(parameter.default, (str, int, float, type(None))):
                assert read(str(parameter.default).lower(), parameter.rule) == parameter.default, (
                    cls,
                    parameter,
                )


def test_estimators_merged():
    found = merged(KINDS)
    assert set(found) == {name for cls in KINDS.values() for name in parameters_of(cls)}
    assert set(found["n_grids"]) == {"binning"}
    assert arguments(KINDS["fourier"], {"n_components": "512", "whiten": True}) == {
        "n_components": 512,
        "whiten": True,
    }
    assert arguments(KINDS["ridge"], {"n_components": "512", "alpha": "1,2"}) == {"alpha": [1, 2]}


FUNCTIONS = [
    CompareOptions, EvaluateOptions, FeaturizeOptions, IngestOptions, PlanOptions, PredictOptions, ReadOptions, TuneOptions,
]  # fmt: skip


@pytest.mark.parametrize("options", FUNCTIONS)
def test_an_outline_is_the_function(options):
    """Names, defaults and text of the source are those of the function that is called, and each option says something."""
    function = inspect.unwrap(getattr(distrf, options.function.split(":")[1]))  # without what it says of CSV
    drawn = outline(options.function)
    assert inspect.signature(drawn) == inspect.signature(function)
    assert inspect.getdoc(drawn) == inspect.getdoc(function)
    for parameter in options.parameters().values():
        assert parameter.text.endswith("."), parameter


def test_options_of_a_function_are_read_by_its_rules():
    given = CompareOptions(n_components="64", projections="dense,quasi", n_draws="2")
    assert given.values == {"n_components": [64], "projections": ["dense", "quasi"], "n_draws": 2}
    given = ReadOptions(columns="0, 1", impute="0.5", strict=True)
    assert given.values == {"columns": ["0", "1"], "impute": 0.5, "strict": True}
    given = IngestOptions(source="a.csv", out="b.zarr", impute="mean", sparse=None)
    assert (given.places, given.values) == ({"source": "a.csv", "out": "b.zarr"}, {"impute": "mean"})
    for wrong, options in (("n_draws", CompareOptions), ("factor", TuneOptions), ("columns", ReadOptions)):
        with pytest.raises(UsageError, match=f"--{wrong.replace('_', '-')} must be .*, got "):
            options(**{wrong: "1,1"})


def test_an_estimator_needs_no_annotations():
    class Own:
        """One of another package.

        Parameters
        ----------
        flat : bool, default=False
            Whether it is flat.
        size : int, default=3
            How large it is.
        """

        parameter_rules: ClassVar = {"flat": FLAG, "size": whole()}

        def __init__(self, flat=False, size: int = 3): ...

    found = parameters_of(Own)
    flat, size = (option(name, {"own": found[name]}, "Map") for name in found)
    assert (flat.is_flag, flat.names) == (True, ("--flat/--no-flat",))
    assert (size.is_flag, size.names, size.metavar) == (False, ("--size",), "<int>")


def test_described():
    doc = described("""Do it.

Parameters
----------
a : int, default=3
    The first. More of it
    on two lines. None is all.
b, c : float
    Both of them

Returns
-------
None
    a : nothing
""")
    assert doc == {"a": "The first. None is all.", "b": "Both of them", "c": "Both of them"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", None),
        ("a, b", None),
        ("size, mm", ["size, mm"]),
        ("a,size, mm, id", ["a", "size, mm", " id"]),
        (" id", [" id"]),
        ('"a","size, mm"', ["a", "size, mm"]),
        ("unknown, a", None),
    ],
)
def test_names_may_have_commas_and_blanks(text, names):
    assert listed_names(text, {"a", "b", "size, mm", " id"}) == names
