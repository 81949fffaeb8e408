"""How time and memory of a job grow: with rows, with features, with workers."""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from sklearn.pipeline import make_pipeline

from benchmarks.benchmark import MIB, Benchmark, Part, Record, Run, markdown, where
from benchmarks.planning.naps import cluster, show_cluster
from benchmarks.planning.overhead import overhead, show_overhead
from benchmarks.planning.scale_claims import claims
from benchmarks.planning.speeds import measured_speeds
from benchmarks.workers import LIMIT, connected, measured
from distrf import RandomFourierFeatures, StreamingRidge, StreamingScaler, StreamingSGDRegressor, plan

COLUMNS = 16
#: The jobs of `features` and `model`: the steps after the map.
MODELS = {
    "ridge": lambda: StreamingRidge(1e-6),
    "moments": lambda: StreamingScaler(),
    "sgd": lambda: StreamingSGDRegressor(alpha=1e-6, n_epochs=1, tol=None, random_state=0),
}


def steps(job: str, D: int) -> Any:
    map_ = RandomFourierFeatures(gamma=0.05, n_components=D, projection="circulant", random_state=0)
    return make_pipeline(map_, MODELS[job]())


def drawn(block_info: Any = None) -> np.ndarray:
    """Rows of a block, made where they are needed."""
    first, last = block_info[None]["array-location"][0]
    return np.random.default_rng(first).normal(size=(last - first, COLUMNS)).astype(np.float32)


def target(block_info: Any = None) -> np.ndarray:
    """Their targets. A function of its own: a target made of the block that X is made of would hold that block."""
    first, last = block_info[None]["array-location"][0]
    X = np.random.default_rng(first).normal(size=(last - first, COLUMNS))
    return np.sin(X[:, 0] + X[:, 1]).astype(np.float32)


def rows_of(n: int, block: int) -> tuple[da.Array, da.Array]:
    """Lazy rows in no file, shape (n, 16), and their targets."""
    chunks = tuple(min(block, n - a) for a in range(0, n, block))
    X = da.map_blocks(drawn, chunks=(chunks, (COLUMNS,)), dtype=np.float32, meta=np.empty((0, 0), np.float32))
    return X, da.map_blocks(target, chunks=(chunks,), dtype=np.float32, meta=np.empty(0, np.float32))


def warmed(job: str) -> None:
    """Imports and compiled loops of a job, in the process that calls it."""
    X = np.random.default_rng(0).normal(size=(256, COLUMNS)).astype(np.float32)
    with dask.config.set(scheduler="threads"):  # not the cluster of the worker that is warmed
        steps(job, 64).fit(X, X[:, 0])


def grown(job: str, n: int, D: int, workers: int, small: bool) -> Record:
    """A job on a fresh cluster, with the bits of what it learned."""
    X, y = rows_of(n, 200 if small else 65_536)
    pipeline = steps(job, D)
    with connected(workers, small) as client:
        planned = plan(pipeline, X, y).memory.peak
        client.run(warmed, job)
        found, made = measured(client, lambda: pipeline.fit(X, y))
    learned = made[-1].coef_ if hasattr(made[-1], "coef_") else made[-1].map_.scale
    bits = hashlib.sha256(np.ascontiguousarray(learned)).hexdigest()[:12]
    return {"job": job, "rows": n, "D": D, "workers": workers, **found, "planned_bytes": planned, "bits": bits}


# ---- rows, workers, features -----------------------------------------------------------------------------------


def rows(run: Run) -> Iterator[Record]:
    """Ridge on 256 features, of ever more rows."""
    for n in run.pick((100_000, 1_000_000, 10_000_000), (400, 800)):
        yield grown("ridge", n, run.pick(256, 16), 1, run.small)


def workers(run: Run) -> Iterator[Record]:
    """The same job on one worker and on two."""
    for count in (1, 2):
        yield grown("ridge", run.pick(1_000_000, 800), run.pick(256, 16), count, run.small)


def features(run: Run) -> Iterator[Record]:
    """Ever more features, of ever fewer rows."""
    numbers = run.pick({"moments": 5e8, "sgd": 5e8}, {"moments": 1e5})
    for job, each in numbers.items():
        for D in run.pick((1_000, 10_000, 100_000, 1_000_000), (100, 200)):
            yield grown(job, int(each / D), D, 1, run.small)


def show_growth(records: list[Record]) -> str:
    rows = [
        [
            r["job"], f"{r['rows']:,}", f"{r['D']:,}", r["workers"], f"{r['bytes'] / MIB:,.0f}", f"{r['planned_bytes'] / MIB:,.0f}",
            f"{r['seconds']:.1f}", f"{1e9 * r['seconds'] / r['rows'] / r['D']:.2f}", f"{r['wall']:.1f}", r["bits"],
        ]
        for r in records
    ]  # fmt: skip
    head = ["job", "rows", "D", "workers", "MiB", "plan MiB", "s", "ns a row and feature", "wall s", "bits"]
    return (
        f"{COLUMNS} columns. Memory of the largest worker; processor seconds of the client and of the worker that took most.\n\n"
        + markdown(head, rows)
    )


# ---- workers, in the model ----------------------------------------------------------------------------


def model(run: Run) -> Iterator[Record]:
    """Seconds that a plan says for ever more workers."""
    with tempfile.TemporaryDirectory() as folder, connected(1, run.small) as client:
        speeds = measured_speeds(client, Path(folder), run.pick(64, 1))
    n, D = run.pick(100_000_000, 100_000), 4096
    X, y = rows_of(n, 65_536)
    for job in ("ridge", "sgd"):
        for workers in (1, 2, 4, 10, 30, 100, 300, 1000):
            planned = plan(steps(job, D), X, y, workers=workers, memory_limit=LIMIT)
            seconds, bound = planned.seconds(speeds), planned.bound(speeds)
            yield {
                "job": job, "rows": n, "D": D, "workers": workers, "seconds": seconds, "bound": bound,
                "planned_bytes": planned.memory.peak, "speeds": dataclasses.asdict(speeds),
            }  # fmt: skip


def show_model(records: list[Record]) -> str:
    rows = []
    for r in records:
        alone = where(records, job=r["job"], workers=1)[0]["seconds"]
        share = f"{alone / r['seconds'] / r['workers']:.2f}"
        rows.append([f"{r['job']}", f"{r['workers']:,}", f"{r['seconds']:,.0f}", share, r["bound"]])
    first = records[0]
    return (
        f"Seconds that a plan says for {first['rows']:,} rows of {COLUMNS} columns, D = {first['D']:,}, with the speeds of this machine; "
        "efficiency is the time of one worker over the sum of all. Nothing here ran.\n\n"
        + markdown(["job", "workers", "s", "efficiency", "bound by"], rows)
    )


def draw_model(records: list[Record], figure: Any) -> None:
    ax = figure.subplots()
    for job in dict.fromkeys(r["job"] for r in records):
        mine = where(records, job=job)
        ax.plot([r["workers"] for r in mine], [r["seconds"] for r in mine], "o-", label=job, markersize=4)
        ideal = [mine[0]["seconds"] / r["workers"] for r in mine]
        ax.plot([r["workers"] for r in mine], ideal, ":", color="0.6", linewidth=1)
    ax.set(xscale="log", yscale="log", xlabel="workers", ylabel="seconds of the plan")
    ax.legend()


ABOUT = f"""
Time and memory against rows $n$, features $D$ and workers. Rows of {COLUMNS} columns are Dask arrays that a function makes block by block,
so that no file limits $n$; each job runs on a fresh local cluster of worker processes with one thread, of 8 GiB.

*moments* is a pass that makes all features and adds up means and variances, *ridge* the Gram matrix and its solution, *sgd* one
epoch of least squares; all on Fourier features of a circulant projection. Seconds are processor seconds, without waiting; those on
the clock stand beside. *bits* begins the SHA-256 of the weights.

More than two workers are not measured here as processes, so that a machine of two cores can run all parts: *model* is what a plan says. *cluster*
holds the model against up to 32 workers that are threads of one process and sleep where a block would be read, which is most of their
time; of 100 to 1,000 workers there is the word of the model alone.

*overhead* is a pass on Dask workers beside the same loop without Dask. What Dask adds goes with blocks and passes, so its share falls
as the work of a row grows. Here that is little, a map and one addition for each feature; [subspaces](subspace.md) have two products, and
[a whole job](end_to_end.md) has a Gram matrix.

SGD takes one step after the other. A step has the rows that the spectrum of the features asks for, which a plan does not know,
and waits for two rounds of messages. So more workers do not shorten it, unless each row is much work; `distribution="local_sgd"`
takes more rows to a step. The memory of a plan of SGD is that of the largest batch that a spectrum may ask for, which may be
far more than what is taken where $D$ is large.
"""

BENCHMARK = Benchmark(
    "scale", "Rows, features and workers", ABOUT,
    (
        Part("rows", rows, show_growth, data=False),
        Part("workers", workers, show_growth, data=False),
        Part("features", features, show_growth, data=False),
        Part("model", model, show_model, draw_model, data=False),
        Part("overhead", overhead, show_overhead, data=False),
        Part("cluster", cluster, show_cluster, data=False),
    ),
    claims,
)  # fmt: skip
