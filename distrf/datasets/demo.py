"""The demonstration: from nothing to a kernel machine on more rows than a block holds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from sklearn.pipeline import make_pipeline

from ..execution.open_rows import open_rows
from ..linear_model.ridge import StreamingRidgeClassifier
from ..maps.fourier import RandomFourierFeatures
from ..parameters import ruled, whole
from ..persistence import load_model, save_model
from ..pipeline.writing import write_rows
from ..store import existing_model_folder
from . import expanded_digits, load_digits_split


@ruled(rows=whole(1, 2**40), n_components=whole(2, 2**30), seed=whole(0, 2**32 - 1))
def demo(
    *,
    rows: int = 200_000,
    n_components: int = 2048,
    out: str | os.PathLike[str] = "distrf-demo",
    seed: int = 0,
    say: Callable[[str], object] = print,
) -> dict[str, Any]:
    """Train on scikit-learn's digits, expanded by small distortions: ridge on the pixels, and on random features.

    Parameters
    ----------
    rows : int, default=200000
        Rows to expand the training digits to.
    n_components : int, default=2048
        Number of random features.
    out : str or PathLike, default="distrf-demo"
        Folder for the files.
    seed : int, default=0
        Seed of split, distortions and map.
    say : callable, default=print
        Called with what is done next.

    Returns
    -------
    dict
        Rows and time of the training, accuracy of both models on untouched digits, alpha, and where rows and model are.

    Raises
    ------
    StoreError
        `out` holds something else, or cannot be written.
    """
    data, model = (os.path.join(out, name) for name in ("digits.zarr", "model"))
    existing_model_folder(model)  # of others: refused now
    *_, X_test, y_test = load_digits_split(seed)
    say(f"Expanding the digits to {rows:,} rows in {data}")
    X, y = expanded_digits(rows, seed=seed)
    write_rows(X, data, y, overwrite=True)
    X, y = open_rows(data)
    say("Training the linear model on the pixels")
    linear = StreamingRidgeClassifier(1e-3).fit(X, y)
    say(f"Training the kernel machine, D = {n_components}")
    start = time.perf_counter()
    features = RandomFourierFeatures(length_scale="knn", n_components=n_components, random_state=seed)
    kernel = make_pipeline(features, StreamingRidgeClassifier((1e-8, 1e-7, 1e-6))).fit(X, y)
    seconds = time.perf_counter() - start
    save_model(kernel, model, overwrite=True)
    return {
        "rows": rows, "n_components": n_components, "train_seconds": round(seconds, 2),
        "rows_per_second": round(rows / seconds), "accuracy_linear": float(linear.score(X_test, y_test)),
        "accuracy_kernel": float(load_model(model).score(X_test, y_test)), "test_rows": len(y_test),
        "alpha": kernel[-1].alpha_, "data": data, "model": model,
    }  # fmt: skip
