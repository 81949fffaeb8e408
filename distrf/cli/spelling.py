"""An argument or an option as it is typed, shown and completed: plain data, without what it stands for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer


@dataclass(frozen=True)
class Spelling:
    """One argument or option of a command.

    names : as they are typed, those of a flag with its opposite after a slash; none for an argument
    text : its help, without the maps or models that it belongs to
    values : that may be typed for it, where they can be listed
    is_list : whether it takes several texts between commas
    is_path : whether it names a file, a folder or a URL: job files make it relative to them
    owners : {map or model: its own help of this option}; empty where it belongs to all
    noun : "map" or "model", what the owners are
    """

    text: str
    panel: str
    names: tuple[str, ...] = ()
    metavar: str | None = None
    values: tuple[str, ...] = ()
    is_flag: bool = False
    is_path: bool = False
    is_needed: bool = False
    is_list: bool = False
    owners: dict[str, str] = field(default_factory=dict)
    noun: str = ""

    @property
    def is_argument(self) -> bool:
        return not self.names

    @property
    def help(self) -> str:
        """The text, after those it belongs to where the title above it does not say that."""
        named = self.owners and not self.panel.endswith(", ".join(self.owners))
        return f"{', '.join(self.owners)}: {self.text}" if named else self.text

    def annotated(self) -> tuple[Any, Any]:
        """Annotation and default as Typer takes them; what is not typed is None, which is not handed on."""
        default = inspect.Parameter.empty if self.is_needed else None
        if self.is_argument:
            return Annotated[str, typer.Argument(help=self.help)], default
        shown: dict[str, Any] = {"help": self.help, "rich_help_panel": self.panel, "show_default": False}
        if self.is_flag:
            return Annotated[bool | None, typer.Option(*self.names, **shown)], default
        shown |= {"metavar": self.metavar, "autocompletion": offering(self.values)}
        return Annotated[str | None, typer.Option(*self.names, **shown)], default


#: {parameter: how it is spelled}.
Options = dict[str, Spelling]


def offering(values: tuple[str, ...]) -> Callable[[str], list[str]] | None:
    """What completes the last of several values between commas; None leaves it to the shell, which knows files."""

    def offered(incomplete: str) -> list[str]:
        before = incomplete[: incomplete.rfind(",") + 1]
        return [before + value for value in values]

    return offered if values else None
