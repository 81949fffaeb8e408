"""Maps: a file for each family, with its frozen map of one block of rows and, beside it, its estimator.

Frozen maps are NumPy in and NumPy out and stand on `base`; estimators know Dask through `estimator`.
"""

from ..lazy import exports
from .base import FAMILIES, MAPS, FeatureMap, check_rows, map_from_spec, working_dtype

__getattr__, _names = exports(
    __name__, {f".{file}": " ".join(of) for file, *of in FAMILIES.values()} | {".estimator": "FeatureEstimator"}
)
__all__ = [*_names, "MAPS", "FeatureMap", "check_rows", "map_from_spec", "working_dtype"]
