"""Features scale * exp(-p) of p >= 0, in one loop over the numbers.

exp(-p) = 2^k exp(r) with k = rint(-p / ln 2) and |r| <= ln(2) / 2. The Taylor polynomial of degree 13 gives
exp(r) with a remainder below 5e-18; half a unit in the last place is 1.1e-16. From p = 708 on, where 2^k would
be subnormal, the result is 0.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .jit import jit

_LOG2E = 1.4426950408889634
#: ln 2 as the sum of two numbers. The first ends in 32 zero bits, so that its product with k is exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
#: A double plus this number holds the nearest integer k in its last bits.
_MAGIC = 1.5 * 2.0**52
#: Coefficients of the Taylor polynomial, lowest power first.
_TAYLOR = tuple(1.0 / math.factorial(j) for j in range(14))
#: From here on exp(-p) is taken for 0.
_LARGEST = 708.0


@intrinsic
def _power_of_two(typingctx: Any, shifted: Any) -> Any:
    """2^k from k + _MAGIC: the last bits of that sum, plus 1023, moved up to where a double has its exponent."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(64))
        bits = builder.shl(
            builder.add(bits, ir.Constant(ir.IntType(64), 1023)), ir.Constant(ir.IntType(64), 52)
        )
        return builder.bitcast(bits, ir.DoubleType())

    return types.float64(types.float64), codegen


@numba.njit(inline="always")
def _exp_minus(p: float) -> float:
    """exp(-p) for p >= 0."""
    x = -min(p, _LARGEST)
    shifted = x * _LOG2E + _MAGIC
    k = shifted - _MAGIC
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    y = _TAYLOR[13]
    for j in range(12, -1, -1):
        y = y * r + _TAYLOR[j]
    return y * _power_of_two(shifted) if p < _LARGEST else 0.0  # type: ignore[call-arg]


@jit
def _exp_negative(P: np.ndarray, out: np.ndarray, column: int, amplitude: float) -> None:
    n, m = P.shape
    for i in range(n):
        p = P[i]
        o = out[i, column : column + m]
        for j in range(m):
            o[j] = amplitude * _exp_minus(max(p[j], 0.0))


def exp_negative(P: np.ndarray, out: np.ndarray, column: int, amplitude: float) -> None:
    """Write ``amplitude * exp(-max(P, 0))`` into ``out[:, column : column + m]``, cast last.

    Parameters
    ----------
    P : C-contiguous array of shape (n, m), float64, no NaN; infinity gives 0
    out : C-contiguous array of shape (n, at least column + m), float32 or float64, written in place
    column : first column of `out` to write
    amplitude : factor
    """
    _exp_negative(P, out, column, amplitude)
