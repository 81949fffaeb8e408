"""Frozen block maps: one file each, and one line each in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import SpecMismatchError
from .base import FeatureMap, check_rows, working_dtype
from .binning import BinningMap
from .blockwise import BlockwiseMap
from .compact import CompactMap
from .fourier import FourierMap
from .laplace import LaplaceMap
from .learned import LearnedFourierMap
from .maclaurin import MaclaurinMap
from .nystroem import NystroemMap
from .scaling import ScalingMap
from .subspace import SubspaceMap
from .tensor_sketch import TensorSketchMap
from .with_columns import WithColumnsMap

MAPS: dict[str, type[FeatureMap]] = {
    m.kind: m
    for m in (
        FourierMap,
        LaplaceMap,
        LearnedFourierMap,
        BinningMap,
        ScalingMap,
        BlockwiseMap,
        CompactMap,
        MaclaurinMap,
        NystroemMap,
        SubspaceMap,
        TensorSketchMap,
        WithColumnsMap,
    )
}


def map_from_spec(spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> FeatureMap:
    """The map that a spec (and its learned arrays) determines.

    Raises SpecMismatchError for an unknown kind, a missing entry, or weights that differ from the stored
    checksum.
    """
    if spec.get("map") not in MAPS:
        raise SpecMismatchError(
            f"unknown map {spec.get('map')!r} in the spec; known: {', '.join(sorted(MAPS))}"
        )
    try:
        return MAPS[spec["map"]].from_spec(spec, arrays or {})
    except KeyError as error:
        raise SpecMismatchError(f"the spec of the {spec['map']!r} map lacks the entry {error}") from None


__all__ = [
    "MAPS",
    "BinningMap",
    "BlockwiseMap",
    "CompactMap",
    "FeatureMap",
    "FourierMap",
    "LaplaceMap",
    "LearnedFourierMap",
    "MaclaurinMap",
    "NystroemMap",
    "ScalingMap",
    "SubspaceMap",
    "TensorSketchMap",
    "WithColumnsMap",
    "check_rows",
    "map_from_spec",
    "working_dtype",
]
