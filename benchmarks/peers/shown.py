"""Tables of the page on peers, and who is ahead of distrf where."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.benchmark import Record, markdown, where
from benchmarks.peers.methods import JOBS
from benchmarks.peers.reasons import BETTER, LOWER, QUICKER, SOONER, reasons

#: What is the same without distrf. Others are compared with `distrf Fourier + ridge`.
PARTNERS = {
    "RBFSampler": "distrf Fourier",
    "RBFSampler, loop over blocks": "distrf Fourier, blocks",
    "ParallelPostFit(RBFSampler)": "distrf Fourier, blocks",
    "Fastfood": "distrf Fastfood",
    "Fastfood(D / 2)": "distrf Fastfood",
    "Nystroem": "distrf Nystroem",
    "PolynomialCountSketch": "distrf TensorSketch",
}
#: Methods of older runs, which had other options: Fastfood with 2 D columns.
FORMER = ("Fastfood", "Fastfood + RidgeClassifier")
#: Scores that differ by less are level, whatever their standard errors are: of 20,000 test rows one standard error is 0.25 points.
LEVEL = 0.003
#: Seconds are level within this factor.
SAME_TIME = 1.15
#: Peaks, and seconds before a start, are told where they differ by such a factor.
FAR = 1.5


def failure(r: Record) -> str | None:
    """Why a method found nothing, in words; None: it finished. Records of older runs call it "error"."""
    text = r.get("failed", r.get("error"))
    if text is None or "MemoryError" not in text:
        return text
    asked = re.search(r"allocate ([\d.]+ \w+)", text)
    return "out of memory" + (f": it asked for {asked[1]}" if asked else "")


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
    small = [r for r in level if ours["peak"] > FAR * r["peak"]]
    early = [r for r in level if ours["start"] > FAR * r["start"]]
    gained = ", ".join(f"{r['method']} by {100 * (r['mean'] - ours['mean']):.1f}" for r in up)
    sooner = ", ".join(f"{r['method']} {seconds(ours) / seconds(r):.1f} x" for r in quick)
    lower = factors([(r, ours) for r in small], "peak")
    ready = factors([(r, ours) for r in early], "start")
    said = [
        f"Better than *{ours['method']}*, in points: {gained or 'no peer'}.",
        f"Quicker, and no worse: {sooner or 'no peer'}.",
        f"A peak lower by a third or more, and no worse: {lower or 'no peer'}.",
        f"A start sooner by a third or more, and no worse: {ready or 'no peer'}.",
    ]
    return " ".join([*said, explained({BETTER: up, QUICKER: quick, LOWER: small, SOONER: early})]).strip()


def factors(pairs: Sequence[tuple[Record, Record]], what: str) -> str:
    """Peers and how many times as much the same of distrf takes; pairs : (peer, ours)."""
    return ", ".join(f"{peer['method']} {ours[what] / peer[what]:.1f} x" for peer, ours in pairs)


def explained(ahead: dict[str, list[Record]]) -> str:
    """Why peers are ahead, {in what: those that are}."""
    known = {kind: reasons([r["method"] for r in who], kind) for kind, who in ahead.items()}
    return " ".join(f"Why {kind}: {text}." for kind, text in known.items() if text)


def crowd(records: list[Record]) -> str:
    """Whether other processes ran beside: wall time over processor time."""
    ratios = [r["wall"] / max(seconds(r), 1e-9) for r in finished(records) if "wall" in r]
    if not ratios:
        return ""
    middle = statistics.median(ratios)
    beside = (
        "other processes ran beside. The times are processor seconds, but caches and clocks were shared"
        if middle > SAME_TIME
        else "next to nothing ran beside"
    )
    return f"Wall time was {middle:.2f} times the processor time (median; {min(ratios):.2f} to {max(ratios):.2f}): {beside}."


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
    wide = bool(where(records, method="Fastfood"))
    text = (
        f"{first['d']} columns, D = {first['D']:,}: processor seconds to the mean of each column of the features, and the relative "
        "error of the kernel matrix of 500 rows, in percent. *Start*: imports, compiling or loading compiled loops, a first go on "
        "600 rows."
    ) + (" Fastfood of scikit-learn-extra has 2 D columns, as it does by default." if wide else "")
    blocks = [text]
    for n in sizes(records):
        rows = []
        for r in by_time(where(records, n=n)):
            name, peer, fit, _, start, peak = cells(r)
            rows.append([name, peer, result(r, percent), fit, start, peak])
        blocks.append(markdown([f"n = {n:,}", "peer", "error %", "seconds", "start s", "peak MiB"], rows))
        blocks.append(ahead_features(where(records, n=n)))
        blocks.append(missing(where(records, n=n), "features"))
    return "\n\n".join(block for block in [*blocks, crowd(records)] if block)


def ahead_features(records: list[Record]) -> str:
    """Peers that are ahead of the same of distrf, with so many rows."""
    both = [(one(records, method=theirs), one(records, method=ours)) for theirs, ours in PARTNERS.items()]
    pairs = [(a, b) for a, b in both if a and b]
    quick = [(a, b) for a, b in pairs if quicker(a, b) > 0]
    small = [(a, b) for a, b in pairs if b["peak"] > FAR * a["peak"]]
    early = [(a, b) for a, b in pairs if b["start"] > FAR * a["start"]]
    times = ", ".join(f"{a['method']} {seconds(b) / seconds(a):.1f} x" for a, b in quick)
    said = [f"Quicker than the same of distrf: {times or 'no peer'}."]
    if any(r["standard_error"] is not None for r in finished(records)):
        exact = [
            f"{a['method']} ({100 * a['mean']:.1f} against {100 * b['mean']:.1f} %)"
            for a, b in pairs
            if b["mean"] - a["mean"] > margin(a, b)
        ]
        said.append(f"A smaller error: {', '.join(exact) or 'no peer'}.")
    said += [
        f"A peak lower by a third or more: {factors(small, 'peak') or 'no peer'}.",
        f"A start sooner by a third or more: {factors(early, 'start') or 'no peer'}.",
    ]
    who = {QUICKER: quick, LOWER: small, SOONER: early}
    return " ".join([*said, explained({kind: [a for a, _ in of] for kind, of in who.items()})]).strip()


#: Why methods of a job are not tried with more rows than `Method.most`.
TOO_MANY = {
    "features": "since they hold all features at once, as *distrf Fourier* and *RBFSampler* do, which were tried",
    "ridge": "since time or memory grows with their square",
}


def missing(records: list[Record], job: str) -> str:
    """Methods of a job that have no record, and why."""
    left = [name for name in JOBS[job] if not where(records, method=name)]
    many = [name for name in left if records[0]["n"] > JOBS[job][name].most]
    rest = [name for name in left if name not in many]
    said = [f"Not tried with so many rows, {TOO_MANY[job]}: {', '.join(many)}."] if many else []
    said += [f"Not measured with so many rows: {', '.join(rest)}."] if rest else []
    return " ".join(said)


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
    return "\n\n".join(block for block in [*blocks, crowd(records)] if block)


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
    return "\n\n".join(block for block in [*blocks, crowd(records)] if block)


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
        blocks.append(ahead_subspace(where(records, n=n)))
        blocks.append(missing(where(records, n=n), "subspace"))
    return "\n\n".join(block for block in [*blocks, crowd(records)] if block)


def ahead_subspace(records: list[Record]) -> str:
    """Peers that are quicker than the finder at as many iterations, whatever their error."""
    quick = []
    for own in finished(where(records, method="distrf TEFM, finder")):
        peers = [r for r in finished(where(records, n_iter=own["n_iter"])) if r["peer"] != "distrf"]
        quick += [(r, own) for r in peers if quicker(r, own) > 0]
    listed = ", ".join(
        f"{r['method']} {seconds(own) / seconds(r):.1f} x ({r['n_iter']} iterations, error {100 * r['mean']:.2g} against "
        f"{100 * own['mean']:.2g} %)"
        for r, own in quick
    )
    said = f"Quicker than *distrf TEFM, finder* at as many iterations: {listed or 'no peer'}."
    return f"{said} {explained({QUICKER: [r for r, _ in quick]})}".strip()
