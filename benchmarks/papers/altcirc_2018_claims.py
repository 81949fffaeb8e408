"""What became of the claims of Mukuta, Ushiku & Harada (2018)."""

from __future__ import annotations

import itertools
import math

from benchmarks.benchmark import UNKNOWN, Claim, Record, Verdict, exponent, judged, where
from benchmarks.papers.altcirc_2018_theory import claim_precision, claim_theorems, claim_vanishing
from benchmarks.papers.differences import difference

#: Table 5 of the paper: seconds of one row by size d = D.
PAPER_SECONDS: dict[int, dict[str, float]] = {
    1024: {"random": 3.4e-3, "altcirc, 2": 3.6e-4, "altcirc, log2 d": 6.3e-4},
    2048: {"random": 1.5e-2, "altcirc, 2": 3.7e-4, "altcirc, log2 d": 8.5e-4},
    4096: {"random": 6.2e-2, "altcirc, 2": 4.8e-4, "altcirc, log2 d": 1.8e-3},
    8192: {"random": 2.5e-1, "altcirc, 2": 9.6e-4, "altcirc, log2 d": 4.0e-3},
    16384: {"random": 1.0, "altcirc, 2": 1.7e-3, "altcirc, log2 d": 8.6e-3},
}
METHODS = ("random", "circ", "altcirc, 2", "altcirc, log2 d", "gauss", "linear")
#: Tables 2 to 4: accuracies at D = 4 d in the order of METHODS, in percent; Table 2 has no gauss and linear.
PAPER_ACCURACY: dict[str, tuple[float, ...]] = {
    "visual words, CUB": (14.06, 13.77, 14.03, 14.09),
    "visual words, Dogs": (21.02, 21.49, 21.30, 21.22),
    "visual words, Caltech": (34.50, 34.23, 34.51, 34.60),
    "softmax, CUB": (40.91, 37.88, 39.11, 40.91, 23.38, 22.83),
    "softmax, Dogs": (79.22, 79.02, 79.21, 79.18, 78.02, 78.12),
    "softmax, Caltech": (72.25, 70.47, 71.45, 72.01, 58.65, 57.90),
    "activations, CUB": (57.94, 57.68, 57.75, 57.81, 57.75, 56.47),
    "activations, Dogs": (77.20, 77.44, 77.24, 77.20, 76.37, 77.73),
    "activations, Caltech": (77.15, 76.81, 77.16, 77.11, 76.78, 75.50),
}
WORDS, GREY = ("newsgroups20_counts", "sector_counts"), ("usps",)
ORDER = ("random", "altcirc, log2 d", "altcirc, 2", "circ")


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    made: list[Claim | None] = []
    if "figure1" in found:
        made += [claim_order(found["figure1"], a, b) for a, b in itertools.pairwise(ORDER)]
        made += [claim_spread(found["figure1"]), claim_steady(found["figure1"])]
    if "factor" in found:
        made.append(claim_factor(found["factor"]))
    if "theorems" in found:
        made += [claim_theorems(found["theorems"]), claim_vanishing(found["theorems"])]
    if "accuracy" in found:
        made += [claim_like_random(found["accuracy"], name) for name in ("altcirc, log2 d", "altcirc, 2")]
        made += [claim_circ(found["accuracy"])]
        made += [
            claim_above(found["accuracy"], other, *sets)
            for other in ("gauss", "linear")
            for sets in ((WORDS, "word counts"), (GREY, "grey values"))
        ]
    if "scales" in found:
        made.append(claim_scales(found["scales"]))
    if "table5" in found:
        made += claim_table5(found["table5"])
    if "precision" in found:
        made += claim_precision(found["precision"])
    return [claim for claim in made if claim is not None]  # None: records that it compares are missing


def gap(a: Record, b: Record) -> tuple[float, float]:
    """Mean of b less that of a, and the standard error of the difference; nothing is drawn for linear, which has none."""
    known = [r | {"standard_error": 0.0} if r.get("method") == "linear" else r for r in (a, b)]
    return difference(known[1], known[0])


def listed(cases: list[tuple[str, float, float]]) -> str:
    """Cases with their differences and standard errors."""
    return named([f"{case} ({d:+.2f} ± {se:.2f} points)" for case, d, se in cases])


def told_above(gaps: list[tuple[str, float, float]]) -> tuple[Verdict, str]:
    """Verdict and why on "above 0 in all cases", from (case, difference, its standard error)."""
    told = [g for g in gaps if g[1] > 2 * g[2]]
    against = [g for g in gaps if g[1] < -2 * g[2]]
    unclear = [g for g in gaps if g not in told and g not in against]
    why = [f"the other way round: {listed(against)}"] if against else []
    if unclear:
        why.append(f"cannot be told, within two standard errors: {listed(unclear)}")
    if len(told) == len(gaps):
        return "holds", ""
    return ("does not hold" if len(against) > len(told) else "holds in part"), "; ".join(why)


def named(cases: list[str], most: int = 4) -> str:
    """Some of the cases, or how many more there are."""
    return "; ".join(cases[:most]) + (f"; {len(cases) - most} more" if len(cases) > most else "")


def pairs(records: list[Record], key: str, a: str, b: str) -> list[tuple[str, Record, Record]]:
    """(set and D, record of a, record of b) for all sets and D that have both."""
    return [
        (f"{r['set']}, D = {r['D']:,}", r, other)
        for r in where(records, **{key: a})
        for other in where(records, **{key: b}, set=r["set"], D=r["D"])
    ]


# ---- Figure 1 -----------------------------------------------------------------------------------------


def claim_order(records: list[Record], a: str, b: str) -> Claim | None:
    cases = pairs(records, "map", a, b)
    if not cases:
        return None
    gaps = [(case, *(100 * x for x in gap(first, second))) for case, first, second in cases]
    ratios = [second["mean"] / first["mean"] for _, first, second in cases]
    verdict, why = told_above(gaps)
    told, against = (sum(sign * d > 2 * se for _, d, se in gaps) for sign in (1, -1))
    return Claim(
        f"Figure 1: the error of {a} is below that of {b}",
        f"roughly {a} < {b} (a picture, no figures)",
        f"so in {told} of {len(gaps)} cases of set and D, the other way round in {against}; the error of {b} is {min(ratios):.2f} to "
        f"{max(ratios):.2f} times that of {a}",
        verdict,
        why,
    )


def claim_spread(records: list[Record]) -> Claim | None:
    cases = pairs(records, "map", "random", "circ")
    ratios = {case: circ["deviation"] / random["deviation"] for case, random, circ in cases}
    others = [
        circ["deviation"] / r["deviation"] for _, r, circ in pairs(records, "map", "altcirc, log2 d", "circ")
    ]
    if not ratios or not others:
        return None
    # The logarithm of a standard deviation of n normal numbers has the standard error 1 / sqrt(2 (n - 1)).
    least = math.exp(2 / math.sqrt(cases[0][1]["n"] - 1))
    unclear = [f"{case} ({ratio:.1f} x)" for case, ratio in ratios.items() if ratio <= least]
    return Claim(
        "Figure 1: the error of circ differs much between seeds",
        "much larger error, and unstable",
        f"its standard deviation is {min(ratios.values()):.1f} to {max(ratios.values()):.1f} times that of random, "
        f"{min(others):.1f} to {max(others):.1f} times that of altcirc, log2 d",
        judged(len(ratios) - len(unclear), len(ratios)),
        f"no more than {least:.1f} x, which two estimates from so few seeds differ by: {named(unclear)}"
        if unclear
        else "",
    )


def claim_steady(records: list[Record]) -> Claim | None:
    """A set is steady if its error falls at nine of ten doublings, and with an exponent below -0.25."""
    slopes, rest, falls, steps = {}, [], 0, 0
    for name in dict.fromkeys(r["set"] for r in records):
        mine = sorted(where(records, set=name, map="altcirc, log2 d"), key=lambda r: r["D"])
        errors = [r["mean"] for r in mine]
        if len(mine) < 2:
            continue
        slopes[name] = exponent(mine[0]["D"], errors[0], mine[-1]["D"], errors[-1])
        fallen = sum(b < a for a, b in itertools.pairwise(errors))
        falls, steps = falls + fallen, steps + len(errors) - 1
        if not (slopes[name] < -0.25 and fallen >= 0.9 * (len(errors) - 1)):
            rest.append(f"{name} (at {fallen} of {len(errors) - 1} doublings)")
    if not slopes:
        return None
    text = ", ".join(f"{name} {slope:.2f}" for name, slope in slopes.items())
    return Claim(
        "Figure 1: the error of altcirc, log2 d falls steadily as D grows",
        "small and stable (a picture)",
        f"it falls in {falls} of {steps} doublings of D; exponents of D: {text} (-0.5 for independent blocks)",
        judged(len(slopes) - len(rest), len(slopes)),
        f"not on {named(rest)}, with {records[0]['n']} seeds" if rest else "",
    )


def claim_factor(records: list[Record]) -> Claim | None:
    """Of a set: more than 1.5 times the error of random as it is, less than that without the factor and the offset."""
    ratios: dict[str, tuple[float, float]] = {}
    for random in where(records, map="random"):
        for r in where(records, map="circ", set=random["set"]):
            raw, left = (r[what]["mean"] / random[what]["mean"] for what in ("raw", "left"))
            ratios[r["set"]] = raw, left
    if not ratios:
        return None
    raws, lefts = ([pair[i] for pair in ratios.values()] for i in (0, 1))
    rest = [
        f"{name} ({raw:.1f} and {left:.2f})" for name, (raw, left) in ratios.items() if not left < 1.5 < raw
    ]
    return Claim(
        "The error of circ beyond that of random is mostly one factor and one offset for all pairs of rows",
        "not in the paper; why accuracies differ less than errors do",
        f"error of circ over that of random {min(raws):.1f} to {max(raws):.1f}; {min(lefts):.2f} to {max(lefts):.2f} once both kernel matrices are "
        "centred and multiplied by their best factor",
        judged(len(ratios) - len(rest), len(ratios)),
        f"not on {named(rest)}: {UNKNOWN}" if rest else "",
    )


# ---- Tables 2 to 4 ------------------------------------------------------------------------------------


def paper_gaps(name: str, other: str) -> list[float]:
    """Accuracy of `name` less that of `other` in the paper at D = 4 d, for the tables that have both."""
    i, j = METHODS.index(name), METHODS.index(other)
    return [row[i] - row[j] for row in PAPER_ACCURACY.values() if len(row) > max(i, j)]


def said(gaps: list[float]) -> str:
    return f"{min(gaps):+.2f} to {max(gaps):+.2f} points at D = 4 d"


def claim_like_random(records: list[Record], name: str) -> Claim | None:
    gaps = [(case, *gap(random, r)) for case, random, r in pairs(records, "method", "random", name)]
    if not gaps:
        return None
    lost = [g for g in gaps if g[1] < -2 * g[2]]
    gained = sum(d > 2 * se for _, d, se in gaps)
    worst = min(lost or gaps, key=lambda g: g[1])
    near = not lost or worst[1] > -0.5
    return Claim(
        f"Tables 2 to 4: {name} has the accuracy of random",
        said(paper_gaps(name, "random")),
        f"{math.fsum(d for _, d, _ in gaps) / len(gaps):+.2f} points on average over {len(gaps)} cases of set and D; more than two standard errors "
        f"below in {len(lost)}, above in {gained}; {'largest such' if lost else 'largest'} loss {worst[1]:+.2f} ± {worst[2]:.2f} ({worst[0]})",
        "holds" if near else "holds in part" if worst[1] > -2 else "does not hold",
        "" if near else f"less than random by more than two standard errors: {listed(lost)}",
    )


def claim_circ(records: list[Record]) -> Claim | None:
    found = []
    for case, random, r in pairs(records, "method", "random", "circ"):
        if r["D"] == r["d"]:
            found.append((case, *gap(random, r), r["standard_error"] / random["standard_error"]))
    if not found:
        return None
    below = [case for case, d, se, _ in found if d < -2 * se]
    text = "; ".join(
        f"{case}: {d:+.2f} ± {se:.2f} points, standard error {ratio:.1f} x" for case, d, se, ratio in found
    )
    above = [case for case, d, se, _ in found if d > 2 * se]
    ok = len(below) == len(found)
    why = f"better than random on {named(above)}: {UNKNOWN}" if above else ""
    unclear = [case for case, d, se, _ in found if abs(d) <= 2 * se]
    if unclear:
        why += ("; " if why else "") + f"cannot be told: {named(unclear)}"
    return Claim(
        "Tables 2 to 4: with D = d, circ is less accurate than random and unstable",
        "11.20 ± 0.12 and 9.37 ± 0.90 % (visual words, CUB)",
        text,
        "holds" if ok else "holds in part" if below or not above else "does not hold",
        why,
    )


def claim_above(records: list[Record], other: str, sets: tuple[str, ...], kind: str) -> Claim | None:
    gaps = []
    for name in sets:
        mine = where(records, set=name)
        random = sorted(where(mine, method="random"), key=lambda r: r["D"])[-1:]
        peer = sorted(where(mine, method=other), key=lambda r: r["D"])[-1:]
        if random and peer and (other == "linear" or random[0]["D"] == peer[0]["D"]):
            gaps.append((name, *gap(peer[0], random[0])))
    if not gaps:
        return None
    verdict, why = told_above(gaps)
    return Claim(
        f"Tables 3 and 4: Laplace features are more accurate than {other}, {kind}",
        said(paper_gaps("random", other)),
        "points at the largest D: " + ", ".join(f"{name} {d:+.2f} ± {se:.2f}" for name, d, se in gaps),
        verdict,
        why,
    )


def claim_scales(records: list[Record]) -> Claim | None:
    text, gaps = [], []
    for name in dict.fromkeys(r["set"] for r in records):
        random, gauss = (where(records, set=name, method=m) for m in ("random", "gauss"))
        if not random or not gauss:
            continue
        first, second = (max(found, key=lambda r: r["mean"]) for found in (random, gauss))
        gaps.append((name, *gap(second, first)))
        text.append(
            f"{name} {first['mean']:.2f} (x {first['times']:g}) and {second['mean']:.2f} (x {second['times']:g})"
        )
    if not gaps:
        return None
    verdict, why = told_above(gaps)
    return Claim(
        "The semigroup kernel is better than the Gaussian, each at the best multiple of its parameter",
        "not in the paper, which has one parameter for each",
        f"percent at D = 2 d: {'; '.join(text)}",
        verdict,
        why,
    )


# ---- Table 5 ------------------------------------------------------------------------------------------


def claim_table5(records: list[Record]) -> list[Claim | None]:
    last = max(r["d"] for r in records)
    one, block = (sorted(where(records, d=last), key=lambda r: r["rows"])[i] for i in (0, -1))
    made: list[Claim | None] = [claim_speed(name, one, block) for name in ("altcirc, log2 d", "altcirc, 2")]
    return [*made, claim_slower(records), claim_growth(records)]


def claim_speed(name: str, one: Record, block: Record) -> Claim:
    """A structured map against dense weights, for one row and for a block of them."""
    d = one["d"]
    ratio, many = one["random"] / one[name], block["random"] / block[name]
    said = f"Table 5: {name} against random, d = D = {d:,}"
    text = f"{ratio:.0f} x for one row, {many:.0f} x for blocks of {block['rows']}"
    if d not in PAPER_SECONDS:
        return Claim(said, "-", text, "not measured", "the paper has no figure of this size")
    theirs = PAPER_SECONDS[d]
    goal = theirs["random"] / theirs[name]
    ok = ratio >= 0.8 * goal  # else random gained more than this map did: the one is the quotient of the others
    gains = {m: theirs[m] / one[m] for m in ("random", name)}
    speed, slow = (8 * d**2 / seconds / 1e9 for seconds in (one["random"], theirs["random"]))
    return Claim(
        said,
        f"{goal:.0f} x, one row",
        text,
        "holds" if ok else "holds in part" if ratio > 3 else "does not hold",
        ""
        if ok
        else f"random gains more than altcirc from a machine of today: it is {gains['random']:.0f} times as fast as in the paper, "
        f"{name} {gains[name]:.0f} times. A row reads all weights of random once, at {speed:.0f} GB/s (the paper's: {slow:.1f}); a block "
        "shares that",
    )


def claim_slower(records: list[Record]) -> Claim | None:
    ratios = {(r["d"], r["rows"]): r["altcirc, log2 d"] / r["altcirc, 2"] for r in records}
    theirs = [s["altcirc, log2 d"] / s["altcirc, 2"] for s in PAPER_SECONDS.values()]
    fewer = [f"d = {d:,}, {rows} rows: {x:.2f}" for (d, rows), x in ratios.items() if x < 1]
    single = [x for (_, rows), x in ratios.items() if rows == 1]
    block = [x for (_, rows), x in ratios.items() if rows > 1]
    if not single or not block:
        return None
    return Claim(
        "Table 5: log2 d matrices are slower than 2",
        f"{min(theirs):.1f} to {max(theirs):.1f} x",
        f"{min(single):.1f} to {max(single):.1f} x for one row, {min(block):.1f} to {max(block):.1f} x for blocks",
        judged(len(ratios) - len(fewer), len(ratios)),
        f"not at {named(fewer)}" if fewer else "",
    )


def claim_growth(records: list[Record]) -> Claim | None:
    mine = sorted(where(records, rows=max(r["rows"] for r in records)), key=lambda r: r["d"])
    if len(mine) < 2:
        return None
    random, log2, two = (
        exponent(mine[0]["d"], mine[0][name], mine[-1]["d"], mine[-1][name])
        for name in ("random", "altcirc, log2 d", "altcirc, 2")
    )
    held = (random > 1.6) + (log2 < 1.5) + (two < 1.5)
    return Claim(
        "Table 5: random takes D d, altcirc m D log d",
        "exponents 2 and little above 1",
        f"exponents of d, blocks of rows, d = {mine[0]['d']:,} to {mine[-1]['d']:,}: random {random:.2f}, log2 d {log2:.2f}, 2 {two:.2f}",
        judged(held, 3),
        "" if held == 3 else UNKNOWN,
    )
