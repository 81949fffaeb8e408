"""Options of the command line from the constructors of estimators: names, defaults, rules and texts are theirs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any

import typer

from ..parameters import FLAG, Rule

#: Parameters that no option says: threads are Dask's, and the command has words of its own for the others.
LEFT_OUT = frozenset({"n_jobs", "random_state", "checkpoint", "checkpoint_every", "resume", "warm_start"})
_SECTION = re.compile(r"^(?P<title>\S.*)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(r"^(?P<names>\w+(?:, \w+)*) : .*$", re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a constructor.

    default : as in the signature; `inspect.Parameter.empty` without one
    rule : what it may be
    text : the first sentence of what the docstring says of it
    """

    name: str
    default: Any
    rule: Rule
    text: str


def parameters_of(estimator: type) -> dict[str, Parameter]:
    """Parameters of an estimator's constructor that an option can say, in the order of the signature."""
    rules: Mapping[str, Rule] = getattr(estimator, "parameter_rules", {})
    texts = described(inspect.getdoc(estimator) or "")
    found = inspect.signature(estimator).parameters.values()
    return {
        p.name: Parameter(p.name, p.default, rules[p.name], texts.get(p.name, ""))
        for p in found
        if p.name in rules and p.name not in LEFT_OUT
    }


def described(doc: str) -> dict[str, str]:
    """{parameter: first sentence} of a numpydoc docstring."""
    titles = [*_SECTION.finditer(doc)]
    for at, title in enumerate(titles):
        if title["title"] == "Parameters":
            end = titles[at + 1].start() if at + 1 < len(titles) else len(doc)
            return dict(_sentences(doc[title.end() : end]))
    return {}


def _sentences(section: str) -> Iterator[tuple[str, str]]:
    entries = [*_ENTRY.finditer(section)]
    for at, entry in enumerate(entries):
        end = entries[at + 1].start() if at + 1 < len(entries) else len(section)
        text = " ".join(section[entry.end() : end].split())
        first = re.split(r"(?<=[.])\s+(?=[A-Z\"])", text, maxsplit=1)[0]
        for name in entry["names"].split(", "):
            yield name, first


def read(text: str, rule: Rule) -> Any:
    """The value that a text stands for: the first reading that the rule allows, else the text itself.

    Readings are a whole number, a number, none, true and false, a list of such parts between commas, and text.
    """
    return next((value for value in _readings(text) if rule.allows(value)), text)


def _readings(text: str) -> Iterator[Any]:
    plain = text.strip()
    try:
        number = float(plain)
        if number.is_integer():
            yield int(plain) if re.fullmatch(r"[+-]?\d+", plain) else int(number)
        yield number
    except (ValueError, OverflowError):
        pass
    if plain.lower() in _WORDS:
        yield _WORDS[plain.lower()]
    yield text
    if "," in plain:
        parts = [next(_readings(part)) for part in plain.split(",") if part.strip()]
        yield parts
        yield tuple(parts)


_WORDS = {"none": None, "true": True, "false": False}


def flag(name: str) -> str:
    """The option of a parameter."""
    return "--" + name.replace("_", "-")


def option_group(name: str, doc: str, kinds: Mapping[str, type], panel: str, more: Iterable[Any] = ()) -> type:
    """A dataclass of options: one for each parameter of some estimators, as typed, None where it is not said.

    Parameters
    ----------
    name, doc : str
        Of the dataclass.
    kinds : dict of str to type
        Estimators by the name that the command line has for them.
    panel : str
        Heading in the help.
    more : iterable of (name, type, field)
        Fields before these.

    Returns
    -------
    type
        The frozen dataclass.
    """
    owners: dict[str, dict[str, Parameter]] = {}
    for kind, estimator in kinds.items():
        for parameter in parameters_of(estimator).values():
            owners.setdefault(parameter.name, {})[kind] = parameter
    fields: list[Any] = list(more)
    for option, by_kind in owners.items():
        fields.append((option, _annotation(option, by_kind, len(kinds), panel), field(default=None)))
    return make_dataclass(name, fields, frozen=True, namespace={"__doc__": doc})


def _annotation(name: str, by_kind: Mapping[str, Parameter], of: int, panel: str) -> Any:
    first = next(iter(by_kind.values()))
    where = "" if len(by_kind) == of else f"{', '.join(by_kind)}: "
    defaults = {str(p.default) for p in by_kind.values() if p.default is not inspect.Parameter.empty}
    shown: str | bool = defaults.pop() if len(defaults) == 1 else False
    options = {"help": where + first.text, "rich_help_panel": panel, "show_default": shown}
    if first.rule is FLAG:
        return Annotated[bool | None, typer.Option(f"{flag(name)}/--no-{flag(name)[2:]}", **options)]  # type: ignore[arg-type]
    short = ("-D",) if name == "n_components" else ()
    return Annotated[str | None, typer.Option(flag(name), *short, **options)]  # type: ignore[arg-type]


def said(options: Any) -> dict[str, Any]:
    """{parameter: what was typed} of the options that were given."""
    values = {f: getattr(options, f) for f in options.__dataclass_fields__}
    return {name: value for name, value in values.items() if value is not None}


def arguments(estimator: type, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of an estimator from texts; those that are no parameters of it are left out."""
    known = parameters_of(estimator)
    return {
        name: read(value, known[name].rule) if isinstance(value, str) else value
        for name, value in typed.items()
        if name in known
    }
