"""Frozen maps of one block of rows: a file for each, and a line for each in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import SpecMismatchError
from ..lazy import Registry, exports
from .base import FeatureMap, check_rows, verify_checksum, verify_fingerprint, working_dtype

_CLASSES = {
    "fourier": "FourierMap",
    "laplace": "LaplaceMap",
    "learned": "LearnedFourierMap",
    "binning": "BinningMap",
    "scaling": "ScalingMap",
    "blockwise": "BlockwiseMap",
    "nystroem": "NystroemMap",
    "subspace": "SubspaceMap",
    "table": "TableMap",
    "tensor_sketch": "TensorSketchMap",
    "with_columns": "WithColumnsMap",
}
#: By their `kind`.
MAPS: Registry[type[FeatureMap]] = Registry(
    {file.replace("_", "-"): f"{__name__}.{file}:{name}" for file, name in _CLASSES.items()}
)
__getattr__, _names = exports(__name__, {f".{file}": name for file, name in _CLASSES.items()})


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


__all__ = [*_names, "MAPS", "FeatureMap", "check_rows", "map_from_spec", "working_dtype"]
