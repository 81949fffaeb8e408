"""What a notebook shows of a map: what determines it, and the bytes that it takes on the wire and in memory."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from ..representation import size

if TYPE_CHECKING:
    from .base import FeatureMap

#: Rows of the block whose memory is shown.
_ROWS = 10_000
_NAMES = {"n_features_in": "columns (d)", "n_components": "features (D)"}


def map_facts(map_: FeatureMap) -> list[tuple[str, Any]]:
    """Names and values: the spec, bytes on the wire, bytes of the weights and of a block of float32 rows."""
    facts = []
    for name in sorted(map_.spec_names(), key=lambda name: name not in _NAMES):
        value: Any = getattr(map_, name, None)
        if value is not None and hasattr(value, "spec_names"):  # another map
            value = _in_a_line(value)
        if value is not None:
            facts.append((_NAMES.get(name, name.replace("_", " ")), str(value) if name == "seed" else value))
    learned = sum(array.nbytes for array in map_.arrays.values())
    facts.append(("on the wire", f"{size(len(pickle.dumps(map_.without_arrays())))} with each task"))
    if learned:
        facts.append(("learned arrays", f"{size(learned)}, once to each worker"))
    facts.append(("cached weights", f"{size(map_.work()[1])} a worker"))
    rows = _ROWS * np.dtype(np.float32).itemsize
    made = size(rows * map_.entries_per_row)
    facts.append((f"block of {_ROWS:,} rows", f"{size(rows * map_.n_features_in)} in, {made} out (float32)"))
    return facts


def _in_a_line(map_: FeatureMap) -> str:
    """A map inside another: its projection or kind, D, and what its weights follow from."""
    parts = [map_.label.removeprefix("featurize "), f"D = {map_.n_components:,}"]
    for name, form in {"kernel": "{}", "length_scale": "{:.4g}", "seed": "{}"}.items():
        value = getattr(map_, name, None)
        if value is not None:
            parts.append(f"{name.replace('_', ' ')} {form.format(value)}")
    return ", ".join(parts)
