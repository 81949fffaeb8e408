"""Walsh-Hadamard transforms and products with circulant matrices: distrf's loops beside other ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.fft
import scipy.linalg

from benchmarks.benchmark import Record, Run
from benchmarks.clocks import in_turn
from distrf.compiled import jit, walsh_hadamard
from distrf.compiled.circular_products import circulant_spectra, circular_products, row_spectra
from distrf.compiled.spectra import mix_spectra

#: name in the records: what the column is called
WAYS = {"vectors": "distrf", "rows": "loop over a row", "gemm": "two products"}
DTYPES = ("float32", "float64")


@jit
def by_rows(X: np.ndarray) -> None:
    for i in range(X.shape[0]):
        h = 1
        while h < X.shape[1]:
            for o in range(0, X.shape[1], 2 * h):
                a, b = X[i, o : o + h], X[i, o + h : o + 2 * h]
                for j in range(h):
                    u, v = a[j], b[j]
                    a[j], b[j] = u + v, u - v
            h *= 2


def speeds(jobs: dict[str, Callable[[], Any]], numbers: int, calls: int, rounds: int) -> Record:
    """Billions of numbers a second, the best of so many turns of so many calls."""
    many = {name: (lambda job=job: [job() for _ in range(calls)]) for name, job in jobs.items()}
    return {name: calls * numbers / min(taken) / 1e9 for name, taken in in_turn(many, rounds).items()}


def hadamard(run: Run) -> Iterator[Record]:
    r"""Walsh-Hadamard transforms: billions of numbers a second, of 64 rows of $p$ numbers; the best of several turns. *Two products*
    multiplies by small Hadamard matrices, $H_p = H_a \otimes H_b$.
    """
    for dtype in DTYPES:
        for p in run.pick((256, 512, 1024, 2048, 4096, 8192, 16384), (256,)):
            X = np.zeros((64, p), dtype)
            a = 1 << (p.bit_length() - 1) // 2
            Ha, Hb = (scipy.linalg.hadamard(size).astype(dtype) for size in (a, p // a))
            half, whole = np.empty((64 * a, p // a), X.dtype), np.empty((64, a, p // a), X.dtype)

            def gemm(
                X: np.ndarray = X, a: int = a, H: Any = (Ha, Hb), half: Any = half, whole: Any = whole
            ) -> None:
                np.matmul(X.reshape(half.shape), H[1], out=half)
                np.matmul(H[0], half.reshape(whole.shape), out=whole)

            jobs = {"vectors": lambda X=X: walsh_hadamard(X), "rows": lambda X=X: by_rows(X), "gemm": gemm}
            yield {"p": p, "dtype": dtype, **speeds(jobs, X.size, max(1, 2**21 // X.size), run.pick(9, 1))}


def fft(run: Run) -> Iterator[Record]:
    """Products of 32 rows with circulant matrices of order $L$, 8,192 numbers a row, or two blocks: billions of numbers a second, the best
    of several turns. *scipy.fft* is `rfft`, a compiled loop for the product, and `irfft`; *error* is distrf's largest one over the
    largest number.
    """
    for dtype in DTYPES:
        for L in run.pick((256, 512, 800, 1024, 2048, 4096, 8192), (64,)):
            yield {"L": L, "dtype": dtype, **products_of(L, dtype, run.pick(9, 1))}


def products_of(L: int, dtype: str, rounds: int, rows: int = 32) -> Record:
    blocks, rng = max(2, 8192 // L), np.random.default_rng(0)
    X, c = rng.normal(size=(rows, L)).astype(dtype), rng.normal(size=(blocks, 1, L))
    w, ones = circulant_spectra(c).astype(dtype), np.ones((1, L), dtype)
    spectra = np.fft.rfft(c).astype(np.result_type(X, np.complex64))
    mixed = np.empty((rows, blocks, L // 2 + 1), spectra.dtype)
    out = np.empty((rows, blocks, L), X.dtype)

    def with_scipy() -> None:
        mix_spectra(scipy.fft.rfft(X[:, None]), spectra, mixed)
        scipy.fft.irfft(mixed, L, axis=2)

    jobs = {"distrf": lambda: circular_products(row_spectra(X, ones, L), w, out), "scipy": with_scipy}
    found = speeds(jobs, out.size, 16, rounds)
    exact = np.fft.irfft(np.fft.rfft(X.astype(np.float64))[:, None] * np.fft.rfft(c[:, 0]), L, axis=2)
    return {"blocks": blocks, "error": float(np.abs(out - exact).max() / np.abs(exact).max()), **found}
