"""Quasi-random weights (Yang et al. 2014): a low-discrepancy point set through the quantile function of the law.

Row i of W is the quantile function at point i of [0, 1)^d, coordinate by coordinate. The points are randomised
so that each is uniform on the cube: the estimate is unbiased for every law with independent coordinates. They
stay evenly spread, so that the error is below that of independent points. The "offset" phase takes coordinate d
of the same points. The radii of a scale mixture (Matern) are independent of the points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.stats import qmc

from ..errors import InputError
from ..randomness import quantile, raw_words
from .base import cut_at_multiples, weight_cache
from .dense import DenseProjection

#: Bits of a coordinate x of a Sobol point: (x + 1/2) / 2^52 is exact in float64 and lies inside (0, 1).
_BITS = 52
#: Lower bits of the numbers of points, of which a table has all values.
_LOWER = 6
#: Coordinates that SciPy's Sobol tables have; one is kept for the offset phase.
SOBOL_COORDINATES = qmc.Sobol.MAXDIM


@dataclass(frozen=True)
class SobolProjection(DenseProjection):
    """Sobol points (a digital net) with random linear scrambling and a random digital shift.

    The direction numbers are SciPy's (Joe & Kuo 2008). The generating matrix of each coordinate is multiplied
    by a random lower-triangular matrix of bits with unit diagonal (Matousek 1998), which keeps every property
    of equal spread. A random word is then added to each point bit by bit. Points are taken in Gray-code order.

    Raises
    ------
    InputError : there are more columns than SciPy's tables have coordinates
    """

    name: ClassVar[str] = "quasi"

    def __post_init__(self) -> None:
        if self.n_features_in >= SOBOL_COORDINATES:
            raise InputError(
                f"projection='quasi' has Sobol points with {SOBOL_COORDINATES} coordinates, one of them for the "
                f"offset, got {self.n_features_in} features; use projection='dense'"
            )

    @property
    def _columns(self) -> int:
        """Number of columns of the generating matrices: they tell 2^columns points apart."""
        return max(1, (self.n_frequencies - 1).bit_length())

    def _generators(self) -> np.ndarray:
        """Scrambled generating matrices, shape (columns, d + 1), uint64: each column as 52 bits."""
        plain = direction_numbers(self.n_features_in + 1, self._columns)
        scrambled = np.zeros_like(plain)
        for bit in range(self._columns):  # bit counts from the most significant one
            unit = np.uint64(1) << np.uint64(_BITS - 1 - bit)
            words = raw_words(self.seed, "sobol matrix", bit, plain.shape[1])
            matrix_column = (words & (unit - np.uint64(1))) | unit
            scrambled ^= np.where(plain & unit, matrix_column, np.uint64(0))
        return scrambled

    def _points(self, start: int, stop: int, first: int, last: int) -> np.ndarray:
        """Coordinates first:last of points start:stop, inside (0, 1), shape (stop - start, last - first)."""
        generators = weight_cache.get((self, "generators"), self._generators)
        shifts = raw_words(self.seed, "sobol shift", 0, last - first, first) >> np.uint64(64 - _BITS)
        return digital_net(generators[:, first:last], shifts, start, stop)

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        stop = self.n_frequencies if stop is None else stop
        rows = quantile(self.kernel.law, self._points(start, stop, 0, self.n_features_in))
        radii = self.kernel.radii(self.seed, 0, stop - start, start)
        return rows if radii is None else rows * radii[:, None]

    def offsets(self, start: int, stop: int) -> np.ndarray:
        d = self.n_features_in
        return self._points(start, stop, d, d + 1)[:, 0]


def digital_net(generators: np.ndarray, shifts: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Points start:stop of a digital net in Gray-code order, as (x + 1/2) / 2^52.

    Parameters
    ----------
    generators : array of shape (columns, d), uint64: the generating matrix of each coordinate, each of its columns as 52 bits
    shifts : array of shape (d,), uint64: the 52-bit digital shift of each coordinate
    start, stop : numbers of the first point, and of the one after the last, at most 2^columns

    Returns
    -------
    Array of shape (stop - start, d), float64.
    """
    # The Gray code of i is i ^ (i >> 1): bit c of i adds the columns c and c - 1.
    steps = generators.copy()
    steps[1:] ^= generators[:-1]
    lower = shifts[None]
    for step in steps[:_LOWER]:
        lower = np.concatenate([lower, lower ^ step])
    out = np.empty((stop - start, len(shifts)))
    for a, b in cut_at_multiples(start, stop, len(lower)):  # whose higher bits are the same
        upper = np.bitwise_xor.reduce(steps[_LOWER:][(a >> np.arange(_LOWER, len(steps))) & 1 > 0], axis=0)
        place = a % len(lower)
        out[a - start : b - start] = lower[place : place + b - a] ^ upper
    out += 0.5
    out *= 2.0**-52
    return out


def direction_numbers(coordinates: int, columns: int) -> np.ndarray:
    """The first columns of the Sobol generating matrices.

    They are read from SciPy's unscrambled points, which are exact in float64: in Gray-code order, point 2^(c+1)
    - 1 is column c.

    Parameters
    ----------
    coordinates : number of coordinates
    columns : number of columns

    Returns
    -------
    Array of shape (columns, coordinates), uint64, words of 52 bits.
    """

    def make() -> np.ndarray:
        sobol = qmc.Sobol(coordinates, scramble=False, bits=32)  # SciPy 1.17 cannot fast-forward 64 bits
        out = np.empty((columns, coordinates), dtype=np.uint64)
        for c in range(columns):
            sobol.fast_forward(2 ** (c + 1) - 1 - sobol.num_generated)
            out[c] = np.ldexp(sobol.random(1)[0], _BITS)
        return out

    return weight_cache.get(("direction numbers", coordinates, columns), make)
