"""What became of Table 1 and Claim 1 of Rahimi & Recht (2007)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.benchmark import Claim, Record, Verdict, one, pm, where

#: Table 1: error in percent, seconds, and D or P.
PAPER: dict[str, dict[str, tuple[Any, ...]]] = {
    "cpu_act": {"fourier": (3.6, 20, 300), "binning": (5.3, 180, 350), "exact": (11, 31)},
    "census_house_16h": {"fourier": (5, 36, 500), "binning": (7.5, 1140, 30), "exact": (9, 780)},
    "a9a": {"fourier": (14.9, 9, 500), "binning": (15.3, 90, 30), "exact": (15.1, 420)},
    "covtype_sample": {"fourier": (11.6, 4260, 5000), "binning": (2.2, 1500, 50), "exact": (2.2, 158_400)},
    "kddcup99_10pct": {"fourier": (7.3, 90, 50), "binning": (7.3, 2100, 10), "exact": (8.3, 1)},
}
TITLES = {
    "cpu_act": "CPU",
    "census_house_16h": "Census",
    "a9a": "Adult",
    "covtype_sample": "Forest",
    "kddcup99_10pct": "KDDCUP99",
}
#: Features and their kernels.
LABELS = {"fourier": "Fourier, Gaussian", "fourier-laplacian": "Fourier, Laplacian", "binning": "binning"}
#: Training rows of Forest in the paper.
FOREST_ROWS = 522_000


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    table, exact = found.get("table1", []), found.get("exact", [])
    made = [near(name, table, found.get("rows", [])) for name in PAPER if both(table, name)]
    made += [smooth(name, table, exact) for name in ("cpu_act", "census_house_16h", "a9a") if both(table, name)]
    if both(table, "covtype_sample"):
        made.append(forest(table))
    made += because(found.get("equal_time", []), exact)
    made += faster(table, exact)
    if where(table, method="binning"):
        made += slower(table)
    if found.get("convergence"):
        made += kernel_errors(found["convergence"])
    return made


def both(records: list[Record], name: str) -> tuple[Record, Record] | None:
    """Fourier features of the Gaussian kernel, and binning, of a set."""
    fourier, binning = (one(records, set=name, method=m) for m in ("fourier", "binning"))
    return (fourier, binning) if fourier and binning else None


def difference(a: Record, b: Record) -> tuple[float, float]:
    """a - b, and its standard error."""
    return a["mean"] - b["mean"], math.hypot(a["standard_error"] or 0.0, b["standard_error"] or 0.0)


# ---- Table 1: errors ----------------------------------------------------------------------------------


def near(name: str, table: list[Record], rows: list[Record]) -> Claim:
    """Whether both errors are the paper's or less, to a tenth of it and two standard errors."""
    pair = both(table, name)
    assert pair is not None
    theirs = [PAPER[name][m][0] for m in ("fourier", "binning")]
    good = [r["mean"] - 2 * (r["standard_error"] or 0.0) <= 1.1 * t for r, t in zip(pair, theirs, strict=True)]
    verdict: Verdict = "holds" if all(good) else "holds in part" if any(good) else "does not hold"
    why = ""
    if not all(good) and name == "census_house_16h":
        verdict = "not measured"  # ours are figures of another table
        why = "these are 16 columns of the census, not 119, and another target: the figures cannot be compared"
    elif not all(good) and name == "covtype_sample":
        why = f"{pair[0]['rows']:,} training rows, not {FOREST_ROWS:,}" + of_rows(rows)
    elif not all(good):
        missed = " and ".join(n for n, ok in zip(("Fourier", "binning"), good, strict=True) if not ok)
        why = f"the error of {missed} is larger by more than a tenth; scaling, split and alpha of the paper are not known"
    return Claim(
        f"Table 1, {TITLES[name]}: test errors of least squares on Fourier and binning features",
        f"{theirs[0]:g} and {theirs[1]:g} %",
        f"{pm(pair[0])} and {pm(pair[1])} %",
        verdict,
        why,
    )


def of_rows(rows: list[Record]) -> str:
    """What twice the rows do to the error of binning."""
    mine = sorted(where(rows, method="binning"), key=lambda r: r["rows"])
    if len(mine) < 2:
        return ""
    doublings = math.log2(mine[-1]["rows"] / mine[0]["rows"])
    kept = (mine[-1]["mean"] / mine[0]["mean"]) ** (1 / doublings)
    return (
        f". From {mine[0]['rows']:,} to {mine[-1]['rows']:,} rows, each doubling takes {100 * (1 - kept):.0f} % off the error of binning, "
        f"and the paper has {math.log2(FOREST_ROWS / mine[-1]['rows']):.1f} doublings more"
    )


def smooth(name: str, table: list[Record], exact: list[Record]) -> Claim:
    """Where the paper finds Fourier features better."""
    pair = both(table, name)
    assert pair is not None
    gap, error = difference(pair[1], pair[0])
    verdict: Verdict = "holds" if gap > 2 * error else "does not hold"
    why = ""
    if abs(gap) <= 2 * error:
        verdict, why = "holds in part", "it cannot be told: the difference is within two standard errors"
    elif gap < 0:
        why = "binning has the smaller error" + of_kernels(name, table, exact)
    theirs = [PAPER[name][m][0] for m in ("fourier", "binning")]
    return Claim(
        f"Table 1, {TITLES[name]}: Fourier features beat binning",
        f"by {theirs[1] - theirs[0]:.1f} points",
        f"by {gap:.2f} ± {error:.2f} points",
        verdict,
        why,
    )


def of_kernels(name: str, table: list[Record], exact: list[Record]) -> str:
    """What the two kernels do on a set without sampling, and what sampling adds."""
    gaussian, laplacian = (one(exact, set=name, method=f"ridge-{k}") for k in ("gaussian", "laplacian"))
    text = ""
    if gaussian and laplacian:
        text += (
            f". Exact kernel ridge has {gaussian['error']:.2f} % with the Gaussian and {laplacian['error']:.2f} % with the Laplacian "
            "kernel"
        )
    middle = one(table, set=name, method="fourier-laplacian")
    if middle:
        text += f"; Fourier features of the Laplacian kernel have {pm(middle)} %"
    return text


def forest(table: list[Record]) -> Claim:
    pair = both(table, "covtype_sample")
    assert pair is not None
    gap, error = difference(*pair)
    sure = abs(gap) > 2 * error
    why = "" if sure else "it cannot be told: the difference is within two standard errors"
    if sure and gap < 0:
        why = "with the D of the paper Fourier features have the smaller error on these rows, which are fewer"
    elif sure and gap < 0.5 * pair[0]["mean"]:
        why = (
            f"by a factor of {pair[0]['mean'] / pair[1]['mean']:.2f}, not of 5, on these rows, which are fewer"
        )
    return Claim(
        "Table 1, Forest: binning beats Fourier features",
        "2.2 against 11.6 %",
        f"{pm(pair[1])} against {pm(pair[0])} %, in {pair[1]['seconds']:.1f} and {pair[0]['seconds']:.1f} s",
        "does not hold" if sure and gap < 0 else "holds in part" if why else "holds",
        why,
    )


# ---- why binning wins on Forest -----------------------------------------------------------------------


def at_equal_time(records: list[Record], binning: Record, method: str) -> Record | None:
    """The best run of a method that took no longer than this run of binning."""
    within = [r for r in where(records, method=method) if r["seconds"] <= binning["seconds"]]
    return min(within, key=lambda r: r["mean"], default=None)


def because(records: list[Record], exact: list[Record]) -> list[Claim]:
    """Binning at equal time, and how much of it is the kernel."""
    compared = [
        (r, *(at_equal_time(records, r, m) for m in ("fourier", "fourier-laplacian")))
        for r in sorted(where(records, method="binning"), key=lambda r: r["size"])
    ]
    compared = [row for row in compared if None not in row]
    if not compared:
        return []
    binning, gaussian, laplacian = compared[-1]
    assert gaussian is not None
    assert laplacian is not None
    (gap, error), (rest, _) = difference(gaussian, binning), difference(laplacian, binning)
    text = (
        f"{pm(binning)} % in {binning['seconds']:.1f} s; Fourier features {pm(gaussian)} % (Gaussian kernel) and {pm(laplacian)} % "
        "(Laplacian) in no more"
    )
    better = gap > 2 * error
    made = [
        Claim(
            "Forest: binning beats Fourier features at equal time", "2.2 against 11.6 %, in a third of the time", text,
            "holds" if better else "does not hold" if gap < -2 * error else "holds in part",
            "" if better else "the difference is within two standard errors" if abs(gap) <= 2 * error else "Fourier features win",
        )
    ]  # fmt: skip
    if not better:
        return made
    share, closed = 1 - rest / gap, difference(gaussian, laplacian)
    alone = [one(exact, set="covtype_sample", method=f"ridge-{k}") for k in ("gaussian", "laplacian")]
    known, helps = "", False
    if alone[0] and alone[1]:
        g, l1 = alone[0]["error"], alone[1]["error"]
        known, helps = (
            f"; exact kernel ridge on {alone[0]['rows']:,} rows: {g:.2f} % Gaussian, {l1:.2f} % Laplacian",
            l1 < g,
        )
    why = (
        ("the exact kernel is the better one, but " if helps else "")
        + f"the {laplacian['size']:,} Fourier features that fit into the time are too few to bring it out; binning has "
        f"{binning['columns']:,} columns then, of which a row has {binning['size']} entries"
    )
    made.append(
        Claim(
            "Forest: the reason is that the kernel of binning is the Laplacian one", "not measured",
            f"Fourier features of that kernel close {closed[0]:.2f} ± {closed[1]:.2f} of the {gap:.2f} points at equal time{known}",
            "holds" if share > 0.75 else "holds in part" if share > 0.1 or helps else "does not hold",
            "" if share > 0.75 else why,
        )
    )  # fmt: skip
    return made


# ---- times --------------------------------------------------------------------------------------------


def short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def faster(table: list[Record], exact: list[Record]) -> list[Claim]:
    """Fourier features against the exact method, whose seconds are carried on to as many rows by their square."""
    text, theirs, fast, more = [], [], [], ""
    for name in PAPER:
        fourier = one(table, set=name, method="fourier")
        rival = one(exact, set=name, method="SVM") or one(exact, set=name, method="ridge-gaussian")
        if not fourier or not rival or name == "kddcup99_10pct":
            continue
        seconds = rival["seconds"] * (fourier["rows"] / rival["rows"]) ** 2
        ratio, paper = seconds / fourier["seconds"], PAPER[name]["exact"][1] / PAPER[name]["fourier"][1]
        fast.append((ratio > 1, ratio >= paper))
        theirs.append(f"{TITLES[name]} {short(paper)}")
        text.append(f"{TITLES[name]} {short(ratio)}")
        if name == "covtype_sample" and ratio < paper:
            there = ratio * FOREST_ROWS / fourier["rows"]
            more = f"; on Forest the factor grows with the rows, to {short(there)} at those of the paper"
    if not text:
        return []
    as_said = all(f[1] for f in fast)
    return [
        Claim(
            "Table 1: least squares on Fourier features trains faster than the exact method, by a factor",
            ", ".join(theirs),
            ", ".join(text) + " (exact seconds carried on to all rows as n²)",
            "holds" if as_said else "holds in part" if any(f[0] for f in fast) else "does not hold",
            "" if as_said else "the factor is smaller on some sets" + more,
        )
    ]  # fmt: skip


def slower(table: list[Record]) -> list[Claim]:
    """Binning takes longer than Fourier features, but on Forest."""
    text, theirs, agree = [], [], []
    for name in PAPER:
        pair = both(table, name)
        if not pair:
            continue
        ratio, paper = (
            pair[1]["seconds"] / pair[0]["seconds"],
            PAPER[name]["binning"][1] / PAPER[name]["fourier"][1],
        )
        agree.append((ratio > 1) == (paper > 1))
        text.append(f"{TITLES[name]} {short(ratio)}")
        theirs.append(f"{TITLES[name]} {short(paper)}")
    if not agree:
        return []
    return [
        Claim(
            "Table 1: seconds of binning over those of Fourier features",
            ", ".join(theirs),
            ", ".join(text),
            "holds" if all(agree) else "holds in part" if any(agree) else "does not hold",
            "" if all(agree) else "the order is another on some sets: here ridge multiplies only the P entries of a row",
        )
    ]  # fmt: skip


# ---- Claim 1 ------------------------------------------------------------------------------------------


def kernel_errors(records: list[Record]) -> list[Claim]:
    """The rate, the exact variances, and the bound of Claim 1."""
    slopes = {}
    for method in dict.fromkeys(r["method"] for r in records):
        mine = where(records, method=method)
        if len(mine) > 1:
            slopes[method] = float(
                np.polyfit(np.log([r["size"] for r in mine]), np.log([r["rms"] for r in mine]), 1)[0]
            )
    off = max(abs(r["ratio"]["mean"] - 1) / (r["ratio"]["standard_error"] or 1.0) for r in records)
    rate = off < 4 and all(abs(s + 0.5) < 0.05 for s in slopes.values())
    made = [
        Claim(
            "The error of the kernel sinks as one over the root of D, or of P", "power -0.5",
            "; ".join(f"{s:.2f} ({LABELS[m]})" for m, s in slopes.items())
            + f"; mean squares are those of the variance within {off:.1f} standard errors",
            "holds" if rate else "holds in part", "" if rate else "too few sizes or draws to show it",
        )
    ]  # fmt: skip
    known = [r for r in records if r["bound"] is not None]
    over = max((r["most"] / r["bound"] for r in known), default=0.0)
    loose = [r["bound"] / r["largest"]["mean"] for r in known]
    if known:
        made.append(
            Claim(
                "Claim 1: the largest error exceeds the bound in half of the draws at most",
                "bound at probability 1/2",
                f"the bound is {min(loose):.1f} to {max(loose):.1f} times the mean largest error, {1 / over:.1f} times the largest of all draws",
                "holds" if over < 1 else "does not hold",
                "" if over < 1 else "a draw exceeds it",
            )
        )
    return made
