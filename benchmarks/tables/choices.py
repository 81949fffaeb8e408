"""What `distrf.make_model` chooses, and what each choice is worth on held-out rows of real data sets."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn.datasets
from sklearn.pipeline import Pipeline

import distrf
from benchmarks import data
from benchmarks.benchmark import Benchmark, Claim, Part, Record, Run, markdown, where
from benchmarks.clocks import cpu
from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier, StreamingScaler

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
        made = distrf.make_model(X, y, **{**options, "model": "auto"})
    jobs["chosen"] = made
    chosen = made.training_.chosen
    why = next((c.why for c in made.training_.choices if c.what == "length_scale"), "")
    multiple = f"{why.split(' ')[0]} knn" if "map" in made.named_steps else ""
    choice = ", ".join(str(v) for v in (chosen("scale"), chosen("features"), multiple) if v)
    scores = {name: 100 * float(jobs[name].fit(X, y).score(Xt, yt)) for name in wanted if name in jobs}
    return {"n": X.shape[0], "d": X.shape[1], "D": D, "scores": scores, "seconds": seconds, "choice": choice}


def choices(run: Run) -> Iterator[Record]:
    """8,000 rows, D = 1,024: the columns or features, as they are, in standard or robust units, and what is chosen."""
    for name in run.pick((*NUMBERS, *LABELS), ("iris",)):
        rows = load(run, name, 8000, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = measure(rows, name not in NUMBERS, run.pick(1024, 32), 0, COLUMNS)
        yield {"set": name} | found


def features(run: Run) -> Iterator[Record]:
    """20,000 rows: what is chosen, with more and more features."""
    names = ("cpu_act", "census_house_16h", "letter", "covtype_sample", "usps", "diabetes")
    for name in run.pick(names, ("diabetes",)):
        rows = load(run, name, 20_000, 0)
        for D in run.pick((512, 1024, 2048, 4096), (16, 32)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield {"set": name} | measure(rows, name not in NUMBERS, D, 0, ("chosen",))


def show_choices(records: list[Record]) -> str:
    rows = []
    for r in records:
        cells = [f"{r['scores'][c]:.1f}" if c in r["scores"] else "" for c in COLUMNS]
        rows.append([r["set"], f"{r['n']:,} x {r['d']:,}", *cells, f"{r['seconds']:.1f}", r["choice"]])
    return (
        "Accuracy or $R^2$ in percent on test rows that no choice has seen; s is the processor time of `make_model`.\n\n"
        + markdown(["set", "n x d", *COLUMNS, "s", "what was chosen"], rows)
    )


def show_features(records: list[Record]) -> str:
    sizes = sorted({r["D"] for r in records})
    rows = []
    for name in dict.fromkeys(r["set"] for r in records):
        mine = where(records, set=name)
        cells = [f"{r['scores']['chosen']:.1f}" for D in sizes for r in where(mine, D=D)]
        rows.append([name, f"{mine[0]['n']:,} x {mine[0]['d']:,}", *cells])
    return "Accuracy or $R^2$ in percent of what is chosen.\n\n" + markdown(
        ["set", "n x d", *(f"D = {D:,}" for D in sizes)], rows
    )


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    made = []
    scores = {r["set"]: r["scores"] for r in found.get("choices", [])}
    others = {name: {c: v for c, v in s.items() if c != "chosen"} for name, s in scores.items() if len(s) > 1}
    if others:
        behind = {name: max(s.values()) - scores[name]["chosen"] for name, s in others.items()}
        short = [f"{name} {gap:.1f}" for name, gap in behind.items() if gap > 1.0]
        made.append(
            Claim(
                "what is chosen is within a point of the best of all columns of the table", "every set",
                f"{len(behind) - len(short)} of {len(behind)} sets", "holds in part" if short else "holds",
                "points behind: " + ", ".join(short) + "; one split, and the best is known only afterwards" if short else "",
            )
        )  # fmt: skip
    return made


ABOUT = """
What scaling, a search of the length scale, columns beside the features and more features give
([rules of the choices](../guide/choices_rules.md)). Ridge with its penalty from held-out rows; one split. Columns of the table:

* **linear**: the columns, as they are, in standard units, in robust units;
* **Fourier**: D features with `length_scale="knn"` of the columns as they are, standard, robust;
* **search**: robust units, or none, whichever was chosen, and the length scale searched; **+ columns** beside the features;
* **chosen**: what `make_model` takes, and the processor seconds that choosing took.
"""

BENCHMARK = Benchmark(
    "choices", "What each choice is worth", ABOUT,
    (Part("choices", choices, show_choices), Part("features", features, show_features)),
    claims,
)  # fmt: skip
