"""Published figures beside those of the accuracy benchmark, and what follows."""

from __future__ import annotations

import math

from benchmarks.benchmark import Claim, Record, Verdict, pm

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
    best = min((r for r in records if "D" in r), key=lambda r: r["mean"])
    ok = best["mean"] <= bar
    return Claim(
        f"CASP: the error of {said}",
        f"{bar} Å",
        f"{pm(best, 3)} Å ({best['model']})",
        "holds" if ok else "does not hold",
        "" if ok else f"above by {best['mean'] - bar:.2f}; the split is another",
    )
