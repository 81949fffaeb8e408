"""Walsh-Hadamard transforms and products with circulant matrices: distrf's loops beside other ways."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.fft
from scipy.linalg import hadamard

from benchmarks.benchmark import Record, Run, markdown, where
from benchmarks.clocks import in_turn
from distrf.compiled import jit, walsh_hadamard
from distrf.compiled.circular_products import circulant_spectra, circular_products, row_spectra
from distrf.compiled.spectra import mix_spectra

#: name in the records: what the column is called
WAYS = {
    "vectors": "distrf",
    "tile": "radix 4, features x rows",
    "rows": "loop over a row",
    "gemm": "two products",
}


@jit
def rows(X: np.ndarray) -> None:
    for i in range(X.shape[0]):
        h = 1
        while h < X.shape[1]:
            for o in range(0, X.shape[1], 2 * h):
                a, b = X[i, o : o + h], X[i, o + h : o + 2 * h]
                for j in range(h):
                    u, v = a[j], b[j]
                    a[j], b[j] = u + v, u - v
            h *= 2


@jit
def tile(T: np.ndarray) -> None:
    p, h = T.shape[0], 1
    while 4 * h <= p:
        for o in range(0, p, 4 * h):
            for j in range(o, o + h):
                a, b, c, d = T[j], T[j + h], T[j + 2 * h], T[j + 3 * h]
                for r in range(T.shape[1]):
                    s, t, u, v = a[r] + b[r], a[r] - b[r], c[r] + d[r], c[r] - d[r]
                    a[r], b[r], c[r], d[r] = s + u, t + v, s - u, t - v
        h *= 4
    if h < p:
        for j in range(h):
            a, b = T[j], T[j + h]
            for r in range(T.shape[1]):
                s, t = a[r], b[r]
                a[r], b[r] = s + t, s - t


def speeds(p: int, dtype: str, repeats: int, n: int = 64) -> Record:
    """Billions of numbers a second, the best of so many turns."""
    X, T = np.zeros((n, p), dtype), np.zeros((p, n), dtype)
    a = 1 << (p.bit_length() - 1) // 2
    b = p // a
    Ha, Hb = hadamard(a).astype(dtype), hadamard(b).astype(dtype)
    half, whole = np.empty((n * a, b), X.dtype), np.empty((n, a, b), X.dtype)
    calls = max(1, 2**21 // X.size)

    def gemm() -> None:
        np.matmul(X.reshape(n * a, b), Hb, out=half)
        np.matmul(Ha, half.reshape(n, a, b), out=whole)

    once = {
        "vectors": lambda: walsh_hadamard(X),
        "tile": lambda: tile(T),
        "rows": lambda: rows(X),
        "gemm": gemm,
    }
    many = {name: (lambda job=job: [job() for _ in range(calls)]) for name, job in once.items()}
    taken = in_turn(many, repeats)
    return {
        "p": p, "dtype": dtype, **{name: calls * X.size / min(t) / 1e9 for name, t in taken.items()},
    }  # fmt: skip


def measure(run: Run) -> Iterator[Record]:
    for dtype in ("float32", "float64"):
        for p in run.pick((256, 512, 1024, 2048, 4096, 8192, 16384), (256,)):
            yield speeds(p, dtype, run.pick(9, 1))


def show(records: list[Record]) -> str:
    text = [
        "Billions of numbers a second, of 64 rows of $p$ numbers; the best of several turns. The transposes that *features x rows* "
        "would need are not counted; *two products* multiplies by small Hadamard matrices, $H_p = H_a \\otimes H_b$."
    ]
    for dtype in dict.fromkeys(r["dtype"] for r in records):
        lines = [[f"{r['p']:,}", *(f"{r[way]:.2f}" for way in WAYS)] for r in where(records, dtype=dtype)]
        text.append(markdown([f"p, {dtype}", *WAYS.values()], lines))
    return "\n\n".join(text)


def products_of(L: int, dtype: str, repeats: int, rows: int = 32) -> Record:
    """Products of rows with circulant matrices, in billions of numbers a second, the best of so many turns."""
    blocks = max(2, 8192 // L)
    rng = np.random.default_rng(0)
    X, c = rng.normal(size=(rows, L)).astype(dtype), rng.normal(size=(blocks, 1, L))
    w, ones = circulant_spectra(c).astype(dtype), np.ones((1, L), dtype)
    spectra = np.fft.rfft(c).astype(np.result_type(X, np.complex64))
    mixed = np.empty((rows, blocks, L // 2 + 1), spectra.dtype)
    out = np.empty((rows, blocks, L), X.dtype)
    calls = 16

    def own() -> None:
        circular_products(row_spectra(X, ones, L), w, out)

    def with_scipy() -> None:
        mix_spectra(scipy.fft.rfft(X[:, None]), spectra, mixed)
        scipy.fft.irfft(mixed, L, axis=2)

    many = {
        name: (lambda job=job: [job() for _ in range(calls)])
        for name, job in {"distrf": own, "scipy": with_scipy}.items()
    }
    taken = in_turn(many, repeats)
    exact = np.fft.irfft(np.fft.rfft(X.astype(np.float64))[:, None] * np.fft.rfft(c[:, 0]), L, axis=2)
    error = float(np.abs(out - exact).max() / np.abs(exact).max())
    speed = {name: calls * out.size / min(t) / 1e9 for name, t in taken.items()}
    return {"L": L, "dtype": dtype, "blocks": blocks, "error": error, **speed}


def measure_fft(run: Run) -> Iterator[Record]:
    for dtype in ("float32", "float64"):
        for L in run.pick((256, 512, 800, 1024, 2048, 4096, 8192), (64,)):
            yield products_of(L, dtype, run.pick(9, 1))


def show_fft(records: list[Record]) -> str:
    head = ["L", "dtype", "distrf", "scipy.fft", "ratio", "error"]
    lines = [
        [
            f"{r['L']:,}",
            r["dtype"],
            *(f"{r[who]:.2f}" for who in ("distrf", "scipy")),
            f"{r['distrf'] / r['scipy']:.1f}",
            f"{r['error']:.0e}",
        ]
        for r in records
    ]
    return (
        "Products of 32 rows with circulant matrices of order $L$, 8,192 numbers a row, or two blocks: billions of numbers a second, "
        "the best of several turns. *scipy.fft* is `rfft`, a compiled loop for the product, and `irfft`; *error* is distrf's largest "
        "one over the largest number.\n\n" + markdown(head, lines)
    )
