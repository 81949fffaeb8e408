"""What the parameters of an estimator may be: declared once, in one table for each class, and checked by `fit`."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import numbers
import operator
import os
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields
from math import inf, isfinite
from typing import Any, Literal, TypeVar, dataclass_transform

import numpy as np

from .errors import InputError, ParameterError, did_you_mean

#: The largest integer that arrays, files and workers hold.
_MOST = 2**63 - 1


#: What makes values of the types that fields of frozen values declare; fields of other types are no plain values.
_PLAIN: dict[str, Callable[[Any], Any]] = {"int": operator.index, "float": float, "bool": bool, "str": str}


def plain_type(one: Field) -> Callable[[Any], Any] | None:
    """What makes values of the type that a field declares: a number, a text, true or false; None for other types."""
    declared = getattr(one.type, "__name__", str(one.type))  # a type, or its text
    return _PLAIN.get(declared.removesuffix(" | None"))


def check_fields(value: Any) -> None:
    """Check the fields of a frozen dataclass by the rules that it declares, and give plain ones the types that it declares.

    NumPy's numbers, which rules allow, are neither JSON nor of full precision. Raises ParameterError.
    """
    for one in fields(value):
        current, make = getattr(value, one.name), plain_type(one)
        if "rule" in one.metadata:
            one.metadata["rule"].check(one.name, current)
        if make is not None and current is not None:
            object.__setattr__(value, one.name, make(current))


@dataclass(frozen=True)
class Rule:
    """What a value may be, in words that follow "must be", and as a test. Rules join by `|`.

    words : texts, or a function that makes them where they may change, as the names in a registry do
    """

    words: tuple[str, ...] | Callable[[], tuple[str, ...]]
    allows: Callable[[Any], bool]

    def texts(self) -> tuple[str, ...]:
        """The words of now."""
        return self.words() if callable(self.words) else self.words

    def names(self) -> list[str]:
        """The texts that are said one by one."""
        return [ast.literal_eval(word) for word in self.texts() if re.fullmatch(r"'[^']*'", word)]

    def __or__(self, other: Rule) -> Rule:
        return Rule(
            lambda: self.texts() + other.texts(), lambda value: self.allows(value) or other.allows(value)
        )

    def __str__(self) -> str:
        *first, last = self.texts()
        return f"{', '.join(first)} or {last}" if first else last

    def check(self, name: str, value: Any) -> None:
        """Raise ParameterError for a value that the rule does not allow."""
        if self.allows(value):
            return
        words, shown = str(self), _SHORT.repr(value)
        if (
            isinstance(value, numbers.Integral) and abs(int(value)) > _MOST
        ):  # the bound that goes without saying
            words = re.sub(r"an integer >= (-?\d+)", rf"an integer between \1 and {_MOST}", words)
        raise ParameterError(name, words, shown + did_you_mean(value, self.names()))


def whole(least: int = 1, most: int = _MOST) -> Rule:
    """An integer between bounds; 10.0 is none, nor is True."""
    bounds = f">= {least}" if most == _MOST else f"between {least} and {most}"

    def allows(value: Any) -> bool:
        return isinstance(value, numbers.Integral) and not _is_flag(value) and least <= int(value) <= most

    return Rule((f"an integer {bounds}",), allows)


def number(least: float = -inf, most: float = inf, *, above: float = -inf, below: float = inf) -> Rule:
    """A finite number, at least and at most so large, and strictly above and below those."""
    bounds = [(">=", least), (">", above), ("<=", most), ("<", below)]
    words = " and ".join(f"{what} {bound:g}" for what, bound in bounds if isfinite(bound))

    def allows(value: Any) -> bool:
        if not isinstance(value, numbers.Real) or _is_flag(value):
            return False
        try:
            as_float = float(value)
        except OverflowError:  # an integer beyond 1e308
            return False
        return isfinite(as_float) and least <= as_float <= most and above < as_float < below

    return Rule((f"a finite number{words and ' '}{words}",), allows)


def one_of(*values: Any) -> Rule:
    """One of some texts or numbers."""
    return Rule(
        tuple(map(repr, values)),
        lambda value: isinstance(value, (str, numbers.Real)) and not _is_flag(value) and value in values,
    )


def name_in(*registries: Mapping[str, Any]) -> Rule:
    """A name in a registry, with what has been registered since the rule was made."""
    return Rule(
        lambda: tuple(repr(name) for registry in registries for name in registry),
        lambda value: isinstance(value, str) and any(value in registry for registry in registries),
    )


def several(rule: Rule) -> Rule:
    """A list of one or more values."""

    def allows(value: Any) -> bool:
        values = _listed(value)
        return bool(values) and all(map(rule.allows, values))

    return Rule((f"one or more, each {rule}",), allows)


def _listed(value: Any) -> list[Any]:
    """The values of a list or array; none of a text, a mapping, or a single value."""
    return [] if isinstance(value, (str, dict)) or not np.iterable(value) else list(value)


def _are_distinct(value: Any) -> bool:
    values = _listed(value)
    return bool(values) and all(np.ndim(one) == 0 for one in values) and len(set(values)) == len(values)


def instance(kind: type | tuple[type, ...], words: str) -> Rule:
    """An object of a class."""
    return Rule((words,), lambda value: isinstance(value, kind))


def _is_flag(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


FLAG = Rule(("True", "False"), _is_flag)
NONE = Rule(("None",), lambda value: value is None)
COLUMNS = Rule(("a list of names or numbers of columns, each of them once",), _are_distinct) | NONE
PLACE = Rule(("a path or URL",), lambda value: isinstance(value, (str, os.PathLike)) and value != "")
FOLDER = Rule(("a folder or URL",), PLACE.allows) | NONE
JOBS = (
    Rule(
        ("a positive number of threads", "-1 for all cores"),
        lambda value: whole(-_MOST).allows(value) and value != 0,
    )
    | NONE
)
SEED = (
    whole(0) | instance((np.random.Generator, np.random.RandomState), "a NumPy Generator or RandomState") | NONE
)
CLASS_WEIGHT = (
    one_of("balanced")
    | Rule(
        ("a dictionary {label: factor} of finite factors >= 0",),
        lambda value: isinstance(value, dict) and all(map(number(0).allows, value.values())),
    )
    | NONE
)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def ruled(**rules: Rule) -> Callable[[_Function], _Function]:
    """Let a public function check its arguments before it starts, as estimators do in `fit`; it keeps `parameter_rules`."""

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*given: Any, **named: Any) -> Any:
            if unknown := sorted(named.keys() - signature.parameters.keys()):
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown[0]!r}")
            for name, value in signature.bind(*given, **named).arguments.items():
                if name in rules:
                    rules[name].check(name, value)
            return function(*given, **named)

        checked.parameter_rules = rules  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return decorate


#: What texts stand for that are no numbers.
_WORDS = {"none": None, "null": None, "true": True, "yes": True, "false": False, "no": False}


def read(value: Any, rule: Rule | None = None) -> Any:
    """What a text stands for: the first reading that a rule allows, else the first. What is no text is itself.

    Readings are none, yes or no; a number, and 1e4 as a whole one; JSON; the text; a list between commas.
    """
    readings = list(_readings(value)) if isinstance(value, str) else [value]
    return next((reading for reading in readings if rule is None or rule.allows(reading)), readings[0])


def _readings(text: str) -> Iterator[Any]:
    plain = text.strip()
    if plain.lower() in _WORDS:
        yield _WORDS[plain.lower()]
    with suppress(ValueError):
        yield int(plain)
    with suppress(ValueError):
        yield float(plain)
        if float(plain).is_integer():
            yield int(float(plain))
    found: Any = plain.split(",") if "," in plain else None
    with suppress(ValueError):
        found = json.loads(plain)
        yield found
    yield text
    if isinstance(found, list):
        parts = [part.strip() if isinstance(part, str) else part for part in found]
        yield from ([read(part) for part in parts], tuple(map(read, parts)), parts)


def checked(name: str, value: Any, rule: Rule) -> Any:
    """The value, or what its text stands for. Raises ParameterError where the rule of the parameter allows none."""
    value = read(value, rule)
    rule.check(name, value)
    return value


def check_known(option: str, name: str, known: Any, what: str) -> None:
    """Raise ParameterError for a name in an option that is none of those known."""
    if name not in (known := list(known)):
        rule = f"{what}: {', '.join(map(str, known))}"
        raise ParameterError(option, rule, f"{name!r}{did_you_mean(name, known)}")


_Estimator = TypeVar("_Estimator", bound=type)


def param(*, default: Any = MISSING, rule: Rule, kw_only: bool = True) -> Any:
    """Declare a parameter of an estimator, in the body of its class: `name: type = param(default=..., rule=...)`."""
    return field(default=default, kw_only=kw_only, metadata={"rule": rule})


def learned(*, init: Literal[False] = False) -> Any:
    """Declare an attribute that `fit` sets: `name_: type = learned()`."""
    return field(init=init)


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(param, learned))
def estimator(cls: _Estimator) -> _Estimator:
    """Give a class the constructor and the `parameter_rules` of the parameters that it and its bases declare.

    The constructor stores its arguments, as scikit-learn expects; those with kw_only=False come first. Parameters and attributes that
    the docstring of a base describes are added to the docstring.
    """
    dataclass(eq=False, repr=False, match_args=False)(cls)
    cls.parameter_rules = {one.name: one.metadata["rule"] for one in fields(cls) if one.init}  # type: ignore[attr-defined]
    inherited = [base.__doc__ or "" for base in cls.__mro__[1:-1] if "parameter_rules" in vars(base)]
    cls.__doc__ = _joined(cls.__doc__ or "", inherited, list(inspect.signature(cls).parameters))
    return cls


def _joined(doc: str, inherited: list[str], order: list[str]) -> str:
    """A numpydoc text with what others say of parameters and attributes; parameters in the order given."""
    docs = [inspect.cleandoc(one) for one in (doc, *inherited)]
    for title in ("Parameters", "Attributes"):
        entries: dict[str, str] = {}
        for one in docs:
            section = one.partition(f"{title}\n{'-' * len(title)}\n")[2].partition("\n\n")[0]
            for entry in filter(None, re.split(r"\n(?=\w)", section)):
                entries.setdefault(entry.partition(" : ")[0], entry)
        names = sorted(entries, key=order.index) if title == "Parameters" else entries
        before, head, after = docs[0].partition(f"{title}\n{'-' * len(title)}\n")
        if head:
            after = after[after.index("\n\n") :] if "\n\n" in after else ""
            docs[0] = before + head + "\n".join(entries[name] for name in names) + after
    return docs[0]


def check_parameters(estimator: Any) -> None:
    """Raise ParameterError for the first parameter that breaks what `parameter_rules` of its class declares.

    InputError for `gamma` with a `length_scale` that is not the default one: they are two names of one number.
    """
    rules = type(estimator).parameter_rules
    for name, rule in rules.items():
        rule.check(name, getattr(estimator, name))
    if not {"gamma", "length_scale"} <= rules.keys() or estimator.gamma is None:
        return
    usual = inspect.signature(type(estimator)).parameters["length_scale"].default
    if not np.array_equal(estimator.length_scale, usual):
        raise InputError(
            f"gamma and length_scale exclude each other, since gamma sets the length scale; got gamma={estimator.gamma!r} "
            f"and length_scale={estimator.length_scale!r}; leave one out"
        )
