"""Public docstrings are numpydoc: complete, true to the signature, and their examples run."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import sys
import textwrap
import warnings

import numpy as np
import pytest
from numpydoc.docscrape import NumpyDocString
from sklearn.preprocessing import MinMaxScaler

import distrf

#: Modules whose `__all__` is public beside that of the package.
MODULES = ("distrf.datasets", "distrf.metrics", "distrf.plot")
CLASSES = [name for name in distrf.__all__ if isinstance(getattr(distrf, name), type)]
FUNCTIONS = [f"distrf.{name}" for name in distrf.__all__ if inspect.isfunction(getattr(distrf, name))] + [
    f"{module}.{name}"
    for module in MODULES
    for name in importlib.import_module(module).__all__
    if inspect.isfunction(getattr(importlib.import_module(module), name))
]
#: Classes that follow no paper.
OWN = {"Blockwise", "Evaluation", "StreamingScaler", "Table", "WithColumns"}
DEFAULT = re.compile(r"default=(.+)$")


def named(path):
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


def methods(cls):
    """Public methods of a class that are ours, not scikit-learn's."""
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        value = getattr(value, "fn", value)  # of `available_if`
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__.startswith("distrf"):
            yield name, value


METHODS = [
    pytest.param(function, id=f"{cls}.{name}")
    for cls in CLASSES
    for name, function in methods(getattr(distrf, cls))
]


def sections(thing):
    text = inspect.getdoc(thing)  # of the base where a method has none of its own
    assert text, f"{thing.__qualname__} has no docstring"
    return NumpyDocString(text)


def check_entries(entries, where):
    for entry in entries:
        assert entry.type, f"{where}: {entry.name} has no type"
        text = " ".join(entry.desc).strip()
        assert text, f"{where}: {entry.name or entry.type} is not described"
        assert text.endswith((".", ":", "`")), f"{where}: {entry.name or entry.type} ends without a full stop"


def check_parameters(document, function):
    """The section names the parameters of the signature, in its order, with the defaults of the signature."""
    where = function.__qualname__
    signature = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    described = [
        (name.strip().lstrip("*"), entry) for entry in document["Parameters"] for name in entry.name.split(",")
    ]
    assert [name for name, _ in described] == [p.name for p in signature], where
    check_entries(document["Parameters"], where)
    for parameter, (name, entry) in zip(signature, described, strict=True):
        stated = DEFAULT.search(entry.type)
        if parameter.default is inspect.Parameter.empty:
            assert stated is None, f"{where}: {name} has no default"
        else:
            assert stated, f"{where}: the default of {name} is not said: {parameter.default!r}"
            assert ast.literal_eval(stated[1]) == parameter.default, f"{where}: {name}"


def check_returns(document, function):
    if inspect.signature(function).return_annotation not in ("None", None):
        assert document["Returns"] or document["Yields"], (
            f"{function.__qualname__} does not say what it returns"
        )
        check_entries(document["Returns"], function.__qualname__)
    check_entries(document["Raises"], function.__qualname__)
    raises = any(isinstance(node, ast.Raise) for node in ast.walk(syntax(function)))
    assert document["Raises"] or not raises, f"{function.__qualname__} does not say what it raises"


def syntax(function):
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    cls = getattr(distrf, name)
    document = sections(cls)
    check_parameters(document, cls)
    check_entries(document["Attributes"], name)
    assert document["Summary"], name
    assert document["Attributes"], name
    assert document["Examples"], name
    assert document["References"] or name in OWN, f"{name} names no paper"


@pytest.mark.parametrize("function", METHODS)
def test_methods(function):
    document = sections(function)
    check_parameters(document, function)
    check_returns(document, function)
    if function.__name__ in ("fit", "partial_fit"):
        assert document["Raises"], function.__qualname__


@pytest.mark.parametrize("path", FUNCTIONS)
def test_functions(path):
    function = named(path)
    document = sections(function)
    check_parameters(document, function)
    check_returns(document, function)


SMALL = {
    "Blockwise": {"transformer": MinMaxScaler()},
    "CompactNonlinearClassifier": {"n_components": 2, "n_epochs": 1},
    "CompactNonlinearMap": {"n_components": 2, "n_epochs": 1},
    "CompactNonlinearRegressor": {"n_components": 2, "n_epochs": 1},
    "LearnedMetric": {"base": distrf.RandomFourierFeatures(n_components=8), "n_components": 8, "n_rounds": 1},
    "StreamingLinearClassifier": {"loss": "squared_hinge", "calibrate": True},
    "StreamingLinearRegressor": {"calibrate": True},
    "StreamingRidge": {"calibrate": True, "keep_state": True},
    "StreamingRidgeClassifier": {"calibrate": True, "keep_state": True},
    "StreamingSGDClassifier": {"calibrate": True},
    "StreamingSGDRegressor": {"calibrate": True},
    "TEFM": {"n_components": 2},
}


@pytest.mark.parametrize("name", [name for name in CLASSES if hasattr(getattr(distrf, name), "fit")])
def test_attributes_are_those_of_a_fit(name, rng):
    cls = getattr(distrf, name)
    X = rng.uniform(size=(60, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows
        fitted = cls(**SMALL.get(name, {})).fit(X, X[:, 0] > 0.5)
    ours = [c for c in cls.__mro__ if c.__module__.startswith("distrf")]
    properties = {k for c in ours for k, v in vars(c).items() if isinstance(v, property)}
    learned = {k for k in {*vars(fitted), *properties} if k.endswith("_") and not k.startswith("_")}
    described = {k.strip() for entry in sections(cls)["Attributes"] for k in entry.name.split(",")}
    assert described - {"feature_names_in_"} == learned


@pytest.mark.parametrize("path", [f"distrf.{name}" for name in CLASSES] + FUNCTIONS)
def test_examples_run(path):
    thing = named(path)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    globs = vars(sys.modules[thing.__module__]).copy()
    for example in doctest.DocTestFinder(exclude_empty=True, recurse=False).find(thing, globs=globs):
        example.globs = {"np": np}
        runner.run(example)
    assert runner.summarize(verbose=False).failed == 0
