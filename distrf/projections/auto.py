"""What projection="auto" chooses: the fastest projection of low variance that serves the kernel."""

from __future__ import annotations

from ..kernels.shift_invariant import Kernel

#: Costs of one output of a Walsh-Hadamard transform and of a circulant block, in multiply-adds of a matrix product (GEMM)
#: that take the same time.
_TRANSFORM, _FFT = 28, 45


def auto_projection(kernel: Kernel, n_features_in: int, n_frequencies: int) -> str:
    """The projection for d columns and m frequencies, by measured cost and derived error.

    Dense weights cost d m multiply-adds for a row of X. Structured ones cost a multiple of m that hardly
    depends on d, so they are chosen where d is large enough. Isotropic kernels then take
    "structured_orthogonal", whose variance is below that of dense weights, as long as its bias is small beside
    the noise, and "fastfood" (no bias) beyond. Kernels with independent coordinates take
    "alternating_circulant".

    The costs are those of whole maps in float32 on one Zen 4 core (`python -m benchmarks speed --parts narrow`).
    The structured projection was faster from these d on (in brackets: in float64, where dense weights cost twice as much):

    ======================  ===============  =============
    .                       D = 8,192        D = 512
    ======================  ===============  =============
    structured_orthogonal   27 (24)          60 (37)
    fastfood                22 (below 16)    60 (32)
    alternating_circulant   22 (below 16)    114 (67)
    ======================  ===============  =============

    One number cannot serve both ends: with `_FFT` = 45 alternating_circulant is chosen from d = 46 and 57 on (offsets), where it
    takes 0.6 and 1.5 times as long as dense weights.

    The choice does not depend on the dtype, because one spec means one map. The bias of SORF, k s^2 / (4 p) for
    rows padded to p columns and s = |v|^2 / l^2, is at s = 2 as large as the standard error that it saves over
    Fastfood where m = 4 p^2.

    Parameters
    ----------
    kernel : Kernel
    n_features_in : d
    n_frequencies : m

    Returns
    -------
    str, key in `PROJECTIONS`.
    """
    d, m = n_features_in, n_frequencies
    if kernel.isotropic:
        p = 1 << (d - 1).bit_length()
        if d * m < _TRANSFORM * (1 + 2 * -(-m // p)) * p:
            return "dense"
        return "structured_orthogonal" if m <= 4 * p * p else "fastfood"
    if m < _FFT * (2 + -(-m // d)):
        return "dense"
    return "alternating_circulant"
