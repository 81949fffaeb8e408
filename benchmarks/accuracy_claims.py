"""Published figures beside those of the accuracy benchmark, and what follows."""

from __future__ import annotations

import math

from benchmarks.benchmark import UNKNOWN, Claim, Record, Verdict, pm
from benchmarks.papers.rff_2007_claims import PAPER

_ERROR, _SECONDS, _D = PAPER["kddcup99_10pct"]["fourier"]
#: {set: [(who, figure, time)]}.
PUBLISHED: dict[str, tuple[tuple[str, str, str], ...]] = {
    "mnist": (
        ("EigenPro 2, exact Gaussian kernel, 4 epochs", "1.23", "6 s on a GPU"),
        ("20,000 Fourier features (tiskw)", "1.62", ""),
        ("4,096 Fourier features and SVM (tiskw)", "1.86", ""),
        ("1,000 Nystroem features and LinearSVC (scikit-learn)", "2.28", "113"),
        ("1,000 Fourier features and LinearSVC (scikit-learn)", "4.86", "136"),
    ),
    "casp": (
        ("xGPR, 8,192 Fourier features", "3.03", "3 s on a GPU"),
        ("xGPR, 32,768 Fourier features", "2.96", "10 s on a GPU"),
        ("xGPR, tuned", "2.87", "354 s on a GPU"),
    ),
    "kddcup99_10pct": (
        (f"{_D} Fourier features, 4.9 million rows (Rahimi & Recht 2007)", f"{_ERROR}", f"{_SECONDS}"),
    ),
}
#: What is known of a method that has less error than ours, {(set, method): reason}.
KNOWN = {
    (
        "letter",
        "SVC, exact kernel",
    ): "an exact kernel has no error of random features; whether the hinge loss helps too was not looked into",
}
#: The goal for MNIST: percent, and processor seconds.
GOAL, SECONDS = 1.6, 600.0


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    made = []
    if "mnist" in found:
        made += [claim_mnist(found["mnist"]), claim_features(found["mnist"])]
    if "casp" in found:
        made.append(claim_casp(found["casp"], "xGPR with 8,192 Fourier features", 3.03))
        made.append(claim_casp(found["casp"], "tuned xGPR, the least that we know of", 2.87))
    for part in ("letter", "covtype", "kddcup"):
        made += claim_best(found[part]) if found.get(part) else []
    if "kddcup" in found:
        made.append(claim_kddcup(found["kddcup"]))
    return made


def sampling(r: Record) -> float:
    """The standard error of a percentage over test rows, and over seeds where it is larger."""
    share = r["mean"] / 100
    return max(100 * math.sqrt(share * (1 - share) / r["test"]), r["standard_error"] or 0.0)


def told(r: Record, bar: float) -> tuple[Verdict, str]:
    """Whether the error is at most the bar; with the reason where it is not, or cannot be told."""
    error = sampling(r)
    if r["mean"] > bar + 2 * error:
        return "does not hold", f"above by {r['mean'] - bar:.2f}, at a standard error of {error:.2f}"
    if r["mean"] > bar:
        return (
            "holds in part",
            f"it cannot be told: above by less than two standard errors of {error:.2f} (test rows)",
        )
    return "holds", ""


def claim_mnist(records: list[Record]) -> Claim:
    """The best of the models that are quick enough."""
    quick = [r for r in records if r["fit"] <= SECONDS]
    best = min(quick or records, key=lambda r: r["mean"])
    verdict, why = told(best, GOAL) if quick else ("does not hold", "no model was trained in that time")
    return Claim(
        "MNIST: the error of a kernel machine on plain pixels after ten minutes of one core",
        f"{GOAL} % is the goal; the exact Gaussian kernel has 1.2 to 1.4 %",
        f"{pm(best)} % ({best['model']}), {best['fit']:.0f} processor seconds",
        verdict, why,
    )  # fmt: skip


def claim_features(records: list[Record]) -> Claim:
    """Against the published 20,000 features."""
    few = [r for r in records if r["D"] <= 20_000]
    best = min(few or records, key=lambda r: r["mean"])
    verdict, why = told(best, 1.62)
    return Claim(
        "MNIST: the error of 20,000 Fourier features", "1.62 %", f"{pm(best)} % ({best['model']})", verdict, why
    )


def claim_casp(records: list[Record], said: str, bar: float) -> Claim:
    """The most accurate of ours beside a published mean absolute error, in Angstrom."""
    best = least(records)
    ok = best["mean"] <= bar
    return Claim(
        f"CASP: the error of {said}",
        f"{bar} Å, of another split",
        f"{pm(best, 3)} Å ({best['model']})",
        "holds" if ok else "does not hold",
        "" if ok else f"above by {best['mean'] - bar:.2f}",
    )


def least(records: list[Record]) -> Record:
    """The most accurate of ours."""
    return min((r for r in records if "D" in r), key=lambda r: r["mean"])


def took(r: Record) -> str:
    return f"{pm(r)} % ({r['model']}), {r['fit']:.{1 if r['fit'] < 10 else 0}f} s"


def claim_best(records: list[Record]) -> list[Claim]:
    """The most accurate of ours beside the most accurate of the other methods on the page."""
    others = [r for r in records if "D" not in r]
    if not others:
        return []
    own, peer = least(records), min(others, key=lambda r: r["mean"])
    gap, error = own["mean"] - peer["mean"], math.hypot(sampling(own), sampling(peer))
    verdict: Verdict = "holds" if gap <= 0 else "holds in part" if gap <= 2 * error else "does not hold"
    why = f"above by {gap:.2f}, at a standard error of {error:.2f} (test rows)"
    if verdict == "does not hold":
        why += f": {KNOWN.get((own['set'], peer['model']), UNKNOWN)}"
    text = f"{own['set']}: no more error than the best of the other methods on the page"
    return [Claim(text, took(peer), took(own), verdict, "" if gap <= 0 else why)]


def claim_kddcup(records: list[Record]) -> Claim:
    """Beside the published figure of Fourier features."""
    best = least(records)
    verdict, why = told(best, _ERROR)
    return Claim(
        f"{best['set']}: the error of {_D} Fourier features of Rahimi & Recht (2007)",
        f"{_ERROR} %, of ten times the training rows",
        took(best),
        verdict,
        why,
    )
