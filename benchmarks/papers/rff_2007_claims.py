"""What became of Table 1 and Claim 1 of Rahimi & Recht (2007)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.benchmark import UNKNOWN, Claim, Record, Verdict, judged, one, pm, spread, where
from benchmarks.papers.differences import beyond, difference, error_of

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
#: Training rows of Forest in the paper, and test rows of ours.
FOREST_ROWS, FOREST_TEST = 522_000, 8_769
#: An error agrees with the paper's if it is at most so many times as large, less two standard errors.
AGREES = 1.1
#: Sets of other columns and another target than the paper's.
OTHERS = {
    "census_house_16h": "these are 16 columns of the census, not 119, and another target: errors cannot be compared"
}


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    table, exact = found.get("table1", []), found.get("exact", [])
    made = [near(name, table, found.get("rows", [])) for name in PAPER if both(table, name)]
    made += [smooth(name, table, exact) for name in ("cpu_act", "census_house_16h", "a9a") if both(table, name)]
    if both(table, "covtype_sample"):
        made.append(forest(table))
    if found.get("equal_time"):
        made += equal_time(found["equal_time"], table) + kernel_of_binning(found["equal_time"], exact)
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


# ---- Table 1: errors ----------------------------------------------------------------------------------


def near(name: str, table: list[Record], rows: list[Record]) -> Claim:
    """Whether both errors are the paper's or less, to a tenth of it and two standard errors."""
    pair = both(table, name)
    assert pair is not None
    theirs = [PAPER[name][m][0] for m in ("fourier", "binning")]
    good = [
        r["mean"] - 2 * (r["standard_error"] or 0.0) <= AGREES * t for r, t in zip(pair, theirs, strict=True)
    ]
    verdict = judged(sum(good), len(good))
    if name in OTHERS:
        verdict, why = "not measured", OTHERS[name]
    elif all(good):
        why = larger(pair, theirs)
    elif name == "covtype_sample":
        why = f"{pair[0]['rows']:,} training rows, not {FOREST_ROWS:,}" + of_rows(rows)
    else:
        missed = " and ".join(n for n, ok in zip(("Fourier", "binning"), good, strict=True) if not ok)
        why = f"the error of {missed} is larger by more than a tenth; scaling, split and alpha of the paper are not known"
    return Claim(
        f"Table 1, {TITLES[name]}: test errors of least squares on Fourier and binning features",
        f"{theirs[0]:g} and {theirs[1]:g} %",
        f"{pm(pair[0])} and {pm(pair[1])} %",
        verdict,
        why,
    )


def larger(pair: tuple[Record, Record], theirs: list[float]) -> str:
    """By how much errors that agree are above the paper's, and by how much they may be."""
    text = []
    for method, r, t in zip(("Fourier", "binning"), pair, theirs, strict=True):
        more, allowed = r["mean"] - t, (AGREES - 1) * t
        if more > 0:
            less = "" if more <= allowed else ", less two standard errors"
            text.append(f"{method} by {more:.2f} points (at most {allowed:.2f}{less})")
    return f"above the paper's, within the rule of a tenth: {', '.join(text)}" if text else ""


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
    sure = abs(gap) > 2 * error
    verdict: Verdict = "holds in part" if not sure else "holds" if gap > 0 else "does not hold"
    why = "" if sure else "it cannot be told: the difference is within two standard errors"
    if name in OTHERS:
        verdict, why = "not measured", OTHERS[name]
    elif sure and gap < 0:
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


# ---- Forest at equal time -----------------------------------------------------------------------------


def at_seconds(curve: list[Record], seconds: float) -> Record | None:
    """A curve of runs at some seconds, {"mean", "standard_error"}: between two runs, along lines of logarithms.

    None before the first run and after the last.
    """
    runs = sorted(curve, key=lambda r: r["seconds"])
    for a, b in pairwise(runs):
        if a["seconds"] <= seconds <= b["seconds"]:
            t = math.log(seconds / a["seconds"]) / math.log(b["seconds"] / a["seconds"])
            mean = a["mean"] ** (1 - t) * b["mean"] ** t
            relative = [share * error_of(r) / r["mean"] for share, r in ((1 - t, a), (t, b))]
            return {"mean": mean, "standard_error": mean * math.hypot(*relative)}
    return None


def equal_time(records: list[Record], table: list[Record]) -> list[Claim]:
    """Binning against Fourier features of the Gaussian kernel at the seconds of each run of binning."""
    curve = where(records, method="fourier")
    if curve:  # the largest D has more seconds than any other
        curve = curve + where(table, set="covtype_sample", method="fourier", rows=curve[0]["rows"])
    compared = []
    for r in sorted(where(records, method="binning"), key=lambda r: r["seconds"]):
        if rival := at_seconds(curve, r["seconds"]):
            compared.append((r, rival))
    if not compared:
        return []
    won = [r for r, rival in compared if beyond(rival, r) > 2]
    lost = [f"P = {r['size']}" for r, rival in compared if beyond(r, rival) > 2]
    alike = [f"P = {r['size']}" for r, rival in compared if not abs(beyond(r, rival)) > 2]
    why = [f"Fourier features have less error at {', '.join(lost)}"] if lost else []
    why += [f"within two standard errors at {', '.join(alike)}"] if alike else []
    return [
        Claim(
            "Forest: binning beats Fourier features at equal time",
            "2.2 against 11.6 %, in a third of the time",
            f"binning and, between their runs of up to D = {max(r['size'] for r in curve):,}, Fourier features: "
            + "; ".join(
                f"P = {r['size']}, {r['seconds']:.1f} s, {pm(r)} and {pm(rival)} %" for r, rival in compared
            ),
            judged(len(won), len(compared)),
            "; ".join(why) + crossing(compared) if why else "",
        )
    ]


def crossing(compared: list[tuple[Record, Record]]) -> str:
    """From how many seconds on binning has less error, if it has at the end but not at the start."""
    gaps = [math.log(r["mean"] / rival["mean"]) for r, rival in compared]
    above = [i for i, gap in enumerate(gaps) if gap >= 0]
    if not above or above[-1] + 1 == len(gaps):
        return ""
    i = above[-1]
    before, after = (compared[j][0]["seconds"] for j in (i, i + 1))
    seconds = before * (after / before) ** (gaps[i] / (gaps[i] - gaps[i + 1]))
    return f"; binning has the smaller mean from about {seconds:.1f} s on"


def kernel_of_binning(records: list[Record], exact: list[Record]) -> list[Claim]:
    """Whether Fourier features gain by the kernel of binning, and whether exact methods do."""
    kinds = ("fourier", "fourier-laplacian")
    sizes = sorted({r["size"] for r in records if r["method"] in kinds})
    pairs = [[one(records, method=m, size=D) for m in kinds] for D in sizes]
    known = [(gaussian, laplacian) for gaussian, laplacian in pairs if gaussian and laplacian]
    binning = [r for r in where(records, method="binning") if known and r["seconds"] >= known[-1][0]["seconds"]]
    if not binning:
        return []
    gaussian, laplacian = known[-1]
    best = min(binning, key=lambda r: r["mean"])
    gain, error = difference(gaussian, laplacian)
    told, better = gain > 2 * error, sum(beyond(g, k) > 2 for g, k in known)
    text, decides, undecided = exact_kernels(exact)
    verdict: Verdict
    if not beyond(gaussian, best) > 2:  # an advantage that is not there has no kernel to thank
        verdict = "not measured"
        why = f"binning is no better here: {pm(best)} %, and {gaussian['size']:,} Fourier features have {pm(gaussian)} %"
    elif told and gain > 0.75 * (gaussian["mean"] - best["mean"]):
        verdict, why = "holds", ""
    elif told:
        verdict, why = "holds in part", "the kernel alone explains a part of the difference"
    elif decides:
        verdict, why = "holds in part", "the better kernel shows without sampling only"
    else:
        verdict = "does not hold"
        why = f"at these widths Fourier features gain nothing by the kernel{undecided}"
    return [
        Claim(
            "Forest: binning is better because its kernel is the Laplacian one",
            "not in the paper",
            f"with the Laplacian kernel, {laplacian['size']:,} Fourier features are {abs(gain):.2f} ± {error:.2f} points "
            + ("better" if gain > 0 else "worse, not better,")
            + f" than with the Gaussian one; better by two standard errors at {better} of {len(known)} sizes{text}",
            verdict,
            why,
        )
    ]


def exact_kernels(exact: list[Record]) -> tuple[str, bool, str]:
    """Errors of exact methods on Forest in words; whether the Laplacian kernel is better in all of them; and if not, how."""
    found = {
        m: one(exact, set="covtype_sample", method=m) for m in ("ridge-laplacian", "ridge-gaussian", "SVM")
    }
    laplacian, gaussian, svm = found.values()
    if not laplacian or not gaussian:
        return "", False, ""
    text = f". Exact kernel ridge, {gaussian['rows']:,} rows: {laplacian['error']:.2f} % Laplacian, {gaussian['error']:.2f} % Gaussian"
    if svm:
        text += f"; SVM, {svm['rows']:,} rows: {svm['error']:.2f} % Gaussian"

    def loses(rival: Record) -> bool:
        return beyond(spread([rival["error"]]), spread([laplacian["error"]]), FOREST_TEST) > 2

    if not loses(gaussian):
        return text, False, ", and exact kernel ridge does not either"
    if svm and not loses(svm):
        return text, False, ". Exact kernel ridge does, but is no better than an SVM of the Gaussian kernel"
    return text, True, ""


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
    as_said, verdict = all(f[1] for f in fast), judged(sum(f[0] for f in fast), len(fast))
    return [
        Claim(
            "Table 1: least squares on Fourier features trains faster than the exact method, by a factor",
            ", ".join(theirs),
            ", ".join(text) + " (exact seconds carried on to all rows as n²)",
            "holds in part" if verdict == "holds" and not as_said else verdict,
            "" if as_said else "the factor is smaller on some sets" + more,
        )
    ]  # fmt: skip


def slower(table: list[Record]) -> list[Claim]:
    """Binning takes longer than Fourier features, but on Forest."""
    text, theirs, agree, quicker = [], [], [], True
    for name in PAPER:
        pair = both(table, name)
        if not pair:
            continue
        ratio, paper = (
            pair[1]["seconds"] / pair[0]["seconds"],
            PAPER[name]["binning"][1] / PAPER[name]["fourier"][1],
        )
        agree.append((ratio > 1) == (paper > 1))
        quicker &= agree[-1] or ratio <= 1
        text.append(f"{TITLES[name]} {short(ratio)}")
        theirs.append(f"{TITLES[name]} {short(paper)}")
    if not agree:
        return []
    return [
        Claim(
            "Table 1: seconds of binning over those of Fourier features",
            ", ".join(theirs),
            ", ".join(text),
            judged(sum(agree), len(agree)),
            ""
            if all(agree)
            else "the order is another on some sets: "
            + ("here ridge multiplies only the P entries of a row of binning" if quicker else UNKNOWN),
        )
    ]  # fmt: skip


# ---- Claim 1 ------------------------------------------------------------------------------------------


def kernel_errors(records: list[Record]) -> list[Claim]:
    """The rate, the exact variances, and the bound of Claim 1."""
    made = []
    slopes, off = {}, {}
    for method in dict.fromkeys(r["method"] for r in records):
        mine = where(records, method=method)
        if len(mine) > 1:
            sizes, errors = ([r[name] for r in mine] for name in ("size", "rms"))
            slopes[method] = float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
            off[method] = max(abs(r["ratio"]["mean"] - 1) / (error_of(r["ratio"]) or 1.0) for r in mine)
    missed = [m for m in slopes if not (abs(slopes[m] + 0.5) < 0.05 and off[m] < 4)]
    if slopes:
        made.append(
            Claim(
                "The error of the kernel sinks as one over the root of D, or of P", "power -0.5",
                "; ".join(f"{s:.2f} ({LABELS[m]})" for m, s in slopes.items())
                + f"; mean squares are those of the variance within {max(off.values()):.1f} standard errors",
                judged(len(slopes) - len(missed), len(slopes)),
                f"not {', '.join(LABELS[m] for m in missed)}: {UNKNOWN}" if missed else "",
            )
        )  # fmt: skip
    return made + bound_of_claim1([r for r in records if r["bound"] is not None])


def bound_of_claim1(known: list[Record]) -> list[Claim]:
    """The largest error of any draw, and the mean over draws, against the bound that half of them may exceed."""
    if not known:
        return []
    over = max(r["most"] / r["bound"] for r in known)
    loose = [r["bound"] / r["largest"]["mean"] for r in known]
    return [
        Claim(
            "Claim 1: the largest error exceeds the bound in half of the draws at most",
            "bound at probability 1/2",
            f"the bound is {min(loose):.1f} to {max(loose):.1f} times the mean largest error, {1 / over:.1f} times the largest of all draws",
            "holds" if over < 1 else "holds in part" if min(loose) > 1 else "does not hold",
            ""
            if over < 1
            else "some draws exceed it, by how many is not recorded; their mean is below it"
            if min(loose) > 1
            else "the mean of the draws exceeds it",
        )
    ]
