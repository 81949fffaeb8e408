"""Chen, Yang, King & Lyu (2016), "Training-Efficient Feature Map for Shift-Invariant Kernels": Figures 1-3, Table 1."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.linalg import eigsh

from benchmarks import data
from benchmarks.benchmark import Benchmark, Part, Record, Run, markdown, pm, spread, where
from benchmarks.clocks import cpu
from benchmarks.papers import tefm_2016_costs as costs
from benchmarks.papers import tefm_2016_regression as regression
from benchmarks.papers.tefm_2016_claims import FIGURE, claims, ratio
from benchmarks.papers.tefm_2016_maps import AsPrinted, maps_of_figure, plain
from distrf import RandomFourierFeatures

#: Rows that the paper samples for Figure 1.
PAPER_ROWS = {"cpu_act": 6554, "a9a": 8141, "blogfeedback": 8733, "ujiindoorloc": 6646, "mnist": 6006}
#: Lanczos steps: these give norms of these matrices to 1e-4.
STEPS = 12
#: Marks of the error in the picture of Figure 1.
YTICKS = (0.02, 0.05, 0.1, 0.2)
#: Seeds whose features are held in memory at a time.
HELD_SEEDS = 5


def rows_of(run: Run, name: str, n: int) -> np.ndarray:
    """So many rows: grey values and signals to [0, 1], flags as they are, other columns in standard units."""
    X, y, *_ = data.raw(run, name)
    X = data.dense(data.sample(X, y, n)[0])
    if name == "ujiindoorloc":
        return X if run.small else data.signals(X)
    if name == "mnist":
        return data.unit_range(X, X)[0]
    return X if name == "a9a" else data.standard(X, X)[0]


def spectral_norms(product: Callable[[np.ndarray], np.ndarray], n: int, count: int) -> np.ndarray:
    """Norms of `count` symmetric operators by Lanczos in lockstep; the product takes (n, count)."""
    steps = min(STEPS, n)
    V = np.random.default_rng(0).normal(size=(n, 1)).repeat(count, axis=1)
    V /= np.linalg.norm(V, axis=0)
    before, beta = np.zeros_like(V), np.zeros(count)
    T = np.zeros((count, steps, steps))
    for k in range(steps):
        W = product(V.astype(np.float32)) - beta * before
        alpha = (V * W).sum(axis=0)
        W -= alpha * V
        beta = np.linalg.norm(W, axis=0)
        T[:, k, k] = alpha
        if k + 1 < steps:
            T[:, k, k + 1] = T[:, k + 1, k] = beta
        before, V = V, W / beta
    return abs(np.linalg.eigvalsh(T)).max(axis=1)


def distances(K: np.ndarray, made: list[np.ndarray]) -> np.ndarray:
    """|K - G G'| of each feature matrix, spectral norms."""

    def product(V: np.ndarray) -> np.ndarray:
        out = (K @ V).astype(np.float64)
        for i, G in enumerate(made):
            out[:, i] -= G @ (G.T @ V[:, i])
        return out

    return spectral_norms(product, len(K), len(made))


def kernel_of(X: np.ndarray) -> tuple[np.ndarray, float, float]:
    """K, its norm, and the length scale."""
    fitted = RandomFourierFeatures(n_components=64, random_state=0).fit(X)
    K = fitted.map_.exact_kernel(X).astype(np.float32)
    return K, float(spectral_norms(lambda V: K @ V, len(K), 1)[0]), fitted.length_scale_


# ---- Figure 1 -----------------------------------------------------------------------------------------


def figure1(run: Run) -> Iterator[Record]:
    """|K - G G'| / |K|, and processor seconds of making G, fit included."""
    for name in run.pick(tuple(PAPER_ROWS), ("mnist",)):
        X = rows_of(run, name, run.pick(PAPER_ROWS[name], 150))
        K, size, scale = kernel_of(X)
        for estimator in maps_of_figure(8, scale, 0).values():  # compiles
            estimator.fit_transform(X[:200])
        for wide in run.pick((64, 128, 256, 512), (8,)):
            seeds = run.pick(10 if wide < 512 else 5, 2)
            errors: dict[str, list[float]] = {}
            seconds: dict[str, list[float]] = {}
            for first in range(0, seeds, HELD_SEEDS):
                made = []
                for seed in range(first, min(first + HELD_SEEDS, seeds)):
                    for label, estimator in maps_of_figure(wide, scale, seed).items():
                        taken, G = cpu(partial(estimator.fit_transform, X))
                        made.append((label, G))
                        seconds.setdefault(label, []).append(taken)
                for (label, _), gap in zip(made, distances(K, [G for _, G in made]), strict=True):
                    errors.setdefault(label, []).append(float(gap) / size)
            for label, found in errors.items():
                record = {"set": name, "rows": len(X), "l": wide, "method": label, **spread(found)}
                yield record | {"seconds": statistics.median(seconds[label]), "errors": found}


def show_figure1(records: list[Record]) -> str:
    methods = [m for m in FIGURE if where(records, method=m)]
    rows = []
    for name in dict.fromkeys(r["set"] for r in records):
        for wide in sorted({r["l"] for r in where(records, set=name)}):
            found = {r["method"]: r for r in where(records, set=name, l=wide)}
            cells = [pm(found[m], 3) if m in found else "-" for m in methods]
            paired = ratio(records, name, wide, "TEFM-G", "RKS")
            rows.append([name, wide, *cells, "-" if paired is None else pm(paired)])
    most = max(r["n"] for r in records)
    fewer = {r["l"]: r["n"] for r in records if r["n"] < most}
    seeds = f"{most} seeds" + "".join(f" ({n} at l = {wide})" for wide, n in fewer.items())
    return (
        f"Error of the kernel matrix, $|K - GG^\\top| / |K|$ in spectral norms, $d = 4l$, {seeds}. *F* is the $4l$ features that "
        "TEFM starts from; *as printed* is the paper's algorithm to the letter. ± is one standard error over seeds. The last column is paired by seed.\n\n"
        + markdown(["set", "l", *(m.replace("printed", "as printed") for m in methods), "TEFM-G / RKS"], rows)
    )


def draw_figure1(records: list[Record], figure: Any) -> None:
    names = list(dict.fromkeys(r["set"] for r in records))
    figure.set_size_inches(2.8 * len(names), 3.8)
    columns = np.atleast_1d(figure.subplots(1, len(names), sharey=True))
    for ax, name in zip(columns, names, strict=True):
        for method in FIGURE[:6]:
            mine = where(records, set=name, method=method)
            ax.errorbar(
                [r["l"] for r in mine], [r["mean"] for r in mine], [r["standard_error"] or 0 for r in mine],
                marker=".", label=method, capsize=2, linestyle="--" if method == "TEFM-S" else "-",
            )  # fmt: skip
        ax.set(xscale="log", yscale="log", title=name, xlabel="features, l")
        ax.set_xticks(sorted({r["l"] for r in records}), [f"{r}" for r in sorted({r["l"] for r in records})])
        ax.minorticks_off()
        ax.set_yticks(YTICKS, [f"{tick:g}" for tick in YTICKS])
    columns[0].set_ylabel("|K - GG'| / |K| (bars: one standard error)")
    figure.legend(*columns[0].get_legend_handles_labels(), loc="outside upper center", ncols=6)


# ---- Theorem 1 ----------------------------------------------------------------------------------------


def theorem1(run: Run) -> Iterator[Record]:
    """Errors of l features out of d = l^2, of the l^2, of l plain ones, and the least that any l have."""
    for name in run.pick(("cpu_act", "mnist"), ("cpu_act",)):
        X = rows_of(run, name, run.pick(4000, 150))
        K, size, scale = kernel_of(X)
        widths = run.pick((16, 32, 64, 96), (4, 8))
        start = np.random.default_rng(0).normal(size=len(K))
        values = np.sort(eigsh(K, k=max(widths) + 1, v0=start, return_eigenvectors=False))[::-1]
        for wide in widths:
            errors: dict[str, list[float]] = {}
            for seed in range(run.pick(5, 2)):
                base = plain(wide**2, scale, seed)
                made = {
                    "RKS": plain(wide, scale, seed).fit_transform(X),
                    "TEFM-G": AsPrinted(base, wide, "gaussian", 1, seed).fit_transform(X),
                    "TEFM-S": AsPrinted(base, wide, "srht", 0, seed).fit_transform(X),
                    "F": base.fit_transform(X),
                }
                for label, gap in zip(made, distances(K, list(made.values())), strict=True):
                    errors.setdefault(label, []).append(float(gap) / size)
            best = float(values[wide] / values[0])
            for label, found in errors.items():
                yield {"set": name, "rows": len(X), "l": wide, "method": label, **spread(found), "least": best}


def show_theorem1(records: list[Record]) -> str:
    rows = []
    for name in dict.fromkeys(r["set"] for r in records):
        for wide in sorted({r["l"] for r in where(records, set=name)}):
            found = {r["method"]: r for r in where(records, set=name, l=wide)}
            cells = [pm(found[m], 4) if m in found else "-" for m in ("RKS", "TEFM-G", "TEFM-S", "F")]
            rows.append([name, wide, f"{wide**2:,}", *cells, f"{next(iter(found.values()))['least']:.4f}"])
    return (
        f"Error of the kernel matrix with $d = l^2$, as Theorem 1 wants it, {records[0]['rows']:,} rows, {records[0]['n']} seeds; the "
        "paper's algorithms to the letter. The last column is the least error that any $l$ features have, the next eigenvalue of $K$ "
        "over the first.\n\n"
        + markdown(["set", "l", "d", "RKS, l", "TEFM-G, l", "TEFM-S, l", "RKS, d", "least"], rows)
    )


ABOUT = """
Xixian Chen, Haiqin Yang, Irwin King, Michael R. Lyu, *Training-Efficient Feature Map for Shift-Invariant Kernels*, 2016.

RKS are [Fourier features](../methods/fourier.md) with cosines and sines, Quasi takes quasi-random frequencies, Ffood is Fastfood,
Comp are compact features (Hamid et al., 2014) out of $4l$, and TEFM-G and TEFM-S are [TEFM](../methods/tefm.md) with a Gaussian sketch and $q = 1$, and
with an SRHT sketch and $q = 0$. Ours differs from Algorithms 1 and 2: it makes features anew in every pass, orthonormalises between
products in float64, sketches $2(l + 10)$ columns, at most 2,048 unless $l + 10$ is more, and keeps the leading $l$. Its SRHT
transforms blocks of $2^{\\lceil \\log_2 l \\rceil}$ rows alone and combines their samples, which is exactly the transform of all rows.
*As printed* are the algorithms to the letter: $F$ in memory and a sketch of $l$ columns. All are float32, with sums of the sketch in
float64. The bandwidth is the mean distance to the 50th neighbour; the paper does not state its own.

Rows: as many of each set as the paper takes for Figure 1. cpu_act is the paper's Cpu. Figures 2 and 3 of the paper show
SliceLocalization; in its place are kin40k, cpu_act, and the longitude of ujiindoorloc, which as SliceLocalization is a place out
of several hundred signals. The split is fixed, four fifths to train; seeds are of the maps. Penalties are a grid of decades, and
the first seed chooses for all.

Left out: SliceLocalization, which is not to be had.
"""

BENCHMARK = Benchmark(
    "tefm_2016", "Training-efficient feature maps (2016)", ABOUT,
    (
        Part("figure1", figure1, show_figure1, draw_figure1),
        Part("regression", regression.measure, regression.show, regression.draw),
        Part("theorem1", theorem1, show_theorem1),
        Part("table1", costs.table1, costs.show_table1, data=False),
        Part("power", costs.power, costs.show_power, data=False),
    ),
    claims,
)  # fmt: skip
