"""Circulant projections with nonnegative weights of any size, to 1e-11 absolute (Laplace features).

An FFT rounds its result by eps times the *norms* of what goes in, so one Levy weight of 1e9, or one large
entry of a row, spoils every output; exp(-W x) needs each small output exactly. Three remedies, all exact:

* the 16 largest weights of a block of a heavy-tailed law are left out of the FFT and added as shifts of
  the row (clipping them would change features by 0.2: small entries need large weights);
* rows with few entries are sums of shifts of the weights, which is faster than an FFT as well;
* where the rounding of the rest could exceed 1e-11, the largest entries of the row leave the FFT too,
  until it cannot. Then x and W both lie within the range of the FFT, or nothing is left to transform.

The rounding bound for one output, c and x with the shifts taken out, L outputs:

    8 eps log2(2 L) (|c|_2 |x|_2 / sqrt(L) + |c|_1 |x|_1 / L),

the rounding of a spectrum spread evenly over the outputs plus that of its largest term, the mean. Measured
errors stay below a quarter of it (tests/maps/test_laplace.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from ..compiled.circular_shifts import TOGETHER, add_entry_shifts, add_weight_shifts, spread_columns
from ..compiled.spectra import mix_spectra
from .cache import weight_cache
from .circulant import CirculantProjection

#: Weights of a block that leave the FFT where their law is heavy-tailed.
_LARGEST = 16
#: Absolute error of W x allowed to the FFT: exp(-W x) <= 1, so no feature moves by more.
_ALLOWED = 1e-11
#: Numbers of the parts of one tile of rows, m L each.
_TILE_NUMBERS = 2**17


class NonnegativeProduct:
    """x -> scale * W x in float64 for the W of a circulant projector and tiles of nonnegative rows.

    Holds its work arrays, so one thread at a time. (Fresh arrays for every tile cost a fifth of the time, in
    page faults.)
    """

    def __init__(self, projector: CirculantProjection, scale: float):
        self.projector, self.scale = projector, scale
        self.rows_per_tile = max(8, min(32, _TILE_NUMBERS // (projector.order * projector.n_mixed)))
        self._work: dict[str, np.ndarray] = {}
        self._column_block = _ColumnBlock(projector, 0, 0, 0, 0, scale)

    def phases(self, X: np.ndarray, start: int, stop: int) -> Iterator[tuple[int, np.ndarray]]:
        """Products scale * X @ W[start:stop].T, a panel at a time; see `Projection.phases`.

        X : C-contiguous float64 array of shape (n, d). Rounding may leave values just below zero; values too
        large for float64 are infinite.
        """
        projector, L, per = self.projector, self.projector.order, self.projector._blocks_per_panel
        begin, end = start // L, -(-stop // L)
        with np.errstate(all="ignore"):  # rows that overflow are done again below
            parts, sums, counts = self._spread(X)
            few = counts <= _exact_up_to(projector, end - begin)
            mixed = few.any()
            many = np.flatnonzero(~few)
            if mixed and many.size:
                parts, sums, _ = self._spread(X[many])
            x = self._transform(parts) if many.size else None
            # Column blocks lie on a fixed grid, so that one cached column block serves every request that covers it.
            for first in range(begin - begin % per, end, per):
                last = min(first + per, -(-projector.n_frequencies // L))
                lo, hi = max(first, begin), min(last, end)
                column_block = self._use(first, last, lo - first, hi - first)
                out = self._array("out", (len(X), hi - lo, L))
                if x is not None:
                    convolved = self._array("convolved", (many.size, hi - lo, L)) if mixed else out
                    self._convolve(column_block, x, parts, convolved)
                    coarse = ~(column_block.rounding.sum() * sums <= _ALLOWED)  # |x|_2 <= |x|_1; NaN is coarse
                    if coarse.any():
                        for i in np.flatnonzero(coarse):
                            convolved[i] = self._carefully(column_block, X[many[i]])
                    if mixed:
                        out[many] = convolved
                if mixed:
                    out[few] = 0.0
                    self._add_entries(column_block, X[few], np.flatnonzero(few), out)
                a, b = max(start, lo * L), min(stop, hi * L)
                yield a, np.ascontiguousarray(out.reshape(len(X), -1)[:, a - lo * L : b - lo * L])

    def _use(self, first: int, last: int, lo: int, hi: int) -> _ColumnBlock:
        """The panel; the same object as before where it is the same, with what it has looked up."""
        if self._column_block.bounds != (first, last, lo, hi):
            self._column_block = _ColumnBlock(self.projector, first, last, lo, hi, self.scale)
        return self._column_block

    def _array(self, name: str, shape: tuple[int, ...], dtype: type = np.float64) -> np.ndarray:
        """The first rows of the work array of that name, made (of zeros) where it is missing or too small."""
        array = self._work.get(name)
        if array is None or array.shape[1:] != shape[1:] or len(array) < shape[0]:
            array = self._work[name] = np.zeros(shape, dtype)
        return array[: shape[0]]

    def _spread(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The parts of each row, shape (n, m, L); sums and counts of its entries."""
        parts = self._array("parts", (len(X), self.projector.n_mixed, self.projector.order))
        return parts, *spread_columns(X, self._chosen, parts)  # every tile writes the same places

    def _transform(self, parts: np.ndarray) -> np.ndarray:
        """Spectra of the parts, shape (n, m, L // 2 + 1)."""
        n, m, L = parts.shape
        spectra = self._array("spectra", (n, m, L // 2 + 1), np.complex128)
        return np.fft.rfft(parts, axis=2, out=spectra)

    def _convolve(self, column_block: _ColumnBlock, x: np.ndarray, parts: np.ndarray, out: np.ndarray) -> None:
        """Write the outputs of transformed rows into `out`, shape (n, t, L)."""
        n, t, L = out.shape
        product = self._array("product", (n, t, L // 2 + 1), np.complex128)
        mix_spectra(x, column_block.spectra, product)
        np.fft.irfft(product, L, axis=2, out=out)
        values, drawn_from, places = column_block.largest
        if values.size:
            add_weight_shifts(parts, values, drawn_from, places, out)

    def _carefully(self, column_block: _ColumnBlock, row: np.ndarray) -> np.ndarray:
        """Outputs, shape (t, L), of a row whose largest entries leave the FFT until the rest is within bounds."""
        L = self.projector.order
        order = np.argsort(row)
        ascending = row[order]
        sizes = np.stack([np.sqrt(np.cumsum(ascending**2)), np.cumsum(ascending)])
        inside = order[column_block.rounding @ sizes <= _ALLOWED]
        rest, taken = np.zeros((1, row.size)), row[None].copy()
        rest[0, inside], taken[0, inside] = row[inside], 0.0
        alone = NonnegativeProduct(self.projector, self.scale)  # the tile's work arrays are in use
        parts, _, _ = alone._spread(rest)
        out = np.empty((1, column_block.n_blocks, L))
        alone._convolve(column_block, alone._transform(parts), parts, out)
        self._add_entries(column_block, taken, np.zeros(1, np.int64), out)
        return out[0]

    def _add_entries(
        self, column_block: _ColumnBlock, X: np.ndarray, rows: np.ndarray, out: np.ndarray
    ) -> None:
        """Add the outputs of the entries of X, entry by entry, to out[rows]."""
        row, column = np.nonzero(X)
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(X)))])
        add_entry_shifts(starts, column, X[row, column], rows, self._chosen, column_block.vectors, out)

    @cached_property
    def _chosen(self) -> np.ndarray:
        """The mixed matrix that each column belongs to, shape (d,)."""
        projector = self.projector
        return weight_cache.get(
            (projector, "chosen"), lambda: np.argmax(projector.column_factors() != 0, axis=0)
        )


class _ColumnBlock:
    """Blocks first + lo ... first + hi of a projector; weights are made and cached for first ... last."""

    def __init__(self, projector: CirculantProjection, first: int, last: int, lo: int, hi: int, scale: float):
        self.projector, self.first, self.last, self.scale = projector, first, last, scale
        self.bounds = first, last, lo, hi
        self.part = slice(lo, hi)
        self.n_blocks = hi - lo

    def _cached(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        return weight_cache.get((self.projector, f"nonnegative {name}", self.first, self.scale), make)[
            self.part
        ]

    @cached_property
    def vectors(self) -> np.ndarray:
        """All weights, shape (t, m, L)."""
        return self._cached("vectors", self._make_vectors)

    @cached_property
    def spectra(self) -> np.ndarray:
        """FFTs of the weights but the largest, shape (t, m, L // 2 + 1)."""
        return self._cached("spectra", lambda: np.fft.rfft(self._make_rest(), axis=2))

    @cached_property
    def largest(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, parts and places of the largest weights, shape (t, r) each, in order of place."""
        values = self._cached("largest", self._make_largest)
        places = self._cached("largest places", lambda: self._make_largest()[:, 1:].astype(np.int64))
        return values[:, 0], places[:, 0], places[:, 1]

    @cached_property
    def rounding(self) -> np.ndarray:
        """What the worst block rounds an output by per unit of |x|_2 and of |x|_1, shape (2,)."""
        return self._cached("rounding", self._make_rounding).max(axis=0)

    def _make_vectors(self) -> np.ndarray:
        blocks = range(self.first, self.last)
        return np.stack([self.projector.vectors(block) for block in blocks]) * self.scale

    def _make_largest(self) -> np.ndarray:
        vectors = self._make_vectors()
        t, m, L = vectors.shape
        r = min(_LARGEST, m * L) if self.projector.kernel.heavy_tailed else 0
        flat = vectors.reshape(t, m * L)
        at = np.argsort(flat, axis=1, kind="stable")[:, m * L - r :]
        at = np.take_along_axis(at, np.argsort(at % L, axis=1, kind="stable"), axis=1)
        out = np.zeros((t, 3, -(-r // TOGETHER) * TOGETHER))
        first = out.shape[2] - r  # padded in front with values of 0 at place 0: places ascend
        out[:, 0, first:] = np.take_along_axis(flat, at, axis=1)
        out[:, 1, first:], out[:, 2, first:] = np.divmod(at, L)
        return out

    def _make_rest(self) -> np.ndarray:
        vectors = self._make_vectors()
        for c, (values, parts, places) in zip(vectors, self._make_largest(), strict=True):
            taken = values > 0
            c[parts[taken].astype(np.int64), places[taken].astype(np.int64)] = 0.0
        return vectors

    def _make_rounding(self) -> np.ndarray:
        rest = self._make_rest()
        L = rest.shape[2]
        norms = np.sqrt((rest**2).sum(axis=(1, 2)) / L), rest.sum(axis=2).max(axis=1) / L
        return 8 * np.finfo(float).eps * np.log2(2 * L) * np.stack(norms, axis=1)


def _exact_up_to(projector: CirculantProjection, blocks: int) -> int:
    """Entries of a row up to which shifts cost less than FFTs: 2 ns for a number through an FFT, and 2.5 for
    the shifts and products beside it, against 0.3 for an entry."""
    return int((2.0 * projector.n_mixed / blocks + 4.5) / 0.3)
