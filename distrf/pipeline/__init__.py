"""One public way to a good model: what is chosen from a sample of rows, and the training that follows."""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "make_model": "making",
    "train": "training",
    "BaselineWarning": "training",
    "featurize": "writing",
    "write_rows": "writing",
    "append_rows": "writing",
    "predict": "predicting",
    "evaluate": "evaluating",
    "add_rows": "adding",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    # On first use: the command line needs the names of the models and not what they stand for.
    if name in _EXPORTS:
        return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
