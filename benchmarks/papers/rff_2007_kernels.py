"""Error of the kernel against D: Claim 1 of Rahimi & Recht (2007), and the exact variances."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import brentq

from benchmarks.benchmark import Record, Run, markdown, spread, where
from benchmarks.papers.rff_2007_claims import LABELS
from benchmarks.papers.rff_2007_train import COLUMNS, KERNELS, features
from distrf.kernels import get_shift_invariant_kernel
from distrf.kernels.exact import kernel_block
from distrf.plot.axes import set_round_ticks, set_size_ticks

#: Rows on [0, 1]^2, and the length scale of each kernel: values from 0.02 to 1.
D_IN, SCALES = 2, {"gaussian": 0.5, "laplacian": 0.5}


def convergence(run: Run) -> Iterator[Record]:
    """Errors over all pairs of rows: root of the mean square, largest, and what the variance and Claim 1 say of them."""
    X = np.random.default_rng(0).uniform(size=(run.pick(200, 30), D_IN))
    pairs = np.triu_indices(len(X), 1)
    for method, name in KERNELS.items():
        kernel, scale = get_shift_invariant_kernel(name), SCALES[name]
        k, twice = (kernel_block(kernel, X, X, scale / c)[pairs] for c in (1, 2))
        for size in run.pick((64, 256, 1024, 4096), (16, 64)):
            square, largest = [], []
            for seed in range(run.pick(20, 3)):
                Z = features(method, size, scale, seed).fit_transform(X)
                K = Z @ Z.T
                error = (K.toarray() if method == "binning" else K)[pairs] - k
                square.append(float(np.mean(error**2)))
                largest.append(float(np.abs(error).max()))
            one = k * (1 - k) + (1 - k) / COLUMNS if method == "binning" else 1 + twice / 2 - k**2
            expected = float(one.mean()) / size
            yield {
                "method": method, "size": size, "rms": math.sqrt(np.mean(square)), "predicted": math.sqrt(expected),
                "ratio": spread([value / expected for value in square]), "largest": spread(largest),
                "most": max(largest), "bound": bound(name, size),
            }  # fmt: skip


def bound(kernel: str, D: int) -> float | None:
    """The error that Claim 1 (Eq. 3) says is exceeded in half of the draws at most; None: it says nothing.

    The spectral law of the Laplacian kernel, Cauchy, has no second moment.
    """
    if kernel != "gaussian":
        return None
    second_moment, diameter = D_IN / SCALES[kernel] ** 2, math.sqrt(D_IN)

    def log_probability(e: float) -> float:
        return 8 * math.log(2) + math.log(second_moment * diameter**2 / e**2) - D * e**2 / (4 * (D_IN + 2))

    return float(brentq(lambda e: log_probability(e) - math.log(0.5), 1e-6, 1e3))


def show_convergence(records: list[Record]) -> str:
    sizes = sorted({r["size"] for r in records})
    rows = []
    for what, text in (
        ("rms", "rms"),
        ("predicted", "rms by its variance"),
        ("largest", "largest"),
        ("bound", "Claim 1"),
    ):
        for method in KERNELS:
            mine = {r["size"]: r for r in where(records, method=method)}
            if what == "bound" and method != "fourier":
                continue
            values = [
                mine[s]["largest"]["mean"] if what == "largest" else mine[s][what] for s in sizes if s in mine
            ]
            rows.append([f"{LABELS[method]}, {text}", *(f"{v:.4f}" for v in values)])
    return (
        f"Error of the kernel over the pairs of rows drawn on $[0, 1]^{D_IN}$, length scale {SCALES['gaussian']:g}, {records[0]['ratio']['n']} seeds. "
        "*Claim 1* is the error that it says is exceeded in half of the draws at most; it says nothing of the Laplacian kernel, whose "
        "weights, Cauchy, have no second moment.\n\n"
        + markdown(["features", *(f"D or P = {s:,}" for s in sizes)], rows)
    )


def draw_convergence(records: list[Record], figure: Any) -> None:
    ax = figure.subplots()
    for method in KERNELS:
        mine = where(records, method=method)
        sizes = [r["size"] for r in mine]
        (line,) = ax.loglog(sizes, [r["rms"] for r in mine], "o", label=f"{LABELS[method]}, rms")
        ax.loglog(sizes, [r["predicted"] for r in mine], color=line.get_color())
        ax.loglog(sizes, [r["largest"]["mean"] for r in mine], "^", color=line.get_color(), markersize=4)
    known = [r for r in records if r["bound"] is not None]
    if known:
        ax.loglog([r["size"] for r in known], [r["bound"] for r in known], "k--", label="Claim 1, Gaussian")
    set_size_ticks(ax, [r["size"] for r in records])
    set_round_ticks(ax, [r[name] for r in records for name in ("rms", "bound") if r[name]])
    ax.set(xlabel="D, or grids P", ylabel="error of the kernel")
    ax.set_title("dots: root mean square; lines: by the variance; triangles: largest", fontsize=9)
    ax.legend()
