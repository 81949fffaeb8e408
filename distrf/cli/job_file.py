"""Job files: YAML or JSON with the arguments and options of a command, for what is not typed."""

from __future__ import annotations

import os
from typing import Any

import typer

from ..errors import did_you_mean

#: The metavar of what names a file, a folder or a URL: paths of a job file are relative to it.
PATH = "PATH"


def take(ctx: Any, param: Any, path: str | None) -> str | None:
    """Let a job file say what is not typed: the callback of --job, which is read before all others."""
    if path is not None and not ctx.resilient_parsing:
        ctx.default_map = load(path, ctx.command)
    return path


def pairs(ctx: Any, name: str) -> list[str]:
    """What a job file says for an option NAME=VALUE: what is typed is added to it."""
    return list((ctx.default_map or {}).get(name, ()))


def load(path: str, command: Any) -> dict[str, Any]:
    """{parameter: text, list of texts or flag} of a job file; its paths are made relative to where we are.

    Raises BadParameter for what is no job of this command: no YAML, an unknown key, a value of the wrong kind.
    """
    entries = _entries(path)
    known = {p.name: p for p in command.params if p.name not in ("job", "help")}
    named = entries.pop("command", command.name)
    if named != command.name and not (command.name == "plan" and named in ("train", "featurize")):
        raise typer.BadParameter(f"{path!r} is a job of `distrf {named}`, not of `distrf {command.name}`")
    if command.name == "plan":  # of a job to come: without its outputs
        entries = {name: value for name, value in entries.items() if name in known or name not in _OF_JOBS}
        entries |= {"featurize": True} if named == "featurize" else {}
    found = {}
    for key, value in entries.items():
        name = str(key).replace("-", "_")
        name = name if name in known else name.lower()  # X
        if name not in known:
            near = did_you_mean(name, known)
            raise typer.BadParameter(
                f"{path!r} has the key {key!r}{near}; `distrf {command.name}` knows: {', '.join(known)}"
            )
        if value is not None:
            found[name] = _value(f"{key} in {path!r}", value, known[name], os.path.dirname(path))
    return found


#: Keys of `train` and `featurize` that change nothing for a plan.
_OF_JOBS = ("out", "checkpoint", "checkpoint_every", "resume", "overwrite", "report", "plot", "save_map")


def _entries(path: str) -> dict[Any, Any]:
    import yaml

    from ..store import files

    if "://" not in path and not os.path.isfile(path):
        raise typer.BadParameter(f"no job file at {path!r}; check the path")
    fs, root = files.filesystem(files.normalise(path))
    try:
        found = yaml.safe_load(fs.cat_file(root).decode())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise typer.BadParameter(
            f"{path!r} is neither YAML nor JSON: {' '.join(str(error).split())}"
        ) from error
    except FileNotFoundError as error:
        raise typer.BadParameter(f"no job file at {path!r}; check the path") from error
    if not isinstance(found, dict):
        raise typer.BadParameter(
            f"a job file has NAME: VALUE on each line; {path!r} has a {type(found).__name__}"
        )
    return found


def _value(where: str, value: Any, parameter: Any, folder: str) -> Any:
    """An entry as it would be typed; a column with commas is quoted, as it stands for itself."""
    if getattr(parameter, "is_flag", False):
        if not isinstance(value, bool):
            raise typer.BadParameter(f"{where} is true or false, got {value!r}")
        return value
    if parameter.metavar == "NAME=VALUE":
        if not isinstance(value, dict):
            raise typer.BadParameter(f"{where} has names and values, got {value!r}")
        return [f"{name}={_text(where, one)}" for name, one in value.items()]
    if parameter.multiple:
        if value == []:
            raise typer.BadParameter(f"{where} names no columns; leave it out, or name some")
        return [
            '"' + _text(where, one).replace('"', '""') + '"'
            for one in (value if isinstance(value, list) else [value])
        ]
    text = _text(where, value)
    is_path = parameter.param_type_name == "argument" or parameter.metavar == PATH
    is_word = parameter.name == "cluster" and text in ("local", "none")
    return _relative(text, folder) if is_path and not is_word else text


def _text(where: str, value: Any) -> str:
    if isinstance(value, (dict, list)):
        import yaml

        return yaml.safe_dump(value, default_flow_style=True, width=2**31).strip()  # keys stay what they are
    if isinstance(value, (str, int, float)):
        return str(value)
    raise typer.BadParameter(f"{where} is text, a number or a list, got {value!r}")


def _relative(text: str, folder: str) -> str:
    """A path as seen from here; URLs and scheduler addresses stay."""
    text = os.path.expanduser(text)
    if "://" in text or os.path.isabs(text):
        return text
    protocol, mark, inside = folder.rpartition("://")
    # An object store takes ".." for a name.
    joined = os.path.normpath(os.path.join(inside, text)) if mark else os.path.join(folder, text)
    return f"{protocol}{mark}{joined}"
