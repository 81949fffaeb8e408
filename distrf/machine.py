"""What the machine gives to this process."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path, PurePosixPath

import psutil

_OWN, _GROUPS = Path("/proc/self/cgroup"), "/sys/fs/cgroup"


def machine_memory() -> int:
    """The most bytes that this process and those beside it may take.

    The memory of the machine, or the limit of the container, batch job or service in which it runs: that of its control
    group (cgroup), or of one above it. Beyond that the kernel kills. Dask looks at the uppermost group alone, which is that
    of a container, but not of a batch job or a service.

    Returns
    -------
    int
    """
    limits = [psutil.virtual_memory().total]
    for line in _OWN.read_text().splitlines() if _OWN.exists() else ():
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top, file = (
            ("memory", "memory.limit_in_bytes") if controllers else ("", "memory.max")
        )  # versions 1 and 2
        path = PurePosixPath(group)
        for folder in (
            path,
            *path.parents,
        ):  # in a container the path may be that outside of it: then only "/" is there
            with suppress(OSError, ValueError):  # "max" is no limit
                limits.append(int(Path(_GROUPS, top, str(folder).strip("/"), file).read_text()))
    return min(limits)
