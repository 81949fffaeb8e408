"""Whether plans are right."""

from __future__ import annotations

import statistics

from benchmarks.benchmark import UNKNOWN, Claim, Record, judged

BAR = 1.5

#: Why a plan says too much or too little of a job, {(job, which): reason}: checked.
TOO_LITTLE, TOO_MUCH = "too little", "too much"
WHY_BYTES: dict[tuple[str, str], str] = {}
_BATCHES = "SGD: the rows of a batch follow from the spectrum of the features, which a plan does not know: it counts on larger batches, and so on fewer"
WHY_SECONDS: dict[tuple[str, str], str] = {
    ("svm", TOO_LITTLE): _BATCHES,
    ("sgd_regressor", TOO_LITTLE): _BATCHES,
    (
        "table",
        TOO_MUCH,
    ): "table: `train` puts the columns of the table beside the features. With so many columns in all it compares penalties on one "
    "part of the rows, where the plan counts all folds",
}


def ratio(r: Record, key: str) -> float:
    """Planned over measured."""
    return float(r[f"planned_{key}"] / r[key])


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    records = found.get("jobs")
    return [] if not records else [claim_below(records), claim_bytes(records), claim_seconds(records)]


def named(records: list[Record], key: str) -> str:
    return ", ".join(f"{r['job'].replace('_', ' ')} {ratio(r, key):.2f}" for r in records)


def claim_below(records: list[Record]) -> Claim:
    """No worker takes more than the plan."""
    beyond = [r for r in records if ratio(r, "bytes") < 1]
    least = min(ratio(r, "bytes") for r in records)
    return Claim(
        "No worker takes more memory than the plan says",
        "planned / measured at least 1",
        f"{least:.2f} to {max(ratio(r, 'bytes') for r in records):.2f} in {len(records)} jobs",
        "does not hold" if beyond else "holds",
        why(beyond, "bytes", WHY_BYTES),
    )


def claim_bytes(records: list[Record]) -> Claim:
    return claim_within("A plan is at most 1.5 times the memory that is taken", records, "bytes", WHY_BYTES)


def claim_seconds(records: list[Record]) -> Claim:
    said = "After calibration, the time of a plan is within a factor of 1.5"
    return claim_within(said, records, "seconds", WHY_SECONDS)


def claim_within(said: str, records: list[Record], key: str, reasons: dict[tuple[str, str], str]) -> Claim:
    beyond = [r for r in records if not 1 / BAR <= ratio(r, key) <= BAR]
    middle = statistics.median(ratio(r, key) for r in records)
    share = len(records) - len(beyond)
    return Claim(
        said,
        f"planned / measured {'at most' if key == 'bytes' else '0.67 to'} 1.5",
        f"{share} of {len(records)} jobs; median {middle:.2f}"
        + (f"; beyond: {named(beyond, key)}" if beyond else ""),
        judged(share, len(records)),
        why(beyond, key, reasons),
    )


def why(beyond: list[Record], key: str, reasons: dict[tuple[str, str], str]) -> str:
    """The reasons of the jobs beyond a bar, each once."""
    if not beyond:
        return ""
    cases = [(r["job"], TOO_LITTLE if ratio(r, key) < 1 else TOO_MUCH) for r in beyond]
    known = dict.fromkeys(reasons[case] for case in cases if case in reasons)
    rest = [case[0].replace("_", " ") for case in cases if case not in reasons]
    return ". ".join([*known, *([f"{UNKNOWN}: {', '.join(rest)}"] if rest else [])])
