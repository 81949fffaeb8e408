"""How memory and time of a job grow with rows, and how its work spreads over workers."""

from __future__ import annotations

from collections.abc import Iterator

import dask

from benchmarks.benchmark import MIB, Part, Record, Run, lines
from benchmarks.planning.naps import cluster, pipeline, rows_of, show_cluster
from benchmarks.workers import connected, measured
from distrf import plan


def fit(n: int, step: int) -> None:
    pipeline("ridge", 256).fit(*rows_of(n, step, 16))


def warm() -> None:
    """Imports and compiled loops, in the process that calls it, without the cluster of the worker that is warmed."""
    with dask.config.set(scheduler="threads"):
        fit(256, 256)


def rows(run: Run) -> Iterator[Record]:
    """Ridge, 16 columns, D = 256, of ever more rows, on a fresh worker process each; seconds are processor seconds of client and worker."""
    for n in run.pick((100_000, 1_000_000, 10_000_000), (400, 800)):
        with connected(1, run.small) as client:
            planned = plan(pipeline("ridge", 256), *rows_of(n, 65_536, 16)).memory.peak
            client.run(warm)
            found, _ = measured(client, lambda n=n: fit(n, 65_536))
        yield {"rows": n, **found, "planned_bytes": planned}


PARTS = (
    Part(rows, lines({
        "rows": "{rows:,}", "MiB": lambda r: f"{r['bytes'] / MIB:,.0f}", "plan MiB": lambda r: f"{r['planned_bytes'] / MIB:,.0f}",
        "s": "{seconds:,.1f}", "wall s": "{wall:,.1f}",
    }), data=False),
    Part(cluster, show_cluster, data=False),
)  # fmt: skip
