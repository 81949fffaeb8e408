"""Jobs of every kind: rows that are made by a function, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp

from distrf import (
    TEFM,
    CompactNonlinearMap,
    NystroemFeatures,
    RandomBinningFeatures,
    RandomFourierFeatures,
    RandomLaplaceFeatures,
    StreamingRidgeClassifier,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
    TensorSketchFeatures,
    open_rows,
    write_rows,
)
from distrf.pipeline.tables import coded_table


@dataclass(frozen=True)
class Job:
    """A job on one worker of one thread, unless it says otherwise.

    kind : what is planned and run: "fit" and "train" (distrf.train) of the steps; "featurize", "predict" and "evaluate" by them
    steps : makes the estimators, the model last; trials : makes smaller ones
    rows, columns, block : of the store; small : rows of a small run
    classes : of the target; 0 are numbers
    form : how rows are stored: "float32", "float64", "csr" (1 % of the entries), "table" (Parquet, a column of text)
    """

    kind: str
    steps: Callable[[int], list[Any]]
    rows: int
    columns: int = 64
    block: int = 4096
    classes: int = 10
    form: str = "float32"
    size: int = 2048
    workers: int = 1


def fourier(D: int, **options: Any) -> RandomFourierFeatures:
    return RandomFourierFeatures(gamma=0.01, n_components=D, random_state=0, **options)


def ridge(alpha: Any = 1e-6, **options: Any) -> StreamingRidgeClassifier:
    return StreamingRidgeClassifier(alpha, **options)


BATCHES: dict[str, Any] = {"alpha": 1e-6, "n_epochs": 5, "tol": None, "random_state": 0}
JOBS: dict[str, Job] = {
    "train": Job("train", lambda D: [fourier(D), ridge("auto", calibrate=True)], 60_000),
    "wide": Job("fit", lambda D: [fourier(D), ridge()], 12_000, size=8192),
    "classes": Job("fit", lambda D: [fourier(D), ridge()], 100_000, classes=1000, size=1024),
    "cg": Job("fit", lambda D: [fourier(D), ridge(1e-4, solver="cg")], 20_000, size=8192),
    "tefm": Job("fit", lambda D: [TEFM(fourier(16 * D), D, random_state=0), ridge()], 30_000, size=256),
    "cnm": Job("fit", lambda D: [CompactNonlinearMap(D, "logistic", n_epochs=8, random_state=0), ridge()], 60_000, size=512),
    "svm": Job("fit", lambda D: [fourier(D), StreamingSGDClassifier("hinge", **BATCHES)], 100_000),
    "sgd_regressor": Job("fit", lambda D: [fourier(D), StreamingSGDRegressor(**BATCHES)], 100_000, classes=0),
    "csr": Job("fit", lambda D: [fourier(D), ridge()], 60_000, 5000, classes=2, form="csr"),
    "table": Job("train", lambda D: [fourier(D), ridge("auto", calibrate=True)], 60_000, 16, classes=2, form="table"),
    "float64": Job("fit", lambda D: [fourier(D), ridge()], 60_000, form="float64"),
    "tiny_blocks": Job("fit", lambda D: [fourier(D), ridge()], 100_000, block=256),
    "huge_blocks": Job("fit", lambda D: [fourier(D), ridge()], 200_000, block=100_000),
    "two_workers": Job("fit", lambda D: [fourier(D), ridge()], 150_000, workers=2),
    "laplace": Job("fit", lambda D: [RandomLaplaceFeatures(beta=0.1, n_components=D, random_state=0), ridge()], 60_000),
    "binning": Job("fit", lambda D: [RandomBinningFeatures(length_scale=8.0, n_components=D, random_state=0), ridge()], 60_000),
    "nystroem": Job("fit", lambda D: [NystroemFeatures(gamma=0.01, n_components=D, random_state=0), ridge()], 40_000, size=1024),
    "polynomial": Job("fit", lambda D: [TensorSketchFeatures(2, gamma=0.1, n_components=D, random_state=0), ridge()], 60_000),
    "featurize": Job("featurize", lambda D: [fourier(D)], 100_000, size=4096),
    "predict": Job("predict", lambda D: [fourier(D), ridge()], 400_000, size=4096),
    "evaluate": Job("evaluate", lambda D: [fourier(D), ridge()], 400_000, size=4096),
}  # fmt: skip


def small(job: Job) -> Job:
    sizes = {"columns": min(job.columns, 16), "block": min(job.block, 200), "classes": min(job.classes, 4)}
    return replace(job, rows=600, size=32, workers=1, **sizes)


# ---- rows ---------------------------------------------------------------------------------------------


def block_of(d: int, form: str, block_info: Any = None) -> Any:
    first, last = block_info[None]["array-location"][0]
    rng = np.random.default_rng(first)
    if form == "csr":
        return sp.random(last - first, d, 0.01, format="csr", dtype=np.float32, random_state=rng)
    return np.abs(rng.normal(size=(last - first, d))).astype(form if form == "float64" else np.float32)


def labels_of(X: Any, classes: int) -> np.ndarray:
    first = X[:, :8].toarray() if sp.issparse(X) else X[:, :8]
    value = np.asarray(first, np.float64) @ np.arange(1, 1 + first.shape[1])
    return (np.abs(value) * 1e4).astype(np.int32) % classes if classes else np.sin(value).astype(np.float32)


def make_rows(folder: Path, job: Job) -> tuple[Any, Any, Any]:
    """The rows of a job in a store, and their targets, lazy; and the encoder of a table. They are written by this process alone."""
    if job.form == "table":
        coded = coded_table(make_table(folder, job), target="y")
        return coded.X, coded.y, coded.encoder
    chunks = tuple(min(job.block, job.rows - a) for a in range(0, job.rows, job.block))
    meta = sp.csr_matrix((0, 0), dtype=np.float32) if job.form == "csr" else np.empty((0, 0), np.float32)
    dtype = np.float64 if job.form == "float64" else np.float32
    options = {"chunks": (chunks, (job.columns,)), "dtype": dtype, "meta": meta.astype(dtype)}
    X = da.map_blocks(block_of, job.columns, job.form, **options)
    y_type = np.dtype(np.int32 if job.classes else np.float32)
    y = X.map_blocks(labels_of, job.classes, drop_axis=1, dtype=y_type, meta=np.empty(0, y_type))
    with dask.config.set(scheduler="synchronous"):
        write_rows(X, folder / "rows.zarr", y)
    return *open_rows(folder / "rows.zarr"), None


def make_table(folder: Path, job: Job) -> Path:
    """Parquet files of a block each: numbers, every fourth of them missing in one row of 20, and a column of text."""
    import pandas as pd

    path = folder / "rows.parquet"
    path.mkdir()
    for first in range(0, job.rows, job.block):
        rng = np.random.default_rng(first)
        X = rng.normal(size=(min(job.block, job.rows - first), job.columns))
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(job.columns)])
        frame.iloc[rng.random(len(X)) < 0.05, ::4] = np.nan
        frame["letter"] = np.array(list("abcdefgh"))[rng.integers(8, size=len(X))]
        frame["y"] = labels_of(X, job.classes)
        frame.to_parquet(path / f"{first:09d}.parquet")
    return path
