"""Texts of the command line as values: numbers, words, lists and pairs NAME=VALUE, by the rules of parameters."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from ..errors import did_you_mean

if TYPE_CHECKING:
    from ..parameters import Rule

_WORDS = {"none": None, "null": None, "true": True, "yes": True, "false": False, "no": False}


def read(text: Any, rule: Rule | None = None) -> Any:
    """The value that a text stands for: the first reading that a rule allows, else the first.

    Readings are a number, none, yes or no; JSON or YAML; a whole number written as 1e4; the text; a list between commas.
    """
    readings = list(_readings(text.strip(), text)) if isinstance(text, str) else [text]
    return next((value for value in readings if rule is None or rule.allows(value)), readings[0])


def _readings(plain: str, text: str) -> Iterator[Any]:
    if plain.lower() in _WORDS:
        yield _WORDS[plain.lower()]
    for kind in (int, float, lambda text: int(float(text))):
        try:
            yield kind(plain) if kind in (int, float) or float(plain).is_integer() else text
        except (ValueError, OverflowError):
            continue
    if plain[:1] in ("[", "{"):
        yield _parsed(plain)
    yield text
    if "," in plain or plain[:1] == "[":
        parts = _parts(plain)
        yield from ([read(part) for part in parts], tuple(map(read, parts)), parts)


def _parts(plain: str) -> list[str]:
    return [part.strip(" '\"") for part in plain.strip("[] ").split(",")]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        import yaml

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            return text


def checked(name: str, text: Any, rule: Rule) -> Any:
    """The value that a text stands for. Raises ParameterError where the rule of the parameter allows none."""
    value = read(text, rule)
    rule.check(name, value)
    return value


def by_rules(function: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """{parameter: value} for a public function, checked by its rules before anything starts; what has no rule is a text."""
    rules = getattr(function, "parameter_rules", {})
    return {
        name: checked(name, value, rules[name]) if name in rules else value for name, value in given.items()
    }


def several(name: str, text: str, rule: Rule) -> list[Any]:
    """The values of a text: those between commas, or one that is a list, such as [1, 2]. Raises ParameterError as `checked`."""
    value, parts = read(text, rule), [] if text.strip()[:1] in "[{" else _parts(text)
    one = rule.allows(value) and not (parts and all(rule.allows(read(part, rule)) for part in parts))
    values = [value] if one else [checked(name, part, rule) for part in parts or _parts(text)]
    if len(set(map(repr, values))) < len(values):
        raise typer.BadParameter(f"{name} has one value or several, between commas, got {text!r}")
    return values


def pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """{name: text} of texts NAME=VALUE; of one name the last."""
    found = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not (mark and name.strip()):
            raise typer.BadParameter(f"--{option} takes NAME=VALUE, got {text!r}")
        found[name.strip()] = value
    return found


def column_names(option: str, texts: Iterable[str]) -> list[str]:
    """The columns that texts name: several between commas; one that has commas stands in double quotes."""
    found = [name for text in texts for name in next(csv.reader([text], skipinitialspace=True), []) if name]
    if not found:
        raise typer.BadParameter(f"--{option} names columns, got {list(texts)!r}")
    return found


def check_name(name: str, known: Iterable[str], what: str) -> None:
    """Raise for a name that is none of those known."""
    if name not in (known := list(known)):
        raise typer.BadParameter(
            f"{what} has no {name!r}{did_you_mean(name, known)}; there are: {', '.join(known)}"
        )


@contextmanager
def csv_reading(said: Mapping[str, str]) -> Iterator[None]:
    """Around a command whose CSV is read as was said."""
    if not said:
        yield
        return
    from ..store.csv_format import csv_format, reading

    rules = csv_format.parameter_rules  # type: ignore[attr-defined]
    for name in said:
        check_name(name, rules, "--csv")
    values: dict[str, Any] = {name: checked(name, text, rules[name]) for name, text in said.items()}
    with reading(csv_format(**values)):
        yield
