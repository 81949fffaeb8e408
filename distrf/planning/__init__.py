"""What a job will cost, composed from what the objects that will run say of themselves."""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {"plan": "job", "plan_job": "job", "planned_target": "classes", "planned_workers": "workers"}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
