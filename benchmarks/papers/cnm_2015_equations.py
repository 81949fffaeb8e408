"""The equations of Yu et al. (2015), each against finite differences or against its own definition. No data.

Maps here are those that the paper prints, so none is made by distrf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.benchmark import UNKNOWN, Claim, Record, Run, markdown, where

COLUMNS = 6


def cosines(X: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Eq. 4: sqrt(2/k) cos(Theta' x), shape (n, k)."""
    return np.sqrt(2 / len(theta)) * np.cos(X @ theta.T)


def slopes(value: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """Central differences of a function of an array."""
    found, h = np.zeros(at.shape), 1e-6
    for i in np.ndindex(at.shape):
        moved = [at.copy(), at.copy()]
        moved[0][i] += h
        moved[1][i] -= h
        found[i] = (value(moved[0]) - value(moved[1])) / (2 * h)
    return found


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """|a - b| / |b|."""
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def equations(run: Run) -> Iterator[Record]:
    """What was found for each equation, and what would be found if it were right."""
    yield from invariance(run)
    for k in (8, 32, 128):
        yield from classifier_gradients(run.pick(k, 8), run)
    yield from kernel_gradient(run)
    yield from circulant_gradient()


def invariance(run: Run) -> Iterator[Record]:
    """How much the kernel of two rows changes when both are moved alike, for Eq. 4, with offsets, and for paired features."""
    k, rng = run.pick(64, 8), np.random.default_rng(0)
    theta, b = rng.normal(size=(k, COLUMNS)), rng.uniform(0, 2 * np.pi, k)
    x, y = 0.3 * rng.normal(size=(2, COLUMNS))
    shifts = np.vstack([np.zeros(COLUMNS), 3 * rng.normal(size=(run.pick(1000, 20), COLUMNS))])
    maps = {
        "as printed, no offsets": lambda X: cosines(X, theta),
        "with offsets": lambda X: np.sqrt(2 / k) * np.cos(X @ theta.T + b),
        "cosines and sines": lambda X: np.hstack([np.cos(X @ theta.T), np.sin(X @ theta.T)]) / np.sqrt(k),
    }
    for name, features in maps.items():
        values = np.sum(features(x + shifts) * features(y + shifts), axis=1)
        found = float(values.max() - values.min())
        yield {"id": f"eq4 {name}", "equation": "Eq. 4, Prop. 1", "check": f"change of the kernel of two rows moved alike, {name}",
               "found": found, "right": 0.0}  # fmt: skip
    a, c = rng.normal(size=(2, 1000)) * 3
    product = np.cos(a) * np.cos(c)
    formulas = {
        "printed": (np.cos(a - c) - np.sin(a - c)) / 2,
        "right": (np.cos(a - c) + np.cos(a + c)) / 2,
    }
    texts = {"printed": "[cos(x - y) - sin(x - y)] / 2", "right": "[cos(x - y) + cos(x + y)] / 2"}
    for name, value in formulas.items():
        yield {"id": f"proof {name}", "equation": "proof of Prop. 1", "check": f"largest difference of cos x cos y and {texts[name]}",
               "found": float(np.abs(product - value).max()), "right": 0.0}  # fmt: skip


def classifier_gradients(k: int, run: Run) -> Iterator[Record]:
    """The slope of the mean hinge loss of Eq. 5 over Eqs. 7 and 9: the factor by which these are too large is one over it."""
    n, rng = run.pick(200, 30), np.random.default_rng(k)
    X, y = rng.normal(size=(n, COLUMNS)), np.sign(rng.normal(size=n))
    theta, w = rng.normal(size=(k, COLUMNS)), rng.normal(size=k)

    def loss(theta: np.ndarray, w: np.ndarray) -> float:
        return float(np.maximum(0, 1 - y * (cosines(X, theta) @ w)).mean())

    active = y * (1 - y * (cosines(X, theta) @ w) > 0)  # y of the rows with a loss, else 0
    printed = {
        "Eq. 7": -(active @ np.cos(X @ theta.T)) / n,
        "Eq. 9": w[:, None] * ((active[:, None] * np.sin(X @ theta.T)).T @ X) / n,
    }
    true = {"Eq. 7": slopes(lambda v: loss(theta, v), w), "Eq. 9": slopes(lambda v: loss(v, w), theta)}
    for name, gradient in printed.items():
        factor = float(np.vdot(true[name], gradient) / np.vdot(gradient, gradient))
        yield {"id": name, "equation": name, "check": f"gradient of Eq. 5 over the printed one, k = {k}", "found": factor, "right": 1.0,
               "factor": float(np.sqrt(2 / k)), "apart": apart(factor * gradient, true[name])}  # fmt: skip


def kernel_gradient(run: Run) -> Iterator[Record]:
    """Eq. 11 against the slope of Eq. 10 over the same pairs: all ordered ones, or each pair in one order."""
    n, k, rng = run.pick(30, 8), 8, np.random.default_rng(1)
    X, theta = rng.normal(size=(n, COLUMNS)), rng.normal(size=(k, COLUMNS))
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))

    def error(theta: np.ndarray, pairs: np.ndarray) -> float:
        Z = cosines(X, theta)
        return float((pairs * (K - Z @ Z.T) ** 2).sum())

    def printed(pairs: np.ndarray) -> np.ndarray:
        Z, C, S = cosines(X, theta), np.cos(X @ theta.T), np.sin(X @ theta.T)
        return 8 / k * (S * ((pairs * (K - Z @ Z.T)) @ C)).T @ X

    def in_one_order() -> np.ndarray:
        up = np.triu(rng.random((n, n)) < 0.5, 1)
        return up + (np.triu(np.ones((n, n)), 1) - up).T

    every = np.ones((n, n))
    once = np.triu(every, 1)
    true = slopes(lambda v: error(v, once), theta)
    draws = run.pick(2000, 20)
    orders = [printed(in_one_order()) for _ in range(draws)]
    found = {
        "all ordered pairs": apart(printed(every), slopes(lambda v: error(v, every), theta)),
        "each pair in one order": float(np.mean([apart(g, true) for g in orders])),
        "mean over orders": apart(np.mean(orders, axis=0), true),
    }
    texts = {
        "all ordered pairs": f"difference from the gradient of Eq. 10, all ordered pairs of {n} rows",
        "each pair in one order": "the same, each pair in one order, drawn",
        "mean over orders": f"the same, mean of {draws:,} such draws",
    }
    for name, value in found.items():
        yield {"id": f"eq11 {name}", "equation": "Eq. 11", "check": texts[name], "found": value, "right": 0.0}


def circulant_gradient() -> Iterator[Record]:
    """Eq. 16 and the last line of Eq. 17 against the slope of w' cos(Rx), R = circ(r), with no factor sqrt(2/k), as in Eq. 13."""
    x, r, w = np.random.default_rng(2).normal(size=(3, 16))

    def convolved(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.fft.irfft(np.fft.rfft(a) * np.fft.rfft(b), n=len(a))

    true = slopes(lambda v: float(w @ np.cos(convolved(v, x))), r)
    sine = np.sin(convolved(r, x))
    printed = {
        "Eq. 16": np.array([-np.roll(x, i) @ (w * sine) for i in range(len(x))]),
        "Eq. 17": -convolved(np.roll(x[::-1], 1), w * sine),
    }
    for name, gradient in printed.items():
        yield {"id": name, "equation": name, "check": "difference from the gradient of w' cos(Rx), d = 16", "found": apart(gradient, true),
               "right": 0.0}  # fmt: skip


def show_equations(records: list[Record]) -> str:
    rows = [[r["equation"], r["check"], number(r["found"]), number(r["right"])] for r in records]
    return (
        "Gradients are compared with central differences in float64, which are exact to about 1e-9.\n\n"
        + markdown(["equation", "what was computed", "found", "if it were right"], rows)
    )


def number(value: float) -> str:
    return f"{value:.3f}" if value == 0 or abs(value) >= 5e-4 else f"{value:.0e}"


def claims_of_equations(records: list[Record]) -> list[Claim]:
    """A verdict on each equation; none from records that are not complete."""
    at = {r["id"]: r["found"] for r in records}
    if "Eq. 17" not in at:
        return []
    printed, paired = at["eq4 as printed, no offsets"], at["eq4 cosines and sines"]
    proof, mended = at["proof printed"], at["proof right"]
    factors = where(records, equation="Eq. 7") + where(records, equation="Eq. 9")
    dropped = all(r["apart"] < 1e-6 and abs(r["found"] - r["factor"]) < 1e-6 for r in factors)
    right = all(abs(r["found"] - 1) < 1e-6 for r in factors)
    pairs, once, mean = (
        at[f"eq11 {what}"] for what in ("all ordered pairs", "each pair in one order", "mean over orders")
    )
    circulant = max(at["Eq. 16"], at["Eq. 17"])
    found = ", ".join(
        f"{r['found']:.3f} ({r['equation'][4:]}, k = {r['check'].split('k = ')[1]})" for r in factors
    )
    return [
        Claim(
            "Proposition 1: the kernel of Eq. 4 is shift-invariant for any Θ",
            "no change when both rows are moved",
            f"changes by {printed:.2f}; cosines and sines by {paired:.0e}",
            "holds" if printed < 1e-9 else "does not hold",
            ""
            if printed < 1e-9
            else "z(x)·z(y) is the mean of cos θ(x - y) + cos θ(x + y), which is 2 for x = y = 0 whatever Θ is. A learned offset (the paper's "
            f"footnote) does not mend it ({at['eq4 with offsets']:.2f}); cosines and sines of the same frequencies do",
        ),
        Claim(
            "The proof of Proposition 1: cos x cos y = [cos(x - y) - sin(x - y)] / 2",
            "equal",
            f"up to {proof:.2f} apart; [cos(x - y) + cos(x + y)] / 2 up to {mended:.0e}",
            "holds" if proof < 1e-9 else "does not hold",
            ""
            if proof < 1e-9
            else "the formula is wrong: its second term must be cos(x + y), which is no function of x - y",
        ),
        Claim(
            "Eqs. 7 and 9 are the gradients of Eq. 5 by w and by Θ",
            "factor 1",
            f"true gradient over printed one: {found}",
            "holds" if right else "does not hold",
            ""
            if right
            else "both drop the factor √(2/k) that Eq. 4 has; they are the gradients of the map without it"
            if dropped
            else "they differ by another factor, or by more than one",
        ),
        Claim(
            "Eq. 11 is the gradient of Eq. 10",
            "equal",
            f"{pairs:.0e} apart over all ordered pairs of the rows of a batch",
            "holds" if pairs < 1e-6 else "does not hold",
            f"the pairs must be all ordered ones: with each pair in one order it is {100 * once:.0f} % off, and right only on "
            f"average ({100 * mean:.1f} % off for the mean of many draws), since it puts twice the slope by one row of a pair for the slope by both"
            if pairs < 1e-6
            else UNKNOWN,
        ),
        Claim(
            "Eqs. 16 and 17 are the gradient by the vector of a circulant",
            "equal",
            f"{circulant:.0e} apart",
            "holds" if circulant < 1e-6 else "does not hold",
            "for the map of Eq. 13, which has no factor √(2/k)" if circulant < 1e-6 else "they differ",
        ),
    ]
