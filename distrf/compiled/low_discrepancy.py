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


@jit
def radical_inverses(
    bases: np.ndarray,
    factors: np.ndarray,
    shifts: np.ndarray,
    tails: np.ndarray,
    start: int,
    count: int,
    out: np.ndarray,
) -> None:
    """Write scrambled radical inverses of start, start + 1, ..., strictly inside (0, 1).

    Parameters
    ----------
    bases : array of shape (d,), int64, primes: one for each coordinate
    factors, shifts : arrays of shape (places, d), int64: digit a at place k becomes factors[k] * a + shifts[k]
        modulo the base
    tails : array of shape (d,), uniform in (0, 1): stands in for all digits beyond those that tell the points apart
    start : number of the first point
    count : number of points of the whole set: it says how many digits tell them apart
    out : array of shape (n, d), float64, overwritten
    """
    for j in range(bases.size):
        base = bases[j]
        for i in range(out.shape[0]):
            rest, reach, unit, value, place = start + i, 1, 1.0, 0.0, 0
            while reach < count:
                digit = rest % base
                rest //= base
                unit /= base
                value += unit * ((factors[place, j] * digit + shifts[place, j]) % base)
                reach *= base
                place += 1
            value += unit * tails[j]
            out[i, j] = min(max(value, 2.0**-54), 1.0 - 2.0**-53)
