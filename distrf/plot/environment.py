"""Where a job ran: versions and machine."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = (
    "distrf", "numpy", "scipy", "scikit-learn", "numba", "dask", "distributed", "zarr", "pyarrow", "matplotlib"
)  # fmt: skip


def environment() -> dict[str, str]:
    """{what: version or value} of this process: Python, the packages that matter for numbers, the machine."""
    found = {"Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | {
        "system": platform.platform(terse=True),
        "processor": f"{platform.machine()}, {os.cpu_count()} logical cores",
    }
