"""Ridge by conjugate gradients beside the Gram matrix: equality, passes, memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
from sklearn.pipeline import make_pipeline

from benchmarks import data
from benchmarks.benchmark import UNKNOWN, Benchmark, Claim, Part, Record, Run, markdown, where
from benchmarks.clocks import cpu
from benchmarks.workers import connected
from distrf import RandomFourierFeatures, StreamingRidgeClassifier
from distrf.execution.workers import peak_memory

#: Memory of a worker of `wide`.
LIMIT = 2.0


def rows(run: Run, name: str) -> data.Split:
    """Grey values in [0, 1]."""
    X, y, T, t = data.split(run, name, 0)
    return *data.unit_range(data.dense(X), data.dense(T)), y, t


def equality(run: Run) -> Iterator[Record]:
    """MNIST: both solvers with 11 alphas to choose from, and conjugate gradients with the one that was chosen."""
    X, T, y, t = rows(run, "mnist")
    directions = run.pick(1024, 16)
    features = RandomFourierFeatures(n_components=run.pick(4096, 64), random_state=0).fit(X)
    Z, Zt = features.transform(X), features.transform(T)
    alphas = [float(a) for a in np.geomspace(1e-8, 1e-3, 11)]
    cases: Any = {"gram": ("gram", alphas), "cg": ("cg", alphas), "cg, one alpha": ("cg", None)}
    expected, chosen = None, None
    for name, (solver, given) in cases.items():
        options: Any = {"solver": solver, "n_directions": directions}
        options |= {"alpha": given, "cv": "holdout"} if given else {"alpha": chosen}
        seconds, model = cpu(lambda o=options: StreamingRidgeClassifier(**o).fit(Z, y))
        decided = model.decision_function(Zt)
        chosen = model.alpha_
        expected = decided if expected is None else expected
        record: Record = {"solver": name, "rows": len(Z), "D": Z.shape[1], "directions": directions}
        record |= {"alpha": float(model.alpha_), "score": 100 * model.score(Zt, t), "seconds": seconds}
        record["difference"] = float(np.linalg.norm(decided - expected) / np.linalg.norm(expected))
        if solver == "cg":
            record |= {"passes": model.n_iter_, "finder passes": model.n_finder_passes_}
            record["error bound"] = float(model.error_bound_)
        yield record


def show_equality(records: list[Record]) -> str:
    cells = [
        [
            LABELS[r["solver"]],
            f"{r['alpha']:.1e}",
            f"{r['score']:.2f}",
            f"{r['difference']:.1e}" if r["solver"] != "gram" else "",
            f"{r['finder passes']} + {r['passes']}" if "passes" in r else "1",
            f"{r['seconds']:.0f}",
        ]
        for r in records
    ]
    first = records[0]
    return (
        f"MNIST, {first['rows']:,} rows, D = {first['D']:,}, {first['directions']:,} directions; relative difference of the decision "
        "values of test rows to those of the Gram matrix, passes over the rows for directions and for the solution, processor seconds.\n\n"
        + markdown(["", "alpha", "accuracy in %", "difference", "passes", "s"], cells)
    )


LABELS = {
    "gram": "Gram matrix, one of 11 alphas",
    "cg": "conjugate gradients, one of 11",
    "cg, one alpha": "conjugate gradients, this alpha",
}


def wide(run: Run) -> Iterator[Record]:
    """usps with more features than a worker has memory for the Gram matrix of."""
    X, T, y, t = rows(run, "usps")
    D = run.pick(65_536, 256)
    with connected(1, run.small, f"{LIMIT}GiB") as client:
        solver = run.pick("auto", "cg")
        model = make_pipeline(
            RandomFourierFeatures(n_components=D, random_state=0), StreamingRidgeClassifier(1e-6, solver=solver)
        )
        started = time.perf_counter()
        model.fit(da.from_array(X, chunks=(512, X.shape[1])), da.from_array(y, chunks=512))
        seconds = time.perf_counter() - started
        ridge, peak = model[-1], max(peak_memory(client).values())
    record = {
        "rows": len(X),
        "D": D,
        "solver": ridge.solver_,
        "reason": ridge.solver_reason_,
        "wall seconds": seconds,
    }
    record |= {
        "passes": ridge.n_iter_,
        "finder passes": ridge.n_finder_passes_,
        "error bound": float(ridge.error_bound_),
    }
    yield record | {"peak GiB": peak / 2**30, "gram GiB": 8 * D**2 / 2**30, "score": 100 * model.score(T, t)}


def show_wide(records: list[Record]) -> str:
    cells = [
        [
            f"{r['rows']:,} x {r['D']:,}",
            r["solver"],
            f"{r['peak GiB']:.2f}",
            f"{r['gram GiB']:.1f}",
            f"{r['finder passes']} + {r['passes']}",
            f"{r['score']:.2f}",
            f"{r['wall seconds']:.0f}",
        ]
        for r in records
    ]
    return (
        f"usps on one worker of {LIMIT:.0f} GiB: its largest size, beside the Gram matrix in float64; wall seconds.\n\n"
        + markdown(["", "solver", "worker GiB", "Gram GiB", "passes", "accuracy in %", "s"], cells)
    )


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    made = []
    if "equality" in found:
        gram, cg = (where(found["equality"], solver=name)[0] for name in ("gram", "cg"))
        ok = cg["alpha"] == gram["alpha"] and cg["difference"] <= 1e-3
        made.append(
            Claim(
                "conjugate gradients choose the alpha of the Gram matrix and give its predictions to 1e-3", "1e-3",
                f"alpha {cg['alpha']:.1e} and {gram['alpha']:.1e}, difference {cg['difference']:.1e}",
                "holds" if ok else "does not hold",
                "" if ok else f"the accuracies are {cg['score']:.2f} and {gram['score']:.2f} %",
            )
        )  # fmt: skip
    if "wide" in found:
        r = found["wide"][0]
        ok = r["peak GiB"] <= LIMIT
        made.append(
            Claim(
                f"D = {r['D']:,} fits a worker of {LIMIT:.0f} GiB", f"{LIMIT:.0f} GiB",
                f"{r['peak GiB']:.2f} GiB, the Gram matrix has {r['gram GiB']:.1f}",
                "holds" if ok else "does not hold", "" if ok else UNKNOWN,
            )
        )  # fmt: skip
    return made


ABOUT = """
[Ridge](../methods/ridge.md) solves by conjugate gradients where the Gram matrix of D features does not fit into memory.
`equality` runs both solvers where both can; `wide` one where only conjugate gradients can.
"""

BENCHMARK = Benchmark(
    "ridge_cg", "Ridge by conjugate gradients", ABOUT,
    (Part("equality", equality, show_equality), Part("wide", wide, show_wide)),
    claims,
)  # fmt: skip
