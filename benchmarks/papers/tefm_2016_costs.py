"""Table 1 of Chen et al. (2016), in measured seconds; and their power, multiplied out in float32."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from benchmarks.benchmark import Record, Run, markdown, where
from benchmarks.clocks import cpu
from benchmarks.papers.tefm_2016_maps import AsPrinted, plain
from benchmarks.residuals import energies, residual_over_least
from distrf import StreamingRidge
from distrf.kernels import Gaussian
from distrf.maps import FourierMap
from distrf.subspace import RangeFinder

COLUMNS, SCALE, ALPHA = 20, 5.0, 1e-6


# ---- Table 1 ------------------------------------------------------------------------------------------


def drawn(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows, and a smooth function of them."""
    X = np.random.default_rng(seed).normal(size=(n, COLUMNS)).astype(np.float32)
    return X, np.sin(X[:, 0] + X[:, 1]).astype(np.float64)


def exact(X: np.ndarray, y: np.ndarray, T: np.ndarray) -> dict[str, float]:
    """M1, kernel ridge regression, by Cholesky in float64."""
    map_ = FourierMap(COLUMNS, 2, Gaussian(), SCALE, "dense", "paired", 0)
    mapping, K = cpu(lambda: map_.exact_kernel(X.astype(np.float64)))
    K[np.diag_indices(len(K))] += len(K) * ALPHA
    training, weights = cpu(lambda: cho_solve(cho_factor(K, overwrite_a=True), y))
    predicting, _ = cpu(lambda: map_.exact_kernel(T.astype(np.float64), X.astype(np.float64)) @ weights)
    return {"mapping": mapping, "training": training, "predicting": predicting}


def linear(estimator: Any, X: np.ndarray, y: np.ndarray, T: np.ndarray) -> dict[str, float]:
    """M2 to M4."""
    mapping, F = cpu(lambda: estimator.fit_transform(X))
    training, model = cpu(lambda: StreamingRidge(ALPHA).fit(F, y))
    predicting, _ = cpu(lambda: model.predict(estimator.transform(T)))
    steps = getattr(estimator, "seconds", {})
    return {"mapping": mapping, "training": training, "predicting": predicting, **steps}


def table1(run: Run) -> Iterator[Record]:
    """Seconds with d = l^2."""
    n, rounds = run.pick(6000, 100), run.pick(3, 1)
    X, y = drawn(n)
    T, _ = drawn(n // 3, 1)
    for wide in run.pick((32, 48, 64), (4, 6)):
        base = plain(wide**2, SCALE, 0)
        calls: dict[str, Any] = {
            "RKS": base,
            "TEFM-G": AsPrinted(base, wide, "gaussian", 1, 0),
            "TEFM-S": AsPrinted(base, wide, "srht", 0, 0),
        }
        taken: dict[str, list[dict[str, float]]] = {}
        for round_ in range(rounds + 1):
            for label, estimator in calls.items():
                found = linear(estimator, X, y, T)
                if round_:  # the first compiles
                    taken.setdefault(label, []).append(found)
        if wide == run.pick(64, 6):
            taken["kernel"] = [exact(X, y, T)]
        for label, found in taken.items():
            middle = {k: median(f[k] for f in found) for k in found[0]}
            yield {"rows": n, "test rows": len(T), "l": wide, "d": wide**2, "method": label, **middle}


def show_table1(records: list[Record]) -> str:
    names = {"kernel": "M1, kernel", "RKS": "M2, RKS", "TEFM-G": "M3, TEFM-G", "TEFM-S": "M4, TEFM-S"}
    rows = []
    for wide in sorted({r["l"] for r in records}):
        for method, title in names.items():
            for r in where(records, l=wide, method=method):
                times = [r["mapping"], r["training"], r["predicting"]]
                steps = [f"{r[k]:.3f}" if k in r else "-" for k in ("F", "Y", "QR", "FQ")]
                size = "-" if method == "kernel" else f"{r['d']:,}"
                cells = [f"{t:.3f}" for t in times]
                rows.append([title, "-" if method in ("kernel", "RKS") else wide, size, *cells, *steps])
    first = records[0]
    return (
        f"Processor seconds of {first['rows']:,} drawn rows of {COLUMNS} columns, and of predicting {first['test rows']:,} more; medians. $d = "
        "l^2$; the paper's algorithms to the letter, one penalty. The last four columns are the steps of the mapping.\n\n"
        + markdown(
            ["method", "l", "d", "mapping", "training", "prediction", "F", "Y", "QR", "FQ"],
            rows,
        )
    )


# ---- the power in float32 -----------------------------------------------------------------------------


def clustered(n: int) -> np.ndarray:
    """Rows around a few hundred centres: their features have a spectrum that falls fast, then slowly."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(max(4, n // 20), COLUMNS))
    return centres[rng.integers(0, len(centres), n)] + 0.1 * rng.normal(size=(n, COLUMNS))


def power(run: Run) -> Iterator[Record]:
    """|F - F Q Q'| over the least possible, for the power as printed and with QR between its products."""
    n, d, wide = run.pick(4000, 120), run.pick(1024, 32), run.pick(256, 8)
    for kind, X, scale in (("normal", drawn(n)[0], SCALE), ("clustered", clustered(n), 2 * SCALE)):
        base = plain(d, scale, 0).fit(X)
        F = base.map_(X.astype(np.float64))
        squares = energies(F)
        for q in (0, 1, 2):
            found = {}
            for label, dtype, between in (
                ("printed, float32", np.float32, False),
                ("printed, float64", np.float64, False),
                ("QR between, float32", np.float32, True),
            ):
                one = AsPrinted(base, wide, "gaussian", q, 0, between)
                one.subspace_of(F.astype(dtype))
                found[label] = residual_over_least(F, one.Q, squares)
            finder = RangeFinder(wide, n_iter=q, solver="finder")
            basis = finder.find(X.astype(np.float32), base.map_).basis
            found["distrf, float32"] = residual_over_least(F, basis, squares)
            decay = float(np.sqrt(squares[wide - 1] / squares[0]))
            yield {"rows kind": kind, "rows": n, "d": d, "l": wide, "q": q, "decay": decay, **found}


def show_power(records: list[Record]) -> str:
    names = ("printed, float32", "printed, float64", "QR between, float32", "distrf, float32")
    rows = [
        [r["rows kind"], f"{r['decay']:.1e}", r["q"], *(f"{r[name]:.3f}" for name in names)] for r in records
    ]
    first = records[0]
    return (
        f"Residual $|F - FQQ^\\top|$ over the least that {first['l']} directions of {first['d']:,} features leave, {first['rows']:,} rows. "
        "$\\sigma_l / \\sigma_1$ are singular values of $F$.\n\n"
        + markdown(["rows", "$\\sigma_l / \\sigma_1$", "q", *names], rows)
    )
