"""Feng, Hu & Liao (2015), "Random Feature Mapping with Signed Circulant Matrix Projection": Figures 1-3, Tables 1 and 2."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.svm import SVC, LinearSVC

from benchmarks import data
from benchmarks.benchmark import Benchmark, Part, Record, Run, markdown, pm, spread, where
from benchmarks.clocks import cpu, in_turn, medians
from benchmarks.papers.scrf_2015_claims import COLUMNS, PAPER_ACCURACY, PAPER_SECONDS, claims
from distrf.kernels import Gaussian
from distrf.maps import FourierMap
from distrf.metrics import kernel_error
from distrf.plot import KernelErrorDisplay, KernelScatterDisplay

MAPS = {"RKS": "dense", "Fastfood": "fastfood", "SCRF": "circulant-paper", "circulant": "circulant"}
#: Other projections whose variance stands beside theirs.
ALTERNATING = {
    "alternating, as printed": "alternating_circulant-paper",
    "alternating": "alternating_circulant",
    "alternating, log2": "alternating_circulant-log2",
}
#: Runs of each map that speeds are medians of, and draws of a map in Figure 1.
ROUNDS, DRAWS = 3, 20
#: Rows of the exact SVM at most: its time grows with their square.
SVM_ROWS = 20_000
GAMMA = 0.25
#: Methods of Table 2: the exact SVM, the paper's maps, and what distrf takes by default.
METHODS = ("SVC", "RKS", "Fastfood", "SCRF", "circulant")


def feature_map(name: str, d: int, D: int, gamma: float, seed: int) -> FourierMap:
    """The map of the paper: features with offsets."""
    return FourierMap(d, D, Gaussian(), Gaussian().length_scale_of_gamma(gamma), MAPS[name], "offset", seed)


# ---- Figure 1 -----------------------------------------------------------------------------------------


def figure1(run: Run) -> Iterator[Record]:
    """Relative error |K - ZZ'|_F / |K|_F of 500 rows on [0, 1]^16 against D."""
    rows = np.random.default_rng(0).uniform(size=(run.pick(500, 60), COLUMNS))
    for D in run.pick((64, 128, 256, 512, 1024, 2048), (64, 128)):
        for name in MAPS:
            maps = [feature_map(name, COLUMNS, D, GAMMA, seed) for seed in range(run.pick(DRAWS, 2))]
            errors = [kernel_error(m, rows, n_rows=len(rows), norms=["frobenius"]).frobenius for m in maps]
            yield {"map": name, "D": D, **spread(errors), "errors": errors}


def show_figure1(records: list[Record]) -> str:
    sizes = sorted({r["D"] for r in records})
    rows = [
        [name, *(f"{100 * r['mean']:.2f} ± {100 * r['standard_error']:.2f}" for r in where(records, map=name))]
        for name in MAPS
    ]
    said = (
        f"Relative error of the kernel matrix, percent, {records[0]['n']} draws of a map, ± one standard error of their mean. In the picture "
        "each scatter is one draw, whose error many pairs of rows share, so that it may lie above or below the diagonal as a whole; bars are "
        "the standard deviation of a draw."
    )
    return f"{said}\n\n" + markdown(["map", *(f"D = {D:,}" for D in sizes)], rows)


def draw_figure1(records: list[Record], figure: Any) -> None:
    figure.set_size_inches(14, 3.6)
    axes = figure.subplots(1, 4)
    rows = np.random.default_rng(0).uniform(size=(100, COLUMNS))
    for ax, name in zip(axes, ("RKS", "Fastfood", "SCRF"), strict=False):
        KernelScatterDisplay.from_estimator(feature_map(name, COLUMNS, 512, GAMMA, 0), rows, ax=ax)
        ax.set_title(f"{name}, D = 512: one draw")
        ax.set(xlim=(0.2, 1.0), ylim=(0.2, 1.0))
    table = [{"map": r["map"], "n_components": r["D"], "error": e} for r in records for e in r["errors"]]
    KernelErrorDisplay.from_table(table, ax=axes[3])
    axes[3].set_title("bars: standard deviation of a draw", fontsize=10)
    axes[3].set_ylabel("|K - ZZ'| / |K|, Frobenius")


# ---- Table 1 and Figure 2 -----------------------------------------------------------------------------


def seconds_of(d: int, D: int, n: int, rounds: int) -> Record:
    """Processor seconds of the features of n rows on [0, 1]^d: ours in float32, in turn with scikit-learn's RBFSampler."""
    X = np.random.default_rng(0).uniform(size=(n, d)).astype(np.float32)
    maps = {name: feature_map(name, d, D, GAMMA / d, 0) for name in ("RKS", "Fastfood", "SCRF")}
    peer = RBFSampler(gamma=GAMMA / d, n_components=D, random_state=0).fit(X)
    calls: dict[str, Any] = {name: (lambda m=m: m(X)) for name, m in maps.items()}
    calls |= {"RBFSampler": lambda: peer.transform(X)}
    kept = {f"{name} bytes": m.work()[1] for name, m in maps.items()}
    return {"d": d, "D": D, "rows": n, "rounds": rounds, **medians(in_turn(calls, rounds)), **kept}


def table1(run: Run) -> Iterator[Record]:
    """5,000 rows, D = 8,192."""
    for d in run.pick((512, 1024, 2048, 4096), (64, 128)):
        yield seconds_of(d, run.pick(8192, 256), run.pick(5000, 50), run.pick(ROUNDS, 1))


def figure2(run: Run) -> Iterator[Record]:
    """D = d."""
    for d in run.pick((512, 1024, 2048, 4096, 8192), (64, 128)):
        yield seconds_of(d, d, run.pick(2000, 50), run.pick(ROUNDS, 1))


def show_table1(records: list[Record]) -> str:
    head = [
        "d",
        "RBFSampler s",
        "RKS s",
        "Fastfood s",
        "SCRF s",
        "SCRF, x RBFSampler",
        "SCRF, x RKS",
        "paper, x RKS",
        "Fastfood, x RKS",
        "paper",
    ]
    rows = []
    for r in records:
        theirs = PAPER_SECONDS.get(r["d"])
        paper = [f"{theirs[0] / theirs[i]:.1f}" if theirs and r["D"] == 8192 else "-" for i in (2, 1)]
        ratios = [
            f"{r['RBFSampler'] / r['SCRF']:.1f}",
            f"{r['RKS'] / r['SCRF']:.1f}",
            paper[0],
            f"{r['RKS'] / r['Fastfood']:.1f}",
            paper[1],
        ]
        rows.append(
            [f"{r['d']:,}", *(f"{r[name]:.3f}" for name in ("RBFSampler", "RKS", "Fastfood", "SCRF")), *ratios]
        )
    kept = "; ".join(
        f"d = {r['d']:,}: Fastfood {r['RKS bytes'] / r['Fastfood bytes']:.0f}, SCRF {r['RKS bytes'] / r['SCRF bytes']:.0f}"
        for r in records
    )
    first = records[0]
    return (
        f"Processor seconds of {first['rows']:,} rows, each the median of {first.get('rounds', ROUNDS)} runs that take turns, and the ratios of "
        "these medians; RBFSampler is scikit-learn's, RKS ours with "
        "the same dense weights, both on float32 rows.\n\n"
        + markdown(head, rows)
        + f"\n\nNumbers that RKS keeps, over those that the others keep: {kept}."
    )


# ---- Table 2 and Figure 3 -----------------------------------------------------------------------------


def load(run: Run, name: str) -> data.Split:
    """Rows as LIBSVM scales them: grey values to [0, 1], splice and letter columns to [-1, 1]."""
    X, y, T, t = data.split(run, name, 4062, seed=1)
    X, T = data.dense(X), data.dense(T)
    if name == "mnist":
        X, T = data.unit_range(X, T)
    elif name == "usps":  # LIBSVM's usps is in [-1, 1]
        X, T = 2 * X - 1, 2 * T - 1
    elif name == "splice":  # letters 1 to 4
        X, T = ((2 * v - 5) / 3 for v in (X, T))
    return X, y, T, t


def linear_svm(C: float) -> LinearSVC:
    return LinearSVC(C=C, random_state=0, max_iter=300, tol=0.01)  # LIBLINEAR's own tolerance


def table2_of(run: Run, name: str, seeds: int) -> Iterator[Record]:
    """One set. Methods that the file of results has, with as many features and seeds, are left out."""
    C, gamma, D, _ = PAPER_ACCURACY[name]
    D = run.pick(D, 32)
    missing = [m for m in METHODS[1:] if not run.has(set=name, method=m, D=D, n=seeds)]
    exact = not run.has(set=name, method="SVC")
    if not missing and not exact:
        return
    X, y, T, t = load(run, name)
    if exact:
        few, few_y = data.sample(X, y, SVM_ROWS)
        seconds, svm = cpu(lambda: SVC(C=2.0**C, gamma=2.0**gamma, cache_size=1000).fit(few, few_y))
        more, score = cpu(lambda: 100 * svm.score(T, t))
        times = {"fit": seconds, "predict": more}
        yield {"set": name, "method": "SVC", "rows": len(few), **times, **spread([score])}
    for method in missing:
        scores, fits, predicts = [], [], []
        for seed in range(seeds):
            map_ = feature_map(method, X.shape[1], D, 2.0**gamma, seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # liblinear's dual stops at max_iter
                fit, model = cpu(lambda m=map_: linear_svm(2.0**C).fit(m(X), y))
            predict, score = cpu(lambda m=map_, model=model: 100 * model.score(m(T), t))
            scores.append(score), fits.append(fit), predicts.append(predict)
        times = {"fit": float(np.median(fits)), "predict": float(np.median(predicts))}
        yield {"set": name, "method": method, "rows": len(X), "D": D, **times, **spread(scores)}


def table2(run: Run) -> Iterator[Record]:
    for name in run.pick(PAPER_ACCURACY, ("splice",)):
        yield from table2_of(run, name, run.pick(2 if name in ("mnist", "w8a", "a9a") else 5, 2))


def show_table2(records: list[Record]) -> str:
    rows = []
    for name in dict.fromkeys(r["set"] for r in records):
        theirs = PAPER_ACCURACY[name][-1]
        cells = []
        for method, paper in zip(METHODS, (*theirs, None), strict=True):
            found = where(records, set=name, method=method)
            if found:
                r = found[0]
                cells.append(f"{pm(r)} ({paper}) {r['fit']:.1f} + {r['predict']:.1f} s".replace(" (None)", ""))
            else:
                cells.append("-")
        rows.append([f"{name}, D = {PAPER_ACCURACY[name][2]:,}", *cells])
    return (
        "Accuracy in percent (the paper's in brackets), processor seconds of training and predicting.\n\n"
        + markdown(["set", "SVC", "RKS", "Fastfood", "SCRF", "circulant, signs on the input"], rows)
        + unmeasured(records)
    )


def unmeasured(records: list[Record]) -> str:
    """Sets and methods of Table 2 that have no record."""
    missing = []
    for name in PAPER_ACCURACY:
        methods = [m for m in METHODS if not where(records, set=name, method=m)]
        if methods:
            missing.append(name if len(methods) == len(METHODS) else f"{', '.join(methods)} on {name}")
    return f"\n\nNot run: {'; '.join(missing)}. The command below goes on with them." if missing else ""


def figure3(run: Run) -> Iterator[Record]:
    """Accuracy against D."""
    for name in run.pick(("dna", "ijcnn1"), ("dna",)):
        C, gamma, _, _ = PAPER_ACCURACY[name]
        X, y, T, t = load(run, name)
        for D in run.pick(
            (50, 100, 200, 500, 1000, 2000) if name == "dna" else (50, 100, 200, 500, 1000), (16, 32)
        ):
            for method in ("RKS", "Fastfood", "SCRF", "circulant"):
                scores = []
                for seed in range(run.pick(5 if name == "dna" else 2, 2)):
                    map_ = feature_map(method, X.shape[1], D, 2.0**gamma, seed)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        scores.append(100 * linear_svm(2.0**C).fit(map_(X), y).score(map_(T), t))
                yield {"set": name, "method": method, "D": D, **spread(scores)}


def show_figure3(records: list[Record]) -> str:
    blocks = ["Test accuracy of LIBLINEAR in percent."]
    for name in dict.fromkeys(r["set"] for r in records):
        mine = where(records, set=name)
        sizes = sorted({r["D"] for r in mine})
        rows = [[m, *(pm(r) for r in where(mine, method=m))] for m in dict.fromkeys(r["method"] for r in mine)]
        blocks.append(markdown([name, *(f"D = {D:,}" for D in sizes)], rows))
    return "\n\n".join(blocks)


# ---- Theorem 2 ----------------------------------------------------------------------------------------


def variance(run: Run) -> Iterator[Record]:
    """Variance of the estimate of one kernel value over that of independent frequencies (Eq. 12), d = 256, |v| = sigma."""
    d, seeds = run.pick(256, 32), run.pick(1500, 50)
    t = np.arange(d) / d
    differences = {
        "random": np.random.default_rng(0).normal(size=d),
        "smooth": 1.0 + 0.5 * np.sin(2 * np.pi * t),
        "constant": np.ones(d),
    }
    for kind, v in differences.items():
        v = v / np.linalg.norm(v)
        rows = np.stack([v, np.zeros(d)])
        dense_variance = (1 - np.exp(-1.0)) ** 2 / (2 * (d // 1))
        for name, projection in (MAPS | ALTERNATING).items():
            maps = (FourierMap(d, 2 * d, Gaussian(), 1.0, projection, "paired", seed) for seed in range(seeds))
            values = [float(np.prod(m(rows), axis=0).sum()) for m in maps]
            yield {
                "difference": kind,
                "map": name,
                "ratio": float(np.var(values, ddof=1) / dense_variance),
                "seeds": seeds,
            }


def show_variance(records: list[Record]) -> str:
    kinds = ("random", "smooth", "constant")
    rows = [
        [name, *(f"{where(records, difference=kind, map=map_)[0]['ratio']:.1f}" for kind in kinds)]
        for map_, name in (("RKS", "RKS"), ("Fastfood", "Fastfood"), ("SCRF", "SCRF: `circulant-paper`"),
                           ("circulant", "signs on the input: `circulant`"),
                           *((name, f"`{projection}`") for name, projection in ALTERNATING.items()))
    ]  # fmt: skip
    return (
        "Variance over Eq. 12 of the paper, for differences $x - y$ of length $\\sigma$; one block of cosines and sines.\n\n"
        + markdown(["", *kinds], rows)
    )


ABOUT = f"""
Chang Feng, Qinghua Hu, Shizhong Liao, *Random Feature Mapping with Signed Circulant Matrix Projection*, IJCAI 2015.

RKS are [Fourier features](../methods/fourier.md) of dense weights, SCRF those of a circulant matrix whose *rows* have random
signs, as the paper prints it; *circulant, signs on the input* is what distrf takes by default. Features have offsets, as the
paper's. LIBLINEAR and LIBSVM are those of scikit-learn; $C$, $\\gamma$ and $D$ are the paper's, and the exact SVM trains on {SVM_ROWS:,}
rows at most. Left out: cifar10 in Table 2, of which only 4,000 rows are at hand.
"""

BENCHMARK = Benchmark(
    "scrf_2015", "Signed circulant features (2015)", ABOUT,
    (
        Part("variance", variance, show_variance, data=False),
        Part("figure1", figure1, show_figure1, draw_figure1, data=False),
        Part("table1", table1, show_table1, data=False),
        Part("figure2", figure2, show_table1, data=False),
        Part("table2", table2, show_table2, resumes=True),
        Part("figure3", figure3, show_figure3),
    ),
    claims,
)  # fmt: skip
