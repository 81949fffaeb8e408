"""Cosines and sines of phases in turns (one turn = 2 pi).

Range reduction is one subtraction of the nearest integer, which is exact.
"""

from __future__ import annotations

import numba
import numpy as np

from .jit import jit

# sin(2 pi s) = s P(s^2) on |s| <= 1/4; P interpolated at Chebyshev nodes, highest power first.
# Absolute error of the polynomial: 7e-9 (five terms), 4e-19 (nine terms).
_SIN_TURNS = {
    np.dtype(np.float32): tuple(
        np.float32(c)
        for c in (
            39.759827085319101139,
            -76.581172644278724467,
            81.60247636892517969,
            -41.341680613346515274,
            6.2831852801544065035,
        )
    ),
    np.dtype(np.float64): (
        0.10089695501646811163,
        -0.71773379214134533133,
        3.8199280942271642021,
        -15.094641676117900093,
        42.05869392542868225,
        -76.705859752824919209,
        81.605249276073615183,
        -41.341702240399756862,
        6.2831853071795864756,
    ),
}


@numba.njit(inline="always")
def _sin_turns(s, coefficients):
    """sin(2 pi s) for |s| <= 1/4."""
    t = s * s
    p = coefficients[0]
    for k in range(1, len(coefficients)):
        p = p * t + coefficients[k]
    return p * s


# Rows are sliced before the inner loop: indexing with a computed column keeps LLVM from vectorising
# (0.95 against 12 G/s).
@jit
def _cos_sin(phases, out, column, scale, coefficients):
    n, m = phases.shape
    quarter = phases.dtype.type(0.25)
    for i in range(n):
        p = phases[i]
        o = out[i, column : column + 2 * m]
        for j in range(m):
            r = p[j] - np.rint(p[j])
            u = quarter - abs(r)
            o[2 * j] = scale * _sin_turns(u, coefficients)
            o[2 * j + 1] = scale * _sin_turns(np.copysign(quarter - abs(u), r), coefficients)


@jit
def _cos_offset(phases, offsets, out, column, scale, coefficients):
    n, m = phases.shape
    quarter = phases.dtype.type(0.25)
    for i in range(n):
        p = phases[i]
        o = out[i, column : column + m]
        for j in range(m):
            r = p[j] + offsets[j]
            r = r - np.rint(r)
            o[j] = scale * _sin_turns(quarter - abs(r), coefficients)


def cos_sin(phases: np.ndarray, out: np.ndarray, column: int, scale: float) -> None:
    """Write scale * cos and scale * sin of each phase side by side.

    Parameters
    ----------
    phases : C-contiguous array of shape (n, m), in turns
    out : C-contiguous array of shape (n, >= column + 2 m), written in place:
        ``out[:, column + 2 k]`` is the cosine and ``out[:, column + 2 k + 1]`` the sine of phase k
    """
    kind = phases.dtype
    _cos_sin(phases, out, column, kind.type(scale), _SIN_TURNS[kind])


def cos_offset(phases: np.ndarray, offsets: np.ndarray, out: np.ndarray, column: int, scale: float) -> None:
    """Write ``scale * cos(2 pi (phases + offsets))`` into ``out[:, column : column + m]``.

    Parameters
    ----------
    phases : C-contiguous array of shape (n, m), in turns
    offsets : array of shape (m,), in turns, of the same dtype
    out : C-contiguous array of shape (n, >= column + m), written in place
    """
    kind = phases.dtype
    _cos_offset(phases, offsets, out, column, kind.type(scale), _SIN_TURNS[kind])
