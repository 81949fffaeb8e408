"""Raw words to uniform numbers, uniform numbers to normal quantiles."""

from __future__ import annotations

import numpy as np

from .jit import jit


@jit
def words_to_uniforms(words, out):
    """Map 64-bit words to (k + 1/2) / 2^52, strictly inside (0, 1) and symmetric about 1/2."""
    for i in range(words.size):
        out[i] = (np.float64(words[i] >> np.uint64(12)) + 0.5) * 2.0**-52


@jit
def normal_quantiles(u, out):
    """Standard normal quantiles by Wichura's AS 241 (PPND16), relative error about 1e-16.

    Wichura, Applied Statistics 37 (1988) 477-484. Written out because its central branch is a
    rational function, hence the same bits on every machine, which libm's erfinv is not.
    """
    for i in range(u.size):
        p = u[i]
        q = p - 0.5
        if abs(q) <= 0.425:
            r = 0.180625 - q * q
            a = 2.5090809287301226727e3
            a = a * r + 3.3430575583588128105e4
            a = a * r + 6.7265770927008700853e4
            a = a * r + 4.5921953931549871457e4
            a = a * r + 1.3731693765509461125e4
            a = a * r + 1.9715909503065514427e3
            a = a * r + 1.3314166789178437745e2
            a = a * r + 3.3871328727963666080e0
            b = 5.2264952788528545610e3
            b = b * r + 2.8729085735721942674e4
            b = b * r + 3.9307895800092710610e4
            b = b * r + 2.1213794301586595867e4
            b = b * r + 5.3941960214247511077e3
            b = b * r + 6.8718700749205790830e2
            b = b * r + 4.2313330701600911252e1
            b = b * r + 1.0
            out[i] = q * a / b
            continue
        tail = min(p, 1.0 - p)
        r = np.sqrt(-np.log(tail))
        if r <= 5.0:
            r -= 1.6
            a = 7.74545014278341407640e-4
            a = a * r + 2.27238449892691845833e-2
            a = a * r + 2.41780725177450611770e-1
            a = a * r + 1.27045825245236838258e0
            a = a * r + 3.64784832476320460504e0
            a = a * r + 5.76949722146069140550e0
            a = a * r + 4.63033784615654529590e0
            a = a * r + 1.42343711074968357734e0
            b = 1.05075007164441684324e-9
            b = b * r + 5.47593808499534494600e-4
            b = b * r + 1.51986665636164571966e-2
            b = b * r + 1.48103976427480074590e-1
            b = b * r + 6.89767334985100004550e-1
            b = b * r + 1.67638483018380384940e0
            b = b * r + 2.05319162663775882187e0
            b = b * r + 1.0
        else:
            r -= 5.0
            a = 2.01033439929228813265e-7
            a = a * r + 2.71155556874348757815e-5
            a = a * r + 1.24266094738807843860e-3
            a = a * r + 2.65321895265761230930e-2
            a = a * r + 2.96560571828504891230e-1
            a = a * r + 1.78482653991729133580e0
            a = a * r + 5.46378491116411436990e0
            a = a * r + 6.65790464350110377720e0
            b = 2.04426310338993978564e-15
            b = b * r + 1.42151175831644588870e-7
            b = b * r + 1.84631831751005468180e-5
            b = b * r + 7.86869131145613259100e-4
            b = b * r + 1.48753612908506148525e-2
            b = b * r + 1.36929880922735805310e-1
            b = b * r + 5.99832206555887937690e-1
            b = b * r + 1.0
        out[i] = np.copysign(a / b, q)
