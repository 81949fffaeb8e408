"""The one table of benchmarks."""

from __future__ import annotations

import importlib

from benchmarks.benchmark import Benchmark

#: name: (module, what it measures). A module holds `BENCHMARK`, and is imported only when it is run.
NAMES: dict[str, tuple[str, str]] = {
    # the papers
    "rff_2007": ("papers.rff_2007", "Rahimi & Recht 2007: Fourier and binning features, Table 1, Claim 1"),
    "scrf_2015": ("papers.scrf_2015", "Feng et al. 2015: signed circulant features, Figures 1-3, Tables 1-2"),
    "cnm_2015": ("papers.cnm_2015", "Yu et al. 2015: compact nonlinear maps, Figures 1-3, Table 2"),
    "tefm_2016": ("papers.tefm_2016", "Chen et al. 2016: best directions of features, Figures 1-3, Table 1"),
    "altcirc_2018": (
        "papers.altcirc_2018",
        "Mukuta et al. 2018: alternating circulant Laplace features, Figure 1, Tables 2-5",
    ),
    # guards
    "goldens": ("goldens", "quality, memory and speed beside those of commit aea275b, frozen (hour)"),
    # beside others
    "peers": (
        "peers.peers",
        "distrf beside scikit-learn, dask-ml, xgboost, lightgbm and others: time, memory, accuracy",
    ),
    "accuracy": ("accuracy", "accuracy on customary splits, beside published figures"),
    "defaults": ("tables.defaults", "what a first run gives: our defaults beside peers on many sets (hours)"),
    "tables": (
        "tables.tables",
        "train without options beside gradient boosting and others on tables (hour)",
    ),
    "choices": ("tables.choices", "what make_model chooses, and what each choice is worth"),
    "length_scales": ("tables.length_scales", "a shorter length scale than the trials chose, on all rows"),
    # models and maps
    "sgd": ("models.sgd", "SGD beside exact ridge, scikit-learn's solvers and the bare loop"),
    "ridge_cg": ("models.ridge_cg", "ridge by conjugate gradients beside the Gram matrix"),
    "calibration": ("models.calibration", "log loss of calibrated ridge and SVM"),
    "ranking": ("models.ranking", "AUC and average precision from bins: bounds, errors, time"),
    "polynomial": ("maps.polynomial", "TensorSketch, Maclaurin features, landmarks of Nystroem"),
    "subspace": ("speed.subspace", "the range finder of TEFM: residuals, sketches, solvers, D = 1,000,000"),
    "speed": ("speed.maps", "Fourier maps beside RBFSampler and beside what each cannot do without"),
    # large jobs
    "plan": (
        "planning.plan",
        "memory and time of a plan, and of the job that was planned, for jobs of every kind",
    ),
    "scale": ("planning.scale", "time and memory against rows, features and workers"),
    "end_to_end": ("execution.end_to_end", "wall time of the main job beside a bare NumPy loop"),
}


def get(name: str) -> Benchmark:
    """The benchmark of that name."""
    module, _ = NAMES[name]
    return importlib.import_module(f"benchmarks.{module}").BENCHMARK
