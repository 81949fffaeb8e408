"""What workers of a Dask cluster do when they start: `--preload distrf.preload`.

`distrf.connect` asks it of the clusters that it starts and that take its configuration; the specs of `cluster/` ask it of
all others. A worker that was started without it is made ready by the first job, but then it is too late for what stands in
this file beside `dask_setup`.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import dask

#: Defaults of Dask that change; what a user has set stays. What tasks keep is small beside their scratch, which comes and
#: goes: it need not go to disk as early as at 0.6 and 0.7.
DEFAULTS: dict[str, Any] = {"distributed": {"worker": {"memory": {"target": 0.7, "spill": 0.8}}}}


def keep_machine_code() -> None:
    """Name a folder for compiled loops where neither this package nor the home can be written.

    Without one every process compiles them anew. The folder must be the user's own: machine code is run.
    """
    places = (os.path.dirname(__file__), os.path.expanduser("~"))
    if any(os.access(place, os.W_OK) for place in places) or not hasattr(os, "getuid"):
        return
    folder = os.path.join(tempfile.gettempdir(), f"distrf-numba-{os.getuid()}")
    os.makedirs(folder, 0o700, exist_ok=True)
    if os.lstat(folder).st_uid == os.getuid():
        os.environ.setdefault("NUMBA_CACHE_DIR", folder)


keep_machine_code()
dask.config.update_defaults(DEFAULTS)


async def dask_setup(server: Any) -> None:
    """Called by Dask in each process that was told to load this module.

    Parameters
    ----------
    server : distributed.Worker
        A scheduler needs nothing.
    """
    from distributed import Worker

    if isinstance(server, Worker):
        from .execution.workers import PreparedWorker

        await server.plugin_add(PreparedWorker(), PreparedWorker.name)
