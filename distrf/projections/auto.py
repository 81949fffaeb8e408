"""projection="auto": the fastest projection of low variance that the kernel allows."""

from __future__ import annotations

from ..kernels.shift_invariant import Kernel

#: One number out of a Walsh-Hadamard transform, and out of a circulant block, in multiply-adds of a GEMM.
_TRANSFORM, _FFT = 28, 70


def auto_projection(kernel: Kernel, n_features_in: int, n_frequencies: int) -> str:
    """The projection for d input features and m frequencies, by measured cost and derived error.

    Dense weights cost d m multiply-adds a row, structured ones a multiple of m that hardly depends on d.
    From where the latter is less, isotropic kernels take "structured_orthogonal" (variance below that of dense
    weights) while its bias is small beside the noise, else "fastfood" (no bias); kernels with
    independent coordinates take "alternating_circulant".

    The costs are those of `benchmarks/featurize.py` on one Zen 5 core, float32, whole maps. Measured crossover d:

    ======================  ==============  =============
    .                       D = 8,192       D = 512
    ======================  ==============  =============
    structured_orthogonal   54 (34)         64 (43)
    fastfood                44 (27)         60 (37)
    alternating_circulant   60 (49)         164 (96)
    ======================  ==============  =============

    (float64 in brackets, where a GEMM costs twice as much: the choice may not depend on the dtype, since one
    spec means one map.) The bias of SORF, k s^2 / (4 p) for rows padded to p, equals the
    standard error that it saves over Fastfood at s = |v|^2 / l^2 = 2 where m = 4 p^2.
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
