"""What `distrf.make_model` chooses, and what each choice is worth on held-out rows of real data sets.

    python benchmarks/choices.py DATA                    # all sets, about ten minutes on one core
    python benchmarks/choices.py DATA --sets cpu_act usps --rows 20000 --components 2048

DATA is the folder of the .npz archives; five sets come from scikit-learn. Scores are accuracy for labels and R^2 for
numbers, of ridge with its penalty from held-out rows, on test rows that no choice has seen. Columns of the table:

    linear          the columns: as they are, in standard units, in robust units
    Fourier         D features with length_scale="knn": of the columns as they are, standard, robust
    search          robust units, or none, whichever was chosen, and the length scale searched
    + columns       the columns beside the features
    chosen          what make_model takes, and the processor seconds that choosing took
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
import sklearn.datasets
from sklearn.pipeline import Pipeline

import distrf
from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier, StreamingScaler
from distrf.datasets import load_npz

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
BUNDLED = ("diabetes", "breast_cancer", "digits", "iris", "wine")
ALPHAS = [10.0**k for k in range(-8, 0)]
WIDE = 2000


def load(folder: Path, name: str, rows: int, seed: int) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Training rows, at most so many, and up to 10,000 test rows, both drawn from all rows of the set."""
    if name in BUNDLED:
        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    else:
        with np.load(folder / f"{name}.npz") as archive:
            split = any(member.startswith("X_train") for member in archive.files)
        parts = [load_npz(folder / f"{name}.npz", part) for part in (("train", "test") if split else (None,))]
        y = np.concatenate([p[1] for p in parts])
        X = (
            sp.vstack([p[0] for p in parts], format="csr")
            if sp.issparse(parts[0][0])
            else np.concatenate([p[0] for p in parts])
        )
    order = np.random.default_rng(seed).permutation(len(y))
    n = min(rows, int(0.7 * len(y)))
    train, test = np.sort(order[:n]), np.sort(order[n : n + 10_000])
    return X[train], y[train], X[test], y[test]


def ridge(labels: bool, seed: int) -> Any:
    cls = StreamingRidgeClassifier if labels else StreamingRidge
    return cls(ALPHAS, cv="holdout", random_state=seed)


def measure(rows: tuple[Any, ...], labels: bool, D: int, seed: int, wanted: list[str]) -> dict[str, Any]:
    """{column of the table: score} for those that are wanted and apply."""
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
    started = time.process_time()
    made = distrf.make_model(X, y, **options)
    found: dict[str, Any] = {"seconds": time.process_time() - started}
    if "map" not in made.named_steps and not narrow:  # by the solver that make_model takes for many columns
        made = distrf.make_model(X, y, **{**options, "model": "auto"})
    chosen = made.training_.chosen
    jobs["chosen"] = made
    found["choice"] = ", ".join(str(v) for v in (chosen("scale"), chosen("features"), _multiple(made)) if v)
    for name in wanted:
        if name in jobs:
            found[name] = float(jobs[name].fit(X, y).score(Xt, yt))
    return found


def _multiple(made: Pipeline) -> str:
    why = next((c.why for c in made.training_.choices if c.what == "length_scale"), "")
    return f"{why.split(' ')[0]} knn" if "map" in made.named_steps else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=[*NUMBERS, *LABELS])
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--components", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--columns", nargs="+", default=COLUMNS, choices=COLUMNS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"| set | n x d | {' | '.join(given.columns)} | s | what was chosen |")
    print("|---" * (len(given.columns) + 4) + "|")
    for name in given.sets:
        rows = load(given.data, name, given.rows, given.seed)
        labels = name not in NUMBERS
        found = measure(rows, labels, given.components, given.seed, given.columns)
        cells = [f"{100 * found[c]:.1f}" if c in found else "" for c in given.columns]
        n, d = rows[0].shape
        print(
            f"| {name} | {n:,} x {d:,} | {' | '.join(cells)} | {found['seconds']:.1f} | {found['choice']} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
