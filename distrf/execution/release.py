"""Refuses workers whose release of distrf is not the client's: they could compute other numbers, and the fit would succeed.

The client asks the workers that are there before the first task. A worker that joins later refuses the first task it gets,
since every function that a task calls says of which release it is. Maps check themselves that their weights are the same.
"""

from __future__ import annotations

import functools
import importlib
import socket
import weakref
from collections.abc import Callable
from typing import Any

from .. import __version__
from ..errors import ClusterError

#: Workers that were asked, by client.
_asked: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def check_release(client: Any) -> None:
    """Ask the workers that are new to this client for their release of distrf.

    A worker that cannot answer may be lost already. It is asked again, and its tasks say of which release they are.

    Parameters
    ----------
    client : distributed.Client

    Raises
    ------
    ClusterError
        A worker has another release, or no distrf; the message names it.
    """
    asked = _asked.setdefault(client, set())
    new = client.nthreads().keys() - asked
    if not new:
        return
    answers = client.run(_question(), workers=sorted(new), on_error="return")
    for worker, answer in sorted(answers.items()):
        if isinstance(answer, BaseException):
            continue
        if answer != __version__:
            raise refusal(f"the worker {worker}", answer)
        asked.add(worker)


def _question() -> Callable[[], str | None]:
    """The function that asks a worker. It is defined in here so that it is pickled by value: a worker need not have distrf."""

    def release() -> str | None:
        try:
            import distrf
        except ModuleNotFoundError:
            return None
        return distrf.__version__

    return release


def refusal(worker: str, found: Any, release: str = __version__) -> ClusterError:
    """The error for a worker of another release.

    Parameters
    ----------
    worker : str
        Which worker, in words.
    found : str or None
        Its release; None: it has no distrf.
    release : str
        The release it needs.

    Returns
    -------
    ClusterError
    """
    have = "no distrf" if found is None else f"distrf {found}"
    return ClusterError(
        f"workers need the distrf of the client, {release}; {worker} has {have}. Install distrf=={release} in "
        "its environment (or its image), and start it anew"
    )


class same_release:
    """Decorator of a function that tasks call: a worker of another release refuses it."""

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._function(*arguments, **named)

    def __reduce__(self) -> tuple[Any, ...]:
        return _find, (self._function.__module__, self._function.__qualname__, __version__)


def _find(module: str, name: str, release: str) -> Any:
    """The function that a task calls, as a worker unpickles it.

    On a worker of another release it is a function that refuses once it is called. It does not refuse here: Dask ends a
    worker, without a word, if it cannot read a message.
    """
    if release == __version__:
        return getattr(importlib.import_module(module), name)

    def refuse(*arguments: Any, **named: Any) -> None:
        raise refusal(f"a worker on {socket.gethostname()} that joined late", __version__, release)

    return refuse
