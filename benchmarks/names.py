"""The one table of benchmarks."""

from __future__ import annotations

import importlib

from benchmarks.benchmark import Benchmark

#: name: (module, what it measures). A module holds `BENCHMARK`, and is imported only when it is run.
NAMES: dict[str, tuple[str, str]] = {
    "scrf_2015": ("papers.scrf_2015", "Feng et al. 2015: signed circulant features, Figures 1-3, Tables 1-2"),
    "subspace": ("speed.subspace", "the range finder of TEFM: residuals, sketches, solvers, D = 1,000,000"),
    "tefm_2016": ("papers.tefm_2016", "Chen et al. 2016: best directions of features, Figures 1-3, Table 1"),
}


def get(name: str) -> Benchmark:
    """The benchmark of that name."""
    module, _ = NAMES[name]
    return importlib.import_module(f"benchmarks.{module}").BENCHMARK
