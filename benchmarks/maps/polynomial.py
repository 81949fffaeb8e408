"""TensorSketch beside scikit-learn's PolynomialCountSketch, landmarks of Nystroem, errors of polynomial maps by degree."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.preprocessing import normalize

from benchmarks import data
from benchmarks.benchmark import Benchmark, Claim, Part, Record, Run, judged, markdown, spread, where
from benchmarks.clocks import cpu, in_turn, medians
from distrf import NystroemFeatures, RandomFourierFeatures, RandomMaclaurinFeatures, TensorSketchFeatures

RULES = ("uniform", "k-means++", "kmeans", "leverage")


def some(run: Run, name: str, n: int) -> Any:
    """So many training rows, float32, dense or CSR."""
    X, y, _, _ = data.raw(run, name)
    return data.sample(X, y, n)[0].astype(np.float32)


def relative_error(K: np.ndarray, Z: Any) -> float:
    Z = np.asarray(Z, dtype=np.float64)
    return float(np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K))


# ---- sketch -------------------------------------------------------------------------------------------


def sketch(run: Run) -> Iterator[Record]:
    """Seconds of transform, relative Frobenius error of (x.y + 1)^2 on 500 rows of unit length."""
    for name in run.pick(("sector_counts", "mnist", "usps"), ("sector_counts", "usps")):
        X = normalize(some(run, name, 1000))
        few, D = X[:500], run.pick(4096, 64)
        peer = PolynomialCountSketch(degree=2, gamma=1.0, coef0=1, n_components=D, random_state=0).fit(X)
        ours = TensorSketchFeatures(2, gamma=1.0, coef0=1, n_components=D, n_jobs=1, random_state=0).fit(X)
        calls = {"scikit-learn": partial(peer.transform, X), "distrf": partial(ours.transform, X)}
        seconds = medians(in_turn(calls, 1 if sp.issparse(X) or run.small else 5))
        K = (np.asarray((few @ few.T).todense() if sp.issparse(few) else few @ few.T) + 1.0) ** 2
        record = {"set": name, "sparse": sp.issparse(X), "n": X.shape[0], "d": X.shape[1], "D": D, **seconds}
        errors = (relative_error(K, estimator.transform(few)) for estimator in (peer, ours))
        yield record | dict(zip(("scikit-learn error", "distrf error"), errors, strict=True))


def show_sketch(records: list[Record]) -> str:
    rows = [
        [
            f"{r['set']}, {'CSR, ' if r['sparse'] else ''}d = {r['d']:,}",
            f"{r['scikit-learn']:.3g} s",
            f"{r['distrf']:.2g} s",
            f"{r['scikit-learn'] / r['distrf']:.3g}",
            f"{r['scikit-learn error']:.4f}",
            f"{r['distrf error']:.4f}",
        ]
        for r in records
    ]
    first = records[0]
    return (
        f"{first['n']:,} rows of unit length, degree 2, D = {first['D']:,}: processor seconds of one core, and the relative error of the "
        "kernel matrix of 500 rows.\n\n"
        + markdown(["", "scikit-learn", "distrf", "times as fast", "error of scikit-learn", "of distrf"], rows)
    )


# ---- landmarks ----------------------------------------------------------------------------------------


def spectral_norm(A: np.ndarray) -> float:
    """Of a symmetric matrix."""
    return float(abs(eigsh(A, k=1, v0=np.ones(len(A)), return_eigenvectors=False)[0]))


def landmarks(run: Run) -> Iterator[Record]:
    """Relative errors of the Gaussian kernel of 2,000 rows at most, by the rule that chooses the landmarks."""
    for name in run.pick(("usps", "mnist", "letter", "covtype_sample", "cpu_act"), ("letter",)):
        X = some(run, name, 2000)
        if name not in ("mnist", "usps"):
            X, _ = data.standard(X, X)
        scale = RandomFourierFeatures(n_components=2, random_state=0).fit(X).length_scale_
        few = X[:: max(1, len(X) // 1500)].astype(np.float64)
        K = None
        for m in run.pick((64, 256), (8, 16)):
            for rule in RULES:
                found: dict[str, list[float]] = {"spectral": [], "frobenius": [], "seconds": []}
                for seed in range(run.pick(5, 2)):
                    options: Any = {"length_scale": scale, "landmarks": rule, "n_jobs": 1, "random_state": seed}
                    seconds, est = cpu(lambda m=m, o=options, X=X: NystroemFeatures(n_components=m, **o).fit(X))
                    if K is None:
                        K = est.map_.exact_kernel(few)
                        norms = spectral_norm(K), float(np.linalg.norm(K))
                    Z = est.transform(few)
                    found["spectral"].append(spectral_norm(K - Z @ Z.T) / norms[0])
                    found["frobenius"].append(float(np.linalg.norm(K - Z @ Z.T)) / norms[1])
                    found["seconds"].append(seconds)
                record = {"set": name, "m": m, "rule": rule, "fit": float(np.median(found["seconds"]))}
                yield record | {norm: spread(found[norm]) for norm in ("spectral", "frobenius")}


def show_landmarks(records: list[Record]) -> str:
    rows = []
    for name, m in dict.fromkeys((r["set"], r["m"]) for r in records):
        mine = where(records, set=name, m=m)
        least = min(r["spectral"]["mean"] for r in mine)
        cells = []
        for rule in RULES:
            for r in where(mine, rule=rule):
                text = f"{r['spectral']['mean']:.4f}"
                cells.append(f"**{text}**" if r["spectral"]["mean"] == least else text)
        rows.append([name, m, *cells])
    worst = max(r["spectral"]["standard_error"] / r["spectral"]["mean"] for r in records)
    n = records[0]["spectral"]["n"]
    return (
        f"$|K - ZZ^\\top|_2 / |K|_2$ of the Gaussian kernel, length scale by rule, mean over {n} seeds; standard errors are "
        f"{100 * worst:.0f} % at most.\n\n" + markdown(["", "m", *RULES], rows)
    )


# ---- degrees ------------------------------------------------------------------------------------------


def degrees(run: Run) -> Iterator[Record]:
    """Relative error of the kernel matrix of 1,000 rows of unit length, of TensorSketch and Maclaurin features."""
    X = normalize(some(run, "usps", 2000))
    for degree, D in ((2, run.pick(1024, 32)), (7, run.pick(512, 32))):
        for name, cls in (("TensorSketch", TensorSketchFeatures), ("Maclaurin", RandomMaclaurinFeatures)):
            errors = []
            for seed in range(run.pick(5, 2)):
                est = cls(degree=degree, gamma=1.0, n_components=D, n_jobs=1, random_state=seed)
                map_ = est.fit(X).map_
                errors.append(relative_error(map_.exact_kernel(X[:1000]), map_(X[:1000])))
            yield {"degree": degree, "map": name, "D": D, **spread(errors)}


def show_degrees(records: list[Record]) -> str:
    names = list(dict.fromkeys(r["map"] for r in records))
    rows = []
    for degree, D in dict.fromkeys((r["degree"], r["D"]) for r in records):
        mine = [where(records, degree=degree, map=name)[0] for name in names]
        rows.append([f"{degree}, D = {D:,}", *(f"{r['mean']:.3f} ± {r['standard_error']:.3f}" for r in mine)])
    return (
        f"Relative error of the kernel matrix of $(x \\cdot y + 1)^p$ on usps, mean over {records[0]['n']} seeds.\n\n"
        + markdown(["p", *names], rows)
    )


# ---- verdicts -----------------------------------------------------------------------------------------


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    made = []
    if "sketch" in found:
        ratios = {r["set"]: r["scikit-learn"] / r["distrf"] for r in found["sketch"]}
        off = max(r["distrf error"] / r["scikit-learn error"] for r in found["sketch"])
        ok = min(ratios.values()) > 1 and off < 1.2
        made.append(
            Claim(
                "TensorSketch is faster than PolynomialCountSketch at the same error", "every set",
                ", ".join(f"{name} {ratio:.3g} times" for name, ratio in ratios.items()) + f"; error at most {off:.2f} times theirs",
                "holds" if ok else "does not hold", "" if ok else "slower, or with more error, on a set",
            )
        )  # fmt: skip
    if "landmarks" in found:
        made.append(claim_landmarks(found["landmarks"]))
    return made


def claim_landmarks(records: list[Record]) -> Claim:
    short, keys = [], list(dict.fromkeys((r["set"], r["m"]) for r in records))
    for name, m in keys:
        found = {r["rule"]: r["spectral"] for r in where(records, set=name, m=m)}
        best = min(found, key=lambda rule: found[rule]["mean"])
        gap = found["kmeans"]["mean"] - found[best]["mean"]
        if gap > 2 * (found["kmeans"]["standard_error"] ** 2 + found[best]["standard_error"] ** 2) ** 0.5:
            short.append(f"{best} is better on {name} with m = {m}")
    return Claim(
        "centres of clusters (`kmeans`) have the least error, within two standard errors", "every set and m",
        f"{len(keys) - len(short)} of {len(keys)}", judged(len(keys) - len(short), len(keys)),
        "; ".join(short),
    )  # fmt: skip


ABOUT = """
[TensorSketch](../methods/tensor_sketch.md) against scikit-learn's way to the same features, the rules that choose landmarks of
[Nyström features](../methods/nystroem.md), and errors of TensorSketch and [Maclaurin features](../methods/maclaurin.md) by degree.
Grey values are as the files have them for landmarks, other columns in standard units; rows have unit length for the others.
"""

BENCHMARK = Benchmark(
    "polynomial", "Sketches and landmarks", ABOUT,
    (
        Part("sketch", sketch, show_sketch),
        Part("landmarks", landmarks, show_landmarks),
        Part("degrees", degrees, show_degrees),
    ),
    claims,
)  # fmt: skip
