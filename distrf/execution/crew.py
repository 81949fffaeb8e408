"""Which worker gets the next segment: any that has a free thread, unless the others would be done sooner without it.

Workers are looked up again while a pass runs, so those that join get their share, and those that leave get no more. A slow
worker gets as many segments as it can do in the time.
"""

from __future__ import annotations

import math
import time
from typing import Any

from .memory import Workers, able_workers
from .progress import saw_workers
from .worker_checks import in_plain_words

#: Seconds between two looks at the workers.
_LOOK_EVERY = 0.5
#: Seconds from the end of a segment to the start of the next that is then sent to the same worker. Where segments take less
#: than fifty times that, workers get a few segments ahead.
_LATENCY, _LONG = 0.02, 50


class Crew:
    """The workers of a pass, and what each of them has done.

    Parameters
    ----------
    client : distributed.Client
    peak : int, default=0
        Bytes that the pass needs on a worker. One whose memory limit is below that gets no segment.
    """

    def __init__(self, client: Any, peak: int = 0):
        self._client, self._peak = client, peak
        self._known: set[str] = set()
        self._small: set[str] = set()
        self._threads: dict[str, int] = {}
        self._looked = -math.inf
        #: segment -> (worker, when it began, its share of a thread)
        self._running: dict[Any, tuple[str, float, float]] = {}
        #: worker -> (finished segments, their seconds)
        self._done: dict[str, tuple[int, float]] = {}

    @property
    def running(self) -> int:
        """Segments that were given to workers, and are not finished."""
        return len(self._running)

    @property
    def able(self) -> list[str] | None:
        """The workers that may add two states: where some are too small for the pass, the others; else None, any.

        Dask would give a small worker sums as well. One that holds more than its limit pauses, and they would wait for ever.
        """
        return list(self._threads) if self._small and self._threads else None

    def choose(self, left: int) -> str | None:
        """The worker that should run the next segment.

        Parameters
        ----------
        left : int
            Segments that no worker has got, this one included.

        Returns
        -------
        str or None
            An address. Empty: any worker, since there is none yet. None: no worker should get it now.
        """
        self.look()
        if not self._threads:
            return None if self._running or self._small else ""
        busy = dict.fromkeys(self._threads, 0)
        for worker, _, _ in self._running.values():
            if worker in busy:
                busy[worker] += 1
        free = [
            worker
            for worker, threads in self._threads.items()
            if busy[worker] < threads + self._ahead(worker) and self._pays(worker, left)
        ]
        return min(free, key=lambda worker: busy[worker] / self._threads[worker], default=None)

    def begin(self, segment: Any, worker: str) -> None:
        """A segment was sent to a worker."""
        threads = self._threads.get(worker, 1)
        self._running[segment] = (worker, time.monotonic(), threads / (threads + self._ahead(worker)))

    def finish(self, segment: Any) -> None:
        """A segment is finished."""
        worker, began, share = self._running.pop(segment)
        count, seconds = self._done.get(worker, (0, 0.0))
        self._done[worker] = (count + 1, seconds + share * (time.monotonic() - began))

    def look(self) -> None:
        """Look up the workers, at most twice a second."""
        now = time.monotonic()
        if now - self._looked > _LOOK_EVERY:
            self._looked = now
            with in_plain_words(self._client):
                threads = self._client.nthreads()
            saw_workers(self._client, threads)
            if self._peak and threads.keys() - self._known:
                each = Workers.of_client(self._client).each
                self._known = set(each)
                self._small = self._known - able_workers(each, self._peak).keys()
            self._threads = {name: n for name, n in sorted(threads.items()) if name not in self._small}

    def _ahead(self, worker: str) -> int:
        """Segments that wait at a worker while its threads are busy, so that none idles between two."""
        seconds = self._seconds(worker)
        if seconds is None or seconds > _LONG * _LATENCY:
            return 0
        return min(math.ceil(self._threads.get(worker, 1) * _LATENCY / max(seconds, 1e-9)), 8)

    def _seconds(self, worker: str) -> float | None:
        """Mean seconds of a segment on a worker; None where it has finished none."""
        count, seconds = self._done.get(worker, (0, 0.0))
        return seconds / count if count else None

    def _pays(self, worker: str, left: int) -> bool:
        """Whether the pass ends no later if this worker takes one of the segments that are left."""
        own = self._seconds(worker)
        if own is None:
            return True
        known = {w: s for w in self._threads if w != worker and (s := self._seconds(w)) is not None}
        if not known:
            return True
        threads = sum(self._threads[w] for w in known)
        rate = sum(self._threads[w] / seconds for w, seconds in known.items())
        return own <= (left + 1) / rate + threads / rate
