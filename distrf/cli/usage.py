"""The error of a command line that is wrong itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import InputError, ParameterError


class UsageError(Exception):
    """The command line itself is wrong: exit code 2."""


def flag(name: str) -> str:
    """The option of a parameter."""
    return "--" + name.replace("_", "-")


def checked(build: Callable[[], Any], option: Callable[[str], str] = flag) -> Any:
    """The value of `build`; a broken rule in it is a usage error, which names the option of a parameter."""
    try:
        return build()
    except ParameterError as error:
        rule = error.rule.removesuffix(" or None")
        raise UsageError(f"{option(error.parameter)} must be {rule}, got {error.value}") from error
    except InputError as error:
        raise UsageError(str(error)) from error
