"""Circulant projections with nonnegative weights of any size, with an absolute error of 1e-11 (for Laplace features).

An FFT rounds every result by eps times the *norms* of what goes in. So one Levy weight of 1e9, or one large
entry of a row, spoils every output, but exp(-W x) needs each small output to its last digits. There are three
remedies, and all are exact:

* The 16 largest weights of a block of a heavy-tailed law stay out of the FFT; each is added as a shift of the
  row. (To clip them would change features by 0.2, because small entries need large weights.)
* A row with few entries is a sum of shifts of the weights. That is faster than an FFT as well.
* Where the rounding of what is left could exceed 1e-11, the largest entries of the row stay out of the FFT too,
  until it cannot. Then row and weights lie within the range of the FFT, or nothing is left to transform.

The bound on the rounding of one output is, for weights c and a row x without what was taken out, and L outputs,

    8 eps log2(2 L) (|c|_2 |x|_2 / sqrt(L) + |c|_1 |x|_1 / L).

Its first term is the rounding of a spectrum, spread evenly over the outputs; its second is that of the largest
term of the spectrum, the mean. Measured errors stay below a quarter of the bound (tests/maps/test_laplace.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from ..compiled.circular_shifts import TOGETHER, add_entry_shifts, add_weight_shifts, spread_columns
from ..compiled.spectra import mix_spectra
from .cache import weight_cache
from .circulant import CirculantProjection

#: How many of the largest weights of a block stay out of the FFT where their law is heavy-tailed.
_LARGEST = 16
#: The absolute error of W x that the FFT may make. As exp(-W x) <= 1, no feature moves by more.
_ALLOWED = 1e-11
#: Numbers of one tile of rows after `_spread`, which makes m L of each row.
_TILE_NUMBERS = 2**17


class NonnegativeProduct:
    """The product x -> scale * W x in float64, for the W of a circulant projection and tiles of nonnegative rows.

    It keeps its work arrays from tile to tile, so that one thread at a time may use it. (New arrays for every
    tile cost a fifth of the time, in page faults.)

    Parameters
    ----------
    projector : CirculantProjection whose weights are nonnegative
    scale : factor on W

    Attributes
    ----------
    rows_per_tile : int, how many rows to hand to `phases` at once
    """

    def __init__(self, projector: CirculantProjection, scale: float) -> None:
        self.projector, self.scale = projector, scale
        self.rows_per_tile = max(8, min(32, _TILE_NUMBERS // (projector.order * projector.n_mixed)))
        self._work: dict[str, np.ndarray] = {}
        self._weights = _WeightBlock(projector, 0, 0, 0, 0, scale)

    def phases(self, X: np.ndarray, start: int, stop: int) -> Iterator[tuple[int, np.ndarray]]:
        """The products scale * X @ W[start:stop].T, a column block at a time.

        Parameters
        ----------
        X : C-contiguous array of shape (n, d), float64, nonnegative
        start, stop : the rows of W wanted

        Yields
        ------
        first : int, the row of W that column 0 of the column block belongs to
        column_block : C-contiguous array of shape (n, width), float64. Rounding may leave values just below 0;
            values too large for float64 are infinite
        """
        projector, L, per = self.projector, self.projector.order, self.projector._blocks_together
        begin, end = start // L, -(-stop // L)
        with np.errstate(all="ignore"):  # rows that overflow count as coarse below, and are computed again
            spread, sums, counts = self._spread(X)
            few = counts <= _exact_up_to(projector, end - begin)
            mixed = few.any()
            many = np.flatnonzero(~few)
            if mixed and many.size:
                spread, sums, _ = self._spread(X[many])
            x = self._transform(spread) if many.size else None
            # Weight blocks begin at multiples of `per` blocks, so that a cached one serves every request for
            # some of its rows.
            for first in range(begin - begin % per, end, per):
                last = min(first + per, -(-projector.n_frequencies // L))
                lo, hi = max(first, begin), min(last, end)
                weights = self._use(first, last, lo - first, hi - first)
                out = self._array("out", (len(X), hi - lo, L))
                if x is not None:
                    convolved = self._array("convolved", (many.size, hi - lo, L)) if mixed else out
                    self._convolve(weights, x, spread, convolved)
                    coarse = ~(weights.rounding.sum() * sums <= _ALLOWED)  # |x|_2 <= |x|_1; NaN is coarse
                    if coarse.any():
                        for i in np.flatnonzero(coarse):
                            convolved[i] = self._carefully(weights, X[many[i]])
                    if mixed:
                        out[many] = convolved
                if mixed:
                    out[few] = 0.0
                    self._add_entries(weights, X[few], np.flatnonzero(few), out)
                a, b = max(start, lo * L), min(stop, hi * L)
                yield a, np.ascontiguousarray(out.reshape(len(X), -1)[:, a - lo * L : b - lo * L])

    def _use(self, first: int, last: int, lo: int, hi: int) -> _WeightBlock:
        """The weights of these blocks; the object of the last call is reused if it has the same ones."""
        if self._weights.bounds != (first, last, lo, hi):
            self._weights = _WeightBlock(self.projector, first, last, lo, hi, self.scale)
        return self._weights

    def _array(self, name: str, shape: tuple[int, ...], dtype: type = np.float64) -> np.ndarray:
        """The first rows of the work array of that name; it is made of zeros where it is missing or too small."""
        array = self._work.get(name)
        if array is None or array.shape[1:] != shape[1:] or len(array) < shape[0]:
            array = self._work[name] = np.zeros(shape, dtype)
        return array[: shape[0]]

    def _spread(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sort the entries of each row by the mixed matrix that multiplies them.

        Returns
        -------
        spread : array of shape (n, m, L), one zero-padded copy of the row for each matrix
        sums : array of shape (n,), the sum of each row
        counts : array of shape (n,), int64, the number of entries of each row that are not 0
        """
        spread = self._array("spread", (len(X), self.projector.n_mixed, self.projector.order))
        return spread, *spread_columns(
            X, self._chosen, spread
        )  # every tile writes the same places, so the others stay zeros

    def _transform(self, spread: np.ndarray) -> np.ndarray:
        """The spectra of what `_spread` returned, shape (n, m, L // 2 + 1)."""
        n, m, L = spread.shape
        spectra = self._array("spectra", (n, m, L // 2 + 1), np.complex128)
        return np.fft.rfft(spread, axis=2, out=spectra)

    def _convolve(self, weights: _WeightBlock, x: np.ndarray, spread: np.ndarray, out: np.ndarray) -> None:
        """Write the products for rows with spectra x into `out`, shape (n, t, L), for t blocks."""
        n, t, L = out.shape
        product = self._array("product", (n, t, L // 2 + 1), np.complex128)
        mix_spectra(x, weights.spectra, product)
        np.fft.irfft(product, L, axis=2, out=out)
        values, matrices, places = weights.largest
        if values.size:
            add_weight_shifts(spread, values, matrices, places, out)

    def _carefully(self, weights: _WeightBlock, row: np.ndarray) -> np.ndarray:
        """The products for one row, shape (t, L); its largest entries stay out of the FFT, so that the bound holds."""
        L = self.projector.order
        order = np.argsort(row)
        ascending = row[order]
        sizes = np.stack([np.sqrt(np.cumsum(ascending**2)), np.cumsum(ascending)])
        inside = order[weights.rounding @ sizes <= _ALLOWED]
        rest, taken = np.zeros((1, row.size)), row[None].copy()
        rest[0, inside], taken[0, inside] = row[inside], 0.0
        alone = NonnegativeProduct(
            self.projector, self.scale
        )  # the work arrays of this object are in use for the tile
        spread, _, _ = alone._spread(rest)
        out = np.empty((1, weights.n_blocks, L))
        alone._convolve(weights, alone._transform(spread), spread, out)
        self._add_entries(weights, taken, np.zeros(1, np.int64), out)
        return out[0]

    def _add_entries(self, weights: _WeightBlock, X: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
        """Add the products for the entries of X, entry by entry, to out[rows]."""
        row, column = np.nonzero(X)
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(X)))])
        add_entry_shifts(starts, column, X[row, column], rows, self._chosen, weights.vectors, out)

    @cached_property
    def _chosen(self) -> np.ndarray:
        """The index of the mixed matrix that multiplies each column of X, shape (d,)."""
        projector = self.projector
        return weight_cache.get(
            (projector, "chosen"), lambda: np.argmax(projector.column_factors() != 0, axis=0)
        )


class _WeightBlock:
    """The weights of blocks first + lo ... first + hi - 1 of a projection, times a scale.

    They are made and cached for all blocks first ... last - 1, so that a cached weight block serves requests
    for some of it.
    """

    def __init__(
        self, projector: CirculantProjection, first: int, last: int, lo: int, hi: int, scale: float
    ) -> None:
        self.projector, self.first, self.last, self.scale = projector, first, last, scale
        self.bounds = first, last, lo, hi
        self.requested = slice(lo, hi)
        self.n_blocks = hi - lo

    def _cached(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """The requested blocks of the array that `make` makes for all of them, from the cache."""
        return weight_cache.get((self.projector, f"nonnegative {name}", self.first, self.scale), make)[
            self.requested
        ]

    @cached_property
    def vectors(self) -> np.ndarray:
        """All weights as first columns of circulant matrices, shape (t, m, L)."""
        return self._cached("vectors", self._make_vectors)

    @cached_property
    def spectra(self) -> np.ndarray:
        """FFTs of the weights without the largest, shape (t, m, L // 2 + 1)."""
        return self._cached("spectra", lambda: np.fft.rfft(self._make_rest(), axis=2))

    @cached_property
    def largest(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, mixed matrices and places of the largest weights, shape (t, r) each, with ascending places."""
        values = self._cached("largest", self._make_largest)
        places = self._cached("largest places", lambda: self._make_largest()[:, 1:].astype(np.int64))
        return values[:, 0], places[:, 0], places[:, 1]

    @cached_property
    def rounding(self) -> np.ndarray:
        """The two factors of the bound on the rounding of an output, on |x|_2 and |x|_1, for the worst block: (2,)."""
        return self._cached("rounding", self._make_rounding).max(axis=0)

    def _make_vectors(self) -> np.ndarray:
        blocks = range(self.first, self.last)
        return np.stack([self.projector.vectors(block) for block in blocks]) * self.scale

    def _make_largest(self) -> np.ndarray:
        """Values, matrices and places of the largest weights of each block, shape (t, 3, r), after 0s that pad."""
        vectors = self._make_vectors()
        t, m, L = vectors.shape
        r = min(_LARGEST, m * L) if self.projector.kernel.heavy_tailed else 0
        flat = vectors.reshape(t, m * L)
        at = np.argsort(flat, axis=1, kind="stable")[:, m * L - r :]
        at = np.take_along_axis(at, np.argsort(at % L, axis=1, kind="stable"), axis=1)
        out = np.zeros((t, 3, -(-r // TOGETHER) * TOGETHER))
        first = out.shape[2] - r  # the padding stands at place 0, so that places ascend
        out[:, 0, first:] = np.take_along_axis(flat, at, axis=1)
        out[:, 1, first:], out[:, 2, first:] = np.divmod(at, L)
        return out

    def _make_rest(self) -> np.ndarray:
        """All weights with zeros in place of the largest, shape (t, m, L)."""
        vectors = self._make_vectors()
        for c, (values, matrices, places) in zip(vectors, self._make_largest(), strict=True):
            taken = values > 0
            c[matrices[taken].astype(np.int64), places[taken].astype(np.int64)] = 0.0
        return vectors

    def _make_rounding(self) -> np.ndarray:
        """The two factors of the bound at the head of this file for each block, shape (t, 2)."""
        rest = self._make_rest()
        L = rest.shape[2]
        norms = np.sqrt((rest**2).sum(axis=(1, 2)) / L), rest.sum(axis=2).max(axis=1) / L
        return 8 * np.finfo(float).eps * np.log2(2 * L) * np.stack(norms, axis=1)


def _exact_up_to(projector: CirculantProjection, blocks: int) -> int:
    """The number of entries of a row up to which shifts cost less than FFTs, for `blocks` blocks of weights.

    A number through an FFT costs 2 ns, the shifts and products beside it 2.5 ns, and an entry 0.3 ns.
    """
    return int((2.0 * projector.n_mixed / blocks + 4.5) / 0.3)
