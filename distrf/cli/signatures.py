"""Options of the command line from the constructors of estimators and from public functions.

Names, defaults, rules and texts are theirs.
"""

from __future__ import annotations
import __future__

import ast
import functools
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from .usage import flag

if TYPE_CHECKING:
    from ..parameters import Rule

Options = dict[str, tuple[Any, Any]]
#: A file, a folder or a URL: job files make it relative to them.
Place = str

#: Parameters that no option says: threads are Dask's, and the command has words of its own for the others.
LEFT_OUT = frozenset({"n_jobs", "random_state", "checkpoint", "checkpoint_every", "resume", "warm_start"})
#: Other names of options.
_SHORT = {"n_components": ["-D"], "quiet": ["-q"], "random_state": ["--seed"]}
_SECTION = re.compile(r"^(?P<title>\S.*)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(r"^(?P<names>\w+(?:, \w+)*) : .*$", re.MULTILINE)


class PathMark:
    """Marks an argument or an option that is a `Place`."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a constructor, a function or a group of options.

    text : the first sentence of what the docstring says of it, and what it says of None
    default : as in the signature; `empty` without one
    annotation : as text
    positional : whether it may be given without its name
    rule : what it may be, where an estimator says so
    """

    empty: ClassVar[Any] = inspect.Parameter.empty
    name: str
    text: str
    default: Any = None
    annotation: str = "str"
    positional: bool = False
    rule: Rule | None = None

    @property
    def is_flag(self) -> bool:
        """Whether it is true or false: as its rule says, or the annotation of a function."""
        if self.rule is None:
            return self.annotation == "bool"
        from ..parameters import FLAG

        return self.rule is FLAG

    @property
    def is_list(self) -> bool:
        """Whether several names or numbers are typed for it."""
        listed = "Sequence" in self.annotation or "list" in self.annotation
        return self.rule is None and listed and "float" not in self.annotation

    @property
    def is_path(self) -> bool:
        """Whether it names a file, a folder or a URL: commands read and write what lies at a place."""
        return self.rule is None and (self.positional or bool(re.search("PathLike|Place", self.annotation)))

    def spelled(self, panel: str) -> tuple[Any, Any]:
        """Annotation and default of the argument or the option; of the latter None, which is not handed on."""
        if self.positional and self.rule is None:
            return Annotated[str, PathMark(), typer.Argument(help=self.text)], self.empty
        default = self.empty if self.default is self.empty else None
        return option(self.name, {"": self}, panel), default


class Typed:
    """Options as they were typed; a class says in `options` which there are: {option: (annotation, default)}.

    typed : {option: text or flag} of those that were given
    """

    def __init__(self, **given: Any):
        self.typed = {name: value for name, value in given.items() if value is not None}

    @property
    def said(self) -> bool:
        """Whether anything was typed."""
        return bool(self.typed)


def parameters_of(owner: Callable[..., Any]) -> dict[str, Parameter]:
    """{option: parameter} of a constructor or a function, in the order of the signature.

    Of an estimator they are those with a rule, but for those left out.
    """
    rules: Mapping[str, Rule] | None = getattr(owner, "parameter_rules", None)
    texts = described(inspect.getdoc(owner) or "")
    found = {}
    for p in inspect.signature(owner).parameters.values():
        if rules is None or p.name in rules.keys() - LEFT_OUT:
            said = (p.default, str(p.annotation), p.kind is not p.KEYWORD_ONLY, (rules or {}).get(p.name))
            found[p.name] = Parameter(p.name, texts.get(p.name, ""), *said)
    return found


@functools.cache
def outline(function: str) -> Callable[..., Any]:
    """Signature and docstring of a function, "module:name", from its source: for help nothing heavy is imported."""
    module, name = function.split(":")
    spec = importlib.util.find_spec(module)
    assert spec is not None
    source = spec.loader.get_source(module)  # type: ignore[union-attr]
    nodes = ast.parse(source).body
    # The last one: overloads stand before the function.
    found = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == name][-1]
    found.decorator_list, found.body = [], found.body[:1]
    made: dict[str, Any] = {}
    flags = __future__.annotations.compiler_flag  # those of the signature are texts
    exec(compile(ast.Module([found], []), module, "exec", flags), made)
    return made[name]


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
        first, *others = re.split(r"(?<=[.])\s+(?=[A-Z\"])", text)
        first = " ".join([first, *(sentence for sentence in others if sentence.startswith("None "))])
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
    texts = [part.strip() for part in plain.split(",") if part.strip()]
    yield texts
    parts = [next(_readings(part)) for part in texts]
    yield parts
    yield tuple(parts)


def as_number(text: str) -> Any:
    """A number where the text is one, else the text."""
    value = next(_readings(text))
    return text if value is None or isinstance(value, bool) else value


#: What is shown for a value whose rule or annotation begins so.
_METAVARS = {"an integer ": "<int>", "int ": "<int>", "a finite number ": "<float>", "float ": "<float>"}
_WORDS = {"none": None, "true": True, "false": False, "yes": True, "no": False}


def merged(kinds: Mapping[str, type]) -> dict[str, dict[str, Parameter]]:
    """{parameter: {name of an estimator: its own}} of several estimators, in the order of their signatures."""
    owners: dict[str, dict[str, Parameter]] = {}
    for kind, estimator in kinds.items():
        for name, parameter in parameters_of(estimator).items():
            owners.setdefault(name, {})[kind] = parameter
    return owners


def option(name: str, by_kind: Mapping[str, Parameter], panel: str, where: str = "") -> Any:
    """The annotation of an option that stands for a parameter of some estimators, or of a function: text, or a flag.

    The help is the first sentence that one of them says of it, after `where`, and what it may be, where they agree.
    """
    first = next(iter(by_kind.values()))
    rules = {str(p.rule) for p in by_kind.values() if p.rule is not None}
    defaults = {_shown(p.default) for p in by_kind.values() if p.default is not Parameter.empty}
    if not rules:
        defaults -= {"None", "False"}  # an option that is not there
    options: dict[str, Any] = {"help": f"{where}{first.text}", "rich_help_panel": panel, "show_default": False}
    if first.is_flag:
        names = f"{flag(name)}/--no-{flag(name)[2:]}" if rules else flag(name)
        return Annotated[bool | None, typer.Option(names, *_SHORT.get(name, []), **options)]
    if len(rules) == 1:
        options["help"] += f" ({min(rules)})"
    if first.is_list:
        options["help"] += " Several stand between commas."
    if len(defaults) == 1:
        options["help"] += f" [default: {defaults.pop()}]"
    allowed = f"{' '.join(sorted(rules)) or first.annotation} "
    options["metavar"] = next((shown for word, shown in _METAVARS.items() if allowed.startswith(word)), None)
    marks = [PathMark()] if first.is_path else []
    return Annotated[str | None, *marks, typer.Option(flag(name), *_SHORT.get(name, []), **options)]


def _shown(default: Any) -> str:
    """A default as it is typed."""
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


def arguments(estimator: type, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of an estimator from texts; those that are no parameters of it are left out."""
    known = parameters_of(estimator)
    return {
        name: read(value, rule) if isinstance(value, str) and (rule := known[name].rule) else value
        for name, value in typed.items()
        if name in known
    }
