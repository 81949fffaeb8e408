"""Why a peer is ahead of distrf, by the start of its method's name."""

from __future__ import annotations

from benchmarks.benchmark import UNKNOWN

_TREES = "trees cut single columns, and sort each into bins once"
_EXACT = "an exact kernel has no error of random features, and on few rows costs little"
REASONS = {
    "Nystroem": "its features come from rows of the data, so that fewer of them do; distrf has `NystroemFeatures` too",
    "Fastfood": "D there means 2 D columns, cosines and sines",
    "RBFSampler + LinearSVC": "the hinge loss in place of squares suits these labels; a process of its own, without Dask",
    "RBFSampler + SGD": "a few epochs of D products a row cost less than a Gram matrix; a process of its own, without Dask",
    "RBFSampler": "one process without Dask: no scheduler, worker or compiled loops in memory",
    "SVC": _EXACT,
    "thundersvm": _EXACT,
    "KernelRidge": _EXACT,
    "HistGradientBoosting": _TREES,
    "xgboost": _TREES,
    "lightgbm": _TREES,
    "snapml.BoostingMachine": _TREES,
}


def why(method: str) -> str:
    """The reason of the longest name that the method's name begins with."""
    known = [name for name in REASONS if method.startswith(name)]
    return REASONS[max(known, key=len)] if known else UNKNOWN


def reasons(methods: list[str]) -> str:
    """A sentence with the reason of each method, those that share one together."""
    shared: dict[str, list[str]] = {}
    for method in methods:
        shared.setdefault(why(method), []).append(method)
    return "Why: " + ". ".join(f"{', '.join(names)}: {reason}" for reason, names in shared.items()) + "."
