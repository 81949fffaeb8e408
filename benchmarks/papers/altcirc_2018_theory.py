"""The parts of Mukuta et al. (2018) that need no data: the theorems, and what float32 does to Levy weights."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import scipy.fft

from benchmarks.benchmark import UNKNOWN, Claim, Record, Run, judged, markdown, pm, spread, where
from distrf.kernels import ExponentialSemigroup
from distrf.maps import LaplaceMap

#: An error of a feature, which is at most 1, that spoils it.
SPOILT = 0.01
MAPS = {
    "random": "dense",
    "altcirc, log2 d": "alternating_circulant-log2",
    "altcirc, 2": "alternating_circulant",
    "circ": "circulant",
}


def unit_sums(X: np.ndarray) -> np.ndarray:
    """Rows of sum 1, float64; a row of zeros is left as it is."""
    sums = X.sum(axis=1, keepdims=True, dtype=np.float64)
    return X / np.where(sums > 0, sums, 1.0)


# ---- float32 ------------------------------------------------------------------------------------------


def drawn(d: int) -> dict[str, np.ndarray]:
    """Ten rows of sum 1 of each kind: all entries alike in law, or one in twenty not 0, as word counts have them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(10, d))
    few = rng.gamma(0.5, size=(10, d)) * (rng.uniform(size=(10, d)) < 0.05)
    few[:, 0] += 1e-3
    return {"full": unit_sums(X), "one in 20": unit_sums(few)}


def precision(run: Run) -> Iterator[Record]:
    """Largest error of exp(-W x), W x against its plain sum in float64, of Eq. 7 by FFTs alone, and of distrf."""
    for d in run.pick((1024, 4096), (32,)):
        for kind, X in drawn(d).items():
            kernel = ExponentialSemigroup().with_median(X + X[::-1])
            found: dict[str, list[float]] = {}
            decades = []
            for seed in range(run.pick(20, 2)):
                map_ = LaplaceMap(d, d, kernel, MAPS["altcirc, 2"], seed)
                W = map_.weights()
                decades.append(float(np.log10(W.max() / W.min())))
                for way, error in errors_of(map_, W, X).items():
                    found.setdefault(way, []).append(error)
            for way, errors in found.items():
                worst, middle = max(errors), float(np.median(errors))
                yield {
                    "d": d, "rows": kind, "way": way, "worst": worst, "median": middle, "seeds": len(errors),
                    "decades": max(decades),
                }  # fmt: skip


def errors_of(map_: LaplaceMap, W: np.ndarray, X: np.ndarray) -> dict[str, float]:
    """Largest error of a feature, {way of computing W x: error}."""
    d, projector = map_.n_features_in, map_.projector
    exact = np.exp(-X @ W.T)

    def by_fft(dtype: type) -> np.ndarray:
        vectors = (projector.vectors(0) * map_.kernel.weight_scale).astype(dtype)
        x = scipy.fft.rfft((X[:, None, :] * projector.column_factors()).astype(dtype), axis=2)
        return scipy.fft.irfft((x * scipy.fft.rfft(vectors, axis=1)).sum(axis=1), d, axis=1)

    few = X.astype(np.float32)
    made = {
        "FFT, float32": (np.exp(-np.maximum(by_fft(np.float32), 0)), exact),
        "FFT, float64": (np.exp(-np.maximum(by_fft(np.float64), 0)), exact),
        "distrf, float64": (map_(X) * math.sqrt(d), exact),
        "distrf, float32 rows": (map_(few) * math.sqrt(d), np.exp(-few.astype(np.float64) @ W.T)),
        "weights clipped at 1e6": (np.exp(-X @ np.minimum(W, 1e6).T), exact),
    }
    return {way: float(np.abs(values - true).max()) for way, (values, true) in made.items()}


def show_precision(records: list[Record]) -> str:
    cases = list(dict.fromkeys((r["d"], r["rows"]) for r in records))
    rows = [
        [
            way,
            *(
                f"{r['median']:.0e} / {r['worst']:.0e}".replace("0e+00", "0")
                for d, kind in cases
                for r in where(records, way=way, d=d, rows=kind)
            ),
        ]
        for way in dict.fromkeys(r["way"] for r in records)
    ]
    span = max(r["decades"] for r in records)
    return (
        f"Largest error of a feature $e^{{-w \\cdot x}}$ of ten rows of unit $l_1$ norm, D = d: median / worst of {records[0]['seeds']} seeds. "
        "Rows are full, or one entry in 20 is not 0; two circulant matrices are mixed. The weights of a map span up to "
        f"{span:.0f} decades.\n\n" + markdown(["", *(f"d = {d:,}, {kind}" for d, kind in cases)], rows)
    )


# ---- Theorems 1 to 3 ----------------------------------------------------------------------------------


def sums_of(d: int) -> dict[str, np.ndarray]:
    """Sums z = x + y with kappa(z) = 1/e for beta = 1: sum_j sqrt(z_j) = 1."""
    rng = np.random.default_rng(1)
    few = np.zeros(d)
    few[rng.permutation(d)[: max(d // 20, 2)]] = 1.0
    made = {"constant": np.ones(d), "uniform": rng.uniform(size=d), "one in 20": few * rng.uniform(size=d)}
    return {name: z / np.sqrt(z).sum() ** 2 for name, z in made.items()}


def variance_by_theorem(z: np.ndarray, mixed: int) -> float:
    """Variance of the estimate of kappa(z) by one block of d features over that of independent ones (Theorem 1).

    Theorem 3 for every shift of rows: a shift that has g cycles of columns takes a product over cycles.
    """
    d = len(z)
    one = np.exp(-np.sqrt(z))
    k, k2 = np.exp(-np.sqrt(z).sum()), np.exp(-np.sqrt(2 * z).sum())
    total = k2 - k**2
    for shift in range(1, d):
        same, other = np.exp(-np.sqrt(z + np.roll(z, -shift))), one * np.roll(one, -shift)
        cycles = math.gcd(shift, d)
        all_, rest = np.log((same + (mixed - 1) * other) / mixed), (same - other) / mixed
        mean = 1.0
        for start in range(cycles):
            at = (start + shift * np.arange(d // cycles)) % d
            mean *= np.exp(all_[at].sum()) + (mixed - 1) * np.prod(rest[at])
        total += mean - k**2
    return float(total / (k2 - k**2))


def theorems(run: Run) -> Iterator[Record]:
    """Variance of the estimate of one kernel value over that of Theorem 1, beside Theorems 2 and 3; D = d."""
    for d in run.pick((64, 256, 1024), (16,)):
        kernel, seeds = ExponentialSemigroup(1.0), run.pick(1000, 50)
        sums = sums_of(d)
        Z = np.stack(list(sums.values()))
        k, k2 = kernel.of_sum(Z), kernel.of_sum(2 * Z)
        for name, projection in MAPS.items():
            mixed = LaplaceMap(d, d, kernel, projection, 0).projector
            # The features of x = z times those of y = 0, which are all 1 / sqrt(D).
            estimates = np.stack(
                [LaplaceMap(d, d, kernel, projection, seed)(Z).mean(axis=1) for seed in range(seeds)]
            ) * math.sqrt(d)
            squares = (estimates - k) ** 2 * d / (k2 - k**2)
            for i, (kind, z) in enumerate(sums.items()):
                said = 1.0 if name == "random" else variance_by_theorem(z, getattr(mixed, "n_mixed", 1))
                measured = spread(squares[:, i].tolist())
                yield {"d": d, "z": kind, "map": name, "theorem": said, **measured}


def show_theorems(records: list[Record]) -> str:
    kinds = list(dict.fromkeys(r["z"] for r in records))
    rows = []
    for d in sorted({r["d"] for r in records}):
        for name in dict.fromkeys(r["map"] for r in records):
            cells = [
                f"{pm(r, 1)} ({r['theorem']:.1f})" for z in kinds for r in where(records, d=d, map=name, z=z)
            ]
            rows.append([f"d = {d:,}, {name}", *cells])
    return (
        f"Variance of the estimate of $k(z) = 1/e$ by D = d features over that of independent weights, {records[0]['n']:,} seeds (by the "
        "theorems). $z = x + y$ is constant, uniform on [0, 1], or has one entry in 20.\n\n"
        + markdown(["", *kinds], rows)
    )


# ---- claims -------------------------------------------------------------------------------------------


def claim_theorems(records: list[Record]) -> Claim:
    off = [abs(r["mean"] - r["theorem"]) / r["standard_error"] for r in records]
    ratios = [r["mean"] / r["theorem"] for r in records]
    ok = max(off) < 4
    return Claim(
        "Theorems 1 to 3: variance and covariances of the features",
        "Var = (k(2z) - k(z)²) / D for random; Eqs. 12 and 21",
        f"{len(off)} cases: measured over predicted {min(ratios):.2f} to {max(ratios):.2f}, at most {max(off):.1f} standard errors apart",
        "holds" if ok else "does not hold",
        "" if ok else "a case is further from the formula than chance allows",
    )


def claim_vanishing(records: list[Record]) -> Claim | None:
    def shares(name: str, z: str) -> list[float]:
        found = sorted(where(records, map=name, z=z), key=lambda r: r["d"])
        return [(r["mean"] - 1) / (r["d"] - 1) for r in found]

    sizes = sorted({r["d"] for r in records})
    full = {m: shares(m, "constant") for m in ("altcirc, 2", "altcirc, log2 d", "circ")}
    few = shares("altcirc, log2 d", "one in 20")
    if not all(full.values()):
        return None
    text = "; ".join(f"{m} {', '.join(f'{s:.3f}' for s in values)}" for m, values in full.items())
    limit = (math.exp((2 - math.sqrt(2)) / 2) - 1) / (math.exp(2 - math.sqrt(2)) - 1)
    gone = full["altcirc, 2"][-1] < 0.1 * full["altcirc, 2"][0] and full["altcirc, 2"][-1] < 0.02
    return Claim(
        "Section 4.2: the covariance of two features of altcirc goes to 0 exponentially as d grows",
        "so the error is that of random where d is large",
        f"covariance over variance at d = {', '.join(f'{d:,}' for d in sizes)} for constant z: {text}; with one entry in 20, altcirc, log2 d: "
        f"{', '.join(f'{s:.3f}' for s in few)}",
        "holds" if gone else "does not hold",
        ""
        if gone
        else "only where k(z) itself goes to 0 with d. A useful kernel has k(z) well above 0; then the ratio of the paper's Eq. 21 goes to "
        f"(exp(0.586 a / m) - 1) / (exp(0.586 a) - 1), a = -log k(z), about 1 / m: {limit:.2f} for k = 1/e and m = 2. So log2 d matrices help, "
        "more features of the same block do not",
    )


def claim_precision(records: list[Record]) -> list[Claim]:
    if len({(r["way"], r["rows"]) for r in records}) < 10:
        return []

    def largest(way: str) -> float:
        return max(r["worst"] for r in where(records, way=way))

    double, own, clipped = (
        largest(way) for way in ("FFT, float64", "distrf, float64", "weights clipped at 1e6")
    )
    span = max(r["decades"] for r in records)
    full, few = (
        max(r["worst"] for r in where(records, way="FFT, float32", rows=kind)) for kind in ("full", "one in 20")
    )
    spoilt, kept = (full > SPOILT) + (few > SPOILT), own <= 1e-11 and own <= double
    return [
        Claim(
            "Levy weights span decades, so that an FFT in float32 spoils features",
            "not in the paper; why distrf computes in float64",
            f"{span:.0f} decades; worst error of a feature of rows with one entry in 20 {few:.0e}, of full rows {full:.0e}; {double:.0e} in float64",
            judged(spoilt, 2),
            ""
            if spoilt == 2
            else "the error goes with the largest weight times the length of the row. The median rule gives full rows a small beta, and their "
            "length is small, so float32 would do for them; not for rows with few entries"
            if few > SPOILT
            else UNKNOWN,
        ),
        Claim(
            "The largest weights as exact shifts beside the FFT keep more digits",
            "not in the paper; at most 1e-11 in distrf",
            f"worst error {own:.0e} in place of {double:.0e}",
            "holds" if kept else "does not hold",
            "" if kept else "the error is larger than without them" if own > double else "it is more than 1e-11",
        ),
        Claim(
            "Clipping the weights is no way out",
            "not in the paper",
            f"clipped at 1e6, a feature changes by up to {clipped:.2g}",
            "holds" if clipped > SPOILT else "does not hold",
            "" if clipped > SPOILT else f"no feature of these maps changes by more than {SPOILT:g}",
        ),
    ]  # fmt: skip
