"""Products of rows with circulant matrices: one inverse Fourier transform makes those of two matrices.

The product with circ(c) is the circular convolution c * x = F^-1 (F c o F x). Both c and x are real, so that
two matrices share a transform: c_1 * x is the real part and c_2 * x the imaginary part of F^-1 (F (c_1 + i c_2) o
F x). The parts are stored side by side, not interleaved, and so they are the two rows of the result.

Transforms are in place, and nothing is ever sorted. Forward ones, by decimation in frequency, leave their numbers in an order
in which the digits of the index are reversed; inverse ones, by decimation in time, take them in that order. Four
stages of radix 2 meet within vectors of sixteen numbers, as those of the Walsh-Hadamard transform do: each is a swap
of lanes, a sum and a twiddle. All others are of radix 2, 3, 4 or 5 and pair whole vectors. So lengths L = 16 * 2^a
3^b 5^c are served.

The vectors are written out, because LLVM finds them in no loop. `python -m benchmarks speed --parts wide` compares
projections with these transforms alone. A row is transformed by itself: its bits depend neither on other rows nor on how rows are tiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .jit import jit
from .vectors import LANES, Vectors


def _stage(radix: int, forward: bool) -> Callable[..., None]:
    """A compiled butterfly: `radix` vectors of both parts, at start, start + apart, ..., and their twiddles.

    Twiddles multiply before an inverse butterfly and after a forward one, whose exponents have the same sign. It is called as
    ``stage(re, im, start, apart, cos, sin, twiddle)``: the twiddles of the second vector begin at `twiddle`, those of the next
    `apart` later.
    """

    @intrinsic
    def stage(
        typingctx: Any, re: Any, im: Any, start: Any, apart: Any, cos: Any, sin: Any, twiddle: Any
    ) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            first, gap, where = args[2], args[3], args[6]
            real, imag, c, s = (Vectors(context, builder, signature, args, i) for i in (0, 1, 4, 5))

            def after(origin: Any, q: int) -> Any:
                return builder.add(origin, builder.mul(gap, ir.Constant(gap.type, q)))

            def twiddled(z: list[_Complex]) -> list[_Complex]:
                at = [after(where, q) for q in range(radix - 1)]
                factors = [_Complex(builder, c.load(place), s.load(place)) for place in at]
                return [z[0], *(a * b for a, b in zip(z[1:], factors, strict=True))]

            places = [after(first, q) for q in range(radix)]
            z = [_Complex(builder, real.load(p), imag.load(p)) for p in places]
            z = twiddled(_DFT[radix](z)) if forward else _DFT[radix](twiddled(z))
            for place, value in zip(places, z, strict=True):
                real.store(value.re, place)
                imag.store(value.im, place)
            return context.get_dummy_value()

        return types.void(re, im, start, apart, cos, sin, twiddle), codegen

    compiled: Any = stage
    return compiled


class _Complex:
    """A vector of complex numbers while code is made."""

    def __init__(self, builder: Any, re: Any, im: Any) -> None:
        self.builder, self.re, self.im = builder, re, im

    def _of(self, name: str, a: Any, b: Any) -> Any:
        return getattr(self.builder, name)(a, b, flags=("contract",))

    def _like(self, re: Any, im: Any) -> _Complex:
        return _Complex(self.builder, re, im)

    def __add__(self, other: _Complex) -> _Complex:
        return self._like(self._of("fadd", self.re, other.re), self._of("fadd", self.im, other.im))

    def __sub__(self, other: _Complex) -> _Complex:
        return self._like(self._of("fsub", self.re, other.re), self._of("fsub", self.im, other.im))

    def __mul__(self, other: _Complex) -> _Complex:
        of = self._of
        re = of("fsub", of("fmul", self.re, other.re), of("fmul", self.im, other.im))
        return self._like(re, of("fadd", of("fmul", self.re, other.im), of("fmul", self.im, other.re)))

    def scaled(self, factors: np.ndarray) -> _Complex:
        """Each lane times a real number."""
        constant = ir.Constant(self.re.type, [float(f) for f in factors])
        return self._like(self._of("fmul", self.re, constant), self._of("fmul", self.im, constant))

    def times(self, factor: float) -> _Complex:
        """Times a real number."""
        return self.scaled(np.full(LANES, factor))

    def plus_i(self, other: _Complex) -> _Complex:
        """self + i other."""
        return self._like(self._of("fsub", self.re, other.im), self._of("fadd", self.im, other.re))

    def minus_i(self, other: _Complex) -> _Complex:
        """self - i other."""
        return self._like(self._of("fadd", self.re, other.im), self._of("fsub", self.im, other.re))

    def swapped(self, stride: int) -> _Complex:
        """Lanes j and j ^ stride exchanged."""
        order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [j ^ stride for j in range(LANES)])
        undefined = ir.Constant(self.re.type, ir.Undefined)
        return self._like(*(self.builder.shuffle_vector(part, undefined, order) for part in (self.re, self.im)))

    def by_lane(self, re: np.ndarray, im: np.ndarray) -> _Complex:
        """A constant for each lane."""
        return self._like(*(ir.Constant(self.re.type, [float(v) for v in part]) for part in (re, im)))


def _dft2(z: list[_Complex]) -> list[_Complex]:
    a, b = z
    return [a + b, a - b]


def _dft3(z: list[_Complex]) -> list[_Complex]:
    a, b, c = z
    both, apart = b + c, (b - c).times(np.sin(2 * np.pi / 3))
    middle = a + both.times(-0.5)
    return [a + both, middle.plus_i(apart), middle.minus_i(apart)]


def _dft4(z: list[_Complex]) -> list[_Complex]:
    a, b, c, d = z
    p, q, r, s = a + c, a - c, b + d, b - d
    return [p + r, q.plus_i(s), p - r, q.minus_i(s)]


def _dft5(z: list[_Complex]) -> list[_Complex]:
    a, b, c, d, e = z
    (c1, c2), (s1, s2) = np.cos(2 * np.pi / 5 * np.array([1, 2])), np.sin(2 * np.pi / 5 * np.array([1, 2]))
    p, q, r, s = b + e, c + d, b - e, c - d
    u, v = a + p.times(c1) + q.times(c2), a + p.times(c2) + q.times(c1)
    m, n = r.times(s1) + s.times(s2), r.times(s2) - s.times(s1)
    return [a + p + q, u.plus_i(m), v.plus_i(n), v.minus_i(n), u.minus_i(m)]


_DFT = {2: _dft2, 3: _dft3, 4: _dft4, 5: _dft5}
_stage2, _stage3, _stage4, _stage5 = (_stage(radix, False) for radix in _DFT)
_split2, _split3, _split4, _split5 = (_stage(radix, True) for radix in _DFT)


def _within(forward: bool) -> Callable[..., None]:
    """The compiled stages inside a vector at `start`: transforms of sixteen numbers, in bit-reversed order.

    The forward one takes the conjugate besides.
    """

    @intrinsic
    def within(typingctx: Any, re: Any, im: Any, start: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            real, imag = (Vectors(context, builder, signature, args, i) for i in (0, 1))
            z = _Complex(builder, real.load(args[2]), imag.load(args[2]))
            lanes = np.arange(LANES)
            for stride in (8, 4, 2, 1) if forward else (1, 2, 4, 8):
                high = (lanes & stride) > 0
                angles = np.where(high, np.pi * (lanes % stride) / stride, 0.0)
                twiddle, sign = z.by_lane(np.cos(angles), np.sin(angles)), np.where(high, -1.0, 1.0)
                if stride > 1 and not forward:
                    z = z * twiddle
                z = z.swapped(stride) + z.scaled(sign)
                if stride > 1 and forward:
                    z = z * twiddle
            real.store(z.re, args[2])
            imag.store(builder.fneg(z.im) if forward else z.im, args[2])
            return context.get_dummy_value()

        return types.void(re, im, start), codegen

    compiled: Any = within
    return compiled


_first_stages, _last_stages = _within(False), _within(True)


@jit
def inverse_transform(
    re: np.ndarray, im: np.ndarray, radices: np.ndarray, cos: np.ndarray, sin: np.ndarray
) -> None:
    """Replace a spectrum, in the order of its plan, by its inverse transform without the factor 1 / L."""
    L = re.size
    for k in range(0, L, LANES):
        _first_stages(re, im, k)
    h, twiddle = LANES, 0
    for radix in radices:
        for first in range(0, L, radix * h):
            for j in range(0, h, LANES):
                if radix == 4:
                    _stage4(re, im, first + j, h, cos, sin, twiddle + j)
                elif radix == 2:
                    _stage2(re, im, first + j, h, cos, sin, twiddle + j)
                elif radix == 3:
                    _stage3(re, im, first + j, h, cos, sin, twiddle + j)
                else:
                    _stage5(re, im, first + j, h, cos, sin, twiddle + j)
        twiddle += (radix - 1) * h
        h *= radix


@jit
def forward_transform(
    re: np.ndarray, im: np.ndarray, radices: np.ndarray, cos: np.ndarray, sin: np.ndarray
) -> None:
    """Replace a real row, whose `im` is 0, by its spectrum in the order of its plan."""
    L = re.size
    h, twiddle = L, cos.size
    for radix in radices[::-1]:
        h //= radix
        twiddle -= (radix - 1) * h
        for first in range(0, L, radix * h):
            for j in range(0, h, LANES):
                if radix == 4:
                    _split4(re, im, first + j, h, cos, sin, twiddle + j)
                elif radix == 2:
                    _split2(re, im, first + j, h, cos, sin, twiddle + j)
                elif radix == 3:
                    _split3(re, im, first + j, h, cos, sin, twiddle + j)
                else:
                    _split5(re, im, first + j, h, cos, sin, twiddle + j)
    for k in range(0, L, LANES):
        _last_stages(re, im, k)


@jit
def _transform_rows(rows: np.ndarray, radices: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> None:
    for i in range(rows.shape[1]):
        for which in range(rows.shape[2]):
            forward_transform(rows[0, i, which], rows[1, i, which], radices, cos, sin)


@jit
def _products(
    x: np.ndarray, w: np.ndarray, radices: np.ndarray, cos: np.ndarray, sin: np.ndarray, out: np.ndarray
) -> None:
    L, mixed, pairs = x.shape[3], x.shape[2], w.shape[1]
    for i in range(x.shape[1]):
        for t in range(pairs):
            re, im = out[i, 2 * t], out[i, 2 * t + 1]
            for which in range(mixed):
                xr, xi, wr, wi = x[0, i, which], x[1, i, which], w[0, t, which], w[1, t, which]
                for k in range(L):
                    a, b = xr[k] * wr[k] - xi[k] * wi[k], xr[k] * wi[k] + xi[k] * wr[k]
                    re[k], im[k] = (a + re[k], b + im[k]) if which else (a, b)
            inverse_transform(re, im, radices, cos, sin)


class TransformPlan(NamedTuple):
    """How the transforms of one length go.

    Attributes
    ----------
    order : array of shape (L,), the frequency of each number of a spectrum
    radices : array of int, those of the stages from sixteen numbers on, of an inverse transform
    cos, sin : the twiddles of these stages, one after the other
    """

    order: np.ndarray
    radices: np.ndarray
    cos: np.ndarray
    sin: np.ndarray


@lru_cache(maxsize=64)
def transform_plan(length: int, dtype: str = "<f8") -> TransformPlan:
    """The plan of a length 16 times 2^a 3^b 5^c, with twiddles of a dtype; ValueError for any other length."""
    radices, rest = [], length // LANES
    for radix in (4, 2, 3, 5):
        while rest and rest % radix == 0:
            radices.append(radix)
            rest //= radix
    if length % LANES or rest != 1:
        raise ValueError(f"a transform has 16 * 2^a 3^b 5^c numbers, got {length}")
    order, angles = np.zeros(1, dtype=np.int64), [np.zeros(0)]
    for radix in (2, 2, 2, 2, *radices):
        if order.size >= LANES:
            angles += [2 * np.pi * q * np.arange(order.size) / (radix * order.size) for q in range(1, radix)]
        order = np.concatenate([radix * order + q for q in range(radix)])
    turns = np.concatenate(angles)
    cos, sin = np.cos(turns).astype(dtype), np.sin(turns).astype(dtype)
    return TransformPlan(order, np.array(radices, dtype=np.int64), cos, sin)


def circulant_spectra(vectors: np.ndarray) -> np.ndarray:
    """Spectra of circulant matrices, two in one, as `circular_products` takes them.

    Parameters
    ----------
    vectors : array of shape (t, m, L), float64: first columns of m matrices for each of t blocks

    Returns
    -------
    Array of shape (2, ceil(t / 2), m, L), float64: real and imaginary parts. The last block of an odd number has a block of
    zeros beside it.
    """
    t, m, L = vectors.shape
    plan = transform_plan(L)
    whole = np.zeros((t + t % 2, m, L))
    whole[:t] = vectors
    spectra = np.fft.fft(whole[0::2] + 1j * whole[1::2], axis=2)[..., plan.order] / L
    return np.ascontiguousarray(np.stack([spectra.real, spectra.imag]))


def row_spectra(X: np.ndarray, factors: np.ndarray, length: int) -> np.ndarray:
    """Spectra of rows, padded with zeros, as `circular_products` takes them.

    Parameters
    ----------
    X : array of shape (n, d), float32 or float64, d at most `length`
    factors : array of shape (m, d), on the columns of the rows for each of m matrices
    length : L, for which there is a plan

    Returns
    -------
    Array of shape (2, n, m, L), of the dtype of X: real and imaginary parts.
    """
    out = np.zeros((2, len(X), len(factors), length), X.dtype)
    np.multiply(X[:, None, :], factors, out=out[0, :, :, : X.shape[1]])
    _transform_rows(out, *transform_plan(length, X.dtype.str)[1:])
    return out


def circular_products(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    """Write the products of rows with circulant matrices: ``out[i, t] = sum over l of circ(c_tl) x_il``.

    Parameters
    ----------
    x : array of shape (2, n, m, L), from `row_spectra`: of each row, the spectrum of what each of the m matrices acts on
    w : array of shape (2, pairs, m, L), from `circulant_spectra`; all arrays are of one dtype
    out : C-contiguous array of shape (n, 2 pairs, L), float32 or float64, overwritten
    """
    # The loops take addresses: any other layout would be read wrongly. As always read-only, w has one compiled loop.
    x, w = np.ascontiguousarray(x), np.ascontiguousarray(w).view()
    w.flags.writeable = False
    _products(x, w, *transform_plan(out.shape[2], out.dtype.str)[1:], out)
