"""Data sets of numbers: what each is, and how it is split."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn.datasets

from benchmarks.data import load_npz

#: Rows used at most, drawn by the seed where there are more.
TRAIN_ROWS, TEST_ROWS = 50_000, 20_000


@dataclass(frozen=True)
class Source:
    """task : "labels" or "numbers"
    kind : "table" (columns of unlike units), "image" (grey values) or "text" (word counts, CSR)
    file : an archive of the folder of data; "" is scikit-learn's
    split : whether the archive has a customary split; else three rows of four train, drawn by the seed
    """

    task: str
    file: str = ""
    split: bool = False
    kind: str = "table"


#: Cheap ones first.
SETS = {
    "wine": Source("labels"), "breast_cancer": Source("labels"), "diabetes": Source("numbers"),
    "digits": Source("labels", kind="image"), "splice": Source("labels", "splice", True),
    "dna": Source("labels", "dna", True), "banana": Source("labels", "banana"), "kin8nm": Source("numbers", "kin8nm"),
    "cpu_act": Source("numbers", "cpu_act"), "magic04": Source("labels", "magic04"),
    "letter": Source("labels", "letter", True), "usps": Source("labels", "usps", True, "image"),
    "census_house": Source("numbers", "census_house_16h"), "protein": Source("numbers", "protein_casp"),
    "kin40k": Source("numbers", "kin40k"), "airline": Source("numbers", "airline_delay_nyc2013"),
    "ijcnn1": Source("labels", "ijcnn1", True), "kddcup99": Source("labels", "kddcup99_10pct"),
    "covtype": Source("labels", "covtype_sample"), "a9a": Source("labels", "a9a", True),
    "blogfeedback": Source("numbers", "blogfeedback", True), "newsgroups": Source("labels", "newsgroups20_counts", kind="text"),
    "sector": Source("labels", "sector_counts", True, "text"), "ujiindoorloc": Source("labels", "ujiindoorloc", True),
    "mnist": Source("labels", "mnist", True, "image"),
}  # fmt: skip


@dataclass
class Problem:
    """Training rows X, y and test rows T, t, raw: nothing is scaled. X and T are float, dense or CSR, or data frames ("frame")."""

    kind: str
    X: Any
    y: np.ndarray
    T: Any
    t: np.ndarray

    @property
    def labels(self) -> bool:
        return self.y.dtype.kind != "f"

    def first(self, train: int, test: int) -> Problem:
        """At most that many rows; their order is random already."""
        return Problem(self.kind, self.X[:train], self.y[:train], self.T[:test], self.t[:test])


def load(name: str, folder: Path | None, seed: int) -> Problem:
    """The rows of one set, split and shuffled by the seed."""
    source, rng = SETS[name], np.random.default_rng(seed)
    path = os.path.join(str(folder), f"{source.file}.npz")
    if source.split:
        (X, y), (T, t) = load_npz(path, "train"), load_npz(path, "test")
        train, test = rng.permutation(len(y)), rng.permutation(len(t))
    else:
        if not source.file:
            X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
        else:  # the test file of kddcup99 holds attacks that its training file lacks: another question
            X, y = load_npz(path, *(["train"] if name == "kddcup99" else []))
        if not sp.issparse(X):  # what occurs twice must not stand on both sides; no negative zeros
            rows = np.ascontiguousarray(np.column_stack([X, y]).astype(np.float64) + 0.0)
            _, kept = np.unique(rows.view(f"V{rows.shape[1] * 8}")[:, 0], return_index=True)
            X, y = X[np.sort(kept)], y[np.sort(kept)]
        order, cut = rng.permutation(len(y)), round(0.75 * len(y))
        T, t, train, test = X, y, order[:cut], order[cut:]
    train, test = train[:TRAIN_ROWS], test[:TEST_ROWS]
    y, t = (v if source.task == "labels" else v.astype(np.float64) for v in (y[train], t[test]))
    return Problem(source.kind, _floats(X[train]), y, _floats(T[test]), t)


def _floats(X: Any) -> Any:
    """float32 for what is stored in integers or float32, CSR as scikit-learn's own loaders give it."""
    X = sp.csr_matrix(X) if sp.issparse(X) else X
    return X if X.dtype == np.float64 else X.astype(np.float32)
