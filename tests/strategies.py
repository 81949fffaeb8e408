"""What hypothesis draws for the tests: shapes, chunkings, dtypes, seeds, and problems of every odd kind.

A problem is its number, from which all else is drawn: the same ones in every run, spread evenly over what can be odd.
(Hypothesis' own draws are near-copies of each other.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

CLASS_LOSSES = ("hinge", "squared_hinge", "logistic", "multinomial", "squared")
NUMBER_LOSSES = ("squared", "huber", "epsilon_insensitive")

dtypes = st.sampled_from([np.float32, np.float64])
#: Of maps and streams: all that a spec holds.
seeds = st.integers(0, 2**63 - 1)
#: A few, where the rows or the estimator and not the draw are what is odd.
small_seeds = st.integers(0, 99)
schedulers = st.sampled_from(["sync", "threads"])


def row_chunks(least=1, most=40, blocks=8, rows=1):
    """Rows of each of up to `blocks` chunks, `least` to `most` in each and `rows` or more in all."""
    chunks = st.lists(st.integers(least, most), min_size=1, max_size=blocks).map(tuple)
    return chunks.filter(lambda c: sum(c) >= rows)


def chunked(least=1, most=40, blocks=8, rows=1, columns=6):
    """(rows of each chunk, columns)."""
    return st.tuples(row_chunks(least, most, blocks, rows), st.integers(1, columns))


def shapes(rows=40, columns=5):
    """(rows, columns), neither of them none."""
    return st.tuples(st.integers(1, rows), st.integers(1, columns))


@st.composite
def ranges(draw, n, empty=False):
    """(start, stop) within `n` places."""
    start = draw(st.integers(0, n if empty else n - 1))
    return start, draw(st.integers(start if empty else start + 1, n))


@st.composite
def cuts(draw, n, most=8):
    """Chunks of `n` rows, cut at up to `most` places: none is empty."""
    inner = draw(st.sets(st.integers(1, n - 1), max_size=most)) if n > 1 else set()
    return tuple(np.diff([0, *sorted(inner), n]).tolist())


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
#: What a model folder stores: a spec, and an array of any kind and shape.
specs = st.dictionaries(st.text(), _json, max_size=4)
stored_arrays = hnp.arrays(
    st.sampled_from(["f4", "f8", ">f8", "i8", "u1", "?", "c16", "<U3"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


def problems(first=0):
    """A `Problem` whose number is at least `first`."""
    return st.integers(first, 2**32 - 1).map(Problem.drawn)


@dataclass(frozen=True)
class Problem:
    """`rows`, `columns`, `targets` and `weights` name ways to be odd; see the functions that draw them."""

    number: int
    loss: str
    n: int
    D: int
    n_classes: int  # 0: regression
    rows: str
    columns: str
    scale: float
    targets: str
    target_scale: float
    weights: str
    alpha: float
    intercept: bool
    float32: bool
    chunk: int  # rows of a Dask chunk; 0: NumPy

    @classmethod
    def drawn(cls, number):
        rng = np.random.default_rng([20260401, number])

        def one_of(*choices):
            return choices[rng.integers(len(choices))]

        n_classes = one_of(0, 0, 2, 2, 3, 10)
        # Most are small; one of eight has more rows than the solvers sample.
        least, most = one_of(
            (1, 1), *[(2, 12)] * 2, *[(13, 400)] * 8, *[(401, 4_000)] * 4, *[(6_001, 20_000)] * 2
        )
        n = max(1, n_classes, int(np.exp(rng.uniform(np.log(least), np.log(most + 1)))))
        D = int(rng.uniform(13, 257)) if one_of(True, False) else int(np.exp(rng.uniform(0, np.log(257))))
        return cls(
            number,
            one_of(*(CLASS_LOSSES if n_classes else NUMBER_LOSSES)),
            n,
            D,
            n_classes,
            one_of("plain", "heavy", "far", "duplicates", "counts"),
            one_of("alike", "unlike", "constant", "same", "decaying", "shifted"),
            one_of(1e-6, 1e-3, 1.0, 1.0, 1.0, 1e3, 1e6),
            one_of("plain", "plain", "heavy", "rare", "noise", "sorted"),
            one_of(1e-6, 1.0, 1.0, 1e6),
            one_of("none", "none", "none", "uneven", "zeros", "one"),
            one_of(1e-6, 1e-6, 1e-3, 1e-1),
            one_of(True, True, True, False),
            one_of(True, False),
            one_of(0, 0, 0, 4_096 if n > 4_000 else one_of(64, 1_000)),
        )


def _rows(p, rng):
    """Numbers of about unit size, shape (n, D), but for what is odd about the rows."""
    Z = rng.normal(size=(p.n, p.D))
    if p.rows == "heavy":
        Z *= np.abs(rng.standard_t(1.5, size=(p.n, 1))) + 0.1
    elif p.rows == "far":
        Z[rng.integers(p.n, size=1 + p.n // 1_000)] *= 1e3
    elif p.rows == "duplicates":
        Z = Z[rng.integers(max(1, p.n // 20), size=p.n)]
    elif p.rows == "counts":
        Z = rng.poisson(np.exp(rng.normal(-1.0, 1.5, size=p.D)), size=(p.n, p.D)).astype(float)
    return Z


def _columns(p, rng, Z):
    if p.columns == "unlike":
        Z = Z * 10.0 ** rng.uniform(-3, 3, size=p.D)
    elif p.columns == "constant":
        Z[:, rng.random(p.D) < 0.4] = rng.normal()
    elif p.columns == "same":
        Z = Z[:, rng.integers(max(1, p.D // 4), size=p.D)]
    elif p.columns == "decaying":
        Z = Z / np.arange(1, p.D + 1) ** 1.5
    elif p.columns == "shifted":
        Z = Z + rng.choice([3.0, 30.0, 1e3])
    return Z


def draw_data(p):
    """(X, y, weights or None), NumPy."""
    rng = np.random.default_rng([20260402, p.number])
    Z = _rows(p, rng)
    score = Z @ rng.normal(size=p.D) / np.sqrt(p.D)
    X = (p.scale * _columns(p, rng, Z)).astype(np.float32 if p.float32 else np.float64)
    noise = rng.standard_t(1.5, size=p.n) if p.targets == "heavy" else 0.3 * rng.normal(size=p.n)
    signal = rng.normal(size=p.n) if p.targets == "noise" else np.tanh(score) + noise
    order = np.argsort(signal, kind="stable")
    if p.n_classes:
        rank = np.empty(p.n, dtype=int)
        rank[order] = np.arange(p.n)
        if p.targets == "rare":  # all but a hundredth of the rows are of the first class
            y = np.maximum(rank - (p.n - max(p.n // 100, p.n_classes - 1)) + 1, 0) % p.n_classes
        else:
            y = rank * p.n_classes // p.n
    elif p.targets == "rare":
        y = p.target_scale * np.where(rng.random(p.n) < 0.01, 100.0, 0.0) + p.target_scale
    else:
        y = p.target_scale * (signal + rng.choice([0.0, 10.0]))
    if p.targets == "sorted":
        X, y = X[order], y[order]
    weight = None
    if p.weights == "uneven":
        weight = np.exp(2.0 * rng.normal(size=p.n))
    elif p.weights == "zeros":
        weight = np.where(rng.random(p.n) < 0.3, 0.0, rng.random(p.n))
        weight[:1] = 1.0
    elif p.weights == "one":
        weight = np.full(p.n, 1e-3)
        weight[rng.integers(p.n)] = 1.0
    return X, y, weight
