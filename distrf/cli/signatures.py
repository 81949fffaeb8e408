"""Options of the command line from the constructors of estimators and from public functions.

Names, defaults, rules and texts are theirs.
"""

from __future__ import annotations
import __future__

import ast
import csv
import functools
import inspect
import pkgutil
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from .spelling import Spelling
from .usage import flag

if TYPE_CHECKING:
    from ..parameters import Rule

#: A file, a folder or a URL: job files make it relative to them.
Place = str

#: Parameters that no option says: threads are Dask's, and the command has words of its own for the others.
LEFT_OUT = frozenset({"n_jobs", "random_state", "checkpoint", "checkpoint_every", "resume", "warm_start"})
#: Other names of options.
_SHORT = {"n_components": ["-D"], "quiet": ["-q"], "random_state": ["--seed"]}
_SECTION = re.compile(r"^(?P<title>\S.*)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(r"^(?P<names>\w+(?:, \w+)*) : (?P<type>.*)$", re.MULTILINE)
#: Words of a rule that can be typed: a text in quotes, a number, or one of those with another spelling.
_TYPED = re.compile(r"'(?P<text>[^']*)'|-?[\d.]+|None|True|False")
SPELLED = {"None": "none", "True": "yes", "False": "no"}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a constructor, a function or a group of options.

    text : the first sentence of what the docstring says of it, and what it says of None
    default : as in the signature; `empty` without one
    annotation : as text
    positional : whether it may be given without its name
    rule : what it may be, where an estimator says so
    listed : values that may be typed, where the docstring, or the command, lists them
    """

    empty: ClassVar[Any] = inspect.Parameter.empty
    name: str
    text: str
    default: Any = None
    annotation: str = "str"
    positional: bool = False
    rule: Rule | None = None
    listed: tuple[str, ...] = ()

    @property
    def values(self) -> tuple[str, ...]:
        """What may be typed, where that is one of a few."""
        if self.rule is None:
            return self.listed
        found = [match for word in self.rule.texts() if (match := _TYPED.fullmatch(word))]
        texts = [match["text"] or SPELLED.get(match[0], match[0]) for match in found]
        return tuple(texts) if len(texts) > 1 else ()  # one among numbers says too little

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

    def spelled(self, panel: str) -> Spelling:
        """The argument or the option."""
        if self.positional and self.rule is None:
            return Spelling(self.text, "Arguments", is_path=True, is_needed=True)
        return option(self.name, {"": self}, panel)


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
    doc = inspect.getdoc(owner) or ""
    texts, values = described(doc), listed(doc)
    found = {}
    for p in inspect.signature(owner).parameters.values():
        if rules is None or p.name in rules.keys() - LEFT_OUT:
            said = (p.default, str(p.annotation), p.kind is not p.KEYWORD_ONLY, (rules or {}).get(p.name))
            found[p.name] = Parameter(p.name, texts.get(p.name, ""), *said, values.get(p.name, ()))
    return found


@functools.cache
def outline(function: str) -> Callable[..., Any]:
    """Signature and docstring of a function, "module:name", from its source: for help nothing heavy is imported."""
    module, name = function.split(":")
    package, _, inside = module.partition(".")
    source = pkgutil.get_data(
        package, inside.replace(".", "/") + ".py"
    )  # finding a module imports those above it
    assert source is not None
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
    return dict(_sentences(section(doc, "Parameters")))


def listed(doc: str) -> dict[str, tuple[str, ...]]:
    """{parameter: values} of a numpydoc docstring whose types are such as {"a", "b"} or None."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in _ENTRY.finditer(section(doc, "Parameters")):
        values = tuple(re.findall(r'"([^"]*)"', "".join(re.findall(r"{.*?}", entry["type"]))))
        if values:
            values += ("yes", "no") if "bool" in entry["type"] else ()
            found |= dict.fromkeys(entry["names"].split(", "), values)
    return found


def section(doc: str, wanted: str) -> str:
    """The text of a section of a numpydoc docstring; empty where it has none of that title."""
    titles = [*_SECTION.finditer(doc)]
    for at, title in enumerate(titles):
        if title["title"] == wanted:
            end = titles[at + 1].start() if at + 1 < len(titles) else len(doc)
            return doc[title.end() : end]
    return ""


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


def listed_names(text: str, known: Collection[str]) -> list[str] | None:
    """The columns that a text lists, where splitting it at commas does not tell: names may have commas and blanks.

    known : the columns there are; the longest that the text begins with is meant, and one in double quotes is as it stands

    None where each part between commas is a name.
    """
    parts = text.split(",")
    if '"' in text:
        return next(csv.reader([text], skipinitialspace=True))
    names: list[str] = []
    while parts:
        joined = (",".join(parts[:count]) for count in range(len(parts), 0, -1))
        tried = ((one, said) for one in joined for said in (one, one.strip()) if said in known)
        taken, name = next(tried, (parts[0], parts[0].strip()))
        parts = parts[taken.count(",") + 1 :]
        names += [name] if name else []
    return None if names == [part.strip() for part in text.split(",") if part.strip()] else names


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


def option(name: str, by_kind: Mapping[str, Parameter], panel: str, noun: str = "") -> Spelling:
    """The option that stands for a parameter of some estimators, or of a function: text, or a flag.

    The help is the first sentence that one of them says of it, and what it may be, where they agree.

    noun : "map" or "model", where it belongs to some of them, whose own help is kept too
    """
    owners = {kind: option(name, {"": p}, panel).text for kind, p in by_kind.items()} if noun else {}
    first = next(iter(by_kind.values()))
    rules = {str(p.rule) for p in by_kind.values() if p.rule is not None}
    defaults = {_shown(p.default) for p in by_kind.values() if p.default is not Parameter.empty}
    if not rules:
        defaults -= {"None", "False"}  # an option that is not there
    said: dict[str, Any] = {
        "panel": panel,
        "owners": owners,
        "noun": noun,
        "is_path": first.is_path,
        "is_list": first.is_list,
    }
    said["is_needed"] = first.default is Parameter.empty and not (noun or first.rule)
    if first.is_flag:
        names = f"{flag(name)}/--no-{flag(name)[2:]}" if rules or first.default is True else flag(name)
        return Spelling(first.text, names=(names, *_SHORT.get(name, ())), is_flag=True, **said)
    text = first.text
    if len(rules) == 1:
        text += f" ({min(rules)})"
    if first.is_list:
        text += " Several stand between commas."
    if len(defaults) == 1:
        text += f" [default: {defaults.pop()}]"
    allowed = f"{' '.join(sorted(rules)) or first.annotation} "
    metavar = next((shown for word, shown in _METAVARS.items() if allowed.startswith(word)), None)
    values = tuple(dict.fromkeys(value for p in by_kind.values() for value in p.values))
    return Spelling(text, names=(flag(name), *_SHORT.get(name, ())), metavar=metavar, values=values, **said)


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
