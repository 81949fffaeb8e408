"""What gradients with respect to phases need: cosines apart from sines."""

from __future__ import annotations

import numpy as np

from .cosine import _SIN_TURNS, _sin_turns
from .jit import jit


@jit
def _cos_sin_planes(
    phases: np.ndarray,
    offsets: np.ndarray,
    out: np.ndarray,
    scale: float,
    coefficients: tuple[float, ...],
) -> None:
    n, m = phases.shape
    quarter = phases.dtype.type(0.25)
    for i in range(n):
        p = phases[i]
        c, s = out[i, :m], out[i, m : 2 * m]
        for j in range(m):
            r = p[j] + offsets[j]
            r = r - np.rint(r)
            u = quarter - abs(r)
            c[j] = scale * _sin_turns(u, coefficients)
            s[j] = scale * _sin_turns(np.copysign(quarter - abs(u), r), coefficients)


def cos_sin_planes(phases: np.ndarray, offsets: np.ndarray, out: np.ndarray, scale: float) -> None:
    """Write scale * cos of each phase into ``out[:, :m]`` and scale * sin into ``out[:, m : 2 m]``.

    Parameters
    ----------
    phases : C-contiguous array of shape (n, m), in turns, float32 or float64
    offsets : array of shape (m,), in turns, added to the phases; of the same dtype
    out : C-contiguous array of shape (n, 2 m), overwritten
    scale : factor
    """
    kind = phases.dtype
    _cos_sin_planes(phases, offsets, out, kind.type(scale), _SIN_TURNS[kind])
