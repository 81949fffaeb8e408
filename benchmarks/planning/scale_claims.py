"""Whether time and memory grow as they should."""

from __future__ import annotations

import statistics

from benchmarks.benchmark import MIB, UNKNOWN, Claim, Record, exponent, judged, where
from benchmarks.planning.plan_claims import BAR, ratio


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    made: list[Claim] = []
    if "rows" in found:
        made += [claim_memory(found["rows"]), claim_rows(found["rows"])]
    if len(found.get("workers", [])) == 2:
        made.append(claim_two(*found["workers"]))
    for job in dict.fromkeys(r["job"] for r in found.get("features", [])):
        made.append(claim_features(job, where(found["features"], job=job)))
    planned = [r for part in ("rows", "workers", "features") for r in found.get(part, [])]
    if planned:
        made.append(claim_plan(planned))
    if "overhead" in found:
        made.append(claim_overhead(found["overhead"]))
    if "cluster" in found:
        made.append(claim_model(found["cluster"], found.get("model", [])))
    return made


def claim_memory(records: list[Record]) -> Claim:
    """Memory against rows."""
    first, last = records[0], records[-1]
    growth = last["bytes"] / first["bytes"]
    return Claim(
        "The memory of a worker does not grow with the rows",
        "at most 1.1 times",
        f"{first['bytes'] / MIB:.0f} MiB for {first['rows']:,} rows, {last['bytes'] / MIB:.0f} MiB for {last['rows']:,}: {growth:.2f} times",
        "holds" if growth <= 1.1 else "does not hold",
        "" if growth <= 1.1 else f"the plan says at most {last['planned_bytes'] / MIB:.0f} MiB",
    )


def claim_rows(records: list[Record]) -> Claim:
    """Time against rows, of the two longest jobs: beyond the seconds in which workers import and compile."""
    last = records[-2:]
    slope = exponent(last[0]["rows"], last[0]["seconds"], last[1]["rows"], last[1]["seconds"])
    good = 0.85 <= slope <= 1.1
    return Claim(
        "Time is linear in the rows",
        "exponent 1",
        f"{slope:.2f} from {last[0]['rows']:,} to {last[1]['rows']:,} rows: {last[0]['seconds']:.1f} and {last[1]['seconds']:.1f} s",
        "holds" if good else "does not hold",
        ""
        if good
        else UNKNOWN
        if slope > 1
        else "the seconds in which a worker imports and compiles weigh in the shorter job",
    )


def claim_two(one: Record, two: Record) -> Claim:
    """Two workers share the work and give the same bits."""
    share, same = two["worker"] / one["worker"], one["bits"] == two["bits"]
    good = same and share <= 0.6
    return Claim(
        "Two workers share the work, and the result has the same bits",
        "at most 0.6 of it each",
        f"the worker that takes most takes {share:.2f} of the processor seconds of one alone; the bits are {'the same' if same else 'others'}",
        "holds" if good else "holds in part" if same else "does not hold",
        "" if good else UNKNOWN,
    )


def claim_features(job: str, records: list[Record]) -> Claim:
    """Time of a row and feature against features."""
    each = [r["seconds"] / r["rows"] / r["D"] for r in records]
    worst = max(each) / min(each)
    slope = 1 + exponent(records[0]["D"], each[0], records[-1]["D"], each[-1])
    good = 0.85 <= slope <= 1.15
    return Claim(
        f"Time is linear in the features: {job}",
        "exponent 1",
        f"{slope:.2f} from D = {records[0]['D']:,} to {records[-1]['D']:,}; the seconds of a row and feature differ by a factor of {worst:.2f}",
        "holds" if good else "does not hold",
        "" if good else why_features(job, records),
    )


def why_features(job: str, records: list[Record]) -> str:
    """Why time is not linear in D: checked for SGD."""
    if job != "sgd":
        return UNKNOWN
    seconds = [r["client"] for r in records]
    return (
        f"of it the client takes {min(seconds):.0f} to {max(seconds):.0f} s: before the first step it measures the spectrum of a "
        "row sample, which does not cost as rows times features"
    )


#: Why a plan says far more memory than a job takes: checked.
WHY_PLAN = {
    "sgd": "sgd: the plan counts the largest batch that the spectrum of the features may ask for, which is not known before; the one that "
    "it asks for is smaller",
}


def claim_plan(records: list[Record]) -> Claim:
    """How near plans of memory are, of jobs with up to very many features."""
    beyond = [r for r in records if ratio(r, "bytes") > BAR]
    listed = ", ".join(f"{r['job']}, D = {r['D']:,}: {ratio(r, 'bytes'):.2f}" for r in beyond)
    held, middle = len(records) - len(beyond), statistics.median(ratio(r, "bytes") for r in records)
    known = [WHY_PLAN.get(job, f"{job}: {UNKNOWN}") for job in dict.fromkeys(r["job"] for r in beyond)]
    return Claim(
        f"A plan is at most {BAR:g} times the memory that is taken, at up to D = {max(r['D'] for r in records):,}",
        f"planned / measured at most {BAR:g}",
        f"{held} of {len(records)} jobs; median {middle:.2f}" + (f"; beyond: {listed}" if beyond else ""),
        judged(held, len(records)),
        ". ".join(known),
    )


def claim_overhead(records: list[Record]) -> Claim:
    """A pass beside the bare loop."""
    ratios = [(r["worker"] + r["client"]) / r["bare"] for r in records]
    good = max(ratios) <= 1.15
    return Claim(
        "A pass on a Dask worker costs little more than the loop over blocks",
        "at most 1.15 times",
        ", ".join(f"{r['projection']} {x:.2f}" for r, x in zip(records, ratios, strict=True)),
        "holds" if good else "does not hold",
        ""
        if good
        else "beyond the loop, "
        + "; ".join(
            f"the worker takes {r['worker'] - r['bare']:.2f} s and the client {r['client']:.2f} ({r['projection']})"
            for r, x in zip(records, ratios, strict=True)
            if x > 1.15
        )
        + ": much beside a quick map",
    )


def claim_model(records: list[Record], modelled: list[Record]) -> Claim:
    """The model of time beside workers that sleep. modelled : what it says of more of them"""
    steady = [r for r in records if r["slow"] == 1 and r["later"] == r["workers"]]
    ratios = [r["wall"] / r["model"] for r in steady]
    good = sum(1 / 1.5 <= x <= 1.5 for x in ratios)
    most = max(r["workers"] for r in steady)
    more = sorted({r["workers"] for r in modelled if r["workers"] >= 2 * most})
    alone = f"; {more[0]:,} to {more[-1]:,} workers are the word of the model alone" if more else ""
    return Claim(
        f"The model of time holds for up to {most} workers, threads that mostly wait for reading",
        "measured / model 0.67 to 1.5",
        f"{min(ratios):.2f} to {max(ratios):.2f} for {min(r['workers'] for r in steady)} to {most}{alone}",
        judged(good, len(ratios)),
        "" if good == len(ratios) else "client and scheduler share the processors with the workers",
    )
