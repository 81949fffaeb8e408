"""What projection="auto" chooses: of the projections of low variance the fastest."""

from __future__ import annotations

from ..kernels.shift_invariant import WeightLaw
from .quasi import SOBOL_COORDINATES

#: Cost of one output of a Walsh-Hadamard transform, in multiply-adds of a matrix product (GEMM) that take the same time.
_TRANSFORM = 28


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
