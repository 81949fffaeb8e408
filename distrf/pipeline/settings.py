"""Parameters of the steps of a pipeline by name, as in set={"map__length_scale": 2.0}; texts stand for values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ..errors import ParameterError, did_you_mean
from ..parameters import Rule

#: The steps whose parameters are set.
STEPS = ("map", "model", "scale", "table")
#: What other options say, and the threads, which are Dask's.
NOT_SET = ("n_jobs", "random_state", "checkpoint", "resume")
#: Those that are options of their own: their names in messages.
_SHORT = {"map__n_components": "n_components", "model__alpha": "alpha"}
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


def by_step(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """{step: {parameter: value}} of {"step__parameter": value}. Raises ParameterError for what is none."""
    found: dict[str, dict[str, Any]] = {step: {} for step in STEPS}
    for name, value in given.items():
        step, _, parameter = str(name).partition("__")
        if step not in found or not parameter:
            ways = ", ".join(f"{step}__NAME" for step in STEPS)
            raise ParameterError("set", f"parameters of steps, {ways}", repr(name))
        found[step][parameter] = value
    return found


def owner_of(estimator: Any, name: str, step: str) -> tuple[Any, str]:
    """The estimator, of a map that lies on another the lower one, and its parameter that `name` stands for."""
    *path, last = name.split("__")
    for part in path:
        check_known("set", part, estimator.get_params(deep=False), f"what {type(estimator).__name__} has")
        estimator = getattr(estimator, part)
    known = [n for n in getattr(estimator, "parameter_rules", {}) if n not in NOT_SET]
    check_known("set", last, known, f"parameters that the {step}, {type(estimator).__name__}, has")
    return estimator, last


def set_parameters(estimator: Any, step: str, given: Mapping[str, Any]) -> None:
    """Set parameters by their names in `get_params`, a map below another one before its own; each by its rule."""
    from ..registry import MAPS, make_map  # texts are read where no map is needed

    for name in sorted(given, key=lambda name: name.count("__")):
        owner, last = owner_of(estimator, name, step)
        value = given[name]
        if last == "base" and isinstance(value, str) and value in MAPS:
            value = make_map(value)
        said = f"{step}__{name}"
        owner.set_params(**{last: checked(_SHORT.get(said, said), value, owner.parameter_rules[last])})
        _check_needed(owner, last, given, step)


def _check_needed(owner: Any, name: str, given: Mapping[str, Any], step: str) -> None:
    """Raise for a parameter that would change nothing, as another one decides that is not given so."""
    needs = getattr(owner, "parameter_needs", {}).get(name, {})
    values = {n: read(given[n], owner.parameter_rules[n]) if n in given else getattr(owner, n) for n in needs}
    if needs and not any(values[other] in allowed for other, allowed in needs.items()):
        ways = " or ".join(f"{step}__{n}={' or '.join(map(str, allowed))}" for n, allowed in needs.items())
        raise ParameterError(f"{step}__{name}", f"given with {ways}", ", ".join(map(repr, values.values())))


__all__ = ["NOT_SET", "by_step", "check_known", "checked", "owner_of", "read", "set_parameters"]
