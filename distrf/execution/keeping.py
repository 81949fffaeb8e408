"""What a fit of several passes keeps on the workers from one pass to the next (see kept_blocks.py), seen from the client.

Kept are the blocks of the arrays that the fit was given, before any map: these take the fewest bytes, and all passes need
the same ones, however they cut them. Arrays in memory are not kept again.

Room is the memory of a worker that Dask fills before it spills, less the largest planned peak of the passes so far. If the
memory limit of the workers is not known, nothing is kept, since nobody can tell what would be safe. Dask's configuration
`distrf.keep-blocks: false` turns it off.
"""

from __future__ import annotations

import functools
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import dask
import dask.array as da
import psutil

from .block_graphs import BlockGraphs
from .kept_blocks import Keep, kept_blocks
from .labelled import is_lazy_frame, plain_rows
from .memory import PROCESS_BYTES, SLACK, Workers, reading_scratch
from .row_blocks import row_bytes, source_of

P = ParamSpec("P")
T = TypeVar("T")

#: Share of the memory limit from which on Dask spills by default.
_SHARE = 0.6
#: Share of the free memory of this machine that may be kept without a cluster: others use it too.
_FREE = 0.5
#: Seconds in which workers must answer that they have dropped their blocks; one that is stalled holds nobody up.
_PATIENCE = 10.0
#: Schedulers whose tasks run in this process. Others make processes that are gone after a pass.
_THREADS = (None, "threads", "threading", "sync", "synchronous", "single-threaded")
#: Graphs of arrays that a fit holds for its next pass. Most fits use two: of the rows, and of the targets alone.
_GRAPHS = 4


class Keeping:
    """The arrays of a fit whose blocks workers keep, their graphs, and which worker keeps which block."""

    def __init__(self) -> None:
        self._fit = uuid.uuid4().hex
        #: name of a source -> rows of its blocks, and bytes of a row
        self._sources: dict[str, tuple[Sequence[int], float]] = {}
        self._graphs: dict[tuple[str, ...], BlockGraphs] = {}
        #: key of a block -> the worker that keeps it
        self._homes: dict[Any, str] = {}
        self._workers: dict[str, Any] = {}
        self._held: Counter[str] = Counter()
        #: bytes that the pass with the least room left free
        self._room = sys.maxsize
        self._client = None
        #: whether workers were ever told to keep blocks of this fit
        self._told = False

    def follow(self, arrays: Iterable[Any]) -> None:
        """Keep the blocks of these arrays too."""
        sources = [source_of(array)[0] for array in arrays if isinstance(array, da.Array) and array.ndim]
        self._sources |= {source.name: (source.chunks[0], row_bytes(source)) for source in sources}

    def graphs(self, arrays: Sequence[Any]) -> BlockGraphs:
        """The graphs of the blocks of arrays; made once, if several passes in a row read the same arrays."""
        names = tuple(array.name for array in arrays)
        made = self._graphs.pop(names, None) or BlockGraphs(arrays, self._sources)
        self._graphs[names] = made
        if len(self._graphs) > _GRAPHS:
            del self._graphs[next(iter(self._graphs))]
        return made

    def keep(self, peak: int, workers: Workers, client: Any) -> Keep:
        """What the tasks of a pass are told, whose planned peak on a worker is so many bytes."""
        # No more than in an earlier pass of the fit: not all that its tasks have freed returns to the system.
        free = min(room(peak, workers, client is None), self._room)
        if free < self._room or not self._workers.keys() <= workers.each.keys():
            # Blocks of lost workers are gone, and those that found no room any more: where is learned anew.
            self._homes, self._held = {}, Counter()
        self._client, self._room, self._workers = client, free, dict(workers.each)
        self._told |= free > 0
        # A fit without room keeps nothing: workers need not know it, and must not remember it.
        return Keep(self._fit if free else "", free, peak, unspilled_share())

    def worker_of(self, keys: Iterable[Any]) -> str | None:
        """The worker that keeps the most of these blocks."""
        counts = Counter(worker for key in keys if (worker := self._homes.get(key)) is not None)
        return max(counts, key=lambda worker: counts[worker], default=None)

    def had(self, worker: str, keys: Iterable[Any]) -> None:
        """A worker reads these blocks, and keeps those for which there is room."""
        for key in keys:
            rows, nbytes = self._sources[key[0]]
            nbytes *= rows[key[1]]
            if key not in self._homes and self._held[worker] + nbytes <= self._room:
                self._homes[key] = worker
                self._held[worker] += int(nbytes)

    def end(self) -> None:
        """Let all workers forget the blocks."""
        kept_blocks.drop(self._fit)
        if self._client is not None and self._told:
            with suppress(Exception):  # the cluster may be what failed; what stays gives way to other fits
                self._client.sync(
                    self._client._run, _drop, self._fit, on_error="ignore", callback_timeout=_PATIENCE
                )


_current: ContextVar[Keeping | None] = ContextVar("keeping", default=None)


@contextmanager
def keeping_blocks(*arrays: Any) -> Iterator[None]:
    """Context of a fit of several passes: the blocks of its lazy arrays are kept from the first pass on.

    Inside of another such context, the blocks stay until that ends.

    Parameters
    ----------
    *arrays : object
        Those that are Dask arrays, or become such, are kept.
    """
    arrays = tuple(
        plain_rows(a, "y" if a.ndim == 1 else "X") if is_lazy_frame(a) else plain_rows(a) for a in arrays
    )
    outer = _current.get()
    if outer is not None:
        outer.follow(arrays)
        yield
        return
    if not (allowed() and any(isinstance(array, da.Array) for array in arrays)):
        yield
        return
    keeping = Keeping()
    keeping.follow(arrays)
    token = _current.set(keeping)
    try:
        yield
    finally:
        _current.reset(token)
        keeping.end()


def keeps_blocks(fit: Callable[P, T]) -> Callable[P, T]:
    """Decorator of a fit: runs it in the context `keeping_blocks` of its lazy arguments."""

    @functools.wraps(fit)
    def kept(*arguments: P.args, **named: P.kwargs) -> T:
        with keeping_blocks(*arguments, *named.values()):
            return fit(*arguments, **named)

    return kept


def no_keep(peak: int, workers: Workers, in_process: bool = False) -> Keep:
    """What the tasks of a pass are told that keeps nothing: blocks that fits keep give way to it."""
    return Keep("", room(peak, workers, in_process), peak, unspilled_share())


def allowed() -> bool:
    """Whether Dask's configuration lets workers keep blocks."""
    return bool(dask.config.get("distrf.keep-blocks", True))


def current_keeping() -> Keeping | None:
    """The context that a pass runs in, if any."""
    return _current.get()


def room(peak: int, workers: Workers, in_process: bool = False) -> int:
    """Bytes of blocks that one process may keep beside a planned peak.

    Parameters
    ----------
    peak : int
        Planned bytes of a worker at the peak of a pass.
    workers : Workers
        With the memory limit; where there is none, nothing may be kept.
    in_process : bool
        Whether there are no workers but threads of this process. Then it is at most half of the memory that is free now.

    Returns
    -------
    int
        0 or more.
    """
    limit = workers.memory_limit
    if in_process:
        if dask.config.get("scheduler", None) not in _THREADS:
            return 0
        peak += max(0, psutil.Process().memory_info().rss - PROCESS_BYTES)
    left = int(unspilled_share() * limit - peak)
    if in_process:
        left = min(left, int(_FREE * psutil.virtual_memory().available))
    return max(0, left)


def reading_bytes(array: Any, threads: int) -> int:
    """Scratch of a worker whose threads read the stored blocks of an array.

    Parameters
    ----------
    array : Dask array of shape (n, ...)
    threads : int

    Returns
    -------
    int
    """
    source = source_of(array)[0]
    return int(SLACK * threads * reading_scratch(max(source.chunks[0]) * row_bytes(source), 0))


def unspilled_share() -> float:
    """The share of a worker's memory that Dask fills before it spills or pauses.

    Counted is at most Dask's own default, since workers may have another configuration than the client.
    """
    memory: Mapping[str, Any] = dask.config.get("distributed.worker.memory")
    return min(_SHARE, *(memory[name] for name in ("target", "spill", "pause") if memory.get(name)), 1.0)


def _drop(fit: str) -> None:
    kept_blocks.drop(fit)
