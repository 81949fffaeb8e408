"""Mukuta, Ushiku & Harada (2018), "Alternating Circulant Random Features for Semigroup Kernels": Figure 1, Tables 2-5."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.fft

from benchmarks import data
from benchmarks.benchmark import Benchmark, Part, Record, Run, markdown, pm, spread, where
from benchmarks.clocks import in_turn, medians
from benchmarks.papers.altcirc_2018_claims import PAPER_SECONDS, claims
from benchmarks.papers.altcirc_2018_theory import (
    MAPS,
    precision,
    show_precision,
    show_theorems,
    theorems,
    unit_sums,
)
from distrf import RandomFourierFeatures, RandomLaplaceFeatures, StreamingRidgeClassifier
from distrf.kernels import ExponentialSemigroup
from distrf.maps import LaplaceMap
from distrf.plot import KernelErrorDisplay
from distrf.projections.cache import weight_cache

FAST = ("altcirc, log2 d", "altcirc, 2")
#: Seeds of the accuracies of each set: its full runs take about four minutes each.
SETS = {"newsgroups20_counts": 6, "sector_counts": 10, "usps": 10}
WORDS = 512
#: Features over columns in Tables 2 to 4 of the paper.
PAPER_TIMES = (1, 2, 4, 8, 16)


# ---- rows ---------------------------------------------------------------------------------------------


def load(run: Run, name: str) -> data.Split:
    """Rows of unit l1 norm, float64: grey values, or the words that most training rows have."""
    X, y, T, t = data.split(run, name, 0.8)
    if name != "usps":
        rows = np.bincount(X.indices, minlength=X.shape[1])
        kept = np.sort(np.argsort(-rows, kind="stable")[: run.pick(WORDS, 16)])
        X, T = X[:, kept], T[:, kept]
    return unit_sums(data.dense(X)), y, unit_sums(data.dense(T)), t


# ---- Figure 1 -----------------------------------------------------------------------------------------


def figure1(run: Run) -> Iterator[Record]:
    """Relative error |K - ZZ'|_F / |K|_F against D."""
    for name in run.pick(SETS, ("usps", "sector_counts")):
        X, y, _, _ = load(run, name)
        X, _ = data.sample(X, y, run.pick(500, 40))
        d = X.shape[1]
        kernel = RandomLaplaceFeatures(n_components=1, random_state=0).fit(X).kernel_
        K = kernel(X)
        norm = np.linalg.norm(K)
        for D in [times * d for times in run.pick((1, 2, 4, 8, 16), (1, 2))]:
            for method, projection in MAPS.items():
                errors = []
                for seed in range(run.pick(20, 3)):
                    Z = LaplaceMap(d, D, kernel, projection, seed)(X)
                    errors.append(float(np.linalg.norm(K - Z @ Z.T) / norm))
                deviation = float(np.std(errors, ddof=1))
                yield {
                    "set": name,
                    "map": method,
                    "d": d,
                    "D": D,
                    **spread(errors),
                    "deviation": deviation,
                    "errors": errors,
                }


def show_figure1(records: list[Record]) -> str:
    blocks = [
        f"Relative error of the kernel matrix of 500 rows in percent, {records[0]['n']} seeds; in brackets, and as bars, the standard deviation between seeds."
    ]
    for name in dict.fromkeys(r["set"] for r in records):
        mine = where(records, set=name)
        sizes = sorted({r["D"] for r in mine})
        rows = []
        for method in MAPS:
            found = sorted(where(mine, map=method), key=lambda r: r["D"])
            rows.append([method, *(percent(r) for r in found)])
        blocks.append(markdown([f"{name}, d = {mine[0]['d']}", *(f"D = {D:,}" for D in sizes)], rows))
    return "\n\n".join(blocks)


def percent(r: Record) -> str:
    return f"{100 * r['mean']:.2f} ± {100 * r['standard_error']:.2f} ({100 * r['deviation']:.2f})"


def draw_figure1(records: list[Record], figure: Any) -> None:
    sets = list(dict.fromkeys(r["set"] for r in records))
    figure.set_size_inches(4.4 * len(sets), 3.8)
    for ax, name in zip(np.atleast_1d(figure.subplots(1, len(sets), sharey=True)), sets, strict=True):
        table = [
            {"map": r["map"], "n_components": r["D"], "error": e}
            for r in where(records, set=name)
            for e in r["errors"]
        ]
        KernelErrorDisplay.from_table(table, ax=ax)
        ax.set_title(name)
        ax.set_ylabel("|K - ZZ'| / |K|, Frobenius" if name == sets[0] else "")


# ---- what kind of error it is -------------------------------------------------------------------------


def factor(run: Run) -> Iterator[Record]:
    """Error of the kernel matrix as it is, and of the centred one times the best factor: what ridge with an intercept sees."""
    for name in run.pick(SETS, ("usps",)):
        X, y, _, _ = load(run, name)
        X, _ = data.sample(X, y, run.pick(300, 40))
        d = X.shape[1]
        kernel = RandomLaplaceFeatures(n_components=1, random_state=0).fit(X).kernel_
        K = kernel(X)
        centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
        for method, projection in MAPS.items():
            raw, left = [], []
            for seed in range(run.pick(10, 3)):
                Z = LaplaceMap(d, d, kernel, projection, seed)(X)
                raw.append(float(np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K)))
                Z -= Z.mean(axis=0)
                G = Z @ Z.T
                best = (G * centred).sum() / (G * G).sum()
                left.append(float(np.linalg.norm(centred - best * G) / np.linalg.norm(centred)))
            yield {"set": name, "map": method, "D": d, "raw": spread(raw), "left": spread(left)}


def show_factor(records: list[Record]) -> str:
    sets = list(dict.fromkeys(r["set"] for r in records))
    rows = []
    for method in dict.fromkeys(r["map"] for r in records):
        cells = [
            f"{pm(r[what])}"
            for name in sets
            for r in where(records, set=name, map=method)
            for what in ("raw", "left")
        ]
        rows.append([method, *cells])
    head = [title for name in sets for title in (f"{name}, raw", "centred, scaled")]
    return (
        f"Relative error of the kernel matrix of 300 rows, D = d, {records[0]['raw']['n']} seeds: as it is, and of the centred matrix when $ZZ'$ is multiplied by its "
        "best factor. A model with an intercept and a penalty that is picked sees the second.\n\n"
        + markdown(["", *head], rows)
    )


# ---- Tables 2 to 4 ------------------------------------------------------------------------------------


def features(method: str, D: int, seed: int) -> Any:
    """The features of a method, not fitted; the parameter of the kernel by its rule."""
    if method == "gauss":
        return RandomFourierFeatures("gaussian", n_components=D, random_state=seed, n_jobs=1)
    return RandomLaplaceFeatures(n_components=D, projection=MAPS[method], random_state=seed, n_jobs=1)


def score(Z: np.ndarray, y: np.ndarray, T: np.ndarray, t: np.ndarray) -> float:
    """Test accuracy in percent of ridge whose penalty is picked on a held-out fifth of the training rows."""
    return 100 * StreamingRidgeClassifier(cv="holdout").fit(Z, y).score(T, t)


def accuracy(run: Run) -> Iterator[Record]:
    """Tables 2 to 4 on our sets."""
    for name, seeds in run.pick(SETS, {"usps": 2}).items():
        X, y, T, t = load(run, name)
        d = X.shape[1]
        yield {"set": name, "method": "linear", "d": d, "D": d, **spread([score(X, y, T, t)])}
        for D in [times * d for times in run.pick((1, 2, 4), (1,))]:
            for method in (*MAPS, "gauss"):
                scores = []
                for seed in range(run.pick(seeds, 2)):
                    made = features(method, D, seed).fit(X)
                    scores.append(score(made.transform(X), y, made.transform(T), t))
                yield {"set": name, "method": method, "d": d, "D": D, **spread(scores)}


def show_accuracy(records: list[Record]) -> str:
    blocks = ["Test accuracy in percent."]
    for name in dict.fromkeys(r["set"] for r in records):
        mine = where(records, set=name)
        rows = []
        for method in (*MAPS, "gauss", "linear"):
            found = sorted(where(mine, method=method), key=lambda r: r["D"])
            rows.append([method, *(pm(r) for r in found)])
        sizes = sorted({r["D"] for r in mine})
        rows = [row + ["-"] * (1 + len(sizes) - len(row)) for row in rows]
        blocks.append(markdown([f"{name}, d = {mine[0]['d']}", *(f"D = {D:,}" for D in sizes)], rows))
    missing = [f"D = {times} d" for times in PAPER_TIMES if times not in {r["D"] // r["d"] for r in records}]
    return "\n\n".join([*blocks, *([f"Not measured: {', '.join(missing)}."] if missing else [])])


def scales(run: Run) -> Iterator[Record]:
    """Accuracy of random and gauss at D = 2 d for multiples of what their rules set."""
    for name in run.pick(SETS, ("usps",)):
        X, y, T, t = load(run, name)
        D = 2 * X.shape[1]
        rules = {method: features(method, D, 0).fit(X) for method in ("random", "gauss")}
        for times in run.pick((0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0), (0.5, 1.0)):
            beta, length = times * rules["random"].kernel_.beta, times * rules["gauss"].length_scale_
            for method, options in (("random", {"beta": beta}), ("gauss", {"length_scale": length})):
                scores = []
                for seed in range(run.pick(3, 2)):
                    made = features(method, D, seed).set_params(**options).fit(X)
                    scores.append(score(made.transform(X), y, made.transform(T), t))
                yield {"set": name, "method": method, "D": D, "times": times, **spread(scores)}


def show_scales(records: list[Record]) -> str:
    multiples = sorted({r["times"] for r in records})
    rows = [
        [
            f"{name}, {method}",
            *(pm(r) for x in multiples for r in where(records, set=name, method=method, times=x)),
        ]
        for name in dict.fromkeys(r["set"] for r in records)
        for method in ("random", "gauss")
    ]
    return (
        "Test accuracy in percent, D = 2 d, where $\\beta$ (random) and the length scale (gauss) are multiples of what their rules set.\n\n"
        + markdown(["", *(f"x {x:g}" for x in multiples)], rows)
    )


# ---- Table 5 ------------------------------------------------------------------------------------------


def bare(map_: LaplaceMap, n: int) -> Callable[[], None]:
    """What a structured map cannot do without: n_mixed FFTs forward and one back for each row, and exponentials."""
    d, mixed = map_.n_features_in, map_.projector.n_mixed
    rows = min(n, 8)
    rng = np.random.default_rng(0)
    parts, spectra = np.zeros((rows, mixed, d)), scipy.fft.rfft(rng.random((rows, d)))
    phases = rng.random((rows, d))

    def run() -> None:
        for _ in range(-(-n // rows)):
            scipy.fft.rfft(parts)
            scipy.fft.irfft(spectra, d)
            np.exp(-phases)

    return run


def table5(run: Run) -> Iterator[Record]:
    """D = d, float64: one row, and blocks of rows; each turn makes several calls, so that caches are warm."""
    kept = weight_cache.max_bytes
    weight_cache.max_bytes = 3 * 2**30  # the dense weights of d = 16,384 take 2 GiB
    try:
        for d in run.pick((1024, 2048, 4096, 8192, 16384), (64, 128)):
            X = np.random.default_rng(0).uniform(size=(run.pick(128, 8), d))
            kernel = ExponentialSemigroup().with_median(2 * X[:50])
            for rows in (1, len(X)):
                yield seconds_of(X[:rows], kernel, run.pick(5, 1), run.pick(10 if rows == 1 else 1, 1))
            weight_cache.clear()
    finally:
        weight_cache.max_bytes = kept


def seconds_of(X: np.ndarray, kernel: ExponentialSemigroup, rounds: int, times: int) -> Record:
    """Processor seconds a row of each map and of its bare transforms."""
    rows, d = X.shape
    out = np.empty((rows, d))
    calls: dict[str, Callable[[], Any]] = {}
    for name in ("random", *FAST):
        map_ = LaplaceMap(d, d, kernel, MAPS[name], 0)
        calls[name] = lambda map_=map_: [map_.fill(X, out) for _ in range(times)]
        if name != "random":
            lean = bare(map_, rows)
            calls[f"bare {name}"] = lambda lean=lean: [lean() for _ in range(times)]
    taken = medians(in_turn(calls, rounds))
    return {"d": d, "rows": rows, **{name: value / (times * rows) for name, value in taken.items()}}


def show_table5(records: list[Record]) -> str:
    head = [
        "d = D",
        "random",
        *FAST,
        *(f"random / {name}" for name in FAST),
        *(f"{name}, over bare" for name in FAST),
    ]
    blocks = [
        "Processor milliseconds a row, float64; in brackets the paper's ratio. Bare: FFTs and exponentials alone."
    ]
    for rows in sorted({r["rows"] for r in records}):
        lines = []
        for r in where(records, rows=rows):
            theirs = PAPER_SECONDS.get(r["d"])
            line = [f"{r['d']:,}", *(f"{1e3 * r[name]:.3f}" for name in ("random", *FAST))]
            for name in FAST:
                paper = f" ({theirs['random'] / theirs[name]:.0f})" if theirs else ""
                line.append(f"{r['random'] / r[name]:.1f}{paper}")
            lines.append([*line, *(f"{r[name] / r['bare ' + name]:.1f}" for name in FAST)])
        what = "One row at a time" if rows == 1 else f"Blocks of {rows} rows"
        blocks += [f"{what}:", markdown(head, lines)]
    return "\n\n".join(blocks)


ABOUT = """
Yusuke Mukuta, Yoshitaka Ushiku, Tatsuya Harada, *Alternating Circulant Random Features for Semigroup Kernels*, AAAI 2018.

*random* are [Laplace features](../methods/laplace.md) of dense weights, *altcirc* those whose columns are drawn from 2 or from
$\\log_2 d$ circulant matrices, *circ* those of a single one, all without signs. The kernel is the exponential semigroup,
$\\exp(-\\beta \\sum_j \\sqrt{x_j + y_j})$, as in the paper. $\\beta$ is set by the median rule, and the length scale of *gauss*
by the mean distance to the 50th neighbour, as in the paper.

Not to be had are the paper's rows: VGG-16 activations, softmax outputs and visual words of CUB-200, Stanford Dogs and
Caltech-256. In their place stand word counts (newsgroups20_counts and sector_counts, the 512 words that most documents
have) and grey values (usps), all rows of unit $l_1$ norm. Figure 1 takes 500 rows in place of 2,000, and D up to 16 d in place of
32 d. The classifier is ridge with a penalty picked on held-out training rows in place of LIBLINEAR with C = 100. Standard
errors are over seeds of the maps; the rows are the same for all. All blocks of $d$ features share the choice of matrices, so that m
FFTs of a row serve every block; blocks stay independent given that choice, and the estimate unbiased, so it costs no variance. The
features of one seed at D = 2 d begin with those at D = d, up to their scale.
"""

BENCHMARK = Benchmark(
    "altcirc_2018", "Alternating circulant features (2018)", ABOUT,
    (
        Part("precision", precision, show_precision, data=False),
        Part("theorems", theorems, show_theorems, data=False),
        Part("figure1", figure1, show_figure1, draw_figure1),
        Part("factor", factor, show_factor),
        Part("accuracy", accuracy, show_accuracy),
        Part("scales", scales, show_scales),
        Part("table5", table5, show_table5, data=False),
    ),
    claims,
)  # fmt: skip
