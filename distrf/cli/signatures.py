"""Options of the command line from the constructors of estimators: names, defaults, rules and texts are theirs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from ..parameters import FLAG, Rule
from .usage import flag

#: Parameters that no option says: threads are Dask's, and the command has words of its own for the others.
LEFT_OUT = frozenset({"n_jobs", "random_state", "checkpoint", "checkpoint_every", "resume", "warm_start"})
#: One penalty or several: one option.
_SAME = {"alphas": "alpha"}
_SECTION = re.compile(r"^(?P<title>\S.*)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(r"^(?P<names>\w+(?:, \w+)*) : .*$", re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a constructor.

    default : as in the signature; `empty` without one
    rule : what it may be
    text : the first sentence of what the docstring says of it
    """

    empty: ClassVar[Any] = inspect.Parameter.empty
    name: str
    default: Any
    rule: Rule
    text: str


def parameters_of(estimator: type) -> dict[str, Parameter]:
    """{option: parameter} of an estimator's constructor, in the order of the signature."""
    rules: Mapping[str, Rule] = getattr(estimator, "parameter_rules", {})
    texts = described(inspect.getdoc(estimator) or "")
    found = inspect.signature(estimator).parameters.values()
    return {
        _SAME.get(p.name, p.name): Parameter(p.name, p.default, rules[p.name], texts.get(p.name, ""))
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
    """The value that a text stands for: the first reading that the rule allows, else its number or the text itself.

    Readings are a whole number, a number, none, true and false, a list of such parts between commas, and text.
    """
    return next((value for value in _readings(text) if rule.allows(value)), as_number(text))


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


def as_number(text: str) -> Any:
    """A number where the text is one, else the text."""
    value = next(_readings(text))
    return text if value is None or isinstance(value, bool) else value


_WORDS = {"none": None, "true": True, "false": False, "yes": True, "no": False}


def flag_of(parameter: str) -> str:
    """The option of a parameter."""
    return flag(_SAME.get(parameter, parameter))


def merged(kinds: Mapping[str, type]) -> dict[str, dict[str, Parameter]]:
    """{parameter: {name of an estimator: its own}} of several estimators, in the order of their signatures."""
    owners: dict[str, dict[str, Parameter]] = {}
    for kind, estimator in kinds.items():
        for name, parameter in parameters_of(estimator).items():
            owners.setdefault(name, {})[kind] = parameter
    return owners


def option(name: str, by_kind: Mapping[str, Parameter], panel: str, where: str = "") -> Any:
    """The annotation of an option that stands for a parameter of some estimators: text, or a flag.

    The help is the first sentence that one of them says of it, after `where`, and what it may be, where they agree.
    """
    first = next(iter(by_kind.values()))
    rules = {str(p.rule) for p in by_kind.values()}
    defaults = {str(p.default) for p in by_kind.values() if p.default is not Parameter.empty}
    options: dict[str, Any] = {
        "help": f"{where}{first.text}",
        "rich_help_panel": panel,
        "show_default": defaults.pop() if len(defaults) == 1 else False,
    }
    if first.rule is FLAG:
        return Annotated[bool | None, typer.Option(f"{flag(name)}/--no-{flag(name)[2:]}", **options)]
    if len(rules) == 1:
        options["help"] += f" ({rules.pop()})"
    short = ("-D",) if name == "n_components" else ()
    return Annotated[str | None, typer.Option(flag(name), *short, **options)]


def arguments(estimator: type, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of an estimator from texts; those that are no parameters of it are left out."""
    known = parameters_of(estimator)
    return {
        known[name].name: read(value, known[name].rule) if isinstance(value, str) else value
        for name, value in typed.items()
        if name in known
    }
