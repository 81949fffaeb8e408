"""Cosines and sines of phases that are counted in turns (one turn = 2 pi).

A phase is reduced to the nearest turn by subtracting an integer, which is exact.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .jit import jit

#: Coefficients of P, highest power first, in sin(2 pi s) = s P(s^2) for |s| <= 1/4. P interpolates at Chebyshev
#: nodes; its absolute error is 7e-9 for float32 (five coefficients) and 4e-19 for float64 (nine).
_SIN_TURNS: dict[np.dtype, tuple[Any, ...]] = {
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


@partial(jit, inline="always")
def _sin_turns(s: float, coefficients: tuple[float, ...]) -> float:
    """sin(2 pi s) for |s| <= 1/4."""
    t = s * s
    p = coefficients[0]
    for k in range(1, len(coefficients)):
        p = p * t + coefficients[k]
    return p * s


# The loops take a slice of each row before the inner loop over columns: an index that is computed within it
# keeps LLVM from vectorising (0.95 against 12 billion numbers a second).
@jit
def _cos_sin(
    phases: np.ndarray, out: np.ndarray, column: int, scale: float, coefficients: tuple[float, ...]
) -> None:
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
def _cos_offset(
    phases: np.ndarray,
    offsets: np.ndarray,
    out: np.ndarray,
    column: int,
    scale: float,
    coefficients: tuple[float, ...],
) -> None:
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
    phases : C-contiguous array of shape (n, m), in turns, float32 or float64
    out : C-contiguous array of shape (n, at least column + 2 m), written in place: ``out[:, column + 2 k]``
        becomes the cosine of phase k, ``out[:, column + 2 k + 1]`` its sine
    column : first column of `out` to write
    scale : factor
    """
    kind = phases.dtype
    _cos_sin(phases, out, column, kind.type(scale), _SIN_TURNS[kind])


def cos_offset(phases: np.ndarray, offsets: np.ndarray, out: np.ndarray, column: int, scale: float) -> None:
    """Write ``scale * cos(2 pi (phases + offsets))`` into ``out[:, column : column + m]``.

    Parameters
    ----------
    phases : C-contiguous array of shape (n, m), in turns, float32 or float64
    offsets : array of shape (m,), in turns, of the same dtype
    out : C-contiguous array of shape (n, at least column + m), written in place
    column : first column of `out` to write
    scale : factor
    """
    kind = phases.dtype
    _cos_offset(phases, offsets, out, column, kind.type(scale), _SIN_TURNS[kind])
