"""Data frames: real tables, their categories decoded, and some that are made here. Categories are text, and null where they are missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.data import load_npz
from benchmarks.tables.arrays import Problem, load

#: Rows used at most.
TRAIN_ROWS, TEST_ROWS = 30_000, 20_000
#: LIBSVM's a9a is UCI's Adult with each of its 14 columns as so many indicators (Platt 1998).
ADULT = {
    "age": 5, "workclass": 8, "fnlwgt": 5, "education": 16, "years": 5, "marital": 7, "occupation": 14,
    "relationship": 6, "race": 5, "sex": 2, "gain": 2, "loss": 2, "hours": 5, "country": 41,
}  # fmt: skip


def _letters(values: np.ndarray, prefix: str) -> Any:
    return np.array([f"{prefix}{v}" for v in range(int(values.max()) + 1)], dtype=object)[values.astype(int)]


def _groups(dense: np.ndarray, widths: dict[str, int]) -> pd.DataFrame:
    """Groups of neighbouring indicators as categories; rows without one are null."""
    columns, at = {}, 0
    for name, width in widths.items():
        part = dense[:, at : at + width]
        values = pd.Series(_letters(part.argmax(axis=1), f"{name}-"))
        columns[name] = values.where(part.any(axis=1), None)
        at += width
    return pd.DataFrame(columns)


def _adult(folder: Path | None, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    parts = [load_npz(os.path.join(str(folder), "a9a.npz"), part) for part in ("train", "test")]
    return _groups(np.vstack([X.toarray() for X, _ in parts]), ADULT), np.concatenate([y for _, y in parts])


def _mushrooms(folder: Path | None, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    X, y = load_npz(os.path.join(str(folder), "mushrooms.npz"))
    dense, widths, start = X.toarray(), {}, 0
    for stop in range(1, dense.shape[1] + 1):
        if (dense[:, start:stop].sum(axis=1) == 1).all():
            widths[f"attribute {len(widths)}"] = stop - start
            start = stop
    return _groups(dense[:, :start], widths), y


def _airline(folder: Path | None, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    with np.load(os.path.join(str(folder), "airline_delay_nyc2013.npz")) as z:
        frame = pd.DataFrame(z["X"].astype(np.float64), columns=z["feature_names"].tolist())
        for name in ("carrier", "origin", "dest"):
            frame[name] = z[f"{name}_names"].astype(object)[frame[name].astype(int)]
        return frame, z["y"].astype(np.float64)


def _kdd(folder: Path | None, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    with np.load(os.path.join(str(folder), "kddcup99_10pct.npz")) as z:
        frame = pd.DataFrame(z["X_train"].astype(np.float64), columns=[f"c{j}" for j in range(41)])
        for j, name in ((1, "protocol"), (2, "service"), (3, "flag")):
            frame[f"c{j}"] = z[f"{name}_names"].astype(object)[frame[f"c{j}"].astype(int)]
        frame["target"] = z["y_train"].astype(str)
    frame = frame.drop_duplicates()
    return frame.drop(columns="target"), frame["target"].to_numpy(str)


def _covtype(folder: Path | None, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    X, y = load_npz(os.path.join(str(folder), "covtype_sample.npz"))
    frame = pd.DataFrame(X[:, :10].astype(np.float64), columns=[f"c{j}" for j in range(10)])
    frame["area"] = _letters(X[:, 10:14].argmax(axis=1), "area-")
    frame["soil"] = _letters(X[:, 14:].argmax(axis=1), "soil-")
    return frame, y


def _splice(folder: Path | None, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    parts = [load_npz(os.path.join(str(folder), "splice.npz"), part) for part in ("train", "test")]
    X = np.vstack([X for X, _ in parts])
    letters = np.array([None, "A", "G", "C", "T"], dtype=object)[X.astype(int)]
    return pd.DataFrame(letters, columns=[f"at{j}" for j in range(60)]), np.concatenate([y for _, y in parts])


def _nulls(frame: pd.DataFrame, names: list[str], share: float, rng: np.random.Generator) -> None:
    for name in names:
        frame.loc[rng.random(len(frame)) < share, name] = None


def _churn(folder: Path | None, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """A rare class (3 %), heavy tails, nulls that mean something, dates, a plan of four levels."""
    n = 50_000
    spend, calls = np.exp(rng.normal(3, 1.2, n)), rng.poisson(3, n)
    plan, since = (
        rng.choice(["basic", "plus", "pro", "team"], n, p=[0.5, 0.3, 0.15, 0.05]),
        rng.integers(0, 1500, n),
    )
    frame = pd.DataFrame({
        "customer_id": np.arange(n), "spend": spend, "calls": calls.astype(float), "plan": plan,
        "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(since, "D"), "region": _letters(rng.integers(0, 40, n), "r"),
        "age": rng.normal(45, 15, n).round(), "active": rng.random(n) < 0.7,
    })  # fmt: skip
    region = rng.normal(0, 0.5, 40)[frame["region"].str[1:].astype(int)]
    asked = rng.random(n) < 0.2
    frame.loc[asked, "age"] = None
    score = -6.2 + 1.2 * np.log1p(calls) * (plan == "basic") - 0.5 * np.log(spend) + 1.5 * np.sin(since / 200)
    score = score + region + 1.0 * asked + 1.2 * ~frame["active"] + 2.0 * ((spend < 5) & (calls > 4))
    return frame, np.where(rng.random(n) < 1 / (1 + np.exp(-score.to_numpy())), "yes", "no")


def _shops(folder: Path | None, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Sales by product: 50,000 levels, most of them rare, and the price in bands."""
    n, levels = 80_000, 50_000
    product = np.minimum(rng.zipf(1.3, n) - 1, levels - 1)
    effect = rng.normal(0, 1, levels)
    price, day = np.exp(rng.normal(2, 0.8, n)), rng.integers(0, 730, n)
    frame = pd.DataFrame({
        "product": _letters(product, "p"), "price": price, "store": _letters(rng.integers(0, 300, n), "s"),
        "day": pd.Timestamp("2022-01-01") + pd.to_timedelta(day, "D"), "promotion": rng.random(n) < 0.1,
    })  # fmt: skip
    store = rng.normal(0, 0.5, 300)[frame["store"].str[1:].astype(int)]
    y = effect[product] + store + np.cos(2 * np.pi * day / 7) - 0.8 * np.log(price) * (1 + frame["promotion"])
    _nulls(frame, ["price"], 0.05, rng)
    return frame, (y + rng.normal(0, 0.7, n)).to_numpy()


def _visits(folder: Path | None, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Nothing but categories, of 3 to 3,000 levels, two of which act together."""
    n = 50_000
    sizes = {"device": 3, "browser": 12, "country": 90, "page": 800, "campaign": 3000}
    codes = {
        name: np.minimum(rng.geometric(min(0.5, 4 / size), n) - 1, size - 1) for name, size in sizes.items()
    }
    frame = pd.DataFrame({name: _letters(code, name[0]) for name, code in codes.items()})
    score = sum(rng.normal(0, 0.8, sizes[name])[codes[name]] for name in ("country", "page", "campaign"))
    score = score + rng.normal(0, 1.2, (3, 12))[codes["device"], codes["browser"]] - 1
    _nulls(frame, ["campaign", "browser"], 0.1, rng)
    return frame, rng.random(n) < 1 / (1 + np.exp(-score))


def _sensors(folder: Path | None, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Readings by the minute with Cauchy errors, a daily and a weekly cycle, a constant and an empty column."""
    n = 50_000
    minute = np.sort(rng.integers(0, 60 * 24 * 400, n))
    heat, load_ = rng.standard_cauchy(n), rng.lognormal(0, 2, n)
    frame = pd.DataFrame({
        "time": pd.Timestamp("2021-03-01") + pd.to_timedelta(minute, "min"), "heat": heat, "load": load_,
        "machine": _letters(rng.integers(0, 25, n), "m"), "firmware": "1.0.3", "note": pd.Series([None] * n, dtype=object),
    })  # fmt: skip
    machine = rng.normal(0, 1, 25)[frame["machine"].str[1:].astype(int)]
    y = (
        np.arctan(heat) * machine
        + np.log1p(load_)
        + np.sin(2 * np.pi * minute / 1440)
        + 0.5 * (minute // 1440 % 7 > 4)
    )
    _nulls(frame, ["heat", "load"], 0.08, rng)
    return frame, y + rng.normal(0, 0.4, n)


#: Those with a customary split give both parts.
ARRAYS = (
    "wine", "breast_cancer", "diabetes", "kin8nm", "cpu_act", "banana", "magic04", "letter", "census_house", "protein",
    "kin40k", "ijcnn1", "blogfeedback",
)  # fmt: skip
DECODED = {
    "adult": _adult, "mushrooms": _mushrooms, "airline": _airline, "kddcup99": _kdd, "covtype": _covtype, "splice": _splice,
}  # fmt: skip
MADE = {"churn": _churn, "shops": _shops, "visits": _visits, "sensors": _sensors}
TABLES = (*DECODED, *ARRAYS, *MADE)


def table(name: str, folder: Path | None, seed: int) -> Problem:
    """One table, split by the seed; at most `TRAIN_ROWS` and `TEST_ROWS` rows."""
    rng = np.random.default_rng(seed)
    if name in ARRAYS:
        found = load(name, folder, int(rng.integers(2**31)))
        X, T = (pd.DataFrame(Z, columns=[f"c{j}" for j in range(Z.shape[1])]) for Z in (found.X, found.T))
        return Problem("frame", X, found.y, T, found.t).first(TRAIN_ROWS, TEST_ROWS)
    frame, target = (DECODED | MADE)[name](folder, rng)
    order, cut = rng.permutation(len(frame)), round(0.75 * len(frame))
    X, T = (frame.iloc[rows].reset_index(drop=True) for rows in (order[:cut], order[cut:]))
    return Problem("frame", X, target[order[:cut]], T, target[order[cut:]]).first(TRAIN_ROWS, TEST_ROWS)
