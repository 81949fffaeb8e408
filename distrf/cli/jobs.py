"""Job files: one TOML file that says everything a command line would say."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tomllib
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import typer

from ..errors import did_you_mean
from ..planning.workers import WORDS
from .groups import path_parameters
from .session import running
from .signatures import Place
from .usage import UsageError

_words: ContextVar[list[str] | None] = ContextVar("distrf_job", default=None)


def run(job: Place, *, dry_run: bool = False, cluster: Place | None = None, tls: Place | None = None) -> None:
    """Run the command that a job file describes; its paths are relative to the file.

    Parameters
    ----------
    job : Place
        A TOML file: command = ..., and its arguments and options.
    dry_run : bool
        Print the equivalent command line and stop.
    cluster, tls : Place or None
        As of every command; instead of the one in the file.

    Examples
    --------
    distrf run job.toml
    distrf run job.toml --dry-run
    """
    instead: dict[str, str | None] = {
        key: value for key, value in (("cluster", cluster), ("tls", tls)) if value is not None
    }
    entries = _read(job) if running(cluster) else {}
    if "memory-limit" in entries:
        instead["memory-limit"] = None
        if entries.get("quiet") is not True:
            print(
                f"memory-limit of {job!r} is left out: it is for local workers, and those of {cluster} have their own",
                file=sys.stderr,
            )
    words = job_words(job, instead)
    if dry_run:
        print(shlex.join(["distrf", *words]))
        return
    from .app import app

    token = _words.set(words)
    try:
        # Not standalone: errors of the command line are those of the outer one.
        code = app(words, standalone_mode=False)
    finally:
        _words.reset(token)
    if code:
        raise typer.Exit(code)


def command_line() -> str:
    """The words after `distrf`, those of the job file where one runs."""
    return shlex.join(_words.get() or sys.argv[1:])


def keys_of(command: Any) -> dict[str, Any]:
    """{key: parameter}: positional arguments by name, options by their long names without the dashes."""
    keys = {}
    for parameter in (p for p in command.params if p.name in command.spellings):
        long = [option[2:] for option in parameter.opts if option.startswith("--")]
        keys[long[0] if long else parameter.name] = parameter
    return keys


def job_words(path: str, instead: Mapping[str, str | None] = MappingProxyType({})) -> list[str]:
    """The words after `distrf` that say what a job file says.

    instead : {option: text} that go before those of the file, None to leave one out; their paths are relative to
        where we are

    Raises UsageError for what is not a job: not TOML, no command, an unknown key, a value of the wrong kind.
    """
    entries = _read(path)
    from .app import COMMANDS, get_command

    known = [name for name in COMMANDS if name != "run"]
    name = entries.pop("command", None)
    if name not in known:
        got = "has none" if name is None else f"has {name!r}"
        raise UsageError(
            f"a job file names its command, one of {', '.join(known)}; {path!r} {got}{did_you_mean(name, known)}"
        )
    command = get_command(name)
    keys = keys_of(command)
    entries = {_first_name(key, keys): value for key, value in entries.items()}
    unknown = sorted(set(entries) - set(keys))
    if unknown:
        raise UsageError(
            f"{path!r} has keys that `distrf {name}` does not know: "
            f"{', '.join(key + did_you_mean(key, keys) for key in unknown)}; known: {', '.join(keys)}"
        )
    missing = [key for key, parameter in keys.items() if parameter.required and key not in entries]
    if missing:
        raise UsageError(f"{path!r} lacks {', '.join(missing)}, which `distrf {name}` needs")
    paths = path_parameters(command)
    for key in set(instead) - set(keys):
        raise UsageError(f"--{key} is given, but `distrf {name}` has none")
    folder = os.path.dirname(path)
    positional, options = [], []
    for key, parameter in keys.items():
        given = instead.get(key)
        if given is not None:
            options += [f"--{key}", given]
        if key in instead or key not in entries:
            continue
        where = f"{key} in {path!r}"
        if getattr(parameter, "is_flag", False):
            options += _flag(where, entries[key], parameter)
            continue
        text = _text(where, entries[key])
        if parameter.name in paths and not (parameter.name == "cluster" and text in WORDS):
            text = _relative(text, folder)
        if parameter.param_type_name == "argument":
            positional.append(text)
        else:
            options += [f"--{key}", text]
    ahead = ["--"] if any(text.startswith("-") for text in positional) else []
    return [name, *options, *ahead, *positional] if ahead else [name, *positional, *options]


def _first_name(key: str, keys: Mapping[str, Any]) -> str:
    """The key of a parameter, where another long name of its option stands for it."""
    return next((first for first, parameter in keys.items() if f"--{key}" in parameter.opts), key)


def _read(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path!r} is not TOML: {error}; text stands in quotes") from error


def _bytes(path: str) -> bytes:
    """A file, here or at a URL: file systems are imported for a URL alone."""
    if os.path.isfile(path):
        with open(path, "rb") as file:
            return file.read()
    if "://" in path:
        from ..store import files

        fs, root = files.filesystem(files.normalise(path))
        if fs.isfile(root):
            return bytes(fs.cat_file(root))
    raise UsageError(f"no job file at {path!r}; check the path")


def _flag(where: str, value: Any, parameter: Any) -> list[str]:
    if not isinstance(value, bool):
        raise UsageError(f"{where} is true or false, got {value!r}")
    if value:
        return [parameter.opts[0]]
    return list(parameter.secondary_opts[:1])  # a flag without an opposite is false when it is not there


def _text(where: str, value: Any) -> str:
    """A value as it is typed; a list becomes comma-separated."""
    if isinstance(value, list) and value and not any(isinstance(part, (list, dict, bool)) for part in value):
        parts = [_text(where, part) for part in value]
        if any("," in part for part in parts):
            raise UsageError(f"the parts of {where} must not have commas, got {value!r}")
        return ",".join(parts)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        return str(value)
    raise UsageError(f"{where} is text, a number or a list of them, got {value!r}")


def _relative(text: str, folder: str) -> str:
    """A path as seen from here; URLs and scheduler addresses stay."""
    text = os.path.expanduser(text)
    if "://" in text or os.path.isabs(text):
        return text
    protocol, mark, inside = folder.rpartition("://")
    # An object store takes ".." for a name.
    return (
        f"{protocol}{mark}{os.path.normpath(os.path.join(inside, text))}"
        if mark
        else os.path.join(folder, text)
    )


def job_text(command: str, values: dict[str, Any], comment: str = "") -> str:
    """A job file; `values` by key, None left out."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += [f"command = {_toml(command)}"]
    lines += [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """A value as TOML, which flags, numbers, texts and lists of JSON are too, but for one letter of text."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
