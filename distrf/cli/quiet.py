"""Dask logs no traceback: the error itself arrives where it is reported."""

from __future__ import annotations

import logging

from distributed import WorkerPlugin

from ..execution.workers import register


class _NoTracebacks(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info or "Traceback" in record.getMessage())


def quieten() -> None:
    """In this process."""
    loggers = [logging.getLogger("asyncio")]  # has no handler of its own
    loggers += [
        logging.getLogger(name)
        for name in logging.root.manager.loggerDict
        if name.split(".")[0] in ("distributed", "tornado")
    ]
    for place in {*loggers, *(h for logger in loggers for h in logger.handlers)}:
        if not any(isinstance(f, _NoTracebacks) for f in place.filters):
            place.addFilter(_NoTracebacks())


class _Quiet(WorkerPlugin):
    name = "distrf-quiet"

    def setup(self, worker: object) -> None:
        quieten()


def quieten_workers(client: object) -> None:
    """In the workers of a cluster of our own, those that come later too."""
    register(client, _Quiet(), _Quiet.name)
