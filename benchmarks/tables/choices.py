"""What `distrf.make_model` chooses, and what each choice is worth on held-out rows of real data sets."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn.datasets
from sklearn.pipeline import Pipeline, make_pipeline

import distrf
from benchmarks import data
from benchmarks.benchmark import (
    Benchmark,
    Claim,
    Part,
    Record,
    Run,
    judged,
    markdown,
    one,
    pm,
    spread,
    where,
)
from benchmarks.clocks import cpu
from distrf import (
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingScaler,
    TableEncoder,
)
from distrf.pipeline.search import MULTIPLES
from distrf.tables import encodings as of_tables

NUMBERS = (
    "airline_delay_nyc2013", "blogfeedback", "census_house_16h", "cpu_act", "cpusmall", "kin40k", "kin8nm",
    "protein_casp", "diabetes",
)  # fmt: skip
LABELS = (
    "a9a", "banana", "cifar10_first4000", "covtype_sample", "dna", "ijcnn1", "kddcup99_10pct", "letter", "magic04",
    "mnist", "mushrooms", "newsgroups20_counts", "splice", "ujiindoorloc", "usps", "w8a", "breast_cancer", "digits",
    "iris", "wine",
)  # fmt: skip
COLUMNS = (
    "linear raw", "linear standard", "linear robust", "Fourier raw", "Fourier standard", "Fourier robust", "search",
    "+ columns", "chosen",
)  # fmt: skip
#: Sets that come with scikit-learn.
BUNDLED = ("diabetes", "breast_cancer", "digits", "iris", "wine")
ALPHAS = [10.0**k for k in range(-8, 0)]
SPLITS = 3
#: Sets of the comparison of penalties, and of encodings of numbers.
PENALTIES = (
    *NUMBERS, "banana", "covtype_sample", "dna", "ijcnn1", "letter", "magic04", "splice", "usps", "breast_cancer",
    "digits", "iris", "wine",
)  # fmt: skip
ENCODINGS = ("census_house_16h", "kin40k", "cpu_act", "protein_casp", "blogfeedback", "airline_delay_nyc2013")
#: More columns than this have no ridge of their own.
WIDE = 2000

Rows = tuple[Any, np.ndarray, Any, np.ndarray]


def load(run: Run, name: str, rows: int, seed: int) -> Rows:
    """Training rows, at most so many, and up to 10,000 test rows, both drawn from all rows of the set."""
    if name in BUNDLED:
        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    else:
        X, y, T, t = data.raw(run, name)
        if T is not None:
            X = sp.vstack([X, T], format="csr") if sp.issparse(X) else np.concatenate([X, T])
            y = np.concatenate([y, t])
    order = np.random.default_rng(seed).permutation(len(y))
    n = min(rows, int(0.7 * len(y)))
    train, test = np.sort(order[:n]), np.sort(order[n : n + 10_000])
    return X[train], y[train], X[test], y[test]


def ridge(labels: bool, seed: int) -> Any:
    cls = StreamingRidgeClassifier if labels else StreamingRidge
    return cls(ALPHAS, cv="holdout", random_state=seed)


def measure(rows: Rows, labels: bool, D: int, seed: int, wanted: tuple[str, ...]) -> Record:
    """{column of the table: score in percent} for those that are wanted and apply; processor seconds of choosing."""
    X, y, Xt, yt = rows
    narrow = X.shape[1] <= WIDE
    options: dict[str, Any] = {"model": ridge(labels, seed), "n_components": D, "random_state": seed}
    jobs: dict[str, Pipeline] = {}
    for name in ("raw",) if sp.issparse(X) else ("raw", "standard", "robust"):
        scaler = [] if name == "raw" else [("scale", StreamingScaler(name))]
        features = RandomFourierFeatures(length_scale="knn", n_components=D, random_state=seed)
        if narrow:
            jobs[f"linear {name}"] = Pipeline([*scaler, ("model", ridge(labels, seed))])
        jobs[f"Fourier {name}"] = Pipeline([*scaler, ("map", features), ("model", ridge(labels, seed))])
    for name, joined in (("search", False), ("+ columns", True)):
        if name in wanted and (narrow or not joined):
            jobs[name] = distrf.make_model(X, y, map="fourier", raw_columns=joined, **options)
    seconds, made = cpu(lambda: distrf.make_model(X, y, **options))
    if "map" not in made.named_steps and not narrow:  # by the solver that make_model takes for many columns
        options["model"] = "auto"
        seconds, made = cpu(lambda: distrf.make_model(X, y, **options))
    jobs["chosen"] = made
    scores = {name: 100 * float(jobs[name].fit(X, y).score(Xt, yt)) for name in wanted if name in jobs}
    choice = said_of(made, X, y, seed)
    return {"n": X.shape[0], "d": X.shape[1], "D": D, "scores": scores, "seconds": seconds, "choice": choice}


def said_of(made: Pipeline, X: Any, y: np.ndarray, seed: int) -> str:
    """Units, columns or map, and the length scale in those of the rule: the nearest of the multiples that are tried."""
    said = [made.training_.chosen("scale"), made.training_.chosen("features")]
    steps = [name for name, _ in made.steps]
    if "map" in steps:
        before = made[: steps.index("map")]
        Z = before.fit_transform(X, y) if len(before) else X
        rule = RandomFourierFeatures(length_scale="knn", random_state=seed).fit(Z).length_scale_
        times = made.training_.chosen("length_scale") / rule
        said.append(f"{min(MULTIPLES, key=lambda m: abs(math.log(times / m))):g} knn")
    return ", ".join(str(part) for part in said if part)


def over_splits(run: Run, name: str, rows: int, D: int, wanted: tuple[str, ...]) -> Record:
    """What `measure` finds, over three splits: scores with their spread, mean seconds, and what was chosen each time."""
    found = []
    for seed in range(run.pick(SPLITS, 2)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(measure(load(run, name, rows, seed), name not in NUMBERS, D, seed, wanted))
    scores = {
        c: spread([f["scores"][c] for f in found]) for c in wanted if all(c in f["scores"] for f in found)
    }
    gaps = {
        c: spread([f["scores"]["chosen"] - f["scores"][c] for f in found]) for c in scores if "chosen" in scores
    }
    return {
        "set": name, **{key: found[0][key] for key in ("n", "d", "D")}, "scores": scores, "gaps": gaps,
        "seconds": sum(f["seconds"] for f in found) / len(found), "choices": [f["choice"] for f in found],
    }  # fmt: skip


def choices(run: Run) -> Iterator[Record]:
    """8,000 rows, D = 1,024: the columns or features, as they are, in standard or robust units, and what is chosen."""
    for name in run.pick((*NUMBERS, *LABELS), ("iris",)):
        if not run.has(set=name):
            yield over_splits(run, name, 8000, run.pick(1024, 32), COLUMNS)


def features(run: Run) -> Iterator[Record]:
    """20,000 rows: what is chosen, with more and more features."""
    names = ("cpu_act", "census_house_16h", "letter", "covtype_sample", "usps", "diabetes")
    for name in run.pick(names, ("diabetes",)):
        for D in run.pick((512, 1024, 2048, 4096), (16, 32)):
            if not run.has(set=name, D=D):
                yield over_splits(run, name, 20_000, D, ("chosen",))


def compared(run: Run, name: str, ways: Callable[[int], dict[str, Any]]) -> Record:
    """Scores in percent of some pipelines on 8,000 rows, over three splits. ways(seed) : {name: pipeline}"""
    found: dict[str, list[float]] = {}
    for seed in range(run.pick(SPLITS, 2)):
        X, y, T, t = load(run, name, 8000, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for way, made in ways(seed).items():
                found.setdefault(way, []).append(100 * float(made.fit(X, y).score(T, t)))
    return {"set": name, "n": len(X), "d": X.shape[1], "scores": {way: spread(v) for way, v in found.items()}}


def by_rule(run: Run, seed: int) -> RandomFourierFeatures:
    """1,024 features with the length scale of the rule `knn`."""
    return RandomFourierFeatures(length_scale="knn", n_components=run.pick(1024, 32), random_state=seed)


def penalty(run: Run) -> Iterator[Record]:
    """Ridge on 1,024 features of standard units with a penalty of 1e-6, and one by cross-validation."""
    for name in run.pick(PENALTIES, ("iris",)):
        cls = StreamingRidge if name in NUMBERS else StreamingRidgeClassifier

        def ways(seed: int, cls: Any = cls) -> dict[str, Any]:
            return {
                way: make_pipeline(StreamingScaler("standard"), by_rule(run, seed), cls(alpha))
                for way, alpha in (("alpha = 1e-6", 1e-6), ("alpha = auto", "auto"))
            }

        if not run.has(set=name):
            yield compared(run, name, ways)


def encodings(run: Run) -> Iterator[Record]:
    """Ridge on 1,024 features of numbers in each encoding of `TableEncoder`."""

    def ways(seed: int) -> dict[str, Any]:
        return {
            numbers: make_pipeline(TableEncoder(numbers), by_rule(run, seed), StreamingRidge("auto"))
            for numbers in of_tables.NUMBERS
        }

    for name in run.pick(ENCODINGS, ("diabetes",)):
        if not run.has(set=name):
            yield compared(run, name, ways)


# ---- tables -------------------------------------------------------------------------------------------


def show_compared(records: list[Record]) -> str:
    ways = [*records[0]["scores"]]
    rows = [[r["set"], f"{r['n']:,} x {r['d']:,}", *(pm(r["scores"][way], 1) for way in ways)] for r in records]
    return "Accuracy or $R^2$ in percent on test rows.\n\n" + markdown(["set", "n x d", *ways], rows)


def show_choices(records: list[Record]) -> str:
    rows = []
    for r in records:
        cells = [pm(r["scores"][c], 1) if c in r["scores"] else "" for c in COLUMNS]
        rows.append([r["set"], f"{r['n']:,} x {r['d']:,}", *cells, f"{r['seconds']:.1f}", common(r["choices"])])
    return (
        "Accuracy or $R^2$ in percent on test rows that no choice has seen; s is the processor time of `make_model`.\n\n"
        + markdown(["set", "n x d", *COLUMNS, "s", "what was chosen"], rows)
    )


def common(values: list[str]) -> str:
    """The most frequent value, and on how many of the splits it was not chosen."""
    most = max(dict.fromkeys(values), key=values.count)
    others = len(values) - values.count(most)
    return most + (f" ({len(values) - others} of {len(values)})" if others else "")


def show_features(records: list[Record]) -> str:
    sizes = sorted({r["D"] for r in records})
    rows = []
    for name in dict.fromkeys(r["set"] for r in records):
        mine = where(records, set=name)
        cells = [pm(r["scores"]["chosen"], 1) for D in sizes for r in where(mine, D=D)]
        rows.append([name, f"{mine[0]['n']:,} x {mine[0]['d']:,}", *cells])
    return "Accuracy or $R^2$ in percent of what is chosen.\n\n" + markdown(
        ["set", "n x d", *(f"D = {D:,}" for D in sizes)], rows
    )


def some(columns: dict[str, str], sets: tuple[str, ...]) -> Callable[[dict[str, list[Record]]], str]:
    """An extract: {what a row is called: column of the table of choices}, one column for each set."""

    def table(found: dict[str, list[Record]]) -> str:
        of = [record for name in sets if (record := one(found["choices"], set=name))]
        rows = [
            [said, *(pm(r["scores"][c], 1) if c in r["scores"] else "" for r in of)]
            for said, c in columns.items()
        ]
        return markdown(["", *(r["set"] for r in of)], rows)

    return table


def gains(found: list[Record], of: Callable[[Record], float | None]) -> tuple[list[float], list[float], int]:
    """(gains, losses, sets) in points; what is below 0.05 is neither."""
    values = [v for r in found if (v := of(r)) is not None]
    return [v for v in values if v >= 0.05], [-v for v in values if v <= -0.05], len(values)


def told(gained: list[float], lost: list[float], sets: int) -> str:
    def between(values: list[float]) -> str:
        return f"{min(values):.1f} to {max(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"

    up = f"{len(gained)} of {sets} sets gain" + (f" {between(gained)} points" if gained else "")
    down = f"{len(lost)} lose" + (f" {between(lost)}" if lost else "")
    return f"{up}, {down}, means over {SPLITS} splits."


def units(found: dict[str, list[Record]]) -> str:
    def gain(r: Record) -> float | None:
        s = r["scores"]
        if "Fourier robust" not in s:
            return None
        return s["Fourier robust"]["mean"] - s["Fourier standard"]["mean"]

    return "Robust against standard units, features with the rule `knn`: " + told(
        *gains(found["choices"], gain)
    )


def search(found: dict[str, list[Record]]) -> str:
    def gain(r: Record) -> float:
        rule = [r["scores"][c]["mean"] for c in ("Fourier raw", "Fourier robust") if c in r["scores"]]
        return r["scores"]["search"]["mean"] - max(rule)

    return "A searched length scale against `knn` in the better of raw and robust units: " + told(
        *gains(found["choices"], gain)
    )


# ---- verdicts -----------------------------------------------------------------------------------------


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    records = [r for r in found.get("choices", []) if len(r["scores"]) > 1]
    if not records:
        return []
    behind = {
        r["set"]: min((g for c, g in r["gaps"].items() if c != "chosen"), key=lambda g: g["mean"])
        for r in records
    }
    short = {name: gap for name, gap in behind.items() if gap["mean"] < -1}
    sure = [name for name, gap in short.items() if gap["mean"] < -2 * gap["standard_error"]]
    return [
        Claim(
            "What is chosen is within a point of the best of all columns of the table", "every set",
            f"{len(behind) - len(short)} of {len(behind)} sets", judged(len(behind) - len(short), len(behind)),
            "points behind: " + ", ".join(f"{name} {-gap['mean']:.1f}" for name, gap in short.items())
            + f"; by more than two standard errors on {', '.join(sure) or 'none'}. The best is known only afterwards" if short else "",
        )
    ]  # fmt: skip


ABOUT = f"""
What scaling, a search of the length scale, columns beside the features and more features give
([rules of the choices](../guide/choices_rules.md)). Ridge with its penalty from held-out rows; {SPLITS} random splits. Columns of the table:

* **linear**: the columns, as they are, in standard units, in robust units;
* **Fourier**: D features with `length_scale="knn"` of the columns as they are, standard, robust;
* **search**: robust units, or none, whichever was chosen, and the length scale searched; **+ columns** beside the features;
* **chosen**: what `make_model` takes, and the processor seconds that choosing took.

ujiindoorloc is split at random here, so that the same phones are in the training and in the test rows; its own test rows are of
other phones and months ([first runs](defaults.md)). newsgroups20_counts and cifar10_first4000 have too many columns for a ridge of their own.
"""

BENCHMARK = Benchmark(
    "choices", "What each choice is worth", ABOUT,
    (
        Part("choices", choices, show_choices, resumes=True),
        Part("features", features, show_features, resumes=True),
        Part("penalty", penalty, show_compared, resumes=True),
        Part("encodings", encodings, show_compared, resumes=True),
    ),
    claims,
    {
        "units": units,
        "search": search,
        "scaling": some(
            {"columns alone": "linear raw", "Fourier features": "Fourier raw", "Fourier features, robust units": "Fourier robust"},
            ("mnist", "letter", "covtype_sample", "usps", "magic04", "splice", "blogfeedback"),
        ),
        "columns": some(
            {"features": "search", "features and columns": "+ columns"},
            ("blogfeedback", "census_house_16h", "cpusmall", "kin8nm", "usps", "letter"),
        ),
    },
)  # fmt: skip
