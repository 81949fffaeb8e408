"""How memory and time of a job grow with rows, and how its work spreads over workers."""

from __future__ import annotations

from collections.abc import Iterator

import dask

from benchmarks.benchmark import MIB, Benchmark, Claim, Part, Record, Run, exponent, markdown
from benchmarks.planning.naps import cluster, pipeline, rows_of, show_cluster
from benchmarks.planning.plan import claim
from benchmarks.workers import connected, measured
from distrf import plan


def fit(n: int, step: int) -> None:
    pipeline("ridge", 256).fit(*rows_of(n, step, 16))


def warm() -> None:
    """Imports and compiled loops, in the process that calls it, without the cluster of the worker that is warmed."""
    with dask.config.set(scheduler="threads"):
        fit(256, 256)


def rows(run: Run) -> Iterator[Record]:
    """Ridge on 256 features of ever more rows, on a fresh worker process each."""
    for n in run.pick((100_000, 1_000_000, 10_000_000), (400, 800)):
        with connected(1, run.small) as client:
            planned = plan(pipeline("ridge", 256), *rows_of(n, 65_536, 16)).memory.peak
            client.run(warm)
            found, _ = measured(client, lambda n=n: fit(n, 65_536))
        yield {"rows": n, **found, "planned_bytes": planned}


def show_rows(records: list[Record]) -> str:
    cells = []
    for r in records:
        figures = r["rows"], r["bytes"] / MIB, r["planned_bytes"] / MIB, r["seconds"], r["wall"]
        cells.append([f"{x:,.{k}f}" for x, k in zip(figures, (0, 0, 0, 1, 1), strict=True)])
    said = (
        "Ridge, 16 columns, D = 256, on a worker process; seconds are processor seconds of client and worker."
    )
    return f"{said}\n\n{markdown(['rows', 'MiB', 'plan MiB', 's', 'wall s'], cells)}"


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    made: list[Claim] = []
    if "rows" in found:
        first, (before, last) = found["rows"][0], found["rows"][-2:]
        growth, said = last["bytes"] / first["bytes"], f"{last['rows']:,} rows"
        slope = exponent(before["rows"], before["seconds"], last["rows"], last["seconds"])
        made += [claim("Memory of a worker does not grow with the rows: growth", {said: growth}, high=1.1)]
        made += [claim("Time is linear in the rows: exponent", {said: slope}, 0.85, 1.1)]
    if "cluster" in found:
        steady = [r for r in found["cluster"] if r["case"] == str(r["workers"]) and not r["step"]]
        efficiency = {f"{r['job']} {r['case']}": r["efficiency"] for r in steady}
        made += [claim("Equal workers share the work: ideal / measured", efficiency, low=0.8)]
    return made


ABOUT = """
*rows*: memory and time against rows, which a function makes block by block, so that no file limits them.

*cluster*: many workers on one machine. They are threads of one process with a scheduler of their own, and sleep where they would read a block, so
that 64 of them do not wait for two cores. The time holds what client and scheduler take, on the same cores. SGD does not sleep: its seconds a step
are those of its messages, since it takes one step after the other.
"""

PARTS = Part("rows", rows, show_rows, data=False), Part("cluster", cluster, show_cluster, data=False)
BENCHMARK = Benchmark("scale", "Rows and workers", ABOUT, PARTS, claims)
