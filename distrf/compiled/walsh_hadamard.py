"""Walsh-Hadamard transforms of rows, in place, in vectors of sixteen numbers.

H_p in Sylvester's order is a product of log2 p stages of butterflies (a, b) -> (a + b, a - b). Butterflies of
stride 16 and more pair whole vectors; three such stages at a time take eight vectors through registers (radix
8). In the four stages of smaller stride, numbers of one vector meet: each is a swap of lanes and an addition.
So a row stays where it is, in the first-level cache, and is neither transposed nor gathered.

The vectors are written out, because LLVM finds them in no loop. On one Zen 5 core, for p = 256 ... 16,384, in
billions of numbers a second, float32 and float64: 4.9 to 10 and 2.5 to 5.5. Loops of radix 4 over a tile that
is stored features by rows reach 2.8 to 6.4 and 1.5 to 3.9, not counting the transposes; products with small
Hadamard matrices 0.2 to 1.0 and 0.1 to 0.5; a plain loop over a row 0.7 and 0.6
(`python -m benchmarks speed --parts hadamard`).

All is additions in a fixed order, so that the bits do not depend on the vectors of the machine or on how rows
are tiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .jit import jit
from .vectors import LANES, Vectors

#: Columns of a matrix whose transforms are sampled together.
_COLUMNS = 64


def _butterflies(radix: int, within: bool) -> Callable[[np.ndarray, int, int], None]:
    """A compiled step that takes `radix` vectors through log2(radix) stages.

    The step is called as ``step(x, start, apart)``: the vectors begin at start, start + apart, ... of x. With
    `within` it also does the four stages inside each vector.
    """

    @intrinsic
    def step(typingctx: Any, x: Any, start: Any, apart: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _, first, gap = args
            numbers = Vectors(context, builder, signature, args, 0)
            vector = numbers.type
            places = [builder.add(first, builder.mul(gap, ir.Constant(gap.type, q))) for q in range(radix)]
            values = [numbers.load(place) for place in places]
            for stride in _powers(radix):
                for q in range(radix):
                    if not q & stride:
                        a, b = values[q], values[q + stride]
                        values[q], values[q + stride] = builder.fadd(a, b), builder.fsub(a, b)
            for stride in _powers(LANES) if within else ():
                lanes = range(LANES)
                swap = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [j ^ stride for j in lanes])
                sign = ir.Constant(vector, [-1.0 if j & stride else 1.0 for j in lanes])
                for q, value in enumerate(values):
                    other = builder.shuffle_vector(value, ir.Constant(vector, ir.Undefined), swap)
                    signed = builder.fmul(value, sign, flags=("contract",))
                    values[q] = builder.fadd(other, signed, flags=("contract",))
            for place, value in zip(places, values, strict=True):
                numbers.store(value, place)
            return context.get_dummy_value()

        return types.void(x, types.intp, types.intp), codegen

    compiled: Any = step
    return compiled


def _powers(stop: int) -> list[int]:
    """The powers of two below `stop`, ascending."""
    return [1 << k for k in range(stop.bit_length() - 1)]


_across2, _across4, _across8 = (_butterflies(radix, within=False) for radix in (2, 4, 8))
_last1, _last2, _last4, _last8 = (_butterflies(radix, within=True) for radix in (1, 2, 4, 8))


@jit
def _row(x: np.ndarray) -> None:
    """Replace x by H x; x.size is a power of two, 16 at least."""
    p = x.size
    if p < LANES:
        raise ValueError("a transform has 16 numbers at least")
    h = p  # the stages of stride h and more are done
    while h >= 8 * 8 * LANES:
        h //= 8
        for o in range(0, p, 8 * h):
            for j in range(o, o + h, LANES):
                _across8(x, j, h)
    if h == 4 * 8 * LANES:
        h //= 4
        for o in range(0, p, 4 * h):
            for j in range(o, o + h, LANES):
                _across4(x, j, h)
    elif h == 2 * 8 * LANES:
        h //= 2
        for o in range(0, p, 2 * h):
            for j in range(o, o + h, LANES):
                _across2(x, j, h)
    if h == 8 * LANES:
        for o in range(0, p, h):
            _last8(x, o, LANES)
    elif h == 4 * LANES:
        _last4(x, 0, LANES)
    elif h == 2 * LANES:
        _last2(x, 0, LANES)
    else:
        _last1(x, 0, LANES)


@jit
def walsh_hadamard(X: np.ndarray) -> None:
    """Replace each row x by H_p x, where H_p is Sylvester's Hadamard matrix: entries +-1, H_p H_p = p I.

    Parameters
    ----------
    X : C-contiguous array of shape (n, p), p a power of two from 16 on, float32 or float64, overwritten
    """
    for i in range(X.shape[0]):
        _row(X[i])


@jit
def hadamard_blocks(U: np.ndarray, diagonals: np.ndarray, scale: np.ndarray | None, out: np.ndarray) -> None:
    """Write S_b H G_bk ... H G_b1 u for each row u and each block b, side by side.

    Parameters
    ----------
    U : C-contiguous array of shape (n, p), p a power of two from 16 on
    diagonals : array of shape (B, k, p), the diagonals of G_b1 ... G_bk; all arrays have the dtype of U
    scale : array of shape (B, p), the diagonals of S_b, or None where they are 1
    out : C-contiguous array of shape (n, B p), overwritten
    """
    n, p = U.shape
    for i in range(n):
        u = U[i]
        for b in range(diagonals.shape[0]):
            x = out[i, b * p : (b + 1) * p]
            g = diagonals[b, 0]
            for j in range(p):
                x[j] = g[j] * u[j]
            _row(x)
            for k in range(1, diagonals.shape[1]):
                g = diagonals[b, k]
                for j in range(p):
                    x[j] *= g[j]
                _row(x)
            if scale is not None:
                s = scale[b]
                for j in range(p):
                    x[j] *= s[j]


def add_hadamard_samples(
    F: np.ndarray, signs: np.ndarray, place: int, samples: np.ndarray, factor: np.ndarray, length: int, out: np.ndarray
) -> None:  # fmt: skip
    """Add ``factor[c] * sum over r of H_R[samples[c], place + r] signs[r] F[r, j]`` to ``out[j, c]``, some columns at a time.

    Parameters
    ----------
    F : array of shape (n, D), float32 or float64; place + n <= R
    signs : array of shape (n,)
    place : the column of H_R that row 0 of F meets
    samples : array of shape (l,), integers in 0 ... R - 1
    factor : array of shape (l,)
    length : R, a power of two
    out : array of shape (D, l), float64, added to in place
    """
    signs = signs.astype(F.dtype)
    for a in range(0, F.shape[1], _COLUMNS):
        columns = F[:, a : a + _COLUMNS].T
        X = np.zeros((len(columns), max(length, LANES)), dtype=F.dtype)  # H_R is a corner of every larger one
        np.multiply(columns, signs, out=X[:, place : place + len(F)])
        walsh_hadamard(X)
        out[a : a + _COLUMNS] += factor * np.take(X, samples, axis=1)
