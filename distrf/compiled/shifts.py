"""Parts of circular convolutions by explicit shifts: for the terms that an FFT would round too coarsely."""

from __future__ import annotations

import numpy as np

from .jit import jit

#: Shifts added in one sweep over the outputs; each keeps one stream of loads.
_TOGETHER = 8


@jit
def _shift_inputs(doubled, values, parts, places, out):
    n, t, L = out.shape
    for i in range(n):
        for b in range(t):
            o = out[i, b]
            for s in range(0, values.shape[1], 8):
                # Slices, so that the loop over k sees eight plain streams and no index arithmetic.
                v, q, k0 = values[b], parts[b], places[b]
                x0 = doubled[i, q[s], L - k0[s] :]
                x1 = doubled[i, q[s + 1], L - k0[s + 1] :]
                x2 = doubled[i, q[s + 2], L - k0[s + 2] :]
                x3 = doubled[i, q[s + 3], L - k0[s + 3] :]
                x4 = doubled[i, q[s + 4], L - k0[s + 4] :]
                x5 = doubled[i, q[s + 5], L - k0[s + 5] :]
                x6 = doubled[i, q[s + 6], L - k0[s + 6] :]
                x7 = doubled[i, q[s + 7], L - k0[s + 7] :]
                v0, v1, v2, v3 = v[s], v[s + 1], v[s + 2], v[s + 3]
                v4, v5, v6, v7 = v[s + 4], v[s + 5], v[s + 6], v[s + 7]
                for k in range(L):
                    a = v0 * x0[k] + v1 * x1[k] + v2 * x2[k] + v3 * x3[k]
                    o[k] += a + (v4 * x4[k] + v5 * x5[k] + v6 * x6[k] + v7 * x7[k])
