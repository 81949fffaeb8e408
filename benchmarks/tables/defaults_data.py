"""The data sets of the benchmark `defaults`: what each is, how it is split, and how many rows are used."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn.datasets

from distrf.datasets import load_npz

#: Rows used at most, drawn by the seed where there are more; the exact SVM's time grows with their square.
TRAIN_ROWS, TEST_ROWS, SVM_ROWS = 50_000, 20_000, 20_000


@dataclass(frozen=True)
class Source:
    """kind : "table" (columns of unlike units), "image" (grey values) or "text" (word counts, CSR)
    split : whether the archive has a customary split; else three rows of four train, drawn by the seed
    seeds : how many, of `train` and of other methods
    """

    task: str
    kind: str = "table"
    file: str | None = None
    split: bool = False
    seeds: tuple[int, int] = (2, 1)


#: Cheap ones first. A file is an archive of the folder of data; without one it is scikit-learn's.
SETS = {
    "wine": Source("classification", seeds=(3, 3)),
    "breast_cancer": Source("classification", seeds=(3, 3)),
    "diabetes": Source("regression", seeds=(3, 3)),
    "digits": Source("classification", "image", seeds=(3, 3)),
    "splice": Source("classification", file="splice", split=True, seeds=(3, 3)),
    "dna": Source("classification", file="dna", split=True, seeds=(3, 3)),
    "banana": Source("classification", file="banana", seeds=(3, 3)),
    "kin8nm": Source("regression", file="kin8nm", seeds=(3, 3)),
    "cpu_act": Source("regression", file="cpu_act", seeds=(3, 3)),
    "magic04": Source("classification", file="magic04"),
    "letter": Source("classification", file="letter", split=True),
    "usps": Source("classification", "image", "usps", True),
    "census_house": Source("regression", file="census_house_16h"),
    "protein": Source("regression", file="protein_casp"),
    "kin40k": Source("regression", file="kin40k"),
    "airline": Source("regression", file="airline_delay_nyc2013"),
    "ijcnn1": Source("classification", file="ijcnn1", split=True),
    "kddcup99": Source("classification", file="kddcup99_10pct"),
    "covtype": Source("classification", file="covtype_sample"),
    "a9a": Source("classification", file="a9a", split=True),
    "blogfeedback": Source("regression", file="blogfeedback", split=True),
    "newsgroups": Source("classification", "text", "newsgroups20_counts", seeds=(1, 1)),
    "sector": Source("classification", "text", "sector_counts", True, seeds=(1, 1)),
    "ujiindoorloc": Source("classification", file="ujiindoorloc", split=True),
    "mnist": Source("classification", "image", "mnist", True, seeds=(1, 1)),
}


@dataclass
class Problem:
    """Training rows X, y and test rows T, t, raw: nothing is scaled. X and T are float, dense or CSR."""

    name: str
    task: str
    kind: str
    X: Any
    y: np.ndarray
    T: Any
    t: np.ndarray

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.X)

    def first(self, rows: int) -> tuple[Any, np.ndarray]:
        """At most that many training rows; their order is random already."""
        return self.X[:rows], self.y[:rows]


def load(name: str, folder: Path | None, seed: int) -> Problem:
    """The rows of one set, split and shuffled by the seed."""
    source, rng = SETS[name], np.random.default_rng(seed)
    if source.split:
        path = os.path.join(str(folder), f"{source.file}.npz")
        (X, y), (T, t) = load_npz(path, "train"), load_npz(path, "test")
        train, test = rng.permutation(len(y)), rng.permutation(len(t))
        return _problem(name, source, X, y, T, t, train, test)
    if source.file is None:
        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    elif name == "kddcup99":  # its test file holds attacks that its training file lacks: another question
        X, y = load_npz(os.path.join(str(folder), f"{source.file}.npz"), "train")
    else:
        X, y = load_npz(os.path.join(str(folder), f"{source.file}.npz"))
    if not sp.issparse(X):  # what occurs twice must not stand on both sides
        _, kept = np.unique(_bytes(X, y), return_index=True)
        kept.sort()
        X, y = X[kept], y[kept]
    order = rng.permutation(len(y))
    cut = round(0.75 * len(y))
    return _problem(name, source, X, y, X, y, order[:cut], order[cut:])


def _problem(
    name: str, source: Source, X: Any, y: Any, T: Any, t: Any, train: np.ndarray, test: np.ndarray
) -> Problem:
    train, test = train[:TRAIN_ROWS], test[:TEST_ROWS]
    targets = (y[train], t[test])
    if source.task == "regression":
        targets = tuple(v.astype(np.float64) for v in targets)
    return Problem(name, source.task, source.kind, _floats(X[train]), targets[0], _floats(T[test]), targets[1])


def _bytes(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Each row with its target as one opaque value, so that equal rows are found by sorting."""
    rows = np.column_stack([X, y]).astype(np.float64) + 0.0  # no negative zeros
    return np.ascontiguousarray(rows).view(f"V{rows.shape[1] * 8}")[:, 0]


def _floats(X: Any) -> Any:
    """float32 for what is stored in integers or float32, CSR as scikit-learn's own loaders give it."""
    X = sp.csr_matrix(X) if sp.issparse(X) else X
    return X if X.dtype == np.float64 else X.astype(np.float32)
