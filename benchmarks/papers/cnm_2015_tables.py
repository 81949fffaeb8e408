"""Tables and pictures of the benchmark cnm_2015, from its records."""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.benchmark import Record, markdown, one, pm, where

#: The sets of Figures 1 and 2.
SETS = ("usps", "mnist", "letter", "magic04", "banana", "ijcnn1", "covtype_sample")
STYLES = {
    "CNM": {"color": "C0", "marker": "o"},
    "CNM-kerapp": {"color": "C2", "marker": "s"},
    "CNM-kerapp, 300 steps": {"color": "C2", "marker": "s", "linestyle": ":", "markerfacecolor": "white"},
    "RFF": {"color": "C3", "marker": "^"},
    "RFF, wide": {"color": "C1", "marker": "v", "linestyle": "--"},
}
COLUMNS = ("CNM", "RFF", "RFF, wide")


def names(records: list[Record], what: str = "set") -> list[Any]:
    """The values of a field, in their order."""
    return list(dict.fromkeys(r[what] for r in records if what in r))


def cell(record: Record | None, digits: int = 1) -> str:
    return pm(record, digits) if record else ""


# ---- Figure 1 -----------------------------------------------------------------------------------------


def show_figure1(records: list[Record]) -> str:
    sizes = sorted({r["k"] for r in records if "k" in r})
    rows = []
    for name in names(records):
        mine = where(records, set=name)
        for method in COLUMNS:
            found = {r["k"]: r for r in where(mine, method=method)}
            rows.append([name if method == "CNM" else "", method, *(cell(found.get(k)) for k in sizes)])
    blocks = [
        "Test accuracy in percent against $k$, ± one standard error over seeds (without it: one seed). "
        + wider(records),
        markdown(["set", "features", *(f"k = {k:,}" for k in sizes)], rows),
        "What does not depend on $k$, how many drawn features have the accuracy of eight that are learned (by interpolation in the "
        "logarithm of $k$), and processor seconds to train CNM:",
        show_levels(records),
        unmeasured(records),
    ]
    return "\n\n".join(block for block in blocks if block)


def unmeasured(records: list[Record]) -> str:
    """Sets without a record, and those where CNM has fewer features at most than on another."""
    missing = [name for name in SETS if name not in names(records)]
    largest = {
        name: max((r["k"] for r in where(records, set=name, method="CNM")), default=0)
        for name in names(records)
    }
    for k in sorted(set(largest.values()))[:-1]:
        sets = ", ".join(name for name, most in largest.items() if most == k)
        missing.append(f"CNM with more than {k:,} features on {sets}")
    return f"Not measured: {'; '.join(missing)}." if missing else ""


def wider(records: list[Record]) -> str:
    """In how many cases the wider bandwidth is better."""
    pairs = [
        (one(records, set=r["set"], method="RFF, wide", k=r["k"]), r) for r in where(records, method="RFF")
    ]
    better = sum(bool(wide) and wide["mean"] > r["mean"] for wide, r in pairs)
    return f"Twice the paper's bandwidth is better for drawn features in {better} of {len(pairs)} cases."


def show_levels(records: list[Record]) -> str:
    rows = []
    for name in names(records):
        mine = where(records, set=name)
        svm, linear = one(mine, method="RBF SVM"), one(mine, method="linear")
        learned = where(mine, method="CNM")
        first = one(learned, k=8)
        needed = [text_of_needed(mine, method, first["mean"]) if first else "" for method in COLUMNS[1:]]
        seconds = ", ".join(f"{r['seconds']:.1f} (k = {r['k']})" for r in (learned[:1] + learned[-1:]))
        rows.append([
            name, f"{linear['rows']:,} x {linear['columns']}" if linear else "", cell(linear),
            f"{svm['mean']:.1f} ({svm['paper_bandwidth']:.1f}), {svm['rows']:,} rows" if svm else "",
            cell(first), *needed, seconds,
        ])  # fmt: skip
    head = [
        "set",
        "training rows",
        "linear",
        "RBF SVM (of the paper's bandwidth)",
        "CNM, k = 8",
        "RFF for the same",
        "RFF, wide",
        "s",
    ]
    return markdown(head, rows)


def needed_for(records: list[Record], method: str, level: float) -> float | None:
    """The k at which the mean accuracy of a method first reaches a level, linear in log k between sizes.

    None if it never does, and the smallest size if that does.
    """
    curve = sorted((r["k"], r["mean"]) for r in where(records, method=method))
    if curve[0][1] >= level:
        return float(curve[0][0])
    for (k, low), (after, high) in itertools.pairwise(curve):
        if high >= level:
            return float(k * (after / k) ** ((level - low) / (high - low)))
    return None


def text_of_needed(records: list[Record], method: str, level: float) -> str:
    found = where(records, method=method)
    if not found:
        return ""
    k = needed_for(records, method, level)
    return f"> {max(r['k'] for r in found):,}" if k is None else f"{k:,.0f}"


def grid(figure: Any, n: int, height: float = 2.8) -> tuple[list[Any], Any]:
    """n axes in rows of four, and a place for the legend: the next one if there is one."""
    columns = min(4, n)
    rows = -(-n // columns)
    figure.set_size_inches(3.4 * columns, height * rows)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in axes[n:]:
        ax.axis("off")
    return axes[:n], axes[n] if len(axes) > n else None


def legend(axes: list[Any], place: Any) -> None:
    handles, labels = axes[0].get_legend_handles_labels()
    if place is None:
        axes[0].legend(handles, labels, fontsize=8)
    else:
        place.legend(handles, labels, loc="center")


def curve(ax: Any, records: list[Record], method: str, value: str | None = None) -> None:
    """One line with error bars against k."""
    points = [(r["k"], r[value] if value else r) for r in records]
    errors = [p["standard_error"] or 0.0 for _, p in points]
    ax.errorbar(
        [k for k, _ in points],
        [p["mean"] for _, p in points],
        errors,
        label=method,
        markersize=4,
        **STYLES[method],
    )


def logarithmic(ax: Any, records: list[Record]) -> None:
    sizes = sorted({r["k"] for r in records if "k" in r})
    ax.set_xscale("log", base=2)
    shown = [k for k in (2, 8, 32, 128, 512, 2048) if sizes[0] <= k <= sizes[-1]] or sizes
    ax.set_xticks(shown, [f"{k:,}" for k in shown])
    ax.set_xlabel("k")


def draw_figure1(records: list[Record], figure: Any) -> None:
    sets = names(records)
    axes, place = grid(figure, len(sets))
    for ax, name in zip(axes, sets, strict=True):
        mine = where(records, set=name)
        for method in COLUMNS:
            curve(ax, where(mine, method=method), method)
        for method, line in (("RBF SVM", "-."), ("linear", ":")):
            if level := one(mine, method=method):
                ax.axhline(
                    level["mean"],
                    color="black" if method == "RBF SVM" else "grey",
                    linestyle=line,
                    label=method,
                )
        logarithmic(ax, mine)
        svm = one(mine, method="RBF SVM")
        ax.set_title(name if svm is None or svm["all_rows"] else f"{name} (SVM: {svm['rows']:,} rows)")
    axes[0].set_ylabel("test accuracy, %")
    legend(axes, place)


# ---- Figure 2 -----------------------------------------------------------------------------------------


def show_figure2(records: list[Record]) -> str:
    sizes, methods = names(records, "k"), names(records, "method")
    rows = []
    for name in names(records):
        for method in methods:
            found = [one(records, set=name, method=method, k=k) for k in sizes]
            errors = [power(r["mse"]) if r else "" for r in found]
            scores = [cell(r["accuracy"]) if r else "" for r in found]
            rows.append([name if method == methods[0] else "", method, *errors, *scores])
    head = ["set", "features", *(f"k = {k}" for k in sizes), *(f"accuracy, k = {k}" for k in sizes)]
    return (
        "Mean squared error of the kernel, times 1,000, over pairs of at most 2,000 test rows, which nothing was learned from; and "
        "test accuracy in percent of a linear model on the same features, the green curve of the paper's Figure 1. The bandwidth is the "
        "paper's. The paper takes some hundred steps, distrf about 3,000.\n\n" + markdown(head, rows)
    )


def power(record: Record, factor: float = 1e3) -> str:
    """mean ± standard error, times a factor, three digits."""
    error = record["standard_error"]
    return f"{factor * record['mean']:.3g}" + ("" if error is None else f" ± {factor * error:.2g}")


def draw_figure2(records: list[Record], figure: Any) -> None:
    sets = names(records)
    axes, place = grid(figure, len(sets))
    for ax, name in zip(axes, sets, strict=True):
        mine = where(records, set=name)
        for method in names(records, "method"):
            curve(ax, where(mine, method=method), method, "mse")
        ax.set_yscale("log")
        logarithmic(ax, mine)
        ax.set_title(name)
    axes[0].set_ylabel("mean squared error of the kernel")
    legend(axes, place)


# ---- Figure 3 and Table 2 -----------------------------------------------------------------------------


def show_figure3(records: list[Record]) -> str:
    sizes = names(records, "k")
    rows = []
    for name in names(records):
        for bandwidth in names(records, "bandwidth"):
            for kind in names(records, "projection"):
                mine = where(records, set=name, bandwidth=bandwidth, projection=kind)
                rows.append(
                    [f"{name}, {bandwidth}" if kind == "dense" else "", kind, *(power(r) for r in mine)]
                )
    return (
        f"Mean squared error of the kernel of drawn features, times 1,000, over pairs of test rows, {records[0]['n']} seeds. The circulants have one "
        "vector for each $d$ features; *no signs* leaves out the diagonal matrix $D$ of Eq. 13.\n\n"
        + markdown(["set and bandwidth", "weights", *(f"k = {k:,}" for k in sizes)], rows)
    )


def draw_figure3(records: list[Record], figure: Any) -> None:
    panels = [(name, bandwidth) for name in names(records) for bandwidth in names(records, "bandwidth")]
    axes, _ = grid(figure, len(panels), 3.2)
    looks = {"dense": "o-", "circulant": "s--", "circulant, no signs": "^:"}
    for ax, (name, bandwidth) in zip(axes, panels, strict=True):
        mine = where(records, set=name, bandwidth=bandwidth)
        for kind in names(records, "projection"):
            line = where(mine, projection=kind)
            values, errors = [r["mean"] for r in line], [r["standard_error"] or 0.0 for r in line]
            ax.errorbar([r["k"] for r in line], values, errors, fmt=looks[kind], label=kind, markersize=4)
        ax.set_yscale("log")
        logarithmic(ax, mine)
        ax.set_title(f"{name}, {bandwidth}")
    axes[0].set_ylabel("mean squared error of the kernel")
    legend(axes, None)


#: Table 2 of the paper: accuracy in percent and its spread.
PAPER_ACCURACY = {
    ("usps", 1): {
        "RFF": "89.05 ± 0.65",
        "circulant-random": "89.40 ± 1.02",
        "circulant-optimised": "91.96 ± 0.45",
    },
    ("usps", 2): {
        "RFF": "91.90 ± 0.29",
        "circulant-random": "91.87 ± 0.11",
        "circulant-optimised": "93.08 ± 0.96",
    },
    ("mnist", 1): {
        "RFF": "91.33 ± 0.05",
        "circulant-random": "91.01 ± 0.03",
        "circulant-optimised": "92.73 ± 0.21",
    },
    ("mnist", 2): {
        "RFF": "92.95 ± 0.42",
        "circulant-random": "93.22 ± 0.30",
        "circulant-optimised": "94.11 ± 0.24",
    },
}
METHODS = ("RFF", "circulant-random", "circulant-optimised")


def show_table2(records: list[Record]) -> str:
    rows = []
    for name in names(records):
        for times in names(where(records, set=name), "times"):
            mine = where(records, set=name, times=times)
            cells = [f"{cell(one(mine, method=m), 2)} ({PAPER_ACCURACY[name, times][m]})" for m in METHODS]
            rows.append([f"{name}, k = {'' if times == 1 else '2 '}d = {mine[0]['k']:,}", *cells])
    seeds = ", ".join(f"{name} {where(records, set=name)[0]['n']} seeds" for name in names(records))
    return (
        f"Test accuracy in percent, the paper's in brackets; {seeds}. Drawn features have the wide bandwidth, where CNM starts.\n\n"
        + markdown(["set", "RFF", "circulant, drawn", "circulant, learned"], rows)
    )


# ---- Choices and cost ---------------------------------------------------------------------------------


def show_choices(records: list[Record]) -> str:
    cases = [(name, k) for name in names(records) for k in names(where(records, set=name), "k")]
    rows = [
        [choice, *(cell(one(records, set=name, k=k, choice=choice)) for name, k in cases)]
        for choice in names(records, "choice")
    ]
    return (
        f"Test accuracy of CNM in percent, {records[0]['n']} seeds, with one choice changed at a time. *Steps in turn* are 100 batches of "
        "the weights by Pegasos ($\\lambda$ = 0.001) and 100 of the frequencies by Adam, for as many batches in all.\n\n"
        + markdown(["", *(f"{name}, k = {k}" for name, k in cases)], rows)
    )


def show_speed(records: list[Record]) -> str:
    rows = []
    for r in records:
        dense = "" if r["dense"] is None else f"{1e3 * r['dense']:.2f}"
        ratio = "" if r["dense"] is None else f"{r['dense'] / r['circulant']:.1f}"
        rows.append([f"{r['d']:,}", f"{1e3 * r['circulant']:.2f}", dense, ratio])
    return (
        f"Processor milliseconds of the gradient of a batch of {records[0]['rows']} rows with respect to everything that is learned, "
        "k = d, 10 classes, float32; the least of runs that take turns.\n\n"
        + markdown(["d", "circulant", "dense", "dense / circulant"], rows)
    )
