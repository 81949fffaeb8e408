"""Tables of the page on peers, and who is ahead of distrf where."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from benchmarks.benchmark import Record, markdown, where
from benchmarks.peers.methods import JOBS
from benchmarks.peers.reasons import BETTER, LOWER, QUICKER, reasons

#: What is the same without distrf. Others are compared with `distrf Fourier + ridge`.
PARTNERS = {
    "RBFSampler": "distrf Fourier",
    "RBFSampler, loop over blocks": "distrf Fourier, blocks",
    "ParallelPostFit(RBFSampler)": "distrf Fourier, blocks",
    "Fastfood": "distrf Fastfood",
    "Nystroem": "distrf Nystroem",
    "PolynomialCountSketch": "distrf TensorSketch",
}
#: Scores that differ by less are level, whatever their standard errors are: of 20,000 test rows one standard error is 0.25 points.
LEVEL = 0.003
#: Seconds are level within this factor.
SAME_TIME = 1.15


def failure(r: Record) -> str | None:
    """Why a method found nothing; None: it finished. Records of older runs call it "error"."""
    return r.get("failed", r.get("error"))


def finished(records: list[Record]) -> list[Record]:
    return [r for r in records if failure(r) is None]


def failed(records: list[Record]) -> list[Record]:
    return [r for r in records if failure(r) is not None]


def one(records: list[Record], **values: Any) -> Record | None:
    """The finished record that has these values."""
    found = finished(where(records, **values))
    return found[0] if found else None


def seconds(r: Record) -> float:
    """Processor seconds of fitting and predicting."""
    return float(r["fit"]) + float(r.get("predict", 0.0))


def mib(r: Record) -> str:
    return f"{r['peak'] / 2**20:,.0f}"


def time(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def percent(r: Record) -> str:
    """Mean, and the standard error where there are seeds."""
    error = r["standard_error"]
    return f"{100 * r['mean']:.1f}" + ("" if error is None else f" ± {100 * error:.1f}")


def margin(a: Record, b: Record) -> float:
    """Two means that differ by more do differ: two standard errors, and no less than LEVEL."""
    return max(LEVEL, 2 * math.hypot(a["standard_error"] or 0.0, b["standard_error"] or 0.0))


def better(a: Record, b: Record) -> int:
    """1: a has the higher score; -1: b; 0: they are level."""
    gap = a["mean"] - b["mean"]
    return 0 if abs(gap) <= margin(a, b) else (1 if gap > 0 else -1)


def quicker(a: Record, b: Record) -> int:
    """1: a takes less time; -1: b; 0: they are level."""
    ratio = seconds(b) / max(seconds(a), 1e-9)
    return 0 if 1 / SAME_TIME <= ratio <= SAME_TIME else (1 if ratio > 1 else -1)


def sizes(records: list[Record]) -> list[int]:
    return sorted({r["n"] for r in records})


def ahead(records: list[Record], ours: Record | None) -> str:
    """Peers that are better than one method of ours, and those that are quicker, or take less memory, and are no worse."""
    if ours is None:
        return ""
    peers = [r for r in finished(records) if r["peer"] != "distrf"]
    up = [r for r in peers if better(r, ours) > 0]
    level = [r for r in peers if better(r, ours) >= 0]
    quick = [r for r in level if quicker(r, ours) > 0]
    small = [r for r in level if ours["peak"] > 1.5 * r["peak"]]
    gained = ", ".join(f"{r['method']} by {100 * (r['mean'] - ours['mean']):.1f}" for r in up)
    sooner = ", ".join(f"{r['method']} {seconds(ours) / seconds(r):.1f} x" for r in quick)
    lower = ", ".join(f"{r['method']} {ours['peak'] / r['peak']:.1f} x" for r in small)
    said = [
        f"Better than *{ours['method']}*, in points: {gained or 'no peer'}.",
        f"Quicker, and no worse: {sooner or 'no peer'}.",
        f"A peak lower by a third or more, and no worse: {lower or 'no peer'}.",
    ]
    known = [
        (kind, reasons([r["method"] for r in who], kind))
        for kind, who in ((BETTER, up), (QUICKER, quick), (LOWER, small))
    ]
    return " ".join([*said, *(f"Why {kind}: {text}." for kind, text in known if text)])


def cells(r: Record) -> list[str]:
    """Peer, method, seconds and MiB; or why there are none."""
    if failure(r):
        return [r["method"], r["peer"], "-", "-", "-", "-"]
    predict = time(r["predict"]) if "predict" in r else "-"
    return [r["method"], r["peer"], time(r["fit"]), predict, time(r["start"]), mib(r)]


def by_time(records: list[Record]) -> list[Record]:
    return [*sorted(finished(records), key=seconds), *failed(records)]


def result(r: Record, digits: Callable[[Record], str]) -> str:
    """A score or an error, or why there is none, in the words of a table."""
    return digits(r) if failure(r) is None else str(failure(r)).replace("|", "\\|")


def show_environments(records: list[Record]) -> str:
    rows = []
    for r in records:
        wanted = " ".join(f"`{word}`" for word in r["wanted"]) or "distrf's own environment"
        has = result(r, lambda r: ", ".join(f"{name} {version}" for name, version in r["installed"].items()))
        rows.append([r["peer"], wanted, has])
    return markdown(["peer", "pip install", "what that gave"], rows).replace("--:", "---")


SCORED = ("method", "peer", "fit s", "predict s", "start s", "peak MiB")


def show_features(records: list[Record]) -> str:
    first = records[0]
    text = (
        f"{first['d']} columns, D = {first['D']:,}: processor seconds to the mean of each column of the features, and the relative "
        "error of the kernel matrix of 500 rows, in percent. *Start*: imports, compiling or loading compiled loops, a first go on "
        "600 rows. Fastfood of scikit-learn-extra has 2 D columns, as it does by default."
    )
    blocks = [text]
    for n in sizes(records):
        rows = []
        for r in by_time(where(records, n=n)):
            name, peer, fit, _, start, peak = cells(r)
            rows.append([name, peer, result(r, percent), fit, start, peak])
        blocks.append(markdown([f"n = {n:,}", "peer", "error %", "seconds", "start s", "peak MiB"], rows))
        quick, exact = [], []
        for theirs, ours in PARTNERS.items():
            a, b = one(records, n=n, method=theirs), one(records, n=n, method=ours)
            if a and b and quicker(a, b) > 0:
                quick.append(f"{theirs} {seconds(b) / seconds(a):.1f} x")
            if a and b and a["standard_error"] is not None and b["mean"] - a["mean"] > margin(a, b):
                exact.append(f"{theirs} ({100 * a['mean']:.1f} against {100 * b['mean']:.1f} %)")
        said = f"Quicker than the same of distrf: {', '.join(quick) or 'no peer'}."
        if exact or any(r["standard_error"] is not None for r in finished(where(records, n=n))):
            said += f" A smaller error than the same of distrf: {', '.join(exact) or 'no peer'}."
        blocks.append(said)
    return "\n\n".join(blocks)


def missing(records: list[Record], job: str) -> str:
    """Methods of a job that have no record."""
    left = [name for name in JOBS[job] if not where(records, method=name)]
    return f"Not measured with so many rows: {', '.join(left)}." if left else ""


def show_ridge(records: list[Record]) -> str:
    first = records[0]
    blocks = [
        f"{first['d']} columns, D = {first['D']:,}, 5 % of the labels flipped: accuracy on 20,000 rows in percent. *Start*: imports, "
        "compiling or loading compiled loops, a first go on 600 rows."
    ]
    for n in sizes(records):
        mine = where(records, n=n)
        rows = []
        for r in by_time(mine):
            name, peer, *rest = cells(r)
            rows.append([name, peer, result(r, percent), *rest])
        blocks.append(markdown([f"n = {n:,}", "peer", "accuracy %", *SCORED[2:]], rows))
        blocks.append(ahead(mine, one(mine, method="distrf Fourier + ridge")))
        blocks.append(missing(mine, "ridge"))
    return "\n\n".join(block for block in blocks if block)


def show_tables(records: list[Record]) -> str:
    blocks = [
        "20,000 rows to train and 10,000 to test, at most; the defaults of all. Accuracy, or $R^2$, in percent."
    ]
    for name in dict.fromkeys(r["set"] for r in records):
        mine = where(records, set=name)
        rows = []
        for r in by_time(mine):
            method, peer, *rest = cells(r)
            rows.append([method, peer, result(r, percent), *rest])
        what = "accuracy %" if mine[0]["labels"] else "R² %"
        blocks.append(markdown([name, "peer", what, *SCORED[2:]], rows))
        blocks.append(ahead(mine, one(mine, method="distrf.train")))
    return "\n\n".join(block for block in blocks if block)


def show_subspace(records: list[Record]) -> str:
    first = records[0]
    blocks = [
        f"The {first['k']} largest singular values of n x {first['D']:,} features: the largest relative error, in percent, against the "
        "Gram matrix in float64. *Iterations* are `n_iter` of all."
    ]
    for n in sizes(records):
        rows = []
        for r in where(records, n=n):
            name, peer, fit, _, _, peak = cells(r)
            error = result(r, lambda r: f"{100 * r['mean']:.3g}")
            rows.append([name, peer, r["n_iter"], error, fit, peak])
        blocks.append(markdown([f"n = {n:,}", "peer", "iterations", "error %", "seconds", "peak MiB"], rows))
        blocks.append(missing(where(records, n=n), "subspace"))
    return "\n\n".join(block for block in blocks if block)
