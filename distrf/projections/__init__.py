"""The linear parts of the maps: a file for each, and a line for each in the registry."""

from __future__ import annotations

from functools import lru_cache

from ..errors import InputError, did_you_mean
from ..kernels.shift_invariant import WeightLaw
from .alternating_circulant import (
    AlternatingCirculantLogPaperProjection,
    AlternatingCirculantLogProjection,
    AlternatingCirculantPaperProjection,
    AlternatingCirculantProjection,
)
from .auto import auto_projection
from .base import Projection
from .circulant import CirculantPaperProjection, CirculantProjection
from .dense import DenseProjection
from .hadamard import FastfoodProjection, StructuredOrthogonalProjection
from .orthogonal import OrthogonalProjection
from .quasi import SobolProjection

PROJECTIONS: dict[str, type[Projection]] = {
    p.name: p
    for p in (
        DenseProjection,
        CirculantProjection,
        CirculantPaperProjection,
        AlternatingCirculantProjection,
        AlternatingCirculantPaperProjection,
        AlternatingCirculantLogProjection,
        AlternatingCirculantLogPaperProjection,
        OrthogonalProjection,
        SobolProjection,
        FastfoodProjection,
        StructuredOrthogonalProjection,
    )
}


def choose_projection(name: str, kernel: WeightLaw, n_features_in: int, n_frequencies: int) -> str:
    """Resolve the name "auto" to that of a projection.

    Parameters
    ----------
    name : str, key in `PROJECTIONS`, or "auto"
    kernel : WeightLaw
    n_features_in : d, the number of columns of the rows
    n_frequencies : m, the number of rows of W

    Returns
    -------
    `name` itself; for "auto", what `auto_projection` chooses.
    """
    return auto_projection(kernel, n_features_in, n_frequencies) if name == "auto" else name


@lru_cache(maxsize=128)
def make_projection(
    name: str, kernel: WeightLaw, n_features_in: int, n_frequencies: int, seed: int
) -> Projection:
    """Make the projection of that name, or return an equal one that was made before.

    Parameters
    ----------
    name : str, key in `PROJECTIONS`
    kernel : WeightLaw, whose weights the projection draws
    n_features_in : d, the number of columns of the rows
    n_frequencies : m, the number of rows of W
    seed : seed of all draws

    Returns
    -------
    Projection

    Raises
    ------
    InputError : the name is unknown, or the projection cannot serve the kernel
    """
    if name not in PROJECTIONS:
        raise InputError(
            f"unknown projection {name!r}{did_you_mean(name, PROJECTIONS)}; known: auto, {', '.join(sorted(PROJECTIONS))}"
        )
    PROJECTIONS[name].check(kernel)
    return PROJECTIONS[name](kernel, n_features_in, n_frequencies, seed)


__all__ = ["PROJECTIONS", "Projection", "choose_projection", "make_projection"]
