"""How memory and time of a job grow with rows, and how its work spreads over workers."""

from __future__ import annotations

from collections.abc import Iterator

import dask
import numpy as np

from benchmarks.benchmark import MIB, UNKNOWN, Benchmark, Claim, Part, Record, Run, exponent, judged, markdown
from benchmarks.planning.naps import cluster, fitted, rows_of, show_cluster, where_steady
from benchmarks.workers import connected, measured
from distrf import plan


def rows(run: Run) -> Iterator[Record]:
    """Ridge on 256 features of ever more rows, on a fresh worker process each."""
    for n in run.pick((100_000, 1_000_000, 10_000_000), (400, 800)):
        X, y = rows_of(n, 200 if run.small else 65_536, 16)
        with connected(1, run.small) as client:
            planned = plan(fitted("ridge", 256), X, y).memory.peak
            client.run(warmed)
            found, _ = measured(client, lambda X=X, y=y: fitted("ridge", 256).fit(X, y))
        yield {"rows": n, **found, "planned_bytes": planned}


def warmed() -> None:
    """Imports and compiled loops, in the process that calls it."""
    X = np.random.default_rng(0).normal(size=(256, 16)).astype(np.float32)
    with dask.config.set(scheduler="threads"):  # not the cluster of the worker that is warmed
        fitted("ridge", 64).fit(X, X[:, 0])


def show_rows(records: list[Record]) -> str:
    cells = [
        [f"{r['rows']:,}", *(f"{r[key] / MIB:,.0f}" for key in ("bytes", "planned_bytes")), f"{r['seconds']:.1f}", f"{r['wall']:.1f}"]
        for r in records
    ]  # fmt: skip
    said = (
        "Ridge, 16 columns, D = 256, on a worker process; seconds are processor seconds of client and worker."
    )
    return f"{said}\n\n{markdown(['rows', 'MiB', 'plan MiB', 's', 'wall s'], cells)}"


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    made: list[Claim] = []
    if "rows" in found:
        first, (before, last) = found["rows"][0], found["rows"][-2:]
        growth = last["bytes"] / first["bytes"]
        slope = exponent(before["rows"], before["seconds"], last["rows"], last["seconds"])
        for said, theirs, ours, good in (
            (
                "The memory of a worker does not grow with the rows",
                "at most 1.1 times",
                f"{growth:.2f} times",
                growth <= 1.1,
            ),
            ("Time is linear in the rows", "exponent 0.85 to 1.1", f"{slope:.2f}", 0.85 <= slope <= 1.1),
        ):
            made.append(
                Claim(said, theirs, ours, "holds" if good else "does not hold", "" if good else UNKNOWN)
            )
    if steady := where_steady(found.get("cluster", [])):
        least, most = min(r["efficiency"] for r in steady), max(r["workers"] for r in steady)
        held = sum(r["efficiency"] >= 0.8 for r in steady)
        made.append(
            Claim(
                f"Up to {most} equal workers share the work", "ideal / measured at least 0.8", f"{held} of {len(steady)} cases; least {least:.2f}",
                judged(held, len(steady)), "" if held == len(steady) else UNKNOWN,
            )
        )  # fmt: skip
    return made


ABOUT = """
*rows*: memory and time against rows, which a function makes block by block, so that no file limits them.

*cluster*: many workers on one machine. They are threads of one process with a scheduler of their own, and sleep where they would read a block, so
that 64 of them do not wait for two cores. The time holds what client and scheduler take, on the same cores. SGD does not sleep: its seconds a step
are those of its messages, since it takes one step after the other.
"""

BENCHMARK = Benchmark(
    "scale", "Rows and workers", ABOUT,
    (Part("rows", rows, show_rows, data=False), Part("cluster", cluster, show_cluster, data=False)), claims,
)  # fmt: skip
