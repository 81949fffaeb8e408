"""The one table of benchmarks."""

from __future__ import annotations

import importlib

from benchmarks.benchmark import Benchmark

#: name: (module, what it measures). A module holds `BENCHMARK`, and is imported only when it is run.
NAMES: dict[str, tuple[str, str]] = {
    "peers": (
        "peers.peers",
        "distrf beside scikit-learn, dask-ml, xgboost, lightgbm and others: time, memory, accuracy",
    ),
    "scrf_2015": ("papers.scrf_2015", "Feng et al. 2015: signed circulant features, Figures 1-3, Tables 1-2"),
}


def get(name: str) -> Benchmark:
    """The benchmark of that name."""
    module, _ = NAMES[name]
    return importlib.import_module(f"benchmarks.{module}").BENCHMARK
