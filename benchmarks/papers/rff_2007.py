"""Rahimi & Recht (2007), "Random Features for Large-Scale Kernel Machines": Table 1, and its features at equal time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.svm import SVC

from benchmarks import data
from benchmarks.benchmark import Benchmark, Part, Record, Run, markdown, pm, where
from benchmarks.clocks import cpu
from benchmarks.papers.rff_2007_claims import PAPER, at_seconds, claims
from benchmarks.papers.rff_2007_kernels import convergence, draw_convergence, show_convergence
from benchmarks.papers.rff_2007_train import REGRESSION, SETS, Rows, choose, load, measure, unit_of, walk
from distrf.kernels import get_shift_invariant_kernel
from distrf.kernels.exact import kernel_block
from distrf.plot.axes import set_round_ticks

#: Most features with which a length scale is chosen; with more, Fourier features of the Laplacian kernel are left out.
MOST = 2048
#: Rows of exact methods: to choose their parameters, to train kernel ridge and SVM, to test.
FEW, RIDGE_ROWS, SVM_ROWS, TEST_ROWS = 2000, 6000, 10_000, 10_000
NAMES = {
    "fourier": "Fourier",
    "fourier-laplacian": "Fourier, Laplacian",
    "binning": "binning",
    "ridge-gaussian": "kernel ridge, Gaussian",
    "ridge-laplacian": "kernel ridge, Laplacian",
    "SVM": "SVM, Gaussian",
}


# ---- Table 1: random features -------------------------------------------------------------------------


def table1(run: Run) -> Iterator[Record]:
    for name in run.pick(tuple(SETS), ("cpu_act", "covtype_sample")):
        rows = load(run, name)
        for method in ("fourier", "binning", "fourier-laplacian"):
            size = run.pick(PAPER[name][method.split("-")[0]][2], 4)
            if method == "fourier-laplacian" and size > MOST:
                continue
            chosen = choose(method, size, rows, 1.0 if name == "covtype_sample" else 2.0, MOST)
            seeds = run.pick(2 if size > MOST else 3, 2)
            yield {"set": name, **measure(method, size, chosen, rows, seeds)}


def show_table1(records: list[Record]) -> str:
    rows = []
    for name in dict.fromkeys(r["set"] for r in records):
        cells = [f"{SETS[name][0]}, {records_of(records, name):,} rows"]
        for method in ("fourier", "fourier-laplacian", "binning"):
            for r in where(records, set=name, method=method):
                cells.append(
                    f"{'P' if method == 'binning' else 'D'} = {r['size']:,}: {pm(r)}, {r['seconds']:.2f} s"
                )
            if not where(records, set=name, method=method):
                cells.append("-")
        theirs = PAPER[name]
        cells += [f"{theirs[m][0]}, {spoken(theirs[m][1])}" for m in ("fourier", "binning")]
        rows.append(cells)
    head = ["set", "Fourier", "Fourier, Laplacian kernel", "binning", "paper: Fourier", "paper: binning"]
    return (
        "Test error in percent (of the norm of the truth for CPU and Census, of the rows for the others), and processor "
        "seconds of training. ± is over draws of the features.\n\n" + markdown(head, rows)
    )


def records_of(records: list[Record], name: str) -> int:
    """Training rows of a set."""
    return int(where(records, set=name)[0]["rows"])


def spoken(seconds: float) -> str:
    """Seconds, minutes or hours, as the paper prints them."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


# ---- exact methods ------------------------------------------------------------------------------------


def exact(run: Run) -> Iterator[Record]:
    """Kernel ridge with both kernels, and SVMs, on some of the rows."""
    for name in run.pick(tuple(SETS), ("cpu_act", "covtype_sample")):
        rows = load(run, name)
        T, t = data.sample(rows.T, rows.t, run.pick(TEST_ROWS, 50))
        rows = rows._replace(T=T, t=t)
        methods = ["ridge-gaussian"]
        if name != "a9a":  # of 0/1 columns the Laplacian kernel is the Gaussian one
            methods.append("ridge-laplacian")
        if name not in REGRESSION:
            methods.append("SVM")
        for method in methods:
            yield {"set": name, **exact_of(method, rows, run)}


def exact_of(method: str, rows: Rows, run: Run) -> Record:
    """Error and seconds of an exact method, its parameters chosen on few rows, and its seconds with half the rows."""
    few, few_y = data.sample(rows.X, rows.y, run.pick(FEW, 100), seed=1)
    kept = len(few) * 4 // 5
    trial = rows._replace(X=few[:kept], y=few_y[:kept], T=few[kept:], t=few_y[kept:])
    fit = svm if method == "SVM" else kernel_ridge
    kernel = "laplacian" if method == "ridge-laplacian" else "gaussian"
    unit, best = unit_of(kernel, few), {}
    penalties = (1.0, 10.0, 100.0) if method == "SVM" else (1e-7, 1e-6, 1e-5, 1e-4, 1e-3)

    def error_of(scale: float) -> float:
        errors = {p: trial.error(fit(kernel, scale * unit, p, trial)(trial.T)) for p in penalties}
        best[scale] = min(errors, key=lambda p: errors[p])
        return errors[best[scale]]

    scale = walk(error_of)
    X, y = data.sample(rows.X, rows.y, run.pick(SVM_ROWS if method == "SVM" else RIDGE_ROWS, 200))
    half = rows._replace(X=X[::2], y=y[::2])
    half_seconds, _ = cpu(lambda: fit(kernel, scale * unit, best[scale], half))
    seconds, model = cpu(lambda: fit(kernel, scale * unit, best[scale], rows._replace(X=X, y=y)))
    made = {"method": method, "rows": len(X), "in_knn": scale, "penalty": best[scale]}
    return made | {"seconds": seconds, "half_seconds": half_seconds, "error": rows.error(model(rows.T))}


def kernel_ridge(kernel: str, length_scale: float, alpha: float, rows: Rows) -> Any:
    """Least squares in the space of the kernel, (K + n alpha) c = y - mean; returns its predictions of rows."""
    k, centre = get_shift_invariant_kernel(kernel), rows.y.mean()
    K = kernel_block(k, rows.X, rows.X, length_scale)
    K[np.diag_indices(len(K))] += len(K) * alpha
    c = cho_solve(cho_factor(K, lower=True, overwrite_a=True, check_finite=False), rows.y - centre)

    def predict(T: np.ndarray) -> np.ndarray:
        parts = [kernel_block(k, T[a : a + 2000], rows.X, length_scale) @ c for a in range(0, len(T), 2000)]
        scores = np.concatenate(parts) + centre
        return scores if rows.numbers else np.where(scores > 0, 1, -1)

    return predict


def svm(kernel: str, length_scale: float, C: float, rows: Rows) -> Any:
    """LIBSVM with the Gaussian kernel; returns its predictions of rows."""
    return SVC(C=C, gamma=0.5 / length_scale**2, cache_size=1000).fit(rows.X, rows.y).predict


def show_exact(records: list[Record]) -> str:
    rows = []
    for name in dict.fromkeys(r["set"] for r in records):
        cells = [SETS[name][0]]
        for method in ("ridge-gaussian", "ridge-laplacian", "SVM"):
            for r in where(records, set=name, method=method):
                cells.append(
                    f"{r['error']:.2f}, {r['rows']:,} rows: {r['seconds']:.1f} s ({r['half_seconds']:.1f} s with half)"
                )
            if not where(records, set=name, method=method):
                cells.append("-")
        rows.append([*cells, f"{PAPER[name]['exact'][0]}, {spoken(PAPER[name]['exact'][1])}"])
    head = ["set", *(NAMES[m] for m in ("ridge-gaussian", "ridge-laplacian", "SVM")), "paper: exact SVM"]
    return (
        "Test error in percent of exact methods on a sample of the training rows, processor seconds of training (and "
        "with half of them). On Adult the Laplacian kernel is the Gaussian one: its columns are 0 and 1.\n\n"
        + markdown(head, rows)
    )


# ---- equal time ---------------------------------------------------------------------------------------


def equal_time(run: Run) -> Iterator[Record]:
    """Forest Cover: errors and seconds of binning and of Fourier features of either kernel, at several sizes."""
    rows, best = load(run, "covtype_sample"), dict.fromkeys(("binning", "fourier", "fourier-laplacian"), 1.0)
    grids, sizes = run.pick((16, 32, 64, 128), (2, 4)), run.pick((256, 512, 1024, 2048), (16, 32))
    for P, D in zip(grids, sizes, strict=True):
        for method, start in best.items():
            size = P if method == "binning" else D
            chosen = choose(method, size, rows, start)
            best[method] = chosen["in_knn"]
            yield measure(method, size, chosen, rows, run.pick(3, 2))


def show_equal_time(records: list[Record]) -> str:
    table = []
    for method in dict.fromkeys(r["method"] for r in records):
        for r in where(records, method=method):
            size = f"{'P' if method == 'binning' else 'D'} = {r['size']:,}"
            chosen = [f"{r['columns']:,}", f"{r['in_knn']:g}", f"{r['alpha']:.0e}"]
            table.append([f"{NAMES[method]}, {size}", *chosen, f"{r['seconds']:.1f}", pm(r)])
    rivals = [
        [f"P = {r['size']:,}", f"{r['seconds']:.1f}", pm(r),
         *(at(where(records, method=m), r["seconds"]) for m in ("fourier", "fourier-laplacian"))]
        for r in where(records, method="binning")
    ]  # fmt: skip
    head = ["features", "columns", "length scale / knn", "alpha", "seconds", "test error, %"]
    return (
        f"Forest Cover, class 2 against the rest, {records[0]['rows']:,} training rows; processor seconds of features and ridge.\n\n"
        + markdown(head, table)
        + "\n\nTest errors in percent at the seconds of binning; those of Fourier features between their runs, along lines of logarithms:\n\n"
        + markdown(
            ["binning", "seconds", "binning", "Fourier, Gaussian kernel", "Fourier, Laplacian kernel"], rivals
        )
    )


def at(curve: list[Record], seconds: float) -> str:
    """A curve at some seconds, or its last run."""
    if found := at_seconds(curve, seconds):
        return pm(found)
    last = max(curve, key=lambda r: r["seconds"], default=None)
    return "-" if last is None or last["seconds"] > seconds else f"{pm(last)} in {last['seconds']:.1f} s"


def draw_equal_time(records: list[Record], figure: Any) -> None:
    ax = figure.subplots()
    for method in dict.fromkeys(r["method"] for r in records):
        mine = where(records, method=method)
        seconds, means = [r["seconds"] for r in mine], [r["mean"] for r in mine]
        ax.errorbar(
            seconds, means, [r["standard_error"] for r in mine], marker="o", label=NAMES[method], capsize=2
        )
    ax.set(
        xscale="log", xlabel="processor seconds of training", ylabel="test error, % (bars: one standard error)"
    )
    set_round_ticks(ax, [r["seconds"] for r in records], "x")
    ax.legend()


# ---- rows ---------------------------------------------------------------------------------------------


def rows_of(run: Run) -> Iterator[Record]:
    """Forest Cover: test error of the paper's P, and of D = 1,000, against training rows."""
    rows, best = load(run, "covtype_sample"), {"binning": 1.0, "fourier": 1.0}
    n = len(rows.X)
    for share in run.pick((16, 8, 4, 2, 1), (2, 1)):
        X, y = data.sample(rows.X, rows.y, n // share)
        for method, start in best.items():
            size = run.pick(PAPER["covtype_sample"]["binning"][2] if method == "binning" else 1000, 8)
            some = rows._replace(X=X, y=y)
            chosen = choose(method, size, some, start)
            best[method] = chosen["in_knn"]
            yield measure(method, size, chosen, some, run.pick(3, 2))


def show_rows(records: list[Record]) -> str:
    sizes = sorted({r["rows"] for r in records})
    table = [
        [f"{NAMES[m]}, {'P' if m == 'binning' else 'D'} = {where(records, method=m)[0]['size']:,}",
         *(pm(where(records, method=m, rows=n)[0]) if where(records, method=m, rows=n) else "-" for n in sizes)]
        for m in dict.fromkeys(r["method"] for r in records)
    ]  # fmt: skip
    return "Test error on Forest Cover, percent, against training rows.\n\n" + markdown(
        ["features", *(f"{n:,}" for n in sizes)], table
    )


ABOUT = """
Ali Rahimi, Benjamin Recht, *Random Features for Large-Scale Kernel Machines*, NIPS 2007, Table 1 and Claim 1.

[Fourier features](../methods/fourier.md) of the Gaussian kernel with offsets (Algorithm 1) and
[random binning](../methods/binning.md) with the paper's $D$ and $P$, then least squares: from the Gram matrix for Fourier
features, by conjugate gradients for the sparse rows of binning. A grid of binning has 512 hashed columns, 64 for the
regressions, whose long length scales make few bins. Length scale (by factors of 2) and alpha are chosen, untimed, by the squared
error on a held-out fifth of at most 10,000 training rows; where $D$ is larger, the length scale is that of $D$ = 2,048. The
choice walks to a minimum of the held-out error near its start, which need not be the least: another length scale may do better.
Columns are on [0, 1]: the paper does not say how it scales them. *Fourier, Laplacian kernel* is not in the paper: it has the
kernel of binning and the features of Fourier.

How the sets differ from the paper's: *Census* has 16 columns, not 119; *Forest* is a sample of 43,844 rows, of which four fifths
train, not 522,000; *KDDCUP99* trains on the 10 percent set of 494,021 rows, not 4.9 million, and tests on the set with new
attacks. *CPU* and *Adult* are the paper's, up to the choice of test rows.

Exact methods are kernel ridge on 6,000 rows at most and LIBSVM on 10,000 (the paper's are published figures of several SVMs), with
parameters chosen on 2,000 rows; errors are those of 10,000 test rows at most. Left out: CVM.

An error agrees if it is at most a tenth above the paper's, less two standard errors.
"""

BENCHMARK = Benchmark(
    "rff_2007", "Random Fourier and binning features (2007)", ABOUT,
    (
        Part("table1", table1, show_table1),
        Part("exact", exact, show_exact),
        Part("equal_time", equal_time, show_equal_time, draw_equal_time),
        Part("rows", rows_of, show_rows),
        Part("convergence", convergence, show_convergence, draw_convergence, data=False),
    ),
    claims,
)  # fmt: skip
