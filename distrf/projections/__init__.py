"""The linear parts of the maps: a file for each, and a line for each in the registry."""

from __future__ import annotations

from functools import lru_cache

from ..errors import InputError, did_you_mean
from ..kernels.shift_invariant import WeightLaw
from .auto import auto_projection
from .base import Projection
from .circulant import (
    AlternatingCirculantLogPaperProjection,
    AlternatingCirculantLogProjection,
    AlternatingCirculantPaperProjection,
    AlternatingCirculantProjection,
    CirculantPaperProjection,
    CirculantProjection,
)
from .dense import DenseProjection
from .few_columns import FewColumnsProjection
from .hadamard import FastfoodProjection, StructuredOrthogonalProjection
from .orthogonal import OrthogonalProjection
from .quasi import SobolProjection

Few = tuple[int, tuple[float, ...] | None]
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


def choose_projection(
    name: str, kernel: WeightLaw, n_features_in: int, n_frequencies: int, order: int | None = None
) -> str:
    """Resolve the name "auto" to that of a projection.

    Parameters
    ----------
    name : str, key in `PROJECTIONS`, or "auto"
    kernel : WeightLaw
    n_features_in : d, the number of columns of the rows
    n_frequencies : m, the number of rows of W
    order : q, the columns that each row looks at; None is all

    Returns
    -------
    `name` itself; for "auto", what `auto_projection` chooses.

    Raises
    ------
    InputError : the projection is not for so few columns
    """
    if name != "auto":
        if n_features_in < (least := PROJECTIONS[name].least_features):
            raise InputError(
                f"projection={name!r} is for {least} columns or more, X has {n_features_in}: with fewer, its kernel is wrong "
                "for rows far apart along a column; take 'orthogonal' or 'dense', which are as fast at this width, or 'auto'"
            )
        return name
    if order is not None:
        return "quasi" if order < n_frequencies else "dense"
    return auto_projection(kernel, n_features_in, n_frequencies)


@lru_cache(maxsize=128)
def make_projection(
    name: str, kernel: WeightLaw, n_features_in: int, n_frequencies: int, seed: int, few: Few | None = None
) -> Projection:
    """Make the projection of that name, or return an equal one that was made before.

    Parameters
    ----------
    name : str, key in `PROJECTIONS`
    kernel : WeightLaw, whose weights the projection draws
    n_features_in : d, the number of columns of the rows
    n_frequencies : m, the number of rows of W
    seed : seed of all draws
    few : q, the columns that each row of W looks at, and the weights in proportion to which they are drawn, or None for all
        alike; None in place of both looks at all columns

    Returns
    -------
    Projection

    Raises
    ------
    InputError : the name is unknown, or the projection cannot serve the kernel, or the order
    """
    if name not in PROJECTIONS:
        raise InputError(
            f"unknown projection {name!r}{did_you_mean(name, PROJECTIONS)}; known: auto, {', '.join(sorted(PROJECTIONS))}"
        )
    PROJECTIONS[name].check(kernel)
    if few is not None:
        order, weights = few
        able = n_features_in if weights is None else sum(weight > 0 for weight in weights)
        if name not in ("dense", "quasi") or not 1 <= order <= able:  # whose entries are independent
            raise InputError(
                f"order={order} has frequencies of as many columns, of projection 'dense' or 'quasi', and at most as many as "
                f"there are with a positive weight; got projection={name!r} and {able} such columns"
            )
        base = make_projection(name, kernel, order, n_frequencies, seed)
        return FewColumnsProjection(kernel, n_features_in, n_frequencies, seed, base, weights)
    return PROJECTIONS[name](kernel, n_features_in, n_frequencies, seed)


__all__ = ["PROJECTIONS", "Projection", "choose_projection", "make_projection"]
