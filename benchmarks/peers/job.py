"""python job.py JOB METHOD FOLDER OPTIONS: one method does one job; prints a line of JSON.

Run by the Python of a peer, which has neither distrf nor this package. JOB and METHOD are names of `methods.JOBS`, FOLDER
holds the rows, OPTIONS are JSON. A first go on few rows imports, compiles and starts what there is to start: `start`. `fit`
and `predict` are processor seconds of all threads after that; `peak` is the largest resident size in bytes, of all; `error` is
that of the kernel matrix.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

if __package__:
    from .methods import JOBS, Options
else:  # a script, run by the Python of a peer: it lies beside it
    from methods import JOBS, Options

#: Features and rows of the first go.
FIRST, FIRST_ROWS = 64, 600
#: Rows on which a kernel is compared with that of its features.
KERNEL_ROWS = 500


#: Rows of a block, for all who read in blocks.
BLOCK = 16_384


class Rows:
    """Rows of the files of a folder; of each file the first `most` at most."""

    def __init__(self, folder: str, most: int | None = None):
        self.folder, self.most = folder, most

    def _file(self, name: str) -> np.ndarray:
        return np.load(Path(self.folder) / f"{name}.npy", mmap_mode="r")[: self.most]

    def __len__(self) -> int:
        return len(self._file("X"))

    def array(self, name: str) -> np.ndarray:
        """All rows of a file."""
        return np.array(self._file(name))

    def block(self, name: str, first: int, last: int) -> np.ndarray:
        """Some rows. The file is closed after: pages of an open one would count as memory of the process."""
        return np.array(self._file(name)[first:last])

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """X and y, block by block."""
        for first in range(0, len(self), BLOCK):
            yield self.block("X", first, first + BLOCK), self.block("y", first, first + BLOCK)

    def lazy(self, name: str) -> Any:
        """A Dask array whose tasks read a block each."""
        import dask.array as da

        file = self._file(name)
        n = len(file)
        sizes = tuple(min(BLOCK, n - first) for first in range(0, n, BLOCK))
        chunks = (sizes, *((width,) for width in file.shape[1:]))
        meta = np.empty((0,) * file.ndim, file.dtype)
        return da.map_blocks(_read, self, name, chunks=chunks, dtype=file.dtype, meta=meta)


def _read(rows: Rows, name: str, block_info: Any = None) -> np.ndarray:
    first, last = block_info[None]["array-location"][0]
    return rows.block(name, first, last)


def cpu() -> float:
    """Processor seconds of this process, and of its children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def peak() -> int:
    """Bytes. Not ru_maxrss, which starts at the size of the parent."""
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def gaussian(X: np.ndarray, o: Options) -> np.ndarray:
    square = (X * X).sum(axis=1)
    return np.exp(-o.gamma * np.maximum(square[:, None] + square - 2 * X @ X.T, 0))


def polynomial(X: np.ndarray, o: Options) -> np.ndarray:
    return (o.gamma * X @ X.T + 1) ** 2


def kernel_error(method: str, transform: Any, rows: Rows, o: Options) -> float:
    """|K - Z Z'| / |K|, Frobenius."""
    X = rows.block("X", 0, KERNEL_ROWS)
    Z = np.asarray(transform(X), dtype=np.float64)
    X = X.astype(np.float64)
    K = (polynomial if "Sketch" in method else gaussian)(X, o)
    return float(np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K))


def run(job: str, method: str, folder: str, given: dict[str, Any]) -> dict[str, Any]:
    """What `python job.py` prints."""
    warnings.simplefilter("ignore")
    o, call = SimpleNamespace(**given), JOBS[job][method].call
    first = SimpleNamespace(**given | {"D": FIRST})
    began = cpu() if __package__ else 0.0  # a process of its own starts at 0
    call(Rows(folder, FIRST_ROWS), first)
    rows = Rows(folder)
    found: dict[str, Any] = {"start": cpu() - began}
    began, wall = cpu(), time.perf_counter()
    made = call(rows, o)
    found["fit"] = cpu() - began
    if job == "ridge":
        T, t = rows.array("T"), rows.array("t")
        began = cpu()
        predicted = made(T)
        found["predict"] = cpu() - began
    found |= {"wall": time.perf_counter() - wall, "peak": peak()}
    if job == "features":
        found["error"] = kernel_error(method, made[1], rows, o)
    else:
        found["score"] = float(np.mean(np.asarray(predicted).ravel() == t))
    return found


def main() -> None:
    job, method, folder, options = sys.argv[1:]
    print(json.dumps(run(job, method, folder, json.loads(options))), flush=True)


if __name__ == "__main__":
    main()
