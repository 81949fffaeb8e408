"""Time of the Fourier maps on one core, beside scikit-learn's RBFSampler and the floor of each.

    python benchmarks/featurize.py --d 512 1024 4096 --dtype float32 float64 --phase offset
    python benchmarks/featurize.py --d 16 32 64 128 256 512   # the crossover with dense weights

Everything runs on one core in one process, interleaved; the numbers are medians. `--clock cpu` counts the
thread's processor time, for a machine that others use as well. A floor is what a projection cannot do
without, on data that already lie in cache where the method allows it: its GEMM, its bare scipy.fft
calls, or its bare Walsh-Hadamard transforms. `write` is the bare cost of writing the n x D result into new
memory, and `cosine` that of the nonlinearity from a column block in cache, which includes that write.
"""

from __future__ import annotations

import argparse
import json
import pickle
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.fft
from rich.console import Console
from rich.table import Table
from sklearn.kernel_approximation import RBFSampler
from threadpoolctl import threadpool_limits

from distrf.compiled import cos_offset, cos_sin, walsh_hadamard
from distrf.errors import InputError
from distrf.kernels import Gaussian
from distrf.maps import FourierMap
from distrf.projections import PROJECTIONS, Projection
from distrf.projections.cache import weight_cache
from distrf.projections.circulant import CirculantProjection
from distrf.projections.hadamard import HadamardProjection

#: Rows of the tile in cache on which the floor of the Walsh-Hadamard projections is measured.
_TILE = 16


def gemm_floor(projector: Projection, X: np.ndarray) -> Callable[[], object]:
    W = np.ones((projector.n_frequencies, X.shape[1]), X.dtype)
    out = np.empty((len(X), len(W)), X.dtype)
    return lambda: np.matmul(X, W.T, out=out)


def hadamard_floor(projector: HadamardProjection, X: np.ndarray) -> Callable[[], object]:
    """As many transforms of a tile in cache as the projection makes."""
    p = projector.block_rows
    transforms = 1 + projector.n_diagonals * -(-projector.n_frequencies // p)
    tile = np.zeros((_TILE, p), X.dtype)

    def run():
        for _ in range(transforms * -(-len(X) // _TILE)):
            walsh_hadamard(tile)

    return run


def fft_floor(projector: CirculantProjection, X: np.ndarray) -> Callable[[], object]:
    """The forward and inverse transforms that the projection makes, on arrays of the same shapes."""
    L, rows, per = projector.order, projector.rows_per_tile, projector._blocks_together
    blocks = -(-projector.n_frequencies // L)
    tile = np.zeros((rows, projector.n_mixed, L), X.dtype)
    spectra = [
        scipy.fft.rfft(np.zeros((rows, min(per, blocks - first), L), X.dtype))
        for first in range(0, blocks, per)
    ]

    def run():
        for _ in range(-(-len(X) // rows)):
            scipy.fft.rfft(tile)
            for spectrum in spectra:
                scipy.fft.irfft(spectrum, L)

    return run


def floor(projector: Projection, X: np.ndarray) -> Callable[[], object]:
    """What the projection cannot do without."""
    if isinstance(projector, HadamardProjection):
        return hadamard_floor(projector, X)
    if isinstance(projector, CirculantProjection):
        return fft_floor(projector, X)
    return gemm_floor(projector, X)


def project(map_: FourierMap, X: np.ndarray) -> None:
    """The projection of the map alone: every column block of every tile, dropped."""
    projector, tile = map_.projector, map_.projector.rows_per_tile
    scale = 1.0 / (2.0 * np.pi * map_.length_scale)  # the map's own: the weights in its cache serve both
    for a in range(0, len(X), tile):
        for _ in projector.phases(X[a : a + tile], 0, map_.n_frequencies, scale, X.dtype):
            pass


def nonlinearity(n: int, D: int, phase: str, dtype: np.dtype) -> None:
    """The nonlinearity alone, into new memory, as the map does it."""
    width, rows = min(D, 1024), 64
    column_block = np.zeros((rows, width), dtype)
    offsets = np.zeros(width, dtype)
    out = np.empty((n, D), dtype)
    step = width if phase == "offset" else 2 * width
    for a in range(0, n, rows):
        target = out[a : a + rows]
        for column in range(0, D, step):
            w = min(step, D - column)
            phases = column_block[: len(target), : w if phase == "offset" else w // 2]
            phases = phases if phases.flags.c_contiguous else np.ascontiguousarray(phases)
            if phase == "offset":
                cos_offset(phases, offsets[:w], target, column, 1.0)
            else:
                cos_sin(phases, target, column, 1.0)


CLOCKS = {"wall": time.perf_counter, "cpu": time.thread_time}


def medians(jobs: dict[str, Callable[[], object]], repeat: int, clock: str) -> dict[str, float]:
    """Median seconds of each job; the jobs take turns.

    Each starts after an untimed "write": a virtual machine takes back memory that idles through a long
    GEMM, and whoever allocates next would pay for it (0.3 s for 160 MB here).
    """
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for round_ in range(repeat + 1):  # the first round warms up: compilation, weights, fresh pages
        for name, job in jobs.items():
            jobs["write"]()
            start = CLOCKS[clock]()
            result = job()
            if round_:
                seconds[name].append(CLOCKS[clock]() - start)
            del result
    return {name: float(np.median(times)) for name, times in seconds.items()}


def measure(n: int, D: int, d: int, dtype: str, phases: list[str], names: list[str], repeat: int, clock: str):
    """One record for each phase and projection."""
    kind = np.dtype(dtype)
    weight_cache.clear()
    X = np.random.default_rng(0).normal(size=(n, d)).astype(kind)
    sampler = RBFSampler(gamma=0.5 / d, n_components=D, random_state=0).fit(X)

    def write():
        out = np.empty((n, D), kind)
        out.fill(1.0)
        return out

    jobs: dict[str, Callable[[], object]] = {"RBFSampler": lambda: sampler.transform(X), "write": write}
    maps: dict[tuple[str, str], FourierMap] = {}
    for phase in phases:
        jobs[f"{phase} cosine"] = lambda phase=phase: nonlinearity(n, D, phase, kind)
        for name in names:
            try:
                map_ = FourierMap(d, D, Gaussian(), float(np.sqrt(d)), name, phase, 1)
                map_(X[:1])
            except InputError:  # a projection may refuse a size, as quasi does beyond the digital net
                continue
            maps[phase, name] = map_
            jobs[f"{phase} {name} map"] = lambda map_=map_: map_(X)
            jobs[f"{phase} {name} projection"] = lambda map_=map_: project(map_, X)
            jobs[f"{phase} {name} floor"] = floor(map_.projector, X)
    seconds = medians(jobs, repeat, clock)
    for (phase, name), map_ in maps.items():
        whole = seconds[f"{phase} {name} map"]
        yield {
            "n": n,
            "D": D,
            "d": d,
            "dtype": dtype,
            "phase": phase,
            "projection": name,
            "map_s": whole,
            "projection_s": seconds[f"{phase} {name} projection"],
            "nonlinearity_s": seconds[f"{phase} cosine"],
            "floor_s": seconds[f"{phase} {name} floor"],
            "write_s": seconds["write"],
            "rbfsampler_s": seconds["RBFSampler"],
            "ratio": seconds["RBFSampler"] / whole,
            "parameter_bytes": int(map_.projector.work()[1] * kind.itemsize / 4),
            "pickle_bytes": len(pickle.dumps(map_)),
        }


def crossovers(records: list[dict]) -> list[dict]:
    """For each dtype, phase and projection the d from which on it beats dense weights, interpolated in log d.

    `d` is None where it never does, and the smallest d measured where it always does.
    """
    found = []
    key = lambda r: (r["dtype"], r["phase"])  # noqa: E731
    for dtype, phase in dict.fromkeys(map(key, records)):
        here = [r for r in records if key(r) == (dtype, phase)]
        dense = {r["d"]: r["map_s"] for r in here if r["projection"] == "dense"}
        for name in dict.fromkeys(r["projection"] for r in here):
            gains = sorted(
                (r["d"], np.log(dense[r["d"]] / r["map_s"]))
                for r in here
                if r["projection"] == name and r["d"] in dense
            )
            if name == "dense" or not gains:
                continue
            crossover = None
            for i in range(len(gains) - 1, -1, -1):
                if gains[i][1] < 0:
                    if i + 1 < len(gains):
                        (a, low), (b, high) = gains[i], gains[i + 1]
                        crossover = round(a * (b / a) ** (low / (low - high)))
                    break
                crossover = gains[i][0]
            found.append({"dtype": dtype, "phase": phase, "projection": name, "d": crossover})
    return found


def show(records: list[dict], console: Console) -> None:
    """A table for each d and dtype, milliseconds."""

    def ms(seconds: float) -> str:
        return f"{1e3 * seconds:.1f}"

    def size(count: int) -> str:
        return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"

    head = records[0]
    table = Table(
        title=f"d = {head['d']:,}, {head['dtype']}: RBFSampler {ms(head['rbfsampler_s'])} ms, "
        f"writing {head['n']:,} x {head['D']:,} {ms(head['write_s'])} ms",
        title_justify="left",
    )
    table.add_column("projection", no_wrap=True)
    table.add_column("phase")
    for column in ("map", "projection", "cosine", "floor", "x floor", "x RBFSampler", "parameters", "pickle"):
        table.add_column(column, justify="right")
    for r in records:
        table.add_row(
            r["projection"],
            r["phase"],
            ms(r["map_s"]),
            ms(r["projection_s"]),
            ms(r["nonlinearity_s"]),
            ms(r["floor_s"]),
            f"{r['projection_s'] / r['floor_s']:.2f}",
            f"[bold]{r['ratio']:.1f}[/]",
            size(r["parameter_bytes"]),
            f"{r['pickle_bytes']} B",
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--n", type=int, default=5000, help="rows")
    parser.add_argument("--D", type=int, default=8192, help="features")
    parser.add_argument("--d", type=int, nargs="+", default=[512, 1024, 4096], help="input features")
    parser.add_argument("--dtype", nargs="+", default=["float32", "float64"], choices=["float32", "float64"])
    parser.add_argument("--phase", nargs="+", default=["offset"], choices=["offset", "paired"])
    parser.add_argument("--projection", nargs="+", default=list(PROJECTIONS), choices=list(PROJECTIONS))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--clock", default="wall", choices=list(CLOCKS))
    parser.add_argument("--json", type=Path, help="write the records here as well")
    options = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=140)
    records: list[dict] = []
    # A job has one map, here a dozen take turns: each keeps its weights, as it would alone.
    weight_cache.max_bytes *= 16
    with threadpool_limits(1), scipy.fft.set_workers(1):
        for dtype in options.dtype:
            for d in options.d:
                made = list(
                    measure(
                        options.n,
                        options.D,
                        d,
                        dtype,
                        options.phase,
                        options.projection,
                        options.repeat,
                        options.clock,
                    )
                )
                if made:
                    show(made, console)
                records += made
    found = crossovers(records)
    if len(options.d) > 1:
        for row in found:
            where = (
                "never here"
                if row["d"] is None
                else f"from d = {row['d']:,}"
                if row["d"] > min(options.d)
                else f"at every d >= {min(options.d):,}"
            )
            console.print(f"{row['projection']} beats dense ({row['dtype']}, {row['phase']}): {where}")
    if options.json:
        machine = {"machine": platform.machine(), "processor": platform.processor(), "numpy": np.__version__}
        options.json.write_text(
            json.dumps({"machine": machine, "records": records, "crossovers": found}, indent=1)
        )


if __name__ == "__main__":
    main()
