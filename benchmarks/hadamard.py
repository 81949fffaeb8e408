"""Walsh-Hadamard transforms of 64 rows on one core: billions of numbers a second, the best of 9 turns.

`vectors` is distrf's; `tile` a radix-4 loop over a tile stored features x rows (transposes not counted);
`rows` the plain loop over a row; `gemm` two products with small Hadamard matrices, H_p = H_a (x) H_b.
"""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import hadamard
from threadpoolctl import threadpool_limits

from distrf.compiled import jit, walsh_hadamard


@jit
def rows(X):
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
def tile(T):
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


def measure(p: int, dtype: type, n: int = 64) -> dict[str, float]:
    X, T = np.zeros((n, p), dtype), np.zeros((p, n), dtype)
    a = 1 << (p.bit_length() - 1) // 2
    b = p // a
    Ha, Hb = hadamard(a).astype(dtype), hadamard(b).astype(dtype)
    half, whole = np.empty((n * a, b), dtype), np.empty((n, a, b), dtype)

    def gemm():
        np.matmul(X.reshape(n * a, b), Hb, out=half)
        np.matmul(Ha, half.reshape(n, a, b), out=whole)

    jobs = {
        "vectors": lambda: walsh_hadamard(X),
        "tile": lambda: tile(T),
        "rows": lambda: rows(X),
        "gemm": gemm,
    }
    best = dict.fromkeys(jobs, np.inf)
    calls = max(1, 2**21 // X.size)
    for _ in range(9):
        for name, job in jobs.items():
            job()
            start = time.perf_counter()
            for _ in range(calls):
                job()
            best[name] = min(best[name], (time.perf_counter() - start) / calls)
    return {name: X.size / seconds / 1e9 for name, seconds in best.items()}


def main() -> None:
    table = Table("dtype", "p", "vectors", "tile", "rows", "gemm")
    with threadpool_limits(1):
        for dtype in (np.float32, np.float64):
            for p in (256, 512, 1024, 2048, 4096, 8192, 16384):
                speeds = measure(p, dtype)
                table.add_row(dtype.__name__, f"{p:,}", *(f"{speed:.2f}" for speed in speeds.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
