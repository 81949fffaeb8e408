"""The linear parts of the maps: one file each, and one line each in the registry."""

from __future__ import annotations

from ..errors import InputError
from ..kernels.shift_invariant import Kernel
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
from .quasi import HaltonProjection, SobolProjection

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
        HaltonProjection,
        FastfoodProjection,
        StructuredOrthogonalProjection,
    )
}


def choose_projection(name: str, kernel: Kernel, n_features_in: int, n_frequencies: int) -> str:
    """`name`, or what "auto" stands for here (see `auto_projection`)."""
    return auto_projection(kernel, n_features_in, n_frequencies) if name == "auto" else name


def make_projection(name: str, kernel: Kernel, n_features_in: int, n_frequencies: int, seed: int) -> Projection:
    """The projection of that name, checked against the kernel.

    Raises InputError for an unknown name or a kernel that the projection cannot serve.
    """
    if name not in PROJECTIONS:
        raise InputError(f"unknown projection {name!r}; known: auto, {', '.join(sorted(PROJECTIONS))}")
    PROJECTIONS[name].check(kernel)
    return PROJECTIONS[name](kernel, n_features_in, n_frequencies, seed)


__all__ = ["PROJECTIONS", "Projection", "choose_projection", "make_projection"]
