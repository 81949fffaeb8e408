"""Uniform numbers from random words, and normal quantiles of uniform numbers."""

from __future__ import annotations

import numba
import numpy as np

from .jit import jit

#: Coefficients of Wichura's AS 241 (PPND16), highest power first: numerator and denominator of his rational
#: functions near the centre, in the tails, and far out in the tails.
_CENTRE = (
    2.5090809287301226727e3,
    3.3430575583588128105e4,
    6.7265770927008700853e4,
    4.5921953931549871457e4,
    1.3731693765509461125e4,
    1.9715909503065514427e3,
    1.3314166789178437745e2,
    3.3871328727963666080e0,
)
_CENTRE_BELOW = (
    5.2264952788528545610e3,
    2.8729085735721942674e4,
    3.9307895800092710610e4,
    2.1213794301586595867e4,
    5.3941960214247511077e3,
    6.8718700749205790830e2,
    4.2313330701600911252e1,
    1.0,
)
_TAIL = (
    7.74545014278341407640e-4,
    2.27238449892691845833e-2,
    2.41780725177450611770e-1,
    1.27045825245236838258e0,
    3.64784832476320460504e0,
    5.76949722146069140550e0,
    4.63033784615654529590e0,
    1.42343711074968357734e0,
)
_TAIL_BELOW = (
    1.05075007164441684324e-9,
    5.47593808499534494600e-4,
    1.51986665636164571966e-2,
    1.48103976427480074590e-1,
    6.89767334985100004550e-1,
    1.67638483018380384940e0,
    2.05319162663775882187e0,
    1.0,
)
_FAR_TAIL = (
    2.01033439929228813265e-7,
    2.71155556874348757815e-5,
    1.24266094738807843860e-3,
    2.65321895265761230930e-2,
    2.96560571828504891230e-1,
    1.78482653991729133580e0,
    5.46378491116411436990e0,
    6.65790464350110377720e0,
)
_FAR_TAIL_BELOW = (
    2.04426310338993978564e-15,
    1.42151175831644588870e-7,
    1.84631831751005468180e-5,
    7.86869131145613259100e-4,
    1.48753612908506148525e-2,
    1.36929880922735805310e-1,
    5.99832206555887937690e-1,
    1.0,
)


@jit
def words_to_uniforms(words: np.ndarray, out: np.ndarray) -> None:
    """Write (k + 1/2) / 2^52 for each word, where k is its top 52 bits: inside (0, 1) and symmetric about 1/2.

    Parameters
    ----------
    words : array of shape (n,), uint64
    out : array of shape (n,), float64, overwritten
    """
    for i in range(words.size):
        out[i] = (np.float64(words[i] >> np.uint64(12)) + 0.5) * 2.0**-52


@numba.njit(inline="always")
def _polynomial(r: float, coefficients: tuple[float, ...]) -> float:
    p = coefficients[0]
    for k in range(1, len(coefficients)):
        p = p * r + coefficients[k]
    return p


@jit
def normal_quantiles(u: np.ndarray, out: np.ndarray) -> None:
    """Write the standard normal quantiles of u, with a relative error of about 1e-16.

    It is algorithm AS 241 (PPND16) of Wichura, Applied Statistics 37 (1988) 477-484. Its central branch is a
    rational function alone and so has the same bits on every machine, which the erfinv of a C library has not.

    Parameters
    ----------
    u : array of shape (n,), float64, inside (0, 1)
    out : array of shape (n,), float64, overwritten
    """
    for i in range(u.size):
        q = u[i] - 0.5
        if abs(q) <= 0.425:
            r = 0.180625 - q * q
            out[i] = q * _polynomial(r, _CENTRE) / _polynomial(r, _CENTRE_BELOW)
            continue
        r = np.sqrt(-np.log(min(u[i], 1.0 - u[i])))
        if r <= 5.0:
            r -= 1.6
            size = _polynomial(r, _TAIL) / _polynomial(r, _TAIL_BELOW)
        else:
            r -= 5.0
            size = _polynomial(r, _FAR_TAIL) / _polynomial(r, _FAR_TAIL_BELOW)
        out[i] = np.copysign(size, q)
