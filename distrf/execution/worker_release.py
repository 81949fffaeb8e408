"""Refuses workers with another release of distrf than the client: they might compute other numbers without any error.

Before the first task the client asks all workers for their release. A worker that connects later refuses its first task,
because every function of a task is pickled with the client's release (`same_release`). In addition, each map compares a
checksum of its weights when it is unpickled.
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

#: The workers that have answered, by client.
_asked: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def check_release(client: Any) -> None:
    """Ask the workers that are new to this client for their release of distrf.

    A worker that does not answer may be lost. It is asked again the next time, and its tasks check the release too.

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
    """The function that runs on a worker. It is defined in here so that it is pickled by value: the worker may lack distrf."""

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
    """Decorator of a function that tasks call. On a worker with another release, calling it raises ClusterError."""

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._function(*arguments, **named)

    def __reduce__(self) -> tuple[Any, ...]:
        return _find, (self._function.__module__, self._function.__qualname__, __version__)


def _find(module: str, name: str, release: str) -> Any:
    """The function that a task calls, as a worker unpickles it.

    On a worker of another release, a function that raises when it is called. The error is not raised here, because Dask
    ends a worker without an error message if the worker cannot unpickle a message.
    """
    if release == __version__:
        return getattr(importlib.import_module(module), name)

    def refuse(*arguments: Any, **named: Any) -> None:
        raise refusal(f"a worker on {socket.gethostname()} that joined late", __version__, release)

    return refuse
