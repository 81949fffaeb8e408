"""The linear parts of the maps: a file for each, and a line for each in the registry."""

from __future__ import annotations

from functools import lru_cache

from ..errors import InputError
from ..kernels.shift_invariant import WeightLaw
from .base import Projection
from .circulant import AlternatingCirculantLogProjection, AlternatingCirculantProjection, CirculantProjection
from .dense import DenseProjection, FewColumnsProjection
from .hadamard import FastfoodProjection, StructuredOrthogonalProjection
from .orthogonal import OrthogonalProjection
from .quasi import SOBOL_COORDINATES, SobolProjection

#: Cost of one output of a Walsh-Hadamard transform, in multiply-adds of a matrix product (GEMM) that take the same time.
_TRANSFORM = 28
Few = tuple[int, tuple[float, ...] | None]
PROJECTIONS: dict[str, type[Projection]] = {
    p.name: p
    for p in (
        DenseProjection,
        CirculantProjection,
        AlternatingCirculantProjection,
        AlternatingCirculantLogProjection,
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


def auto_projection(kernel: WeightLaw, n_features_in: int, n_frequencies: int) -> str:
    """The projection for d columns and m frequencies, by measured cost and variance.

    1. "structured_orthogonal" where the kernel is isotropic, its transforms cost less than the d m multiply-adds of explicit
       weights, and its bias is small beside the noise. So from about 54 columns on, where m is large.
    2. Else "quasi" where m > d, up to the 21,200 columns for which there are Sobol points. With fewer points than columns many
       pairs of columns have weights of like signs: at d = 64, m = 32 the kernel's variance is up to 1.2 times that of dense weights,
       and ridge on the digits has .907 right for .920 (mean of 30 seeds, standard error .003); at m = 128 .977 for .975.
    3. Else "dense".

    The variance of 1 and 2 is that of dense weights or less: over differences x - y that are random, smooth and constant, of
    kernel values .5 and .1, 0.1 to 1.2 times as much (400 seeds, d = 8, 64, 256). No other projection passes: Fastfood has up to
    2.5 times the variance, and "alternating_circulant" 3 times for the Cauchy kernel, and for the heavy-tailed weights of the
    Laplacian kernel 66 times at d = 256, because one giant weight stands in every row of its block. Quasi-random weights are made
    in 0.6 to 1.5 times the time of dense ones, and multiplied in the same time.

    The costs are those of whole maps in float32 on one Zen 4 core (`python -m benchmarks speed --parts narrow`): structured
    orthogonal weights were faster than explicit ones from d = 27 on at D = 8,192, from 60 on at D = 512. The choice does not depend
    on the dtype, because one spec means one map. The bias of SORF, k s^2 / (4 p) for rows padded to p columns and
    s = |v|^2 / l^2, is at s = 2 six tenths of the standard error of dense weights where m = p^2.

    Parameters
    ----------
    kernel : WeightLaw
    n_features_in : d
    n_frequencies : m

    Returns
    -------
    str, key in `PROJECTIONS`.
    """
    d, m = n_features_in, n_frequencies
    p = 1 << (d - 1).bit_length()
    if kernel.isotropic and d * m >= _TRANSFORM * (1 + 2 * -(-m // p)) * p and m <= p * p:
        return "structured_orthogonal"
    return "quasi" if d < min(m, SOBOL_COORDINATES) else "dense"


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
    InputError : the projection cannot serve the kernel, or the order
    """
    if PROJECTIONS[name].isotropic and not kernel.isotropic:
        others = [name for name, k in kernel.registry.items() if k.isotropic]
        raise InputError(
            f"projection={name!r} needs an isotropic kernel ({', '.join(others)}), got kernel={kernel.name!r}; "
            "use projection='dense'"
        )
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
