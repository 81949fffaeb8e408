"""Figures 2 and 3 of Chen et al. (2016): error of ridge regression against features, and against seconds."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.benchmark import Record, Run, markdown, one, pm, spread, where
from benchmarks.clocks import cpu
from benchmarks.papers.tefm_2016_claims import FIGURE, reached_at
from benchmarks.papers.tefm_2016_maps import maps_of_figure, plain
from distrf import RandomFourierFeatures, StreamingRidge
from distrf.plot.axes import set_round_ticks, set_size_ticks

#: {set: widest features of all methods; RKS alone goes on to four times that, which is d of the widest TEFM}
WIDEST = {"cpu_act": 2048, "kin40k": 1024, "ujiindoorloc": 1024}
METHODS = FIGURE[:-1]
ALPHAS = tuple(float(a) for a in np.geomspace(1e-10, 1e-3, 8))
#: Beyond so many features a penalty is compared with its neighbours alone.
MANY = 1024


def load(run: Run, name: str) -> data.Split:
    """Four fifths to train; columns in standard units, targets about their mean in units of their deviation."""
    X, y, *_ = data.raw(run, name)
    if name == "ujiindoorloc" and not run.small:
        with np.load(os.path.join(str(run.data), f"{name}.npz"), allow_pickle=False) as archive:
            y = archive["pos_train"][:, 0]  # longitude
        X = data.signals(X)
    order = np.random.default_rng(1).permutation(len(y))
    n = 4 * len(y) // 5
    train, test = order[:n], order[n:]
    X, T = data.dense(X[train]), data.dense(X[test])
    if name != "ujiindoorloc":
        X, T = data.standard(X, T)
    y = y.astype(np.float64)
    if name == "ujiindoorloc":  # metres from an arbitrary origin, thousands of them
        y = y - y[train].mean()
    return X, y[train], T, y[test]


def alpha_of(F: np.ndarray, y: np.ndarray, near: float | None) -> float:
    """The penalty with the least error on a held-out fifth of the training rows."""
    alphas = ALPHAS if near is None or F.shape[1] <= MANY else (near / 10, near, 10 * near)
    return float(StreamingRidge(alphas, cv="holdout").fit(F, y).alpha_)


def measure(run: Run) -> Iterator[Record]:
    """Relative RMSE on held-out rows, and processor seconds of features and of training with the penalty that was chosen."""
    for name in run.pick(tuple(WIDEST), ("cpu_act",)):
        X, y, T, t = load(run, name)
        scale = RandomFourierFeatures(n_components=64, random_state=0).fit(X).length_scale_
        for estimator in maps_of_figure(8, scale, 0).values():  # compiles
            estimator.fit_transform(X[:200])
        near: dict[str, float] = {}
        for wide in run.pick((64, 128, 256, 512, 1024, 2048, 4096, 8192), (8, 16)):
            widest = run.pick(WIDEST[name], 8)
            if wide > 4 * widest:
                continue
            seeds = run.pick(5 if wide <= 256 else 3 if wide <= 512 else 2 if wide <= 1024 else 1, 2)
            for label in METHODS if wide <= widest else ("RKS",):
                found = [fit(label, wide, scale, seed, (X, y, T, t), near) for seed in range(seeds)]
                errors = [f["error"] for f in found]
                times = {
                    k: statistics.median(f[k] for f in found) for k in ("mapping", "training", "predicting")
                }
                yield {
                    "set": name, "rows": len(X), "method": label, "l": wide, **spread(errors), **times,
                    "alpha": near[label], "errors": errors,
                }  # fmt: skip


def fit(
    label: str, wide: int, scale: float, seed: int, rows: data.Split, near: dict[str, float]
) -> dict[str, float]:
    """One map and one model; the first seed chooses the penalty, which is kept in `near`."""
    X, y, T, t = rows
    estimator = plain(wide, scale, seed) if label == "RKS" else maps_of_figure(wide, scale, seed)[label]
    mapping, F = cpu(lambda: estimator.fit_transform(X))
    if seed == 0:
        near[label] = alpha_of(F, y, near.get(label))
    training, model = cpu(lambda: StreamingRidge(near[label]).fit(F, y))
    predicting, predicted = cpu(lambda: model.predict(estimator.transform(T)))
    error = float(np.linalg.norm(predicted - t) / np.linalg.norm(t))
    return {"error": error, "mapping": mapping, "training": training, "predicting": predicting}


def show(records: list[Record]) -> str:
    methods = [m for m in METHODS if where(records, method=m)]
    seeds = {r["l"]: r["n"] for r in records}
    blocks = [
        "Ridge regression: relative RMSE $|y - y_o| / |y|$ on held-out rows, in brackets the processor seconds of features and of "
        "training with one penalty, which a held-out fifth of the training rows chose before. Seeds: "
        + ", ".join(f"{n} at {wide:,}" for wide, n in sorted(seeds.items()))
        + "."
    ]
    for name in dict.fromkeys(r["set"] for r in records):
        mine = where(records, set=name)
        rows = []
        for wide in sorted({r["l"] for r in mine}):
            found = {r["method"]: r for r in where(mine, l=wide)}
            cells = [f"{pm(found[m], 4)} ({seconds(found[m])} s)" if m in found else "-" for m in methods]
            rows.append([f"{wide:,}", *cells])
        title = f"{name}, {mine[0]['rows']:,} rows"
        blocks.append(markdown([title, *(m.replace("printed", "as printed") for m in methods)], rows))
    return "\n\n".join(
        block for block in [*blocks, slower_than_printed(records), show_reached(records)] if block
    )


def slower_than_printed(records: list[Record]) -> str:
    """What ours takes over the algorithms as printed, and for what: the steps of `distrf.subspace.RangeFinder`."""
    ratios: dict[str, dict[str, list[float]]] = {}
    for r in records:
        printed = one(records, set=r["set"], method=f"{r['method']} printed", l=r["l"])
        if printed:
            taken = (r["mapping"] + r["training"]) / (printed["mapping"] + printed["training"])
            ratios.setdefault(r["method"], {}).setdefault(r["set"], []).append(taken)
    if not ratios:
        return ""
    text = "; ".join(
        f"{method} " + ", ".join(f"{min(v):.1f} to {max(v):.1f} ({name})" for name, v in by_set.items())
        for method, by_set in ratios.items()
    )
    return (
        f"Seconds of ours over those of the algorithm as printed: {text}. As printed holds $F$ in memory, sketches $l$ columns and takes one QR "
        "in float32. Ours makes $F$ anew in each pass, sketches up to twice as many columns and finds the leading $l$ of them by eigenvectors, "
        "orthonormalises after each product in float64, and then computes singular values and a residual on sampled rows. Most of this goes "
        "with $l^3$ and not with the rows, so it weighs most where $l$ is near the number of rows. For it, $F$ is never held, and small "
        "directions that float32 loses are kept (part `power`)."
    )


def show_reached(records: list[Record]) -> str:
    """How many plain features, and seconds, have the error of TEFM."""
    rows = []
    for name, wide in dict.fromkeys((r["set"], r["l"]) for r in records if r["l"] >= 256):
        found = {r["method"]: r for r in where(records, set=name, l=wide) if r["method"].startswith("TEFM")}
        if found:
            plain_curve = where(records, set=name, method="RKS")
            rows.append([name, f"{wide:,}", *(reached(found.get(m), plain_curve) for m in METHODS[4:])])
    if not rows:
        return ""
    return (
        "How many features of RKS have the same error, and their seconds against those of TEFM; between measured widths along straight "
        "lines of logarithms:\n\n"
        + markdown(["set", "l", *(m.replace("printed", "as printed") for m in METHODS[4:])], rows)
    )


def reached(r: Record | None, curve: list[Record]) -> str:
    """One cell of it."""
    if r is None:
        return "-"
    at = reached_at(curve, r["mean"])
    return "more than measured" if at is None else f"{at['l']:,.0f}; {at['seconds']:.2g} against {seconds(r)} s"


def seconds(r: Record) -> str:
    """Three digits."""
    return f"{r['mapping'] + r['training']:.3g}"


def draw(records: list[Record], figure: Any) -> None:
    names = list(dict.fromkeys(r["set"] for r in records))
    figure.set_size_inches(4.2 * len(names), 7)
    axes = figure.subplots(2, len(names), squeeze=False)
    for column, name in enumerate(names):
        for method in METHODS:
            mine = where(records, set=name, method=method)
            errors, bars = [r["mean"] for r in mine], [r["standard_error"] or 0 for r in mine]
            colour = f"C{METHODS.index(method.removesuffix(' printed'))}"
            style = ":" if method.endswith("printed") else "-"
            label = method.replace("printed", "as printed")
            for row, of in enumerate(([r["l"] for r in mine], [r["mapping"] + r["training"] for r in mine])):
                axes[row, column].errorbar(
                    of, errors, bars, marker=".", label=label, capsize=2, color=colour, linestyle=style
                )
        for row, label in enumerate(("features", "seconds of features and training")):
            axes[row, column].set(xscale="log", yscale="log", xlabel=label)
            set_round_ticks(axes[row, column], [r["mean"] for r in where(records, set=name)])
        axes[0, column].set_title(f"{name}: Figure 2")
        axes[1, column].set_title(f"{name}: Figure 3")
        set_size_ticks(axes[0, column], [r["l"] for r in where(records, set=name)])
        set_round_ticks(axes[1, column], [r["mapping"] + r["training"] for r in where(records, set=name)], "x")
    for ax in axes[:, 0]:
        ax.set_ylabel("relative RMSE (bars: one standard error)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=8)
