"""The one table of benchmarks."""

from __future__ import annotations

import importlib

from benchmarks.benchmark import Part

#: name: (module, what it measures). A module holds `PARTS`, and is imported only when it is run.
NAMES: dict[str, tuple[str, str]] = {
    "rff_2007": ("papers.rff_2007", "Rahimi & Recht 2007: Fourier and binning features, Table 1, Claim 1"),
    "scrf_2015": ("papers.scrf_2015", "Feng et al. 2015: signed circulant features, Figure 1, Table 1, variance"),
    "cnm_2015": ("papers.cnm_2015", "Yu et al. 2015: compact nonlinear maps, Figures 1-2, Table 2"),
    "tefm_2016": ("papers.tefm_2016", "Chen et al. 2016: best directions of features, Figures 1-3"),
    "altcirc_2018": ("papers.altcirc_2018", "Mukuta et al. 2018: alternating circulants, Figure 1, Tables 2-5"),
    "peers": ("peers.peers", "distrf beside scikit-learn, dask-ml, snapml and others: time, memory, accuracy"),
    "tables": ("tables.tables", "train without options beside boosting and others; the guard of its choices (hours)"),
    "solvers": ("solvers", "fits by passes and SGD beside scikit-learn's solvers: gaps, seconds, bits"),
    "subspace": ("subspace", "the range finder of TEFM: residuals, sketches, solvers, D = 1,000,000"),
    "speed": ("speed", "Fourier maps beside RBFSampler"),
    "plan": ("plan", "memory of a plan, and of the job that was planned, for jobs of every kind"),
    "scale": ("scale", "time and memory against rows and workers"),
    "end_to_end": ("end_to_end", "wall time of the main job beside a bare NumPy loop"),
}  # fmt: skip


def parts(name: str) -> dict[str, Part]:
    """The parts of a benchmark by their names."""
    module, _ = NAMES[name]
    return {part.name: part for part in importlib.import_module(f"benchmarks.{module}").PARTS}
