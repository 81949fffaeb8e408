"""Why a peer is ahead of distrf, by what it is ahead in and by the start of its method's name."""

from __future__ import annotations

from benchmarks.benchmark import UNKNOWN

#: What a peer may be: of a better score, of less time, of a lower peak, ready sooner.
BETTER, QUICKER, LOWER, SOONER = "better", "quicker", "lower", "sooner"

_EXACT = ("SVC", "thundersvm", "KernelRidge")
_TREES = ("HistGradientBoosting", "xgboost", "lightgbm", "snapml.BoostingMachine")
_HINGE = "the hinge loss in place of squares, on Fourier features of the same kernel, suits these labels"
_SGD = "a step of SGD takes D products a row, a Gram matrix D^2"
_LIGHT = "the peer's process loads neither Dask, pandas nor Numba"

REASONS: dict[str, dict[str, str]] = {
    BETTER: {
        "Nystroem": "its features come from rows of the data, so that fewer of them do; distrf has `NystroemFeatures` too",
        "Fastfood": "D there means 2 D columns, cosines and sines",
        "Fastfood(D / 2)": UNKNOWN,
        "RBFSampler + LinearSVC": _HINGE,
        "SupportVectorMachine": _HINGE,  # its class makes RBFSampler features and solves the dual of a linear SVM on them
        **dict.fromkeys(_EXACT, "an exact kernel has no error of random features"),
        **dict.fromkeys(_TREES, "trees cut single columns, features of a Gaussian kernel are smooth functions of all columns"),
    },
    QUICKER: {
        "RBFSampler + SGD": _SGD,
        "Incremental(SGD": _SGD,
        "sklearn TruncatedSVD": "it keeps all features in memory, ours are made anew in each pass",
        **dict.fromkeys(_EXACT, "on few rows an exact kernel costs little"),
        **dict.fromkeys(_TREES, "trees sort each column into bins once, and make no features and no Gram matrix"),
    },
    LOWER: {
        **dict.fromkeys(("RBFSampler", "Nystroem", "PolynomialCountSketch", "sklearn TruncatedSVD"), _LIGHT),
        **dict.fromkeys(_TREES, "the bins of a column in place of features and a Gram matrix"),
    },
    # Of all: distrf imports Dask, pandas and SciPy's statistics, and loads the loops that Numba has compiled.
    SOONER: {"": "distrf imports Dask, pandas and more of SciPy, and loads its compiled loops"},
}  # fmt: skip


def why(method: str, kind: str) -> str:
    """The reason of the longest name that the method's name begins with."""
    known = [name for name in REASONS[kind] if method.startswith(name)]
    return REASONS[kind][max(known, key=len)] if known else UNKNOWN


def reasons(methods: list[str], kind: str) -> str:
    """The reason of each method, those that share one together; without names where several share it; "" of none."""
    shared: dict[str, list[str]] = {}
    for method in dict.fromkeys(methods):
        shared.setdefault(why(method, kind), []).append(method)
    if len(shared) == 1 and len(methods) > 1:
        return next(iter(shared))
    return ". ".join(f"{', '.join(names)}: {reason}" for reason, names in shared.items())
