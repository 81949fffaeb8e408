"""The demonstration: from nothing to a kernel machine on more rows than a block holds."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .groups import PATH
from .session import RunOptions, Session

if TYPE_CHECKING:
    from rich.console import Console


def demo(
    rows: Annotated[
        int, typer.Option("--rows", help="Rows to expand the training digits to.", min=1, max=2**40)
    ] = 200_000,
    n_components: Annotated[
        int, typer.Option("--n-components", "-D", help="Number of random features.", min=2, max=2**30)
    ] = 2048,
    out: Annotated[str, PATH, typer.Option("--out", help="Folder for the files.")] = "distrf-demo",
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of split, distortions and map.", min=0, max=2**32 - 1)
    ] = 0,
    *,
    run: RunOptions,
) -> None:
    """Train on scikit-learn's digits, expanded by small distortions. No network, no server."""
    import numpy as np
    from sklearn.pipeline import make_pipeline

    from .. import store
    from ..datasets.loaders import expanded_digits, load_digits_split
    from ..execution.open_rows import open_rows
    from ..execution.write_zarr import write_rows
    from ..features import RandomFourierFeatures
    from ..linear_model import StreamingRidgeClassifier
    from ..persistence import load_model, save_model

    session = Session(run)
    data, model_path = (os.path.join(out, name) for name in ("digits.zarr", "model"))
    store.check_writable(data)
    store.existing_store(data)
    store.existing_model_folder(model_path)
    _, _, X_test, y_test = load_digits_split(seed)
    with session.connected():
        session.say(f"Expanding the digits to {rows:,} rows in {data}")
        X, y = expanded_digits(rows, seed=seed)
        spec = {"demo": "distorted digits", "rows": rows, "seed": seed}
        write_rows(data, {"X": X, "y": y}, kind="rows", spec=spec, overwrite=True)

        session.say("Training the linear model on the pixels")
        X, y = open_rows(data)  # type: ignore[assignment]
        linear = StreamingRidgeClassifier(1e-3).fit(X, y)

        session.say(f"Training the kernel machine, D = {n_components}")
        start = time.perf_counter()
        kernel = make_pipeline(
            RandomFourierFeatures("gaussian", length_scale="knn", n_components=n_components, random_state=seed),
            StreamingRidgeClassifier((1e-8, 1e-7, 1e-6)),
        ).fit(X, y)
        seconds = time.perf_counter() - start
        save_model(kernel, model_path, overwrite=True, input={"columns": None, "target": None, "impute": None})
    loaded = load_model(model_path)
    if not np.array_equal(loaded.predict(X_test), kernel.predict(X_test)):
        raise RuntimeError("the saved model predicts otherwise than the fitted one")
    result: dict[str, Any] = {
        "rows": rows,
        "n_components": n_components,
        "train_seconds": round(seconds, 2),
        "rows_per_second": round(rows / seconds),
        "accuracy_linear": float(linear.score(X_test, y_test)),
        "accuracy_kernel": float(kernel.score(X_test, y_test)),
        "test_rows": len(y_test),
        "alpha": kernel[-1].alpha_,
        "files": {data: _size(data), model_path: _size(model_path)},
    }
    session.finish(result, lambda console: _report(console, result))


def _size(path: str) -> int:
    return sum(os.path.getsize(os.path.join(folder, f)) for folder, _, files in os.walk(path) for f in files)


def _report(console: Console, result: dict[str, Any]) -> None:
    from dask.utils import format_bytes

    from .reports import print_facts

    kernel = f"{result['accuracy_kernel']:.4f}  ({result['test_rows']} untouched digits)"
    facts = {
        "rows": f"{result['rows']:,}",
        "training": f"{result['train_seconds']} s, {result['rows_per_second']:,} rows/s",
        "peak memory per worker": ", ".join(map(format_bytes, result["peak_bytes_per_worker"].values())),
        "test accuracy, linear": f"{result['accuracy_linear']:.4f}",
        "test accuracy, kernel": kernel,
    }
    written = [("written", f"{path}, {format_bytes(size)}") for path, size in result["files"].items()]
    print_facts(console, "distrf demo", [*facts.items(), *written])
