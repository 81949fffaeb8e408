"""Frozen maps of one block of rows: a file for each, and a line for each in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import SpecMismatchError
from .base import FeatureMap, check_rows, verify_checksum, verify_fingerprint, working_dtype
from .binning import BinningMap
from .blockwise import BlockwiseMap
from .fourier import FourierMap
from .laplace import LaplaceMap
from .learned import LearnedFourierMap
from .nystroem import NystroemMap
from .scaling import ScalingMap
from .subspace import SubspaceMap
from .table import TableMap
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
        NystroemMap,
        SubspaceMap,
        TableMap,
        TensorSketchMap,
        WithColumnsMap,
    )
}


def map_from_spec(spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> FeatureMap:
    """The map that a spec and its learned arrays determine.

    Parameters
    ----------
    spec : what `FeatureMap.spec` returned, also after a way through JSON
    arrays : what `FeatureMap.arrays` held; None for a map that learned nothing from data

    Returns
    -------
    FeatureMap

    Raises
    ------
    SpecMismatchError : the kind of map is unknown, an entry is missing, the arrays are not those that the spec was written
        with, or this release makes other weights from it than the one that wrote it
    """
    if spec.get("map") not in MAPS:
        raise SpecMismatchError(
            f"unknown map {spec.get('map')!r} in the spec; known: {', '.join(sorted(MAPS))}; if it is none of distrf, import the "
            "module that registers it before"
        )
    arrays = arrays or {}
    try:
        if arrays or "digest" in spec:  # before anything is made of them
            verify_fingerprint(arrays, spec["digest"])
        map_ = MAPS[spec["map"]].from_spec(spec, arrays)
        if (checksum := map_.checksum()) is not None:
            verify_checksum(checksum, spec["checksum"])
    except KeyError as error:
        raise SpecMismatchError(f"the spec of the {spec['map']!r} map lacks the entry {error}") from None
    return map_


__all__ = [
    "MAPS",
    "BinningMap",
    "BlockwiseMap",
    "FeatureMap",
    "FourierMap",
    "LaplaceMap",
    "LearnedFourierMap",
    "NystroemMap",
    "ScalingMap",
    "SubspaceMap",
    "TableMap",
    "TensorSketchMap",
    "WithColumnsMap",
    "check_rows",
    "map_from_spec",
    "working_dtype",
]
