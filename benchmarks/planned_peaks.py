"""The memory that `distrf plan` says beside the memory that the job then takes, on ten settings.

    python benchmarks/planned_peaks.py              # all settings
    python benchmarks/planned_peaks.py wide cnm     # some of them

One worker process with one thread for each job. The plan should be at least what is measured, and at most 1.5 times it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distrf import write_rows

MIB = 2**20
BAR = 1.5

#: name: (rows, columns, rows of a block, classes, job, options)
SETTINGS: dict[str, tuple[int, int, int, int, str, str]] = {
    "wide": (20_000, 64, 4096, 10, "train", "--map fourier -D 8192 --alpha 1e-6"),
    "classes": (40_000, 64, 4096, 1000, "train", "--map fourier -D 1024 --alpha 1e-6"),
    "tefm": (20_000, 64, 4096, 10, "train", "--map tefm -D 256 --base-n-components 4096"),
    "cnm": (20_000, 64, 4096, 10, "train", "--map cnm -D 1024 --objective logistic"),
    "cg": (20_000, 64, 4096, 10, "train", "--map fourier -D 8192 --alpha 1e-4 --solver cg"),
    "csr": (20_000, 5000, 4096, 2, "train", "--map fourier -D 2048"),
    "svm": (20_000, 64, 4096, 10, "train", "--map fourier -D 2048 --model svm --n-epochs 2"),
    "tiny": (20_000, 64, 256, 10, "train", "--map fourier -D 2048"),
    "huge": (200_000, 64, 100_000, 10, "train", "--map fourier -D 2048"),
    "featurize": (20_000, 64, 4096, 10, "featurize", "-D 4096"),
    "predict": (20_000, 64, 4096, 10, "predict", "-D 4096 --alpha 1e-6"),
}


def block(d: int, density: float, block_info: Any = None) -> np.ndarray:
    first, last = block_info[None]["array-location"][0]
    rng = np.random.default_rng(first)
    if density < 1.0:
        return sp.random(last - first, d, density, format="csr", dtype=np.float32, random_state=rng)
    return rng.normal(size=(last - first, d)).astype(np.float32)


def labels(X: Any, classes: int) -> np.ndarray:
    first = X[:, 0].toarray().ravel() if sp.issparse(X) else X[:, 0]
    return (np.abs(first) * 1e4).astype(np.int32) % classes


def make_store(path: Path, name: str) -> Path:
    n, d, step, classes, _, _ = SETTINGS[name]
    chunks = tuple(min(step, n - a) for a in range(0, n, step))
    csr = name == "csr"
    meta = sp.csr_matrix((0, 0), dtype=np.float32) if csr else np.empty((0, 0), np.float32)
    X = da.map_blocks(block, d, 0.01 if csr else 1.0, chunks=(chunks, (d,)), dtype=np.float32, meta=meta)
    y = X.map_blocks(labels, classes, drop_axis=1, dtype=np.int32, meta=np.empty(0, np.int32))
    write_rows(X, path, y)
    return path


def distrf(*words: Any) -> dict[str, Any]:
    """The JSON that a command prints, run in a process of its own."""
    command = [sys.executable, "-m", "distrf", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def measure(name: str, folder: Path) -> tuple[int, int]:
    """Planned and measured peak of the worker, in bytes."""
    *_, job, text = SETTINGS[name]
    options = text.split()
    cluster = folder / "cluster.json"
    arguments = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": "8GiB"}
    cluster.write_text(json.dumps({"class": "distributed.LocalCluster", "arguments": arguments}))
    store, out, where = make_store(folder / "rows.zarr", name), folder / "out.zarr", ("--cluster", cluster)
    kind = ("--job", "featurize") if job == "featurize" else ()
    if job == "predict":  # planned by the command itself: what it refuses is what `distrf.plan` says
        import distrf as package

        distrf("train", store, folder / "model", *options, *where)
        model = package.load_model(folder / "model")
        X, _ = package.open_rows(store)
        made = package.plan(model, X, job="predict", cluster=str(cluster)).to_dict()
        done = distrf("predict", folder / "model", store, out, *where)
    else:
        made = distrf("plan", store, *options, *kind, *where)
        done = distrf(job, store, folder / "model" if job == "train" else out, *options, *where)
    return made["peak_bytes_per_worker"], max(done["peak_bytes_per_worker"].values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "settings", nargs="*", choices=[*SETTINGS, []], metavar="SETTING", help=", ".join(SETTINGS)
    )
    missed = []
    print(f"{'':>10} planned  measured  ratio (MiB)")
    for name in parser.parse_args().settings or SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            planned, measured = measure(name, Path(folder))
        ratio = planned / measured
        print(f"{name:>10} {planned / MIB:7.0f} {measured / MIB:9.0f} {ratio:6.2f}", flush=True)
        if not 1.0 <= ratio <= BAR:
            missed.append(name)
    print(f"outside of 1 to {BAR}: {', '.join(missed) or 'none'}")


if __name__ == "__main__":
    main()
