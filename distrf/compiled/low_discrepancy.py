"""Points of randomised low-discrepancy sets, one row of numbers for each point."""

from __future__ import annotations

import numpy as np

from .jit import jit


@jit
def digital_net(generators: np.ndarray, shifts: np.ndarray, start: int, out: np.ndarray) -> None:
    """Write points start, start + 1, ... of a digital net in Gray-code order, as (x + 1/2) / 2^52.

    Parameters
    ----------
    generators : array of shape (columns, d), uint64: the generating matrix of each coordinate, each of its
        columns as 52 bits
    shifts : array of shape (d,), uint64: the 52-bit digital shift of each coordinate
    start : number of the first point
    out : array of shape (n, d), float64, overwritten
    """
    d = shifts.size
    state = shifts.copy()
    gray = start ^ (start >> 1)
    column = 0
    while gray:
        if gray & 1:
            for j in range(d):
                state[j] ^= generators[column, j]
        gray >>= 1
        column += 1
    for i in range(out.shape[0]):
        for j in range(d):
            out[i, j] = (np.float64(state[j]) + 0.5) * 2.0**-52
        # The Gray codes of i and i + 1 differ in one bit: the place of the lowest zero of i.
        index = start + i
        column = 0
        while index & 1:
            index >>= 1
            column += 1
        if column < generators.shape[0]:
            for j in range(d):
                state[j] ^= generators[column, j]
